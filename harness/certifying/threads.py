"""Waits for what recovery workers do, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Final, TypeVar

T = TypeVar("T")
_LOOKS_SECONDS: Final = 0.5


def results_of(running: Sequence[Future[T]]) -> list[T]:
    """What comes of them all, in their order. Raises what one of them raises, as soon as it does.

    The one who waits looks around now and then: a signal that comes right before it begins to wait, as Ctrl-C may,
    wakes nobody.
    """
    left = set(running)
    while left:
        done, left = wait(left, _LOOKS_SECONDS, FIRST_EXCEPTION)
        for one in done:
            one.result()
    return [one.result() for one in running]
