"""Runs a recorded history again: run(pi), what the operators give for the order in which inputs were taken.

A history says for each incarnation of a slice from which checkpoint it started and in which order it took which events.
Operators are pure, or draw from a generator whose seed is on record, so that is enough to compute, slice by slice from
the sources on, everything that each incarnation emitted and what it held at every checkpoint, without looking at what
was delivered.

Every event gets its *derivation*: the source event at its root, then at each hop which of the outputs it was. It
names the event across incarnations, renumberings and replays, and so carries the lineage of state and outputs. What
several inputs make together, as in a join, is derived from the one that came last and triggered it.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from operator import is_
from typing import Any

import msgspec

from ..errors import InvalidOperator
from ..model import (
    PLAIN,
    Event,
    Processor,
    Role,
    Topology,
    Value,
    carried,
    channel_name,
    operator_of,
    processor,
)
from ..recording.records import (
    CheckpointTaken,
    Delivered,
    InStep,
    Kept,
    Offered,
    Opened,
    Restored,
    Stamped,
    Started,
    Taken,
)
from ..slices.components import Numbering
from ..slices.machine import SliceSpec
from .exactness import same_events

Derivation = tuple[Any, ...]
"""(source slice, seq, index of the output at each further hop)."""


@dataclass(slots=True)
class Emissions:
    """What one incarnation put on one channel itself, in order."""

    events: list[Event] = field(default_factory=list)
    derivations: list[Derivation] = field(default_factory=list)
    inherited: bool = False
    """Numbers are those of the inputs, so that they need not rise where channels come together."""
    _places: dict[int, list[int]] | None = None
    _looked: bool = False

    @property
    def places(self) -> dict[int, list[int]] | None:
        """Number -> where it is; None where numbers rise. To be asked for once everything was emitted."""
        if self.inherited and not self._looked:
            self._looked = True
            if any(earlier.seq >= later.seq for earlier, later in pairwise(self.events)):
                self._places = defaultdict(list)
                for place, event in enumerate(self.events):
                    self._places[event.seq].append(place)
        return self._places

    def between(self, first: int, last: int, upto: int | None = None) -> tuple[list[Event], list[Derivation]]:
        """What is numbered from `first` to `last`, of the first `upto`."""
        events = self.events
        stop = len(events) if upto is None else upto
        if (places := self.places) is not None:
            if last - first < stop:
                found = (place for number in range(first, last + 1) for place in places.get(number, ()))
                chosen = sorted(place for place in found if place < stop)
            else:
                chosen = [place for place in range(stop) if first <= events[place].seq <= last]
            return [events[place] for place in chosen], [self.derivations[place] for place in chosen]
        low = bisect_left(events, first, 0, stop, key=_seq)
        high = bisect_right(events, last, low, stop, key=_seq)
        return events[low:high], self.derivations[low:high]

    def in_a_row(self, first: int, last: int, count: int, beyond: int) -> int | None:
        """Where `count` events in a row begin, of which the first and the last have these numbers, though numbers need
        not rise: after the place `beyond` if there, else anywhere."""
        events = self.events
        fitting = [
            place
            for place in (self.places or {}).get(first, ())
            if place + count <= len(events) and events[place + count - 1].seq == last
        ]
        return next((place for place in fitting if place > beyond), fitting[0] if fitting else None)


def _seq(event: Event) -> int:
    return event.seq


@dataclass(frozen=True, slots=True)
class Intake:
    """Consecutive events that an incarnation took from one channel."""

    record: Taken
    seqs: list[int]
    derivations: list[Derivation]


@dataclass(frozen=True, slots=True)
class Cut:
    """Where in the life of an incarnation a checkpoint was taken."""

    rerun: Rerun
    stretch: Stretch
    position: int
    """How many events it had taken itself."""
    state: Any
    """The operator's own snapshot of its state."""
    next_seq: int
    """The number of the next output then."""
    emitted: Mapping[str, int]
    """Downstream slice -> how many events it had put on that channel in that stretch."""


