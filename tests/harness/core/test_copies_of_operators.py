"""A slice has an operator of its own, however that is copied."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import pytest

from streamproof.harness.core import operator_copies
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.operator_copies import copy_of
from streamproof.harness.core.operators import Operator


class Plain(Operator[None]):
    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.name = "plain"

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> Iterable[Output]:
        return [(event.key, self.size)]


class Listing(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []


class Slotted(Plain):
    __slots__ = ("kept",)

    def __init__(self) -> None:
        super().__init__()
        self.kept = 5


class CopiedOtherwise(Plain):
    def __deepcopy__(self, memo: dict[int, Any]) -> CopiedOtherwise:
        return CopiedOtherwise(self.size + 1)


class SetOtherwise(Plain):
    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, size=9)


class MadeOtherwise(Plain):
    def __new__(cls, size: int = 1) -> MadeOtherwise:
        made = super().__new__(cls)
        made.made = True
        return made

    made: bool


@pytest.mark.parametrize("kind", [Plain, Listing, Slotted, CopiedOtherwise, SetOtherwise, MadeOtherwise])
def test_a_copy_is_what_deepcopy_gives(kind: type[Plain]) -> None:
    operator = kind()
    copied, deep = copy_of(operator), deepcopy(operator)
    assert copied is not operator
    assert type(copied) is kind
    assert vars(copied) == vars(deep)
    assert getattr(copied, "kept", None) == getattr(deep, "kept", None)


def test_a_copy_shares_nothing_that_changes() -> None:
    operator = Listing()
    copied = copy_of(operator)
    vars(copied)["size"] = 7
    vars(copied)["seen"].append(1)
    assert operator.size == 1
    assert operator.seen == []


def test_an_operator_that_later_keeps_a_list_is_copied_with_a_list_of_its_own() -> None:
    operator = Plain()
    copy_of(operator)
    vars(operator)["late"] = [1]
    assert vars(copy_of(operator))["late"] is not vars(operator)["late"]


def test_what_holds_plain_attributes_alone_costs_no_deepcopy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is made for every start of a slice."""
    asked: list[object] = []

    def counted(one: object) -> object:
        asked.append(one)
        return deepcopy(one)

    monkeypatch.setattr(operator_copies, "deepcopy", counted)
    copy_of(Plain())
    assert asked == []
    copy_of(Listing())
    assert len(asked) == 1
