"""The slice as a sans-I/O state machine: inputs in, effects out, and nothing else.

There are three kinds, for the three roles in a topology, made of the same channel ends. A scheme changes none of
them; it chooses their `Components`. No thread, socket, clock or random number in here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import InvalidOperator, OwnFailure, StreamproofError
from ..model import NUMBERING_SPAN, PLAIN, Event, Operator, Role, Topology, carried, channel_name, operator_of, rows_of
from ..recording.records import (
    CheckpointDurable,
    CheckpointTaken,
    Delivered,
    Ended,
    Kept,
    Offered,
    Refused,
    Started,
    Taken,
)
from .channels import InputChannel, OutputChannel
from .components import AcknowledgeAt, Components, Numbering, Part
from .effects import (
    Checkpoint,
    CheckpointId,
    Durable,
    Effect,
    Fire,
    Input,
    Inspect,
    Note,
    Persist,
    Receive,
    Reroute,
    Send,
    SetTimer,
    Start,
)
from .messages import Acknowledge, Batch, End, Message, Open, after, identity

EMIT = "emit"
"""The timer on which a source emits its next batch."""


@dataclass(frozen=True)
class SliceSpec:
    """Everything about a slice that does not change while it runs."""

    slice_id: str
    topology: Topology
    components: Components
    upstream: tuple[str, ...] = field(init=False)
    downstream: tuple[str, ...] = field(init=False)
    receivers: _Receivers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "upstream", self.topology.upstream(self.slice_id))
        object.__setattr__(self, "downstream", self.topology.downstream(self.slice_id))
        object.__setattr__(self, "receivers", _Receivers(self.topology, self.slice_id, self.downstream))

    @property
    def role(self) -> Role:
        return self.topology.role(self.slice_id)


class _Receivers(dict[str, tuple[int, ...]]):
    """Key -> the places in `downstream` that an output with this key goes to. Computed once a key."""

    def __init__(self, topology: Topology, slice_id: str, downstream: tuple[str, ...]) -> None:
        super().__init__()
        self._topology = topology
        self._slice_id = slice_id
        self._downstream = downstream

    def __missing__(self, key: str) -> tuple[int, ...]:
        if not isinstance(key, str):
            raise TypeError(f"key {key!r} of an output is not a str")
        places = tuple(self._downstream.index(to) for to in self._topology.receivers(self._slice_id, key))
        self[key] = places
        return places


class Slice(Protocol):
    """What a host runs."""

    spec: SliceSpec
    incarnation: int
    taken: int
    """Events that this incarnation has taken (a source: offered) so far."""

    def on(self, given: Input) -> list[Effect]:
        """Take one input; return what must be done about it, in order.

        Raises InvalidOperator when the user's code fails.
        """


class _Base:
    """Dispatch, incarnation, and the output side, which sources and operators share."""

    def __init__(self, spec: SliceSpec) -> None:
        self.spec = spec
        self.incarnation = 0
        self.taken = 0
        self._seq = 0
        self._ended = False
        self._outputs = {to: OutputChannel(spec.components.output_log) for to in spec.downstream}
        self._inputs = {up: InputChannel() for up in spec.upstream}
        self._handlers: dict[type, Callable[[Any, list[Effect]], None]] = {
            Start: self._start,
            Reroute: self._reroute,
            Receive: self._receive,
            Durable: self._durable,
            Fire: self._fire,
            Inspect: self._inspect,
        }

    def on(self, given: Input) -> list[Effect]:
        effects: list[Effect] = []
        self._handlers[type(given)](given, effects)
        return effects

    def _start(self, given: Start, effects: list[Effect]) -> None:
        self.incarnation = given.incarnation
        checkpoint = given.checkpoint
        if self.spec.components.numbering is Numbering.FRESH:
            self._seq = (given.incarnation - 1) * NUMBERING_SPAN
        if checkpoint is not None:
            self._restore(checkpoint)
        restored = None if checkpoint is None else (checkpoint.id.incarnation, checkpoint.id.number)
        effects.append(Note(Started(self.spec.slice_id, given.incarnation, restored, self._seq + 1)))

    def _restore(self, checkpoint: Checkpoint) -> None:
        raise OwnFailure(f"{self.spec.slice_id} takes no checkpoints, but was given {checkpoint.id}")

    def _reroute(self, given: Reroute, effects: list[Effect]) -> None:
        """A new upstream incarnation is asked for what it may have that we have not."""
        channel = self._inputs.get(given.peer)
        if channel is not None and given.incarnation > channel.incarnation:
            channel.incarnation = given.incarnation
            channel.ended = self._ended = False
            effects.append(Send(given.peer, channel.incarnation, Open(self.incarnation, channel.mark)))

    def _receive(self, given: Receive, effects: list[Effect]) -> None:
        message = given.message
        if isinstance(message, (Batch, End)):
            self._from_upstream(given.peer, message, effects)
        else:
            self._from_downstream(given.peer, message, effects)

    def _from_upstream(self, peer: str, message: Batch | End, effects: list[Effect]) -> None:
        raise OwnFailure(f"{self.spec.slice_id} has no input, but {peer} sent {identity(message)}")

    def _from_downstream(self, peer: str, message: Open | Acknowledge, effects: list[Effect]) -> None:
        channel = self._outputs[peer]
        if channel.receiver is not None and message.incarnation < channel.receiver:
            self._refuse(peer, message, effects)
        elif isinstance(message, Acknowledge):
            channel.acknowledge(message.upto)
        else:
            effects += [
                Send(peer, message.incarnation, Batch(self.incarnation, events))
                for events in channel.open(message.incarnation, message.after)
            ]
            if self._ended:
                effects.append(Send(peer, message.incarnation, End(self.incarnation)))

    def _refuse(self, peer: str, message: Message, effects: list[Effect]) -> None:
        refused = Refused(self.spec.slice_id, self.incarnation, peer, message.incarnation, identity(message))
        effects.append(Note(refused))

    def _emit(self, outboxes: list[list[Event]], effects: list[Effect]) -> None:
        for (to, channel), events in zip(self._outputs.items(), outboxes, strict=True):
            if events and (receiver := channel.emit(events)) is not None:
                effects.append(Send(to, receiver, Batch(self.incarnation, events)))

    def _end(self, effects: list[Effect]) -> None:
        self._ended = True
        inputs = {up: [channel.incarnation] for up, channel in self._inputs.items()}
        effects.append(Note(Ended(self.spec.slice_id, self.incarnation, inputs)))
        for to, channel in self._outputs.items():
            if channel.receiver is not None:
                effects.append(Send(to, channel.receiver, End(self.incarnation)))

    def _durable(self, given: Durable, effects: list[Effect]) -> None:
        raise OwnFailure(f"{self.spec.slice_id} takes no checkpoints, but {given.id} became durable")

    def _fire(self, given: Fire, effects: list[Effect]) -> None:
        raise OwnFailure(f"{self.spec.slice_id} sets no timer, but {given.timer!r} fired")

    def _inspect(self, given: Inspect, effects: list[Effect]) -> None:
        """Nothing is kept, unless a kind says so."""


class SourceSlice(_Base):
    """The harness's end that offers the input, batch by batch, each when its timer fires."""

    def __init__(self, spec: SliceSpec, batches: Iterator[list[Event]], interval: int) -> None:
        super().__init__(spec)
        self._batches = batches
        self._interval = interval

    def _start(self, given: Start, effects: list[Effect]) -> None:
        super()._start(given, effects)
        effects.append(SetTimer(EMIT, self._interval))

    def _fire(self, given: Fire, effects: list[Effect]) -> None:
        events = next(self._batches, None)
        if events is None:
            self._end(effects)
            return
        self.taken += len(events)
        effects.append(Note(Offered(self.spec.slice_id, events)))
        outboxes: list[list[Event]] = [[] for _ in self.spec.downstream]
        receivers = self.spec.receivers
        for event in events:
            for place in receivers[event.key]:
                outboxes[place].append(event)
        self._emit(outboxes, effects)
        effects.append(SetTimer(EMIT, self._interval))


