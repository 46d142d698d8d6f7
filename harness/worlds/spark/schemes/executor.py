"""The long-running task that makes an executor a node: it connects a node agent to its manager and to the harness."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ....core.addresses import Address, Moment
from ....core.errors import OwnFailure, StorageRefused, StreamproofError
from ....core.wire import VERSION, BlockingConnection, Endpoint, Greeting, decoded, frame, read_frame
from ....protocol.coordinator import CoordinatorSpec
from ....protocol.effects import RestartAll
from ....protocol.host import Actor
from ....protocol.making import make_actor, store_within
from ....protocol.spec import SliceSpec
from ....protocol.stores import CheckpointStore, FileStore
from ....recording.records import Record
from ..control.nodes import own_address
from ..control.run_messages import (
    AllStopped,
    Arrived,
    Begun,
    Failed,
    Fenced,
    InspectAll,
    Join,
    PromoteIncarnation,
    ReplicaReady,
    Route,
    StartSlice,
    Together,
    Took,
    Up,
    Withdrawn,
    WriteRefused,
    from_manager,
)
from .agent import NodeAgent
from .pulse import pulse


@dataclass(frozen=True)
class AgentPlan:
    """What a node agent needs to know; shipped to it by Spark."""

    token: str
    manager: Endpoint
    harness: Endpoint
    checkpoints: Path
    specs: tuple[SliceSpec, ...]
    armed: tuple[Moment, ...]
    wrap_store: Callable[[CheckpointStore], CheckpointStore]
    """As in `SchemeSubject`."""
    relay: Endpoint | None = None
    """Where links are dialled instead of at their peers, in a run that disturbs them."""
    coordinators: tuple[CoordinatorSpec, ...] = ()

    @property
    def actors(self) -> dict[str, SliceSpec | CoordinatorSpec]:
        every: tuple[SliceSpec | CoordinatorSpec, ...] = (*self.specs, *self.coordinators)
        return {spec.slice_id: spec for spec in every}


class AgentLink:
    """An agent's connection to the harness. It is waited on: a record is in the kernel's hands before anything that
    follows it is sent, so it arrives even if the node dies. It is one, so that who hears of a point has heard before
    where its slice was started and what it had done by then."""

    def __init__(self, plan: AgentPlan, node: str) -> None:
        self._connection = BlockingConnection(plan.harness, Greeting(VERSION, plan.token, "agent", node))

    def note(self, record: Record) -> None:
        self._connection.send(Took(time.monotonic_ns(), record))

    def begun(self, start: StartSlice) -> None:
        self._connection.send(Begun(start.slice, start.replica, start.incarnation, time.monotonic_ns()))

    def arrive(self, address: Address, taken: int, exact: bool) -> None:
        self._connection.send(Arrived(address, taken, exact, time.monotonic_ns()))
        if self._connection.receive() is None:
            raise OwnFailure("the controller went away while a point was held")

    def refused(self, slice_id: str, incarnation: int, refusal: StorageRefused, began: int) -> None:
        self._connection.send(WriteRefused(slice_id, incarnation, str(refusal), began, time.monotonic_ns()))

    def failed(self, error: StreamproofError) -> None:
        self._connection.send(Failed(type(error).__name__, str(error)))


def run_node_agent(plan: AgentPlan) -> Iterator[str]:
    """The body of the task. Returns when the manager has gone away."""
    node = os.environ["STREAMPROOF_NODE"]
    asyncio.run(_serve(plan, node))
    yield node


async def _serve(plan: AgentPlan, node: str) -> None:
    harness = AgentLink(plan, node)
    # A manager that took this node for lost ends the conversation. The node then joins again, blank: its task must not
    # end, since Spark runs no other in place of one that has.
    while (manager := await _reach(plan.manager)) is not None:
        await _work(plan, node, harness, *manager)


async def _reach(manager: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    try:
        return await asyncio.open_connection(*manager)
    except OSError:
        return None


async def _work(
    plan: AgentPlan, node: str, harness: AgentLink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Be a node until the manager ends the conversation."""
    specs = plan.actors

    def make(slice_id: str) -> Actor:
        return make_actor(specs[slice_id])

    def up(slice_id: str, incarnation: int) -> None:
        writer.write(frame(Up(slice_id, incarnation)))

    def ready(slice_id: str, incarnation: int) -> None:
        writer.write(frame(ReplicaReady(slice_id, incarnation)))

    def fenced(slice_id: str, incarnation: int) -> None:
        writer.write(frame(Fenced(slice_id, incarnation)))

    def restart_all(coordinator: str, incarnation: int, given: RestartAll) -> None:
        writer.write(frame(Together(coordinator, incarnation, given.round, given.cut)))

    store = store_within(plan.wrap_store, FileStore(plan.checkpoints))
    agent = NodeAgent(node, plan.token, make, specs, store, plan.armed, harness, up, ready, fenced, restart_all)
    agent.relay = plan.relay
    place = await agent.listen(own_address())
    writer.write(frame(Greeting(VERSION, plan.token, "manager", node)) + frame(Join(place)))
    try:
        with pulse(plan.manager, plan.token, node):
            while (body := await read_frame(reader)) is not None:
                message = decoded(from_manager, body)
                try:
                    match message:
                        case StartSlice():
                            agent.start(message)
                        case PromoteIncarnation(slice=slice_id, incarnation=incarnation):
                            agent.promote(slice_id, incarnation)
                        case Route():
                            agent.route(message)
                        case Withdrawn(slice=slice_id, incarnation=incarnation):
                            agent.withdraw(slice_id, incarnation)
                        case AllStopped(coordinator=name, incarnation=incarnation, round=number):
                            agent.stopped(name, incarnation, number)
                        case InspectAll():
                            agent.inspect()
                except StreamproofError as error:
                    harness.failed(error)
    finally:
        writer.close()
        await agent.close()
