"""What a history proves about its faults."""

from __future__ import annotations

from collections.abc import Sequence

from ..recording.history import FaultMissed, FaultStruck, History


class Faults:
    """What a history proves about its faults."""

    def __init__(self, history: History) -> None:
        self._struck = sorted(history.struck(), key=lambda struck: struck.stamp.at)
        self.unproven = self._unproven(history)

    def _unproven(self, history: History) -> str:
        for entry in history.timeline:
            if isinstance(entry, FaultMissed):
                return f"the trigger of fault {entry.number + 1} never came: {entry.fault}"
        for struck in self._struck:
            if not struck.bite.bit:
                return f"fault {struck.number + 1} did not bite ({struck.fault}): {struck.bite.why_not}"
        return ""

    def before(self, at: int) -> int | None:
        """The last fault that struck before a time."""
        return next((s.number for s in reversed(self._struck) if s.stamp.at <= at), None)

    def of(self, actors: Sequence[str]) -> FaultStruck | None:
        """The first fault that hit one of these, else the first of all."""
        hit = (s for s in self._struck if any(actor in s.bite.actors for actor in actors))
        return next(hit, next(iter(self._struck), None))
