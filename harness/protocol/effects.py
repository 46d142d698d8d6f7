"""Everything that goes into a slice and everything that comes out of it, as plain data.

A slice does no I/O: its host feeds it an `Input` and carries out the `Effect`s that it returns, in their order. The
types are msgspec structs rather than dataclasses because they are made for every message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

import msgspec

from ..core.errors import InvalidScheme
from ..recording.records import Record
from .messages import Checkpoint, CheckpointId, Items, Message

# Inputs


class Start(msgspec.Struct, frozen=True, gc=False):
    """You have just been started, as this incarnation, from this checkpoint (None: blank)."""

    incarnation: int
    checkpoint: Checkpoint | None
    replica: int = 0
    initial: bool = True
    """Nobody else has the state of your slice. Else join those who have it."""
    seed: int = 0
    """Of your random draws."""
    kept: list[Items] = []
    """What the store keeps beside the checkpoint, in the order of their numbers."""


class Reroute(msgspec.Struct, frozen=True, gc=False):
    """You are in touch with this incarnation of a neighbour: of a slice upstream, where it is active, of your own
    slice, or of a source that follows its events. It comes again for the same one when the link between you broke, and
    what was on it is lost."""

    neighbour: str
    incarnation: int


class Gone(msgspec.Struct, frozen=True, gc=False):
    """This incarnation of a neighbour is gone: whatever still comes from it is to be refused."""

    neighbour: str
    incarnation: int


class Promote(msgspec.Struct, frozen=True, gc=False):
    """Be active from now on, from the newest checkpoint that you have, or from this one out of the store."""

    checkpoint: Checkpoint | None


class Receive(msgspec.Struct, frozen=True, gc=False):
    neighbour: str
    message: Message


class Durable(msgspec.Struct, frozen=True, gc=False):
    """The checkpoint, or the items, with this id have reached their store."""

    id: CheckpointId


class Timer(msgspec.Struct, frozen=True, gc=False):
    """A timer of a slice's or a mechanism's own. As text it is the key of the crash point at which it fires, so it
    tells one timer of an incarnation from all others."""

    def __str__(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} has no name")


class Fire(msgspec.Struct, frozen=True, gc=False):
    """A timer that the slice had set fires."""

    timer: Timer
    now: int = 0
    """What the node's clock shows, in milliseconds."""


class Inspect(msgspec.Struct, frozen=True, gc=False):
    """The run is over: say what you have kept."""


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """To the coordinator that decides where slices start together: none of them runs any more. Say from which cut they
    are to start."""

    round: int
    """Which time it is."""


Input = Start | Reroute | Gone | Promote | Receive | Durable | Fire | Inspect | Stopped


# Effects


class Send(msgspec.Struct, frozen=True, gc=False):
    """Addressed to one incarnation: whoever comes after it must not get what was meant for it."""

    to: str
    incarnation: int
    message: Message


class Persist(msgspec.Struct, frozen=True, gc=False):
    """Make this durable; the store replaces older checkpoints of the slice by it (recycling, section 3.7.2), unless it
    is to stand beside them."""

    checkpoint: Checkpoint


class Forget(msgspec.Struct, frozen=True, gc=False):
    """Nobody starts from a checkpoint of the slice below this number any more: the store may drop them."""

    below: int


class PersistItems(msgspec.Struct, frozen=True, gc=False):
    """Make these durable beside the newest checkpoint, until a checkpoint covers them."""

    items: Items


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    timer: Timer
    delay: int
    """Microseconds."""


class Note(msgspec.Struct, frozen=True, gc=False):
    """Tell the recorder. A host hands it over before it carries out any later effect of the same input, so that nothing
    becomes visible whose making is not on record."""

    record: Record


_RECORDS: Final = frozenset(get_args(Record))


def noted(actor: str, record: Record) -> Note:
    """Raises InvalidScheme for what is no record."""
    if type(record) not in _RECORDS:
        raise InvalidScheme(f"{actor} cannot put {record!r} on record; records are in harness.recording.records")
    return Note(record)


class Ready(msgspec.Struct, frozen=True, gc=False):
    """Tell the manager that you are in sync with your peers, and could be active."""


class Pass(msgspec.Struct, frozen=True, gc=False):
    """A crash point of a mechanism's own: its host announces it before it carries out the effects that follow."""

    mechanism: str
    point: str
    """What is about to happen, and a number or a name that tells it from all others of the incarnation."""


class RestartAll(msgspec.Struct, frozen=True, gc=False):
    """Of the coordinator that decides where slices start together: all of them start from their checkpoints with this
    number; 0: blank. Those that run end before."""

    round: int
    """Of the stop that it answers, or that it has heard of last."""
    cut: int


Effect = Send | Persist | PersistItems | SetTimer | Note | Ready | Pass | Forget | RestartAll


class OwnEffects:
    """What an actor itself asks for about one input, in its order, of what no mechanism puts there or takes away. It is
    added to; the actor's host takes it, and nobody else has a way to take anything back."""

    __slots__ = ("_asked", "append")

    def __init__(self) -> None:
        self._asked: list[Effect] = []
        self.append: Callable[[Effect], None] = self._asked.append
        """For each record and each opening, so with nothing in between."""

    def were(self, found: list[Effect]) -> bool:
        """Whether that is just what was asked for; it is empty then."""
        asked = self._asked
        if asked != found:
            return False
        asked.clear()
        return True

    def take(self) -> list[Effect]:
        """All of it; it is empty then."""
        asked = self._asked.copy()
        self._asked.clear()
        return asked
