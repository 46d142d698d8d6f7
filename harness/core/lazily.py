"""What is computed when it is first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazily(Generic[T]):
    """As `functools.cached_property`, which takes a lock for it before Python 3.12: that is dear for whoever makes
    objects by the thousand and asks each of them once. For what one thread has to itself."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, one: None, owner: type) -> lazily[T]: ...
    @overload
    def __get__(self, one: object, owner: type) -> T: ...
    def __get__(self, one: object, owner: type) -> T | lazily[T]:
        if one is None:
            return self
        found = vars(one)[self._name] = self._compute(one)
        return found
