"""Which planned crashes are so like others that these stand for them, where no time is left to try each.

- Batches are alike that are of the same kinds, and pass the same points in the same order, by the names of what is
  done there, whatever numbers are in them (of names that differ by these alone, by which of them comes first), by where
  in the user's code it is done, and by how a file is used: whether it is appended to, emptied, written from its
  beginning on, or must not be there yet. How often one file is written to in a row, and whether one of these writes is
  cut in two, is no matter: what a batch gives its sink has no fixed size. A crash of the driver in one of them is like
  that at the same place in another, in a row of writes after as many of them, and within one like within another. It
  need not be tried itself where two like it have passed; or, where no more batches are alike than two, that in the
  other one. One that strikes where tasks come in the other order is like such ones alone, in batches that are alike in
  the first order, too. What one batch alone passes, such as the last write of the longest row, nothing stands for.
- A split brain is like one at an earlier point of the same step: the driver that wakes up there comes to this point
  too, beside its successor, and goes on from it. It need not be tried itself where such a one has passed.

Nothing stands for a crash of anything else, during a recovery, or with a loss of power.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..core.addresses import FINE_POINTS, Point, Side
from ..crash_points.files.operations import HALF_WRITE, OperationKind
from .names_in_batches import by_rank
from .plan import Crash, Victim

if TYPE_CHECKING:
    from .conclusion import Planned

RULE: Final = (
    "a crash of the driver that was not tried costs no verdict where at least two like it have passed (or the only "
    "one), in other batches of the same kinds that pass the same points in the same order and at the same places in "
    "the query's own code, and use files in the same ways (in rows of writes to one file, of any length, after as many "
    "of them); nor does a split brain where one at an earlier point has passed, since the driver that wakes up there "
    "comes to this point too"
)
ENOUGH: Final = 2
"""So many stand for another one."""
SPLIT_ORDER: Final = (
    (Point.ADD_BATCH, Side.BEFORE),
    (Point.ADD_BATCH, Side.AFTER),
    (Point.COMMIT_LOG, Side.BEFORE),
)
"""Where a driver is paused, in the order in which a batch comes to it."""
_Place = tuple[object, ...]
_WRITES = frozenset[str]({OperationKind.WRITE, HALF_WRITE})
_IN_NO_ROW = (0, False)
"""How the place of what is no write ends, and that of the first of a row."""


class Alike:
    """Of a plan, which lines are like which."""

    def __init__(self, plan: Sequence[Planned]) -> None:
        by_batch: dict[tuple[bool, int], list[Planned]] = {}
        for line in plan:
            if _of_driver(line):
                by_batch.setdefault((line.crash.last_first, line.crash.batch), []).append(line)
        self._batches: dict[object, list[dict[_Place, Planned]]] = {}
        """Batches that are alike, each with its lines by their places, in order."""
        self._of: dict[Planned, tuple[object, _Place]] = {}
        courses: dict[int, object] = {}
        for (last_first, batch), lines in sorted(by_batch.items()):
            placed = _placed(lines)
            # Lines of code are planned where their kind of batch comes first, and say nothing of the others.
            course = tuple(_in_rows(place for place, line in placed.items() if line.crash.point is not Point.LINE))
            sort = lines[0].crash.kinds, course, last_first, courses.setdefault(batch, course)
            self._batches.setdefault(sort, []).append(placed)
            self._of.update((line, (sort, place)) for place, line in placed.items())
        self._splits = [line for line in plan if line.split_brain]

    def like(self, line: Planned) -> list[Planned]:
        """The others that can stand for it, the first in the plan first."""
        if line.split_brain:
            order = _split_order(line)
            return [one for one in self._splits if one != line and _split_order(one) < order]
        if line not in self._of:
            return []
        sort, place = self._of[line]
        return [one for placed in self._batches[sort] if (one := placed.get(place)) is not None and one != line]

    def is_spared(self, line: Planned, has_passed: Callable[[Planned], bool]) -> bool:
        """Whether others stand for it."""
        others = self.like(line)
        if line.split_brain:
            return any(map(has_passed, others))
        if not others:
            return False
        # Where others pass fewer points of a row, it takes no fewer to stand for it.
        batches = len(self._batches[self._of[line][0]])
        return sum(map(has_passed, others)) >= min(ENOUGH, batches - 1)

    def comes_later(self, line: Planned) -> bool:
        """Whether so many like it come before it in the plan that those stand for it."""
        if line.split_brain or line not in self._of:
            return False
        before = [one for one in self.like(line) if one.crash.batch < line.crash.batch]
        return len(before) >= ENOUGH


def _of_driver(line: Planned) -> bool:
    crash = line.crash
    return crash.victim is Victim.DRIVER and not (line.split_brain or crash.recovering or crash.lost)


def _placed(lines: Sequence[Planned]) -> dict[_Place, Planned]:
    """Each by what is done there, where in the user's code and in which way, of a row of writes where and how that
    begins, and how often the batch has done that before: of writes, in how many rows, and in this one; and whether it
    is a half of the next one."""
    names = by_rank(_named(line.crash) for line in lines)
    times: Counter[_Place] = Counter()
    placed: dict[_Place, Planned] = {}
    written = code = way = ""
    in_row = 0
    for line in lines:
        if not _is_write(line.crash):
            what = *_what(line.crash, names), line.crash.in_code, _way(line.crash)
            placed[*what, times[what], *_IN_NO_ROW] = line
            times[what] += 1
            # Lines of code are planned in some batches alone.
            written = written if line.crash.point is Point.LINE else ""
            continue
        kind, file = line.crash.operation
        if file != written:
            written, in_row, code, way = file, 0, line.crash.in_code, _way(line.crash)
        what, is_half = (*_what(line.crash, names), code, way), kind == HALF_WRITE
        times[what] += is_half or in_row == 0
        placed[*what, times[what] - 1, in_row, is_half] = line
        in_row += not is_half
    return placed


def _in_rows(places: Iterable[_Place]) -> Iterator[_Place]:
    """The course of a batch, in which a row of writes is one step."""
    return (place for place in places if place[-2:] == _IN_NO_ROW)


def _is_write(crash: Crash) -> bool:
    return crash.operation[0] in _WRITES


def _way(crash: Crash) -> str:
    return crash.text if crash.point is Point.FILE else ""


def _named(crash: Crash) -> str:
    """What is done there, without which time it is that its batch does that."""
    name = crash.key.partition("/")[2]
    return name.rpartition("#")[0] if crash.point in FINE_POINTS and "#" in name else name


def _what(crash: Crash, names: Mapping[str, str]) -> _Place:
    name = crash.place if crash.point is Point.LINE else names[_named(crash)]
    return crash.point, crash.side, crash.actor, crash.victim, name


def _split_order(line: Planned) -> int:
    at = line.crash.point, line.crash.side
    return SPLIT_ORDER.index(at) if at in SPLIT_ORDER else -1
