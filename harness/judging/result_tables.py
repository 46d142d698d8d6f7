"""The table that a query has left in the end, and the one that it leaves without failures, as rows with their columns.

It is T of `references`: of each batch what was delivered last, or what a consumer has read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from ..core.events import Value
from ..recording.history import History
from ..recording.records import Kept
from .keyed_outputs import keyed_table
from .outputs import deliveries, last_of_each
from .references import BATCH_JOB, DRIVER, REFERENCES, SINK
from .shapes import OutputMode, OutputShape, text_of
from .tables import Table, columns_of, table_of
from .unkeyed_outputs import unkeyed_table

VALUE = "value"
"""What the one column beside the key is called where the record does not have its name."""


@dataclass(frozen=True)
class ResultTables:
    """What the result should be, and what it is."""

    wanted: Table
    found: Table
    key: tuple[str, ...]
    """The columns that name a row; none where the table is a multiset."""


def result_tables(
    history: History, shape: OutputShape, column: str = "", *, of_reference: bool = False
) -> ResultTables | None:
    """By the runs without failures, and by the judged run, or by the second of the others. None where a table was not
    read. `column` is what the one beside the key is called where nothing else has its name."""
    if shape.reads:
        kept = {one.actor: one.rows for one in history.each(Kept)}
        wanted, found = kept.get(REFERENCES[0]), kept.get(REFERENCES[1] if of_reference else DRIVER)
        if wanted is None or found is None:
            return None
        return ResultTables(table_of(wanted), table_of(found), shape.key)
    reference, judged = (deliveries(history, sink) for sink in (REFERENCES[0], REFERENCES[1] if of_reference else SINK))
    if not shape.keyed_outputs:
        return ResultTables(unkeyed_table(reference, shape.mode), unkeyed_table(judged, shape.mode), shape.key)
    only = _only_column(history, shape) or column or VALUE
    wanted_rows, found_rows = (
        _rows_of({key: row.value for key, row in keyed_table(given, shape.mode).items()}, shape, only)
        for given in (reference, judged)
    )
    return ResultTables(wanted_rows, found_rows, shape.key)


def equal_rows(history: History, shape: OutputShape) -> int:
    """How many rows of the result without failures are equal to another one with which they are compared: of a table
    that is read anywhere in it, of what a sink was given in the same batch, where batches are cut alike each time."""
    tables = result_tables(history, shape, of_reference=True)
    if tables is None:
        return 0
    given = [tables.wanted]
    if not (shape.reads or shape.keyed_outputs or shape.own_source or shape.mode is OutputMode.COMPLETE):
        given = [batch.counts for batch in last_of_each(deliveries(history, REFERENCES[0])).values()]
    return sum(count for table in given for count in table.values() if count > 1)


def _only_column(history: History, shape: OutputShape) -> str:
    """The one column beside the key, by what a batch job over the same input gave, whose rows are recorded whole; empty
    where there was none, or there are several."""
    opinion = next((one for one in history.each(Kept) if one.actor == BATCH_JOB), None)
    columns = columns_of(next(iter(opinion.rows), "{}")) if opinion is not None else {}
    others = [name for name in columns if name not in shape.key]
    return others[0] if len(others) == 1 else ""


def _rows_of(values: Mapping[str, Value], shape: OutputShape, only: str) -> Table:
    """Whole rows of what was recorded by key."""
    rows: Iterable[dict[str, Value]] = (
        {**_key_columns(key, shape), **(value if isinstance(value, dict) else {only: value})}
        for key, value in values.items()
    )
    return Counter(map(text_of, rows))


def _key_columns(key: str, shape: OutputShape) -> dict[str, Value]:
    """A key of one column that is no text stays the text that it was recorded by."""
    if len(shape.key) > 1:
        return dict(zip(shape.key, msgspec.json.decode(key), strict=True))
    if key.startswith('"'):
        return {shape.key[0]: msgspec.json.decode(key)}
    return {shape.key[0]: None if key == "null" else key}
