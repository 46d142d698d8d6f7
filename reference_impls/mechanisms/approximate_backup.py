"""Backing up a state, and the items that wait for it, only when a failure would cost more than a threshold (AF-Stream,
sections 3.4 to 3.6).

- The state is backed up before an item is taken by which its divergence from what is durable could exceed theta: `d +
  alpha > theta`; d is measured when by alpha alone it could have become so much. The slice waits until the backup is
  durable, so that the divergence never exceeds theta, and nothing has to be added to the bound. Asynchronously, the
  backup is issued so many items ahead; while it is written the slice goes on until theta is reached, and then waits. So
  what is in flight is paid for out of theta (the paper checks after the update, and owes alpha for each item that is in
  flight, and one more).
- Items that wait are backed up, all of them, when more than l would not be. They are acknowledged at once as long as
  no more than l are not safe, the others when they are.
- At gamma outputs that are not acknowledged nothing more is taken.
- An item that is backed up when it is taken costs nothing: it is replayed. So where halved thresholds allow not even
  one item, items are backed up first, and the slice goes on without loss.
- With windows, an item of a later one is backed up before it is processed: who comes after has to know in which window
  the failure was.
- Recovery restores the backup, and replays those items above its number that are the newest run of consecutive numbers.
  What came before that run had been processed when the run was backed up, and theta covers it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from math import inf
from operator import itemgetter
from typing import Any

import msgspec

from ...harness.core.errors import OwnFailure
from ...harness.core.events import Event, carried
from ...harness.core.operators import backs_up_partly, compensates, measures_many, punctuated, tells_alpha_of_all
from ...harness.core.proper import positive, proper, switch
from ...harness.core.quantities import Events
from ...harness.core.slice_names import operator_of
from ...harness.protocol.channels import InputChannel
from ...harness.protocol.effects import Durable, Persist, PersistItems, Start
from ...harness.protocol.mechanism import NO_LIMIT, AtWork, Made, Mechanism
from ...harness.protocol.merging import ChannelRun
from ...harness.protocol.messages import Checkpoint, CheckpointId, Items, Message, Tie
from ...harness.protocol.operator import STATE, OperatorSlice
from ...harness.recording.records import CheckpointDurable
from .receipt import ONE_BY_ONE, AcknowledgedTogether, NumbersSeen, Received, Settled, Unacknowledged
from .thresholds import Failures, Thresholds

PART = "approximate"
_WHOLE_EVERY = 16
"""So many partial backups at most follow a whole one."""
_MEASURED_EVERY = 1_000
"""After so many items it is measured how far the state is, though it could be further by alpha."""


@dataclass(frozen=True)
class ApproximateBackup(Mechanism):
    """Of an operator's slices, with `KeepUntilReceived`."""

    messages = (Received, Settled)

    thresholds: Mapping[str, Thresholds]
    """Operator -> what one of its slices may lose in all, in a window."""
    ahead: int = 0
    """A backup of the state is issued so many items before it has to be durable; 0: the slice waits for it."""
    partial: bool = True
    """Whether only what has changed is backed up, where an operator says that."""
    keep: int = 500
    """Items that are kept beside a backup, before the next one is made to cover them."""
    acknowledge_every: Events = ONE_BY_ONE
    """Items that are acknowledged together, see `AcknowledgedTogether`."""

    def __post_init__(self) -> None:
        proper(self.thresholds, Mapping, "thresholds", "a mapping from operators to Thresholds")
        if self.ahead != 0 or isinstance(self.ahead, bool):
            positive(self.ahead, "ahead")
        switch(self.partial, "partial")
        positive(self.keep, "keep")
        proper(self.acknowledge_every, Events, "acknowledge_every", "a number of events, as in events(100)")

    @property
    def takes_checkpoints(self) -> bool:
        return True

    @property
    def replays(self) -> bool:
        return True

    def attach(self, machine: OperatorSlice) -> AtWork:
        kind = ApproximateBackups if measures_many(machine.operator) else FollowingEach
        return kind(machine, self)


class Saved(msgspec.Struct, frozen=True, array_like=True, tag="saved"):
    """An item that is backed up."""

    number: int
    """That its receiver gave it."""
    upstream: str
    sender: int
    event: Event