@dataclass(slots=True, eq=False)
class Stretch:
    """Part of the life of an incarnation: from where it started, or took over the state of a fellow, until it did so
    again."""

    cut: Cut | None
    """What it began with; None: blank."""
    begins: int
    """How many events the incarnation had taken before."""
    first_seq: int
    """The number of the first output; what is replayed with a lower one was made before the cut."""
    emitted: dict[str, Emissions]


@dataclass(slots=True, eq=False)
class Rerun:
    """One incarnation of a slice, executed again."""

    slice_id: str
    number: int
    replica: int
    stretches: list[Stretch]
    next_seq: int
    """The number of its next output."""
    process: Processor | None
    hop: int
    """What its outputs' indices begin with in derivations."""
    state: Any = None
    took: list[Derivation] = field(default_factory=list)
    """What it took itself, in order, in its whole life."""
    seqs: list[int] = field(default_factory=list)
    """The number of each of these."""
    batches: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """After each batch that it took: how many events it had taken, and what was on each channel then."""
    cuts: dict[int, Cut] = field(default_factory=dict)

    @property
    def stretch(self) -> Stretch:
        """The one that it is in."""
        return self.stretches[-1]

    @property
    def emitted(self) -> dict[str, Emissions]:
        return self.stretch.emitted

    def lineage(self, upto: int | None = None) -> list[Derivation]:
        """Everything that had gone into its state, in order, through all the checkpoints that it descends from: at the
        end, or when it had just taken the first `upto` events."""
        stretch = self.stretch
        if upto is None:
            upto = len(self.took)
        else:
            stretch = next((s for s in reversed(self.stretches) if s.begins < upto), self.stretches[0])
        if stretch.cut is None:
            return self.took[stretch.begins : upto]
        rerun = self
        parts: list[list[Derivation]] = []
        while True:
            parts.append(rerun.took[stretch.begins : upto])
            cut = stretch.cut
            if cut is None:
                return [derivation for part in reversed(parts) for derivation in part]
            rerun, stretch, upto = cut.rerun, cut.stretch, cut.position

    def channel(self, to: str, first: int = 0, last: int = sys.maxsize) -> tuple[list[Event], list[Derivation]]:
        """What it can send to `to` with numbers from `first` to `last`, inherited output log included."""
        stretch = self.stretch
        found = stretch.emitted[to].between(first, last)
        while (cut := stretch.cut) is not None:
            if first >= stretch.first_seq and not stretch.emitted[to].inherited:
                break
            stretch = cut.stretch
            events, derivations = stretch.emitted[to].between(first, last, cut.emitted[to])
            found = events + found[0], derivations + found[1]
        return found


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


@dataclass(frozen=True, slots=True)
class Opening:
    """A receiver opened a channel."""

    record: Opened
    before: int
    """Records of the sender's book that came before, of all its incarnations; of a source: events offered before."""


