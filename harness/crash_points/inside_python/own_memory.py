"""Which of the user's functions keep something in the memory of their process from one call to the next, as far as
their code says so by names."""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Iterator, MutableMapping, MutableSequence, MutableSet
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from .names import module_of_code, name_in
from .own_lines import codes_in, own_functions

if TYPE_CHECKING:
    from ...contracts.query import Query

_CONTAINERS: Final = (MutableMapping, MutableSequence, MutableSet, deque)
_CHANGING: Final = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "popitem", "remove"}
    | {"setdefault", "update"}
)
"""By what a container is asked for."""
_CHANGES: Final = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR"})
_STORES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_OF_A_CACHE: Final = "cache_info"
"""What a function has that `functools` keeps the answers of."""


def functions_that_remember(query: Query) -> tuple[str, ...]:
    """Their names (`sinks.write`), in order. What an object of theirs keeps for itself is not looked into."""
    return tuple(sorted({name for one in own_functions(query) for name in _remembering(one)}))


def _remembering(function: FunctionType) -> Iterator[str]:
    """It, and functions within it."""
    outer = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    for code in codes_in(function.__code__):
        # What a function within another shares with that alone is gone with it.
        held = [function.__globals__.get(name) for name in code.co_names]
        held += [_content(outer[name]) for name in code.co_freevars if name in outer]
        remembers = _stores(code, frozenset(outer)) or any(hasattr(one, _OF_A_CACHE) for one in held)
        if remembers or (_changes(code) and any(isinstance(one, _CONTAINERS) for one in held)):
            # A comprehension is part of its function.
            yield name_in(module_of_code(function), function.__code__ if code.co_name.startswith("<") else code)


def _stores(code: CodeType, outer: frozenset[str]) -> bool:
    """Whether it gives a variable another value that outlives its call."""
    return any(
        one.opname in _STORES or (one.opname == "STORE_DEREF" and one.argval in outer)
        for one in dis.get_instructions(code)
    )


def _changes(code: CodeType) -> bool:
    """Whether it may change a container."""
    return bool(_CHANGING & {*code.co_names}) or any(one.opname in _CHANGES for one in dis.get_instructions(code))


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        # Not bound yet.
        return None
