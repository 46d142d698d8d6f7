"""The live line of `certify`."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from .progress_line import LiveLine

if TYPE_CHECKING:
    from ..certifying.budget import CampaignProgress

_TICK: Final = 1.0
"""Seconds after which the time left is shown anew."""
_ALIVE: Final = 60.0
"""Seconds after which a line says so where no terminal shows it."""


class CertifyingLine(LiveLine):
    """That of a campaign: the phase, what is done of what is planned, and the time left, which goes on meanwhile. In a
    pipe or a file it is a line of its own every minute."""

    def __init__(self, stream: TextIO, starting: str, alive: float = _ALIVE) -> None:
        super().__init__(stream, starting)
        self._alive = alive
        self._newest: tuple[str, float] | None = None
        """What a campaign has said last, and when its time is up, on the monotonic clock."""
        self._over = threading.Event()
        self._drawing = threading.Lock()
        self._clock = threading.Thread(target=self._tick, name="live line", daemon=True)

    def __enter__(self) -> Self:
        self._clock.start()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._clock.join()
        super().__exit__(kind, error, at)

    def show(self, progress: CampaignProgress) -> None:
        """What a campaign calls, as often as it likes, from any thread."""
        said = f"{progress.phase}: {progress.done:,} of {progress.planned:,}" if progress.planned else progress.phase
        self._newest = said, time.monotonic() + progress.seconds_left
        self._redraw()

    def _tick(self) -> None:
        # Where it cannot be redrawn, it is written anew.
        each, say = (_TICK, self._redraw) if self._shown else (self._alive, self._write)
        while not self._over.wait(each):
            say()

    def _write(self) -> None:
        try:
            self._stream.write(f"streamproof: {self._said() or self._starting}\n")
            self._stream.flush()
        except OSError:
            self._over.set()  # Nobody reads it any more.

    def _redraw(self) -> None:
        said = self._said()
        if said:
            with self._drawing:
                self._draw(said)

    def _said(self) -> str:
        if self._newest is None:
            return ""
        said, end = self._newest
        left = round(end - time.monotonic())
        time_left = f"at most {left // 60}:{left % 60:02} min left" if left > 0 else "the time is up, finishing"
        return f"{said} · {time_left}"
