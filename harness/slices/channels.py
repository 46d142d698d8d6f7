"""The two ends of a channel, as a slice holds them."""

from __future__ import annotations

from collections import deque

from ..model import Event
from .messages import after


class OutputChannel:
    """What a slice has emitted towards one receiver: who listens, and what it may still ask for.

    Until a receiver opens the channel for the first time nothing is lost: the events wait, and go out whole when it
    does. From then on they go out as they come, and are kept only where there is an output log.
    """

    __slots__ = ("_kept", "_logged", "_waiting", "receiver")

    def __init__(self, logged: bool) -> None:
        self.receiver: int | None = None
        """The incarnation that listens; None before the first has opened the channel."""
        self._logged = logged
        self._kept: deque[list[Event]] = deque()
        self._waiting: list[list[Event]] = []

    def emit(self, events: list[Event]) -> int | None:
        """Take in what the slice emits. Returns the incarnation to send it to now, if one listens."""
        if self._logged:
            self._kept.append(events)
        if self.receiver is None:
            self._waiting.append(events)
        return self.receiver

    def open(self, receiver: int, seq: int) -> list[list[Event]]:
        """`receiver` listens from now on. Returns what to send it at once: of what others were sent before, what is
        logged after `seq`; and whatever has been waiting for the first to listen, as if it had come a moment
        later."""
        self.receiver = receiver
        waiting, self._waiting = self._waiting, []
        logged = list(self._kept)[: len(self._kept) - len(waiting)] if self._logged else []
        return [rest for events in logged if (rest := after(events, seq))] + waiting

    def acknowledge(self, upto: int) -> None:
        """Trim: drop the logged batches that end at or before `upto`."""
        while self._kept and self._kept[0][-1].seq <= upto:
            self._kept.popleft()

    def kept(self) -> list[Event]:
        return [event for events in self._kept for event in events]

    def restore(self, events: list[Event]) -> None:
        if events:
            self._kept.append(events)


class InputChannel:
    """What a slice has seen of one upstream slice."""

    __slots__ = ("ended", "incarnation", "mark")

    def __init__(self) -> None:
        self.incarnation = 0
        """The upstream incarnation that may speak; 0 before it is known."""
        self.mark = 0
        """The highest sequence number taken: this channel's entry of the timestamp vector."""
        self.ended = False
