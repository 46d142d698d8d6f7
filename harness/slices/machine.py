"""The slice as a sans-I/O state machine: inputs in, effects out, and nothing else.

There are three kinds, for the three roles in a topology (`source`, `operator`, `sink`), made of the same channel ends,
which stand here. A scheme changes none of them; it chooses their `Components`. No thread, socket, clock or random
number in here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ..errors import OwnFailure
from ..model import NUMBERING_SPAN, Event, Role, Topology, chosen, operator_of, replica_name
from ..recording.records import Ended, Opened, Refused, Started, Worked
from .channels import InLink, InputChannel, OutputChannel
from .components import Components, Numbering
from .effects import (
    Durable,
    Effect,
    Fire,
    Gone,
    Input,
    Inspect,
    Note,
    Promote,
    Receive,
    Reroute,
    Send,
    SetTimer,
    Start,
)
from .messages import (
    Acknowledge,
    Anchor,
    Batch,
    Checkpoint,
    Data,
    End,
    Fetch,
    Internal,
    Message,
    Open,
    Replay,
    Replayed,
    ReplayStop,
    Silence,
    Sync,
    Synced,
    Tracked,
    Trim,
    after,
    identity,
)


@dataclass(frozen=True)
class SliceSpec:
    """Everything about a slice that does not change while it runs, and is the same for its replicas."""

    slice_id: str
    topology: Topology
    components: Components
    wrap: Callable[[Slice], Slice] | None = field(default=None, repr=False, compare=False)
    """Put around the machine of each replica: a probe, or what breaks a rule of its protocol."""
    upstream: tuple[str, ...] = field(init=False)
    downstream: tuple[str, ...] = field(init=False)
    trackers: tuple[str, ...] = field(init=False)
    """The sources that want to know what becomes of their events."""
    receivers: _Receivers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "upstream", self.topology.upstream(self.slice_id))
        object.__setattr__(self, "downstream", self.topology.downstream(self.slice_id))
        sources = (s for s in self.topology.slices if self.topology.role(s) is Role.SOURCE)
        object.__setattr__(self, "trackers", tuple(sources) if self.components.anchored else ())
        object.__setattr__(self, "receivers", _Receivers(self.topology, self.slice_id, self.downstream))

    @property
    def role(self) -> Role:
        return self.topology.role(self.slice_id)

    def chance(self, incarnation: int, seed: int) -> int:
        """The seed of an incarnation's random draws in a run with this seed; 0 where it has none."""
        stage = self.topology.stages.get(operator_of(self.slice_id))
        if stage is None or stage.operator.deterministic:
            return 0
        return zlib.crc32(f"{seed} {self.slice_id}#{incarnation}".encode())


_KEYS = 50_000
"""As many are remembered: there can be a key for every event."""


class _Receivers(dict[str, tuple[int, ...]]):
    """Key -> the places in `downstream` that an output with this key goes to. Computed once a key, as a rule."""

    def __init__(self, topology: Topology, slice_id: str, downstream: tuple[str, ...]) -> None:
        super().__init__()
        self._choices = [tuple(map(downstream.index, choice)) for choice in topology.choices(slice_id)]

    def __missing__(self, key: str) -> tuple[int, ...]:
        if not isinstance(key, str):
            raise TypeError(f"key {key!r} of an output is not a str")
        places = tuple([chosen(choice, key) for choice in self._choices])
        if len(self) < _KEYS:
            self[key] = places
        return places


class Slice(Protocol):
    """What a host runs."""

    spec: SliceSpec
    name: str
    """Of the replica."""
    incarnation: int
    replica: int
    taken: int
    """Events that this incarnation has taken (a source: offered) so far."""

    def on(self, given: Input) -> list[Effect]:
        """Take one input; return what must be done about it, in order.

        Raises InvalidOperator when the user's code fails.
        """


def wrapped(machine: Slice) -> Slice:
    """A machine in whatever its spec puts around it."""
    return machine if machine.spec.wrap is None else machine.spec.wrap(machine)


_REPLAY = "replay"
_SILENCE = "silence"


