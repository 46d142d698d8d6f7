"""Whether a run was fed what its scenario feeds: of the same seed, a workload draws the same events everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from ..core.errors import DamagedHistory, InvalidScenario, ScenarioChanged
from ..core.events import Event
from ..core.workload import SIZES, Workload
from ..judging.exactness import same_events
from ..recording.folder import Description
from ..recording.history import History
from ..recording.records import Offered

_COMPARED: Final = 500_000
"""Events, of an input that is drawn to be compared; of a longer one, their number is."""


def check_fed(path: Path, description: Description, workload: Workload, history: History) -> Workload:
    """The workload in the sizes in which it was fed. Raises DamagedHistory where sources offered anything else, or
    sooner than they could, and ScenarioChanged where the scenario has another workload by now."""
    said = description.workload
    if said.get("name") != workload.name:
        raise ScenarioChanged(
            f"{description.origin} has changed since {path.name} was run: its workload is {workload.name} now, and was "
            f"{said.get('name')}; check out the version that was run"
        )
    counts: dict[str, int] = {}
    times: dict[str, list[tuple[int, int]]] = {}
    """When how many events of a source had been offered before."""
    for at, source, _, count in history.offered():
        so_far = counts.get(source, 0)
        times.setdefault(source, []).append((at, so_far))
        counts[source] = so_far + count
    fed = _as_said(path, said, workload, max(counts.values(), default=0))
    every = _interval(description.cluster, fed)
    offered = _offered(history) if fed.events <= _COMPARED else {}
    for source, given in counts.items():
        count = fed.events // fed.spacing.get(source, 1)
        if given > count or (history.drained and given < count):
            raise _other(path, f"{source} offered {given:,} events, of the {count:,} that it had")
        # A batch may be offered in parts.
        if any(at < (before // fed.batch + 1) * every for at, before in times[source]):
            raise _other(path, f"{source} offered sooner than it could: a batch every {every:,} µs")
        if source in offered and not same_events(offered[source], _drawn(fed, source, given)):
            raise _other(path, f"{source} offered what its workload, {fed.name}, does not draw from seed {fed.seed}")
    return fed


def _offered(history: History) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for record in history.each(Offered):
        found.setdefault(record.source, []).extend(record.events)
    return found


def _drawn(fed: Workload, source: str, count: int) -> list[Event]:
    return list(islice(chain.from_iterable(fed.batches(source)), count))


def _as_said(path: Path, said: Mapping[str, Any], workload: Workload, offered: int) -> Workload:
    """The workload in the sizes that are on record. Raises DamagedHistory."""
    try:
        fed = replace(workload, **{name: said[name] for name in SIZES})
    except (InvalidScenario, KeyError, TypeError) as error:
        raise DamagedHistory(f"{path / 'scenario.json'} does not describe its workload: {error}") from error
    if fed.events > max(workload.events, offered):
        raise _other(path, f"it is said to be fed {fed.events:,} events, and {workload.name} has {workload.events:,}")
    return fed


def _interval(cluster: Mapping[str, Any], fed: Workload) -> int:
    """Microseconds between two batches in the simulator, at the least; elsewhere nobody is bound to any."""
    if cluster.get("cluster") != "simulated":
        return 0
    every = fed.interval if cluster.get("obeys_rate") and fed.rate is not None else cluster.get("offer_interval")
    return every if isinstance(every, int) else 0


def _other(path: Path, why: str) -> DamagedHistory:
    return DamagedHistory(f"{path} contradicts itself: {why}; get it again from where it came from")
