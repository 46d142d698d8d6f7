"""A scheme on embedded Spark: node agents in the executors, the manager in the driver, sources and sinks in here.

The harness starts the driver again whenever a fault has taken it. Its executors end with it: that is a crash of all
slices at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from ....contracts.cluster import Live, Run
from ....contracts.injection import Link, single
from ....contracts.subject import SchemeSubject
from ....core.addresses import Address
from ....core.carriers import OF_LINKS, STORE_VOLUME, TOXIPROXY
from ....core.errors import DeadlinePassed, OwnFailure, StorageRefused, Unsupported
from ....core.quantities import Duration
from ....core.signs import Signs
from ....core.slice_names import operator_of, replica_name, slice_of
from ....core.topology import Role
from ....core.waiting import wait_until
from ....core.wire import Greeting, decoded, frame, read_frame
from ....protocol.effects import RestartAll
from ....protocol.host import Actor
from ....protocol.making import Feed, make_slice
from ....protocol.progress import Progress
from ....protocol.stores import MemoryStore
from ....recording.history import Bite, Drained, Proof
from ....recording.records import CheckpointDurable, InSync, Kept, Record, Started
from ..control.deployments import ended_by_itself, watched, write_plan
from ..control.flapping import Flapping, in_the_loop
from ..control.machines import ClusterMachines, Heal, SaysIdle, SlowHeal, Striking
from ..control.nodes import Kill, Nodes
from ..control.run_messages import (
    Begun,
    DriverToHarness,
    Failed,
    InspectAll,
    NodeSeen,
    Route,
    StartSlice,
    Trusted,
    Withdrawn,
    driver_to_harness,
)
from ..control.run_server import RunServer, from_afar
from ..control.slowing import Between, ProxiedLinks
from ..control.toxics import Toxic, Toxiproxy, bandwidth_toxic, latency, slow_close_toxic
from .agent import NodeAgent
from .driver import DriverPlan
from .executor import AgentPlan
from .incarnations import Incarnations
from .outside import Committed, NumberingRecorder
from .relay import LinkRelay

HARNESS = "harness"
DRIVER = "driver"
CHECKPOINTS = "checkpoints"
"""The folder of the checkpoint store, in that of the run."""
READY_SECONDS = 60.0
KEPT_SECONDS = 20.0


@contextmanager
def deploy_scheme(run: Run, processes: Nodes) -> Iterator[SchemeDeployment]:
    """Serve one run on a cluster that is up."""
    deployment = SchemeDeployment(run, processes)
    with deployment.server:
        try:
            yield deployment
        finally:
            deployment.close()


class SchemeDeployment:
    """One run. Its methods are called from the harness's thread; everything else happens in the server's loop."""

    def __init__(self, run: Run, processes: Nodes) -> None:
        subject = run.scenario.subject
        assert isinstance(subject, SchemeSubject)
        assert run.folder is not None
        self._run = run
        self._folder: Path = run.folder
        self._processes = processes
        self._specs = {spec.slice_id: spec for spec in subject.specs}
        self._operators = [s for s, spec in self._specs.items() if spec.role is Role.OPERATOR]
        self._ends = [s for s, spec in self._specs.items() if not spec.on_nodes]
        self._outside = Committed(subject.specs, run.folder / CHECKPOINTS)
        if self._outside.sinks and STORE_VOLUME in run.carriers:
            raise Unsupported(
                f"{', '.join(sorted(self._outside.sinks))} of {subject.name} commit to the checkpoint store, and a "
                "fault fills it: it is a volume then, which the harness cannot read what was committed from. Use "
                "another fault of the store, as failed_write(), or a sink outside of every fault domain"
            )
        self._progress = Progress(tuple(self._specs.values()))
        self._replicas, self._active_replicas = subject.replicas, subject.active_replicas
        self._placement, self._restarts_by = subject.placed, subject.restarts_by
        self._coordinators = subject.coordinators
        self._leaders = frozenset(spec.slice_id for spec in subject.coordinators)
        self._wrap_store = subject.wrap_store
        self._standbys_keep = not subject.all_active and subject.replicas_take_all
        """Whether replicas that are not active process their input all the same."""
        self._current: dict[str, set[int]] = {}
        """Slice -> its incarnations that are alive and active."""
        self._standbys: dict[str, set[int]] = {}
        """Slice -> those that are alive and not active."""
        self._in_sync: set[tuple[str, int]] = set()
        self._dead: set[tuple[str, int]] = set()
        """(slice, incarnation) of those that are known to have gone with their nodes."""
        self._newest: dict[str, tuple[str, int]] = {}
        """Replica -> its slice, and its newest incarnation."""
        self._node_of: dict[str, str] = {}
        """Replica -> where its newest incarnation was started, unless that is known to have gone."""
        self._lives: dict[str, int] = {}
        """Node -> when anything last began there, on the machine's monotonic clock, ns, if it did since the node came
        up."""
        self._kept: set[tuple[str, int]] = set()
        self._withdrawn: set[tuple[str, int]] = set()
        """(slice, incarnation) of those that nobody is to listen to any more."""
        self._end_routes: list[Route] = []
        """Of the sources and sinks that have been started."""
        self._driver_link: asyncio.StreamWriter | None = None
        self._drivers = 0
        """How many have been started."""
        self._conversations = 0
        """Connections of theirs that have not been heard to their end."""
        self._launched = 0
        """When the newest was, on the machine's monotonic clock, ns."""
        self.server = RunServer(
            NumberingRecorder(run.recorder, self._outside),
            tuple(run.scenario.faults),
            run.kinds,
            run.seed,
            self._arm,
            self._noted,
            self._begun,
            {DRIVER: self._hear_driver},
            processes.address,
        )
        self._signs = Signs(lambda: self.server.signs)
        self._names: dict[tuple[str, int], str] = {}
        """(slice, incarnation) -> which replica that is."""
        disturbed = not run.carriers.isdisjoint(OF_LINKS)
        self._relay = LinkRelay(self.server.token, self._name_of, self.server.fail) if disturbed else None
        self._agent = NodeAgent(
            HARNESS,
            self.server.token,
            self._make_end,
            {**self._specs, **{spec.slice_id: spec for spec in self._coordinators}},
            MemoryStore(),
            self.server.armed,
            _Here(self.server),
            up=lambda slice_id, incarnation: None,
            ready=lambda slice_id, incarnation: None,
            fenced=lambda slice_id, incarnation: None,
            restart_all=_leads_nobody,
        )

    # The life cycle

    def prepare(self) -> None:
        """Raises DeadlinePassed or ProcessDied when the slices do not come up."""
        relay = None if self._relay is None else self.server.call(self._relay.listen(self._processes.address))
        self._agent.relay = relay
        if self._relay is not None and relay is not None and TOXIPROXY in self._run.carriers:
            server = Toxiproxy(self._processes.start_toxiproxy(self._run.seed))
            self._relay.pass_through(ProxiedLinks(server, relay, self._is_slowed()))
        self._plan = DriverPlan(
            AgentPlan(
                token=self.server.token,
                manager=("", 0),
                harness=self.server.place,
                checkpoints=self._folder / CHECKPOINTS,
                specs=tuple(self._specs.values()),
                armed=self.server.armed,
                wrap_store=self._wrap_store,
                relay=relay,
                coordinators=self._coordinators,
            ),
            nodes=self._processes.workers,
            replicas=self._replicas,
            active_replicas=self._active_replicas,
            seed=self._run.seed,
            durable=self._processes.scratch / self._run.id,
            placement=self._placement,
            restarts_by=self._restarts_by,
        )
        self._links = self.server.call(self._agent.listen(self._processes.address))
        self._launch()
        wait_until(
            self._watched(self._is_up),
            READY_SECONDS,
            "every replica of every slice to run on a node",
            lambda: f"running: {', '.join(sorted(self._newest)) or 'none'}",
        )

    def start(self) -> None:
        self.server.start_timers()
        self.server.call(self._start_ends())

    def drained(self, deadline: Duration) -> bool:
        """Raises what ended the run early: InvalidOperator, StorageFailed, ProcessDied."""
        behind: tuple[tuple[str, int], ...] = ()

        def finished() -> bool:
            self._signs.silent()
            return self.server.finish(self._at_rest)

        try:
            wait_until(
                self._watched(finished),
                deadline.seconds,
                "the end of the input to pass through",
            )
        except DeadlinePassed:
            if not self.server.finish(self._has_drained):
                return False
            behind = self._behind()
        self._run.recorder.log(Drained(self.server.clock.stamp(), behind))
        return True

    @property
    def stalled(self) -> bool:
        return False

    def waiting_for(self) -> str:
        return self._progress.waiting_for(self._current, self._standbys_at_work())

    def silent(self) -> int:
        return round(self._signs.silent() * 1e6)

    def stop(self) -> None:
        """Record what is kept; the cluster's owner ends the processes."""
        if self.server.finished:
            # Who gets in sync from now on came too late to be asked.
            asked = self._keeping()
            self.server.call(self._inspect())
            # A slice whose state is not on record makes the run UNKNOWN, and the collation says which.
            with suppress(DeadlinePassed):
                wait_until(
                    self._watched(lambda: self._kept >= asked & self._keeping()),
                    KEPT_SECONDS,
                    "every slice's final state",
                )
        for sink in sorted(self._outside.sinks):
            # One that did not live to say so, and that nobody came after.
            self.server.call(self._take_last(sink))
        # What has not come to rest keeps nothing yet: a state seen half-way belongs to no record.
        self.server.missed()

    def close(self) -> None:
        self.server.call(self._agent.close())
        if self._relay is not None:
            self.server.call(self._relay.close())

    def _is_up(self) -> bool:
        """Whether all that the manager places runs."""
        slices = all(self._alive(slice_id) >= self._replicas for slice_id in self._operators)
        return slices and all(map(self._alive, (*self._outside.sinks, *self._leaders)))

    def _alive(self, slice_id: str) -> int:
        return len(self._current.get(slice_id, ())) + len(self._standbys.get(slice_id, ()))

    def _has_drained(self) -> bool:
        return self._progress.drained(self._current, self._standbys_at_work())

    def _at_rest(self) -> bool:
        """Whether those that run are in sync too, unless a fault may be what keeps them from it."""
        return self._has_drained() and (self.server.disturbed or not self._behind())

    def _behind(self) -> tuple[tuple[str, int], ...]:
        """Those that run and are not in sync."""
        behind = set(self._newest.values()) - self._dead - self._in_sync
        return tuple(sorted(one for one in behind if one[0] not in self._leaders))

    def _standbys_at_work(self) -> dict[str, set[int]]:
        """Those that process and are not active."""
        if not self._standbys_keep:
            return {}
        return {s: {i for i in standbys if (s, i) in self._in_sync} for s, standbys in self._standbys.items()}

    def _keeping(self) -> set[tuple[str, int]]:
        """Those that have a state to show at the end."""
        standbys = self._standbys_at_work()
        return {(s, i) for s in self._operators for i in (*self._current.get(s, ()), *standbys.get(s, ()))}

    def _watched(self, condition: Callable[[], bool]) -> Callable[[], bool]:
        """The condition, with an eye on what could end the run meanwhile."""

        def show() -> None:
            self._run.show(Live(self._progress.offered, self._progress.delivered, self.server.fault_in_force))

        return watched(condition, self.server, self._processes, show, self._tend)

    # Drivers

    def _launch(self) -> None:
        """Start the driver, as its next incarnation."""
        self._drivers += 1
        self._launched = time.monotonic_ns()
        path = self.server.call(self._write_plan())
        self._driver = self._processes.start_driver(
            DRIVER, "streamproof.harness.worlds.spark.schemes.driver", [str(path)]
        )

    def _tend(self) -> None:
        """Start the driver again when a fault has taken it and everything that it said has been heard."""
        if self._driver.poll() is None or self._conversations:
            return
        if not self.server.call(self._lose_driver(Incarnations(self._plan.durable).read())):
            raise ended_by_itself(self._driver, self.server)
        self._launch()

    # In the server's loop

    async def _write_plan(self) -> Path:
        """Of the driver. It leads to objects that work here as well, and note on themselves what they have worked out:
        nobody does while it is written."""
        return write_plan(self._processes.scratch / f"{DRIVER}.{self._drivers}.pickle", self._plan, "the topology")

    async def _lose_driver(self, newest: Mapping[str, int]) -> bool:
        """No executor outlives it: whatever it has placed is gone, also what nobody has heard of yet. False: no fault
        has hit it."""
        if not self.server.disturbed_since(self._launched, DRIVER):
            return False
        self.server.node_seen(DRIVER, False, time.monotonic_ns())
        for slice_id, last in newest.items():
            for incarnation in range(1, last + 1):
                self._withdraw(slice_id, incarnation)
        return True

    async def _start_ends(self) -> None:
        for slice_id in self._ends:
            self._agent.start(StartSlice(slice_id, replica=0, incarnation=1, initial=True, seed=0))
            route = Route(slice_id, 0, 1, HARNESS, self._links, active=True)
            self._end_routes.append(route)
            self._hear_route(route)
            if self._driver_link is not None:
                self._driver_link.write(frame(route))

    async def _take_last(self, sink: str) -> None:
        self._take_committed(sink)

    async def _inspect(self) -> None:
        if self._driver_link is not None:
            self._driver_link.write(frame(InspectAll()))

    async def _hear_driver(
        self, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._driver_link = writer
        self._conversations += 1
        self.server.node_seen(DRIVER, True, time.monotonic_ns())
        for route in self._end_routes:
            writer.write(frame(route))
        try:
            while (body := await read_frame(reader)) is not None:
                self._heard(decoded(driver_to_harness, body))
        finally:
            self._conversations -= 1

    def _heard(self, message: DriverToHarness) -> None:
        match message:
            case Route():
                self._hear_route(message)
                if all(self._current.get(s) for s in (*self._operators, *self._outside.sinks)):
                    self.server.fault_in_force = ""
            case Trusted(slice=slice_id, incarnation=incarnation, when=when):
                self.server.note(InSync(slice_id, incarnation), when)
            case Withdrawn(slice=slice_id, incarnation=incarnation):
                self._withdraw(slice_id, incarnation)
            case NodeSeen(node=node, up=up, when=when):
                self.server.node_seen(node, up, when)
                if up and self._lives.get(node, when) < when:
                    del self._lives[node]
                if not up:
                    self._bury_all([name for name, runs_on in self._node_of.items() if runs_on == node])
            case Failed():
                self.server.fail(from_afar(message))

    def _hear_route(self, route: Route) -> None:
        slice_id, incarnation = route.slice, route.incarnation
        if (slice_id, incarnation) in self._dead:
            # It was announced before its node went.
            return
        active, standbys = self._current.setdefault(slice_id, set()), self._standbys.setdefault(slice_id, set())
        (standbys.discard if route.active else standbys.add)(incarnation)
        if route.active:
            active.add(incarnation)
        if self._relay is not None:
            self._relay.lead(slice_id, incarnation, route.links)
        self._agent.route(route)

    def _noted(self, record: Record) -> None:
        self._progress.note(record)
        if isinstance(record, CheckpointDurable | Started) and record.slice in self._outside.sinks:
            # What it says itself, or its successor: it can have died before it said that it had committed.
            self._take_committed(record.slice)
        if isinstance(record, Kept):
            self._kept.add((record.actor, record.incarnation))
        elif isinstance(record, InSync):
            self._in_sync.add((record.slice, record.incarnation))

    def _take_committed(self, sink: str) -> None:
        """Put on record what a sink has committed since it was last looked at."""
        for delivered in self._outside.committed(sink):
            self.server.note(delivered)

    def _begun(self, node: str, message: Begun) -> None:
        self._lives[node] = message.when
        name = self._names[message.slice, message.incarnation] = replica_name(message.slice, message.replica)
        if message.incarnation >= self._newest.get(name, ("", 0))[1]:
            self._newest[name] = message.slice, message.incarnation
            self._node_of[name] = node

    def _name_of(self, slice_id: str, incarnation: int) -> str:
        return self._names.get((slice_id, incarnation), slice_id)

    def _make_end(self, slice_id: str) -> Actor:
        workload = self._run.scenario.workload
        feed = Feed(lambda source: iter(workload.batches(source)), workload.interval, workload.stretch)
        return make_slice(self._specs[slice_id], feed)

    # Faults

    def _is_slowed(self) -> Between:
        """Whether a fault may slow what the first named sends to the second."""
        kinds = self._run.kinds
        faults = [fault for fault in self._run.scenario.faults if TOXIPROXY in kinds[fault.kind].carriers.values()]
        meant = [_either_way(Link.of(fault)) for fault in faults]
        return lambda sender, receiver: any(between(sender, receiver) for between in meant)

    def _arm(self, striking: Striking) -> ClusterMachines:
        return _Machines(
            self._processes,
            self._node_of,
            lambda: not self._has_drained(),
            striking,
            self._relay,
            self._end_life,
            self._may_run_on,
        )

    def _may_run_on(self, node: str) -> bool:
        """Whether anything has begun there, or may be about to begin again."""
        return node in self._lives or not self._newest.keys() <= self._node_of.keys()

    def _end_life(self, node: str, replicas: Iterable[str]) -> None:
        """A node is gone, with these; no executor outlives its driver."""
        if node == DRIVER:
            self._lives.clear()
        self._lives.pop(node, None)
        self._bury_all(replicas)

    def _bury_all(self, replicas: Iterable[str]) -> None:
        for name in replicas:
            self._bury(*self._newest[name])
            # Until it begins again it runs nowhere, whatever comes up where it ran.
            self._node_of.pop(name, None)

    def _withdraw(self, slice_id: str, incarnation: int) -> None:
        """Tell the sources and sinks to listen to it no more."""
        if (slice_id, incarnation) not in self._withdrawn:
            self._withdrawn.add((slice_id, incarnation))
            self._bury(slice_id, incarnation)
            self._agent.withdraw(slice_id, incarnation)

    def _bury(self, slice_id: str, incarnation: int) -> None:
        """It is gone, or nobody listens to it any more."""
        self._dead.add((slice_id, incarnation))
        for living in (self._current, self._standbys):
            living.get(slice_id, set()).discard(incarnation)
        if self._relay is not None:
            self._relay.forget(slice_id, incarnation)


class _Machines(ClusterMachines):
    """The links between slices too, where a relay carries them."""

    def __init__(
        self,
        nodes: Nodes,
        node_of: Mapping[str, str],
        outstanding: Callable[[], bool],
        striking: Striking,
        relay: LinkRelay | None,
        gone: Callable[[str, Iterable[str]], None],
        may_run_on: Callable[[str], bool],
    ) -> None:
        """`gone` is told of a node that was ended, with what was on it; `may_run_on` says whether anything of the
        scheme has begun on a worker."""
        super().__init__(nodes, node_of, outstanding, striking)
        self._relay = relay
        self._gone = gone
        self._may_run_on = may_run_on

    def _end(self, targets: Sequence[str], end: Callable[[str], Kill]) -> list[Bite]:
        bites = super()._end(targets, end)
        every = tuple(self._node_of)
        bites = [msgspec.structs.replace(bite, actors=every) if bite.node == DRIVER else bite for bite in bites]
        for bite in bites:
            if bite.gone and bite.node is not None:
                self._gone(bite.node, bite.actors)
        return bites

    def _idle(self, nodes: Iterable[str]) -> SaysIdle:
        """Without the driver and the master nothing goes on, wherever it runs."""
        hit = tuple(nodes)

        def is_in_use() -> bool:
            return any(node not in self._places.workers or self._may_run_on(node) for node in hit)

        was = is_in_use()
        return lambda: None if was or is_in_use() else Proof(0, "slices that had begun there")

    def _on_store(self, heal: Heal) -> Heal:
        """The nodes say what they were refused. What else was seen is not what is counted."""

        def healed() -> Proof:
            seen = heal()
            return Proof(self._striking.refused(), f"checkpoints refused, beside {seen.count:,} {seen.what}")

        return healed

    def cut(self, links: Sequence[Link]) -> list[Bite]:
        if not self._are_routed(*links):
            return super().cut(links)
        link = single(links)
        return self._on_link(link, self._cut(link)())

    def flap(self, link: Link, every: Duration) -> list[Bite]:
        if not self._are_routed(link):
            return super().flap(link, every)
        return self._on_link(link, Flapping(self._cut(link), every, in_the_loop).heal)

    def _cut(self, link: Link) -> Callable[[], Heal]:
        relay = self._relay
        assert relay is not None

        def begin() -> Heal:
            cut = relay.cut(_either_way(link))

            def heal() -> Proof:
                relay.mend(cut)
                return Proof(cut.held, "bytes held back")

            return heal

        return begin

    def break_link(self, link: Link) -> list[Bite]:
        if not self._are_routed(link):
            return super().break_link(link)
        assert self._relay is not None
        broken = self._relay.break_links(_either_way(replace(link, one_way=True)), self._striking.heal)
        return self._on_link(link, lambda: Proof(broken.lost, "bytes lost"))

    def slow_link(self, link: Link, by: Duration, jitter: Duration | None) -> list[Bite]:
        if not self._are_routed(link):
            return super().slow_link(link, by, jitter)
        return self._slow(link, latency(by, jitter))

    def narrow(self, link: Link, rate: int) -> list[Bite]:
        if not self._are_routed(link):
            return super().narrow(link, rate)
        return self._slow(link, bandwidth_toxic(rate))

    def close_slowly(self, link: Link, by: Duration) -> list[Bite]:
        if not self._are_routed(link):
            return super().close_slowly(link, by)
        return self._slow(link, slow_close_toxic(by))

    def _slow(self, link: Link, toxic: Toxic) -> list[Bite]:
        relay = self._relay
        assert relay is not None
        slowing = relay.slow(_either_way(link), toxic)
        return self._on_link(link, lambda: relay.hasten(slowing))

    def _are_routed(self, *links: Link) -> bool:
        """Whether they are between slices, and not between nodes."""
        return not self._places.among(end for link in links for end in (link.first, link.second))

    def _on_link(self, link: Link, heal: Heal | SlowHeal) -> list[Bite]:
        name = f"{link.first} and {link.second}"
        self.lasting.append((name, heal))
        return [self._lasting_bite(name, name, (link.first, link.second))]


def _either_way(link: Link) -> Between:
    def between(sender: str, receiver: str) -> bool:
        there = is_end(sender, link.first) and is_end(receiver, link.second)
        return there or (not link.one_way and is_end(sender, link.second) and is_end(receiver, link.first))

    return between


def is_end(name: str, target: str) -> bool:
    """Whether a target means this replica, source or sink: by its name, or by that of its operator."""
    return target in (name, operator_of(slice_of(name)))


def _leads_nobody(coordinator: str, incarnation: int, given: RestartAll) -> None:
    """Coordinators run on nodes."""
    raise OwnFailure(f"{coordinator}#{incarnation} runs in the harness")


class _Here:
    """The harness, for the agent that runs inside it."""

    def __init__(self, server: RunServer) -> None:
        self._server = server
        self.note = server.note
        self.failed = server.fail

    def begun(self, start: StartSlice) -> None:
        """The ends are never redeployed."""

    def refused(self, slice_id: str, incarnation: int, refusal: StorageRefused, began: int) -> None:
        """They keep nothing on a disk."""

    def arrive(self, address: Address, taken: int, exact: bool) -> None:
        self._server.arrived(address, taken, exact)
