"""What a run of a query without faults shows of it: the crash points that it passes, and the kinds of its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from ..core.addresses import Address, Point, Side
from ..core.errors import StorageFailed
from ..recording.records import BatchDone
from .attempts import Attempt, Passed
from .user_code import PassedPlace, goes_into_the_jvm, places_in_code

FIRST, STEADY, LATE, EVICTION, COMPACTION = "first", "steady", "late-data", "eviction", "compaction"
AFTER_RESTART, LAST, NO_DATA = "after-restart", "last", "no-data"
POINTS: Final = "points.jsonl"
"""In a certificate's folder: the phases of each batch of a run without faults."""


@dataclass(frozen=True)
class Profile:
    passed: tuple[Passed, ...]
    """The crash points, in order, as far as a crash leaves anything to be done."""
    kinds: Mapping[int, tuple[str, ...]]
    """Of each batch."""
    python: bool
    """Whether Python workers run code of the user's."""
    python_at_end: bool
    """Whether they do in the stage that writes state and output."""
    python_at_first: bool = True
    """Whether any run in the stages that read, whose tasks end first."""
    into_the_jvm: bool = False
    """Whether the user's code calls what is in Spark's JVM itself, or has it keep something."""
    in_code: Mapping[PassedPlace, str] = field(default_factory=dict)
    """Where in the user's code what it did came about."""
    home: Path = Path()
    """What the attempt's sink and its checkpoint lay in."""

    def kinds_of(self, passed: Passed) -> tuple[str, ...]:
        return self.kinds.get(batch_of(passed.address), (STEADY,))


def profile_of(attempt: Attempt) -> Profile:
    """Of an attempt that was watched, and came to its end."""
    done = [stamped.record for stamped in attempt.records if isinstance(stamped.record, BatchDone)]
    return Profile(
        _with_something_to_do(attempt.passed),
        _kinds(done, attempt.passed),
        any(one.python for one in done),
        any(one.python_at_end for one in done),
        all(one.python_at_first for one in done),
        goes_into_the_jvm(attempt.passed) or bool(attempt.kept_in_the_jvm),
        places_in_code(attempt.passed),
        attempt.home,
    )


def write_points(path: Path, attempt: Attempt) -> None:
    """Leave which points an attempt passed, and when: a line of JSON each, `at` in microseconds. Raises
    StorageFailed."""
    texts = ({"text": one.text} if one.text else {} for one in attempt.passed)
    lines = [
        msgspec.json.encode({"at": one.at, "address": str(one.address), **text})
        for one, text in zip(attempt.passed, texts, strict=True)
    ]
    try:
        path.write_bytes(b"\n".join([*lines, b""]))
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror or error}") from error


def batch_of(address: Address) -> int:
    """The batch that a point belongs to."""
    number = address.key.partition("/")[0]
    return int(number) if number.isdigit() else 0


def _with_something_to_do(passed: Sequence[Passed]) -> tuple[Passed, ...]:
    committed = [
        place
        for place, one in enumerate(passed)
        if one.address.point is Point.COMMIT_LOG and one.address.side is Side.AFTER
    ]
    return tuple(passed[: committed[-1] + 1] if committed else passed)


def _kinds(done: Sequence[BatchDone], passed: Sequence[Passed]) -> dict[int, tuple[str, ...]]:
    compacted = {
        batch_of(one.address)
        for one in passed
        if one.address.point is Point.RENAME and one.address.key.endswith((".compact", ".snapshot", ".zip"))
    }
    with_data = [one.batch for one in done if one.rows]
    kinds: dict[int, tuple[str, ...]] = {}
    for one in done:
        special = {
            FIRST: one.batch == 0,
            LATE: one.late > 0,
            EVICTION: one.evicted > 0,
            COMPACTION: one.batch in compacted,
            LAST: with_data[-1:] == [one.batch],
            NO_DATA: one.rows == 0,
        }
        kinds[one.batch] = tuple(kind for kind, is_one in special.items() if is_one) or (STEADY,)
    return kinds
