"""What is due in a simulated world, and when. The one order of everything that happens in it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappush
from typing import Any

Action = Callable[..., object]
QueueEntry = tuple[int, int, Action, tuple[Any, ...]]
"""When, its place among what is due at the same time, what to do, and with what."""

_URGENT = -(1 << 60)


class EventQueue:
    """Virtual time and a queue. Who runs it pops entries and moves `now`."""

    __slots__ = ("_urgent", "now", "order", "queue")

    def __init__(self) -> None:
        self.now = 0
        """Microseconds."""
        self.order = 0
        """The last place that was given away."""
        self.queue: list[QueueEntry] = []
        self._urgent = _URGENT

    def at(self, when: int, action: Action, *given: Any) -> None:
        self.order += 1
        heappush(self.queue, (when, self.order, action, given))

    def keep_free(self, places: int) -> int:
        """So many places, for what is to come before all that is added from now on and is due at the same time. Returns
        the first of them."""
        self.order += places
        return self.order - places + 1

    def at_place(self, place: int, when: int, action: Action, *given: Any) -> None:
        """At one of the places that were kept free."""
        heappush(self.queue, (when, place, action, given))

    def later(self, delay: int, action: Action, *given: Any) -> None:
        self.order += 1
        heappush(self.queue, (self.now + delay, self.order, action, given))

    def next(self, action: Action, *given: Any) -> None:
        """Now, before all else that is due now, and after what was said to be next before."""
        self._urgent += 1
        heappush(self.queue, (self.now, self._urgent, action, given))

    def take(self, wanted: Callable[[Action, tuple[Any, ...]], bool]) -> list[QueueEntry]:
        """Remove entries, and return them in their order."""
        taken = sorted((e for e in self.queue if wanted(e[2], e[3])), key=lambda entry: entry[:2])
        if taken:
            self.queue[:] = [e for e in self.queue if not wanted(e[2], e[3])]
            heapify(self.queue)
        return taken
