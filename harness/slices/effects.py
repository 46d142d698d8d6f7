"""Everything that goes into a slice and everything that comes out of it, as plain data.

A slice does no I/O: its host feeds it an `Input` and carries out the `Effect`s that it returns, in their order. The
types are msgspec structs rather than dataclasses because they are made for every message.
"""

from __future__ import annotations

import msgspec

from ..model import Event
from ..recording.records import Record
from .messages import Message


class CheckpointId(msgspec.Struct, frozen=True, array_like=True):
    """Which checkpoint of a slice: who took it, and its number, which goes on rising from one incarnation to the
    next."""

    incarnation: int
    number: int


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


# Inputs


class Start(msgspec.Struct, frozen=True, gc=False):
    """You have just been started, as this incarnation, from this checkpoint (None: blank)."""

    incarnation: int
    checkpoint: Checkpoint | None


class Reroute(msgspec.Struct, frozen=True, gc=False):
    """A neighbour runs as this incarnation now."""

    peer: str
    incarnation: int


class Receive(msgspec.Struct, frozen=True, gc=False):
    peer: str
    message: Message


class Durable(msgspec.Struct, frozen=True, gc=False):
    """The checkpoint with this id has reached its store."""

    id: CheckpointId


class Fire(msgspec.Struct, frozen=True, gc=False):
    """A timer that the slice had set fires."""

    timer: str


class Inspect(msgspec.Struct, frozen=True, gc=False):
    """The run is over: say what you have kept."""


Input = Start | Reroute | Receive | Durable | Fire | Inspect


# Effects


class Send(msgspec.Struct, frozen=True, gc=False):
    """Addressed to one incarnation: whoever comes after it must not get what was meant for it."""

    to: str
    incarnation: int
    message: Message


class Persist(msgspec.Struct, frozen=True, gc=False):
    """Make this durable; the store replaces older checkpoints of the slice by it (recycling, section 3.7.2)."""

    checkpoint: Checkpoint


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    timer: str
    delay: int
    """Microseconds."""


class Note(msgspec.Struct, frozen=True, gc=False):
    """Tell the recorder. A host hands it over before it carries out any later effect of the same input, so that nothing
    becomes visible whose making is not on record."""

    record: Record


Effect = Send | Persist | SetTimer | Note
