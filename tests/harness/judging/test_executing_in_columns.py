"""What an operator does to events in columns is what it does to them one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from simulation import drawn, history_of, scenario_of, subject_of
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.core.events import Event
from streamproof.harness.judging import executing_in_columns
from streamproof.scenarios.word_count import Count, Split
from told_by import told_by

CASE = "gap/word-count-words"


def _count_fails(event: Event, _: Any) -> Iterable[tuple[str, int]]:
    if event.seq == 9:
        raise RuntimeError("nine")
    return ((event.key, 1),)


def _no_text(event: Event, _: Any) -> Iterable[tuple[Any, int]]:
    return [("a", 1), (["b"] if event.seq == 23 else "b", 1)]


def _no_character(event: Event, _: Any) -> Iterable[tuple[str, int]]:
    return [("\ud800" if event.seq == 23 else event.value, 1)]


@pytest.mark.parametrize(
    ("operator", "process"),
    [(Count, _count_fails), (Split, _count_fails), (Split, _no_text), (Split, _no_character)],
    ids=["counter", "splitter", "a key that is none", "a key that goes nowhere"],
)
def test_an_operator_that_fails_is_said_to_at_the_same_event(
    operator: type, process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = scenario_of(CASE)
    history = history_of(scenario, drawn(scenario, 0, "usual"), seed=0)
    subject_of(CASE).collate(history)
    monkeypatch.setattr(operator, "process", lambda _, event, state: process(event, state))
    with pytest.raises(InvalidOperator) as one_by_one:
        told_by(subject_of(CASE).collate(history))
    together: list[int] = []
    execute = executing_in_columns.execute_batches

    def executed(spec: Any, rerun: Any, batches: Any, receivers: Any) -> Any:
        together.append(batches.ends[-1])
        return execute(spec, rerun, batches, receivers)

    monkeypatch.setattr(executing_in_columns, "execute_batches", executed)
    for name, module in list(sys.modules.items()):
        if name.startswith("streamproof.harness.judging.") and hasattr(module, "CHUNK"):
            monkeypatch.setattr(module, "CHUNK", 7)
    with pytest.raises(InvalidOperator) as in_columns:
        told_by(subject_of(CASE).collate(history))
    assert together
    assert str(in_columns.value) == str(one_by_one.value)