class _Receiving(_Base):
    """The input side, which operators and sinks share: fencing, the duplicate filter, the end."""

    def _from_upstream(self, peer: str, message: Batch | End, effects: list[Effect]) -> None:
        channel = self._inputs[peer]
        if message.incarnation != channel.incarnation:
            self._refuse(peer, message, effects)
        elif isinstance(message, End):
            channel.ended = True
            if all(c.ended for c in self._inputs.values()):
                self._end(effects)
        else:
            events = message.events
            if self.spec.components.duplicate_filter and events[0].seq <= channel.mark:
                events = after(events, channel.mark)
            if events:
                self._take(peer, channel, events, effects)

    def _take(self, peer: str, channel: InputChannel, events: list[Event], effects: list[Effect]) -> None:
        raise NotImplementedError


class OperatorSlice(_Receiving):
    """One partition of an operator at work."""

    def __init__(self, spec: SliceSpec) -> None:
        super().__init__(spec)
        self._operator: Operator[Any] = spec.topology.stages[operator_of(spec.slice_id)].operator
        with _user_code(spec.slice_id, "initial_state()"):
            self._state: Any = self._operator.initial_state()
        self._last: Event | None = None
        """The event taken last, which is the one to name when a snapshot fails."""
        self._checkpoint_number = 0
        self._since_checkpoint = 0
        self._pending: CheckpointId | None = None
        self._waiting: deque[tuple[str, Batch | End]] = deque()
        """Input that came while a checkpoint was due and the one before it not yet durable."""

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._checkpoint_number = checkpoint.id.number
        if checkpoint.state is not None:
            with _user_code(self.spec.slice_id, "restore()"):
                self._state = self._operator.restore(checkpoint.state)
        for up, mark in checkpoint.vector.items():
            self._inputs[up].mark = mark
        for to, events in checkpoint.log.items():
            self._outputs[to].restore(events)
        if checkpoint.next_seq is not None and self.spec.components.numbering is Numbering.CONTINUED:
            self._seq = checkpoint.next_seq - 1

    def _from_upstream(self, peer: str, message: Batch | End, effects: list[Effect]) -> None:
        if self._pending is not None and self._must_wait():
            self._waiting.append((peer, message))
        else:
            super()._from_upstream(peer, message, effects)

    def _must_wait(self) -> bool:
        policy = self.spec.components.checkpointing
        return policy is not None and self._pending is not None and self._since_checkpoint >= policy.every.count

    def _take(self, peer: str, channel: InputChannel, events: list[Event], effects: list[Effect]) -> None:
        policy = self.spec.components.checkpointing
        if policy is None:
            self._process(peer, channel, events, effects)
            return
        while events:
            room = policy.every.count - self._since_checkpoint
            if room <= 0:
                self._waiting.appendleft((peer, Batch(channel.incarnation, events)))
                return
            chunk, events = events[:room], events[room:]
            self._process(peer, channel, chunk, effects)
            self._since_checkpoint += len(chunk)
            if self._since_checkpoint >= policy.every.count and self._pending is None:
                self._checkpoint(effects)

    def _process(self, peer: str, channel: InputChannel, events: list[Event], effects: list[Effect]) -> None:
        spec = self.spec
        taken = Taken(
            spec.slice_id, self.incarnation, peer, channel.incarnation, events[0].seq, events[-1].seq, len(events)
        )
        effects.append(Note(taken))
        outboxes: list[list[Event]] = [[] for _ in spec.downstream]
        receivers, process, state, name, seq = (
            spec.receivers,
            self._operator.process,
            self._state,
            spec.slice_id,
            self._seq,
        )
        event = events[0]
        try:
            for event in events:
                for key, value in process(event, state):
                    if type(value) not in PLAIN:
                        value = carried(value)
                    seq += 1
                    output = Event(name, seq, key, value, event.time)
                    for place in receivers[key]:
                        outboxes[place].append(output)
        except Exception as error:
            raise InvalidOperator(
                f"operator of {name} failed on event ({event.source}, {event.seq}) "
                f"with key {event.key!r} and value {event.value!r}: {type(error).__name__}: {error}"
            ) from error
        self._seq = seq
        self._last = event
        self.taken += len(events)
        channel.mark = max(channel.mark, events[-1].seq)
        self._emit(outboxes, effects)

    def _checkpoint(self, effects: list[Effect]) -> None:
        policy = self.spec.components.checkpointing
        assert policy is not None
        self._checkpoint_number += 1
        self._since_checkpoint = 0
        self._pending = CheckpointId(self.incarnation, self._checkpoint_number)
        contents = policy.contents
        last = self._last
        after_what = "" if last is None else f" after event ({last.source}, {last.seq})"
        with _user_code(self.spec.slice_id, f"snapshot(){after_what}"):
            state = self._operator.snapshot(self._state) if Part.STATE in contents else None
        logs = {to: channel.kept() for to, channel in self._outputs.items()} if Part.LOG in contents else {}
        checkpoint = Checkpoint(
            self.spec.slice_id,
            self._pending,
            state,
            {up: channel.mark for up, channel in self._inputs.items()} if Part.VECTOR in contents else {},
            logs,
            self._seq + 1 if Part.NUMBER in contents else None,
        )
        effects.append(Note(CheckpointTaken(self.spec.slice_id, self.incarnation, self._checkpoint_number)))
        effects.append(Persist(checkpoint))
        self._marks_at_checkpoint = {up: channel.mark for up, channel in self._inputs.items()}
        if policy.acknowledge is AcknowledgeAt.TAKEN:
            self._acknowledge(effects)

    def _durable(self, given: Durable, effects: list[Effect]) -> None:
        policy = self.spec.components.checkpointing
        if policy is None or given.id != self._pending:
            raise OwnFailure(f"{self.spec.slice_id} did not wait for {given.id}, but it became durable")
        self._pending = None
        effects.append(Note(CheckpointDurable(self.spec.slice_id, given.id.incarnation, given.id.number)))
        if policy.acknowledge is AcknowledgeAt.DURABLE:
            self._acknowledge(effects)
        if self._since_checkpoint >= policy.every.count:
            self._checkpoint(effects)
        while self._waiting and not self._must_wait():
            peer, message = self._waiting.popleft()
            super()._from_upstream(peer, message, effects)

    def _acknowledge(self, effects: list[Effect]) -> None:
        effects += [
            Send(up, self._inputs[up].incarnation, Acknowledge(self.incarnation, mark))
            for up, mark in self._marks_at_checkpoint.items()
            if mark
        ]

    def _inspect(self, given: Inspect, effects: list[Effect]) -> None:
        with _user_code(self.spec.slice_id, "rows()"):
            rows = rows_of(self._operator, self._state)
        effects.append(Note(Kept(self.spec.slice_id, self.incarnation, rows)))


