"""What the functions that make faults share: targets that can be meant."""

from __future__ import annotations

from ..harness.errors import InvalidScenario
from ..harness.quantities import Duration


def some(kind: str, targets: tuple[str, ...]) -> tuple[str, ...]:
    """Raises InvalidScenario without a target."""
    if not targets:
        raise InvalidScenario(f'{kind}() needs a target, as in {kind}("count-0")')
    return targets


def longer(kind: str, by: Duration) -> Duration:
    """Raises InvalidScenario unless `by` is an amount of time."""
    if not isinstance(by, Duration) or not by.micros:
        raise InvalidScenario(f"{kind}(by={by!r}) needs an amount of time, as in ms(50)")
    return by
