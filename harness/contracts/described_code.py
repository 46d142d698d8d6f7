"""What is recorded of a function that is handed over: its name, the text of its module, and what it holds beside.

Two functions of one name and one text can be different ones: those that a function of the user's makes, and two lambdas
of one module.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType
from typing import Any, Final

_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None))
_FUNCTIONS: Final = (FunctionType, BuiltinFunctionType, MethodType)
_OBJECTS: Final = 2
"""How far objects are followed: one that can be called, and what that stands for. One that a function refers to goes by
its type: it may be anything, such as a part of a test framework."""


def described(function: Callable[..., Any]) -> dict[str, str | None]:
    name = f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"
    held = "\n".join(_held(function, _OBJECTS, frozenset()))
    more = {"holds": hashlib.sha256(held.encode(errors="surrogatepass")).hexdigest()} if held else {}
    return {"name": name, "source": _source_digest(function), **more}


def keep_source(function: Callable[..., Any]) -> None:
    """From now on, the text of its module as it is now is what is recorded of it, however the file is edited from here
    on. What was edited already since the module was imported nobody sees: then it is a text that does not run."""
    _source_digest(function)


def _source_digest(function: Callable[..., Any]) -> str | None:
    """SHA-256 of the text of the function's module, which holds what it calls, as it was when this was asked for the
    first time since the module was loaded; None where it has none (typed in, or built in)."""
    module = inspect.getmodule(function)
    if module is None:
        return _digest_of(function)
    # Whoever reloads a module gives it another spec.
    loaded = getattr(module, "__spec__", None) or module
    if id(loaded) not in _kept:
        _kept[id(loaded)] = loaded, _digest_of(module)
    return _kept[id(loaded)][1]


_kept: dict[int, tuple[object, str | None]] = {}
"""By the id of what says that a module was loaded, which is kept, so that nothing else has it: its text's digest."""


def _digest_of(code: Any) -> str | None:
    try:
        return hashlib.sha256(inspect.getsource(code).encode()).hexdigest()
    except (OSError, TypeError):
        return None


def _held(code: Any, objects: int, above: frozenset[int]) -> Iterator[str]:
    """What it holds beside its text, a line each: the same in another process, too, where it was made of the same. A
    function that is all that its name and its text say holds nothing. `above`: what it is held by, by its id."""
    within = above | {id(code)}
    if isinstance(code, FunctionType):
        if code.__name__ == "<lambda>":
            yield f"at {_place(code.__code__)}"
        cells = zip(code.__code__.co_freevars, code.__closure__ or (), strict=True)
        yield from (f"{name} = {_said(_content(cell), 0, within)}" for name, cell in cells)
        yield from (f"default {_said(one, 0, within)}" for one in code.__defaults__ or ())
        yield from (f"default {name} = {_said(one, 0, within)}" for name, one in (code.__kwdefaults__ or {}).items())
    elif isinstance(code, partial):
        yield f"of {_said(code.func, objects, within)}"
        yield from (_said(one, 0, within) for one in code.args)
        yield from (f"{name} = {_said(one, 0, within)}" for name, one in code.keywords.items())
    elif isinstance(code, MethodType):
        yield f"of {_said(code.__self__, objects, within)}"
    elif not isinstance(code, type) and (objects or is_dataclass(code)):
        for name, one in getattr(code, "__dict__", {}).items():
            # What `functools.wraps` sets, the name and the text say already.
            if not name.startswith("__"):
                yield f"{name} = {_said(one, max(0, objects - 1), within)}"


def _said(value: Any, objects: int, above: frozenset[int]) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, _PLAIN):
        return f"{kind} {value!r}"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if id(value) in above:
        return kind
    within = above | {id(value)}
    if isinstance(value, dict | MappingProxyType):
        return f"{kind} {[(_said(key, 0, within), _said(one, 0, within)) for key, one in value.items()]}"
    if isinstance(value, list | tuple):
        return f"{kind} {[_said(one, 0, within) for one in value]}"
    if isinstance(value, set | frozenset):
        return f"{kind} {sorted(_said(one, 0, within) for one in value)}"
    # Whatever else it is answers for itself when it is asked for a name.
    name = f"{value.__module__}:{value.__qualname__}" if isinstance(value, _FUNCTIONS) else ""
    return f"{kind} {name} {list(_held(value, objects, above))}"


def _place(code: CodeType) -> str:
    """Where it is in the text of its module: two lambdas can be on one line."""
    return str(next((place for place in code.co_positions() if place[2]), code.co_firstlineno))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # Nobody has given it a value yet.
        return None
