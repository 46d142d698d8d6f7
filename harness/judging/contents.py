"""What outputs were made of, beyond the input that triggered them: the state that they came of.

The trigger of an output alone does not say whether anything is missing from it. What an output of a slice with state
should have been made of is everything that comes before its trigger on the channels of the slice; of an operator with a
window, what of that is still in the window.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise, starmap
from operator import eq, le
from typing import NamedTuple

from ..core.events import Event
from ..core.slice_names import channel_name, operator_of
from .expected import Expected
from .made import derivations_of, is_long
from .reexecution import Reexecution
from .reruns import Derivation, Rerun

ChannelPosition = tuple[int, int]
"""A channel of a slice, and an event's place on it."""


@dataclass(frozen=True)
class Lacking:
    """An input that is missing from an output, in each copy of it that somebody heard."""

    channel: str
    output: Derivation
    missing: Derivation
    of: str
    """The slice that should have held it."""
    forgotten: bool
    """Nobody took it again afterwards, though it was in the window still."""


def find_lacking(rerun: Reexecution, wanted: Expected) -> list[Lacking]:
    """For each input that is missing from outputs, the first of these. What is doubtful is left out."""
    found: dict[tuple[str, Derivation], Lacking] = {}
    for slice_id, holes in _with_holes(rerun, wanted):
        for to in rerun.topology.downstream(slice_id):
            for lacking in _on_channel(rerun, slice_id, to, holes):
                known = found.get((slice_id, lacking.missing))
                if known is None or (lacking.forgotten and not known.forgotten):
                    found[slice_id, lacking.missing] = lacking
    return list(found.values())


def outputs_that_lack(rerun: Reexecution, wanted: Expected) -> dict[str, frozenset[Derivation]]:
    """Channel -> all outputs on it that lack anything in each copy that was heard; channels without any are not
    there. What is doubtful is left out."""
    return {
        channel_name(slice_id, to): frozenset(copies)
        for slice_id, holes in _with_holes(rerun, wanted)
        for to in rerun.topology.downstream(slice_id)
        if (copies := _copies_that_lack(rerun, slice_id, to, holes))
    }


def _with_holes(rerun: Reexecution, wanted: Expected) -> Iterator[tuple[str, dict[int, _Holes]]]:
    """The slices with incarnations that had passed over inputs, and these."""
    for slice_id in rerun.stateful():
        if slice_id in rerun.doubtful:
            continue
        should = wanted.taken[slice_id]
        channels = [wanted.channels[channel_name(up, slice_id)] for up in rerun.topology.upstream(slice_id)]
        incomplete = [
            one for one in rerun.reruns[slice_id].values() if not _is_a_beginning(one.lineage(), should, channels)
        ]
        if not incomplete:
            continue
        places = _places(rerun, slice_id, wanted)
        incomplete = [one for one in incomplete if not _passed_over_nothing(one.lineage(), places)]
        if not incomplete:
            continue
        times = {derivation: event.time for derivation, event in should.items()}
        holes = {one.number: _Holes(rerun, one, places, times) for one in incomplete}
        if any(one.spans for one in holes.values()):
            yield slice_id, holes


def _is_a_beginning(
    lineage: Sequence[Derivation],
    should: Mapping[Derivation, Event],
    channels: Sequence[Mapping[Derivation, Event]],
) -> bool:
    """Of a slice with one channel; where several come together, that is seen only event by event, unless they are
    long."""
    if is_long(lineage, should):
        from .long_intakes import is_whole

        return is_whole(lineage, [derivations_of(channel) for channel in channels])
    return len(lineage) <= len(should) and all(map(eq, lineage, should))


def _places(rerun: Reexecution, slice_id: str, wanted: Expected) -> dict[Derivation, ChannelPosition]:
    """Where each input stands on its channel."""
    places: dict[Derivation, ChannelPosition] = {}
    for number, up in enumerate(rerun.topology.upstream(slice_id)):
        for place, derivation in enumerate(wanted.channels[channel_name(up, slice_id)]):
            places[derivation] = (number, place)
    return places


def _passed_over_nothing(lineage: Sequence[Derivation], places: Mapping[Derivation, ChannelPosition]) -> bool:
    """Whether each channel was taken without holes, so that there are no `_Holes`."""
    reached: dict[int, int] = {}
    for known in map(places.get, lineage):
        if known is not None:
            channel, place = known
            due = reached.get(channel, 0)
            if place == due:
                reached[channel] = due + 1
            elif place > due:
                return False
    return True


class _Span(NamedTuple):
    """Where in a lineage an input is missing."""

    begin: int
    end: int
    """The first place where it is missing no longer: it came, or is out of the window."""
    forgotten: bool
    """Nobody took it again."""


