"""The driver of a search on Spark: every part is a job of one task, so that what is lost with a worker is that part.
Its pieces are tried again, each in a job of its own, and only one that takes its worker with it once more is given up.

Run as `python -m streamproof.harness.exploration.spark_driver TASK SOCKET`: a file that the search wrote, and the
number of an open socket to it. It ends when the other end of that socket is gone.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError

from ..core.errors import OwnFailure, StreamproofError
from ..core.wire import decoded, frame, receive_frame
from ..worlds.embedded.reaping import OWNER, RUN, ProcessId, remove_scratch
from ..worlds.spark.control.run_messages import Failed
from ..worlds.spark.control.run_server import from_afar
from .spark_protocol import (
    Done,
    Dropped,
    FromDriver,
    PieceBatch,
    PieceOutcome,
    SearchStopped,
    SparkReady,
    from_search,
    from_worker,
)
from .spark_worker import try_parts

_AT_ONCE: Final = 256
"""Jobs that can be under way at the same time."""
_LOST: Final = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "Python worker failed to connect back",
    "java.io.EOFException",
    "Connection reset",
)
"""What shows, in an error of Spark's, that a worker was lost."""
_STOPPED: Final = ("SparkContext has been shutdown", "SparkContext was shut down", "stopped SparkContext")
"""What shows that nobody works for the driver any more."""


class WorkerLost(Exception):
    """With what it was trying."""


class ClusterLost(Exception):
    """With all that is on it."""


class SearchDriver:
    """Takes parts, and answers each."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def main(self, task: bytes) -> None:
        try:
            context = SparkContext(conf=SparkConf().setAppName("streamproof explore"))
            shared = context.broadcast(task)
            cores = context.defaultParallelism
        except Exception as error:
            traceback.print_exc()
            self.tell(Failed("Unsupported", f"Spark does not start: {_reason(str(error))}"))
            # The search reads the log before it goes away; not before that may the folder be removed.
            while receive_frame(self._connection) is not None:
                pass
            return
        self.tell(SparkReady(cores))
        pool = ThreadPoolExecutor(_AT_ONCE)
        while (body := receive_frame(self._connection)) is not None:
            pool.submit(self._see_to, context, shared, decoded(from_search, body))
        pool.shutdown(wait=False, cancel_futures=True)
        context.cancelAllJobs()
        context.stop()

    def _see_to(self, context: SparkContext, shared: Any, part: PieceBatch) -> None:
        began = time.monotonic()
        try:
            try:
                self.tell(_ask(context, shared, part))
            except WorkerLost as lost:
                self.tell(Dropped(part.number, str(lost)))
                self.tell(Done(part.number, list(_one_by_one(context, shared, part, began))))
        except ClusterLost as lost:
            self.tell(SearchStopped(str(lost)))
        except Exception as error:
            traceback.print_exc()
            kind = type(error).__name__ if isinstance(error, StreamproofError) else "OwnFailure"
            self.tell(Failed(kind, str(error)))

    def tell(self, message: FromDriver) -> None:
        with self._lock:
            try:
                self._connection.sendall(frame(message))
            except OSError:
                return  # The search is over: nobody wants to know.


def _one_by_one(context: SparkContext, shared: Any, part: PieceBatch, began: float) -> Iterator[PieceOutcome]:
    for piece in part.pieces:
        left = None if part.seconds is None else began + part.seconds - time.monotonic()
        if left is not None and left <= 0:
            return
        try:
            yield from _ask(context, shared, PieceBatch(part.number, (piece,), left)).worked
        except WorkerLost as lost:
            yield PieceOutcome(piece, [], random=False, through=False, seconds=0.0, lost=str(lost))


def _ask(context: SparkContext, shared: Any, part: PieceBatch) -> Done:
    """Have a worker try a part. Raises WorkerLost, the error of the taxonomy that the worker names, or OwnFailure."""
    try:
        (answer,) = context.parallelize([part], 1).mapPartitions(partial(try_parts, shared)).collect()
    except Exception as error:
        if unreachable(error):
            raise ClusterLost("the JVM of its driver has ended") from error
        if not isinstance(error, Py4JJavaError):
            raise
        text = str(error)
        lost = next((sign for sign in _LOST if sign in text), None)
        if any(sign in text for sign in _STOPPED):
            raise ClusterLost(_reason(text)) from error
        if lost is not None:
            raise WorkerLost(lost) from error
        raise OwnFailure(f"a part of the search cannot be run on Spark: {_reason(text)}") from error
    done: Done | Failed = decoded(from_worker, answer)
    if isinstance(done, Failed):
        raise from_afar(done)
    return done


def unreachable(error: BaseException) -> bool:
    """Whether PySpark could not speak with the JVM.

    Where it fetches a job's answer over a socket that nobody serves any more, what it raises in the end is the failure
    to close what it never opened; the refusal stands in that one's context.
    """
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or at.__context__
    return any(
        isinstance(one, OSError)
        or (isinstance(one, Py4JError) and not isinstance(one, Py4JJavaError))
        or (isinstance(one, PySparkRuntimeError) and "CANNOT_OPEN_SOCKET" in str(one))
        for one in chain
    )


def _reason(text: str) -> str:
    """What was raised in a worker, where Spark's error says it."""
    raised = re.findall(r"^(?:pyspark\.\S+: )?([A-Za-z_.]*(?:Error|Exception): .+)$", text, re.MULTILINE)
    return raised[-1] if raised else _first_line(text)


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if ": " in line and not line.startswith(("at ", "An error occurred"))]
    return next(iter(said or lines), "it gives no reason")


def main(task: str, number: str) -> None:
    driver = SearchDriver(socket.socket(fileno=int(number)))
    driver.main(Path(task).read_bytes())
    # A search that was killed cannot do it.
    owner = ProcessId.parse(os.environ.get(OWNER, ""))
    remove_scratch(Path(task).parent, os.environ.get(RUN, ""), owner)
    # What still runs in some thread is wanted by nobody.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
