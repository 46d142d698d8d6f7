"""Finds out what no record of a simulated run says: what logs held, and what came to a slice that took nothing. The run
is carried out once more, and looked at meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...contracts.cluster import Run
from ...contracts.injection import FaultKind
from ...contracts.scenario import Scenario
from ...contracts.subject import SchemeSubject
from ...core.topology import Role
from ...protocol.controller import Controller
from ...protocol.effects import Effect, Input, Receive
from ...protocol.machine import Machine, Slice
from ...protocol.messages import Batch, Replay
from ...recording.history import History
from ...recording.recorder import MemoryRecorder
from ...recording.records import Offered, Record, whose
from .cluster import SimulatedCluster
from .seen_beside import SeenBeside, SentWhileWaiting

_LOOKED_AT = (Role.SOURCE, Role.OPERATOR)


class _LookingOn(MemoryRecorder):
    """Looks at each slice that has something to record, and at what each is given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = SeenBeside()
        self.now: Callable[[], int] = int
        """The time of the world, in microseconds, once there is one."""
        self._machines: dict[tuple[str, int], Machine] = {}

    def note(self, at: int, record: Record) -> None:
        super().note(at, record)
        who = (record.source, 1) if isinstance(record, Offered) else (whose(record), getattr(record, "incarnation", 0))
        machine = self._machines.get(who)
        if machine is not None and machine.log is not None:
            self.seen.note_log(who, at, machine.log.kept())

    def pass_on(self, slice_: Slice, machine: Machine, given: Input) -> list[Effect]:
        """Give a slice its input; `machine` is what it is within whatever stands around it."""
        waited = not machine.working
        effects = slice_.on(given)
        self._machines[machine.spec.slice_id, machine.incarnation] = machine
        if waited and not machine.working and isinstance(given, Receive) and isinstance(given.message, Batch | Replay):
            self._look(machine, given.neighbour, given.message)
        return effects

    def _look(self, machine: Machine, upstream: str, message: Batch | Replay) -> None:
        """See what is left of what a slice was given that takes nothing yet."""
        if not machine.spec.numbers_rise[upstream]:
            # How far it has come does not say then which have come in.
            return
        channel = machine.inputs[upstream]
        link = channel.links.get(message.incarnation)
        held = [one for one in link.held if isinstance(one, Batch)] if link is not None else []
        kept = {event.seq for one in held for event in one.events}
        numbers = tuple(event.seq for event in message.events)
        self.seen.sent.append(
            SentWhileWaiting(
                self.now(),
                machine.spec.slice_id,
                machine.incarnation,
                upstream,
                message.incarnation,
                numbers,
                tuple(number for number in numbers if number <= channel.seen or number in kept),
            )
        )


class _LookedAt:
    """A slice that is looked at."""

    def __init__(self, pass_on: Callable[[Slice, Machine, Input], list[Effect]], slice_: Slice, machine: Slice) -> None:
        self.__dict__.update(_pass_on=pass_on, _slice=slice_, _machine=machine)

    def on(self, given: Input) -> list[Effect]:
        effects: list[Effect] = self._pass_on(self._slice, self._machine, given)
        return effects

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_slice"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._slice, name, value)


def look_on(
    cluster: SimulatedCluster, scenario: Scenario, seed: int, kinds: Mapping[str, FaultKind], history: History
) -> SeenBeside:
    """At the run that has left this history. Nothing is known where what is carried out here comes to another, as code
    does that depends on more than its input. Raises UsersCodeFailed when the user's code does."""
    recorder = _LookingOn()
    run = Run("looked-at", _looked_at(scenario, recorder), seed, recorder, kinds, None)
    with cluster.simulate(run, Controller(scenario.faults)) as deployment:
        recorder.now = lambda: deployment.now().at
        deployment.prepare()
        deployment.start()
        deployment.drained(scenario.deadline)
        deployment.stop()
    return recorder.seen if recorder.history().digest() == history.digest() else SeenBeside()


def _looked_at(scenario: Scenario, recorder: _LookingOn) -> Scenario:
    """With slices that are looked at, each with all that its subject puts around it."""
    subject = scenario.subject
    assert isinstance(subject, SchemeSubject)
    wraps = {role: partial(_look_at, recorder.pass_on, subject.wraps.get(role)) for role in _LOOKED_AT}
    return replace(scenario, subject=replace(subject, wraps={**subject.wraps, **wraps}))


def _look_at(
    pass_on: Callable[[Slice, Machine, Input], list[Effect]], wrap: Callable[[Slice], Slice] | None, machine: Slice
) -> Slice:
    return _LookedAt(pass_on, machine if wrap is None else wrap(machine), machine)
