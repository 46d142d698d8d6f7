"""Stands in for Spark where campaigns are tested: processes that are threads, and live a query of a few files.

They talk as drivers do, and pass their crash points as Spark does: what is tested of the harness is all real.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import msgspec
import pytest

from streamproof.harness.certifying import blind_spots, campaign, recovery_worker, reference_runs
from streamproof.harness.certifying.warm_session import PURPOSE, Warm, WarmPlan
from streamproof.harness.contracts.cluster import Cluster, Run
from streamproof.harness.contracts.query import SOURCE, Query
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import Deployment
from streamproof.harness.core import signs
from streamproof.harness.core.addresses import DRIVER, FINE_POINTS, TASK, Address, Moment, Point, Side
from streamproof.harness.core.errors import InvalidOperator, MissingTool, StreamproofError
from streamproof.harness.core.events import Event
from streamproof.harness.core.places import numbered_workers
from streamproof.harness.core.quantities import Duration
from streamproof.harness.core.wire import VERSION, BlockingConnection, Greeting
from streamproof.harness.crash_points.inside_python.user_points import POINTS
from streamproof.harness.install.python_versions import python_versions
from streamproof.harness.install.spark_choice import chosen_version
from streamproof.harness.judging.references import REFERENCES, row_number
from streamproof.harness.judging.stalls import ATTEMPTS
from streamproof.harness.recording.history import (
    Bite,
    Drained,
    FaultMissed,
    FaultStruck,
    IncarnationFailed,
    NodeGone,
    NodeUp,
    Placed,
    Stamp,
)
from streamproof.harness.recording.records import BatchDone, Delivered, Ended, Kept, Offered, Record, Started
from streamproof.harness.worlds.embedded.proofs import Killed, KillProof
from streamproof.harness.worlds.spark.control.nodes import OTHER_NODES
from streamproof.harness.worlds.spark.control.run_messages import Arrived, Begun, Failed, GivesColumns, SparkRuns
from streamproof.harness.worlds.spark.queries.driver_incarnations import last_planned_batch
from streamproof.harness.worlds.spark.queries.driver_plan import QueryPlan, RunKind
from streamproof.harness.worlds.spark.queries.source import spans

NO_PROCESS = 2**22 + 17
"""An id that no process of Linux has."""
SESSION = "SESSION"
"""In the environment with which an attempt attaches to a session: which."""


class Does(StrEnum):
    """What becomes of the rows of a batch."""

    BY_ID = "by-id"
    """A batch that comes again replaces its rows."""
    APPENDS = "appends"
    """It adds them again."""
    APPENDS_IN_RECOVERY_WORKERS = "appends-in-workers"
    """It adds them again, but never when it is killed for real."""
    IN_STEPS = "in-steps"
    """As by-id, in two steps, after each of which it comes to the same point of its own."""
    NUMBERS_ANEW = "numbers-anew"
    """As by-id, but it calls its files by how many its session has written, which a new one does not know."""
    REMEMBERS = "remembers"
    """It adds them again, unless its session has lived before, and so knows what it has added."""
    HOLDS_BACK = "holds-back"
    """As by-id, but it keeps a batch in memory until the next one comes."""
    GIVES_UP = "gives-up"
    """As by-id, but it skips a batch that it has begun twice."""
    REPAIRS_BY_WRITING_AGAIN = "repairs-by-writing-again"
    """As by-id, but where it finds that a batch was begun, it removes all that is there and writes it again."""
    NAMES_ALL_ANEW = "names-all-anew"
    """It writes a file for a batch, gives it its name, and notes that. Where it finds one without its name, it removes
    all that is there and writes it again."""
    LAST_TASK_SAYS = "last-task-says"
    """The first of two tasks writes the rows of a batch, and the last notes that they are there: then it is skipped."""
    DRIVER_SAYS = "driver-says"
    """The same, but it is noted once both tasks are over."""
    ASKS_THE_CLOCK = "asks-the-clock"
    FAILS = "fails"
    FAILS_AGAIN = "fails-again"
    """When it recovers."""
    FAILS_ONCE_AGAIN = "fails-once-again"
    """When it recovers, and then no more."""
    LOOPS_AT_ITS_HALF_WRITTEN_FILE = "loops-at-its-half-written-file"
    """Who finds what it has begun to write fails."""
    HANGS_AT_ITS_HALF_WRITTEN_FILE = "hangs-at-its-half-written-file"
    """Who finds what it has begun to write waits for ever."""
    HANGS_IN_RECOVERY_WORKERS = "hangs-in-workers"
    """As before, and never when it is killed for real."""
    READ_FAILS = "read-fails"
    NEVER_ENDS = "never-ends"
    SHARES_ITS_TABLE = "shares-its-table"
    """As by-id, in a table that is every run's."""
    EMPTIES_FOR_OTHERS = "empties-for-others"
    """As by-id, in a table that is every run's, and is emptied for each."""
    DIES = "dies"
    """Its process ends with no word of why."""
    NEEDS_THE_BEGINNING = "needs-the-beginning"
    """Begun anew, it fails where its input does not begin with the first event."""
    TAKES_OVER_AT_EACH_START = "takes-over-at-each-start"
    """As by-id, in files of its own. What another has left counts for its own, and whenever it is started again it adds
    that once more."""
    ADDS_AT_ITS_THIRD_START = "adds-at-its-third-start"
    """As by-id, but where two have begun before it, whoever they are, it adds the first batch again."""
    FAILS_AT_ITS_SECOND_START = "fails-at-its-second-start"
    """As by-id, but it fails where it finds that it has begun before, of which others leave no word."""
    ENDS_WITH_A_BATCH = "ends-with-a-batch"
    """As by-id, and where its input ends it makes a batch without input. Each row says of which batch it is."""


