"""The duplicate filter: a high-water mark for each channel (StreamMine3G, section 3.7.1; k-safety on Storm, "Technical
Contributions", section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from ...harness.core.events import Event
from ...harness.protocol.channels import InputChannel
from ...harness.protocol.machine import Machine
from ...harness.protocol.mechanism import AtWork, Mechanism
from ...harness.protocol.messages import after


@dataclass(frozen=True)
class DuplicateFilter(Mechanism):
    """Drop an event whose sequence number is not above the last one taken from its channel."""

    def attach(self, machine: Machine) -> AtWork:
        return _DuplicateFilter(machine)


class _DuplicateFilter(AtWork):
    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._inherits = machine.spec.inherits

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        if not self._inherits:
            if events[0].seq > channel.seen:
                return events
            if events[-1].seq <= channel.seen:
                # Of replicas every copy but the first, and all of it.
                return []
        return after(events, channel.seen)
