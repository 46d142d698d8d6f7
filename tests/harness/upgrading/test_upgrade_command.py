"""`streamproof upgrade`: what it refuses before anything starts, and what `judge` makes of its record."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from certified import SUBJECT, crash_at, write_run
from harness.upgrading.test_upgrade_records import CONTINUES, WRONG, record, switched
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.command_line.ending import INTERRUPTED, Terminated
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.install import spark_choice
from streamproof.harness.upgrading import upgrade as upgrading
from streamproof.harness.upgrading.ends import UpgradeInterrupted
from streamproof.harness.upgrading.outcomes import Aside, UpgradeOutcome
from streamproof.harness.upgrading.record import write_upgrade
from streamproof.harness.upgrading.request import UpgradeRequest
from streamproof.scenarios.upgrades import PAIRS

MODULE = "streamproof.scenarios.upgrades"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-pair"], "there is no pair of versions 'no-such-pair'"),
        ([f"{MODULE}:BY_KEY", f"{MODULE}:NOTHING"], "there is no attribute"),
        (["nothing-changed", "--reference", "none"], "--reference is one of: all, since"),
        (["nothing-changed", "--to-set", "shuffle=3"], "'shuffle=3' is no setting of Spark's"),
        (["nothing-changed", "--to-spark", "newest"], "is neither a version"),
        (["nothing-changed", "--to-spark", ""], "'--to-spark': it is empty"),
        (["nothing-changed", "--from-spark", ""], "'--from-spark': it is empty"),
        (["nothing-changed", "--minutes", "0"], "--minutes needs a positive number"),
        (["nothing-changed", "--claim", "no-such-claim"], "there is no guarantee 'no-such-claim'"),
        (["sink-moved", "--reference", "since"], "compare with --reference all"),
        (["sqlite-by-batch"], "there is no pair of versions"),
        (["nothing-changed", "--mode", "complete"], "say their output mode, key and schema themselves"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Registry, "upgrades", {pair.name: pair for pair in PAIRS})
    monkeypatch.chdir(tmp_path)

    assert run_command_line(["upgrade", *arguments]) == ExitStatus.USER_MISTAKE
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([], "committed: silently wrong, on Spark 4.3"),
        (["--from-spark", "4.1.3", "--to-spark", "4.1.3"], "committed: refused, on Spark 4.1.3"),
        (["--to-spark", "4.1.3"], ""),
        (["--reference", "since"], ""),
        (["--to-set", "spark.sql.ansi.enabled=false"], ""),
    ],
    ids=["here", "before that can be", "another Spark beside", "compared otherwise", "set otherwise"],
)
def test_what_is_expected_of_a_pair_is_said_of_the_spark_that_it_ran_on(
    asked: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    came = record(switched(CONTINUES, committed=-1))
    monkeypatch.setattr(Registry, "upgrades", {pair.name: pair for pair in PAIRS})
    monkeypatch.setattr(upgrading, "upgrade", lambda request, folder, progress: (tmp_path, came))
    # Whether such an environment is on this machine is no matter.
    monkeypatch.setattr(spark_choice, "chosen_version", lambda wanted="": wanted or "4.3.0")

    run_command_line(["upgrade", "aggregate-replaced", *asked])
    shown = " ".join(capsys.readouterr().out.split())
    assert ("expected of this pair" in shown) is bool(said)
    assert said in shown


@pytest.mark.parametrize(
    ("outcome", "status"), [(CONTINUES, INTERRUPTED), (WRONG, ExitStatus.VIOLATED)], ids=["nothing", "a violation"]
)
def test_whoever_interrupts_it_is_told_what_was_found_by_then(
    outcome: UpgradeOutcome,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    came = switched(outcome, aside=Aside("runs/beside-0002", 2, CONTINUES) if outcome is WRONG else None)
    ends_by(monkeypatch, UpgradeInterrupted(tmp_path, record(came, cut_short="it was interrupted")))

    assert run_command_line(["upgrade", "keys-swapped"]) == status
    said = capsys.readouterr()
    assert f"  {outcome} " in said.out
    assert "it did not come to its end: it was interrupted" in said.out
    assert f"record {tmp_path}" in said.out
    assert said.err.endswith("streamproof: interrupted; nothing is left running\n")

    assert run_command_line(["upgrade", "keys-swapped", "--json"]) == status
    found = json.loads(capsys.readouterr().out)
    assert (found["interrupted"], found["cut_short"], found["exit_status"]) == (True, "it was interrupted", status)


@pytest.mark.parametrize("by", [KeyboardInterrupt, Terminated])
def test_what_is_kept_is_said_whoever_ends_it(
    by: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = by()
    error.add_note("nothing had been found, and nothing is kept")
    ends_by(monkeypatch, error)

    with suppress(Terminated):
        assert run_command_line(["upgrade", "keys-swapped"]) == INTERRUPTED
    assert "streamproof: nothing had been found, and nothing is kept" in capsys.readouterr().err


def ends_by(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Whatever is to be upgraded."""

    def upgrade(request: UpgradeRequest, folder: Path | None, progress: object) -> NoReturn:
        raise error

    monkeypatch.setattr(Registry, "upgrades", {pair.name: pair for pair in PAIRS})
    monkeypatch.setattr(upgrading, "upgrade", upgrade)


