"""Operators that share nothing with one another, as where each has a process of its own."""

from __future__ import annotations

import copyreg
import pickle
from copy import deepcopy
from functools import cache
from typing import Any

from .errors import InvalidOperator
from .operators import Operator


def copy_of(operator: Operator[Any]) -> Operator[Any]:
    """An operator that shares nothing with this one, so that what it keeps in its attributes, and not in a state, is
    its own: as where each has a process of its own. Raises InvalidOperator for what can be copied in no way, which no
    process could be sent either."""
    try:
        return _copied_quickly(operator) or deepcopy(operator)
    except Exception:  # Whatever the user's code raises: a module among its attributes can be pickled all the same.
        from .pickling import modules_only_here, with_code

    try:
        copied: Operator[Any] = pickle.loads(with_code(operator, modules_only_here()))
    except Exception as error:
        raise InvalidOperator(
            f"{type(operator).__name__} cannot be copied ({type(error).__name__}: {error}), so that what it keeps in "
            "its attributes would outlive a crash: make locks, connections and the like where they are used"
        ) from error
    return copied


_UNSHARED = frozenset({type(None), bool, int, float, complex, str, bytes})
"""The types of attributes that a copy may have as they are: they never change, and lead to nothing."""
_COPYING = ("__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__getattribute__")
"""By what a class says how its objects are copied: all classes have these,"""
_COPYING_OTHERWISE = ("__deepcopy__", "__setstate__", "__getnewargs__", "__getnewargs_ex__", "__getattr__")
"""and few these."""
_HEAP = 1 << 9
"""The flag of classes that are written in Python."""


@cache
def _copied_by_attributes(cls: type) -> bool:
    """Whether to copy an object of a class is to copy its attributes, and no more."""
    return (
        all(getattr(cls, name, None) is getattr(object, name, None) for name in _COPYING)
        and not any(hasattr(cls, name) for name in _COPYING_OTHERWISE)
        and cls not in copyreg.dispatch_table
        and cls.__dictoffset__ != 0
        and all(base is object or (base.__flags__ & _HEAP and not vars(base).get("__slots__")) for base in cls.__mro__)
    )


def _copied_quickly(operator: Operator[Any]) -> Operator[Any] | None:
    """As `deepcopy` does it, of what holds no more than a few plain attributes, as nearly all operators; else None.
    One is made for every start of a slice."""
    cls = type(operator)
    if not _copied_by_attributes(cls):
        return None
    attributes = vars(operator)
    if not _UNSHARED.issuperset(map(type, attributes.values())):
        return None
    copied: Operator[Any] = object.__new__(cls)
    vars(copied).update(attributes)
    return copied
