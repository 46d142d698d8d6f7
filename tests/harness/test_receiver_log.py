"""A user's scheme of a kind of its own: it is not refuted, and whichever of its rules is broken, it is."""

from __future__ import annotations

import pytest

from receiver_log import RULES, receiver_log
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules
from streamproof.harness.exploration.search import SearchBudget, search
from streamproof.harness.judging.exercised import Activity
from streamproof.scenarios.order import order
from streamproof.scenarios.workloads import numbered

REGISTRY = Registry()


def bench(broken: str = "") -> Bench:
    """Where channels meet, and nothing but the log says in which order they came."""
    return Bench(Scenario(receiver_log(order(), broken=broken), numbered(events=48, batch=4)), REGISTRY, seed=7)


def test_no_schedule_of_some_hundred_refutes_it_and_all_that_it_rests_on_was_at_work() -> None:
    found = search(bench(), [EverySingle(), RandomSchedules(7)], SearchBudget(300))
    assert not found.kinds
    assert found.statuses[Status.HOLDS] > 250
    wanted = {Activity.CHECKPOINT, Activity.RESTORE, Activity.REPLAY, Activity.FILTER, Activity.TRIM}
    assert all(found.exercised[one] > 100 for one in wanted)


@pytest.mark.parametrize("rule", RULES)
def test_without_one_of_its_rules_it_is_refuted(rule: str) -> None:
    found = search(bench(rule), [EverySingle(), RandomSchedules(7)], SearchBudget(200), until=lambda violation: True)
    assert found.kinds