class SinkSlice(_Receiving):
    """The harness's end that takes the output. What it passes on is visible, and no recovery takes it back."""

    def __init__(self, spec: SliceSpec) -> None:
        super().__init__(spec)
        self._delivered = dict.fromkeys(spec.upstream, 0)
        self._acknowledged = dict.fromkeys(spec.upstream, 0)

    def _take(self, peer: str, channel: InputChannel, events: list[Event], effects: list[Effect]) -> None:
        name, position = self.spec.slice_id, self._delivered[peer]
        delivered = Delivered(name, channel_name(peer, name), channel.incarnation, position, events)
        effects.append(Note(delivered))
        self._delivered[peer] = position = position + len(events)
        self.taken += len(events)
        channel.mark = max(channel.mark, events[-1].seq)
        every = self.spec.components.acknowledge_every
        if every is not None and position - self._acknowledged[peer] >= every.count:
            self._acknowledged[peer] = position
            effects.append(Send(peer, channel.incarnation, Acknowledge(self.incarnation, channel.mark)))


@contextmanager
def _user_code(slice_id: str, what: str) -> Iterator[None]:
    """Turns what the user's code raises into InvalidOperator, which says where."""
    try:
        yield
    except InvalidOperator as error:
        raise InvalidOperator(f"operator of {slice_id}, {what}: {error}") from error
    except StreamproofError:
        raise
    except Exception as error:
        raise InvalidOperator(f"operator of {slice_id}, {what}: {type(error).__name__}: {error}") from error
