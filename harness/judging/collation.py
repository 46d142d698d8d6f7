"""What a history comes to, before any guarantee is asked: what is missing, doubled, unexplained or out of order.

Oracles read this, and never the records. A subject whose operators can be executed again is collated by re-execution; a
black box against reference runs (see `harness.judging.references`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING

from ..core.model import Event, operator_of, rows_of
from ..core.verdicts import Anomaly, Evidence, Tally, none_of, tally
from ..recording.history import Aborted, FaultMissed, FaultStruck, History, Stalled
from .contents import Lacking, find_lacking
from .contiguity import find_flaws
from .exactness import other_keys, same_content, same_events
from .lives import still_there
from .long_lineages import compared, has_twice, needed
from .made import derivations_of, is_long
from .ordering import as_ordered, find_unmerged
from .packed import CHUNK
from .reexecution import Expected, Reexecution
from .reruns import DeliveredRow, Deliveries, Delivery, Derivation, Rerun

if TYPE_CHECKING:
    from .long_channels import LongChannelCount
    from .shapes import OutputShape


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
    shape: OutputShape | None = None
    """Of what a query puts out; None of any other subject."""

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
            doubled += _doubled_in_passing(rerun, slice_id)
        should = wanted.taken[slice_id]
        survivors = rerun.survivors(slice_id)
        if not survivors:
            lost_state.append((slice_id, derivations_of(should)))
        for survivor in survivors:
            lineage = survivor.lineage()
            if is_long(lineage, should):
                missing, often = compared(lineage, derivations_of(should))
                lost_state.append((survivor, _still_needed(rerun, slice_id, missing, should)))
                doubled += ((survivor, d, count) for d, count in often)
                continue
            if lineage == list(should):
                continue
            seen = set(lineage)
            if len(lineage) == len(should) and should.keys() == seen:
                continue
            missing = [derivation for derivation in should if derivation not in seen]
            lost_state.append((survivor, _still_needed(rerun, slice_id, missing, should)))
            doubled += [(survivor, d, count) for d, count in Counter(lineage).items() if count > 1]
    lost_inputs = sum(len(missing) for _, missing in lost_state)

    channels = [
        _channel_count(rerun, channel, deliveries, wanted.delivered[channel])
        for channel, deliveries in rerun.deliveries.items()
        if channel.partition(">")[0] not in rerun.doubtful
    ]
    made_otherwise = [(one.channel, d) for one in channels for d in _made_otherwise(rerun, one)]
    wrong_state = list(_wrong_state(rerun))
    incomplete = _incomplete(history, rerun)
    flaws = list(find_flaws(rerun, not incomplete))
    disordered = [flaw.evidence for flaw in flaws if flaw.disorder]
    unmerged = [] if incomplete else list(find_unmerged(rerun, wanted))
    passed_over = [flaw.evidence for flaw in flaws if not flaw.disorder]
    lacking = find_lacking(rerun, wanted)
    forgotten = [one for one in lacking if one.forgotten]
    other_state: list[Evidence] = []
    altered: list[tuple[str, Sequence[tuple[DeliveredRow, Event]]]] = []
    wrong = lost_inputs or doubled or lacking or wrong_state or any(one.lost or one.phantoms for one in channels)
    if wanted.states and not wrong:
        # What is wrong in another way makes others of what comes later, which is not told a second time.
        other_state += _other_state(rerun, wanted)
        for one in channels:
            deliveries, should = rerun.deliveries[one.channel], wanted.delivered[one.channel]
            altered.append((one.channel, _altered(deliveries, should, one.long)))
    unjudgeable = next(iter(rerun.unexplained.values()), "") or expected.false_word
    story = _Story(rerun, wanted, faults)

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


def _doubled_in_passing(rerun: Reexecution, slice_id: str) -> Iterator[tuple[Rerun, Derivation, int]]:
    """What an incarnation that is gone had taken more than once when its last visible effect came of it, and no final
    state holds more than once."""
    survivors = rerun.survivors(slice_id)
    found: dict[Derivation, tuple[Rerun, Derivation, int]] = {}
    for _, one in sorted(rerun.reruns[slice_id].items()):
        if one in survivors or not (has_twice(one.took) or has_twice(one.lineage())):
            continue
        for visible in rerun.visible(one):
            for derivation, count in Counter(one.lineage(visible)).items():
                if count > 1:
                    found.setdefault(derivation, (one, derivation, count))
    if not found:
        return
    final = [Counter(survivor.lineage()) for survivor in survivors]
    yield from (entry for derivation, entry in found.items() if all(seen[derivation] < 2 for seen in final))


def _still_needed(
    rerun: Reexecution, slice_id: str, missing: Sequence[Derivation], should: Mapping[Derivation, Event]
) -> Sequence[Derivation]:
    """Those of the inputs that a final state does not hold which it has to: not what was taken in its time, and has
    left the operator's window since."""
    window = rerun.topology.stages[operator_of(slice_id)].operator.window
    if window is None or not missing:
        return missing
    if is_long(should):
        return needed(missing, should, window, [one.took for one in rerun.reruns[slice_id].values()])
    now = max(event.time for event in should.values())
    taken: set[Derivation] = set()
    for one in rerun.reruns[slice_id].values():
        taken.update(one.took)
    return [d for d in missing if should[d].time + window > now or d not in taken]


