"""Runs a recorded history again: run(pi), what the operators give for the order in which inputs were taken.

A history says for each incarnation of a slice from which checkpoint it started and in which order it took which events.
Operators are pure, or draw from a generator whose seed is on record, so that is enough to compute, slice by slice from
the sources on, everything that each incarnation emitted and what it held at every checkpoint, without looking at what
was delivered.

Every event gets its *derivation*: the source event at its root, then at each hop which of the outputs it was. It
names the event across incarnations, renumberings and replays, and so carries the lineage of state and outputs. What
several inputs make together, as in a join, is derived from the one that came last and triggered it; what is made at the
end of an epoch, from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import is_
from types import MappingProxyType

import msgspec

from ..core.errors import InvalidOperator
from ..core.model import Event, Role, Topology, Value, channel_name, operator_of, processor, rows_of
from ..protocol.merging import Merge, Order, end_of, epoch_of
from ..protocol.spec import SliceSpec
from ..recording.history import of
from ..recording.records import (
    CheckpointDurable,
    CheckpointTaken,
    Closed,
    Compensated,
    Delivered,
    InStep,
    Kept,
    Offered,
    Opened,
    PartialTaken,
    Restored,
    Stamped,
    Started,
    Taken,
)
from .commuting import find_false_commutative
from .exactness import same_events
from .execution import Book, Entry, Execution, close, emissions_of, execute, hop_of, offer
from .faithfulness import Unfaithful
from .forgetting import find_false_window
from .long_intakes import delivered_of, taken_of, visible
from .made import all_of, derivations_of, events_of, is_long, made_of, same_order
from .packed import Packed, Piece, packed_events, packed_numbers
from .reruns import Deliveries, Delivery, Derivation, Intake, Opening, Rerun, Stretch


@dataclass(frozen=True)
class Reexecution:
    """A whole history, executed again."""

    topology: Topology
    offered: Mapping[str, Sequence[Event]]
    offered_at: Mapping[str, Sequence[int]]
    """When each of these was offered."""
    sources: Mapping[str, Rerun]
    """What they offered, as what is executed again gives its outputs."""
    reruns: Mapping[str, Mapping[int, Rerun]]
    """Operator slice -> incarnation -> its rerun."""
    deliveries: Mapping[str, Deliveries]
    """Channel into a sink -> O, in the order of delivery."""
    kept: Mapping[str, Mapping[int, Mapping[str, Value]]]
    """Operator slice -> incarnation -> rows, as recorded at the end: T, once for each replica."""
    unexplained: Mapping[str, str]
    """Slice -> what the records say of it that, by the same records, cannot be. Under no slice: what they say of
    slices that are none."""
    in_step: Mapping[str, frozenset[int]]
    """Slice -> those of its incarnations that were in step; slices of which nothing is said are not there."""
    openings: Sequence[Opening]
    merges: Mapping[str, Merge]
    """Slice with several channels -> the order in which it is to take them, where that is declared."""
    all_work: frozenset[str]
    """The slices of which each replica in step processes events."""
    books: Mapping[str, Book]
    """Slice -> its records, in the order in which they were read."""
    times: Mapping[str, Sequence[int]]
    """Slice -> when the recorder took each of them."""
    durable: Mapping[str, frozenset[tuple[int, int]]]
    """Slice -> (incarnation, number) of its checkpoints that became durable."""
    unfaithful: Sequence[Unfaithful]
    """The checkpoints that do not give back the state that they were taken of."""
    epochs: Mapping[str, int]
    """Slice that knows epochs -> how many milliseconds of event time each has."""

    def order(self, slice_id: str) -> Order:
        """How much of the order in which a slice takes its input does not depend on when it arrives."""
        if len(self.topology.upstream(slice_id)) < 2:
            return Order.TOTAL
        merge = self.merges.get(slice_id)
        return Order.FREE if merge is None else merge.order

    def commutes(self, slice_id: str) -> bool:
        """Whether the order of the events of an epoch does not matter to what a slice makes: it says so, and makes
        nothing before an epoch ends."""
        return slice_id in self._commuting

    @cached_property
    def _commuting(self) -> frozenset[str]:
        stages = self.topology.stages
        return frozenset(s for s in self.epochs if stages[operator_of(s)].operator.commutative and self._is_silent(s))

    def _is_silent(self, slice_id: str) -> bool:
        """Whether all that it made was made at the ends of epochs."""
        return all(
            derivation[0] == slice_id
            for rerun in self.reruns[slice_id].values()
            for stretch in rerun.stretches
            for emissions in stretch.emitted.values()
            for derivation in emissions.derivations
        )

    def said(self, derivation: Derivation) -> str:
        """What is at the root of a derivation, in words."""
        root, number = derivation[:2]
        return f"epoch {number:,} of {root}" if root in self.epochs else f"input {root} #{number:,}"

    @cached_property
    def last_closed(self) -> dict[str, int]:
        """Slice -> the last epoch that ended for any of its incarnations."""
        return {
            slice_id: max(
                (one.epoch for rerun in self.reruns[slice_id].values() for s in rerun.stretches for one in s.closings),
                default=-1,
            )
            for slice_id in self.epochs
        }

    @cached_property
    def doubtful(self) -> frozenset[str]:
        """The slices that cannot be judged: what is unexplained concerns them, or one that feeds them."""
        if "" in self.unexplained:
            return frozenset(self.topology.slices)
        found: set[str] = set()
        for group in self.topology.groups:
            fed_by = {up for slice_id in group for up in self.topology.upstream(slice_id)}
            if not (found | self.unexplained.keys()).isdisjoint(fed_by.union(group)):
                found.update(group)
        return frozenset(found)

    @cached_property
    def _survivors(self) -> dict[str, tuple[Rerun, ...]]:
        return {slice_id: tuple(_surviving(self, slice_id)) for slice_id in self.reruns}

    def survivors(self, slice_id: str) -> tuple[Rerun, ...]:
        """The incarnations whose states are T: of each replica the last, if it was in step and alive at the end.

        Where nothing is known of the end, the last of each.
        """
        return self._survivors[slice_id]

    @cached_property
    def _times(self) -> dict[Derivation, int]:
        return {(event.source, event.seq): event.time for events in self.offered.values() for event in events}

    def time_of(self, derivation: Derivation) -> int:
        """Its event time in ms: that of the input, or of the end of the epoch, at its root."""
        size = self.epochs.get(derivation[0])
        return self._times[derivation[:2]] if size is None else end_of(derivation[1], size)

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

    def batches(self, rerun: Rerun) -> Iterator[tuple[Taken, int]]:
        """What it took, batch by batch: the record, and how many events it had taken then."""
        records = (r for r in self.books[rerun.slice_id] if isinstance(r, Taken) and r.incarnation == rerun.number)
        yield from ((record, end) for record, (end, _) in zip(records, rerun.batches, strict=True))

    def intakes(self, rerun: Rerun) -> Iterator[Intake]:
        """What an incarnation took, batch by batch."""
        records = (r for r in self.books[rerun.slice_id] if isinstance(r, Taken) and r.incarnation == rerun.number)
        begin = 0
        for record, (end, _) in zip(records, rerun.batches, strict=True):
            yield Intake(record, rerun.seqs[begin:end], rerun.took[begin:end])
            begin = end

    def taken_of(self, rerun: Rerun) -> dict[tuple[str, int], list[tuple[int, int]]]:
        """(Upstream slice, its incarnation) -> from where to where, among all that an incarnation took, that is what it
        took of this one."""
        whose: dict[tuple[str, int], list[tuple[int, int]]] = {}
        begin = 0
        for record, end in self.batches(rerun):
            places = whose.setdefault((record.upstream, record.upstream_incarnation), [])
            if places and places[-1][1] == begin:
                places[-1] = (places[-1][0], end)
            else:
                places.append((begin, end))
            begin = end
        return whose

    def made_before(self, opening: Opening, sender: Rerun) -> int:
        """How many outputs of its present stretch the sender had made for a channel when it was opened."""
        source = sender.slice_id in self.offered
        book = self.books[sender.slice_id][: opening.before]
        made = (opening.before, 0) if source else (_batches(book, sender), _closings(book, sender))
        return self._made(sender, opening.record.downstream, *made)

    def made_until(self, at: int, sender: Rerun, to: str) -> int:
        """The same, at a time."""
        if sender.slice_id in self.offered:
            return self._made(sender, to, sum(time <= at for time in self.offered_at[sender.slice_id]), 0)
        entries = zip(self.books[sender.slice_id], self.times[sender.slice_id], strict=True)
        book = [record for record, time in entries if time <= at]
        return self._made(sender, to, _batches(book, sender), _closings(book, sender))

    def _made(self, sender: Rerun, to: str, taken: int, closed: int) -> int:
        """For a channel, when it had taken so many batches and come to the ends of so many epochs; a source, when it
        had offered so many events."""
        if sender.slice_id in self.offered:
            return len(sender.emitted[to].between(0, self.offered[sender.slice_id][taken - 1].seq)[0]) if taken else 0
        place, made = list(sender.emitted).index(to), 0
        if taken:
            upto, lengths = sender.batches[taken - 1]
            made = lengths[place] if upto > sender.stretch.begins else 0
        here = closed - sum([len(stretch.closings) for stretch in sender.stretches[:-1]]) if closed else 0
        return max(made, sender.stretch.closings[here - 1].lengths[place]) if here > 0 else made

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

    def heard(self, rerun: Rerun, to: str) -> Iterator[Derivation]:
        """What somebody took of an incarnation on one channel."""
        yield from (derivation for _, derivation in self._heard_of(rerun, to))

    def _heard_of(self, rerun: Rerun, to: str) -> Iterator[tuple[int, Derivation]]:
        """The same, with their numbers."""
        for other in self.reruns.get(to, {}).values():
            for intake in self.intakes(other):
                if (intake.record.upstream, intake.record.upstream_incarnation) == (rerun.slice_id, rerun.number):
                    yield from zip(intake.seqs, intake.derivations, strict=True)
        for delivery in self.deliveries.get(channel_name(rerun.slice_id, to), ()):
            if delivery.record.incarnation == rerun.number:
                for event, derivation in zip(delivery.record.rows, delivery.derivations, strict=True):
                    if derivation is not None:
                        yield event.seq, derivation

    def visible(self, rerun: Rerun) -> list[int]:
        """How many of the events that an incarnation took itself had a visible effect (delivered, or taken
        downstream), the last of them included; for each stretch of its life that had any."""
        if is_long(rerun.took) and (known := self._long_visible(rerun)) is not None:
            return known
        heard = {to: set(self._heard_of(rerun, to)) for to in rerun.emitted}
        found = []
        for stretch in rerun.stretches:
            last = 0
            for to, emissions in stretch.emitted.items():
                made = [(event.seq, d) for event, d in zip(emissions.events, emissions.derivations, strict=True)]
                upto = next((n for n in range(len(made), 0, -1) if made[n - 1] in heard[to]), 0)
                if upto:
                    last = max(last, _taken_for(emissions.derivations[:upto], rerun, stretch))
            if last > stretch.begins:
                found.append(last)
        return found

    def _long_visible(self, rerun: Rerun) -> list[int] | None:
        whose = (rerun.slice_id, rerun.number)
        heard = {
            to: [
                taken[whose] for other in self.reruns.get(to, {}).values() if whose in (taken := taken_of(self, other))
            ]
            for to in rerun.emitted
        }
        for to, several in heard.items():
            deliveries = self.deliveries.get(channel_name(rerun.slice_id, to))
            if deliveries is not None and rerun.number in (delivered := delivered_of(deliveries)):
                several.append(delivered[rerun.number])
        return visible(rerun, heard)

    def stateful(self) -> Iterator[str]:
        """The operator slices that keep something."""
        for slice_id in self.topology.operator_slices:
            if self.topology.stages[operator_of(slice_id)].operator.initial_state() is not None:
                yield slice_id


def _batches(book: Iterable[Entry], sender: Rerun) -> int:
    return sum(isinstance(record, Taken) and record.incarnation == sender.number for record in book)


def _closings(book: Iterable[Entry], sender: Rerun) -> int:
    return sum(isinstance(record, Closed) and record.incarnation == sender.number for record in book)


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


def _taken_for(made: Sequence[Derivation], rerun: Rerun, stretch: Stretch) -> int:
    """How many of the events taken it needs to make these outputs of one channel in a stretch; an event can be taken
    twice."""
    took, begins = rerun.took.at_hand, stretch.begins
    ends = {(rerun.slice_id, one.epoch): one.position for one in stretch.closings}
    place, index = begins - 1, -1
    for derivation in made:
        if ends and derivation[:-1] in ends:
            place, index = ends[derivation[:-1]] - 1, -1
            continue
        if place < begins or took[place] != derivation[:-1] or derivation[-1] <= index:
            place = took.index(derivation[:-1], place + 1)
        index = derivation[-1]
    return place + 1


@dataclass(frozen=True)
class _Found:
    """A slice, executed again."""

    reruns: dict[int, Rerun]
    same_as: dict[int, int] = field(default_factory=dict)
    """Of incarnations that did the same as another which that is, so that it does not matter whose copy somebody
    took."""
    unfaithful: Sequence[Unfaithful] = ()


_Given = Book | Packed[Event]


class Recall:
    """Reruns of slices that no fault touched, kept for the next history in which they did the same.

    In a search nearly every history has them: the same input, taken in the same order, by slices that were not hit.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Given, list[dict[int, Rerun]], _Found]] = {}

    def find(self, slice_id: str, book: _Given, upstream: list[dict[int, Rerun]]) -> _Found | None:
        """What the slice did, if it was given the same by the same."""
        if slice_id not in self._known:
            return None
        known_book, known_upstream, found = self._known[slice_id]
        same = len(upstream) == len(known_upstream) and all(map(is_, upstream, known_upstream))
        return found if same and book == known_book else None

    def keep(self, slice_id: str, book: _Given, upstream: list[dict[int, Rerun]], found: _Found) -> None:
        if slice_id in self._known:
            return
        reruns = found.reruns.values()
        untouched = len({rerun.replica for rerun in reruns}) == len(reruns)
        known = [found.reruns for _, _, found in self._known.values()]
        if untouched and all(any(up is one for one in known) for up in upstream):
            self._known[slice_id] = (book, upstream, found)


