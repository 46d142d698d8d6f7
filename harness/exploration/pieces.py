"""What a search is made of, wherever it is carried out: pieces of plans, and what came of each trial of a piece.

A trial is worked out again from its piece where it is wanted, so that who tried it need not send it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ..contracts.registry import Registry
from ..contracts.scenario import Scenario
from ..core.errors import StreamproofError, UsersCodeFailed
from ..core.verdicts import Status
from .bench import Bench, Outcome, Trial, resized
from .plans import SearchPlan

Piece = tuple[int, int]
"""Which plan, and which of its pieces."""
NO_PIECE: Piece = (-1, -1)
"""Of what no plan gave."""


@dataclass(frozen=True)
class Tried:
    """One trial was run and judged. Those of a piece come one after the other."""

    piece: Piece
    place: int
    """Of the trial in its piece."""
    random: bool
    outcome: Outcome
    told: Trial | None = None
    """The trial itself, where it violates a claim or exercised something new, and who tried it could say so."""

    def trial(self, bench: Bench, plans: Sequence[SearchPlan]) -> Trial:
        if self.told is not None:
            return self.told
        plan, number = self.piece
        return next(islice(plans[plan].trials(bench, number), self.place, None))


@dataclass(frozen=True)
class Through:
    """All trials of a piece have been tried."""

    piece: Piece


@dataclass(frozen=True)
class CodeFailed:
    """The user's code failed under a trial of a piece. Those after it were not tried."""

    piece: Piece
    error: StreamproofError


@dataclass(frozen=True)
class LostPiece:
    """A piece that nobody tries any more."""

    piece: Piece
    why: str


@dataclass(frozen=True)
class Again:
    """Pieces were given to another worker, since the first one was lost."""

    why: str


@dataclass(frozen=True)
class CutShort:
    """The search cannot go on."""

    why: str


PieceProgress = Tried | Through | CodeFailed | LostPiece | Again | CutShort


def in_turn(plans: Sequence[Iterator[int]]) -> Iterator[Piece]:
    """A piece of each plan, and again, until all are through."""
    waiting = deque(enumerate(plans))
    while waiting:
        number, plan = waiting.popleft()
        piece = next(plan, None)
        if piece is not None:
            yield number, piece
            waiting.append((number, plan))


def one_after_another(plans: Sequence[Iterator[int]]) -> Iterator[Piece]:
    """All pieces of a plan before those of the next."""
    for number, plan in enumerate(plans):
        for piece in plan:
            yield number, piece


def work_through(bench: Bench, plans: Sequence[SearchPlan], piece: Piece) -> Iterator[Tried | Through | CodeFailed]:
    """Try all trials of a piece, or those until the user's code fails under one."""
    plan, number = piece
    try:
        for place, (trial, outcome) in enumerate(plans[plan].attempts(bench, number)):
            told = trial if outcome.status is Status.VIOLATED or outcome.exercised_new else None
            yield Tried(piece, place, trial.random, outcome, told)
    except UsersCodeFailed as error:
        yield CodeFailed(piece, error)
    else:
        yield Through(piece)


def is_past(deadline: float | None) -> bool:
    """Whether the monotonic clock has come to a deadline."""
    return deadline is not None and time.monotonic() >= deadline


@dataclass(frozen=True)
class Source:
    """Where a process gets the scenario from: by the name that the registry knows, or else from its pickle."""

    origin: str | None
    body: bytes | None
    events: int
    batch: int

    @classmethod
    def of(cls, scenario: Scenario, origin: str | None) -> Source:
        workload = scenario.workload
        return cls(origin, None if origin is not None else _pickled(scenario), workload.events, workload.batch)

    def scenario(self, registry: Registry) -> Scenario:
        if self.origin is not None:
            found = registry.scenario(self.origin).scenario
        else:
            from pyspark import cloudpickle

            assert self.body is not None
            found = cloudpickle.loads(self.body)
        return resized(found, self.events, self.batch)


def _pickled(scenario: Scenario) -> bytes:
    from pyspark import cloudpickle

    body: bytes = cloudpickle.dumps(scenario)  # type: ignore[no-untyped-call]
    return body