def _channel_count(
    rerun: Reexecution, channel: str, deliveries: Deliveries, wanted: Mapping[Derivation, Event]
) -> _ChannelCount | LongChannelCount:
    if deliveries.count > CHUNK or is_long(wanted):
        from .long_channels import LongChannelCount

        return LongChannelCount(rerun, channel, deliveries, wanted)
    return _ChannelCount(rerun, channel, deliveries, wanted)


class _ChannelCount:
    """What a channel into a sink comes to."""

    long = False

    def __init__(
        self,
        rerun: Reexecution,
        channel: str,
        deliveries: Sequence[Delivery],
        wanted: Mapping[Derivation, Event],
    ) -> None:
        self.channel = channel
        self.lost: list[tuple[Derivation]] = []
        self.repeated: list[tuple[DeliveredRow, DeliveredRow]] = []
        self.conflicting: list[tuple[DeliveredRow, DeliveredRow]] = []
        self.superseded: list[tuple[DeliveredRow]] = []
        self.phantoms: list[tuple[DeliveredRow]] = []
        self.reordered: list[tuple[DeliveredRow]] = []
        self.reordered_repeats: list[tuple[DeliveredRow]] = []
        if not _is_as_expected(deliveries, wanted):
            self._count(rerun, deliveries, wanted)

    def _count(self, rerun: Reexecution, deliveries: Sequence[Delivery], wanted: Mapping[Derivation, Event]) -> None:
        upstream, _, sink = self.channel.partition(">")
        senders = rerun.reruns.get(upstream, {})
        speaking = {delivery.record.incarnation for delivery in deliveries}
        places = {
            number: {derivation: place for place, derivation in enumerate(senders[number].channel(sink)[1])}
            for number in speaking & senders.keys()
        }
        highest = dict.fromkeys(places, -1)
        """Sender -> the place, in its order, of the last output that was delivered, whoever sent it."""
        latest: dict[int, int] = {}
        """Replica -> the last of its incarnations that was heard."""
        first: dict[Derivation, DeliveredRow] = {}
        repeats = _Repeats(places)
        for output in (output for delivery in deliveries for output in delivery.outputs()):
            derivation = output.derivation
            if derivation is None:
                self.phantoms.append((output,))
                continue
            number = output.incarnation
            repeats.hear(output)
            earlier = first.setdefault(derivation, output)
            if earlier is not output:
                self.repeated.append((earlier, output))
                continue
            replica = senders[number].replica if number in senders else 0
            late = places[number].get(derivation, sys.maxsize) < highest[number] if number in places else False
            if late or number < latest.get(replica, 0):
                self.reordered.append((output,))
            latest[replica] = max(number, latest.get(replica, 0))
            for one, known in places.items():
                highest[one] = max(highest[one], known.get(derivation, -1))
        self.lost = [(derivation,) for derivation in wanted if derivation not in first]
        self.conflicting = [(one, other) for one, other in self.repeated if not _says_the_same(one, other)]
        again = {id(later) for _, later in self.repeated}
        openings = Counter(
            (opening.record.slice, opening.record.incarnation)
            for opening in rerun.openings
            if opening.record.downstream == sink
        )
        for number, found in repeats.descending.items():
            reopened = max(0, openings[upstream, number] - 1)
            self.reordered_repeats += [(output,) for output in found[reopened:] if id(output) in again]
        self.superseded = [(output,) for output in _superseded(rerun, upstream, sink, first, wanted)]


def _made_otherwise(rerun: Reexecution, one: _ChannelCount | LongChannelCount) -> list[Derivation]:
    """Of the outputs that were not delivered, take out those that belong to the end of an epoch to which every survivor
    came, and of what it had taken made others: they were not lost on their way."""
    upstream, _, sink = one.channel.partition(">")
    if upstream not in rerun.epochs or not len(one.lost):
        return []
    survivors = rerun.survivors(upstream)
    ended = set.intersection(*(survivor.roots() for survivor in survivors)) if survivors else set()
    made = {d for survivor in survivors for d in survivor.channel(sink)[1]}
    found = [d for (d,) in one.lost if d[:-1] in ended and d not in made]
    others = set(found)
    one.lost = [(d,) for (d,) in one.lost if d not in others]
    return found


