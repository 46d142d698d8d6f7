"""Which of the user's functions ask for the time of day, as far as their code says so by names."""

from __future__ import annotations

import datetime
import dis
import re
import time
from types import FunctionType
from typing import TYPE_CHECKING, Final

from .names import module_of_code, name_in
from .own_lines import codes_in, own_functions

if TYPE_CHECKING:
    from ...contracts.query import Query

_CLOCKS: Final = (time, datetime, datetime.datetime, datetime.date)
_ASKING: Final = frozenset({"today", "now", "utcnow", "time_ns", "strftime", "localtime", "gmtime", "ctime"})
_OF_OTHERS: Final = frozenset({"now", "utcnow", "uuid1", "getmtime", "st_mtime", "st_mtime_ns", "formatdate"})
"""The same, of whatever: of a library (`pandas.Timestamp.now`), of a file that was written just now."""
_OTHER: Final = frozenset({"sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"})
"""What else is asked of `time`, of which `time.time` has no other name than itself."""
_BY_ITSELF: Final = tuple(
    getattr(time, name) for name in ("time", "time_ns", "strftime", "localtime", "gmtime", "ctime")
)
_OF_SPARK: Final = frozenset({"current_date", "curdate", "current_timestamp", "localtimestamp", "unix_timestamp"})
_BY_PROCESSING: Final = frozenset({"setTimeoutDuration", "getCurrentProcessingTimeMs", "getCurrentProcessingTimeInMs"})
"""What a stateful operator forgets, or is called again for, so long after it has come."""
_TIME_TO_LIVE: Final = "ttlDurationMs"
"""The same, where it is given by that name."""
_PROCESSING_TIME: Final = frozenset({"processingtime", "processingtimetimeout"})
"""The time mode without which no state has a time to live, and the time-out, in small letters."""
_IN_SQL: Final = re.compile(r"\b(current_date|curdate|current_timestamp|localtimestamp)\b|\bnow\(\)", re.IGNORECASE)


def functions_that_ask_the_time(query: Query) -> tuple[str, ...]:
    """Their names (`sinks.write`), in order. What is called in turn, outside of the user's code, is not looked into."""
    found = {name for one in own_functions(query) for name in _asking(one)}
    if getattr(query.transform, "by_processing_time", False):
        found.add(f"{query.transform.__module__}.{query.transform.__qualname__}")
    return tuple(sorted(found))


def _asking(function: FunctionType) -> set[str]:
    """It, and functions within it."""
    found = set()
    for code in codes_in(function.__code__):
        names = set(code.co_names)
        imported = {one.argval for one in dis.get_instructions(code) if one.opname == "IMPORT_NAME"}
        held = [function.__globals__.get(name) for name in names]
        held += [clock for clock in (time, datetime) if clock.__name__ in imported]
        asks = bool(names & _ASKING) and any(one is clock for one in held for clock in _CLOCKS)
        asks |= bool(names & _OF_OTHERS)
        asks |= any(one is time for one in held) and not names & (_OTHER | _ASKING)
        asks |= any(one is clock for one in held for clock in _BY_ITSELF)
        asks |= bool(names & _BY_PROCESSING)
        asks |= any(isinstance(one, tuple) and _TIME_TO_LIVE in one for one in code.co_consts)
        said = (one for one in (*code.co_consts, *names, *held) if isinstance(one, str))
        asks |= any(one.lower() in _PROCESSING_TIME for one in said)
        if asks or names & _OF_SPARK or any(isinstance(one, str) and _IN_SQL.search(one) for one in code.co_consts):
            found.add(name_in(module_of_code(function), code))
    return found
