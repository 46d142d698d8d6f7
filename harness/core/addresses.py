"""Crash addresses: named places in a protocol at which a node can die, the same in every world.

An *address* names one such place exactly. A *moment* is a partial address, as a scenario writes it:
`checkpoint(3).durable` leaves open which slice. A moment strikes at the first address that it matches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from .errors import InvalidScenario
from .slice_names import replica_name
from .wording import counted

DRIVER, TASK = "driver", "task"
"""The actors of a query: whoever runs it, and whoever runs the task that is meant."""


class Point(StrEnum):
    """The kinds of place. A host announces them; see `harness.protocol.host` for the order."""

    STARTED = "started"
    """An incarnation begins. Key: empty."""
    REROUTED = "rerouted"
    """It hears of a neighbour's incarnation. Key: `count-0#2`."""
    LOST = "lost"
    """It hears that a neighbour's incarnation is gone. Key: `count-0#1`."""
    PROMOTED = "promoted"
    """It hears that it is active from now on. Key: empty."""
    RECEIVED = "received"
    """A message arrived. Key: the peer's incarnation and the message: `split-0#1 @11` (a batch, by the number of its
    first event), `count-0#2 ack@40`, `count-0#2 open`, `split-0#1 end`."""
    STOPPED = "stopped"
    """A coordinator hears that none of the slices runs that start together. Key: which time that is."""
    SEND_ISSUED = "send-issued"
    """A message is about to go out. Key: the receiver's incarnation and the message."""
    SEND_HANDED_OVER = "send-handed-over"
    """The network has it: it can arrive though its sender dies."""
    SEND_DELIVERED = "send-delivered"
    """The receiver's host has it. The actor is still the sender."""
    CHECKPOINT_ISSUED = "checkpoint-issued"
    """A checkpoint is handed to its store. Key: its number."""
    CHECKPOINT_DURABLE = "checkpoint-durable"
    """The store has it, and its slice has not been told."""
    CHECKPOINT_TOLD = "checkpoint-told"
    """The slice hears that it is durable."""
    TIMER = "timer"
    """A timer fires. Key: its name."""
    MECHANISM = "mechanism"
    """A place in a mechanism's own protocol. Key: the mechanism and the place: `barriers aligned@3`."""
    SOURCE_LATEST = "source-latest"
    """Spark asks a query's source how far the next batch goes. The keys of a query's points begin with the batch id,
    which is all of it where nothing else is said."""
    SOURCE_COMMIT = "source-commit"
    """Spark tells a query's source that a batch's offsets are in the log."""
    SOURCE_PARTITIONS = "source-partitions"
    """Spark plans what a query's source gives in a batch."""
    SOURCE_READ = "source-read"
    """A task reads from a query's source."""
    SINK_WRITE = "sink-write"
    """The harness's sink is given a batch."""
    OFFSET_LOG = "offset-log"
    """Spark writes down how far a batch goes."""
    COMMIT_LOG = "commit-log"
    """Spark writes down that a batch is done."""
    ADD_BATCH = "add-batch"
    """Spark hands a batch to a sink of the first interface."""
    STREAM_COMMIT = "stream-commit"
    """Spark tells a sink of the second interface that all of a batch is written."""
    SINK_LOG = "sink-log"
    """A file sink writes down which files a batch has."""
    SOURCE_LOG = "source-log"
    """A file source writes down which files a batch has."""
    JOB_COMMIT = "job-commit"
    """A file sink ends the job of a batch."""
    CLEANUP = "cleanup"
    """Spark lets a query's source and logs forget what is done, before it goes on with the next batch."""
    RENAME = "rename"
    """A file of the checkpoint gets its name, and is there from then on. Key: `3/offsets/3`, the path's last parts."""
    WRITER_COMMIT = "writer-commit"
    """A task's writer ends. Key: `3/0`, the batch and the partition."""
    TASK_COMMIT = "task-commit"
    """A file sink ends a task. Key: the batch and the partition."""
    STATE_COMMIT = "state-commit"
    """A task makes its part of the state durable. Key: `3/0/1/default`, batch, partition, operator and store."""
    TASK_END = "task-end"
    """A task of a batch is over. Key: `3/2/0`, batch, stage and partition."""
    USER = "user"
    """A place that the user's code names. Key: `3/after-upload`."""
    LINE = "line"
    """A line of the user's code is executed, or calls something outside of it. Key: `3/sinks.write_marker:17#2`, the
    batch, module, function and line, and which time in its batch; `3/sinks.write:17 calls sqlite3.Connection.commit#1`
    of a call."""
    FILE = "file"
    """An operation changes what the run's folders hold. Key: `3/rename checkpoint/offsets/3#1`: the batch, the
    operation, the path with what is random in it left out, and which time in its batch: on a cluster, of a task, as if
    no other node ran any."""
    MESSAGE = "message"
    """A request goes to a store outside. Key: `3/postgres COMMIT#1`: the batch, the store, the kind of request, and
    which time in its batch. After it: the store has done it, and its answer is held."""


