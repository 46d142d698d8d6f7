"""Which cases of a dear test are tried each time, and which with the long ones only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def long_but_for(now: Collection[T], cases: Iterable[T]) -> list[object]:
    """The parameters of a test: all cases, of which those that are not tried `now` carry the marker `long`."""
    return [case if case in now else pytest.param(case, marks=pytest.mark.long) for case in cases]
