"""Which of the user's functions may have several things done side by side, as far as their code says so by names."""

from __future__ import annotations

from concurrent.futures import Executor
from multiprocessing.pool import Pool
from typing import TYPE_CHECKING, Final

from .names import module_of_code, name_in
from .own_lines import codes_in, own_functions

if TYPE_CHECKING:
    from ...contracts.query import Query

_KINDS: Final = frozenset(
    {"Thread", "InheritableThread", "ThreadPool", "ThreadPoolExecutor", "ProcessPoolExecutor", "Process", "TaskGroup"}
)
_ASKING: Final = frozenset(
    {"apply_async", "create_task", "ensure_future", "gather", "imap", "imap_unordered", "map_async", "run_in_executor"}
    | {"run_coroutine_threadsafe", "starmap_async", "submit", "to_thread"}
)
"""Of a pool or a loop, whosever that is."""


def functions_that_work_beside(query: Query) -> tuple[str, ...]:
    """Their names (`sinks.write`), in order. What is called in turn, outside of the user's code, is not looked into."""
    found = set()
    for function in own_functions(query):
        for code in codes_in(function.__code__):
            names = {*code.co_names}
            pools = any(isinstance(function.__globals__.get(name), Executor | Pool) for name in names)
            if pools or names & (_KINDS | _ASKING):
                # A comprehension is part of its function.
                own = function.__code__ if code.co_name.startswith("<") else code
                found.add(name_in(module_of_code(function), own))
    return tuple(sorted(found))
