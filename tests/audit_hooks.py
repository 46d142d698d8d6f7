"""Audit hooks that end with the test that has added them.

Python takes none away, and calls each of them at every `id()`, so that the hooks of some hundred tests made what walks
over many objects slower by an order of magnitude in all tests that came after these in their process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import MethodType
from typing import Any

from streamproof.harness.core.audit_hooks import heard_by


class AuditHooks:
    def __init__(self) -> None:
        self._add = sys.addaudithook
        self._heard = ExitStack()

    def add(self, hook: Any) -> None:
        """A function, and no method, is that of a module, which adds it once and for all."""
        if isinstance(hook, MethodType):
            self._heard.enter_context(heard_by(hook))
        else:
            self._add(hook)

    def end(self) -> None:
        self._heard.close()


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