class _Repeats:
    """Whether each sender repeats outputs in its order: it goes back in it only when the channel is opened again."""

    def __init__(self, places: Mapping[int, Mapping[Derivation, int]]) -> None:
        self._places = places
        self._highest = dict.fromkeys(places, -1)
        self._heard: dict[int, set[Derivation]] = {number: set() for number in places}
        self._repeating: dict[int, int] = {}
        """Sender -> the place of what it sent last, if that was not for the first time."""
        self.descending: dict[int, list[DeliveredRow]] = {number: [] for number in places}

    def hear(self, output: DeliveredRow) -> None:
        number, derivation = output.incarnation, output.derivation
        place = self._places.get(number, {}).get(derivation) if derivation is not None else None
        if place is None or derivation is None:
            return
        if derivation not in self._heard[number]:
            self._heard[number].add(derivation)
            before = self._highest[number]
            self._highest[number] = max(before, place)
            self._repeating.pop(number, None)
        else:
            before = self._repeating.get(number, -1)
            self._repeating[number] = place
        if place <= before:
            self.descending[number].append(output)


def _superseded(
    rerun: Reexecution,
    upstream: str,
    sink: str,
    first: Mapping[Derivation, DeliveredRow],
    wanted: Mapping[Derivation, Event],
) -> Iterator[DeliveredRow]:
    """Outputs of an order that was given up: what survives has taken the input too, and makes no such output of it.
    That what survives came to the end of an epoch does not say that it had taken what was in it: what should have been
    made there is right."""
    survivors = rerun.survivors(upstream) if upstream in rerun.reruns else ()
    made = [set(survivor.channel(sink)[1]) for survivor in survivors]
    given_up = [d for d in first if made and all(d not in known for known in made)]
    if given_up:
        had = [{*survivor.lineage(), *survivor.roots()} for survivor in survivors]
        others = (d for d in given_up if all(d[:-1] in known for known in had))
        yield from (first[d] for d in others if d[0] not in rerun.epochs or d not in wanted)


def _altered(
    deliveries: Deliveries, wanted: Mapping[Derivation, Event], long: bool
) -> Sequence[tuple[DeliveredRow, Event]]:
    """Outputs of which no copy is what its input gives without failures, each beside what that is."""
    if long:
        from .long_channels import altered

        return altered(deliveries, wanted)
    if _are_these(deliveries, wanted):
        return ()
    wrong: dict[Derivation, DeliveredRow] = {}
    right: set[Derivation] = set()
    for delivery in deliveries:
        for event, derivation in zip(delivery.record.rows, delivery.derivations, strict=True):
            should = None if derivation is None else wanted.get(derivation)
            if derivation is None or should is None:
                continue
            if same_content(event, should):
                if wrong:
                    wrong.pop(derivation, None)
                right.add(derivation)
            elif derivation not in right:
                wrong.setdefault(derivation, DeliveredRow(event, derivation, delivery.record.incarnation, delivery.at))
    return [(output, wanted[derivation]) for derivation, output in wrong.items()]


def _are_these(deliveries: Deliveries, wanted: Mapping[Derivation, Event]) -> bool:
    """Whether just these events were delivered, in this order and with these numbers, as in most histories of a
    search."""
    rows, should = [row for delivery in deliveries for row in delivery.record.rows], list(wanted.values())
    if rows != should or not same_events(rows, should):
        return False
    return [derivation for delivery in deliveries for derivation in delivery.derivations] == list(wanted)


def _other_state(rerun: Reexecution, wanted: Expected) -> Iterator[Evidence]:
    """States at the end that are others than without failures."""
    for slice_id, rows in wanted.states.items():
        kept = rerun.kept.get(slice_id, {})
        for survivor in rerun.survivors(slice_id) if slice_id not in rerun.doubtful else ():
            held = kept.get(survivor.number)
            if held is not None and (others := other_keys(held, rows)):
                key = others[0]
                was, should = (repr(one[key]) if key in one else "not there" for one in (held, rows))
                yield Evidence(
                    f"state of key {key!r} is {was}, and {should} without failures", f"{slice_id}#{survivor.number}"
                )


def _says_the_same(one: DeliveredRow, other: DeliveredRow) -> bool:
    return same_content(one.event, other.event)