_IN_TASKS = (Does.LAST_TASK_SAYS, Does.DRIVER_SAYS)
_LEAVING = (
    Does.LOOPS_AT_ITS_HALF_WRITTEN_FILE,
    Does.HANGS_AT_ITS_HALF_WRITTEN_FILE,
    Does.HANGS_IN_RECOVERY_WORKERS,
)


_COUNTING_STARTS = (Does.TAKES_OVER_AT_EACH_START, Does.ADDS_AT_ITS_THIRD_START, Does.FAILS_AT_ITS_SECOND_START)


class Stalled(Exception):
    """In a process that nobody ends."""


@dataclass(frozen=True)
class Transform:
    """What a query of these is made of. Nobody calls it."""

    does: Does

    def __call__(self, frame: Any) -> Any:
        raise AssertionError("there is no Spark")


def write(frame: Any, folders: Any) -> Any:
    raise AssertionError("there is no Spark")


def read(spark: Any, folders: Any) -> Any:
    raise AssertionError("there is no Spark")


def toy(does: Does, **more: Any) -> Query:
    return Query(Transform(does), **{"name": str(does), "write": write, "read": read, "batch_events": 10, **more})


PassPoint = Callable[[Point, Side, str, str], None]
"""Returns when the thread may go on."""


@dataclass
class ToyAttempt:
    """One attempt of a query, from what is in its folders to the end of its input."""

    query: Query
    spans: Sequence[tuple[int, int]]
    sink: Path
    checkpoint: Path
    actor: str
    incarnation: int
    say: Callable[[Record], None]
    pass_point: PassPoint
    killed: threading.Event
    in_recovery_worker: bool
    warm: bool = False
    """Whether it is in a session that has lived the query before."""
    written: Iterator[int] = field(default_factory=count)
    """How many files its session has."""
    held: int | None = None
    """The batch that is in memory alone."""
    last_first: Callable[[], bool] = lambda: False
    """Whether the tasks of a stage come in the other order."""
    given_to: str = ""
    """The sink of the harness's that is given the rows of each batch; empty: none is."""
    say_columns: Callable[[GivesColumns], None] = lambda columns: None

    @property
    def does(self) -> Does:
        assert isinstance(self.query.transform, Transform)
        return self.query.transform.does

    def live(self) -> None:
        """Raises InvalidOperator as a driver does."""
        for folder in (self.sink, self.checkpoint / "offsets", self.checkpoint / "commits"):
            folder.mkdir(parents=True, exist_ok=True)
        committed = max(self._committed, default=None)
        first = 0 if committed is None else committed + 1
        before = None if committed is None else (self.incarnation - 1, committed)
        self.say(Started(self.actor, self.incarnation, before, row_number(first, 0)))
        self._fail()
        self._start()
        if self.given_to:
            self.say_columns(GivesColumns(("q string", "a bigint")))
        last = len(self.spans) + len(self._empty)
        for number in range(first, last):
            self._do(number)
        if self.held is not None:
            self._store(self.held)
        if self.does is Does.ENDS_WITH_A_BATCH:
            (self.checkpoint / "commits" / str(last)).write_text("no input")
            last += 1
        for number in range(first, last):
            begun, ended = (0, -1) if number in self._empty else self._span(number)
            rows = ended - begun + 1
            self.say(BatchDone(self.actor, self.incarnation, number, rows, 0, 0, 1))
        if self.does is Does.READ_FAILS:
            raise InvalidOperator(f"query {self.query.name!r}: read failed: FileNotFoundError: rows")
        self.say(Kept(self.actor, self.incarnation, self._table()))
        self.say(Ended(self.actor, self.incarnation, {SOURCE: [1]}))

    @property
    def _empty(self) -> list[int]:
        """The batches without input."""
        return [int(file.name) for file in (self.checkpoint / "commits").iterdir() if file.read_text()]

    def _span(self, number: int) -> tuple[int, int]:
        return self.spans[number - sum(one < number for one in self._empty)]

    def _start(self) -> None:
        if self.does not in _COUNTING_STARTS:
            return
        starts = self.checkpoint / "starts"
        which = int(starts.read_text()) + 1 if starts.exists() else 1
        starts.write_text(str(which))
        mine = self.checkpoint / f"begun-by-{self.does}"
        if mine.exists():
            if self.does is Does.FAILS_AT_ITS_SECOND_START:
                raise InvalidOperator(f"query {self.query.name!r} failed: KeyError: 'begun'")
            if self.does is Does.TAKES_OVER_AT_EACH_START:
                for file in self.sink.glob("*-1"):
                    (self.sink / f"{file.name}-over-{self.incarnation}").write_text(file.read_text())
        mine.touch()
        if self.does is Does.ADDS_AT_ITS_THIRD_START and which >= 3:
            (self.sink / f"0-by-{which}").write_text("0 0")

    @property
    def _committed(self) -> list[int]:
        return [int(file.name) for file in (self.checkpoint / "commits").iterdir()]

    def look_into_stores(self) -> None:
        """What another run finds that begins, and then, of stores, what is left of this one's."""
        shares, empties = self.does is Does.SHARES_ITS_TABLE, self.does is Does.EMPTIES_FOR_OTHERS
        tables = [self._table() if shares else {}]
        if self.query.stores:
            tables.append({} if empties else self._table())
        for rows in tables:
            self.say(Kept(self.actor, self.incarnation, rows))
        self.say(Ended(self.actor, self.incarnation, {SOURCE: [1]}))

    def _fail(self) -> None:
        again = self.does is Does.FAILS_AGAIN and self.incarnation > 1
        again = again or (self.does is Does.FAILS_ONCE_AGAIN and self.incarnation == 2)
        if self.does is Does.FAILS or again:
            raise InvalidOperator(f"query {self.query.name!r} failed: ValueError: not this one")
        if self.does is Does.DIES:
            raise SystemExit(139)
        if self.does is Does.NEEDS_THE_BEGINNING and self.spans[0][0] > 1 and not self._committed:
            raise InvalidOperator(f"query {self.query.name!r} failed: KeyError: 'a'")
        if self.does is Does.NEVER_ENDS:
            self._hang()

    def _hang(self) -> None:
        if not self.in_recovery_worker:
            raise Stalled
        self.killed.wait(60)
        raise SystemExit(-9)

    def _do(self, number: int) -> None:
        self._between(Point.SOURCE_COMMIT, str(number), DRIVER, lambda: None)
        self._between(Point.OFFSET_LOG, str(number), DRIVER, (self.checkpoint / "offsets" / str(number)).touch)
        self._between(Point.ADD_BATCH, str(number), DRIVER, lambda: self._add(number))
        self._between(Point.COMMIT_LOG, str(number), DRIVER, (self.checkpoint / "commits" / str(number)).touch)

    def _add(self, number: int) -> None:
        if self.does in _IN_TASKS:
            self._write_in_tasks(number, self.checkpoint / f"done-{number}")
            return
        self._between(Point.TASK_COMMIT, f"{number}/0", TASK, lambda: self._write(number))

    def _write(self, number: int) -> None:
        for step in range(2 if self.does is Does.IN_STEPS else 0):
            (self.checkpoint / f"step-{number}-{step}").touch()
            self.pass_point(Point.USER, Side.AFTER, f"{number}/step", TASK)
        if self.does is Does.GIVES_UP and not self._tries_again(number):
            return
        if self.does is Does.REPAIRS_BY_WRITING_AGAIN:
            self._begin_or_repair(number)
        if self.does is Does.NAMES_ALL_ANEW:
            self._write_and_name(number)
            return
        self._write_in_two_steps(number)
        if self.does is Does.HOLDS_BACK:
            number, self.held = self.held, number
        if number is not None:
            self._store(number)
        if self.given_to:
            rows = [Event("q", row_number(number, 0), "a", self._span(number)[0], 0)]
            self.say(Delivered(self.given_to, "q", self.incarnation, number, rows))

    def _write_in_tasks(self, number: int, done: Path) -> None:
        if done.exists():
            return
        for partition in (1, 0) if self.last_first() else (0, 1):
            line = f"{number}/toy.write_part:7#{1 + partition}"
            if partition == 0:
                self._between(Point.LINE, line, TASK, lambda: self._store(number))
            else:
                self._between(Point.LINE, line, TASK, done.touch if self.does is Does.LAST_TASK_SAYS else lambda: None)
            self._between(Point.TASK_END, f"{number}/{number}/{partition}", TASK, lambda: None)
        done.touch()

    def _tries_again(self, number: int) -> bool:
        tries = sorted(self.checkpoint.glob(f"tries-{number}-*"))
        if len(tries) >= 2:
            return False
        (self.checkpoint / f"tries-{number}-{len(tries)}").touch()
        self.pass_point(Point.USER, Side.AFTER, f"{number}/begun", TASK)
        return True

    def _begin_or_repair(self, number: int) -> None:
        begun = self.checkpoint / f"begun-{number}"
        if begun.exists():
            self._write_all_again(number)
        begun.touch()
        self.pass_point(Point.USER, Side.AFTER, f"{number}/begun", TASK)

    def _write_all_again(self, number: int) -> None:
        kept = {file: file.read_text() for file in self.sink.iterdir()}
        for file in kept:
            file.unlink()
        self.pass_point(Point.USER, Side.AFTER, f"{number}/removed", TASK)
        for file, text in kept.items():
            file.write_text(text)

    def _write_and_name(self, number: int) -> None:
        nameless, named = self.sink / f"nameless-{number}", self.sink / f"{number}-1"
        if nameless.exists():
            self._write_all_again(number)
        if not named.exists():
            nameless.write_text(f"{number} 0")
            self.pass_point(Point.USER, Side.AFTER, f"{number}/written", TASK)
            nameless.rename(named)
            self.pass_point(Point.USER, Side.AFTER, f"{number}/named", TASK)
        (self.checkpoint / f"noted-{number}").touch()

    def _store(self, number: int) -> None:
        if self.does is Does.NUMBERS_ANEW:
            for file in self.sink.iterdir():
                if file.read_text() == f"{number} 0":
                    file.unlink()
            (self.sink / f"part-{next(self.written)}").write_text(f"{number} 0")
            return
        forgets = self.does is Does.APPENDS or (self.does is Does.APPENDS_IN_RECOVERY_WORKERS and self.warm)
        forgets |= self.does is Does.REMEMBERS and not self.warm
        name = f"{number}-{self.incarnation if forgets else 1}"
        when = time.monotonic_ns() if self.does is Does.ASKS_THE_CLOCK else 0
        place = self.spans.index(self._span(number))
        if self.does is Does.ENDS_WITH_A_BATCH:
            name, when = f"{place}-1", number
        if self.does is Does.TAKES_OVER_AT_EACH_START:
            (self.sink / name).unlink(missing_ok=True)
            name = f"{number}-mine"
        (self.sink / name).write_text(f"{place} {when}")

    def _write_in_two_steps(self, number: int) -> None:
        """Of those that cannot go on where they have left off."""
        if self.does not in _LEAVING:
            return
        half = self.checkpoint / f"half-{number}"
        if half.exists():
            if self.does is Does.LOOPS_AT_ITS_HALF_WRITTEN_FILE:
                raise InvalidOperator(f"query {self.query.name!r} failed: FileExistsError: half-{number}")
            if self.warm or self.does is Does.HANGS_AT_ITS_HALF_WRITTEN_FILE:
                self._hang()
        half.touch()
        self.pass_point(Point.USER, Side.AFTER, f"{number}/half", TASK)
        half.unlink()

    def _between(self, point: Point, key: str, actor: str, work: Callable[[], object]) -> None:
        self.pass_point(point, Side.BEFORE, key, actor)
        work()
        self.pass_point(point, Side.AFTER, key, actor)

    def _table(self) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        for file in sorted(self.sink.iterdir()):
            number, when = map(int, file.read_text().split())
            for seq in range(self.spans[number][0], self.spans[number][1] + 1):
                row = f'{{"seq":{seq},"when":{when}}}'
                rows[row] = rows.get(row, 0) + 1
        return rows


