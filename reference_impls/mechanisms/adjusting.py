"""Settings of mechanisms that change while a run goes on, at the same place in the input of every replica and of every
incarnation of a slice, whoever dies in between.

- The place of a change is a *position*: so many inputs make up the state of the slice. Where replicas or replays take
  the same again, a slice takes its input in an order that follows from the events alone, so a position means the same
  to all that ever take it. Where nothing is taken twice, it needs no such order.
- A coordinator, the *adjuster*, tells each slice how far it may go: up to its *horizon*. Changes come at the horizon or
  after it, and never before, so whoever has heard of a horizon knows all changes up to there. It asks for more in time,
  and at its horizon it waits.
- Both are durable before they are told. Whoever comes after an adjuster goes on from them.
- A slice's position, and what it goes by there, are part of its checkpoints. One that starts from a checkpoint, or
  takes over the state of a peer, goes by what was in force there; what was changed since then, it changes again where
  its predecessor did. It takes nothing before it has heard how far it may go; only the first `span` inputs of a slice
  are free, since nothing changes before their end.
- The next change of a slice is not decided before all of its incarnations that are there have taken over the last, or,
  of those that stand by and take nothing, know of it.
- A source has one incarnation, and nobody takes its input again. It waits at its horizon as others do, and offers
  nothing meanwhile.

What is to be changed says a scheme, by a kind of `Adjuster` of its own; what a setting means say those mechanisms that
go by it (`AtWork.changed`), and merges (`Sequencer.changed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec

from ...harness.core.errors import InvalidScenario
from ...harness.core.events import Value
from ...harness.core.proper import positive
from ...harness.core.quantities import Events
from ...harness.core.topology import Role
from ...harness.protocol.channels import InputChannel
from ...harness.protocol.coordinator import Coordinating, Coordinator, CoordinatorMachine
from ...harness.protocol.effects import Timer
from ...harness.protocol.mechanism import AtWork, Mechanism
from ...harness.protocol.messages import Checkpoint, Flow, Message, Tie
from ...harness.protocol.operator import OperatorSlice
from ...harness.protocol.source import SourceSlice
from ...harness.recording.records import Adopted, Changed

PART = "adjustable"
_FINE = 8
"""The longer nothing is reported, the rarer an adjuster's clock ticks: it is right by one part in so many."""
_PATIENCE = 1 << 20
"""Ticks without a report after which its clock stands still until the next: a run has to come to its rest."""


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A change of what a slice goes by."""

    number: int
    """Among those of its slice, from 1."""
    since: int
    """The position from which on it holds."""
    settings: dict[str, Value]
    """All that is other than declared from there on."""


class MayTake(Message, frozen=True, tag="may-take", array_like=True, gc=False):
    """How far a slice may go, and all changes of it that there are."""

    flow = Flow.ORDERS

    horizon: int
    changes: list[Change]

    @property
    def identity(self) -> str:
        return f"may-take@{self.horizon}.{len(self.changes)}"


class CameSoFar(Message, frozen=True, tag="reached", array_like=True, gc=False):
    """How far a slice has come, and that it would go further."""

    flow = Flow.REPORTS

    position: int
    horizon: int
    """Up to which it may go."""
    known: int
    """The number of the last change that it has heard of."""
    adopted: int
    """And of the last that it goes by."""
    arrived: list[int]
    """How many events have come in since it was started, on each of its channels; of a source: were offered."""
    over: bool
    """Whether its input is."""

    @property
    def identity(self) -> str:
        over = "@over" if self.over else ""
        return f"reached@{self.position}@{self.horizon}.{self.known}.{self.adopted}{over}"


class AdjusterTick(Timer, frozen=True, gc=False):
    times: int

    def __str__(self) -> str:
        return f"adjuster@{self.times}"


@dataclass(frozen=True)
class Load:
    """What came in for a slice since what it goes by was considered last."""

    arrived: tuple[int, ...]
    """Events, on each of its channels."""
    ticks: int
    """Of the adjuster's clock."""


class Adjustments(msgspec.Struct, frozen=True):
    """What an adjuster makes durable."""

    horizons: dict[str, int] = {}
    """Slice -> how far it may go."""
    changes: dict[str, list[Change]] = {}


