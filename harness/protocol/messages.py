"""What slices say to one another, and its binary encoding.

Here stand the messages of a channel itself: data flows downstream (`Batch`, `Replay`, `Replayed`, `End`, `Silence`),
control flows upstream (`Open`, `ReplayStop`, `Acknowledge`); in a cycle, `Lap` goes round. A mechanism declares
messages of its own. Every message carries the incarnation of its sender, so that a receiver can refuse one that has
been replaced. A connection that carries messages is versioned by its greeting (see `harness.core.wire`); MessagePack
with a type tag is the encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from functools import reduce
from operator import lt, or_
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec

from ..core.error_text import described_error
from ..core.errors import InvalidScheme
from ..core.events import Event
from ..recording.records import Delivered

Tie = tuple[Any, ...]
"""What a mechanism has tied to an event on its way, as plain values."""
SomeEvents = Annotated[list[Event], msgspec.Meta(min_length=1)]
PartType = TypeVar("PartType")


class Flow(Enum):
    """Between whom a message goes."""

    DOWNSTREAM = auto()
    """From a slice to one that it feeds."""
    UPSTREAM = auto()
    """From a slice to one that feeds it."""
    FELLOWS = auto()
    """From one replica of a slice to another."""
    ASIDE = auto()
    """To one of the slices that a mechanism names besides (`Mechanism.addressees`)."""
    REPORTS = auto()
    """From a member to its coordinator."""
    ORDERS = auto()
    """From a coordinator to one of its members."""


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What every message has."""

    flow: ClassVar[Flow]
    cumulative: ClassVar[bool] = False
    """Whether one says again all that those of its kind before it said, on the same channel."""

    incarnation: int
    """Of the sender."""

    @property
    def identity(self) -> str:
        """What tells this message from all others between the same two incarnations; part of the key of its crash
        addresses. By default its tag and what it says: `trim@sink-0@40`."""
        _, *said = msgspec.structs.astuple(self)
        return "@".join([str(self.__struct_config__.tag), *map(str, said)])


class Batch(Message, frozen=True, tag="batch", array_like=True, gc=False):
    """Consecutive events of one channel, in order; never empty."""

    flow = Flow.DOWNSTREAM

    events: SomeEvents
    ties: list[Tie] | None = None
    """One for each event, where a mechanism ties something to them."""

    @property
    def identity(self) -> str:
        return f"@{self.events[0].seq}"


class Replay(Message, frozen=True, tag="replay", array_like=True, gc=False):
    """The same, out of the log."""

    flow = Flow.DOWNSTREAM

    events: SomeEvents

    @property
    def identity(self) -> str:
        return f"replay@{self.events[0].seq}"


class Replayed(Message, frozen=True, tag="replayed", array_like=True, gc=False):
    """Nothing more comes out of the log: replay-completed."""

    flow = Flow.DOWNSTREAM


class End(Message, frozen=True, tag="end", array_like=True, gc=False):
    """Nothing follows on this channel from this incarnation."""

    flow = Flow.DOWNSTREAM

    time: int = -1
    """How far event time had come when the input was over."""

    @property
    def identity(self) -> str:
        return "end"


class Silence(Message, frozen=True, tag="silence", array_like=True, gc=False):
    """No event up to this event time follows on this channel."""

    flow = Flow.DOWNSTREAM

    time: int


class Lap(Message, frozen=True, tag="lap", array_like=True, gc=False):
    """How quiet it is in a cycle, as far as its sender knows (see `laps`). It comes after all that was sent before."""

    flow = Flow.DOWNSTREAM

    incarnations: dict[str, tuple[int, int]]
    """Slice of the cycle -> its incarnation, and how often that was disturbed: what this run of laps is about."""
    number: int
    """Of the lap in its run."""
    quiet: int
    """For so many laps nothing was taken, by the sender and by those as many channels upstream of it."""

    @property
    def identity(self) -> str:
        run = sum(incarnation + disturbed for incarnation, disturbed in self.incarnations.values())
        return f"lap@{run}.{self.number}"


