"""The records that make up a history: what was offered, taken, checkpointed, delivered and kept, and by whom.

They are written by the recorder in the order in which it took them. Outputs are stamped with its clock when it took
them; what a node did, when the node did it, on the same clock. The records of one incarnation keep the order in which
it made them; that order is what re-execution follows.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from ..core.errors import InvalidOperator
from ..core.events import Event, Value

Natural = Annotated[int, msgspec.Meta(ge=0)]
"""Checked where a record is read."""


class Offered(msgspec.Struct, frozen=True, tag="offered", array_like=True):
    """A source gave these events to the subject."""

    source: str
    events: list[Event]


class Started(msgspec.Struct, frozen=True, tag="started", array_like=True):
    """An incarnation of a slice began, blank (`restored` is None) or from (incarnation, number) of a checkpoint."""

    slice: str
    incarnation: Natural
    restored: tuple[int, int] | None
    next_seq: Natural
    """The number that its next output will carry."""
    replica: Natural = 0
    seed: int = 0
    """Of its random draws."""


class Restored(msgspec.Struct, frozen=True, tag="restored", array_like=True):
    """An incarnation that ran already took over what another of its slice had at a checkpoint: state, timestamp vector,
    numbering and output log. What it had taken before counts no more."""

    slice: str
    incarnation: Natural
    checkpoint: tuple[int, int]
    """The incarnation that took it, and its number."""
    next_seq: Natural


class InSync(msgspec.Struct, frozen=True, tag="in-step", array_like=True):
    """From now on this replica could take over from the others of its slice without loss, and the manager knows it. Its
    tag is older than its name: runs are on record with it."""

    slice: str
    incarnation: Natural


class Promoted(msgspec.Struct, frozen=True, tag="promoted", array_like=True):
    """A replica that stood by is active from now on."""

    slice: str
    incarnation: Natural


class Opened(msgspec.Struct, frozen=True, tag="opened", array_like=True):
    """A slice heard that a receiver has opened its channel, and wants what comes after number `after`."""

    slice: str
    incarnation: Natural
    downstream: str
    downstream_incarnation: Natural
    after: Natural
    next_seq: Natural
    """The number of the first output that had not been made yet."""


class Taken(msgspec.Struct, frozen=True, tag="taken", array_like=True):
    """A slice took `count` events, numbered `first` to `last`, from a channel, after its filter."""

    slice: str
    incarnation: Natural
    upstream: str
    upstream_incarnation: Natural
    first: Natural
    last: Natural
    count: Natural


class Closed(msgspec.Struct, frozen=True, tag="closed", array_like=True):
    """An epoch ended for a slice: of what it had taken so far, its operator made what it makes at the end of one."""

    slice: str
    incarnation: Natural
    epoch: int


class Fired(msgspec.Struct, frozen=True, tag="fired", array_like=True):
    """A timer of an operator's fired: of what it had taken so far, it made what it makes then."""

    slice: str
    incarnation: Natural
    at: int
    """The event time that was due, or what the node's clock showed, in ms."""
    time: int
    """The event time of what it made."""
    clock: bool
    """Whether it was the clock's."""


class CheckpointTaken(msgspec.Struct, frozen=True, tag="checkpoint-taken", array_like=True):
    """A slice has given its state, as it is now, to be stored."""

    slice: str
    incarnation: Natural
    number: Natural


class PartialTaken(msgspec.Struct, frozen=True, tag="partial-taken", array_like=True):
    """The checkpoint with this number, which is taken now, holds of the state only what has changed."""

    slice: str
    incarnation: Natural
    number: Natural


class Compensated(msgspec.Struct, frozen=True, tag="compensated", array_like=True):
    """An operator made up for what its recovery could not restore, which moved the state by at most `missing`."""

    slice: str
    incarnation: Natural
    missing: float


class CheckpointDurable(msgspec.Struct, frozen=True, tag="checkpoint-durable", array_like=True):
    """A slice has heard that its checkpoint with this number is stored, and outlives it."""

    slice: str
    incarnation: Natural
    number: Natural


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """A slice refused a message of a replaced incarnation (fencing)."""

    slice: str
    incarnation: Natural
    peer: str
    peer_incarnation: Natural
    message: str


class Ended(msgspec.Struct, frozen=True, tag="ended", array_like=True):
    """A slice has seen the end of its input, and has said so downstream. Noted again when it hears it from more."""

    slice: str
    incarnation: Natural
    inputs: dict[str, list[int]]
    """Upstream slice -> its incarnations from which the end was heard."""


