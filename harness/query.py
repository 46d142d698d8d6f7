"""A Structured Streaming query as a subject: a black box between the harness's source and its recording sink."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .addresses import Point
from .errors import InvalidScenario
from .judging.collation import Collation
from .judging.references import DRIVER, collate_references
from .recording.history import History
from .subject import QUERY_POINTS, Claim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KIND = "structured-streaming-query"


@dataclass(frozen=True)
class Query:
    """`transform` makes the query of a streaming frame with the columns key, value (string), seq and time (long).

    It runs in update mode: each batch gives rows with the columns `key` (one or more; at most one row a key) and
    `value`, and a row replaces the one of its key in the table that they make. The harness fixes the batches,
    `batch_events` events each, so that every run of the query has the same ones. `transform` has to be picklable.
    """

    name: str
    transform: Callable[[DataFrame], DataFrame]
    key: tuple[str, ...]
    value: str
    claims: tuple[Claim, ...] = ()
    batch_events: int = 100

    kind = KIND

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidScenario("a query needs a name")
        if not callable(self.transform):
            raise InvalidScenario(
                f"query {self.name!r}: transform={self.transform!r} must be a function of a DataFrame"
            )
        if isinstance(self.key, str) or not self.key:
            raise InvalidScenario(f'query {self.name!r}: key={self.key!r} must name its key columns, as in ("word",)')
        if self.value in self.key or not self.value:
            raise InvalidScenario(
                f"query {self.name!r}: value={self.value!r} must name a column that is not of the key"
            )
        count = self.batch_events
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidScenario(f"query {self.name!r}: batch_events={count!r} needs a positive whole number")

    @property
    def actors(self) -> tuple[str, ...]:
        return (DRIVER,)

    @property
    def sources(self) -> tuple[str, ...]:
        return ("source",)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """None: what passes within Spark is its own."""
        return ()

    @property
    def points(self) -> frozenset[Point]:
        return QUERY_POINTS | {Point.STARTED}

    @property
    def observables(self) -> tuple[str, ...]:
        return ("outputs", "state")

    @property
    def checkpoint_every(self) -> int | None:
        """A query's checkpoints are its batches, not events of an actor."""
        return None

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "transform": f"{self.transform.__module__}:{getattr(self.transform, '__qualname__', '?')}",
            "source": _source_digest(self.transform),
            "key": list(self.key),
            "value": self.value,
            "batch_events": self.batch_events,
        }

    def collate(self, history: History) -> Collation:
        return collate_references(history)


def _source_digest(function: Callable[..., Any]) -> str | None:
    """SHA-256 of a function's text; None where it has none (typed in, or built in)."""
    try:
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
    except (OSError, TypeError):
        return None
