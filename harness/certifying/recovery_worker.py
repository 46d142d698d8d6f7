"""A recovery worker: a warm session with one task slot, and folders of its own, in which one attempt of a query follows
the other.

In an attempt that is watched, every thread that comes to a crash point is held while it is noted. Where the recovery
worker's folders are mounted, every operation that changes them is such a point, and what was durable is made from their
journal (`JournaledFolders`). Else it is copied while the point is held (`CopiedFolders`): nobody else writes meanwhile,
since with one slot at most one task runs, Spark's stream thread waits for it, what Spark does in the background is
switched off, and a store that changes all the same gives no state.

An attempt in a warm session forgets what a crash forgets: the user's code runs in a fresh process, with fresh Python
workers, a session of its own, and no state store loaded. What the JVM has compiled and loaded stays. One in which an
attempt has left something beside all sessions, such as a file that was added, is followed by another JVM.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
from psutil import virtual_memory

from ..contracts.query import Query, RunFolders, label_of
from ..core.addresses import DRIVER, TASK, TASK_POINTS, Address, Point, Side
from ..core.errors import (
    DeadlinePassed,
    InvalidOperator,
    MissingTool,
    OwnFailure,
    ProcessDied,
    StorageFailed,
    StreamproofError,
)
from ..core.events import Event
from ..core.signs import Signs
from ..core.waiting import wait_until
from ..core.wire import Greeting, decoded, frame, read_frame
from ..crash_points.files.mounting import MountedFolder
from ..crash_points.files.naming import FilePoints
from ..crash_points.inside_python.following import read_noted
from ..crash_points.inside_python.user_points import points_environment
from ..crash_points.inside_python.watching import Watching, lines_environment, write_watching
from ..crash_points.inside_python.whose import whose_code
from ..crash_points.inside_spark.agent import find_agent
from ..crash_points.inside_spark.listener import REFUSE, HeldPoint, PointListener, SaidInPassing
from ..crash_points.inside_spark.rules import script
from ..crash_points.inside_spark.settings import agent_settings, with_options
from ..crash_points.inside_spark.versions import STATE_OF_TASKS, SparkVersion, own_hook
from ..crash_points.outside.relay import Fate, HeldMessage, Sender, StoreRelay
from ..install.private_files import write_private
from ..install.settings import DAEMON_MODULE
from ..recording.history import Stamp, TimelineEntry
from ..recording.records import Record, Stamped, Started
from ..worlds.embedded.node_processes import DriverProcess
from ..worlds.embedded.processes import SparkProcesses
from ..worlds.spark.control.log_tails import log_tail
from ..worlds.spark.control.machines import ClusterMachines, Striking
from ..worlds.spark.control.run_messages import Arrived, Begun, Failed, GivesColumns, Go, KeptInTheJvm, SparkRuns
from ..worlds.spark.control.run_server import RunServer, from_afar
from ..worlds.spark.queries.driver_incarnations import last_planned_batch
from ..worlds.spark.queries.driver_plan import QueryPlan, QueryRun, RunKind, write_query_plan
from ..worlds.spark.queries.source import SourcePlan, spans, with_source, write_input
from ..worlds.spark.queries.stacks import still_running
from ..worlds.spark.queries.what_runs import check_what_runs
from .attempts import NOWHERE, Attempt, Death, LostMessage, Passed, RefusedOperation, StrikesAt
from .connections import peers_of_jvms
from .crash_states import CopiedFolders, NotQuiet, RecoveryWorkerStore
from .file_points import acts_for_task
from .journaled_folders import JournaledFolders
from .python_workers import end_python_workers, works_for_driver, works_for_task
from .seen_outside import (
    connected_elsewhere,
    is_of_spark_itself,
    linked_elsewhere,
    of_any_run,
    without_relayed,
    written_elsewhere,
)
from .varying_names import VaryingNames
from .warm_session import PURPOSE, NoSession, Warm, WarmPlan

READY_SECONDS = 90.0
LONGEST = 6
"""How often its recovery worker's patience an attempt may take that always gives a sign of work; and how often its time
a session may take to come up, on a machine that is busy."""
HEARD_SECONDS = 10.0
"""How long what a process said before its end may take to be heard."""
_MASTER = "local[1]"
_SPARE_BYTES = 2 << 30
"""How much memory has to be free for a session that waits to take another one's place."""


