"""The books of a campaign."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from certified import AGAIN, CLAIMS, JUDGES, crash_at, write_run
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import FIRST_CONFIRMED, CampaignState
from streamproof.harness.certifying.plan import How


def state(folder: Path, budget: Budget | None = None) -> CampaignState:
    return CampaignState(folder, CLAIMS, JUDGES, budget or Budget(), lambda progress: None)


def test_recovery_workers_that_begin_at_once_begin_no_more_runs_than_there_may_be(tmp_path: Path) -> None:
    books = state(tmp_path, Budget(runs=7))
    with ThreadPoolExecutor(8) as pool:
        begun = [run for run in pool.map(lambda _: books.begin_run("state", 1.0), range(40)) if run is not None]
    assert sorted(begun) == [f"runs/state-{number:04d}" for number in range(1, 8)]
    assert books.exhausted == "runs: 7"


def test_the_figures_say_when_a_real_kill_first_showed_a_violation(tmp_path: Path) -> None:
    books = state(tmp_path)
    crash = crash_at(2)
    for how, batches in ((How.CRASH_STATE, AGAIN), (How.KILL, AGAIN[:3]), (How.KILL, AGAIN), (How.KILL, AGAIN)):
        assert FIRST_CONFIRMED not in books.figures or batches is AGAIN
        run = books.new_run("run")
        write_run(tmp_path / run, crash, judged=batches, how=how)
        books.enter(run, [(crash,)], how)
        if how is How.CRASH_STATE:
            assert FIRST_CONFIRMED not in books.figures, "nobody died"
    first = books.figures[FIRST_CONFIRMED]
    assert 0 <= first <= books.spent + 0.05
