"""Runs a recorded history again: run(pi), what the operators give for the order in which inputs were taken.

A history says for each incarnation of a slice from which checkpoint it started and in which order it took which events.
Operators are pure, so that is enough to compute, slice by slice from the sources on, everything that each incarnation
emitted and what it held at every checkpoint, without looking at what was delivered.

Every event gets its *derivation*: the source event at its root, then at each hop which of the outputs it was. It
names the event across incarnations, renumberings and replays, and so carries the lineage of state and outputs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any

import msgspec

from ..errors import InvalidOperator
from ..model import PLAIN, Event, Role, Topology, Value, carried, channel_name, operator_of
from ..recording.records import CheckpointTaken, Delivered, Kept, Offered, Stamped, Started, Taken
from ..slices.machine import SliceSpec

Derivation = tuple[Any, ...]
"""(source slice, seq, index of the output at each further hop)."""


@dataclass(slots=True)
class Emissions:
    """What one incarnation put on one channel itself, in order."""

    events: list[Event] = field(default_factory=list)
    derivations: list[Derivation] = field(default_factory=list)

    def between(self, first: int, last: int) -> tuple[list[Event], list[Derivation]]:
        """What is numbered from `first` to `last`."""
        low = bisect_left(self.events, first, key=_seq)
        high = bisect_right(self.events, last, low, key=_seq)
        return self.events[low:high], self.derivations[low:high]


def _seq(event: Event) -> int:
    return event.seq


@dataclass(frozen=True, slots=True)
class Intake:
    """Consecutive events that an incarnation took from one channel."""

    record: Taken
    seqs: list[int]


@dataclass(frozen=True, slots=True)
class Cut:
    """Where in an incarnation a checkpoint was taken."""

    position: int
    """How many events it had taken itself."""
    state: Any
    """The operator's own snapshot of its state."""
    next_seq: int
    """The number of the next output then."""


@dataclass(slots=True)
class Rerun:
    """One incarnation of a slice, executed again."""

    slice_id: str
    number: int
    parent: Rerun | None
    """The incarnation whose checkpoint it started from; None: blank."""
    parent_cut: int
    """How many of the events that `parent` took itself were in that checkpoint."""
    first_seq: int
    """The number of its first own output; what it replays with a lower one was made by `parent`."""
    next_seq: int
    """The number of its next own output."""
    inherited: int = 0
    """The number of the last output that was made before that checkpoint."""
    state: Any = None
    took: list[Derivation] = field(default_factory=list)
    """What it took itself, in order."""
    intakes: list[Intake] = field(default_factory=list)
    """The same, batch by batch."""
    emitted: dict[str, Emissions] = field(default_factory=dict)
    cuts: dict[int, Cut] = field(default_factory=dict)

    def lineage(self, upto: int | None = None) -> list[Derivation]:
        """Everything that has gone into its state, in order, through all the checkpoints that it descends from."""
        own = self.took if upto is None else self.took[:upto]
        return own if self.parent is None else self.parent.lineage(self.parent_cut) + own

    def channel(self, to: str, first: int, last: int) -> tuple[list[Event], list[Derivation]]:
        """What it can send to `to` with numbers from `first` to `last`, inherited output log included."""
        own = self.emitted[to].between(max(first, self.first_seq), last)
        if first >= self.first_seq or self.parent is None:
            return own
        events, derivations = self.parent.channel(to, first, min(last, self.inherited))
        return events + own[0], derivations + own[1]


@dataclass(frozen=True, slots=True)
class Output:
    """One delivered row, and what made it (None: nothing that was taken does)."""

    event: Event
    derivation: Derivation | None
    incarnation: int
    at: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """Rows that were delivered together, each beside what made it."""

    record: Delivered
    at: int
    derivations: Sequence[Derivation | None]

    def outputs(self) -> Iterator[Output]:
        for event, derivation in zip(self.record.rows, self.derivations, strict=True):
            yield Output(event, derivation, self.record.incarnation, self.at)


