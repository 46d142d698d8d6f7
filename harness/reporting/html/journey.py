"""The way of an input through a run, for each that evidence names: when it was offered, who took it, what was delivered
of it. By what was executed again, so it is there for schemes alone."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ...judging.reexecution import Reexecution
from ...judging.reruns import Intake, Rerun
from ...recording.records import Taken
from .affected import Root, root_of

LONGEST: Final = 500_000
"""Events taken and delivered of a run in which ways are looked for: each is looked at."""
MOST: Final = 60
"""Inputs that are followed."""
STATIONS: Final = 24
"""Of each."""
_NAMED: Final = re.compile(r"([A-Za-z_][\w.-]*?)(?:#\d+)? #([\d,]+)")
"""`count-0 #15,001`, `count-0#2 #15,001`: an output, and a source's input, by its number."""

NumberedOutput = tuple[str, int]
"""A slice or source, and the number of what it made."""


@dataclass(frozen=True)
class Station:
    """Somewhere that an input came by."""

    at: int
    said: str


def numbered_in(text: str) -> NumberedOutput | None:
    """What a piece of evidence names first; None where it names nothing."""
    found = _NAMED.search(text)
    return None if found is None else (found[1], int(found[2].replace(",", "")))


def ways(rerun: Reexecution, named: Iterable[NumberedOutput]) -> dict[NumberedOutput, tuple[Station, ...]]:
    """Of each that is known, its stations in the order of time. Nothing where the run is too long to look at all."""
    wanted = list(dict.fromkeys(named))[:MOST]
    if not wanted or _length(rerun) > LONGEST:
        return {}
    roots = _roots(rerun, wanted)
    stations: dict[Root, list[Station]] = {root: [] for root in roots.values()}
    for root, found in stations.items():
        found += _offered(rerun, root)
    for root, station in (*_taken(rerun, stations), *_delivered(rerun, stations)):
        stations[root].append(station)
    return {one: tuple(sorted(stations[root], key=_at)[:STATIONS]) for one, root in roots.items()}


def _length(rerun: Reexecution) -> int:
    taken = sum(len(one.took) for reruns in rerun.reruns.values() for one in reruns.values())
    return taken + sum(one.count for one in rerun.deliveries.values())


def _roots(rerun: Reexecution, wanted: Iterable[NumberedOutput]) -> dict[NumberedOutput, Root]:
    """Of an input itself, and of an output the one at its root, if it came to anybody."""
    found: dict[NumberedOutput, Root] = {one: one for one in wanted if one[0] in rerun.offered}
    outputs = {one for one in wanted if one not in found}
    if not outputs:
        return found
    senders = {sender for sender, _ in outputs}
    for channel, deliveries in rerun.deliveries.items():
        sender = channel.partition(">")[0]
        if sender in senders:
            _, rows, derivations = deliveries.columns()
            for row, derivation in zip(rows, derivations, strict=True):
                if (sender, row.seq) in outputs and derivation is not None:
                    found.setdefault((sender, row.seq), root_of(derivation))
    for taken, _, _ in _intakes(rerun):
        sender = taken.record.upstream
        if sender in senders:
            for number, derivation in zip(taken.seqs, taken.derivations, strict=True):
                if (sender, number) in outputs:
                    found.setdefault((sender, number), root_of(derivation))
    return found


def _offered(rerun: Reexecution, root: Root) -> Iterator[Station]:
    source, number = root
    events = rerun.offered.get(source, ())
    for event, at in zip(events, rerun.offered_at.get(source, ()), strict=False):
        if event.seq == number:
            yield Station(at, f"{source} offers #{number:,}")
            return


def _intakes(rerun: Reexecution) -> Iterator[tuple[Intake, Rerun, int]]:
    """What everybody took, batch by batch, with when."""
    for slice_id, reruns in rerun.reruns.items():
        for one in reruns.values():
            times = (
                at
                for record, at in zip(rerun.books[slice_id], rerun.times[slice_id], strict=True)
                if isinstance(record, Taken) and record.incarnation == one.number
            )
            for taken, at in zip(rerun.intakes(one), times, strict=False):
                yield taken, one, at


def _taken(rerun: Reexecution, wanted: Container[Root]) -> Iterator[tuple[Root, Station]]:
    """Who took it, or what was made of it."""
    for taken, one, at in _intakes(rerun):
        for derivation in dict.fromkeys(taken.derivations):
            root = root_of(derivation)
            if root in wanted:
                what = "it" if len(derivation) == 2 else "what was made of it"
                yield root, Station(at, f"{one.slice_id}#{one.number} takes {what}")


def _delivered(rerun: Reexecution, wanted: Container[Root]) -> Iterator[tuple[Root, Station]]:
    for channel, deliveries in rerun.deliveries.items():
        sender, _, sink = channel.partition(">")
        heads, rows, derivations = deliveries.columns()
        place = iter(zip(rows, derivations, strict=True))
        for at, incarnation, _, count in heads:
            for _ in range(count):
                row, derivation = next(place)
                if derivation is not None and (root := root_of(derivation)) in wanted:
                    yield root, Station(at, f"{sink} is given #{row.seq:,} of {sender}#{incarnation}, made of it")


def _at(station: Station) -> int:
    return station.at
