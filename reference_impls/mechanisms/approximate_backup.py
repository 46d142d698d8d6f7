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
from dataclasses import dataclass, field
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
_FEW = 16
"""A backup is made before theta is reached where so many times as many items as still fit have been processed since the
last one."""
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


@dataclass(slots=True)
class _Heard:
    """What a slice has heard on a channel, and not acknowledged."""

    upstream: str
    place: int
    fed_back: bool
    """Feedback comes on it."""
    events: int = 0
    """How many that is, or a few more."""
    due: bool = False
    """The sender is to hear of it."""
    processed: dict[int, int] = field(default_factory=dict)
    """The number of the last that was processed as it came, by the incarnation that sent it."""
    arrived: deque[_Arrived] = field(default_factory=deque)
    """What came after that."""

    def is_processed(self) -> None:
        """All of it has been."""
        for one in self.arrived:
            self.processed[one.sender] = one.events[-1].seq
        self.arrived.clear()


class _JustCame(msgspec.Struct, gc=False):
    """What came in last, where nothing waited: it may be processed as it came, and never wait."""

    heard: _Heard
    sender: int
    events: list[Event]


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
        self.punctuated = punctuated(self.operator)
        self.heard = [
            _Heard(up, place, topology.leads_back(up, spec.slice_id)) for place, up in enumerate(spec.upstream)
        ]
        """By the place of the channel."""
        self.just_came: _JustCame | None = None
        self.free = 0
        """So many items may be processed as they come, whatever they are: if each moves the state by alpha, and makes
        beta outputs, no threshold is passed. It is counted anew when it is used up, or when anything has waited."""
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
        self.by_alpha = 0
        """Of how many of them that is known by alpha alone."""
        self.foreseen: tuple[int, dict[int, float]] = (0, {})
        """The number of an item that waits; and by how much it and those after it, so many in all, move it at most."""
        self.issued: _Issued | None = None
        self.state_is_due = False
        """Theta has nearly been reached: what waits is processed once there is a backup."""
        self.saving: set[CheckpointId] = set()
        self.partials = 0
        """Since the last whole backup."""
        self.replay: list[Saved] = []
        self.restored_from = 1
        """The incarnation that made what is durable."""
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
        if self.just_came is not None:
            self.let_wait()
        heard, sender = self.heard[channel.place], channel.sender
        fresh = self.numbers.unseen(channel, events)
        heard.events += len(events)
        if heard.events >= self.together.of(heard.upstream, sender):
            heard.due = True
        if fresh is events and not self.pending and not self._any_precious(heard, events):
            # As nearly always.
            self.just_came = _JustCame(heard, sender, events)
        else:
            self._queue(heard, sender, events, fresh)
        return fresh

    def let_wait(self) -> None:
        """What came in last is not processed as it came."""
        came, self.just_came = self.just_came, None
        if came is not None:
            self._queue(came.heard, came.sender, came.events, came.events)

    def _queue(self, heard: _Heard, sender: int, events: list[Event], fresh: list[Event]) -> None:
        """Number what comes for the first time, and let it wait."""
        self.free = 0
        first = self.number + 1
        self.number += len(fresh)
        numbers: Sequence[int] = range(first, self.number + 1)
        if len(fresh) < len(events):
            known = {event.seq: number for event, number in zip(fresh, numbers, strict=True)}
            numbers = [known.get(event.seq, 0) for event in events]
        for precious, alike in self._by_worth(heard, fresh):
            self.pending.append(_Pending(first, heard.place, heard.upstream, sender, alike, precious))
            first += len(alike)
            if precious:
                # As long as it is not acknowledged it is part of its sender's backups.
                heard.due = True
        heard.arrived.append(_Arrived(sender, events, numbers))

    def _by_worth(self, heard: _Heard, events: list[Event]) -> Iterable[tuple[bool, list[Event]]]:
        """These in parts of which all or none must never be lost."""
        if not self._any_precious(heard, events):
            return ((False, events),) if events else ()
        alike = groupby(zip(self.precious(heard.fed_back, events), events, strict=True), itemgetter(0))
        return [(precious, [event for _, event in some]) for precious, some in alike]

    def _any_precious(self, heard: _Heard, events: list[Event]) -> bool:
        return (heard.fed_back or self.punctuated) and True in self.precious(heard.fed_back, events)

    def precious(self, fed_back: bool, events: list[Event]) -> list[bool]:
        """Of each item whether it must never be lost: a punctuation, or feedback."""
        if fed_back:
            return [True] * len(events)
        return [*map(self.operator.punctuation, events)] if self.punctuated else [False] * len(events)

    def crowded(self) -> bool:
        """If more came in, what waits would have to be backed up: it is cheaper to let it wait with its sender. Where
        all of it is backed up anyway, the more comes in at once the better."""
        return bool(self.pending) and self.allowed.l > 0 and self._more_wait_than(self.allowed.l / 2)

    def handled(self) -> None:
        """What could not be processed at once waits: it is backed up, or may be lost."""
        if self.just_came is not None:
            self.let_wait()
        if not self.pending:
            # As nearly always.
            for heard in self.heard:
                if heard.arrived:
                    heard.is_processed()
                if heard.due:
                    self._tell(heard)
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
                if len(waiting) == len(self.heard):
                    break
        for heard in self.heard:
            if heard.due:
                self._tell(heard, waiting.get(heard.upstream))

    def _tell(self, heard: _Heard, waiting: int | None = None) -> None:
        """Acknowledge what has come in on a channel, up to the item with this number, which has to be safe first."""
        upto, arrived = heard.processed, heard.arrived
        heard.processed = {}
        while arrived:
            one = arrived[0]
            count = len(one.numbers) if waiting is None else _before(one.numbers, waiting)
            if count:
                upto[one.sender] = one.events[count - 1].seq
            if count < len(one.events):
                one.events, one.numbers = one.events[count:], one.numbers[count:]
                break
            arrived.popleft()
        else:
            heard.events, heard.due = 0, False
        machine = self.machine
        for sender, seq in upto.items():
            if sender in machine.inputs[heard.upstream].links:
                machine.send(heard.upstream, sender, Received(machine.incarnation, seq))

    # Processing

    def left(self) -> int:
        came = self.just_came
        if came is None:
            return self._allowance()
        count = len(came.events)
        if count <= self.free or self._goes_through(count):
            self.free -= count
            return count
        self.let_wait()
        return self._allowance()

    def _goes_through(self, count: int) -> bool:
        """Whether all that has just come, so many, may be processed as it came: as `_allowance` says it of what waits,
        where nothing of it is safe or precious."""
        if self.failures.windowed or self.owed > self.covered or self.allowed.gamma < self.beta:
            return False
        made = self._can_make(self.allowed.gamma)
        if made < count or self._as_far_as_theta(count) < count:
            return False
        self.free = max(count, min(made, int(self._steps(0))) if self.stateful and self.alpha else made)
        return True

    def room(self) -> int:
        if self.just_came is not None:
            self.let_wait()
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
        elif self.state_is_due or not self._as_far_as_theta(1):
            self.issue()
        return 0

    def _too_little(self) -> bool:
        """Whether not one item is allowed that is not backed up, whatever is done."""
        return self.allowed.gamma < self.beta or (self.stateful and self.allowed.theta < self.alpha)

    def _steps(self, enough: float) -> float:
        """How many items more may move the state, each by alpha; exactly, where they are no more than that."""
        steps = (self.allowed.theta - self.divergence - self.moved) / self.alpha + 1e-9
        if self.unmeasured and steps <= enough:
            self.measure()
            steps = self._left_of_theta() / self.alpha + 1e-9
        return steps

    def _as_far_as_theta(self, count: int) -> int:
        """How many of so many that wait first may move the state."""
        if not self.stateful or not self.alpha or not count:
            return count
        # To look at those whose move is known by alpha alone buys more than to look at as many that wait.
        if count <= self._steps(count if self.by_alpha >= count else 0):
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
        came = self.just_came
        number, events = (
            (self.number + 1, came.events) if came is not None else (self.pending[0].number, self.pending[0].events)
        )
        if self.foreseen[0] != number:
            self.foreseen = number, {}
        foreseen = self.foreseen[1]
        if count not in foreseen:
            if len(events) < count:
                events = list(islice(chain.from_iterable([one.events for one in self.pending]), count))
            foreseen[count] = self.operator.alpha_of_all(events[:count])
        return foreseen[count]

    def _allowance(self) -> int:
        """How many of the items that wait may be taken."""
        self.state_is_due = False
        if not self.pending:
            return NO_LIMIT
        beta, limit = self.beta, self.allowed.gamma
        exact = limit < beta
        if exact:
            limit = max(self.thresholds.after(0).gamma, 2 * beta)
        made = self._can_make(limit)
        if not made:
            return 0
        head = self.pending[0]
        if head.safe:
            return 0 if self._to_be_covered() else self._first_of_them(made, safe=True)
        if head.precious or exact or self.owed > self.covered:
            return 0
        count = self._first_of_them(made, safe=False)
        fits = self._as_far_as_theta(count)
        # To look for the last that fit costs more than to make backups a little more often.
        self.state_is_due = fits < count and self.issued is None and fits * _FEW <= self.done - self.covered
        return 0 if self.state_is_due else fits

    def _can_make(self, limit: float) -> int:
        """Of how many items the outputs may go out, where so many may be unacknowledged."""
        if limit == inf:
            return NO_LIMIT
        made = max(0, int((limit - self.outputs.count) / self.beta))
        # At gamma it stops until so many fit that are acknowledged together, and does not take them one by one.
        return 0 if made < self.at_once and made < limit // (2 * self.beta) else made

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
        came = self.just_came
        if came is not None and came.events is events:
            self.just_came = None
            self.number += len(events)
            self.done = self.loose = self.number
            if came.heard.arrived:
                came.heard.is_processed()
            came.heard.processed[came.sender] = events[-1].seq
        else:
            self.passed(up, events)
        if self.stateful:
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
        count = len(events)
        self.unmeasured += events
        first, foreseen = self.foreseen
        known = foreseen.get(count) if first == self.done - count + 1 else None
        if known is None:
            self.moved += self.alpha * count
            self.by_alpha += count
        else:
            self.moved += known
        if len(self.unmeasured) >= _MEASURED_EVERY:
            self.measure()

    def measure(self) -> None:
        """How far the state is from its backup, with all that has been processed."""
        events, self.unmeasured, self.moved, self.by_alpha = self.unmeasured, [], 0.0, 0
        if events:
            self.divergence = self.operator.divergence_after_all(
                events, self.machine.state, self.backup, self.divergence
            )

    def measure_anew(self) -> None:
        """The same, of a state or a backup that is another now."""
        self.unmeasured, self.moved, self.by_alpha, self.free = [], 0.0, 0, 0
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
            (precious,) = self.precious(self.heard[channel.place].fed_back, [one.event])
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
