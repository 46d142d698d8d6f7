"""A real Spark standalone cluster made of containers, each of which can be killed on its own.

One master, some workers with one executor each, and drivers; all on a network of the run's own that has no
way out, all made from one image. A node is a container. The container of a node that has ended stays until the end of
the run, with its exit status, and the next incarnation of the node is another container with the same address.

Logs, checkpoints and what must outlive a node lie in the run's folder, which containers see under the same path. The
code under test is what the harness itself can import: its folders are mounted, to be read only.
"""

from __future__ import annotations

import re
import shlex
import signal
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from docker.errors import DockerException
from requests.exceptions import RequestException

from ...contracts.injection import Part
from ...core.carriers import CPU_QUOTA, MEMORY_LIMIT
from ...core.errors import (
    DeadlinePassed,
    OwnFailure,
    ProcessDied,
    StreamproofError,
    Unsupported,
    UserMistake,
)
from ...core.waiting import wait_until
from ...core.wire import Endpoint
from ...install.machine import Spark, find_spark
from ...install.private_files import write_private
from ...install.settings import MOST_CORES, as_properties, profile_settings
from ...install.toxiproxy_server import PORT, server_command, toxiproxy_answers
from ..embedded.reaping import remove_scratch, this_process
from ..spark.control.coming_up import MASTER_IS_UP, WORKER_IS_REGISTERED, has_come_up, master_comes
from ..spark.control.disturbances import Disturbance, InForce
from ..spark.control.layout import MASTER_CLASS, QUICK_JVM, WORKER_CLASS, Layout
from ..spark.control.master_page import not_idle, read_master_page
from ..spark.control.warm import Unclean
from . import image
from .cleanliness import StandingNode, belongs_to, container_changes
from .disturbing import Carrier, Disturbers
from .engine import asking_engine, connect
from .executing import run_inside
from .jars import bring_jars
from .labels import RunLabels
from .launches import Launches
from .limits import Limits
from .making import GATES, TMP, ContainerMaker, prepare_surroundings
from .network import RunNetwork, make_network
from .node_containers import ContainerDriver, ContainerNode
from .options import ContainerOptions
from .packets import TRIALS, PacketCarrier
from .proofs import KILLED, ContainerKill, ContainerStop, PartKill
from .reaping import containers_of, remove_all, remove_containers
from .sidecars import Sidecars
from .storage import CheckpointVolume
from .striking import ContainerStrikes

MASTER = "master"
_MASTER_PORT = 7077
_TOXIPROXY = 240
"""The number of the address that toxiproxy has; nodes count from 0."""


