"""Operators that emit by timers: a sum by the times of events, the same sum by the clock, and a trace of windows."""

from __future__ import annotations

from typing import Any

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .stateless import Forward


class SumByTime(Operator[dict[str, Any]]):
    """The sum of the values of each key in each window of `size` ms of event time, told once the window is over."""

    order_sensitive = False

    def __init__(self, size: int) -> None:
        """Raises InvalidOperator for no window at all."""
        positive(size, "size", InvalidOperator)
        self.size = size

    def initial_state(self) -> dict[str, Any]:
        return {"upper": None, "sums": {}}

    def process(self, event: Event, state: dict[str, Any]) -> tuple[Output, ...]:
        if state["upper"] is None:
            state["upper"] = -(-event.time // self.size) * self.size
        state["sums"][event.key] = state["sums"].get(event.key, 0) + event.value
        return ()

    def due(self, state: dict[str, Any]) -> int | None:
        upper: int | None = state["upper"]
        return upper

    def on_time(self, time: int, state: dict[str, Any]) -> list[Output]:
        sums = sorted(state["sums"].items())
        state["upper"] = None
        state["sums"].clear()
        return [(key, [time, value]) for key, value in sums]


class SumByClock(Operator[dict[str, int]]):
    """The sum of the values of each key, told whenever `every` ms have passed on its node's clock: what k-safety warns
    of (figure 4). Which events those are is for the network to say, and another replica has others."""

    def __init__(self, every: int) -> None:
        """Raises InvalidOperator for no time at all."""
        positive(every, "every", InvalidOperator)
        self.every: int = every

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> tuple[Output, ...]:
        state[event.key] = state.get(event.key, 0) + event.value
        return ()

    def on_clock(self, now: int, state: dict[str, int]) -> list[Output]:
        sums = sorted(state.items())
        state.clear()
        return [(key, value) for key, value in sums]


class TraceByTime(Operator[dict[str, Any]]):
    """The ids that it has taken in each window of `size` ms, told under one key once the window is over: what a timer
    makes, and of which inputs."""

    order_sensitive = True

    def __init__(self, size: int) -> None:
        """Raises InvalidOperator for no window at all."""
        positive(size, "size", InvalidOperator)
        self.size = size

    def initial_state(self) -> dict[str, Any]:
        return {"upper": None, "ids": []}

    def process(self, event: Event, state: dict[str, Any]) -> tuple[Output, ...]:
        if state["upper"] is None:
            state["upper"] = -(-event.time // self.size) * self.size
        state["ids"].append([event.source, event.seq])
        return ()

    def due(self, state: dict[str, Any]) -> int | None:
        upper: int | None = state["upper"]
        return upper

    def on_time(self, time: int, state: dict[str, Any]) -> list[Output]:
        ids = state["ids"]
        state["upper"], state["ids"] = None, []
        return [(f"up to {time}", ids)]


def sum_by_time(parallelism: int = 2, size: int = 20) -> Topology:
    """One relay, `parallelism` sums: `relay-0`, `sum-0`, `sum-1`, ..."""
    return _behind_a_relay("sum-by-time", "sum", SumByTime(size), parallelism)


def sum_by_clock(parallelism: int = 2, every: int = 20) -> Topology:
    """The same by the clock."""
    return _behind_a_relay("sum-by-clock", "sum", SumByClock(every), parallelism)


def trace_by_time(parallelism: int = 2, size: int = 20) -> Topology:
    """One relay, `parallelism` tracers: `relay-0`, `trace-0`, `trace-1`, ..."""
    return _behind_a_relay("trace-by-time", "trace", TraceByTime(size), parallelism)


def _behind_a_relay(name: str, operator_name: str, operator: Operator[Any], parallelism: int) -> Topology:
    return Topology(
        name,
        {"relay": Stage(Forward()), operator_name: Stage(operator, parallelism)},
        (
            Edge("source", "relay", Partitioning.ONE_TO_ONE),
            Edge("relay", operator_name, Partitioning.SPLIT),
            Edge(operator_name, "sink", Partitioning.MERGE),
        ),
    )
