"""Plans a campaign from what a run without faults has shown: which crashes are to be tried.

A crash of the driver is planned at every point of every batch, where crash states can cover that: where not all effects
can be copied, at every point of one batch of each kind. What else can die (an executor, its Python worker, a whole
node) dies at every kind of point that tasks pass, in one batch, with the first task that comes there; an executor also
with the last. Then there are crashes during the recovery from a crash, and drivers that are only thought to be dead.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..core.addresses import COMMITS_OF_TASKS, DRIVER, TASK, Point, Side
from ..core.errors import InvalidScenario
from ..crash_points.files.naming import is_done_to_sink
from ..crash_points.inside_python.batches import UNKNOWN
from .attempts import Passed
from .conclusion import Planned
from .names_in_batches import by_rank
from .plan import Crash, Victim
from .profile import FIRST, LAST, NO_DATA, STEADY, Profile, batch_of
from .told_by_names import told_by_names
from .waiting import SEALING

USUAL_VICTIMS = (Victim.DRIVER, Victim.EXECUTOR, Victim.PYTHON, Victim.NODE, Victim.ANSWER, Victim.REQUEST)
"""Where nobody says which."""
_AT_AN_END = frozenset({FIRST, LAST, NO_DATA})
"""Kinds of batches that are unlike most by their place, or have no input."""
MOST_HALF_DONE = 3
"""Watched recoveries cost time that every query has to have."""
SPLIT_AT = frozenset({(Point.ADD_BATCH, Side.BEFORE), (Point.ADD_BATCH, Side.AFTER), (Point.COMMIT_LOG, Side.BEFORE)})
OF_NODES = frozenset(
    {
        *COMMITS_OF_TASKS,
        Point.TASK_END,
        Point.USER,
        Point.LINE,
        Point.MESSAGE,
    }
)
_NO_NODES = (Victim.DRIVER, Victim.ANSWER, Victim.REQUEST, Victim.DISK)
_ANYWHERE = frozenset({Point.USER, Point.LINE, Point.MESSAGE})
"""What is in the user's code can be."""


@dataclass(frozen=True)
class CrashPlan:
    """Which crashes are to be tried."""

    victims: tuple[Victim, ...] = USUAL_VICTIMS
    recovering: bool = True
    """Whether crashes during the recovery from a crash are."""
    split_brain: bool = True
    """Whether a driver is paused that another one replaces, and wakes up."""

    def __post_init__(self) -> None:
        if not self.victims or not all(isinstance(victim, Victim) for victim in self.victims):
            raise InvalidScenario(
                f"victims={self.victims!r}: name at least one of {', '.join(Victim)}, as in every_crash_point(...)"
            )


def every_crash_point(*victims: Victim | str, recovering: bool = True, split_brain: bool = True) -> CrashPlan:
    """Every point that the query passes; of these victims only, where some are named. An operation on a file is refused
    (`disk`) only where that is named. Raises InvalidScenario."""
    try:
        named = tuple(Victim(victim) for victim in victims)
    except ValueError as error:
        raise InvalidScenario(f"every_crash_point: {error}; there are: {', '.join(Victim)}") from None
    return CrashPlan(named or USUAL_VICTIMS, recovering, split_brain)


def of_the_driver(profile: Profile, every_batch: bool) -> list[Planned]:
    """One for each of `points_of_the_driver`."""
    return [Planned(crash_at(profile, one, Victim.DRIVER)) for one in points_of_the_driver(profile, every_batch)]


def points_of_the_driver(profile: Profile, every_batch: bool) -> list[Passed]:
    """Where the driver is to die: at each point of each batch, or of one batch of each kind. At lines of the user's
    code, in one batch of each kind, and the first time that it passes them; and wherever the driver has left something
    durable since the point before. Where it is killed for each of them, at the calls alone, since nothing else gets
    out, and at what a call does to the sink's files but for the last of it, which is cut by the point after; and once
    more in a batch that comes there with other effects done than those before it, since that may be the wrong order."""
    found: list[Passed] = []
    seen: set[tuple[Point, Side, str, str, frozenset[str]]] = set()
    names = {} if every_batch else _names_of_effects(profile)
    done: dict[int, _Done] = {}
    shown_by: dict[str, int] = {}
    before = ""
    in_call: Passed | None = None
    for one in profile.passed:
        crash = crash_at(profile, one, Victim.DRIVER)
        state = before if one.state is None else one.state.digest
        changed, before = state != before, state
        if crash.line is not None and not every_batch and not crash.line.called:
            continue
        of_batch = done.setdefault(crash.batch, _Done(names.get(crash.batch, {})))
        order = frozenset[str]() if every_batch else of_batch.before(crash)
        at = (crash.point, crash.side, crash.place) if crash.point is not Point.FILE else (Point.FILE, crash.side, "")
        new = [what for kind in crash.kinds if (what := (*at, kind, order)) not in seen]
        seen.update(new)
        if crash.point is Point.FILE and not every_batch:
            first = {kind for kind in crash.kinds if shown_by.setdefault(kind, crash.batch) == crash.batch}
            if (first or new) and is_own(crash):
                # Once more is done in the same call.
                found += [] if in_call is None else [in_call]
                # The rest of a write comes in the same call.
                found += [one] if crash.is_half_write else []
                in_call = None if crash.is_half_write else one
            continue
        always = every_batch and (crash.line is None or (changed and crash.actor == DRIVER))
        if new or always:
            found.append(one)
            in_call = None
    return found


