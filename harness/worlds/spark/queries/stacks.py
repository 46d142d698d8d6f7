"""Where a driver's Python process is when nothing comes of it: asked by a signal, it writes all of its stacks to a file
beside its plan, whatever it is doing and whatever it waits for."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ....core.errors import DeadlinePassed
from ....core.waiting import wait_until

ASKS: Final = signal.SIGUSR1
ANSWER_SECONDS: Final = 5.0
CALLERS: Final = 3
"""How many of those who have called are told."""
_FRAME: Final = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)')


def answer_with_stacks(plan: Path) -> None:
    """From now on this process does."""
    # faulthandler keeps the file open for as long as it needs it.
    faulthandler.register(ASKS, _file_of(plan).open("w"), all_threads=True)


def still_running(plan: Path, pid: int | None, silent: float) -> str:
    """`; still running for 90 s: write (sink.py, line 7), called by ...`; empty where no code of the user's is running
    there, or nothing answers. `pid` is None where the process is of another machine."""
    file = _file_of(plan)
    if pid is None or not file.exists():
        return ""
    with suppress(OSError, DeadlinePassed):
        os.kill(pid, ASKS)
        # The last thread that is written down is the first that Python has made: its main one.
        wait_until(lambda: "_run_module_as_main" in file.read_text(errors="replace"), ANSWER_SECONDS, "stacks")
    said = " and ".join(dict.fromkeys(users_frames(file.read_text(errors="replace"))))
    return f"; without a sign of work for {silent:.0f} s, still running: {said}" if said else ""


def users_frames(dumped: str) -> Iterator[str]:
    """Of each thread that runs code of the user's, where that is, the innermost first."""
    for thread in re.split(r"^(?=(?:Current thread|Thread) )", dumped, flags=re.MULTILINE):
        frames = [found for line in thread.splitlines() if (found := _FRAME.fullmatch(line))]
        theirs = [frame for frame in frames if _is_users(frame["file"])]
        if theirs:
            yield _said(theirs)


def _said(frames: Sequence[re.Match[str]]) -> str:
    places = [f"{frame['function']} ({frame['file']}, line {frame['line']})" for frame in frames]
    more = len(places) - 1 - CALLERS
    return ", called by ".join(places[: CALLERS + 1]) + (f", and {more:,} more" if more > 0 else "")


def _is_users(file: str) -> bool:
    """Neither Python's own, nor installed, nor the harness's."""
    installed = [os.path.realpath(path) + os.sep for path in sysconfig.get_paths().values()]
    own = [*installed, f"{Path(__file__).resolve().parents[3]}{os.sep}"]
    foreign = file.startswith("<") or f"{os.sep}site-packages{os.sep}" in file
    return not foreign and not os.path.realpath(file).startswith(tuple(own))


def _file_of(plan: Path) -> Path:
    return plan.with_suffix(".stacks")
