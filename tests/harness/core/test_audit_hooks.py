"""Audit hooks that end, and are used again: Python takes none away."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from streamproof.harness.core.audit_hooks import heard_by
from streamproof.harness.core.kept_files import listening
from streamproof.harness.crash_points.inside_python.consuming import Consuming


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The hooks that are added meanwhile."""
    hooks: list[object] = []
    add = sys.addaudithook

    def adding(hook: Callable[[str, tuple[Any, ...]], object]) -> None:
        hooks.append(hook)
        add(hook)

    monkeypatch.setattr(sys, "addaudithook", adding)
    return hooks


def test_whoever_hears_one_after_the_other_shares_one_hook(added: list[object]) -> None:
    for _ in range(5):
        with listening():
            pass
        with Consuming((), ("127.0.0.1", 1), 0.0).hearing():
            pass
    assert len(added) <= 1


def test_each_of_those_who_hear_at_once_hears_all_and_nothing_afterwards() -> None:
    one: list[str] = []
    other: list[str] = []
    with heard_by(lambda event, _: one.append(event)):
        sys.audit("first")
        with heard_by(lambda event, _: other.append(event)):
            sys.audit("second")
        sys.audit("third")
    sys.audit("fourth")
    assert [event for event in one if event in ("first", "second", "third", "fourth")] == ["first", "second", "third"]
    assert [event for event in other if event in ("first", "second", "third", "fourth")] == ["second"]


def test_what_hears_is_called_as_from_the_line_that_is_heard() -> None:
    callers: list[str] = []

    def hear(event: str, _: tuple[Any, ...]) -> None:
        if event == "of this test":
            callers.append(sys._getframe(1).f_code.co_name)

    with heard_by(hear):
        sys.audit("of this test")
    assert callers == ["test_what_hears_is_called_as_from_the_line_that_is_heard"]
