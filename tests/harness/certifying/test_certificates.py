"""A certificate's folder: sealed, refused when it was altered, and judged again from its records."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from certified import (
    AGAIN,
    BATCHES,
    CLAIMS,
    JUDGES,
    ONCE_OUTPUT,
    SUBJECT,
    certify_by_hand,
    crash_at,
    trial,
    unsealed,
    write_run,
)
from streamproof.harness.certifying.certificate import (
    FILE,
    PAGE,
    VERSION,
    Certificate,
    concluded,
    read_certificate,
    with_conclusion,
    write_certificate,
)
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.plan import Crash, How, Victim
from streamproof.harness.certifying.planning import in_other_order
from streamproof.harness.certifying.rejudging import Rejudged, judge_certificate, judge_run
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.core.addresses import Point, Side
from streamproof.harness.core.errors import (
    AlteredCertificate,
    DamagedHistory,
    ExitStatus,
    InvalidCertificate,
    InvalidHistory,
    UnknownCertificateVersion,
)
from streamproof.harness.core.guarantees import Guarantee, exactly_once, exactly_once_output
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.claims_and_faults import SavedClaim

HOLDS, VIOLATED, UNKNOWN = Status.HOLDS, Status.VIOLATED, Status.UNKNOWN


@pytest.fixture(scope="session")
def holding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state and a sampled kill, both survived."""
    folder = tmp_path_factory.mktemp("holding")
    state, kill = (crash_at(), How.CRASH_STATE, BATCHES), (crash_at(), How.KILL, BATCHES)
    certify_by_hand(folder, {"state": state, "sampled": kill})
    return folder


@pytest.fixture(scope="session")
def violated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kill after which a batch comes again."""
    folder = tmp_path_factory.mktemp("violated")
    certify_by_hand(folder, {"kill": (crash_at(), How.KILL, AGAIN)})
    return folder


@pytest.fixture
def copied(holding: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(holding, tmp_path / "copied"))


def rewritten(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changed by somebody who can seal it anew."""
    found = json.loads((folder / FILE).read_text())
    change(found)
    write_certificate(folder, msgspec.convert(found, Certificate))


# What is written is what is read


@pytest.mark.parametrize(
    "guarantee", [exactly_once(), Guarantee("recovers-within", seconds(2.5)), Guarantee("gap-recovery", events(500))]
)
def test_a_claim_keeps_its_bound(guarantee: Guarantee) -> None:
    claimed = msgspec.json.decode(msgspec.json.encode(SavedClaim.of(guarantee)), type=SavedClaim)
    assert claimed.as_guarantee() == guarantee
    assert str(claimed) == str(guarantee)


def test_what_is_written_is_read_back(holding: Path) -> None:
    certificate = read_certificate(holding)
    assert [one.status for one in certificate.verdicts] == [HOLDS, HOLDS]
    assert certificate.exit_status is ExitStatus.HOLDS
    assert certificate.guarantees == CLAIMS
    assert concluded(certificate).coverage == certificate.coverage
    assert write_certificate(holding, certificate) == certificate == read_certificate(holding)


def test_every_file_but_itself_is_listed(holding: Path) -> None:
    certificate = read_certificate(holding)
    present = {file.relative_to(holding).as_posix() for file in holding.rglob("*") if file.is_file()}
    assert set(certificate.files) == present - {FILE}
    assert {"runs/state/delivered.parquet", "runs/sampled/timeline.jsonl", PAGE} <= set(certificate.files)
    for name, digest in certificate.files.items():
        assert hashlib.sha256((holding / name).read_bytes()).hexdigest() == digest


# What was altered is refused


def files_of(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file()]


