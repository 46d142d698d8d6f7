"""Sinks whose fault lies between two of their effects, and their twins without it, certified on embedded Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import line_sinks
import wrong_sinks
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import Certified, certify
from streamproof.harness.certifying.campaign_state import FIRST_CONFIRMED
from streamproof.harness.certifying.certificate import PAGE, QueryCounterexample
from streamproof.harness.certifying.page import story
from streamproof.harness.certifying.plan import IN_THE_OTHER_ORDER, How, Victim
from streamproof.harness.certifying.planning import CrashPlan, every_crash_point
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.scenarios.workloads import text

pytestmark = [pytest.mark.spark, pytest.mark.long]

DRIVER_ONLY = every_crash_point(Victim.DRIVER, recovering=False, split_brain=False)
SECONDS = 90.0
"""By when a real kill has shown what is wrong, at worst, on a machine with two cores that has nothing else to do."""
LOADED = 3
"""How many times that, where it has."""


def certified(
    query: Query, folder: Path, faults: CrashPlan | None = None, *, batches: int = 2, budget: Budget
) -> Certified:
    registry = Registry()
    found = certify(
        query,
        [exactly_once()],
        faults,
        workload=text(events=batches * query.batch_events),
        cluster=EmbeddedCluster(),
        registry=registry,
        budget=budget,
        folder=folder / "certificate",
    )
    assert judge_certificate(found.folder, registry.oracles).differences == ()
    assert list(labelled_processes(f"{found.certificate.name}-workers")) == []
    return found


WRONG = [
    pytest.param(wrong_sinks.at_once, Anomaly.DUPLICATE_EFFECT, "wrong_sinks.write_lines", id="at-once"),
    *(
        pytest.param(query, anomaly, function, id=query.name, marks=pytest.mark.long)
        for query, anomaly, function in (
            (line_sinks.marker_first, Anomaly.LOST_INPUT, "line_sinks.write_marker_first"),
            (wrong_sinks.appends, Anomaly.DUPLICATE_EFFECT, "wrong_sinks.append_and_mark"),
            (wrong_sinks.list_first, Anomaly.LOST_INPUT, "wrong_sinks.publish"),
            (wrong_sinks.success_first, Anomaly.LOST_INPUT, "wrong_sinks.succeed_first"),
            (wrong_sinks.seals_first, Anomaly.LOST_INPUT, "wrong_sinks.seal_first"),
            (wrong_sinks.swaps_first, Anomaly.LOST_INPUT, "wrong_sinks.swap_first"),
            (wrong_sinks.adds, Anomaly.WRONG_VALUE, "wrong_sinks.add_each_time"),
            (wrong_sinks.adds_without_journal, Anomaly.WRONG_VALUE, "wrong_sinks.add_once"),
            (wrong_sinks.adds_in_map, Anomaly.WRONG_VALUE, "wrong_sinks.add_in_map"),
            (wrong_sinks.marks_in_arrows_map, Anomaly.LOST_INPUT, "wrong_sinks.write_"),
        )
    ),
]


@pytest.mark.parametrize(("query", "anomaly", "function"), WRONG)
def test_a_sink_is_refuted_soon_and_by_the_line_at_which_it_died(
    query: Query, anomaly: Anomaly, function: str, tmp_path: Path
) -> None:
    found = certified(query, tmp_path, budget=Budget(minutes=5))
    certificate = found.certificate
    assert certificate.verdicts[0].status is Status.VIOLATED, certificate.verdicts
    assert certificate.figures[FIRST_CONFIRMED] <= LOADED * SECONDS
    shown = certificate.counterexample
    assert shown is not None
    assert (shown.how, shown.anomaly, len(shown.crashes)) == (How.KILL, str(anomaly), 1)
    assert function in told(shown)
    assert " line " in told(shown)
    assert function in (found.folder / PAGE).read_text().replace("\\", "")


def test_a_sink_is_refuted_by_the_order_of_tasks_in_which_its_last_one_comes_first(tmp_path: Path) -> None:
    found = certified(wrong_sinks.last_part_says, tmp_path, DRIVER_ONLY, budget=Budget(minutes=LOADED * 5))
    assert found.certificate.verdicts[0].status is Status.VIOLATED, found.certificate.verdicts
    shown = found.certificate.counterexample
    assert shown is not None
    assert (shown.how, shown.anomaly) == (How.KILL, str(Anomaly.LOST_INPUT))
    assert [crash.last_first for crash in shown.crashes] == [True]
    assert IN_THE_OTHER_ORDER in told(shown)


def told(shown: QueryCounterexample) -> str:
    return "\n".join(story(shown))


TWINS = [
    wrong_sinks.by_batch,
    wrong_sinks.list_last,
    wrong_sinks.success_last,
    wrong_sinks.seals_last,
    wrong_sinks.swaps_last,
    wrong_sinks.with_its_commit,
    wrong_sinks.adds_once,
    wrong_sinks.driver_says,
]


def holds(found: Certified) -> None:
    assert {verdict.status for verdict in found.certificate.verdicts} == {Status.HOLDS}, found.certificate.verdicts


@pytest.mark.parametrize(
    "query",
    [pytest.param(one, id=one.name, marks=pytest.mark.long) for one in TWINS],
)
def test_its_twin_holds_wherever_the_driver_dies(query: Query, tmp_path: Path) -> None:
    holds(certified(query, tmp_path, DRIVER_ONLY, batches=1, budget=Budget(minutes=15, kills=0)))


@pytest.mark.long
@pytest.mark.parametrize("query", TWINS, ids=lambda one: one.name)
def test_its_twin_holds_whatever_dies(query: Query, tmp_path: Path) -> None:
    holds(certified(query, tmp_path, budget=Budget(minutes=LOADED * 5)))