@dataclass(frozen=True)
class Reexecution:
    """A whole history, executed again."""

    topology: Topology
    offered: Mapping[str, Sequence[Event]]
    reruns: Mapping[str, Mapping[int, Rerun]]
    """Operator slice -> incarnation -> its rerun."""
    deliveries: Mapping[str, Sequence[Delivery]]
    """Channel into a sink -> O, in the order of delivery."""
    kept: Mapping[str, tuple[int, Mapping[str, Value]]]
    """Operator slice -> (incarnation, rows) as recorded at the end: T."""
    unexplained: Sequence[str]
    """What the records say was taken that, by the same records, nobody sent."""
    books: Mapping[str, Sequence[Started | Taken | CheckpointTaken]]
    """Slice -> its records."""
    times: Mapping[str, Sequence[int]]
    """Slice -> when the recorder took each of them."""

    def started_at(self, rerun: Rerun) -> int:
        """When an incarnation began."""
        return next(
            at
            for record, at in zip(self.books[rerun.slice_id], self.times[rerun.slice_id], strict=True)
            if isinstance(record, Started) and record.incarnation == rerun.number
        )

    def took_at(self, rerun: Rerun, derivation: Derivation) -> list[int]:
        """When an incarnation took this, each time that it did."""
        batches = (
            (record.count, at)
            for record, at in zip(self.books[rerun.slice_id], self.times[rerun.slice_id], strict=True)
            if isinstance(record, Taken) and record.incarnation == rerun.number
        )
        spread = (at for count, at in batches for _ in range(count))
        return [at for at, taken in zip(spread, rerun.took, strict=False) if taken == derivation]

    def visible(self, rerun: Rerun) -> int:
        """How many of the events that an incarnation took itself had a visible effect (delivered, or taken
        downstream), the last of them included."""
        last = 0
        for to, emissions in rerun.emitted.items():
            seqs = [
                seq
                for other in self.reruns.get(to, {}).values()
                for intake in other.intakes
                if (intake.record.upstream, intake.record.upstream_incarnation) == (rerun.slice_id, rerun.number)
                for seq in intake.seqs
            ]
            seqs += [
                event.seq
                for delivery in self.deliveries.get(channel_name(rerun.slice_id, to), ())
                if delivery.record.incarnation == rerun.number
                for event in delivery.record.rows
            ]
            if seqs:
                last = max(last, _taken_for(emissions.between(0, max(seqs))[1], rerun.took))
        return last

    def survivor(self, slice_id: str) -> Rerun | None:
        """The last incarnation: the one whose state is T."""
        reruns = self.reruns[slice_id]
        return reruns[max(reruns)] if reruns else None

    def stateful(self) -> Iterator[str]:
        """The operator slices that keep something."""
        for slice_id in self.topology.operator_slices:
            if self.topology.stages[operator_of(slice_id)].operator.initial_state() is not None:
                yield slice_id


def _taken_for(made: Sequence[Derivation], took: Sequence[Derivation]) -> int:
    """How many of the events taken it needs to make these outputs of one channel; an event can be taken twice."""
    place, index = -1, -1
    for derivation in made:
        if place < 0 or took[place] != derivation[:-1] or derivation[-1] <= index:
            place = took.index(derivation[:-1], place + 1)
        index = derivation[-1]
    return place + 1


_Book = list[Started | Taken | CheckpointTaken]
"""The records of one slice, in order: all that its re-execution depends on, beside what its channels hold."""


class Recall:
    """Reruns of slices that no fault touched, kept for the next history in which they did the same.

    In a search nearly every history has them: the same input, taken in the same order, by slices that were not hit.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Book | list[Event], list[dict[int, Rerun]], dict[int, Rerun]]] = {}

    def find(
        self, slice_id: str, book: _Book | list[Event], upstream: list[dict[int, Rerun]]
    ) -> dict[int, Rerun] | None:
        """What the slice did, if it was given the same by the same."""
        if slice_id not in self._known:
            return None
        known_book, known_upstream, reruns = self._known[slice_id]
        same = len(upstream) == len(known_upstream) and all(map(is_, upstream, known_upstream))
        return reruns if same and book == known_book else None

    def keep(
        self,
        slice_id: str,
        book: _Book | list[Event],
        upstream: list[dict[int, Rerun]],
        reruns: dict[int, Rerun],
    ) -> None:
        if slice_id not in self._known and len(reruns) == 1:
            self._known[slice_id] = (book, upstream, reruns)


def reexecute(specs: Sequence[SliceSpec], records: Sequence[Stamped], recall: Recall | None = None) -> Reexecution:
    """Execute a history again. Whatever the user's code raises comes through: it did not raise in the run."""
    topology = specs[0].topology
    offered: dict[str, list[Event]] = {spec.slice_id: [] for spec in specs if spec.role is Role.SOURCE}
    entries: dict[str, list[tuple[int, Started | Taken | CheckpointTaken]]] = {spec.slice_id: [] for spec in specs}
    delivered: list[tuple[int, Delivered]] = []
    kept: dict[str, tuple[int, Mapping[str, Value]]] = {}
    for stamped in records:
        record = stamped.record
        if isinstance(record, (Taken, Started, CheckpointTaken)):
            entries[record.slice].append((stamped.at, record))
        elif isinstance(record, Delivered):
            delivered.append((stamped.at, record))
        elif isinstance(record, Offered):
            offered[record.source] += record.events
        elif isinstance(record, Kept):
            kept[record.actor] = (record.incarnation, record.rows)

    # What a dead node has said can be read after what its successor says; within an incarnation the order is true.
    for entry in entries.values():
        entry.sort(key=lambda one: one[1].incarnation)
    books: dict[str, _Book] = {name: [record for _, record in entry] for name, entry in entries.items()}
    times = {name: [at for at, _ in entry] for name, entry in entries.items()}

    recall = recall or Recall()
    reruns: dict[str, dict[int, Rerun]] = {}
    unexplained: list[str] = []
    for spec in specs:
        if spec.role is Role.SINK:
            continue
        name = spec.slice_id
        given = offered[name] if spec.role is Role.SOURCE else books[name]
        upstream = [reruns[up] for up in spec.upstream]
        known = recall.find(name, given, upstream)
        if known is None:
            before = len(unexplained)
            if spec.role is Role.SOURCE:
                known = {1: _offer(spec, offered[name])}
            else:
                known = _rerun_slice(spec, books[name], reruns, unexplained)
            if len(unexplained) == before:
                recall.keep(name, given, upstream, known)
        reruns[name] = known

    deliveries: dict[str, list[Delivery]] = {
        channel_name(up, spec.slice_id): [] for spec in specs if spec.role is Role.SINK for up in spec.upstream
    }
    for at, record in delivered:
        deliveries[record.channel].append(_delivery(record, at, reruns))
    operators = {spec.slice_id: reruns[spec.slice_id] for spec in specs if spec.role is Role.OPERATOR}
    return Reexecution(topology, offered, operators, deliveries, kept, unexplained, books, times)


