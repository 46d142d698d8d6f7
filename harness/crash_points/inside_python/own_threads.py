"""Which of the user's functions may have several things done side by side, as far as their code says so by names."""

from __future__ import annotations

from concurrent.futures import Executor
from multiprocessing.pool import Pool
from typing import TYPE_CHECKING, Final

from .own_lines import functions_whose_code

if TYPE_CHECKING:
    from types import CodeType, FunctionType

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
    return functions_whose_code(query, _asks)


def _asks(function: FunctionType, code: CodeType) -> bool:
    names = {*code.co_names}
    pools = any(isinstance(function.__globals__.get(name), Executor | Pool) for name in names)
    return pools or bool(names & (_KINDS | _ASKING))
