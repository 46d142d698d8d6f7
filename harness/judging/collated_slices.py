"""What a history of slices comes to, by their re-execution.

Each part is computed when it is first asked for, and kept, so that a claim pays for no more than it rests on: what
states hold, what channels delivered, what outputs were made of, in which orders channels were taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..core.events import Event
from ..core.lazily import lazily
from ..core.slice_names import operator_of
from ..core.verdicts import Anomaly, Evidence, Tally, none_of, tally
from ..recording.history import History
from ..recording.records import CheckpointTaken
from .channel_counts import ChannelCount, altered_outputs, channel_count, take_out_others
from .completeness import why_inconclusive, why_stalled
from .contents import Lacking, find_lacking
from .contiguity import Flaw, find_flaws
from .expected import Expected
from .long_lineages import compared
from .made import derivations_of, is_long
from .ordering import as_ordered, find_unmerged, in_its_order, order_matters
from .proven_faults import Faults
from .punctuality import Mistimed
from .reexecution import Reexecution
from .reruns import DeliveredRow, Derivation, Rerun
from .slice_story import SliceStory
from .state_counts import (
    compensations,
    doubled_in_passing,
    ended_twice,
    other_states,
    still_needed,
    wrong_states,
)
from .told_by_clock import ToldByClock, find_told, why_not_followed
from .untold import find_untold

if TYPE_CHECKING:
    from .long_channels import LongChannelCount


@dataclass(frozen=True)
class _States:
    """What the states come to."""

    lost: Sequence[tuple[Rerun | str, Sequence[Derivation]]]
    """Of an incarnation that survives, or a slice of which none does: what it lacks."""
    doubled: Tally
    excused: frozenset[str]
    """The operators of which a final state lacks inputs that have left the window."""

    @property
    def lost_count(self) -> int:
        return sum(len(missing) for _, missing in self.lost)


@dataclass(frozen=True)
class _Outputs:
    """What the channels into sinks come to."""

    lost: Tally
    repeated: Tally
    conflicting: Tally
    superseded: Tally
    phantoms: Tally
    reordered: Tally
    reordered_repeats: Tally
    made_otherwise: Sequence[tuple[str, Derivation]]
    """Channel and output: of what was taken in an epoch, others were made at its end."""


class CollatedSlices:
    """A `Collation`. What is doubtful is left out: what is counted is sure, whatever else is not."""

    doubt = ""
    shape: None = None

    def __init__(
        self,
        history: History,
        reexecution: Reexecution,
        expect: Callable[[Reexecution], Expected],
        observables: tuple[str, ...] = ("outputs", "state"),
    ) -> None:
        """Of a history and its re-execution; `expect` says what an execution without failures gives for its input.
        Where the state is not among the `observables`, none of it is missed."""
        self.reexecution = reexecution
        self.observables = observables
        self._history = history
        self._expect = expect

    # The run

    @lazily
    def incomplete(self) -> str:
        return why_inconclusive(self._history, self.reexecution)

    @lazily
    def stalled(self) -> str:
        return why_stalled(self._history)

    @property
    def unproven(self) -> str:
        return self._faults.unproven

    @lazily
    def unjudgeable(self) -> str:
        unexplained = next(iter(self.reexecution.unexplained.values()), "")
        word = self._expected.false_word or self._false_snapshot()
        return unexplained or word or why_not_followed(self.reexecution)

    def _false_snapshot(self) -> str:
        """Of an operator that took checkpoints, why they do not give back its state."""
        false = self._expected.false_snapshots
        takers = {operator_of(one.slice) for one in self._history.each(CheckpointTaken)} if false else ()
        return next((why for name, why in false.items() if name in takers), "")

    @lazily
    def inputs(self) -> int:
        return sum(len(events) for events in self.reexecution.offered.values())

    @lazily
    def _faults(self) -> Faults:
        return Faults(self._history)

    @lazily
    def _expected(self) -> Expected:
        return self._expect(self.reexecution)

    @lazily
    def wanted(self) -> Expected:
        return as_ordered(self.reexecution, self._expected)

    @lazily
    def _story(self) -> SliceStory:
        return SliceStory(self.reexecution, self.wanted, self._faults)

    # States

    @lazily
    def lost_state(self) -> Tally:
        if "state" not in self.observables:
            return none_of(Anomaly.LOST_INPUT)
        states, tell = self._states, self._story.lost
        told = (tell(survivor, derivation) for survivor, missing in states.lost for derivation in missing)
        return tally(Anomaly.LOST_INPUT, states.lost_count, told, "from final states")

    @lazily
    def missed(self) -> str:
        kept = self._expected.kept_beyond
        excused = self._states.excused if kept and "state" in self.observables else ()
        return next((f"{kept[name]}, and such events were lost" for name in sorted(excused) if name in kept), "")

    @lazily
    def duplicate_effects(self) -> Tally:
        doubled = _along_with(self._states.doubled, self._told.twice)
        # With inputs that came twice, their epochs have, too.
        return doubled if doubled.count else _along_with(doubled, list(ended_twice(self.reexecution)))

    @lazily
    def _states(self) -> _States:
        rerun, wanted, story = self.reexecution, self.wanted, self._story
        lost: list[tuple[Rerun | str, Sequence[Derivation]]] = []
        doubled: list[tuple[Rerun, Derivation, int]] = []
        excused: set[str] = set()

        def lacks(slice_id: str, survivor: Rerun, missing: Sequence[Derivation]) -> None:
            needed = still_needed(rerun, slice_id, missing, should)
            lost.append((survivor, needed))
            if len(needed) < len(missing):
                excused.add(operator_of(slice_id))

        for slice_id in rerun.stateful():
            if slice_id in rerun.doubtful:
                continue
            if len(rerun.reruns[slice_id]) > 1:
                doubled += doubled_in_passing(rerun, slice_id)
            should = wanted.taken[slice_id]
            survivors = rerun.survivors(slice_id)
            if not survivors:
                lost.append((slice_id, derivations_of(should)))
            for survivor in survivors:
                lineage = survivor.lineage()
                if is_long(lineage, should):
                    missing, often = compared(lineage, derivations_of(should))
                    lacks(slice_id, survivor, missing)
                    doubled += ((survivor, d, count) for d, count in often)
                    continue
                if lineage == list(should):
                    continue
                had = set(lineage)
                if len(lineage) == len(should) and should.keys() == had:
                    continue
                lacks(slice_id, survivor, [derivation for derivation in should if derivation not in had])
                doubled += [(survivor, d, count) for d, count in Counter(lineage).items() if count > 1]
        lost = [(whose, missing) for whose, missing in lost if len(missing)]
        told = tally(Anomaly.DUPLICATE_EFFECT, len(doubled), (story.doubled(*one) for one in doubled))
        return _States(lost, told, frozenset(excused))

    @lazily
    def _wrong_states(self) -> Sequence[Evidence]:
        return list(wrong_states(self.reexecution))

    @lazily
    def unfaithful(self) -> Tally:
        found = self.reexecution.unfaithful
        return tally(Anomaly.UNFAITHFUL_SNAPSHOT, len(found), (one.evidence for one in found))

    @lazily
    def left_out(self) -> Tally:
        found = self.reexecution.left_out
        return tally(Anomaly.UNFAITHFUL_SNAPSHOT, len(found), (one.evidence for one in found), "left out of backups")

    # Outputs

    @lazily
    def lost_output(self) -> Tally:
        lost = _along_with(self._outputs.lost, self._told.never)
        # Where order does not matter, an execution without failures tells it; and so does an output that is missing.
        if lost.count or not order_matters(self.reexecution):
            return lost
        return _along_with(lost, list(find_untold(self.reexecution)))

    @lazily
    def untold(self) -> Tally:
        found = () if self.incomplete else list(find_untold(self.reexecution))
        return tally(Anomaly.LOST_INPUT, len(found), found, "of timers and ends of epochs")

    @lazily
    def _told(self) -> ToldByClock:
        return find_told(self.reexecution)

    @property
    def duplicate_outputs(self) -> Tally:
        return self._outputs.repeated

    @property
    def conflicting_outputs(self) -> Tally:
        return self._outputs.conflicting

    @property
    def superseded_outputs(self) -> Tally:
        return self._outputs.superseded

    @property
    def reordered(self) -> Tally:
        return self._outputs.reordered

    @property
    def reordered_repeats(self) -> Tally:
        return self._outputs.reordered_repeats

    @lazily
    def phantoms(self) -> Tally:
        made, states = self._outputs.phantoms, self._wrong_states
        made_up = [one.evidence for one in self._mistimed if one.made_up]
        return tally(made.anomaly, made.count + len(states) + len(made_up), (*states, *made_up, *made.sample), made.of)

    @lazily
    def _outputs(self) -> _Outputs:
        rerun, wanted, story = self.reexecution, self.wanted, self._story
        channels = [
            channel_count(rerun, channel, deliveries, wanted.delivered[channel])
            for channel, deliveries in rerun.deliveries.items()
            if channel.partition(">")[0] not in rerun.doubtful
        ]
        made_otherwise = [(one.channel, d) for one in channels for d in take_out_others(rerun, one)]

        def counted(
            anomaly: Anomaly,
            found: Callable[[ChannelCount | LongChannelCount], Sequence[tuple[Any, ...]]],
            tell: Callable[..., Evidence],
            of: str,
        ) -> Tally:
            count = sum([len(found(one)) for one in channels])
            if not count:
                return none_of(anomaly)
            return tally(anomaly, count, (tell(one.channel, *entry) for one in channels for entry in found(one)), of)

        return _Outputs(
            counted(Anomaly.LOST_INPUT, lambda one: one.lost, story.lost_output, "from outputs"),
            counted(Anomaly.DUPLICATE_OUTPUT, lambda one: one.repeated, story.repeated, ""),
            counted(Anomaly.PHANTOM_OUTPUT, lambda one: one.conflicting, story.repeated, "sent again as others"),
            counted(Anomaly.PHANTOM_OUTPUT, lambda one: one.superseded, story.superseded, "of a given-up order"),
            counted(Anomaly.PHANTOM_OUTPUT, lambda one: one.phantoms, story.phantom, "made of nothing taken"),
            counted(Anomaly.REORDERED_OUTPUT, lambda one: one.reordered, story.reordered, "of outputs"),
            counted(Anomaly.REORDERED_OUTPUT, lambda one: one.reordered_repeats, story.reordered, "of repetitions"),
            made_otherwise,
        )

    # Contents

    @lazily
    def lacking(self) -> Tally:
        return tally(Anomaly.LOST_INPUT, len(self._lacking), map(self._story.lacking, self._lacking), "from windows")

    @lazily
    def forgotten(self) -> Tally:
        found = [one for one in self._lacking if one.forgotten]
        return tally(Anomaly.LOST_INPUT, len(found), map(self._story.lacking, found), "from windows")

    @lazily
    def lost_in_order(self) -> tuple[Tally, ...]:
        lost = self.lost_state, self.lost_output, self.forgotten
        if order_matters(self.reexecution) or not any(tally.count for tally in lost):
            return lost
        other = _InItsOrder(self._history, self.reexecution, self._expect, self.observables)
        # What nobody told in the order of the run, that order does not show.
        return other.lost_state, other.lost_output, self.forgotten, self.untold

    @lazily
    def _lacking(self) -> Sequence[Lacking]:
        return find_lacking(self.reexecution, self.wanted)

    @lazily
    def altered(self) -> Tally:
        rerun, wanted, story, made_otherwise = self.reexecution, self.wanted, self._story, self._outputs.made_otherwise
        other_state: list[Evidence] = []
        altered: list[tuple[str, Sequence[tuple[DeliveredRow, Event]]]] = []
        if wanted.states and not self._wrong_otherwise:
            other_state += other_states(rerun, wanted)
            altered += (
                (channel, altered_outputs(deliveries, wanted.delivered[channel]))
                for channel, deliveries in rerun.deliveries.items()
                if channel.partition(">")[0] not in rerun.doubtful
            )
        return tally(
            Anomaly.PHANTOM_OUTPUT,
            sum(len(others) for _, others in altered) + len(other_state) + len(made_otherwise),
            chain(
                (story.made_otherwise(*one) for one in made_otherwise),
                other_state,
                (story.altered(channel, *one) for channel, others in altered for one in others),
            ),
            "others than without failures",
        )

    @lazily
    def compensated(self) -> Tally:
        found = list(compensations(self.reexecution))
        return tally(Anomaly.PHANTOM_OUTPUT, len(found), found, "of states that were moved")

    @property
    def _wrong_otherwise(self) -> bool:
        """What is wrong in another way makes others of what comes later, which is not told a second time."""
        states, outputs = self._states, self._outputs
        counts = (states.lost_count, states.doubled.count, outputs.lost.count, outputs.phantoms.count)
        return any(counts) or bool(self._lacking or self._wrong_states)

    # Orders

    @lazily
    def passed_over(self) -> Tally:
        found = [flaw.evidence for flaw in self._flaws if not flaw.disorder]
        return tally(Anomaly.LOST_INPUT, len(found), found, "passed over in channels")

    @lazily
    def disordered(self) -> Tally:
        found = [flaw.evidence for flaw in self._flaws if flaw.disorder]
        return tally(Anomaly.REORDERED_OUTPUT, len(found), found, "taken out of their channel's order")

    @lazily
    def _flaws(self) -> Sequence[Flaw]:
        return list(find_flaws(self.reexecution, not self.incomplete))

    @lazily
    def unmerged(self) -> Tally:
        found = [] if self.incomplete else list(find_unmerged(self.reexecution, self.wanted))
        return tally(Anomaly.REORDERED_OUTPUT, len(found), found, "taken out of the order of their merge")

    @lazily
    def mistimed(self) -> Tally:
        found = [one.evidence for one in self._mistimed if not one.made_up]
        return tally(Anomaly.REORDERED_OUTPUT, len(found), found, "of timers")

    @property
    def _mistimed(self) -> Iterator[Mistimed]:
        return (one for one in self.reexecution.mistimed if one.slice_id not in self.reexecution.doubtful)


class _InItsOrder(CollatedSlices):
    """By what the order of the run should have come to."""

    @lazily
    def wanted(self) -> Expected:
        return in_its_order(self.reexecution, self._expected)


def _along_with(counted: Tally, more: Sequence[Evidence]) -> Tally:
    return tally(counted.anomaly, counted.count + len(more), (*counted.sample, *more), counted.of) if more else counted
