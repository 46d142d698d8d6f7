"""What a mechanism is: one way of surviving, in one file, that a slice is put together from.

A mechanism has two halves. Its *declaration* (`Mechanism`) is data: what a scheme names it with, and what others have
to know of it. *At work* (`AtWork`) it is in one incarnation of one slice: it holds what it remembers, hears of what
happens by its hooks, and acts through the machine that it is attached to. A hook that it does not define costs nothing.

What a mechanism remembers, it keeps in its `AtWork`: in attributes, and in lists, dictionaries, sets, deques and plain
objects that these lead to. Nothing is kept in a variable of a module or a class, in the declaration, or in an iterator
or generator: a search puts a whole world back by putting back what is reached from its slices (see
`harness/worlds/simulated/capturing.py`), and whatever else remembered would take a branch of one run along into the
next. The same holds for merges, for what wraps a slice, and for the states of operators. What was sent, recorded or
saved in a checkpoint is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.events import Event, Value
from ..core.quantities import Duration, Events
from ..core.topology import Topology
from .messages import Checkpoint, Items, Message, Tie

if TYPE_CHECKING:
    from .channels import InputChannel, PendingEvents
    from .effects import Durable, Gone, Promote, Start, Timer
    from .machine import Machine

NO_LIMIT = 1 << 62
"""More events than there ever are."""
CHECKPOINT_EVERY = "checkpoint_every"
"""The setting that says, while a run goes on, how many events are taken between two checkpoints: a number."""
Made = tuple[Event, tuple[int, ...]]
"""An output, and the places in `spec.downstream` that it goes to."""


@dataclass(frozen=True)
class Mechanism:
    """The declaration of a mechanism; a frozen dataclass whose fields are its settings."""

    messages: ClassVar[tuple[type[Message], ...]] = ()
    """What it says, beside what channels say."""
    points: ClassVar[tuple[str, ...]] = ()
    """The crash points of its own, as its `AtWork` names them before their number."""

    def attach(self, machine: Any) -> AtWork:
        """Put it to work in one incarnation of a slice."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does")

    # What others have to know of it

    @property
    def checkpoint_every(self) -> Events | None:
        """The interval of the checkpoints that it takes."""
        return None

    @property
    def takes_checkpoints(self) -> bool:
        return self.checkpoint_every is not None

    @property
    def safe_every(self) -> Events | None:
        """After how many events something becomes safe by it."""
        return self.checkpoint_every

    @property
    def replays(self) -> bool:
        """Whether what was sent can be sent again by it."""
        return False

    @property
    def checkpoints_hold_state(self) -> bool:
        return True

    @property
    def all_active(self) -> bool:
        """Whether all replicas of a slice may send what they make."""
        return True

    @property
    def replicas_take_all(self) -> bool:
        """Whether it lets all replicas of a slice take all of the input."""
        return True

    @property
    def promoted_from_store(self) -> bool:
        """Whether a replica that is promoted needs the newest checkpoint in the store."""
        return False

    @property
    def peers_keep_checkpoints(self) -> bool:
        """Whether it lets other replicas keep the checkpoints."""
        return False

    @property
    def in_fault_domain(self) -> bool:
        """Whether a sink that has it runs on a node, as operators do, and can be lost with it. Else the harness hosts
        it, outside of every fault domain."""
        return False

    @property
    def sends_again_after(self) -> Duration | None:
        """After how long a source sends again by it what it does not hear of, in attempts of their own."""
        return None

    @property
    def silent_for(self) -> Duration | None:
        """How long a channel is idle by it before its receivers hear how far event time has come."""
        return None

    def addressees(self, topology: Topology, slice_id: str) -> Iterable[str]:
        """Slices beside the neighbours of a slice that it sends to; they are active from the beginning."""
        return ()

    def scaled(self, size: Callable[[Events], Events]) -> Mechanism:
        """The same with its intervals brought down, for a small world."""
        return self


