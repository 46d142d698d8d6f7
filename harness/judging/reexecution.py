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
from dataclasses import dataclass, field
from typing import TypeVar

from ..core.events import Event, Value
from ..core.lazily import lazily
from ..core.slice_names import channel_name, operator_of
from ..core.topology import Role, Topology
from ..protocol.merging import Merge, Order, end_of
from ..recording.records import Changed, Closed, Fired, Started, Taken
from .execution import Book, BookEntry
from .faithfulness import Unfaithful
from .made import is_long
from .punctuality import Mistimed
from .reruns import Deliveries, Derivation, Intake, Opening, Rerun, Stretch

_Kind = TypeVar("_Kind", Taken, Closed, Fired)


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
    in_sync: Mapping[str, frozenset[int]]
    """Slice -> those of its incarnations that were in sync; slices of which nothing is said are not there."""
    openings: Sequence[Opening]
    merges: Mapping[str, Merge]
    """Slice with several channels -> the order in which it is to take them, where that is declared."""
    all_work: frozenset[str]
    """The slices of which each replica in sync processes events."""
    books: Mapping[str, Book]
    """Slice -> its records, in the order in which they were read."""
    times: Mapping[str, Sequence[int]]
    """Slice -> when the recorder took each of them."""
    durable: Mapping[str, frozenset[tuple[int, int]]]
    """Slice -> (incarnation, number) of its checkpoints that became durable."""
    unfaithful: Sequence[Unfaithful]
    """The checkpoints that do not give back the state that they were taken of."""
    left_out: Sequence[Unfaithful]
    """The partial checkpoints that somebody began with, and that do not hold what the state did."""
    mistimed: Sequence[Mistimed]
    """The timers that did not fire where the events put them."""
    epochs: Mapping[str, int]
    """Slice that knows epochs -> how many milliseconds of event time each has."""
    changes: Mapping[str, Sequence[Changed]] = field(default_factory=dict)
    """Slice -> the changes of what its mechanisms go by, in their order."""

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

    @lazily
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

    @lazily
    def last_closed(self) -> dict[str, int]:
        """Slice -> the last epoch that ended for any of its incarnations."""
        return {
            slice_id: max(
                (one.epoch for rerun in self.reruns[slice_id].values() for s in rerun.stretches for one in s.closings),
                default=-1,
            )
            for slice_id in self.epochs
        }

    @lazily
    def last_fired(self) -> dict[str, int]:
        """Slice with timers of event time -> the latest that fired for any of its incarnations."""
        return {
            slice_id: max((one.at for one in book if isinstance(one, Fired) and not one.clock), default=-1)
            for slice_id, book in self.books.items()
            if self.topology.role(slice_id) is Role.OPERATOR
            and self.topology.stages[operator_of(slice_id)].operator.by_event_time
        }

    @lazily
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

    @lazily
    def _survivors(self) -> dict[str, tuple[Rerun, ...]]:
        return {slice_id: tuple(_surviving(self, slice_id)) for slice_id in self.reruns}

    def survivors(self, slice_id: str) -> tuple[Rerun, ...]:
        """The incarnations whose states are T: of each replica the last, if it was in sync and alive at the end.

        Where nothing is known of the end, the last of each.
        """
        return self._survivors[slice_id]

    @lazily
    def _times(self) -> dict[Derivation, int]:
        return {(event.source, event.seq): event.time for events in self.offered.values() for event in events}

    def time_of(self, derivation: Derivation) -> int:
        """Its event time in ms: that of the input, or of the end of the epoch, at its root."""
        size = self.epochs.get(derivation[0])
        return self._times[derivation[:2]] if size is None else end_of(derivation[1], size)

    def replaced(self, rerun: Rerun) -> bool:
        """Whether another incarnation of the same replica came after it."""
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
        records = self._takings(rerun.slice_id).get(rerun.number, ())
        return zip(records, [end for end, _ in rerun.batches], strict=True)

    def _takings(self, slice_id: str) -> dict[int, list[Taken]]:
        """Incarnation of a slice -> the batches that it took."""
        if slice_id not in self._known_takings:
            found: dict[int, list[Taken]] = {}
            for record in self.books[slice_id]:
                if type(record) is Taken:
                    if record.incarnation in found:
                        found[record.incarnation].append(record)
                    else:
                        found[record.incarnation] = [record]
            self._known_takings[slice_id] = found
        return self._known_takings[slice_id]

    @lazily
    def _known_takings(self) -> dict[str, dict[int, list[Taken]]]:
        return {}

    @lazily
    def _known_taken(self) -> dict[Rerun, dict[tuple[str, int], list[tuple[int, int]]]]:
        return {}

    def intakes(self, rerun: Rerun) -> Iterator[Intake]:
        """What an incarnation took, batch by batch."""
        begin = 0
        for record, end in self.batches(rerun):
            yield Intake(record, rerun.seqs[begin:end], rerun.took[begin:end])
            begin = end

    def taken_of(self, rerun: Rerun) -> dict[tuple[str, int], list[tuple[int, int]]]:
        """(Upstream slice, its incarnation) -> from where to where, among all that an incarnation took, that is what it
        took of this one."""
        if rerun not in self._known_taken:
            self._known_taken[rerun] = self._taken_of(rerun)
        return self._known_taken[rerun]

    def _taken_of(self, rerun: Rerun) -> dict[tuple[str, int], list[tuple[int, int]]]:
        whose: dict[tuple[str, int], list[tuple[int, int]]] = {}
        since = begin = 0
        last: tuple[str, int] | None = None
        for record, end in self.batches(rerun):
            upstream = (record.upstream, record.upstream_incarnation)
            if upstream != last:
                if last is not None:
                    whose.setdefault(last, []).append((since, begin))
                since, last = begin, upstream
            begin = end
        if last is not None:
            whose.setdefault(last, []).append((since, begin))
        return whose

    def made_before(self, opening: Opening, sender: Rerun) -> int:
        """How many outputs of its present stretch the sender had made for a channel when it was opened."""
        source = sender.slice_id in self.offered
        book = self.books[sender.slice_id][: opening.before]
        made = (opening.before, 0, 0) if source else _counts(book, sender)
        return self._made(sender, opening.record.downstream, *made)

    def made_until(self, at: int, sender: Rerun, to: str) -> int:
        """The same, at a time."""
        if sender.slice_id in self.offered:
            return self._made(sender, to, sum(time <= at for time in self.offered_at[sender.slice_id]), 0, 0)
        entries = zip(self.books[sender.slice_id], self.times[sender.slice_id], strict=True)
        book = [record for record, time in entries if time <= at]
        return self._made(sender, to, *_counts(book, sender))

    def _made(self, sender: Rerun, to: str, taken: int, closed: int, fired: int) -> int:
        """For a channel, when it had taken so many batches, come to the ends of so many epochs, and so many timers had
        fired; a source, when it had offered so many events."""
        if sender.slice_id in self.offered:
            return len(sender.emitted[to].between(0, self.offered[sender.slice_id][taken - 1].seq)[0]) if taken else 0
        place, made = list(sender.emitted).index(to), 0
        if taken:
            upto, lengths = sender.batches[taken - 1]
            made = lengths[place] if upto > sender.stretch.begins else 0
        here = closed - sum([len(stretch.closings) for stretch in sender.stretches[:-1]]) if closed else 0
        made = max(made, sender.stretch.closings[here - 1].lengths[place]) if here > 0 else made
        here = fired - sum([len(stretch.firings) for stretch in sender.stretches[:-1]]) if fired else 0
        return max(made, sender.stretch.firings[here - 1][place]) if here > 0 else made

    def took_at(self, rerun: Rerun, derivation: Derivation) -> list[int]:
        """When an incarnation took this, each time that it did."""
        return [at for at, _, took in self.timed_intakes(rerun) for _ in range(took.count(derivation))]

    def timed_intakes(self, rerun: Rerun) -> Iterator[tuple[int, Taken, Sequence[Derivation]]]:
        """What an incarnation took, batch by batch: when, the record, and what it held."""
        begin = 0
        for (at, record), (end, _) in zip(self.timed(rerun, Taken), rerun.batches, strict=True):
            yield at, record, rerun.took[begin:end]
            begin = end

    def timed(self, rerun: Rerun, kind: type[_Kind]) -> Iterator[tuple[int, _Kind]]:
        """What an incarnation noted of a kind, and when."""
        for record, at in zip(self.books[rerun.slice_id], self.times[rerun.slice_id], strict=True):
            if isinstance(record, kind) and record.incarnation == rerun.number:
                yield at, record

    def heard(self, rerun: Rerun, to: str) -> Iterator[Derivation]:
        """What somebody took of an incarnation on one channel."""
        yield from (derivation for _, derivation in self._heard_of(rerun, to))

    def _heard_of(self, rerun: Rerun, to: str) -> Iterator[tuple[int, Derivation]]:
        """The same, with their numbers."""
        for other in self.reruns.get(to, {}).values():
            for begin, end in self.taken_of(other).get((rerun.slice_id, rerun.number), ()):
                yield from zip(other.seqs[begin:end], other.took[begin:end], strict=True)
        for delivery in self.deliveries.get(channel_name(rerun.slice_id, to), ()):
            if delivery.record.incarnation == rerun.number:
                for event, derivation in zip(delivery.record.rows, delivery.derivations, strict=True):
                    if derivation is not None:
                        yield event.seq, derivation

    def visible(self, rerun: Rerun) -> list[int]:
        """How many of the events that an incarnation took itself had a visible effect (delivered, or taken
        downstream), the last of them included; for each of its stretches that had any."""
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
        from .long_intakes import delivered_of, taken_of, visible  # with numpy, which only long histories need

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

    def stateful(self) -> Sequence[str]:
        """The operator slices that keep something."""
        return self._stateful

    @lazily
    def _stateful(self) -> tuple[str, ...]:
        blank = {name: stage.operator.initial_state() is None for name, stage in self.topology.stages.items()}
        return tuple([one for one in self.topology.operator_slices if not blank[operator_of(one)]])

    @lazily
    def order_matters(self) -> bool:
        """Whether one execution without failures is not enough to tell what every other would have made."""
        topology = self.topology
        return any(
            (len(topology.upstream(slice_id)) > 1 and not self.commutes(slice_id))
            or not topology.stages[operator_of(slice_id)].operator.deterministic
            or topology.stages[operator_of(slice_id)].operator.every is not None
            for slice_id in topology.operator_slices
        )


