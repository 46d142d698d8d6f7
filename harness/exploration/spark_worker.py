"""The part of a search that a Spark task does: it tries pieces on a bench that its Python worker keeps for the next."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark import cloudpickle

from ..contracts.registry import Registry
from ..contracts.scenario import Scenario
from ..core.errors import StreamproofError
from ..worlds.simulated.options import SimulationOptions
from ..worlds.spark.control.run_messages import Failed
from .bench import Bench, Outcome
from .memory import look_seldom
from .pieces import CodeFailed, Piece, Through, Tried, is_past, work_through
from .plans import SearchPlan
from .spark_protocol import Done, PieceBatch, PieceOutcome

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True)
class Task:
    """What all workers of a search are given."""

    scenario: Scenario
    plans: tuple[SearchPlan, ...]
    seed: int
    options: SimulationOptions


_known: dict[bytes, tuple[Bench, Sequence[SearchPlan]]] = {}
"""Digest of a task -> what this process has made of it. Workers are reused."""


def try_parts(task: Any, parts: Iterable[PieceBatch]) -> Iterator[bytes]:
    """A message to the driver for each: `Done`, or `Failed` where nothing of it can be tried.

    `task` is a `Task`, pickled, as a broadcast variable.
    """
    for part in parts:
        try:
            yield _encode(_worked(task.value, part))
        except StreamproofError as error:
            yield _encode(Failed(type(error).__name__, str(error)))


def _worked(body: bytes, part: PieceBatch) -> Done:
    deadline = None if part.seconds is None else time.monotonic() + part.seconds
    bench, plans = _bench(body)
    worked: list[PieceOutcome] = []
    for piece in part.pieces:
        if is_past(deadline):
            break
        worked.append(_piece(bench, plans, piece, deadline))
        if worked[-1].failed is not None:
            break
    return Done(part.number, worked)


def _piece(bench: Bench, plans: Sequence[SearchPlan], piece: Piece, deadline: float | None) -> PieceOutcome:
    began = time.monotonic()
    outcomes: list[Outcome] = []
    random = through = False
    failed = None
    for progress in work_through(bench, plans, piece):
        match progress:
            case Tried():
                outcomes.append(progress.outcome)
                random = progress.random
            case Through():
                through = True
            case CodeFailed(error=error):
                failed = Failed(type(error).__name__, str(error))
        if is_past(deadline):
            break
    return PieceOutcome(piece, outcomes, random, through, time.monotonic() - began, failed=failed)


def _bench(body: bytes) -> tuple[Bench, Sequence[SearchPlan]]:
    digest = hashlib.sha256(body).digest()
    if digest not in _known:
        task: Task = cloudpickle.loads(body)
        _known.clear()
        _known[digest] = Bench(task.scenario, Registry(), seed=task.seed, options=task.options), task.plans
        look_seldom()
    return _known[digest]