FINE_POINTS: Final = frozenset({Point.USER, Point.LINE, Point.FILE, Point.MESSAGE})
"""What lies between the steps that Spark takes. A batch passes many of each, which their names tell apart: that is what
follows the batch in their keys. Driver and tasks pass them."""

TASK_POINTS: Final = frozenset(
    {Point.SOURCE_READ, Point.WRITER_COMMIT, Point.TASK_COMMIT, Point.STATE_COMMIT, Point.TASK_END}
)
"""Those of a query that its tasks pass."""
QUERY_POINTS: Final = (
    TASK_POINTS
    | FINE_POINTS
    | {
        Point.SOURCE_LATEST,
        Point.SOURCE_COMMIT,
        Point.SOURCE_PARTITIONS,
        Point.SINK_WRITE,
        Point.OFFSET_LOG,
        Point.COMMIT_LOG,
        Point.ADD_BATCH,
        Point.STREAM_COMMIT,
        Point.SINK_LOG,
        Point.SOURCE_LOG,
        Point.JOB_COMMIT,
        Point.CLEANUP,
        Point.RENAME,
    }
)
_INPUTS: Final = frozenset(
    {
        Point.STARTED,
        Point.REROUTED,
        Point.LOST,
        Point.PROMOTED,
        Point.RECEIVED,
        Point.STOPPED,
        Point.CHECKPOINT_TOLD,
        Point.TIMER,
    }
)
"""All that a slice of a scheme is given, and takes events by."""
_ONLY: Final = {point: frozenset({point}) for point in Point}
COMMITS_OF_TASKS: Final = frozenset({Point.STATE_COMMIT, Point.TASK_COMMIT, Point.WRITER_COMMIT})
"""Where a task leaves something to others. After the batch, their keys have its partition, which is the same in each
batch."""


class Side(StrEnum):
    BEFORE = "before"
    AFTER = "after"


_LINE = re.compile(r"(?P<batch>[^/]+)/(?P<function>\S+):(?P<line>\d+)(?: calls (?P<called>\S+))?#(?P<time>\d+)")


@dataclass(frozen=True)
class CodeLine:
    """What the key of a line says."""

    batch: str
    function: str
    """With its module."""
    line: int
    called: str
    """What it calls; empty where the line itself is meant."""
    time: int
    """Which time in its batch, from 1."""

    @classmethod
    def of(cls, key: str) -> CodeLine | None:
        """None where it is not the whole key of a line."""
        match = _LINE.fullmatch(key)
        if match is None:
            return None
        return cls(match["batch"], match["function"], int(match["line"]), match["called"] or "", int(match["time"]))

    @property
    def place(self) -> str:
        """The same whenever it is passed."""
        return f"{self.function}:{self.line}" + (f" calls {self.called}" if self.called else "")

    def said(self, side: Side, text: str = "") -> str:
        """In words; `text` is that of the line."""
        line = f"line {self.line}" + (f" (`{text}`)" if text else "")
        calls = "calls" if side is Side.BEFORE else "has called"
        line += f" {calls} {self.called}" if self.called else ""
        again = f", the {_nth(self.time)} time" if self.time > 1 else ""
        return f"in batch {self.batch}, in {self.function}, {side} {line}{again}"


def _nth(number: int) -> str:
    ends = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return {2: "second", 3: "third"}.get(number, f"{number}{ends}")


_FILE_OPERATION = re.compile(r"(?P<batch>\d+|\?)/(?P<what>.+)#(?P<time>\d+)", re.DOTALL)


def _file_operation_said(key: str) -> str:
    """In words, what the whole key of an operation on a file says, and any other as it is."""
    match = _FILE_OPERATION.fullmatch(key)
    if match is None:
        return key
    batch = "" if match["batch"] == "?" else f" in batch {match['batch']}"
    again = f", the {_nth(int(match['time']))} time" if match["time"] != "1" else ""
    return f"{match['what']}{batch}{again}"


_TEXT = re.compile(
    r"(?P<actor>\S+)/(?P<replica>\d+)#(?P<incarnation>\d+) (?P<side>before|after) (?P<point>[a-z-]+)(?: (?P<key>.+))?"
)


