"""Columns: some thousand values in a few bytes each, as they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..core.events import PLAIN

Numbers = NDArray[np.int64]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_BODILY = frozenset({*PLAIN, float, list, dict})
"""Types of values that come out of an encoding as they went in. A dict has text for keys, as JSON has."""


class Column(Protocol):
    """Values that change no more."""

    def values(self) -> list[Any]:
        """All of them, in order."""


@dataclass(frozen=True, slots=True)
class Same:
    """One value, over and over."""

    value: Any
    count: int

    def values(self) -> list[Any]:
        return [self.value] * self.count


@dataclass(frozen=True, slots=True)
class Steps:
    """Whole numbers at one distance from each to the next."""

    numbers: range

    def values(self) -> list[Any]:
        return list(self.numbers)


@dataclass(frozen=True, slots=True)
class Offsets:
    """Whole numbers of 64 bits."""

    base: int
    offsets: NDArray[Any]

    def values(self) -> list[Any]:
        found: list[Any] = self.numbers().tolist()
        return found

    def numbers(self) -> Numbers:
        found: Numbers = self.offsets.astype(np.int64) + self.base
        return found


@dataclass(frozen=True, slots=True)
class Coded:
    """Texts that come often."""

    texts: list[str]
    codes: NDArray[Any]

    def values(self) -> list[Any]:
        found: list[Any] = np.array(self.texts, object)[self.codes].tolist()
        return found


@dataclass(frozen=True, slots=True)
class Encoded:
    """Anything that a record can carry."""

    body: bytes

    def values(self) -> list[Any]:
        found: list[Any] = _decode(self.body)
        return found


@dataclass(frozen=True, slots=True)
class AsTheyAre:
    """What nothing else can hold."""

    kept: list[Any]

    def values(self) -> list[Any]:
        return self.kept


def pack(values: Sequence[Any]) -> Column:
    """A column of these, of which there is at least one."""
    kinds = set(map(type, values))
    if len(kinds) == 1:
        (kind,) = kinds
        if kind in PLAIN and values[0] == values[-1] and values.count(values[0]) == len(values):
            return Same(values[0], len(values))
        if kind is int:
            return _numbers(values)
        if kind is str and (coded := _coded(values)) is not None:
            return coded
    if kinds <= _BODILY:
        try:
            return Encoded(_encode(values))
        except (TypeError, ValueError, OverflowError):
            pass
    return AsTheyAre(list(values))


def _numbers(values: Sequence[int]) -> Column:
    try:
        numbers: Numbers = np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return AsTheyAre(list(values))
    lowest, highest = int(numbers.min()), int(numbers.max())
    if highest - lowest == len(values) - 1 and bool((np.diff(numbers) == 1).all()):
        return Steps(range(lowest, highest + 1))
    width = highest - lowest
    if width >= 1 << 63:
        return Offsets(0, numbers)
    return Offsets(lowest, (numbers - lowest).astype(_unsigned(width)))


def _unsigned(width: int) -> type[np.unsignedinteger[Any]]:
    kinds: tuple[type[np.unsignedinteger[Any]], ...] = (np.uint8, np.uint16, np.uint32, np.uint64)
    return next(kind for kind in kinds if width <= np.iinfo(kind).max)


def _coded(texts: Sequence[str]) -> Column | None:
    """None for texts that come too seldom to be worth it."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    if 2 * len(places) > len(texts):
        return None
    codes = np.fromiter(map(places.__getitem__, texts), np.int64, len(texts))
    # The same texts are in many columns.
    return Coded(list(map(intern, places)), codes.astype(_unsigned(len(places))))


def numbers_of(column: Column) -> Numbers | None:
    """A column of whole numbers as an array; None for any other."""
    match column:
        case Same(value, count) if type(value) is int and -(1 << 63) <= value < 1 << 63:
            return np.full(count, value, np.int64)
        case Steps(numbers):
            return np.arange(numbers.start, numbers.stop, dtype=np.int64)
        case Offsets():
            return column.numbers()
        case _:
            return None