@dataclass(frozen=True)
class Reexecution:
    """A whole history, executed again."""

    topology: Topology
    offered: Mapping[str, Sequence[Event]]
    sources: Mapping[str, Rerun]
    """What they offered, as what is executed again gives its outputs."""
    reruns: Mapping[str, Mapping[int, Rerun]]
    """Operator slice -> incarnation -> its rerun."""
    deliveries: Mapping[str, Sequence[Delivery]]
    """Channel into a sink -> O, in the order of delivery."""
    kept: Mapping[str, Mapping[int, Mapping[str, Value]]]
    """Operator slice -> incarnation -> rows, as recorded at the end: T, once for each replica."""
    unexplained: Mapping[str, str]
    """Slice -> what the records say of it that, by the same records, cannot be. Under no slice: what they say of
    slices that are none."""
    in_step: Mapping[str, frozenset[int]]
    """Slice -> those of its incarnations that were in step; slices of which nothing is said are not there."""
    openings: Sequence[Opening]
    books: Mapping[str, Book]
    """Slice -> its records, in the order in which they were read."""
    times: Mapping[str, Sequence[int]]
    """Slice -> when the recorder took each of them."""

    @cached_property
    def doubtful(self) -> frozenset[str]:
        """The slices that cannot be judged: what is unexplained concerns them, or one that feeds them."""
        if "" in self.unexplained:
            return frozenset(self.topology.slices)
        found: set[str] = set()
        for slice_id in self.topology.slices:
            if slice_id in self.unexplained or any(up in found for up in self.topology.upstream(slice_id)):
                found.add(slice_id)
        return frozenset(found)

    @cached_property
    def _survivors(self) -> dict[str, tuple[Rerun, ...]]:
        return {slice_id: tuple(_surviving(self, slice_id)) for slice_id in self.reruns}

    def survivors(self, slice_id: str) -> tuple[Rerun, ...]:
        """The incarnations whose states are T: of each replica the last, if it was in step and alive at the end.

        Where nothing is known of the end, the last of each.
        """
        return self._survivors[slice_id]

    def replaced(self, rerun: Rerun) -> bool:
        """Whether another life of the same replica came after it."""
        reruns = self.reruns[rerun.slice_id].values()
        return any(other.replica == rerun.replica and other.number > rerun.number for other in reruns)

    def started_at(self, rerun: Rerun) -> int:
        """When an incarnation began."""
        return next(
            at
            for record, at in zip(self.books[rerun.slice_id], self.times[rerun.slice_id], strict=True)
            if isinstance(record, Started) and record.incarnation == rerun.number
        )

    def intakes(self, rerun: Rerun) -> Iterator[Intake]:
        """What an incarnation took, batch by batch."""
        records = (r for r in self.books[rerun.slice_id] if isinstance(r, Taken) and r.incarnation == rerun.number)
        begin = 0
        for record, (end, _) in zip(records, rerun.batches, strict=True):
            yield Intake(record, rerun.seqs[begin:end], rerun.took[begin:end])
            begin = end

    def made_before(self, opening: Opening, sender: Rerun) -> int:
        """How many outputs of its present stretch the sender had made for a channel when it was opened."""
        to = opening.record.downstream
        if sender.slice_id in self.offered:
            offered = self.offered[sender.slice_id][: opening.before]
            return len(sender.emitted[to].between(0, offered[-1].seq)[0]) if offered else 0
        book = self.books[sender.slice_id][: opening.before]
        batches = sum(isinstance(record, Taken) and record.incarnation == sender.number for record in book)
        taken, lengths = sender.batches[batches - 1] if batches else (0, ())
        return lengths[list(sender.emitted).index(to)] if taken > sender.stretch.begins else 0

    def took_at(self, rerun: Rerun, derivation: Derivation) -> list[int]:
        """When an incarnation took this, each time that it did."""
        batches = (
            at
            for record, at in zip(self.books[rerun.slice_id], self.times[rerun.slice_id], strict=True)
            if isinstance(record, Taken) and record.incarnation == rerun.number
        )
        begin, found = 0, []
        for at, (end, _) in zip(batches, rerun.batches, strict=True):
            found += [at] * rerun.took[begin:end].count(derivation)
            begin = end
        return found

    def visible(self, rerun: Rerun) -> list[int]:
        """How many of the events that an incarnation took itself had a visible effect (delivered, or taken
        downstream), the last of them included; for each stretch of its life that had any."""
        seen: dict[str, set[tuple[int, Derivation]]] = {to: set() for to in rerun.emitted}
        for to, pairs in seen.items():
            for other in self.reruns.get(to, {}).values():
                for intake in self.intakes(other):
                    if (intake.record.upstream, intake.record.upstream_incarnation) == (rerun.slice_id, rerun.number):
                        pairs.update(zip(intake.seqs, intake.derivations, strict=True))
            for delivery in self.deliveries.get(channel_name(rerun.slice_id, to), ()):
                if delivery.record.incarnation == rerun.number:
                    pairs.update(
                        (event.seq, derivation)
                        for event, derivation in zip(delivery.record.rows, delivery.derivations, strict=True)
                        if derivation is not None
                    )
        found = []
        for stretch in rerun.stretches:
            last = 0
            for to, emissions in stretch.emitted.items():
                made = [(event.seq, d) for event, d in zip(emissions.events, emissions.derivations, strict=True)]
                upto = next((n for n in range(len(made), 0, -1) if made[n - 1] in seen[to]), 0)
                if upto:
                    last = max(last, _taken_for(emissions.derivations[:upto], rerun.took, stretch.begins))
            if last:
                found.append(last)
        return found

    def stateful(self) -> Iterator[str]:
        """The operator slices that keep something."""
        for slice_id in self.topology.operator_slices:
            if self.topology.stages[operator_of(slice_id)].operator.initial_state() is not None:
                yield slice_id


