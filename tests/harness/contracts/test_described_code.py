"""What is recorded of a function tells it from others that have its name and its text."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamproof import Query


def _at_least(least: object) -> Callable[[Any], Any]:
    def some(lines: Any) -> Any:
        return lines.where(lines.count > least)

    return some


def _some(lines: Any, least: int) -> Any:
    return lines.where(lines.count > least)


class _AtLeast:
    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, lines: Any) -> Any:
        return _some(lines, self.least)

    def some(self, lines: Any) -> Any:
        return self(lines)


def _code(transform: Callable[[Any], Any]) -> object:
    return Query(transform, name="one").describe()["code"]


@pytest.mark.parametrize(
    ("one", "like", "other"),
    [
        (_at_least(1), _at_least(1), _at_least(2)),
        (_at_least({"count": [1]}), _at_least({"count": [1]}), _at_least({"count": [2]})),
        (_at_least(_at_least(1)), _at_least(_at_least(1)), _at_least(_at_least(2))),
        (partial(_some, least=1), partial(_some, least=1), partial(_some, least=2)),
        (_AtLeast(1), _AtLeast(1), _AtLeast(2)),
        (_AtLeast(1).some, _AtLeast(1).some, _AtLeast(2).some),
    ],
    ids=["a closure", "with data", "with a function", "a partial", "an object", "a method"],
)
def test_what_a_function_was_made_with_tells_it_from_another(
    one: Callable[[Any], Any], like: Callable[[Any], Any], other: Callable[[Any], Any]
) -> None:
    assert _code(one) == _code(like) != _code(other)


def test_a_lambda_is_another_than_the_one_beside_it() -> None:
    one, other = (lambda lines: lines), (lambda lines: lines.distinct())
    assert _code(one) != _code(other)


def test_an_object_that_a_function_refers_to_goes_by_its_type() -> None:
    assert _code(_at_least(object())) == _code(_at_least(object()))
    assert _code(_at_least(_AtLeast(1))) == _code(_at_least(_AtLeast(2)))


def test_what_another_process_finds_otherwise_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the environment, which is a mapping, and none of the function's."""
    before = _code(_at_least(os.environ))
    monkeypatch.setenv("LEAST", "2")
    assert _code(_at_least(os.environ)) == before


def test_what_holds_itself_comes_to_an_end() -> None:
    least: list[object] = []
    least.append(least)
    assert _code(_at_least(least)) != _code(_at_least([]))


def test_of_a_function_alone_no_more_is_said_than_its_name_and_its_text() -> None:
    assert sorted(Query(_code, name="one").describe()["code"]["transform"]) == ["name", "source"]


def test_a_text_that_is_edited_while_it_runs_is_none_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "edited_meanwhile.py"
    file.write_text("def lines(rows):\n    return rows\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("edited_meanwhile")
    query = Query(module.lines, name="one")
    # Longer, so that whoever goes by a file's size and time sees it.
    file.write_text("def lines(rows):\n    return rows.distinct()\n")
    later, copied = Query(module.lines, name="one"), replace(query, settings={"spark.a": "1"})
    began = [one.describe()["code"] for one in (query, later, copied)]
    reloaded = Query(importlib.reload(module).lines, name="one")

    assert began[0] == began[1] == began[2] != reloaded.describe()["code"]
