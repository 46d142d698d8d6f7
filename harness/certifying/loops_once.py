"""Which loops of the user's functions went round once only, wherever they were watched, of those that leave something
durable in a round: nobody has died between two rounds of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..contracts.query import Query
from ..core.addresses import CodeLine, Point
from ..crash_points.files.naming import is_done_to_sink
from ..crash_points.inside_python.own_loops import Loop, own_loops
from ..crash_points.inside_python.watching import TIMES
from .attempts import Attempt


def loops_that_went_round_once(query: Query, attempts: Iterable[Attempt]) -> tuple[str, ...]:
    """`sinks.write:31`, of each loop. One that was not come to is none: its lines were never run; and of calls of which
    lines are not told any more it is not known. `attempts` are those that were watched."""
    attempts = list(attempts)
    passed = _passed(attempts)
    once = [one for one in own_loops(query) if _once(one, passed.get(one.function, ()))]
    return tuple(f"{one.function}:{one.line}" for one in once if any(_leaves(one, attempt) for attempt in attempts))


def _leaves(loop: Loop, attempt: Attempt) -> bool:
    """Whether a round has left something that outlives a crash. What is done once the function has returned is none of
    it."""
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
            in_round = line.line in loop.within and not loop.course.may_be_over(line.line)
        elif line is not None and line.function in loop.callers:
            in_round = False
    return False


def _passed(attempts: Iterable[Attempt]) -> Mapping[str, Sequence[Sequence[CodeLine]]]:
    """By function, the lines of each batch of each attempt, in the driver and in tasks, in the order in which they were
    passed."""
    found: dict[str, dict[tuple[int, str, str], list[CodeLine]]] = {}
    for number, attempt in enumerate(attempts):
        for one in attempt.passed:
            line = CodeLine.of(one.address.key) if one.address.point is Point.LINE else None
            if line is not None and not line.called:
                batch = number, one.address.actor, line.batch
                found.setdefault(line.function, {}).setdefault(batch, []).append(line)
    return {function: [*batches.values()] for function, batches in found.items()}


def _once(loop: Loop, batches: Sequence[Sequence[CodeLine]]) -> bool:
    return any(line.line in loop.rounds for lines in batches for line in lines) and not any(
        _goes_round_again(loop, lines) for lines in batches
    )


def _goes_round_again(loop: Loop, lines: Sequence[CodeLine]) -> bool:
    """Whether these lines, which follow each other, say so. More often than `TIMES` nobody is told of one."""
    own = loop.within | loop.asks
    times = Counter[int]()
    untold: set[int] = set()
    before: int | None = None
    for one in lines:
        if before is None or one.line not in own or loop.course.may_have_left(before, one.line, own, untold):
            times.clear()
        times[one.line] += 1
        if one.line in loop.rounds and times[one.line] > loop.rounds[one.line]:
            return True
        before = one.line
        if one.time >= TIMES:
            untold.add(before)
    return False
