"""The records that make up a history: what was offered, taken, checkpointed, delivered and kept, and by whom.

They are written by the recorder in the order in which it took them. Outputs are stamped with its clock when it took
them; what a node did, when the node did it, on the same clock. The records of one incarnation keep the order in which
it made them; that order is what re-execution follows.
"""

from __future__ import annotations

import msgspec

from ..model import Event, Value


class Offered(msgspec.Struct, frozen=True, tag="offered", array_like=True):
    """A source gave these events to the subject."""

    source: str
    events: list[Event]


class Started(msgspec.Struct, frozen=True, tag="started", array_like=True):
    """An incarnation of a slice began, blank (`restored` is None) or from (incarnation, number) of a checkpoint."""

    slice: str
    incarnation: int
    restored: tuple[int, int] | None
    next_seq: int
    """The number that its next output will carry."""


class Taken(msgspec.Struct, frozen=True, tag="taken", array_like=True):
    """A slice took `count` events, numbered `first` to `last`, from a channel, after its filter."""

    slice: str
    incarnation: int
    upstream: str
    upstream_incarnation: int
    first: int
    last: int
    count: int


class CheckpointTaken(msgspec.Struct, frozen=True, tag="checkpoint-taken", array_like=True):
    slice: str
    incarnation: int
    number: int


class CheckpointDurable(msgspec.Struct, frozen=True, tag="checkpoint-durable", array_like=True):
    slice: str
    incarnation: int
    number: int


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """A slice refused a message of a replaced incarnation (fencing)."""

    slice: str
    incarnation: int
    peer: str
    peer_incarnation: int
    message: str


class Ended(msgspec.Struct, frozen=True, tag="ended", array_like=True):
    """A slice has seen the end of its input from each of these upstream incarnations, and has said so downstream."""

    slice: str
    incarnation: int
    inputs: dict[str, int]


class Delivered(msgspec.Struct, frozen=True, tag="delivered", array_like=True):
    """The recorder took these outputs, in this order.

    `channel` names the path within which order counts; `incarnation` is the sender's (a slice's incarnation, a query's
    attempt); `position` is the first one's place in the channel, counted at the recorder.
    """

    sink: str
    channel: str
    incarnation: int
    position: int
    rows: list[Event]


class Kept(msgspec.Struct, frozen=True, tag="kept", array_like=True):
    """The state that an actor holds at the end of the run, as canonical keyed rows."""

    actor: str
    incarnation: int
    rows: dict[str, Value]


Record = Offered | Started | Taken | CheckpointTaken | CheckpointDurable | Refused | Ended | Delivered | Kept


class Stamped(msgspec.Struct, frozen=True, array_like=True):
    """A record and when it happened, in microseconds since the run began."""

    at: int
    record: Record
