"""What of the user's lives on when their code is left, and does something when it goes, be that when the process ends:
finalizers, objects with a `__del__`, generators with something to do when they are closed, and files of which a part is
in memory alone."""

from __future__ import annotations

import dis
import gc
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import IOBase
from multiprocessing import util
from types import CodeType, FunctionType, GeneratorType
from typing import Any, Final

from .handed_over import name_of_any
from .names import first_line_of, module_of_code, name_in
from .open_things import OPEN
from .watching import outside

_BY_PYTHON: Final = frozenset({"CALL_INTRINSIC_1", "CLEANUP_THROW"})
"""Begins what Python itself does where a generator is left by an error."""

Outliving = tuple[str, str]
"""What is called, and where it is."""


def outliving(owns: Callable[[str, str], bool]) -> list[Outliving]:
    """Each once. `owns` says of the name of a module and of a file whether code is the user's."""
    kinds = dict(_with_an_end(owns))
    wanted = {*kinds, GeneratorType, weakref.ReferenceType}
    found: set[Outliving] = set()
    living: list[Any] = [one for one in gc.get_objects() if type(one) in wanted]
    for one in living:
        if isinstance(one, GeneratorType):
            found |= _of_generator(one, owns)
        elif type(one) is weakref.ReferenceType:
            found |= _of_function(one.__callback__, owns)
        else:
            found.add(kinds[type(one)])
    for one in list(util._finalizer_registry.values()):  # type: ignore[attr-defined]
        found |= _of_function(getattr(one, "_callback", None), owns)
    return sorted(found)


def _with_an_end(owns: Callable[[str, str], bool]) -> Iterator[tuple[type, Outliving]]:
    """The classes whose `__del__` is the user's."""
    waiting: list[type] = [object]
    seen: set[type] = {object}
    while waiting:
        below: set[type] = {*type.__subclasses__(waiting.pop())} - seen
        seen |= below
        waiting.extend(below)
        for kind in below:
            for end in _of_function(getattr(kind, "__del__", None), owns):
                yield kind, end


def _of_generator(one: GeneratorType[Any, Any, Any], owns: Callable[[str, str], bool]) -> set[Outliving]:
    frame, code = one.gi_frame, one.gi_code
    if frame is None or not one.gi_suspended or not _is_within_a_block(code, frame.f_lasti):
        return set()
    module = str(frame.f_globals.get("__name__", "?"))
    return {(name_in(module, code), first_line_of(module, code))} if owns(module, code.co_filename) else set()


def _is_within_a_block(code: CodeType, at: int) -> bool:
    """Whether it is left by way of a `finally`, an `except` or the end of a `with`."""
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        if entry.start <= at < entry.end and dis.opname[code.co_code[entry.target]] not in _BY_PYTHON:
            return True
    return False


def _of_function(called: Any, owns: Callable[[str, str], bool]) -> set[Outliving]:
    """That one, where it is the user's, be it bound to an object."""
    function = getattr(called, "__func__", called)
    if isinstance(function, FunctionType) and owns(module_of_code(function), function.__code__.co_filename):
        return {(name_of_any(function), first_line_of(module_of_code(function), function.__code__))}
    return set()


def write_out(folders: Sequence[str]) -> None:
    """Have what is still in the memory of a file in these folders written, once the sink was read: Python does so at
    the exit, for who is lucky, and tells nobody how much it is."""
    # By its type: one that stands for another object may not know yet for which.
    living: list[Any] = [one for one in gc.get_objects() if issubclass(type(one), IOBase)]
    # Text first: it goes to what it is encoded for.
    files: list[IOBase] = sorted(living, key=lambda one: not hasattr(one, "encoding"))
    for one in files:
        # It may be closed, or be no file, or be one whose disk is full.
        with suppress(OSError, ValueError):
            if not outside(folders, os.readlink(f"{OPEN}/{one.fileno()}")) and one.writable():
                one.flush()