_OF_SLICES = (Taken, Started, CheckpointTaken, Closed, Restored, PartialTaken, Compensated)
"""What goes into a slice's book."""


def reexecute(specs: Sequence[SliceSpec], records: Sequence[Stamped], recall: Recall | None = None) -> Reexecution:
    """Execute a history again. Whatever the user's code raises comes through: it did not raise in the run."""
    topology = specs[0].topology
    offered = {spec.slice_id: packed_events() for spec in specs if spec.role is Role.SOURCE}
    offered_at = {source: packed_numbers() for source in offered}
    books: dict[str, Book] = {spec.slice_id: [] for spec in specs}
    times: dict[str, list[int]] = {spec.slice_id: [] for spec in specs}
    channels = [channel_name(up, spec.slice_id) for spec in specs if spec.role is Role.SINK for up in spec.upstream]
    kept: dict[str, dict[int, Mapping[str, Value]]] = {}
    in_step: dict[str, set[int]] = {}
    openings: list[Opening] = []
    durable: dict[str, set[tuple[int, int]]] = {spec.slice_id: set() for spec in specs}
    unexplained: dict[str, str] = {}
    for stamped in of(
        records,
        *_OF_SLICES,
        Offered,
        Kept,
        InStep,
        Opened,
        CheckpointDurable,
    ):
        record = stamped.record
        try:
            if isinstance(record, _OF_SLICES):
                books[record.slice].append(record)
                times[record.slice].append(stamped.at)
            elif isinstance(record, Offered):
                offered[record.source].extend(record.events)
                offered_at[record.source].extend([stamped.at] * len(record.events))
            elif isinstance(record, Kept):
                books[record.actor]
                kept.setdefault(record.actor, {})[record.incarnation] = record.rows
            elif isinstance(record, InStep):
                books[record.slice]
                in_step.setdefault(record.slice, set()).add(record.incarnation)
            elif isinstance(record, CheckpointDurable):
                durable[record.slice].add((record.incarnation, record.number))
            elif isinstance(record, Opened):
                before = len(offered[record.slice] if record.slice in offered else books[record.slice])
                openings.append(Opening(record, stamped.at, before))
        except KeyError as error:
            unexplained.setdefault("", _no_part(error, topology))

    recall = recall or Recall()
    reruns: dict[str, dict[int, Rerun]] = {}
    same_as: dict[str, dict[int, int]] = {}
    unfaithful: list[Unfaithful] = []
    spec_of = {spec.slice_id: spec for spec in specs}
    for group in topology.groups:
        spec = spec_of[group[0]]
        if spec.role is Role.SINK:
            continue
        if len(group) > 1:
            together = {one: Execution(spec_of[one], _by_incarnation(books[one], same_as), reruns) for one in group}
            _execute_together(together)
            for one, execution in together.items():
                same_as[one] = execution.same_as
                unfaithful += execution.unfaithful
                if execution.unexplained:
                    unexplained.setdefault(one, execution.unexplained)
            continue
        name = spec.slice_id
        upstream = [reruns[up] for up in spec.upstream]
        given = offered[name] if spec.role is Role.SOURCE else _by_incarnation(books[name], same_as)
        found = recall.find(name, given, upstream)
        if found is None:
            if spec.role is Role.SOURCE:
                found = _Found({1: offer(spec, offered[name])})
            else:
                execution = Execution(spec, given, reruns)  # type: ignore[arg-type]
                found = _Found(execution.found, execution.same_as, execution.unfaithful)
                if execution.unexplained:
                    unexplained.setdefault(name, execution.unexplained)
            if name not in unexplained:
                recall.keep(name, given, upstream, found)
        reruns[name], same_as[name] = found.reruns, found.same_as
        unfaithful += found.unfaithful

    operators = {spec.slice_id: reruns[spec.slice_id] for spec in specs if spec.role is Role.OPERATOR}
    for name, states in kept.items():
        for number in states.keys() - operators[name].keys():
            unexplained.setdefault(name, f"{name}#{number} kept a state, but never started")
    hearing = {channel: _Hearing(channel, reruns[channel.partition(">")[0]]) for channel in channels}
    for stamped in of(records, Delivered):
        record = stamped.record
        assert isinstance(record, Delivered)
        if record.channel in hearing:
            hearing[record.channel].hear(stamped.at, record)
        else:
            unexplained.setdefault("", _no_part(KeyError(record.channel), topology))
    return Reexecution(
        topology,
        offered,
        offered_at,
        {source: reruns[source][1] for source in offered},
        operators,
        {channel: one.deliveries for channel, one in hearing.items()},
        kept,
        unexplained,
        {name: frozenset(numbers) for name, numbers in in_step.items()},
        openings,
        {s.slice_id: s.setup.merge for s in specs if len(s.upstream) > 1 and s.setup.merge is not None},
        frozenset(s.slice_id for s in specs if s.setup.replicas_take_all),
        books,
        times,
        {name: frozenset(known) for name, known in durable.items()},
        unfaithful,
        {s.slice_id: s.epoch for s in specs if s.epoch is not None},
    )


