"""What a subject's code keeps outside of every simulated world: in variables of modules and of classes, in caches, in
closures and default arguments, in the declarations of mechanisms, and in the environment.

A crash takes the memory of a process with it, and all of these are that. A simulated crash takes what the world leads
to (`capturing`), and nothing else: who kept something here would survive in the simulator alone. So it is found, from
the subject over its classes and the modules in which these were written, and can be put back to what it was at first.

Only containers that are written in Python, buffers, variables, and objects of the user's own classes are put back. What
is kept in a file, in an iterator, in a module of others, or in another object that is not written in Python, is not
seen here: a run, or a search, finds it out by going on in another process (`carried_over`).
"""

from __future__ import annotations

import os
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, MutableSet, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from ...contracts.subject import SchemeSubject
from ...crash_points.inside_python.whose import is_installed
from .capturing import is_frozen, read_slot, slots_of, write_slot

_OURS: Final = __name__.partition(".")[0]
_HARNESS: Final = f"{_OURS}.harness"
_CONTAINERS: Final = frozenset({"types", "collections", "weakref", "queue", "threading", "_thread"})
"""Modules of Python's own whose objects are such, or as good as."""
_LARGEST: Final = 1 << 26
"""Bytes of a buffer that is put back."""
_MOST: Final = 100_000
"""Things that are looked at: what is kept in a larger one was loaded, and not remembered."""
_PLAIN: Final = frozenset({str, bytes, int, float, bool, complex, type(None)})
"""What never changes and leads to nothing. What is derived from it can have attributes."""
_CAN_BE_MORE: Final = (tuple, frozenset, dict, list, deque, set, partial)
"""What is derived from these can have attributes beside what it holds."""
_Cache: Final = type(lru_cache(lambda: None))


@dataclass(frozen=True)
class _Kept:
    """One thing that can change, and what it held."""

    name: str
    has_changed: Callable[[], bool]
    put_back: Callable[[], None]


