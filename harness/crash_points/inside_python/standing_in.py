"""A function that says what it is called with, where Python itself raises no audit event for it. Whoever follows calls
takes it for the one that it stands in for."""

from __future__ import annotations

import sys
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any


def tell_of(owner: type | ModuleType, name: str, event: str, *, once_done: bool = False) -> None:
    """From now on `owner.name` raises the event, with what it is called with, and last what of that has a name. Once it
    is done, if that is wanted, with what it has given as well, which comes first."""
    meant: Any = getattr(owner, name)
    if hasattr(meant, "__wrapped__"):
        return
    audit = sys.audit

    def before(*given: Any, **named: Any) -> Any:
        audit(event, *given, named)
        return meant(*given, **named)

    def after(*given: Any, **named: Any) -> Any:
        found = meant(*given, **named)
        audit(event, found, *given, named)
        return found

    setattr(owner, name, posing_as(meant, after if once_done else before))


def posing_as(meant: Any, told: Any) -> Any:
    """`told`, by the names of the code, the file and the module of `meant`: whose it is goes by these, and so does what
    a crash point at a call is called, in every process."""
    known = getattr(meant, "__code__", None)
    module = _PUBLIC.get(meant.__module__, meant.__module__)
    called, file = (meant.__qualname__, f"<{module}>") if known is None else (known.co_qualname, known.co_filename)
    code = told.__code__.replace(co_name=meant.__name__, co_qualname=called, co_filename=file)
    space = getattr(meant, "__globals__", None) or {"__name__": module}
    return wraps(meant)(FunctionType(code, space, meant.__name__, None, told.__closure__))


_PUBLIC = {"posix": "os"}
