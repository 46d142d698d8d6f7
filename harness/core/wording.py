"""Numbers in words."""

from __future__ import annotations

import math
from collections.abc import Iterable


def counted(number: int, what: str, more: str = "") -> str:
    """`1 trial`, `2 trials`; `more` is the plural where an s does not make it."""
    return f"{number:,} {what if number == 1 else more or what + 's'}"


def amount_said(amount: float) -> str:
    """Without decimals where there are none."""
    whole = math.isfinite(amount) and amount == int(amount)
    return f"{int(amount):,}" if whole else f"{amount:,.6g}"


def numbers_said(numbers: Iterable[int], most: int = 6) -> str:
    """`#1–#8, #10`: consecutive ones together, of what was numbered in this order; the last so many, of more."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    if not runs:
        return "nothing"
    said = [f"#{first:,}" if first == last else f"#{first:,}–#{last:,}" for first, last in runs[-most:]]
    return ("…, " if len(runs) > most else "") + ", ".join(said)
