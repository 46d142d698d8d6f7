"""Numbers in words."""

from __future__ import annotations

import math


def counted(number: int, what: str, more: str = "") -> str:
    """`1 trial`, `2 trials`; `more` is the plural where an s does not make it."""
    return f"{number:,} {what if number == 1 else more or what + 's'}"


def amount_said(amount: float) -> str:
    """Without decimals where there are none."""
    whole = math.isfinite(amount) and amount == int(amount)
    return f"{int(amount):,}" if whole else f"{amount:,.6g}"
