"""Where a Python worker dies within a call of a task: between two operations on the sink's files that no line parts.

A task that Spark tries again in the same batch finds half done what the call did, and no driver has put it right: that
shows what neither a death at a line does nor one of the driver.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..core.addresses import TASK, Point
from ..crash_points.files.naming import is_in_sink
from ..crash_points.files.operations import OperationKind, database_beside
from .attempts import Passed
from .conclusion import Planned
from .crash_states import CrashState, StateEntry
from .file_points import counted_alike
from .plan import Crash, Victim
from .planning import OF_NODES, crash_at, is_own, steady_batch
from .profile import Profile
from .varying_names import VARIES
from .waiting import SEALING

MOST_WITHIN_CALLS: Final = 12
"""So many are tried at most: two runs on a cluster, mostly."""
_FIRST: Final = 2
"""Of operations of one kind within one call, how many are tried from the first on. The last is, too."""
_SYNCS: Final = frozenset[str]({OperationKind.SYNC, OperationKind.SYNC_FOLDER})
_NUMBER: Final = re.compile(r"\d+")

_Kind = tuple[str, str]
"""Of an operation: where in the user's code it came about, and its name without numbers."""
_Left = frozenset[tuple[str, object]]


@dataclass(frozen=True)
class _Step:
    """An operation after which its task leaves more before it comes to a point at which a node dies."""

    crash: Crash
    kind: _Kind
    of_python: bool
    """Whether it is a Python worker's, and not the JVM's."""
    comes_again: bool
    """Whether a task on a cluster comes to it by the same name: there, each is counted by itself, so that it has to be
    of the first task that does such a thing to this file; and nobody knows there how a name varies."""


def of_calls(profile: Profile, victims: Collection[Victim], batches: Sequence[int]) -> list[Planned]:
    """Once for each kind of operation of a steady batch, and for those that only others have: after the first two of
    its kind within one call, and the last. They are spread over these batches, so that many fit into one run; and what
    makes the rest count comes first."""
    if Victim.PYTHON not in victims:
        return []
    chosen = sorted(_by_kind(profile), key=_worth)[:MOST_WITHIN_CALLS]
    there = list(batches) or [steady_batch(profile)]
    return [Planned(_in_batch(crashes, there[place % len(there)])) for place, crashes in enumerate(chosen)]


def leaves_calls_whole(profile: Profile, planned: Sequence[Planned]) -> bool:
    """Whether a task does several things to the sink's files between two points at which a node dies, and not all
    deaths are planned that `of_calls` is to plan, or it can plan none."""
    tried = {_kind_of(one.crash) for one in planned}
    each = any(step.kind not in tried or not step.of_python for call in _steps(profile) for step in call)
    return each or len(planned) < len(_by_kind(profile))


def _by_kind(profile: Profile) -> list[dict[int, Crash]]:
    """The crashes of each kind and place in a call, by batch; that of the steady one comes first."""
    steady = steady_batch(profile)
    found: dict[tuple[_Kind, int], dict[int, Crash]] = {}
    for call in sorted(_steps(profile), key=lambda call: call[0].crash.batch != steady):
        for kind, number, crash in _chosen(call):
            found.setdefault((kind, number), {}).setdefault(crash.batch, crash)
    return list(found.values())


def _worth(crashes: Mapping[int, Crash]) -> bool:
    return next(iter(crashes.values())).operation[0] not in SEALING


def _in_batch(crashes: Mapping[int, Crash], batch: int) -> Crash:
    return crashes.get(batch) or next(iter(crashes.values()))


def _chosen(call: Sequence[_Step]) -> Iterator[tuple[_Kind, int, Crash]]:
    """Of one call, which of its kind each is; 0: the last of more than `_FIRST`."""
    here = [step for step in call if step.of_python and step.comes_again]
    times = Counter(step.kind for step in here)
    seen: Counter[_Kind] = Counter()
    for step in here:
        seen[step.kind] += 1
        number = seen[step.kind]
        if number <= _FIRST:
            yield step.kind, number, step.crash
        elif number == times[step.kind]:
            yield step.kind, 0, step.crash


def _steps(profile: Profile) -> Iterator[list[_Step]]:
    """By call: more exactly, by what lies between two points at which a node dies."""
    looks = _Looks(profile.home)
    alike = counted_alike(profile.passed)
    call: list[_Step] = []
    for one in profile.passed:
        address, by_task = one.address, one.address.actor == TASK
        if address.point is Point.FILE:
            crash = crash_at(profile, one, Victim.PYTHON)
            # A process that dies takes back nothing that it has not synced.
            if is_own(crash) and crash.operation[0] not in _SYNCS and looks.new(one) and by_task:
                comes_again = (address, one.again) in alike and VARIES not in crash.effect
                call.append(_Step(crash, _kind_of(crash), one.by_worker, comes_again))
        elif by_task and address.point in OF_NODES:
            # After the last of them, the worker dies at this point.
            if call[:-1]:
                yield call[:-1]
            call = []


def _kind_of(crash: Crash) -> _Kind:
    # What comes after the call may be another line each time.
    return crash.in_code.partition(", before line ")[0], _NUMBER.sub("N", crash.effect)


class _Looks:
    """What the sink's files look like to who tries a task again, from one operation to the next."""

    def __init__(self, home: Path) -> None:
        """`home`: what sink and checkpoint lay in."""
        self._home = home
        self._before: _Left | None = None
        self._back_to: dict[str, object] = {}
        """What a database held before the transaction that is taken back to it, by that."""

    def new(self, one: Passed) -> bool:
        """Whether they do so otherwise than after the operation before; where nobody knows, they do."""
        if one.state is None:
            self._before = None
            return True
        before, self._before = self._before, self._of(one.state)
        return before != self._before

    def _of(self, state: CrashState) -> _Left:
        """When they were changed is left out. What is beside a database, SQLite alone reads."""
        sink = [entry for entry in state.files if is_in_sink(entry.path, self._home)]
        paths = {entry.path for entry in sink}
        return frozenset((entry.path, self._held(entry)) for entry in sink if database_beside(entry.path) not in paths)

    def _held(self, entry: StateEntry) -> object:
        as_it_is = entry.content, entry.link, entry.attributes, entry.mode, entry.owner
        how, _, back = entry.rolled_back.partition(": ")
        if not back:
            return as_it_is
        # The log of a transaction that is committed is beside a database that has not been written to.
        return back if how == "carried over" else self._back_to.setdefault(back, as_it_is)