def _execute_together(executions: Mapping[str, Execution]) -> None:
    """Execute the slices of a cycle again, each as far as what the others made so far takes it, in turn. Where none
    gets any further, what is to be taken next was never made."""
    while any(not execution.over for execution in executions.values()):
        if not sum(execution.go_on() for execution in executions.values()):
            next(execution for execution in executions.values() if not execution.over).go_on(at_all_costs=True)


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


def _no_part(error: KeyError, topology: Topology) -> str:
    return f"the records speak of {error}, which is no part of {topology.name}"


class _Hearing:
    """Finds what each row was made of that was delivered on a channel."""

    def __init__(self, channel: str, senders: Mapping[int, Rerun]) -> None:
        self.deliveries = Deliveries(channel)
        self._senders = senders
        sink = channel.partition(">")[2]
        self._rising = all(sender.emitted[sink].places is None for sender in senders.values())
        self._seen: set[Derivation] | None = None if self._rising else set()
        self._emitted = {number: sender.emitted[sink] for number, sender in senders.items()} if self._rising else {}
        self._heard = dict.fromkeys(self._emitted, 0)
        """Incarnation -> the place after what was heard last of it, where that is known."""

    def hear(self, at: int, record: Delivered) -> None:
        self.deliveries.append(self._following(at, record) or _delivery(record, at, self._senders, self._seen))

    def _following(self, at: int, record: Delivered) -> Delivery | None:
        """What was delivered, if it is what its sender made after that of which it was heard last, as it is nearly
        always."""
        emitted, rows = self._emitted.get(record.incarnation), record.rows
        if emitted is None or not rows:
            return None
        place = self._heard[record.incarnation]
        made = emitted.at(place, rows[0].seq, rows[-1].seq, len(rows))
        if made is None or not same_events(made[0], rows):
            return None
        self._heard[record.incarnation] = place + len(rows)
        if type(made[0]) is Piece:
            # What was made is kept already.
            record = msgspec.structs.replace(record, rows=made[0])
        return Delivery(record, at, made[1])


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
        unseen = [one for one in fitting if one not in seen]
        known.append((unseen or fitting)[0] if fitting else None)
        seen.update(unseen[:1])
    return Delivery(record, at, known)


