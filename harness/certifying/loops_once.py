"""Which loops of the user's functions went round once only, wherever they were watched, of those that leave something
durable in a round: nobody has died between two rounds of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ..contracts.query import Query
from ..core.addresses import CodeLine, Point
from ..crash_points.files.naming import is_done_to_sink
from ..crash_points.inside_python.own_loops import Loop, own_loops
from ..crash_points.inside_python.watching import TIMES
from .attempts import Attempt

_Step = tuple[str, CodeLine | None, bool]


def loops_that_went_round_once(query: Query, attempts: Iterable[Attempt]) -> tuple[str, ...]:
    """`sinks.write:31`, of each loop. One that was not come to is none: its lines were never run; and of calls of which
    lines are not told any more it is not known. `attempts` are those that were watched."""
    courses = [[*_with_what_is_left(attempt)] for attempt in attempts]
    found = []
    for loop in own_loops(query):
        rounds = [_rounds(loop, course) for course in courses]
        if any(leaves for leaves, _ in rounds) and not any(again for _, again in rounds):
            found.append(f"{loop.function}:{loop.line}")
    return tuple(found)


def _with_what_is_left(attempt: Attempt) -> Iterator[_Step]:
    """Of each point that was passed, the line that it is, and whether something that outlives a crash has been left
    since the one before it."""
    before = ""
    journalled = any(one.address.point is Point.FILE for one in attempt.passed)
    for one in attempt.passed:
        point = one.address.point
        state = before if one.state is None else one.state.digest
        done = one.address.key.partition("/")[2]
        left = is_done_to_sink(done) if point is Point.FILE else point is Point.MESSAGE
        line = CodeLine.of(one.address.key) if point is Point.LINE else None
        yield one.address.actor, line, left or (not journalled and state != before)
        before = state


def _rounds(loop: Loop, course: Iterable[_Step]) -> tuple[bool, bool]:
    """Whether a round has left something, and whether there was another one after that, which was passed as a whole or
    has left something, too. What is done once the function has returned is none of it."""
    batches: dict[tuple[str, str], _Visit] = {}
    in_round: _Visit | None = None
    leaves = again = False
    for actor, line, left in course:
        if in_round is not None and left:
            leaves = True
            again |= in_round.is_second
        if line is None:
            continue
        if line.function == loop.function:
            visit = batches.setdefault((actor, line.batch), _Visit(loop))
            if not line.called:
                visit.come_to(line)
                again |= visit.is_over_twice
            goes_on = line.line in loop.within and not loop.course.may_be_over(line.line)
            in_round = visit if goes_on else None
        elif line.function in loop.callers:
            in_round = None
    return leaves, again


class _Visit:
    """How often a loop has gone round since it was come to, in one batch and one process. More often than `TIMES`
    nobody is told of a line."""

    def __init__(self, loop: Loop) -> None:
        self.is_second = self.is_over_twice = False
        self._loop = loop
        self._own = loop.within | loop.asks
        self._times = Counter[int]()
        self._untold: set[int] = set()
        self._before: int | None = None

    def come_to(self, one: CodeLine) -> None:
        """To a line of its function."""
        loop, before, line = self._loop, self._before, one.line
        if before is None or line not in self._own or loop.course.may_have_left(before, line, self._own, self._untold):
            self._times.clear()
            self.is_second = self.is_over_twice = False
        self._times[line] += 1
        most = loop.rounds.get(line)
        # Who asks whether there is more to do, in the midst of a round, has begun another one, and not more.
        self.is_over_twice |= self.is_second and line in loop.asks
        if most is not None:
            self.is_second |= self._times[line] > most
            self.is_over_twice |= self._times[line] > 2 * most
        self._before = line
        if one.time >= TIMES:
            self._untold.add(line)