def _offer(spec: SliceSpec, events: Sequence[Event]) -> Rerun:
    rerun = Rerun(spec.slice_id, 1, None, 0, 1, 1, emitted={to: Emissions() for to in spec.downstream})
    channels = [rerun.emitted[to] for to in spec.downstream]
    for event in events:
        for place in spec.receivers[event.key]:
            channel = channels[place]
            channel.events.append(event)
            channel.derivations.append((event.source, event.seq))
    return rerun


def _rerun_slice(
    spec: SliceSpec,
    book: _Book,
    reruns: Mapping[str, Mapping[int, Rerun]],
    unexplained: list[str],
) -> dict[int, Rerun]:
    operator = spec.topology.stages[operator_of(spec.slice_id)].operator
    found: dict[int, Rerun] = {}
    for record in book:
        if isinstance(record, Started):
            found[record.incarnation] = _begin(spec, record, found, unexplained)
            continue
        rerun = found[record.incarnation]
        if isinstance(record, CheckpointTaken):
            rerun.cuts[record.number] = Cut(len(rerun.took), operator.snapshot(rerun.state), rerun.next_seq)
            continue
        sender = reruns[record.upstream].get(record.upstream_incarnation)
        events, derivations = ([], []) if sender is None else sender.channel(spec.slice_id, record.first, record.last)
        if len(events) != record.count:
            unexplained.append(
                f"{spec.slice_id}#{record.incarnation} took {record.count} events numbered {record.first} to "
                f"{record.last} from {record.upstream}#{record.upstream_incarnation}, which made {len(events)} of them"
            )
        rerun.took += derivations
        rerun.intakes.append(Intake(record, [event.seq for event in events]))
        _execute(spec, rerun, events, derivations)
    return found


def _begin(spec: SliceSpec, record: Started, found: Mapping[int, Rerun], unexplained: list[str]) -> Rerun:
    operator = spec.topology.stages[operator_of(spec.slice_id)].operator
    rerun = Rerun(
        spec.slice_id,
        record.incarnation,
        None,
        0,
        record.next_seq,
        record.next_seq,
        emitted={to: Emissions() for to in spec.downstream},
    )
    if record.restored is None:
        rerun.state = operator.initial_state()
        return rerun
    incarnation, number = record.restored
    parent = found.get(incarnation)
    cut = None if parent is None else parent.cuts.get(number)
    if parent is None or cut is None:
        unexplained.append(f"{spec.slice_id}#{record.incarnation} started from a checkpoint that nobody took")
        rerun.state = operator.initial_state()
        return rerun
    rerun.parent, rerun.parent_cut, rerun.inherited = parent, cut.position, cut.next_seq - 1
    rerun.state = operator.restore(cut.state)
    return rerun