@dataclass(frozen=True)
class Expected:
    """What an execution without failures has taken and delivered, for results that do not depend on order."""

    taken: Mapping[str, Mapping[Derivation, Event]]
    """Operator slice -> derivation -> event."""
    delivered: Mapping[str, Mapping[Derivation, Event]]
    """Channel into a sink -> derivation -> output."""
    channels: Mapping[str, Mapping[Derivation, Event]]
    """Every channel -> derivation -> event, in the order in which they are sent."""
    states: Mapping[str, Mapping[str, Value]]
    """Operator slice -> rows of its state at the end; none where that depends on the order of inputs, or on chance."""
    false_word: str = ""
    """Which operator does not forget what it says that it forgets, or depends on an order that it says does not matter;
    empty where none was seen to."""


def expect(
    specs: Sequence[SliceSpec],
    offered: Mapping[str, Sequence[Event]],
    known: Reexecution | None = None,
    last_closed: Mapping[str, int] = MappingProxyType({}),
) -> Expected:
    """Execute the topology once, each slice taking its channels one after the other, in each epoch where it knows such.
    After the last event of a slice, epochs without any go on ending up to that which is `last_closed`: what came of
    time after the events is in no record.

    A slice that did just that in a history that is `known`, fed by slices that did, is not executed a second time.
    """
    reruns: dict[str, Rerun] = {}
    alike: set[str] = set()
    """Those that are not."""
    taken: dict[str, Mapping[Derivation, Event]] = {}
    channels: dict[str, Mapping[Derivation, Event]] = {}
    for spec in _with_cycles_executed(specs, reruns):
        if spec.role is Role.SOURCE:
            source = None if known is None else known.sources[spec.slice_id]
            reruns[spec.slice_id] = source or offer(spec, offered[spec.slice_id])
            alike.add(spec.slice_id)
            continue
        inputs = [made_by(reruns[up], spec.slice_id) for up in spec.upstream]
        channels.update(zip((channel_name(up, spec.slice_id) for up in spec.upstream), inputs, strict=True))
        if spec.role is Role.SINK:
            continue
        taken[spec.slice_id] = all_of(inputs)
        if spec.slice_id in reruns:
            continue
        if known is not None and spec.epoch is None and alike.issuperset(spec.upstream):
            same = _took_in_order(known, spec.slice_id, taken[spec.slice_id])
            if same is not None:
                reruns[spec.slice_id] = same
                alike.add(spec.slice_id)
                continue
        rerun = reruns[spec.slice_id] = _blank(spec)
        if spec.epoch is not None:
            _execute_epochs(spec, rerun, inputs, spec.epoch, last_closed.get(spec.slice_id, -1))
            continue
        for place, channel in enumerate(inputs):
            execute(spec, rerun, events_of(channel), derivations_of(channel), place)
    topology = specs[0].topology
    into_sinks = {
        name: channel for name, channel in channels.items() if topology.role(name.partition(">")[2]) is Role.SINK
    }
    states = {name: rows_of(topology.stages[operator_of(name)].operator, reruns[name].state) for name in taken}
    return Expected(taken, into_sinks, channels, states)


