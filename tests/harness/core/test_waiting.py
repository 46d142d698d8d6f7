"""wait_until: returns what came true, and says what it saw when nothing did."""

import time

import pytest

from streamproof.harness.core.errors import DeadlinePassed
from streamproof.harness.core.waiting import wait_until


def test_returns_what_came_true() -> None:
    answers = iter([None, 0, "", "here"])
    assert wait_until(lambda: next(answers), 5, "an answer", every=0.001) == "here"


def test_says_what_was_seen_instead() -> None:
    with pytest.raises(DeadlinePassed, match=r"waited 0\.01 s for a worker; last seen: 2 of 3") as raised:
        wait_until(lambda: False, 0.01, "a worker", lambda: "2 of 3", every=0.001)
    assert (raised.value.waited_for, raised.value.seen) == ("a worker", "2 of 3")


def test_asks_once_even_without_time() -> None:
    assert wait_until(lambda: True, 0, "nothing") is True


def test_asks_once_more_after_a_pause_beyond_the_deadline() -> None:
    """A process that was stopped for a while must not blame others for it."""
    asked = []

    def condition() -> bool:
        asked.append(True)
        if len(asked) == 1:
            time.sleep(0.05)
        return len(asked) > 1

    assert wait_until(condition, 0.02, "the second question", every=0.001)


def test_lets_through_what_the_condition_raises() -> None:
    def condition() -> bool:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        wait_until(condition, 1, "anything")
