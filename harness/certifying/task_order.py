"""The other order of a stage's tasks: what a batch leaves when they come in it, and where that is to be cut.

With one task slot, a stage's tasks come one after the other, that of the first partition first, and no crash state has
what a later one has done without what an earlier one has. On a cluster any may come first. So where a stage has several
tasks, and these leave something in the sink by the query's own code, it runs once more without failures, with the last
task of each stage first, and a crash is planned wherever that leaves what the first order does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ..core.addresses import TASK, Point, Side
from ..crash_points.files.naming import is_done_to_sink, is_in_sink, without_randoms
from .attempts import Attempt, Passed
from .crash_states import CrashState, StateEntry
from .file_points import deed_of
from .planning import points_of_the_driver
from .profile import Profile, batch_of
from .varying_names import VaryingNames


@dataclass(frozen=True)
class OrderedStage:
    """One of a batch, by what its tasks passed."""

    name: str
    """Batch and stage: `3/12`."""
    partitions: tuple[int, ...]
    """In the order in which their tasks have ended."""
    own: frozenset[int]
    """Those whose tasks have passed lines of the query's own code."""
    begin: int
    """Where in the attempt its tasks have begun to pass points."""
    end: int
    """Where the last of them was over."""

    @property
    def batch(self) -> int:
        return int(self.name.partition("/")[0])

    @property
    def is_last_first(self) -> bool:
        return len(self.partitions) > 1 and all(one > next_one for one, next_one in pairwise(self.partitions))


def stages_with_own_code(attempt: Attempt) -> list[OrderedStage]:
    """With one task slot, what a task passes is of the task that ends next."""
    ended: dict[str, list[int]] = {}
    own: dict[str, set[int]] = {}
    spans: dict[str, tuple[int, int]] = {}
    passed_lines = False
    since: int | None = None
    for place, one in enumerate(attempt.passed):
        address = one.address
        if address.actor != TASK:
            continue
        since = place if since is None else since
        if address.point is Point.LINE:
            passed_lines = True
        if address.point is not Point.TASK_END:
            continue
        stage, _, number = address.key.rpartition("/")
        partition = int(number)
        if partition not in ended.setdefault(stage, []):
            ended[stage].append(partition)
        if passed_lines:
            own.setdefault(stage, set()).add(partition)
        spans[stage] = spans.get(stage, (since, place))[0], place
        if address.side is Side.AFTER:
            passed_lines, since = False, None
    return [OrderedStage(name, tuple(ended[name]), frozenset(those), *spans[name]) for name, those in own.items()]


def has_order(attempt: Attempt) -> bool:
    """Whether a stage has several tasks in which the query's own code leaves something in the sink; where operations
    on files are no crash points, it may."""
    several = [stage for stage in stages_with_own_code(attempt) if len(stage.partitions) > 1]
    if not _sees_files(attempt):
        return bool(several)
    return any(
        one.address.actor == TASK and one.address.point is Point.FILE and is_done_to_sink(deed_of(one.address.key))
        for stage in several
        for one in attempt.passed[stage.begin : stage.end]
    )


def _sees_files(attempt: Attempt) -> bool:
    """Whether operations on files are crash points of it."""
    return any(one.address.point is Point.FILE for one in attempt.passed)


def come_last_first(attempt: Attempt) -> list[bool]:
    """Of each stage in which the query's own code has several tasks, whether they have come in the other order: Spark
    takes one that is to run near its data before one that is not."""
    return [stage.is_last_first for stage in stages_with_own_code(attempt) if len(stage.partitions) > 1]


@dataclass(frozen=True)
class AttemptAt:
    """An attempt, and who knows what was in its folders."""

    attempt: Attempt
    since: Callable[[CrashState, Sequence[CrashState]], Sequence[CrashState]]
    """What has become of each file since it had left a state, as its store knows it."""

    def since_their_batch_began(self, points: Iterable[Passed]) -> dict[int, CrashState]:
        """Of points in order, by the `id` of each that has a state: that, with what has become of each file since
        their batch began in the place of its content. What an order has made of a file in an earlier batch is no
        doing of this one."""
        begun: dict[int, CrashState] = {}
        for one in self.attempt.passed:
            if one.state is not None:
                begun.setdefault(batch_of(one.address), one.state)
        by_batch: dict[int, list[tuple[Passed, CrashState]]] = {}
        for one in points:
            if one.state is not None:
                by_batch.setdefault(batch_of(one.address), []).append((one, one.state))
        found: dict[int, CrashState] = {}
        for batch, those in by_batch.items():
            since = self.since(begun[batch], [state for _, state in those])
            found.update((id(one), state) for (one, _), state in zip(those, since, strict=True))
        return found