@dataclass
class _Done:
    """What a batch has done by a point: effects on its sink's files, and messages."""

    names: Mapping[str, str]
    """What each effect is called in every batch."""
    files: set[str] = field(default_factory=set)
    messages: set[str] = field(default_factory=set)

    def before(self, crash: Crash) -> frozenset[str]:
        """What it has done by then, as far as it counts for the point: of a line, which comes before and after each
        message that it sends, no message does. From then on it has done this, too."""
        files = frozenset(self.files)
        if crash.point is Point.MESSAGE:
            found = files | self.messages
            self.messages.add(self.names[crash.effect])
            return found
        if crash.point is Point.FILE and is_own(crash):
            done = self.files | {self.names[crash.effect]}
            # A write that is cut in two is one effect to what comes after it.
            self.files = self.files if crash.is_half_write else done
            return frozenset(done)
        return files if crash.point is Point.LINE else frozenset()


def _names_of_effects(profile: Profile) -> Mapping[int, Mapping[str, str]]:
    """By batch, what its effects are called."""
    effects: dict[int, list[str]] = {batch: [] for batch in profile.kinds}
    for one in profile.passed:
        crash = crash_at(profile, one, Victim.DRIVER)
        if crash.point is Point.MESSAGE or (crash.point is Point.FILE and is_own(crash)):
            effects.setdefault(crash.batch, []).append(crash.effect)
    return {batch: by_rank(some) for batch, some in effects.items()}


def of_restarts(profile: Profile, of_driver: Iterable[Planned]) -> list[Planned]:
    """Those of the driver's crashes after which nothing is to be done again, in the first batch and in one that is like
    most: what is wrong after them is wrong after any restart. And that of the latter after which the whole batch is,
    where the sink has done all that it does and remembers nothing of it."""
    steady, last = steady_batch(profile), max(profile.kinds, default=0)
    wanted = {
        (steady, Point.ADD_BATCH, Side.AFTER),
        *((batch, Point.COMMIT_LOG, Side.AFTER) for batch in {0, steady} - {last}),
    }
    return [one for one in of_driver if (one.crash.batch, one.crash.point, one.crash.side) in wanted]


def of_nodes(profile: Profile, victims: Iterable[Victim], copyable: bool = True) -> list[Planned]:
    """At every kind of point that tasks pass, in one steady batch; Python workers where there are some. `copyable`:
    whether all that outlives a task is in the crash states."""
    wanted = [victim for victim in victims if victim not in _NO_NODES]
    batch = steady_batch(profile)
    seen: set[tuple[Point, Side, str]] = set()
    plan = []
    states = {""}
    first: dict[tuple[Point, Side, str], Passed] = {}
    for one in profile.passed:
        point, side = one.address.point, one.address.side
        crash = crash_at(profile, one, Victim.DRIVER)
        at = point, side, crash.place
        if batch_of(one.address) == batch and one.address.actor == TASK and point in OF_NODES and at not in seen:
            # How often one worker comes to a line hangs on which partitions it is given: all come to it once.
            first.setdefault(at, one)
            has_python = _has_python(profile, point)
            there = [victim for victim in wanted if victim is not Victim.PYTHON or has_python]
            if crash.line is not None:
                state = "" if one.state is None else one.state.digest
                # Between lines that leave nothing durable, it is the same crash.
                if not (state not in states if copyable else crash.line.called):
                    continue
                states.add(state)
                # What is around the worker comes to the same: the code is in it.
                there = [Victim.PYTHON] if Victim.PYTHON in wanted else wanted[:1]
            seen.add(at)
            plan += [Planned(crash_at(profile, first[at], victim)) for victim in there]
    return [*plan, *_with_the_last_task(profile, plan)]


