"""The driver of a scheme on embedded Spark: it hosts the manager, and runs one job whose tasks are the node agents.

All slices go with it. The harness starts it again, and its manager goes on where the numbers of the one before it end.

Run as `python -m streamproof.harness.worlds.spark.schemes.driver PLAN`; PLAN is a file that the harness wrote.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import threading
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark import SparkConf, SparkContext

from ....core.errors import StreamproofError
from ....core.topology import Role
from ....core.wire import VERSION, Endpoint, Greeting, accept, decoded, frame, read_frame
from ....protocol.manager import (
    ActiveReplicas,
    Announce,
    Manager,
    ManagerInput,
    NodeJoined,
    NodeLost,
    PlaceSlice,
    PromoteSlice,
    SayStopped,
    SliceFenced,
    SliceReady,
    SliceUp,
    TogetherFrom,
    Trust,
    WaitedEnough,
    Withdraw,
)
from ....protocol.placement import Placement
from ..control.nodes import own_address
from ..control.run_messages import (
    HEARTBEAT,
    HEARTBEAT_LIMIT,
    AllStopped,
    Failed,
    Fenced,
    InspectAll,
    Join,
    NodeSeen,
    PromoteIncarnation,
    ReplicaReady,
    Route,
    StartSlice,
    Together,
    Trusted,
    Up,
    Withdrawn,
    harness_to_driver,
    to_manager,
)
from .executor import AgentPlan, run_node_agent
from .incarnations import Incarnations
from .pulse import PURPOSE
from .silence import SilenceWatch

_PATIENCE = 5.0
"""Seconds for which the manager of a driver that was started again waits for all nodes, once the first has joined."""


@dataclass(frozen=True)
class DriverPlan:
    """What the driver needs to know."""

    agents: AgentPlan
    nodes: int
    replicas: int
    active_replicas: ActiveReplicas
    seed: int
    """Of the run."""
    durable: Path
    """The folder for what the manager must still know when it comes back."""
    placement: Placement = Placement.LEAST_LOADED
    restarts_by: str = ""
    """As in `SchemeSubject`."""


@dataclass(frozen=True)
class _Agent:
    """A node agent, as the manager's host sees it."""

    writer: asyncio.StreamWriter
    links: Endpoint