_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # What would write while a point is held.
    "spark.sql.streaming.stateStore.maintenanceInterval": "1h",
    "spark.sql.streaming.asyncLogPurge.enabled": "false",
    "spark.python.daemon.module": DAEMON_MODULE,
    # Else a task that has rows to read comes before one that has none, whatever order they are to come in.
    "spark.shuffle.reduceLocality.enabled": "false",
}

_from_attempt = msgspec.msgpack.Decoder(Record | Begun | Arrived | Failed | GivesColumns | KeptInTheJvm | SparkRuns)
_from_warm = msgspec.msgpack.Decoder(Warm | NoSession)


class _CurrentAttempt:
    """The recorder of a recovery worker: what comes belongs to the attempt that is under way."""

    def __init__(self) -> None:
        self.attempt: Attempt | None = None

    def note(self, at: int, record: Record) -> None:
        if self.attempt is not None:
            self.attempt.records.append(Stamped(at, record))

    def log(self, entry: TimelineEntry) -> None:
        """No fault strikes in a recovery worker."""

    def deployed(self, facts: Mapping[str, object]) -> None: ...

    @property
    def latest(self) -> Stamp:
        records = self.attempt.records if self.attempt is not None else []
        return Stamp(records[-1].at if records else 0)


class GivenUp(BaseException):
    """Whoever has asked for an attempt wants it no more."""


@dataclass
class _Session:
    """A warm session, which is a node of its own."""

    process: DriverProcess
    has_lived: bool = False
    """Whether it has run an attempt."""

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def lives(self) -> bool:
        return self.process.poll() is None


