"""What a history comes to, before any guarantee is asked: what is missing, doubled, unexplained or out of order.

Oracles read this, and never the records. A subject whose operators can be executed again is collated by re-execution; a
black box against reference runs (see `harness.judging.references`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..core.model import Event
from ..core.verdicts import Anomaly, Evidence, Tally, none_of, tally
from ..recording.history import History
from .channel_counts import altered_outputs, channel_count, take_out_others
from .completeness import why_inconclusive, why_stalled
from .contents import find_lacking
from .contiguity import find_flaws
from .expected import Expected
from .long_lineages import compared
from .made import derivations_of, is_long
from .ordering import as_ordered, find_unmerged
from .proven_faults import Faults
from .reexecution import Reexecution
from .reruns import Derivation, Output, Rerun
from .slice_story import SliceStory
from .state_counts import doubled_in_passing, other_states, still_needed, wrong_states


@dataclass(frozen=True)
class Collation:
    """Counts with bounded evidence. A count of 0 means that it was looked for and not found."""

    observables: tuple[str, ...]
    incomplete: str
    """Why nothing can be said to be lost; empty when the run came to its end and rest."""
    unproven: str
    """Why the faults cannot be said to have happened as planned; empty when each of them bit."""
    unjudgeable: str
    """Why the record itself cannot be trusted to be judged; empty when it explains itself. What is counted all the same
    is sure."""
    lost_state: Tally
    """Inputs that the final state does not hold."""
    lost_output: Tally
    """Inputs without the output that they should have had."""
    duplicate_effects: Tally
    """Inputs that the final state holds more than once, or that one which was replaced did when it was seen."""
    duplicate_outputs: Tally
    """Outputs delivered again, for the same input."""
    conflicting_outputs: Tally
    """Of those, the ones whose content differs from the first."""
    superseded_outputs: Tally
    """Outputs of an order of inputs that was given up, and of which the one that was kept makes others."""
    phantoms: Tally
    """Outputs and rows of state that no execution of what was taken gives."""
    reordered: Tally
    """Outputs delivered after a later one of their channel, in their sender's order, other than as a repetition."""
    reordered_repeats: Tally
    """Repetitions that came in another order than their sender's."""
    inputs: int
    """Events that were offered."""
    reexecution: Reexecution | None = None
    """Where the subject could be executed again."""
    wanted: Expected | None = None
    """What should have been taken and delivered then."""
    lacking: Tally = none_of(Anomaly.LOST_INPUT)
    """Inputs that are missing from outputs that they belong to, by their window or for ever."""
    forgotten: Tally = none_of(Anomaly.LOST_INPUT)
    """Of those, the ones that nobody took again though they were in the window still."""
    altered: Tally = none_of(Anomaly.PHANTOM_OUTPUT)
    """Outputs and rows of state that are others than without failures, where order does not matter."""
    passed_over: Tally = none_of(Anomaly.LOST_INPUT)
    """Pieces of channels that a receiver passed over without a crash."""
    disordered: Tally = none_of(Anomaly.REORDERED_OUTPUT)
    """Channels that an incarnation did not take in their order."""
    unmerged: Tally = none_of(Anomaly.REORDERED_OUTPUT)
    """Incarnations that did not take their channels in the order of their merge."""
    unfaithful: Tally = none_of(Anomaly.UNFAITHFUL_SNAPSHOT)
    """Checkpoints that do not give back the state that they were taken of."""
    stalled: str = ""
    """What the subject waits for in vain: it came to rest before its input was through, as the world has proven. Empty
    where it did not, or where that is not known."""
    doubt: str = ""
    """Why neither missing rows nor rows that are there too often show that an input was lost or counted twice; empty
    when they do. Of a black box without keys a wrong row can stand in the place of a missing one."""

    def tallies(self, *names: str) -> tuple[Tally, ...]:
        """The named tallies that count anything."""
        return tuple(t for name in names if (t := getattr(self, name)).count)