def points_of_other_order(
    profile: Profile,
    other: AttemptAt,
    first: AttemptAt,
    planned: Iterable[Passed],
    twin: AttemptAt,
    names: VaryingNames,
) -> list[Passed]:
    """Where the driver is to die in the attempt whose tasks came in the other order, of which this is the profile:
    while they come, wherever they leave what no planned point of the first attempt has; and from then to the end of
    their batch, where what they have left has come out otherwise, but for content that is another each time, as the
    first attempt's twin shows. What counts is what has become of each file in that batch."""
    look = _Looking(names)
    known = {look.seen(state, first.attempt.home) for state in first.since_their_batch_began(planned).values()}
    chance = look.by_chance(first, twin)
    settled = {_without(seen, chance) for seen in known}
    places = {id(one): place for place, one in enumerate(other.attempt.passed)}
    stages = [stage for stage in stages_with_own_code(other.attempt) if stage.is_last_first]
    ends: dict[int, int] = {}
    for stage in stages:
        ends[stage.batch] = min(stage.end, ends.get(stage.batch, stage.end))
    found = []
    sees_files = _sees_files(other.attempt)
    points = points_of_the_driver(profile, every_batch=True)
    since = other.since_their_batch_began(points)
    for one in points:
        if one.address.point is Point.TASK_END and sees_files:
            # Nothing is left by it. And of stages the numbers are others each time.
            continue
        place = places[id(one)]
        within = any(stage.begin <= place <= stage.end for stage in stages)
        after = ends.get(batch_of(one.address), place) < place
        if one.state is None:
            found += [one] if within else []
            continue
        seen = look.seen(since[id(one)], other.attempt.home)
        if (within and seen not in known) or (after and _without(seen, chance) not in settled):
            found.append(one)
    return found


_Seen = frozenset[tuple[tuple[str, object], int]]
"""Of each path, how it is called and what it has, and how many there are."""


class _Looking:
    """What a crash state has, as far as it is the same wherever its folders are, and whenever it came about."""

    def __init__(self, names: VaryingNames) -> None:
        self._names = names
        self._known: dict[tuple[str, Path], _Seen] = {}
        self._called: dict[tuple[str, Path], str] = {}

    def seen(self, state: CrashState, home: Path) -> _Seen:
        """Of the sink all but its times, of the checkpoint its names: what is in there is Spark's own."""
        if (state.digest, home) not in self._known:
            entries = Counter(self._entry(one, home) for one in state.files)
            self._known[state.digest, home] = frozenset(entries.items())
        return self._known[state.digest, home]

    def by_chance(self, first: AttemptAt, twin: AttemptAt) -> Set[str]:
        """The paths in the sink whose content was another at the same point of two attempts that did the same."""
        there = {(one.address, one.again): one.state for one in twin.attempt.passed}
        found: set[str] = set()
        for one in first.attempt.passed:
            state = there.get((one.address, one.again))
            if one.state is not None and state is not None:
                differing = self.seen(one.state, first.attempt.home) ^ self.seen(state, twin.attempt.home)
                found.update(path for (path, _), _ in differing)
        return found

    def _entry(self, one: StateEntry, home: Path) -> tuple[str, object]:
        path = self._call(one.path, home)
        if not is_in_sink(path):
            return path, None
        return path, (one.content, one.link, one.mode, one.attributes, one.owner, one.names)

    def _call(self, path: str, home: Path) -> str:
        if (path, home) not in self._called:
            within = without_randoms(path.removeprefix(f"{home}/"))
            self._called[path, home] = self._names.plain(f"at {within}").removeprefix("at ")
        return self._called[path, home]


def _without(seen: _Seen, chance: Set[str]) -> _Seen:
    """With the names alone of what comes out by chance."""
    return frozenset(((path, None if path in chance else what), times) for (path, what), times in seen)
