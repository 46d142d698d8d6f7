"""Which lines the user's functions have: of what a query hands over, and of all that this can come to by a name."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from .names import module_of_code, name_in
from .tracing import FUNCTIONS
from .whose import Whose, parts_handed_over, whose_code

if TYPE_CHECKING:
    from ...contracts.query import Query

_DATA_SOURCE: Final = "pyspark.sql.datasource"
_OF_THE_CALL: Final = frozenset({"RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "POP_TOP", "NOP"})
"""What a function does in the line of its `def` before its first line: no line is told of that."""


def own_lines(query: Query) -> Mapping[str, frozenset[int]]:
    """By the name of a function (`sinks.write`), the numbers of its lines that can be executed. What is imported within
    a function is not found, nor what is called by a name that is made up at work."""
    found: dict[str, set[int]] = {}
    for function in own_functions(query):
        for code in codes_in(function.__code__):
            if code.co_flags & FUNCTIONS:
                found.setdefault(name_in(module_of_code(function), code), set()).update(_lines_of(code))
    return {name: frozenset(lines) for name, lines in found.items()}


def own_functions(query: Query) -> list[FunctionType]:
    """The user's functions that a query hands over, and those that they can come to by a name."""
    return [one for one in _own_code(query) if isinstance(one, FunctionType)]


def functions_whose_code(query: Query, asks: Callable[[FunctionType, CodeType], bool]) -> tuple[str, ...]:
    """The names (`sinks.write`), in order, of the user's functions, and of those within them, of which that is so: each
    code in a function is asked about. A comprehension, or a lambda, is part of its function."""
    found = set()
    for function in own_functions(query):
        for code in codes_in(function.__code__):
            if asks(function, code):
                own = function.__code__ if code.co_name.startswith("<") else code
                found.add(name_in(module_of_code(function), own))
    return tuple(sorted(found))


def own_data_sources(query: Query) -> tuple[str, ...]:
    """The classes of the user's that make a Python data source, in the order of their names."""
    kinds = (one for one in _own_code(query) if isinstance(one, type))
    of_sources = (one for one in kinds if any(base.__module__ == _DATA_SOURCE for base in one.__mro__[1:]))
    return tuple(sorted(f"{one.__module__}.{one.__qualname__}" for one in of_sources))


def _own_code(query: Query) -> list[FunctionType | type]:
    """The user's functions, and all classes that are met on the way."""
    whose = whose_code(query)
    found: list[FunctionType | type] = []
    seen: dict[int, object] = {}
    """Kept, so that nothing else has their identity."""
    waiting: list[Any] = [one for one, _ in parts_handed_over(query) if not isinstance(one, ModuleType)]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        # What a library's decorator has made of a function of theirs stands for that.
        waiting += [held for name, held in getattr(one, "__dict__", {}).items() if name == "__wrapped__"]
        if isinstance(one, type):
            found.append(one)
            waiting += _methods_of(one)
        elif isinstance(one, FunctionType):
            if whose.owns(module_of_code(one), one.__code__.co_filename):
                found.append(one)
                waiting += _named_in(one, whose)
        elif isinstance(one, partial):
            waiting.append(one.func)
        elif not isinstance(one, ModuleType):
            waiting.append(type(one))
    return found


def _methods_of(kind: type) -> Iterator[FunctionType]:
    for held in vars(kind).values():
        for one in (held, *(getattr(held, name, None) for name in ("__func__", "fget", "fset", "fdel", "__wrapped__"))):
            if isinstance(one, FunctionType):
                yield one


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """It, and those of the functions and classes in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from codes_in(one)


def _lines_of(code: CodeType) -> Iterator[int]:
    line: int | None = None
    for one in dis.get_instructions(code):
        # Not `starts_line`, which is no number since Python 3.13.
        line = line_of(one) or line
        if line is not None and not is_of_the_call(one, line, code):
            yield line


def is_of_the_call(one: dis.Instruction, line: int | None, code: CodeType) -> bool:
    """Whether it belongs to the call of a function, and not yet to its first line."""
    return line == code.co_firstlineno and one.opname in _OF_THE_CALL


def line_of(one: dis.Instruction) -> int | None:
    """None of what the compiler has added."""
    return None if one.positions is None else one.positions.lineno


def _named_in(function: FunctionType, whose: Whose) -> Iterator[object]:
    """The functions and classes of the user's that a function names: of its module, or of another one of theirs."""
    names = {name for code in codes_in(function.__code__) for name in code.co_names}
    for name in sorted(names):
        held = function.__globals__.get(name)
        if isinstance(held, ModuleType) and whose.owns(held.__name__, getattr(held, "__file__", None) or ""):
            yield from (one for other in sorted(names) if (one := vars(held).get(other)) is not None)
        elif held is not None:
            yield held