def _counts(book: Iterable[BookEntry], sender: Rerun) -> tuple[int, int, int]:
    """How many batches it had taken, epochs had ended for it, and timers of it had fired."""
    mine = [type(record) for record in book if record.incarnation == sender.number]
    return mine.count(Taken), mine.count(Closed), mine.count(Fired)


def _surviving(reexecution: Reexecution, slice_id: str) -> Iterator[Rerun]:
    reruns = reexecution.reruns[slice_id]
    if len(reruns) == 1:
        yield from reruns.values()
        return
    last = {rerun.replica: number for number, rerun in sorted(reruns.items())}
    kept = reexecution.kept.get(slice_id, {})
    in_sync = reexecution.in_sync.get(slice_id, reruns.keys())
    alive = [number for number in sorted(last.values()) if number in kept and number in in_sync]
    for number in alive or sorted(last.values()):
        yield reruns[number]


def _taken_for(made: Sequence[Derivation], rerun: Rerun, stretch: Stretch) -> int:
    """How many of the events taken it needs to make these outputs of one channel in a stretch; an event can be taken
    twice."""
    took, begins = rerun.took.at_hand, stretch.begins
    ends = {(rerun.slice_id, one.epoch): one.position for one in stretch.closings}
    place, index = begins - 1, -1
    before = None if stretch.cut is None else stretch.cut.last
    for derivation in made:
        if place < begins and derivation[:-1] == before:
            # A timer made it of what had been taken when the stretch began.
            continue
        if ends and derivation[:-1] in ends:
            place, index = ends[derivation[:-1]] - 1, -1
            continue
        if place < begins or took[place] != derivation[:-1] or derivation[-1] <= index:
            place = took.index(derivation[:-1], place + 1)
        index = derivation[-1]
    return place + 1
