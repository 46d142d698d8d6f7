"""Audit hooks that end with the test that has added them.

Python takes none away, and calls each of them at every `id()`, so that the hooks of some hundred tests made what walks
over many objects slower by an order of magnitude in all tests that came after these in their process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import MethodType
from typing import Any, Final

_NOTHING: Final = {}.get
"""Takes an event and its arguments, and is written in C."""


class AuditHooks:
    """What Python calls stays; what that calls can be replaced, and adds no frame in which a hook would look."""

    def __init__(self) -> None:
        self._add = sys.addaudithook
        self._free: list[partial[Any]] = []
        self._taken: list[partial[Any]] = []

    def add(self, hook: Any) -> None:
        """A function, and no method, is that of a module, which adds it once and for all."""
        if not isinstance(hook, MethodType):
            self._add(hook)
            return
        if not self._free:
            self._free.append(partial(_NOTHING))
            self._add(self._free[-1])
        self._taken.append(self._free.pop())
        _let_call(self._taken[-1], hook)

    def end(self) -> None:
        for hook in self._taken:
            _let_call(hook, _NOTHING)
        self._free += self._taken
        self._taken.clear()


def _let_call(hook: Any, what: Any) -> None:
    """What a `partial` calls can be replaced as where it is read again."""
    hook.__setstate__((what, (), {}, None))


@contextmanager
def ending_hooks() -> Iterator[AuditHooks]:
    """Meanwhile, `sys.addaudithook` adds such as end."""
    hooks = AuditHooks()
    added, sys.addaudithook = sys.addaudithook, hooks.add
    try:
        yield hooks
    finally:
        hooks.end()
        sys.addaudithook = added
