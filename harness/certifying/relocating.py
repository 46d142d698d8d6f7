"""Where a line of the user's code is by now: a repair moves the lines that a saved schedule names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from ..core.addresses import CodeLine, Point
from ..core.errors import ScenarioChanged
from .attempts import Passed
from .conclusion import Planned
from .plan import Crash

_Fits = Callable[[Crash, CodeLine, Passed, CodeLine], bool]
_HOW: Final[Sequence[_Fits]] = (
    lambda crash, line, one, now: one.text == crash.text and now.called == line.called,
    # A line that was written anew still does the same to what is outside, which is what a crash falls between.
    lambda crash, line, one, now: bool(line.called) and now.called == line.called,
)
"""What makes a line that is passed now the one that was meant, the surest first."""


def relocated(planned: Sequence[Planned], passed: Sequence[Passed]) -> tuple[Planned, ...]:
    """The same crashes, each at the line where a run without failures of today's code passes what is meant. Lines that
    only a recovery passes stay as they are. Raises ScenarioChanged where nothing like it is passed any more."""
    return tuple(msgspec.structs.replace(one, crash=_now(one.crash, passed)) for one in planned)


def _now(crash: Crash, passed: Sequence[Passed]) -> Crash:
    line = crash.line
    if line is None or crash.recovering:
        return crash
    near = sorted(_of_the_function(crash, line, passed), key=lambda found: abs(found[1].line - line.line))
    for fits in _HOW:
        for one, now in near:
            if fits(crash, line, one, now):
                return msgspec.structs.replace(crash, key=one.address.key, text=one.text)
    raise ScenarioChanged(
        f"the query passes this no more, nor anything like it: {crash}. Certify it again: where that holds, this "
        "schedule has nothing left to show"
    )


def _of_the_function(crash: Crash, line: CodeLine, passed: Sequence[Passed]) -> Iterator[tuple[Passed, CodeLine]]:
    """What is passed in the same function and batch, by the same actor, as often."""
    for one in passed:
        address = one.address
        if (address.point, address.side, address.actor) != (Point.LINE, crash.side, crash.actor):
            continue
        now = CodeLine.of(address.key)
        if now is not None and (now.function, now.batch, now.time) == (line.function, line.batch, line.time):
            yield one, now
