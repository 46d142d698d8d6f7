"""Which loops the user's functions have, and how often a line is begun in one round: what tells whether a loop went
round again."""

from __future__ import annotations

import dis
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Final

from .names import module_of_code, name_in
from .own_lines import codes_in, line_of, own_functions
from .tracing import FUNCTIONS

if TYPE_CHECKING:
    from ...contracts.query import Query

_JUMPS: Final = frozenset({*dis.hasjrel, *dis.hasjabs})
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
    calls: Mapping[int, int]
    """The same of the lines that are in no loop, in a call of the function."""


def own_loops(query: Query) -> list[Loop]:
    """In the order of their functions' names and of their lines. Those of one line, as of a comprehension, are none."""
    found: dict[tuple[str, int], Loop] = {}
    for function in own_functions(query):
        for code in codes_in(function.__code__):
            if code.co_flags & FUNCTIONS:
                for one in _loops_of(name_in(module_of_code(function), code), code):
                    found[one.function, one.line] = one
    return [found[at] for at in sorted(found)]


def _loops_of(name: str, code: CodeType) -> Iterator[Loop]:
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
        if one.opcode in _JUMPS and isinstance(one.argval, int) and one.argval <= one.offset:
            backward[one.argval] = one.offset
    lines = dict(at)
    in_any = {line for offset, line in at if any(begin <= offset <= end for begin, end in backward.items())}
    calls = {line: times for line, times in begun.items() if line not in in_any and line != code.co_firstlineno}
    for begin, end in backward.items():
        inner = [(first, last) for first, last in backward.items() if begin <= first and last <= end and first != begin]
        asks = {lines[begin]} if names[begin] in _NEXT else set()
        within = {line for offset, line in at if begin <= offset <= end} - asks
        own = within - {line for offset, line in at if any(first <= offset <= last for first, last in inner)}
        if own:
            rounds = {line: begun[line] for line in own if begun[line]}
            yield Loop(name, lines[begin], rounds, frozenset(within), calls)
