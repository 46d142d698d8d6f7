"""A search on the cores of a Spark cluster: any master that Spark knows, on this machine or elsewhere.

The parts of the search go to a driver, which is a process of its own: the harness's holds no JVM. When a worker is
lost, others try what it was given; what takes them with it too is given up, and the search goes on with the rest.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from ..core.errors import DeadlinePassed, ProcessDied, StorageFailed, Unsupported
from ..core.pickling import modules_of_the_user, pickled
from ..core.wire import decoded, frame, receive_frame
from ..install.class_archive import archive_options
from ..install.machine import find_java, find_spark, inherited_import_path
from ..install.private_files import write_private
from ..install.settings import as_properties
from ..worlds.embedded import reaping
from ..worlds.embedded.reaping import LabelledProcess, Labels, end_all, labelled_processes
from ..worlds.spark.control.layout import QUICK_JVM
from ..worlds.spark.control.nodes import LOOPBACK
from ..worlds.spark.control.run_messages import Failed
from ..worlds.spark.control.run_server import from_afar
from .bench import Bench
from .pieces import Again, CodeFailed, CutShort, LostPiece, Piece, PieceProgress, Through, Tried, is_past
from .plans import SearchPlan
from .spark_protocol import Done, Dropped, FromDriver, PieceBatch, SearchStopped, SparkReady, from_driver
from .spark_worker import Task

_READY_SECONDS: Final = 120.0
"""For Spark to start. Spark itself gives up a master that does not answer after a minute."""
_KNOCK_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 120.0
"""Without any answer for so long, nobody is taken to work on the search."""
_LEAVE_SECONDS: Final = 5.0
"""For the driver to take its leave of the cluster."""
_PART_SECONDS: Final = 0.5
"""What a part is to take, so that what a worker is given costs little beside it, and little is lost with it."""
_FIRST_SECONDS: Final = 0.05
"""What a piece is taken to take as long as nothing is known."""
_LARGEST: Final = 512
"""Pieces in a part."""

_NO_MASTER: Final = "no Spark master answers there"
_NO_FORM: Final = "Spark knows no master of this form; one looks like spark://HOST:7077 or local[2]"
_SIGNS: Final = {
    "Could not parse Master URL": _NO_FORM,
    "Master must either be": _NO_FORM,
    "All masters are unresponsive": _NO_MASTER,
}
"""Signs in the driver's log, and what they mean."""

_SETTINGS: Final = {
    "spark.driver.memory": "768m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.locality.wait": "0s",
    # Who tries a part again, and how often, is the driver's to say.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
}