class SliceBase:
    """Dispatch, incarnation, and the output side, which sources and operators share."""

    _handlers: ClassVar[dict[type, Callable[[Any, Any, list[Effect]], None]]]
    _readers: ClassVar[dict[type, Callable[[Any, str, Any, list[Effect]], None]]]

    def __init__(self, spec: SliceSpec) -> None:
        self.spec = spec
        self.name = spec.slice_id
        self.incarnation = 0
        self.replica = 0
        self.taken = 0
        self._seq = 0
        self._ended = False
        self._outputs = {to: OutputChannel(spec.components.output_log) for to in spec.downstream}
        self._inputs = {up: InputChannel(place) for place, up in enumerate(spec.upstream)}
        self._gone: set[tuple[str, int]] = set()
        """Incarnations of neighbours that were replaced."""
        self._silence_due = False
        self._dropped = 0
        self._waited = 0
        """See `Worked`."""

    def __init_subclass__(cls) -> None:
        """Each kind of slice has its own methods in the tables."""
        cls._handlers = {given: getattr(cls, method.__name__) for given, method in _HANDLERS.items()}
        cls._readers = {message: getattr(cls, method.__name__) for message, method in _READERS.items()}

    def on(self, given: Input) -> list[Effect]:
        effects: list[Effect] = []
        self._handlers[type(given)](self, given, effects)
        return effects

    # Life

    def _start(self, given: Start, effects: list[Effect]) -> None:
        self.incarnation, self.replica = given.incarnation, given.replica
        self.name = replica_name(self.spec.slice_id, given.replica)
        checkpoint = given.checkpoint
        if self.spec.components.numbering is Numbering.FRESH:
            self._seq = (given.incarnation - 1) * NUMBERING_SPAN
        if checkpoint is not None:
            self._restore(checkpoint)
        restored = None if checkpoint is None else (checkpoint.id.incarnation, checkpoint.id.number)
        effects.append(
            Note(
                Started(self.spec.slice_id, given.incarnation, restored, self._seq + 1, given.replica, given.seed),
            )
        )

    def _restore(self, checkpoint: Checkpoint) -> None:
        raise OwnFailure(f"{self.spec.slice_id} takes no checkpoints, but was given {checkpoint.id}")

    def _promote(self, given: Promote, effects: list[Effect]) -> None:
        raise OwnFailure(f"{self.spec.slice_id} has no replicas, but was promoted")

    def _reroute(self, given: Reroute, effects: list[Effect]) -> None:
        """Ask whoever speaks upstream for what it may have that we have not."""
        channel = self._inputs.get(given.peer)
        if channel is not None and (given.peer, given.incarnation) not in self._gone:
            channel.links[given.incarnation] = InLink()
            self._see_end_of(channel)
            self._open_at(given.peer, given.incarnation, effects)

    def _open_at(self, peer: str, incarnation: int, effects: list[Effect]) -> None:
        effects.append(Send(peer, incarnation, Open(self.incarnation, self._inputs[peer].seen)))

    def _lose(self, given: Gone, effects: list[Effect]) -> None:
        channel = self._inputs.get(given.peer)
        if channel is not None and channel.links.pop(given.incarnation, None) is not None:
            self._see_end_of(channel)
        if given.peer in self._outputs:
            self._outputs[given.peer].forget(given.incarnation)
        self._gone.add((given.peer, given.incarnation))

    def _see_end_of(self, channel: InputChannel) -> None:
        channel.ended = channel.find_ended()
        if not channel.ended:
            self._ended = False

    def _refuse(self, peer: str, message: Message, effects: list[Effect]) -> None:
        refused = Refused(self.spec.slice_id, self.incarnation, peer, message.incarnation, identity(message))
        effects.append(Note(refused))

    # What comes in

    def _receive(self, given: Receive, effects: list[Effect]) -> None:
        self._readers[type(given.message)](self, given.peer, given.message, effects)

    def _from_upstream(self, peer: str, message: Data, effects: list[Effect]) -> None:
        raise OwnFailure(f"{self.spec.slice_id} has no input, but {peer} sent {identity(message)}")

    def _from_fellow(self, peer: str, message: Internal, effects: list[Effect]) -> None:
        raise OwnFailure(f"{self.spec.slice_id} has no replicas, but {peer} sent {identity(message)}")

    def _tracked(self, peer: str, message: Tracked, effects: list[Effect]) -> None:
        raise OwnFailure(f"{self.spec.slice_id} follows no events, but {peer} sent {identity(message)}")

    def _open(self, peer: str, message: Open, effects: list[Effect]) -> None:
        receiver = message.incarnation
        if (peer, receiver) in self._gone:
            self._refuse(peer, message, effects)
            return
        channel = self._outputs[peer]
        waiting = channel.open(receiver, message.after)
        slice_id = self.spec.slice_id
        effects.append(Note(Opened(slice_id, self.incarnation, peer, receiver, message.after, self._seq + 1)))
        self._replay(peer, receiver, effects)
        effects += [Send(peer, receiver, Batch(self.incarnation, events, tied)) for events, tied in waiting]
        if self._ended:
            effects.append(Send(peer, receiver, End(self.incarnation)))
        channel.told = -1
        self._look_out_for_silence(effects)

    def _replay(self, to: str, receiver: int, effects: list[Effect]) -> None:
        """A batch out of the log, and the next in a moment: what is new goes out in between, and the receiver can say
        from where on it has that (section 3.7.1)."""
        events = self._outputs[to].replay(receiver)
        if events is None:
            effects.append(Send(to, receiver, Replayed(self.incarnation)))
        else:
            effects.append(Send(to, receiver, Replay(self.incarnation, events)))
            effects.append(SetTimer(f"{_REPLAY} {to}#{receiver}@{events[-1].seq}", 0))

    def _from_downstream(self, peer: str, message: Acknowledge | ReplayStop, effects: list[Effect]) -> None:
        channel = self._outputs[peer]
        if message.incarnation not in channel.listeners:
            self._refuse(peer, message, effects)
        elif isinstance(message, ReplayStop):
            channel.stop(message.incarnation, message.seq)
        else:
            trimmed = channel.acknowledge(message.incarnation, message.upto)
            self._acknowledged(peer, trimmed, effects)

    def _acknowledged(self, to: str, upto: int, effects: list[Effect]) -> None:
        """All receivers of a channel have acknowledged so much."""

    # What goes out

    def _emit(
        self, outboxes: list[list[Event]], effects: list[Effect], anchors: list[list[Anchor]] | None = None
    ) -> None:
        incarnation = self.incarnation
        for place, (to, channel) in enumerate(self._outputs.items()):
            events = outboxes[place]
            if events:
                tied = None if anchors is None else anchors[place]
                listeners = channel.emit(events, tied)
                if listeners:
                    message = Batch(incarnation, events, tied)
                    for receiver in listeners:
                        effects.append(Send(to, receiver, message))
                # Another of the same time may follow.
                channel.told = events[-1].time - 1
        if self.spec.components.silence is not None:
            self._look_out_for_silence(effects)

    def _end(self, inputs: dict[str, list[int]], effects: list[Effect]) -> None:
        effects.append(Note(Ended(self.spec.slice_id, self.incarnation, inputs)))
        trimmed = sum(channel.trimmed for channel in self._outputs.values())
        if self._dropped or self._waited or trimmed:
            worked = Worked(self.spec.slice_id, self.incarnation, self._dropped, self._waited, trimmed)
            effects.append(Note(worked))
        if not self._ended:
            self._ended = True
            for to, channel in self._outputs.items():
                effects += [Send(to, receiver, End(self.incarnation)) for receiver in channel.listeners]

    def _look_out_for_silence(self, effects: list[Effect]) -> None:
        """When a channel is behind, its receivers are told how far time has come, unless an event does so before."""
        patience = self.spec.components.silence
        if patience is None or self._silence_due or self._ended:
            return
        progress = self._progress
        if any(channel.told < progress for channel in self._outputs.values()):
            self._silence_due = True
            effects.append(SetTimer(f"{_SILENCE}@{progress}", patience.micros))

    @property
    def _progress(self) -> int:
        """The event time up to which everything has been emitted."""
        raise NotImplementedError

    # What only some kinds know

    def _durable(self, given: Durable, effects: list[Effect]) -> None:
        raise OwnFailure(f"{self.spec.slice_id} takes no checkpoints, but {given.id} became durable")

    def _fire(self, given: Fire, effects: list[Effect]) -> None:
        what, _, rest = given.timer.partition(" ")
        if what == _REPLAY:
            to, _, receiver = rest.rpartition("@")[0].rpartition("#")
            if self._outputs[to].replaying(int(receiver)):
                self._replay(to, int(receiver), effects)
        elif what.startswith(_SILENCE):
            self._silence_due = False
            self._tell_silence(self._progress, effects)
        else:
            raise OwnFailure(f"{self.spec.slice_id} sets no timer {given.timer!r}, but it fired")

    def _tell_silence(self, time: int, effects: list[Effect]) -> None:
        for to, channel in self._outputs.items():
            if channel.told < time and not self._ended:
                channel.told = time
                effects += [Send(to, receiver, Silence(self.incarnation, time)) for receiver in channel.listeners]

    def _inspect(self, given: Inspect, effects: list[Effect]) -> None:
        """Nothing is kept, unless a kind says so."""


