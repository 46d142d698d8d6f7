"""What outputs were made of, beyond the input that triggered them: the state that they came of.

The trigger of an output alone does not say whether anything is missing from it. What an output of a slice with state
should have been made of is everything that comes before its trigger on the channels of the slice; of an operator with a
window, what of that is still in the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import eq

from ..core.model import Event, channel_name, operator_of
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
        holes = {one.number: _Holes(rerun, one, places, should) for one in incomplete}
        if not any(one.missing for one in holes.values()):
            continue
        for to in rerun.topology.downstream(slice_id):
            for lacking in _on_channel(rerun, slice_id, to, holes):
                known = found.get((slice_id, lacking.missing))
                if known is None or (lacking.forgotten and not known.forgotten):
                    found[slice_id, lacking.missing] = lacking
    return list(found.values())


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


class _Holes:
    """Which inputs an incarnation had passed over, event by event."""

    def __init__(
        self,
        rerun: Reexecution,
        one: Rerun,
        places: Mapping[Derivation, ChannelPosition],
        should: Mapping[Derivation, Event],
    ) -> None:
        self._window = rerun.topology.stages[operator_of(one.slice_id)].operator.window
        self._lineage = one.lineage()
        self._should = should
        self.missing: dict[Derivation, tuple[int, int | None]] = {}
        """Input -> from which event of the lineage on it is missing, and until which, if it came later."""
        self._at: dict[Derivation, int] = {}
        self._now: list[int] = []
        """After each event of the lineage, how far event time has come."""
        self._before = _progress_before(rerun, one, should)
        self._again = _taken_after(rerun, one)
        self._walk(places, should)
        for epoch, position in one.closings():
            if position:
                self._at[one.slice_id, epoch] = position - 1

    def _walk(self, places: Mapping[Derivation, ChannelPosition], should: Mapping[Derivation, Event]) -> None:
        at_place = {place: derivation for derivation, place in places.items()}
        reached: dict[int, int] = {}
        now = 0
        for number, derivation in enumerate(self._lineage):
            self._at.setdefault(derivation, number)
            known = places.get(derivation)
            event = should.get(derivation)
            now = max(now, event.time if event is not None else 0)
            self._now.append(now)
            if known is None:
                continue
            channel, place = known
            if derivation in self.missing:
                since, until = self.missing[derivation]
                if until is None:
                    self.missing[derivation] = (since, number)
            for passed in range(reached.get(channel, 0), place):
                self.missing[at_place[channel, passed]] = (number, None)
            reached[channel] = max(reached.get(channel, 0), place + 1)

    def lacks(self, trigger: Derivation) -> Iterator[tuple[Derivation, bool]]:
        """What an output that this input triggered lacks, and whether it was forgotten."""
        at = self._at.get(trigger)
        if at is None:
            return
        for missing, (since, until) in self.missing.items():
            if since > at or (until is not None and until <= at):
                continue
            if self._window is None:
                yield missing, False
            else:
                over = self._should[missing].time + self._window
                if over > self._now[at]:
                    comes = until is not None or missing in self._again
                    yield missing, not comes and over > max(self._now[at], self._before)


def _progress_before(rerun: Reexecution, one: Rerun, should: Mapping[Derivation, Event]) -> int:
    """How far event time had come for the incarnations before."""
    earlier = (other for number, other in rerun.reruns[one.slice_id].items() if number < one.number)
    return max((should[d].time for other in earlier for d in other.took if d in should), default=0)


def _taken_after(rerun: Reexecution, one: Rerun) -> set[Derivation]:
    """What the incarnations after it have taken."""
    return {d for number, other in rerun.reruns[one.slice_id].items() if number > one.number for d in other.took}


def _on_channel(rerun: Reexecution, slice_id: str, to: str, holes: Mapping[int, _Holes]) -> Iterator[Lacking]:
    """The outputs on one channel of which every copy that was heard lacks something."""
    lacking: dict[Derivation, list[tuple[Derivation, bool]]] = {}
    whole: set[Derivation] = set()
    for number, one in rerun.reruns[slice_id].items():
        for output in rerun.heard(one, to):
            if output in whole:
                continue
            lacks = list(holes[number].lacks(output[:-1])) if number in holes else []
            if not lacks:
                whole.add(output)
                lacking.pop(output, None)
            elif output not in lacking:
                lacking[output] = lacks
            else:
                # What one of the copies has is not missing from the output.
                others = dict(lacks)
                lacking[output] = [(d, gone and others[d]) for d, gone in lacking[output] if d in others]
    channel = channel_name(slice_id, to)
    for output, lacks in lacking.items():
        for missing, forgotten in lacks:
            yield Lacking(channel, output, missing, slice_id, forgotten)
