"""What waits to be recovered from: crashes by the states that they leave, in the order in which they are worth trying.

Crashes between which nothing happened that outlives them wait as one. So do, once a recovery has shown what it looks
at, all that it could not have told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import accumulate
from random import Random

from ..core.addresses import FINE_POINTS, Address, Point
from ..crash_points.files.naming import is_done_to_sink
from ..recording.history import Lost
from ..recording.records import Delivered, EmptyBatch
from .attempts import Attempt, Passed
from .crash_states import CrashState, Looks
from .plan import Crash
from .profile import FIRST, STEADY, batch_of

Group = list["Waiting"]


class Waiting:
    """One crash that waits: where it is to strike, and what the profile's attempt passed there."""

    def __init__(self, crash: Crash, passed: Passed) -> None:
        self.crash = crash
        self.passed = passed

    @property
    def place(self) -> tuple[Address, int, Lost | None]:
        return _place_of(self.passed)


def _place_of(passed: Passed) -> tuple[Address, int, Lost | None]:
    """By which two attempts find the same crash."""
    return passed.address, passed.again, None if passed.state is None else passed.state.lost


class AttemptStates:
    """The states that a watched attempt has left, to be asked which of them are the same."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self._passed = {_place_of(one): one for one in attempt.passed if one.state is not None}
        given = (isinstance(stamped.record, Delivered | EmptyBatch) for stamped in attempt.records)
        self._delivered = [0, *accumulate(map(int, given))]

    def passed(self, waiting: Waiting) -> Passed | None:
        """The same point in this attempt; None where that has no such state."""
        return self._passed.get(waiting.place)

    def of_batch(self, batch: int) -> list[CrashState]:
        """All that is known of one batch."""
        return [one.state for one in self._passed.values() if one.state is not None and batch_of(one.address) == batch]

    def same(self, one: Passed, other: Passed) -> bool:
        """Whether nothing happened between two points that outlives a crash."""
        assert one.state is not None
        assert other.state is not None
        if self._delivered[one.records] != self._delivered[other.records]:
            return False
        return one.state.digest == other.state.digest

    def alike(self, one: Passed, other: Passed, looks: Looks) -> bool:
        """Whether who recovers, and looks at just that, comes to the same from both."""
        assert one.state is not None
        assert other.state is not None
        if self._delivered[one.records] != self._delivered[other.records]:
            return False
        return not looks.tell_apart(one.state, other.state)

    def groups(self, waiting: Iterable[Waiting]) -> list[Group]:
        found: dict[tuple[int, str], Group] = {}
        for one in waiting:
            here = self.passed(one)
            assert here is not None
            assert here.state is not None
            found.setdefault((self._delivered[here.records], here.state.digest), []).append(one)
        return list(found.values())


def by_worth(groups: Sequence[Group], seed: int) -> list[Group]:
    """What is most likely to show a violation first: what lies between two durable effects of the sink's, and lines of
    the user's, of a batch like most; then the first batch; then all others. What is written to a file that the batch
    takes away again, or gives another name, comes after what is written to one that stays. What is equal is in a random
    order, so that whatever time is left for is spread over all of it."""
    shuffled = list(groups)
    Random(seed).shuffle(shuffled)
    first: dict[str, int] = {}
    for one in sorted((one.crash for group in groups for one in group), key=lambda crash: crash.batch):
        for kind in one.kinds:
            first.setdefault(kind, one.batch)
    order = [first[kind] for kind in (STEADY, FIRST) if kind in first]
    gone = {(one.crash.batch, path) for group in groups for one in group if (path := _taken_away(one.crash))}

    def worth(group: Group) -> int:
        return min(_rank(one.crash, gone) + 3 * _place(one.crash.batch, order) for one in group)

    return sorted(shuffled, key=worth)


def _place(batch: int, order: Sequence[int]) -> int:
    return order.index(batch) if batch in order else len(order)


def _rank(crash: Crash, gone: Set[tuple[int, str]]) -> int:
    if crash.point is Point.FILE:
        kind, path = crash.operation
        if not is_done_to_sink(crash.effect):
            return 3
        if kind in SEALING:
            return 0
        return 3 if (crash.batch, path) in gone else 2
    return 0 if crash.point in FINE_POINTS else 1


def _taken_away(crash: Crash) -> str:
    """What is no longer there after it; empty where that is nothing."""
    kind, path = crash.operation
    return path.partition(" > ")[0] if kind in ("rename", "unlink") else ""


SEALING = frozenset({"rename", "exchange", "link", "unlink", "fsync", "symlink", "chmod", "chown"})
"""Operations by which most that write something make it count."""
