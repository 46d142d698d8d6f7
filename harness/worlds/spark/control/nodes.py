"""What a deployment asks of the cluster that it runs on: processes of this machine, or containers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ....contracts.injection import Part
from ....core.errors import StreamproofError
from ....core.wire import Endpoint
from ....recording.history import Proof
from .disturbances import Disturbance, InForce

LOOPBACK = "127.0.0.1"
OTHER_NODES = ("master", "driver")
"""The nodes of a Spark cluster that are no workers."""
ADDRESS = "STREAMPROOF_ADDRESS"
"""In the environment of every process of a run: the address that its listeners bind to."""


def own_address() -> str:
    """Of this process, which a cluster has started."""
    return os.environ.get(ADDRESS, LOOPBACK)


class Driver(Protocol):
    """One incarnation of a driver."""

    @property
    def stderr(self) -> Path: ...

    def poll(self) -> int | None:
        """Its exit status; None: it runs."""


class Kill(Protocol):
    """That a node was killed."""

    @property
    def bit(self) -> bool:
        """Whether something was there to be killed, and all of it was seen to be gone."""

    @property
    def pids(self) -> tuple[int, ...]: ...

    @property
    def proof(self) -> Proof | None:
        """What its end left to be read, where it leaves something."""


class Stop(Protocol):
    """That a node was stopped."""

    @property
    def pids(self) -> tuple[int, ...]:
        """What was stopped; nothing where there was nothing."""

    @property
    def proof(self) -> Proof: ...


class Nodes(Protocol):
    """A Spark cluster that is up. A node is what a fault hits: workers, the master and drivers are nodes."""

    @property
    def address(self) -> str:
        """Where the harness's listeners bind, so that every node reaches them and nobody else does."""

    @property
    def scratch(self) -> Path:
        """A folder that drivers see under the same path, and that goes when the cluster does."""

    @property
    def workers(self) -> int: ...

    @property
    def failure(self) -> StreamproofError | None:
        """What has gone wrong with bringing a node back; None: nothing."""

    def start_driver(
        self,
        name: str,
        module: str,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Driver:
        """`python -m module args`, whose first SparkSession or SparkContext is a client of this cluster."""

    def nodes(self) -> Mapping[str, Any]:
        """By their names."""

    def node_of(self, pid: int, address: str) -> str | None:
        """The node that a process is of which has this number for itself, and connects to the harness from this
        address; None: none that is there."""

    def kill_node(self, name: str) -> Kill:
        """End all that the node is, at once. Returns when it is gone."""

    def terminate_node(self, name: str) -> Kill:
        """Ask all that the node is to end (SIGTERM). Returns when it is gone, or does not go."""

    def kill_part(self, name: str, part: Part) -> Kill:
        """End a part of a node at once. Returns when it is gone."""

    def has_come_up(self, name: str) -> bool:
        """Whether its present incarnation runs and does what it is there for: a worker has found its master, a driver
        has begun to say something."""

    def stop_node(self, name: str) -> Stop:
        """Freeze all that the node is."""

    def resume(self, stopped: Any) -> None:
        """Let go on what `stop_node` has stopped."""

    def disturb(self, disturbance: Disturbance) -> InForce:
        """Raises Unsupported for what this cluster cannot do."""

    def start_toxiproxy(self, seed: int) -> Endpoint:
        """A server of the run's own, that draws from the seed. Raises MissingTool where there is none to be started."""
