"""A mechanism of one's own, in one file, and the scheme that it makes: under load, input is shed.

To be run in this folder:

    streamproof run a_mechanism:crashed_while_shedding --cluster simulated
    streamproof explore a_mechanism:crashed_while_shedding --schedules 300
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamproof import (
    Claim,
    Scenario,
    Topology,
    at_least_once,
    at_most_once,
    checkpoint,
    crash,
    events,
    gap,
    numbered,
    trace,
)
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.events import Event
from streamproof.harness.core.topology import Role
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.machine import Machine
from streamproof.harness.protocol.mechanism import AtWork, Mechanism
from streamproof.harness.protocol.messages import Checkpoint


@dataclass(frozen=True)
class Shedding(Mechanism):
    """Drop every `nth` batch that comes in. What is dropped comes in one piece: else each event that is taken would be
    on record by itself."""

    points = ("shed",)

    nth: int

    def attach(self, machine: Machine) -> AtWork:
        return _Shedding(machine, self.nth)


class _Shedding(AtWork):
    part = "shedding"

    def __init__(self, machine: Machine, nth: int) -> None:
        super().__init__(machine)
        self._nth = nth
        self._batches = 0
        """That have come in. It is in checkpoints: who comes back goes on counting."""

    def save(self) -> int:
        return self._batches

    def restore(self, checkpoint: Checkpoint) -> None:
        self._batches = checkpoint.part(self.part, int) or 0

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        self._batches += 1
        if self._batches % self._nth:
            return events
        self.machine.reach("shedding", f"shed@{self._batches}")
        return []


def shedding(topology: Topology, *, nth: int = 5) -> SchemeSubject:
    """Gap recovery that sheds: claims at-most-once, for any number of failures."""
    base = gap(topology, checkpoint_every=events(20))
    operators = base.setups[Role.OPERATOR]
    operators = replace(operators, mechanisms=(Shedding(nth), *operators.mechanisms))
    return replace(
        base,
        kind="shedding",
        setups={**base.setups, Role.OPERATOR: operators},
        claims=(Claim(at_most_once()),),
    )


def crashed_while_shedding() -> Scenario:
    """A tracer crashes after a checkpoint: what was shed is missing, and nothing counts twice."""
    return Scenario(
        shedding(trace()),
        numbered(events=200),
        [crash("trace-0").at(checkpoint(2).durable)],
        breaks=[at_least_once()],
    )


SCHEMES = (shedding,)