def _surviving(reexecution: Reexecution, slice_id: str) -> Iterator[Rerun]:
    reruns = reexecution.reruns[slice_id]
    if len(reruns) == 1:
        yield from reruns.values()
        return
    last = {rerun.replica: number for number, rerun in sorted(reruns.items())}
    kept = reexecution.kept.get(slice_id, {})
    in_step = reexecution.in_step.get(slice_id, reruns.keys())
    alive = [number for number in sorted(last.values()) if number in kept and number in in_step]
    for number in alive or sorted(last.values()):
        yield reruns[number]


def _taken_for(made: Sequence[Derivation], took: Sequence[Derivation], begins: int) -> int:
    """How many of the events taken it needs to make these outputs of one channel, from the event `begins` on; an event
    can be taken twice."""
    place, index = begins - 1, -1
    for derivation in made:
        if place < begins or took[place] != derivation[:-1] or derivation[-1] <= index:
            place = took.index(derivation[:-1], place + 1)
        index = derivation[-1]
    return place + 1


Entry = Started | Restored | Taken | CheckpointTaken
Book = list[Entry]
"""The records of one slice: all that its re-execution depends on, beside what its channels hold."""
_Found = tuple[dict[int, Rerun], dict[int, int]]
"""The incarnations of a slice executed again; and of those that did the same as another which that is, so that it does
not matter whose copy somebody took."""


