"""Which loops of the user's functions went round once only, wherever they were watched: nobody has died between two
rounds of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..contracts.query import Query
from ..core.addresses import CodeLine, Point
from ..crash_points.inside_python.own_loops import Loop, own_loops
from ..crash_points.inside_python.watching import TIMES
from .attempts import Attempt

_Passed = Mapping[int, int]
"""By line of one function, how often a batch has passed it in one process; more often than `TIMES` nobody is told."""


def loops_that_went_round_once(query: Query, attempts: Iterable[Attempt]) -> tuple[str, ...]:
    """`sinks.write:31`, of each loop. One that was not come to is none: its lines were never run. `attempts` are those
    that were watched."""
    passed = _passed(attempts)
    return tuple(f"{one.function}:{one.line}" for one in own_loops(query) if _once(one, passed.get(one.function, ())))


def _passed(attempts: Iterable[Attempt]) -> Mapping[str, Sequence[_Passed]]:
    """By function, of each batch of each attempt, in the driver and in tasks."""
    found: dict[str, dict[tuple[int, str, str], dict[int, int]]] = {}
    for number, attempt in enumerate(attempts):
        for one in attempt.passed:
            line = CodeLine.of(one.address.key) if one.address.point is Point.LINE else None
            if line is not None and not line.called:
                batch = number, one.address.actor, line.batch
                times = found.setdefault(line.function, {}).setdefault(batch, {})
                times[line.line] = max(times.get(line.line, 0), line.time)
    return {function: [*batches.values()] for function, batches in found.items()}


def _once(loop: Loop, batches: Sequence[_Passed]) -> bool:
    came = False
    for passed in batches:
        calls = min((-(-passed[line] // most) for line, most in loop.calls.items() if line in passed), default=1)
        # Of the others, how often they were passed is not known.
        told = {line: most * calls for line, most in loop.rounds.items() if line in passed and most * calls < TIMES}
        if not told and loop.rounds.keys() & passed.keys():
            return False
        if any(passed[line] > most for line, most in told.items()):
            return False
        came |= bool(told)
    return came
