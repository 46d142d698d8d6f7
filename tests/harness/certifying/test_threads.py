"""Who waits for recovery workers in other threads."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from streamproof.harness.certifying import threads
from streamproof.harness.certifying.threads import results_of


def test_results_come_in_the_order_of_who_was_asked() -> None:
    first: Future[int] = Future()
    with ThreadPoolExecutor(2) as pool:
        running = [first, pool.submit(lambda: first.set_result(1) or 2)]
        assert results_of(running) == [1, 2]


def test_what_one_raises_is_raised_though_another_goes_on() -> None:
    failed: Future[int] = Future()
    failed.set_exception(LookupError("nothing"))
    with pytest.raises(LookupError, match="nothing"):
        results_of([Future(), failed])


def test_a_signal_that_wakes_nobody_is_heard_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that comes right before the wait begins: Python is told of it once the wait is over."""
    wait: Callable[..., Any] = threads.wait

    def deaf(left: Any, timeout: float | None, until: str) -> Any:
        assert timeout is not None
        heard: list[int] = []
        before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
        try:
            signal.raise_signal(signal.SIGINT)
            return wait(left, timeout, until)
        finally:
            signal.signal(signal.SIGINT, before)
            for number in heard:
                signal.raise_signal(number)

    monkeypatch.setattr(threads, "wait", deaf)
    with pytest.raises(KeyboardInterrupt):
        results_of([Future[int]()])