class Recall:
    """Reruns of slices that no fault touched, kept for the next history in which they did the same.

    In a search nearly every history has them: the same input, taken in the same order, by slices that were not hit.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Book | list[Event], list[dict[int, Rerun]], _Found]] = {}

    def find(self, slice_id: str, book: Book | list[Event], upstream: list[dict[int, Rerun]]) -> _Found | None:
        """What the slice did, if it was given the same by the same."""
        if slice_id not in self._known:
            return None
        known_book, known_upstream, found = self._known[slice_id]
        same = len(upstream) == len(known_upstream) and all(map(is_, upstream, known_upstream))
        return found if same and book == known_book else None

    def keep(self, slice_id: str, book: Book | list[Event], upstream: list[dict[int, Rerun]], found: _Found) -> None:
        reruns = found[0].values()
        if slice_id not in self._known and len({rerun.replica for rerun in reruns}) == len(reruns):
            self._known[slice_id] = (book, upstream, found)


def reexecute(specs: Sequence[SliceSpec], records: Sequence[Stamped], recall: Recall | None = None) -> Reexecution:
    """Execute a history again. Whatever the user's code raises comes through: it did not raise in the run."""
    topology = specs[0].topology
    offered: dict[str, list[Event]] = {spec.slice_id: [] for spec in specs if spec.role is Role.SOURCE}
    books: dict[str, Book] = {spec.slice_id: [] for spec in specs}
    times: dict[str, list[int]] = {spec.slice_id: [] for spec in specs}
    delivered: dict[str, list[tuple[int, Delivered]]] = {
        channel_name(up, spec.slice_id): [] for spec in specs if spec.role is Role.SINK for up in spec.upstream
    }
    kept: dict[str, dict[int, Mapping[str, Value]]] = {}
    in_step: dict[str, set[int]] = {}
    openings: list[Opening] = []
    unexplained: dict[str, str] = {}
    for stamped in records:
        record = stamped.record
        try:
            if isinstance(record, (Taken, Started, CheckpointTaken, Restored)):
                books[record.slice].append(record)
                times[record.slice].append(stamped.at)
            elif isinstance(record, Delivered):
                delivered[record.channel].append((stamped.at, record))
            elif isinstance(record, Offered):
                offered[record.source] += record.events
            elif isinstance(record, Kept):
                books[record.actor]
                kept.setdefault(record.actor, {})[record.incarnation] = record.rows
            elif isinstance(record, InStep):
                books[record.slice]
                in_step.setdefault(record.slice, set()).add(record.incarnation)
            elif isinstance(record, Opened):
                before = len(offered[record.slice] if record.slice in offered else books[record.slice])
                openings.append(Opening(record, before))
        except KeyError as error:
            unexplained.setdefault("", f"the records speak of {error}, which is no part of {topology.name}")

    recall = recall or Recall()
    reruns: dict[str, dict[int, Rerun]] = {}
    same_as: dict[str, dict[int, int]] = {}
    for spec in specs:
        if spec.role is Role.SINK:
            continue
        name = spec.slice_id
        upstream = [reruns[up] for up in spec.upstream]
        given = offered[name] if spec.role is Role.SOURCE else _by_incarnation(books[name], same_as)
        found = recall.find(name, given, upstream)
        if found is None:
            if spec.role is Role.SOURCE:
                found = {1: _offer(spec, offered[name])}, {}
            else:
                execution = _Execution(spec, given, reruns)  # type: ignore[arg-type]
                found = execution.found, execution.same_as
                if execution.unexplained:
                    unexplained.setdefault(name, execution.unexplained)
            if name not in unexplained:
                recall.keep(name, given, upstream, found)
        reruns[name], same_as[name] = found

    operators = {spec.slice_id: reruns[spec.slice_id] for spec in specs if spec.role is Role.OPERATOR}
    for name, states in kept.items():
        for number in states.keys() - operators[name].keys():
            unexplained.setdefault(name, f"{name}#{number} kept a state, but never started")
    deliveries: dict[str, list[Delivery]] = {}
    for channel, taken in delivered.items():
        upstream_slice, _, sink = channel.partition(">")
        senders = reruns[upstream_slice]
        rising = all(sender.emitted[sink].places is None for sender in senders.values())
        seen: set[Derivation] | None = None if rising else set()
        deliveries[channel] = [_delivery(record, at, senders, seen) for at, record in taken]
    return Reexecution(
        topology,
        offered,
        {source: reruns[source][1] for source in offered},
        operators,
        deliveries,
        kept,
        unexplained,
        {name: frozenset(numbers) for name, numbers in in_step.items()},
        openings,
        books,
        times,
    )


def _by_incarnation(book: Book, same_as: Mapping[str, Mapping[int, int]]) -> Book:
    """One incarnation after the other; it matters neither how they were alive beside one another, nor which of several
    that sent the same was heard.

    What a dead node has said can be read after what its successor says; within an incarnation the order is true.
    """
    ordered = sorted(book, key=_incarnation)
    if not any(same_as.values()):
        return ordered
    return [
        msgspec.structs.replace(record, upstream_incarnation=same_as[record.upstream][record.upstream_incarnation])
        if isinstance(record, Taken) and record.upstream_incarnation in same_as.get(record.upstream, ())
        else record
        for record in ordered
    ]


def _incarnation(entry: Entry) -> int:
    return entry.incarnation


def _emissions(spec: SliceSpec) -> dict[str, Emissions]:
    inherited = spec.components.numbering is Numbering.INHERITED and spec.role is Role.OPERATOR
    return {to: Emissions(inherited=inherited) for to in spec.downstream}


def _hop(spec: SliceSpec) -> int:
    """Where paths from a source come together again, an index does not say which of them an event has come."""
    topology = spec.topology
    fed = [edge.downstream for edge in topology.edges]
    return list(topology.stages).index(operator_of(spec.slice_id)) << 32 if len(set(fed)) < len(fed) else 0


