"""What a coordinator is: one that stands beside the manager and leads slices, in a protocol of a scheme's own.

As a mechanism it has two halves. Its *declaration* (`Coordinator`) is data: slices whose `Setup` names it are its
*members*. *At work* (`Coordinating`) it is in one incarnation: it hears which incarnations of its members are there and
what their mechanisms report, sets timers, and tells members what to do. It runs on a node as slices do, is crashed,
fenced and started again as they are, and begins with what it made durable last; all else it has to ask for again.

No thread, socket, clock or random number in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.errors import InvalidScheme, OwnFailure
from ..core.events import Value
from ..core.quantities import Events
from ..recording.records import Changed, Decided, Record, Refused
from .effects import (
    Durable,
    Effect,
    Fire,
    Gone,
    Input,
    Inspect,
    Note,
    OwnEffects,
    Pass,
    Persist,
    Receive,
    Reroute,
    RestartAll,
    Send,
    SetTimer,
    Start,
    Stopped,
    Timer,
    noted,
)
from .messages import Checkpoint, CheckpointId, Flow, Message, identity_of

STARTED = "started"
"""What every coordinator decides first."""
_KEPT = "kept"


@dataclass(frozen=True)
class Coordinator:
    """The declaration of a coordinator; a frozen dataclass whose fields are its settings."""

    name: ClassVar[str]
    """Of the actor: what others report to, and faults aim at. No slice may have it."""
    messages: ClassVar[tuple[type[Message], ...]] = ()
    """What it tells its members (`Flow.ORDERS`)."""
    points: ClassVar[tuple[str, ...]] = ()
    """The crash points of its own, as its `Coordinating` names them before their number."""

    keeps: ClassVar[type[Any]] = dict
    """The kind of what it makes durable: a msgspec struct."""

    def attach(self, machine: CoordinatorMachine) -> Coordinating:
        """Put it to work in one incarnation."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does")

    def cut(self, kept: Any) -> int | None:
        """By what it has made durable (None: nothing yet): the number up to which a member that starts may use its own
        checkpoints. None: it has no say in that."""
        return None

    def scaled(self, size: Callable[[Events], Events]) -> Coordinator:
        """The same with its amounts of events brought down, for a small world."""
        return self


@dataclass(frozen=True)
class CoordinatorSpec:
    """A coordinator in a topology: all that does not change while it runs."""

    coordinator: Coordinator
    members: tuple[str, ...]
    """The slices that it leads."""
    upstream: ClassVar[tuple[str, ...]] = ()
    downstream: ClassVar[tuple[str, ...]] = ()
    addressees: ClassVar[tuple[str, ...]] = ()
    coordinators: ClassVar[tuple[str, ...]] = ()
    promoted_from_store: ClassVar[bool] = False

    @property
    def slice_id(self) -> str:
        return self.coordinator.name

    @property
    def messages(self) -> tuple[type[Message], ...]:
        return self.coordinator.messages

    def seed_of(self, incarnation: int, seed: int) -> int:
        """It draws nothing."""
        return 0

    def may_send(self, to: str, message: Message) -> bool:
        """Whether a message of this kind is for it to send to another."""
        return message.flow is Flow.ORDERS and to in self.members


