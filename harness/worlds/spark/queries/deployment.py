"""A query on embedded Spark: two reference runs in a driver of their own, then the judged run in a driver under fault.

The harness starts the driver again whenever a fault has taken it, as its next incarnation on the same checkpoint.
Where it is sure that this will be needed, the next one stands by, on a node of its own. A split brain freezes a driver,
so that the next begins beside it, and lets it go on then; a run is over when both are.

A fault can also make the query fail: what it needs is out of reach, or refused. The references have shown by then that
the query can do this input without failures, and so the rule is
- a query that fails, or whose driver ends, in an incarnation that a fault has touched, was made to fail by the fault:
  it is started again, after a pause that grows while it keeps failing;
- one that fails, or whose process ends, in an incarnation that no fault has touched, after an earlier one that a fault
  has, is started again too, as whoever runs it would; where it fails at the same batch so often that it is a crash
  loop, the run has come to rest without having come to its end, and says so;
- one that gives no sign of work for longer than the run allows has stalled, and the run is given up;
- one that fails before any fault has struck is wrong itself (InvalidOperator), or was ended by what the harness is
  answerable for (OwnFailure).
A fault touches an incarnation if it was in force at any moment of it, from the launch of the driver on.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from ....contracts.cluster import Live, Run
from ....contracts.query import SOURCE, Query
from ....core.addresses import DRIVER, TASK, Address, Point, Side
from ....core.carriers import FILE_LAYER
from ....core.errors import DeadlinePassed, InvalidOperator, StreamproofError
from ....core.quantities import Duration
from ....core.signs import Signs
from ....core.waiting import wait_until
from ....core.wire import Greeting, decoded, frame, read_frame
from ....crash_points.files.mounting import MountedFolder
from ....crash_points.files.naming import FilePointsOfNodes, entry_of_offsets
from ....crash_points.inside_spark.listener import REFUSE, HeldPoint
from ....crash_points.outside.relay import Fate, HeldMessage, Sender, StoreRelay
from ....judging.references import REFERENCES, SINK
from ....recording.history import Drained, IncarnationFailed, Proof
from ....recording.records import Delivered, EmptyBatch, Ended, Kept, Offered, Record, Refused
from ..control.deployments import ended_by_itself, watched
from ..control.log_tails import log_tail
from ..control.machines import ClusterMachines, Striking
from ..control.nodes import LOOPBACK, Nodes
from ..control.run_messages import Arrived, Begun, Failed, Finishing, Go, SparkRuns
from ..control.run_server import RunServer, from_afar
from .driver_incarnations import (
    CHECKPOINT,
    REFERENCE_DRIVER,
    DriverIncarnation,
    Launcher,
    committed,
    last_planned_batch,
    standbys,
    successions,
)
from .failures import QueryFailures
from .machines import QueryMachines
from .points import PointWatch
from .refusing import Refusals
from .stacks import still_running
from .what_runs import check_what_runs

READY_SECONDS = 90.0
ZOMBIE_SECONDS = 30.0
"""How long a driver that was frozen may take to its end, once its successor has come to its own."""

_from_driver = msgspec.msgpack.Decoder(Record | Begun | Arrived | Failed | Finishing | SparkRuns)


@contextmanager
def deploy_query(run: Run, processes: Nodes, files: MountedFolder | None = None) -> Iterator[QueryDeployment]:
    """Serve one run on a cluster that is up; `files` is where the folders of the query lie, so that each operation on
    them is a crash point."""
    deployment = QueryDeployment(run, processes, files)
    with deployment.server:
        try:
            yield deployment
        finally:
            deployment.close()


@dataclass(eq=False)
class _Zombie:
    """An incarnation that was frozen, so that its successor begins beside it."""

    driver: DriverIncarnation
    committed: int
    """The last batch that was in the commit log then."""
    wake: Callable[[], None]
    woken: int | None = None
    """When it was let go on, on the machine's monotonic clock, ns."""
    refused: bool = False
    """Whether the recorder has refused what it said."""
    ended: bool = False
    """Whether the harness has ended it, as it had its time."""
    gone: int | None = None
    """When it was seen to have ended."""

    @property
    def had_its_time(self) -> bool:
        """To show what it does beside its successor."""
        late = self.woken is not None and time.monotonic_ns() - self.woken > ZOMBIE_SECONDS * 1e9
        return self.refused or late

    @property
    def ended_for(self) -> str:
        if self.refused:
            return "it spoke for its successor, and the recorder refused that"
        return f"it had not ended {ZOMBIE_SECONDS:g} s after it was let go on"


