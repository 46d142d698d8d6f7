"""A search that is spread over a Spark cluster: it finds what a search on this machine finds, and outlives its
workers."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamproof import Event, Output, Topology, numbered
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules, SearchPlan, Successive
from streamproof.harness.exploration.search import SearchBudget, SearchFindings, search
from streamproof.harness.worlds.embedded.reaping import LabelledProcess, labelled_processes
from streamproof.scenarios.trace import Trace

pytestmark = pytest.mark.spark

BROKEN = "mutant:passive-replication-without-vector@trace.passive-replication"
REPLAYING = "mutant:passive-replication-without-inner-filter@trace.passive-replication"
SOUND = "trace.passive-replication"
LOCAL = "local[2]"
PLANS: list[SearchPlan] = [EverySingle(), RandomSchedules(7)]


class Own(Trace):
    """Of this module, which no other process can import."""


class Deadly(Trace):
    """Takes the process with it, but for one, once it has taken an input twice in a row."""

    def __init__(self, spared: int) -> None:
        self.spared = spared

    def process(self, event: Event, state: dict[str, list[list[object]]]) -> tuple[Output]:
        if event.value in state.get(event.key, ()):
            if os.getpid() != self.spared:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("seen before")
        return super().process(event, state)


def bench_of(origin: str, amount: int = 40, operator: Any = None) -> Bench:
    scenario = Registry().scenario(origin).scenario
    if operator is not None:
        subject: Any = scenario.subject
        topology: Topology = subject.topology
        stages = {**topology.stages, "trace": replace(topology.stages["trace"], operator=operator)}
        scenario = replace(scenario, subject=replace(subject, topology=replace(topology, stages=stages)))
    return Bench(replace(scenario, workload=numbered(events=amount, batch=4), faults=()), Registry(), seed=7)


def told(findings: SearchFindings) -> dict[str, Any]:
    """What a search found, without who searched and for how long."""
    left_out = ("seconds", "jobs", "master", "losses", "course")
    return {name: value for name, value in vars(findings).items() if name not in left_out}


def ours(owner: int | None = None) -> list[LabelledProcess]:
    """What the search of a process, or of this one, has started."""
    pid = os.getpid() if owner is None else owner
    return [process for process in labelled_processes() if process.owner is not None and process.owner.pid == pid]


def python_workers() -> list[LabelledProcess]:
    """Without the daemon that forks them."""
    daemons = [process for process in ours() if process.kind == "python-worker"]
    return [process for process in daemons if process.parent in {daemon.pid for daemon in daemons}]


def test_it_finds_what_a_search_on_this_machine_finds() -> None:
    bench = bench_of(BROKEN, operator=Own())
    here = search(bench, PLANS, SearchBudget(150))
    there = search(bench, PLANS, SearchBudget(150), master=LOCAL)
    assert told(here) == told(there)
    assert there.violations
    assert (there.jobs, there.master, there.lost, there.cut_short) == (2, LOCAL, 0, "")
    assert ours() == []


@pytest.mark.long
def test_pairs_come_to_their_end_there_too() -> None:
    bench = bench_of(SOUND, 1)
    there = search(bench, [EverySingle(), Successive(2)], SearchBudget(), master=LOCAL)
    assert there.exhausted
    assert there.pairs is not None
    assert there.pairs.exact
    assert there.tried == there.pairs.tried + len(bench.calm_classes)


@pytest.mark.parametrize("master", [LOCAL, pytest.param("local-cluster[2,1,1024]", marks=pytest.mark.long)])
@pytest.mark.long
def test_a_worker_that_is_killed_costs_nothing(master: str) -> None:
    killed: list[int] = []
    rounds = iter((10, 60, 110, 160) if master == LOCAL else (10,))
    due = next(rounds)

    def show(findings: SearchFindings) -> None:
        nonlocal due
        # A worker that was between two tasks takes nothing with it: then the next ones are killed.
        if findings.tried >= due and not findings.losses:
            due = next(rounds, 1_000)
            victims = python_workers() if master == LOCAL else [p for p in ours() if p.kind == "executor"]
            for process in victims if master == LOCAL else victims[:1]:
                process.process.end()
                killed.append(process.pid)

    bench = bench_of(BROKEN)
    there = search(bench, PLANS, SearchBudget(200), master=master, show=show)
    assert killed
    assert told(there) == told(search(bench, PLANS, SearchBudget(200)))
    assert there.losses or master != LOCAL
    assert ours() == []


@pytest.mark.long
def test_what_kills_its_workers_is_lost_and_the_rest_is_searched() -> None:
    bench = bench_of(REPLAYING, 1, Deadly(os.getpid()))
    there = search(bench, [EverySingle()], SearchBudget(), master=LOCAL)
    assert there.exhausted
    assert 0 < there.lost < len(bench.calm_classes) / 2
    assert there.tried + there.lost == len(bench.calm_classes)
    assert sum(there.losses.values()) > there.lost, "a part of the search, and then the pieces that it was lost with"
    # What is lost here fails there, where it takes nobody with it.
    with pytest.raises(InvalidOperator, match="seen before"):
        search(bench, [EverySingle()], SearchBudget())


@pytest.mark.parametrize("kind", ["driver-jvm", pytest.param("driver", marks=pytest.mark.long)])
def test_a_search_whose_driver_dies_keeps_what_it_found(kind: str) -> None:
    def show(findings: SearchFindings) -> None:
        for process in ours():
            if findings.tried >= 10 and process.kind == kind:
                process.process.end()

    there = search(bench_of(SOUND), PLANS, SearchBudget(1_000_000), master=LOCAL, show=show)
    assert there.tried >= 10
    assert there.cut_short
    assert not there.exhausted
    assert ours() == []


@pytest.mark.long
def test_code_that_fails_under_a_schedule_is_reported_with_it() -> None:
    class Fragile(Trace):
        def process(self, event: Event, state: dict[str, list[list[object]]]) -> tuple[Output]:
            if event.value in state.get(event.key, ()):
                raise ValueError("seen before")
            return super().process(event, state)

    with pytest.raises(InvalidOperator, match=r"(?s)seen before.*This was under seed 7 and the schedule: crash"):
        search(bench_of(BROKEN, operator=Fragile()), [EverySingle()], SearchBudget(), master=LOCAL)
    assert ours() == []


# The command line


@pytest.mark.long
def test_a_scenario_in_the_current_directory_is_sent_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "user_spread.py").write_text(
        "from streamproof import *\n"
        "def mine():\n"
        "    subject = passive_replication(trace(), checkpoint_every=events(20))\n"
        "    return Scenario(subject, numbered(events=40), claims=[exactly_once_output()])\n"
    )
    status = run_command_line(["explore", "user_spread:mine", "--schedules", "20", "--spark-master", LOCAL, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert status == 1
    assert document["spark_master"] == LOCAL
    assert document["schedules"] == 20
    assert [kept["anomaly"] for kept in document["counterexamples"]] == ["duplicate-output"]


@pytest.mark.parametrize(
    ("master", "message"),
    [
        ("nonsense", "nonsense cannot be searched on: Spark knows no master of this form"),
        ("spark://localhost:9", "spark://localhost:9 cannot be searched on: no Spark master answers there"),
    ],
)
def test_a_master_that_cannot_be_used_is_refused(master: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", SOUND, "--schedules", "20", "--spark-master", master]) == 3
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert ours() == []


@pytest.fixture
def searching(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], int]]]:
    """A search with a terminal for its live line."""
    begun: list[tuple[subprocess.Popen[str], int]] = []

    def begin(origin: str) -> tuple[subprocess.Popen[str], int]:
        terminal, theirs = pty.openpty()
        command = "from streamproof.harness.command_line.cli import main; main()"
        arguments = ["explore", origin, "--events", "40", "--schedules", "1000000", "--spark-master", LOCAL]
        process = subprocess.Popen(
            [sys.executable, "-c", command, *arguments],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
            cwd=tmp_path,
            text=True,
        )
        os.close(theirs)
        begun.append((process, terminal))
        return begun[-1]

    yield begin
    for process, terminal in begun:
        process.kill()
        process.communicate()
        os.close(terminal)


def until(terminal: int, shown: bytes, seconds: float = 90.0) -> None:
    seen = b""
    late = time.monotonic() + seconds
    while re.search(shown, seen) is None:
        assert time.monotonic() < late, seen
        ready, _, _ = select.select([terminal], [], [], 0.2)
        seen += os.read(terminal, 4096) if ready else b""


def gone(owner: int, scratch: Path | None = None, seconds: float = 30.0) -> bool:
    """Whether nothing is left of a search. Its driver removes the folder before it ends, unless who cleans up after
    the dead on this machine (a run of another test) comes first and ends the driver: then that one removes it after."""

    def left() -> bool:
        return bool(ours(owner)) or (scratch is not None and scratch.exists())

    late = time.monotonic() + seconds
    while left() and time.monotonic() < late:
        time.sleep(0.1)
    return not left()


def test_ctrl_c_prints_and_keeps_what_was_found(
    searching: Callable[..., tuple[subprocess.Popen[str], int]], tmp_path: Path
) -> None:
    process, terminal = searching(BROKEN)
    until(terminal, rb"[1-9]\d* VIOLATED")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 1
    assert out.startswith("VIOLATED")
    assert "interrupted, in" in out
    assert (tmp_path / "counterexample.json").exists()
    assert gone(process.pid)


def test_a_search_that_is_killed_leaves_nobody(searching: Callable[..., tuple[subprocess.Popen[str], int]]) -> None:
    process, terminal = searching(SOUND)
    until(terminal, rb"[1-9]\d* HOLDS")
    left = ours(process.pid)
    assert {found.kind for found in left} >= {"driver", "driver-jvm", "python-worker"}
    (scratch,) = {Path(found.scratch) for found in left if found.scratch}
    assert scratch.exists()
    process.kill()
    process.wait()
    assert gone(process.pid, scratch)