# Recovery workers


class ToyProcess:
    def __init__(self, name: str, stderr: Path, work: Callable[[ToyProcess], None]) -> None:
        self.name, self.stderr, self.pid = name, stderr, NO_PROCESS
        self.killed = threading.Event()
        self._status = 0
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work(self)
        except SystemExit as end:
            self._status = int(str(end.code))
            self.stderr.write_text("Segmentation fault\n")
        except (OSError, StreamproofError):
            self._status = 1

    def poll(self) -> int | None:
        if self.killed.is_set():
            return -9
        return None if self._thread.is_alive() else self._status


class ToySpark:
    """In the place of `SparkProcesses`."""

    address = "127.0.0.1"

    def __init__(self, run_id: str, folder: Path, options: object = None, spark: object = None) -> None:
        self.run_id = run_id
        self.scratch = folder / "scratch"
        self.logs_folder = folder / "logs"
        self.scratch.mkdir(parents=True)
        self.watched = False
        self._started: dict[str, ToyProcess] = {}
        self._attempts: Counter[str] = Counter()
        self._written: dict[str, Iterator[int]] = {}
        """By the session, how many attempts it has made and how many files it has written."""
        self._last_first: dict[str, Callable[[], bool]] = {}
        """The same, whether the rule is at work by which tasks come in the other order."""

    def __enter__(self) -> ToySpark:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started.values():
            process.killed.set()

    def start_driver(
        self,
        name: str,
        module: str,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        master: str | None = None,
    ) -> ToyProcess:
        given = dict(env or {})
        if module.endswith("warm_session"):
            self.watched = "javaagent" in (settings or {}).get("spark.driver.extraJavaOptions", "")
            self._attempts[name], self._written[name] = 0, count()
            self._last_first[name] = _order_of((settings or {}).get("spark.driver.extraJavaOptions", ""))
            work = _session
        else:
            assert module.endswith("queries.driver")

            session = given[SESSION]
            self._attempts[session] += 1
            warm, written, last_first = self._attempts[session] > 1, self._written[session], self._last_first[session]

            def work(process: ToyProcess, path: str) -> None:
                _attempt(process, path, given, self.watched, warm, written, last_first)

        process = ToyProcess(name, self.scratch / f"{name}.log", lambda process: work(process, args[0]))
        process.stderr.touch()
        # It can come to where it is killed before anything else happens here.
        self._started[name] = process
        process.start()
        return process

    def environment_of(self, name: str, role: str) -> dict[str, str]:
        """Its processes are threads of this process, which must not wait for a file system that waits for it."""
        raise MissingTool("nothing is mounted here")

    def kill_node(self, name: str) -> KillProof:
        return self.kill_together([name])

    def kill_together(self, names: Sequence[str]) -> KillProof:
        for name in names:
            self._started[name].killed.set()
        killed = tuple(Killed(self._started[name].pid, "driver", name) for name in names)
        return KillProof(", ".join(names), killed, 0, 0, True)


