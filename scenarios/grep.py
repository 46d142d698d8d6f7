"""Grep: lines that match go on, and one merger brings them together. Nothing is kept, so nothing diverges."""

from __future__ import annotations

import re

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .stateless import Forward


class Match(Operator[None]):
    """Passes on the lines in which a pattern is found."""

    fan_out = 1
    alpha = 0.0

    def __init__(self, pattern: str) -> None:
        """Raises InvalidOperator for what is no pattern."""
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise InvalidOperator(f"grep cannot look for {pattern!r}: {error}") from error

    def initial_state(self) -> None:
        return None

    def divergence(self, state: None, backup: None) -> float:
        return 0.0

    def process(self, event: Event, state: None) -> list[Output]:
        return [(event.key, event.value)] if self._pattern.search(event.value) else []

    def matches(self, line: str) -> bool:
        return self._pattern.search(line) is not None


def grep(pattern: str = "LETTER", parallelism: int = 2) -> Topology:
    """`parallelism` matchers (the paper has 10) and a merger: `match-0`, `match-1`, `merge-0`. To be fed with text."""
    return Topology(
        "grep",
        {"match": Stage(Match(pattern), parallelism), "merge": Stage(Forward())},
        (
            Edge("source", "match", Partitioning.FULL),
            Edge("match", "merge", Partitioning.MERGE),
            Edge("merge", "sink", Partitioning.MERGE),
        ),
    )