_HANDLERS: dict[type, Callable[..., None]] = {
    Start: SliceBase._start,
    Reroute: SliceBase._reroute,
    Gone: SliceBase._lose,
    Promote: SliceBase._promote,
    Receive: SliceBase._receive,
    Durable: SliceBase._durable,
    Fire: SliceBase._fire,
    Inspect: SliceBase._inspect,
}
"""What takes each kind of input."""
_READERS: dict[type, Callable[..., None]] = {
    **dict.fromkeys((Batch, Replay, Replayed, End, Silence), SliceBase._from_upstream),
    **dict.fromkeys((Acknowledge, ReplayStop), SliceBase._from_downstream),
    **dict.fromkeys((Fetch, Sync, Synced, Trim), SliceBase._from_fellow),
    Open: SliceBase._open,
    Tracked: SliceBase._tracked,
}
"""And each kind of message."""


class ReceivingSlice(SliceBase):
    """The input side, which operators and sinks share: fencing, the replay protocol, the duplicate filter, the end."""

    def _from_upstream(self, peer: str, message: Data, effects: list[Effect]) -> None:
        channel = self._inputs[peer]
        link = channel.links.get(message.incarnation)
        if link is None:
            self._refuse(peer, message, effects)
        elif link.replaying:
            self._while_replaying(peer, channel, link, message, effects)
        else:
            self._accept(peer, channel, link, message, effects)

    def _while_replaying(
        self, peer: str, channel: InputChannel, link: InLink, message: Data, effects: list[Effect]
    ) -> None:
        """What comes out of the log goes straight in, what is new is held until that is over (listing 3.8)."""
        if isinstance(message, Replay):
            link.replayed = message.events[-1].seq
            self._accept(peer, channel, link, message, effects)
        elif isinstance(message, Replayed):
            link.replaying = False
            held, link.held = link.held, []
            for one in held:
                if isinstance(one, Batch) and one.events[0].seq <= link.replayed:
                    # The log was through before it heard where to stop.
                    rest = after(one.events, link.replayed)
                    if not rest:
                        continue
                    one = Batch(one.incarnation, rest)
                self._accept(peer, channel, link, one, effects)
            self._replayed(effects)
        else:
            if isinstance(message, Batch) and not any(isinstance(one, Batch) for one in link.held):
                stop = ReplayStop(self.incarnation, message.events[0].seq)
                effects.append(Send(peer, message.incarnation, stop))
            link.held.append(message)

    def _accept(self, peer: str, channel: InputChannel, link: InLink, message: Data, effects: list[Effect]) -> None:
        if isinstance(message, (Batch, Replay)):
            events = message.events
            components = self.spec.components
            if components.duplicate_filter:
                if components.numbering is Numbering.INHERITED:
                    events = after(events, channel.seen)
                    self._dropped += len(message.events) - len(events)
                elif events[0].seq <= channel.seen:
                    # Of replicas every copy but the first, and all of it.
                    events = after(events, channel.seen) if events[-1].seq > channel.seen else []
                    self._dropped += len(message.events) - len(events)
                if not events:
                    return
            if events[-1].seq > channel.seen:
                channel.seen = events[-1].seq
            anchors = message.anchors if isinstance(message, Batch) else None
            self._take(peer, channel, message.incarnation, events, anchors, effects)
        elif isinstance(message, End):
            link.ended = channel.ended = True
            self._channel_ended(channel, effects)
        elif isinstance(message, Silence):
            self._silent(channel, message.time, effects)

    def _take(
        self,
        peer: str,
        channel: InputChannel,
        incarnation: int,
        events: list[Event],
        anchors: list[Anchor] | None,
        effects: list[Effect],
    ) -> None:
        """Events that have passed the filter, of one upstream incarnation."""
        raise NotImplementedError

    def _channel_ended(self, channel: InputChannel, effects: list[Effect]) -> None:
        self._find_end(effects)

    def _find_end(self, effects: list[Effect]) -> None:
        """Once nothing more comes on any channel."""
        if all(channel.ended for channel in self._inputs.values()):
            self._end(
                {
                    up: sorted(incarnation for incarnation, link in channel.links.items() if link.ended)
                    for up, channel in self._inputs.items()
                },
                effects,
            )

    def _replayed(self, effects: list[Effect]) -> None:
        """The log of one upstream incarnation has been replayed."""

    def _silent(self, channel: InputChannel, time: int, effects: list[Effect]) -> None:
        """No event up to this time follows on a channel."""