def _session(process: ToyProcess, path: str) -> None:
    plan = msgspec.json.decode(Path(path).read_bytes(), type=WarmPlan)
    harness = BlockingConnection(plan.harness, Greeting(VERSION, plan.token, PURPOSE, plan.node))
    harness.send(Warm({SESSION: plan.node}))
    harness.receive()
    harness.close()


def _order_of(options: str) -> Callable[[], bool]:
    """Asks as the rule for that does, if the JVM is started with it."""
    script = re.search(r"=script:([^ ']+)", options)
    rule = script and re.search(
        r'RULE tasks in the other order\n.*?create\("file://(.+?)"\)', Path(script[1]).read_text(), re.S
    )
    return Path(unquote(rule[1])).exists if rule else lambda: False


def _attempt(
    process: ToyProcess,
    path: str,
    env: Mapping[str, str],
    watched: bool,
    warm: bool,
    written: Iterator[int],
    last_first: Callable[[], bool],
) -> None:
    with Path(path).open("rb") as file:
        pickle.load(file)
        plan: QueryPlan = pickle.load(file)
    (run,) = plan.runs
    harness = BlockingConnection(
        plan.harness, Greeting(VERSION, plan.token, "driver", plan.node, incarnation=plan.incarnation)
    )
    harness.send(Begun(run.actor, 0, plan.incarnation, time.monotonic_ns()))
    harness.send(SparkRuns(chosen_version(), python_versions()))

    def pass_point(point: Point, side: Side, key: str, actor: str) -> None:
        if point is not Point.SOURCE_COMMIT:
            if watched:
                announce(env[POINTS], point, side, f"{actor}:{key}" if point in FINE_POINTS else key)
        elif run.armed is None:
            harness.send(Arrived(Address(run.actor, plan.incarnation, point, key, side), 0, True, time.monotonic_ns()))
            harness.receive()
        if process.killed.is_set():
            raise SystemExit(-9)

    attempt = ToyAttempt(
        plan.query,
        plan.spans,
        run.folders.sink,
        run.folders.checkpoint,
        run.actor,
        plan.incarnation,
        harness.send,
        pass_point,
        process.killed,
        in_recovery_worker=True,
        warm=warm,
        written=written,
        last_first=last_first,
        given_to=run.sink if plan.query.read is None else "",
        say_columns=harness.send,
    )
    try:
        attempt.look_into_stores() if run.kind is RunKind.STORES else attempt.live()
    except StreamproofError as error:
        harness.send(Failed(type(error).__name__, str(error)))
        harness.receive()
        raise
    finally:
        harness.close()


