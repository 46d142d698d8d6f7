"""The harness's end that takes what comes out, and stamps its clock. It stands outside every fault domain."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from .history import History, Stamp, TimelineEntry
from .records import Record, Stamped

RunClock = Callable[[], int]
"""Microseconds since the run began."""


class Recorder(Protocol):
    """Takes records and timeline entries, in the order in which they reach it."""

    def note(self, at: int, record: Record) -> None: ...

    def log(self, entry: TimelineEntry) -> None: ...

    def deployed(self, facts: Mapping[str, object]) -> None:
        """What is known of the cluster only once it is up."""

    @property
    def latest(self) -> Stamp:
        """When the newest of what it has taken happened."""


class MemoryRecorder:
    """Keeps a history in memory: what exploration uses, where most histories are never looked at again."""

    def __init__(self) -> None:
        self.records: list[Stamped] = []
        self.timeline: list[TimelineEntry] = []

    def note(self, at: int, record: Record) -> None:
        self.records.append(Stamped(at, record))

    def log(self, entry: TimelineEntry) -> None:
        self.timeline.append(entry)

    def deployed(self, facts: Mapping[str, object]) -> None:
        """A history in memory says nothing of its cluster."""

    @property
    def latest(self) -> Stamp:
        return Stamp(
            max(self.records[-1].at if self.records else 0, self.timeline[-1].stamp.at if self.timeline else 0)
        )

    def history(self) -> History:
        return History(self.records, self.timeline)


class MonotonicClock:
    """The one clock of a run on a real cluster. Every process of the machine can read it, given its start."""

    def __init__(self, started_ns: int | None = None) -> None:
        self.started_ns = time.monotonic_ns() if started_ns is None else started_ns

    def __call__(self) -> int:
        return (time.monotonic_ns() - self.started_ns) // 1_000

    def stamp(self, when_ns: int | None = None) -> Stamp:
        """Now, or when the machine's monotonic clock showed `when_ns`."""
        return Stamp(self() if when_ns is None else (when_ns - self.started_ns) // 1_000)