@dataclass(frozen=True)
class Adjuster(Coordinator):
    """Decides what the slices go by whose setups name it, and `Adjustable`."""

    name: ClassVar[str] = "adjuster"
    messages = (MayTake,)
    points = ("change",)
    keeps = Adjustments

    span: int = 32
    """How many inputs a slice may take ahead of what it has asked for."""
    least: int = 8
    """So many events have to have come in before what a slice goes by is considered again."""
    every: int = 0
    """Microseconds between two ticks of its clock, where it goes by one; 0: it has none."""

    def __post_init__(self) -> None:
        positive(self.span, "the span of an adjuster, in events,")
        positive(self.least, "how many events an adjuster considers")
        if self.every != 0 or isinstance(self.every, bool):
            positive(self.every, "the time between two ticks of an adjuster, in microseconds,")

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        """What a slice should go by: all that is to be other than declared. `settings` is what it goes by now. Only
        what is given may matter: no clock, no chance, nothing kept."""
        raise NotImplementedError(f"{type(self).__name__} does not say what slices go by")

    def scaled(self, size: Callable[[Events], Events]) -> Adjuster:
        """Its changes come early enough for slices to get there."""
        least = size(Events(self.least)).count
        return replace(self, least=least, span=min(self.span, 2 * least))

    def attach(self, machine: CoordinatorMachine) -> Coordinating:
        return Adjustment(machine, self)