class SparkContainers:
    """Owns every container that it starts, and their network; on leaving the context none of them is left."""

    def __init__(
        self,
        run_id: str,
        folder: Path,
        options: ContainerOptions | None = None,
        carriers: frozenset[str] = frozenset(),
        scratch: Path | None = None,
        spark: Spark | None = None,
    ) -> None:
        """`carriers` are those of the faults to come, by name: what they need is made ready. `scratch` goes when the
        cluster does; without one it is a folder of that name in `folder`. `spark`: another one than that of this
        interpreter."""
        self.run_id = run_id
        self.folder = folder.resolve()
        self.options = options or ContainerOptions()
        if self.options.workers < 1:
            raise UserMistake(f"a cluster needs at least one worker, not {self.options.workers}")
        self.settings = profile_settings(self.options.profile, self.options.worker_memory_mb)
        self.logs_folder = self.folder / "logs"
        self.spark = spark or find_spark()
        self._layout = Layout(
            image.JAVA_HOME,
            image.spark_in_image(self.spark),
            image.classpath(self.spark),
            "/usr/bin/python3",
            (*QUICK_JVM, f"-XX:SharedArchiveFile={image.ARCHIVE}"),
            (scratch or self.folder / "scratch").resolve(),
            TMP,
        )
        self._labels = RunLabels(run_id, this_process(), self.scratch)
        self._planned = carriers
        self._checkpoints = self.folder / "checkpoints"
        self._nodes: dict[str, ContainerNode] = {}
        self._ended: dict[str, int] = {}
        """Containers that have ended by themselves or were killed, and their exit status."""
        self._launches = Launches()
        self._closing = self._launches.closing
        self._starting = threading.Lock()  # Containers are started one by one; what strikes them, all at once.
        self._failure: StreamproofError | None = None

    # -- its life cycle ---------------------------------------------------------------------------------------------

    def __enter__(self) -> SparkContainers:
        self._engine = connect()
        self._strikes = ContainerStrikes(self._engine, self.options.kill_seconds)
        try:
            self._image = image.require(self._engine, self.options.image, self.spark.python)
            # First, since its label says where the scratch folder is that the reaper must remove.
            self._network: RunNetwork = make_network(self._engine, self.run_id, self._labels.of())
            self._surroundings = prepare_surroundings(
                self.folder,
                self._layout,
                self._labels,
                self.settings,
                self.logs_folder,
                self._checkpoints,
                self.spark.python,
            )
            self._carriers = Disturbers(self._prepare_carriers())
            self._maker = ContainerMaker(
                self._engine,
                self._image,
                str(self._network.network.name),
                self._labels,
                self._layout,
                self.options,
                self._surroundings,
            )
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

    def nodes(self) -> dict[str, ContainerNode]:
        return dict(self._nodes)

    def node_of(self, pid: int, address: str) -> str | None:
        """Each node has an address; what a process is called inside says nothing here."""
        found = (node.name for node in list(self._nodes.values()) if self._address(node) == address)
        return next((name for name in found if self._runs(self._nodes[name])), None)

    def exit_status(self, container: str) -> int | None:
        """That of a container of this cluster, whether or not its node has a successor; None while it runs."""
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
            theirs = bring_jars(settings or {}, self.scratch / "jars", self.spark)
            write_private(properties, as_properties({**self._surroundings.settings, **own, **theirs}))
            stream = self.logs_folder / f"{name}.{node.incarnation + 1}"
            stdout, stderr = (stream.with_name(f"{stream.name}.{end}.log") for end in ("stdout", "stderr"))
            environment = {**self._layout.submit(self.master_url, properties), **(env or {})}
            self._launch(node, self._layout.driver(module, args), stdout, stderr, environment)
            return ContainerDriver(name, node.container, stdout, stderr, self.exit_status)

    def start_toxiproxy(self, seed: int) -> Endpoint:
        """A server of the run's own, which is no node: no fault hits it."""
        node = ContainerNode("toxiproxy", "toxiproxy", _TOXIPROXY)
        place = self._address(node), PORT
        log = self.logs_folder / "toxiproxy.log"
        self._launch(node, server_command("toxiproxy-server", *place, seed), log, log, {"LOG_LEVEL": "info"})
        wait_until(lambda: toxiproxy_answers(place), self.options.start_seconds, "toxiproxy to come up", node.tail)
        return place

    def _launch_master(self, node: ContainerNode) -> None:
        command = self._layout.daemon(MASTER_CLASS, self._address(node), "--port", str(_MASTER_PORT))
        self._launch_daemon(node, command)

    def _launch_worker(self, node: ContainerNode) -> None:
        work = self.logs_folder / node.name  # Spark writes the executors' logs there.
        memory = f"{self.options.executors * self.options.worker_memory_mb}m"
        cores = str(self.options.executors * MOST_CORES)
        limits = ("--port", "0", "--cores", cores, "--memory", memory, "--work-dir", str(work))
        command = self._layout.daemon(WORKER_CLASS, self._address(node), *limits, self.master_url)
        self._launch_daemon(node, command)

    def _launch_daemon(self, node: ContainerNode, command: Sequence[str]) -> None:
        log = self.logs_folder / f"{node.name}.{node.incarnation + 1}.log"
        self._launch(node, command, log, log, {})

    def _launch(
        self, node: ContainerNode, command: Sequence[str], stdout: Path, stderr: Path, environment: Mapping[str, str]
    ) -> None:
        streams = f">>{shlex.quote(str(stdout))} 2>>{shlex.quote(str(stderr))}"
        # Straight into the run's folder: there they are whatever becomes of the container, the engine or the harness.
        name = f"streamproof-{self.run_id}-{node.name}-{node.incarnation + 1}"
        wait, ready = self._gate(name) if node.name in self._nodes and self._carriers else ("", None)
        shell = ["/bin/sh", "-c", f"{wait}exec {shlex.join(command)} {streams}"]
        with self._launches.one(node.name), asking_engine(f"{node.name} cannot be started"):
            with self._starting:
                container = self._maker.start(node, self._address(node), name, shell, stderr, environment)
            if ready is not None:
                self._carriers.node_started(node.name, container)
                write_private(ready, "")
        threading.Thread(target=self._watch, args=(node, container), name=f"watches {node.name}", daemon=True).start()

    def _watch(self, node: ContainerNode, container: str) -> None:
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

    def _restart_after(self, node: ContainerNode) -> float | None:
        if node.role == MASTER:
            return self.options.restart_master_after
        return self.options.restart_worker_after if node.role.startswith("worker-") else None

    def _master_comes(self) -> bool:
        comes_back = self.options.restart_master_after is not None
        return master_comes(lambda: self.has_come_up(MASTER), comes_back, self._closing)

    def _asked(self, container: str) -> int:
        try:
            return int(self._strikes.state(container).get("ExitCode", KILLED))
        except OwnFailure:
            return KILLED

    def _await_in_log(self, node: ContainerNode, sign: re.Pattern[str]) -> None:
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

    def _given(self, node: ContainerNode) -> StandingNode:
        comes_back = self._restart_after(node) is not None
        assert node.granted is not None  # Every node that stands was started.
        return StandingNode(node.name, node.container, self._address(node), node.granted, comes_back)

    def _standing(self) -> list[ContainerNode]:
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
            kill = self._strikes.end(name, node.container, number)
            if kill.exit_code is not None:
                self._ended[kill.container] = kill.exit_code
            return kill

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
            return self._strikes.freeze(name, node.container)

    def resume(self, stopped: ContainerStop) -> None:
        """A container that has ended meanwhile, or its successor, is not touched."""
        self._strikes.resume(stopped)

    def disturb(self, disturbance: Disturbance) -> InForce:
        return self._carriers.disturb(disturbance)

    # -- what its containers are given ------------------------------------------------------------------------------

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
            self.logs_folder,
        )
        store.prepare()
        self._surroundings.mounts.append(store.mount)
        if store.carries:
            carriers.append(store)
        return carriers

    def _container_of(self, name: str) -> str:
        """The present one of a node."""
        return self._node(name).container

    def _gate(self, container: str) -> tuple[str, Path]:
        """What its command begins with, so that it does nothing yet, and the file that lets it go on."""
        ready = self.scratch / GATES / container
        return f"until [ -e {shlex.quote(str(ready))} ]; do sleep 0.02; done; ", ready

    # -- looking up -------------------------------------------------------------------------------------------------

    def _add(self, name: str, role: str) -> ContainerNode:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise UserMistake(f"a node's name goes into file names: letters, digits, '_', '.', '-', not {name!r}")
        node = self._nodes[name] = ContainerNode(name, role, len(self._nodes))
        return node

    def _node(self, name: str) -> ContainerNode:
        node = self._nodes.get(name)
        if node is None:
            raise Unsupported(f"there is no node {name!r}; there are: {', '.join(self._nodes)}")
        return node

    def _workers(self) -> list[ContainerNode]:
        return [node for node in self._nodes.values() if node.role.startswith("worker-")]

    def _address(self, node: ContainerNode) -> str:
        return self._network.address(node.number)

    def _runs(self, node: ContainerNode) -> bool:
        return bool(node.container) and node.container not in self._ended