class CoordinatorMachine:
    """One incarnation of a coordinator: who of its members is there, fencing, and what it asks for."""

    replica = 0
    taken = 0
    crowded = False

    def __init__(self, spec: CoordinatorSpec) -> None:
        self.spec = spec
        self.name = spec.slice_id
        self.incarnation = 0
        self.there: dict[str, list[int]] = {member: [] for member in spec.members}
        """Member -> its incarnations that it is in touch with, in the order in which it met them."""
        self.gone: set[tuple[str, int]] = set()
        self.effects: list[Effect] = []
        """What must be done about the input that is being taken."""
        self.own = OwnEffects()
        """Of that, what it has put on record."""
        self._kept = 0
        self._round = 0
        """How often it has heard that all slices have stopped."""
        self._work = spec.coordinator.attach(self)
        self._readers = dict(self._work.readers())
        self._timers = dict(self._work.timers())

    def on(self, given: Input) -> list[Effect]:
        """Take one input; return what must be done about it, in order."""
        effects = self.effects = []
        match given:
            case Start():
                self._start(given)
            case Reroute(neighbour=member, incarnation=incarnation):
                if (member, incarnation) not in self.gone:
                    self._meet(member, incarnation)
            case Gone(neighbour=member, incarnation=incarnation):
                self._lose(member, incarnation)
            case Receive(neighbour=member, message=message):
                self._receive(member, message)
            case Durable(id=kept):
                self._work.durable(kept.number)
            case Fire(timer=timer):
                self._timers[type(timer)](timer)
            case Stopped():
                self._stop(given)
            case Inspect():
                pass
            case _:
                raise OwnFailure(f"{self.name} is a coordinator, and was given {type(given).__name__}")
        return effects

    def _start(self, given: Start) -> None:
        self.incarnation = given.incarnation
        kept = None
        if given.checkpoint is not None:
            self._kept = given.checkpoint.id.number
            kept = durable_state_of(given.checkpoint, self.spec.coordinator.keeps)
        self.decide(STARTED)
        self._work.started(kept)

    def _meet(self, member: str, incarnation: int) -> None:
        there = self.there[member]
        if incarnation not in there:
            there.append(incarnation)
        self._work.met(member, incarnation)

    def _lose(self, member: str, incarnation: int) -> None:
        self.gone.add((member, incarnation))
        if incarnation in self.there[member]:
            self.there[member].remove(incarnation)
            self._work.lost(member, incarnation)

    def _stop(self, given: Stopped) -> None:
        self._round = given.round
        for member, there in self.there.items():
            for incarnation in tuple(there):
                self._lose(member, incarnation)
        self._work.stopped()

    def _receive(self, member: str, message: Message) -> None:
        if (member, message.incarnation) in self.gone:
            refused = Refused(self.name, self.incarnation, member, message.incarnation, identity_of(member, message))
            self._put_on_record(Note(refused))
            return
        reader = self._readers.get(type(message))
        if reader is None:
            raise InvalidScheme(
                f"{self.name} has nothing that takes what {member} sent: {identity_of(member, message)}"
            )
        if message.incarnation not in self.there[member]:
            # It was heard before it was heard of.
            self._meet(member, message.incarnation)
        reader(member, message)

    # What it asks for

    @property
    def members(self) -> tuple[str, ...]:
        return self.spec.members

    @property
    def complete(self) -> bool:
        """Whether it is in touch with every member."""
        return all(self.there.values())

    def tell(self, member: str, message: Message) -> None:
        """To all incarnations of a member that are there."""
        self.effects += [Send(member, incarnation, message) for incarnation in self.there[member]]

    def tell_all(self, message: Message) -> None:
        for member in self.members:
            self.tell(member, message)

    def set_timer(self, timer: Timer, delay: int) -> None:
        """It fires after `delay` microseconds. One that is set for ever keeps the run from its rest: stop once the
        members have said that their input is over."""
        self.effects.append(SetTimer(timer, delay))

    def keep(self, what: Any) -> int:
        """Make this durable, in place of what was kept before: the next incarnation begins with it. Returns its number,
        with which `Coordinating.durable` is called."""
        self._kept += 1
        id_ = CheckpointId(self.incarnation, self._kept)
        self.effects.append(Persist(Checkpoint(self.name, id_, {_KEPT: what})))
        return self._kept

    def restart_all(self, cut: int) -> None:
        """Let all slices start from their checkpoints with this number; 0: blank. What they had sent since is refused,
        as their incarnations are replaced."""
        self.effects.append(RestartAll(self._round, cut))

    def note(self, record: Record) -> None:
        """Put on record what this coordinator has decided or changed. Raises InvalidScheme for what is no record, and
        for what others say: of a slice that is the slice itself, its store or the manager."""
        effect = noted(self.name, record)
        if not self._is_its_own(record):
            raise InvalidScheme(
                f"{self.name} cannot put {record!r} on record: a coordinator says what it has decided, and what it has "
                "changed for one of its members, in its own name and of the incarnation that it is at work in"
            )
        self._put_on_record(effect)

    def _is_its_own(self, record: Record) -> bool:
        if not isinstance(record, Decided | Changed) or (record.actor, record.incarnation) != (
            self.name,
            self.incarnation,
        ):
            return False
        return isinstance(record, Decided) or record.member in self.members

    def _put_on_record(self, effect: Note) -> None:
        self.own.append(effect)
        self.effects.append(effect)

    def decide(self, what: str, **details: Value) -> None:
        """Put a decision on record."""
        self.note(Decided(self.name, self.incarnation, what, details))

    def reach(self, place: str) -> None:
        """A crash point of its own; `place` tells it from all others of this incarnation."""
        self.effects.append(Pass(self.name, place))


def durable_state_of(checkpoint: Checkpoint | None, kind: type[Any]) -> Any:
    """What a coordinator has made durable, out of its newest checkpoint; None where there is none."""
    return None if checkpoint is None else checkpoint.part(_KEPT, kind)


class Coordinating:
    """A coordinator at work in one incarnation. Everything here is a hook, and does nothing."""

    def __init__(self, machine: CoordinatorMachine) -> None:
        self.machine = machine

    def started(self, kept: Any) -> None:
        """It begins, with what an earlier incarnation made durable last; None where none has."""

    def timers(self) -> Mapping[type[Timer], Callable[[Any], None]]:
        """What takes each kind of timer that it sets."""
        return {}

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        """What takes each kind of message (`Flow.REPORTS`): called with the member and the message."""
        return {}

    def met(self, member: str, incarnation: int) -> None:
        """In touch with an incarnation of a member. It comes again for one that it knows when the link between them
        broke: what was on its way is lost."""

    def lost(self, member: str, incarnation: int) -> None:
        """An incarnation of a member is there no more."""

    def durable(self, number: int) -> None:
        """What it kept is durable."""

    def stopped(self) -> None:
        """None of the slices runs any more, since one was lost: `restart_all` says where they go on. Asked of the
        coordinator that a subject names as `restarts_by`."""
