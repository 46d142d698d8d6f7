"""A cluster that is kept between runs: used again when it is clean, thrown away with a reason when it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import OwnFailure
from streamproof.harness.core.quantities import events
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.worlds.spark.control import warm
from streamproof.harness.worlds.spark.control.master_page import Application, MasterPage, Worker, not_idle
from streamproof.harness.worlds.spark.control.warm import Unclean, WarmCluster
from streamproof.reference_impls.gap import gap
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words


class Cluster:
    """Stands in for processes or containers. Its master writes a line for every run."""

    def __init__(self, label: str, folder: Path) -> None:
        self.label, self.folder = label, folder
        self.logs_folder = folder / "logs"
        self.left = Unclean()
        self.failure: OwnFailure | None = None
        self.runs_ended = 0
        self.stopped = False

    def __enter__(self) -> Cluster:
        self.logs_folder.mkdir(parents=True)
        self.say("up")
        return self

    def say(self, line: str) -> None:
        with (self.logs_folder / "master.1.log").open("a") as log:
            log.write(f"{line}\n")

    def stop(self) -> None:
        self.stopped = True

    def end_run(self) -> None:
        self.runs_ended += 1
        if self.failure is not None:
            raise self.failure

    def unclean(self) -> Unclean:
        return self.left


class Recorder(MemoryRecorder):
    facts: Mapping[str, Any]

    def deployed(self, facts: Mapping[str, object]) -> None:
        self.facts = facts


class Series:
    """Runs, one after the other, on what is kept warm."""

    def __init__(self, folder: Path, kept: WarmCluster[Any]) -> None:
        self.folder, self.kept = folder, kept
        self.clusters: list[Cluster] = []
        self.warmth: list[Mapping[str, Any]] = []

    @contextmanager
    def run(self, needs: object = "the same") -> Iterator[tuple[Path, Path, Cluster]]:
        """Where the run is recorded, where the cluster's nodes see it, and the cluster."""
        recorder = Recorder()
        folder = self.folder / f"run-{len(self.warmth)}"
        scenario = Scenario(gap(word_count(), checkpoint_every=events(60)), words(events=100))
        run = Run(folder.name, scenario, 1, recorder, {}, folder)

        def make(label: str, place: Path) -> Cluster:
            self.clusters.append(Cluster(label, place))
            return self.clusters[-1]

        with self.kept.serve(run, make, needs) as (there, cluster):
            self.warmth.append(recorder.facts["warm"])
            assert there.folder is not None
            yield folder, there.folder, cluster


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Series]:
    monkeypatch.setattr(warm, "CLEAN_SECONDS", 0.05)
    with WarmCluster[Any](tmp_path / "kept") as kept:
        made = Series(tmp_path, kept)
        yield made
    assert all(cluster.stopped for cluster in made.clusters)


def served(series: Series) -> list[tuple[int, str]]:
    return [(warmth["served"], warmth["replaces"]) for warmth in series.warmth]


def test_a_clean_cluster_serves_one_run_after_the_other(series: Series) -> None:
    for _ in range(3):
        with series.run() as (_, _, cluster):
            assert not cluster.stopped
    assert served(series) == [(0, ""), (1, ""), (2, "")]
    assert [cluster.runs_ended for cluster in series.clusters] == [3]
    assert {warmth["cluster"] for warmth in series.warmth} == {"run-0-cluster"}


def test_what_it_keeps_lies_beside_no_run(series: Series, tmp_path: Path) -> None:
    with series.run() as (recorded, there, _):
        assert recorded.parent == tmp_path
        assert there.parents[1] == tmp_path / "kept" / "run-0-cluster"


def test_what_does_not_become_clean_is_thrown_away_and_the_record_says_why(series: Series) -> None:
    with series.run() as (_, _, cluster):
        cluster.left = Unclean(("node-1 is paused",), ("node-2 does not run",))
    with series.run():
        assert cluster.stopped
    with series.run():
        pass
    assert served(series) == [(0, ""), (0, "node-1 is paused; node-2 does not run"), (1, "")]


def test_what_would_pass_and_does_not_is_thrown_away_in_the_end(series: Series) -> None:
    with series.run() as (_, _, cluster):
        cluster.left = Unclean(passing=("application app-1 has not ended",))
    with series.run():
        pass
    assert served(series) == [(0, ""), (0, "application app-1 has not ended")]


def test_a_cluster_has_a_moment_to_become_clean(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    with series.run() as (_, _, cluster):
        answers = iter([Unclean(passing=("node-1 does not run",)), Unclean()])
        monkeypatch.setattr(cluster, "unclean", lambda: next(answers))
    with series.run():
        pass
    assert served(series) == [(0, ""), (1, "")]


def test_a_cluster_on_which_a_run_failed_is_thrown_away(series: Series) -> None:
    with pytest.raises(KeyboardInterrupt), series.run():
        raise KeyboardInterrupt
    with pytest.raises(OwnFailure, match="no more"), series.run() as (_, _, cluster):
        cluster.failure = OwnFailure("no more")
    with series.run():
        pass
    assert [cluster.stopped for cluster in series.clusters] == [True, True, False]
    assert served(series) == [
        (0, ""),
        (0, "run run-0 ended in KeyboardInterrupt"),
        (0, "run run-1 ended in OwnFailure: no more"),
    ]


def test_a_run_that_needs_another_cluster_gets_one(series: Series) -> None:
    with series.run("one"):
        pass
    with series.run("another") as (_, _, cluster):
        assert cluster is series.clusters[1]
        assert series.clusters[0].stopped
    assert served(series) == [(0, ""), (0, "the next run needs another one")]


def test_a_cluster_makes_room_and_the_next_one_says_for_what(series: Series) -> None:
    series.kept.give_up("there is none")
    assert not series.kept.keeps_one
    with series.run():
        pass
    assert series.kept.keeps_one
    series.kept.give_up("its memory was needed")
    assert not series.kept.keeps_one
    assert series.clusters[0].stopped
    with series.run():
        pass
    assert served(series) == [(0, ""), (0, "its memory was needed")]


def test_a_run_gets_what_it_has_left_and_nothing_of_another(series: Series) -> None:
    for number in range(2):
        with series.run() as (recorded, inside, cluster):
            cluster.say(f"run {number}")
            (cluster.logs_folder / f"driver.{number + 1}.stderr.log").touch()
            (inside / "checkpoints" / "newest").write_text(f"{number}")
        assert (recorded / "checkpoints" / "newest").read_text() == f"{number}"
    first, second = (series.folder / f"run-{number}" / "logs" for number in range(2))
    assert (first / "master.1.log").read_text() == "up\nrun 0\n"
    assert (second / "master.1.log").read_text() == "run 1\n"
    assert {log.name for log in second.iterdir()} == {"master.1.log", "driver.2.stderr.log"}


def test_a_master_is_clean_when_every_worker_is_there_and_idle() -> None:
    idle, busy = Worker("a", 1, "ALIVE", 0, 0), Worker("b", 2, "ALIVE", 1, 640)
    dead = Worker("b", 3, "DEAD", 0, 0)
    assert not_idle(MasterPage("ALIVE", (idle, dead, idle), ()), 2) == []
    assert not_idle(MasterPage("RECOVERING", (idle, busy, dead), (Application("app-1", "x"),)), 3) == [
        "application app-1 (x) has not ended",
        "worker b:2 has an executor",
        "the master is RECOVERING",
        "2 of 3 workers are registered",
    ]
