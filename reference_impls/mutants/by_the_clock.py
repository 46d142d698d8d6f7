"""Operators that emit when their node's clock says so, and not their inputs (k-safety on Storm, figure 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.events import Event, Output, Value
from ...harness.core.operators import Operator
from ...harness.core.quantities import Events
from ...harness.core.topology import Stage, Topology
from .mutant import Build

_EVERY = 5
"""Milliseconds."""


class ByTheClock(Operator[Any]):
    """An operator whose timers of event time fire by the clock."""

    def __init__(self, operator: Operator[Any]) -> None:
        self._operator = operator
        self.every: int = _EVERY
        self.order_sensitive = operator.order_sensitive
        self.window = operator.window

    def initial_state(self) -> Any:
        return self._operator.initial_state()

    def process(self, event: Event, state: Any) -> Iterable[Output]:
        return self._operator.process(event, state)

    def on_clock(self, now: int, state: Any) -> Iterable[Output]:
        due = self._operator.due(state)
        return () if due is None else self._operator.on_time(due, state)

    def snapshot(self, state: Any) -> bytes:
        return self._operator.snapshot(state)

    def restore(self, snapshot: bytes) -> Any:
        return self._operator.restore(snapshot)

    def rows(self, state: Any) -> Mapping[str, Value]:
        return self._operator.rows(state)


def by_the_clock(build: Build) -> Build:
    """With timers that fire by the clock, which the scheme would refuse."""

    def broken(topology: Topology, every: Events) -> SchemeSubject:
        subject = build(topology, every)
        stages: dict[str, Stage] = {
            name: replace(stage, operator=ByTheClock(stage.operator)) if stage.operator.by_event_time else stage
            for name, stage in topology.stages.items()
        }
        return replace(subject, topology=replace(topology, stages=stages))

    return broken