class _Holes:
    """Which inputs an incarnation had passed over, event by event."""

    def __init__(
        self,
        rerun: Reexecution,
        one: Rerun,
        places: Mapping[Derivation, ChannelPosition],
        times: Mapping[Derivation, int],
    ) -> None:
        self._window = rerun.topology.stages[operator_of(one.slice_id)].operator.window
        self._lineage = one.lineage()
        self._times = times
        self._missing: dict[Derivation, tuple[int, int | None]] = {}
        """Input -> from which event of the lineage on it is missing, and until which, if it came later."""
        self._at: dict[Derivation, int] = {}
        self._now: list[int] = []
        """After each event of the lineage, how far event time has come."""
        self._walk(places)
        for epoch, position in one.closings():
            if position:
                self._at[one.slice_id, epoch] = position - 1
        again, before = _taken_after(rerun, one), _progress_before(rerun, one, times)
        self.spans = {missing: self._span(missing, again, before) for missing in self._missing}
        """Of what was passed over, in that order."""
        self._lacked = self._lacked_at()

    def _walk(self, places: Mapping[Derivation, ChannelPosition]) -> None:
        at_place = {place: derivation for derivation, place in places.items()}
        reached: dict[int, int] = {}
        now = 0
        for number, derivation in enumerate(self._lineage):
            self._at.setdefault(derivation, number)
            known = places.get(derivation)
            now = max(now, self._times.get(derivation, 0))
            self._now.append(now)
            if known is None:
                continue
            channel, place = known
            if derivation in self._missing:
                since, until = self._missing[derivation]
                if until is None:
                    self._missing[derivation] = (since, number)
            for passed in range(reached.get(channel, 0), place):
                self._missing[at_place[channel, passed]] = (number, None)
            reached[channel] = max(reached.get(channel, 0), place + 1)

    def _span(self, missing: Derivation, again: Container[Derivation], before: int) -> _Span:
        since, until = self._missing[missing]
        end = len(self._now) if until is None else until
        if self._window is None:
            return _Span(since, end, False)
        over = self._times[missing] + self._window
        comes = until is not None or missing in again
        return _Span(since, min(end, bisect_left(self._now, over)), not comes and over > before)

    def _lacked_at(self) -> list[int]:
        """After each event of the lineage, how many are missing."""
        changes = [0] * (len(self._now) + 1)
        for span in self.spans.values():
            if span.begin < span.end:
                changes[span.begin] += 1
                changes[span.end] -= 1
        return list(accumulate(changes))

    def at(self, trigger: Derivation) -> int | None:
        """Where in the lineage that stands which triggered an output, where that output lacks anything."""
        at = self._at.get(trigger)
        return at if at is not None and self._lacked[at] else None


def _progress_before(rerun: Reexecution, one: Rerun, times: Mapping[Derivation, int]) -> int:
    """How far event time had come for the incarnations before."""
    earlier = (other for number, other in rerun.reruns[one.slice_id].items() if number < one.number)
    return max((times[d] for other in earlier for d in other.took if d in times), default=0)


def _taken_after(rerun: Reexecution, one: Rerun) -> set[Derivation]:
    """What the incarnations after it have taken."""
    return {d for number, other in rerun.reruns[one.slice_id].items() if number > one.number for d in other.took}


def _on_channel(rerun: Reexecution, slice_id: str, to: str, holes: Mapping[int, _Holes]) -> list[Lacking]:
    """For each input, the first output on one channel of which every copy that was heard lacks it; once for those
    outputs that the same incarnations have made."""
    copies = _copies_that_lack(rerun, slice_id, to, holes)
    outputs = list(copies)
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, output in enumerate(outputs):
        alike.setdefault(tuple(copies[output]), []).append(place)
    channel = channel_name(slice_id, to)
    found: list[tuple[int, int, Lacking]] = []
    for numbers, places in alike.items():
        ats = [[copies[outputs[place]][number] for place in places] for number in numbers]
        rising = all(starmap(le, chain.from_iterable(map(pairwise, ats))))
        first, *others = (holes[number].spans for number in numbers)
        for rank, (missing, span) in enumerate(first.items()):
            # What one of the copies has is not missing from the output.
            if any(missing not in spans for spans in others):
                continue
            spans = [span, *(spans[missing] for spans in others)]
            at = _first_within(ats, rising, spans)
            if at is not None:
                forgotten = all(span.forgotten for span in spans)
                lacking = Lacking(channel, outputs[places[at]], missing, slice_id, forgotten)
                found.append((places[at], rank, lacking))
    return [lacking for _, _, lacking in sorted(found, key=lambda one: one[:2])]


def _copies_that_lack(
    rerun: Reexecution, slice_id: str, to: str, holes: Mapping[int, _Holes]
) -> dict[Derivation, dict[int, int]]:
    """The outputs on one channel of which every copy that was heard lacks something -> whose copies these are, and
    where in its lineage each was made."""
    copies: dict[Derivation, dict[int, int]] = {}
    whole: set[Derivation] = set()
    for number, one in rerun.reruns[slice_id].items():
        for output in rerun.heard(one, to):
            if output in whole:
                continue
            at = holes[number].at(output[:-1]) if number in holes else None
            if at is None:
                whole.add(output)
                copies.pop(output, None)
            else:
                copies.setdefault(output, {})[number] = at
    return copies


def _first_within(ats: Sequence[Sequence[int]], rising: bool, spans: Sequence[_Span]) -> int | None:
    """The first output that lies within all of these spans, each of which is of one of its copies."""
    begin, end = 0, len(ats[0])
    if rising:
        for at, span in zip(ats, spans, strict=True):
            begin, end = max(begin, bisect_left(at, span.begin)), min(end, bisect_left(at, span.end))
        return begin if begin < end else None
    for output, its in enumerate(zip(*ats, strict=True)):
        if all(span.begin <= at < span.end for at, span in zip(its, spans, strict=True)):
            return output
    return None
