"""The output log: what a slice emits is kept until all its receivers have acknowledged it, and replayed to one that
asks (StreamMine3G, section 3.7.1)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ...harness.core.events import Event
from ...harness.protocol.channels import OutputChannel, PendingEvents
from ...harness.protocol.effects import Gone
from ...harness.protocol.machine import Machine
from ...harness.protocol.mechanism import AtWork, Log, Mechanism
from ...harness.protocol.messages import Checkpoint, after

PART = "log"


@dataclass(frozen=True)
class OutputLog(Mechanism):
    """Keep what was emitted until it is acknowledged, and replay it on request."""

    @property
    def replays(self) -> bool:
        return True

    def attach(self, machine: Machine) -> AtWork:
        return _OutputLog(machine)


class Logged(msgspec.Struct, frozen=True):
    """The outputs that a receiver may still ask for: the part of a checkpoint."""

    events: dict[str, list[Event]]
    """Downstream slice -> what it has not acknowledged."""


@dataclass(slots=True)
class _Reader:
    """One incarnation of a receiver to which the log is being replayed."""

    replayed: int
    """Up to here."""
    stop: int | None = None
    """It needs nothing from this number on."""


@dataclass(slots=True)
class _Channel:
    channel: OutputChannel
    kept: list[list[Event]] = field(default_factory=list)
    readers: dict[int, _Reader] = field(default_factory=dict)
    """Those to whom it is still being replayed."""


class _OutputLog(AtWork, Log):
    part = PART

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        machine.log = self
        self._channels = {to: _Channel(channel) for to, channel in machine.outputs.items()}
        self._trimmed = 0

    @property
    def trimmed(self) -> int:
        return self._trimmed

    def kept(self) -> Mapping[str, Sequence[int]]:
        return {to: [event.seq for events in one.kept for event in events] for to, one in self._channels.items()}

    def keep(self, to: str, events: list[Event]) -> None:
        self._channels[to].kept.append(events)

    def open(self, to: str, receiver: int, after: int, waiting: list[PendingEvents]) -> None:
        """What waits is in the log too, and goes out by it."""
        replayed = min(after, waiting[0][0][0].seq - 1) if waiting else after
        self._channels[to].readers[receiver] = _Reader(replayed)

    def next(self, to: str, receiver: int) -> list[Event] | None:
        one = self._channels[to]
        reader = one.readers.get(receiver)
        if reader is None:
            return None
        place = bisect_right(one.kept, reader.replayed, key=_last)
        if place < len(one.kept):
            events = after(one.kept[place], reader.replayed)
            if reader.stop is not None:
                events = [event for event in events if event.seq < reader.stop]
            if events:
                reader.replayed = events[-1].seq
                return events
        del one.readers[receiver]
        return None

    def replaying(self, to: str, receiver: int) -> bool:
        return receiver in self._channels[to].readers

    def stop(self, to: str, receiver: int, seq: int) -> None:
        reader = self._channels[to].readers.get(receiver)
        if reader is not None:
            reader.stop = seq

    def acknowledged(self, to: str, upto: int) -> None:
        self.trim(to, upto)

    def trim(self, to: str, upto: int) -> None:
        """Drop the batches that end at or before `upto`."""
        one = self._channels[to]
        done = bisect_right(one.kept, upto, key=_last)
        if done:
            del one.kept[:done]
            self._trimmed += done
        unsent = one.channel.unsent
        if unsent:
            del unsent[: bisect_right(unsent, upto, key=lambda waiting: _last(waiting[0]))]

    def lost(self, given: Gone) -> None:
        if given.neighbour in self._channels:
            self._channels[given.neighbour].readers.pop(given.incarnation, None)

    def save(self) -> Logged:
        return Logged({to: [event for events in one.kept for event in events] for to, one in self._channels.items()})

    def restore(self, checkpoint: Checkpoint) -> None:
        logged = checkpoint.part(PART, Logged)
        for to, events in (logged.events if logged is not None else {}).items():
            one = self._channels[to]
            one.kept = [events] if events else []
            if one.channel.unsent is not None:
                one.channel.unsent = []


def _last(events: list[Event]) -> int:
    return events[-1].seq
