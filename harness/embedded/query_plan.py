"""What can be read in the plan by which Spark has run a batch."""

from __future__ import annotations

import re

_PYTHON = ("python", "pandas", "arrow", "pyspark")
"""In the name of a step that Python workers run, in small letters."""
_FOR_EACH_ROW = ".foreachwrite"
_SCAN = "microbatchscan"
_EXCHANGE = "exchange"
"""Where one stage ends and the next, which stands above it, begins."""


def python_steps(plan: str, own_source: bool) -> tuple[bool, bool]:
    """Whether Python workers run code of the user's in a batch, and whether in its last stage, which writes its state
    and its output. Unless the source is the user's `own_source`, what reads it is not theirs."""
    steps = [line.lower().lstrip(" +-:!*()0123456789") for line in plan.splitlines()]
    names = [re.split(r"\W", step, maxsplit=1)[0] for step in steps]

    def runs_python(name: str, step: str) -> bool:
        if name == _SCAN:
            return own_source and "(python)" in step
        return any(sign in name for sign in _PYTHON) or _FOR_EACH_ROW in step

    last = names.index(_EXCHANGE) if _EXCHANGE in names else len(names)
    found = [runs_python(name, step) for name, step in zip(names, steps, strict=True)]
    return any(found), any(found[:last])
