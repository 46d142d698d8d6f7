"""Who hears whom, in every world: which incarnations are there, which are active, and whom each has to be told of.

A slice hears of those that are active of the slices that feed it, and of those that its mechanisms send to besides; of
its coordinators; of all others of its own slice; and of the end of whomever it deals with. A coordinator hears of all
incarnations of its members. Whoever holds a directory carries out what it says: the simulator tells both ends, a node
agent dials for those that it hosts. Sans-I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol


class Told(NamedTuple):
    """An incarnation has to hear of another: that it is there, or that it is gone."""

    slice_id: str
    incarnation: int
    of: str
    other: int
    """The incarnation of `of`."""


class Wired(Protocol):
    """What is said of an actor that others deal with."""

    @property
    def slice_id(self) -> str: ...

    @property
    def upstream(self) -> tuple[str, ...]: ...

    @property
    def downstream(self) -> tuple[str, ...]: ...

    @property
    def addressees(self) -> tuple[str, ...]: ...

    @property
    def coordinators(self) -> tuple[str, ...]: ...

    @property
    def members(self) -> tuple[str, ...]: ...


class Directory:
    """One for a world, or one for each node that hears of all that happens in it."""

    def __init__(self, wired: Iterable[Wired]) -> None:
        every = tuple(wired)
        self._hears = {
            one.slice_id: tuple(dict.fromkeys((*one.upstream, *one.addressees, *one.coordinators))) for one in every
        }
        """Slice -> those whose active incarnations it hears of."""
        self._heard_by = {
            one.slice_id: tuple(other.slice_id for other in every if one.slice_id in self._hears[other.slice_id])
            for one in every
        }
        self._deals_with = {
            one.slice_id: tuple(
                dict.fromkeys(
                    (
                        *(*one.upstream, *one.addressees, *one.downstream),
                        *(*one.coordinators, *one.members, one.slice_id),
                    )
                )
            )
            for one in every
        }
        self._both_ways = {one.slice_id: frozenset(one.upstream).intersection(one.downstream) for one in every}
        self._led_by = {one.slice_id: one.coordinators for one in every}
        self._members = {one.slice_id: one.members for one in every}
        self._known: dict[str, dict[int, bool]] = {one.slice_id: {} for one in every}
        """Slice -> the incarnations that are there -> whether they are active."""
        self._gone: set[tuple[str, int]] = set()

    def hears(self, slice_id: str, of: str) -> bool:
        """Whether a slice is told which incarnations of another are active, and calls them."""
        return of in self._hears[slice_id]

    def calls(self, told: Told) -> bool:
        """Whether it is for the one who hears to call the other: of two of one slice, for the later one; of two that
        feed one another, which have one link for both ways, for the first by name."""
        if told.of == told.slice_id:
            return told.other < told.incarnation
        if self.feed_one_another(told.slice_id, told.of):
            return told.slice_id < told.of
        return self.hears(told.slice_id, told.of)

    def feed_one_another(self, slice_id: str, other: str) -> bool:
        """Whether events go both ways between two slices."""
        return other in self._both_ways[slice_id]

    def leads(self, coordinator: str, member: str) -> bool:
        """Whether one is the coordinator of the other."""
        return member in self._members[coordinator]

    def of(self, slice_id: str) -> Mapping[int, bool]:
        """The incarnations that are there, in the order in which they came -> whether they are active."""
        return self._known[slice_id]

    def is_gone(self, slice_id: str, incarnation: int) -> bool:
        """Whether it was withdrawn."""
        return (slice_id, incarnation) in self._gone

    def announce(self, slice_id: str, incarnation: int, active: bool) -> list[Told]:
        """An incarnation is there, or is active now. Returns who has to hear of whom, in order; nobody of one that was
        withdrawn."""
        if (slice_id, incarnation) in self._gone:
            return []
        known, told = self._known[slice_id], list[Told]()
        first, was_active = incarnation not in known, known.get(incarnation, False)
        if first:
            for other in self._hears[slice_id]:
                told += [Told(slice_id, incarnation, other, one) for one, heard in self._known[other].items() if heard]
            for peer in known:
                told.append(Told(slice_id, peer, slice_id, incarnation))
                told.append(Told(slice_id, incarnation, slice_id, peer))
            for leader in self._led_by[slice_id]:
                told += [Told(leader, one, slice_id, incarnation) for one in self._known[leader]]
            for member in self._members[slice_id]:
                told += [Told(slice_id, incarnation, member, one) for one in self._known[member]]
        known[incarnation] = active
        if active and not was_active:
            for listener in self._heard_by[slice_id]:
                told += [Told(listener, receiver, slice_id, incarnation) for receiver in self._known[listener]]
        return told

    def withdraw(self, slice_id: str, incarnation: int) -> list[Told]:
        """It is to be listened to no more. Returns who has to hear that it is gone."""
        self._gone.add((slice_id, incarnation))
        self._known[slice_id].pop(incarnation, None)
        return [
            Told(other, one, slice_id, incarnation)
            for other in self._deals_with[slice_id]
            for one in self._known[other]
        ]
