"""Audit hooks that end (`sys.addaudithook`).

Python takes none away, and calls each of them at every `id()`, so that whatever adds one a call slows its process down
by every call. What Python calls is written in C, is used again, and calls what hears only as long as that is wanted; it
adds no frame in which a hook would look.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

_NOTHING: Final = dict[object, object]().get
"""Takes an event and its arguments, and is written in C."""
_idle: Final[list[partial[Any]]] = []
"""That Python calls, and nobody needs now."""


@contextmanager
def heard_by(hook: Callable[[str, tuple[Any, ...]], object]) -> Iterator[None]:
    """Meanwhile, what Python tells of is told to `hook`, in the thread that does it."""
    called = _idle.pop() if _idle else _one_more()
    _let_call(called, hook)
    try:
        yield
    finally:
        _let_call(called, _NOTHING)
        _idle.append(called)


def _one_more() -> partial[Any]:
    called = partial[Any](_NOTHING)
    sys.addaudithook(called)
    return called


def _let_call(called: Any, what: object) -> None:
    """What a `partial` calls can be replaced as where it is read again."""
    called.__setstate__((what, (), {}, None))
