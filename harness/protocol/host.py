"""Carries out what slices ask for, and announces every point at which their node could die.

The same host runs in the simulator and in a node agent; the `World` under it differs. The order of points for one
input is part of the contract: the input arrives (before), the slice has taken it in memory and nothing has left yet
(after), then each effect in turn.
"""

from __future__ import annotations

from typing import Protocol

from ..core.addresses import Address, Point, Side
from ..core.error_text import described_error
from ..core.errors import InvalidScheme
from ..core.slice_names import replica_name
from ..recording.records import Record
from .blaming import blame_sender, blame_user
from .coordinator import CoordinatorSpec
from .effects import (
    Durable,
    Effect,
    Fire,
    Forget,
    Gone,
    Input,
    Note,
    OwnEffects,
    Pass,
    Persist,
    PersistItems,
    Promote,
    Ready,
    Receive,
    Reroute,
    RestartAll,
    Send,
    SetTimer,
    Start,
    Stopped,
    Timer,
)
from .messages import Checkpoint, CheckpointId, Items, Message, Open, identity_of
from .spec import SliceSpec
from .vouching import Vouching, VouchingForCoordinator, delivers_itself


class Actor(Protocol):
    """What a host runs: a slice, or a coordinator."""

    name: str
    """Of the replica."""
    incarnation: int
    replica: int
    taken: int
    own: OwnEffects
    """Of the effects that `on` returns, what puts something on record or opens a channel, as far as the actor itself
    asks for it."""

    @property
    def spec(self) -> SliceSpec | CoordinatorSpec: ...

    @property
    def crowded(self) -> bool:
        """Whether it should be given nothing more from upstream for now."""

    def on(self, given: Input) -> list[Effect]: ...


class World(Protocol):
    """What a host stands on."""

    def watched(self, actor: str) -> frozenset[Point]:
        """The points of `actor` that have to be announced."""

    def arrive(self, address: Address, taken: int) -> bool:
        """Announce a point and wait for the answer. False: this host is dead and must not touch anything any more."""

    def send(self, sender: str, to: str, incarnation: int, message: Message) -> None:
        """Hand a message to the network, for this incarnation of `to` and no other."""

    def has_delivered(self, address: Address, taken: int, to: str, incarnation: int) -> bool:
        """Whether the receiver's host has all that was handed over to it. Waits, where that is a matter of moments and
        somebody waits for this address; answers False where delivery is an event of its own, which the world announces
        when it comes."""

    def persist(self, checkpoint: Checkpoint | Items) -> None:
        """Begin to write a checkpoint, or items; `Host.durable` is called when the store has them."""

    def drop_below(self, slice_id: str, incarnation: int, below: int) -> None:
        """Drop the slice's checkpoints below this number, some time."""

    def restart_all(self, coordinator: str, incarnation: int, given: RestartAll) -> None:
        """Tell the manager to start all slices together."""

    def set_timer(self, slice_id: str, timer: Timer, delay: int) -> None:
        """Fire after `delay` microseconds."""

    def note(self, record: Record) -> None:
        """Hand a record to the recorder's link, ahead of everything that is sent later."""

    def ready(self, slice_id: str, incarnation: int) -> None:
        """Tell the manager that this incarnation is in sync with its peers."""


Arrival = tuple[Point, str]
"""The point that an input is, and its key."""
_ANNOUNCED = frozenset(Point) - {Point.CHECKPOINT_DURABLE}
"""The points that a host passes itself; when a store has a checkpoint, the world knows."""
_SENDING = frozenset({Point.SEND_ISSUED, Point.SEND_HANDED_OVER, Point.SEND_DELIVERED})


