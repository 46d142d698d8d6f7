"""What proves that a checkpoint store was disturbed, and that it no longer is. No engine is needed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from streamproof.harness.core.carriers import DISK_THROTTLE, STORE_FOLDER, STORE_VOLUME
from streamproof.harness.core.errors import OwnFailure, Unsupported
from streamproof.harness.core.quantities import seconds
from streamproof.harness.recording.history import Proof
from streamproof.harness.worlds.docker import storage
from streamproof.harness.worlds.docker.storage import CheckpointVolume, seconds_written
from streamproof.harness.worlds.spark.control.disturbances import FailStore, FillStore, LoseStore, NarrowDisk, SlowDisk

KEEPER, USUAL = "keeper", 0.01
OPERATIONS = 5
"""Of the disk, for one write of a probe."""


class Machine:
    """What containers answer, in place of an engine."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.full = False
        self.readonly: set[str] = set()
        self.probe: list[dict[str, Any]] = []
        """What a probe says that begins from now on."""
        self.client = Mock()
        self.client.api.create_container.return_value = {"Id": KEEPER}
        self.client.api.inspect_container.return_value = {"State": {"Pid": 7}}

        self.dead = False
        """Whether no process is there any more of a container that the engine says to be running."""
        self.incarnation = 1
        """Of every node."""
        self.writes = 0
        """How many operations the kernel has counted, of all containers."""
        self.waited: float | None = None
        """Seconds that it has counted, as with cgroups of version 2."""

    def run(self, client: object, container: str, operation: str, *arguments: str) -> dict[str, Any] | None:
        if container in self.gone:
            return None
        if self.dead and operation in ("remount", "throttle", "disk_writes"):
            return {"gone": True}
        match operation:
            case "disk_writes":
                return (
                    {"writes": self.writes} if self.waited is None else {"writes": self.writes, "waited": self.waited}
                )
            case "write":
                self.writes += OPERATIONS
                refused = container in self.readonly or self.full
                return {"refused": "EIO"} if refused else {"seconds": USUAL}
            case "remount":
                (self.readonly.add if arguments[-1] == "ro" else self.readonly.discard)("node-0-1")
                return {"readonly": arguments[-1] == "ro"}
            case "free":
                self.full = False
                return {}
            case "throttle":
                return dict(limit.split("=") for limit in arguments[3:])
        raise AssertionError(operation)

    def begin(self, client: object, container: str, operation: str, *arguments: str) -> Mock:
        self.full = operation == "fill" or self.full
        if operation == "write" and self.probe:
            self.writes += OPERATIONS
            self.waited = None if self.waited is None else self.waited + self.probe[-1].get("seconds", 0.0)
        return Mock(said=[{"full": 1}] if operation == "fill" else list(self.probe))

    def store(self, folder: Path, *planned: str) -> CheckpointVolume:
        store = CheckpointVolume(
            self.client,
            "image",
            "store",
            {},
            folder,
            set(planned),
            lambda node: f"{node}-{self.incarnation}",
            folder / "logs",
        )
        store.prepare()
        return store


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(storage, "run_inside", machine.run)
    monkeypatch.setattr(storage, "Background", machine.begin)
    monkeypatch.setattr(storage, "disk_of", lambda folder: "8:0")
    return machine


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        pytest.param([], 0.0, id="never begun"),
        pytest.param([{"began": 9.0}, {"seconds": 0.4}], 0.4, id="ended before"),
        pytest.param([{"began": 9.0}, {"seconds": 3.0}], 1.0, id="held until then"),
        pytest.param([{"began": 10.1}, {"seconds": 0.4}], 0.0, id="begun after"),
        pytest.param([{"began": 9.0}, {"refused": "EROFS"}], 0.0, id="refused"),
        pytest.param([{"began": 9.0}], 0.0, id="gone with its node"),
    ],
)
def test_a_write_counts_from_its_beginning_and_only_where_it_has_an_end(
    said: list[dict[str, Any]], wanted: float
) -> None:
    assert seconds_written(said, until=10.0) == pytest.approx(wanted)


def slowed(machine: Machine, folder: Path, longer: float) -> storage.SlowStore:
    """A store that has been slow for a minute, where a probe's write took so many seconds longer."""
    began = time.monotonic() - 60
    machine.probe = [{"began": began}, {"seconds": USUAL + longer}]
    slow = machine.store(folder, DISK_THROTTLE).slow("node-0", seconds(1))
    slow._began = began
    return slow


@pytest.mark.parametrize(("longer", "shown"), [(0.001, 0), (0.004, 0), (0.3, 300), (1.1, 1100)])
def test_a_write_that_took_hardly_longer_than_usual_was_not_slowed(
    machine: Machine, tmp_path: Path, longer: float, shown: int
) -> None:
    slow = slowed(machine, tmp_path, longer)
    machine.writes += 2 * OPERATIONS
    what = f"synchronized writes of the node's own, where a probe's took {shown} ms longer"
    assert slow.heal() == Proof(2 if shown else 0, what)


def test_what_probes_write_is_no_write_of_the_nodes_own(machine: Machine, tmp_path: Path) -> None:
    slow = slowed(machine, tmp_path, 0.9)
    again = slow._store.slow("node-0", seconds(1))
    slow._store.require_writable("node-0-1")
    machine.writes += 2  # The journal may want a little more.
    for one in (slow, again):
        assert one.heal().count == 0


def test_of_two_that_slow_a_disk_the_tighter_is_proven_while_it_lasts(machine: Machine, tmp_path: Path) -> None:
    loose = slowed(machine, tmp_path, 3.5)
    machine.writes += OPERATIONS
    tight = loose._store.slow("node-0", seconds(4))
    alike = loose._store.slow("node-0", seconds(4))
    tight._began = alike._began = loose._began
    machine.writes += 2 * OPERATIONS
    assert tight.heal().count == 2
    assert alike.heal().count == 0
    machine.writes += 4 * OPERATIONS
    assert loose.heal().count == 1 + 4


