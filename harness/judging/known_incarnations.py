"""Incarnations that were executed already, of which others are pieces.

In a search nearly every incarnation of a slice is a piece of one that was executed before: of a dead one a beginning,
of one that goes on from its checkpoint the rest. What is given the same events in the same order, from the same state
on, makes the same, and is not executed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_, sub
from typing import Any, Final

from ..core.events import Event
from ..core.slice_names import operator_of
from ..protocol.spec import SliceSpec
from .exactness import same_events
from .processing import blank_rerun, emissions_of, execute
from .reruns import Derivation, Rerun, Stretch

_EXECUTED_AGAIN: Final = 32
_EXAMINED_AGAIN: Final = 16
"""One of so many: a search passes thousands."""


class KnownIncarnation:
    """An incarnation that was executed: it began blank, in one stretch and without epochs, and its operator draws
    nothing by chance."""

    def __init__(self, spec: SliceSpec, rerun: Rerun, events: Sequence[Event]) -> None:
        self.rerun = rerun
        self.events = events
        """What it took."""
        self.faithful: set[int] = set()
        """After how many events a checkpoint is known to give back its state."""
        self._went_along = 0
        self._passed = 0
        self._spec = spec
        self._operator = spec.topology.stages[operator_of(spec.slice_id)].operator

    def is_to_be_executed(self) -> bool:
        """Whether one that could go along is executed all the same: what was executed once excuses what an operator
        remembers beside its state, or draws."""
        self._went_along += 1
        return self._went_along % _EXECUTED_AGAIN == 0

    def is_to_be_examined(self) -> bool:
        """Whether a checkpoint is examined again where one was faithful."""
        self._passed += 1
        return self._passed % _EXAMINED_AGAIN == 0

    @property
    def first_seq(self) -> int:
        return self.rerun.stretch.first_seq

    @property
    def lengths(self) -> Sequence[tuple[int, ...]]:
        """After each number of events, none included, how many stood on each channel."""
        return self._index[0]

    @property
    def next_seqs(self) -> Sequence[int]:
        """And the number of the next output."""
        return self._index[1]

    @cached_property
    def _index(self) -> tuple[list[tuple[int, ...]], list[int]]:
        twin = self._twin()
        channels = list(twin.emitted.values())
        lengths, next_seqs = [(0,) * len(channels)], [twin.next_seq]
        for place, event in enumerate(self.events):
            execute(self._spec, twin, (event,), self.rerun.took[place : place + 1])
            lengths.append(tuple([len(channel.events) for channel in channels]))
            next_seqs.append(twin.next_seq)
        return lengths, next_seqs

    @property
    def stateless(self) -> bool:
        return self.rerun.state is None

    def along(self, place: int, next_seq: int) -> Along | None:
        """One that goes on from there, if it numbers what it makes as this one did."""
        return Along(self, place, place) if self.next_seqs[place] == next_seq else None

    def state_at(self, place: int) -> Any:
        """What it held after so many events, as an execution from the beginning has it; nobody else has it."""
        twin = self._twin()
        execute(self._spec, twin, self.events[:place], self.rerun.took[:place])
        return twin.state

    def continued(self, since: int, rest: Rerun) -> Rerun:
        """What this one would be, if it had gone on after so many events as another did that began from there."""
        one, stretch = self.rerun, Stretch(None, 0, self.first_seq, emissions_of(self._spec))
        found = Rerun(one.slice_id, one.number, 0, [stretch], rest.next_seq, None, one.hop, rest.state)
        found.took.extend([*one.took[:since], *rest.took])
        found.seqs.extend([*one.seqs[:since], *rest.seqs])
        for (to, emissions), length in zip(stretch.emitted.items(), self.lengths[since], strict=True):
            made, others = one.emitted[to], rest.emitted[to]
            emissions.events.extend([*made.events[:length], *others.events])
            emissions.derivations.extend([*made.derivations[:length], *others.derivations])
        return found

    def _twin(self) -> Rerun:
        return blank_rerun(self._spec, self.rerun.number, self.first_seq)


@dataclass(slots=True)
class Along:
    """How far an incarnation has done what a known one did."""

    known: KnownIncarnation
    since: int
    """After how many events of the known one it began."""
    at: int
    """After how many it is now."""

    def goes_on(self, events: Sequence[Event], derivations: Sequence[Derivation]) -> bool:
        """Whether these are the next that the known one took: as a rule the very same, if their sender went along as
        well."""
        begin, end = self.at, self.at + len(events)
        same = self.known.events[begin:end]
        if len(same) < len(events) or not (
            all(map(is_, same, events))
            or (self.known.rerun.took[begin:end] == derivations and same_events(same, events))
        ):
            return False
        self.at = end
        return True

    def as_far_as_known(self, events: Sequence[Event], derivations: Sequence[Derivation], ends: Sequence[int]) -> int:
        """How many of the batches that end after so many of these events are the next that the known one took."""
        at, begin, count = self.at, 0, len(ends)
        if not self.goes_on(events, derivations):
            for place, end in enumerate(ends):
                if not self.goes_on(events[begin:end], derivations[begin:end]):
                    count = place
                    break
                begin = end
        self.at = at
        return count

    def lengths_at(self, place: int) -> tuple[int, ...]:
        """What stood on each channel after so many events of the known one, since it began."""
        lengths, since = self.known.lengths, self.since
        return tuple(map(sub, lengths[place], lengths[since])) if since else lengths[place]

    def batches(self, ends: Iterable[int], begin: int) -> list[tuple[int, tuple[int, ...]]]:
        """So many events after a place of the known one: how many it had taken, and what stood on each channel, since
        it began."""
        lengths, since = self.known.lengths, self.since
        if not since:
            return [(begin + end, lengths[begin + end]) for end in ends]
        then = lengths[since]
        return [(begin + end - since, tuple(map(sub, lengths[begin + end], then))) for end in ends]

    def fill(self, rerun: Rerun) -> None:
        """Write down what it took and made so far."""
        known, since, at = self.known.rerun, self.since, self.at
        rerun.next_seq = self.known.next_seqs[at]
        rerun.took.extend(known.took[since:at])
        rerun.seqs.extend(known.seqs[since:at])
        channels = zip(rerun.emitted.items(), self.known.lengths[since], self.known.lengths[at], strict=True)
        for (to, emissions), begin, end in channels:
            made = known.emitted[to]
            emissions.events.extend(made.events[begin:end])
            emissions.derivations.extend(made.derivations[begin:end])

    def end(self, rerun: Rerun) -> None:
        """Write down what it did, to which nothing will be added."""
        known, place = self.known, self.at
        if place < len(known.events):
            self.fill(rerun)
            rerun.later = lambda: known.state_at(place)
            return
        rerun.held = known.rerun.state
        if self.since:
            self.fill(rerun)
            return
        rerun.took, rerun.seqs, rerun.next_seq = known.rerun.took, known.rerun.seqs, known.rerun.next_seq
        rerun.stretch.emitted = known.rerun.emitted