def _blank(spec: SliceSpec) -> Rerun:
    operator = spec.topology.stages[operator_of(spec.slice_id)].operator
    stretch = Stretch(None, 0, 1, emissions_of(spec))
    return Rerun(spec.slice_id, 1, 0, [stretch], 1, processor(operator, 0), hop_of(spec), operator.initial_state())


def _with_cycles_executed(specs: Sequence[SliceSpec], reruns: dict[str, Rerun]) -> Iterator[SliceSpec]:
    """The slices, upstream before downstream; before the first of a cycle, all of it has been executed."""
    spec_of = {spec.slice_id: spec for spec in specs}
    for group in specs[0].topology.groups:
        together = [spec_of[one] for one in group]
        if len(group) > 1:
            _execute_cycle(together, reruns)
        yield from together


ROUNDS = 1_000
"""So often may something go round in an execution without failures, each time longer by what it was derived from."""


def _execute_cycle(specs: Sequence[SliceSpec], reruns: dict[str, Rerun]) -> None:
    """Execute the slices of a cycle without failures: in turn, each takes what is new on its channels, one after the
    other, until there is nothing."""
    reruns.update({spec.slice_id: _blank(spec) for spec in specs})
    taken = {(up, spec.slice_id): 0 for spec in specs for up in spec.upstream}
    for _ in range(ROUNDS):
        before = sum(taken.values())
        for spec in specs:
            for place, up in enumerate(spec.upstream):
                events, derivations = reruns[up].channel(spec.slice_id)
                done, upto = taken[up, spec.slice_id], len(events)
                taken[up, spec.slice_id] = upto
                execute(spec, reruns[spec.slice_id], events[done:upto], derivations[done:upto], place)
        if sum(taken.values()) == before:
            return
    raise InvalidOperator(
        f"{', '.join(spec.slice_id for spec in specs)} of {specs[0].topology.name!r}, executed without failures to "
        f"judge the run, had something to take after {ROUNDS:,} rounds; what is fed back has to come to an end"
    )


