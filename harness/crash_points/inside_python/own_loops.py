"""Which loops the user's functions have, and how often a line is begun in one round: what tells whether a loop went
round again."""

from __future__ import annotations

import dis
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Final

from .courses import JUMPS, Course, course_of
from .names import module_of_code, name_in
from .own_lines import codes_in, line_of, own_functions
from .tracing import FUNCTIONS, GENERATORS

if TYPE_CHECKING:
    from ...contracts.query import Query

_NEXT: Final = frozenset({"FOR_ITER", "GET_ANEXT"})
"""What asks for the next item: its line is passed once more than the loop goes round."""


@dataclass(frozen=True)
class Loop:
    """Of one function."""

    function: str
    line: int
    """Where it begins."""
    rounds: Mapping[int, int]
    """By each line within that is in no loop of its own: how often a round passes it at most, as one that goes over
    several lines and is come back to."""
    within: frozenset[int]
    """All lines of a round, those of the loops in it included."""
    asks: frozenset[int]
    """The line that asks for the next item, where there is one."""
    course: Course
    """Of the function."""
    callers: frozenset[str]
    """Functions that call it by its name: it has returned where lines of theirs are told. None of a generator."""


def own_loops(query: Query) -> list[Loop]:
    """In the order of their functions' names and of their lines. Those of one line, as of a comprehension, are none."""
    functions = {
        name_in(module_of_code(function), code): code
        for function in own_functions(query)
        for code in codes_in(function.__code__)
        if code.co_flags & FUNCTIONS
    }
    loops: list[Loop] = []
    for name, code in sorted(functions.items()):
        callers = (other for other, calling in functions.items() if other != name and _names(calling, code))
        found = {one.line: one for one in _loops_of(name, code, frozenset(callers))}
        loops += [found[line] for line in sorted(found)]
    return loops


def _names(calling: CodeType, called: CodeType) -> bool:
    """Whether it may call that by its name, to have it over when it goes on."""
    names = (*calling.co_names, *calling.co_varnames, *calling.co_cellvars, *calling.co_freevars)
    return called.co_name in names and not called.co_flags & GENERATORS


def _loops_of(name: str, code: CodeType, callers: frozenset[str]) -> Iterator[Loop]:
    at: list[tuple[int, int]] = []
    """Of each instruction, its offset and its line."""
    begun = Counter[int]()
    line = code.co_firstlineno
    backward: dict[int, int] = {}
    """By where a loop begins, where the last jump back to there is."""
    names: dict[int, str] = {}
    for one in dis.get_instructions(code):
        begins = line_of(one) or line
        if begins != line:
            line = begins
            begun[line] += 1
        at.append((one.offset, line))
        names[one.offset] = one.opname
        if one.opcode in JUMPS and isinstance(one.argval, int) and one.argval <= one.offset:
            backward[one.argval] = one.offset
    lines = dict(at)
    course = course_of(code)
    for begin, end in backward.items():
        inner = [(first, last) for first, last in backward.items() if begin <= first and last <= end and first != begin]
        asks = {lines[begin]} if names[begin] in _NEXT else set()
        within = {line for offset, line in at if begin <= offset <= end} - asks
        own = within - {line for offset, line in at if any(first <= offset <= last for first, last in inner)}
        if own:
            rounds = {line: begun[line] for line in own if begun[line]}
            yield Loop(name, lines[begin], rounds, frozenset(within), frozenset(asks), course, callers)