def test_a_flipped_byte_in_any_file_is_noticed_and_named(copied: Path) -> None:
    for file in files_of(copied):
        whole = file.read_bytes()
        for place in {0, len(whole) // 2, len(whole) - 1} if whole else ():
            changed = bytearray(whole)
            changed[place] ^= 1
            file.write_bytes(changed)
            with pytest.raises(InvalidCertificate) as refused:
                judge_certificate(copied, JUDGES)
            assert file.relative_to(copied).as_posix() in str(refused.value)
            assert refused.value.exit_status is ExitStatus.USER_MISTAKE
        file.write_bytes(whole)
    assert judge_certificate(copied, JUDGES).differences == ()


def test_every_flipped_bit_of_the_certificate_itself_is_noticed(copied: Path) -> None:
    file = copied / FILE
    whole = file.read_bytes()
    for place in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        file.write_bytes(changed)
        with pytest.raises(InvalidCertificate):
            read_certificate(copied)


def test_a_file_that_is_gone_or_was_added_is_named(copied: Path) -> None:
    (copied / "runs" / "state" / "seal.json").unlink()
    (copied / "runs" / "note.txt").write_text("mine")
    (copied / "runs" / "link").symlink_to("/etc")
    with pytest.raises(AlteredCertificate) as refused:
        judge_certificate(copied, JUDGES)
    for said in ("runs/link was added", "runs/note.txt was added", "runs/state/seal.json is missing"):
        assert said in str(refused.value)


def test_many_altered_files_do_not_fill_the_screen(copied: Path) -> None:
    for number in range(50):
        (copied / f"{number}.txt").write_text("mine")
    with pytest.raises(AlteredCertificate, match="and 40 more"):
        judge_certificate(copied, JUDGES)


def test_another_version_is_refused(copied: Path) -> None:
    file = copied / FILE
    file.write_text(file.read_text().replace(f'"version": {VERSION}', '"version": 99', 1))
    with pytest.raises(UnknownCertificateVersion, match=f"version 99; this streamproof reads version {VERSION}"):
        read_certificate(copied)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"version": 1}', b"[" * 100_000])
def test_what_is_no_certificate_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InvalidCertificate):
        read_certificate(tmp_path)


def test_a_sealed_certificate_with_a_field_missing_is_damaged(copied: Path) -> None:
    found = json.loads((copied / FILE).read_text())
    del found["plan"]
    content = json.dumps({**found, "seal": "0" * 64}).encode()
    seal = hashlib.sha256(content).hexdigest()
    (copied / FILE).write_bytes(content.replace(b"0" * 64, seal.encode(), 1))
    with pytest.raises(InvalidCertificate, match="plan"):
        read_certificate(copied)


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCertificate, match="holds no certificate"):
        read_certificate(tmp_path)


# Judged again


def again(folder: Path) -> Rejudged:
    return judge_certificate(folder, JUDGES)


def test_judged_again_it_comes_to_the_same(holding: Path, violated: Path) -> None:
    for folder, status in ((holding, ExitStatus.HOLDS), (violated, ExitStatus.VIOLATED)):
        judged = again(folder)
        assert judged.differences == ()
        assert judged.exit_status is status
        assert judged.conclusion.verdicts == judged.certificate.verdicts


