"""What judging needs to know of a query's output: how its rows make a table, and who reads that table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


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

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Self:
        """From a query's description, which has at least `mode`, `key` and `reads`.

        Raises KeyError where one of them is missing, ValueError for a mode that Spark does not have.
        """
        return cls(OutputMode(description["mode"]), tuple(description["key"]), bool(description["reads"]))