class Backup(msgspec.Struct, frozen=True):
    """The part of a backup that is this mechanism's own."""

    numbers: dict[int, list[tuple[int, int]]] = {}
    """See `NumbersSeen`."""
    failures: list[int] = []
    """See `Failures`."""


class PartialBackup(msgspec.Struct, frozen=True, array_like=True, tag="partial"):
    """A partial backup."""

    changes: Any
    parts: dict[str, Any]


@dataclass(slots=True)
class _Pending:
    """Items that were received one after the other on a channel, and are not processed: all of them fare alike."""

    number: int
    """Of the first; the others follow."""
    place: int
    upstream: str
    sender: int
    events: list[Event]
    precious: bool = False
    """They must never be lost."""
    saved: CheckpointId | None = None
    """With which items they were backed up."""
    safe: bool = False
    """That is durable."""

    @property
    def last(self) -> int:
        return self.number + len(self.events) - 1


@dataclass(slots=True)
class _Arrived:
    """What came in together, as far as it is not acknowledged."""

    sender: int
    """The incarnation that sent it."""
    events: list[Event]
    numbers: Sequence[int]
    """Of each; 0: it is known already."""


@dataclass(frozen=True)
class _Issued:
    """A backup of the state that is not durable yet."""

    id: CheckpointId
    number: int
    state: bytes | None
    changes: Any
    positions: Mapping[str, tuple[int, int]]


