"""Signals are heeded where that is safe, and none is lost."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from streamproof.harness.exploration.held_signals import signals_held


@pytest.fixture(autouse=True)
def _raising() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def nothing() -> None:
    """For those whom no signal needs to wake."""


def test_a_signal_wakes_and_is_heeded_when_it_is_asked_for() -> None:
    woken: list[str] = []

    def hold() -> None:
        with signals_held(lambda: woken.append("woken")) as heed:
            heed()
            interrupt()
            assert woken == ["woken"]
            heed()

    with pytest.raises(KeyboardInterrupt):
        hold()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_lets_go_after_one_signal_is_not_disturbed_by_another() -> None:
    released: list[str] = []

    def hold() -> None:
        with signals_held(nothing) as heed:
            try:
                interrupt()
                heed()
            finally:
                interrupt()
                heed()
                released.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        hold()
    assert released == ["all of it"]


@pytest.mark.parametrize("end", [next, lambda held: held.close()], ids=["in the end", "when closed"])
def test_what_nobody_heeded_is_heeded_at_the_end(end: Callable[[Iterator[int]], object]) -> None:
    def held() -> Iterator[int]:
        with signals_held(nothing):
            interrupt()
            yield 1

    holding = held()
    next(holding)
    with pytest.raises(KeyboardInterrupt):
        end(holding)


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with signals_held(lambda: pytest.fail("nobody is to be woken")):
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
