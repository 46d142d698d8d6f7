"""The two ends of a channel, as a slice holds them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ..core.events import Event
from .messages import Data, Tie

PendingEvents = tuple[list[Event], list[Tie] | None]


class OutputChannel:
    """What a slice knows of those who listen to it on one channel.

    Until a receiver opens the channel for the first time nothing is lost: the events wait, and go out whole when it
    does. From then on they go out as they come, and whether they are kept is for a mechanism.
    """

    __slots__ = ("expected", "listeners", "told", "unsent")

    def __init__(self) -> None:
        self.listeners: dict[int, int] = {}
        """The incarnations that listen, in the order in which they came -> up to where each has acknowledged."""
        self.expected: dict[int, int] = {}
        """Those that listen to a peer, and will open this one too -> up to where they have acknowledged."""
        self.unsent: list[PendingEvents] | None = []
        """What nobody has been sent yet; None once somebody has opened the channel."""
        self.told = -1
        """The event time up to which the receivers know that nothing follows."""

    def emit(self, events: list[Event], ties: list[Tie] | None = None) -> Collection[int]:
        """Take in what the slice emits. Returns the incarnations to send it to now."""
        if self.unsent is not None:
            self.unsent.append((events, ties))
        return self.listeners

    def open(self, receiver: int) -> list[PendingEvents]:
        """`receiver` listens from now on. Returns what nobody has been sent."""
        unsent, self.unsent = self.unsent or [], None
        self.listeners.setdefault(receiver, self.expected.pop(receiver, 0))
        return unsent

    def acknowledge(self, receiver: int, upto: int) -> int:
        """Returns up to where all who listen have acknowledged."""
        listeners = self.listeners
        if upto > listeners[receiver]:
            listeners[receiver] = upto
        if len(listeners) == 1 and not self.expected:
            return listeners[receiver]
        return min(self.acknowledged.values())

    @property
    def acknowledged(self) -> dict[int, int]:
        """Up to where each of those has acknowledged who listen, or will."""
        return self.expected | self.listeners

    def expect(self, receiver: int, acknowledged: int) -> None:
        """It will open the channel: what it has not acknowledged may be asked for, until it is forgotten."""
        if receiver not in self.listeners:
            self.expected[receiver] = acknowledged

    def forget(self, receiver: int) -> None:
        self.listeners.pop(receiver, None)
        self.expected.pop(receiver, None)


@dataclass(slots=True)
class InLink:
    """What a slice knows of one upstream incarnation that is active."""

    replaying: bool = True
    """Its log is still being replayed: what comes meanwhile is held."""
    replayed: int = 0
    """The number of the last event out of its log."""
    held: list[Data] = field(default_factory=list)
    """The on-hold queue (section 3.7.1)."""
    ended: bool = False
    opened: bool = False
    """It was asked to send."""


class InputChannel:
    """What a slice has seen of one upstream slice, whichever of its incarnations said it."""

    __slots__ = ("ended", "links", "mark", "place", "scattered", "seen", "sender", "unacknowledged")

    def __init__(self, place: int) -> None:
        self.place = place
        """Among the inputs of its slice."""
        self.links: dict[int, InLink] = {}
        """By incarnation: those that are active."""
        self.mark = 0
        """The highest sequence number taken: this channel's entry of the timestamp vector."""
        self.seen = 0
        """The highest that has come in, taken or not."""
        self.unacknowledged = 0
        """Events taken since the last acknowledgement."""
        self.ended = False
        self.sender = 0
        """The incarnation that what comes in now is of."""
        self.scattered = False
        """Whether anything has come in out of order, or filters have let pass something else than a piece of what came:
        what is taken from then on is put on record event by event, as no span of numbers tells of it."""

    def go_on_after(self, mark: int) -> None:
        """All up to this number was taken: a checkpoint says so."""
        self.mark = mark
        self.seen = max(self.seen, mark)

    def find_ended(self) -> bool:
        """Whether one of those that are active has said that nothing follows."""
        return any(link.ended for link in self.links.values())
