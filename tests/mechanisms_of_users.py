"""A mechanism as a user would bring it, in a file of its own, with a message, a timer, a crash point and a part of a
checkpoint: a slice acknowledges its input in its own time, whether or not a checkpoint covers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.events import Event
from streamproof.harness.core.quantities import Events
from streamproof.harness.core.topology import Role
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.effects import Timer
from streamproof.harness.protocol.machine import Machine
from streamproof.harness.protocol.mechanism import AtWork, Mechanism
from streamproof.harness.protocol.messages import Checkpoint, Flow, Message, Tie


class Hurried(Message, frozen=True, tag="hurried", array_like=True, gc=False):
    """A slice tells those that it feeds how often it has acknowledged."""

    flow = Flow.DOWNSTREAM

    times: int

    @property
    def identity(self) -> str:
        return f"hurried@{self.times}"


class Soon(Timer, frozen=True, gc=False):
    times: int

    def __str__(self) -> str:
        return f"hurry@{self.times}"


class Hurry(msgspec.Struct, frozen=True):
    """The part of a checkpoint."""

    times: int
    heard: dict[str, int]
    """Upstream slice -> how often it said that it has acknowledged."""


@dataclass(frozen=True)
class AcknowledgeSoon(Mechanism):
    """Every so many events, acknowledge a moment later what was taken; what is careful only says so."""

    messages = (Hurried,)
    points = ("acknowledged",)

    every: Events
    careful: bool = False

    def attach(self, machine: Machine) -> AtWork:
        return _AcknowledgeSoon(machine, self)


class _AcknowledgeSoon(AtWork):
    part = "hurry"

    def __init__(self, machine: Machine, settings: AcknowledgeSoon) -> None:
        super().__init__(machine)
        self._settings = settings
        self._since = 0
        self._times = 0
        self._heard: dict[str, int] = {}

    def timers(self) -> Mapping[type[Timer], Callable[[Any], None]]:
        return {Soon: self._acknowledge}

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {Hurried: self._hear}

    def save(self) -> Hurry:
        return Hurry(self._times, dict(self._heard))

    def restore(self, checkpoint: Checkpoint) -> None:
        hurry = checkpoint.part(self.part, Hurry)
        if hurry is not None:
            self._times, self._heard = hurry.times, dict(hurry.heard)

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        self._since += len(events)
        if self._since >= self._settings.every.count:
            self._since = 0
            self._times += 1
            self.machine.set_timer(Soon(self._times), 0)

    def _acknowledge(self, timer: Soon) -> None:
        machine = self.machine
        if not self._settings.careful:
            for up, channel in machine.inputs.items():
                if channel.mark:
                    machine.acknowledge(up, channel.mark)
        machine.reach("hurry", f"acknowledged@{timer.times}")
        for to, outputs in machine.outputs.items():
            for receiver in outputs.listeners:
                machine.send(to, receiver, Hurried(machine.incarnation, timer.times))

    def _hear(self, neighbour: str, message: Hurried) -> None:
        self._heard[neighbour] = message.times


def hurrying(subject: SchemeSubject, every: Events, *, careful: bool = False) -> SchemeSubject:
    """A scheme with one more mechanism in all that takes input."""
    one = AcknowledgeSoon(every, careful)
    setups = {
        role: setup if role is Role.SOURCE else replace(setup, mechanisms=(*setup.mechanisms, one))
        for role, setup in subject.setups.items()
    }
    return replace(subject, kind="hurrying", setups=setups)
