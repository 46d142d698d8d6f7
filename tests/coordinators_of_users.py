"""Coordinators as a user would bring them, each in a scheme of its own.

`cutting`: every so often a coordinator has every slice take its part of a cut, and says that the cut is whole once all
parts are durable. Not before that does a slice acknowledge what its part covers, and a slice that was lost starts from
its part of the last cut that is whole. Logs between slices do the rest, as in passive replication.

`together`: slices take their parts at the ends of epochs, and nobody but the source keeps a log. When one is lost, all
slices start again from the last cut that is whole, and the source goes back to where that was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from streamproof.harness.contracts.claims import Claim
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.guarantees import precise_recovery
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.topology import Role, Topology
from streamproof.harness.protocol.coordinator import Coordinating, Coordinator, CoordinatorMachine
from streamproof.harness.protocol.effects import Durable, Forget, Persist, Timer
from streamproof.harness.protocol.mechanism import NO_LIMIT, AtWork, Mechanism
from streamproof.harness.protocol.messages import Flow, Message
from streamproof.harness.protocol.operator import OperatorSlice
from streamproof.harness.protocol.spec import Numbering, Setup
from streamproof.harness.recording.records import CheckpointDurable
from streamproof.reference_impls.mechanisms.checkpointing import Checkpointing
from streamproof.reference_impls.mechanisms.duplicate_filter import DuplicateFilter
from streamproof.reference_impls.mechanisms.epochs import EpochBags
from streamproof.reference_impls.mechanisms.output_log import OutputLog
from streamproof.reference_impls.mechanisms.silence import TellSilence
from streamproof.reference_impls.passive_replication import passive_replication

NAME = "cuts"


class Part(Message, frozen=True, tag="part", array_like=True, gc=False):
    """A slice's part of a cut is durable; whether it has seen the end of its input."""

    flow = Flow.REPORTS

    number: int
    over: bool


class TakePart(Message, frozen=True, tag="take-part", array_like=True, gc=False):
    """Take your part of this cut."""

    flow = Flow.ORDERS

    number: int


class Whole(Message, frozen=True, tag="whole", array_like=True, gc=False):
    """All parts of this cut are durable, and it is on record."""

    flow = Flow.ORDERS

    number: int


class Known(msgspec.Struct, frozen=True):
    """What a coordinator keeps."""

    whole: int


class Tick(Timer, frozen=True, gc=False):
    times: int

    def __str__(self) -> str:
        return f"tick@{self.times}"


# The coordinators


@dataclass(frozen=True)
class Gathering(Coordinator):
    """A cut is whole when every part of it is durable; a hasty one does not wait for the others."""

    name = NAME
    messages = (TakePart, Whole)
    points = ("gathered",)
    keeps = Known

    hasty: bool = False

    def cut(self, kept: Known | None) -> int | None:
        return 0 if kept is None else kept.whole

    def attach(self, machine: CoordinatorMachine) -> Coordinating:
        return _Gathering(machine, self.hasty)


class _Gathering(Coordinating):
    def __init__(self, machine: CoordinatorMachine, hasty: bool) -> None:
        super().__init__(machine)
        self._hasty = hasty
        self.whole = 0
        self.saving: int | None = None
        """The cut that is being put on record as whole."""
        self.parts: dict[int, set[str]] = {}
        """Cut -> whose parts of it are durable."""
        self.over: set[str] = set()
        self._asked_to_restart = False

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {Part: self.hear}

    def started(self, kept: Known | None) -> None:
        self.whole = 0 if kept is None else kept.whole

    def met(self, member: str, incarnation: int) -> None:
        if self.whole:
            self.machine.tell(member, Whole(self.machine.incarnation, self.whole))

    def lost(self, member: str, incarnation: int) -> None:
        self.over.discard(member)

    def hear(self, member: str, part: Part) -> None:
        (self.over.add if part.over else self.over.discard)(member)
        self.parts.setdefault(part.number, set()).add(member)
        self.gather()

    def gather(self) -> None:
        machine, number = self.machine, self.whole + 1
        there = self.parts.get(number, set())
        if self.saving is None and there and (self._hasty or there.issuperset(machine.members)):
            self.saving = number
            machine.reach(f"gathered@{number}")
            machine.keep(Known(number))

    def durable(self, number: int) -> None:
        machine = self.machine
        assert self.saving is not None
        self.whole, self.saving = self.saving, None
        self.parts = {cut: who for cut, who in self.parts.items() if cut > self.whole}
        machine.decide("whole", cut=self.whole)
        if self._asked_to_restart:
            self._restart()
            return
        machine.tell_all(Whole(machine.incarnation, self.whole))
        self.gather()

    def stopped(self) -> None:
        """What was gathered was of incarnations that are no more; what is being put on record still counts."""
        self.parts.clear()
        self._asked_to_restart = True
        if self.saving is None:
            self._restart()

    def _restart(self) -> None:
        self._asked_to_restart = False
        self.machine.decide("restart", cut=self.whole)
        self.machine.restart_all(self.whole)


