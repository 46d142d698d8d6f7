"""What can be read in the plan by which Spark has run a batch, or means to run a query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PYTHON = ("python", "pandas", "arrow", "pyspark")
"""In the name of a step that Python workers run, in small letters."""
_WRITERS = (".foreachwrite", ".v2.python.")
_SCANS = ("microbatchscan", "batchscan")
_EXCHANGE = "exchange"
"""What stands below it is in an earlier stage."""
_MADE_BEFORE = "reused"
_TITLE = "=="
_AGGREGATE = "aggregate"
_ROW_BY_ROW = frozenset(
    (
        "project",
        "subqueryalias",
        "view",
        "sort",
        "repartition",
        "repartitionbyexpression",
        "rebalancepartitions",
        "resolvedhint",
        "collectmetrics",
    )
)
"""Steps that give one row for each that they take."""


@dataclass(frozen=True)
class PythonSteps:
    """Where Python workers are at work in a batch."""

    anywhere: bool
    """Whether they run code of the user's."""
    at_end: bool
    """Whether they do in its last stage, which writes its state and its output."""
    at_first: bool
    """Whether they run anything, be it the harness's source, in each stage that reads, whose tasks end first."""


@dataclass
class _Stage:
    users: bool = False
    """Whether Python workers run code of the user's in it."""
    python: bool = False
    """Whether they run anything."""
    reads: bool = False


def python_steps(plan: str, own_source: bool) -> PythonSteps:
    """Unless the source is the user's `own_source`, what reads it is not theirs."""
    steps = list(_steps(plan))
    last = _Stage()
    stages = [last]
    within = [(-1, last)]
    for place, (depth, step) in enumerate(steps):
        while depth <= within[-1][0]:
            within.pop()
        stage = within[-1][1]
        stage.users |= _runs_python(step, own_source)
        stage.python |= _runs_python(step, own_source=True)
        is_leaf = place + 1 == len(steps) or steps[place + 1][0] <= depth
        stage.reads |= is_leaf and not step.startswith(_MADE_BEFORE)
        if step.startswith(_EXCHANGE):
            stages.append(_Stage())
            within.append((depth, stages[-1]))
    return PythonSteps(
        any(stage.users for stage in stages), last.users, all(stage.python for stage in stages if stage.reads)
    )


def is_shuffled(plan: str) -> bool:
    """Whether rows come by a shuffle, which promises no order."""
    return any(step.startswith(_EXCHANGE) for _, step in _steps(plan))


def changes_what_is_counted(plan: str) -> bool:
    """Whether a step above an aggregate may give more or fewer rows than that: a filter, a step in Python, a join, rows
    that are made of one. `plan` is a logical one."""
    above: list[tuple[int, str]] = []
    for depth, step in _steps(plan):
        while above and depth <= above[-1][0]:
            above.pop()
        name = _name(step)
        if name == _AGGREGATE and any(other not in _ROW_BY_ROW for _, other in above):
            return True
        above.append((depth, name))
    return False


def _steps(plan: str) -> Iterator[tuple[int, str]]:
    """Each with how deep it stands below the others, which is how much it is moved in."""
    for line in plan.lower().splitlines():
        step = line.lstrip(" +-:")
        if step and not step.startswith(_TITLE):
            yield len(line) - len(step), step.lstrip("~!*()0123456789 ")


def _name(step: str) -> str:
    return re.split(r"\W", step, maxsplit=1)[0]


def _runs_python(step: str, own_source: bool) -> bool:
    name = _name(step)
    if name in _SCANS:
        return own_source and ("(python)" in step or ".v2.python." in step)
    return any(sign in name for sign in _PYTHON) or any(writer in step for writer in _WRITERS)
