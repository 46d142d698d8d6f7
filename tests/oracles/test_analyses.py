"""A claim pays for what it rests on, and for nothing else."""

from __future__ import annotations

import pytest

from simulation import drawn, history_of, scenario_of
from streamproof import Scenario, crash, events, exactly_once_output, gap, numbered, trace
from streamproof.harness.core.guarantees import AMNESIA, AT_LEAST_ONCE, AT_MOST_ONCE, PRECISE, Guarantee
from streamproof.harness.core.verdicts import Status, Verdict
from streamproof.harness.exploration.simulating import simulate
from streamproof.harness.judging import collated_slices
from streamproof.harness.judging.oracle import Case, judge_each
from verdicts_of import JUDGES

PARTS = ("channel_count", "find_lacking", "find_flaws", "find_unmerged", "other_states", "doubled_in_passing")
"""What finds each part of what a history comes to."""


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts, in the order in which they are computed."""
    order: list[str] = []
    for part in PARTS:
        found = getattr(collated_slices, part)

        def noted(*given: object, part: str = part, found: object = found) -> object:
            order.append(part)
            return found(*given)  # type: ignore[operator]

        monkeypatch.setattr(collated_slices, part, noted)
    return order


def judged(*names: str) -> list[Verdict]:
    scenario = scenario_of("passive-replication-in-turn/join")
    history = history_of(scenario, drawn(scenario, 2, "usual"), seed=2)
    case = Case(history, scenario.subject.collate(history), virtual_time=True)
    return judge_each(case, [Guarantee(name) for name in names], JUDGES)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (AT_MOST_ONCE, {"doubled_in_passing", "channel_count"}),
        (AT_LEAST_ONCE, {"doubled_in_passing", "channel_count", "find_lacking"}),
        (AMNESIA, {"doubled_in_passing", "channel_count", "find_flaws"}),
    ],
)
def test_a_weak_claim_computes_no_more_than_it_asks_for(name: str, parts: set[str], computed: list[str]) -> None:
    (verdict,) = judged(name)
    assert verdict.status is Status.HOLDS
    assert set(computed) == parts


def test_each_part_is_computed_once_however_many_ask(computed: list[str]) -> None:
    judged(PRECISE, AT_LEAST_ONCE, AMNESIA, PRECISE)
    for part in ("find_lacking", "find_flaws", "find_unmerged"):
        assert computed.count(part) == 1


def test_what_was_lost_is_told_with_the_fault_that_took_it() -> None:
    subject = gap(trace(parallelism=1), checkpoint_every=events(8))
    faults = [crash("relay-0").after(events(200)), crash("trace-0").after(events(13))]
    found = simulate(Scenario(subject, numbered(events=60, batch=4), faults, claims=[exactly_once_output()]))
    told = [piece for verdict in found.verdicts for tally in verdict.anomalies for piece in tally.sample]
    assert {"its output was never delivered", "taken by incarnation 1 and not restored"} <= {
        piece.what.partition(": ")[2] for piece in told
    }
    assert {piece.fault for piece in told} == {1}
