"""Tries crashes for real: what is to die is killed while its point is held, on a real cluster, several of them along
one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..contracts.cluster import Cluster
from ..contracts.registry import Named, Registry
from ..core.addresses import DRIVER, TASK, Moment, Point
from ..core.quantities import seconds
from ..core.schedule import Fault
from ..recording.records import Stamped
from ..running.run import run_named
from .coming_back import stated_in
from .conclusion import Planned
from .plan import Crash, Victim
from .request import CampaignRequest
from .shrinking import CrashPlace, moved

RUN_SECONDS, KILL_SECONDS = 90, 45
"""How long a run may take, and how much longer with each kill; or more, where what is stated for a recovery is longer:
that counts by the share of the machine that a run has."""
_KINDS: Mapping[Victim, tuple[str, str]] = {
    Victim.EXECUTOR: ("executor-crash", TASK),
    Victim.PYTHON: ("python-crash", TASK),
    Victim.NODE: ("crash", TASK),
    # It is the query that hears of it, whoever asked.
    Victim.ANSWER: ("lost-answer", DRIVER),
    Victim.REQUEST: ("lost-request", DRIVER),
}


def fault_of(planned: Planned) -> Fault:
    """What a cluster is to do."""
    crash = planned.crash
    kind, target = _KINDS.get(crash.victim, ("crash", DRIVER))
    if crash.victim is Victim.DISK:
        kind, target = "failed-write", crash.actor
    if planned.split_brain:
        kind = "split-brain"
    # The stages of a run are numbered from its start on; here, it may be another one.
    key = str(crash.batch) if crash.point is Point.TASK_END else crash.key
    # In a recovery worker, what a JVM sends may be the driver's or a task's: whoever sends it, it is the same message.
    either = crash.point is Point.MESSAGE and target == DRIVER
    moment = Moment(crash.point, crash.side, key, None if either else crash.actor, recovering=crash.recovering)
    return Fault(kind, (target,), moment)


def streams(plan: Sequence[Planned], most: int, first: Sequence[Planned] = ()) -> Iterator[tuple[Planned, ...]]:
    """Share crashes out over runs, in each of which no batch is hit twice, at most so many in one. Split brains, in
    which nobody dies, are by themselves; so are deaths of the driver, since who is started again may put right what
    another crash before has left; so are deaths of workers at operations on files, for which each of these is held; so
    is each refused operation on a file, of which the query may fail at once, or later; and so are those of the plan
    that come first, in the order in which they are given: a run with several deaths takes several times as long, and
    says what came of each of them no sooner."""
    yield from ((planned,) for foremost in dict.fromkeys(first) for planned in plan if planned == foremost)
    waiting = [planned for planned in plan if planned not in first]
    while waiting:
        chosen: list[Planned] = []
        for planned in waiting:
            room = 1 if any(one.crash.victim is Victim.DISK for one in (*chosen, planned)) else most
            fits = len(chosen) < room and all(_shared_by(one) == _shared_by(planned) for one in chosen)
            if fits and all(one.crash.batch != planned.crash.batch for one in chosen):
                chosen.append(planned)
        for planned in chosen:
            waiting.remove(planned)
        yield tuple(sorted(chosen, key=lambda planned: planned.crash.batch))


def _shared_by(planned: Planned) -> tuple[bool, bool, bool, bool]:
    """What the crashes of a run have in common. By whom the query is begun again: not at all, by another driver, or by
    another beside the first; in which order tasks come by then. And whether a worker dies at an operation on a file:
    each of them is asked about then, which takes the run longer."""
    crash = planned.crash
    return (
        crash.victim is Victim.DRIVER,
        planned.split_brain,
        crash.last_first,
        (crash.point, crash.victim) == (Point.FILE, Victim.PYTHON),
    )


def spread(plan: Sequence[Planned], batches: Sequence[int], keys: Mapping[CrashPlace, Crash]) -> list[Planned]:
    """The same crashes, each in the next of these batches, where that batch passes the same point: so that many of them
    fit into one stream."""
    spread_out = [
        (moved(planned, batches[place % len(batches)], keys) if batches else None) or planned
        for place, planned in enumerate(plan)
    ]
    return list(dict.fromkeys(spread_out))


RunUnderCrashes = Callable[[Path, CampaignRequest, Sequence[Planned], Sequence[Stamped]], None]
"""Runs the query under crashes that are planned, into a run folder. Without reference runs, it makes its own."""


def on_cluster(cluster: Cluster) -> RunUnderCrashes:
    def carry_out(
        folder: Path, request: CampaignRequest, planned: Sequence[Planned], references: Sequence[Stamped]
    ) -> None:
        kill(folder, request.named, planned, cluster, request.registry, references, request.seed)

    return carry_out


def kill(
    folder: Path,
    named: Named,
    planned: Sequence[Planned],
    cluster: Cluster,
    registry: Registry,
    references: Sequence[Stamped],
    seed: int,
) -> None:
    """Run the query under these crashes, and write the run down. It is given up when the query has stalled, by the time
    that a claim states for its recoveries. Raises what `run_named` raises."""
    faults = [fault_of(one) for one in planned]
    stated = stated_in(named.scenario.claimed)
    deadline = max(RUN_SECONDS + KILL_SECONDS * len(faults), (5 + len(faults)) * stated.seconds)
    scenario = replace(named.scenario, faults=faults, deadline=seconds(deadline))
    run_named(
        replace(named, scenario=scenario),
        cluster,
        registry,
        seed=seed,
        folder=folder,
        references=references,
        patience=stated,
    )
