"""Which loops of the user's functions went round once only, wherever they were watched, of those that leave something
durable in a round: nobody has died between two rounds of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..contracts.query import Query
from ..core.addresses import CodeLine, Point
from ..crash_points.files.naming import is_done_to_sink
from ..crash_points.inside_python.own_loops import Loop, own_loops
from ..crash_points.inside_python.watching import TIMES
from .attempts import Attempt

_Passed = Mapping[int, int]
"""By line of one function, how often a batch has passed it in one process; more often than `TIMES` nobody is told."""


def loops_that_went_round_once(query: Query, attempts: Iterable[Attempt]) -> tuple[str, ...]:
    """`sinks.write:31`, of each loop. One that was not come to is none: its lines were never run. `attempts` are those
    that were watched."""
    attempts = list(attempts)
    passed = _passed(attempts)
    once = [one for one in own_loops(query) if _once(one, passed.get(one.function, ()))]
    return tuple(f"{one.function}:{one.line}" for one in once if any(_leaves(one, attempt) for attempt in attempts))


def _leaves(loop: Loop, attempt: Attempt) -> bool:
    """Whether a round has left something that outlives a crash."""
    in_round, before = False, ""
    journalled = any(one.address.point is Point.FILE for one in attempt.passed)
    for one in attempt.passed:
        point = one.address.point
        line = CodeLine.of(one.address.key) if point is Point.LINE else None
        state = before if one.state is None else one.state.digest
        done = one.address.key.partition("/")[2]
        left = is_done_to_sink(done) if point is Point.FILE else point is Point.MESSAGE
        if in_round and (left or (not journalled and state != before)):
            return True
        before = state
        if line is not None and line.function == loop.function:
            in_round = line.line in loop.within
    return False


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