def test_a_record_is_judged_again_by_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs" / "upgrade-0001", crash_at())
    right = switched(CONTINUES, committed=-1)
    write_upgrade(tmp_path, record(right))

    assert run_command_line(["judge", str(tmp_path), "--json"]) == ExitStatus.UNKNOWN
    found = json.loads(capsys.readouterr().out)
    assert [line["outcome"] for line in found["outcomes"]] == ["continues"]
    assert found["differences"] == []


def test_a_record_that_says_other_than_its_runs_is_found_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "runs" / "upgrade-0001", crash_at(), judged=((0, {"a": 1}), (1, {"a": 9}), (2, {"b": 2})))
    write_upgrade(tmp_path, record(switched(CONTINUES, committed=-1)))

    assert run_command_line(["judge", str(tmp_path)]) == ExitStatus.USER_MISTAKE
    said = capsys.readouterr().out
    assert "silently wrong from batch 0 on by its record, and continues" in said
    assert str(WRONG) in said


@pytest.mark.parametrize("left_out", ["upgrade-0002", "rollback-0002", "beside-0002"])
def test_a_run_that_the_record_leaves_out_is_found(
    left_out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("upgrade-0001", left_out):
        write_run(tmp_path / "runs" / name, crash_at())
    write_upgrade(tmp_path, record(switched(CONTINUES, committed=-1)))

    assert run_command_line(["judge", str(tmp_path), "--json"]) == ExitStatus.USER_MISTAKE
    found = json.loads(capsys.readouterr().out)
    assert found["differences"] == [f"runs/{left_out} is a run, and upgrade.json does not speak of it"]


def test_what_the_version_before_came_to_is_judged_again_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ((0, {"a": 1}), (1, {"a": 9}), (2, {"b": 2}))
    write_run(tmp_path / "runs" / "upgrade-0001", crash_at(), judged=wrong)
    write_run(tmp_path / "runs" / "beside-0002", crash_at(), judged=wrong)
    aside = Aside("runs/beside-0002", 2, CONTINUES)
    write_upgrade(tmp_path, record(switched(WRONG, committed=-1, aside=aside)))

    assert run_command_line(["judge", str(tmp_path), "--json"]) == ExitStatus.USER_MISTAKE
    found = json.loads(capsys.readouterr().out)
    assert found["differences"] == ["runs/beside-0002: silently wrong by its record, and continues in upgrade.json"]
    assert [line["status"] for line in found["outcomes"]] == ["UNKNOWN"]


def test_a_run_of_another_query_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs" / "upgrade-0001", crash_at(), subject={**SUBJECT, "name": "other"})
    write_upgrade(tmp_path, msgspec.structs.replace(record(switched(CONTINUES, committed=-1))))

    assert run_command_line(["judge", str(tmp_path)]) == ExitStatus.USER_MISTAKE
    assert "is a run of another query" in capsys.readouterr().out
