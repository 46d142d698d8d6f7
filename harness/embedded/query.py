"""A query on embedded Spark: two reference runs in a driver of their own, then the judged run in a driver under fault.

The harness starts the driver again whenever a fault has taken it, as its next incarnation on the same checkpoint.
A fault can also make the query fail: what it needs is out of reach, or refused. The references have shown by then that
the query can do this input without failures, and so the rule is
- a query that fails, or whose driver ends, in a life that a fault has touched, was made to fail by the fault: it is
  started again, after a pause that grows while it keeps failing;
- one that fails in a life that no fault has touched, after an earlier one that a fault has, does not recover: the run
  comes to rest without having come to its end, and says so;
- one that fails before any fault has struck is wrong itself (InvalidOperator), or was ended by what the harness is
  answerable for (OwnFailure).
A fault touches a life if it was in force at any moment of it, from the launch of the driver on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ..addresses import Moment, Point
from ..cluster import Live, Run
from ..errors import DeadlinePassed, InvalidOperator, StorageFailed, StreamproofError
from ..judging.references import DRIVER, REFERENCES, SINK
from ..quantities import Duration
from ..query import SOURCE, Query, RunFolders
from ..recording.history import Drained, Proof
from ..recording.records import Delivered, Ended, Offered, Record, Refused
from ..waiting import wait_until
from ..wire import Greeting, decoded, frame, read_frame
from .deployments import ended_by_itself, watched, write_plan
from .machines import ClusterMachines, Heal, Striking
from .nodes import Driver, Nodes
from .private_files import write_private
from .protocol import Arrived, Begun, Failed, Go
from .query_driver import QueryPlan, QueryRun
from .query_source import SourcePlan, spans, write_events
from .run_server import RunServer, from_afar

REFERENCE_DRIVER = "reference"
READY_SECONDS = 90.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0
"""Seconds before a query that a fault has made to fail is started again."""
_SETTINGS = {
    # The state's partitions; each costs every batch a task.
    "spark.sql.shuffle.partitions": "2",
}

_from_driver = msgspec.msgpack.Decoder(Record | Begun | Arrived | Failed)


@contextmanager
def deploy_query(run: Run, processes: Nodes) -> Iterator[QueryDeployment]:
    """Serve one run on a cluster that is up."""
    deployment = QueryDeployment(run, processes)
    with deployment.server:
        yield deployment


class QueryDeployment:
    """One run. Its methods are called from the harness's thread; everything else happens in the server's loop."""

    def __init__(self, run: Run, processes: Nodes) -> None:
        subject = run.scenario.subject
        assert isinstance(subject, Query)
        assert run.folder is not None
        self._run = run
        self._query = subject
        self._folder: Path = run.folder
        self._processes = processes
        self._batches = subject.batches(run.scenario.workload)
        self._incarnation = 0
        """Of the judged driver: the newest that was started."""
        self._conversations = 0
        """Connections of its that have not been heard to their end."""
        self._launched = 0
        """When that was, on the machine's monotonic clock, ns."""
        self._down = False
        """Its driver has ended, and the timeline says so."""
        self._not_before = 0.0
        """When the next may be started, on the monotonic clock."""
        self._failed_now = False
        """The query has failed in it."""
        self._failures: list[str] = []
        """Why the query has failed, under faults, without having delivered anything in between."""
        self._given_up = ""
        """Why the query does not recover."""
        self._ready = False
        """The first judged driver has a session, and waits for the start."""
        self._go = asyncio.Event()
        self._ended: dict[str, int] = {}
        self._positions: dict[str, int] = {}
        """How many rows each sink has been delivered."""
        self._offered = 0
        self._tried = 0
        """How many batches have come to their sink in the judged driver, or have failed there."""
        self.server = RunServer(
            run.recorder,
            tuple(run.scenario.faults),
            run.kinds,
            run.seed,
            self._arm,
            self._noted,
            others={"driver": self._hear_driver},
            address=processes.address,
        )

    # The life cycle

    def prepare(self) -> None:
        """Raises DeadlinePassed or ProcessDied when a driver does not come up, InvalidOperator when the query fails."""
        self._write_input()
        reference = self._launch_references()
        for actor in REFERENCES:
            wait_until(
                self._watched(lambda actor=actor: actor in self._ended, reference),  # type: ignore[misc]
                READY_SECONDS + self._run.scenario.deadline.seconds,
                f"{actor}, without failures",
                lambda: f"rows delivered: {self._positions}",
            )
            if actor == REFERENCES[0]:
                # Its session comes up while the second reference runs in one that is warm.
                self._launch()
        wait_until(self._watched(lambda: self._ready), READY_SECONDS, "the driver to come up")

    def start(self) -> None:
        self.server.start_timers()
        self.server.call(self._offer())

    def drained(self, deadline: Duration) -> bool:
        """Raises what ended the run early: InvalidOperator, ProcessDied."""
        try:
            ended = self._watched(lambda: bool(self._given_up) or self.server.finish(self._has_ended))
            wait_until(ended, deadline.seconds, "the end of the input to pass through")
        except DeadlinePassed:
            return False
        if self._given_up:
            return False
        self._run.recorder.log(Drained(self.server.clock.stamp()))
        return True

    def waiting_for(self) -> str:
        if self._has_ended():
            return "nothing"
        rows = self._positions.get(SINK, 0)
        text = f"{DRIVER}#{self._incarnation} has not come to the end of its input; {rows:,} rows were delivered"
        if self._given_up:
            return f"{text}; the query failed again when no fault disturbed it any more: {self._given_up}"
        if self._failures:
            return f"{text}; under faults the query failed {len(self._failures)} times, last: {self._failures[-1]}"
        return text

    def stop(self) -> None:
        """What the query keeps is what it has delivered; there is nothing to collect."""
        self.server.missed()

    def _has_ended(self) -> bool:
        return self._ended.get(DRIVER) == self._incarnation

    def _watched(self, condition: Callable[[], bool], reference: Driver | None = None) -> Callable[[], bool]:
        def show() -> None:
            self._run.show(Live(self._offered, self._positions.get(SINK, 0), self.server.fault_in_force))

        def tend() -> None:
            if reference is None:
                self._tend()
            elif reference.poll() is not None and not condition():
                raise ended_by_itself(reference, self.server)

        return watched(condition, self.server, self._processes, show, tend)

    def _tend(self) -> None:
        """Start the driver again when a fault has taken it and everything that it said has been heard."""
        if self._driver.poll() is None or self._has_ended() or self._conversations or self._given_up:
            return
        if not self._down:
            if not self.server.call(self._lost()):
                raise ended_by_itself(self._driver, self.server)
            self._down = True
            pause = min(_FIRST_PAUSE * 2 ** (len(self._failures) - 1), _LONGEST_PAUSE) if self._failed_now else 0.0
            self._not_before = time.monotonic() + pause
        if time.monotonic() >= self._not_before:
            self._launch()

    async def _lost(self) -> bool:
        """Whether a fault has touched the life that is over."""
        touched = self.server.disturbed_since(self._launched)
        if touched:
            self.server.node_seen(DRIVER, False, time.monotonic_ns())
        return touched

    # Drivers

    def _write_input(self) -> None:
        self._input = self._processes.scratch / "input.arrow"
        try:
            write_events(self._input, self._batches)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._input}: {error.strerror or error}") from error

    def _launch_references(self) -> Driver:
        return self._start(REFERENCE_DRIVER, 1, tuple(self._plan_run(REFERENCE_DRIVER, r, r, 1) for r in REFERENCES))

    def _launch(self) -> None:
        """Start the judged driver, as its next incarnation."""
        self._down = self._failed_now = False
        self._incarnation += 1
        self._launched = time.monotonic_ns()
        run = self._plan_run(DRIVER, DRIVER, SINK, self._incarnation, self.server.armed)
        self._driver = self._start(DRIVER, self._incarnation, (run,))

    def _plan_run(self, node: str, actor: str, sink: str, incarnation: int, armed: tuple[Moment, ...] = ()) -> QueryRun:
        source = SourcePlan(
            str(self._input.resolve()),
            len(self._batches),
            node,
            actor,
            incarnation,
            self.server.token,
            self.server.place,
            armed,
        )
        path = write_private(self._processes.scratch / f"{actor}.{incarnation}.json", msgspec.json.encode(source))
        return QueryRun(actor, sink, self._folders(actor), path.resolve(), armed, waits=actor == DRIVER)

    def _folders(self, actor: str) -> RunFolders:
        """On the storage that outlives the nodes."""
        stored = (self._folder / "checkpoints").resolve()
        return RunFolders(f"{self._run.id}-{actor}", stored / f"{actor}.sink", stored / actor)

    def _start(self, node: str, incarnation: int, runs: tuple[QueryRun, ...]) -> Driver:
        plan = QueryPlan(
            self.server.token, self.server.place, node, incarnation, self._query, spans(self._batches), runs
        )
        path = self._processes.scratch / f"{node}.{incarnation}.pickle"
        write_plan(path, plan, f"the query {self._query.name!r}")
        module = "streamproof.harness.embedded.query_driver"
        # An executor on every worker, so that every one can be hit.
        settings = {**_SETTINGS, "spark.cores.max": str(self._processes.workers), **self._query.configuration}
        return self._processes.start_driver(node, module, [str(path.resolve())], settings=settings)

    # In the server's loop

    async def _offer(self) -> None:
        for batch in self._batches:
            self.server.note(Offered(SOURCE, batch))
        self._go.set()

    async def _hear_driver(
        self, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        judged = greeting.node == DRIVER
        self._conversations += judged
        try:
            while (body := await read_frame(reader)) is not None:
                message = decoded(_from_driver, body)
                if judged and greeting.incarnation != self._incarnation:
                    self._refuse(greeting, message)
                    return
                await self._heard(greeting, message, writer)
        finally:
            self._conversations -= judged

    async def _heard(
        self, greeting: Greeting, message: Record | Begun | Arrived | Failed, writer: asyncio.StreamWriter
    ) -> None:
        match message:
            case Begun(when=when):
                self.server.fault_in_force = ""
                self.server.node_seen(greeting.node, True, when)
                self.server.placed(greeting.node, message)
            case Arrived(address=address, taken=taken, exact=exact):
                if address.point is Point.STARTED:
                    self._ready = True
                    await self._go.wait()
                self.server.arrived(address, taken, exact)
                writer.write(frame(Go()))
            case Failed():
                self._tried += greeting.node == DRIVER
                self._hear_failure(greeting.node, from_afar(message))
                writer.write(frame(Go()))
            case Delivered(sink=sink, rows=rows):
                position = self._positions.get(sink, 0)
                self._positions[sink] = position + len(rows)
                if sink == SINK:
                    self._tried += 1
                    self._failures.clear()
                self.server.note(msgspec.structs.replace(message, position=position))
            case _:
                self.server.note(message)

    def _hear_failure(self, node: str, error: StreamproofError) -> None:
        if node == DRIVER and self.server.disturbed_since(self._launched):
            self._failed_now = True
            self._failures.append(str(error))
        elif node == DRIVER and self.server.disturbed_since(0) and isinstance(error, InvalidOperator):
            self._given_up = str(error)
        else:
            self.server.fail(error)

    def _refuse(self, greeting: Greeting, message: object) -> None:
        """Fencing: a replaced driver cannot speak for its successor."""
        what = type(message).__name__.lower()
        self.server.note(Refused("recorder", self._incarnation, greeting.node, greeting.incarnation, what))

    def _noted(self, record: Record) -> None:
        match record:
            case Ended(slice=actor, incarnation=incarnation):
                self._ended[actor] = incarnation
            case Offered(events=events):
                self._offered += len(events)

    # Faults

    def _arm(self, striking: Striking) -> ClusterMachines:
        return _Machines(
            self._processes, {DRIVER: DRIVER}, lambda: not self._has_ended(), striking, lambda: self._tried
        )


class _Machines(ClusterMachines):
    """What is done to the disks counts where a batch meets it: there is a write before and after each."""

    def __init__(
        self,
        nodes: Nodes,
        node_of: Mapping[str, str],
        outstanding: Callable[[], bool],
        striking: Striking,
        tried: Callable[[], int],
    ) -> None:
        super().__init__(nodes, node_of, outstanding, striking)
        self._tried = tried

    def _on_store(self, heal: Heal) -> Heal:
        before = self._tried()

        def healed() -> Proof:
            met = self._tried() - before
            seen = heal()
            return Proof(met if seen.count else 0, f"batches written or failed meanwhile, with {seen}")

        return healed

    _on_disk = _on_store
