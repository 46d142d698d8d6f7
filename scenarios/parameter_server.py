"""A parameter server of two stages: workers tell it what they have, and it tells all of them what they have together.

What it says is fed back to the workers, so the topology has a cycle.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from ..harness.core.errors import InvalidTopology
from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.slice_names import operator_of
from ..harness.core.topology import Edge, Partitioning, Stage, Topology, chosen

WORKER, SERVER = "worker", "server"


def one_for_each(slices: int) -> tuple[str, ...]:
    """A key for each of so many slices that an edge leads to, by which an output goes to that one: who sends one output
    under each of them has told all."""
    positive(slices, "slices", InvalidTopology)
    return tuple(
        next(key for number in count() if chosen(range(slices), key := f"to-{wanted}.{number}") == wanted)
        for wanted in range(slices)
    )


class LocalWorker(Operator[dict[str, Any]]):
    """Adds up what comes from outside, and tells the server after every `every` of it; keeps what the server said
    last, how often it said anything, and what it took since it told."""

    order_sensitive = True
    fan_out = 1

    def __init__(self, every: int) -> None:
        """Raises InvalidTopology unless it tells at all."""
        positive(every, "every", InvalidTopology)
        self.tells_every = every

    def initial_state(self) -> dict[str, Any]:
        return {"untold": [], "total": 0, "told": 0}

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        if operator_of(event.source) == SERVER:
            state["total"], state["told"] = event.value, state["told"] + 1
            return []
        state["untold"].append(event.value)
        if len(state["untold"]) < self.tells_every:
            return []
        untold = sum(state["untold"])
        state["untold"] = []
        return [(event.key, [untold, state["total"]])]


class Server(Operator[dict[str, int]]):
    """Adds up what workers tell, and tells each of them the total."""

    order_sensitive = True

    def __init__(self, workers: int) -> None:
        self.fan_out: int = workers
        self._keys = one_for_each(workers)

    def initial_state(self) -> dict[str, int]:
        return {"total": 0}

    def process(self, event: Event, state: dict[str, int]) -> list[Output]:
        state["total"] += event.value[0]
        return [(key, state["total"]) for key in self._keys]


def parameter_server(workers: int = 2, every: int = 3) -> Topology:
    """`workers` workers, fed by the source and by one server, which they feed: `worker-0`, `worker-1`, `server-0`."""
    return Topology(
        "parameter-server",
        {WORKER: Stage(LocalWorker(every), workers), SERVER: Stage(Server(workers))},
        (
            Edge("source", WORKER, Partitioning.FULL),
            Edge(WORKER, SERVER, Partitioning.MERGE),
            Edge(SERVER, WORKER, Partitioning.FULL, feedback=True, leads_to=0),
            Edge(SERVER, "sink", Partitioning.MERGE),
        ),
    )
