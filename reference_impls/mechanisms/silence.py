"""Silence: receivers of an idle channel are told how far event time has come (StreamMine3G, section 3.6.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...harness.core.events import Value
from ...harness.core.proper import proper
from ...harness.core.quantities import Duration
from ...harness.protocol.effects import Timer
from ...harness.protocol.machine import Machine
from ...harness.protocol.mechanism import AtWork, Mechanism

SILENCE = "silence"
"""The setting that says, while a run goes on, how long a channel is idle before its receivers are told: a number of
microseconds."""


@dataclass(frozen=True)
class TellSilence(Mechanism):
    """Tell the receivers of a channel that has been idle for this long how far event time has come."""

    patience: Duration

    def __post_init__(self) -> None:
        proper(self.patience, Duration, "silence", "an amount of time, as in ms(2)")

    @property
    def silent_for(self) -> Duration:
        return self.patience

    def attach(self, machine: Machine) -> AtWork:
        return _TellSilence(machine, self.patience.micros)


class Idle(Timer, frozen=True, gc=False):
    """Receivers have not heard how far time has come."""

    progress: int

    def __str__(self) -> str:
        return f"silence@{self.progress}"


class _TellSilence(AtWork):
    """When a channel is behind, its receivers are told how far time has come, unless an event does so before."""

    def __init__(self, machine: Machine, patience: int) -> None:
        super().__init__(machine)
        self._declared = self._patience = patience
        self._due = False

    def timers(self) -> Mapping[type[Timer], Callable[[Any], None]]:
        return {Idle: self._tell}

    def changed(self, settings: Mapping[str, Value]) -> None:
        """Raises InvalidScenario for what is no amount of time."""
        self._patience = Duration(settings.get(SILENCE, self._declared)).micros

    def opened(self, to: str) -> None:
        self.time_passed()

    def emitted(self) -> None:
        self.time_passed()

    def time_passed(self) -> None:
        machine = self.machine
        if self._due or machine.ended:
            return
        progress = machine.progress
        if any(channel.told < progress for channel in machine.outputs.values()):
            self._due = True
            machine.set_timer(Idle(progress), self._patience)

    def _tell(self, _: Idle) -> None:
        self._due = False
        self.machine.tell_silence(self.machine.progress)
