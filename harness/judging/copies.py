"""Copies of operators' states that owe nothing to the user's code.

A state is the user's. Whether `snapshot` and `restore` keep it is what is judged, so a state that is needed twice is
copied without them, and without `__deepcopy__`, `__reduce__` or `__getstate__`, which may have the same bug.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from copy import deepcopy
from typing import Any

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})


class NotPlain(Exception):
    """A state holds something of a type that only its own code can copy. Never leaves this room."""


def plain_copy(state: Any) -> Any:
    """A copy that shares nothing that can change with the original, of a state made of Python's own containers; what
    stands in it twice stands in the copy twice.

    Raises NotPlain for a state with anything else in it.
    """
    return _copy(state, {})


def copied(state: Any) -> Any:
    """The same of any state: where it holds something else, by its own code."""
    try:
        return plain_copy(state)
    except NotPlain:
        return deepcopy(state)


def _copy(value: Any, known: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    found = known.get(id(value))
    if found is not None:
        return found
    copy = _COPIERS.get(kind)
    if copy is None:
        raise NotPlain(f"a state holds a {kind.__qualname__}")
    return copy(value, known)


def _mapping(value: Any, known: dict[int, Any]) -> Any:
    made: Any = defaultdict(value.default_factory) if type(value) is defaultdict else type(value)()
    known[id(value)] = made
    if _ATOMS.issuperset(map(type, value)) and _ATOMS.issuperset(map(type, value.values())):
        made.update(value)
        return made
    for key, one in value.items():
        made[_copy(key, known)] = _copy(one, known)
    return made


def _sequence(value: Any, known: dict[int, Any]) -> Any:
    made: Any = deque(maxlen=value.maxlen) if type(value) is deque else []
    known[id(value)] = made
    if _ATOMS.issuperset(map(type, value)):
        made.extend(value)
    else:
        made.extend(_copy(one, known) for one in value)
    return made


def _fixed(value: Any, known: dict[int, Any]) -> Any:
    made = type(value)(_copy(one, known) for one in value)
    known[id(value)] = made
    return made


def _bytes(value: Any, known: dict[int, Any]) -> Any:
    made = known[id(value)] = bytearray(value)
    return made


_COPIERS: dict[type, Callable[[Any, dict[int, Any]], Any]] = {
    **dict.fromkeys((dict, Counter, OrderedDict, defaultdict), _mapping),
    **dict.fromkeys((list, deque), _sequence),
    **dict.fromkeys((tuple, set, frozenset), _fixed),
    bytearray: _bytes,
}
