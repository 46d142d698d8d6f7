"""The slice as a sans-I/O state machine: inputs in, effects out, and nothing else.

There are three kinds, for the three roles in a topology (`source`, `operator`, `sink`), made of the same channel ends,
which stand here: incarnations and which are active, opening a channel, the replay of a log, the end. A scheme changes
none of them; it names the mechanisms that are attached. No thread, socket, clock or random number in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from ..core.errors import InvalidScheme, OwnFailure
from ..core.events import NUMBERING_SPAN, Event, Value
from ..core.slice_names import channel_name, replica_name
from ..recording.records import (
    Adopted,
    CheckpointDurable,
    Delivered,
    Ended,
    Opened,
    Promoted,
    Record,
    Refused,
    Restored,
    Started,
    Taken,
    Worked,
    whose,
)
from .channels import InLink, InputChannel, OutputChannel
from .effects import (
    Durable,
    Effect,
    Fire,
    Gone,
    Input,
    Inspect,
    Note,
    OwnEffects,
    Pass,
    Promote,
    Ready,
    Receive,
    Reroute,
    Send,
    SetTimer,
    Start,
    Timer,
    noted,
)
from .mechanism import Keeper, Log, defining
from .messages import (
    Acknowledge,
    Batch,
    Checkpoint,
    CheckpointId,
    Data,
    End,
    Flow,
    Lap,
    Message,
    Open,
    Replay,
    Replayed,
    ReplayStop,
    Silence,
    Tie,
    after,
    identity_of,
)
from .spec import Numbering, SliceSpec


class Slice(Protocol):
    """What a host runs for a place in a topology."""

    spec: SliceSpec
    name: str
    """Of the replica."""
    incarnation: int
    replica: int
    taken: int
    """Events that this incarnation has taken (a source: offered) so far."""
    own: OwnEffects
    """Of what is returned, what puts something on record or opens a channel, as far as the slice itself asks for it."""

    @property
    def crowded(self) -> bool:
        """Whether it should be given nothing more from upstream for now."""

    def on(self, given: Input) -> list[Effect]:
        """Take one input; return what must be done about it, in order.

        Raises UsersCodeFailed when the user's code does.
        """


class ReplayOn(Timer, frozen=True, gc=False):
    """The next batch of a log is due."""

    to: str
    receiver: int
    replayed: int
    """The number of the last event so far."""

    def __str__(self) -> str:
        return f"replay {self.to}#{self.receiver}@{self.replayed}"


class Machine:
    """Dispatch, incarnation, the two ends of channels, and the mechanisms that hear of all that."""

    own_parts: ClassVar[tuple[str, ...]] = ()
    """The names of the parts of a checkpoint that are its kind's own."""
    _handlers: ClassVar[dict[type, Callable[[Any, Any], None]]]
    _readers: ClassVar[dict[type, Callable[[Any, str, Any], None]]]

    def __init__(self, spec: SliceSpec) -> None:
        self.spec = spec
        self.name = spec.slice_id
        self.incarnation = 0
        self.replica = 0
        self.taken = 0
        self.seq = 0
        """The number of the last output."""
        self.working = True
        """Whether events are taken, and receivers answered; else they wait."""
        self.ended = False
        self.final = -1
        """How far event time had come where the input is over."""
        self.outputs = {to: OutputChannel() for to in spec.downstream}
        self.inputs = {up: InputChannel(place) for place, up in enumerate(spec.upstream)}
        self.gone: set[tuple[str, int]] = set()
        """Incarnations of neighbours that were replaced."""
        self.coordinators: dict[str, int] = {}
        """Those that it is led by and in touch with -> their incarnation."""
        self._dropped = 0
        self._waited = 0
        """See `Worked`: claims rest on it, so no mechanism says it."""
        self.clock = 0
        """What its node's clock showed when a timer fired last, in milliseconds."""
        self.log: Log | None = None
        """What keeps what goes out."""
        self._logged = 0
        """How many events the log was given, and held when it was restored last."""
        self._trimmed_before = 0
        """What it had trimmed by then."""
        self.keeper: Keeper | None = None
        """What keeps checkpoints; None: the store."""
        self.effects: list[Effect] = []
        """What must be done about the input that is being taken."""
        self.own = OwnEffects()
        """Of that what is put on record, and by what channels are opened."""
        self._checkpoints = 0
        """The highest number of a checkpoint of its slice, as far as it knows."""
        self._received: Receive | None = None
        """The message that a mechanism is given now."""
        self._restored: tuple[int, int] | None = None
        """The checkpoint that it has gone on from since it began, and that nobody has put on record yet."""
        self._early: list[tuple[str, Open | Acknowledge | ReplayStop]] = []
        """What receivers have said before it was at work."""
        self._timers: dict[type, Callable[[Any], None]] = {ReplayOn: self._replay_on}
        self.attached = tuple([mechanism.attach(self) for mechanism in spec.setup.mechanisms])
        self._check_parts()
        self._defining = defining(*map(type, self.attached))
        self._heard: dict[type, Callable[[str, Any], None]] = {}
        """What takes each kind of message of a mechanism's."""
        for readers in self.hooks("readers"):
            self._heard.update(readers())
        for timers in self.hooks("timers"):
            self._timers.update(timers())
        self._filters = self.hooks("came_in")
        self._after_emission = self.hooks("emitted")
        self._after_time = self.hooks("time_passed")
        self._after_taking = self.hooks("took")
        self._after_input = self.hooks("handled")
        self._after_durable = self.hooks("durable")
        self._after_acknowledgement = self.hooks("acknowledged")
        self._crowding = self.hooks("crowded")

    def _check_parts(self) -> None:
        """Raises InvalidScheme where one part of a checkpoint would be written over by another."""
        taken = [*self.own_parts, *(part for one in self.attached if (part := one.part))]
        if len(set(taken)) < len(taken):
            twice = next(part for part in taken if taken.count(part) > 1)
            raise InvalidScheme(
                f"{self.spec.slice_id} has two parts of a checkpoint that are called {twice!r}; each mechanism has a "
                "name of its own for what it saves, and is there once"
            )

    def __init_subclass__(cls) -> None:
        """Each kind of slice has its own methods in the tables."""
        cls._handlers = {given: getattr(cls, method.__name__) for given, method in _HANDLERS.items()}
        cls._readers = {message: getattr(cls, method.__name__) for message, method in _READERS.items()}

    def on(self, given: Input) -> list[Effect]:
        self.effects = []
        self._handlers[type(given)](self, given)
        for handled in self._after_input:
            handled()
        # A mechanism may have put another list in its place.
        return self.effects

    @property
    def crowded(self) -> bool:
        """Whether a mechanism would rather have nothing more come in from upstream for now."""
        return any(crowded() for crowded in self._crowding)

    def hooks(self, name: str) -> Sequence[Callable[..., Any]]:
        """Those of the attached mechanisms that define a hook, in their order."""
        places = self._defining[name]
        # Most hooks are nobody's.
        return [getattr(self.attached[place], name) for place in places] if places else ()

    # What a mechanism asks for

    def next_id(self, number: int | None = None) -> CheckpointId:
        """Of a checkpoint, or of what else goes into the store; the next number, or this higher one."""
        if number is not None and number <= self._checkpoints:
            raise OwnFailure(f"{self.spec.slice_id} has taken checkpoint {self._checkpoints}, and was to take {number}")
        self._checkpoints = self._checkpoints + 1 if number is None else number
        return CheckpointId(self.incarnation, self._checkpoints)

    def send(self, to: str, incarnation: int, message: Message) -> None:
        """Raises InvalidScheme for a message that no mechanism here names, or that is not for this slice to send; a
        channel is opened by `open_at`."""
        spec = self.spec
        if type(message) not in spec.says or type(message) is Open or not spec.may_send(to, message):
            raise InvalidScheme(
                f"{spec.slice_id} cannot send {message!r} to {to}: a mechanism sends what its `messages` name, to whom "
                "their flow leads"
            )
        self.effects.append(Send(to, incarnation, message))

    def note(self, record: Record) -> None:
        """Put on record what a mechanism has done. Raises InvalidScheme for what is no record, for what is not for a
        mechanism of this slice to say, and for a checkpoint that nobody went on from: what a claim rests on would have
        been at work by word alone. What did not come to the slice, as that a checkpoint is durable, its host refuses
        (`vouching`)."""
        effect = noted(self.spec.slice_id, record)
        if type(record) not in _OF_MECHANISMS or not self._is_its_own(record):
            raise InvalidScheme(
                f"{self.spec.slice_id} cannot put {record!r} on record: a mechanism says what it has done itself, of "
                "the incarnation that it is at work in; what comes in and goes out is noted by who takes and sends it"
            )
        if type(record) is Restored:
            if (record.checkpoint, record.next_seq) != (self._restored, self.seq + 1):
                raise InvalidScheme(
                    f"{self.spec.slice_id} notes {record!r}, and has not just gone on from that checkpoint, its next "
                    f"output being number {self.seq + 1}: note it once, after restore()"
                )
            self._restored = None
        self._do(effect)

    def _do(self, effect: Effect) -> None:
        """What is not for a mechanism to do past the machine."""
        self.own.append(effect)
        self.effects.append(effect)

    def _is_its_own(self, record: Record) -> bool:
        """Of one of the kinds that a mechanism may say."""
        slice_id = self.spec.slice_id
        if isinstance(record, Delivered):
            # By which incarnation upstream it was made, and as which in number, is checked by who judges.
            return record.sink == slice_id and record.channel in [channel_name(up, slice_id) for up in self.inputs]
        if type(record) is CheckpointDurable:
            return record.slice == slice_id
        of_it = isinstance(record, (Restored, Promoted, Adopted)) and record.incarnation == self.incarnation
        return whose(record) == slice_id and of_it

    def put_on_record(self, record: Record) -> None:
        """As this kind of slice does for what it takes, makes and keeps."""
        self._do(noted(self.spec.slice_id, record))

    def note_taken(self, up: str, sender: int, events: list[Event]) -> None:
        """Note that consecutive events of one channel are taken; `sender` is the incarnation whose copy they are."""
        slice_id, incarnation = self.spec.slice_id, self.incarnation
        # A merge can change the order, and so can a mechanism that is asked something since it let them pass.
        if self.spec.numbers_rise[up] and not self.inputs[up].scattered and _rise(events):
            # As `put_on_record`: this is done for every batch.
            self._do(Note(Taken(slice_id, incarnation, up, sender, events[0].seq, events[-1].seq, len(events))))
        else:
            for seq in [event.seq for event in events]:
                self.put_on_record(Taken(slice_id, incarnation, up, sender, seq, seq, 1))

    def set_timer(self, timer: Timer, delay: int) -> None:
        """It fires after `delay` microseconds; 0: in a moment, with others in between."""
        self.effects.append(SetTimer(timer, delay))

    def reach(self, mechanism: str, place: str) -> None:
        """A crash point of a mechanism's own; `place` tells it from all others of this incarnation. What was asked for
        before has been done there, and nothing of what is asked for after."""
        self.effects.append(Pass(mechanism, place))

    def ready(self) -> None:
        self.effects.append(Ready())

    def change(self, settings: Mapping[str, Value]) -> None:
        """Let all mechanisms go by these settings; what is not named is as it was declared. Whoever asks for it says
        since when, and sees to it that whatever takes the same input again does so by the same settings."""
        for changed in self.hooks("changed"):
            changed(settings)

    def acknowledge(self, up: str, upto: int) -> None:
        """Tell all that are active on a channel that events up to this number will not be asked for again."""
        message = Acknowledge(self.incarnation, upto)
        self.effects += [Send(up, sender, message) for sender in self.inputs[up].links]

    def refuse(self, neighbour: str, message: Message) -> None:
        """Note that the message which has just come in is from an incarnation that was replaced. Raises InvalidScheme
        where it is not, or that is on record: what a claim rests on would have been at work by word alone."""
        replaced = (neighbour, message.incarnation) in self.gone
        if self._received != Receive(neighbour, message) or not replaced:
            raise InvalidScheme(
                f"{self.spec.slice_id} refuses {message!r} of {neighbour}, which has not just come in, or whose sender "
                "was not replaced: refuse a message once, where readers() has it taken, if its sender is in `gone`"
            )
        self._received = None
        self._refuse(neighbour, message)

    def report(self, coordinator: str, message: Message) -> None:
        """Tell a coordinator, if it is in touch; who has to be told later hears of it by `AtWork.advised`."""
        incarnation = self.coordinators.get(coordinator)
        if incarnation is not None:
            self.send(coordinator, incarnation, message)

    def tell_silence(self, time: int) -> None:
        """Tell receivers that no event up to this time follows, those that do not know it."""
        for to, channel in self.outputs.items():
            if channel.told < time and not self.ended:
                channel.told = time
                self.effects += [Send(to, receiver, Silence(self.incarnation, time)) for receiver in channel.listeners]

    def set_to_work(self) -> None:
        """From now on events are taken, and receivers answered, those first that have asked already."""
        self.working = True
        early, self._early = self._early, []
        for neighbour, message in early:
            self._readers[type(message)](self, neighbour, message)

    @property
    def progress(self) -> int:
        """The event time up to which everything has been emitted."""
        raise NotImplementedError

    # Life cycle

    def _start(self, given: Start) -> None:
        self.incarnation, self.replica = given.incarnation, given.replica
        self.name = replica_name(self.spec.slice_id, given.replica)
        checkpoint = given.checkpoint
        if self.spec.setup.numbering is Numbering.FRESH:
            self.seq = (given.incarnation - 1) * NUMBERING_SPAN
        for hook in self.hooks("begin"):
            hook(given)
        for hook in self.hooks("completed"):
            checkpoint = hook(checkpoint, given.kept)
        if checkpoint is not None:
            self.restore(checkpoint)
        restored = None if checkpoint is None else (checkpoint.id.incarnation, checkpoint.id.number)
        # That is said by how it started.
        self._restored = None
        self.put_on_record(
            Started(self.spec.slice_id, given.incarnation, restored, self.seq + 1, given.replica, given.seed),
        )
        for hook in self.hooks("started"):
            hook(given)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of this slice."""
        raise InvalidScheme(f"{self.spec.slice_id} takes no checkpoints, but was given {checkpoint.id}")

    def _promote(self, given: Promote) -> None:
        promoted = self.hooks("promoted")
        if not promoted:
            raise InvalidScheme(f"{self.spec.slice_id} has no mechanism by which a replica is promoted, and was")
        for hook in promoted:
            hook(given)

    def _reroute(self, given: Reroute) -> None:
        """Ask whoever is active upstream for what it may have that we have not."""
        if (given.neighbour, given.incarnation) in self.gone:
            return
        if given.neighbour == self.spec.slice_id:
            for hook in self.hooks("met"):
                hook(given.incarnation)
            return
        if given.neighbour in self.spec.coordinators:
            self._advised(given.neighbour, given.incarnation)
            return
        channel = self.inputs.get(given.neighbour)
        if channel is not None:
            channel.links[given.incarnation] = InLink()
            self._see_end_of(channel)
            self.open_at(given.neighbour, given.incarnation)

    def _advised(self, coordinator: str, incarnation: int) -> None:
        if incarnation >= self.coordinators.get(coordinator, 0):
            self.coordinators[coordinator] = incarnation
            for hook in self.hooks("advised"):
                hook(coordinator)

    def open_at(self, neighbour: str, incarnation: int) -> None:
        """Open the channel from an incarnation upstream, unless a mechanism does not listen yet.

        Raises InvalidScheme where that is not active, or the channel has been opened: only a link that broke is opened
        once more, and the machine does that. It would excuse what a mechanism has passed over in between.
        """
        link = self.inputs[neighbour].links.get(incarnation)
        if link is None or link.opened:
            how = "is not active" if link is None else "has been asked to send already"
            raise InvalidScheme(
                f"{self.spec.slice_id} cannot open its channel from incarnation {incarnation} of {neighbour}, which "
                f"{how}; a mechanism opens the channels of those that are active once, when it begins to listen"
            )
        if all(listens() for listens in self.hooks("listens")):
            link.opened = True
            self._do(Send(neighbour, incarnation, Open(self.incarnation, self.inputs[neighbour].seen)))

    def _lose(self, given: Gone) -> None:
        channel = self.inputs.get(given.neighbour)
        if channel is not None and channel.links.pop(given.incarnation, None) is not None:
            self._see_end_of(channel)
        if given.neighbour in self.outputs:
            self.outputs[given.neighbour].forget(given.incarnation)
        if self.coordinators.get(given.neighbour) == given.incarnation:
            del self.coordinators[given.neighbour]
        self.gone.add((given.neighbour, given.incarnation))
        for hook in self.hooks("lost"):
            hook(given)

    def _see_end_of(self, channel: InputChannel) -> None:
        channel.ended = channel.find_ended()
        if not channel.ended:
            self.ended = False

    def _durable(self, given: Durable) -> None:
        if not self._after_durable:
            raise InvalidScheme(
                f"{self.spec.slice_id} has no mechanism that waits for {given.id}, which became durable"
            )
        for hook in self._after_durable:
            hook(given)

    def _fire(self, given: Fire) -> None:
        fired = self._timers.get(type(given.timer))
        if fired is None:
            raise InvalidScheme(
                f"{self.spec.slice_id} has nothing that takes its timer {given.timer!r} when it fires; name it in "
                "timers()"
            )
        self.clock = given.now
        fired(given.timer)

    def _inspect(self, given: Inspect) -> None:
        """Nothing is kept, unless a kind says so."""

    # What comes in

    def _receive(self, given: Receive) -> None:
        kind = type(given.message)
        reader = self._readers.get(kind)
        if reader is not None:
            reader(self, given.neighbour, given.message)
        elif kind.flow is Flow.ORDERS and not self._follows(given.neighbour, given.message):
            self._refuse(given.neighbour, given.message)
        elif kind in self._heard:
            self._received = given
            self._heard[kind](given.neighbour, given.message)
            self._received = None
        else:
            raise InvalidScheme(
                f"{self.spec.slice_id} has no mechanism for what {given.neighbour} sent: "
                f"{identity_of(given.neighbour, given.message)}; "
                "name it in the readers() of one"
            )

    def _refuse(self, neighbour: str, message: Message) -> None:
        slice_id, incarnation = self.spec.slice_id, self.incarnation
        identity = identity_of(neighbour, message)
        self.put_on_record(Refused(slice_id, incarnation, neighbour, message.incarnation, identity))

    def _follows(self, coordinator: str, message: Message) -> bool:
        """Whether an order comes from the newest incarnation of a coordinator."""
        if (coordinator, message.incarnation) in self.gone:
            return False
        known = self.coordinators.get(coordinator, 0)
        if message.incarnation > known:
            # It heard of us before we heard of it.
            self._advised(coordinator, message.incarnation)
        return message.incarnation >= known

    def _from_upstream(self, neighbour: str, message: Data) -> None:
        channel = self.inputs[neighbour]
        link = channel.links.get(message.incarnation)
        if link is None:
            self._refuse(neighbour, message)
        elif link.replaying:
            self._while_replaying(neighbour, channel, link, message)
        else:
            self._accept(neighbour, channel, link, message)

    def _while_replaying(self, neighbour: str, channel: InputChannel, link: InLink, message: Data) -> None:
        """What comes out of the log goes straight in, what is new is held until that is over (StreamMine3G, listing
        3.8)."""
        if isinstance(message, Replay):
            link.replayed = message.events[-1].seq
            self._accept(neighbour, channel, link, message)
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
                self._accept(neighbour, channel, link, one)
            for hook in self.hooks("replayed"):
                hook()
        else:
            if isinstance(message, Batch) and not any(isinstance(one, Batch) for one in link.held):
                self.send(neighbour, message.incarnation, ReplayStop(self.incarnation, message.events[0].seq))
            link.held.append(message)

    def _accept(self, neighbour: str, channel: InputChannel, link: InLink, message: Data) -> None:
        kind = type(message)
        if kind is Batch or kind is Replay:
            # A list of its own: whoever sent this may have to send it again, as it was.
            brought: list[Event] = message.events  # type: ignore[union-attr]
            events = list(brought)
            channel.sender = message.incarnation
            for passes in self._filters:
                came = events
                events = passes(channel, events)
                if len(events) < len(came):
                    self._dropped += self._known(neighbour, channel, came) - self._known(neighbour, channel, events)
                if not events:
                    return
            if not channel.scattered:
                # Before a merge, or what may be taken at once, makes several of it.
                rise = not self.spec.numbers_rise[neighbour] or _rise(events)
                channel.scattered = not (rise and _is_piece(events, brought))
            last = events[-1].seq
            if last > channel.seen:
                channel.seen = last
            ties = message.ties if kind is Batch else None  # type: ignore[union-attr]
            self._take(neighbour, channel, message.incarnation, events, ties)
        elif isinstance(message, End):
            link.ended = channel.ended = True
            if message.time > self.final:
                self.final = message.time
            self._channel_ended(channel)
        elif isinstance(message, Silence):
            self._silent(channel, message.time)
        elif isinstance(message, Lap):
            self._lapped(neighbour, message)

    def _known(self, up: str, channel: InputChannel, events: list[Event]) -> int:
        """How many of these may have come before, as far as their numbers say: what is not let pass though it is new is
        no duplicate."""
        if not self.spec.numbers_rise[up]:
            return len(events)
        seen = channel.seen
        return sum([event.seq <= seen for event in events])

    def _lapped(self, neighbour: str, lap: Lap) -> None:
        raise OwnFailure(f"{self.spec.slice_id} is in no cycle, but {neighbour} sent it a lap")

    def _take(
        self, neighbour: str, channel: InputChannel, incarnation: int, events: list[Event], ties: list[Tie] | None
    ) -> None:
        """Events that have passed all filters, of one upstream incarnation."""
        raise OwnFailure(f"{self.spec.slice_id} has no input, but {neighbour} sent event {events[0].seq}")

    def _channel_ended(self, channel: InputChannel) -> None:
        self.find_end()

    def _silent(self, channel: InputChannel, time: int) -> None:
        """No event up to this time follows on a channel."""

    def find_end(self) -> None:
        """Once nothing more comes on any channel."""
        for channel in self.inputs.values():
            if not channel.ended:
                return
        self._end(self._ends_heard())

    def _ends_heard(self) -> dict[str, list[int]]:
        return {
            up: sorted(incarnation for incarnation, link in channel.links.items() if link.ended)
            for up, channel in self.inputs.items()
        }

    # Who listens

    def _open(self, neighbour: str, message: Open) -> None:
        if not self.working:
            self._early.append((neighbour, message))
            return
        receiver = message.incarnation
        if (neighbour, receiver) in self.gone:
            self._refuse(neighbour, message)
            return
        channel = self.outputs[neighbour]
        waiting = channel.open(receiver)
        slice_id, incarnation = self.spec.slice_id, self.incarnation
        self.put_on_record(Opened(slice_id, incarnation, neighbour, receiver, message.after, self.seq + 1))
        if self.log is None:
            self.send(neighbour, receiver, Replayed(incarnation))
            self.effects += [Send(neighbour, receiver, Batch(incarnation, events, ties)) for events, ties in waiting]
        else:
            self.log.open(neighbour, receiver, message.after, waiting)
            self._replay(self.log, neighbour, receiver)
        if self.ended:
            self.send(neighbour, receiver, End(incarnation, self.final))
        channel.told = -1
        for hook in self.hooks("opened"):
            hook(neighbour)

    def _replay(self, log: Log, to: str, receiver: int) -> None:
        """A batch out of the log, and the next in a moment: what is new goes out in between, and the receiver can say
        from where on it has that (section 3.7.1)."""
        events = log.next(to, receiver)
        if events is None:
            self.send(to, receiver, Replayed(self.incarnation))
        else:
            self.send(to, receiver, Replay(self.incarnation, events))
            self.set_timer(ReplayOn(to, receiver, events[-1].seq), 0)

    def _replay_on(self, timer: ReplayOn) -> None:
        if self.log is not None and self.log.replaying(timer.to, timer.receiver):
            self._replay(self.log, timer.to, timer.receiver)

    def _from_downstream(self, neighbour: str, message: Acknowledge | ReplayStop) -> None:
        if not self.working:
            self._early.append((neighbour, message))
            return
        channel = self.outputs[neighbour]
        if message.incarnation not in channel.listeners:
            self._refuse(neighbour, message)
        elif isinstance(message, ReplayStop):
            if self.log is not None:
                self.log.stop(neighbour, message.incarnation, message.seq)
        else:
            upto = channel.acknowledge(message.incarnation, message.upto)
            for hook in self._after_acknowledgement:
                hook(neighbour, upto)

    # What goes out

    def emit(self, outboxes: list[list[Event]], ties: list[list[Tie]] | None = None) -> None:
        """Send events to receivers, by their places in `spec.downstream`."""
        incarnation, effects, log = self.incarnation, self.effects, self.log
        for place, (to, channel) in enumerate(self.outputs.items()):
            events = outboxes[place]
            if events:
                tied = None if ties is None else ties[place]
                if log is not None:
                    log.keep(to, events)
                    self._logged += len(events)
                listeners = channel.emit(events, tied)
                if listeners:
                    message = Batch(incarnation, events, tied)
                    for receiver in listeners:
                        effects.append(Send(to, receiver, message))
                # Another of the same time may follow.
                channel.told = events[-1].time - 1
        for hook in self._after_emission:
            hook()

    def _end(self, inputs: dict[str, list[int]]) -> None:
        """All has been sent. `inputs` says whose end was heard. No mechanism says so: a source that ended early would
        have offered less than the workload has, and nobody would miss the rest."""
        self.put_on_record(Ended(self.spec.slice_id, self.incarnation, inputs))
        trimmed = 0 if self.log is None else self._trimmed_by(self.log)
        if self._dropped or self._waited or trimmed:
            self.put_on_record(Worked(self.spec.slice_id, self.incarnation, self._dropped, self._waited, trimmed))
        if not self.ended:
            self.ended = True
            for to, channel in self.outputs.items():
                self.effects += [
                    Send(to, receiver, End(self.incarnation, self.final)) for receiver in channel.listeners
                ]

    def _log_restored(self) -> None:
        """Whoever goes on from a checkpoint has its log, in place of what had been logged."""
        if self.log is not None:
            self._logged, self._trimmed_before = _held_by(self.log), self.log.trimmed

    def _trimmed_by(self, log: Log) -> int:
        """Raises InvalidScheme where it says that it has trimmed something, and keeps all that it was given."""
        trimmed = log.trimmed
        if trimmed > self._trimmed_before and _held_by(log) >= self._logged:
            raise InvalidScheme(
                f"the log of {self.spec.slice_id} says that it has trimmed {trimmed:,} batches, and keeps "
                f"all {self._logged:,} events that it was given: let trimmed count what is dropped, and "
                "kept() say what is left"
            )
        return trimmed


def _rise(events: list[Event]) -> bool:
    """Whether their numbers do."""
    last = events[0].seq - 1
    for event in events:
        seq = event.seq
        if seq <= last:
            return False
        last = seq
    return True


def _is_piece(events: list[Event], came: list[Event]) -> bool:
    """Whether these follow one another in what came in."""
    if events == came:
        return True
    try:
        begin = came.index(events[0])
    except ValueError:
        return False
    return came[begin : begin + len(events)] == events


def _held_by(log: Log) -> int:
    return sum(map(len, log.kept().values()))


_OF_MECHANISMS = frozenset({Adopted, CheckpointDurable, Delivered, Promoted, Restored})
"""What they put on record. All else is the machine's to say, or a coordinator's, or the harness's."""
_HANDLERS: dict[type, Callable[..., None]] = {
    Start: Machine._start,
    Reroute: Machine._reroute,
    Gone: Machine._lose,
    Promote: Machine._promote,
    Receive: Machine._receive,
    Durable: Machine._durable,
    Fire: Machine._fire,
    Inspect: Machine._inspect,
}
"""What takes each kind of input."""
_READERS: dict[type, Callable[..., None]] = {
    **dict.fromkeys((Batch, Replay, Replayed, End, Silence, Lap), Machine._from_upstream),
    **dict.fromkeys((Acknowledge, ReplayStop), Machine._from_downstream),
    Open: Machine._open,
}
"""And each kind of message."""
