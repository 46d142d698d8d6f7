"""Ctrl-C and SIGTERM, put off to where they can be heeded: a handler that raises, raises anywhere, and so also between
taking a lock and knowing that it was taken."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_HELD: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def signals_held(wake: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """While this is open, a signal that has a handler only calls `wake`, which must be fit to be called anywhere.

    What is yielded calls the handler, once one came: that may raise. Who then lets go of what it has is not disturbed
    by more of them. What came and was not heeded until the end is heeded then.
    """
    if threading.current_thread() is not threading.main_thread():
        # Others are never interrupted.
        yield lambda: None
        return
    came: list[int] = []
    heeded = False

    def note(number: int, frame: object) -> None:
        came.append(number)
        wake()

    def heed() -> None:
        nonlocal heeded
        if came and not heeded:
            heeded = True
            handlers[came[0]](came[0], None)

    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in _HELD}
    # What is ignored stays ignored, and what ends the process at once does so.
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in handlers:
            signal.signal(number, note)
        yield heed
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        heed()
