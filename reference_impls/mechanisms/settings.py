"""What is wrong with a setting must not come to light in the middle of a run."""

from __future__ import annotations

from types import UnionType

from ...harness.errors import InvalidScenario


def needs(given: object, kind: type | UnionType, what: str, wanted: str) -> None:
    """Raises InvalidScenario for a setting of another type."""
    if not isinstance(given, kind):
        raise InvalidScenario(f"{what} cannot be {given!r}; it is {wanted}")
