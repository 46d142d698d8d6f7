"""The one live line of a command. That of a run: events offered and delivered, the fault in force, time left."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

from ..contracts.cluster import Live
from ..contracts.scenario import Scenario
from ..core.quantities import Duration

_EVERY: Final = 0.1
_WORTH_A_LINE: Final = 2.0
"""Seconds that are over before somebody wonders."""
_TICK: Final = 1.0
_CLEAR: Final = "\r\x1b[K"
ALIVE: Final = 60.0
"""Seconds after which a line says so where no terminal shows it."""
Heard = Callable[[str], None]
"""Told of the line each time that it is another one: who else shows it."""


class LiveLine:
    """Redraws one line of `stream` where that is a terminal, and leaves nothing behind. In a pipe or a file it is
    written every minute, as a line of its own. Use it as a context manager."""

    def __init__(
        self,
        stream: TextIO,
        starting: str,
        heard: Heard | None = None,
        alive: float = ALIVE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._starting = starting
        self._shown = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._heard = heard
        self._alive = alive
        self._clock = clock
        self._write_at = clock() + alive
        self._gone = False
        """Whether nobody reads it any more."""

    def __enter__(self) -> Self:
        self._draw(self._starting)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._draw("")

    def _draw(self, text: str) -> None:
        if text and self._heard is not None:
            self._heard(text)
        if self._shown:
            width = shutil.get_terminal_size().columns
            self._put(_CLEAR + text[: max(0, width - 1)])
        elif text and self._clock() >= self._write_at:
            # Where it cannot be redrawn, it is written anew.
            self._write_at = self._clock() + self._alive
            self._put(f"streamproof: {text}\n")

    def _put(self, text: str) -> None:
        if self._gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._gone = True  # A terminal that has gone away is no reason to end what is being done.


class WorkingLine(LiveLine):
    """That of what says nothing while it goes on: what it does, and for how long by now, once that is worth a line."""

    def __init__(self, stream: TextIO, doing: str, after: float = _WORTH_A_LINE) -> None:
        super().__init__(stream, "")
        self._doing = doing
        self._after = after
        self._over = threading.Event()
        self._ticking = threading.Thread(target=self._tick, name="live line", daemon=True)

    def __enter__(self) -> Self:
        if self._shown:
            self._ticking.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._ticking.is_alive():
            self._ticking.join()
        super().__exit__(kind, error, at)

    def _tick(self) -> None:
        began, wait = time.monotonic(), self._after
        while not self._over.wait(wait):
            self._draw(f"{self._doing} · {time.monotonic() - began:.0f} s")
            wait = _TICK


def working(doing: str) -> WorkingLine:
    """The line of a command that takes a while."""
    return WorkingLine(sys.stderr, doing)


class ProgressLine(LiveLine):
    """That of a run."""

    def __init__(
        self,
        stream: TextIO,
        starting: str,
        deadline: Duration,
        clock: Callable[[], float] = time.monotonic,
        heard: Heard | None = None,
    ) -> None:
        super().__init__(stream, starting, heard, clock=clock)
        self._deadline = deadline.seconds
        self._first_event: float | None = None
        self._next = 0.0

    def show(self, live: Live) -> None:
        """What a `Run` calls, as often as it likes."""
        now = self._clock()
        if live.offered and self._first_event is None:
            self._first_event = now
        if now >= self._next:
            self._next = now + _EVERY
            self._draw(self.line(live, now))

    def line(self, live: Live, now: float) -> str:
        """The line's text."""
        if self._first_event is None:
            return self._starting
        left = max(0.0, self._deadline - (now - self._first_event))
        parts = [
            f"{live.offered:,} events offered",
            f"{live.delivered:,} outputs delivered",
            f"at most {left:.0f} s left",
        ]
        if live.fault:
            parts.append(live.fault)
        return " · ".join(parts)


def of_run(scenario: Scenario, where: str, heard: Heard | None = None) -> ProgressLine:
    """The line of a run that is about to start there."""
    return ProgressLine(sys.stderr, f"starting {where}", scenario.deadline, heard=heard)