def _execute_epochs(
    spec: SliceSpec, rerun: Rerun, inputs: Sequence[Mapping[Derivation, Event]], size: int, last: int
) -> None:
    """Epoch by epoch, and the channels one after the other in each."""
    bags: dict[int, list[tuple[list[Event], list[Derivation]]]] = {}
    for number, channel in enumerate(inputs):
        for derivation, event in channel.items():
            epoch = epoch_of(event.time, size)
            if epoch not in bags:
                bags[epoch] = [([], []) for _ in inputs]
            events, derivations = bags[epoch][number]
            events.append(event)
            derivations.append(derivation)
    for epoch in range(max([last, *bags]) + 1):
        for place, (events, derivations) in enumerate(bags.get(epoch, ())):
            execute(spec, rerun, events, derivations, place)
        close(spec, rerun, epoch, size)


def _took_in_order(known: Reexecution, slice_id: str, inputs: Mapping[Derivation, Event]) -> Rerun | None:
    """The incarnation of a slice that took these, in this order, from the beginning. Of one that began as another
    was, the state was executed, and not restored, so that its outputs are those of one life as well."""
    if not known.topology.stages[operator_of(slice_id)].operator.deterministic or slice_id in known.doubtful:
        return None
    for rerun in known.survivors(slice_id):
        lineage = rerun.lineage()
        if len(lineage) == len(inputs) and same_order(lineage, derivations_of(inputs)):
            return rerun
    return None


