"""Acknowledging an item as soon as it is received, keeping an output until then, and knowing an item that comes again
by its number (AF-Stream, sections 3.4.2 and 3.4.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
from math import inf
from typing import Any

import msgspec

from ...harness.core.events import Event
from ...harness.core.operators import punctuated
from ...harness.core.proper import proper
from ...harness.core.quantities import Events
from ...harness.core.slice_names import operator_of
from ...harness.core.topology import Topology
from ...harness.protocol.channels import InputChannel, PendingEvents
from ...harness.protocol.machine import Machine
from ...harness.protocol.mechanism import AtWork, Log, Mechanism
from ...harness.protocol.messages import Checkpoint, Flow, Message, Replay, after, rises
from ...harness.protocol.operator import OperatorSlice
from ...harness.protocol.spec import meets
from .thresholds import Thresholds

ONE_BY_ONE = Events(1)


class Received(Message, frozen=True, tag="received", array_like=True, gc=False):
    """What was sent on a channel up to the event with this number has been received: it is the receiver's now. Numbers
    need not rise, so those before it are those that were sent before it."""

    flow = Flow.UPSTREAM
    cumulative = True

    upto: int


class Settled(Message, frozen=True, tag="settled", array_like=True, gc=False):
    """What was sent on a channel up to the event with this number will never be sent again."""

    flow = Flow.DOWNSTREAM

    upto: int


class AcknowledgedTogether:
    """How many events of a channel its receiver lets come before it acknowledges them, all in one message: so many as
    are asked for, and never so many that a sender which stops at gamma could wait for it."""

    def __init__(self, topology: Topology, every: int, shares: Mapping[str, Thresholds]) -> None:
        """`shares`: operator -> what one of its slices may lose; who is not named, as a source, never stops."""
        self._topology, self._every, self._shares = topology, every, shares
        self._known: dict[tuple[str, int], int] = {}

    def of(self, sender: str, incarnation: int) -> int:
        """On the channel from an incarnation of a slice; 1: each batch at once."""
        found = self._known.get((sender, incarnation))
        if found is None:
            found = self._known[sender, incarnation] = max(1, int(min(self._every, self._spare(sender, incarnation))))
        return found

    def _spare(self, sender: str, incarnation: int) -> float:
        """Each of its receivers may leave so many unacknowledged, and half of gamma is left to it all the same, or what
        one more input makes. By its incarnation it has failed as often as it can have, and gamma is not smaller."""
        share = self._shares.get(operator_of(sender))
        if share is None:
            return inf
        makes = (self._topology.stages[operator_of(sender)].operator.fan_out or 1) * len(self._topology.choices(sender))
        return (share.after(incarnation - 1).gamma - makes) / (2 * len(self._topology.downstream(sender)))


class NumbersSeen:
    """The numbers of what has come in on a slice's channels.

    Where numbers rise, the highest says it all. Where channels meet on the way they do not, and those are kept that the
    sender may send again: of an incarnation that is gone, all that it had not settled. What it made of an item that was
    lost with it may be made again, when that item comes again.

    What an incarnation had sent before something that is known came in before that, if only to a predecessor, whose
    acknowledgement was under way when it failed: it comes again together with that, and is nothing new. The predecessor
    had processed it, or it would be known.
    """

    def __init__(self, machine: Machine) -> None:
        rise = machine.spec.numbers_rise
        self._seen: dict[int, dict[int, int]] = {
            channel.place: {} for up, channel in machine.inputs.items() if not rise[up]
        }
        """Place of a channel -> numbers, in the order in which they came -> the incarnation that sent them first."""

    def unseen(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        """Those events that come for the first time, which are seen now."""
        seen = self._seen.get(channel.place)
        if seen is None:
            return events if events[0].seq > channel.seen and rises(events) else after(events, channel.seen)
        numbers = [event.seq for event in events]
        if seen.keys().isdisjoint(numbers):
            fresh = events
        else:
            known = [place for place, number in enumerate(numbers) if seen.get(number) == channel.sender]
            later = events[known[-1] + 1 :] if known else events
            fresh = [event for event in later if event.seq not in seen]
            numbers = [event.seq for event in fresh]
        seen.update(dict.fromkeys(numbers, channel.sender))
        return fresh

    def settle(self, place: int, sender: int, upto: int) -> None:
        """An incarnation will not send again what it has sent up to a number."""
        seen = self._seen.get(place, {})
        if seen.get(upto) == sender:
            for number in [*takewhile(lambda one: one != upto, seen), upto]:
                if seen[number] == sender:
                    del seen[number]

    def save(self, waiting: Iterable[tuple[int, list[Event]]]) -> dict[int, list[tuple[int, int]]]:
        """What has been seen, but for what waits, by the place of its channel."""
        without: dict[int, set[int]] = {place: set() for place in self._seen}
        if without:
            for place, events in waiting:
                if place in without:
                    without[place].update([event.seq for event in events])
        return {
            place: [(number, by) for number, by in seen.items() if number not in without[place]]
            for place, seen in self._seen.items()
        }

    def restore(self, saved: Mapping[int, list[tuple[int, int]]]) -> None:
        for place, numbers in saved.items():
            self._seen[int(place)] = dict(numbers)


@dataclass(frozen=True)
class AcknowledgeReceipt(Mechanism):
    """Of a sink: take what comes for the first time, and acknowledge all that comes at once, or some together."""

    messages = (Received, Settled)

    every: Events = ONE_BY_ONE
    """See `AcknowledgedTogether`."""
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    """Operator -> what one of its slices may lose in all."""

    def __post_init__(self) -> None:
        proper(self.every, Events, "every", "a number of events, as in events(100)")
        proper(self.thresholds, Mapping, "thresholds", "a mapping from operators to Thresholds")

    def attach(self, machine: Machine) -> AtWork:
        return _Receipt(machine, self)


class _Receipt(AtWork):
    def __init__(self, machine: Machine, settings: AcknowledgeReceipt) -> None:
        super().__init__(machine)
        self._seen = NumbersSeen(machine)
        self._together = AcknowledgedTogether(machine.spec.topology, settings.every.count, settings.thresholds)
        self._unheard = dict.fromkeys(machine.inputs, 0)
        """Upstream slice -> events that are not acknowledged."""

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {Settled: self._settled}

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        machine = self.machine
        up = machine.spec.upstream[channel.place]
        self._unheard[up] += len(events)
        if self._unheard[up] >= self._together.of(up, channel.sender):
            self._unheard[up] = 0
            machine.send(up, channel.sender, Received(machine.incarnation, events[-1].seq))
        return self._seen.unseen(channel, events)

    def _settled(self, peer: str, message: Settled) -> None:
        self._seen.settle(self.machine.inputs[peer].place, message.incarnation, message.upto)


@dataclass(frozen=True)
class KeepUntilReceived(Mechanism):
    """Keep an output until its receiver has acknowledged it, and send it to one that comes after. It is lost with its
    slice, but for what its receiver takes for a punctuation, which is part of a backup."""

    messages = (Received, Settled)

    @property
    def replays(self) -> bool:
        return True

    def attach(self, machine: Machine) -> Unacknowledged:
        return Unacknowledged(machine)


class Unreceived(msgspec.Struct, frozen=True):
    """The part of a checkpoint: outputs that are not acknowledged and must not be lost."""

    punctuations: dict[str, list[Event]] = {}
    """By downstream slice."""


class Unacknowledged(AtWork, Log):
    part = "unacknowledged"

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        machine.log = self
        self._kept: dict[str, deque[list[Event]]] = {to: deque() for to in machine.outputs}
        """Downstream slice -> outputs, as they went out together, in their order."""
        self._received = dict.fromkeys(machine.outputs, (0, -1))
        """How many outputs were acknowledged on each channel, and the number of the last."""
        self._forgetful = [to for to in machine.outputs if meets(machine.spec.topology, machine.spec.slice_id)]
        """Those who keep numbers until these are settled."""
        self.count = 0
        """Outputs that are not acknowledged, on all channels."""

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {Received: self._was_received}

    def _was_received(self, peer: str, message: Received) -> None:
        machine = self.machine
        if (peer, message.incarnation) in machine.gone:
            machine.refuse(peer, message)
            return
        before = self.count
        if not self._drop(self._kept[peer], message.upto):
            return
        self._received[peer] = self._received[peer][0] + before - self.count, message.upto
        if isinstance(machine, OperatorSlice):
            machine.work()

    def _drop(self, kept: deque[list[Event]], upto: int) -> bool:
        """What went out up to the event with this number, if that is there."""
        # As a rule what goes out together is received together.
        if any(events[-1].seq == upto for events in kept):
            while kept[0][-1].seq != upto:
                self.count -= len(kept.popleft())
        elif any(event.seq == upto for events in kept for event in events):
            while all(event.seq != upto for event in kept[0]):
                self.count -= len(kept.popleft())
        else:
            return False
        first = kept.popleft()
        place = next(place for place, event in enumerate(reversed(first)) if event.seq == upto)
        self.count -= len(first) - place
        if place:
            kept.appendleft(first[-place:])
        return True

    # Settling

    def positions(self) -> dict[str, tuple[int, int]]:
        """The last output on each channel, as `settle` takes it later. A backup that is made now holds what must not be
        lost and is not acknowledged, which whoever is restored from it sends again: that and what came after is not
        settled by it."""
        return {to: self._before_what_is_held(to) for to in self._forgetful}

    def _before_what_is_held(self, to: str) -> tuple[int, int]:
        received, last = self._received[to]
        kept = [event.seq for event in self._unreceived(to)]
        held = {event.seq for event in self._punctuations(to)}
        loose = [*takewhile(lambda number: number not in held, kept)]
        return received + len(loose), loose[-1] if loose else last

    def settle(self, positions: Mapping[str, tuple[int, int]]) -> None:
        """What was made up to there is never made again; what is not acknowledged can be sent again all the same."""
        machine = self.machine
        for to, (made, last) in positions.items():
            acknowledged, received = self._received[to]
            upto = last if made <= acknowledged else received
            if upto >= 0:
                for receiver in machine.outputs[to].listeners:
                    machine.send(to, receiver, Settled(machine.incarnation, upto))

    # The log

    def kept(self) -> Mapping[str, Sequence[int]]:
        return {to: [event.seq for event in self._unreceived(to)] for to in self._kept}

    def keep(self, to: str, events: list[Event]) -> None:
        self._kept[to].append(events)
        self.count += len(events)

    def open(self, to: str, receiver: int, after: int, waiting: list[PendingEvents]) -> None:
        """All of it at once, and nothing new in between: it is no more than a slice may lose."""
        events = [*self._unreceived(to)]
        if events:
            self.machine.send(to, receiver, Replay(self.machine.incarnation, events))

    def next(self, to: str, receiver: int) -> list[Event] | None:
        return None

    def replaying(self, to: str, receiver: int) -> bool:
        return False

    def stop(self, to: str, receiver: int, seq: int) -> None:
        """It has gone out already."""

    def trim(self, to: str, upto: int) -> None:
        """Nothing goes by numbers that rise."""

    @property
    def trimmed(self) -> int:
        return 0

    # Punctuations

    def _punctuations(self, to: str) -> list[Event]:
        """Of what is not acknowledged, what its receiver takes for one."""
        stage = self.machine.spec.topology.stages.get(operator_of(to))
        if stage is None or not punctuated(stage.operator):
            return []
        return [event for event in self._unreceived(to) if stage.operator.punctuation(event)]

    def _unreceived(self, to: str) -> Iterator[Event]:
        return chain.from_iterable(self._kept[to])

    def save(self) -> Unreceived:
        return Unreceived({to: events for to in self._kept if (events := self._punctuations(to))})

    def restore(self, checkpoint: Checkpoint) -> None:
        saved = checkpoint.part(self.part, Unreceived) or Unreceived()
        for to, events in saved.punctuations.items():
            self.keep(to, events)
