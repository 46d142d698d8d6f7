"""The way of an input through a run, for each that evidence names: when it was offered, who took it, what was delivered
of it. By what was executed again, so it is there for schemes alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ...judging.reexecution import Reexecution
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
    roots = {one: root for one in wanted for root in _root(rerun, one)}
    stations: dict[Root, list[Station]] = defaultdict(list)
    for root in dict.fromkeys(roots.values()):
        stations[root] += _offered(rerun, root)
    _follow(rerun, stations)
    return {one: tuple(sorted(stations[root], key=_at)[:STATIONS]) for one, root in roots.items()}


def _length(rerun: Reexecution) -> int:
    taken = sum(len(life.took) for lives in rerun.reruns.values() for life in lives.values())
    return taken + sum(one.count for one in rerun.deliveries.values())


def _root(rerun: Reexecution, named: NumberedOutput) -> Iterator[Root]:
    """The input itself, or the one at the root of an output, if that came to anybody."""
    who, number = named
    if who in rerun.offered:
        yield named
        return
    for channel, deliveries in rerun.deliveries.items():
        if channel.partition(">")[0] == who:
            _, rows, derivations = deliveries.columns()
            for row, derivation in zip(rows, derivations, strict=True):
                if row.seq == number and derivation is not None:
                    yield root_of(derivation)
                    return
    for lives in rerun.reruns.values():
        for life in lives.values():
            for taken in rerun.intakes(life):
                if taken.record.upstream == who and number in taken.seqs:
                    yield root_of(taken.derivations[list(taken.seqs).index(number)])
                    return


def _offered(rerun: Reexecution, root: Root) -> Iterator[Station]:
    source, number = root
    events = rerun.offered.get(source, ())
    for event, at in zip(events, rerun.offered_at.get(source, ()), strict=False):
        if event.seq == number:
            yield Station(at, f"{source} offers #{number:,}")
            return


def _follow(rerun: Reexecution, stations: dict[Root, list[Station]]) -> None:
    """To whoever took it, or what was made of it, and to the sinks."""
    for slice_id, lives in rerun.reruns.items():
        for life in lives.values():
            found = dict.fromkeys(derivation for derivation in life.took if root_of(derivation) in stations)
            for derivation in found:
                what = "it" if len(derivation) == 2 else "what was made of it"
                stations[root_of(derivation)] += [
                    Station(at, f"{slice_id}#{life.number} takes {what}") for at in rerun.took_at(life, derivation)
                ]
    for channel, deliveries in rerun.deliveries.items():
        sender, _, sink = channel.partition(">")
        heads, rows, derivations = deliveries.columns()
        place = iter(zip(rows, derivations, strict=True))
        for at, incarnation, _, count in heads:
            for _ in range(count):
                row, made_of = next(place)
                if made_of is not None and root_of(made_of) in stations:
                    said = f"{sink} is given #{row.seq:,} of {sender}#{incarnation}, made of it"
                    stations[root_of(made_of)].append(Station(at, said))


def _at(station: Station) -> int:
    return station.at