def test_a_trial_that_is_said_to_hold_and_does_not_is_named(violated: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(violated, tmp_path / "forged"))

    def forge(found: dict[str, Any]) -> None:
        found["trials"][0]["verdicts"][ONCE_OUTPUT] = "HOLDS"
        found["verdicts"][1] = {"claim": ONCE_OUTPUT, "status": "HOLDS", "summary": "all is well"}
        found["counterexample"] = None

    rewritten(folder, forge)
    judged = again(folder)
    assert f"runs/kill: {ONCE_OUTPUT} is VIOLATED by its record, and HOLDS in the certificate" in judged.differences
    assert f"{ONCE_OUTPUT}: VIOLATED by the records, and HOLDS in the certificate" in judged.differences
    assert judged.exit_status is ExitStatus.USER_MISTAKE
    assert judged.conclusion.exit_status is ExitStatus.VIOLATED


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c["trials"][0].update(digest="0" * 64), "its history is not the one that the certificate tells of"),
        (lambda c: c["trials"][0].update(missed=True), "its crash struck by its record, and missed by the certificate"),
        (lambda c: c["trials"][0].update(folder="runs/none"), "runs/none is not a run in the certificate's folder"),
        (lambda c: c["trials"][0].update(folder="../holding0/runs/state"), "is not a run in the certificate's folder"),
        (lambda c: c["trials"].append(c["trials"][0]), "runs/state stands for more trials than it is a run of"),
        (lambda c: c["trials"][1].update(folder="runs/state"), "runs/state stands for more trials than it is a run of"),
        (lambda c: c.update(draw=None), "trials are said to be of a random sample, and none was drawn"),
        (lambda c: c["bounds"][0].update(upper=0.001), "the bounds are not what the sample comes to"),
        (lambda c: c["coverage"][0].update(kills=300), "the coverage is not what the plan and the trials come to"),
        (lambda c: c["verdicts"][0].update(summary="better"), "HOLDS by the records too, on other grounds"),
        (lambda c: c["verdicts"].pop(), f"{ONCE_OUTPUT}: HOLDS by the records, and no verdict in the certificate"),
        (lambda c: c["claims"].pop(), f"{ONCE_OUTPUT}: HOLDS in the certificate, which does not list it as a claim"),
        (lambda c: c["subject"].update(name="other"), "is a run of another subject: name differ"),
        (lambda c: c["trials"][0]["crashes"][0].update(key="1"), "exactly-once is UNKNOWN by its record, and HOLDS"),
        (lambda c: c["trials"].pop(), "runs/sampled is a run, and no trial of the certificate"),
        (lambda c: c["workload"].update(name="other"), "runs/state is a run on another input"),
        (lambda c: c["workload"].update(seed=8), "runs/sampled is a run on another input"),
        (lambda c: c["workload"].update(events=5), "runs/state is a run on another input"),
        (lambda c: c["workload"].update(events=7), "none of its runs was fed the 7 events that it tells of"),
        (
            lambda c: c.update(
                asked={"named": ["exactly-once", "recovers"], "victims": [], "recovering": False, "split_brain": False}
            ),
            "recovers was claimed, and the certificate does not list it as a claim",
        ),
    ],
)
def test_what_the_records_do_not_say_is_named(
    copied: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    rewritten(copied, change)
    judged = again(copied)
    assert any(said in difference for difference in judged.differences), judged.differences
    assert judged.exit_status is ExitStatus.USER_MISTAKE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wrong": "all of it"}, "first wrong output is another by its record: duplicate-output, batch 2 ('b', 2)"),
        ({"claim": "exactly-once"}, "does not violate exactly-once by its record, which is HOLDS"),
        ({"folder": "runs/none"}, "the counterexample is not one of the trials: runs/none"),
        ({"how": "crash-state"}, "the counterexample is not one of the trials: runs/kill"),
    ],
)
def test_a_counterexample_that_its_run_does_not_show_is_named(
    violated: Path, tmp_path: Path, change: dict[str, str], said: str
) -> None:
    folder = Path(shutil.copytree(violated, tmp_path / "forged"))
    rewritten(folder, lambda found: found["counterexample"].update(change))
    assert any(said in difference for difference in again(folder).differences)


def test_a_violation_that_was_taken_out_is_found_by_its_run(tmp_path: Path) -> None:
    certify_by_hand(tmp_path, {"kill": (crash_at(), How.KILL, AGAIN), "another": (crash_at(), How.KILL, BATCHES)})
    assert again(tmp_path).exit_status is ExitStatus.VIOLATED

    def forge(found: dict[str, Any]) -> None:
        found["trials"] = [one for one in found["trials"] if one["folder"] != "runs/kill"]
        found["counterexample"] = None

    rewritten(tmp_path, forge)
    write_certificate(tmp_path, with_conclusion(read_certificate(tmp_path)))
    judged = again(tmp_path)
    assert judged.conclusion.exit_status is ExitStatus.HOLDS
    assert judged.differences == ("runs/kill is a run, and no trial of the certificate",)
    assert judged.exit_status is ExitStatus.USER_MISTAKE


def test_a_run_that_cannot_be_judged_is_named(copied: Path) -> None:
    (copied / "runs" / "state" / "seal.json").unlink()
    rewritten(copied, lambda found: None)
    judged = again(copied)
    assert any("its records are gone" in difference for difference in judged.differences)


def test_smaller_batches_are_no_other_subject(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "small", crash_at(), subject={**SUBJECT, "batch_events": 1})
    digest = judge_run(tmp_path / "runs" / "small", (crash_at(),), CLAIMS, JUDGES).digest
    small = msgspec.structs.replace(trial(crash_at(), name="small"), digest=digest)
    write_certificate(tmp_path, unsealed(trials=(small,)))
    assert again(tmp_path).differences == ()