def _with_the_last_task(profile: Profile, plan: Sequence[Planned]) -> list[Planned]:
    """For those of the plan by which an executor dies once a task has left something, the same of the last task that
    comes there: what Spark does again then is one task of its stage, where all others are done, and whatever that
    executor had made for it in the stages before."""
    last = {
        (point, batch_of(one.address)): one
        for one in profile.passed
        if (point := one.address.point) in COMMITS_OF_TASKS
        and one.address.side is Side.AFTER
        and one.address.actor == TASK
    }
    found = [
        Planned(crash_at(profile, last[one.crash.point, one.crash.batch], one.crash.victim))
        for one in plan
        if one.crash.victim is Victim.EXECUTOR and one.crash.side is Side.AFTER and one.crash.point in COMMITS_OF_TASKS
    ]
    return [one for one in found if one not in plan]


def _has_python(profile: Profile, point: Point) -> bool:
    """Whether Python workers are there to die where a task passes such a point."""
    if point is Point.TASK_END:
        return profile.python and profile.python_at_first
    return profile.python if point in _ANYWHERE else profile.python_at_end


def after_effects_of_tasks(of_nodes: Sequence[Planned]) -> list[Planned]:
    """Of crashes as `of_nodes` plans them where all can be copied, those at lines of a task's code before which it has
    left something durable: it is done again where a task is, and the driver's death may put it right."""
    return [one for one in of_nodes if one.crash.line is not None][1:]


def effects_of_tasks_first(of_nodes: Sequence[Planned]) -> list[Planned]:
    """The same crashes, the most worth trying first."""
    first = after_effects_of_tasks(of_nodes)
    return [*first, *(one for one in of_nodes if one not in first)]


def replays_first(of_driver: Sequence[Planned]) -> list[Planned]:
    """The same crashes, which are in the order of the run, the most worth a kill first: after one when all of a batch
    but its commit is done, the next driver does all of that again, and after one when it is committed, it begins with
    the next batch. Of what a call does to the sink's files, what makes the rest count comes before the lines, and the
    rest after them. What comes before the first batch is last: nothing is done again after that."""
    begins = next((place for place, one in enumerate(of_driver) if one.crash.point is Point.OFFSET_LOG), 0)

    def order(numbered: tuple[int, Planned]) -> int:
        place, one = numbered
        if place < begins:
            return 4
        if one.crash.point is Point.COMMIT_LOG:
            return 0
        if one.crash.point is Point.FILE:
            return 1 if one.crash.operation[0] in SEALING else 3
        return 2

    return [one for _, one in sorted(enumerate(of_driver), key=order)]


def of_answers(profile: Profile, victims: Iterable[Victim]) -> list[Planned]:
    """The answer to each message of a steady batch is lost, or the message itself, and who asked lives: of the one, who
    asks again may have it done twice, and of the other, who looks away has it not done at all. So is each of which the
    steady batch has none, in the first batch that has it."""
    lost = {Side.BEFORE: Victim.REQUEST, Side.AFTER: Victim.ANSWER}
    steady = steady_batch(profile)
    names = _names_of_effects(profile)
    sent = [
        (names[crash.batch][crash.effect], crash)
        for one in profile.passed
        if one.address.point is Point.MESSAGE
        for crash in [crash_at(profile, one, lost[one.address.side])]
    ]
    shown_in: dict[str, int] = {}
    for name, crash in sorted(sent, key=lambda named: named[1].batch != steady):
        shown_in.setdefault(name, crash.batch)
    return [Planned(crash) for name, crash in sent if crash.victim in victims and shown_in[name] == crash.batch]


def of_disks(profile: Profile, victims: Iterable[Victim]) -> list[Planned]:
    """Each operation on a file of a steady batch is refused, the first time that it is to be done, and who wanted it
    lives. Those of the sink come first: what is made of an error there is the query's own."""
    if Victim.DISK not in victims:
        return []
    batch = steady_batch(profile)
    found: dict[tuple[str, str], Planned] = {}
    for one in profile.passed:
        if batch_of(one.address) == batch and one.address.point is Point.FILE:
            crash = msgspec.structs.replace(crash_at(profile, one, Victim.DISK), side=Side.BEFORE)
            found.setdefault((crash.actor, crash.effect), Planned(crash))
    return sorted(found.values(), key=lambda one: not is_own(one.crash))


def of_split_brains(profile: Profile) -> list[Planned]:
    batch = steady_batch(profile)
    return [
        Planned(crash_at(profile, one, Victim.DRIVER), split_brain=True)
        for one in profile.passed
        if batch_of(one.address) == batch and (one.address.point, one.address.side) in SPLIT_AT
    ]


def worst_to_recover_from(profile: Profile) -> Passed | None:
    """The last point of a steady batch at which it has not been committed: all of it is to be done again."""
    batch = steady_batch(profile)
    before = [
        one
        for one in profile.passed
        if batch_of(one.address) == batch
        and one.address.actor == DRIVER
        and (one.address.point, one.address.side) == (Point.COMMIT_LOG, Side.BEFORE)
    ]
    return before[-1] if before else None