def _offer(spec: SliceSpec, events: Sequence[Event]) -> Rerun:
    rerun = Rerun(spec.slice_id, 1, 0, [Stretch(None, 0, 1, _emissions(spec))], 1, None, 0)
    channels = [rerun.emitted[to] for to in spec.downstream]
    for event in events:
        for place in spec.receivers[event.key]:
            channel = channels[place]
            channel.events.append(event)
            channel.derivations.append((event.source, event.seq))
    return rerun


class _Execution:
    """All incarnations of one slice. One may have begun with what another held, whichever has the lower number: so each
    is executed up to where it needs another, and that one first, up to there."""

    def __init__(self, spec: SliceSpec, book: Book, reruns: Mapping[str, Mapping[int, Rerun]]) -> None:
        self._spec = spec
        self._operator = spec.topology.stages[operator_of(spec.slice_id)].operator
        self._hop = _hop(spec)
        self._upstream = {up: reruns[up] for up in spec.upstream}
        self._lives: dict[int, list[Entry]] = {}
        for record in book:
            self._lives.setdefault(record.incarnation, []).append(record)
        self._done = dict.fromkeys(self._lives, 0)
        """How many records of each life have been carried out."""
        self._heard: dict[tuple[int, str, int], int] = {}
        """(incarnation, upstream slice, its incarnation) -> the place of what was taken last, where numbers do not say
        it."""
        self.unexplained = ""
        self.found: dict[int, Rerun] = {}
        self.same_as: dict[int, int] = {}
        for number in self._lives:
            self._carry_out(number)

    def _carry_out(self, number: int) -> None:
        waiting: list[tuple[int, int | None]] = [(number, None)]
        while waiting:
            current, goal = waiting[-1]
            needed = self._advance(current, goal, {one for one, _ in waiting})
            if needed is None:
                waiting.pop()
            else:
                waiting.append(needed)

    def _advance(self, number: int, goal: int | None, waiting: set[int]) -> tuple[int, int] | None:
        """Carry out a life, up to the checkpoint `goal`. Returns which checkpoint of which other life it needs first,
        if that is still to come."""
        life = self._lives[number]
        while self._done[number] < len(life):
            record = life[self._done[number]]
            begun_from = _begun_from(record)
            if begun_from is not None:
                whose, checkpoint = begun_from
                ahead = whose in self._lives and self._done[whose] < len(self._lives[whose])
                if ahead and whose not in waiting and not self._has(whose, checkpoint):
                    return begun_from
            if self._share(number):
                return None
            self._done[number] += 1
            if isinstance(record, Started):
                self.found[number] = self._begin(record)
                continue
            if number not in self.found:
                self._doubt(f"{self._spec.slice_id}#{number} was at work, but never started")
                self.found[number] = self._begin(Started(self._spec.slice_id, number, None, 1))
            rerun = self.found[number]
            if isinstance(record, Taken):
                self._take(rerun, record)
            elif isinstance(record, Restored):
                self._restore(rerun, record)
            else:
                emitted = {to: len(emissions.events) for to, emissions in rerun.emitted.items()}
                state = self._operator.snapshot(rerun.state)
                rerun.cuts[record.number] = Cut(rerun, rerun.stretch, len(rerun.took), state, rerun.next_seq, emitted)
                if record.number == goal:
                    return None
        return None

    def _has(self, number: int, checkpoint: int) -> bool:
        return number in self.found and checkpoint in self.found[number].cuts

    def _doubt(self, why: str) -> None:
        self.unexplained = self.unexplained or why

    def _begin(self, record: Started) -> Rerun:
        stretch = Stretch(None, 0, record.next_seq, _emissions(self._spec))
        process = processor(self._operator, record.seed)
        rerun = Rerun(
            self._spec.slice_id, record.incarnation, record.replica, [stretch], record.next_seq, process, self._hop
        )
        if record.restored is not None:
            stretch.cut = self._cut(record.restored, rerun)
        rerun.state = (
            self._operator.initial_state() if stretch.cut is None else self._operator.restore(stretch.cut.state)
        )
        return rerun

    def _restore(self, rerun: Rerun, record: Restored) -> None:
        cut = self._cut(record.checkpoint, rerun)
        if cut is None:
            return
        stretch = Stretch(cut, len(rerun.took), record.next_seq, _emissions(self._spec))
        if rerun.took:
            rerun.stretches.append(stretch)
        else:
            rerun.stretches[-1] = stretch
        rerun.state, rerun.next_seq = self._operator.restore(cut.state), record.next_seq

    def _cut(self, checkpoint: tuple[int, int], rerun: Rerun) -> Cut | None:
        number, which = checkpoint
        if not self._has(number, which):
            self._doubt(f"{rerun.slice_id}#{rerun.number} started from a checkpoint that nobody took")
            return None
        return self.found[number].cuts[which]

    def _take(self, rerun: Rerun, record: Taken) -> None:
        events, derivations = self._sent(rerun, record)
        if len(events) != record.count:
            self._doubt(
                f"{rerun.slice_id}#{rerun.number} took {record.count} events numbered {record.first} to "
                f"{record.last} from {record.upstream}#{record.upstream_incarnation}, which made {len(events)} of them"
            )
        rerun.took += derivations
        rerun.seqs += [event.seq for event in events]
        _execute(self._spec, rerun, events, derivations)
        lengths = tuple([len(emissions.events) for emissions in rerun.stretches[-1].emitted.values()])
        rerun.batches.append((len(rerun.took), lengths))

    def _sent(self, rerun: Rerun, record: Taken) -> tuple[list[Event], list[Derivation]]:
        """What an incarnation took of one upstream."""
        to, first, last, count = self._spec.slice_id, record.first, record.last, record.count
        sender = self._upstream.get(record.upstream, {}).get(record.upstream_incarnation)
        if sender is None:
            return [], []
        for stretch in sender.stretches[-2::-1]:
            # From before it took over the state of a fellow.
            found = stretch.emitted[to].between(first, last)
            if len(found[0]) == count:
                return found
        emissions = sender.emitted[to]
        if emissions.places is not None:
            heard = (rerun.number, record.upstream, record.upstream_incarnation)
            place = emissions.in_a_row(first, last, count, self._heard.get(heard, -1))
            if place is not None:
                end = place + count
                self._heard[heard] = end - 1
                return emissions.events[place:end], emissions.derivations[place:end]
        return sender.channel(to, first, last)

    # Those that did the same

    def _share(self, number: int) -> bool:
        """Whether all that is still to come of a life is what another did from the same state on, so that it is known.

        Replicas that take the same in the same order do the same, but for chance and for a numbering of their own.
        """
        if len(self._lives) == 1:
            return False
        life, done = self._lives[number], self._done[number]
        record = life[done]
        if isinstance(record, Restored) and number in self.found and not self.found[number].took:
            replica = self.found[number].replica
        elif isinstance(record, Started):
            replica = record.replica
        else:
            return False
        begun, next_seq = _begun_from(record), record.next_seq
        rest = life[done + 1 :]
        if not self._operator.deterministic or not rest or not all(isinstance(one, Taken) for one in rest):
            return False
        others = [self.found[n] for n in (self._lives if begun is None else (begun[0],)) if n in self.found]
        for other in others:
            theirs = self._lives[other.number]
            if other.number == number or self._done[other.number] < len(theirs) or len(other.stretches) > 1:
                continue
            if other.number in self.same_as or not isinstance(theirs[0], Started):
                continue
            cut = None if begun is None else other.cuts.get(begun[1])
            if begun is None:
                since, comes = 0, 1
                if other.stretch.cut is not None or theirs[0].next_seq != next_seq:
                    continue
                emitted = dict.fromkeys(other.emitted, 0)
            else:
                if cut is None or cut.next_seq != next_seq:
                    continue
                since, emitted = cut.position, dict(cut.emitted)
                taken = (isinstance(one, CheckpointTaken) and one.number == begun[1] for one in theirs)
                comes = list(taken).index(True) + 1
            takes = [_taken(one) for one in theirs[comes:] if isinstance(one, Taken)]
            if takes == [_taken(one) for one in rest if isinstance(one, Taken)]:
                self.found[number] = _copy(other, number, replica, Stretch(cut, 0, next_seq, {}), since, emitted)
                self.same_as[number] = other.number
                self._done[number] = len(life)
                return True
        return False


