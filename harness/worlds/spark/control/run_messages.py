"""What the parts of an embedded run of slices say to one another, besides what slices say."""

from __future__ import annotations

import msgspec

from ....core.addresses import Address
from ....core.wire import Endpoint
from ....recording.records import Record

HEARTBEAT = 0.2
"""Seconds between two heartbeats of an agent."""
HEARTBEAT_LIMIT = 2.0
"""Seconds of silence after which the manager takes a node for lost; a kill must be done within it."""


class Join(msgspec.Struct, frozen=True, tag="join", array_like=True):
    """Agent to manager: this node is here, and takes links there."""

    links: Endpoint


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat", array_like=True):
    """Agent to manager, on a connection of its own."""


class Up(msgspec.Struct, frozen=True, tag="up", array_like=True):
    """Agent to manager: this incarnation runs."""

    slice: str
    incarnation: int


class ReplicaReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """Agent to manager: this incarnation is in sync with its peers."""

    slice: str
    incarnation: int


class Fenced(msgspec.Struct, frozen=True, tag="fenced", array_like=True):
    """Agent to manager: this incarnation was to be active, and the store does not let it."""

    slice: str
    incarnation: int


class Together(msgspec.Struct, frozen=True, tag="together", array_like=True):
    """Agent to manager: a coordinator says from which cut all slices start."""

    coordinator: str
    incarnation: int
    round: int
    cut: int


class AllStopped(msgspec.Struct, frozen=True, tag="all-stopped", array_like=True):
    """Manager to agent: none of the slices runs that this coordinator lets start together."""

    coordinator: str
    incarnation: int
    round: int


class StartSlice(msgspec.Struct, frozen=True, tag="start-slice", array_like=True):
    """Manager to agent."""

    slice: str
    replica: int
    incarnation: int
    initial: bool
    seed: int
    """Of its random draws."""
    cut: int | None = None
    """The checkpoint to start from, where all slices start together."""


class PromoteIncarnation(msgspec.Struct, frozen=True, tag="promote-slice", array_like=True):
    """Manager to agent: let this incarnation be active."""

    slice: str
    incarnation: int


class Route(msgspec.Struct, frozen=True, tag="route", array_like=True):
    """Manager to agents and harness: this incarnation of a slice is there, and takes links there."""

    slice: str
    replica: int
    incarnation: int
    node: str
    links: Endpoint
    active: bool


class Withdrawn(msgspec.Struct, frozen=True, tag="withdrawn", array_like=True):
    """Manager to agents and harness: this incarnation is to be listened to no more."""

    slice: str
    incarnation: int


class Welcome(msgspec.Struct, frozen=True, tag="welcome", array_like=True):
    """Agent to agent, in answer to the greeting of a link: it stands."""


class InspectAll(msgspec.Struct, frozen=True, tag="inspect-all", array_like=True):
    """Harness to manager to agents: record what you keep."""


class NodeSeen(msgspec.Struct, frozen=True, tag="node-seen", array_like=True):
    """Manager to harness: a node has joined, or was lost."""

    node: str
    up: bool
    when: int
    """Monotonic clock of the machine, ns."""


class Took(msgspec.Struct, frozen=True, tag="took", array_like=True):
    """Agent to harness: a record of something that it did."""

    when: int
    """Monotonic clock of the machine, ns."""
    record: Record


class Begun(msgspec.Struct, frozen=True, tag="begun", array_like=True):
    """Agent to harness: it begins to start this incarnation."""

    slice: str
    replica: int
    incarnation: int
    when: int
    """Monotonic clock of the machine, ns."""


class Arrived(msgspec.Struct, frozen=True, tag="arrived", array_like=True):
    """Host to controller: this point was reached; the host waits for `Go`, or for death."""

    address: Address
    taken: int
    exact: bool
    """Whether the host vouches that this is the point."""
    when: int
    """Monotonic clock of the machine, ns, by which what a node that has died said before is passed over."""


class WriteRefused(msgspec.Struct, frozen=True, tag="write-refused", array_like=True):
    """Agent to harness: the disk has refused a checkpoint, or the fence before one. It is tried again."""

    slice: str
    incarnation: int
    why: str
    began: int
    """When it was tried; monotonic clock of the machine, ns."""
    ended: int


class Failed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """Anyone to harness: this error of the taxonomy ends the run."""

    error: str
    message: str


class SparkRuns(msgspec.Struct, frozen=True, tag="spark-runs", array_like=True):
    """A query's driver to harness: its session is up, and its JVM says that this is its Spark."""

    version: str
    python: dict[str, str] = {}
    """What the driver's own process says of its Python, and of the packages there: name -> version."""


class GivesColumns(msgspec.Struct, frozen=True, tag="gives-columns", array_like=True):
    """A query's driver to a recovery worker: what the harness's sink is given has these columns, in this order, each
    with its type as Spark names it."""

    columns: tuple[str, ...]


class KeptInTheJvm(msgspec.Struct, frozen=True, tag="kept-in-the-jvm", array_like=True):
    """A query's driver to a recovery worker, once it is over: beside all sessions, its JVM keeps what it had not
    before."""

    what: tuple[str, ...]


class Finishing(msgspec.Struct, frozen=True, tag="finishing", array_like=True):
    """A query's driver to harness: it has come to the end of its input, and reads what is kept once it hears `Go`."""


class Go(msgspec.Struct, frozen=True, tag="go", array_like=True):
    """Controller to host."""


ToManager = Join | Heartbeat | Up | ReplicaReady | Fenced | Together
FromManager = StartSlice | PromoteIncarnation | Route | Withdrawn | InspectAll | AllStopped


class Trusted(msgspec.Struct, frozen=True, tag="trusted", array_like=True):
    """Manager to harness: this incarnation counts as in sync."""

    slice: str
    incarnation: int
    when: int
    """Monotonic clock of the machine, ns."""


DriverToHarness = Route | Withdrawn | NodeSeen | Trusted | Failed
HarnessToDriver = Route | InspectAll
AgentToHarness = Took | Begun | Arrived | WriteRefused | Failed

to_manager = msgspec.msgpack.Decoder(ToManager)
from_manager = msgspec.msgpack.Decoder(FromManager)
driver_to_harness = msgspec.msgpack.Decoder(DriverToHarness)
harness_to_driver = msgspec.msgpack.Decoder(HarnessToDriver)
agent_to_harness = msgspec.msgpack.Decoder(AgentToHarness)
