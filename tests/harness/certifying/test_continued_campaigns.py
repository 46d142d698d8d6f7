"""Campaigns that go on where they stood, without Spark: what counts, what is tried, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamproof.harness.certifying import affording, campaign, continuing
from streamproof.harness.certifying.campaign import Budget, CampaignProgress, Certified
from streamproof.harness.certifying.certificate import JOURNAL, Certificate, altered_files, read_certificate
from streamproof.harness.certifying.drawing import certificate_html
from streamproof.harness.certifying.journal import Journal, read_journal
from streamproof.harness.certifying.plan import CrashTrial, How
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.certifying.so_far import NO_END, so_far
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import (
    AlteredCertificate,
    InvalidCertificate,
    NothingLeft,
    RunFolderInUse,
    ScenarioChanged,
)
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.verdicts import Status
from streamproof.scenarios.workloads import words
from toy_spark import Does, ToyAttempt, ToyCluster, install, toy

WORKLOAD = words(events=30)
DRIVER_ALONE = every_crash_point("driver", recovering=False, split_brain=False)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    install(monkeypatch, tmp_path)
    return tmp_path / "certificate"


def certify(folder: Path, query: Query, budget: Budget, **changes: Any) -> Certified:
    facts: dict[str, Any] = {
        "workload": WORKLOAD,
        "cluster": ToyCluster(),
        "registry": Registry(),
        "budget": budget,
        "folder": folder,
        "origin": "toys:query",
    }
    return campaign.certify(query, [exactly_once()], **{**facts, **changes})


def go_on(folder: Path, query: Query, budget: Budget | None = None, **changes: Any) -> Certified:
    facts: dict[str, Any] = {
        "workload": WORKLOAD,
        "cluster": ToyCluster(),
        "registry": Registry(),
        "budget": budget or Budget(kills=2),
    }
    return campaign.go_on(folder, query, **{**facts, **changes})


def tried(certificate: Certificate) -> Counter[tuple[How, bool, object]]:
    return Counter((trial.how, trial.sampled, trial.crashes) for trial in certificate.trials)


def runs(trials: tuple[CrashTrial, ...]) -> list[str]:
    return list(dict.fromkeys(trial.folder for trial in trials))


def interrupt_at(phase: str, after: int = 0) -> Callable[[CampaignProgress], None]:
    def show(progress: CampaignProgress) -> None:
        if progress.phase == phase and progress.done >= after:
            raise KeyboardInterrupt

    return show


# What it comes to


def test_two_parts_of_a_campaign_come_to_what_one_does(folder: Path, tmp_path: Path) -> None:
    whole = certify(tmp_path / "whole", toy(Does.BY_ID), Budget(kills=2)).certificate
    first = certify(folder, toy(Does.BY_ID), Budget(runs=7, kills=2)).certificate
    assert {verdict.status for verdict in first.verdicts} == {Status.UNKNOWN}
    again = go_on(folder, toy(Does.BY_ID)).certificate
    assert again.trials[: len(first.trials)] == first.trials
    assert set(again.plan) == set(whole.plan)
    assert again.draw is not None
    assert whole.draw is not None
    assert (again.draw.size, again.draw.seed) == (whole.draw.size, whole.draw.seed)
    assert [verdict.status for verdict in again.verdicts] == [verdict.status for verdict in whole.verdicts]
    assert {verdict.status for verdict in again.verdicts} == {Status.HOLDS}
    assert all(bound.upper is not None for bound in again.bounds)
    assert again.more is None
    twice = [what for what, times in tried(again).items() if times > 1 and not what[1]]
    assert not twice, "nothing is tried again that was tried"


def test_a_certificate_says_that_its_campaign_was_continued_and_is_judged_as_a_whole(folder: Path) -> None:
    first = certify(folder, toy(Does.BY_ID), Budget(runs=7, kills=2)).certificate
    again = go_on(folder, toy(Does.BY_ID))
    assert read_certificate(folder) == again.certificate
    assert list(altered_files(folder, again.certificate)) == []
    assert judge_certificate(folder, Registry().oracles).differences == ()
    assert not (folder / JOURNAL).exists()
    one, two = again.certificate.parts
    assert (one.known, two.known, one.budget["runs"], two.budget["runs"]) == (0, len(first.trials), 7, None)
    assert again.certificate.began == one.began == first.began < two.began
    page = (folder / "certificate.md").read_text()
    assert "continued: 2 parts, of " in page
    assert f"streamproof {one.versions['streamproof']}, python {one.versions['python']}, " in page


def test_who_interrupts_a_campaign_on_a_query_without_a_name_is_not_told_to_go_on(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as interrupted:
        certify(folder, toy(Does.BY_ID), Budget(kills=3), show=interrupt_at("crash states", 3), origin="")
    (said,) = interrupted.value.__notes__
    assert f"streamproof report {folder}" in said
    assert "--continue" not in said
    page = certificate_html(so_far(folder, NO_END), folder, ended=False)
    assert "--continue" not in page
    assert f"streamproof report {folder}" in page


@pytest.mark.parametrize(
    ("phase", "after"),
    [
        ("crash states", 3),
        pytest.param("kills", 0, marks=pytest.mark.long),
        ("kills", 1),
        pytest.param("split brains", 0, marks=pytest.mark.long),
        pytest.param("the sample", 0, marks=pytest.mark.long),
        pytest.param("the sample", 1, marks=pytest.mark.long),
    ],
)
def test_who_interrupts_a_campaign_can_go_on_with_it(phase: str, after: int, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as interrupted:
        certify(folder, toy(Does.BY_ID), Budget(kills=3), show=interrupt_at(phase, after))
    assert f"streamproof certify --continue {folder}" in interrupted.value.__notes__[0]
    before = read_journal(folder)
    assert before.trials
    again = go_on(folder, toy(Does.BY_ID), Budget(kills=3)).certificate
    assert again.trials[: len(before.trials)] == before.trials
    assert {verdict.status for verdict in again.verdicts} == {Status.HOLDS}
    assert [bound.finished for bound in again.bounds] == [3, 3]
    assert again.parts[0].interrupted
    assert not [what for what, times in tried(again).items() if times > 1 and not what[1]]
    assert judge_certificate(folder, Registry().oracles).differences == ()


def test_what_was_under_way_counts_for_nothing_and_is_named(folder: Path) -> None:
    class Interrupted(ToyCluster):
        def deploy(self, run: Any) -> Any:
            if run.scenario.faults:
                raise KeyboardInterrupt
            return super().deploy(run)

    with pytest.raises(KeyboardInterrupt):
        certify(folder, toy(Does.BY_ID), Budget(kills=2), cluster=Interrupted())
    (left,) = [run for run in (folder / "runs").iterdir() if run.name.startswith("kill-")]
    again = go_on(folder, toy(Does.BY_ID)).certificate
    (said,) = again.parts[0].left_out
    assert "executor" in said
    assert said in (folder / "certificate.md").read_text()
    assert f"runs/{left.name}" not in {trial.folder for trial in again.trials} or left.exists()


def test_a_killed_campaign_leaves_half_a_line_which_counts_for_nothing(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        certify(folder, toy(Does.BY_ID), Budget(kills=2), show=interrupt_at("crash states", 3))
    whole = read_journal(folder)
    with (folder / JOURNAL).open("ab") as journal:
        journal.write(b'{"type":"tried","trials":[{"cra')
    assert read_journal(folder) == whole


def test_a_journal_that_does_not_say_what_its_runs_come_to_is_not_gone_on_with(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        certify(folder, toy(Does.APPENDS), Budget(kills=0), show=interrupt_at("confirming"))
    journal = folder / JOURNAL
    told = journal.read_bytes()
    assert b'"VIOLATED"' in told
    journal.write_bytes(told.replace(b'"VIOLATED"', b'"HOLDS"'))
    with pytest.raises(AlteredCertificate, match=r"exactly-once is VIOLATED by its record, and HOLDS"):
        go_on(folder, toy(Does.APPENDS))
    elsewhere = told.replace(b'"runs/', b'"runs/../runs/')
    journal.write_bytes(elsewhere)
    with pytest.raises(AlteredCertificate, match="is not a run in the certificate's folder"):
        go_on(folder, toy(Does.APPENDS))


def test_a_violation_that_was_interrupted_before_it_was_confirmed_is_confirmed(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        certify(folder, toy(Does.APPENDS), Budget(kills=0), show=interrupt_at("confirming"))
    again = go_on(folder, toy(Does.APPENDS)).certificate
    assert again.verdicts[0].status is Status.VIOLATED
    assert again.counterexample is not None
    assert (folder / "counterexample.json").exists()
    assert judge_certificate(folder, Registry().oracles).differences == ()


@pytest.mark.long
def test_a_violation_that_was_interrupted_before_it_was_made_small_is_made_small(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        certify(folder, toy(Does.APPENDS), Budget(kills=0), show=interrupt_at("shrinking"))
    again = go_on(folder, toy(Does.APPENDS)).certificate
    assert again.verdicts[0].status is Status.VIOLATED
    assert again.counterexample is not None
    assert again.counterexample.events == 1


@pytest.mark.long
def test_a_part_that_was_itself_interrupted_can_be_gone_on_with(folder: Path) -> None:
    first = certify(folder, toy(Does.BY_ID), Budget(runs=7, kills=2)).certificate
    with pytest.raises(KeyboardInterrupt):
        go_on(folder, toy(Does.BY_ID), show=interrupt_at("split brains"))
    with pytest.raises(InvalidCertificate, match="go on with"):
        judge_certificate(folder, Registry().oracles)
    again = go_on(folder, toy(Does.BY_ID)).certificate
    assert [part.interrupted for part in again.parts] == [False, True, False]
    assert again.trials[: len(first.trials)] == first.trials
    assert {verdict.status for verdict in again.verdicts} == {Status.HOLDS}


@pytest.mark.parametrize("does", [Does.BY_ID, Does.APPENDS])
def test_a_campaign_that_came_to_its_end_has_nothing_left_to_do(does: Does, folder: Path) -> None:
    certify(folder, toy(does), Budget(kills=0), faults=DRIVER_ALONE)
    before = (folder / "certificate.json").read_bytes()
    with pytest.raises(NothingLeft, match="nothing is left to do"):
        go_on(folder, toy(does))
    assert (folder / "certificate.json").read_bytes() == before


@pytest.mark.long
def test_a_sample_that_was_made_smaller_stays_what_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affording, "KILL", 100.0)
    with pytest.raises(KeyboardInterrupt):
        certify(folder, toy(Does.BY_ID), Budget(kills=50), show=interrupt_at("the sample", 1))
    monkeypatch.setattr(affording, "KILL", 1.0)
    certificate = go_on(folder, toy(Does.BY_ID), Budget(kills=50)).certificate
    assert [(bound.finished, bound.why_none) for bound in certificate.bounds] == [(4, ""), (4, "")]
    assert "50 were asked for, and 4 drawn" in certificate.not_covered[0]


def test_what_more_time_would_buy_is_said_with_the_command(folder: Path) -> None:
    certificate = certify(folder, toy(Does.BY_ID), Budget(runs=7, kills=2)).certificate
    more = certificate.more
    assert more is not None
    assert 0 < more.untried < more.planned
    assert more.for_verdicts <= more.minutes
    minutes = more.for_verdicts or more.minutes
    assert more.command == f"streamproof certify --continue {folder} --minutes {minutes}"
    assert more.command in certificate.verdicts[0].reasons[-1]
    assert "What more time would buy: " in (folder / "certificate.md").read_text()


# What is refused


def test_other_code_input_or_versions_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certify(folder, toy(Does.BY_ID), Budget(runs=3, kills=0))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ScenarioChanged, match="its batch_events was 10, and is 5 now"):
        go_on(folder, toy(Does.BY_ID, batch_events=5))
    with pytest.raises(ScenarioChanged, match="the input was"):
        go_on(folder, toy(Does.BY_ID), workload=words(events=20))
    with monkeypatch.context() as other:
        other.setattr(continuing, "version", lambda package: "9.9")
        with pytest.raises(ScenarioChanged, match=r"begun with streamproof .*, and this is streamproof 9.9"):
            go_on(folder, toy(Does.BY_ID))
    versions = continuing.versions_here
    for changed, said in (
        ({"pandas": None}, r"begun with pandas .*, and this is no pandas"),
        ({"polars": "1.0"}, r"begun with no polars, and this is polars 1\.0"),
    ):
        with monkeypatch.context() as other:

            def here(java: object, query: Query, changed: Mapping[str, str | None] = changed) -> dict[str, str]:
                found = {**versions(java, query), **changed}
                return {name: number for name, number in found.items() if number is not None}

            other.setattr(campaign, "versions_here", here)
            with pytest.raises(ScenarioChanged, match=said):
                go_on(folder, toy(Does.BY_ID))
    with monkeypatch.context() as other:
        other.setattr(continuing, "code_of", lambda query: {"toy_spark": "edited"})
        with pytest.raises(ScenarioChanged, match="the module toy_spark is another one"):
            go_on(folder, toy(Does.BY_ID))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_an_input_that_goes_by_the_same_name_and_is_another_one_leaves_nothing_to_judge(folder: Path) -> None:
    certify(folder, toy(Does.BY_ID), Budget(runs=3, kills=0))
    other = replace(words(events=30), draw=words(events=30, vocabulary=3).draw)
    certificate = go_on(folder, toy(Does.BY_ID), workload=other).certificate
    assert "the input is not the one of the earlier part" in certificate.unjudgeable
    assert {verdict.status for verdict in certificate.verdicts} == {Status.UNKNOWN}


def test_what_gives_something_else_without_failures_leaves_nothing_to_judge(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(folder, toy(Does.BY_ID), Budget(runs=3, kills=0))
    table = ToyAttempt._table
    monkeypatch.setattr(ToyAttempt, "_table", lambda attempt: {**table(attempt), '{"seq":99,"when":0}': 1})
    certificate = go_on(folder, toy(Does.BY_ID)).certificate
    assert "it gives something else than in the earlier part of the campaign" in certificate.unjudgeable
    assert '{"seq":99,"when":0}' in certificate.unjudgeable


def test_a_campaign_that_is_still_going_on_is_left_alone(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        certify(folder, toy(Does.BY_ID), Budget(kills=2), show=interrupt_at("crash states", 3))
    with Journal(folder), pytest.raises(RunFolderInUse, match="another process is at work"):
        go_on(folder, toy(Does.BY_ID))


def test_a_folder_that_was_altered_or_holds_no_campaign_is_refused(folder: Path, tmp_path: Path) -> None:
    certify(folder, toy(Does.BY_ID), Budget(runs=3, kills=0))
    (folder / "certificate.md").write_text("HOLDS")
    with pytest.raises(AlteredCertificate):
        go_on(folder, toy(Does.BY_ID))
    with pytest.raises(InvalidCertificate):
        go_on(tmp_path / "nothing", toy(Does.BY_ID))