def _is_as_expected(deliveries: Sequence[Delivery], expected: Mapping[Derivation, Event]) -> bool:
    """Whether everything was delivered once, in order: most of the histories of a search."""
    seen = [derivation for delivery in deliveries for derivation in delivery.derivations]
    if seen != list(expected):
        if len(seen) != len(expected) or expected.keys() != set(seen):
            return False
        # Numbers tell an order among those of one sender only.
        if len({delivery.record.incarnation for delivery in deliveries}) > 1:
            return False
    seqs = [event.seq for delivery in deliveries for event in delivery.record.rows]
    return all(map(lt, seqs, islice(seqs, 1, None)))


def _chain(*parts: Iterable[Evidence]) -> Iterator[Evidence]:
    for part in parts:
        yield from part


def _incomplete(history: History, rerun: Reexecution) -> str:
    reason = why_incomplete(history)
    if reason:
        return reason
    missing = [s for s in rerun.topology.operator_slices if s not in rerun.kept]
    if missing:
        return f"the state of {', '.join(missing)} was not recorded at the end"
    for slice_id, states in rerun.kept.items():
        alive = [rerun.reruns[slice_id][number] for number in states if number in rerun.reruns[slice_id]]
        for one in alive:
            if rerun.replaced(one):
                return f"the state of {slice_id} was recorded of incarnation {one.number}, which is not its last"
        in_step = rerun.in_step.get(slice_id)
        if in_step is not None and all(one.number not in in_step for one in alive):
            return f"no replica of {slice_id} was in step at the end"
    return _unseen(history, rerun)


def _unseen(history: History, rerun: Reexecution) -> str:
    """Which incarnation was there at the end, and left no record of what it kept: one that works, or that is in step
    where all replicas work."""
    running = still_there(history)
    for slice_id, reruns in rerun.reruns.items():
        for number in sorted(reruns.keys() - rerun.kept[slice_id].keys()):
            works = reruns[number].took or slice_id in rerun.all_work
            in_step = rerun.in_step.get(slice_id)
            if (slice_id, number) in running and works and (in_step is None or number in in_step):
                return f"{slice_id}#{number} was there at the end, and what it kept was not recorded"
    return ""


def why_incomplete(history: History) -> str:
    """Why a history cannot show that something was lost; empty when it can."""
    for entry in history.timeline:
        if isinstance(entry, Aborted):
            return entry.why
        if isinstance(entry, Stalled):
            return f"stall: {entry.waiting_for}"
    if not history.sealed:
        return "the run ended before its records were sealed"
    if not history.drained:
        return "stall: the end of the input did not pass through"
    return ""


def why_stalled(history: History) -> str:
    """What a subject waits for in vain; empty where it is not proven to."""
    return next((entry.waiting_for for entry in history.timeline if isinstance(entry, Stalled)), "")


def _wrong_state(rerun: Reexecution) -> Iterator[Evidence]:
    for slice_id, states in rerun.kept.items():
        if slice_id in rerun.doubtful:
            continue
        operator = rerun.topology.stages[operator_of(slice_id)].operator
        for incarnation, rows in states.items():
            given = rows_of(operator, rerun.reruns[slice_id][incarnation].state)
            for key in other_keys(rows, given):
                was, gives = (repr(r[key]) if key in r else "not there" for r in (rows, given))
                yield Evidence(
                    f"state of key {key!r} is {was}, but what was taken gives {gives}",
                    f"{slice_id}#{incarnation}",
                )


class Faults:
    """What a history proves about its faults."""

    def __init__(self, history: History) -> None:
        self._struck = sorted(history.struck(), key=lambda struck: struck.stamp.at)
        self.unproven = self._unproven(history)

    def _unproven(self, history: History) -> str:
        for entry in history.timeline:
            if isinstance(entry, FaultMissed):
                return f"the trigger of fault {entry.number + 1} never came: {entry.fault}"
        for struck in self._struck:
            if not struck.bite.bit:
                return f"fault {struck.number + 1} did not bite ({struck.fault}): {struck.bite.why_not}"
        return ""

    def before(self, at: int) -> int | None:
        """The last fault that struck before a time."""
        return next((s.number for s in reversed(self._struck) if s.stamp.at <= at), None)

    def of(self, actors: Sequence[str]) -> FaultStruck | None:
        """The first fault that hit one of these, else the first of all."""
        hit = (s for s in self._struck if any(actor in s.bite.actors for actor in actors))
        return next(hit, next(iter(self._struck), None))


