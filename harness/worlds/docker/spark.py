"""A real Spark standalone cluster made of containers, each of which can be killed on its own.

One master, some workers with one executor each, and drivers; all on a network of the run's own that has no
way out, all made from one image. A node is a container. The container of a node that has ended stays until the end of
the run, with its exit status, and the next incarnation of the node is another container with the same address.

Logs, checkpoints and what must outlive a node lie in the run's folder, which containers see under the same path. The
code under test is what the harness itself can import: its folders are mounted, to be read only.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from docker.errors import APIError, DockerException
from docker.types import Mount
from requests.exceptions import RequestException

from ...contracts.injection import Part
from ...core.carriers import CPU_QUOTA, MEMORY_LIMIT
from ...core.errors import (
    DeadlinePassed,
    OwnFailure,
    ProcessDied,
    StorageFailed,
    StreamproofError,
    Unsupported,
    UserMistake,
)
from ...core.waiting import wait_until
from ...core.wire import Endpoint
from ...install.private_files import write_private
from ...install.settings import LOG4J2, MOST_CORES, as_properties, profile_settings
from ...install.toxiproxy_server import PORT, server_command, toxiproxy_answers
from ..embedded.reaping import NODE, RUN, mark_scratch, remove_scratch, this_process
from ..spark.control.coming_up import MASTER_IS_UP, WORKER_IS_REGISTERED, has_come_up, master_comes
from ..spark.control.disturbances import Disturbance, InForce
from ..spark.control.layout import MASTER_CLASS, QUICK_JVM, WORKER_CLASS, Layout
from ..spark.control.master_page import not_idle, read_master_page
from ..spark.control.nodes import ADDRESS
from ..spark.control.warm import Unclean
from . import image
from .cleanliness import Granted, StandingNode, belongs_to, container_changes, granted
from .code import code_under_test
from .disturbing import Carrier, Disturbers
from .engine import connect
from .executing import run_inside
from .jars import bring_jars
from .labels import RunLabels
from .launches import Launches
from .limits import PERIOD, Limits
from .network import RunNetwork, make_network
from .options import ContainerOptions
from .packets import TRIALS, PacketCarrier
from .proofs import KILLED, ContainerKill, ContainerStop, PartKill
from .reaping import containers_of, remove_all, remove_containers
from .sidecars import Sidecars
from .storage import CheckpointVolume

MASTER = "master"
_MASTER_PORT = 7077
_TOXIPROXY = 240
"""The number of the address that toxiproxy has; nodes count from 0."""
_HELPER_MB = 256
"""What a container may use that is no node."""
_GATES = "gates"
"""The folder of files that nodes wait for before they begin."""
_TMP = Path("/tmp")


@dataclass
class _Node:
    """One node and its present incarnation."""

    name: str
    role: str
    number: int
    """Its address."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    incarnation: int = 0
    container: str = ""
    """The engine's id of its newest incarnation."""
    granted: Granted | None = None
    """To that container, at its start."""
    log: Path = Path()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:]) or "(its log is empty)"


