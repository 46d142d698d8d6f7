"""What slices say to one another, and its binary encoding.

Data flows downstream (`Batch`, `End`), control flows upstream (`Open`, `Acknowledge`). Every message carries the
incarnation of its sender, so that a receiver can refuse one that has been replaced. A connection that carries messages
is versioned by its greeting (see `harness.wire`); MessagePack with a type tag is the encoding.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..model import Event


class Batch(msgspec.Struct, frozen=True, tag="batch", array_like=True, gc=False):
    """Consecutive events of one channel, in order; never empty."""

    incarnation: int
    events: list[Event]


class End(msgspec.Struct, frozen=True, tag="end", array_like=True, gc=False):
    """Nothing follows on this channel from this incarnation."""

    incarnation: int


class Open(msgspec.Struct, frozen=True, tag="open", array_like=True, gc=False):
    """The receiver of a channel is ready: send what is logged after sequence number `after`, then all that comes.

    This is the replay request of StreamMine3G (section 3.7.1), sent at every start, the first included.
    """

    incarnation: int
    after: int


class Acknowledge(msgspec.Struct, frozen=True, tag="ack", array_like=True, gc=False):
    """Events up to sequence number `upto` will never be asked for again."""

    incarnation: int
    upto: int


Message = Batch | End | Open | Acknowledge

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Message).decode


def identity(message: Message) -> str:
    """What tells this message from all others between the same two incarnations; part of the key of its crash
    addresses."""
    match message:
        case Batch(events=events):
            return f"@{events[0].seq}"
        case End():
            return "end"
        case Open():
            return "open"
        case Acknowledge(upto=upto):
            return f"ack@{upto}"


def after(events: Sequence[Event], seq: int) -> list[Event]:
    """The events of a rising sequence whose number is above `seq`."""
    if events and events[0].seq > seq:
        return list(events)
    return [event for event in events if event.seq > seq]
