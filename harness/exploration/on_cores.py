"""A search in this process, and in several of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..contracts.registry import Registry
from ..core.errors import DeadlinePassed, ProcessDied
from ..core.waiting import wait_until
from ..worlds.simulated.options import SimulationOptions
from .bench import Bench
from .held_signals import signals_held
from .memory import look_seldom
from .pieces import CodeFailed, Piece, PieceProgress, Source, Through, Tried, is_past, work_through
from .plans import IN_A_WORLD, SearchPlan

if TYPE_CHECKING:
    from concurrent.futures import Future
    from multiprocessing.connection import Connection

_Given = TypeVar("_Given")
_Done = TypeVar("_Done")

_AHEAD: Final = 8
"""Chunks of work of each process that are handed out: what comes of them is taken in order, and some take much longer
than others, while nobody must wait."""
_PIECES: Final = 8
"""Pieces of a plan in a chunk of work, where each takes long: what came of them is told when all have been tried."""
_QUICK: Final = 4_000
"""Addresses that a run passes, up to which it is a quick one: then a chunk has all random schedules of a world, so that
no two processes have to make the same one."""
_LEAVES_SECONDS: Final = 1.0
"""For a thread that is over to be gone."""
_GRACE_SECONDS: Final = 5.0
"""For a trial to come to its end, once the search is over."""


def alone(
    bench: Bench, plans: Sequence[SearchPlan], pieces: Iterator[Piece], deadline: float | None
) -> Generator[PieceProgress, None, None]:
    """A search in this process."""
    for piece in pieces:
        for progress in work_through(bench, plans, piece):
            yield progress
            if is_past(deadline):
                return


def together(
    bench: Bench,
    plans: Sequence[SearchPlan],
    pieces: Iterator[Piece],
    deadline: float | None,
    *,
    jobs: int,
    source: Source,
) -> Generator[PieceProgress, None, None]:
    """A search in several processes of this machine. Raises ProcessDied when one of them ends by itself."""
    forked = can_fork()
    given = (bench if forked else _Makings(source, bench.seed, bench.cluster.options), tuple(plans), deadline)
    at_once = IN_A_WORLD if len(bench.calm) <= _QUICK else _PIECES
    chunks = iter(lambda: () if is_past(deadline) else _chunk(pieces, plans, at_once), ())
    with closing(over_processes(jobs, chunks, _work, _begin, given, forked=forked)) as done:
        for progress in done:
            yield from progress


def over_processes(
    jobs: int,
    chunks: Iterator[_Given],
    work: Callable[[_Given], _Done],
    begin: Callable[..., None],
    given: tuple[Any, ...],
    *,
    forked: bool,
) -> Generator[_Done, None, None]:
    """Let several processes of this machine do some work, and yield what came of it in order. Each process begins with
    `begin(the ends of a pipe, *given)`; once nobody holds the second of them, nobody wants anything more
    (`leave_with_search`). `forked`: they begin as this one is, which must be able to (`can_fork`).

    Raises ProcessDied when one of them ends by itself.
    """
    # Not above: a search on one core, or a replay, has no need of it.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("fork" if forked else "spawn")
    # Whoever has news puts something in: a chunk is through, or a signal came.
    news: SimpleQueue[None] = SimpleQueue()
    # The pool has locks, threads and queues. Who is interrupted while it holds or releases one of them waits for ever.
    with signals_held(lambda: news.put(None)) as heed:
        # No flag that is shared: who is killed as it looks at one takes the lock along.
        over, ours = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=begin, initargs=((over, ours), *given))
        try:
            running: deque[Future[_Done]] = deque()
            while True:
                while len(running) < _AHEAD * jobs and (chunk := next(chunks, None)) is not None:
                    with _interrupts_kept_from_children():
                        running.append(pool.submit(work, chunk))
                    running[-1].add_done_callback(lambda _: news.put(None))
                heed()
                if not running:
                    return
                first = running.popleft()
                while not first.done():
                    news.get()
                    heed()
                yield first.result()
        except BrokenProcessPool as error:
            raise ProcessDied(f"a process of the search ended by itself: {error}") from error
        finally:
            ours.close()
            pool.shutdown(cancel_futures=True)
            over.close()


def can_fork() -> bool:
    """Whether a copy of this process can go on by itself, so that its processes begin as such, with all that it has
    made: what another thread has locked would stay locked in it. One that Python has joined is there still for a
    moment; others that Python does not know of, a library has."""
    if threading.active_count() > 1:
        return False
    try:
        return wait_until(lambda: len(os.listdir("/proc/self/task")) == 1, _LEAVES_SECONDS, "threads to be gone")
    except (OSError, DeadlinePassed):
        return False


def _chunk(pieces: Iterator[Piece], plans: Sequence[SearchPlan], at_once: int) -> tuple[Piece, ...]:
    """What a process is given at once: so many pieces of a plan, or one of hundreds of trials."""
    chunk: list[Piece] = []
    of_plan = Counter[int]()
    for piece in pieces:
        chunk.append(piece)
        of_plan[piece[0]] += 1
        if of_plan[piece[0]] == at_once or plans[piece[0]].large:
            break
    return tuple(chunk)


@contextmanager
def _interrupts_kept_from_children() -> Iterator[None]:
    """Processes that are started in here never hear of Ctrl-C, which is for the one that started them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True)
class _Makings:
    """Of a bench, for another process."""

    source: Source
    seed: int
    options: SimulationOptions

    def bench(self) -> Bench:
        registry = Registry()
        return Bench(self.source.scenario(registry), registry, seed=self.seed, options=self.options)


@dataclass
class _Worker:
    bench: Bench
    plans: tuple[SearchPlan, ...]
    over: threading.Event
    deadline: float | None

    @property
    def stopped(self) -> bool:
        return self.over.is_set() or is_past(self.deadline)


_worker: _Worker | None = None
"""That of this process, where it is one."""


def _begin(
    ends: tuple[Connection, Connection],
    made: Bench | _Makings,
    plans: tuple[SearchPlan, ...],
    deadline: float | None,
) -> None:
    global _worker
    over = leave_with_search(*ends)
    _worker = _Worker(made if isinstance(made, Bench) else made.bench(), plans, over, deadline)
    look_seldom()


def leave_with_search(theirs: Connection, ours: Connection) -> threading.Event:
    """Let this process end with the search that it works for. What is returned is set once that is over."""
    ours.close()
    if callable(signal.getsignal(signal.SIGTERM)):
        # One that was forked has the handlers of the search.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    over = threading.Event()
    threading.Thread(target=_end_with_search, args=(theirs, over), daemon=True).start()
    return over


def _end_with_search(theirs: Connection, over: threading.Event) -> None:
    """A search that is over, or was killed, leaves nobody behind, whatever a trial is at."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent: Any = parent_process()
    wait([theirs, parent.sentinel])
    over.set()
    parent.join(_GRACE_SECONDS)
    os._exit(1)


def _work(chunk: tuple[Piece, ...]) -> list[Tried | Through | CodeFailed]:
    worker = _worker
    assert worker is not None
    done: list[Tried | Through | CodeFailed] = []
    if worker.stopped:
        return done
    for piece in chunk:
        for progress in work_through(worker.bench, worker.plans, piece):
            done.append(progress)
            if worker.stopped or isinstance(progress, CodeFailed):
                return done
    return done
