"""Schemes and queries in containers: crashes at exact addresses, judged, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import ImageNotFound

from crashed_on_spark import ADDRESSES, masked_word_count
from streamproof.faults.bandwidth import bandwidth
from streamproof.faults.crash import crash
from streamproof.faults.pause import pause
from streamproof.faults.slow_close import slow_close
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Address, Moment
from streamproof.harness.core.errors import MissingTool, Unsupported
from streamproof.harness.core.quantities import events, ms, seconds
from streamproof.harness.core.schedule import Fault, checkpoint
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.recording.history import FaultHealed
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.docker import image, labels
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.docker.engine import connect
from streamproof.harness.worlds.docker.options import ContainerOptions
from streamproof.harness.worlds.docker.reaping import reap_containers
from streamproof.harness.worlds.docker.spark import SparkContainers
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

pytestmark = pytest.mark.docker

COMMAND = (
    "import sys; from streamproof.harness.command_line.cli import main; sys.argv[0] = 'streamproof'; sys.exit(main())"
)


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = connect()
    yield client
    client.close()


def _left(engine: docker.DockerClient, run: str | None = None) -> list[str]:
    """The names of the run's containers and networks that are there, or of all runs'."""
    label = {"label": labels.RUN if run is None else f"{labels.RUN}={run}"}
    containers: list[Any] = engine.containers.list(all=True, filters=label, ignore_removed=True)
    return [str(one.name) for one in (*containers, *engine.networks.list(filters=label))]


def _run(scenario: Scenario, folder: Path) -> Finished:
    registry = Registry()
    return run_named(Named("test", "test", "", scenario), DockerCluster(), registry, seed=1, folder=folder)


def _statuses(finished: Finished) -> dict[str, str]:
    judgement = finished.judgement
    return {v.guarantee.name: f"{v.status} {v.reason or v.summary}" for v in judgement.verdicts + judgement.broken}


def test_a_crash_at_an_exact_address_is_masked_and_leaves_nothing_behind(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    text = ADDRESSES[0]
    address = Address.parse(text)
    fault = Fault("crash", (address.actor,)).at(Moment.exactly(address))
    finished = _run(replace(masked_word_count(), faults=[fault]), tmp_path / "run")

    (struck,) = finished.history.struck()
    assert (struck.address, struck.bite.bit) == (text, True), struck.bite.why_not
    assert struck.bite.proof is not None
    assert struck.bite.proof.count == 128 + signal.SIGKILL
    assert "exit status of container" in struck.bite.proof.what
    assert _statuses(finished) == {"precise-recovery": "HOLDS 600 inputs: outputs and state as without the failure"}
    assert _left(engine, finished.description.run) == []
    assert not (tmp_path / "run" / "scratch").exists()
    # Of every node, the one that was killed and the executors included.
    logs = {str(path.relative_to(tmp_path / "run" / "logs")) for path in (tmp_path / "run" / "logs").rglob("*")}
    assert {"master.1.log", "node-0.1.log", "node-1.1.log", "node-2.1.log", "driver.1.stderr.log"} <= logs
    assert sum(name.startswith(struck.bite.node or "") and name.endswith("/stderr") for name in logs) == 1


@pytest.mark.long
def test_neighbours_that_crash_at_once_come_back_and_recover_precisely(tmp_path: Path) -> None:
    """Two of three nodes go: only when the cluster has started them again is there one for each slice."""
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    fault = crash("split-0", "count-1").after(seconds(0.3))
    again = crash("split-0").after(seconds(9))
    finished = _run(Scenario(subject, words(events=12_000, rate=1_000), [fault, again]), tmp_path / "run")

    assert _statuses(finished) == {"precise-recovery": "HOLDS 12,000 inputs: outputs and state as without the failure"}
    assert [struck.bite.bit for struck in finished.history.struck()] == [True, True, True]
    assert len(list((tmp_path / "run" / "logs").glob("node-*.2.log"))) >= 2


@pytest.mark.long
def test_a_pause_is_survived(tmp_path: Path) -> None:
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    fault = pause("count-0").after(seconds(0.3)).lasting(seconds(4))
    finished = _run(Scenario(subject, words(events=4_000, rate=1_000), [fault]), tmp_path / "run")

    assert _statuses(finished) == {"precise-recovery": "HOLDS 4,000 inputs: outputs and state as without the failure"}
    (struck,) = finished.history.struck()
    assert (struck.bite.bit, str(struck.bite.proof)) == (True, "containers paused: 1")


def test_links_are_slowed_by_a_toxiproxy_in_a_container_of_the_runs_own(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    faults = [
        # Not before something passes there, however busy the machine is.
        bandwidth("split-0", "count-0", rate=5_000).at(checkpoint(2).durable.of("count-0")).lasting(seconds(1)),
        slow_close("count-1", "sink-0", by=ms(400)).after(seconds(0.5)).lasting(seconds(4)),
        crash("count-1").after(seconds(1)),
    ]
    finished = _run(Scenario(subject, words(events=6_000, rate=1_000), faults), tmp_path / "run")

    assert _statuses(finished) == {"precise-recovery": "HOLDS 6,000 inputs: outputs and state as without the failure"}
    proofs = [entry.proof for entry in finished.history.timeline if isinstance(entry, FaultHealed)]
    assert [(proof.what.partition(" took ")[0], proof.count > 0) for proof in proofs] == [
        ("bytes that", True),
        ("connections whose close", True),
    ]
    assert proofs[0].count < 10_000, "of 5,000 a second"
    assert "Starting HTTP server" in (tmp_path / "run" / "logs" / "toxiproxy.log").read_text()
    assert _left(engine, finished.description.run) == []


@pytest.mark.long
def test_a_query_whose_driver_is_killed_does_everything_once(engine: docker.DockerClient, tmp_path: Path) -> None:
    registry = Registry()
    finished = run_named(
        registry.scenario("query.word-count"), DockerCluster(), registry, seed=1, folder=tmp_path / "run"
    )
    assert {name: status.split()[0] for name, status in _statuses(finished).items()} == {
        "exactly-once": "HOLDS",
        "exactly-once-output": "HOLDS",
    }
    assert [struck.bite.bit for struck in finished.history.struck()] == [True]
    assert _left(engine, finished.description.run) == []


@pytest.mark.long
def test_two_clusters_side_by_side_do_not_meet(engine: docker.DockerClient, tmp_path: Path) -> None:
    options = ContainerOptions(workers=1)
    with (
        SparkContainers("side-a", tmp_path / "a", options) as first,
        SparkContainers("side-b", tmp_path / "b", options) as second,
    ):
        assert first.address != second.address
        assert first.master_url != second.master_url
        assert first.kill_node("node-0").bit
        # What runs has an owner that lives.
        assert reap_containers(engine) == []
        assert second.exit_status(second.nodes()["node-0"].container) is None
        assert not first.kill_node("node-0").bit
    assert _left(engine, "side-a") == _left(engine, "side-b") == []


def test_containers_have_limits_an_init_and_no_way_out(engine: docker.DockerClient, tmp_path: Path) -> None:
    with SparkContainers("limits", tmp_path / "run", ContainerOptions(workers=1)) as cluster:
        for node in cluster.nodes().values():
            attributes = engine.containers.get(node.container).attrs
            host = attributes["HostConfig"]
            assert (host["Init"], host["Privileged"], host["CapDrop"], host["CapAdd"]) == (True, False, ["ALL"], None)
            assert host["Memory"] == host["MemorySwap"] == cluster.options.limits_mb[node.role.partition("-")[0]] << 20
            assert host["CpuQuota"] == cluster.options.cpus * host["CpuPeriod"]
            assert host["PortBindings"] in (None, {})
        (network,) = engine.networks.list(filters={"label": f"{labels.RUN}=limits"}, greedy=True)
        assert network.attrs["Internal"] is True


@pytest.mark.long
def test_nothing_survives_kill_9_of_the_harness_once_it_is_reaped(engine: docker.DockerClient, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    before = set(_left(engine))
    harness = subprocess.Popen(
        [
            *(sys.executable, "-c", COMMAND, "run", "word-count.passive-replication-masked"),
            *("--cluster", "docker", "--folder", str(folder)),
        ],
        cwd=tmp_path,
    )
    wait_until(
        lambda: (folder / "timeline.jsonl").exists() and "placed" in (folder / "timeline.jsonl").read_text(),
        90,
        "the slices to be placed",
    )
    os.kill(harness.pid, signal.SIGKILL)
    harness.wait()
    assert len(set(_left(engine)) - before) >= 5
    assert (folder / "scratch").exists()

    (reaped,) = reap_containers(engine)
    assert (len(reaped.containers), len(reaped.networks), reaped.survivors) == (5, 1, ())
    assert set(_left(engine)) == before
    assert not (folder / "scratch").exists()
    assert reap_containers(engine) == []


def test_an_image_of_the_users_own_must_be_made_from_ours(engine: docker.DockerClient) -> None:
    def build(base: str, tag: str) -> None:
        engine.images.build(fileobj=BytesIO(f"FROM {base}\nRUN echo mine > /mine".encode()), tag=tag, rm=True)

    mine, other = "streamproof-test/mine:1", "streamproof-test/other:1"
    try:
        build(image.tag(), mine)
        build(image.BASE, other)
        assert image.require(engine, mine) == mine
        with pytest.raises(Unsupported, match=r"other:1 does not hold what.*FROM streamproof/spark-node"):
            image.require(engine, other)
    finally:
        for name in (mine, other):
            with suppress(ImageNotFound):
                engine.images.remove(name)
    with pytest.raises(MissingTool, match="the engine has no image streamproof-test/mine:1"):
        image.require(engine, mine)
