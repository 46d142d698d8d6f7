"""Which of the user's functions may look away from an error without a line of theirs that says so, as far as their
code says it by names."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

from .own_lines import codes_in, functions_whose_code

if TYPE_CHECKING:
    from types import CodeType, FunctionType

    from ...contracts.query import Query

_SUPPRESSING: Final = frozenset({"suppress"})
_GIVEN: Final = frozenset({"return_exceptions", "raise_on_giveup", "retry_error_callback"})
"""What `asyncio.gather`, backoff and tenacity are told by a name, so that an error is no error any more."""
_ASYNC: Final = frozenset({"apply_async", "map_async", "starmap_async"})
_HANDED_OVER: Final = _ASYNC | {"submit", "create_task"}
_ASKED_FOR: Final = frozenset({"result", "exception", "gather", "TaskGroup"})
"""By what an error of what was handed over comes back; else it stays where it was."""
_GET: Final = "get"
"""The same, of `_ASYNC`; else it is of anything."""
_THREADS: Final = frozenset({"Thread", "InheritableThread"})
"""Nobody can ask them for an error."""
_EXECUTORS: Final = frozenset({"ThreadPoolExecutor", "ProcessPoolExecutor"})
_POOLS: Final = frozenset({"ThreadPool", "Pool"})
_BIT_BY_BIT: Final = frozenset({"imap", "imap_unordered"})
"""Of `_POOLS`, what raises an error where somebody asks for what came of it; so does `map` of `_EXECUTORS`."""
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def functions_that_look_away(query: Query) -> tuple[str, ...]:
    """Their names (`sinks.write`), in order. A handler of theirs has lines, which are run or are not."""
    return functions_whose_code(query, _looks_away)


def _looks_away(function: FunctionType, code: CodeType) -> bool:
    own = {*code.co_names}
    if own & (_SUPPRESSING | _THREADS) or _GIVEN & _keywords(code):
        return True
    names = {name for one in codes_in(function.__code__) for name in one.co_names}
    asked_for = names & (_ASKED_FOR | ({_GET} if names & _ASYNC else set()))
    if own & _HANDED_OVER and not asked_for:
        return True
    executors = names & _EXECUTORS or any(isinstance(function.__globals__.get(name), Executor) for name in own)
    bit_by_bit = ({"map"} if executors else set()) | (_BIT_BY_BIT if names & _POOLS else set())
    return bool(own & bit_by_bit) and not bit_by_bit.isdisjoint(_called_for_nothing(code))


def _called_for_nothing(code: CodeType) -> Iterator[str]:
    """The methods whose results it drops where it calls them."""
    methods: dict[tuple[int | None, int | None], str] = {}
    """By where what is called begins, the last one before."""
    called = ""
    for one in dis.get_instructions(code):
        begins = (None, None) if one.positions is None else one.positions[0::2]
        if one.opname in _ATTRIBUTES:
            methods[begins] = str(one.argval)
        if one.opname == "POP_TOP" and called:
            yield called
        called = methods.get(begins, "") if one.opname.startswith("CALL") else ""


def _keywords(code: CodeType) -> set[str]:
    """What it gives by a name when it calls."""
    given = (one if isinstance(one, tuple) else (one,) for one in code.co_consts)
    return {name for names in given for name in names if isinstance(name, str)}