class Worked(msgspec.Struct, frozen=True, tag="worked", array_like=True):
    """How often what no other record shows was at work inside a slice, since it was started. Noted whenever it sees the
    end of its input, where there is anything to say."""

    slice: str
    incarnation: Natural
    dropped: Natural
    """Events that had come before, as far as their numbers say, and that its filters did not let pass again."""
    waited: Natural
    """Times that its merge held what had come in, since another channel could bring what comes before it."""
    trimmed: Natural
    """Batches that were dropped from its output logs, since nobody will ask for them any more."""


class Delivered(msgspec.Struct, frozen=True, tag="delivered", array_like=True):
    """The recorder took these outputs, in this order.

    `channel` names the path within which order counts; `incarnation` is the sender's (a slice's incarnation, a query's
    attempt); `position` is the first one's place in the channel, counted at the recorder.
    """

    sink: str
    channel: str
    incarnation: Natural
    position: Natural
    rows: list[Event]


class EmptyBatch(msgspec.Struct, frozen=True, tag="empty-batch", array_like=True):
    """The recorder took a batch of a query that has no rows. In complete mode that is an empty table."""

    sink: str
    channel: str
    incarnation: Natural
    batch: int


class Kept(msgspec.Struct, frozen=True, tag="kept", array_like=True):
    """The state that an actor holds at the end of the run, as canonical keyed rows; of a slice with replicas there is
    one for each that processes."""

    actor: str
    incarnation: Natural
    rows: dict[str, Value]


class BatchDone(msgspec.Struct, frozen=True, tag="batch-done", array_like=True):
    """What Spark said of a micro-batch of a query, at the end of the incarnation that ran it."""

    actor: str
    incarnation: Natural
    batch: int
    rows: int
    """Of its input."""
    late: int
    """Rows that the watermark had it drop."""
    evicted: int
    """Rows that left its state."""
    milliseconds: int
    """Of the whole batch."""
    python: bool = False
    """Whether Python workers ran code of the user's in it."""
    python_at_end: bool = False
    """Whether they did in its last stage, which writes its state and its output."""
    python_at_first: bool = True
    """Whether any ran, be it for the harness's source, in each stage that reads."""
    shuffled: bool = False
    """Whether its rows came by a shuffle, in no order that is promised."""


class Decided(msgspec.Struct, frozen=True, tag="decided", array_like=True):
    """A coordinator has decided something: a step of a scheme's own protocol that no other record shows."""

    actor: str
    """The coordinator."""
    incarnation: Natural
    what: str
    """A word of the scheme's, such as "complete"."""
    details: dict[str, Value] = {}


class Changed(msgspec.Struct, frozen=True, tag="changed", array_like=True):
    """A coordinator has changed what the mechanisms of a slice go by, and that is durable. Its successors note it
    again."""

    actor: str
    """The coordinator."""
    incarnation: Natural
    member: str
    """The slice."""
    number: Natural
    """Of the change, among those of this slice: from 1."""
    since: Natural
    """So many inputs make up the state of the slice, of every incarnation and replica alike, where it begins to hold:
    it holds for all that comes after them."""
    settings: dict[str, Value]
    """Of all that can be changed what is other than declared, from then on."""


class Adopted(msgspec.Struct, frozen=True, tag="adopted", array_like=True):
    """An incarnation of a slice goes by a change from now on."""

    slice: str
    incarnation: Natural
    number: Natural
    """Of the change."""
    position: Natural
    """How many inputs make up its state."""


Record = (
    Offered
    | Started
    | Restored
    | InSync
    | Promoted
    | Opened
    | Taken
    | Closed
    | Fired
    | CheckpointTaken
    | PartialTaken
    | Compensated
    | CheckpointDurable
    | Refused
    | Ended
    | Worked
    | Delivered
    | EmptyBatch
    | Kept
    | BatchDone
    | Decided
    | Changed
    | Adopted
)


def whose(record: Record) -> str:
    """The slice, actor or sink that a record is of; empty where it is the harness's."""
    return str(getattr(record, "slice", "") or getattr(record, "actor", "") or getattr(record, "sink", ""))


class Stamped(msgspec.Struct, frozen=True, array_like=True):
    """A record and when it happened, in microseconds since the run began."""

    at: int
    record: Record


class OfferedSpan(NamedTuple):
    """Events that a source offered in one record, and whose numbers follow one another."""

    at: int
    """In microseconds."""
    source: str
    first: int
    """The number of the first."""
    length: int


def no_such_record(stamped: Stamped, error: Exception) -> InvalidOperator:
    """Of a value that no record can hold."""
    return InvalidOperator(
        f"a value in {type(stamped.record).__name__.lower()} cannot be recorded ({error}); integers have 64 bits, and "
        "keys are plain text"
    )


def leaves_rows(record: Record) -> bool:
    """Nothing is known of one that offers or delivers nothing; what is numbered has no gaps."""
    match record:
        case Offered(events=rows) | Delivered(rows=rows):
            return bool(rows)
        case _:
            return True