class ApproximateBackups(AtWork):
    """At work in one slice."""

    part = PART
    machine: OperatorSlice

    def __init__(self, machine: OperatorSlice, settings: ApproximateBackup) -> None:
        super().__init__(machine)
        spec = machine.spec
        name = operator_of(spec.slice_id)
        self.operator = machine.operator
        self.thresholds = settings.thresholds[name]
        self.failures = Failures(self.thresholds.window)
        self.ahead = settings.ahead
        self.keep = settings.keep
        self.alpha = float(self.operator.alpha or 0.0)
        self.tells_of_all = tells_alpha_of_all(self.operator)
        self.beta = (self.operator.fan_out or 1) * len(spec.topology.choices(spec.slice_id))
        self.at_once = settings.acknowledge_every.count
        self.stateful = machine.state is not None
        self.partial = settings.partial and self.stateful and backs_up_partly(self.operator)
        topology = spec.topology
        self.fed_back = frozenset(up for up in spec.upstream if topology.leads_back(up, spec.slice_id))
        """Whence feedback comes."""
        self.punctuated = punctuated(self.operator)
        self.numbers = NumbersSeen(machine)
        self.allowed = self.thresholds.after(0)
        """What is in force."""
        self.pending: deque[_Pending] = deque()
        self.number = 0
        """Of the item received last."""
        self.done = 0
        """Of the item processed last."""
        self.covered = 0
        """Of the last item that is in the newest durable backup of the state."""
        self.loose = 0
        """Of the last item that was processed without having been backed up."""
        self.owed = 0
        """Of the last item processed that must never be lost."""
        self.backup: Any = self.operator.restore(self.operator.snapshot(machine.state)) if self.stateful else None
        """The state that is durable."""
        self.divergence = 0.0
        """Of the state from that, when it was measured last."""
        self.unmeasured: list[Event] = []
        """Processed since."""
        self.moved = 0.0
        """By how much these have moved it at most."""
        self.foreseen: tuple[int, dict[int, float]] = (0, {})
        """The number of an item that waits; and by how much it and those after it, so many in all, move it at most."""
        self.issued: _Issued | None = None
        self.saving: set[CheckpointId] = set()
        self.partials = 0
        """Since the last whole backup."""
        self.replay: list[Saved] = []
        self.restored_from = 1
        """The incarnation that made what is durable."""
        self.arrived: dict[str, deque[_Arrived]] = {up: deque() for up in machine.inputs}
        """Upstream slice -> what is not acknowledged."""
        self.unheard = dict.fromkeys(machine.inputs, 0)
        """How many events that is, or a few more."""
        self.due: set[str] = set()
        """Upstream slices that are to hear of it."""
        self.together = AcknowledgedTogether(
            machine.spec.topology, settings.acknowledge_every.count, settings.thresholds
        )

    @property
    def outputs(self) -> Unacknowledged:
        log = self.machine.log
        if not isinstance(log, Unacknowledged):
            raise OwnFailure(f"{self.machine.spec.slice_id} does not keep its outputs until they are received")
        return log

    # Receiving

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {Settled: self._settled}

    def _settled(self, peer: str, message: Settled) -> None:
        self.numbers.settle(self.machine.inputs[peer].place, message.incarnation, message.upto)

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        up, sender = self.machine.spec.upstream[channel.place], channel.sender
        fresh = self.numbers.unseen(channel, events)
        first = self.number + 1
        self.number += len(fresh)
        numbers: Sequence[int] = range(first, self.number + 1)
        self.unheard[up] += len(events)
        if self.unheard[up] >= self.together.of(up, sender):
            self.due.add(up)
        if len(fresh) < len(events):
            known = {event.seq: number for event, number in zip(fresh, numbers, strict=True)}
            numbers = [known.get(event.seq, 0) for event in events]
        for precious, alike in self._by_worth(up, fresh):
            self.pending.append(_Pending(first, channel.place, up, sender, alike, precious))
            first += len(alike)
            if precious:
                # As long as it is not acknowledged it is part of its sender's backups.
                self.due.add(up)
        self.arrived[up].append(_Arrived(sender, events, numbers))
        return fresh

    def _by_worth(self, up: str, events: list[Event]) -> Iterable[tuple[bool, list[Event]]]:
        """These in parts of which all or none must never be lost."""
        if not events:
            return ()
        if not self.punctuated:
            return ((self.is_precious(up, events[0]), events),)
        worth = [self.is_precious(up, event) for event in events]
        if True not in worth:
            return ((False, events),)
        alike = groupby(zip(worth, events, strict=True), itemgetter(0))
        return [(precious, [event for _, event in some]) for precious, some in alike]

    def is_precious(self, up: str, event: Event) -> bool:
        """Whether an item must never be lost: a punctuation, or feedback."""
        return up in self.fed_back or (self.punctuated and self.operator.punctuation(event))

    def crowded(self) -> bool:
        """If more came in, what waits would have to be backed up: it is cheaper to let it wait with its sender. Where
        all of it is backed up anyway, the more comes in at once the better."""
        return bool(self.pending) and self.allowed.l > 0 and self._more_wait_than(self.allowed.l / 2)

    def handled(self) -> None:
        """What could not be processed at once waits: it is backed up, or may be lost."""
        if not self.pending:
            # As nearly always.
            if self.due:
                self._acknowledge(True)
            return
        fits = not self._more_wait_than(self.allowed.l)
        if not fits or any(one.precious for one in self._loose()):
            self.save_all()
        self._acknowledge(fits)

    def _more_wait_than(self, most: float) -> bool:
        """Of items that are not safe."""
        count = 0
        for one in self._loose():
            count += len(one.events)
            if count > most:
                return True
        return False

    def _loose(self) -> Iterable[_Pending]:
        return (one for one in self.pending if not one.safe)

    def save_all(self) -> None:
        """Back up all items that wait and are not backed up."""
        if self.saving:
            # One after the other: what is durable has to be consecutive.
            return
        items = [one for one in self.pending if one.saved is None]
        if not items:
            return
        id_ = self.machine.next_id()
        saved: list[Any] = []
        for one in items:
            one.saved = id_
            saved += [
                Saved(number, one.upstream, one.sender, event) for number, event in enumerate(one.events, one.number)
            ]
        self.saving.add(id_)
        self.machine.effects.append(PersistItems(Items(self.machine.spec.slice_id, id_, items[-1].last, saved)))

    def _acknowledge(self, fits: bool) -> None:
        waiting: dict[str, int] = {}
        for pending in self.pending:
            if not pending.safe and (pending.precious or not fits):
                # Of each channel what came first: what came after it waits for it.
                waiting.setdefault(pending.upstream, pending.number)
                if len(waiting) == len(self.arrived):
                    break
        for up, arrived in self.arrived.items():
            if up not in self.due:
                continue
            upto: dict[int, int] = {}
            while arrived:
                one = arrived[0]
                count = _before(one.numbers, waiting[up]) if up in waiting else len(one.numbers)
                if count:
                    upto[one.sender] = one.events[count - 1].seq
                if count < len(one.events):
                    one.events, one.numbers = one.events[count:], one.numbers[count:]
                    break
                arrived.popleft()
            else:
                self.unheard[up] = 0
                self.due.remove(up)
            for sender, seq in upto.items():
                if sender in self.machine.inputs[up].links:
                    self.machine.send(up, sender, Received(self.machine.incarnation, seq))

    # Processing

    def left(self) -> int:
        return self._allowance()

    def room(self) -> int:
        allowance = self._allowance()
        if not self.pending:
            return allowance
        if allowance:
            self._in_time(allowance)
            return allowance
        head = self.pending[0]
        if head.safe and self._to_be_covered():
            self.issue()
        if self.issued is not None or (head.saved is not None and not head.safe) or head.safe:
            return 0
        if self.owed > self.covered and not head.precious:
            self.issue()
        elif head.precious or self._too_little() or self.failures.is_beyond(head.events[0].time):
            self.save_all()
        elif self._state_is_due():
            self.issue()
        return 0

    def _too_little(self) -> bool:
        """Whether not one item is allowed that is not backed up, whatever is done."""
        return self.allowed.gamma < self.beta or (self.stateful and self.allowed.theta < self.alpha)

    def _state_is_due(self) -> bool:
        return self.stateful and not self._as_far_as_theta(1)

    def _steps(self, enough: float) -> float:
        """How many items more may move the state, each by alpha; exactly, where they are no more than that."""
        steps = self._left_of_theta() / self.alpha + 1e-9
        if self.unmeasured and steps <= enough:
            self.measure()
            steps = self._left_of_theta() / self.alpha + 1e-9
        return steps

    def _as_far_as_theta(self, count: int) -> int:
        """How many of so many that wait first may move the state."""
        if not self.stateful or not self.alpha or not count:
            return count
        if self.tells_of_all and self._alpha_of_first(count) <= self._left_of_theta():
            return count
        steps = self._steps(count)
        if count <= steps:
            return count
        if not self.tells_of_all:
            return int(max(0, steps))
        left = self._left_of_theta()
        while count > steps and (far := self._alpha_of_first(count)) > left:
            if count == 1:
                return 0
            # As many as it would be if all of them moved it equally far.
            count = int(max(1, steps, min(count * left / far, count * 3 / 4)))
        return count

    def _left_of_theta(self) -> float:
        return self.allowed.theta - self.divergence - self.moved

    def _alpha_of_first(self, count: int) -> float:
        """How far the first that wait move the state at most."""
        if self.foreseen[0] != self.pending[0].number:
            self.foreseen = self.pending[0].number, {}
        foreseen = self.foreseen[1]
        if count not in foreseen:
            events = self.pending[0].events
            if len(events) != count:
                events = list(islice(chain.from_iterable([one.events for one in self.pending]), count))
            foreseen[count] = self.operator.alpha_of_all(events)
        return foreseen[count]

    def _allowance(self) -> int:
        """How many of the items that wait may be taken."""
        if not self.pending:
            return NO_LIMIT
        beta, limit = self.beta, self.allowed.gamma
        exact = limit < beta
        if exact:
            limit = max(self.thresholds.after(0).gamma, 2 * beta)
        made = max(0, int((limit - self.outputs.count) / beta)) if limit < inf else NO_LIMIT
        if made < self.at_once and made < limit // (2 * beta):
            # At gamma it stops until so many fit that are acknowledged together, and does not take them one by one.
            return 0
        head = self.pending[0]
        if head.safe:
            return 0 if self._to_be_covered() else self._first_of_them(made, safe=True)
        if head.precious or exact or self.owed > self.covered:
            return 0
        return self._as_far_as_theta(self._first_of_them(made, safe=False))

    def _first_of_them(self, most: int, *, safe: bool) -> int:
        """How many of the first that wait are safe; or are not, and may be lost. No more than so many."""
        count = 0
        for one in self.pending:
            if count >= most or one.safe is not safe or (one.precious and not safe):
                break
            within = len(one.events) if safe else self.failures.within(one.events)
            count += within
            if within < len(one.events):
                break
        return max(0, min(most, count))

    def _to_be_covered(self) -> bool:
        """Whether so many items are kept beside the backup that nothing more is taken before one covers them."""
        return self.done - self.covered >= 2 * self.keep

    def _in_time(self, allowance: int) -> None:
        """Issue a backup before it has to be waited for."""
        if self.issued is not None:
            return
        if (self.done - self.covered >= self.keep and self.pending[0].safe) or (
            self.ahead
            and self.stateful
            and self.alpha
            and not self.pending[0].safe
            and self._steps(self.ahead) <= self.ahead
            and self.divergence > 0
        ):
            self.issue()

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        self.passed(up, events)
        self.follow(events)

    def passed(self, up: str, events: list[Event]) -> None:
        """The next of those that wait have been processed."""
        place = 0
        while place < len(events):
            one = self.pending[0]
            count = min(len(one.events), len(events) - place)
            if one.upstream != up or one.events[0].seq != events[place].seq:
                raise OwnFailure(
                    f"{self.machine.spec.slice_id} took ({up}, {events[place].seq}), and not {one.events[0]!r}"
                )
            self.done = one.number + count - 1
            if not one.safe:
                self.loose = self.done
            if one.precious:
                self.owed = self.done
            if count == len(one.events):
                self.pending.popleft()
            else:
                one.number, one.events = one.number + count, one.events[count:]
            place += count
        if self.failures.passed_all(events):
            self.allowed = self.in_force()

    def follow(self, events: list[Event]) -> None:
        """These have been processed."""
        if not self.stateful:
            return
        self.unmeasured += events
        if not self.tells_of_all:
            self.moved += self.alpha * len(events)
        else:
            first, foreseen = self.foreseen
            known = foreseen.get(len(events)) if first == self.done - len(events) + 1 else None
            self.moved += self.operator.alpha_of_all(events) if known is None else known
        if len(self.unmeasured) >= _MEASURED_EVERY:
            self.measure()

    def measure(self) -> None:
        """How far the state is from its backup, with all that has been processed."""
        events, self.unmeasured, self.moved = self.unmeasured, [], 0.0
        if events:
            self.divergence = self.operator.divergence_after_all(
                events, self.machine.state, self.backup, self.divergence
            )

    def measure_anew(self) -> None:
        """The same, of a state or a backup that is another now."""
        self.unmeasured, self.moved = [], 0.0
        self.divergence = self.operator.divergence(self.machine.state, self.backup)

    def in_force(self) -> Thresholds:
        return self.thresholds.after(self.failures.count)

    # Backing up the state

    def issue(self) -> None:
        """Back up the state, unless more outputs than allowed would then be lost with the slice."""
        if self.issued is not None or (self.allowed.gamma < self.beta and self.outputs.count > self.allowed.gamma):
            return
        machine = self.machine
        self.measure()
        # What a partial backup leaves out is lost, and more than theta is not left out if it was not more before: items
        # that are backed up move the state beyond it.
        if self.partial and self.partials < _WHOLE_EVERY and self.divergence <= self.allowed.theta:
            changes = carried(self.operator.delta(machine.state, self.backup))
            checkpoint = machine.snapshot({STATE}, partial=True)
            self.issued = _Issued(checkpoint.id, self.done, None, changes, self.outputs.positions())
            kept: list[Any] = [PartialBackup(changes, checkpoint.parts)]
            machine.effects.append(PersistItems(Items(checkpoint.slice, checkpoint.id, self.done, kept)))
            return
        checkpoint = msgspec.structs.replace(machine.snapshot(), covers=self.done)
        state = checkpoint.part(STATE, bytes)
        self.issued = _Issued(checkpoint.id, self.done, state, None, self.outputs.positions())
        machine.effects.append(Persist(checkpoint))

    def durable(self, given: Durable) -> None:
        machine = self.machine
        if given.id in self.saving:
            self.saving.remove(given.id)
            for one in self.pending:
                if one.saved == given.id:
                    one.safe = True
                    self.failures.reached(max([event.time for event in one.events]))
        elif self.issued is not None and given.id == self.issued.id:
            issued, self.issued = self.issued, None
            machine.note(CheckpointDurable(machine.spec.slice_id, given.id.incarnation, given.id.number))
            self._is_durable(issued)
        else:
            raise OwnFailure(f"{machine.spec.slice_id} did not wait for {given.id}, but it became durable")
        machine.work()

    def _is_durable(self, issued: _Issued) -> None:
        self.covered = issued.number
        self.restored_from = self.machine.incarnation
        if self.stateful:
            if issued.state is None:
                self.backup = self.operator.apply_delta(self.backup, issued.changes)
                self.partials += 1
            else:
                self.backup = self.operator.restore(issued.state)
                self.partials = 0
            self.measure_anew()
        self.outputs.settle(issued.positions)

    def save(self) -> Backup:
        waiting = ((one.place, one.events) for one in self.pending)
        return Backup(self.numbers.save(waiting), self.failures.save())

    # Recovering

    def completed(self, checkpoint: Checkpoint | None, kept: Sequence[Items]) -> Checkpoint | None:
        """The newest backup of the state, of the whole one and the partial ones that came after it; and which items are
        to be replayed."""
        saved: list[Saved] = []
        for one in kept:
            for item in one.items:
                found = item if isinstance(item, PartialBackup | Saved) else msgspec.convert(item, _KEPT)
                if isinstance(found, Saved):
                    saved.append(found)
                    self.failures.reached(found.event.time)
                elif checkpoint is None or _later(one.id, checkpoint.id):
                    checkpoint = self._onto(checkpoint, one, found)
        self.covered = self.done = checkpoint.covers if checkpoint is not None else 0
        self.restored_from = checkpoint.id.incarnation if checkpoint is not None else 1
        self.replay = self.newest_run([one for one in saved if one.number > self.covered])
        self.number = max([self.covered, *(one.number for one in saved)])
        return checkpoint

    def newest_run(self, saved: list[Saved]) -> list[Saved]:
        """The newest items with consecutive numbers."""
        run: list[Saved] = []
        for one in sorted({one.number: one for one in saved}.values(), key=_number, reverse=True):
            if run and run[-1].number != one.number + 1:
                break
            run.append(one)
        return run[::-1]

    def _onto(self, checkpoint: Checkpoint | None, one: Items, partial: PartialBackup) -> Checkpoint:
        state = self.machine.state
        if checkpoint is not None:
            held = checkpoint.part(STATE, bytes)
            state = state if held is None else self.operator.restore(held)
        state = self.operator.apply_delta(state, partial.changes)
        parts = {**partial.parts, STATE: self.operator.snapshot(state)}
        return Checkpoint(one.slice, one.id, parts, covers=one.last)

    def restore(self, checkpoint: Checkpoint) -> None:
        found = checkpoint.part(PART, Backup) or Backup()
        self.numbers.restore(found.numbers)
        if found.failures:
            self.failures.restore(found.failures)
        state = checkpoint.part(STATE, bytes)
        if self.stateful and state is not None:
            self.backup = self.operator.restore(state)

    def started(self, given: Start) -> None:
        self.failures.begin(given.incarnation)
        self.allowed = self.in_force()
        self.compensate(range(self.restored_from, given.incarnation))
        machine = self.machine
        for one in self.replay:
            channel = machine.inputs[one.upstream]
            channel.sender = one.sender
            self.numbers.unseen(channel, [one.event])
            channel.seen = max(channel.seen, one.event.seq)
            precious = self.is_precious(one.upstream, one.event)
            pending = _Pending(one.number, channel.place, one.upstream, one.sender, [one.event], precious, safe=True)
            self.pending.append(pending)
            machine.waiting.put(ChannelRun(channel.place, one.sender, [one.event]))
        self.replay = []
        machine.work()

    def compensate(self, failures: range) -> None:
        """Make up for what every failure since the backup may have cost."""
        if not failures or not compensates(self.operator):
            return
        halved = [self.thresholds.after(number - 1) for number in failures]
        missing = sum(one.theta + self.alpha * one.l for one in halved)
        if not missing:
            return
        self.machine.compensate(missing)
        self.measure_anew()


class FollowingEach(ApproximateBackups):
    """Of an operator that says how far each single event moves its state, and not how far many do."""

    def made(self, up: str, event: Event, tie: Tie | None, outputs: list[Made], ties: list[list[Tie]]) -> None:
        if self.stateful:
            state, before = self.machine.state, self.divergence
            self.divergence = self.operator.divergence_after(event, state, self.backup, before)

    def follow(self, events: list[Event]) -> None:
        """Each of them has been."""


def _before(numbers: Sequence[int], first: int) -> int:
    """How many come before the first number that is not below this one. They rise, but for zeros."""
    if isinstance(numbers, range):
        return max(0, min(len(numbers), first - numbers.start))
    return next((place for place, number in enumerate(numbers) if number >= first), len(numbers))


_KEPT: Any = PartialBackup | Saved


def _number(one: Saved) -> int:
    return one.number


def _later(one: CheckpointId, other: CheckpointId) -> bool:
    return (one.incarnation, one.number) > (other.incarnation, other.number)