def made_by(rerun: Rerun, to: str) -> Mapping[Derivation, Event]:
    """All that an incarnation can send to `to`."""
    events, derivations = rerun.channel(to)
    return made_of(derivations, events)


class Reexecutor:
    """Executes the histories of one subject again, and keeps for the next what does not change between them."""

    def __init__(self, specs: Sequence[SliceSpec]) -> None:
        self._specs = specs
        self._recall = Recall()
        self._offered: Mapping[str, Sequence[Event]] | None = None
        self._last_closed: Mapping[str, int] = {}
        self._expected = Expected({}, {}, {}, {})

    def reexecute(self, records: Sequence[Stamped]) -> Reexecution:
        return reexecute(self._specs, records, self._recall)

    def expect(self, rerun: Reexecution) -> Expected:
        """What an execution without failures gives for the input of a history."""
        offered, last_closed = rerun.offered, rerun.last_closed
        if is_long(*offered.values()):
            return self._examined(expect(self._specs, offered, rerun, last_closed))
        if self._offered is None or self._offered != offered or self._last_closed != last_closed:
            self._expected = self._examined(expect(self._specs, offered, last_closed=last_closed))
            self._offered, self._last_closed = offered, last_closed
        return self._expected

    def _examined(self, expected: Expected) -> Expected:
        """With what is wrong about what its operators say of themselves."""
        taken = {slice_id: events_of(events) for slice_id, events in expected.taken.items()}
        topology = self._specs[0].topology
        said = find_false_window(topology, taken) or find_false_commutative(topology, taken)
        return replace(expected, false_word=said)