class AtWork:
    """A mechanism in one incarnation of a slice. Everything here is a hook, and does nothing; hooks are called in the
    order in which the scheme names its mechanisms, after what the machine does itself."""

    part: str = ""
    """The name of its part of a checkpoint, where it has one."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    # Life cycle

    def timers(self) -> Mapping[type[Timer], Callable[[Any], None]]:
        """What takes each kind of timer that it sets."""
        return {}

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        """What takes each kind of message that it is sent: called with the neighbour and the message."""
        return {}

    def begin(self, given: Start) -> None:
        """The incarnation has its number, and nothing has been restored."""

    def completed(self, checkpoint: Checkpoint | None, kept: Sequence[Items]) -> Checkpoint | None:
        """What is restored: the newest checkpoint, or what comes of it by the items beside it."""
        return checkpoint

    def started(self, given: Start) -> None:
        """It has been restored, and that is on record."""

    def save(self) -> Any:
        """Its part of a checkpoint, as a struct or a plain value that never changes."""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""

    def durable(self, given: Durable) -> None:
        """The store has a checkpoint."""

    def promoted(self, given: Promote) -> None:
        """This replica is active from now on."""

    def met(self, peer: int) -> None:
        """In touch with another replica of this slice."""

    def lost(self, given: Gone) -> None:
        """An incarnation of a neighbour is gone."""

    def advised(self, coordinator: str) -> None:
        """In touch with a coordinator of this slice's, or with its successor, or again after a link broke: what it was
        told before may be lost, and is to be told again (`Machine.report`)."""

    def handled(self) -> None:
        """What came in has been dealt with, as far as it could be."""

    def changed(self, settings: Mapping[str, Value]) -> None:
        """What comes from now on is to be dealt with by these settings; what is not named is as it was declared. It
        comes between two inputs, or while a checkpoint is restored that was taken under other settings
        (`Machine.change`)."""

    # Channels

    def listens(self) -> bool:
        """Whether channels are to be opened."""
        return True

    def opened(self, to: str) -> None:
        """A receiver has opened a channel, and has been sent what there was for it."""

    def acknowledged(self, to: str, upto: int) -> None:
        """All receivers of a channel have acknowledged so much."""

    def replayed(self) -> None:
        """The log of one upstream incarnation has been replayed."""

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        """Which of the events that came in on a channel are to be taken."""
        return events

    def time_passed(self) -> None:
        """Event time may have come further, without an event."""

    def crowded(self) -> bool:
        """Whether so much waits that its host should take nothing more from upstream for now: it stays with its sender.
        Not to be said where what would let the slice go on may be among what is held back so."""
        return False

    # Work

    def left(self) -> int:
        """How many events may be taken before something has to be done first."""
        return NO_LIMIT

    def room(self) -> int:
        """The same, after what has to be done has been done; 0: that has to be waited for. Of a source: how many events
        may be offered; `work` goes on."""
        return self.left()

    def made(self, up: str, event: Event, tie: Tie | None, outputs: list[Made], ties: list[list[Tie]]) -> None:
        """An event from `up` was processed. Where it came with a tie, `ties` wants one for each copy of an output, by
        the place that it goes to."""

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        """Events of a channel were taken, and what was made of them was sent; by a sink: delivered."""

    def closed(self, epoch: int) -> None:
        """An epoch has ended, and what the operator makes then was sent."""

    def rested(self) -> None:
        """Whatever could be taken has been."""

    def emitted(self) -> None:
        """Something was sent, or could have been."""

    # Of a source or a sink

    def sends(self, events: list[Event]) -> bool:
        """Whether it sends what is offered itself."""
        return False

    def delivers(self, up: str, sender: int, events: list[Event]) -> bool:
        """Whether it delivers itself what the sink has taken, some time; `sender` is the incarnation of `up` whose
        copy that is."""
        return False

    def input_over(self) -> None:
        """There is nothing more to be offered; for a sink: nothing more to be taken, as long as nobody upstream has to
        start again."""

    def unfinished(self) -> bool:
        """Whether the source, or the sink, must not end yet (`find_end` is called when that has changed)."""
        return False


class Log:
    """What a mechanism is that keeps what a slice sends, so that it can be sent again (`Machine.log`)."""

    def keep(self, to: str, events: list[Event]) -> None:
        """The slice emits these on a channel."""
        raise NotImplementedError

    def open(self, to: str, receiver: int, after: int, waiting: list[PendingEvents]) -> None:
        """A receiver asks for what comes after a number; `waiting` has been sent to nobody."""
        raise NotImplementedError

    def next(self, to: str, receiver: int) -> list[Event] | None:
        """The next batch for a receiver; None when there is none: the replay is completed."""
        raise NotImplementedError

    def replaying(self, to: str, receiver: int) -> bool:
        raise NotImplementedError

    def stop(self, to: str, receiver: int, seq: int) -> None:
        """A receiver has what comes from this number on."""
        raise NotImplementedError

    def trim(self, to: str, upto: int) -> None:
        """Nobody will ask for events up to this number."""
        raise NotImplementedError

    @property
    def trimmed(self) -> int:
        """Batches that were dropped because all had acknowledged them. Claims rest on it: a slice refuses it at the end
        where its log still keeps all that it was given."""
        raise NotImplementedError

    def kept(self) -> Mapping[str, Sequence[int]]:
        """Downstream slice -> the numbers of what is kept for it now."""
        raise NotImplementedError


class Keeper:
    """What keeps checkpoints in place of the store (`Machine.keeper`)."""

    def anybody(self) -> bool:
        """Whether there is anybody to keep a checkpoint."""
        raise NotImplementedError

    def keep(self, checkpoint: Checkpoint, kept: Callable[[Durable], None], given_up: Callable[[], None]) -> None:
        """Give a checkpoint to whoever keeps it. Calls `kept` once it is durable, `given_up` when nobody is left."""
        raise NotImplementedError


HOOKS = tuple(name for name, hook in vars(AtWork).items() if callable(hook) and not name.startswith("_"))


@cache
def defining(*kinds: type[AtWork]) -> Mapping[str, tuple[int, ...]]:
    """Hook -> the places of those of these kinds that define it. Worked out once: machines are made by the thousand."""
    return {
        name: tuple(place for place, kind in enumerate(kinds) if getattr(kind, name) is not getattr(AtWork, name))
        for name in HOOKS
    }
