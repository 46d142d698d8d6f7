"""File operations as crash points: what several attempts call them, and who it is that acts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from ..core.addresses import TASK, Address, Point
from ..crash_points.files.naming import FilePoints
from .attempts import Passed
from .python_workers import works_for_task
from .varying_names import VaryingNames, varying_names

_TASK_THREAD = "Executor task l"
"""How Spark's threads for tasks are called, as far as the kernel keeps a name."""


def varying_in(one: Iterable[Passed], other: Iterable[Passed]) -> VaryingNames:
    """What two attempts that did the same have called differently."""
    first, second = ([_said(passed.address) for passed in some if _is_of_file(passed)] for some in (one, other))
    return varying_names(first, second)


def called_alike(passed: Iterable[Passed], names: VaryingNames) -> list[Passed]:
    """The points of an attempt, as they are called once it is known what varies."""
    points = FilePoints(names.plain)

    def called(one: Passed) -> Passed:
        if not _is_of_file(one):
            return one
        batch, said = _said(one.address)
        return replace(one, address=msgspec.structs.replace(one.address, key=f"{batch}/{points.name(batch, said)}"))

    return [called(one) for one in passed]


def _is_of_file(passed: Passed) -> bool:
    return passed.address.point is Point.FILE


def deed_of(key: str) -> str:
    """What was done at a point of a file, whatever time it was."""
    return key.partition("/")[2].rpartition("#")[0]


def counted_alike(passed: Iterable[Passed]) -> frozenset[tuple[Address, int]]:
    """Of the operations of an attempt's tasks on files, where one task follows the other, those that have the same
    number on a cluster, where each task is counted by itself: those of the first task that does such a thing to a file
    in its batch. By address, and how often the attempt had passed that before."""
    tasks: Counter[str] = Counter()
    first: dict[tuple[str, str], int] = {}
    found = set()
    for one in passed:
        address, batch = one.address, one.address.key.partition("/")[0]
        if address.actor != TASK:
            continue
        tasks[batch] += address.point is Point.TASK_END
        if _is_of_file(one) and first.setdefault(_said(address), tasks[batch]) == tasks[batch]:
            found.add((address, one.again))
    return frozenset(found)


def _said(address: Address) -> tuple[str, str]:
    """With its batch."""
    return address.key.partition("/")[0], deed_of(address.key)


def acts_for_task(thread: int) -> bool:
    """Whether a thread of this machine runs a task of Spark's, or is in a Python worker that does."""
    try:
        if Path(f"/proc/{thread}/comm").read_text().startswith(_TASK_THREAD):
            return True
    except (FileNotFoundError, ProcessLookupError):
        return False
    return works_for_task(thread)