def _execute(spec: SliceSpec, rerun: Rerun, events: Sequence[Event], derivations: Sequence[Derivation]) -> None:
    """Let the operator take `events`. Raises InvalidOperator when it fails."""
    process = spec.topology.stages[operator_of(spec.slice_id)].operator.process
    channels = [(rerun.emitted[to].events.append, rerun.emitted[to].derivations.append) for to in spec.downstream]
    receivers, state, name, seq = spec.receivers, rerun.state, spec.slice_id, rerun.next_seq
    event = None
    try:
        for event, derivation in zip(events, derivations, strict=True):
            for index, (key, value) in enumerate(process(event, state)):
                if type(value) not in PLAIN:
                    value = carried(value)
                output, made = Event(name, seq, key, value, event.time), (*derivation, index)
                for place in receivers[key]:
                    add_event, add_derivation = channels[place]
                    add_event(output)
                    add_derivation(made)
                seq += 1
    except Exception as error:
        raise InvalidOperator(
            f"operator of {name}, executed again to judge the run, failed on event "
            f"{None if event is None else (event.source, event.seq)}: {type(error).__name__}: {error}"
        ) from error
    rerun.next_seq = seq


def _delivery(record: Delivered, at: int, reruns: Mapping[str, Mapping[int, Rerun]]) -> Delivery:
    """What was delivered, each row beside the one that re-execution gives for its id."""
    rows = record.rows
    sender = reruns.get(rows[0].source, {}).get(record.incarnation)
    if sender is None:
        return Delivery(record, at, [None] * len(rows))
    events, derivations = sender.channel(record.sink, rows[0].seq, rows[-1].seq)
    if events == rows:
        return Delivery(record, at, derivations)
    seqs = [row.seq for row in rows]
    events, derivations = sender.channel(record.sink, min(seqs), max(seqs))
    made = {event.seq: (event, derivation) for event, derivation in zip(events, derivations, strict=True)}
    known: list[Derivation | None] = []
    for row in rows:
        event, derivation = made.get(row.seq, (None, None))
        known.append(derivation if event is not None and _encode(event) == _encode(row) else None)
    return Delivery(record, at, known)


_encode = msgspec.msgpack.Encoder(order="sorted").encode
"""Two values are the same when their canonical encodings are: a tuple that went through a record is a list."""


@dataclass(frozen=True)
class Expected:
    """What an execution without failures has taken and delivered, for results that do not depend on order."""

    taken: Mapping[str, Mapping[Derivation, Event]]
    """Operator slice -> derivation -> event."""
    delivered: Mapping[str, Mapping[Derivation, Event]]
    """Channel into a sink -> derivation -> output."""


def expect(specs: Sequence[SliceSpec], offered: Mapping[str, Sequence[Event]]) -> Expected:
    """Execute the topology once, each slice taking its channels one after the other."""
    reruns: dict[str, Rerun] = {}
    taken: dict[str, dict[Derivation, Event]] = {}
    delivered: dict[str, dict[Derivation, Event]] = {}
    for spec in specs:
        if spec.role is Role.SOURCE:
            reruns[spec.slice_id] = _offer(spec, offered[spec.slice_id])
            continue
        channels = [(up, reruns[up].emitted[spec.slice_id]) for up in spec.upstream]
        if spec.role is Role.SINK:
            for up, channel in channels:
                delivered[channel_name(up, spec.slice_id)] = dict(zip(channel.derivations, channel.events, strict=True))
            continue
        rerun = Rerun(spec.slice_id, 1, None, 0, 1, 1, emitted={to: Emissions() for to in spec.downstream})
        rerun.state = spec.topology.stages[operator_of(spec.slice_id)].operator.initial_state()
        reruns[spec.slice_id] = rerun
        taken[spec.slice_id] = {}
        for _, channel in channels:
            _execute(spec, rerun, channel.events, channel.derivations)
            taken[spec.slice_id].update(zip(channel.derivations, channel.events, strict=True))
    return Expected(taken, delivered)


class Reexecutor:
    """Executes the histories of one subject again, and keeps for the next what does not change between them."""

    def __init__(self, specs: Sequence[SliceSpec]) -> None:
        self._specs = specs
        self._recall = Recall()
        self._offered: dict[str, list[Event]] | None = None
        self._expected = Expected({}, {})

    def reexecute(self, records: Sequence[Stamped]) -> Reexecution:
        return reexecute(self._specs, records, self._recall)

    def expect(self, offered: Mapping[str, Sequence[Event]]) -> Expected:
        """What an execution without failures gives for an input."""
        if self._offered is None or self._offered != offered:
            self._expected = expect(self._specs, offered)
            self._offered = {source: list(events) for source, events in offered.items()}
        return self._expected
