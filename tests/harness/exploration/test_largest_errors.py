"""How close failures come to a bound is sought, and what is found is shown with the schedule that shows it again."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from streamproof import approximate, bounded_error, exactly_once, largest_error, simulate
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scaling import scaled
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import ExitStatus, UnknownName, Unsupported
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.quantities import events
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.documenting import document_of
from streamproof.harness.exploration.exploring import Explored, explore
from streamproof.harness.exploration.largest_errors import LargestErrors, largest_errors, measures
from streamproof.harness.exploration.search import SearchBudget
from streamproof.harness.exploration.telling import view_of_search
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.totals import Totals, one_total
from streamproof.scenarios.workloads import ones

SCHEDULES = 30
ONE = Scenario(approximate(one_total(Totals(by_sum=True)), theta=24, l=4, gamma=40), ones(events=60, batch=4))
TOO_LITTLE = Scenario(
    approximate(one_total(Totals(by_sum=True)), theta=8, l=2, gamma=40),
    ones(events=24, batch=4),
    claims=[bounded_error(7.9, 2, 40)],
)
"""Half of 8 can be lost at once, and half of 7.9 is claimed."""
REGISTRY = Registry()


@cache
def found() -> LargestErrors:
    return largest_error(ONE, SCHEDULES)


def test_failures_are_led_to_where_a_bound_is_nearly_used_up() -> None:
    largest = found().largest
    assert largest is not None
    assert 0.8 < found().ratio <= 1
    assert found().ratio == largest.measured.ratio
    assert largest.measured.failures >= 1


def test_the_same_is_found_again_and_its_schedule_shows_it() -> None:
    assert largest_error(ONE, SCHEDULES).calls == found().calls
    largest = found().largest
    assert largest is not None
    scenario = found().bench.scenario
    shown = simulate(scenario, found().schedule, seed=largest.trial.seed)
    assert shown.holds
    assert largest.measured in shown.verdicts[0].measured


def test_it_is_as_small_as_it_can_be() -> None:
    assert found().bench.scenario.workload.events < 60
    assert len(found().schedule) <= 3


def test_printed_it_tells_which_error_and_which_schedule() -> None:
    first, second, *_ = repr(found()).splitlines()
    assert first.startswith(f"largest error / bound: {found().ratio:.2f} (")
    assert first.endswith(", by")
    assert "crash sum-0" in second


def test_without_a_stated_amount_there_is_nothing_to_seek() -> None:
    subject = passive_replication(one_total(), checkpoint_every=events(8), sink_filter=True)
    exact = Scenario(subject, ones(events=40, batch=4), claims=[exactly_once()])
    assert not measures(Bench(exact, REGISTRY, seed=7))
    assert largest_errors(Bench(exact, REGISTRY, seed=7), 3).largest is None


def test_a_fault_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnknownName, match="crahs"):
        largest_error(ONE, 1, kinds=("crahs",))


@pytest.mark.parametrize("kinds", [("partition",), ("delay", "crash"), ("pause",), ("loss",), ("slow-disk",)])
def test_faults_of_every_kind_are_sought_with_what_they_need(kinds: tuple[str, ...]) -> None:
    bench = Bench(ONE, REGISTRY, seed=7).with_input(24, 4)
    assert largest_errors(bench, 12, kinds=kinds).tried > 6


def test_a_fault_that_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    registry = Registry()
    registry.faults["undrawn"] = replace(registry.faults["crash"], name="undrawn", draw=None)
    with pytest.raises(
        Unsupported, match=r"no undrawn can be drawn at random: its FaultKind does not say how, by draw="
    ):
        explore(Named("mine", "", "", ONE), registry, SearchBudget(1), seed=7, jobs=1, kinds=("undrawn",))


def explored(scenario: Scenario, tmp_path: Path, errors: int, seed: int = 7) -> Explored:
    named = Named("mine", "", "", scenario)
    return explore(named, REGISTRY, SearchBudget(1), seed=seed, jobs=1, output=tmp_path / "c.json", errors=errors)


def test_a_search_says_how_close_failures_came(tmp_path: Path) -> None:
    answer = explored(ONE, tmp_path, 8)
    told = [fact.text for fact in view_of_search(answer).facts if fact.label == "errors"]
    assert answer.errors is not None
    assert [text.startswith(f"largest error / bound: {answer.errors.ratio:.2f} (") for text in told] == [True]
    assert explored(ONE, tmp_path, 0).errors is None


def test_what_breaks_a_claim_on_the_way_is_a_violation_like_any_other(tmp_path: Path) -> None:
    """The search before it has tried one schedule, and found nothing."""
    assert explored(TOO_LITTLE, tmp_path, 0, seed=8).exit_status is not ExitStatus.VIOLATED
    answer = explored(TOO_LITTLE, tmp_path, 20, seed=8)
    assert answer.exit_status is ExitStatus.VIOLATED
    assert answer.findings.statuses[Status.VIOLATED] > 0
    (kept,) = answer.kept
    assert kept.content.anomaly == Anomaly.BOUND_EXCEEDED
    assert kept.file.exists()


class Careful(Totals):
    """Fails where of much input any was lost."""

    def process(self, event: Event, state: dict[str, float]) -> tuple[Output]:
        if event.seq > 40 and sum(state.values()) < event.seq - 1:
            raise ValueError("lost")
        return super().process(event, state)


def test_code_that_fails_while_the_largest_is_sought_is_told_beside_what_was_found(tmp_path: Path) -> None:
    own = replace(ONE, subject=approximate(one_total(Careful(by_sum=True)), theta=24, l=4, gamma=40))
    named, stated = (Named("mine", "", "", one) for one in (scaled(own), own))
    found = explore(named, REGISTRY, SearchBudget(8), seed=7, jobs=1, output=tmp_path / "c.json", own=stated, errors=10)
    assert (found.findings.tried, found.findings.essential) == (8, 0)
    assert found.exit_status is ExitStatus.USER_MISTAKE
    failed = document_of(found)["largest_error"]["failed"]
    assert re.search(r"(?s)lost\nThis was under seed 7 and the schedule: crash sum-0", failed)
    assert any(failed in fact.text for fact in view_of_search(found).facts if fact.label == "errors")
