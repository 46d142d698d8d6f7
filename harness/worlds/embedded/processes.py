"""A real Spark standalone cluster made of processes on this machine, each of which can be killed on its own.

One master, some workers with one executor each, and drivers; all on loopback, all started from here, none
of them inside the harness's process. A node is a worker together with everything that came from it: its executor, the
executor's Python daemon, the Python workers. The master and every driver are nodes of their own.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from ...contracts.injection import Part
from ...core.errors import DeadlinePassed, ProcessDied, StorageFailed, StreamproofError, Unsupported, UserMistake
from ...core.waiting import wait_until
from ...core.wire import Endpoint
from ...install.class_archive import archive_options
from ...install.machine import Spark, find_java, find_spark, find_toxiproxy, inherited_import_path, link_home
from ...install.packages import with_jars
from ...install.private_files import write_private
from ...install.settings import LOG4J2, MOST_CORES, as_properties, profile_settings
from ...install.spark_choice import link_package
from ...install.toxiproxy_server import listening_port, server_command
from ..spark.control.coming_up import MASTER_IS_UP, WORKER_IS_REGISTERED, has_come_up, master_comes
from ..spark.control.disturbances import Disturbance, InForce
from ..spark.control.layout import MASTER_CLASS, QUICK_JVM, WORKER_CLASS, Layout
from ..spark.control.nodes import ADDRESS, LOOPBACK
from . import reaping
from .node_processes import DriverProcess, NodeState, ProcessNode
from .options import EmbeddedOptions
from .proofs import Killed, KillProof, StopProof
from .reaping import LabelledProcess, Labels, ProcessId, end_all, labelled_processes, processes_of_part, stop_all

T = TypeVar("T")

MASTER = "master"


class SparkProcesses:
    """Owns every process that it starts; on leaving the context none of them is left."""

    def __init__(
        self, run_id: str, folder: Path, options: EmbeddedOptions | None = None, spark: Spark | None = None
    ) -> None:
        """`spark`: another one than that of this interpreter."""
        self.run_id = run_id
        self.folder = folder.resolve()
        self.options = options or EmbeddedOptions()
        if self.options.workers < 0:
            raise UserMistake(f"a cluster has {self.options.workers} workers; it takes one, or none for lone drivers")
        self.settings = profile_settings(self.options.profile, self.options.worker_memory_mb)
        self.logs_folder = self.folder / "logs"
        self.scratch = self.folder / "scratch"
        java, spark = find_java(), spark or find_spark()
        self.spark = spark
        self._layout = Layout(
            java.home,
            Spark(self.scratch / "spark", spark.scala),
            spark.classpath,
            spark.python,
            (*QUICK_JVM, *archive_options(java, spark)),
            self.scratch,
            self.scratch / "tmp",
        )
        self._labels = Labels(run_id, reaping.this_process(), self.scratch)
        self._nodes: dict[str, ProcessNode] = {}
        self._master_address: tuple[str, int] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._toxiproxy: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()
        self._launching = threading.Lock()  # Nothing is launched any more once the end has begun.
        self.failure: StreamproofError | None = None

    # -- its life cycle ---------------------------------------------------------------------------------------------

    def __enter__(self) -> SparkProcesses:
        try:
            self._prepare_folder()
            self._start_watchdog()
            if self.options.workers:
                self._start_cluster()
        except BaseException:
            self._stop()
            raise
        masters = [node for node in self._nodes.values() if node.role == MASTER]
        self._restart_whenever_ended(masters, self.options.restart_master_after, self._launch_master)
        self._restart_whenever_ended(self._workers(), self.options.restart_worker_after, self._launch_worker)
        return self

    def _start_cluster(self) -> None:
        self._nodes[MASTER] = ProcessNode(MASTER, MASTER)
        for number in range(self.options.workers):
            self._nodes[f"node-{number}"] = ProcessNode(f"node-{number}", f"worker-{number}")
        self.start_node(MASTER)
        # Together, and only now: a worker that finds no master waits for 20 s before it tries again.
        for node in self._workers():
            self._launch_worker(node)
        for node in self._workers():
            self._await_worker(node)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        if problem is None and self.failure is not None:
            raise self.failure

    def _stop(self) -> None:
        with self._launching:
            self._closing.set()
        ended = end_all(self._all_but_the_watchdog, self.options.kill_seconds)
        for popen in (self._toxiproxy, *(node.popen for node in self._nodes.values())):
            if popen is not None and not ended.survivors:
                popen.wait()
        reaping.remove_scratch(self.scratch, self.run_id, self._labels.owner)
        # Until now, were this process killed, it would have done the same; and it still will, of what is left.
        if self._watchdog is not None and not ended.survivors:
            self._watchdog.kill()
            self._watchdog.wait()
        if ended.survivors:
            alive = ", ".join(f"{process.pid} ({process.kind})" for process in ended.survivors)
            raise DeadlinePassed("every process of the run to be gone", self.options.kill_seconds, f"alive: {alive}")

    def _all_but_the_watchdog(self) -> list[LabelledProcess]:
        return [one for one in labelled_processes(self.run_id, self._sessions()) if one.kind != "watchdog"]

    @property
    def address(self) -> str:
        return LOOPBACK

    @property
    def workers(self) -> int:
        return self.options.workers

    @property
    def master_url(self) -> str:
        if self._master_address is None:
            raise Unsupported("the cluster has not been started")
        return f"spark://{self._master_address[0]}:{self._master_address[1]}"

    def nodes(self) -> dict[str, NodeState]:
        """Every node with the processes that it has at this moment."""
        found = labelled_processes(self.run_id, self._sessions())
        return {
            node.name: NodeState(
                node.name, node.running(), node.incarnation, tuple(p for p in found if p.node == node.name)
            )
            for node in list(self._nodes.values())
        }

    def node_of(self, pid: int, address: str) -> str | None:
        return reaping.node_of(pid, self.run_id)

    def logs(self) -> list[Path]:
        """Every log of every node, those of the executors included."""
        return sorted(path for path in self.logs_folder.rglob("*") if path.suffix == ".log" or path.name in _STREAMS)

    # -- starting ---------------------------------------------------------------------------------------------------

    def start_node(self, name: str) -> None:
        """Start a master or a worker (again), and wait until it takes part in the cluster."""
        node = self._node(name)
        with node.lock:
            if node.running():
                raise Unsupported(f"{name} is running: it cannot be started")
            if name == MASTER:
                self._launch_master(node)
                self._master_address = self._await_in_log(node, MASTER_IS_UP, lambda found: (found[1], int(found[2])))
            elif node.role.startswith("worker-"):
                self._launch_worker(node)
                self._await_worker(node)
            else:
                raise Unsupported(f"{name} is a driver: start it with start_driver")

    def start_driver(
        self,
        name: str,
        module: str,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        master: str | None = None,
    ) -> DriverProcess:
        """`python -m module args`, whose first SparkSession or SparkContext is a client of this cluster, or has the
        `master` that is given, as in local[1].

        A name can be used again once that driver has ended. Whatever this process can import, the driver and the
        executors can. `settings` are Spark's, over the profile's.
        """
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise UserMistake(f"a driver's name goes into file names: letters, digits, '_', '.', '-', not {name!r}")
        node = self._nodes.setdefault(name, ProcessNode(name, "driver"))
        if node.role != "driver":
            raise UserMistake(f"{name!r} is the name of a node of the cluster: give the driver another one")
        with node.lock:
            if node.running():
                raise Unsupported(f"driver {name} is running: it cannot be started")
            properties = self.scratch / "conf" / f"{name}.properties"
            theirs = with_jars(settings or {}, self.spark, find_java())
            write_private(properties, as_properties({**self._settings, **theirs}))
            work = self.scratch / name
            _make_folder(work)
            stream = self.logs_folder / f"{name}.{node.incarnation + 1}"
            stdout, stderr = (
                stream.with_name(stream.name + ".stdout.log"),
                stream.with_name(stream.name + ".stderr.log"),
            )
            environment = {
                **self._environment(node),
                **self._layout.submit(master or self.master_url, properties),
                **(env or {}),
            }
            popen = self._launch(node, self._layout.driver(module, args), environment, stdout, stderr, work)
            return DriverProcess(name, popen, stdout, stderr)

    def environment_of(self, name: str, role: str) -> dict[str, str]:
        """For a process of the run's own that somebody else starts, and owns: with the labels by which it is found
        where its owner is gone."""
        return self._environment(ProcessNode(name, role))

    def start_toxiproxy(self, seed: int) -> Endpoint:
        """A server of the run's own, which is no node: no fault hits it."""
        node = ProcessNode("toxiproxy", "toxiproxy")
        command = server_command(str(find_toxiproxy()), LOOPBACK, 0, seed)
        log = self.logs_folder / "toxiproxy.log"
        environment = {**self._environment(node), "LOG_LEVEL": "info"}
        popen = self._toxiproxy = self._launch(node, command, environment, log, log, self.scratch)

        def look() -> int | None:
            if popen.poll() is not None:
                raise ProcessDied(f"toxiproxy ended with status {popen.returncode}; its log ends:\n{node.log_tail()}")
            return listening_port(popen.pid)

        return LOOPBACK, wait_until(look, self.options.start_seconds, "toxiproxy to come up", node.log_tail)

    def _launch_master(self, node: ProcessNode) -> None:
        # Port 0: Spark takes a free one and says which, so none can be lost to someone else in between. A master that
        # comes back must have the address that workers and drivers know.
        port = self._master_address[1] if self._master_address else 0
        self._launch_jvm(node, MASTER_CLASS, "--port", str(port))

    def _launch_worker(self, node: ProcessNode) -> None:
        memory = f"{self.options.executors * self.options.worker_memory_mb}m"
        cores = str(self.options.executors * MOST_CORES)
        work = self.logs_folder / node.name  # Spark writes the executors' logs there.
        arguments = ("--port", "0", "--cores", cores, "--memory", memory, "--work-dir", str(work), self.master_url)
        self._launch_jvm(node, WORKER_CLASS, *arguments)

    def _launch_jvm(self, node: ProcessNode, main: str, *arguments: str) -> None:
        log = self.logs_folder / f"{node.name}.{node.incarnation + 1}.log"
        command = self._layout.daemon(main, LOOPBACK, *arguments)
        self._launch(node, command, self._environment(node), log, log, self.scratch)

    def _launch(
        self,
        node: ProcessNode,
        command: list[str],
        environment: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        cwd: Path,
    ) -> subprocess.Popen[bytes]:
        try:
            with self._launching, stdout.open("ab") as out, stderr.open("ab") as err:
                if self._closing.is_set():
                    raise Unsupported(f"{node.name} cannot be started: the cluster is being stopped")
                popen = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=dict(environment),
                    cwd=cwd,
                    start_new_session=True,
                )
        except OSError as problem:
            raise StorageFailed(f"{node.name} cannot be started with its log in {stdout}: {problem}") from problem
        node.popen = popen
        node.process = ProcessId.of_child(popen.pid)
        node.logs = (stdout,) if stdout == stderr else (stdout, stderr)
        node.incarnation += 1  # Last: whoever sees the new incarnation sees its process and its log.
        return popen

    def _await_worker(self, node: ProcessNode) -> None:
        self._await_in_log(node, WORKER_IS_REGISTERED, lambda found: True)

    def _await_in_log(self, node: ProcessNode, sign: re.Pattern[str], read: Callable[[re.Match[str]], T]) -> T:
        def look() -> T | None:
            found = sign.search(node.log_text())
            if found is None and not node.running():
                status = node.popen.returncode if node.popen else None
                raise ProcessDied(
                    f"{node.name} ended with status {status} at its start; its log ends:\n{node.log_tail()}"
                )
            return None if found is None else read(found)

        return wait_until(look, self.options.start_seconds, f"{node.name} to come up", node.log_tail)

    def _start_watchdog(self) -> None:
        node = ProcessNode("watchdog", "watchdog")
        command = [sys.executable, "-m", reaping.__name__, self.run_id, str(self._labels.owner), str(self.scratch)]
        log = self.logs_folder / "watchdog.log"
        self._watchdog = self._launch(node, command, self._environment(node), log, log, self.folder)

    def _restart_whenever_ended(
        self, nodes: Iterable[ProcessNode], delay: float | None, launch: Callable[[ProcessNode], None]
    ) -> None:
        if delay is not None:
            for node in nodes:
                threading.Thread(
                    target=self._supervise, args=(node, delay, launch), name=f"restarts {node.name}", daemon=True
                ).start()

    def _supervise(self, node: ProcessNode, delay: float, launch: Callable[[ProcessNode], None]) -> None:
        """Start a node again whenever it has ended, whoever ended it."""
        try:
            while node.process is not None and not self._closing.is_set():
                node.process.wait_gone()
                if self._closing.wait(delay) or (node.name != MASTER and not self._master_comes()):
                    return
                with node.lock:  # A kill that is under way must not hit the successor.
                    if self._closing.is_set():
                        return
                    if not node.running():
                        launch(node)
        except StreamproofError as problem:
            if not self._closing.is_set():
                self.failure = problem

    def _master_comes(self) -> bool:
        comes_back = self.options.restart_master_after is not None
        return master_comes(lambda: self.has_come_up(MASTER), comes_back, self._closing)

    # -- killing ----------------------------------------------------------------------------------------------------

    def kill_node(self, name: str) -> KillProof:
        """SIGKILL a node: worker, executor, Python daemon and Python workers together; a driver with its JVM."""
        return self.kill_together([name])

    def kill_together(self, names: Sequence[str]) -> KillProof:
        """SIGKILL several nodes as if they were one, the first first. A process that waits for another in a system call
        may be gone only once that is."""
        nodes = [self._node(name) for name in names]

        def found() -> list[LabelledProcess]:
            return [process for node in nodes for process in self._processes_of(node)]

        with ExitStack() as locks:
            for node in nodes:
                locks.enter_context(node.lock)
            # First stopped: a JVM whose Python process has died before it would tidy up, as no crash does.
            stop_all(found, self.options.kill_seconds)
            return self._kill(nodes, found)

    def terminate_node(self, name: str) -> KillProof:
        """SIGTERM every process of a node, the same as `kill_node` would end."""
        node = self._node(name)
        with node.lock:
            return self._kill([node], lambda: self._processes_of(node), signal.SIGTERM)

    def kill_part(self, name: str, part: Part) -> KillProof:
        """SIGKILL a node's executor with its Python processes, and leave the worker, which will start another; or the
        Python processes alone."""
        node = self._node(name)
        with node.lock:
            # First stopped: what is stopped cannot fork, and nobody starts another in its place before it is gone.
            stopped = stop_all(lambda: processes_of_part(part, self._processes_of(node)), self.options.kill_seconds)
            return self._kill([node], lambda: [process for process in stopped if process.process.alive()])

    def has_come_up(self, name: str) -> bool:
        node = self._node(name)
        return node.running() and has_come_up(node.role, node.log_text())

    # -- pausing ----------------------------------------------------------------------------------------------------

    def stop_node(self, name: str) -> StopProof:
        """SIGSTOP a node, the same processes as `kill_node` would end. `resume` lets them go on."""
        node = self._node(name)
        with node.lock:
            stopped = stop_all(lambda: self._processes_of(node), self.options.kill_seconds)
            now = {process.process for process in self._processes_of(node)}
            return StopProof(name, stopped, now <= {process.process for process in stopped})

    def disturb(self, disturbance: Disturbance) -> InForce:
        raise Unsupported(f"{self.run_id} runs as processes of this machine, which cannot do this: {disturbance}")

    def resume(self, proof: StopProof) -> None:
        """SIGCONT what was stopped. A process that has ended meanwhile, or its successor, is not touched."""
        for process in proof.processes:
            process.process.resume()
        wait_until(
            lambda: not any(process.process.stopped() for process in proof.processes),
            self.options.kill_seconds,
            f"the processes of {proof.node} to go on",
        )

    def _kill(
        self,
        nodes: Sequence[ProcessNode],
        find: Callable[[], list[LabelledProcess]],
        number: signal.Signals = signal.SIGKILL,
    ) -> KillProof:
        ended = end_all(find, self.options.kill_seconds, number)
        for node in nodes:
            if node.process is not None and node.popen is not None and not node.process.alive():
                node.popen.wait()  # Only now may its pid be given away.
        return KillProof(
            node=", ".join(node.name for node in nodes),
            processes=tuple(Killed(process.pid, process.kind, process.command) for process in ended.processes),
            when=ended.when,
            gone_at=ended.gone_at,
            gone=not ended.survivors,
        )

    # -- what its processes are given -------------------------------------------------------------------------------

    def _prepare_folder(self) -> None:
        self._settings = {**self.settings, **self._layout.private_settings(secrets.token_hex(32))}
        for folder in (self.logs_folder, self.scratch / "conf", self.scratch / "tmp"):
            _make_folder(folder)
        try:
            reaping.mark_scratch(self.scratch, self.run_id, self._labels.owner)
            link_home(self.spark, self._layout.spark.home)
        except OSError as problem:
            raise StorageFailed(f"{self.scratch} cannot be written to: {problem}") from problem
        write_private(self._layout.log4j2, LOG4J2)
        write_private(self._layout.daemon_properties, self._layout.daemon_settings(self._settings))

    def _environment(self, node: ProcessNode) -> dict[str, str]:
        # A Spark that the user has set up elsewhere must not leak in.
        foreign = ("SPARK_", "PYSPARK_", "STREAMPROOF_")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
            **self._labels.environment(node.name, node.role),
            **self._layout.environment(LOOPBACK, self.scratch / node.name, self._import_path(node)),
            ADDRESS: LOOPBACK,
        }

    def _import_path(self, node: ProcessNode) -> str:
        """For what is of another interpreter than this one's, streamproof comes first, and alone."""
        own = self.spark.own or node.role in _OF_THE_HARNESS
        theirs = inherited_import_path(own=own)
        if own:
            return theirs
        return os.pathsep.join(filter(None, [str(link_package(self.scratch / "inside")), theirs]))

    # -- looking up -------------------------------------------------------------------------------------------------

    def _node(self, name: str) -> ProcessNode:
        node = self._nodes.get(name)
        if node is None:
            raise Unsupported(f"there is no node {name!r}; there are: {', '.join(self._nodes)}")
        return node

    def _workers(self) -> list[ProcessNode]:
        return [node for node in self._nodes.values() if node.role.startswith("worker-")]

    def _sessions(self) -> dict[int, str]:
        """The sessions that are this run's for certain: their leaders have not been waited for, or live."""
        return {
            node.process.pid: node.name
            for node in list(self._nodes.values())
            if node.process is not None and node.popen is not None and node.popen.returncode is None
        }

    def _processes_of(self, node: ProcessNode) -> list[LabelledProcess]:
        sessions = {pid: name for pid, name in self._sessions().items() if name == node.name}
        return [process for process in labelled_processes(self.run_id, sessions) if process.node == node.name]


_STREAMS = ("stdout", "stderr")
_OF_THE_HARNESS = ("watchdog", "toxiproxy", "files")
"""Roles of processes that are none of Spark's, and run by this interpreter."""


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StorageFailed(f"the folder {folder} cannot be made: {problem}") from problem