class SparkWorkers:
    """A driver and the cluster that it works on. Use it as a context manager; nothing is left on this machine."""

    cores: int
    """As many as the cluster had when it was ready."""

    def __init__(self, master: str, bench: Bench, plans: Sequence[SearchPlan]) -> None:
        self._master = master
        task = Task(bench.scenario, tuple(plans), bench.seed, bench.cluster.options)
        self._task = pickled(task, "the scenario", modules_of_the_user())
        self._plans = plans
        self._java = find_java()
        self._spark = find_spark()
        if not _answers(master):
            raise Unsupported(f"{master} cannot be searched on: {_NO_MASTER}")
        self._run = f"explore-{os.getpid()}-{time.time_ns()}"
        self._piece_seconds: dict[int, float] = {}
        """Plan -> what one of its pieces takes, by what was seen last."""

    def __enter__(self) -> SparkWorkers:
        self._scratch = Path(tempfile.mkdtemp(prefix="streamproof-explore-"))
        self._labels = Labels(self._run, reaping.this_process(), self._scratch)
        self._connection, theirs = socket.socketpair()
        self._driver: subprocess.Popen[bytes] | None = None
        try:
            reaping.mark_scratch(self._scratch, self._run, self._labels.owner)
            self._driver = self._start(theirs)
            theirs.close()
            try:
                message = self._receive(_READY_SECONDS)
            except Unsupported as error:
                raise Unsupported(f"{self._master} cannot be searched on: {self._sign() or error}") from None
            except TimeoutError:
                raise DeadlinePassed(f"Spark to start on {self._master}", _READY_SECONDS, self._log_end()) from None
            if not isinstance(message, SparkReady):
                raise self._ended()
            self.cores = message.cores
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    # The driver

    def _start(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        task = write_private(self._scratch / "task", self._task)
        properties = write_private(self._scratch / "spark.properties", as_properties(self._settings()).encode())
        environment = {
            **os.environ,
            **self._labels.environment("driver", "driver"),
            "JAVA_HOME": str(self._java.home),
            "SPARK_HOME": str(self._spark.home),
            "SPARK_SCALA_VERSION": self._spark.scala,
            "SPARK_LOCAL_DIRS": str(self._scratch / "local"),
            # Where workers of a local-cluster write, which is otherwise inside the installed Spark.
            "SPARK_WORKER_DIR": str(self._scratch / "work"),
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--master {self._master} --properties-file {properties} pyspark-shell",
            "PYTHONPATH": inherited_import_path(),
        }
        if self._on_this_machine:
            environment["SPARK_LOCAL_IP"] = LOOPBACK
        module = "streamproof.harness.exploration.spark_driver"
        try:
            with self._log.open("wb") as log:
                return subprocess.Popen(
                    [sys.executable, "-m", module, str(task), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    cwd=self._scratch,
                    pass_fds=[theirs.fileno()],
                    # Ctrl-C is for the search, which ends the driver.
                    start_new_session=True,
                )
        except OSError as problem:
            raise StorageFailed(f"the driver cannot be started in {self._scratch}: {problem}") from problem

    def _settings(self) -> Mapping[str, str]:
        options = [*QUICK_JVM, *archive_options(self._java, self._spark), f"-Djava.io.tmpdir={self._scratch}"]
        own = {
            **_SETTINGS,
            # Not extraJavaOptions: those are the user's.
            "spark.driver.defaultJavaOptions": " ".join(options),
            # Where workers on this machine find what this process can import; elsewhere it has to be installed.
            "spark.executorEnv.PYTHONPATH": inherited_import_path(),
        }
        if self._on_this_machine:
            own |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
        if self._master.startswith("local"):
            # Its executors are ours too, and are killed in the end.
            own["spark.executor.defaultJavaOptions"] = f"-Djava.io.tmpdir={self._scratch}"
        return own

    @property
    def _on_this_machine(self) -> bool:
        return self._master.startswith(("local", f"spark://{LOOPBACK}:", "spark://localhost:"))

    @property
    def _log(self) -> Path:
        return self._scratch / "driver.log"

    def _receive(self, seconds: float | None) -> FromDriver | None:
        """What the driver says next; None when it is gone. Raises what it says has failed, TimeoutError."""
        ready, _, _ = select.select([self._connection], [], [], None if seconds is None else max(0.0, seconds))
        if not ready:
            raise TimeoutError
        body = receive_frame(self._connection)
        message = None if body is None else decoded(from_driver, body)
        if isinstance(message, Failed):
            raise from_afar(message)
        return message

    def _close(self) -> None:
        self._connection.close()
        if self._driver is not None:
            with suppress(subprocess.TimeoutExpired):
                self._driver.wait(_LEAVE_SECONDS)
            end_all(self._processes)
            self._driver.wait()
        reaping.remove_scratch(self._scratch, self._run, self._labels.owner)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _processes(self) -> list[LabelledProcess]:
        driver = self._driver
        known = {} if driver is None or driver.poll() is not None else {driver.pid: "driver"}
        return labelled_processes(self._run, known)

    def _ended(self) -> ProcessDied:
        return ProcessDied(f"the driver of the search ended by itself; its log ends:\n{self._log_end()}")

    def _sign(self) -> str:
        """What the log says of a master that cannot be used."""
        log = self._log_text()
        return next((said for sign, said in _SIGNS.items() if sign in log), "")

    def _log_end(self) -> str:
        return "\n".join(self._log_text().splitlines()[-15:])

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace")

    # The search

    def spread(self, pieces: Iterator[Piece], deadline: float | None) -> Generator[PieceProgress, None, None]:
        """Have the pieces tried, and say in their order what came of them."""
        waiting: deque[PieceBatch] = deque()
        answers: dict[int, Done] = {}
        number = 0
        more = True
        while True:
            # Two parts a core: so nobody waits for the next.
            while more and len(waiting) < 2 * self.cores + 1 and not is_past(deadline):
                chosen = tuple(self._next_part(pieces))
                more = bool(chosen)
                if chosen:
                    number += 1
                    waiting.append(
                        PieceBatch(number, chosen, None if deadline is None else deadline - time.monotonic())
                    )
                    with suppress(ConnectionError):  # That the driver is gone is seen when it is listened to.
                        self._connection.sendall(frame(waiting[-1]))
            if not waiting:
                return
            while waiting[0].number not in answers:
                try:
                    message = self._receive(_within(deadline))
                except TimeoutError:
                    if not is_past(deadline):
                        yield CutShort(f"no worker has answered for {_ANSWER_SECONDS:g} s")
                    return
                match message:
                    case None:
                        yield CutShort(str(self._ended()))
                        return
                    case Done():
                        answers[message.number] = message
                    case Dropped(why=why):
                        yield Again(why)
                    case SearchStopped(why=why):
                        said = re.search(r"Application has been killed\. Reason: (.+)", self._log_text())
                        yield CutShort(f"{self._master} has ended the search: {said[1] if said else why}")
                        return
                    case SparkReady(cores=cores):
                        self.cores = cores
            yield from self._told(answers.pop(waiting.popleft().number))

    def _next_part(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """As many as take about as long as a part should."""
        seconds = 0.0
        for _ in range(_LARGEST):
            piece = next(pieces, None)
            if piece is None:
                return
            yield piece
            seconds += self._piece_seconds.get(piece[0], _FIRST_SECONDS)
            if seconds >= _PART_SECONDS:
                return

    def _told(self, answer: Done) -> Iterator[PieceProgress]:
        for worked in answer.worked:
            plan, _ = worked.piece
            if worked.lost:
                yield LostPiece(worked.piece, worked.lost)
                continue
            for place, outcome in enumerate(worked.outcomes):
                yield Tried(worked.piece, place, worked.random, outcome)
            if worked.through:
                yield Through(worked.piece)
            if worked.failed is not None:
                yield CodeFailed(worked.piece, from_afar(worked.failed))
            known = self._piece_seconds.get(plan, _FIRST_SECONDS)
            self._piece_seconds[plan] = known + (worked.seconds - known) / 10


def _answers(master: str) -> bool:
    """Whether anybody listens at a standalone master's address, or at one of several; Spark asks for a minute."""
    form, _, places = master.partition("://")
    if form != "spark":
        return True
    for place in places.split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _KNOCK_SECONDS).close()
        except (OSError, ValueError):
            continue
        return True
    return False


def _within(deadline: float | None) -> float:
    return _ANSWER_SECONDS if deadline is None else min(_ANSWER_SECONDS, deadline - time.monotonic())
