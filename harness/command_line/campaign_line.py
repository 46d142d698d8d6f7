"""The live line of `certify`."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from .progress_line import ALIVE, Heard, LiveLine

if TYPE_CHECKING:
    from ..certifying.budget import CampaignProgress

_TICK: Final = 1.0
"""Seconds after which the time left is shown anew."""


class CertifyingLine(LiveLine):
    """That of a campaign: the phase, what is done of what is planned, and the time left, which goes on meanwhile."""

    def __init__(self, stream: TextIO, starting: str, heard: Heard | None = None, alive: float = ALIVE) -> None:
        super().__init__(stream, starting, heard, alive)
        self._newest: tuple[str, float] | None = None
        """What a campaign has said last, and when its time is up, on the monotonic clock."""
        self._over = threading.Event()
        self._drawing = threading.Lock()
        self._ticking = threading.Thread(target=self._tick, name="live line", daemon=True)

    def __enter__(self) -> Self:
        self._ticking.start()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._ticking.join()
        super().__exit__(kind, error, at)

    def show(self, progress: CampaignProgress) -> None:
        """What a campaign calls, as often as it likes, from any thread."""
        said = f"{progress.phase}: {progress.done:,} of {progress.planned:,}" if progress.planned else progress.phase
        self._newest = said, time.monotonic() + progress.seconds_left
        self._redraw()

    def _tick(self) -> None:
        while not self._over.wait(min(_TICK, self._alive)):
            self._redraw()

    def _redraw(self) -> None:
        with self._drawing:
            self._draw(self._said() or self._starting)

    def _said(self) -> str:
        if self._newest is None:
            return ""
        said, end = self._newest
        left = round(end - time.monotonic())
        time_left = f"at most {left // 60}:{left % 60:02} min left" if left > 0 else "the time is up, finishing"
        return f"{said} · {time_left}"