def test_one_recovery_can_stand_for_several_points_at_which_the_same_was_durable(tmp_path: Path) -> None:
    one, other = crash_at(2), crash_at(2, point=Point.ADD_BATCH, side=Side.AFTER)
    write_run(tmp_path / "runs" / "both", one, other, how=How.CRASH_STATE)
    digest = judge_run(tmp_path / "runs" / "both", (one,), CLAIMS, JUDGES).digest
    states = (trial(crash, how=How.CRASH_STATE, name="both") for crash in (one, other))
    trials = tuple(msgspec.structs.replace(state, digest=digest) for state in states)
    write_certificate(tmp_path, unsealed(plan=(Planned(one), Planned(other)), trials=trials))
    judged = again(tmp_path)
    assert judged.differences == ()
    assert judged.exit_status is ExitStatus.HOLDS


# One run


def statuses(folder: Path, *crashes: Crash) -> tuple[list[Status], str]:
    judged = judge_run(folder, crashes, CLAIMS, JUDGES)
    return [judged.statuses[str(claim)] for claim in CLAIMS], judged.reason


def test_to_hold_the_timeline_must_show_the_crash_where_it_is_said_to_be(tmp_path: Path) -> None:
    write_run(tmp_path, crash_at(2))
    assert statuses(tmp_path, crash_at(2)) == ([HOLDS, HOLDS], "")
    assert statuses(tmp_path, crash_at(1)) == (
        [UNKNOWN, UNKNOWN],
        "the timeline does not show that the driver dies before the driver adds batch 1 to the commit log",
    )
    assert statuses(tmp_path, crash_at(2), crash_at(2, recovering=True))[0] == [UNKNOWN, UNKNOWN]


def test_the_timeline_must_show_it_of_whom_it_is_said(tmp_path: Path) -> None:
    task = crash_at(2, actor="task", victim=Victim.EXECUTOR)
    write_run(tmp_path, task)
    assert statuses(tmp_path, task)[0] == [HOLDS, HOLDS]
    assert statuses(tmp_path, crash_at(2))[0] == [UNKNOWN, UNKNOWN]
    sent, by_task = (
        crash_at(2, point=Point.MESSAGE, actor=actor, victim=Victim.DRIVER) for actor in ("driver", "task")
    )
    write_run(tmp_path / "sent", by_task)
    assert statuses(tmp_path / "sent", sent)[0] == [HOLDS, HOLDS]


def test_crashes_must_have_struck_in_their_order(tmp_path: Path) -> None:
    write_run(tmp_path, crash_at(1), crash_at(2))
    assert statuses(tmp_path, crash_at(1), crash_at(2))[0] == [HOLDS, HOLDS]
    assert statuses(tmp_path, crash_at(2), crash_at(1))[0] == [UNKNOWN, UNKNOWN]


def test_a_violation_stands_whatever_is_not_proven(tmp_path: Path) -> None:
    write_run(tmp_path, crash_at(2), judged=AGAIN)
    assert statuses(tmp_path, crash_at(1))[0] == [UNKNOWN, VIOLATED]


def test_the_number_of_a_stage_is_not_what_names_the_end_of_a_task(tmp_path: Path) -> None:
    struck = crash_at(2, point=Point.TASK_END, key="2/14/0", actor="task")
    write_run(tmp_path, struck)
    assert statuses(tmp_path, msgspec.structs.replace(struck, key="2/9/0"))[0] == [HOLDS, HOLDS]
    assert statuses(tmp_path, msgspec.structs.replace(struck, key="1/9/0", batch=1))[0] == [UNKNOWN, UNKNOWN]


def test_the_record_must_show_the_order_of_tasks_in_which_a_crash_is_said_to_have_struck(tmp_path: Path) -> None:
    turned = in_other_order(crash_at(2))
    write_run(tmp_path / "plain", crash_at(2))
    said = "the record does not show the order of tasks in which the driver dies before the driver adds batch 2"
    found, why = statuses(tmp_path / "plain", turned)
    assert (found, why.startswith(said)) == ([UNKNOWN, UNKNOWN], True)
    write_run(tmp_path / "turned", turned)
    assert statuses(tmp_path / "turned", turned) == ([HOLDS, HOLDS], "")
    assert statuses(tmp_path / "turned", crash_at(2))[0] == [UNKNOWN, UNKNOWN]