class Host:
    """The slices that one node runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.slices: dict[str, Actor] = {}
        self._given: dict[str, Vouching | VouchingForCoordinator] = {}
        """What each actor was given."""
        self._own: dict[str, OwnEffects] = {}
        """Where each actor puts what it asks for itself: it cannot put another in its place."""

    def start(self, machine: Actor, given: Start) -> None:
        """Run a new incarnation here, in place of any earlier one."""
        machine.incarnation, machine.replica = given.incarnation, given.replica
        machine.name = replica_name(machine.spec.slice_id, given.replica)
        self.slices[machine.spec.slice_id] = machine
        self._own[machine.spec.slice_id] = machine.own
        spec = machine.spec
        self._given[spec.slice_id] = (
            VouchingForCoordinator(spec, given.incarnation)
            if isinstance(spec, CoordinatorSpec)
            else Vouching(spec, given.incarnation)
        )
        self.feed(machine.spec.slice_id, given)

    def deliver(self, sender: str, to: str, message: Message) -> None:
        """A message has come in for a slice here."""
        self.feed(to, Receive(sender, message))

    def durable(self, slice_id: str, checkpoint: CheckpointId) -> None:
        """A checkpoint of a slice here has reached its store."""
        self.feed(slice_id, Durable(checkpoint))

    def forget(self) -> None:
        """Nothing runs here any more."""
        self.slices.clear()
        self._given.clear()
        self._own.clear()

    def feed(self, slice_id: str, given: Input) -> None:
        """Give a slice one input and carry out what it asks for.

        Raises UsersCodeFailed when the user's code does.
        """
        machine = self.slices[slice_id]
        world = self._world
        watched = world.watched(machine.name)
        if watched and not watched.isdisjoint(_ANNOUNCED):
            arrival = arrival_of(given)
            if self.begin(machine, arrival, watched):
                self.carry_out(machine, arrival, self.asked(machine, given), watched)
            return
        # Not by pattern, which is slower: this loop is much of what a simulated run costs.
        note, send = world.note, world.send
        for effect in self.asked(machine, given):
            if type(effect) is Send:
                send(slice_id, effect.to, effect.incarnation, effect.message)
            elif type(effect) is Note:
                note(effect.record)
            elif isinstance(effect, (Persist, PersistItems)):
                world.persist(_kept(machine, effect))
            elif isinstance(effect, SetTimer):
                world.set_timer(slice_id, effect.timer, _delay(slice_id, effect))
            elif isinstance(effect, Ready):
                world.ready(slice_id, machine.incarnation)
            elif isinstance(effect, Forget):
                world.drop_below(slice_id, machine.incarnation, _below(slice_id, effect))
            elif isinstance(effect, RestartAll):
                world.restart_all(slice_id, machine.incarnation, effect)
            elif type(effect) is not Pass:
                raise _no_effect(slice_id, effect)
            # A crash point that nobody watches is passed.

    def asked(self, machine: Actor, given: Input) -> list[Effect]:
        """What a slice wants to be done about an input. Raises UsersCodeFailed when the user's code does, InvalidScheme
        for what it wants on record and did not come to it."""
        slice_id = machine.spec.slice_id
        known = self._given[slice_id]
        found: list[Effect] = []
        """What it is not for a mechanism, nor for what is put around a slice, to ask for past the machine."""
        try:
            known.hear(given)
            effects = machine.on(given)
            for effect in effects:
                kind = type(effect)
                if kind is Note:
                    found.append(effect)
                elif kind is Send:
                    said = effect.message  # type: ignore[union-attr]
                    if type(said) is Open:
                        found.append(effect)
                    elif not isinstance(said, Message):
                        raise _no_message(effect)  # type: ignore[arg-type]
        except Exception as error:
            blame_user(machine.spec, error)
            blame_sender(slice_id, given, error)
            raise
        own = self._own[slice_id]
        if not own.were(found):
            raise _tampered(slice_id, found, own.take())
        for effect in found:
            if type(effect) is Note:
                known.check(effect.record, given)
        return effects

    def begin(self, machine: Actor, arrival: Arrival | None, watched: frozenset[Point]) -> bool:
        """Announce that an input is there. Returns whether the slice goes on with it."""
        if arrival is None or arrival[0] not in watched:
            return True
        slice_id, (point, key) = machine.spec.slice_id, arrival
        address = Address(slice_id, machine.incarnation, point, key, Side.BEFORE, machine.replica)
        return self._world.arrive(address, machine.taken)

    def carry_out(
        self, machine: Actor, arrival: Arrival | None, effects: list[Effect], watched: frozenset[Point]
    ) -> None:
        """Do what a slice has asked for about an input, with every point announced; stops where the node dies."""
        world, name, number, replica = self._world, machine.spec.slice_id, machine.incarnation, machine.replica
        if arrival is not None and arrival[0] in watched:
            address = Address(name, number, *arrival, Side.AFTER, replica)
            if not world.arrive(address, machine.taken):
                return
        for effect in effects:
            if type(effect) is Send:
                if not self._send(machine, effect, watched):
                    return
            elif type(effect) is Note:
                world.note(effect.record)
            elif isinstance(effect, (Persist, PersistItems)):
                what = _kept(machine, effect)
                if Point.CHECKPOINT_ISSUED in watched:
                    key = str(what.id.number)
                    address = Address(name, number, Point.CHECKPOINT_ISSUED, key, Side.BEFORE, replica)
                    if not world.arrive(address, machine.taken):
                        return
                world.persist(what)
            elif isinstance(effect, SetTimer):
                world.set_timer(name, effect.timer, _delay(name, effect))
            elif isinstance(effect, Ready):
                world.ready(name, number)
            elif isinstance(effect, Forget):
                world.drop_below(name, number, _below(name, effect))
            elif isinstance(effect, RestartAll):
                world.restart_all(name, number, effect)
            elif not isinstance(effect, Pass):
                raise _no_effect(name, effect)
            elif Point.MECHANISM in watched:
                key = f"{effect.mechanism} {effect.point}"
                address = Address(name, number, Point.MECHANISM, key, Side.BEFORE, replica)
                if not world.arrive(address, machine.taken):
                    return

    def _send(self, machine: Actor, effect: Send, watched: frozenset[Point]) -> bool:
        """Send a message, with every point of that announced. Returns whether the node is alive."""
        world, to, incarnation, message = self._world, effect.to, effect.incarnation, effect.message
        name, number, replica, taken = machine.spec.slice_id, machine.incarnation, machine.replica, machine.taken
        if watched.isdisjoint(_SENDING):
            world.send(name, to, incarnation, message)
            return True
        key = f"{to}#{incarnation} {identity_of(name, message)}"
        if Point.SEND_ISSUED in watched:
            issued = Address(name, number, Point.SEND_ISSUED, key, Side.BEFORE, replica)
            if not world.arrive(issued, taken):
                return False
        world.send(name, to, incarnation, message)
        if Point.SEND_HANDED_OVER in watched:
            handed_over = Address(name, number, Point.SEND_HANDED_OVER, key, Side.AFTER, replica)
            if not world.arrive(handed_over, taken):
                return False
        if Point.SEND_DELIVERED in watched:
            there = Address(name, number, Point.SEND_DELIVERED, key, Side.AFTER, replica)
            return not world.has_delivered(there, taken, to, incarnation) or world.arrive(there, taken)
        return True


def _no_message(effect: Send) -> InvalidScheme:
    return InvalidScheme(
        f"{effect.message!r} is to be sent to {effect.to}, and is no Message of harness.protocol.messages"
    )


def _kept(machine: Actor, effect: Persist | PersistItems) -> Checkpoint | Items:
    """What a store is to keep. Raises InvalidScheme for what is nothing of this incarnation's: it would be restored in
    the place of what that has kept."""
    what: object = effect.checkpoint if isinstance(effect, Persist) else effect.items
    name, number = machine.spec.slice_id, machine.incarnation
    whole = isinstance(what, (Checkpoint, Items)) and isinstance(what.id, CheckpointId)
    if isinstance(what, (Checkpoint, Items)) and whole and what.slice == name and what.id.incarnation == number:
        if isinstance(what, Checkpoint) and what.delivers:
            _require_its_own(machine, what)
        return what
    raise InvalidScheme(
        f"{name} cannot have a store keep {what!r}: that is a checkpoint of its incarnation {number}, as snapshot() "
        "gives one, or Items of it"
    )


def _require_its_own(machine: Actor, checkpoint: Checkpoint) -> None:
    """Raises InvalidScheme for what would be delivered with a checkpoint of a slice that is not the sink of it."""
    for one in checkpoint.delivers:
        if isinstance(machine.spec, CoordinatorSpec) or not delivers_itself(machine.spec, one):
            raise InvalidScheme(
                f"{machine.spec.slice_id} cannot have {one!r} delivered with its checkpoint: a sink delivers what "
                "came on its own channels, and nobody else does"
            )


def _delay(slice_id: str, effect: SetTimer) -> int:
    """Raises InvalidScheme for what is none."""
    delay: object = effect.delay
    if type(delay) is int and delay >= 0:
        return delay
    raise InvalidScheme(
        f"{slice_id} sets its timer {effect.timer!r} for {delay!r}; that is a whole number of microseconds, 0 or more, "
        "as in ms(5).micros"
    )


def _below(slice_id: str, effect: Forget) -> int:
    """Raises InvalidScheme for what is no number of a checkpoint."""
    below: object = effect.below
    if type(below) is int:
        return below
    raise InvalidScheme(f"{slice_id} lets its store drop checkpoints below {below!r}; that is the number of one")


def _tampered(slice_id: str, found: list[Effect], own: list[Effect]) -> InvalidScheme:
    for effect in found:
        if found.count(effect) > own.count(effect):
            if isinstance(effect, Note):
                return InvalidScheme(
                    f"{slice_id} cannot put {effect.record!r} on record: a mechanism puts on record what it has done "
                    "by note(), and nothing among the effects"
                )
            return InvalidScheme(
                f"{slice_id} cannot send {effect!r}: a channel is opened by open_at(), and by nothing among the effects"
            )
    return InvalidScheme(
        f"{slice_id} was to do {own!r}, in this order, and what is left of it is {found!r}: leave among the effects "
        "what puts something on record or opens a channel"
    )


def _text_of(timer: Timer) -> str:
    """Raises InvalidScheme where a timer does not say what tells it from others."""
    try:
        return str(timer)
    except Exception as error:
        raise InvalidScheme(f"the timer {timer!r} has no text: {described_error(error)}") from error


def _no_effect(slice_id: str, effect: object) -> InvalidScheme:
    return InvalidScheme(f"{slice_id} asks for {effect!r}, which is no effect; those are in harness.protocol.effects")


def arrival_of(given: Input) -> Arrival | None:
    """The point that an input is, and its key."""
    # By how often they come, and not by pattern, which is slower.
    if type(given) is Receive:
        message = given.message
        return Point.RECEIVED, f"{given.neighbour}#{message.incarnation} {identity_of(given.neighbour, message)}"
    if type(given) is Durable:
        return Point.CHECKPOINT_TOLD, str(given.id.number)
    if type(given) is Fire:
        return Point.TIMER, _text_of(given.timer)
    match given:
        case Start():
            return Point.STARTED, ""
        case Reroute(neighbour=neighbour, incarnation=incarnation):
            return Point.REROUTED, f"{neighbour}#{incarnation}"
        case Gone(neighbour=neighbour, incarnation=incarnation):
            return Point.LOST, f"{neighbour}#{incarnation}"
        case Promote():
            return Point.PROMOTED, ""
        case Stopped(round=number):
            return Point.STOPPED, str(number)
        case _:
            return None