class _Story:
    """Puts an anomaly into words: which input, which slice, when, after which fault."""

    def __init__(self, rerun: Reexecution, wanted: Expected, faults: Faults) -> None:
        self._rerun = rerun
        self._wanted = wanted
        self._faults = faults

    def _input(self, derivation: Derivation, event: Event | None) -> str:
        what = "" if event is None else f" ({event.key!r}, {event.value!r})"
        return f"{self._rerun.said(derivation)}{what}"

    def lost(self, survivor: Rerun | str, derivation: Derivation) -> Evidence:
        slice_id = survivor if isinstance(survivor, str) else survivor.slice_id
        event = self._wanted.taken[slice_id].get(derivation)
        takers = [r for r in self._rerun.reruns[slice_id].values() if derivation in r.took]
        fault = self._faults.of((slice_id, *self._rerun.topology.upstream(slice_id)))
        fate = (
            "never taken"
            if not takers
            else f"taken by incarnation {', '.join(str(t.number) for t in takers)} and not restored"
        )
        at = tuple(time for taker in takers for time in self._rerun.took_at(taker, derivation))
        where = survivor if isinstance(survivor, str) else self._where(survivor)
        return Evidence(f"{self._input(derivation, event)}: {fate}", where, at, None if fault is None else fault.number)

    def _where(self, rerun: Rerun) -> str:
        """The slice, where it is clear which of its incarnations is meant."""
        survivors = self._rerun.survivors(rerun.slice_id)
        return rerun.slice_id if survivors == (rerun,) else f"{rerun.slice_id}#{rerun.number}"

    def lost_output(self, channel: str, derivation: Derivation) -> Evidence:
        event = self._wanted.delivered[channel].get(derivation)
        upstream = channel.partition(">")[0]
        fault = self._faults.of((upstream, *self._rerun.topology.upstream(upstream)))
        where = None if fault is None else fault.number
        return Evidence(f"{self._input(derivation, event)}: its output was never delivered", channel, (), where)

    def doubled(self, rerun: Rerun, derivation: Derivation, count: int) -> Evidence:
        slice_id = rerun.slice_id
        event = self._wanted.taken[slice_id].get(derivation)
        reruns = self._rerun.reruns[slice_id].values()
        at = tuple(time for other in reruns for time in self._rerun.took_at(other, derivation))
        fault = self._faults.before(at[-1]) if at else None
        return Evidence(f"{self._input(derivation, event)}: counts {count} times", self._where(rerun), at, fault)

    def repeated(self, channel: str, earlier: DeliveredRow, later: DeliveredRow) -> Evidence:
        said = f"({later.event.key!r}, {later.event.value!r})"
        if not _says_the_same(earlier, later):
            said = f"({earlier.event.key!r}, {earlier.event.value!r}), then {said}"
        return Evidence(
            f"{later.event.source} #{later.event.seq:,} {said}",
            channel,
            (earlier.at, later.at),
            self._faults.before(later.at),
        )

    def phantom(self, channel: str, output: DeliveredRow) -> Evidence:
        return Evidence(
            f"{output.event.source}#{output.incarnation} #{output.event.seq:,} "
            f"({output.event.key!r}, {output.event.value!r}): nothing that it took gives this",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )

    def lacking(self, one: Lacking) -> Evidence:
        event = self._wanted.taken[one.of].get(one.missing)
        after = "nobody took it again" if one.forgotten else "it was not there when that was made"
        fault = self._faults.of((one.of, *self._rerun.topology.upstream(one.of)))
        return Evidence(
            f"{self._input(one.missing, event)}: missing from the output of {self._rerun.said(one.output)}, to which "
            f"it belongs; {after}",
            one.channel,
            (),
            None if fault is None else fault.number,
        )

    def altered(self, channel: str, output: DeliveredRow, should: Event) -> Evidence:
        return Evidence(
            f"{output.event.source}#{output.incarnation} #{output.event.seq:,} "
            f"({output.event.key!r}, {output.event.value!r}); "
            f"without failures it is ({should.key!r}, {should.value!r})",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )

    def made_otherwise(self, channel: str, derivation: Derivation) -> Evidence:
        should = self._wanted.delivered[channel][derivation]
        return Evidence(
            f"{self._rerun.said(derivation)}: what was taken in it gives other outputs; without failures one is "
            f"({should.key!r}, {should.value!r})",
            channel,
        )

    def superseded(self, channel: str, output: DeliveredRow) -> Evidence:
        return Evidence(
            f"{output.event.source}#{output.incarnation} #{output.event.seq:,} "
            f"({output.event.key!r}, {output.event.value!r}): in the order that survives it is not made",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )

    def reordered(self, channel: str, output: DeliveredRow) -> Evidence:
        return Evidence(
            f"{output.event.source} #{output.event.seq:,} ({output.event.key!r}, {output.event.value!r}) "
            "came after a later one",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )
