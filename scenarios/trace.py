"""The trace topology: every output says which inputs made it, how often, and in which order."""

from __future__ import annotations

from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.topology import Edge, Partitioning, Stage, Topology


class Relay(Operator[None]):
    """Passes on the id of the event that it takes, under the event's key. Keeps nothing."""

    fan_out = 1

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> tuple[Output]:
        return ((event.key, [event.source, event.seq]),)


class Trace(Operator[dict[str, list[list[object]]]]):
    """Per key, the ids that it has taken in; every output carries them all."""

    order_sensitive = True
    fan_out = 1

    def initial_state(self) -> dict[str, list[list[object]]]:
        return {}

    def process(self, event: Event, state: dict[str, list[list[object]]]) -> tuple[Output]:
        ids = state[event.key] = [*state.get(event.key, ()), event.value]
        return ((event.key, ids),)


def trace(parallelism: int = 2) -> Topology:
    """One relay, `parallelism` tracers: `relay-0`, `trace-0`, `trace-1`, ..."""
    return Topology(
        "trace",
        {"relay": Stage(Relay()), "trace": Stage(Trace(), parallelism)},
        (
            Edge("source", "relay", Partitioning.ONE_TO_ONE),
            Edge("relay", "trace", Partitioning.SPLIT),
            Edge("trace", "sink", Partitioning.MERGE),
        ),
    )
