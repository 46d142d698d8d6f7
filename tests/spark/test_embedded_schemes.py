"""Schemes on embedded Spark: crashes at exact addresses, judged, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from crashed_on_spark import ADDRESSES, masked_word_count
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Address, Moment
from streamproof.harness.core.errors import InvalidOperator, Unsupported
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import at_least_once
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Edge, Partitioning, Stage, Topology
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.running.judgement import judge_folder
from streamproof.harness.running.run import Finished, run_named, summary
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.options import EmbeddedOptions
from streamproof.harness.worlds.embedded.reaping import labelled_processes, reap
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

pytestmark = pytest.mark.spark

IN_EVERY_RUN = 1


def _run(scenario: Scenario, folder: Path, cluster: EmbeddedCluster | None = None) -> Finished:
    registry = Registry()
    return run_named(Named("test", "test", "", scenario), cluster or EmbeddedCluster(), registry, seed=1, folder=folder)


def _statuses(finished: Finished) -> dict[str, str]:
    judgement = finished.judgement
    return {v.guarantee.name: f"{v.status} {v.reason or v.summary}" for v in judgement.verdicts + judgement.broken}


@pytest.mark.parametrize(
    "text",
    [*ADDRESSES[:IN_EVERY_RUN], *(pytest.param(text, marks=pytest.mark.long) for text in ADDRESSES[IN_EVERY_RUN:])],
)
def test_a_crash_at_an_exact_address_is_masked_and_leaves_nothing_behind(text: str, tmp_path: Path) -> None:
    address = Address.parse(text)
    fault = Fault("crash", (address.actor,)).at(Moment.exactly(address))
    finished = _run(replace(masked_word_count(), faults=[fault]), tmp_path / "run")

    (struck,) = finished.history.struck()
    assert (struck.address, struck.bite.bit) == (text, True), struck.bite.why_not
    assert _statuses(finished) == {"precise-recovery": "HOLDS 600 inputs: outputs and state as without the failure"}
    assert labelled_processes(finished.description.run) == []


@pytest.mark.long
def test_passive_replication_without_the_sink_filter_repeats_and_loses_nothing(tmp_path: Path) -> None:
    registry = Registry()
    named = registry.scenario("word-count.passive-replication")
    finished = run_named(named, EmbeddedCluster(), registry, seed=1, folder=tmp_path / "run")

    assert {name: status.split()[0] for name, status in _statuses(finished).items()} == {
        "rollback-recovery-repeating": "HOLDS",
        "recovers-within": "HOLDS",
        "exactly-once-output": "VIOLATED",
    }
    (recovery,) = finished.judgement.recoveries
    assert recovery.total is not None
    assert 0 < recovery.total < seconds(10).micros
    _, _, again = judge_folder(finished.folder, registry)
    assert summary(again) == summary(finished.judgement)


@pytest.mark.parametrize(
    ("subject", "claim"),
    [
        pytest.param(amnesia(word_count()), "amnesia", marks=pytest.mark.long),
        (gap(word_count(), checkpoint_every=events(60)), "gap-recovery"),
    ],
    ids=["amnesia", "gap"],
)
def test_schemes_without_replay_lose_what_their_claim_allows(
    subject: SchemeSubject, claim: str, tmp_path: Path
) -> None:
    fault = crash("count-0").after(events(100))
    finished = _run(
        Scenario(subject, words(events=2_000, rate=2_000), [fault], breaks=[at_least_once()]), tmp_path / "run"
    )

    statuses = {name: status.split()[0] for name, status in _statuses(finished).items()}
    assert statuses == {claim: "HOLDS", "at-least-once": "VIOLATED"}


@pytest.mark.long
def test_neighbours_that_crash_at_once_after_some_time_recover_precisely(tmp_path: Path) -> None:
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    fault = crash("split-0", "count-1").after(seconds(0.3))
    finished = _run(Scenario(subject, words(events=2_000, rate=2_000), [fault]), tmp_path / "run")

    assert _statuses(finished) == {"precise-recovery": "HOLDS 2,000 inputs: outputs and state as without the failure"}
    assert [struck.bite.bit for struck in finished.history.struck()] == [True, True]


class Choking(Operator[dict[str, int]]):
    """Raises on the event numbered 30."""

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> list[Output]:
        if event.seq == 30:
            raise ValueError("cannot swallow this")
        return [(event.key, 1)]


@pytest.mark.long
def test_an_operator_that_raises_ends_the_run_with_its_message(tmp_path: Path) -> None:
    topology = Topology(
        "choking",
        {"choke": Stage(Choking())},
        (Edge("source", "choke", Partitioning.ONE_TO_ONE), Edge("choke", "sink", Partitioning.ONE_TO_ONE)),
    )
    folder = tmp_path / "run"
    with pytest.raises(InvalidOperator, match=r"choke-0 failed on event \(source-0, 30\).*cannot swallow this"):
        _run(Scenario(amnesia(topology), words(events=100)), folder)
    assert labelled_processes("run") == []
    assert "cannot swallow this" in (folder / "timeline.jsonl").read_text()


def test_more_replicas_than_nodes_are_refused() -> None:
    scenario = Scenario(active_replication(word_count(), replicas=3), words(events=100))
    with pytest.raises(Unsupported, match="needs as many nodes, and there are 2"):
        EmbeddedCluster(EmbeddedOptions(workers=2)).check(scenario)


COMMAND = (
    "import sys; from streamproof.harness.command_line.cli import main; sys.argv[0] = 'streamproof'; sys.exit(main())"
)


def test_nothing_survives_kill_9_of_the_harness_and_the_folder_judges_as_unknown(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    harness = subprocess.Popen(
        [
            *(sys.executable, "-c", COMMAND, "run", "word-count.passive-replication"),
            *("--cluster", "embedded", "--folder", str(folder)),
        ],
        cwd=tmp_path,
    )
    wait_until(
        lambda: (folder / "timeline.jsonl").exists() and "placed" in (folder / "timeline.jsonl").read_text(),
        60,
        "the slices to be placed",
    )
    os.kill(harness.pid, signal.SIGKILL)
    harness.wait()

    reap()
    assert labelled_processes("killed") == []
    judged = subprocess.run(
        [sys.executable, "-c", COMMAND, "judge", str(folder), "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert judged.returncode == 2, judged.stderr
    assert {verdict["status"] for verdict in json.loads(judged.stdout)["verdicts"]} == {"UNKNOWN"}