def announce(told: str, point: Point, side: Side, key: str) -> None:
    """As a thread of Spark does in which the agent's rules are."""
    say(told, f"{side} {point} {key}")


def say(told: str, what: str) -> None:
    place, token, node, incarnation = told.split(" ")
    host, port = place.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(f"{token} {node} {incarnation} {os.getpid()} {what}\n".encode())
        connection.recv(1)


# Kills


class _Killed(Exception):
    pass


class ToyCluster:
    """A cluster on which drivers die at their points. What else dies does no harm."""

    name = "embedded"
    virtual_time = False
    places = numbered_workers(3, OTHER_NODES)

    def __init__(self, misses: str = "") -> None:
        self.runs: list[Scenario] = []
        self.misses = misses
        """The kind of fault that bites nobody."""

    def check(self, scenario: Scenario) -> None: ...

    def require(self, carriers: Collection[str]) -> None: ...

    def describe(self, scenario: Scenario) -> Mapping[str, object]:
        return {"cluster": self.name}

    @contextmanager
    def deploy(self, run: Run) -> Iterator[Deployment]:
        self.runs.append(run.scenario)
        yield ToyDeployment(run, self.misses)

    def kept_warm(self, folder: Path | None = None) -> AbstractContextManager[Cluster]:
        return nullcontext(self)


