"""How much a slice may lose at its next failure, so that all its failures together stay within a bound (AF-Stream,
section 3.5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isnan
from typing import Final

from ...harness.core.errors import InvalidScenario
from ...harness.core.events import Event
from ...harness.core.proper import positive, proper


class WindowKind(StrEnum):
    """When a failure counts no more."""

    HOPPING = "hopping"
    """At the end of its window."""
    SLIDING = "sliding"
    """When it is older than the window."""
    DECAYING = "decaying"
    """Older input counts less and less, and so does what a failure took: thresholds are as given throughout."""


@dataclass(frozen=True)
class ThresholdWindow:
    """What the result of a computation is limited to, in milliseconds of event time."""

    kind: WindowKind
    length: int

    def __post_init__(self) -> None:
        proper(self.kind, WindowKind, "the kind of a window", "a WindowKind")
        positive(self.length, "the length of a window, in milliseconds,")


@dataclass(frozen=True)
class Thresholds:
    """What a slice may lose in all, in a window."""

    theta: float
    """Divergence of the state from what was backed up last."""
    l: float  # noqa: E741  It is the paper's.
    """Items that were received, and are neither processed nor backed up."""
    gamma: float
    """Outputs that are not acknowledged."""
    window: ThresholdWindow | None = None
    """None: the whole run."""

    def __post_init__(self) -> None:
        """Raises InvalidScenario for what is no threshold."""
        for name in ("theta", "l", "gamma"):
            amount = getattr(self, name)
            if isinstance(amount, bool) or not isinstance(amount, int | float) or isnan(amount) or amount < 0:
                raise InvalidScenario(f"the threshold {name}={amount!r} is to be a number, 0 or more")
        proper(self.window, ThresholdWindow | None, "the window of thresholds", "a ThresholdWindow, or None")

    def divided(self, by: float) -> Thresholds:
        return replace(self, theta=self.theta / by, l=self.l / by, gamma=self.gamma / by)

    def after(self, failures: int) -> Thresholds:
        """Those in force after so many failures: half of what is left, each time."""
        if self.window is not None and self.window.kind is WindowKind.DECAYING:
            return self
        return self.divided(2.0 ** (failures + 1))


class Failures:
    """Counts the failures of a slice that count in its present window.

    Who is restored does not know how far its predecessor had come, but for what was durable. So nothing that is in a
    later window is processed before it is (`is_beyond`), and a failure is taken to have happened at the end of the
    window that had then begun; of a sliding window, of a quarter of one. That makes thresholds smaller than they need
    be, and never larger.
    """

    def __init__(self, window: ThresholdWindow | None) -> None:
        self._window = None if window is None or window.kind is WindowKind.DECAYING else window
        self._step = 1
        """What is durable tells event time as exactly as this."""
        if self._window is not None:
            hops = self._window.kind is WindowKind.HOPPING
            self._step = self._window.length if hops else max(1, self._window.length // _PARTS)
        self._incarnation = 1
        self._time = -1
        """How far event time has come."""
        self._durable = 0
        """How far it has by what is durable."""
        self._forgotten = 0
        """Failures that count no more: so many of the first."""
        self._since: list[int] = []
        """Event time by which each later one had happened."""

    @property
    def count(self) -> int:
        return self._incarnation - 1 - self._forgotten

    @property
    def windowed(self) -> bool:
        """Whether any failure ever counts no more."""
        return self._window is not None

    def is_beyond(self, time: int) -> bool:
        """Whether event time has not come so far by what is durable."""
        return self._window is not None and time // self._step > self._durable // self._step

    def within(self, events: Sequence[Event]) -> int:
        """How many of these come before the first that is beyond."""
        if self._window is None:
            return len(events)
        return next((place for place, event in enumerate(events) if self.is_beyond(event.time)), len(events))

    def reached(self, time: int) -> None:
        """What has this event time is durable."""
        self._durable = max(self._durable, time)

    def begin(self, incarnation: int) -> None:
        self._incarnation = incarnation
        if self._window is not None:
            latest = (self._durable // self._step + 1) * self._step - 1
            self._since += [latest] * (self.count - len(self._since))

    def passed(self, time: int) -> bool:
        """Event time has come so far. Returns whether fewer failures count now."""
        if self._window is None or time <= self._time:
            return False
        self._time = time
        left = [since for since in self._since if not self._is_over(self._window, since)]
        fewer = len(self._since) - len(left)
        self._since, self._forgotten = left, self._forgotten + fewer
        return fewer > 0

    def passed_all(self, events: Sequence[Event]) -> bool:
        """Event time has come as far as these."""
        return self._window is not None and self.passed(max([event.time for event in events]))

    def _is_over(self, window: ThresholdWindow, since: int) -> bool:
        if window.kind is WindowKind.HOPPING:
            return self._time // window.length > since // window.length
        return since + window.length < self._time

    def save(self) -> list[int]:
        return [self._forgotten, self._time, *self._since]

    def restore(self, saved: list[int]) -> None:
        self._forgotten, self._time, *self._since = saved
        self.reached(self._time)


_PARTS: Final = 4
"""Of a sliding window."""