def test_references_that_disagree_leave_a_run_unknown_with_the_rows(tmp_path: Path) -> None:
    write_run(tmp_path, crash_at(2), other=((0, {"a": 1, "b": 7}), *BATCHES[1:]))
    found, reason = statuses(tmp_path, crash_at(2))
    assert found == [UNKNOWN, UNKNOWN]
    assert "two runs without failures disagree" in reason
    assert "7" in reason


@pytest.mark.parametrize(
    ("subject", "error"),
    [
        ({"name": "s", "kind": "gap"}, InvalidHistory),
        ({key: value for key, value in SUBJECT.items() if key != "mode"}, DamagedHistory),
        ({**SUBJECT, "mode": "sideways"}, DamagedHistory),
    ],
)
def test_a_run_of_something_else_is_refused(
    tmp_path: Path, subject: dict[str, Any], error: type[InvalidHistory]
) -> None:
    write_run(tmp_path, crash_at(), subject=subject)
    with pytest.raises(error):
        judge_run(tmp_path, (crash_at(),), [exactly_once_output()], JUDGES)


# The command


def test_judge_takes_a_certificate(
    holding: Path, violated: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run_command_line(["judge", str(holding)]) == 0
    said = capsys.readouterr().out
    assert "1 of 1 planned crashes came to a verdict: 1 crash state, 1 real kill" in said
    assert "not covered  The loss of files that were not synced." in said
    assert "exactly-once          HOLDS" in said
    assert "files as written, and 2 trials judged again with the same verdicts" in said
    assert run_command_line(["judge", str(violated)]) == 1
    said = capsys.readouterr().out
    assert "exactly-once-output   VIOLATED   the driver dies before the driver adds batch 2 to the commit log" in said
    assert "replay it: streamproof replay counterexample.json" in said
    folder = Path(shutil.copytree(violated, tmp_path / "forged"))
    rewritten(folder, lambda found: found["trials"][0].update(digest=""))
    assert run_command_line(["judge", str(folder)]) == 3
    assert "does not say what its records come to" in capsys.readouterr().out


def test_judge_changes_nothing_in_a_certificate(holding: Path) -> None:
    before = {file: file.read_bytes() for file in files_of(holding)}
    run_command_line(["judge", str(holding)])
    assert {file: file.read_bytes() for file in files_of(holding)} == before


def test_judge_prints_a_certificate_as_json(violated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["judge", str(violated), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["exit_status"] == 1
    assert [verdict["status"] for verdict in found["verdicts"]] == ["HOLDS", "VIOLATED"]
    assert found["differences"] == []
    assert found["counterexample"]["folder"] == "runs/kill"


@pytest.mark.parametrize("harm", ["flip", "remove"])
def test_judge_ends_in_three_for_an_altered_certificate(
    copied: Path, capsys: pytest.CaptureFixture[str], harm: str
) -> None:
    file = copied / (FILE if harm == "remove" else "runs/state/timeline.jsonl")
    if harm == "remove":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes().replace(b"drained", b"drainee"))
    assert run_command_line(["judge", str(copied), "--json"]) == 3
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["kind"] == (
        "InvalidCertificate" if harm == "remove" else "AlteredCertificate"
    )
    assert ("holds no certificate" if harm == "remove" else "runs/state/timeline.jsonl was altered") in captured.err


def test_a_crash_state_that_is_passed_off_as_a_kill_is_noticed(tmp_path: Path) -> None:
    certificate = certify_by_hand(tmp_path, {"state": (crash_at(), How.CRASH_STATE, AGAIN)})
    forged = msgspec.structs.replace(certificate.trials[0], how=How.KILL)
    write_certificate(tmp_path, with_conclusion(msgspec.structs.replace(certificate, trials=(forged,))))
    differences = judge_certificate(tmp_path, JUDGES).differences
    assert "runs/state is a crash-state by its record, and a kill by the certificate" in differences
