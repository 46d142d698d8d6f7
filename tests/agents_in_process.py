"""An embedded cluster without Spark: the same manager, node agents and harness, with a thread for each node."""

from __future__ import annotations

import asyncio
import pickle
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.places import numbered_workers
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.core.wire import Endpoint
from streamproof.harness.install.machine import find_toxiproxy
from streamproof.harness.install.toxiproxy_server import listening_port, server_command
from streamproof.harness.recording.history import Proof
from streamproof.harness.worlds.embedded.proofs import Killed, KillProof
from streamproof.harness.worlds.spark.control.nodes import LOOPBACK
from streamproof.harness.worlds.spark.schemes.deployment import SchemeDeployment, deploy_scheme
from streamproof.harness.worlds.spark.schemes.driver import DriverPlan, ManagerHost
from streamproof.harness.worlds.spark.schemes.executor import AgentLink, AgentPlan, _reach, _work


class _Loop:
    """An event loop in a thread, until it is ended."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(work())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        # Whoever is ended while it talks to somebody fails in its own way.
        self._loop.set_exception_handler(lambda loop, context: None)
        with suppress(asyncio.CancelledError, OSError):
            self._loop.run_until_complete(self._task)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def call(self, work: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(work)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(5)
        assert not self._thread.is_alive()


class _Driver:
    """A manager in a thread. Its agents hear it end, as they do when Spark loses a driver."""

    stderr = Path("/dev/null")

    def __init__(self, plan: DriverPlan) -> None:
        host = ManagerHost(plan)
        places: list[Any] = []
        listening = threading.Event()

        async def manage() -> None:
            places.append(await host.listen())
            listening.set()
            try:
                await host.serve(plan.agents.harness)
            finally:
                # As the end of its process would; nothing is decided any more.
                host._server.close()
                agents, host._agents = host._agents, {}
                for writer in (host._harness, *(agent.writer for agent in agents.values())):
                    if writer is not None:
                        writer.transport.abort()

        self._loop = _Loop(manage)
        self._status: int | None = None
        assert listening.wait(5)
        self.agents: AgentPlan = replace(plan.agents, manager=places[0])

    def poll(self) -> int | None:
        return self._status

    def end(self) -> None:
        self._loop.end()
        self._status = -9

    def stop(self) -> threading.Event:
        """It does nothing until the event is set."""
        goes_on = threading.Event()
        self._loop.call(goes_on.wait)
        return goes_on


@dataclass(frozen=True)
class _Stop:
    goes_on: threading.Event
    pids = (0,)
    proof = Proof(1, "threads stopped")


class _Node:
    """A node agent in a thread. It dies by losing its link to the harness first, so that it can tell nobody what it
    still does."""

    def __init__(self, name: str, plan: AgentPlan) -> None:
        self.alive = True
        self._harness: AgentLink | None = None
        self._loop = _Loop(lambda: self._serve(name, plan))

    async def _serve(self, name: str, plan: AgentPlan) -> None:
        self._harness = AgentLink(plan, name)
        while (manager := await _reach(plan.manager)) is not None:
            await _work(plan, name, self._harness, *manager)

    def end(self) -> None:
        self.alive = False
        if self._harness is not None:
            with suppress(OSError):  # The harness may have closed it first.
                self._harness._connection._socket.shutdown(socket.SHUT_RDWR)
        self._loop.end()


@contextmanager
def toxiproxy(seed: int) -> Iterator[Endpoint]:
    """The toxiproxy of PATH, on loopback."""
    command = server_command(str(find_toxiproxy()), LOOPBACK, 0, seed)
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield LOOPBACK, wait_until(lambda: listening_port(server.pid), 10, "toxiproxy to come up")
    finally:
        server.kill()
        server.wait()


class ThreadsForProcesses:
    """What `SchemeDeployment` asks of `SparkProcesses`."""

    def __init__(self, folder: Path, workers: int, restart_after: float) -> None:
        self.workers = workers
        self.failure = None
        self.address = LOOPBACK
        self.scratch = folder
        self._restart_after = restart_after
        self._names = [f"node-{i}" for i in range(workers)]
        self._nodes: dict[str, _Node] = {}
        self._down: set[str] = set()
        """Those that were killed, and have not been started again."""
        self._starting = threading.Lock()
        self._driver: _Driver | None = None
        self._helpers = ExitStack()
        self._closing = threading.Event()

    def start_driver(self, name: str, module: str, args: Sequence[str]) -> _Driver:
        with self._starting:
            for node in self._nodes.values():
                if node.alive:
                    node.end()
            self._driver = _Driver(pickle.loads(Path(args[0]).read_bytes()))
            for worker in set(self._names) - self._down:
                self._nodes[worker] = _Node(worker, self._driver.agents)
            return self._driver

    def start_toxiproxy(self, seed: int) -> Endpoint:
        return self._helpers.enter_context(toxiproxy(seed))

    def nodes(self) -> Mapping[str, object]:
        return {**self._nodes, "driver": self._driver}

    def kill_node(self, name: str) -> KillProof:
        when = time.monotonic_ns()
        proof = KillProof(name, (Killed(0, "thread", name),), when, when, gone=True)
        if name == "driver":
            assert self._driver is not None
            self._driver.end()
            return proof
        node = self._nodes[name]
        if not node.alive:
            return replace(proof, processes=())
        node.end()
        self._down.add(name)
        threading.Thread(target=self._restart, args=(name,), daemon=True).start()
        return replace(proof, gone_at=time.monotonic_ns())

    def stop_node(self, name: str) -> _Stop:
        """The driver alone."""
        assert name == "driver"
        assert self._driver is not None
        return _Stop(self._driver.stop())

    def resume(self, stopped: _Stop) -> None:
        stopped.goes_on.set()

    def _restart(self, name: str) -> None:
        if self._closing.wait(self._restart_after):
            return
        with self._starting:
            assert self._driver is not None
            self._down.discard(name)
            self._nodes[name] = _Node(name, self._driver.agents)

    def close(self) -> None:
        self._closing.set()
        for node in self._nodes.values():
            if node.alive:
                node.end()
        if self._driver is not None and self._driver.poll() is None:
            self._driver.end()
        self._helpers.close()


class ThreadsCluster:
    """As `EmbeddedCluster`, without its processes."""

    name = "embedded"
    virtual_time = False

    def __init__(self, workers: int = 3, restart_after: float = 0.3) -> None:
        self._workers, self._restart_after = workers, restart_after
        self.places = numbered_workers(workers, ("driver",))

    def check(self, scenario: Scenario) -> None:
        pass

    def require(self, carriers: Collection[str]) -> None:
        pass

    def describe(self, scenario: Scenario) -> Mapping[str, object]:
        return {"cluster": self.name}

    @contextmanager
    def deploy(self, run: Run) -> Iterator[SchemeDeployment]:
        assert run.folder is not None
        processes = ThreadsForProcesses(run.folder, self._workers, self._restart_after)
        try:
            with deploy_scheme(run, processes) as deployment:  # type: ignore[arg-type]
                yield deployment
        finally:
            processes.close()
