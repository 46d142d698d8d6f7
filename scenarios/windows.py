"""An aggregation over a sliding window of event time: after a while, an input matters no more."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .stateless import Forward

WindowEvents = list[list[Any]]
"""[time, key] of the events in the window, in order."""

_time = itemgetter(0)


class WindowedCount(Operator[WindowEvents]):
    """How many events of its key came in the `window` ms up to an event: after event.time - window, until event.time.

    Only events move time on. One that is older than the window when it comes still counts for itself, with what is left
    of its time, and is not kept. So what is kept in the end is what came in the last `window` ms, in whatever order it
    was taken.
    """

    fan_out = 1

    def __init__(self, window: int) -> None:
        """Raises InvalidOperator for no window at all."""
        positive(window, "window", InvalidOperator)
        self.window: int = window

    def initial_state(self) -> WindowEvents:
        return []

    def process(self, event: Event, state: WindowEvents) -> Iterable[Output]:
        newest = max(event.time, state[-1][0]) if state else event.time
        over = newest - self.window
        if event.time > over:
            insort(state, [event.time, event.key])
            del state[: bisect_right(state, over, key=_time)]
        since = event.time - self.window
        count = sum(key == event.key and since < time <= event.time for time, key in state)
        return ((event.key, count if event.time > over else count + 1),)

    def rows(self, state: WindowEvents) -> dict[str, list[int]]:
        """Key -> the times of its events."""
        rows: dict[str, list[int]] = {}
        for time, key in state:
            rows.setdefault(key, []).append(time)
        return rows


def windows(parallelism: int = 2, window: int = 20) -> Topology:
    """One relay, `parallelism` windowed counters: `relay-0`, `window-0`, `window-1`, ..."""
    return Topology(
        "windows",
        {"relay": Stage(Forward()), "window": Stage(WindowedCount(window), parallelism)},
        (
            Edge("source", "relay", Partitioning.ONE_TO_ONE),
            Edge("relay", "window", Partitioning.SPLIT),
            Edge("window", "sink", Partitioning.MERGE),
        ),
    )
