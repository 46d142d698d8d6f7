"""Storage faults of containers: a checkpoint store that is full, read-only, slow, or lost.

The checkpoint store of a run is a folder that all of its containers see under the same path. A keeper, a container of
the harness's own, is there for the runs that disturb it, and for no others; what needs privileges is done by it, and
the containers under test have none.

full       The store is a tmpfs of a limited size, a volume of the engine's, and the keeper fills it: every node gets
           ENOSPC. What lies in it is gone after the run.
read-only  The mount of one container is made read-only: that node gets EROFS, uid 0 too.
slow       The kernel's blkio throttle (io.max with cgroups of version 2) on the disk under the folder, for one
           container. It bites on direct writes and on fsync, which is how checkpoints are written; a write that is only
           buffered is as fast as ever. A probe's write shows by how much; that anything but the probe was slowed is
           for the kernel to say, which counts what the container's processes write and wait for.
lost       Everything in the store is removed while the run goes on.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import docker
from docker.errors import APIError, DockerException
from docker.types import Mount
from requests.exceptions import RequestException

from ...core.carriers import DISK_THROTTLE, STORE_FOLDER, STORE_VOLUME
from ...core.errors import OwnFailure, Unsupported
from ...core.quantities import Duration
from ...core.waiting import wait_until
from ...recording.history import Proof
from ..spark.control.disturbances import FailStore, FillStore, LoseStore, NarrowDisk, SlowDisk
from .executing import Background, run_inside
from .told_in_logs import LogsFromNow

SIZE = 64 << 20
"""Bytes of a store that can be filled."""
_OPERATIONS_OF_A_WRITE, _BYTES_OF_A_WRITE = 5, 12_800
"""That the disk does for one small file that is written and synchronized, data and journal; measured on ext4."""
_CGROUPS = "/machine/cgroup"
"""Where the keeper sees the machine's cgroups."""
_PROBE_PAUSE = 0.1
_FULL_SECONDS = 5.0
_USUAL_WRITES = 3
_NO_LIMIT = 1 << 30
"""Operations a second that no disk comes to."""
_CLEAR_SHARE, _CLEAR_FACTOR = 0.25, 2
"""Of what was asked for, and of what is usual: a write that took longer by less than that may have done so anyway."""


