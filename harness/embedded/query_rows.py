"""The rows of a query as records hold them: canonical, so that equal rows are equal texts on every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import InvalidOperator
from ..judging import shapes
from ..judging.references import row_number
from ..judging.shapes import keyed
from ..model import Event, Value
from ..query import Query

if TYPE_CHECKING:
    from pyspark.sql import Row


def canonical_rows(query: Query, rows: Sequence[Row], batch: int) -> list[Event]:
    """What a sink was given in a batch, in a fixed order. With a key, a row's key and what else it has; without, each
    row and how often it is there.

    Raises InvalidOperator where a key comes twice in update mode, or a value cannot be recorded.
    """
    found = (
        _keyed(query, rows, batch) if query.shape.keyed_outputs else dict(Counter(text_of(query, row) for row in rows))
    )
    return [Event(query.name, row_number(batch, place), key, found[key], 0) for place, key in enumerate(sorted(found))]


def canonical_table(query: Query, rows: Sequence[Row]) -> dict[str, Value]:
    """What a consumer read: each row, and how often it is there."""
    return dict(sorted(Counter(text_of(query, row) for row in rows).items()))


def text_of(query: Query, row: Row) -> str:
    """A row as JSON."""
    return shapes.text_of(_plain(query, row))


def _keyed(query: Query, rows: Sequence[Row], batch: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for row in rows:
        plain = _plain(query, row)
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


def _plain(query: Query, row: Row) -> dict[str, Value]:
    values = row.asDict(recursive=True)
    try:
        plain: dict[str, Value] = _numbered(msgspec.to_builtins(values))
    except (TypeError, ValueError) as error:
        raise InvalidOperator(f"query {query.name!r} gives {values!r}, which cannot be recorded: {error}") from error
    return plain


def _numbered(value: Any) -> Any:
    """With the texts that Spark writes for numbers that JSON has none for: without them they would all be null, and
    what is no number would never equal itself."""
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _numbered(one) for name, one in value.items()}
    return [_numbered(one) for one in value] if isinstance(value, list) else value
