"""Parts of a query as subjects: an operator alone, a sink's function alone. What is around it is the plainest there is.

A function of the user's that has one more parameter than Spark gives it is given the run's RunFolders there, and so is
a class that is made with an argument: it can store what it writes where each run has a place of its own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ..core.errors import InvalidScenario
from ..judging.shapes import OutputMode
from .claims import Claim
from .query import Query, Read, RunFolders, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The state store that a StatefulProcessor needs."""
NO_TIMEOUT, EVENT_TIMEOUT = "NoTimeout", "EventTimeTimeout"
_TIMEOUTS = (NO_TIMEOUT, EVENT_TIMEOUT, "ProcessingTimeTimeout")
_TIME_MODES = ("none", "eventTime", "processingTime")
_PROCESSING_TIME = "processingtime"
"""How a time mode begins, or a time-out, that goes by it."""

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")


class QuerySettings(TypedDict, total=False):
    """What else a Query can be told."""

    name: str
    source: Read
    schema: str
    stores: tuple[Store, ...]
    settings: Mapping[str, str]
    secrets: Mapping[str, str]
    packages: tuple[str, ...]
    jars: tuple[str, ...]
    claims: tuple[Claim, ...]
    batch_events: int
    accepts: tuple[str, ...]
    spark: str


def foreach_batch(
    function: Callable[..., None], read: Read, *, key: tuple[str, ...] = (), **surroundings: Unpack[QuerySettings]
) -> Query:
    """A function (frame, batch id) as `foreachBatch` calls it, or (frame, batch id, folders). It is given the source's
    frame.

    Raises InvalidScenario for a function that takes something else.
    """
    return Query(as_it_comes, write=_ForeachBatch(function), read=read, key=key, **_named(function, surroundings))


def foreach(writer: Any, read: Read, *, key: tuple[str, ...] = (), **surroundings: Unpack[QuerySettings]) -> Query:
    """What `foreach` takes, given the source's rows: a function (row) or (row, folders), an object with open, process
    and close, or the class of one, which is made for each run, with the run's folders where it takes an argument.

    Raises InvalidScenario for anything else.
    """
    return Query(as_it_comes, write=_Foreach(writer), read=read, key=key, **_named(writer, surroundings))


def processor(
    code: type[StatefulProcessor] | StatefulProcessor,
    output: str,
    mode: OutputMode | str = OutputMode.UPDATE,
    *,
    key: tuple[str, ...] = ("key",),
    time_mode: str = "none",
    watermark: str = "",
    rows: tuple[str, ...] | None = None,
    **surroundings: Unpack[QuerySettings],
) -> Query:
    """A StatefulProcessor of rows, as `transformWithState` runs it, on the source's frame grouped by `key`.

    `output` are the columns that it gives, in SQL's words; `time_mode` none, eventTime or processingTime; `watermark`
    how late an event may come (`10 seconds`), in event time none where it is not said. In update mode `rows` are the
    columns that name a row of the output, where these are not those of `key`.
    """
    return _processor("transformWithState", code, output, mode, key, time_mode, watermark, rows, surroundings)


def processor_in_pandas(
    code: type[StatefulProcessor] | StatefulProcessor,
    output: str,
    mode: OutputMode | str = OutputMode.UPDATE,
    *,
    key: tuple[str, ...] = ("key",),
    time_mode: str = "none",
    watermark: str = "",
    rows: tuple[str, ...] | None = None,
    **surroundings: Unpack[QuerySettings],
) -> Query:
    """A StatefulProcessor of pandas frames, as `transformWithStateInPandas` runs it; else as `processor`."""
    return _processor("transformWithStateInPandas", code, output, mode, key, time_mode, watermark, rows, surroundings)


def pandas_with_state(
    function: Callable[..., Any],
    output: str,
    state: str,
    mode: OutputMode | str = OutputMode.UPDATE,
    timeout: str = NO_TIMEOUT,
    *,
    key: tuple[str, ...] = ("key",),
    watermark: str = "",
    rows: tuple[str, ...] | None = None,
    **surroundings: Unpack[QuerySettings],
) -> Query:
    """A function (key, pandas frames, state) as `applyInPandasWithState` calls it, on the source's frame grouped by
    `key`.

    `output` and `state` are columns, in SQL's words; `timeout` NoTimeout, EventTimeTimeout or ProcessingTimeTimeout;
    the rest is as for `processor`.
    """
    if timeout not in _TIMEOUTS:
        raise InvalidScenario(f"timeout={timeout!r}; there are: {_quoted(_TIMEOUTS)}")
    arguments = (output, state, _spark_mode(mode), timeout)
    late = watermark or ("0 seconds" if timeout == EVENT_TIMEOUT else "")
    transform = _Grouped("applyInPandasWithState", function, arguments, key, late)
    return Query(transform, mode=OutputMode(mode), key=_table(mode, key, rows), **_named(function, surroundings))


def as_it_comes(frame: DataFrame) -> DataFrame:
    return frame