class Open(Message, frozen=True, tag="open", array_like=True, gc=False):
    """The receiver of a channel is ready: send what is logged after sequence number `after`, and all that comes.

    This is the replay-start of StreamMine3G (section 3.7.1), sent at every start, the first included.
    """

    flow = Flow.UPSTREAM

    after: int

    @property
    def identity(self) -> str:
        return f"open@{self.after}" if self.after else "open"


class ReplayStop(Message, frozen=True, tag="replay-stop", array_like=True, gc=False):
    """The receiver has what comes from this number on: replay only what is below."""

    flow = Flow.UPSTREAM

    seq: int


class Acknowledge(Message, frozen=True, tag="ack", array_like=True, gc=False):
    """Events up to sequence number `upto` will never be asked for again."""

    flow = Flow.UPSTREAM
    cumulative = True

    upto: int

    @property
    def identity(self) -> str:
        return f"ack@{self.upto}"


Data = Batch | Replay | Replayed | End | Silence | Lap
Control = Open | ReplayStop | Acknowledge
OF_CHANNELS: tuple[type[Message], ...] = (
    Batch,
    Replay,
    Replayed,
    End,
    Silence,
    Lap,
    Open,
    ReplayStop,
    Acknowledge,
)
"""The messages that every slice knows."""


class CheckpointId(msgspec.Struct, frozen=True, array_like=True):
    """Which checkpoint of a slice: who took it, and its number, which goes on rising from one incarnation to the
    next."""

    incarnation: int
    number: int


class Checkpoint(msgspec.Struct, frozen=True):
    """What a slice needs to go on from a moment of its past."""

    slice: str
    id: CheckpointId
    parts: dict[str, Any] = {}
    """Name of a part -> what it holds: bytes, a number, or a struct, which a store gives back as plain values."""
    beside: bool = False
    """Whether the store keeps the ones before it as well, each by its number, until it is told to drop them."""
    covers: int = 0
    """Items with a number up to this are in it, and the store may drop them (`Items`)."""
    delivers: list[Delivered] = []
    """Of a sink: what is delivered when this becomes durable, in one step with it (`Outside`)."""

    def part(self, name: str, kind: type[PartType]) -> PartType | None:
        """What a part holds, as the type that it was put in as; None where the checkpoint has no such part."""
        held = self.parts.get(name)
        if held is None or isinstance(held, kind):
            return held
        return msgspec.convert(held, kind)


class Items(msgspec.Struct, frozen=True):
    """What a slice has a store keep beside its newest checkpoint, until one covers it."""

    slice: str
    id: CheckpointId
    """Whose they are; among the numbers of its checkpoints."""
    last: int
    """The highest number of an item here."""
    items: list[Any]
    """In the order in which they are to be given back: plain values, or structs, given back as plain values."""


def identity_of(sender: str, message: Message) -> str:
    """Raises InvalidScheme where a message does not say what tells it from others, as a batch of no events."""
    try:
        return message.identity
    except Exception as error:
        raise InvalidScheme(f"{sender} sends {message!r}, which has no identity: {described_error(error)}") from error


encode = msgspec.msgpack.Encoder().encode


def decoder(kinds: Iterable[type[Message]] = ()) -> msgspec.msgpack.Decoder[Message]:
    """Decodes the messages of channels, and these of mechanisms."""
    known = dict.fromkeys((*OF_CHANNELS, *kinds))
    return msgspec.msgpack.Decoder(reduce(or_, known))


def after(events: Sequence[Event], seq: int) -> list[Event]:
    """The events whose number is above `seq` and above all that came before them: what a high-water mark lets pass."""
    if events and events[0].seq > seq and rises(events):
        return list(events)
    passed: list[Event] = []
    for event in events:
        if event.seq > seq:
            passed.append(event)
            seq = event.seq
    return passed


def rises(events: Sequence[Event]) -> bool:
    """Whether each has a higher number than the one before it."""
    numbers = [event.seq for event in events]
    return all(map(lt, numbers, numbers[1:]))
