"""What the live view shows at this moment, and when it is drawn anew: only while somebody looks, and seldom enough that
what is watched has the machine to itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from .sources import WatchedSource

LOOKED_AT: Final = 10.0
"""Seconds after which nobody looks any more who has not asked again."""
LEAST: Final = 1.0
"""Seconds between two pages."""
SHARE: Final = 10
"""Of the time, one in so many goes into drawing at most."""


@dataclass(frozen=True)
class BoardState:
    """What a browser asks for each second."""

    page: int
    """The number of the newest page; 0: there is none yet."""
    said: str
    ended: bool
    trouble: str
    """Why there is no newer page; empty where there is nothing wrong."""


class Board:
    """Shared by whoever listens to the command, whoever draws, and whoever serves."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._source: WatchedSource | None = None
        self._drawn: tuple[int, Hashable] | None = None
        """The number of the source, and its mark, of which the newest page is."""
        self._sources = 0
        self._said = ""
        self._page = 0
        self._html = ""
        self._given = 0
        """The newest page that somebody was given."""
        self._ended = False
        self._trouble = ""
        self._asked = float("-inf")
        self._not_before = float("-inf")

    def watch(self, source: WatchedSource) -> None:
        with self._changed:
            self._source = source
            self._sources += 1
            self._changed.notify_all()

    def say(self, line: str) -> None:
        with self._changed:
            self._said = line

    def end(self) -> None:
        """What is to be seen has all happened."""
        with self._changed:
            self._ended = True
            self._trouble = ""
            self._not_before = float("-inf")
            self._changed.notify_all()

    @property
    def is_looked_at(self) -> bool:
        return self._clock() - self._asked <= LOOKED_AT

    def state(self) -> BoardState:
        """Somebody looks."""
        with self._changed:
            self._asked = self._clock()
            self._changed.notify_all()
            return BoardState(self._page, self._said, self._ended and self._is_drawn(), self._trouble)

    def page(self) -> tuple[int, str]:
        """The number of the newest, and the page; empty while there is none."""
        with self._changed:
            self._asked = self._clock()
            self._changed.notify_all()
            return self._page, self._html

    def gave(self, page: int) -> None:
        """Somebody has the page of that number, all of it."""
        with self._changed:
            self._given = max(self._given, page)
            self._changed.notify_all()

    def draw_if_due(self) -> bool:
        """Whether a page was drawn, or could not be."""
        with self._changed:
            source, number, now = self._source, self._sources, self._clock()
            if source is None or not self.is_looked_at or now < self._not_before:
                return False
        mark = (number, source.mark())
        if mark == self._drawn:
            return False
        try:
            html, trouble = source.draw(), ""
        except Exception as error:
            # A record may be read in the moment in which it is sealed; and nothing that goes wrong here is to end it.
            html, trouble = None, f"{type(error).__name__}: {error}"
        took = self._clock() - now
        with self._changed:
            # Nothing is left to have the machine to itself once it has ended.
            self._not_before = self._clock() + (LEAST if self._ended else max(LEAST, SHARE * took))
            self._trouble = trouble
            if not trouble:
                self._drawn = mark
            if html is not None:
                self._html = html
                self._page += 1
        return True

    def wait_for_looks(self, seconds: float) -> None:
        """Until somebody looks, or something is new, or so long."""
        with self._changed:
            self._changed.wait(seconds)

    def is_out(self) -> bool:
        """Whether whoever looks has been given all that there will be."""
        with self._changed:
            return not self.is_looked_at or (self._is_drawn() and self._given == self._page)

    def _is_drawn(self) -> bool:
        """Whether the newest page has all that happened."""
        source = self._source
        return source is None or bool(self._trouble) or self._drawn == (self._sources, source.mark())
