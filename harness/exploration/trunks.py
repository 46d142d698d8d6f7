"""The worlds that many schedules are tried in: of each a run without failures is kept, to branch off from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .branching import Trunk

_BUILT_AT: Final = 3
"""A run with captures costs about as much as is saved by a few that branch off."""
_KEPT: Final = 4
_COUNTED: Final = 64
"""Worlds of which it is known how often they were asked for."""


class Trunks:
    """By their seeds. Those that were asked for last are kept."""

    def __init__(self, build: Callable[[int], Trunk | None]) -> None:
        """`build` returns None for a world without one."""
        self._build = build
        self._asked: dict[int, int] = {}
        self._kept: dict[int, Trunk | None] = {}

    def of(self, seed: int) -> Trunk | None:
        """None: a run in that world is a whole one."""
        if seed in self._kept:
            found = self._kept[seed] = self._kept.pop(seed)
            return found
        times = self._asked[seed] = self._asked.pop(seed, 0) + 1
        if len(self._asked) > _COUNTED:
            del self._asked[next(iter(self._asked))]
        if times < _BUILT_AT:
            return None
        del self._asked[seed]
        if len(self._kept) == _KEPT:
            _release(self._kept.pop(next(iter(self._kept))))
        found = self._kept[seed] = self._build(seed)
        return found

    def close(self) -> None:
        while self._kept:
            _release(self._kept.popitem()[1])


def _release(trunk: Trunk | None) -> None:
    if trunk is not None:
        trunk.close()