def _begun_from(record: Entry) -> tuple[int, int] | None:
    """Which checkpoint a stretch of a life begins with: (whose, its number)."""
    if isinstance(record, Started):
        return record.restored
    return record.checkpoint if isinstance(record, Restored) else None


def _taken(record: Taken) -> tuple[str, int, int, int, int]:
    return record.upstream, record.upstream_incarnation, record.first, record.last, record.count


def _copy(other: Rerun, number: int, replica: int, stretch: Stretch, since: int, emitted: Mapping[str, int]) -> Rerun:
    """What an incarnation did that did the same as another, from where that had taken `since` events and emitted so
    many."""
    for to, emissions in other.emitted.items():
        skip = emitted[to]
        stretch.emitted[to] = (
            Emissions(emissions.events[skip:], emissions.derivations[skip:], emissions.inherited) if skip else emissions
        )
    skips = tuple(emitted.values())
    return Rerun(
        other.slice_id,
        number,
        replica,
        [stretch],
        other.next_seq,
        None,
        other.hop,
        other.state,
        other.took[since:],
        other.seqs[since:],
        [
            (taken - since, tuple(length - skip for length, skip in zip(lengths, skips, strict=True)))
            for taken, lengths in other.batches
            if taken > since
        ],
    )


def _execute(spec: SliceSpec, rerun: Rerun, events: Sequence[Event], derivations: Sequence[Derivation]) -> None:
    """Let the operator take `events`. Raises InvalidOperator when it fails."""
    process = rerun.process
    assert process is not None
    channels = [
        (emissions.events.append, emissions.derivations.append) for emissions in rerun.stretches[-1].emitted.values()
    ]
    receivers, state, name, seq, hop = spec.receivers, rerun.state, spec.slice_id, rerun.next_seq, rerun.hop
    fan_out = None
    if spec.components.numbering is Numbering.INHERITED:
        fan_out = spec.topology.stages[operator_of(name)].operator.fan_out
    event = None
    try:
        for event, derivation in zip(events, derivations, strict=True):
            if fan_out is not None:
                seq = event.seq * fan_out
            for index, (key, value) in enumerate(process(event, state), hop):
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


