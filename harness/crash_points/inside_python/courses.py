"""How the lines of a function can follow each other, by its code: what tells whether it was left in between."""

from __future__ import annotations

import dis
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import CodeType
from typing import Final

from .own_lines import is_of_the_call, line_of

JUMPS: Final = frozenset({*dis.hasjrel, *dis.hasjabs})
_RETURNS: Final = frozenset({"RETURN_VALUE", "RETURN_CONST"})
_GO_NOT_ON: Final = _RETURNS | {
    "JUMP_FORWARD",
    "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT",
    "RAISE_VARARGS",
    "RERAISE",
}
_HANDLES: Final = "PUSH_EXC_INFO"
"""An error from anywhere can lead to it."""


@dataclass(frozen=True)
class Course:
    """Of one function."""

    begins: int
    """The line that is told first when it is called."""
    follows: Mapping[int, frozenset[int]]
    """By line, those that can be told next, in one call."""
    ends: frozenset[int]
    """The lines in which it may return."""
    calls: frozenset[int]
    """Those that call something."""

    def may_be_over(self, line: int) -> bool:
        """Whether nothing may be left to be done by it, and by what it calls, where that line was told last."""
        return line in self.ends and line not in self.calls

    def may_have_left(self, before: int, line: int, lines: Collection[int], untold: Collection[int]) -> bool:
        """Whether between these two, the one told next after the other, other lines than `lines` may have been passed,
        or the function may have returned and been called anew, as it must have where the one cannot follow the other.
        `untold` are those of which nobody is told any more."""
        stays = {before}
        left: set[int] = set()
        waiting = [(before, False)]
        arrives = False
        while waiting:
            at, out = waiting.pop()
            nexts = [(one, out) for one in self.follows.get(at, ())]
            nexts += [(self.begins, True)] if at in self.ends else []
            for one, is_out in nexts:
                if one == line and is_out:
                    return True
                arrives |= one == line
                is_out |= one not in lines
                seen = left if is_out else stays
                if one in untold and one not in seen:
                    seen.add(one)
                    waiting.append((one, is_out))
        return not arrives


def course_of(code: CodeType) -> Course:
    steps = [*dis.get_instructions(code)]
    lines = {one.offset: line_of(one) for one in steps}
    nexts = {one.offset: [*_nexts(one, after)] for one, after in zip_longest(steps, steps[1:])}
    begun = [one.offset for one in steps if one.opname == _HANDLES]
    handlers = {line for at in begun if (line := lines[at]) is not None}
    handlers |= {line for at in begun if lines[at] is None for line, _ in _lines_after(at, nexts, lines)}
    follows: dict[int, set[int]] = {}
    for one in steps:
        line = lines[one.offset]
        if line is not None:
            after = {told for told, back in _lines_after(one.offset, nexts, lines) if told != line or back}
            follows.setdefault(line, set()).update(after, handlers)
    first = (lines[one.offset] for one in steps if not is_of_the_call(one, lines[one.offset], code))
    return Course(
        next((line for line in first if line is not None), code.co_firstlineno),
        {line: frozenset(after) for line, after in follows.items()},
        frozenset(_lines_of(steps, lambda one: one.opname in _RETURNS)),
        frozenset(_lines_of(steps, lambda one: one.opname.startswith("CALL"))),
    )


def _nexts(one: dis.Instruction, after: dis.Instruction | None) -> Iterator[int]:
    if one.opcode in JUMPS and isinstance(one.argval, int):
        yield one.argval
    if one.opname not in _GO_NOT_ON and after is not None:
        yield after.offset


def _lines_after(
    offset: int, nexts: Mapping[int, Sequence[int]], lines: Mapping[int, int | None]
) -> Iterator[tuple[int, bool]]:
    """The lines that can be told after an instruction, and whether by a jump back: who jumps back within a line begins
    it again. What the compiler has added has none, and is passed over."""
    waiting = [(offset, False)]
    seen = set()
    while waiting:
        at, back = waiting.pop()
        for to in nexts[at]:
            step = to, back or to <= at
            line = lines[to]
            if line is not None:
                yield line, step[1]
            elif step not in seen:
                seen.add(step)
                waiting.append(step)


def _lines_of(steps: Sequence[dis.Instruction], wanted: Callable[[dis.Instruction], bool]) -> Iterator[int]:
    """Of what the compiler has added, that of what comes before it."""
    line: int | None = None
    for one in steps:
        line = line_of(one) or line
        if line is not None and wanted(one):
            yield line