class ManagerHost:
    """Detects lost nodes, and carries out what the manager decides."""

    def __init__(self, plan: DriverPlan) -> None:
        self._token = plan.agents.token
        self._specs = plan.agents.actors
        on_nodes = [spec for spec in plan.agents.specs if spec.on_nodes]
        self._incarnations = Incarnations(plan.durable)
        newest = self._incarnations.read()
        self._comes_back = bool(newest)
        """Whether another manager has placed slices before."""
        self._manager = Manager(
            [spec.slice_id for spec in on_nodes],
            plan.nodes,
            plan.replicas,
            plan.active_replicas,
            newest,
            coordinators=[spec.slice_id for spec in plan.agents.coordinators],
            placement=plan.placement,
            restarts_by=plan.restarts_by,
            alone=[spec.slice_id for spec in on_nodes if spec.role is Role.SINK],
        )
        self._seed = plan.seed
        self._agents: dict[str, _Agent] = {}
        self._silence = SilenceWatch(HEARTBEAT_LIMIT, HEARTBEAT, time.monotonic())
        self._replica: dict[tuple[str, int], int] = {}
        """(slice, incarnation) -> which replica that is."""
        self._routes: dict[tuple[str, int], Route] = {}
        self._withdrawn: list[Withdrawn] = []
        self._harness: asyncio.StreamWriter | None = None

    async def listen(self) -> Endpoint:
        self._server = await asyncio.start_server(self._answer, own_address(), 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def serve(self, harness: Endpoint) -> None:
        """Until the harness goes away."""
        reader, self._harness = await asyncio.open_connection(*harness)
        self._harness.write(frame(Greeting(VERSION, self._token, "driver", "driver")))
        watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            while (body := await read_frame(reader)) is not None:
                message = decoded(harness_to_driver, body)
                if isinstance(message, Route):
                    self._announce(message)
                else:
                    self._tell_all(message)
        finally:
            watching.cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = await accept(reader, self._token)
        if greeting is not None and greeting.purpose == PURPOSE:
            await self._feel(greeting.node, reader)
        if greeting is None or greeting.purpose != "manager":
            writer.close()
            return
        node = greeting.node
        agent: _Agent | None = None
        while (body := await read_frame(reader)) is not None:
            message = decoded(to_manager, body)
            match message:
                case Join(links=links):
                    if node in self._agents:
                        self._lose(node, self._agents[node])
                    agent = self._agents[node] = _Agent(writer, links)
                    self._silence.heard(node, time.monotonic())
                    self._tell_harness(NodeSeen(node, up=True, when=time.monotonic_ns()))
                    for known in (*self._withdrawn, *self._routes.values()):
                        writer.write(frame(known))
                    self._decide(NodeJoined(node))
                    if self._comes_back:
                        # Nodes may have gone for good while nobody looked; the first manager needs them all.
                        asyncio.get_running_loop().call_later(_PATIENCE, self._decide, WaitedEnough())
                        self._comes_back = False
                case Up(slice=slice_id, incarnation=incarnation):
                    self._decide(SliceUp(slice_id, incarnation))
                case ReplicaReady(slice=slice_id, incarnation=incarnation):
                    self._decide(SliceReady(slice_id, incarnation))
                case Fenced(slice=slice_id, incarnation=incarnation):
                    self._decide(SliceFenced(slice_id, incarnation))
                case Together(coordinator=name, incarnation=incarnation, round=number, cut=cut):
                    self._decide(TogetherFrom(name, incarnation, number, cut))
        if agent is not None:
            self._lose(node, agent)

    async def _feel(self, node: str, reader: asyncio.StreamReader) -> None:
        """A node's pulse, until it ends."""
        while (body := await read_frame(reader)) is not None:
            decoded(to_manager, body)
            if node in self._agents:
                self._silence.heard(node, time.monotonic())

    async def _watch(self) -> None:
        """Silence is a loss too."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            for node in self._silence.look(time.monotonic()):
                self._lose(node, self._agents[node])

    def _lose(self, node: str, agent: _Agent) -> None:
        if self._agents.get(node) is not agent:
            return
        del self._agents[node]
        self._silence.forget(node)
        # Not `close`, which would first deliver what is buffered: the node may be stopped.
        agent.writer.transport.abort()
        self._tell_harness(NodeSeen(node, up=False, when=time.monotonic_ns()))
        self._decide(NodeLost(node))

    def _decide(self, given: ManagerInput) -> None:
        effects = self._manager.on(given)
        if any(isinstance(effect, PlaceSlice) for effect in effects):
            try:
                self._incarnations.write(self._manager.newest)
            except StreamproofError as error:
                self._tell_harness(Failed(type(error).__name__, str(error)))
                return
        for effect in effects:
            slice_id, incarnation = effect.slice_id, effect.incarnation
            match effect:
                case PlaceSlice(replica=replica, node=node, initial=initial, cut=cut):
                    self._replica[slice_id, incarnation] = replica
                    seed = self._specs[slice_id].seed_of(incarnation, self._seed)
                    self._tell(node, StartSlice(slice_id, replica, incarnation, initial, seed, cut))
                case SayStopped(node=node, round=number):
                    self._tell(node, AllStopped(slice_id, incarnation, number))
                case PromoteSlice(node=node):
                    self._tell(node, PromoteIncarnation(slice_id, incarnation))
                case Announce(node=node, active=active):
                    replica = self._replica[slice_id, incarnation]
                    self._announce(Route(slice_id, replica, incarnation, node, self._agents[node].links, active))
                case Trust():
                    self._tell_harness(Trusted(slice_id, incarnation, time.monotonic_ns()))
                case Withdraw():
                    withdrawn = Withdrawn(slice_id, incarnation)
                    self._routes.pop((slice_id, incarnation), None)
                    self._withdrawn.append(withdrawn)
                    self._tell_all(withdrawn)
                    self._tell_harness(withdrawn)

    def _announce(self, route: Route) -> None:
        self._routes[route.slice, route.incarnation] = route
        self._tell_all(route)
        self._tell_harness(route)

    def _tell(self, node: str, message: StartSlice | PromoteIncarnation | AllStopped) -> None:
        self._agents[node].writer.write(frame(message))

    def _tell_all(self, message: Route | Withdrawn | InspectAll) -> None:
        for agent in self._agents.values():
            agent.writer.write(frame(message))

    def _tell_harness(self, message: Route | Withdrawn | NodeSeen | Trusted | Failed) -> None:
        if self._harness is not None:
            self._harness.write(frame(message))


def _run_agents(plan: AgentPlan, nodes: int) -> None:
    """Ends the driver when the job fails: the harness sees that, and the log says why."""
    try:
        _run_job(plan, nodes)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _run_job(plan: AgentPlan, nodes: int) -> None:
    context = SparkContext(conf=SparkConf().setAppName("streamproof"))
    context.parallelize(range(nodes), nodes).mapPartitions(lambda _: run_node_agent(plan)).collect()


async def _main(plan: DriverPlan) -> None:
    host = ManagerHost(plan)
    manager = await host.listen()
    agents = replace(plan.agents, manager=manager)
    job = threading.Thread(target=_run_agents, args=(agents, plan.nodes), name="agents", daemon=True)
    job.start()
    await host.serve(plan.agents.harness)


if __name__ == "__main__":
    asyncio.run(_main(pickle.loads(Path(sys.argv[1]).read_bytes())))
