"""The rows of a query as records hold them: canonical, so that equal rows are equal texts on every run, and different
ones are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....contracts.query import Query
from ....core.errors import InvalidOperator
from ....core.events import Event, Value
from ....judging import shapes
from ....judging.outputs import row_number
from ....judging.shapes import keyed
from .row_values import canonical_row, unrecordable

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType


def check_schema(query: Query, schema: StructType) -> None:
    """Raises InvalidOperator where rows of this schema cannot be recorded without loss, as where two columns have one
    name."""
    why = unrecordable(schema)
    if why:
        raise InvalidOperator(f"query {query.name!r}: its output cannot be recorded: {why}")


def canonical_rows(query: Query, rows: Sequence[Row], batch: int, schema: StructType | None = None) -> list[Event]:
    """What a sink was given in a batch, in a fixed order. With a key, a row's key and what else it has; without, each
    row and how often it is there.

    Raises InvalidOperator where a key comes twice in update mode, or a value cannot be recorded.
    """
    if query.shape.keyed_outputs:
        found = _keyed(query, rows, batch, schema)
    else:
        found = dict(Counter(row_text(query, row, schema) for row in rows))
    return [Event(query.name, row_number(batch, place), key, found[key], 0) for place, key in enumerate(sorted(found))]


def canonical_table(query: Query, rows: Sequence[Row], schema: StructType | None = None) -> dict[str, Value]:
    """What a consumer read: each row, and how often it is there."""
    return dict(sorted(Counter(row_text(query, row, schema) for row in rows).items()))


def row_text(query: Query, row: Row, schema: StructType | None = None) -> str:
    """A row as JSON. A name of a column, or a field, can be no text that UTF-8 has."""
    try:
        return shapes.text_of(_plain(query, row, schema))
    except UnicodeEncodeError as error:
        raise InvalidOperator(f"query {query.name!r} gives {row!r}, which cannot be recorded: {error}") from error


def _keyed(query: Query, rows: Sequence[Row], batch: int, schema: StructType | None) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for row in rows:
        plain = _plain(query, row, schema)
        missing = [column for column in query.key if column not in plain]
        if missing:
            raise InvalidOperator(
                f"query {query.name!r}: its output has no column {missing[0]!r}; it has: {', '.join(plain)}"
            )
        key, value = keyed(plain, query.key)
        if key in found:
            raise InvalidOperator(
                f"query {query.name!r} gives the key {key!r} twice in batch {batch}; "
                f"{query.mode} mode with a key has one row"
            )
        found[key] = value
    return found


def _plain(query: Query, row: Row, schema: StructType | None) -> dict[str, Value]:
    try:
        return canonical_row(row, schema)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidOperator(f"query {query.name!r} gives {row!r}, which cannot be recorded: {error}") from error
