"""Tries crashes for real: what is to die is killed while its point is held, on a real cluster, several of them along
one stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..addresses import DRIVER, TASK, Moment, Point, Side
from ..cluster import Cluster
from ..injection import FaultKind
from ..quantities import seconds
from ..recording.records import Stamped
from ..registry import Named, Registry
from ..running import run_named
from ..schedule import Fault
from .conclusion import Planned
from .plan import Crash, Victim

Place = tuple[Point, Side, str, int]
"""Where a crash strikes, but for what tells the points of a batch apart that are alike: point, side, actor, batch."""
RUN_SECONDS, KILL_SECONDS = 90, 45
"""How long a run may take, and how much longer with each kill."""
_KINDS: Mapping[Victim, tuple[str, str]] = {
    Victim.EXECUTOR: ("executor-crash", TASK),
    Victim.PYTHON: ("python-crash", TASK),
    Victim.NODE: ("crash", TASK),
}


def fault_of(planned: Planned) -> Fault:
    """What a cluster is to do."""
    crash = planned.crash
    kind, target = _KINDS.get(crash.victim, ("crash", DRIVER))
    if planned.split_brain:
        kind = "split-brain"
    # The stages of a run are numbered from its start on; here, it may be another one.
    key = str(crash.batch) if crash.point is Point.TASK_END else crash.key
    return Fault(kind, (target,), Moment(crash.point, crash.side, key, crash.actor))


def streams(plan: Sequence[Planned], most: int) -> Iterator[tuple[Planned, ...]]:
    """Share crashes out over runs, in each of which no batch is hit twice, at most so many in one."""
    waiting = list(plan)
    while waiting:
        chosen: list[Planned] = []
        for planned in waiting:
            alone = planned.split_brain or any(one.split_brain for one in chosen)
            fits = len(chosen) < most and not (alone and chosen)
            if fits and all(one.crash.batch != planned.crash.batch for one in chosen):
                chosen.append(planned)
        for planned in chosen:
            waiting.remove(planned)
        yield tuple(sorted(chosen, key=lambda planned: planned.crash.batch))


def spread(plan: Sequence[Planned], batches: Sequence[int], keys: Mapping[Place, Crash]) -> list[Planned]:
    """The same crashes, each in the next of these batches, where that batch passes the same point: so that many of them
    fit into one stream."""
    moved = []
    for place, planned in enumerate(plan):
        crash = planned.crash
        there = keys.get((crash.point, crash.side, crash.actor, batches[place % len(batches)])) if batches else None
        moved.append(planned if there is None else replace_crash(planned, there))
    return moved


def replace_crash(planned: Planned, there: Crash) -> Planned:
    crash = Crash(
        there.point, there.side, there.key, there.actor, planned.crash.victim, there.batch, there.kinds, False
    )
    return Planned(crash, planned.split_brain)


def kill(
    folder: Path,
    named: Named,
    planned: Sequence[Planned],
    cluster: Cluster,
    registry: Registry,
    references: Sequence[Stamped],
    seed: int,
) -> None:
    """Run the query under these crashes, and write the run down. Raises what `run_named` raises."""
    faults = [fault_of(one) for one in planned]
    deadline = seconds(RUN_SECONDS + KILL_SECONDS * len(faults))
    scenario = replace(named.scenario, faults=faults, deadline=deadline)
    run_named(replace(named, scenario=scenario), cluster, registry, seed=seed, folder=folder, references=references)


def kinds_known(kinds: Mapping[str, FaultKind]) -> bool:
    """Whether all that a campaign does to a cluster is among these kinds of fault."""
    return {"crash", "executor-crash", "python-crash", "split-brain"} <= kinds.keys()