def _processor(
    method: str,
    code: type[StatefulProcessor] | StatefulProcessor,
    output: str,
    mode: OutputMode | str,
    key: tuple[str, ...],
    time_mode: str,
    watermark: str,
    rows: tuple[str, ...] | None,
    surroundings: QuerySettings,
) -> Query:
    # Spark reads them in any case.
    if not isinstance(time_mode, str) or time_mode.lower() not in map(str.lower, _TIME_MODES):
        raise InvalidScenario(f"time_mode={time_mode!r}; there are: {_quoted(_TIME_MODES)}")
    late = watermark or ("0 seconds" if time_mode.lower() == "eventtime" else "")
    transform = _Grouped(method, code, (output, _spark_mode(mode), time_mode), key, late)
    known = _named(code, surroundings)
    known["settings"] = {STATE_STORE: ROCKSDB, **known.get("settings", {})}
    return Query(transform, mode=OutputMode(mode), key=_table(mode, key, rows), **known)


class _Part:
    """Stands for the user's code in a query, and goes by its name, module and text."""

    def __init__(self, code: Any) -> None:
        self.code = code
        itself: Any = self
        # Without its attributes: those of a class are its methods.
        update_wrapper(itself, code, updated=())


class _ForeachBatch(_Part):
    def __init__(self, function: Callable[..., None]) -> None:
        super().__init__(function)
        self._with_folders = _takes_folders(function, 2, "(frame, batch_id) or (frame, batch_id, folders)")

    def __call__(self, rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
        return rows.writeStream.foreachBatch(_given(self.code, folders) if self._with_folders else self.code)


class _Foreach(_Part):
    def __init__(self, writer: Any) -> None:
        super().__init__(writer)
        self._made = isinstance(writer, type)
        self._with_folders = False
        if self._made:
            self._with_folders = _takes_folders(writer, 0, "no argument, or the folders of a run")
        elif not hasattr(writer, "process"):
            self._with_folders = _takes_folders(writer, 1, "(row) or (row, folders)")

    def __call__(self, rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
        writer = self.code
        if self._made:
            writer = writer(folders) if self._with_folders else writer()
        elif self._with_folders:
            writer = _given(writer, folders)
        return rows.writeStream.foreach(writer)


class _Grouped(_Part):
    """An operator on groups."""

    def __init__(
        self, method: str, code: Any, arguments: tuple[str, ...], key: tuple[str, ...], watermark: str
    ) -> None:
        super().__init__(code)
        if isinstance(key, str) or not key:
            raise InvalidScenario(f'key={key!r} must name the columns to group by, as in ("user",)')
        self._method = method
        self.needs = (method,)
        self._arguments = arguments
        self.by_processing_time = arguments[-1].lower().startswith(_PROCESSING_TIME)
        """Whether its state goes by the time of day."""
        self._key = tuple(key)
        self._watermark = watermark

    def __call__(self, frame: DataFrame) -> DataFrame:
        operator = self.code() if isinstance(self.code, type) else self.code
        timed = frame.withWatermark("timestamp", self._watermark) if self._watermark else frame
        output: DataFrame = getattr(timed.groupBy(*self._key), self._method)(operator, *self._arguments)
        return output


def _given(function: Callable[..., Any], folders: RunFolders) -> Callable[..., Any]:
    def with_folders(*arguments: DataFrame | Row | int) -> Any:
        return function(*arguments, folders)

    return with_folders


def _takes_folders(function: Any, arguments: int, wanted: str) -> bool:
    """Whether it takes one argument more than so many. Raises InvalidScenario when it takes neither."""
    if not callable(function):
        raise InvalidScenario(f"{function!r} must be a function; it takes {wanted}")
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Built in: there is no telling.
        return False
    for more in (0, 1):
        if _binds(signature, arguments + more):
            return bool(more)
    raise InvalidScenario(f"{getattr(function, '__name__', function)!s}{signature} must take {wanted}")


def _binds(signature: inspect.Signature, arguments: int) -> bool:
    try:
        signature.bind(*[None] * arguments)
    except TypeError:
        return False
    return True


def _named(code: Any, surroundings: QuerySettings) -> QuerySettings:
    """With a name, which is that of the user's code where none is given."""
    found = code.func if isinstance(code, partial) else code
    name = getattr(found, "__name__", type(found).__name__).strip("_")
    words = "query" if name == "<lambda>" else "-".join(_WORDS.split(name)).lower()
    return {**surroundings, "name": surroundings.get("name") or words}


def _quoted(values: tuple[str, ...]) -> str:
    """As they are to be written: `None` is none of them, and "none" may be."""
    return ", ".join(f'"{value}"' for value in values)


def _spark_mode(mode: OutputMode | str) -> str:
    try:
        return OutputMode(mode).value
    except ValueError:
        raise InvalidScenario(f"mode={mode!r}; there are: {', '.join(OutputMode)}") from None


def _table(mode: OutputMode | str, key: tuple[str, ...], rows: tuple[str, ...] | None) -> tuple[str, ...]:
    if rows is not None:
        return rows
    return key if OutputMode(mode) is OutputMode.UPDATE else ()
