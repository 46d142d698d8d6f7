"""How much a slice may lose at its next failure, so that all its failures together stay within a bound (AF-Stream,
section 3.5.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import isnan

from ...harness.core.errors import InvalidScenario
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
    """Counts the failures of a slice that count in its present window. What it does not know it takes for recent, which
    makes thresholds smaller than they need be, and never larger."""

    def __init__(self, window: ThresholdWindow | None) -> None:
        self._window = window
        self._incarnation = 1
        self._time = -1
        """How far event time has come."""
        self._forgotten = 0
        """Failures that count no more: so many of the first."""
        self._since: list[int] = []
        """Event time by which each later one had happened, as far as that is known."""

    @property
    def count(self) -> int:
        return self._incarnation - 1 - self._forgotten

    def begin(self, incarnation: int) -> None:
        self._incarnation = incarnation

    def passed(self, time: int) -> bool:
        """Event time has come so far. Returns whether fewer failures count now."""
        window, before = self._window, self._forgotten
        if window is None or window.kind is WindowKind.DECAYING or time <= self._time:
            return False
        if window.kind is WindowKind.HOPPING:
            if time // window.length > self._time // window.length and self._time >= 0:
                self._forgotten = self._incarnation - 1
        else:
            while len(self._since) < self.count:
                self._since.append(time)
            while self._since and self._since[0] + window.length < time:
                self._since.pop(0)
                self._forgotten += 1
        self._time = time
        return self._forgotten > before

    def save(self) -> list[int]:
        return [self._forgotten, self._time, *self._since]

    def restore(self, saved: list[int]) -> None:
        self._forgotten, self._time, *self._since = saved