class CheckpointVolume:
    """The checkpoint store of one run. Its containers mount `mount`; who removes what carries the run's labels removes
    what this starts."""

    def __init__(
        self,
        client: docker.DockerClient,
        image: str,
        name: str,
        labels: Mapping[str, str],
        folder: Path,
        planned: Set[str],
        container_of: Callable[[str], str],
        logs: Path,
    ) -> None:
        """What is made is called `name`; `planned` names the carriers of the faults to come; `container_of` gives the
        present container of a node; `logs` is where nodes write theirs."""
        self._logs = logs
        self._client = client
        self._image = image
        self._name = name
        self._labels = dict(labels)
        self._folder = folder
        self._fills = STORE_VOLUME in planned
        self._slows = DISK_THROTTLE in planned
        self._planned = bool({STORE_VOLUME, STORE_FOLDER, DISK_THROTTLE} & planned)
        self._container_of = container_of
        self._keeper = ""
        self._device = ""
        self._usual = 0.0
        """Seconds that the longest of some writes took with nothing wrong."""
        self._operations = 1
        """How many operations of the disk the shortest of them took."""
        self._own: dict[str, list[Sequence[Mapping[str, Any]]]] = {}
        """Container -> what the harness's own writes in it have said, those that go on too."""
        self._throttles: dict[str, list[_Throttle]] = {}
        """Node -> what is in force."""
        self.lock = threading.RLock()
        """For what is in force, and to whom it is."""
        self._in_force: list[_OnStore] = []
        self.mount = (
            Mount(str(folder), name, type="volume") if self._fills else Mount(str(folder), str(folder), type="bind")
        )
        self.carries: tuple[type, ...] = (
            *((FailStore, LoseStore) if self._planned else ()),
            *((FillStore,) if self._fills else ()),
            *((SlowDisk, NarrowDisk) if self._slows else ()),
        )

    def prepare(self) -> None:
        """Make what the planned disturbances need, before any container of the run is there.

        Raises Unsupported where they cannot be had, OwnFailure when the engine fails.
        """
        if not self._planned:
            return
        if self._slows:
            if self._fills:
                raise Unsupported("a checkpoint store that is filled lies in memory, where nothing can be slowed")
            self._device = disk_of(self._folder)
        try:
            if self._fills:
                options = f"size={SIZE},uid={os.geteuid()},gid={os.getegid()},mode=0755"
                self._client.api.create_volume(
                    self._name, "local", {"type": "tmpfs", "device": "tmpfs", "o": options}, self._labels
                )
            self._start_keeper()
        except (DockerException, RequestException) as problem:
            raise OwnFailure(f"the keeper of the checkpoint store cannot be started: {problem}") from problem
        self.require_writable()
        if self._slows:
            self._measure_usual()

    def _measure_usual(self) -> None:
        # A kernel of today counts from the first limit on.
        self._set_limits(self._keeper, {"operations": str(_NO_LIMIT), "bytes": "0"})
        writes = []
        for _ in range(_USUAL_WRITES):
            before, took, after = self._counted(self._keeper), self._written(self._keeper), self._counted(self._keeper)
            if before is None or took is None or after is None:
                raise OwnFailure("the keeper of the checkpoint store is gone: it cannot write")
            writes.append((took, after.operations - before.operations))
        self._set_limits(self._keeper, {"operations": "0", "bytes": "0"})
        self._usual = max(took for took, _ in writes)
        self._operations = max(1, min(operations for _, operations in writes))

    def _start_keeper(self) -> None:
        mounts = [self.mount]
        if self._slows:
            mounts.append(Mount(_CGROUPS, "/sys/fs/cgroup", type="bind"))
        api = self._client.api
        created = api.create_container(
            self._image,
            ["sleep", "infinity"],
            name=self._name,
            user="0:0",
            labels=self._labels,
            host_config=api.create_host_config(
                init=True,
                mounts=mounts,
                network_mode="none",
                # To enter a node's mounts, and to find its cgroup, takes the machine's processes and privileges over
                # them.
                pid_mode="host",
                # With a namespace of its own it would see the nodes' cgroups under other paths.
                cgroupns="host",
                cap_drop=["ALL"],
                cap_add=["DAC_OVERRIDE", "FOWNER", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"],
                security_opt=["apparmor=unconfined"],
            ),
        )
        self._keeper = created["Id"]
        api.start(self._keeper)

    # -- what disturbs it ---------------------------------------------------------------------------------------------

    def disturb(self, disturbance: FillStore | FailStore | SlowDisk | NarrowDisk | LoseStore) -> _OnStore:
        in_force: _OnStore
        with self.lock:  # A node that starts meanwhile finds it begun, or is told of it.
            match disturbance:
                case FillStore():
                    in_force = self.fill()
                case FailStore(node=node):
                    in_force = self.fail(node)
                case SlowDisk(node=node, by=by):
                    in_force = self.slow(node, by)
                case NarrowDisk(node=node, rate=rate):
                    in_force = self.narrow(node, rate)
                case LoseStore(actors=actors):
                    in_force = self.lose(actors)
            self._in_force.append(in_force)
        return in_force

    def node_started(self, node: str, container: str) -> None:
        with self.lock:
            for in_force in self._in_force:
                in_force.node_started(node, container)

    def fill(self) -> FullStore:
        """For all nodes. The proof: that their own processes tell of ENOSPC, where it was seen.

        Raises Unsupported where it would fill a real disk.
        """
        if not self._fills:
            raise Unsupported(f"{self._folder} is no volume of a fixed size: to fill it would fill the disk under it")
        for in_force in self._in_force:
            if isinstance(in_force, FullStore) and not in_force.healed:
                return FullStore(self, in_force.filler, self.told())
        told = self.told()
        filler = Background(self._client, self._keeper, "fill", str(self._folder))
        wait_until(lambda: filler.said or filler.ended, _FULL_SECONDS, "the store to be full", lambda: filler.problem)
        if not filler.said:
            raise OwnFailure(f"the store could not be filled: {filler.problem}")
        return FullStore(self, filler, told)

    def fail(self, node: str) -> FailingStore:
        """For one node. The proof: that its own processes tell of a write that was refused, where a probe's were."""
        return FailingStore(self, node)

    def slow(self, node: str, by: Duration) -> SlowStore:
        """For one node: a checkpoint takes about so much longer. The proof: what the node's own processes wrote and
        waited for, where a probe's write took clearly longer."""
        operations = round(_OPERATIONS_OF_A_WRITE / by.seconds)
        if operations:
            return SlowStore(self, node, _Throttle(by.seconds, operations=operations))
        # One operation a second is the least that there is.
        return SlowStore(self, node, _Throttle(by.seconds, bytes=round(_BYTES_OF_A_WRITE / by.seconds)))

    def narrow(self, node: str, rate: int) -> SlowStore:
        """For one node: so many bytes a second. The proof is as of `slow`."""
        return SlowStore(self, node, _Throttle(_BYTES_OF_A_WRITE / rate, bytes=rate))

    def lose(self, actors: Sequence[str]) -> LostStore:
        """What is kept under these names, for good. The proof: how many files were lost."""
        return LostStore(Proof(int(self._kept("lose", str(self._folder), *actors)["lost"]), "files lost"))

    # -- how ----------------------------------------------------------------------------------------------------------

    def told(self, node: str | None = None) -> LogsFromNow:
        """By a node, or by all, from now on."""
        return LogsFromNow(self._logs, node)

    def tells_of_refusals(self, logs: LogsFromNow) -> int:
        """How many lines tell that the folder of the checkpoints took nothing."""
        return logs.lines_with(os.strerror(errno.EROFS), str(self._folder))

    def container_of(self, node: str) -> str:
        return self._container_of(node)

    def keep_writing(self, container: str) -> Background:
        return self._probe(container, "keep_writing", str(_PROBE_PAUSE))

    def write_once(self, container: str) -> Background:
        return self._probe(container, "write")

    def _probe(self, container: str, operation: str, *arguments: str) -> Background:
        probe = Background(self._client, container, operation, str(self._folder), *arguments)
        self._own.setdefault(container, []).append(probe.said)
        return probe

    def disk_use(self, container: str) -> DiskUse | None:
        """What the processes of a container have written to the disk, and waited for, but for what the harness has
        written there. None: it has ended."""
        counted = self._counted(container)
        if counted is None:
            return None
        now = time.monotonic()
        own = [writes_said(said, now) for said in list(self._own.get(container, ()))]
        operations = counted.operations - self._operations * sum(writes for writes, _ in own)
        if counted.waited is None:
            return DiskUse(operations, None)
        return DiskUse(operations, counted.waited - sum(seconds for _, seconds in own))

    def own_writes(self, before: DiskUse, after: DiskUse, asked: float) -> int:
        """About how many writes like a probe's lie between the two, where it is clear that they waited: the file system
        does not take just as many operations for each."""
        if before.waited is not None and after.waited is not None:
            waited = after.waited - before.waited
            if waited < _CLEAR_SHARE * asked:
                return 0
        operations = max(0, after.operations - before.operations)
        return (operations + self._operations // 2) // self._operations

    def _counted(self, container: str) -> DiskUse | None:
        pid = self._pid(container)
        found = self._kept("disk_writes", str(pid), _CGROUPS, self._device) if pid else {"gone": True}
        return None if "gone" in found else DiskUse(int(found["writes"]), found.get("waited"))

    def let_write(self, container: str, writable: bool) -> bool:
        """Whether the container runs, and sees its store so now."""
        pid = self._pid(container)
        if not pid:
            return False
        how = "rw" if writable else "ro"
        seen = self._kept("remount", str(pid), str(self._folder), how)
        if "gone" in seen:
            return False  # It has just ended.
        if seen["readonly"] is writable:
            raise OwnFailure(f"the store of a container is not {how} though its kernel said so")
        return True

    def throttle(self, node: str, more: _Throttle | None = None, less: _Throttle | None = None) -> None:
        """Let the node's present container have the throttles that are in force for it."""
        with self.lock:
            throttles = self._throttles.setdefault(node, [])
            self._reckon(throttles)
            if more is not None:
                throttles.append(more)
            if less is not None:
                throttles.remove(less)
            tightest = {name: _tightest(throttles, name) for name in ("operations", "bytes")}
            wanted = {name: str(getattr(one, name) if one else 0) for name, one in tightest.items()}
            container = self._container_of(node)
            self._set_limits(container, wanted)
            use = self.disk_use(container) if throttles else None
            if use is not None:
                for one in filter(None, tightest.values()):
                    one.since = container, use

    def _reckon(self, throttles: Sequence[_Throttle]) -> None:
        """What was written so far is proof of those that were the tightest. What a container had counted that has ended
        went with it."""
        for one in throttles:
            if one.since is not None:
                container, before = one.since
                after = self.disk_use(container)
                one.slowed += 0 if after is None else self.own_writes(before, after, one.asked)
                one.since = None

    def _set_limits(self, container: str, wanted: Mapping[str, str]) -> None:
        """Of what a container writes to the disk a second; "0": none. Where it does not run, nothing is limited."""
        pid = self._pid(container)
        if not pid:
            return
        limits = (f"{name}={value}" for name, value in wanted.items())
        found = self._kept("throttle", str(pid), _CGROUPS, self._device, *limits)
        if "gone" not in found and found != wanted:
            raise OwnFailure(f"the kernel has {found} as the limits of a container's disk, and not {wanted}")

    def free(self) -> None:
        """Remove what fills it."""
        self._kept("free", str(self._folder))

    def is_full(self) -> bool:
        return any(isinstance(one, FullStore) and not one.healed for one in self._in_force)

    def fails(self, node: str) -> bool:
        return any(isinstance(one, FailingStore) and one.node == node and not one.healed for one in self._in_force)

    def require_writable(self, container: str | None = None) -> None:
        """Raises OwnFailure when a container, or the keeper where that cannot be asked, cannot write to it; while it is
        full, nobody can."""
        if self.is_full():
            return
        if container is not None and self._written(container) is not None:
            return
        if self._written(self._keeper) is None:
            raise OwnFailure("the keeper of the checkpoint store is gone: nothing shows that it can be written to")

    def longer_than_usual(self, seconds: float, asked: float) -> int:
        """In milliseconds; 0 where it is not clear that this is of a throttle by which so many were asked for."""
        longer = seconds - self._usual
        clear = longer >= _CLEAR_SHARE * asked and seconds >= _CLEAR_FACTOR * self._usual
        return round(longer * 1000) if clear else 0

    def _written(self, container: str) -> float | None:
        """Seconds that a write took. None: the container does not run, or is paused."""
        answer = run_inside(self._client, container, "write", str(self._folder))
        if answer is None:
            return None
        if "refused" in answer:
            raise OwnFailure(f"the checkpoint store cannot be written to, though nothing disturbs it: {answer}")
        took = float(answer["seconds"])
        self._own.setdefault(container, []).append([{"began": time.monotonic() - took}, answer])
        return took

    def _kept(self, operation: str, *arguments: str) -> dict[str, Any]:
        answer = run_inside(self._client, self._keeper, operation, *arguments)
        if answer is None:
            raise OwnFailure(f"the keeper of the checkpoint store is gone: it cannot {operation}")
        return answer

    def _pid(self, container: str) -> int:
        """Of its first process, as this machine sees it; 0: it does not run."""
        try:
            return int(self._client.api.inspect_container(container)["State"]["Pid"])
        except APIError as problem:
            raise OwnFailure(f"a container cannot be looked at: {problem.explanation}") from problem


@dataclass(frozen=True)
class DiskUse:
    """What the processes of a container have done to a disk so far."""

    operations: int
    """Of writing, that they had to wait for."""
    waited: float | None
    """Seconds that any of them waited for a disk. None: `operations` are set apart from what nobody waits for."""


@dataclass(eq=False)
class _Throttle:
    """What one disturbance asks for, a second; 0: nothing."""

    asked: float
    """How many seconds longer a write should take."""
    operations: int = 0
    bytes: int = 0
    slowed: int = 0
    """How many writes of the node's own there were while nothing tighter was in force."""
    since: tuple[str, DiskUse] | None = None
    """The container that this holds up now, and what had been written there before."""


def _tightest(throttles: Sequence[_Throttle], limit: str) -> _Throttle | None:
    """Of several alike it is the first, beside which the others change nothing."""
    return min(
        (one for one in throttles if getattr(one, limit)), key=lambda one: int(getattr(one, limit)), default=None
    )


class _OnStore(Protocol):
    def node_started(self, node: str, container: str) -> None: ...

    def heal(self) -> Proof: ...


class FullStore:
    def __init__(self, store: CheckpointVolume, filler: Background, told: LogsFromNow) -> None:
        """`told` is what the nodes tell from before it was full."""
        self._store = store
        self._logs = told
        self.filler = filler
        self.healed = False

    def node_started(self, node: str, container: str) -> None:
        """It finds the store full, as all do."""

    def heal(self) -> Proof:
        # What is wrong with a write that the kernel refuses so seldom says where that was.
        told = self._logs.lines_with(os.strerror(errno.ENOSPC))
        with self._store.lock:
            self.healed = True
            if not self._store.is_full():
                self._store.free()
                self.filler.wait()
            self._store.require_writable()
        seen = max((line["full"] for line in self.filler.said), default=0)
        what = f"lines of the nodes' own logs that tell of a full disk, where the store was full (ENOSPC) {seen} times"
        return Proof(told if seen else 0, what)


class FailingStore:
    def __init__(self, store: CheckpointVolume, node: str) -> None:
        self._store = store
        self.node = node
        self._container = ""
        self._logs = store.told(node)
        self._probes: list[Background] = []
        self.healed = False
        self._fail(store.container_of(node))

    def _fail(self, container: str) -> None:
        if container != self._container and self._store.let_write(container, False):
            self._container = container
            self._probes.append(self._store.keep_writing(container))

    def node_started(self, node: str, container: str) -> None:
        if node == self.node and not self.healed:
            self._fail(container)

    def heal(self) -> Proof:
        told = self._store.tells_of_refusals(self._logs)
        with self._store.lock:
            self.healed = True
            if self._container and not self._store.fails(self.node) and self._store.let_write(self._container, True):
                self._store.require_writable(self._container)
        for probe in self._probes:
            probe.end()
        refused = sum("refused" in line for probe in self._probes for line in probe.said)
        what = f"lines of the node's own logs that tell of a refused write, where {refused} of a probe were"
        return Proof(told if refused else 0, what)


class SlowStore:
    def __init__(self, store: CheckpointVolume, node: str, throttle: _Throttle) -> None:
        self._store = store
        self._node = node
        self._throttle = throttle
        self._healed = False
        store.throttle(node, more=throttle)
        self._began = time.monotonic()
        self._probes = [store.write_once(store.container_of(node))]

    def node_started(self, node: str, container: str) -> None:
        if node == self._node and not self._healed:
            self._store.throttle(node)
            self._probes.append(self._store.write_once(container))

    def heal(self) -> Proof:
        with self._store.lock:
            self._healed = True
            healed = time.monotonic()
            self._store.throttle(self._node, less=self._throttle)
        for probe in self._probes:
            probe.wait()
        # What heals before a write has ended cannot have held it any longer.
        asked = min(self._throttle.asked, healed - self._began)
        took = max(seconds_written(probe.said, healed) for probe in self._probes)
        longer = self._store.longer_than_usual(took, asked)
        writes = self._throttle.slowed if longer else 0
        return Proof(writes, f"synchronized writes of the node's own, where a probe's took {longer} ms longer")


def seconds_written(said: Sequence[Mapping[str, Any]], until: float) -> float:
    """That a write took, as far as it went on until then; 0 where it had not begun, was refused, or has no end.

    `until` is of the machine's monotonic clock, which containers share.
    """
    began = next((line["began"] for line in said if "began" in line), None)
    took = next((line["seconds"] for line in said if "seconds" in line), None)
    return 0.0 if began is None or took is None else max(0.0, min(took, until - began))


def writes_said(said: Sequence[Mapping[str, Any]], now: float) -> tuple[int, float]:
    """How many writes a probe has begun that were not refused, and how many seconds they have taken till now."""
    lines = list(said)
    begun = [line["began"] for line in lines if "began" in line]
    took = [line["seconds"] for line in lines if "seconds" in line]
    refused = sum("refused" in line for line in lines)
    goes_on = len(begun) > len(took) + refused
    return len(begun) - refused, sum(took) + (max(0.0, now - begun[-1]) if goes_on else 0.0)


@dataclass(frozen=True)
class LostStore:
    """There is nothing to heal."""

    proof: Proof

    def node_started(self, node: str, container: str) -> None:
        """It finds nothing."""

    def heal(self) -> Proof:
        return self.proof


def disk_of(folder: Path, blocks: Path = Path("/sys/dev/block")) -> str:
    """`major:minor` of the whole disk that a folder lies on: the kernel throttles no partitions.

    Raises Unsupported where that is no disk.
    """
    number = os.stat(folder).st_dev
    device = blocks / f"{os.major(number)}:{os.minor(number)}"
    if not device.exists():
        raise Unsupported(
            f"{folder} lies on no disk of its own (device {device.name}), so it cannot be slowed: "
            "use a run folder on a disk"
        )
    resolved = device.resolve()
    whole = resolved.parent if (resolved / "partition").exists() else resolved
    return (whole / "dev").read_text().strip()
