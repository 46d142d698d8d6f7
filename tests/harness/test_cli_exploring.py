"""`explore` and `replay` on the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamproof.harness.command_line.cli import execute

BROKEN = "mutant:passive-replication-without-source-log@trace.passive-replication"
SOUND = "trace.passive-replication"
PROGRAM = [sys.executable, "-c", "from streamproof.harness.command_line.cli import main; main()"]


@dataclass
class Answer:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Ask = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(*arguments: object) -> Answer:
        status = execute([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    return ask


def test_a_search_that_finds_nothing_ends_in_0(ask: Ask, tmp_path: Path) -> None:
    answer = ask("explore", SOUND, "--schedules", 60, "--events", 40, "--jobs", 1)
    assert (answer.status, answer.err) == (0, "")
    assert "trace under passive-replication     simulator, 3 nodes · 40 events of numbered · seed 7" in answer.out
    assert "schedules  60, in" in answer.out
    assert "0 VIOLATED" in answer.out
    assert "with 95 % confidence" in answer.out
    assert list(tmp_path.iterdir()) == []


def test_a_violation_is_shrunk_saved_and_replayed(ask: Ask, tmp_path: Path) -> None:
    answer = ask("explore", BROKEN, "--schedules", 20, "--events", 40, "--jobs", 1)
    assert answer.status == 1
    first, *_ = answer.out.splitlines()
    assert first.startswith("VIOLATED   rollback-recovery-repeating: lost-input, found at schedule")
    assert "\n  1  crash relay-0   after relay-0 " in answer.out
    assert "  with 1 event. streamproof replay counterexample.json" in answer.out
    replayed = ask("replay", "counterexample.json")
    assert replayed.status == 1
    assert "rollback-recovery-repeating   VIOLATED   lost-input" in replayed.out
    assert "the very history that was found" in replayed.out
    document = ask("replay", "counterexample.json", "--json").document
    assert (document["exact"], document["reproduced"], document["exit_status"]) == (True, True, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["counterexample.json"]


def test_no_counterexample_is_overwritten_unasked(ask: Ask, tmp_path: Path) -> None:
    for _ in range(2):
        ask("explore", BROKEN, "--schedules", 5, "--events", 40, "--jobs", 1)
    ask("explore", BROKEN, "--schedules", 5, "--events", 40, "--jobs", 1, "--output", "mine.json")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["counterexample-2.json", "counterexample.json", "mine.json"]


def test_json_says_the_same(ask: Ask) -> None:
    answer = ask("explore", BROKEN, "--schedules", 20, "--events", 40, "--jobs", 1, "--json")
    document = answer.document
    assert answer.status == document["exit_status"] == 1
    assert document["schedules"] == sum(document["verdicts"].values()) == 20
    (kept,) = document["counterexamples"]
    assert kept["file"] == "counterexample.json"
    assert kept["workload"]["events"] == 1
    assert document["violated"][0]["anomaly"] == "lost-input"


def test_every_pair_of_a_short_input_is_tried(ask: Ask) -> None:
    document = ask("explore", SOUND, "--pairs", "--events", 1, "--jobs", 2, "--json").document
    assert document["exhausted"]
    assert document["schedules"] > 300
    assert document["verdicts"]["VIOLATED"] == 0
    assert document["addresses"]["struck"] == document["addresses"]["exist"]


def test_the_table_of_mutants(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamproof.harness.registry import Registry

    names = ("passive-replication-without-source-log", "passive-replication-without-output-log")
    mutants = {name: Registry().mutants[name] for name in names}
    monkeypatch.setattr(Registry, "mutants", mutants)
    answer = ask("explore", "--mutants", "--events", 40)
    assert answer.status == 0
    head, *rows = answer.out.splitlines()
    assert head.split() == ["mutant", "must", "show", "found", "schedules", "faults", "events", "breaks"]
    assert rows[0].split()[:4] == [names[0], "lost-input", "yes", "2"]
    assert rows[-1] == "  2 mutants, 2 found"
    alive = ask("explore", "--mutants", "--events", 1, "--schedules", 1, "--json", "--seed", 3)
    found = [mutant["found"] for mutant in alive.document["mutants"]]
    assert alive.status == (0 if all(found) else 1)


def test_a_mutant_that_lives_ends_in_1(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamproof.harness.registry import Registry

    name = "gap-without-checkpointed-state"
    monkeypatch.setattr(Registry, "mutants", {name: Registry().mutants[name]})
    answer = ask("explore", "--mutants", "--events", 4, "--schedules", 10)
    assert answer.status == 1
    assert "1 mutants, 0 found, 1 live" in answer.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explore"], "name a scenario, or use --mutants"),
        (["explore", "nonsense"], "there is no scenario 'nonsense'"),
        (["explore", SOUND, "--seconds", "0"], "positive number of seconds"),
        (["explore", SOUND, "--schedules", "0"], "--schedules"),
        (["explore", SOUND, "--pairs", "--jobs", "1"], "at most 30 events, not 200"),
        (["explore", "query.word-count"], "the simulator runs schemes"),
        (["explore", "--mutants", "--pairs"], "--mutants goes with neither"),
        (["replay", "none.json"], "none.json cannot be read"),
    ],
)
def test_mistakes_end_in_3(ask: Ask, arguments: list[str], message: str) -> None:
    answer = ask(*arguments)
    assert (answer.status, answer.out) == (3, "")
    assert message in answer.err
    assert "Traceback" not in answer.err


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def started(*arguments: str) -> subprocess.Popen[str]:
    """A search on two cores that is under way."""
    process = subprocess.Popen(
        [*PROGRAM, "explore", *arguments, "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while len(children(process.pid)) < 3 and time.monotonic() < until:  # Two, and the one that counts semaphores.
        time.sleep(0.05)
    time.sleep(2)
    return process


def gone(pids: list[int]) -> bool:
    until = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_ctrl_c_prints_what_was_found_and_leaves_nobody() -> None:
    process = started(BROKEN, "--events", "40", "--schedules", "1000000")
    workers = children(process.pid)
    # As a terminal does it: all processes of the search are told.
    for pid in (process.pid, *workers):
        os.kill(pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "")
    assert "interrupted, in" in out
    assert out.startswith("VIOLATED")
    assert gone(workers)


def test_a_search_that_is_killed_leaves_nobody() -> None:
    process = started(SOUND, "--events", "40", "--schedules", "1000000")
    workers = children(process.pid)
    process.kill()
    process.communicate(timeout=60)
    assert gone(workers)
