"""Launches that are under way at the same time, and the end, after which there are none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ...core.errors import Unsupported


class Launches:
    """Those of one cluster. What removes all that belongs to it must not meet one half-way."""

    def __init__(self) -> None:
        self.closing = threading.Event()
        """Set once the end has begun."""
        self._changed = threading.Condition()
        self._under_way = 0

    @contextmanager
    def one(self, name: str) -> Iterator[None]:
        """Of what has this name. Raises Unsupported once the end has begun."""
        with self._changed:
            if self.closing.is_set():
                raise Unsupported(f"{name} cannot be started: the cluster is being stopped")
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    @contextmanager
    def none(self) -> Iterator[None]:
        """When none is under way any more; none begins in here."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way)
            yield

    def close(self) -> None:
        """Let none begin any more, and return when none is under way."""
        self.closing.set()
        with self.none():
            pass
