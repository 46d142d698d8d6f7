"""What slices say to one another, and its binary encoding.

Data flows downstream (`Batch`, `Replay`, `Replayed`, `End`, `Silence`), control flows upstream (`Open`, `ReplayStop`,
`Acknowledge`, `Tracked`), and the replicas of one slice talk among themselves (`Fetch`, `Sync`, `Synced`, `Trim`).
Every message carries the incarnation of its sender, so that a receiver can refuse one that has been replaced. A
connection that carries messages is versioned by its greeting (see `harness.wire`); MessagePack with a type tag is the
encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ..model import Event


class Anchor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Ties an event on its way to the source event that it goes back to."""

    source: str
    root: int
    """The source event's number, and which attempt to send it this is."""
    id: int
    """Of this copy of this event: 64 bits."""


class Batch(msgspec.Struct, frozen=True, tag="batch", array_like=True, gc=False):
    """Consecutive events of one channel, in order; never empty."""

    incarnation: int
    events: list[Event]
    anchors: list[Anchor] | None = None
    """One for each event, where a source follows them."""


class Replay(msgspec.Struct, frozen=True, tag="replay", array_like=True, gc=False):
    """The same, out of the log."""

    incarnation: int
    events: list[Event]


class Replayed(msgspec.Struct, frozen=True, tag="replayed", array_like=True, gc=False):
    """Nothing more comes out of the log: replay-completed."""

    incarnation: int


class End(msgspec.Struct, frozen=True, tag="end", array_like=True, gc=False):
    """Nothing follows on this channel from this incarnation."""

    incarnation: int


class Silence(msgspec.Struct, frozen=True, tag="silence", array_like=True, gc=False):
    """No event up to this event time follows on this channel."""

    incarnation: int
    time: int


class Open(msgspec.Struct, frozen=True, tag="open", array_like=True, gc=False):
    """The receiver of a channel is ready: send what is logged after sequence number `after`, and all that comes.

    This is the replay-start of StreamMine3G (section 3.7.1), sent at every start, the first included.
    """

    incarnation: int
    after: int


class ReplayStop(msgspec.Struct, frozen=True, tag="replay-stop", array_like=True, gc=False):
    """The receiver has what comes from this number on: replay only what is below."""

    incarnation: int
    seq: int


class Acknowledge(msgspec.Struct, frozen=True, tag="ack", array_like=True, gc=False):
    """Events up to sequence number `upto` will never be asked for again."""

    incarnation: int
    upto: int


class Tracked(msgspec.Struct, frozen=True, tag="tracked", array_like=True, gc=False):
    """What a slice has done with events that a source follows."""

    incarnation: int
    roots: list[tuple[int, int]]
    """(root, the ids that were taken and those that were made of them, all in one exclusive or)."""


class Checkpoint(msgspec.Struct, frozen=True):
    """What a slice needs to go on from a moment of its past."""

    slice: str
    id: CheckpointId
    state: bytes | None
    """The operator's own snapshot; None where the scheme leaves it out."""
    vector: dict[str, int]
    """Upstream slice -> sequence number last taken from it."""
    log: dict[str, list[Event]]
    """Downstream slice -> outputs that it has not acknowledged."""
    next_seq: int | None
    """The number of the next output; None where the scheme leaves it out."""
    turn: tuple[int, int] = (0, 0)
    """Where a merge by turns stands."""
    listeners: dict[str, dict[int, int]] = {}
    """Downstream slice -> its incarnations that listen -> up to where each has acknowledged."""


class CheckpointId(msgspec.Struct, frozen=True, array_like=True):
    """Which checkpoint of a slice: who took it, and its number, which goes on rising from one incarnation to the
    next."""

    incarnation: int
    number: int


class Fetch(msgspec.Struct, frozen=True, tag="fetch", array_like=True, gc=False):
    """A replica that joins asks a fellow for its state."""

    incarnation: int


class Sync(msgspec.Struct, frozen=True, tag="sync", array_like=True):
    """A replica's checkpoint, for a fellow to hold or to go on from."""

    incarnation: int
    checkpoint: Checkpoint


class Synced(msgspec.Struct, frozen=True, tag="synced", array_like=True, gc=False):
    """The fellow has checkpoint `number`."""

    incarnation: int
    number: int


class Trim(msgspec.Struct, frozen=True, tag="trim", array_like=True, gc=False):
    """The primary passes on what a receiver has acknowledged."""

    incarnation: int
    downstream: str
    upto: int


Data = Batch | Replay | Replayed | End | Silence
Control = Open | ReplayStop | Acknowledge | Tracked
Internal = Fetch | Sync | Synced | Trim
Message = Data | Control | Internal

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Message).decode


def identity(message: Message) -> str:
    """What tells this message from all others between the same two incarnations; part of the key of its crash
    addresses."""
    match message:
        case Batch(events=events):
            return f"@{events[0].seq}"
        case Replay(events=events):
            return f"replay@{events[0].seq}"
        case Replayed():
            return "replayed"
        case End():
            return "end"
        case Silence(time=time):
            return f"silence@{time}"
        case Open(after=seq):
            return f"open@{seq}" if seq else "open"
        case ReplayStop(seq=seq):
            return f"replay-stop@{seq}"
        case Acknowledge(upto=upto):
            return f"ack@{upto}"
        case Tracked(roots=[(root, ids), *_]):
            return f"tracked@{root}.{ids:x}"
        case Fetch():
            return "fetch"
        case Sync(checkpoint=checkpoint):
            return f"sync@{checkpoint.id.number}"
        case Synced(number=number):
            return f"synced@{number}"
        case Trim(downstream=downstream, upto=upto):
            return f"trim@{downstream}@{upto}"
    raise TypeError(f"{message!r} is no message between slices")


def after(events: Sequence[Event], seq: int) -> list[Event]:
    """The events whose number is above `seq` and above all that came before them: what a high-water mark lets pass."""
    if events and events[0].seq > seq and _rises(events):
        return list(events)
    passed: list[Event] = []
    for event in events:
        if event.seq > seq:
            passed.append(event)
            seq = event.seq
    return passed


def _rises(events: Sequence[Event]) -> bool:
    return all(one.seq < other.seq for one, other in pairwise(events))