def almost_done(passed: Iterable[Passed], batch: int) -> Passed | None:
    """The last of these points in a batch at which the sink has not done the last of what it does: an effect is missing
    of which the others may say that it is there. None where that is not known."""
    within: list[Passed] = []
    begun = ended = False
    for one in passed:
        if batch_of(one.address) != batch or ended:
            continue
        at = one.address.point, one.address.side
        begun = begun or at == (Point.ADD_BATCH, Side.BEFORE)
        ended = at == (Point.ADD_BATCH, Side.AFTER)
        if begun and one.state is not None:
            within.append(one)
    if not ended or not within or within[-1].address.point is not Point.ADD_BATCH:
        return None
    end = within[-1].state
    assert end is not None
    found = (one for one in reversed(within) if one.state is not None and one.state.shown != end.shown)
    last = next(found, None)
    return None if last is None or last.address.point is Point.ADD_BATCH else last


def half_done(passed: Iterable[Passed], batch: int, home: Path) -> list[Passed]:
    """Of a batch whose sink, in that folder, holds other names after some of its effects, or something else in a SQLite
    database: the last of these points with each of that which is neither what it begins nor what it almost ends with,
    the last first. Those of other names come before those of which the databases alone differ, and of either there are
    at most so many as `MOST_HALF_DONE`. Who repairs what a crash has left goes by what is there,
    and where the last effect alone is missing, some of it is over."""
    within = list(passed)
    last = almost_done(within, batch)
    if last is None:
        return []
    of_batch = [one for one in within[: within.index(last) + 1] if batch_of(one.address) == batch]
    with_state = [(one, one.state) for one in of_batch if one.state is not None]
    points = [one for one, _ in with_state]
    told = told_by_names([state for _, state in with_state], home)
    of_names = _last_of_each(points, [frozenset(path for path, _ in one) for one in told], last)
    of_databases = [one for one in _last_of_each(points, told, last) if one not in of_names]
    return [*of_names[:MOST_HALF_DONE], *of_databases[:MOST_HALF_DONE]]


def _last_of_each(points: Sequence[Passed], told: Sequence[Hashable], last: Passed) -> list[Passed]:
    """The last of these points with each of what is told at them, the last first, but for what is told where the batch
    begins, and `last`."""
    found: dict[Hashable, Passed] = {}
    began: Hashable = None
    for one, says in zip(points, told, strict=True):
        if one.address.point is Point.ADD_BATCH:
            began = says
        found[says] = one
    return [one for says, one in reversed(found.items()) if says != began and one is not last]


def repairs(profile: Profile, recovery: Profile, batch: int) -> list[Passed]:
    """The points of a batch, in a recovery, and of what comes before it where the query is started, at which the
    query's own code does what it does in no batch without a failure: it may repair what a crash has left. `profile` is
    of an attempt without failures."""
    usual = {deed(crash_at(profile, one, Victim.DRIVER)) for one in profile.passed}
    found = []
    for one in points_of_the_driver(recovery, every_batch=True):
        crash = crash_at(recovery, one, Victim.DRIVER)
        at_its_start = crash.key.partition("/")[0] == UNKNOWN
        if (crash.batch == batch or at_its_start) and is_own(crash) and deed(crash) not in usual:
            found.append(one)
    return found


def is_own(crash: Crash) -> bool:
    """Whether it is the query's own code that comes there, or writes to its sink."""
    if crash.point is Point.FILE:
        return is_done_to_sink(crash.effect)
    return crash.point in (Point.LINE, Point.USER)


def deed(crash: Crash) -> tuple[Point, Side, str]:
    """Of a line, wherever it is executed; of a file operation, with the path, which may name the batch."""
    return crash.point, crash.side, crash.place


def crash_at(profile: Profile, passed: Passed, victim: Victim, recovering: bool = False) -> Crash:
    address = passed.address
    return Crash(
        address.point,
        address.side,
        address.key,
        address.actor,
        victim,
        batch_of(address),
        profile.kinds_of(passed),
        recovering,
        passed.text,
        profile.in_code.get((address, passed.again), ""),
    )


def in_other_order(crash: Crash) -> Crash:
    """The same, where the tasks of each stage come in the other order until then."""
    return msgspec.structs.replace(crash, last_first=True)


def steady_batch(profile: Profile) -> int:
    """A batch like most, or the next best: one that others come after, since who has nothing more to do does not read
    what a crash has left."""
    between = {batch: kinds for batch, kinds in sorted(profile.kinds.items()) if not _AT_AN_END & {*kinds}}
    if between:
        return next((batch for batch, kinds in between.items() if STEADY in kinds), next(iter(between)))
    for kind in (LAST, FIRST, NO_DATA):
        found = [batch for batch, kinds in sorted(profile.kinds.items()) if kind in kinds]
        if found:
            return found[0]
    return next(iter(sorted(profile.kinds)), 0)
