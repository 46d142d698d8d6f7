"""What can be read in the plan by which Spark has run a batch."""

from __future__ import annotations

import re

_PYTHON = ("python", "pandas", "arrow", "pyspark")
"""In the name of a step that Python workers run, in small letters."""
_WRITERS = (".foreachwrite", ".v2.python.")
_SCANS = ("microbatchscan", "batchscan")
_EXCHANGE = "exchange"
"""What stands below it is in an earlier stage."""


def python_steps(plan: str, own_source: bool) -> tuple[bool, bool]:
    """Whether Python workers run code of the user's in a batch, and whether in its last stage, which writes its state
    and its output. Unless the source is the user's `own_source`, what reads it is not theirs."""
    anywhere = at_end = False
    earlier: int | None = None
    for line in plan.lower().splitlines():
        step = line.lstrip(" +-:")
        depth = len(line) - len(step)
        step = step.lstrip("!*()0123456789 ")
        if earlier is not None and depth <= earlier:
            earlier = None
        found = _runs_python(step, own_source)
        anywhere |= found
        at_end |= found and earlier is None
        if earlier is None and step.startswith(_EXCHANGE):
            earlier = depth
    return anywhere, at_end


def _runs_python(step: str, own_source: bool) -> bool:
    name = re.split(r"\W", step, maxsplit=1)[0]
    if name in _SCANS:
        return own_source and ("(python)" in step or ".v2.python." in step)
    return any(sign in name for sign in _PYTHON) or any(writer in step for writer in _WRITERS)
