"""What was read from a record, and whether it can be written again as it was."""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

_encode = msgspec.json.Encoder().encode
_LONG: Final = re.compile(r"\d{19}")
"""What may be a number that no record can hold."""
T = TypeVar("T")


def held(found: T, text: str) -> T:
    """What was decoded. Raises OverflowError for a number that is read and that nobody could have written: it would be
    missed by whoever writes it again."""
    if _LONG.search(text):
        _encode(found)
    return found