def _delivery(
    record: Delivered, at: int, senders: Mapping[int, Rerun], seen: set[Derivation] | None = None
) -> Delivery:
    """What was delivered, each row beside the one that re-execution gives for its id.

    Where numbers do not rise, the same can stand for several events. They are told apart by what they say, and by what
    was `seen` before.
    """
    rows = record.rows
    sender = senders.get(record.incarnation)
    if sender is None or not rows:
        return Delivery(record, at, [None] * len(rows))
    if seen is None:
        events, derivations = sender.channel(record.sink, rows[0].seq, rows[-1].seq)
        if same_events(events, rows):
            return Delivery(record, at, derivations)
        seen = set()
    seqs = [row.seq for row in rows]
    made: dict[int, list[tuple[Event, Derivation]]] = {}
    views = [stretch.emitted[record.sink].between(min(seqs), max(seqs)) for stretch in sender.stretches[:-1]]
    for events, derivations in (sender.channel(record.sink, min(seqs), max(seqs)), *views):
        for event, derivation in zip(events, derivations, strict=True):
            made.setdefault(event.seq, []).append((event, derivation))
    known: list[Derivation | None] = []
    for row in rows:
        fitting = [one for event, one in made.get(row.seq, ()) if same_events([event], [row])]
        derivation = next((one for one in fitting if one not in seen), fitting[0] if fitting else None)
        known.append(derivation)
        if derivation is not None:
            seen.add(derivation)
    return Delivery(record, at, known)


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
        operator = spec.topology.stages[operator_of(spec.slice_id)].operator
        stretch = Stretch(None, 0, 1, _emissions(spec))
        rerun = Rerun(spec.slice_id, 1, 0, [stretch], 1, processor(operator, 0), _hop(spec), operator.initial_state())
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
