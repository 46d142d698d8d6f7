"""The checkpoint store of containers: full, read-only, slow and lost; what proves it, and that it heals."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bare_nodes import BareNodes, bare_nodes
from streamproof.harness.core.carriers import DISK_THROTTLE, STORE_FOLDER, STORE_VOLUME
from streamproof.harness.core.errors import Unsupported
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.recording.history import Proof
from streamproof.harness.worlds.docker import labels
from streamproof.harness.worlds.docker.executing import run_in_shell, run_inside
from streamproof.harness.worlds.docker.reaping import remove_all
from streamproof.harness.worlds.docker.storage import CheckpointVolume, disk_of

pytestmark = pytest.mark.docker

REST = ["sleep", "600"]
MakeStore = Callable[[set[str]], CheckpointVolume]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[BareNodes]:
    with bare_nodes(tmp_path) as started:
        yield started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoints"
    made.mkdir()
    return made


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    made = tmp_path / "logs"
    made.mkdir()
    return made


@pytest.fixture
def make(nodes: BareNodes, folder: Path, logs: Path) -> MakeStore:
    """A store that is prepared, with two nodes that have it."""

    def started(planned: set[str]) -> CheckpointVolume:
        name = f"streamproof-{nodes.run}-store"
        store = CheckpointVolume(nodes.client, nodes.image, name, nodes.labels.of(), folder, planned, nodes.of, logs)
        store.prepare()
        for node in ("node-0", "node-1"):
            nodes.start(node, REST, store.mount)
        return store

    return started


@pytest.fixture
def write(nodes: BareNodes, folder: Path) -> Callable[[str], dict[str, Any]]:
    """Write as a node does."""

    def written(node: str) -> dict[str, Any]:
        answer = run_inside(nodes.client, nodes.of(node), "write", str(folder))
        assert answer is not None
        return answer

    return written


Write = Callable[[str], dict[str, Any]]


def quickest(write: Write, node: str) -> float:
    """Seconds, of three writes: others use the disk too."""
    return float(min(write(node)["seconds"] for _ in range(3)))


def test_a_full_store_refuses_every_node_until_it_heals(
    make: MakeStore, write: Write, nodes: BareNodes, logs: Path
) -> None:
    store = make({STORE_VOLUME})
    full = store.fill()
    assert write("node-0") == write("node-1") == {"refused": "ENOSPC"}
    # What gets free is filled as well.
    nodes.kill("node-0")
    nodes.start("node-0", REST, store.mount)
    full.node_started("node-0", nodes.of("node-0"))
    assert write("node-0") == {"refused": "ENOSPC"}

    (logs / "node-1.1.log").write_text("java.io.IOException: No space left on device\n")
    proof = full.heal()
    assert proof.count == 1
    assert re.fullmatch(r"lines of the nodes' own logs .* \(ENOSPC\) [1-9][0-9]* times", proof.what)
    assert write("node-0").keys() == write("node-1").keys() == {"seconds"}


def test_a_failing_store_refuses_one_node_and_no_other(make: MakeStore, write: Write, nodes: BareNodes) -> None:
    store = make({STORE_FOLDER})
    failing = store.fail("node-0")
    assert write("node-0") == {"refused": "EROFS"}
    assert write("node-1").keys() == {"seconds"}
    nodes.kill("node-0")
    nodes.start("node-0", REST, store.mount)
    failing.node_started("node-0", nodes.of("node-0"))
    assert write("node-0") == {"refused": "EROFS"}

    proof = failing.heal()
    assert proof.count == 0, "a probe's proves nothing"
    assert re.fullmatch("lines of the node's own logs .*, where [1-9][0-9]* of a probe were", proof.what)
    assert write("node-0").keys() == {"seconds"}


def test_a_slow_store_takes_its_time_for_one_node(make: MakeStore, write: Write) -> None:
    store = make({DISK_THROTTLE})
    slow = store.slow("node-0", by=seconds(0.5))
    took = quickest(write, "node-0")
    assert took > 0.2
    assert quickest(write, "node-1") < took

    proof = slow.heal()
    assert 2 <= proof.count <= 3, "and not the probe's own"
    assert longer(proof) > 100
    assert quickest(write, "node-0") < took / 2


def test_a_disk_that_slows_nobody_but_the_probe_proves_nothing(make: MakeStore, nodes: BareNodes, folder: Path) -> None:
    store = make({DISK_THROTTLE})
    slow, narrow = store.slow("node-0", by=seconds(0.5)), store.narrow("node-1", rate=20_000)
    for node in ("node-0", "node-1"):  # What is only buffered waits for no disk.
        buffered = f"head -c 4000 /dev/zero >{folder}/{node}"
        assert run_in_shell(nodes.client, nodes.of(node), buffered).status == 0
    for probe in (*slow._probes, *narrow._probes):
        wait_until(lambda probe=probe: probe.ended, 20, "a probe to end")  # type: ignore[misc]
    for proof in (slow.heal(), narrow.heal()):
        assert proof.count == 0, proof
        assert longer(proof) > 100


def test_what_the_successor_of_a_node_writes_is_slowed_and_counts(
    make: MakeStore, write: Write, nodes: BareNodes
) -> None:
    store = make({DISK_THROTTLE})
    slow = store.slow("node-0", by=seconds(0.3))
    nodes.kill("node-0")
    nodes.start("node-0", REST, store.mount)
    slow.node_started("node-0", nodes.of("node-0"))
    write("node-0")
    assert slow.heal().count == 1


def longer(proof: Proof) -> int:
    """ms that the text of a proof says."""
    found = re.fullmatch("synchronized writes of the node's own, where a probe's took ([0-9]+) ms longer", proof.what)
    assert found is not None, proof
    return int(found[1])


def test_a_slow_store_heals_at_once_in_the_middle_of_a_write(make: MakeStore, write: Write) -> None:
    store = make({DISK_THROTTLE})
    slow = store.slow("node-0", by=seconds(5))
    (probe,) = slow._probes
    began = wait_until(lambda: probe.said, 10, "a probe to begin")[0]["began"]
    time.sleep(1)
    proof = slow.heal()
    assert proof.count == 0
    count = longer(proof)
    waited = 1000 * (time.monotonic() - began)
    assert 999 - 1000 * store._usual < count < waited, "as long as it has been waiting, but for what a write takes"
    took = probe.said[-1]["seconds"]
    assert took < 4, "it was not held any longer"
    assert quickest(write, "node-0") < took / 2


def test_a_narrow_disk_takes_so_many_bytes_a_second(make: MakeStore, write: Write) -> None:
    store = make({DISK_THROTTLE})
    narrow = store.narrow("node-0", rate=10_000)
    took = quickest(write, "node-0")
    assert took > 0.3, "4 KiB, and the journal"
    assert 2 <= narrow.heal().count <= 3
    assert quickest(write, "node-0") < took / 2


def test_what_is_lost_of_a_store_is_gone_and_the_rest_is_there(make: MakeStore, write: Write, folder: Path) -> None:
    store = make({STORE_FOLDER})
    (folder / "count-0" / "1").mkdir(parents=True)
    (folder / "count-0" / "1" / "newest").write_text("state")
    (folder / ".count-0.1.draft").write_text("state")
    (folder / "count-1").mkdir()
    proof = store.lose(["count-0", "split-0"]).heal()
    assert (proof.count, proof.what) == (2, "files lost")
    assert [path.name for path in folder.iterdir()] == ["count-1"]
    assert write("node-0").keys() == {"seconds"}


def test_an_undisturbed_store_has_no_keeper(make: MakeStore, nodes: BareNodes, folder: Path) -> None:
    store = make(set())
    found = nodes.client.containers.list(all=True, filters={"label": f"{labels.RUN}={nodes.run}"})
    assert {container.labels.get(labels.NODE) for container in found} == {"node-0", "node-1"}
    assert (store.mount["Type"], store.mount["Source"]) == ("bind", str(folder))


def test_the_volume_goes_with_the_run(make: MakeStore, nodes: BareNodes) -> None:
    make({STORE_VOLUME}).fill()
    label = {"label": f"{labels.RUN}={nodes.run}"}
    assert len(nodes.client.volumes.list(filters=label)) == 1
    remove_all(nodes.client, nodes.run)
    assert nodes.client.volumes.list(filters=label) == []


def test_what_cannot_be_slowed_is_refused(make: MakeStore) -> None:
    with pytest.raises(Unsupported, match="lies in memory"):
        make({STORE_VOLUME, DISK_THROTTLE})
    with pytest.raises(Unsupported, match="lies on no disk"):
        disk_of(Path("/proc"))
