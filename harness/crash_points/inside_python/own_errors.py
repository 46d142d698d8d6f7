"""Which of the user's functions may look away from an error without a line of theirs that says so, as far as their
code says it by names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .names import module_of_code, name_in
from .own_lines import codes_in, own_functions

if TYPE_CHECKING:
    from types import CodeType

    from ...contracts.query import Query

_SUPPRESSING: Final = frozenset({"suppress"})
_GIVEN: Final = frozenset({"return_exceptions", "raise_on_giveup", "retry_error_callback"})
"""What `asyncio.gather`, backoff and tenacity are told by a name, so that an error is no error any more."""
_HANDED_OVER: Final = frozenset({"submit", "apply_async", "map_async", "create_task"})
_ASKED_FOR: Final = frozenset({"result", "get", "exception", "gather", "TaskGroup"})
"""By what an error of what was handed over comes back; else it stays where it was."""


def functions_that_look_away(query: Query) -> tuple[str, ...]:
    """Their names (`sinks.write`), in order. A handler of theirs has lines, which are run or are not."""
    found = set()
    for function in own_functions(query):
        codes = [*codes_in(function.__code__)]
        names = {name for code in codes for name in code.co_names}
        for code in codes:
            handed_over = bool(_HANDED_OVER & {*code.co_names}) and not _ASKED_FOR & names
            if _SUPPRESSING & {*code.co_names} or handed_over or _GIVEN & _keywords(code):
                # A comprehension is part of its function.
                own = function.__code__ if code.co_name.startswith("<") else code
                found.add(name_in(module_of_code(function), own))
    return tuple(sorted(found))


def _keywords(code: CodeType) -> set[str]:
    """What it gives by a name when it calls."""
    given = (one if isinstance(one, tuple) else (one,) for one in code.co_consts)
    return {name for names in given for name in names if isinstance(name, str)}