class ContainerDriver:
    """One incarnation of a driver."""

    def __init__(self, containers: SparkContainers, name: str, container: str, stdout: Path, stderr: Path) -> None:
        self.name = name
        self.container = container
        self.stdout = stdout
        self.stderr = stderr
        self._containers = containers
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its exit status; None: it runs. The engine is asked once a container has ended, and else a thread waits."""
        if self._status is None:
            self._status = self._containers.exit_status(self.container)
        return self._status

    def wait(self, seconds: float) -> int:
        wait_until(lambda: self.poll() is not None, seconds, f"driver {self.name} to end")
        status = self.poll()
        assert status is not None
        return status


class SparkContainers:
    """Owns every container that it starts, and their network; on leaving the context none of them is left."""

    def __init__(
        self,
        run_id: str,
        folder: Path,
        options: ContainerOptions | None = None,
        carriers: frozenset[str] = frozenset(),
        scratch: Path | None = None,
    ) -> None:
        """`carriers` are those of the faults to come, by name: what they need is made ready. `scratch` goes when the
        cluster does; without one it is a folder of that name in `folder`."""
        self.run_id = run_id
        self.folder = folder.resolve()
        self.options = options or ContainerOptions()
        if self.options.workers < 1:
            raise UserMistake(f"a cluster needs at least one worker, not {self.options.workers}")
        self.settings = profile_settings(self.options.profile, self.options.worker_memory_mb)
        self.logs_folder = self.folder / "logs"
        self._layout = Layout(
            image.JAVA_HOME,
            image.spark_in_image(),
            image.classpath(),
            "/usr/bin/python3",
            (*QUICK_JVM, f"-XX:SharedArchiveFile={image.ARCHIVE}"),
            (scratch or self.folder / "scratch").resolve(),
            _TMP,
        )
        self._labels = RunLabels(run_id, this_process(), self.scratch)
        self._planned = carriers
        self._checkpoints = self.folder / "checkpoints"
        self._nodes: dict[str, _Node] = {}
        self._ended: dict[str, int] = {}
        """Containers that have ended by themselves or were killed, and their exit status."""
        self._launches = Launches()
        self._closing = self._launches.closing
        self._starting = threading.Lock()  # Containers are started one by one; what strikes them, all at once.
        self._failure: StreamproofError | None = None

    # -- its life ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> SparkContainers:
        self._engine = connect()
        try:
            self._image = image.require(self._engine, self.options.image)
            # First, since its label says where the scratch folder is that the reaper must remove.
            self._network: RunNetwork = make_network(self._engine, self.run_id, self._labels.of())
            self._prepare_folder()
            self._carriers = Disturbers(self._prepare_carriers())
            self._add(MASTER, MASTER)
            for number in range(self.options.workers):
                self._add(f"node-{number}", f"worker-{number}")
            master, workers = self._nodes[MASTER], self._workers()
            self._launch_master(master)
            self._await_in_log(master, MASTER_IS_UP)
            # Together, and only now: a worker that finds no master waits for 20 s before it tries again.
            with ThreadPoolExecutor(max_workers=len(workers)) as pool:
                list(pool.map(self._launch_worker, workers))
            for worker in workers:
                self._await_in_log(worker, WORKER_IS_REGISTERED)
        except BaseException as problem:
            self.stop()
            if isinstance(problem, DockerException | RequestException):
                raise OwnFailure(f"the Docker engine failed: {problem}") from problem
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        # The cause of what else went wrong since, unless that is the user's wish.
        if self._failure not in (None, problem) and (problem is None or isinstance(problem, Exception)):
            raise self._failure from problem

    def stop(self) -> None:
        """End all that belongs to the cluster. Raises DeadlinePassed, or OwnFailure when the engine fails."""
        self._launches.close()
        try:
            survivors = remove_all(self._engine, self.run_id, self._remove_scratch).survivors
        except (DockerException, RequestException) as problem:
            self._remove_scratch()
            raise OwnFailure(
                f"the Docker engine failed while run {self.run_id} was ended ({problem}); `streamproof reap` once it "
                "works again"
            ) from problem
        finally:
            self._engine.close()
        if survivors:
            raise DeadlinePassed("all that belongs to the run to be gone", 30.0, f"left: {', '.join(survivors)}")

    def _remove_scratch(self) -> None:
        remove_scratch(self.scratch, self.run_id, self._labels.owner)

    @property
    def address(self) -> str:
        return self._network.gateway

    @property
    def scratch(self) -> Path:
        return self._layout.scratch

    @property
    def workers(self) -> int:
        return self.options.workers

    @property
    def failure(self) -> StreamproofError | None:
        return self._failure

    @property
    def master_url(self) -> str:
        return f"spark://{self._address(self._nodes[MASTER])}:{_MASTER_PORT}"

    def nodes(self) -> dict[str, _Node]:
        return dict(self._nodes)

    def node_of(self, pid: int, address: str) -> str | None:
        """Each node has an address; what a process is called inside says nothing here."""
        found = (node.name for node in list(self._nodes.values()) if self._address(node) == address)
        return next((name for name in found if self._runs(self._nodes[name])), None)

    def exit_status(self, container: str) -> int | None:
        """Of a container of this run; None while it runs."""
        return self._ended.get(container)

    # -- starting ---------------------------------------------------------------------------------------------------

    def start_driver(
        self,
        name: str,
        module: str,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> ContainerDriver:
        """`python -m module args` in a container, whose first SparkSession or SparkContext is a client of this cluster.

        A name can be used again once that driver has ended. `settings` are Spark's, over the profile's.
        """
        node = self._nodes.get(name) or self._add(name, "driver")
        if node.role != "driver":
            raise UserMistake(f"{name!r} is the name of a node of the cluster: give the driver another one")
        with node.lock:
            if self._runs(node):
                raise Unsupported(f"driver {name} is running: it cannot be started")
            address = self._address(node)
            own = {"spark.driver.host": address, "spark.driver.bindAddress": address}
            properties = self.scratch / "conf" / f"{name}.properties"
            theirs = bring_jars(settings or {}, self.scratch / "jars")
            write_private(properties, as_properties({**self._settings, **own, **theirs}))
            stream = self.logs_folder / f"{name}.{node.incarnation + 1}"
            stdout, stderr = (stream.with_name(f"{stream.name}.{end}.log") for end in ("stdout", "stderr"))
            environment = {**self._layout.submit(self.master_url, properties), **(env or {})}
            self._launch(node, self._layout.driver(module, args), stdout, stderr, environment)
            return ContainerDriver(self, name, node.container, stdout, stderr)

    def start_toxiproxy(self, seed: int) -> Endpoint:
        """A server of the run's own, which is no node: no fault hits it."""
        node = _Node("toxiproxy", "toxiproxy", _TOXIPROXY)
        place = self._address(node), PORT
        log = self.logs_folder / "toxiproxy.log"
        self._launch(node, server_command("toxiproxy-server", *place, seed), log, log, {"LOG_LEVEL": "info"})
        wait_until(lambda: toxiproxy_answers(place), self.options.start_seconds, "toxiproxy to come up", node.tail)
        return place

    def _launch_master(self, node: _Node) -> None:
        command = self._layout.daemon(MASTER_CLASS, self._address(node), "--port", str(_MASTER_PORT))
        self._launch_daemon(node, command)

    def _launch_worker(self, node: _Node) -> None:
        work = self.logs_folder / node.name  # Spark writes the executors' logs there.
        memory = f"{self.options.executors * self.options.worker_memory_mb}m"
        cores = str(self.options.executors * MOST_CORES)
        limits = ("--port", "0", "--cores", cores, "--memory", memory, "--work-dir", str(work))
        command = self._layout.daemon(WORKER_CLASS, self._address(node), *limits, self.master_url)
        self._launch_daemon(node, command)

    def _launch_daemon(self, node: _Node, command: Sequence[str]) -> None:
        log = self.logs_folder / f"{node.name}.{node.incarnation + 1}.log"
        self._launch(node, command, log, log, {})

    def _launch(
        self, node: _Node, command: Sequence[str], stdout: Path, stderr: Path, environment: Mapping[str, str]
    ) -> None:
        streams = f">>{shlex.quote(str(stdout))} 2>>{shlex.quote(str(stderr))}"
        # Straight into the run's folder: there they are whatever becomes of the container, the engine or the harness.
        name = f"streamproof-{self.run_id}-{node.name}-{node.incarnation + 1}"
        wait, ready = self._gate(name) if node.name in self._nodes and self._carriers else ("", None)
        shell = ["/bin/sh", "-c", f"{wait}exec {shlex.join(command)} {streams}"]
        with self._launches.one(node.name), _asking_engine(f"{node.name} cannot be started"):
            with self._starting:
                container = self._start(node, name, shell, stderr, environment)
            if ready is not None:
                self._carriers.node_started(node.name, container)
                write_private(ready, "")
        threading.Thread(target=self._watch, args=(node, container), name=f"watches {node.name}", daemon=True).start()

    def _start(self, node: _Node, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> str:
        """A new container, of that name: the engine's id of it."""
        address = self._address(node)
        memory = self._memory(node)
        endpoint = self._engine.api.create_endpoint_config(ipv4_address=address, aliases=[node.name])
        names: Any = {str(self._network.network.name): endpoint}  # Which the stubs take for one endpoint.
        networks = self._engine.api.create_networking_config(names)
        created = self._engine.api.create_container(
            self._image,
            list(command),
            name=name,
            hostname=node.name,
            user=f"{os.geteuid()}:{os.getegid()}",
            working_dir=str(_TMP),
            labels=self._labels.of(node.name),
            environment={
                **self._layout.environment(address, _TMP / "spark", self._import_path),
                RUN: self.run_id,
                NODE: node.name,
                ADDRESS: address,
                "HOME": str(_TMP),
                **environment,
            },
            host_config=self._engine.api.create_host_config(
                init=True,
                mounts=self._mounts,
                mem_limit=memory,
                memswap_limit=memory,
                # Not as `nano_cpus`, which the engine lets nobody change afterwards.
                cpu_period=PERIOD,
                cpu_quota=self._cpu_quota,
                pids_limit=4096,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
            ),
            networking_config=networks,
        )
        container = str(created["Id"])
        node.incarnation += 1
        node.granted = granted(self._engine.api.inspect_container(container))
        node.container, node.log = container, log
        self._engine.api.start(container)
        return container

    def _watch(self, node: _Node, container: str) -> None:
        """Wait for a container's end, and let a worker or the master have a successor."""
        try:
            # The connection of a wait is busy for as long as the container runs.
            status = int(self._engine.api.wait(container, timeout=None)["StatusCode"])
        except (DockerException, RequestException, OSError):
            status = KILLED if self._closing.is_set() else self._asked(container)
        self._ended[container] = status
        delay = self._restart_after(node)
        if delay is None or self._closing.wait(delay) or (node.role != MASTER and not self._master_comes()):
            return
        try:
            with node.lock:  # A kill that is under way must not hit the successor.
                if not self._closing.is_set() and node.container == container:
                    (self._launch_master if node.role == MASTER else self._launch_worker)(node)
        except (StreamproofError, OSError) as problem:
            if not self._closing.is_set() and self._failure is None:
                if isinstance(problem, OSError):
                    problem = OwnFailure(f"{node.name} cannot be started: {problem}")
                self._failure = problem

    def _restart_after(self, node: _Node) -> float | None:
        if node.role == MASTER:
            return self.options.restart_master_after
        return self.options.restart_worker_after if node.role.startswith("worker-") else None

    def _master_comes(self) -> bool:
        comes_back = self.options.restart_master_after is not None
        return master_comes(lambda: self.has_come_up(MASTER), comes_back, self._closing)

    def _asked(self, container: str) -> int:
        try:
            return int(self._state(container).get("ExitCode", KILLED))
        except OwnFailure:
            return KILLED

    def _await_in_log(self, node: _Node, sign: re.Pattern[str]) -> None:
        container = node.container

        def look() -> bool:
            if sign.search(node.log_text()):
                return True
            status = self._ended.get(container)
            if status is not None:
                said = self._engine.api.logs(container, tail=15).decode(errors="replace").strip()
                raise ProcessDied(
                    f"{node.name} ended with status {status} at its start; its log ends:\n{node.tail()}\n{said}".strip()
                )
            return False

        wait_until(look, self.options.start_seconds, f"{node.name} to come up", node.tail)

    # -- serving one run after the other ----------------------------------------------------------------------------

    def end_run(self) -> None:
        """End the drivers, and remove what has ended. Raises what went wrong meanwhile with restarting workers."""
        with self._launches.none():
            stay = [node.container for node in self._standing()]
            gone = [one for one in containers_of(self._engine, self.run_id) if not belongs_to(one, stay)]
        try:
            remove_containers(gone)
        except (DockerException, RequestException) as problem:
            raise OwnFailure(f"the Docker engine failed while a driver was ended: {problem}") from problem
        if self._failure is not None:
            raise self._failure

    def unclean(self) -> Unclean:
        """What is not as it was when the cluster came up."""
        try:
            found = container_changes(self._engine, self.run_id, [self._given(node) for node in self._standing()])
        except (DockerException, RequestException) as problem:
            return Unclean((f"the Docker engine does not answer: {problem}",))
        if found != Unclean():
            return found
        master = self._nodes[MASTER]
        try:
            page = read_master_page(self._address(master), master.log.read_text(errors="replace"))
        except OwnFailure as problem:
            return Unclean((str(problem),))
        return Unclean(passing=tuple(not_idle(page, self.options.workers)))

    def _given(self, node: _Node) -> StandingNode:
        comes_back = self._restart_after(node) is not None
        assert node.granted is not None  # Every node that stands was started.
        return StandingNode(node.name, node.container, self._address(node), node.granted, comes_back)

    def _standing(self) -> list[_Node]:
        """Every node but the drivers."""
        return [self._nodes[MASTER], *self._workers()]

    # -- killing ----------------------------------------------------------------------------------------------------

    def kill_node(self, name: str) -> ContainerKill:
        """`docker kill`: every process of the container at once. Returns when the engine has seen it end."""
        return self._end(name, signal.SIGKILL)

    def terminate_node(self, name: str) -> ContainerKill:
        """SIGTERM to the container's first process, as of `docker stop`. What does not end by it goes on."""
        return self._end(name, signal.SIGTERM)

    def _end(self, name: str, number: signal.Signals) -> ContainerKill:
        node = self._node(name)
        with node.lock:
            container = node.container
            pid = int(self._state(container)["Pid"])
            if pid:  # A container that is not there has ended by itself meanwhile.
                with _asking_engine(f"{name} cannot be killed", passing=(404, 409)):
                    self._engine.api.kill(container, number.name)
            try:
                state = self._await_state(container, lambda state: not state["Running"], f"{name} to end")
            except DeadlinePassed:
                if number is signal.SIGKILL:
                    raise
                return ContainerKill(name, container, number, (pid,) if pid else (), False, None, "")
            status = self._ended[container] = int(state["ExitCode"])
            return ContainerKill(name, container, number, (pid,) if pid else (), True, status, state["FinishedAt"])

    def kill_part(self, name: str, part: Part) -> PartKill:
        """SIGKILL inside the container: the executor with its Python processes, or those alone."""
        node = self._node(name)
        with node.lock:
            found = run_inside(self._engine, node.container, "kill_part", part.value) or {"killed": [], "left": []}
            return PartKill(tuple(found["killed"]), not found["left"])

    def has_come_up(self, name: str) -> bool:
        node = self._node(name)
        return self._runs(node) and has_come_up(node.role, node.log_text())

    def stop_node(self, name: str) -> ContainerStop:
        """`docker pause`. `resume` lets it go on."""
        node = self._node(name)
        with node.lock:
            container = node.container
            pid = int(self._state(container)["Pid"])
            if pid:
                with _asking_engine(f"{name} cannot be paused", passing=(404, 409)):
                    wait_until(lambda: self._pause(container), self.options.kill_seconds, f"{name} to freeze")
            return ContainerStop(container, (pid,) if pid else (), bool(self._state(container)["Paused"]))

    def _pause(self, container: str) -> bool:
        """False: the kernel could not freeze it this time, as with cgroups of version 1 while it starts processes."""
        try:
            self._engine.api.pause(container)
        except APIError as problem:
            if "unable to freeze" not in str(problem.explanation):
                raise
            return False
        return True

    def resume(self, stopped: ContainerStop) -> None:
        """A container that has ended meanwhile, or its successor, is not touched."""
        with _asking_engine("a container cannot go on", passing=(404, 409, 500)):
            self._engine.api.unpause(stopped.container)
        self._await_state(stopped.container, lambda state: not state["Paused"], "a container to go on")

    def disturb(self, disturbance: Disturbance) -> InForce:
        return self._carriers.disturb(disturbance)

    def _await_state(self, container: str, wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            state = self._state(container)
            return state if wanted(state) else None

        return wait_until(look, self.options.kill_seconds, what, every=0.005)

    def _state(self, container: str) -> dict[str, Any]:
        with _asking_engine("a container cannot be looked at"):
            state: dict[str, Any] = self._engine.api.inspect_container(container)["State"]
        return state

    # -- what its containers are given ------------------------------------------------------------------------------

    def _prepare_folder(self) -> None:
        try:
            self.scratch.mkdir(parents=True, exist_ok=True)
            mark_scratch(self.scratch, self.run_id, self._labels.owner)
            for folder in (
                self.logs_folder,
                self.scratch,
                self._checkpoints,
                self.scratch / "conf",
                self.scratch / _GATES,
            ):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise StorageFailed(f"{self.folder} cannot be written to: {problem}") from problem
        self._settings = {**self.settings, **self._layout.private_settings(secrets.token_hex(32))}
        write_private(self._layout.log4j2, LOG4J2)
        write_private(self._layout.daemon_properties, self._layout.daemon_settings(self._settings))
        # Java wants a name for the user, whoever that is.
        passwd = self.scratch / "conf" / "passwd"
        write_private(passwd, f"streamproof:x:{os.geteuid()}:{os.getegid()}::{_TMP}:/bin/sh\n")
        code = code_under_test()
        self._import_path = code.import_path
        self._mounts = [
            *(Mount(str(folder), str(folder), type="bind") for folder in (self.logs_folder, self.scratch)),
            *(Mount(inside, str(outside), type="bind", read_only=True) for inside, outside in code.mounts.items()),
            Mount("/etc/passwd", str(passwd), type="bind", read_only=True),
        ]

    def _prepare_carriers(self) -> list[Carrier]:
        carriers: list[Carrier] = []
        if not self._planned.isdisjoint(TRIALS):
            sidecars = Sidecars(self._engine, self._image, self._labels)
            carriers.append(PacketCarrier(sidecars, lambda name: self._address(self._node(name)), self._planned))
        if not self._planned.isdisjoint({CPU_QUOTA, MEMORY_LIMIT}):
            carriers.append(Limits(self._engine, self._container_of))
        store = CheckpointVolume(
            self._engine,
            self._image,
            f"streamproof-{self.run_id}-store",
            self._labels.of(),
            self._checkpoints,
            self._planned,
            self._container_of,
        )
        store.prepare()
        self._mounts.append(store.mount)
        if store.carries:
            carriers.append(store)
        return carriers

    def _container_of(self, name: str) -> str:
        """The present one of a node."""
        return self._node(name).container

    def _gate(self, container: str) -> tuple[str, Path]:
        """What its command begins with, so that it does nothing yet, and the file that lets it go on."""
        ready = self.scratch / _GATES / container
        return f"until [ -e {shlex.quote(str(ready))} ]; do sleep 0.02; done; ", ready

    # -- looking up -------------------------------------------------------------------------------------------------

    def _add(self, name: str, role: str) -> _Node:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise UserMistake(f"a node's name goes into file names: letters, digits, '_', '.', '-', not {name!r}")
        node = self._nodes[name] = _Node(name, role, len(self._nodes))
        return node

    def _node(self, name: str) -> _Node:
        node = self._nodes.get(name)
        if node is None:
            raise Unsupported(f"there is no node {name!r}; there are: {', '.join(self._nodes)}")
        return node

    def _workers(self) -> list[_Node]:
        return [node for node in self._nodes.values() if node.role.startswith("worker-")]

    def _address(self, node: _Node) -> str:
        return self._network.address(node.number)

    @property
    def _cpu_quota(self) -> int:
        return round(self.options.cpus * PERIOD)

    def _memory(self, node: _Node) -> int:
        """That its container may use, in bytes."""
        role = node.role.partition("-")[0]
        more = self.options.another_executor_mb * (self.options.executors - 1) if role == "worker" else 0
        return (self.options.limits_mb.get(role, _HELPER_MB) + more) << 20

    def _runs(self, node: _Node) -> bool:
        return bool(node.container) and node.container not in self._ended


@contextmanager
def _asking_engine(what: str, passing: tuple[int, ...] = ()) -> Iterator[None]:
    """An engine that fails, does not answer, or refuses with another status than `passing`, is our own failure."""
    try:
        yield
    except APIError as problem:
        if problem.status_code not in passing:
            raise OwnFailure(f"{what}: {problem.explanation}") from problem
    except (DockerException, RequestException) as problem:
        raise OwnFailure(f"{what}: {problem}") from problem
