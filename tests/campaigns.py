"""A campaign that crashes nothing, and comes to what the name of its query says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from certified import AGAIN, BATCHES, ONCE, ONCE_OUTPUT, SUBJECT, crash_at, unsealed, write_run
from streamproof.harness.certifying.budget import Budget, CampaignProgress
from streamproof.harness.certifying.campaign import Certified
from streamproof.harness.certifying.certificate import Asked, Certificate, QueryCounterexample, write_certificate
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.continuing import nothing_left, read_earlier
from streamproof.harness.certifying.drawing import write_look
from streamproof.harness.certifying.plan import Crash, CrashTrial, How
from streamproof.harness.certifying.planning import CrashPlan
from streamproof.harness.certifying.rejudging import JudgedRun, judge_run
from streamproof.harness.certifying.saved import KIND, SavedSchedule, _check_same
from streamproof.harness.certifying.saved import VERSION as SAVED_VERSION
from streamproof.harness.contracts.cluster import Cluster
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Point, Side
from streamproof.harness.core.errors import InvalidOperator, NothingLeft
from streamproof.harness.core.guarantees import Guarantee
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.judging.statistics import KillSample
from streamproof.harness.recording.claims_and_faults import SavedClaim

CRASHES = tuple(
    crash_at(batch, point=point, side=side)
    for point in (Point.ADD_BATCH, Point.COMMIT_LOG)
    for side in (Side.BEFORE, Side.AFTER)
    for batch in (1, 2)
)


def certificate(name: str, claims: Sequence[str] = ("exactly-once",), seed: int = 7) -> Certificate:
    """Of the query of that name: `breaks` is violated, `unclear` is not tried at half of its crash points, and anything
    else holds."""
    wrong = CRASHES[3]
    tried = CRASHES[::2] if name == "unclear" else CRASHES

    def trial(crash: Crash, how: How, folder: str, sampled: bool = False) -> CrashTrial:
        status = Status.VIOLATED if name == "breaks" and crash == wrong else Status.HOLDS
        return CrashTrial((crash,), how, f"runs/{folder}", dict.fromkeys(claims, status), sampled=sampled)

    trials = [
        trial(crash, how, f"{how}-{number}")
        for how in (How.CRASH_STATE, How.KILL)
        for number, crash in enumerate(tried)
    ]
    draw = KillSample.of("all 8 planned crashes of the driver", range(len(CRASHES)), 4, seed)
    if name != "unclear":
        trials += [trial(CRASHES[n], How.KILL, f"drawn-{i}", sampled=True) for i, n in enumerate(draw.drawn)]
    return unsealed(
        name=f"{name}-1",
        subject={**SUBJECT, "name": name},
        claims=tuple(map(SavedClaim, claims)),
        seed=seed,
        exhausted="5 minutes were over" if name == "unclear" else "",
        plan=tuple(map(Planned, CRASHES)),
        trials=tuple(trials),
        draw=draw,
        counterexample=_counterexample(claims[0], wrong) if name == "breaks" else None,
    )


def _counterexample(claim: str, wrong: Crash) -> QueryCounterexample:
    return QueryCounterexample(
        claim=claim,
        crashes=(wrong,),
        how=How.KILL,
        events=30,
        batch_events=10,
        anomaly="duplicate-effect",
        wrong='row {"word": "the"} is there twice',
        input='("3", "the")',
        batch=2,
        folder="runs/kill-3",
        violated=3,
        repeats=3,
        command="streamproof replay certificates/counterexample.json",
        crashes_before=2,
        events_before=200,
    )


def certify(
    query: Query,
    claims: Sequence[Guarantee],
    faults: CrashPlan | None = None,
    *,
    workload: Workload,
    cluster: Cluster,
    registry: Registry,
    budget: Budget | None = None,
    seed: int = 7,
    folder: Path | None = None,
    origin: str = "",
    fed_from: str = "",
    show: Callable[[CampaignProgress], None] = lambda progress: None,
) -> Certified:
    """Instead of the real one. What it was called with lies in the folder then; the query `mistaken` is refused."""
    assert folder is not None
    assert faults is not None
    assert budget is not None
    if query.name == "mistaken":
        raise InvalidOperator("the query 'mistaken' fails by itself: ValueError: not this one")
    show(CampaignProgress("runs without failures", 0, 2, 290.0))
    folder.mkdir(parents=True)
    called = {
        "query": query.describe(),
        "claims": list(map(str, claims)),
        "faults": asdict(faults),
        "workload": {"name": workload.name, "events": workload.events},
        "cluster": cluster.name,
        "budget": asdict(budget),
        "seed": seed,
        "origin": origin,
    }
    (folder / "called.json").write_text(json.dumps(called))
    show(CampaignProgress("kills", 8, 8, 250.0))
    asked = Asked(
        tuple(claim.name for claim in claims), faults.victims, faults.recovering, faults.split_brain, origin, fed_from
    )
    made = msgspec.structs.replace(certificate(query.name, list(map(str, claims)), seed), asked=asked)
    write_look(folder, made)
    return Certified(folder, write_certificate(folder, made))


def go_on(
    folder: Path,
    query: Query,
    *,
    workload: Workload,
    cluster: Cluster,
    registry: Registry,
    budget: Budget | None = None,
    show: Callable[[CampaignProgress], None] = lambda progress: None,
) -> Certified:
    """Instead of the real one. What it was called with lies beside the folder; of `holds` nothing is left to do."""
    assert budget is not None
    earlier = read_earlier(folder)
    if why := nothing_left(earlier, budget.goes_on):
        raise NothingLeft(f"{folder}: nothing is left to do, since {why}")
    called = {"query": query.name, "events": workload.events, "cluster": cluster.name, "budget": asdict(budget)}
    folder.with_suffix(".called").write_text(json.dumps(called))
    return Certified(folder, earlier.certificate)


def saved(query: Query, workload: Workload, origin: str = "") -> SavedSchedule:
    """A schedule that broke a claim of this query."""
    return SavedSchedule(
        fed_from="",
        kind=KIND,
        version=SAVED_VERSION,
        origin=origin,
        subject=query.describe(),
        workload=workload.name,
        seed=7,
        workload_seed=7,
        events=30,
        batch_events=10,
        claims=tuple(map(SavedClaim, (ONCE, ONCE_OUTPUT))),
        planned=(Planned(crash_at(2)),),
    )


def replay_saved(
    saved: SavedSchedule, query: Query, workload: Workload, cluster: Cluster, registry: Registry, folder: Path
) -> JudgedRun:
    """Instead of the real one: the query `breaks` delivers its last batch twice, and the runs without failures of
    `unclear` are no two alike."""
    _check_same(saved, query)
    crashes = [one.crash for one in saved.planned]
    judged = AGAIN if query.name == "breaks" else BATCHES
    other = BATCHES[:2] if query.name == "unclear" else BATCHES
    write_run(folder, *crashes, judged=judged, other=other)
    return judge_run(folder, crashes, [claim.as_guarantee() for claim in saved.claims], registry.oracles)