class Adjustment(Coordinating):
    """An adjuster at work."""

    def __init__(self, machine: CoordinatorMachine, settings: Adjuster) -> None:
        super().__init__(machine)
        self.settings = settings
        self.known = Adjustments()
        """What is durable."""
        self.next = Adjustments()
        """What is to be durable next."""
        self.saving: Adjustments | None = None
        """What is being made durable."""
        self.reports: dict[str, dict[int, CameSoFar]] = {}
        """Slice -> its incarnation -> what it has reported last."""
        self.considered: dict[tuple[str, int], tuple[int, list[int]]] = {}
        """(slice, incarnation) -> when it was considered last, and what had come in by then."""
        self.ticks = 0
        self.heard = 0
        """At which tick something was reported last."""
        self.ticking = False

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {CameSoFar: self.hear}

    def timers(self) -> Mapping[type[Timer], Callable[[Any], None]]:
        return {AdjusterTick: self._tick}

    def started(self, kept: Adjustments | None) -> None:
        if kept is not None:
            self.known = self.next = kept
            for member, changes in kept.changes.items():
                # The last of them may have become durable when nobody was there any more to say so.
                for change in changes:
                    self._say(member, change)

    def lost(self, member: str, incarnation: int) -> None:
        self.reports.get(member, {}).pop(incarnation, None)
        self.considered.pop((member, incarnation), None)

    def horizon(self, known: Adjustments, member: str) -> int:
        return known.horizons.get(member, self.settings.span)

    def hear(self, member: str, report: CameSoFar) -> None:
        machine = self.machine
        self.heard = self.ticks
        self._go_on()
        self.reports.setdefault(member, {})[report.incarnation] = report
        self._consider(member, report)
        span = self.settings.span
        if not report.over and self.horizon(self.next, member) - report.position <= span // 2:
            self._extend(member, report.position + span)
        told = self._told(member, self.known)
        if told.horizon > report.horizon or len(told.changes) > report.known:
            machine.tell(member, told)
        self._save()

    def _told(self, member: str, known: Adjustments) -> MayTake:
        return MayTake(self.machine.incarnation, self.horizon(known, member), known.changes.get(member, []))

    def _extend(self, member: str, horizon: int) -> None:
        self.next = Adjustments(self.next.horizons | {member: horizon}, self.next.changes)

    # What slices go by

    def _consider(self, member: str, report: CameSoFar) -> None:
        """Decide on a change, at the first place that nobody may have reached."""
        whose = (member, report.incarnation)
        since, before = self.considered.setdefault(whose, (self.ticks, report.arrived))
        came = tuple(now - then for now, then in zip(report.arrived, before, strict=True))
        if sum(came) < self.settings.least:
            return
        self.considered[whose] = (self.ticks, report.arrived)
        changes = self.next.changes.get(member, [])
        if report.over or not self._all_go_by(member, len(changes)):
            return
        in_force = changes[-1].settings if changes else {}
        chosen = self._chosen(member, Load(came, self.ticks - since), in_force)
        if chosen == in_force:
            return
        place = self.horizon(self.next, member)
        change = Change(len(changes) + 1, place, chosen)
        self.machine.reach(f"change {member}@{change.number}")
        self.next = Adjustments(self.next.horizons, self.next.changes | {member: [*changes, change]})
        self._extend(member, place + self.settings.span)

    def _chosen(self, member: str, load: Load, in_force: Mapping[str, Value]) -> dict[str, Value]:
        """Raises InvalidScenario for what is no settings."""
        chosen = self.settings.choose(member, load, in_force)
        if not isinstance(chosen, Mapping) or not all(isinstance(name, str) for name in chosen):
            raise InvalidScenario(
                f"{type(self.settings).__name__}.choose() returned {chosen!r} for {member}; it returns all that is to "
                "be other than declared, as {name: value}, and {} where nothing is"
            )
        return dict(chosen)

    def _all_go_by(self, member: str, number: int) -> bool:
        reports = self.reports[member]
        there = self.machine.there[member]
        return all(one in reports and reports[one].adopted == number for one in there)

    def _save(self) -> None:
        if self.saving is None and self.next != self.known:
            self.saving = self.next
            self.machine.keep(self.next)

    def durable(self, number: int) -> None:
        before, self.known, self.saving = self.known, self.saving or self.known, None
        for member in self.machine.members:
            told, told_before = self._told(member, self.known), self._told(member, before)
            for change in told.changes[len(told_before.changes) :]:
                self._say(member, change)
            if told != told_before:
                self.machine.tell(member, told)
        self._save()

    def _say(self, member: str, change: Change) -> None:
        machine = self.machine
        machine.note(
            Changed(machine.name, machine.incarnation, member, change.number, change.since, dict(change.settings))
        )

    # Its clock

    def _go_on(self) -> None:
        if self.settings.every and not self.ticking:
            self.ticking = True
            more = max(1, (self.ticks - self.heard) // _FINE)
            self.machine.set_timer(AdjusterTick(self.ticks + more), more * self.settings.every)

    def _tick(self, timer: AdjusterTick) -> None:
        self.ticking = False
        self.ticks = timer.times
        if self.ticks - self.heard < _PATIENCE and not self._all_over():
            self._go_on()

    def _all_over(self) -> bool:
        """Whether the input of all that are there is."""
        machine, reports = self.machine, self.reports
        return all(
            one in reports.get(member, {}) and reports[member][one].over
            for member in machine.members
            for one in machine.there[member]
        )


# Of a slice


@dataclass(frozen=True)
class Adjustable(Mechanism):
    """Of an operator or a source whose setup names an `Adjuster`: it takes its changes where that says. Named before
    those that go by what changes."""

    messages = (CameSoFar,)
    points = ("adopt",)

    def attach(self, machine: OperatorSlice | SourceSlice) -> AtWork:
        leader = next((one for one in machine.spec.setup.coordinators if isinstance(one, Adjuster)), None)
        if leader is None:
            raise InvalidScenario(
                f"{machine.spec.slice_id} is adjustable, and its setup names no Adjuster that would change anything; "
                "add one to its coordinators, or leave Adjustable() out"
            )
        if machine.spec.role is Role.SINK:
            raise InvalidScenario(f"{machine.spec.slice_id} is a sink, and waits for nobody: leave Adjustable() out")
        return Adapting(machine, leader)


class Adapted(msgspec.Struct, frozen=True):
    """The part of a checkpoint that says what its state was made by."""

    position: int
    number: int
    """Of the change that is in force."""
    settings: dict[str, Value]


class Adapting(AtWork):
    """At work in one slice."""

    part = PART
    machine: OperatorSlice | SourceSlice

    def __init__(self, machine: OperatorSlice | SourceSlice, leader: Adjuster) -> None:
        super().__init__(machine)
        self.leader = leader
        self.source = machine.spec.role is Role.SOURCE
        self.passive = not machine.spec.setup.replicas_take_all
        """Whether secondaries take nothing before they are promoted."""
        self.before = 0
        """How many inputs made up what it started from, less what it had taken then."""
        self.horizon = leader.span
        self.in_force = Change(0, 0, {})
        self.changes: list[Change] = []
        """Those it has heard of that are still to come."""
        self.asked = -1
        """The horizon at which it asked for more."""
        self.told_over = False
        self.to_ask = False
        """Whether it goes on from a state of another's, from which it may take nothing or which was its primary's, and
        has not asked yet how far it may go."""
        self.arrived = [0] * len(machine.inputs)

    @property
    def position(self) -> int:
        return self.before + self.machine.taken

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {MayTake: self.heard}

    # What is kept

    def save(self) -> Adapted:
        """What is due here is in force, whoever has heard of what was taken first."""
        in_force = self.in_force
        for change in self.changes:
            if change.since <= self.position:
                in_force = change
        return Adapted(self.position, in_force.number, in_force.settings)

    def restore(self, checkpoint: Checkpoint) -> None:
        adapted = checkpoint.part(PART, Adapted)
        if adapted is None:
            return
        self.before = adapted.position - self.machine.taken
        self.in_force = Change(adapted.number, adapted.position, adapted.settings)
        self.changes = [change for change in self.changes if change.number > adapted.number]
        # Where nothing may be taken, nothing is, and so nobody would ask.
        self.to_ask = self._stands_by or self.left() <= 0
        self._go_by(adapted.settings)

    # How far it may go

    def advised(self, coordinator: str) -> None:
        if coordinator == self.leader.name:
            self._report()

    def heard(self, leader: str, told: MayTake) -> None:
        self.horizon = max(self.horizon, told.horizon)
        last = self.changes[-1].number if self.changes else self.in_force.number
        news = [change for change in told.changes if change.number > last]
        self.changes += news
        if news and self._stands_by:
            self._report()
        self.machine.work()

    @property
    def _stands_by(self) -> bool:
        return self.passive and not self.machine.working

    def came_in(self, channel: InputChannel, events: list[Any]) -> list[Any]:
        self.arrived[channel.place] += len(events)
        return events

    def left(self) -> int:
        return (self.changes[0].since if self.changes else self.horizon) - self.position

    def room(self) -> int:
        self._adopt_due()
        if self.source:
            self._ask()
        return max(0, self.left())

    def took(self, up: str, channel: InputChannel, events: list[Any], ties: list[Tie] | None) -> None:
        self._adopt_due()
        self._ask()

    def _ask(self) -> None:
        """For more, while there is still something that may be taken."""
        if self.asked < self.horizon and self.horizon - self.position <= self.leader.span // 2:
            self.asked = self.horizon
            self._report()

    def handled(self) -> None:
        if (self.machine.ended and not self.told_over) or (self.to_ask and self.machine.working):
            self._report()

    def _adopt_due(self) -> None:
        machine = self.machine
        while self.changes and self.changes[0].since <= self.position:
            change = self.changes[0]
            machine.reach(f"{PART}", f"adopt@{change.number}")
            del self.changes[0]
            self.in_force = change
            self._go_by(change.settings)
            machine.note(Adopted(machine.spec.slice_id, machine.incarnation, change.number, self.position))

    def _go_by(self, settings: Mapping[str, Value]) -> None:
        """Raises InvalidScenario for settings that nothing goes by."""
        asked = _AskedFor(settings)
        self.machine.change(asked)
        for name in sorted(settings.keys() - asked.names):
            raise InvalidScenario(
                f"{type(self.leader).__name__} changes {name!r} of {self.machine.spec.slice_id}, and neither its merge "
                f"nor any of its mechanisms goes by that; they ask for {', '.join(sorted(asked.names)) or 'nothing'}"
            )

    def _report(self) -> None:
        machine, in_force = self.machine, self.in_force.number
        known = self.changes[-1].number if self.changes else in_force
        self.told_over = machine.ended
        self.to_ask = self.to_ask and not machine.working
        # Who stands by is past no place.
        adopted = known if self._stands_by else in_force
        arrived = [machine.taken] if self.source else list(self.arrived)
        machine.report(
            self.leader.name,
            CameSoFar(machine.incarnation, self.position, self.horizon, known, adopted, arrived, machine.ended),
        )


class _AskedFor(Mapping[str, Value]):
    """Settings of which it is known which were asked for, whether or not they are there."""

    def __init__(self, settings: Mapping[str, Value]) -> None:
        self._settings = settings
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        self.names.add(name)
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        self.names.update(self._settings)
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)
