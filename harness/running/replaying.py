"""Runs what a run folder tells of once more: the same scenario, found by its name, under the same faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from ..contracts.registry import Named, Registry
from ..core.costs import described_costs
from ..core.errors import DamagedHistory, InvalidScenario, NotImportable, ScenarioChanged, UnknownName, Unsupported
from ..core.workload import Workload
from ..recording.folder import Description, read_description

T = TypeVar("T")
_AMOUNTS: Final = ("events", "batch", "seed", "rate", "spacing", "tick")
"""What a record has of a workload beside its name: all but how its events are drawn."""


def planned_again(folder: Path, registry: Registry) -> tuple[Description, Named]:
    """What was run, and the scenario to run once more: with the input, the faults and the claims of the record, and the
    code that is there now.

    Raises InvalidHistory for what is no run folder, NotImportable where the scenario cannot be found by its name,
    ScenarioChanged where its subject or its input is another by now, Unsupported for what was no run of a cluster.
    """
    description = read_description(folder)
    if "how" in description.cluster:
        raise Unsupported(
            f"{folder} is no run of a cluster, but of {description.cluster['how']}: a campaign made it; its "
            "certificate's counterexample.json can be replayed, where it has one"
        )
    named = _found(folder, description, registry)
    scenario = named.scenario
    now = msgspec.to_builtins(scenario.subject.describe(), str_keys=True)
    if now != description.subject:
        differing = sorted(key for key in {*now, *description.subject} if now.get(key) != description.subject.get(key))
        raise ScenarioChanged(
            f"{description.origin} has changed since {folder.name} was run: the {', '.join(differing)} of its subject "
            f"{'is' if len(differing) == 1 else 'are'} not what was recorded; check out the version that was run"
        )
    try:
        faults = tuple(fault.fault() for fault in description.schedule)
        claims, breaks = ([one.as_guarantee() for one in some] for some in (description.claims, description.breaks))
        costs = described_costs(description.cluster.get("costs"))
    except InvalidScenario as error:
        raise DamagedHistory(f"{folder / 'scenario.json'} cannot be read: {error}") from error
    again = replace(
        scenario,
        workload=_fed(folder, description, scenario.workload),
        faults=faults,
        claims=claims,
        breaks=breaks,
        minimal=description.minimal,
        costs=costs if description.cluster.get("cluster") == "simulated" else scenario.costs,
    )
    return description, replace(named, scenario=again)


def _found(folder: Path, description: Description, registry: Registry) -> Named:
    try:
        return registry.scenario(description.origin)
    except (NotImportable, UnknownName, InvalidScenario) as error:
        origin = description.origin or description.scenario
        raise NotImportable(
            f"{folder} is a run of {origin!r}, which cannot be found by that name, so it cannot be run again: {error}"
        ) from error


def _fed(folder: Path, description: Description, workload: Workload) -> Workload:
    was = description.workload
    if workload.name != was.get("name"):
        raise ScenarioChanged(
            f"{folder} was fed {was.get('name')!r}, and {description.origin} is fed {workload.name!r} now"
        )
    return replace(workload, **{name: was[name] for name in _AMOUNTS if name in was})


def options_of(kind: type[T], facts: Mapping[str, Any]) -> T:
    """The sizes of a cluster, from what a record says of it. Raises DamagedHistory."""
    try:
        return msgspec.convert(dict(facts), kind)
    except (msgspec.ValidationError, InvalidScenario) as error:
        raise DamagedHistory(f"the cluster of the record cannot be made: {error}") from error