class Address(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where exactly: `count-0/0#1 after checkpoint-durable 3`. A run that is watched makes hundreds of them."""

    actor: str
    """A slice, the manager, or a driver."""
    incarnation: int
    """Of a slice, counted over all its replicas."""
    point: Point
    key: str
    """An identity, never a count."""
    side: Side
    replica: int = 0

    @property
    def name(self) -> str:
        """Of the replica, as those say who aim at it."""
        return replica_name(self.actor, self.replica) if self.replica else self.actor

    def __str__(self) -> str:
        text = f"{self.actor}/{self.replica}#{self.incarnation} {self.side} {self.point}"
        return f"{text} {self.key}" if self.key else text

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address that prints as `text`. Raises InvalidScenario."""
        match = _TEXT.fullmatch(text)
        if match is None or match["point"] not in set(Point):
            raise InvalidScenario(
                f"{text!r} is not a crash address; one looks like 'count-0/0#1 after checkpoint-durable 3'"
            )
        return cls(
            match["actor"],
            int(match["incarnation"]),
            Point(match["point"]),
            match["key"] or "",
            Side(match["side"]),
            int(match["replica"]),
        )


@dataclass(frozen=True)
class Moment:
    """A partial address: what is None is left open."""

    point: Point
    side: Side = Side.AFTER
    key: str | None = None
    """Or the first parts of one, up to a "/": batch 3 of all that are called `3/0`, `3/1` and so on."""
    actor: str | None = None
    incarnation: int | None = None
    recovering: bool = False
    """Only incarnations that replace an earlier one."""
    taken: int = 0
    """Only once the actor's incarnation has taken this many events. Of a message that is left open, it is whatever
    input lets it take them: one that waited for a checkpoint goes on when it hears of that, and of no message."""

    @classmethod
    def exactly(cls, address: Address) -> Moment:
        return cls(address.point, address.side, address.key, address.name, address.incarnation)

    def of(self, actor: str) -> Moment:
        """The same moment of `actor`, unless it already names one."""
        return self if self.actor is not None else replace(self, actor=actor)

    @property
    def points(self) -> frozenset[Point]:
        """The points at which it can come."""
        return _INPUTS if self.taken and self.key is None and self.point is Point.RECEIVED else _ONLY[self.point]

    def matches(self, address: Address, taken: int) -> bool:
        return (
            address.point in self.points
            and self.side is address.side
            and (self.actor is None or self.actor == address.name)
            and (self.key is None or address.key == self.key or address.key.startswith(f"{self.key}/"))
            and (self.incarnation is None or self.incarnation == address.incarnation)
            and (not self.recovering or address.incarnation > address.replica + 1)
            and taken >= self.taken
        )

    def __str__(self) -> str:
        actor = self.actor or "a target"
        if self.taken:
            text = f"once {actor} has taken {counted(self.taken, 'event')}"
        elif self.point is Point.LINE and (line := CodeLine.of(self.key or "")) is not None:
            text = line.said(self.side)
        else:
            key = _file_operation_said(self.key or "") if self.point is Point.FILE else self.key
            text = f"{self.side} {_WORDS[self.point].format(actor=actor, key=key or 'anything')}"
        if self.incarnation is not None:
            text += f", as incarnation {self.incarnation}"
        return f"{text}, recovering" if self.recovering else text


_WORDS = {
    Point.STARTED: "{actor} starts",
    Point.REROUTED: "{actor} hears of {key}",
    Point.LOST: "{actor} hears that {key} is gone",
    Point.PROMOTED: "{actor} is promoted",
    Point.RECEIVED: "{actor} receives {key}",
    Point.STOPPED: "{actor} hears that all slices have stopped, for the time {key}",
    Point.SEND_ISSUED: "{actor} sends {key}",
    Point.SEND_HANDED_OVER: "{actor} has handed over {key}",
    Point.SEND_DELIVERED: "{actor} has delivered {key}",
    Point.CHECKPOINT_ISSUED: "{actor} hands checkpoint {key} to its store",
    Point.CHECKPOINT_DURABLE: "checkpoint {key} of {actor} is durable",
    Point.CHECKPOINT_TOLD: "{actor} hears that checkpoint {key} is durable",
    Point.TIMER: "timer {key} of {actor} fires",
    Point.MECHANISM: "{actor} comes to {key}",
    Point.SOURCE_LATEST: "the source of {actor} is asked for batch {key}",
    Point.SOURCE_COMMIT: "the source of {actor} commits batch {key}",
    Point.SOURCE_PARTITIONS: "the source of {actor} plans batch {key}",
    Point.SOURCE_READ: "{actor} reads batch {key}",
    Point.SINK_WRITE: "the sink of {actor} writes batch {key}",
    Point.OFFSET_LOG: "{actor} adds batch {key} to the offset log",
    Point.COMMIT_LOG: "{actor} adds batch {key} to the commit log",
    Point.ADD_BATCH: "{actor} gives batch {key} to the sink",
    Point.STREAM_COMMIT: "{actor} commits batch {key} at the sink",
    Point.SINK_LOG: "{actor} adds batch {key} to the sink's log",
    Point.SOURCE_LOG: "{actor} adds batch {key} to the source's log",
    Point.JOB_COMMIT: "{actor} commits the job of batch {key}",
    Point.CLEANUP: "{actor} cleans up after batch {key}",
    Point.RENAME: "{actor} gives {key} its name",
    Point.WRITER_COMMIT: "the writer of {actor} {key} commits",
    Point.TASK_COMMIT: "{actor} {key} commits its files",
    Point.STATE_COMMIT: "{actor} commits its state {key}",
    Point.TASK_END: "{actor} {key} ends",
    Point.USER: "{actor} comes to {key}",
    Point.LINE: "{actor} executes {key}",
    Point.FILE: "{actor} does {key}",
    Point.MESSAGE: "{actor} sends {key}",
}
