"""Threads that begin while others set what they are followed by."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from streamproof.harness.core.audit_hooks import heard_by
from streamproof.harness.crash_points.inside_python.trace_functions import (
    follow_new_threads,
    set_profiler,
    set_tracer,
    tracer_of_new_threads,
)

SETS = ("sys.settrace", "sys.setprofile")


def lets_others_go(event: str, _: object) -> None:
    """As any hook in Python may."""
    if event in SETS:
        time.sleep(0.001)


@pytest.fixture
def unfollowed() -> Iterator[None]:
    before = sys.gettrace(), threading.gettrace(), sys.getprofile()
    yield
    threading.settrace(before[1])  # type: ignore[arg-type]
    sys.settrace(before[0])
    sys.setprofile(before[2])


@pytest.mark.usefixtures("unfollowed")
def test_each_thread_is_followed_and_does_its_work_whoever_sets_a_function_meanwhile() -> None:
    done: list[int] = []
    seen: set[str] = set()

    def trace(frame: object, event: str, argument: object) -> None:
        seen.add(threading.current_thread().name)

    def work(number: int) -> None:
        set_profiler(None)
        done.append(number)

    with heard_by(lets_others_go):
        follow_new_threads(trace)
        threads = [threading.Thread(target=work, args=(number,), name=f"one-{number}") for number in range(40)]
        for thread in threads:
            thread.start()
            set_tracer(sys.gettrace())
        for thread in threads:
            thread.join()
    assert sorted(done) == list(range(40))
    assert {thread.name for thread in threads} <= seen


@pytest.mark.usefixtures("unfollowed")
def test_what_new_threads_are_followed_by_is_none_to_threading_and_whoever_comes_after_sets_another() -> None:
    follow_new_threads(print)
    assert tracer_of_new_threads() is print
    assert not threading.gettrace()
    threading.settrace(repr)  # type: ignore[arg-type]
    assert tracer_of_new_threads() is repr
