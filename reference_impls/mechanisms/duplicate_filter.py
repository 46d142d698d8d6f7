"""The duplicate filter: a high-water mark for each channel (StreamMine3G, section 3.7.1; k-safety on Storm, "Technical
Contributions", section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from ...harness.model import Event
from ...harness.slices.channels import InputChannel
from ...harness.slices.machine import Machine
from ...harness.slices.mechanism import AtWork, Mechanism
from ...harness.slices.messages import after


@dataclass(frozen=True)
class DuplicateFilter(Mechanism):
    """Drop an event whose sequence number is not above the last one taken from its channel."""

    def attach(self, machine: Machine) -> AtWork:
        return _DuplicateFilter(machine)


class _DuplicateFilter(AtWork):
    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        given = events
        if self.machine.spec.inherits:
            events = after(events, channel.seen)
        elif events[0].seq <= channel.seen:
            # Of replicas every copy but the first, and all of it.
            events = after(events, channel.seen) if events[-1].seq > channel.seen else []
        self.machine.dropped += len(given) - len(events)
        return events
