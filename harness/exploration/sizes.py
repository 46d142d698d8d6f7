"""A scenario with less input, so that thousands of schedules are tried on it in the time of one."""

from __future__ import annotations

from ..contracts.registry import SCALED, Named, Registry
from ..contracts.scaling import EVENTS
from .bench import resized
from .exhausting import EXHAUSTED_BATCHES, EXHAUSTED_EVENTS


def brought_down(name: str, registry: Registry, events: int | None, exhaust: bool = False) -> Named:
    """A scenario with its sizes in proportion to so many events, to `exhaust` it in few batches. Raises as
    `Registry.scenario`."""
    if exhaust:
        sizes = f"{EXHAUSTED_EVENTS if events is None else events}/{EXHAUSTED_BATCHES}"
        return registry.scenario(f"{SCALED}{sizes}@{name}")
    return registry.scenario(f"{SCALED}{EVENTS if events is None else events}@{name}")


def with_events(named: Named, events: int | None) -> Named:
    """The same scenario with so much input. Raises InvalidScenario."""
    if events is None:
        return named
    scenario = named.scenario
    workload = scenario.workload
    return Named(
        named.name, named.origin, named.summary, resized(scenario, events, min(workload.batch, max(1, events)))
    )