class RecoveryWorker:
    """Use it as a context manager. It makes one attempt after the other."""

    def __init__(
        self,
        number: int,
        processes: SparkProcesses,
        query: Query,
        batches: Sequence[Sequence[Event]],
        folder: Path,
        spark: SparkVersion,
        patience: float,
        watches_inside: bool = True,
    ) -> None:
        """`patience` is how long an attempt may give no sign of work, seconds. `watches_inside`: whether points inside
        Spark are seen."""
        self.name = f"worker-{number}"
        self._processes = processes
        self._query = query
        self._batches = batches
        self._spark = spark
        self.patience = patience
        self._watches_inside = watches_inside
        self._home = folder / self.name
        self.names = VaryingNames()
        """What is known to vary of the names of files."""
        self.no_journal = ""
        """Why file operations are no crash points, where they were wanted."""
        self._input = processes.scratch / f"{self.name}.input"
        self._lines = processes.scratch / f"{self.name}.lines.json"
        self._current = _CurrentAttempt()
        self._attempts = 0
        self._watching = False
        self._batch = ""
        self._marks: list[object] = []
        """Of each point that the current attempt has passed, what it takes to know its state; None: it is not known."""
        self._times: Counter[Address] = Counter()
        self._struck = NOWHERE
        self._dying: asyncio.Task[None] | None = None
        """The death of the current attempt, from when its processes are sent a signal."""
        self._elsewhere: set[str] = set()
        """What the JVM was seen to write to outside of the recovery worker's folders in the current attempt: files, and
        `host:port` of stores."""
        self._spare: _Session | None = None
        """What takes the place of the session when that is killed."""
        self._sessions = 0
        """How many there have been."""
        self._gateways: dict[str, Mapping[str, str]] = {}
        """Of the sessions that have come up, the environment with which a process attaches to them."""
        self._why_none: dict[str, str] = {}
        """Of those that Spark has not started, what it said."""
        self.ran: SparkRuns | None = None
        """What its attempts have run on, as they say it, once there is one."""
        self._over = asyncio.Event()
        self._given_up = False
        self._living = threading.RLock()
        """Held by whoever makes an attempt."""
        self.relay = StoreRelay(query.relayed, processes.address, self)
        self._server = RunServer(
            self._current,
            (),
            {},
            0,
            self._no_faults,
            lambda record: None,
            others={PURPOSE: self._hear_warm, "driver": self._hear_attempt},
            address=processes.address,
        )

    @property
    def settings(self) -> dict[str, str]:
        """Of its session, without those that hold secrets."""
        return {**_SETTINGS, **self._query.settings}

    def __enter__(self) -> RecoveryWorker:
        self._write_input()
        with ExitStack() as stack:
            self._mount(stack)
            self._whole = self._watching_of(self._query)
            stack.enter_context(self._server)
            self._server.call(self._listen())
            stack.callback(lambda: self._server.call(self._hang_up()))
            self._session = self._start_session()
            # Who still uses a folder when it is taken away is left with what nobody serves.
            stack.callback(self._end_sessions)
            self._owned = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        # An attempt that another thread makes still speaks with the server.
        self.give_up()
        with self._living:
            self._owned.close()

    def give_up(self) -> None:
        """Whoever waits for it, or for an attempt of it, in another thread, has GivenUp, at once and from now on."""
        self._given_up = True

    def _watching_of(self, query: Query) -> Watching:
        # What lies elsewhere is in no crash state, be it thrown away with the run.
        places = tuple(str(place.resolve()) for place in self.folders.stored)
        return Watching(whose_code(query), whole=True, folders=places)

    def _write_input(self) -> None:
        write_input(self._input, self._batches, self._spark.source_in_java)

    def _mount(self, stack: ExitStack) -> None:
        """Sets its folders, and their store."""
        processes = self._processes
        self._label = f"{processes.run_id}-{self.name}"
        log = processes.logs_folder / f"{self.name}.files.log"
        try:
            environment = processes.environment_of(f"{self.name}-files", "files")
            mounted = stack.enter_context(MountedFolder(self._home, processes.run_id, environment, log))
        except MissingTool as error:
            self.no_journal = str(error)
        else:
            place = mounted.mount.resolve()
            self.folders = RunFolders(label_of(self._label), place / "sink", place / "checkpoint")
            self.store: RecoveryWorkerStore = JournaledFolders(mounted, self._server.token, self.name)
            # Where the harness looks itself, an attempt has looked at nothing.
            self._checkpoint = mounted.below / "checkpoint"
            return
        self.folders = RunFolders(label_of(self._label), self._home / "sink", self._home / "checkpoint")
        self._checkpoint = self.folders.checkpoint
        self.store = CopiedFolders(self.folders.stored, self._home / "states")

    def call_by(self, names: VaryingNames) -> None:
        """From its next attempt on, this is known to vary of the names of files."""
        self.names = names
        if isinstance(self.store, JournaledFolders):
            self.store.names = names

    def await_ready(self) -> None:
        """Raises DeadlinePassed or ProcessDied, and InvalidOperator where a setting of the query's is to blame. Time
        counts by the share of the machine that a process has."""
        signs, what = Signs(lambda: None), "a warm session"

        def ready() -> bool:
            self._check_wanted()
            self._require_start(self._session.process)
            if self._alive(self._session.process) and self._session.name in self._gateways:
                return True
            if signs.silent() >= READY_SECONDS:
                raise DeadlinePassed(what, READY_SECONDS, "nothing of it")
            return False

        wait_until(ready, LONGEST * READY_SECONDS, what)

    def rest(self) -> None:
        """End its session until the next attempt: meanwhile others need the memory."""
        self._end_sessions()

    def renew(self) -> None:
        """See to it that the next attempt is the first of its session."""
        if self._session.has_lived:
            self.rest()

    def keep_spare(self) -> None:
        """Have a session come up that takes the place of this one when it is killed, if there is memory for both. Not
        where the query brings libraries: what they do as a JVM starts has to come after the death."""
        query, memory = self._query, virtual_memory().available
        if self._session.lives and self._spare is None and memory > _SPARE_BYTES and not (query.packages or query.jars):
            self._spare = self._start_session()

    @contextmanager
    def fed(self, query: Query, batches: Sequence[Sequence[Event]]) -> Iterator[None]:
        """Meanwhile, live this query of the same code, on this input."""
        own = self._query, self._batches
        self._query, self._batches = query, batches
        self._write_input()
        try:
            yield
        finally:
            self._query, self._batches = own
            self._write_input()

    def take_up(self, query: Query, processes: SparkProcesses, spark: SparkVersion) -> None:
        """From its next attempt on, live another version of the query, on what is in the folders: in a session of its
        own, where that is configured otherwise, or is one of another Spark's. Raises DeadlinePassed or ProcessDied."""
        same = processes is self._processes and query.configuration == self._query.configuration
        anew = not same or query.hooks != self._query.hooks
        if anew:
            self._end_sessions()
        self._query, self._processes, self._spark = query, processes, spark
        self.ran = None
        self._input = processes.scratch / f"{self.name}.input"
        self._write_input()
        self._whole = self._watching_of(query)
        if anew:
            self._session = self._start_session()
            self.await_ready()

    def live(
        self,
        actor: str,
        sink: str,
        incarnation: int,
        watched: bool,
        kind: RunKind = RunKind.STREAM,
        struck: StrikesAt = NOWHERE,
        last_first: bool = False,
    ) -> Attempt:
        """Live from what is in the folders to the end of the input, or do what another kind of run does. `last_first`:
        the tasks of each stage come in the other order, which takes the rules for points inside Spark.

        What the query does wrong is in the attempt that comes back. Raises StoreUnreachable where it came to no end
        and a store outside was away, OwnFailure, or what else went wrong with the recovery worker itself.
        """
        with self._living:
            return self._live(actor, sink, incarnation, watched, kind, struck, last_first)

    def _check_wanted(self) -> None:
        if self._given_up:
            raise GivenUp

    def _live(
        self,
        actor: str,
        sink: str,
        incarnation: int,
        watched: bool,
        kind: RunKind,
        struck: StrikesAt,
        last_first: bool,
    ) -> Attempt:
        if not self._session.lives or self._session.name not in self._gateways:
            self._start_anew()
        attempt = self._begin(actor, incarnation, watched, struck)
        self._session.has_lived = True
        before = self._begin_files(watched, incarnation, struck.refuses is not None)
        self._order_tasks(last_first)
        process = self._start_attempt(actor, sink, incarnation, kind)

        signs = Signs(lambda: (len(attempt.passed), len(attempt.records), last_planned_batch(self._checkpoint)))
        what = f"the query {self._query.name!r} to come to the end of its input"

        def over() -> bool:
            self._check_wanted()
            if self._server.failure is not None:
                raise self._server.failure
            if process.poll() is not None:
                return True
            if signs.silent() >= self.patience:
                raise DeadlinePassed(what, self.patience, self._seen(attempt))
            return False

        try:
            wait_until(over, LONGEST * self.patience, what)
            # What it said last can still be on its way; one that could say nothing never hangs up.
            with suppress(DeadlinePassed):
                wait_until(lambda: attempt.ended or attempt.heard_out, HEARD_SECONDS, "its last words")
        except DeadlinePassed as error:
            silent = signs.silent()
            where = still_running(self._processes.scratch / f"{process.name}.pickle", process.pid, silent)
            attempt.failure = DeadlinePassed(error.waited_for, error.seconds, f"{self._seen(attempt)}{where}")
            attempt.silent = round(silent * 1e6)
            self._processes.kill_node(process.name)
        finally:
            self._server.call(self._forget_attempt())
            # Where Spark would use dead workers again, each attempt has a daemon of its own.
            end_python_workers(self._session.process.pid, daemons=not self._spark.drops_dead_workers)
        if attempt.refused is not None:
            attempt.refused.times = self._refused() - before
        self._settle(attempt, watched)
        if attempt.death is not None:
            attempt.failure = None
        elif attempt.failure is None and not attempt.ended:
            attempt.failure = self._why_it_ended(process, attempt)
        if attempt.failure is not None:
            attempt.failed_at = self._server.clock.stamp().at
            attempt.failed_in = last_planned_batch(self._checkpoint)
        if process.poll() != 0 or not self._session.lives or attempt.kept_in_the_jvm:
            self._start_anew()
        if attempt.failure is not None:
            self.relay.require_stores()
        return attempt

    def _order_tasks(self, last_first: bool) -> None:
        """Raises StorageFailed."""
        try:
            if last_first:
                self._last_first.touch()
            else:
                self._last_first.unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._last_first}: {error.strerror or error}") from error

    @property
    def _last_first(self) -> Path:
        """While there is such a file, Spark runs the tasks of a stage in the other order."""
        return self._processes.scratch / f"{self.name}.last-first"

    def _begin_files(self, watched: bool, incarnation: int, asks_before: bool) -> int:
        """Returns how many operations were refused before. Raises OwnFailure where none can be."""
        place = self._points_place if watched else None
        if not asks_before:
            self.store.begin(place, incarnation)
            return 0
        before = self._refused()
        assert isinstance(self.store, JournaledFolders)
        self.store.begin(place, incarnation, asks_before)
        return before

    def _refused(self) -> int:
        if not isinstance(self.store, JournaledFolders):
            raise OwnFailure(f"{self.name}: operations on files can be refused only where it journals them")
        return self.store.refused()

    def _settle(self, attempt: Attempt, watched: bool) -> None:
        """Now that it is over: what was durable at its points, and what it has looked at."""
        if not watched:
            attempt.looks = self.store.looks()
            return
        marked = [place for place, mark in enumerate(self._marks) if mark is not None]
        told = sum(one.address.point is Point.FILE for one in attempt.passed)
        done = self.store.count(self._marks[marked[-1]]) if marked else 0
        if told != done:
            raise OwnFailure(f"{self.name}: {done:,} file operations were journalled, and {told:,} were told of")
        states = self.store.states([self._marks[place] for place in marked])
        for place, state in zip(marked, states, strict=True):
            attempt.passed[place] = replace(attempt.passed[place], state=state)

    def _why_it_ended(self, process: DriverProcess, attempt: Attempt) -> StreamproofError:
        """Nobody here has ended it. Code of the user's runs once it has started, and what ends it from outside is the
        machine's: where memory is short, or when it goes down."""
        said = f"ended with status {process.poll()}; its log ends:\n{self._tail(process)}"
        started = any(isinstance(stamped.record, Started) for stamped in attempt.records)
        from_outside = process.poll() in (-signal.SIGKILL, -signal.SIGTERM) or not self._session.lives
        if from_outside or not started:
            return ProcessDied(f"an attempt of the query {said}")
        return InvalidOperator(f"query {self._query.name!r}: its process {said}")

    def _start_anew(self) -> None:
        """What an attempt that did not come to its end has left in the session could go on writing to the folders."""
        self._processes.kill_node(self._session.name)
        spare, self._spare = self._spare, None
        self._session = spare if spare is not None and spare.lives else self._start_session()
        self.await_ready()

    def _end_sessions(self) -> None:
        self._processes.kill_node(self._session.name)
        if self._spare is not None:
            self._processes.kill_node(self._spare.name)
            self._spare = None

    def _begin(
        self,
        actor: str,
        incarnation: int,
        watched: bool,
        struck: StrikesAt,
    ) -> Attempt:
        attempt = Attempt(actor, incarnation, home=self.folders.sink.parent)

        async def begin() -> None:
            self._attempts += 1
            self._watching = watched
            self._struck = struck
            self._dying = None
            self._marks.clear()
            self._times.clear()
            self._elsewhere.clear()
            self._files = FilePoints(self.names.plain)
            # Until it says otherwise: the batch that it goes on with, or begins with.
            self._batch = str(max(0, last_planned_batch(self._checkpoint)))
            self._current.attempt = attempt
            self.relay.begin_anew()
            if not self._query.copyable:
                await self._reach_stores(incarnation)

        self._server.call(begin())
        return attempt

    def _seen(self, attempt: Attempt) -> str:
        last = attempt.passed[-1].address if attempt.passed else "no crash point"
        return f"it had come to {last}, and had made {len(attempt.records)} records"

    def _require_start(self, process: DriverProcess) -> None:
        """Raises what it means that Spark has started no session."""
        if process.poll() not in (None, 0, -signal.SIGKILL):
            # What it said before its end can still be on its way.
            with suppress(DeadlinePassed):
                wait_until(lambda: process.name in self._why_none, HEARD_SECONDS, "its last words")
        if process.name not in self._why_none:
            return
        why, tail = self._query.without_secrets(self._why_none[process.name]), self._tail(process)
        whole = f"{why}; its log ends:\n{tail}"
        complaints = "\n".join(line for line in tail.splitlines() if not _LOGGED.search(line))
        for name, value in self._query.configuration.items():
            is_said = _named(why, name, value)
            if is_said or _named(complaints, name, value):
                said = why if is_said else whole
                raise InvalidOperator(
                    f"query {self._query.name!r}: Spark starts no session with its setting {name}: {said}"
                )
        raise ProcessDied(f"{process.name}: Spark starts no session: {whole}")

    def _alive(self, process: DriverProcess) -> bool:
        if process.poll() is None:
            return True
        raise ProcessDied(f"{process.name} ended with status {process.poll()}; its log ends:\n{self._tail(process)}")

    def _tail(self, process: DriverProcess) -> str:
        return self._query.without_secrets(log_tail(process.stderr))

    # Processes

    def _start_session(self) -> _Session:
        self._sessions += 1
        name = f"{self.name}.session-{self._sessions}"
        server = self._server
        plan = WarmPlan(server.token, server.place, name, str(Path.cwd()))
        path = write_private(self._processes.scratch / f"{name}.json", msgspec.json.encode(plan))
        settings = {**_SETTINGS, **self._query.configuration}
        settings = {**settings, **self._watching_settings(settings)}
        if self._spark.source_in_java:
            settings = with_source(settings, self._processes.spark)
        return _Session(
            self._processes.start_driver(
                name,
                "streamproof.harness.certifying.warm_session",
                [str(path.resolve())],
                settings=settings,
                master=_MASTER,
            )
        )

    def _watching_settings(self, given: Mapping[str, str]) -> dict[str, str]:
        found = {f"spark.executorEnv.{name}": value for name, value in self._user_points.items()}
        if self._watches_inside:
            own = [own_hook(name, method) for name, method in self._query.hooks.items()]
            inside = [str(folder.resolve()) for folder in self.folders.stored]
            rules = script(
                self._spark,
                self._points_place,
                self._server.token,
                self.name,
                1,
                own=own,
                inside=inside,
                last_first=self._last_first.resolve(),
            )
            path = write_private(self._processes.scratch / f"{self.name}.btm", rules.encode())
            found |= with_options(given, agent_settings(find_agent(), path.resolve()))
        return found

    @property
    def _user_points(self) -> dict[str, str]:
        points = points_environment(self._points_place, self._server.token, self.name, 1)
        return {**points, **lines_environment(self._lines.resolve())}

    def _start_attempt(self, actor: str, sink: str, incarnation: int, kind: RunKind) -> DriverProcess:
        server, scratch = self._server, self._processes.scratch
        name = f"{self.name}.life-{self._attempts}"
        armed = None if self._watching else ()
        write_watching(self._lines, self._whole if self._watching else Watching())
        source = SourcePlan(
            str(self._input.resolve()), len(self._batches), name, actor, incarnation, server.token, server.place, armed
        )
        source_path = write_private(scratch / f"{name}.json", msgspec.json.encode(source))
        run = QueryRun(actor, sink, self.folders, source_path.resolve(), armed, stores_aside=self._aside, kind=kind)
        plan = QueryPlan(
            server.token, server.place, name, incarnation, self._query, spans(self._batches), (run,), attaches=True
        )
        path = scratch / f"{name}.pickle"
        write_query_plan(path, plan)
        return self._processes.start_driver(
            name,
            "streamproof.harness.worlds.spark.queries.driver",
            [str(path.resolve())],
            env={**self._gateways[self._session.name], **self._user_points},
            master=_MASTER,
        )

    # In the server's loop

    async def _listen(self) -> None:
        host, _ = self._server.place
        self._points = PointListener((host, 0), self._server.token, self._held, self._noted)
        self._points_place = await self._points.start()
        self._aside = await self.relay.open_aside()

    async def _reach_stores(self, incarnation: int) -> None:
        """Each incarnation by a way of its own, so that what one before it has sent is not taken for its own. What the
        runs before have left in stores outside, or elsewhere under their labels, is not of this run."""
        label = label_of(f"{self._label}-{self._attempts}") if incarnation == 1 else self.folders.label
        self.folders = replace(self.folders, label=label, stores=await self.relay.open(incarnation, label))

    async def _hang_up(self) -> None:
        self._over.set()
        await self._points.close()
        await self.relay.close()

    async def _forget_attempt(self) -> None:
        """What an attempt that is over still says is nobody's, and its Python workers are nobody's either. Raises what
        its death could not come about by."""
        try:
            if self._dying is not None:
                await self._dying
        finally:
            self._watching = False
            self._current.attempt = None

    async def _hear_warm(self, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = await read_frame(reader)
        if body is not None:
            match decoded(_from_warm, body):
                case Warm(gateway=gateway):
                    self._gateways[greeting.node] = gateway
                    await self._over.wait()
                case NoSession(why=why):
                    self._why_none[greeting.node] = why

    async def _hear_attempt(
        self, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        of_process: Attempt | None = None
        while (body := await read_frame(reader)) is not None:
            message = decoded(_from_attempt, body)
            attempt = self._current.attempt
            if attempt is None or greeting.node != f"{self.name}.life-{self._attempts}":
                return
            match message:
                case Begun():
                    # Its source's connection, which the session keeps, does not say so.
                    of_process = attempt
                case Arrived(address=address):
                    # Whatever the attempt is called, it is a driver's.
                    await self._pass(attempt, msgspec.structs.replace(address, actor=DRIVER))
                    writer.write(frame(Go()))
                case SparkRuns():
                    self._see_spark(message)
                case GivesColumns(columns=columns):
                    attempt.columns = columns
                case KeptInTheJvm(what=what):
                    attempt.kept_in_the_jvm = what
                case Failed():
                    attempt.failure = from_afar(message)
                    writer.write(frame(Go()))
                case _:
                    self._server.note(message)
        if of_process is not None:
            of_process.heard_out = True

    def _see_spark(self, message: SparkRuns) -> None:
        if message != self.ran:
            try:
                check_what_runs(self.name, message, self._query.spark, here=True)
            except StreamproofError as error:
                self._server.fail(error)
            self.ran = message

    async def _held(self, held: HeldPoint) -> bytes | None:
        attempt = self._current.attempt
        if attempt is None:
            return None
        batch, slash, rest = held.key.partition("/")
        if batch == "?":
            batch = self._batch
        self._batch = batch
        if held.point is Point.FILE:
            self._note_link(attempt, rest)
            rest = self._files.name(batch, rest, held.side)
        actor = held.actor or (TASK if _in_task(held) else DRIVER)
        address = Address(actor, attempt.incarnation, held.point, f"{batch}{slash}{rest}", held.side)
        if held.point is Point.FILE and held.side is Side.BEFORE:
            return self._permit(attempt, address)
        by_worker = (held.point, actor) == (Point.FILE, TASK) and works_for_task(held.pid)
        await self._pass(attempt, address, held.text, by_worker)
        return None

    def _note_link(self, attempt: Attempt, said: str) -> None:
        noted = linked_elsewhere(said, self._checkpoint.parent, self.folders.checkpoint.parent)
        if noted is not None:
            attempt.noted.append(of_any_run(noted, self.folders.label))

    def _permit(self, attempt: Attempt, address: Address) -> bytes | None:
        """REFUSE: it is not to be done."""
        refuses = self._struck.refuses
        if refuses is None or not refuses(address):
            return None
        self._struck = replace(self._struck, refuses=None)
        attempt.refused = RefusedOperation(address, self._server.clock.stamp().at)
        return REFUSE

    def _noted(self, said: SaidInPassing) -> None:
        attempt = self._current.attempt
        if attempt is None:
            return
        if not said.elsewhere:
            noted = read_noted(said.content)
        elif said.elsewhere not in self._elsewhere and not is_of_spark_itself(said.elsewhere, self._processes.scratch):
            # One file system hands a file on to another.
            self._elsewhere.add(said.elsewhere)
            noted = written_elsewhere(said.elsewhere)
        else:
            return
        attempt.noted.append(of_any_run(without_relayed(noted, self.relay.places), self.folders.label))

    def _note_connections(self, attempt: Attempt) -> None:
        """That the JVM keeps while its sink has done a batch: to a store that the query says nothing of."""
        for peer in sorted(peers_of_jvms(self._session.process.pid, os.getpid()) - self._elsewhere):
            self._elsewhere.add(peer)
            attempt.noted.append(connected_elsewhere(peer))

    # What the relay asks, in the loop

    def batch(self) -> str:
        return self._batch

    def sender(self, pid: int, address: str, incarnation: int) -> Sender | None:
        """In a recovery worker, a session's JVM is that of its tasks as well, and what is sent from there counts as
        theirs, but for what its Python workers do that have no task. Whom a crash has ended goes unheard.
        """
        attempt, node = self._current.attempt, self._processes.node_of(pid, address)
        if (
            attempt is None
            or incarnation != attempt.incarnation
            or node not in (self._session.name, f"{self.name}.life-{self._attempts}")
        ):
            return None
        of_task = node == self._session.name and not works_for_driver(pid)
        return Sender(node, TASK if of_task else DRIVER, attempt.incarnation)

    async def arrived(self, held: HeldMessage) -> Fate:
        attempt = self._current.attempt
        if attempt is None or held.sender.incarnation != attempt.incarnation:
            return Fate.GOES_ON
        if self._dying is None:
            address = Address(held.sender.actor, attempt.incarnation, Point.MESSAGE, held.key, held.side)
            # What a store outside holds cannot be copied.
            self._note_passed(attempt, address, None)
            if self._struck.loses is not None and self._struck.loses(address):
                attempt.lost.append(LostMessage(address, self._server.clock.stamp().at, held.size))
                return Fate.LOST
            self._kill_where_fatal(attempt, address)
        if self._dying is None:
            return Fate.GOES_ON
        # Whoever dies is not told that its connection is broken.
        await asyncio.shield(self._dying)
        return Fate.LOST

    async def _pass(self, attempt: Attempt, address: Address, text: str = "", by_worker: bool = False) -> None:
        if self._dying is not None:
            return
        mark: object = None
        why_not = ""
        if self._watching:
            if (address.point, address.side) == (Point.ADD_BATCH, Side.AFTER):
                self._note_connections(attempt)
            try:
                mark = self.store.mark()
            except NotQuiet as error:
                why_not = str(error)
        self._note_passed(attempt, address, mark, why_not, text, by_worker)
        self._kill_where_fatal(attempt, address)
        if self._dying is not None:
            await asyncio.shield(self._dying)

    def _kill_where_fatal(self, attempt: Attempt, address: Address) -> None:
        """Begin with it, if so: whoever answers points has to go on meanwhile. A connection that ends with its process
        does not end the wait for that."""
        fatal = self._struck.fatal
        if fatal is not None and fatal(address):
            self._struck = replace(self._struck, fatal=None)
            self._dying = asyncio.create_task(self._die(attempt, address))

    async def _die(self, attempt: Attempt, address: Address) -> None:
        at = self._server.clock.stamp().at
        attempt.death = await asyncio.to_thread(self._kill, address, at)

    def _note_passed(
        self,
        attempt: Attempt,
        address: Address,
        mark: object,
        why_not: str = "",
        text: str = "",
        by_worker: bool = False,
    ) -> None:
        at, again = self._server.clock.stamp().at, self._times[address]
        self._marks.append(mark)
        attempt.passed.append(Passed(address, at, len(attempt.records), None, why_not, again, text, by_worker))
        self._times[address] += 1

    def _kill(self, address: Address, at: int) -> Death:
        """The session first: without it, what the user's code does in its own process comes to nothing. Together: while
        a thread of one process is held at an operation on files, who waits for its turn cannot go, and that may be the
        other's."""
        proof = self._processes.kill_together([self._session.name, f"{self.name}.life-{self._attempts}"])
        return Death(address, at, proof.pids, proof.gone)

    def _no_faults(self, striking: Striking) -> ClusterMachines:
        raise OwnFailure("a fault struck in a recovery worker, where none does")


def _named(text: str, setting: str, value: str) -> bool:
    """Whether an error speaks of a setting: by its name, or by a value that nothing else has."""
    if setting in text:
        return True
    if value in ("true", "false") or value.isdecimal() or len(value) < 2:
        return False
    # A value as `1x` stands right behind the name of an option.
    before = r"(?<!\d)" if value[0].isdecimal() else r"(?<![\w.])"
    return re.search(rf"{before}{re.escape(value)}(?!\w)", text) is not None


_LOGGED: Final = re.compile(r" (?:TRACE|DEBUG|INFO|WARN|ERROR) |Setting default log level")
"""In a line that is there whatever the settings are."""


def _in_task(held: HeldPoint) -> bool:
    """Whether it is a task that would be held there on a cluster, where tasks are not in the driver's process. Points
    in the user's code say it themselves."""
    if held.point is Point.FILE:
        return acts_for_task(held.pid)
    return held.point in TASK_POINTS or (held.point is Point.RENAME and STATE_OF_TASKS.search(held.key) is not None)
