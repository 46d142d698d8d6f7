"""When silence is a loss: which nodes have not been heard of for too long by one who listens."""

from __future__ import annotations


class SilenceWatch:
    """Looks around at regular intervals. Times are in seconds, on any clock that only goes on.

    One who was stopped, or busy, could hear nobody: where a look comes late, by so much longer the nodes may be silent.
    """

    def __init__(self, limit: float, every: float, now: float) -> None:
        self._limit = limit
        self._every = every
        self._looked = now
        self._heard: dict[str, float] = {}

    def heard(self, node: str, now: float) -> None:
        self._heard[node] = now

    def forget(self, node: str) -> None:
        self._heard.pop(node, None)

    def look(self, now: float) -> list[str]:
        """The nodes that have been silent for longer than the limit."""
        deaf, self._looked = max(0.0, now - self._looked - self._every), now
        self._heard = {node: min(now, when + deaf) for node, when in self._heard.items()}
        return [node for node, when in self._heard.items() if now - when > self._limit]
