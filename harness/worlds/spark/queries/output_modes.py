"""The output mode of a stream that a query's own `write` hands over: the query's, which `write` may not contradict.

Whoever starts the stream sets the mode last, and another mode is another query: in append mode, a window comes once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from ....contracts.query import Query
from ....core.errors import InvalidOperator


class ModesSaid:
    """What `outputMode` of writers was called with, the last time of each."""

    def __init__(self) -> None:
        self._said: list[tuple[object, str]] = []

    def note(self, writer: object, mode: str) -> None:
        self._said.append((writer, mode))

    def check(self, query: Query, writer: object) -> None:
        """Raises InvalidOperator where the writer was given another mode than the query has."""
        said = next((mode for one, mode in reversed(self._said) if one is writer), query.mode.value)
        mode = said.strip().lower()
        if mode != query.mode:
            raise InvalidOperator(
                f"query {query.name!r}: write says outputMode({said!r}), and the query is in {query.mode} mode, "
                f"with which it would be started: say Query(..., mode={mode!r}), or --mode"
            )


@contextmanager
def modes_said(writers: Any) -> Iterator[ModesSaid]:
    """By whoever makes a writer of this class meanwhile, Spark's `DataStreamWriter`."""
    said = ModesSaid()
    really: Callable[..., Any] = writers.outputMode

    @wraps(really)
    def noted(writer: object, *args: Any, **named: Any) -> Any:
        given = really(writer, *args, **named)
        said.note(given, str([*args, *named.values()][0]))
        return given

    writers.outputMode = noted
    try:
        yield said
    finally:
        writers.outputMode = really