class OutsideMemory:
    """Of one subject, as it is now."""

    def __init__(self, subject: SchemeSubject) -> None:
        self._kept: list[_Kept] = []
        self._alive: list[object] = []
        """So that nothing else has their identity."""
        parts = list(_parts_of(subject))
        homes = {(getattr(part, "__module__", None) or "").partition(".")[0] for part in parts}
        self._packages = homes - sys.stdlib_module_names
        """The user's, installed or not."""
        self._containers = set(_CONTAINERS)
        """Modules and packages whose objects are such, as far as is known."""
        self._passed_over: dict[str, list[tuple[str, object]]] = {}
        """Of each package that is not known as such, its objects."""
        self.has_code_of_others = False
        """Whether any of the code is not streamproof's own."""
        self._seen: set[int] = set()
        self._todo: list[tuple[str, Any]] = [
            ("the environment", os.environ),
            *(("the subject", part) for part in parts),
        ]
        while self._todo and len(self._seen) < _MOST:
            self._look_at(*self._todo.pop())

    def changed(self) -> tuple[str, ...]:
        """What holds something else than at first."""
        return tuple(dict.fromkeys(kept.name for kept in self._kept if kept.has_changed()))

    def put_back(self) -> None:
        """Everything holds what it held at first."""
        for kept in self._kept:
            if kept.has_changed():
                kept.put_back()

    def _look_at(self, name: str, one: Any) -> None:
        if id(one) in self._seen or type(one) in _PLAIN:
            return
        self._seen.add(id(one))
        self._alive.append(one)
        match one:
            case ModuleType():
                self._look_at_module(one)
            case type():
                self._look_at_class(one)
            case FunctionType():
                self._look_at_function(name, one)
            case MethodType():
                self._todo += [(name, one.__func__), (name, one.__self__)]
            case partial():
                self._todo += [(name, held) for held in (one.func, *one.args, one.keywords, vars(one))]
            case staticmethod() | classmethod():
                self._todo.append((name, one.__func__))
            case property():
                self._todo += [(name, held) for held in (one.fget, one.fset, one.fdel)]
            case CellType():
                self._keep(name, *_of_cell(one))
                self._todo += [(name, held) for held in _contents(one)]
            case tuple() | frozenset():
                self._todo += [(name, held) for held in one]
            case dict():
                self._keep(name, *_of_mapping(one))
                self._todo += [(name, held) for held in islice(one.values(), _MOST)]
            case list() | deque():
                self._keep(name, *_of_sequence(one))
                self._todo += [(name, held) for held in islice(one, _MOST)]
            case set():
                self._keep(name, *_of_set(one))
                self._todo += [(name, held) for held in islice(one, _MOST)]
            case _ if one is os.environ:
                self._keep(name, *_of_mapping(one))
            case ContextVar():
                self._keep(name, *_of_variable(one))
                self._todo.append((name, one.get(None)))
            case _ if _is_numpys(one):
                self._keep(name, *_of_array(one))
                self._todo += [(name, held) for held in (one.ravel().tolist() if one.dtype.hasobject else ())]
            case _ if _is_buffer(one):
                self._keep(name, *_of_buffer(one))
            case _Cache():
                self._keep(f"{name}, a cache", *_of_cache(one))
                self._todo += [(name, one.__wrapped__), (name, vars(one))]
            case _:
                self._look_at_object(name, one)
        if isinstance(one, _CAN_BE_MORE) and type(one) not in _CAN_BE_MORE:
            self._look_at_object(name, one)

    def _keep(self, name: str, has_changed: Callable[[], bool], put_back: Callable[[], None]) -> None:
        self._kept.append(_Kept(name, has_changed, put_back))

    def _look_at_object(self, name: str, one: Any) -> None:
        cls = type(one)
        top = cls.__module__.partition(".")[0]
        is_container = isinstance(one, MutableMapping | MutableSequence | MutableSet)
        if is_container and top not in sys.stdlib_module_names | self._containers:
            self._containers.add(top)
            for earlier in self._passed_over.pop(top, ()):
                self._look_at_object(*earlier)
        if not self._is_users(cls.__module__) and top not in self._containers:
            self._passed_over.setdefault(top, []).append((name, one))
            return
        self._todo.append((name, cls))
        attributes = getattr(one, "__dict__", None)
        if attributes is not None:
            self._keep(f"{name}: {cls.__qualname__}", *_of_mapping(attributes))
            self._todo += [(f"{cls.__qualname__}.{key}", value) for key, value in list(attributes.items())]
        slots = slots_of(cls)
        if slots and not is_frozen(cls):
            self._keep(f"{name}: {cls.__qualname__}", *_of_slots(one, slots))
        self._todo += [(f"{cls.__qualname__}.{slot.__name__}", read_slot(one, slot)) for slot in slots]

    def _look_at_class(self, cls: type) -> None:
        if not self._is_users(cls.__module__):
            return
        self._keep(f"the class {cls.__qualname__}", *_of_class(cls))
        self._todo += [(f"{cls.__qualname__}.{key}", value) for key, value in _variables(vars(cls))]
        self._todo += [(base.__qualname__, base) for base in cls.__mro__[1:]]
        self._look_at_home(cls.__module__)

    def _look_at_function(self, name: str, function: FunctionType) -> None:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self._todo += [(f"{name}, {variable}", cell) for variable, cell in cells]
        if not self._is_users(function.__module__ or ""):
            return
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        self._todo += [(f"a default argument of {function.__qualname__}", value) for value in defaults]
        if vars(function):
            self._todo.append((f"an attribute of {function.__qualname__}", vars(function)))
        self._todo.append((name, getattr(function, "__wrapped__", None)))
        self._look_at_home(function.__module__)

    def _look_at_home(self, module: str) -> None:
        if module in sys.modules:
            self._todo.append((module, sys.modules[module]))

    def _look_at_module(self, module: ModuleType) -> None:
        if not self._is_users(module.__name__):
            return
        namespace = vars(module)
        self._keep(f"the module {module.__name__}", *_of_namespace(namespace))
        self._todo += [(f"{module.__name__}.{key}", value) for key, value in _variables(namespace)]

    def _is_users(self, name: str) -> bool:
        top = name.partition(".")[0]
        if not name or top in sys.stdlib_module_names or _is_harness(name):
            return False
        if top == _OURS:
            return True
        if top not in self._packages and is_installed(getattr(sys.modules.get(name), "__file__", None) or ""):
            return False
        self._packages.add(top)
        self.has_code_of_others = True
        return True


def _is_harness(module: str) -> bool:
    return module == _HARNESS or module.startswith(f"{_HARNESS}.")


def _parts_of(subject: SchemeSubject) -> Iterator[object]:
    """What a subject is made of that has code of its own."""
    yield from (stage.operator for stage in subject.topology.stages.values())
    for setup in (*subject.setups.values(), *subject.operators.values()):
        yield from (*setup.mechanisms, *setup.coordinators)
        if setup.merge is not None:
            yield setup.merge
    yield subject.wrap_store
    yield from subject.wraps.values()


def _variables(namespace: Any) -> Iterator[tuple[str, Any]]:
    """Without what Python itself keeps there."""
    for name, value in list(namespace.items()):
        if not (name.startswith("__") and name.endswith("__")) and name != "_abc_impl":
            yield name, value


