"""The simulated disks: how long a node's writes take, and whether they succeed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .event_queue import Action, EventQueue


@dataclass(eq=False)
class SlowedDisk:
    """What one fault does to a node's disk."""

    by: int
    count: int = 0
    """Writes that it delayed."""


@dataclass(eq=False)
class FailingDisk:
    count: int = 0
    """Writes that it refused."""


@dataclass
class _Disturbed:
    slow: list[SlowedDisk] = field(default_factory=list)
    failing: list[FailingDisk] = field(default_factory=list)
    refused: list[tuple[Action, tuple[Any, ...]]] = field(default_factory=list)
    """What hosts write again once the disk takes it."""


class Disks:
    """A write takes a while, and happens in one step at its end. Each node has its own way to what they all share."""

    def __init__(self, event_queue: EventQueue, draw: Callable[[tuple[int, int]], int], delay: tuple[int, int]) -> None:
        self._event_queue = event_queue
        self._draw = draw
        self._delay = delay
        self._disturbed: dict[str, _Disturbed] = {}

    def begin(self, node: str, write: Action, *given: Any) -> None:
        """`write` is done when the disk has got that far."""
        delay = self._draw(self._delay)
        disturbed = self._disturbed.get(node)
        if disturbed is not None:
            for slow in disturbed.slow:
                slow.count += 1
                delay += slow.by
        self._event_queue.later(delay, write, *given)

    def refuses(self, node: str, write: Action, *given: Any) -> bool:
        """Whether the disk fails; then `write` is begun again when it does so no more."""
        disturbed = self._disturbed.get(node)
        if disturbed is None or not disturbed.failing:
            return False
        for failing in disturbed.failing:
            failing.count += 1
        disturbed.refused.append((write, given))
        return True

    def slow(self, node: str, by: int) -> SlowedDisk:
        slow = SlowedDisk(by)
        self._of(node).slow.append(slow)
        return slow

    def fail(self, node: str) -> FailingDisk:
        failing = FailingDisk()
        self._of(node).failing.append(failing)
        return failing

    def mend(self, node: str, fault: SlowedDisk | FailingDisk) -> None:
        disturbed = self._of(node)
        if isinstance(fault, SlowedDisk):
            disturbed.slow.remove(fault)
        else:
            disturbed.failing.remove(fault)
        if not disturbed.failing:
            refused, disturbed.refused = disturbed.refused, []
            for write, given in refused:
                self.begin(node, write, *given)
        if not disturbed.slow and not disturbed.failing:
            del self._disturbed[node]

    def _of(self, node: str) -> _Disturbed:
        return self._disturbed.setdefault(node, _Disturbed())
