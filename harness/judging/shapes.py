"""What judging needs to know of a query's output: how its rows make a table, and who reads that table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import msgspec

from ..core.events import Value


class OutputMode(StrEnum):
    """Spark's output modes: how the rows of the batches make a table."""

    APPEND = "append"
    """Every row of every batch is a row of the table."""
    UPDATE = "update"
    """A row replaces the one of its key."""
    COMPLETE = "complete"
    """Each batch gives the whole table."""


@dataclass(frozen=True)
class OutputShape:
    """The part of a query's description that its runs are judged by, without the user's code."""

    mode: OutputMode
    key: tuple[str, ...] = ()
    """The key columns of the table; empty where it is a multiset of rows."""
    reads: bool = False
    """Whether a consumer reads the table at the end: then that is what is judged, and not what a sink was given."""
    own_source: bool = False
    """Whether the input comes from a source of the user's, which may cut its batches otherwise after a failure."""

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Self:
        """From a query's description, which has at least `mode`, `key` and `reads`, and names a source of the user's
        under `code`.

        Raises KeyError where one of them is missing, ValueError for a mode that Spark does not have and for what is of
        another kind: a text, too, could be gone through as columns, and any value taken for a yes or a no.
        """
        key, reads, code = description["key"], description["reads"], description.get("code", {})
        if not isinstance(key, list | tuple) or not all(isinstance(column, str) for column in key):
            raise ValueError(f"its key is {str(key)[:80]!r}, and no list of columns")
        if not isinstance(reads, bool):
            raise ValueError(f"whether its table is read is {str(reads)[:80]!r}, and neither true nor false")
        if not isinstance(code, Mapping):
            raise ValueError(f"its code is {str(code)[:80]!r}, and no table of its parts")
        return cls(OutputMode(description["mode"]), tuple(key), reads, has_own_source(description))

    @property
    def keyed_outputs(self) -> bool:
        """Whether what the harness's sink is given is recorded by key, and not as whole rows with their number."""
        return bool(self.key) and self.mode is not OutputMode.APPEND


_NULL = "null"
_json = msgspec.json.Encoder(order="sorted")


def text_of(value: Value) -> str:
    """A row, or a part of it, as canonical JSON."""
    return _json.encode(value).decode()


def keyed(row: Mapping[str, Value], key: Sequence[str]) -> tuple[str, Value]:
    """A row's key as text, and what else it has: the value of its one other column, or an object of all of them.

    A key of one string is that string, any other is JSON; so is a string that would else be taken for no value at all.
    Raises KeyError where a key column is missing.
    """
    columns = [row[column] for column in key]
    rest = {column: value for column, value in row.items() if column not in key}
    only = columns[0] if len(columns) == 1 else None
    text = only if isinstance(only, str) and _is_plain(only) else text_of(_one(columns))
    return text, next(iter(rest.values())) if len(rest) == 1 else rest


def _is_plain(key: str) -> bool:
    """Whether it is taken for nothing else."""
    return key != _NULL and not key.startswith('"')


def _one(columns: list[Value]) -> Value:
    return columns[0] if len(columns) == 1 else columns


def has_own_source(description: Mapping[str, Any]) -> bool:
    """Whether a subject, by its description, is a query that reads what no workload gave it."""
    return "source" in description.get("code", {})
