"""Refuses what a type checker would refuse, for those who have none: a wrong setting must not come to light in the
middle of a run, and least of all in a verdict."""

from __future__ import annotations

from types import UnionType
from typing import Any

from .errors import InvalidScenario, UserMistake

ProperType = type[Any] | UnionType


def proper(
    given: object, kind: ProperType, what: str, wanted: str, mistake: type[UserMistake] = InvalidScenario
) -> None:
    """Raises `mistake` where `given` is of another kind. True and False are no numbers here, and a class is none of its
    own objects, though it has what a protocol asks for."""
    if not isinstance(given, kind) or isinstance(given, type) or (isinstance(given, bool) and kind is not bool):
        raise mistake(f"{what} cannot be {given!r}; it is {wanted}")


def positive(given: object, what: str, mistake: type[UserMistake] = InvalidScenario) -> None:
    """Raises `mistake` unless `given` is 1, 2, ..."""
    proper(given, int, what, "a whole number from 1 up", mistake)
    if isinstance(given, int) and given < 1:
        raise mistake(f"{what} cannot be {given!r}; it is a whole number from 1 up")


def switch(given: object, what: str) -> None:
    """Raises InvalidScenario for what is neither True nor False."""
    proper(given, bool, what, "True or False")
