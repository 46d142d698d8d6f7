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


Values = list[Any] | Numbers | Same
"""Values that are on their way into a column."""


def pack(values: Sequence[Any] | Numbers | Same) -> Column:
    """A column of these, of which there is at least one."""
    if isinstance(values, Same):
        return values
    if isinstance(values, np.ndarray):
        return _of_numbers(values)
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
        return _of_numbers(np.fromiter(values, np.int64, len(values)))
    except OverflowError:
        return AsTheyAre(list(values))


def _of_numbers(numbers: Numbers) -> Column:
    lowest, highest = int(numbers.min()), int(numbers.max())
    if lowest == highest:
        return Same(lowest, len(numbers))
    if highest - lowest == len(numbers) - 1 and bool((np.diff(numbers) == 1).all()):
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


def column_part(column: Column, low: int, high: int) -> Values:
    """The values from a place up to another."""
    if isinstance(column, Same):
        return Same(column.value, high - low)
    numbers = numbers_of(column)
    return column.values()[low:high] if numbers is None else numbers[low:high]


def cut(values: Values, low: int, high: int) -> Values:
    return Same(values.value, high - low) if isinstance(values, Same) else values[low:high]


def in_one(parts: Sequence[Values]) -> Values:
    """These, one after the other."""
    if len(parts) == 1:
        return parts[0]
    alike = [part for part in parts if isinstance(part, Same)]
    if len(alike) == len(parts) and len({(type(one.value), one.value) for one in alike}) == 1:
        return Same(alike[0].value, sum(one.count for one in alike))
    arrays = [array_of_values(part) for part in parts]
    if all(array is not None for array in arrays):
        return np.concatenate(arrays)  # type: ignore[arg-type]
    return [value for part in parts for value in listed(part)]


def array_of_values(values: Values) -> Numbers | None:
    """Whole numbers as an array; None for others."""
    return numbers_of(values) if isinstance(values, Same) else values if isinstance(values, np.ndarray) else None


def listed(values: Values) -> list[Any]:
    if isinstance(values, list):
        return values
    found: list[Any] = values.values() if isinstance(values, Same) else values.tolist()
    return found


def value_at(column: Column, place: int) -> Any:
    """One of the values, without all the others."""
    match column:
        case Same(value):
            return value
        case Steps(numbers):
            return numbers[place]
        case Offsets(base, offsets):
            return int(offsets[place]) + base
        case Coded(texts, codes):
            return texts[codes[place]]
        case _:
            return column.values()[place]