@dataclass(frozen=True)
class Asking(Gathering):
    """Has parts be taken in its own time, in microseconds, and asks for the next once the last is whole."""

    every: int = 5_000

    def attach(self, machine: CoordinatorMachine) -> Coordinating:
        return _Asking(machine, self.hasty, self.every)


class _Asking(_Gathering):
    def __init__(self, machine: CoordinatorMachine, hasty: bool, every: int) -> None:
        super().__init__(machine, hasty)
        self._every = every
        self._ticks = 0
        self._ticking = False
        self._asked = 0

    def timers(self) -> Mapping[type[Timer], Callable[[Any], None]]:
        return {Tick: self._tick}

    def started(self, kept: Known | None) -> None:
        super().started(kept)
        self._asked = self.whole
        self._go_on()

    def met(self, member: str, incarnation: int) -> None:
        super().met(member, incarnation)
        if self._asked > self.whole:
            self.machine.tell(member, TakePart(self.machine.incarnation, self._asked))
        self._go_on()

    def _go_on(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._ticks += 1
            self.machine.set_timer(Tick(self._ticks), self._every)

    def _tick(self, timer: Tick) -> None:
        machine = self.machine
        self._ticking = False
        if self._asked == self.whole and machine.complete:
            if self.over.issuperset(machine.members):
                return
            self._asked += 1
            machine.decide("asked", cut=self._asked)
            machine.tell_all(TakePart(machine.incarnation, self._asked))
        self._go_on()


# What slices do


@dataclass(frozen=True)
class TakesParts(Mechanism):
    """A slice's part of a cut is a checkpoint with the cut's number, beside those before it: whenever the coordinator
    says so, or, of one that takes epochs, at the end of each."""

    messages = (Part,)

    @property
    def takes_checkpoints(self) -> bool:
        return True

    def attach(self, machine: OperatorSlice) -> AtWork:
        return _TakesParts(machine)


class _TakesParts(AtWork):
    machine: OperatorSlice

    def __init__(self, machine: OperatorSlice) -> None:
        super().__init__(machine)
        self._pending: int | None = None
        self._durable = 0
        self._marks: dict[int, dict[str, int]] = {}
        """Cut -> what this slice's part of it covers."""

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {TakePart: self._asked, Whole: self._whole}

    def advised(self, coordinator: str) -> None:
        if self._durable:
            self._report()

    def _report(self) -> None:
        machine = self.machine
        machine.report(NAME, Part(machine.incarnation, self._durable, machine.ended))

    def _asked(self, neighbour: str, order: TakePart) -> None:
        if order.number <= self._durable:
            self._report()
        elif self._pending is None:
            self._take(order.number)

    def _take(self, number: int | None = None) -> None:
        machine = self.machine
        checkpoint = machine.snapshot(number=number, beside=True)
        self._pending = checkpoint.id.number
        self._marks[self._pending] = {up: channel.mark for up, channel in machine.inputs.items()}
        machine.effects.append(Persist(checkpoint))

    def closed(self, epoch: int) -> None:
        self._take()

    def room(self) -> int:
        return NO_LIMIT if self._pending is None or self.machine.spec.epoch is None else 0

    def durable(self, given: Durable) -> None:
        machine = self.machine
        machine.note(CheckpointDurable(machine.spec.slice_id, given.id.incarnation, given.id.number))
        self._pending, self._durable = None, given.id.number
        self._report()
        machine.work()

    def _whole(self, neighbour: str, order: Whole) -> None:
        machine = self.machine
        covered = [number for number in self._marks if number <= order.number]
        for up, mark in self._marks[max(covered)].items() if covered else ():
            if mark:
                machine.acknowledge(up, mark)
        for number in covered:
            del self._marks[number]
        machine.effects.append(Forget(order.number))


# The schemes


def cutting(topology: Topology, *, every: int = 5_000, hasty: bool = False) -> SchemeSubject:
    """Passive replication whose checkpoints are cuts."""
    passive = passive_replication(topology, sink_filter=True)
    operators = passive.setups[Role.OPERATOR]
    mechanisms = tuple(TakesParts() if isinstance(one, Checkpointing) else one for one in operators.mechanisms)
    operators = replace(operators, mechanisms=mechanisms, coordinators=(Asking(hasty=hasty, every=every),))
    return replace(passive, kind="cutting", setups={**passive.setups, Role.OPERATOR: operators})


def together(topology: Topology, *, epoch: int = 20, hasty: bool = False) -> SchemeSubject:
    """All slices start again from a common cut, at the end of an epoch."""
    quiet = TellSilence(seconds(0.002))
    operators = Setup(
        (TakesParts(), quiet), Numbering.CONTINUED, EpochBags(epoch), coordinators=(Gathering(hasty=hasty),)
    )
    return SchemeSubject(
        kind="together",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(), quiet), Numbering.CONTINUED),
            Role.OPERATOR: operators,
            Role.SINK: Setup((DuplicateFilter(),)),
        },
        claims=(Claim(precise_recovery(), rests_on=()),),
        restarts_by=NAME,
    )