class ToyDeployment:
    def __init__(self, run: Run, misses: str) -> None:
        self._misses = misses
        query = run.scenario.subject
        assert isinstance(query, Query)
        self._run, self._query = run, query
        self._batches = query.batches(run.scenario.workload)
        self._faults = dict(enumerate(run.scenario.faults))
        self._given_up = ""
        self._failures: list[str] = []
        self._stalled = False

    def prepare(self) -> None: ...

    def start(self) -> None: ...

    def drained(self, deadline: Duration) -> bool:
        for batch in self._batches:
            self._note(Offered(SOURCE, batch))
        for stamped in self._run.references:
            self._note(stamped.record)
        for name in () if self._run.references else REFERENCES:
            self._live(name, 1)
        incarnation = 1
        while not self._live_judged(incarnation):
            if self._given_up or self._stalled:
                return False
            incarnation += 1
            for entry in (NodeGone(self._now, DRIVER), NodeUp(self._now, DRIVER)):
                self._run.recorder.log(entry)
            self._run.recorder.log(Placed(self._now, DRIVER, incarnation, DRIVER))
        for number, fault in self._faults.items():
            self._run.recorder.log(FaultMissed(self._now, number, str(fault)))
        self._run.recorder.log(Drained(self._now))
        return True

    @property
    def stalled(self) -> bool:
        return False

    def waiting_for(self) -> str:
        if self._stalled:
            return "it gave no sign of work"
        return f"the query failed again when no fault disturbed it any more: {self._given_up}"

    def silent(self) -> int:
        return 10**9 if self._stalled else 0

    def stop(self) -> None: ...

    def _live_judged(self, incarnation: int) -> bool:
        try:
            return self._live(DRIVER, incarnation)
        except Stalled:
            self._stalled = True
            return False
        except InvalidOperator as error:
            self._failures.append(str(error))
            batch = last_planned_batch(self._home(DRIVER) / "checkpoint")
            self._run.recorder.log(IncarnationFailed(self._now, DRIVER, incarnation, batch, str(error)))
            self._given_up = str(error) if len(self._failures) == ATTEMPTS else ""
            return False

    def _live(self, actor: str, incarnation: int) -> bool:
        """Whether it came to the end of its input."""
        home = self._home(actor)

        def pass_point(point: Point, side: Side, key: str, whose: str) -> None:
            if actor == DRIVER:
                self._strike(Address(whose, incarnation, point, key, side))

        attempt = ToyAttempt(
            self._query,
            spans(self._batches),
            home / "sink",
            home / "checkpoint",
            actor,
            incarnation,
            self._note,
            pass_point,
            threading.Event(),
            in_recovery_worker=False,
        )
        try:
            attempt.live()
        except _Killed:
            return False
        return True

    def _home(self, actor: str) -> Path:
        assert self._run.folder is not None
        return self._run.folder / "stored" / actor

    def _strike(self, address: Address) -> None:
        for number, fault in list(self._faults.items()):
            assert isinstance(fault.trigger, Moment)
            if fault.trigger.matches(address, 0):
                del self._faults[number]
                gone = fault.kind != self._misses
                bite = Bite(fault.targets[0], "node-0", (DRIVER,), outstanding=True, gone=gone, pids=(1,))
                self._run.recorder.log(FaultStruck(self._now, number, str(fault), str(address), bite))
                if (fault.kind, fault.targets) == ("crash", (DRIVER,)):
                    raise _Killed

    def _note(self, record: Record) -> None:
        self._run.recorder.note(self._now.at, record)

    @property
    def _now(self) -> Stamp:
        return Stamp(self._run.recorder.latest.at + 1)


@dataclass(frozen=True)
class _Java:
    version: int = 17


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, workers: int = 1) -> None:
    """From now on campaigns run on this."""
    agent = folder / f"agent-{uuid4().hex}.jar"
    agent.touch()
    monkeypatch.setattr(reference_runs, "SparkProcesses", ToySpark)
    monkeypatch.setattr(reference_runs, "how_many", lambda: workers)
    monkeypatch.setattr(blind_spots, "fetch_agent", lambda: agent)
    monkeypatch.setattr(blind_spots, "check_rules", lambda *_, **__: None)
    monkeypatch.setattr(campaign, "find_java", _Java)
    monkeypatch.setattr(recovery_worker, "find_agent", lambda: agent)
    # However busy the machine is: nobody here works for long.
    monkeypatch.setattr(signs, "share_of_machine", lambda: 1.0)
