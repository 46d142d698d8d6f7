"""Where a line of the user's code, or what it does to a file, is by now: a repair moves what a saved schedule names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ..core.addresses import CodeLine, Point
from ..core.errors import ScenarioChanged
from .attempts import Passed
from .conclusion import Planned
from .file_points import counted_alike, deed_of
from .plan import BESIDE_THE_DRIVER, Crash
from .user_code import PassedPlace, places_in_code

_Fits = Callable[[Crash, CodeLine, Passed, CodeLine], bool]
_HOW: Final[Sequence[_Fits]] = (
    lambda crash, line, one, now: one.text == crash.text and now.called == line.called,
    # A line that was written anew still does the same to what is outside, which is what a crash falls between.
    lambda crash, line, one, now: bool(line.called) and now.called == line.called,
)
"""What makes a line that is passed now the one that was meant, the surest first."""

_FileFits = Callable[[Crash, Crash], bool]
_HOW_OF_FILES: Final[Sequence[_FileFits]] = (
    lambda crash, now: deed_of(now.key) == deed_of(crash.key),
    lambda crash, now: _alike_in(_place, crash, now),
    # A statement that was written anew, or a file that is called otherwise.
    lambda crash, now: _alike_in(_function, crash, now),
)
"""The same of an operation on files: what is done to which file, or else what the same place in the code does."""
_LINE: Final = re.compile(r"\bline \d+")


def relocated(planned: Sequence[Planned], passed: Sequence[Passed]) -> tuple[Planned, ...]:
    """The same crashes, each at the line or the operation on files where a run without failures of today's code passes
    what is meant. What only a recovery passes stays as it is. Raises ScenarioChanged where nothing like it is passed
    any more."""
    places = places_in_code(passed)
    return tuple(msgspec.structs.replace(one, crash=_now(one.crash, passed, places)) for one in planned)


def _now(crash: Crash, passed: Sequence[Passed], places: Mapping[PassedPlace, str]) -> Crash:
    if crash.recovering:
        return crash
    if crash.point is Point.FILE:
        found = _file_now(crash, passed, places)
    elif (line := crash.line) is not None:
        found = _line_now(crash, line, passed)
    else:
        return crash
    if found is None:
        raise ScenarioChanged(
            f"the query passes this no more, nor anything like it: {crash}. Certify it again: where that holds, this "
            "schedule has nothing left to show"
        )
    return found


def _line_now(crash: Crash, line: CodeLine, passed: Sequence[Passed]) -> Crash | None:
    near = sorted(_of_the_function(crash, line, passed), key=lambda found: abs(found[1].line - line.line))
    for fits in _HOW:
        for one, now in near:
            if fits(crash, line, one, now):
                return msgspec.structs.replace(crash, key=one.address.key, text=one.text)
    return None


def _of_the_function(crash: Crash, line: CodeLine, passed: Sequence[Passed]) -> Iterator[tuple[Passed, CodeLine]]:
    """What is passed in the same function and batch, by the same actor, as often."""
    for one in passed:
        address = one.address
        if (address.point, address.side, address.actor) != (Point.LINE, crash.side, crash.actor):
            continue
        now = CodeLine.of(address.key)
        if now is not None and (now.function, now.batch, now.time) == (line.function, line.batch, line.time):
            yield one, now


def _file_now(crash: Crash, passed: Sequence[Passed], places: Mapping[PassedPlace, str]) -> Crash | None:
    time = _time(crash)
    there = passed
    if crash.victim in BESIDE_THE_DRIVER:
        alike = counted_alike(passed)
        there = [one for one in passed if (one.address, one.again) in alike]
    near = sorted(_of_the_kind(crash, there, places), key=lambda now: abs(_time(now) - time))
    return next((now for fits in _HOW_OF_FILES for now in near if fits(crash, now)), None)


def _of_the_kind(crash: Crash, passed: Sequence[Passed], places: Mapping[PassedPlace, str]) -> Iterator[Crash]:
    """The crash at each operation of the same kind that is passed in the same batch, by the same actor."""
    for one in passed:
        address = one.address
        if (address.point, address.side, address.actor) == (Point.FILE, crash.side, crash.actor):
            in_code = places.get((address, one.again), "")
            now = msgspec.structs.replace(crash, key=address.key, text=one.text, in_code=in_code)
            if _batch_and_kind(now) == _batch_and_kind(crash):
                yield now


def _batch_and_kind(crash: Crash) -> tuple[str, str]:
    batch, _, what = crash.key.partition("/")
    return batch, what.partition(" ")[0]


def _time(crash: Crash) -> int:
    """Which time it is that its batch does this."""
    number = crash.key.rpartition("#")[2]
    return int(number) if number.isdecimal() else 1


def _alike_in(part: Callable[[str], str], crash: Crash, now: Crash) -> bool:
    return bool(crash.in_code) and part(now.in_code) == part(crash.in_code)


def _place(in_code: str) -> str:
    """Wherever its lines stand by now."""
    return _LINE.sub("line", in_code)


def _function(in_code: str) -> str:
    return in_code.partition(",")[0]
