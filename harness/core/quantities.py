"""Amounts with their unit, so that a scenario reads `checkpoint_every=events(500)` and cannot mean seconds."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from .errors import InvalidScenario
from .wording import counted

_MOST = 1e9
"""Of seconds or of milliseconds."""


@dataclass(frozen=True, order=True)
class Events:
    """A number of events."""

    count: int

    def __post_init__(self) -> None:
        """Raises InvalidScenario unless `count` is a positive whole number."""
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 1:
            raise InvalidScenario(f"events({self.count!r}) needs a positive whole number")

    def __str__(self) -> str:
        return counted(self.count, "event")


@dataclass(frozen=True, order=True)
class Duration:
    """A span of time in microseconds: virtual in the simulator, real on a cluster."""

    micros: int

    def __post_init__(self) -> None:
        """Raises InvalidScenario unless `micros` is a whole number that is not negative."""
        if not isinstance(self.micros, int) or isinstance(self.micros, bool) or self.micros < 0:
            raise InvalidScenario(
                f"Duration({self.micros!r}) needs whole microseconds that are not negative; ms() and seconds() make one"
            )

    @property
    def seconds(self) -> float:
        return self.micros / 1e6

    def __str__(self) -> str:
        return f"{self.seconds:g} s"


def events(count: int) -> Events:
    """Raises InvalidScenario unless `count` is a positive whole number."""
    return Events(count)


def ms(amount: float) -> Duration:
    """Milliseconds. Raises InvalidScenario unless `amount` is a non-negative number."""
    return Duration(round(_amount("ms", amount) * 1e3))


def seconds(amount: float) -> Duration:
    """Raises InvalidScenario unless `amount` is a non-negative number."""
    return Duration(round(_amount("seconds", amount) * 1e6))


def _amount(unit: str, amount: float) -> float:
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < _MOST:
        raise InvalidScenario(f"{unit}({amount!r}) needs a number that is not negative, and less than {_MOST:,.0f}")
    return amount


def is_finite(amount: float) -> bool:
    """Whether it is a number that can be reckoned with: not infinite, nor NaN, nor too large a whole one."""
    return -sys.float_info.max <= amount <= sys.float_info.max