# What each kind of thing held, and how it is put back


def _same_items(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(map(_is, one, other))


def _is(one: object, other: object) -> bool:
    return one is other


_Pair = tuple[Callable[[], bool], Callable[[], None]]
_ABSENT: Final = object()


def _of_mapping(lived: Any) -> _Pair:
    kept = dict(lived)

    def has_changed() -> bool:
        if len(lived) != len(kept):
            return True
        if lived is os.environ:
            return dict(lived) != kept
        return not (_same_items(lived, kept) and _same_items(lived.values(), kept.values()))

    def put_back() -> None:
        lived.clear()
        lived.update(kept)

    return has_changed, put_back


def _of_sequence(lived: Any) -> _Pair:
    kept = list(lived)

    def put_back() -> None:
        lived.clear()
        lived.extend(kept)

    return lambda: not _same_items(lived, kept), put_back


def _of_slots(one: Any, slots: Sequence[Any]) -> _Pair:
    kept = [read_slot(one, slot) for slot in slots]

    def put_back() -> None:
        for slot, value in zip(slots, kept, strict=True):
            write_slot(one, slot, value)

    return lambda: not _same_items([read_slot(one, slot) for slot in slots], kept), put_back


def _is_numpys(one: Any) -> bool:
    """Whether it is an array of numpy's that can be written to."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(one, numpy.ndarray) and one.flags.writeable and one.nbytes <= _LARGEST


def _of_array(one: Any) -> _Pair:
    # Of objects, the copy refers to those that the array has now, so that they live on.
    kept = one.copy()

    def put_back() -> None:
        if one.shape != kept.shape:
            one.resize(kept.shape, refcheck=False)
        one[...] = kept

    return lambda: one.shape != kept.shape or one.tobytes() != kept.tobytes(), put_back


def _is_buffer(one: Any) -> bool:
    """Whether it can be written to as bytes. Where it has references to objects, it cannot: nobody counts those."""
    try:
        with memoryview(one) as seen:
            return not seen.readonly and seen.c_contiguous and seen.nbytes <= _LARGEST and "O" not in seen.format
    except (TypeError, ValueError, BufferError):
        return False


def _of_buffer(one: Any) -> _Pair:
    kept = bytes(memoryview(one).cast("B"))

    def put_back() -> None:
        if isinstance(one, bytearray | array):
            del one[:]
            one.extend(kept if isinstance(one, bytearray) else array(one.typecode, kept))
        else:
            memoryview(one).cast("B")[:] = kept

    return lambda: bytes(memoryview(one).cast("B")) != kept, put_back


def _of_variable(variable: ContextVar[Any]) -> _Pair:
    # One that was never set is as good as empty: nobody can unset it.
    kept = variable.get(None)

    def put_back() -> None:
        variable.set(kept)

    return lambda: variable.get(None) is not kept, put_back


def _of_set(lived: set[Any]) -> _Pair:
    kept = set(lived)

    def put_back() -> None:
        lived.clear()
        lived.update(kept)

    return lambda: lived != kept, put_back


def _contents(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        # Not bound yet.
        return []


def _of_cell(cell: CellType) -> _Pair:
    kept = _contents(cell)

    def put_back() -> None:
        if kept:
            cell.cell_contents = kept[0]
        else:
            del cell.cell_contents

    return lambda: not _same_items(_contents(cell), kept), put_back


def _of_cache(cache: Any) -> _Pair:
    # What it has handed out may have been changed where it is, and what it holds replaced by as much.
    kept = cache.cache_info()
    return lambda: bool(cache.cache_info().currsize) and cache.cache_info() != kept, cache.cache_clear


def _of_namespace(namespace: dict[str, Any]) -> _Pair:
    kept = dict(_variables(namespace))

    def others() -> list[str]:
        now = dict(_variables(namespace))
        return [name for name in now.keys() | kept.keys() if now.get(name, _ABSENT) is not kept.get(name, _ABSENT)]

    def put_back() -> None:
        for name in others():
            if name in kept:
                namespace[name] = kept[name]
            else:
                del namespace[name]

    return lambda: bool(others()), put_back


def _of_class(cls: type) -> _Pair:
    kept = dict(_variables(vars(cls)))

    def others() -> list[str]:
        now = dict(_variables(vars(cls)))
        return [name for name in now.keys() | kept.keys() if now.get(name, _ABSENT) is not kept.get(name, _ABSENT)]

    def put_back() -> None:
        for name in others():
            if name in kept:
                setattr(cls, name, kept[name])
            else:
                delattr(cls, name)

    return lambda: bool(others()), put_back
