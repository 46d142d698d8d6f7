"""Events by what they were derived from, for as many as there are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from ..core.events import Event
from ..core.lazily import lazily

if TYPE_CHECKING:
    from .columns import Numbers

from .packed import CHUNK, Packed, View, joined
from .reruns import Derivation

T = TypeVar("T")


def is_long(*sequences: object) -> bool:
    """Whether any of these is so long that it is in columns, and has to be gone through in columns as well."""
    for rows in sequences:
        kind = type(rows)
        if kind is MadeColumns or kind is View or (kind is Packed and rows.packed):  # type: ignore[attr-defined]
            return True
    return False


def made_of(derivations: Sequence[Derivation], events: Sequence[Event]) -> Mapping[Derivation, Event]:
    """These events by their derivations, in their order."""
    if is_long(derivations) and all_differ(derivations):
        return MadeColumns(derivations, events)
    return dict(zip(derivations, events, strict=True))


def all_differ(derivations: Sequence[Derivation]) -> bool:
    """Whether each is there once, as it is unless something was taken again."""
    from .codes import coded, differ

    (codes,) = coded(derivations)
    return differ(codes)


def all_of(several: Sequence[Mapping[Derivation, Event]]) -> Mapping[Derivation, Event]:
    """All of them, one after the other."""
    if len(several) == 1:
        return several[0]
    if not is_long(*several):
        return {derivation: event for one in several for derivation, event in one.items()}
    columns = [(derivations_of(one), events_of(one)) for one in several]
    return MadeColumns(joined(derivations for derivations, _ in columns), joined(events for _, events in columns))


def same_order(some: Sequence[Derivation], others: Sequence[Derivation]) -> bool:
    """Whether these are the same, in the same order."""
    if not is_long(some, others):
        return some == others
    from .codes import coded

    one, other = coded(some, others)
    return len(one) == len(other) and bool((one == other).all())


def derivations_of(made: Mapping[Derivation, Event]) -> Sequence[Derivation]:
    return made.derivations if isinstance(made, MadeColumns) else list(made)


def events_of(made: Mapping[Derivation, Event]) -> Sequence[Event]:
    return made.events if isinstance(made, MadeColumns) else list(made.values())


class MadeColumns(Mapping[Derivation, Event]):
    """Events in columns. Each derivation is there once."""

    def __init__(self, derivations: Sequence[Derivation], events: Sequence[Event]) -> None:
        self.derivations = derivations
        self.events = events

    def __len__(self) -> int:
        return len(self.derivations)

    def __iter__(self) -> Iterator[Derivation]:
        return iter(self.derivations)

    def __getitem__(self, derivation: Derivation) -> Event:
        """Quickest where what is looked up one after the other stands near one another."""
        hashes, order = self._by_hash
        wanted = hash(derivation)
        for found in range(int(hashes.searchsorted(wanted)), len(hashes)):
            if hashes[found] != wanted:
                break
            place = int(order[found])
            if self.derivations[place] == derivation:
                return self.events[place]
        raise KeyError(derivation)

    @lazily
    def _by_hash(self) -> tuple[Numbers, Numbers]:
        """The hashes of all derivations, sorted, and where each stands: a tenth of what a dictionary would take."""
        import numpy as np

        hashes = np.fromiter(map(hash, self.derivations), np.int64, len(self.derivations))
        order = hashes.argsort(kind="stable")
        return hashes[order], order

    def items(self) -> ItemsView[Derivation, Event]:
        return _Items(self)


class _Items(ItemsView[Derivation, Event]):
    """Goes through the columns once, where looking each derivation up would go through them for each."""

    _mapping: MadeColumns

    def __iter__(self) -> Iterator[tuple[Derivation, Event]]:
        return zip(self._mapping.derivations, self._mapping.events, strict=True)


class Chosen(Sequence[T], Generic[T]):
    """What stands at some places of a sequence."""

    def __init__(self, rows: Sequence[T], places: Numbers) -> None:
        self._rows = rows
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return Chosen(self._rows, self.places[index])
        return self._rows[int(self.places[index])]

    def __iter__(self) -> Iterator[T]:
        blocks = (self.places[start : start + CHUNK] for start in range(0, len(self.places), CHUNK))
        return chain.from_iterable(gathered(self._rows, block) for block in blocks)


def gathered(rows: Sequence[T], places: Numbers) -> list[T]:
    """The rows at some places, in the order of the places. Each part of `rows` is made of its columns once."""
    if isinstance(rows, list):
        return [rows[place] for place in places.tolist()]
    order = places.argsort(kind="stable")
    found: list[T] = [rows[0]] * len(places)
    wanted, at = places[order].tolist(), order.tolist()
    done = 0
    while done < len(wanted):
        begin = wanted[done]
        part = rows[begin : begin + CHUNK]
        end = bisect_left(wanted, begin + CHUNK, done)
        for place, where in zip(wanted[done:end], at[done:end], strict=True):
            found[where] = part[place - begin]
        done = end
    return found


class Each(Sequence[T], Generic[T]):
    """Something for each of many, made when it is asked for."""

    def __init__(self, places: Numbers, make: Callable[[int], T]) -> None:
        self._places = places
        self._make = make

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return Each(self._places[index], self._make)
        return self._make(int(self._places[index]))
