"""The two ends of a channel, as a slice holds them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field

from ..model import Event
from .messages import Anchor, Data, after

_Waiting = tuple[list[Event], list[Anchor] | None]


@dataclass(slots=True)
class _Listener:
    """One incarnation of a receiver."""

    acknowledged: int = 0
    replayed: int | None = None
    """Up to where the log has been replayed to it; None once that is completed."""
    stop: int | None = None
    """It needs nothing out of the log from this number on."""


class OutputChannel:
    """What a slice has emitted towards one receiver: who listens, and what may still be asked for.

    Until a receiver opens the channel for the first time nothing is lost: the events wait, and go out whole when it
    does. From then on they go out as they come, and are kept only where there is an output log. A log is trimmed by
    what all who listen have acknowledged.
    """

    __slots__ = ("_expected", "_kept", "_listeners", "_logged", "_unsent", "told", "trimmed")

    def __init__(self, logged: bool) -> None:
        self._logged = logged
        self._kept: list[list[Event]] = []
        self._listeners: dict[int, _Listener] = {}
        self._expected: dict[int, int] = {}
        """Those that listen to a fellow, and will open this one too -> up to where they have acknowledged."""
        self._unsent: list[_Waiting] | None = []
        """What nobody has been sent yet; None once somebody has opened the channel."""
        self.told = -1
        """The event time up to which the receivers know that nothing follows."""
        self.trimmed = 0
        """Batches that were dropped from the log."""

    @property
    def listeners(self) -> Collection[int]:
        """The incarnations that listen, in the order in which they came."""
        return self._listeners.keys()

    def emit(self, events: list[Event], anchors: list[Anchor] | None = None) -> Collection[int]:
        """Take in what the slice emits. Returns the incarnations to send it to now."""
        if self._logged:
            self._kept.append(events)
        if self._unsent is not None:
            self._unsent.append((events, anchors))
        return self._listeners

    def open(self, receiver: int, seq: int) -> list[_Waiting]:
        """`receiver` listens from now on, and asks for what comes after `seq`. Returns what to send it at once, as if
        it had come a moment later; what is logged comes by `replay`."""
        unsent, self._unsent = self._unsent or [], None
        known = self._listeners.setdefault(receiver, _Listener(self._expected.pop(receiver, 0)))
        if not self._logged:
            return unsent
        known.replayed = min(seq, unsent[0][0][0].seq - 1) if unsent else seq
        known.stop = None
        return []

    def replay(self, receiver: int) -> list[Event] | None:
        """The next batch that the log has for a receiver; None when there is none: the replay is completed."""
        listener = self._listeners.get(receiver)
        if listener is None or listener.replayed is None:
            return None
        place = bisect_right(self._kept, listener.replayed, key=_last)
        if place < len(self._kept):
            events = after(self._kept[place], listener.replayed)
            if listener.stop is not None:
                events = [event for event in events if event.seq < listener.stop]
            if events:
                listener.replayed = events[-1].seq
                return events
        listener.replayed = None
        return None

    def replaying(self, receiver: int) -> bool:
        listener = self._listeners.get(receiver)
        return listener is not None and listener.replayed is not None

    def stop(self, receiver: int, seq: int) -> None:
        if receiver in self._listeners:
            self._listeners[receiver].stop = seq

    def acknowledge(self, receiver: int, upto: int) -> int:
        """Returns up to where all who listen have acknowledged, and the log was trimmed."""
        listener = self._listeners[receiver]
        listener.acknowledged = max(listener.acknowledged, upto)
        trimmed = min(self.acknowledged.values())
        self.trim(trimmed)
        return trimmed

    def trim(self, upto: int) -> None:
        """Drop the logged batches that end at or before `upto`."""
        done = bisect_right(self._kept, upto, key=_last)
        if done:
            del self._kept[:done]
            self.trimmed += done
        if self._unsent and self._logged:
            del self._unsent[: bisect_right(self._unsent, upto, key=lambda waiting: _last(waiting[0]))]

    @property
    def acknowledged(self) -> dict[int, int]:
        """Up to where each of those has acknowledged that the log is kept for."""
        return self._expected | {receiver: one.acknowledged for receiver, one in self._listeners.items()}

    def expect(self, receiver: int, acknowledged: int) -> None:
        """Keep for a receiver what it has not acknowledged, until it opens the channel or is forgotten."""
        if receiver not in self._listeners:
            self._expected[receiver] = acknowledged

    def forget(self, receiver: int) -> None:
        self._listeners.pop(receiver, None)
        self._expected.pop(receiver, None)

    def kept(self) -> list[Event]:
        return [event for events in self._kept for event in events]

    def restore(self, events: list[Event]) -> None:
        self._kept = [events] if events else []
        if self._unsent is not None:
            self._unsent = []


def _last(events: list[Event]) -> int:
    return events[-1].seq


@dataclass(slots=True)
class InLink:
    """What a slice knows of one upstream incarnation that speaks to it."""

    replaying: bool = True
    """Its log is still being replayed: what comes meanwhile is held."""
    replayed: int = 0
    """The number of the last event out of its log."""
    held: list[Data] = field(default_factory=list)
    """The on-hold queue (section 3.7.1)."""
    ended: bool = False


class InputChannel:
    """What a slice has seen of one upstream slice, whichever of its incarnations said it."""

    __slots__ = ("ended", "links", "mark", "place", "seen", "unacknowledged")

    def __init__(self, place: int) -> None:
        self.place = place
        """Among the inputs of its slice."""
        self.links: dict[int, InLink] = {}
        """The incarnations that may speak."""
        self.mark = 0
        """The highest sequence number taken: this channel's entry of the timestamp vector."""
        self.seen = 0
        """The highest that has come in, taken or not: what the duplicate filter goes by."""
        self.unacknowledged = 0
        """Events taken since the last acknowledgement."""
        self.ended = False

    def find_ended(self) -> bool:
        """Whether one of those who speak has said that nothing follows."""
        return any(link.ended for link in self.links.values())