def collate_reexecution(history: History, rerun: Reexecution, expected: Expected) -> Collation:
    """Collate a history of slices. What is doubtful is left out: what is counted is sure, whatever else is not."""
    faults = Faults(history)
    wanted = as_ordered(rerun, expected)
    lost_state: list[tuple[Rerun | str, Sequence[Derivation]]] = []
    doubled: list[tuple[Rerun, Derivation, int]] = []
    for slice_id in rerun.stateful():
        if slice_id in rerun.doubtful:
            continue
        if len(rerun.reruns[slice_id]) > 1:
            doubled += doubled_in_passing(rerun, slice_id)
        should = wanted.taken[slice_id]
        survivors = rerun.survivors(slice_id)
        if not survivors:
            lost_state.append((slice_id, derivations_of(should)))
        for survivor in survivors:
            lineage = survivor.lineage()
            if is_long(lineage, should):
                missing, often = compared(lineage, derivations_of(should))
                lost_state.append((survivor, still_needed(rerun, slice_id, missing, should)))
                doubled += ((survivor, d, count) for d, count in often)
                continue
            if lineage == list(should):
                continue
            seen = set(lineage)
            if len(lineage) == len(should) and should.keys() == seen:
                continue
            missing = [derivation for derivation in should if derivation not in seen]
            lost_state.append((survivor, still_needed(rerun, slice_id, missing, should)))
            doubled += [(survivor, d, count) for d, count in Counter(lineage).items() if count > 1]
    lost_inputs = sum(len(missing) for _, missing in lost_state)

    channels = [
        channel_count(rerun, channel, deliveries, wanted.delivered[channel])
        for channel, deliveries in rerun.deliveries.items()
        if channel.partition(">")[0] not in rerun.doubtful
    ]
    made_otherwise = [(one.channel, d) for one in channels for d in take_out_others(rerun, one)]
    wrong_state = list(wrong_states(rerun))
    incomplete = why_inconclusive(history, rerun)
    flaws = list(find_flaws(rerun, not incomplete))
    disordered = [flaw.evidence for flaw in flaws if flaw.disorder]
    unmerged = [] if incomplete else list(find_unmerged(rerun, wanted))
    passed_over = [flaw.evidence for flaw in flaws if not flaw.disorder]
    lacking = find_lacking(rerun, wanted)
    forgotten = [one for one in lacking if one.forgotten]
    other_state: list[Evidence] = []
    altered: list[tuple[str, Sequence[tuple[Output, Event]]]] = []
    wrong = lost_inputs or doubled or lacking or wrong_state or any(one.lost or one.phantoms for one in channels)
    if wanted.states and not wrong:
        # What is wrong in another way makes others of what comes later, which is not told a second time.
        other_state += other_states(rerun, wanted)
        for one in channels:
            deliveries, should = rerun.deliveries[one.channel], wanted.delivered[one.channel]
            altered.append((one.channel, altered_outputs(deliveries, should, one.long)))
    unjudgeable = next(iter(rerun.unexplained.values()), "") or expected.false_word
    story = SliceStory(rerun, wanted, faults)

    def counted(name: str, anomaly: Anomaly, tell: Callable[..., Evidence]) -> Tally:
        count = sum(len(getattr(one, name)) for one in channels)
        return tally(anomaly, count, (tell(one.channel, *entry) for one in channels for entry in getattr(one, name)))

    phantoms = ((one.channel, output) for one in channels for (output,) in one.phantoms)
    return Collation(
        observables=("outputs", "state"),
        incomplete=incomplete,
        stalled=why_stalled(history),
        unproven=faults.unproven,
        unjudgeable=unjudgeable,
        lost_state=tally(
            Anomaly.LOST_INPUT,
            lost_inputs,
            (story.lost(survivor, derivation) for survivor, missing in lost_state for derivation in missing),
        ),
        lost_output=counted("lost", Anomaly.LOST_INPUT, story.lost_output),
        duplicate_effects=tally(Anomaly.DUPLICATE_EFFECT, len(doubled), (story.doubled(*one) for one in doubled)),
        duplicate_outputs=counted("repeated", Anomaly.DUPLICATE_OUTPUT, story.repeated),
        conflicting_outputs=counted("conflicting", Anomaly.PHANTOM_OUTPUT, story.repeated),
        superseded_outputs=counted("superseded", Anomaly.PHANTOM_OUTPUT, story.superseded),
        phantoms=tally(
            Anomaly.PHANTOM_OUTPUT,
            sum(len(one.phantoms) for one in channels) + len(wrong_state),
            _chain(wrong_state, (story.phantom(*one) for one in phantoms)),
        ),
        reordered=counted("reordered", Anomaly.REORDERED_OUTPUT, story.reordered),
        reordered_repeats=counted("reordered_repeats", Anomaly.REORDERED_OUTPUT, story.reordered),
        inputs=sum(len(events) for events in rerun.offered.values()),
        reexecution=rerun,
        wanted=wanted,
        lacking=tally(Anomaly.LOST_INPUT, len(lacking), map(story.lacking, lacking)),
        forgotten=tally(Anomaly.LOST_INPUT, len(forgotten), map(story.lacking, forgotten)),
        altered=tally(
            Anomaly.PHANTOM_OUTPUT,
            sum(len(others) for _, others in altered) + len(other_state) + len(made_otherwise),
            _chain(
                (story.made_otherwise(*one) for one in made_otherwise),
                other_state,
                (story.altered(channel, *one) for channel, others in altered for one in others),
            ),
        ),
        passed_over=tally(Anomaly.LOST_INPUT, len(passed_over), passed_over),
        disordered=tally(Anomaly.REORDERED_OUTPUT, len(disordered), disordered),
        unmerged=tally(Anomaly.REORDERED_OUTPUT, len(unmerged), unmerged),
        unfaithful=tally(
            Anomaly.UNFAITHFUL_SNAPSHOT, len(rerun.unfaithful), (one.evidence for one in rerun.unfaithful)
        ),
    )


def _chain(*parts: Iterable[Evidence]) -> Iterator[Evidence]:
    for part in parts:
        yield from part
