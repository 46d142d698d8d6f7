"""A scenario with less input, so that thousands of schedules are tried on it in the time of one."""

from __future__ import annotations

from typing import Final

from ..contracts.registry import SCALED, Named, Registry
from ..contracts.scaling import EVENTS
from ..contracts.scenario import Scenario
from ..core.errors import StreamproofError
from ..core.kept_files import listening
from ..judging.exercised import Activity
from ..worlds.simulated.memory_outside import OutsideMemory
from .bench import Bench, resized
from .exhausting import EXHAUSTED_BATCHES, EXHAUSTED_EVENTS
from .plans import SUCCESSIVE_UP_TO

_ANY: Final = 1
"""Seed: what reaches a sink at all does so whatever the delays."""


def brought_down(name: str, registry: Registry, events: int | None, exhaust: bool = False) -> Named:
    """A scenario with its sizes in proportion to so many events, to `exhaust` it in few batches. None: to the fewest of
    which anything reaches a sink, as far as that is found out soon: what makes no output cannot lose one. Raises as
    `Registry.scenario`."""

    def sized(count: int) -> Named:
        return registry.scenario(
            f"{SCALED}{count}/{EXHAUSTED_BATCHES}@{name}" if exhaust else f"{SCALED}{count}@{name}"
        )

    if events is not None:
        return sized(events)
    counts = [EXHAUSTED_EVENTS, SUCCESSIVE_UP_TO] if exhaust else _doubled(registry.scenario(name).scenario)
    found = next((one for one in map(sized, counts) if _delivers(one.scenario, registry)), None)
    return sized(counts[0]) if found is None else found


def _doubled(scenario: Scenario) -> list[int]:
    """The usual number of events, and twice as many each time, up to those of a scenario."""
    counts = [EVENTS]
    while counts[-1] < scenario.workload.events:
        counts.append(min(2 * counts[-1], scenario.workload.events))
    return counts


def _delivers(scenario: Scenario, registry: Registry) -> bool:
    """Whether anything is delivered in a run without faults. What cannot be run is found out by whoever searches it."""
    try:
        bench = Bench(scenario, registry, seed=_ANY)
        outside = OutsideMemory(bench.subject)
        try:
            # What it writes to files is found there by who comes after it.
            with listening():
                history = bench.run((), _ANY)
            return Activity.DELIVERY in bench.subject.at_work(history)
        finally:
            # Else who looks for it later takes it for what was there at first.
            outside.put_back()
    except StreamproofError:
        return True


def with_events(named: Named, events: int | None) -> Named:
    """The same scenario with so much input. Raises InvalidScenario."""
    if events is None:
        return named
    scenario = named.scenario
    workload = scenario.workload
    return Named(
        named.name, named.origin, named.summary, resized(scenario, events, min(workload.batch, max(1, events)))
    )