@pytest.mark.parametrize(("others", "count"), [(0.0, 0), (0.1, 0), (0.5, 3)])
def test_where_nobody_waited_but_the_probe_what_was_written_back_proves_nothing(
    machine: Machine, tmp_path: Path, others: float, count: int
) -> None:
    machine.waited = 20.0
    slow = slowed(machine, tmp_path, 0.9)
    machine.writes += 3 * OPERATIONS
    machine.waited += others
    assert slow.heal().count == count


def test_a_node_that_comes_back_is_probed_again(machine: Machine, tmp_path: Path) -> None:
    slow = machine.store(tmp_path, DISK_THROTTLE).slow("node-0", seconds(1))
    machine.probe = [{"began": time.monotonic() - 60}, {"seconds": 0.9}]
    machine.incarnation = 2
    slow.node_started("node-0", "node-0-2")
    machine.writes += OPERATIONS
    assert str(slow.heal()) == "synchronized writes of the node's own, where a probe's took 890 ms longer: 1"


REFUSED = "java.io.FileNotFoundException: {0}/offsets/.3.tmp (Read-only file system)\n"


def log(folder: Path, name: str, line: str) -> None:
    path = folder / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(line.format(folder))


@pytest.mark.parametrize(
    ("name", "line", "count"),
    [
        ("node-0.1.log", REFUSED, 1),
        ("node-0/app-1/0/stderr", REFUSED, 1),
        ("node-0.2.stderr.log", "OSError: [Errno 30] Read-only file system: '{0}/state/0'\n", 1),
        ("node-01.1.log", REFUSED, 0),
        ("driver.1.stderr.log", REFUSED, 0),
        ("node-0.1.log", "OSError: [Errno 30] Read-only file system: '/opt/theirs/cache'\n", 0),
        ("node-0.1.log", "all is well\n", 0),
    ],
)
def test_a_refused_write_is_one_that_the_nodes_own_processes_tell_of(
    machine: Machine, tmp_path: Path, name: str, line: str, count: int
) -> None:
    machine.probe = [{"began": 1.0}, {"refused": "EROFS"}]
    store = machine.store(tmp_path, STORE_FOLDER)
    log(tmp_path, "node-0.1.log", REFUSED)  # Of another fault, before.
    failing = store.fail("node-0")
    log(tmp_path, name, line)
    what = "lines of the node's own logs that tell of a refused write, where 1 of a probe were"
    assert failing.heal() == Proof(count, what)


def test_a_full_disk_is_one_that_processes_of_nodes_tell_of(machine: Machine, tmp_path: Path) -> None:
    store = machine.store(tmp_path, STORE_VOLUME)
    full = store.fill()
    assert full.heal().count == 0
    full = store.fill()
    log(tmp_path, "node-1/app-1/0/stderr", "java.io.IOException: No space left on device\n")
    what = "lines of the nodes' own logs that tell of a full disk, where the store was full (ENOSPC) 1 times"
    assert full.heal() == Proof(1, what)


def test_a_fault_ends_with_a_node_whose_end_the_engine_has_not_heard_of(machine: Machine, tmp_path: Path) -> None:
    store = machine.store(tmp_path, STORE_FOLDER, DISK_THROTTLE)
    failing, slow = store.fail("node-0"), store.slow("node-0", seconds(1))
    machine.dead = True
    assert failing.heal().count == slow.heal().count == 0


def test_that_a_store_can_be_written_to_again_is_seen_and_not_assumed(machine: Machine, tmp_path: Path) -> None:
    failing = machine.store(tmp_path, STORE_FOLDER).fail("node-0")
    machine.gone = {"node-0-1"}  # Paused, as it were.
    failing.heal()
    machine.gone.add(KEEPER)
    with pytest.raises(OwnFailure, match="keeper of the checkpoint store is gone"):
        failing.heal()
    with pytest.raises(OwnFailure, match="keeper of the checkpoint store is gone"):
        machine.store(tmp_path, DISK_THROTTLE)


def test_a_keeper_sees_the_machines_cgroups(machine: Machine, tmp_path: Path) -> None:
    machine.store(tmp_path, DISK_THROTTLE)
    given = machine.client.api.create_host_config.call_args.kwargs
    assert (given["pid_mode"], given["cgroupns"]) == ("host", "host")


def test_only_a_volume_is_filled_and_only_what_was_made_ready_is_carried(machine: Machine, tmp_path: Path) -> None:
    folder = machine.store(tmp_path, STORE_FOLDER)
    assert set(folder.carries) == {FailStore, LoseStore}
    with pytest.raises(Unsupported, match="to fill it would fill the disk under it"):
        folder.fill()
    assert set(machine.store(tmp_path, STORE_VOLUME).carries) == {FailStore, LoseStore, FillStore}
    assert set(machine.store(tmp_path, DISK_THROTTLE).carries) == {FailStore, LoseStore, SlowDisk, NarrowDisk}
    assert machine.store(tmp_path).carries == ()


def test_what_disturbs_a_store_heals_one_by_one(machine: Machine, tmp_path: Path) -> None:
    store = machine.store(tmp_path, STORE_VOLUME)
    first, second = store.disturb(FillStore()), store.disturb(FillStore())
    failing, again = store.disturb(FailStore("node-0")), store.disturb(FailStore("node-0"))
    failing.heal()
    assert machine.readonly == {"node-0-1"}
    again.heal()
    assert machine.readonly == set()
    first.heal()
    assert machine.full
    second.heal()
    assert not machine.full