class QueryDeployment:
    """One run. Its methods are called from the harness's thread; everything else happens in the server's loop."""

    def __init__(self, run: Run, processes: Nodes, files: MountedFolder | None = None) -> None:
        subject = run.scenario.subject
        assert isinstance(subject, Query)
        assert run.folder is not None
        self._run = run
        self._query = subject
        self._processes = processes
        self._batches = subject.batches(run.scenario.workload)
        self._references: DriverIncarnation | None = None
        """None: they were made before the run."""
        self._drivers: dict[int, DriverIncarnation] = {}
        """Of the judged driver, by incarnation; those that stand by are among them."""
        self._most_standbys = standbys(run.scenario, processes.workers)
        self._standbys: list[DriverIncarnation] = []
        """In the order in which they are to begin."""
        self._stand_by = True
        """Whether any can stand by: none has failed to."""
        self._zombies: list[_Zombie] = []
        self._all_gone = asyncio.Event()
        """No zombie is there any more."""
        self._incarnation = 0
        """Of the judged driver: the newest that was told to begin, or is to begin as soon as it can."""
        self._launched = 0
        """When that was, on the machine's monotonic clock, ns."""
        self._started = False
        """The input is offered."""
        self._finishing = 0
        """The incarnation that has come to the end of its input, and has not yet read what is kept."""
        self._kept: Kept | None = None
        """What the newest has read, until it has ended."""
        self._down = False
        """Its driver has ended, or is frozen, and the timeline says so."""
        self._not_before = 0.0
        """When the next may be started, on the monotonic clock."""
        self._failures = QueryFailures()
        self._held_on = ""
        """The node on which the point is held at which a fault strikes now."""
        self._spark_seen: SparkRuns | None = None
        """The version that drivers have said."""
        self._ended: dict[str, int] = {}
        self._positions: dict[str, int] = {}
        """How many rows each sink has been delivered."""
        self._offered = 0
        self._message: HeldMessage | None = None
        """What is held in the relay while a fault strikes."""
        self._fate = Fate.GOES_ON
        """What is to become of it."""
        self._relay = StoreRelay(subject.relayed, processes.address, self)
        self._files = files
        self._file_points: dict[int, FilePointsOfNodes] = {}
        """Of each incarnation."""
        self.refusals = None if files is None else Refusals(files)
        self._watch = PointWatch(run.scenario, run.passed is not None, processes)
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
        self._launcher = Launcher(run, processes, self._batches, self.server, self._watch, self._relay, files)
        # Whoever answers operations on files can do none that has to be answered.
        at = None if files is None else files.below / CHECKPOINT
        self._checkpoint: Path = at or self._launcher.folders(DRIVER).checkpoint
        self._signs = Signs(
            lambda: (self.server.signs, committed(self._checkpoint), last_planned_batch(self._checkpoint))
        )

    # The life cycle

    def prepare(self) -> None:
        """Raises DeadlinePassed or ProcessDied when a driver does not come up, InvalidOperator when the query fails."""
        self.server.call(self._watch.listen(self.server.token, self._held, files=self._files is not None))
        if self._files is not None:
            self._watch.announce_files(self._files, asks_before=FILE_LAYER in self._run.carriers)
        self._launcher.write_input()
        if self._run.references:
            self._launch()
            self.server.call(self._note_references())
        else:
            self._run_references()
        wait_until(self._watched(lambda: self._judged.ready), READY_SECONDS, "the driver to come up")

    def _run_references(self) -> None:
        self._references = DriverIncarnation(1, REFERENCE_DRIVER, time.monotonic_ns())
        self._launcher.start_references(self._references)
        for actor in REFERENCES:
            wait_until(
                self._watched(lambda actor=actor: actor in self._ended, self._references),  # type: ignore[misc]
                READY_SECONDS + self._run.scenario.deadline.seconds,
                f"{actor}, without failures",
                lambda: f"rows delivered: {self._positions}",
            )
            if actor == REFERENCES[0]:
                # Its session comes up while the second reference runs in one that is warm.
                self._launch()

    async def _note_references(self) -> None:
        for stamped in self._run.references:
            self.server.note(stamped.record)

    def start(self) -> None:
        self.server.start_timers()
        self.server.call(self._offer())

    def drained(self, deadline: Duration) -> bool:
        """Raises what ended the run early: InvalidOperator, ProcessDied; StoreUnreachable where it came to no end and a
        store outside was away."""
        if self._comes_to_its_end(deadline):
            self._run.recorder.log(Drained(self.server.clock.stamp()))
            return True
        self._relay.require_stores()
        return False

    def _comes_to_its_end(self, deadline: Duration) -> bool:
        patience = self._run.patience

        def over() -> bool:
            silent = self._signs.silent()
            # One that was frozen has a time of its own.
            if self._failures.given_up or (patience is not None and silent >= patience.seconds and not self._left()):
                return True
            return self.server.finish(self._is_over)

        try:
            wait_until(self._watched(over), deadline.seconds, "the end of the input to pass through")
        except DeadlinePassed:
            return False
        return self.server.finished

    @property
    def stalled(self) -> bool:
        return False

    def waiting_for(self) -> str:
        if self._is_over():
            return "nothing"
        if self._left() and (self.has_ended() or self._finishing == self._incarnation):
            left = ", ".join(f"{DRIVER}#{zombie.driver.incarnation}" for zombie in self._left())
            return f"{left}, which was frozen for a while, has not ended"
        rows, last = self._positions.get(SINK, 0), committed(self._checkpoint)
        done = "no batch was" if last < 0 else f"batch {last} was the last to be"
        text = f"{DRIVER}#{self._incarnation} has not come to the end of its input; {rows:,} rows were delivered, and "
        text += f"{done} committed"
        if self._failures.given_up:
            return f"{text}; the query failed again when no fault disturbed it any more: {self._failures.given_up}"
        silent = self._signs.silent()
        driver = self._drivers.get(self._incarnation)
        where = "" if driver is None else still_running(self._launcher.plan_of(driver), driver.pid, silent)
        text += where or f"; it gave no sign of work for {silent:.0f} s"
        failures = self._failures.under_faults
        if failures:
            return f"{text}; under faults the query failed {len(failures)} times, last: {failures[-1]}"
        return text

    def silent(self) -> int:
        return round(self._signs.silent() * 1e6)

    def stop(self) -> None:
        """What the query keeps is what it has delivered, or has read itself; there is nothing to collect."""
        self.server.missed()

    def close(self) -> None:
        """Let everybody go on who is still held."""
        self.server.call(self._watch.close())
        self.server.call(self._relay.close())

    @property
    def _judged(self) -> DriverIncarnation:
        """The judged one."""
        return self._drivers[self._incarnation]

    def has_ended(self) -> bool:
        return self._ended.get(DRIVER) == self._incarnation

    def has_input_left(self) -> bool:
        """Of a source that is not the harness's nobody knows: it may have."""
        if self._query.source is not None:
            return True
        last = committed(self._checkpoint)
        return last < max(len(self._batches) - 1, last_planned_batch(self._checkpoint))

    def _is_over(self) -> bool:
        return self.has_ended() and not self._left()

    def _left(self) -> list[_Zombie]:
        """The zombies that are still there."""
        return [zombie for zombie in self._zombies if zombie.gone is None]

    def _watched(
        self, condition: Callable[[], bool], references: DriverIncarnation | None = None
    ) -> Callable[[], bool]:
        def show() -> None:
            self._run.show(Live(self._offered, self._positions.get(SINK, 0), self.server.fault_in_force))

        def tend() -> None:
            if references is None:
                self._tend()
            elif references.over and not condition():
                raise ended_by_itself(references.started_process, self.server, self._query.without_secrets)

        return watched(condition, self.server, self._processes, show, tend)

    # Incarnations

    def _tend(self) -> None:
        """Let an incarnation that a fault has taken be followed by the next, once everything that it said has been
        heard."""
        self._tend_zombies()
        self._tend_standbys()
        driver = self._judged
        frozen = any(zombie.driver is driver for zombie in self._zombies)
        if not frozen and (not driver.over or self.has_ended() or self._failures.given_up):
            return
        if not self._down:
            if not self.server.call(self._lost()) and not self.server.call(self._ended_by_itself()):
                raise ended_by_itself(driver.started_process, self.server, self._query.without_secrets)
            if self._failures.given_up:
                return
            self._down = True
            self._not_before = time.monotonic() + self._failures.pause
        if time.monotonic() >= self._not_before:
            self._succeed()

    def _succeed(self) -> None:
        if not self._standbys:
            self._launch()
            return
        first = self._standbys[0]
        if first.ready:
            self._standbys.remove(first)
            self.server.call(self._take_over(first))
        elif time.monotonic_ns() - first.launched > READY_SECONDS * 1e9:
            self._dismiss(0)

    async def _lost(self) -> bool:
        """Whether a fault has touched the incarnation that is over, or it has said how it failed."""
        known = self._touched() or self._failures.in_this_incarnation
        if known:
            self.server.node_seen(self._judged.node, False, time.monotonic_ns())
        return known

    async def _ended_by_itself(self) -> bool:
        """Whether the incarnation that is over, which nobody has touched and which said nothing of why, counts as one
        that failed: code of the user's can end its process. What ends one from outside is the machine's."""
        status = self._judged.started_process.poll()
        outside = status in (-signal.SIGKILL, -signal.SIGTERM)
        if outside or not self._judged.ready or self.server.failure is not None or not self.server.disturbed_since(0):
            return False
        end = self._query.without_secrets(log_tail(self._judged.started_process.stderr))
        said = f"query {self._query.name!r}: its process ended with status {status}; its log ends:\n{end}"
        self._hear_failure(True, InvalidOperator(said))
        self.server.node_seen(self._judged.node, False, time.monotonic_ns())
        return True

    def _touched(self) -> bool:
        """An incarnation beside which a zombie has run was touched by what has made that."""
        zombies = (zombie.gone for zombie in self._zombies)
        beside = any(gone is None or gone >= self._launched for gone in zombies)
        return beside or self.server.disturbed_since(self._launched)

    def _launch(self) -> None:
        """Start the judged driver, as its next incarnation."""
        number, now = self._incarnation + 1, time.monotonic_ns()
        # The place of one that is gone is free.
        taken = any(driver.node == DRIVER and driver.runs for driver in self._drivers.values())
        driver = DriverIncarnation(number, f"{DRIVER}-{number}" if taken else DRIVER, now)
        if self._started:
            driver.go.set()
        # First it is known, then it is started: it can say something at once.
        self._become(driver, now)
        self._launcher.start_incarnation(driver, stands_by=False)

    def _become(self, driver: DriverIncarnation, when: int) -> None:
        """From now on this incarnation is the judged one."""
        self._drivers[driver.incarnation] = driver
        self._down = False
        self._failures.begin_incarnation()
        self._launched = when
        self._incarnation = driver.incarnation

    async def _take_over(self, driver: DriverIncarnation) -> None:
        """One that stands by is told to begin."""
        now = time.monotonic_ns()
        self._become(driver, now)
        self._see_begin(driver.node, Begun(DRIVER, 0, driver.incarnation, now))
        driver.go.set()

    def _tend_standbys(self) -> None:
        for place, driver in enumerate(self._standbys):
            if driver.failed or not driver.runs:
                self._stand_by = False
                self._dismiss(place)
                return
        wanted = min(self._most_standbys, successions(self.server.pending)) if self._stand_by else 0
        if len(self._standbys) < wanted and not self._left() and not self.has_ended() and not self._down:
            number = self._incarnation + len(self._standbys) + 1
            driver = DriverIncarnation(number, f"{DRIVER}-{number}", time.monotonic_ns())
            self._drivers[number] = driver
            self._standbys.append(driver)
            self._launcher.start_incarnation(driver, stands_by=True)

    def _dismiss(self, place: int) -> None:
        """End those that stand by, from this one on: their numbers are to be had again."""
        for driver in self._standbys[place:]:
            self._processes.kill_node(driver.node)
            del self._drivers[driver.incarnation]
            self.server.call(_released(driver))
        del self._standbys[place:]

    # Two incarnations at once

    def freeze(self, wake: Callable[[], None]) -> Callable[[Proof], Proof]:
        """The judged incarnation was frozen; `wake` lets it go on."""
        zombie = _Zombie(self._judged, committed(self._checkpoint), wake)
        self._zombies.append(zombie)
        self._all_gone.clear()
        return partial(self._woken, zombie)

    def _woken(self, zombie: _Zombie, seen: Proof) -> Proof:
        zombie.woken = time.monotonic_ns()
        begun = self._incarnation > zombie.driver.incarnation and self._judged.ready
        how = "had committed a batch" if self._has_committed_since(zombie) else "was at its end"
        how = how if begun else "had not begun"
        return Proof(seen.count if begun else 0, f"{seen.what}, and let go on when {DRIVER}#{self._incarnation} {how}")

    def _has_committed_since(self, zombie: _Zombie) -> bool:
        return committed(self._checkpoint) > zombie.committed

    def _tend_zombies(self) -> None:
        at_its_end = self._finishing == self._incarnation or self.has_ended()
        for zombie in self._left():
            followed = self._incarnation > zombie.driver.incarnation and self._judged.ready
            if zombie.woken is None:
                if followed and (at_its_end or self._has_committed_since(zombie)):
                    self.server.call(_called(zombie.wake))
                    wait_until(
                        lambda zombie=zombie: zombie.woken or self.server.failure,  # type: ignore[misc]
                        READY_SECONDS,
                        "a frozen driver to go on",
                    )
            elif zombie.driver.over:
                zombie.gone = time.monotonic_ns()
            elif zombie.driver.runs and at_its_end and zombie.had_its_time and not zombie.ended:
                # Where it had just ended by itself, or some of it is still there, the next look finds that.
                zombie.ended = self._processes.kill_node(zombie.driver.node).bit
                if zombie.ended:
                    node, now = zombie.driver.node, time.monotonic_ns()
                    self.server.call(_called(partial(self.server.node_seen, node, False, now, zombie.ended_for)))
        if self._zombies and not self._all_gone.is_set():
            self.server.call(self._look_who_is_left())

    async def _look_who_is_left(self) -> None:
        # Asked where zombies are made.
        if not self._left():
            self._all_gone.set()

    # In the server's loop

    async def _offer(self) -> None:
        for batch in self._batches:
            self.server.note(Offered(SOURCE, batch))
        self._started = True
        self._judged.go.set()

    async def _hear_driver(
        self, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        judged = greeting.node != REFERENCE_DRIVER
        driver = self._drivers.get(greeting.incarnation) if judged else self._references
        if driver is not None:
            driver.conversations += 1
        try:
            while (body := await read_frame(reader)) is not None:
                if not await self._answer(greeting, driver, decoded(_from_driver, body), writer):
                    return
        finally:
            if driver is not None:
                driver.conversations -= 1

    async def _answer(
        self,
        greeting: Greeting,
        driver: DriverIncarnation | None,
        message: Record | Begun | Arrived | Failed | Finishing | SparkRuns,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Whether more is to be heard of this connection."""
        if isinstance(message, SparkRuns):
            self._see_spark(message)
            return True
        if isinstance(message, Arrived) and self.server.is_over(greeting.node, message):
            return True
        if driver is not None and isinstance(message, Arrived) and message.address.point is Point.STARTED:
            driver.ready = True
            await driver.go.wait()
        if greeting.node == REFERENCE_DRIVER or greeting.incarnation == self._incarnation:
            await self._heard(greeting, message, writer)
            return True
        if driver is not None and driver in self._standbys:
            # It says that it is there, which nobody answers; or why it cannot stand by.
            if isinstance(message, Failed):
                driver.failed = message.message
                writer.write(frame(Go()))
            return True
        zombie = next((one for one in self._zombies if one.driver is driver), None)
        if zombie is not None and isinstance(message, Arrived | Finishing):
            # What Spark, and a sink of the user's, make of it is what is to be seen.
            writer.write(frame(Go()))
            return True
        if zombie is not None:
            zombie.refused = True
        self._refuse(greeting, message)
        return False

    async def _heard(
        self,
        greeting: Greeting,
        message: Record | Begun | Arrived | Failed | Finishing,
        writer: asyncio.StreamWriter,
    ) -> None:
        judged = greeting.node != REFERENCE_DRIVER
        match message:
            case Begun():
                self._see_begin(greeting.node, message)
            case Arrived(address=address, taken=taken, exact=exact):
                self._pass(address, taken, exact)
                writer.write(frame(Go()))
            case Finishing():
                self._finishing = greeting.incarnation
                if self._zombies:
                    await self._all_gone.wait()
                writer.write(frame(Go()))
            case Failed():
                self._hear_failure(judged, from_afar(message))
                writer.write(frame(Go()))
            case Delivered(sink=sink, rows=rows):
                position = self._positions.get(sink, 0)
                self._positions[sink] = position + len(rows)
                self._see_batch(sink)
                self.server.note(msgspec.structs.replace(message, position=position))
            case EmptyBatch(sink=sink):
                self._see_batch(sink)
                self.server.note(message)
            case Kept() if judged:
                # An incarnation that does not come to its end is followed by one that reads it again.
                self._kept = message
            case Ended() if judged and self._kept is not None:
                self.server.note(self._kept)
                self.server.note(message)
            case _:
                self.server.note(message)

    def _see_spark(self, message: SparkRuns) -> None:
        """Whoever says it: it is what the run is to name, and no setting."""
        if message != self._spark_seen:
            try:
                check_what_runs("a driver", message, self._query.spark, here=self._processes.address == LOOPBACK)
            except StreamproofError as error:
                self.server.fail(error)
            self._spark_seen = message
            self._run.recorder.deployed({"spark": message.version, "python": message.python})

    def _see_batch(self, sink: str) -> None:
        if sink == SINK:
            self._failures.see_batch()

    def _see_begin(self, node: str, message: Begun) -> None:
        self.server.fault_in_force = ""
        self.server.node_seen(node, True, message.when)
        self.server.placed(node, message)

    async def _held(self, held: HeldPoint) -> bytes | None:
        """A thread waits at a point inside Spark, in a task or in the user's code, or at an operation on a file. Those
        of an incarnation that is not the judged one, as it stands by or was replaced, go on."""
        node = self._processes.node_of(held.pid, held.peer[0])
        if node is None or self.server.has_ended(node, held.pid):
            return None
        if held.point is Point.FILE:
            return self._held_at_file(held, node)
        if held.incarnation != self._incarnation:
            return None
        batch, slash, rest = held.key.partition("/")
        if batch == "?":
            batch = self.batch()
        actor = held.actor or (DRIVER if node == self._judged.node else TASK)
        self._held_on = node
        try:
            self._pass(Address(actor, held.incarnation, held.point, f"{batch}{slash}{rest}", held.side), 0, exact=True)
        finally:
            self._held_on = ""
        return None

    def _held_at_file(self, held: HeldPoint, node: str) -> bytes | None:
        """The file layer does not know of whom it is asked. Whoever is in no driver is in an executor of the judged
        one's. REFUSE: it is not to be done."""
        drives = node == self._judged.node
        if not drives and any(driver.node == node for driver in self._drivers.values()):
            return None
        said = held.key.partition("/")[2]
        batch = str(max(int(self.batch()), entry_of_offsets(said)))
        points = self._file_points.setdefault(self._incarnation, FilePointsOfNodes())
        key = f"{batch}/{points.name(batch, said, held.side, '' if drives else node)}"
        address = Address(DRIVER if drives else TASK, self._incarnation, Point.FILE, key, held.side)
        self._held_on = node
        try:
            self._pass(address, 0, exact=True)
        finally:
            self._held_on = ""
        if held.side is Side.BEFORE and self.refusals is not None and self.refusals.refuses(node, key):
            return REFUSE
        return None

    # What the relay asks, in the loop

    def batch(self) -> str:
        """Whatever comes of a batch comes after it is in the offset log."""
        return str(max(0, last_planned_batch(self._checkpoint)))

    def sender(self, pid: int, address: str, incarnation: int) -> Sender | None:
        """Those of an incarnation that is not the judged one go unheard, as it stands by or was replaced."""
        node = self._processes.node_of(pid, address)
        if incarnation != self._incarnation or node is None or self.server.has_ended(node, pid):
            return None
        return Sender(node, DRIVER if node == self._judged.node else TASK, incarnation)

    async def arrived(self, held: HeldMessage) -> Fate:
        sender = held.sender
        if sender.incarnation != self._incarnation:
            return Fate.GOES_ON
        self._held_on, self._message, self._fate = sender.node, held, Fate.GOES_ON
        try:
            self._pass(Address(sender.actor, sender.incarnation, Point.MESSAGE, held.key, held.side), 0, exact=True)
            return self._fate
        finally:
            self._held_on, self._message = "", None

    def lose_answer(self) -> int:
        """Let the answer that is held be lost, and its connection break. Returns its size, 0 where there is none."""
        if self._message is None or self._message.side is not Side.AFTER:
            return 0
        self._fate = Fate.LOST
        return self._message.size

    def lose_request(self) -> int:
        """Let the request that is held be lost, and its connection break. Returns how many: 0 where none is."""
        if self._message is None or self._message.side is not Side.BEFORE:
            return 0
        self._fate = Fate.LOST
        return 1

    def _pass(self, address: Address, taken: int, exact: bool) -> None:
        if self._run.passed is not None and address.actor in (DRIVER, TASK):
            self._run.passed(address)
        self.server.arrived(address, taken, exact)

    def _hear_failure(self, judged: bool, error: StreamproofError) -> None:
        if judged and self._touched():
            self._failures.add_touched(str(error))
            self._note_failure(error, disturbed=True)
        elif judged and self.server.disturbed_since(0) and isinstance(error, InvalidOperator):
            self._failures.add_untouched(self._note_failure(error, disturbed=False), str(error))
        else:
            self.server.fail(error)

    def _note_failure(self, error: StreamproofError, disturbed: bool) -> IncarnationFailed:
        stamp, batch = self.server.clock.stamp(), last_planned_batch(self._checkpoint)
        failed = IncarnationFailed(stamp, DRIVER, self._incarnation, batch, str(error), disturbed)
        self._run.recorder.log(failed)
        return failed

    def _refuse(self, greeting: Greeting, message: object) -> None:
        """Fencing: a replaced driver cannot act for its successor."""
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
        driver = self._drivers.get(self._incarnation)
        node_of = {DRIVER: DRIVER if driver is None else driver.node}
        if self._held_on and self._held_on != node_of[DRIVER]:
            node_of[TASK] = self._held_on
        return QueryMachines(self._processes, node_of, self, striking)


async def _called(do: Callable[[], None]) -> None:
    """In the loop."""
    do()


async def _released(driver: DriverIncarnation) -> None:
    driver.go.set()
