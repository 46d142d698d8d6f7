"""Everything that changes in a simulated world, put down as it is now, and put back in place.

A capture walks from the world over whatever it leads to: lists, dictionaries, sets and deques, the attributes of
objects, what closures have taken along, generators of random numbers. Of each it keeps what it holds; what it holds is
walked in turn. To restore puts back into each object what it held, so that it stays the object that it is, and whoever
refers to it finds it as it was. It costs as much as there are objects, and not what they hold.

So that nothing is missed, one rule binds all that takes part in a world, mechanisms, merges, wraps and the states of
operators among them: *what changes is reached from the world, and nothing else remembers anything*: no variable of a
module or a class, no file. What is frozen and streamproof's own, a message, a record, a setting, is taken to stay as it
is with all that it holds, and a list of events that was sent is never changed. Of a user's, what it holds is walked.
Keys of dictionaries, and what a frozen set holds, are hashed, and taken to stay as they are. Where something is reached
that cannot be put back, a generator or an iterator, or an object of a kind that is not written in Python,
`NotCapturable` says which.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from itertools import takewhile
from pathlib import PurePath
from random import Random, SystemRandom
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    NotImplementedType,
)
from typing import Any, Final
from uuid import UUID

import msgspec


class NotCapturable(Exception):
    """Something in a world cannot be put back. No error, but the reason for which each of its runs is a whole one."""


_LEAF, _TUPLE, _LIST, _DICT, _SET, _DEQUE, _OBJECT = range(7)
_SLOTS, _METHOD, _FUNCTION, _PARTIAL, _RANDOM, _CELL, _FROZEN = range(7, 14)
_WITH_MORE: Final = 16
"""Added to the kind of what holds something, and has attributes beside that."""
_OURS: Final = __name__.partition(".")[0]
_NO_USERS: Final = sys.stdlib_module_names | {_OURS}
_NEVER_CHANGE: Final = (
    *(NoneType, bool, int, float, complex, str, bytes, frozenset, range, slice, type(...), NotImplementedType),
    *(type, ModuleType, Enum, re.Pattern, PurePath, UUID, Decimal, Fraction),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
)
_KNOWN: Final = {
    tuple: _TUPLE,
    list: _LIST,
    dict: _DICT,
    set: _SET,
    deque: _DEQUE,
    MethodType: _METHOD,
    BuiltinFunctionType: _METHOD,
    FunctionType: _FUNCTION,
    CellType: _CELL,
}
_HOLDERS: Final = {base: kind for base, kind in _KNOWN.items() if kind in (_TUPLE, _LIST, _DICT, _SET, _DEQUE)} | {
    partial: _PARTIAL,
    Random: _RANDOM,
}
"""What it is there for is to hold something; what is derived from it may have more."""
_UNSET: Final = object()


class _Kinds(dict[type, int]):
    """How each class is walked; found out at its first object."""

    def of(self, one: Any) -> int:
        cls = type(one)
        kind = self[cls] = _kind(one, cls)
        if kind == _LEAF:
            _leaves.add(cls)
        return kind


_kinds: Final = _Kinds()
_leaves: Final[set[type]] = set()
"""Memories of what classes are, which does not change."""


def _kind(one: Any, cls: type) -> int:
    if cls in _KNOWN:
        return _KNOWN[cls]
    if issubclass(cls, _NEVER_CHANGE):
        return _SLOTS if _has_more(one, cls) else _LEAF
    if is_frozen(cls) and _top_of(cls) == _OURS:
        return _LEAF
    if issubclass(cls, SystemRandom):
        raise NotCapturable(f"a {cls.__qualname__} draws from what no run can put back")
    for base, kind in _HOLDERS.items():
        if issubclass(cls, base):
            return kind + _WITH_MORE if cls is not base and _has_attributes(one) else kind
    if issubclass(cls, msgspec.Struct):
        return _FROZEN if is_frozen(cls) else _SLOTS
    try:
        # Refused for what holds more than Python can see.
        object.__reduce_ex__(one, 2)
    except TypeError as error:
        raise NotCapturable(f"a {cls.__module__}.{cls.__qualname__} cannot be put back: {error}") from error
    if cls.__reduce__ is not object.__reduce__ or cls.__reduce_ex__ is not object.__reduce_ex__:
        raise NotCapturable(f"a {cls.__module__}.{cls.__qualname__} keeps what it holds to itself")
    return _SLOTS if slots_of(cls) else _OBJECT if hasattr(one, "__dict__") else _LEAF


def _has_more(one: Any, cls: type) -> bool:
    """Whether what never changes has attributes of a user's beside that. What a class or a module has is no world's."""
    if issubclass(cls, type | ModuleType) or _top_of(cls) in _NO_USERS:
        return False
    return _has_attributes(one)


def _has_attributes(one: Any) -> bool:
    return hasattr(one, "__dict__") or bool(slots_of(type(one)))


def _top_of(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def is_frozen(cls: type) -> bool:
    if issubclass(cls, msgspec.Struct):
        return bool(cls.__struct_config__.frozen)
    return is_dataclass(cls) and bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]


_slots: Final[dict[type, tuple[Any, ...]]] = {}


def slots_of(cls: type) -> tuple[Any, ...]:
    """What reads and writes each of the slots of a class, but for those by which it holds what it is there to hold."""
    if cls not in _slots:
        own = takewhile(lambda base: base not in _HOLDERS, cls.__mro__)
        _slots[cls] = tuple(
            slot for base in own for slot in vars(base).values() if isinstance(slot, MemberDescriptorType)
        )
    return _slots[cls]


class Capture:
    """What everything held at one moment."""

    __slots__ = ("_cells", "_deques", "_dicts", "_lists", "_randoms", "_sets", "_slots")

    def __init__(self, root: object, fixed: Iterable[object], flat: Collection[object]) -> None:
        """Of all that `root` leads to, but for what is `fixed`, which never changes and leads to nothing that does.
        What `flat` lists hold is kept, and not walked. Raises NotCapturable."""
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._lists: list[tuple[list[Any], list[Any]]] = []
        self._sets: list[tuple[set[Any], list[Any]]] = []
        self._deques: list[tuple[deque[Any], list[Any]]] = []
        self._slots: list[tuple[Any, tuple[Any, ...], list[Any]]] = []
        self._randoms: list[tuple[Random, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        for one in flat:
            assert isinstance(one, list)
            self._lists.append((one, one.copy()))
        self._walk(root, {*map(id, fixed), *map(id, flat)})

    def _walk(self, root: object, seen: set[int]) -> None:
        leaves, kinds, dicts, lists = _leaves, _kinds, self._dicts, self._lists
        todo: list[Any] = [root]
        while todo:
            one = todo.pop()
            key = id(one)
            if key in seen:
                continue
            seen.add(key)
            kind = kinds.get(type(one))
            if kind is None:
                kind = kinds.of(one)
            held: Iterable[Any]
            # By how often they come.
            if kind == _METHOD:
                todo.append(one.__self__)
                continue
            if kind == _OBJECT:
                attributes = one.__dict__
                dicts.append((attributes, attributes.copy()))
                held = attributes.values()
            elif kind == _DICT:
                dicts.append((one, one.copy()))
                held = one.values()
            elif kind == _LIST:
                if one:
                    lists.append((one, one.copy()))
                else:
                    lists.append((one, _NOTHING))
                held = one
            elif kind == _TUPLE:
                held = one
            elif kind == _LEAF:
                continue
            else:
                held = self._other(one, kind)
            if not leaves.issuperset(map(type, held)):
                todo.extend([value for value in held if type(value) not in leaves])

    def _other(self, one: Any, kind: int) -> Iterable[Any]:
        """Keep what an object of a rarer kind holds, and return it."""
        held: list[Any]
        if kind >= _WITH_MORE:
            return [*self._other(one, kind - _WITH_MORE), *self._other(one, _SLOTS)]
        if kind == _DICT:
            self._dicts.append((one, one.copy()))
            return list(one.values())
        if kind == _LIST:
            self._lists.append((one, one.copy()))
            return list(one)
        if kind == _TUPLE:
            return list(one)
        if kind == _SET:
            held = list(one)
            self._sets.append((one, held))
            return held
        if kind == _DEQUE:
            held = list(one)
            self._deques.append((one, held))
            return held
        if kind == _SLOTS:
            slots = slots_of(type(one))
            try:
                held = [slot.__get__(one) for slot in slots]
            except AttributeError:
                held = [read_slot(one, slot) for slot in slots]
            self._slots.append((one, slots, held))
            if hasattr(one, "__dict__"):
                attributes = one.__dict__
                self._dicts.append((attributes, attributes.copy()))
                return [*held, *attributes.values()]
            return held
        if kind == _FROZEN:
            return [getattr(one, name) for name in type(one).__struct_fields__]
        if kind == _FUNCTION:
            return [*(one.__closure__ or ()), *(one.__defaults__ or ()), one.__kwdefaults__, one.__dict__]
        if kind == _CELL:
            try:
                contents = one.cell_contents
            except ValueError:
                return ()
            self._cells.append((one, contents))
            return (contents,)
        if kind == _PARTIAL:
            return [one.func, *one.args, one.keywords, one.__dict__]
        assert kind == _RANDOM
        self._randoms.append((one, one.getstate()))
        return ()

    def restore(self) -> None:
        """Let everything hold again what it held."""
        for lived, kept in self._dicts:
            lived.clear()
            lived.update(kept)
        for queue, queued in self._lists:
            queue[:] = queued
        for members, were in self._sets:
            members.clear()
            members.update(were)
        for line, lined in self._deques:
            line.clear()
            line.extend(lined)
        for one, slots, held in self._slots:
            for slot, value in zip(slots, held, strict=True):
                write_slot(one, slot, value)
        for random, state in self._randoms:
            random.setstate(state)
        for cell, contents in self._cells:
            cell.cell_contents = contents


_NOTHING: Final[list[Any]] = []


def read_slot(one: object, slot: Any) -> Any:
    try:
        return slot.__get__(one)
    except AttributeError:
        return _UNSET


def write_slot(one: object, slot: Any, value: Any) -> None:
    # One that nobody can write has not changed either.
    if read_slot(one, slot) is value:
        return
    if value is _UNSET:
        slot.__delete__(one)
    else:
        slot.__set__(one, value)
