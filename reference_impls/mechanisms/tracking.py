"""Following an event through the topology by an exclusive or of ids (R+SM, sections 8.3 and 14.1.2: Storm's acker).

Every copy of every event on its way has an id. Whoever takes one tells the source, in one number, the id that it took
and the ids of what it made of it. Each id comes twice, when it is made and when it is taken, so the exclusive or of all
that the source was told is zero once nothing of an event is on its way (Zobrist hashing; by chance with probability
2^-64). An operator with a window tells nothing of an event before it has left the window: until then the source may
have to send it again, to rebuild the state.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any, NamedTuple

from ...harness.core.errors import InvalidScenario
from ...harness.core.events import NUMBERING_SPAN, Event
from ...harness.core.proper import positive, proper
from ...harness.core.quantities import Duration
from ...harness.core.topology import Role, Topology
from ...harness.protocol.channels import InputChannel
from ...harness.protocol.effects import Start, Timer
from ...harness.protocol.machine import Machine
from ...harness.protocol.mechanism import AtWork, Made, Mechanism
from ...harness.protocol.merging import ALWAYS
from ...harness.protocol.messages import Flow, Message, Tie
from ...harness.protocol.operator import OperatorSlice
from ...harness.protocol.source import SourceSlice


class Anchor(NamedTuple):
    """Ties an event on its way to the source event that it goes back to."""

    source: str
    root: int
    """The source event's number, and which attempt to send it this is."""
    id: int
    """Of this copy of this event: 64 bits."""


class Tracked(Message, frozen=True, tag="tracked", array_like=True, gc=False):
    """What a slice has done with events that a source follows."""

    flow = Flow.ASIDE

    roots: list[tuple[int, int]]
    """(root, the ids that were taken and those that were made of them, all in one exclusive or)."""

    @property
    def identity(self) -> str:
        root, ids = self.roots[0]
        return f"tracked@{root}.{ids:x}"


@dataclass(frozen=True)
class Track(Mechanism):
    """Of a source: follow what becomes of its events."""

    messages = (Tracked,)

    timeout: Duration
    """An event that is not known to be processed this long after it was sent is sent again."""
    attempts: int = 16
    """An event is sent so many times at most; then it is given up, and the input does not end."""

    def __post_init__(self) -> None:
        proper(self.timeout, Duration, "a time-out", "an amount of time, as in seconds(30)")
        positive(self.attempts, "attempts")
        if not self.timeout.micros:
            raise InvalidScenario("a time-out cannot be nothing: every event would be sent again at once")

    @property
    def replays(self) -> bool:
        return True

    @property
    def sends_again_after(self) -> Duration:
        return self.timeout

    def attach(self, machine: SourceSlice) -> AtWork:
        return _Track(machine, self)


@dataclass(frozen=True)
class Tell(Mechanism):
    """Of an operator or a sink: tell the source what was made of its events."""

    messages = (Tracked,)

    def addressees(self, topology: Topology, slice_id: str) -> Iterator[str]:
        return (s for s in topology.slices if topology.role(s) is Role.SOURCE)

    def attach(self, machine: Machine) -> AtWork:
        if not isinstance(machine, OperatorSlice):
            return _TellDelivered(machine)
        if machine.operator.window is None:
            return _TellTaken(machine)
        return _TellLeft(machine, machine.operator.window)


_MASK = (1 << 64) - 1


def mixed(*parts: int) -> int:
    """64 bits that look random, never 0, from numbers that are not (splitmix64)."""
    return reduce(_mix, parts, 0) or 1


def _mix(value: int, part: int) -> int:
    value = (value + part + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Ids:
    """The ids that one incarnation of a slice gives to what it sends."""

    def __init__(self, slice_id: str, incarnation: int) -> None:
        self._prefix = reduce(_mix, (zlib.crc32(slice_id.encode()), incarnation), 0)
        """Mixed: every id goes on from here."""
        self._count = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self._count += 1
        return _mix(self._prefix, self._count) or 1


class Accounts:
    """What a slice that takes followed events has to tell their sources."""

    def __init__(self) -> None:
        self._due: dict[str, dict[int, int]] = {}

    def tell(self, source: str, root: int, ids: int) -> None:
        roots = self._due.setdefault(source, {})
        roots[root] = roots.get(root, 0) ^ ids

    def send(self, machine: Machine) -> None:
        """One message for each source that has something to be told."""
        due, self._due = self._due, {}
        for source, roots in due.items():
            machine.send(source, 1, Tracked(machine.incarnation, list(roots.items())))


class _TellDelivered(AtWork):
    """Of a sink: what it has delivered is done with."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._accounts = Accounts()

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        for tie in ties or ():
            self._accounts.tell(*tie)
        self._accounts.send(self.machine)


class _TellTaken(AtWork):
    """Of an operator that keeps nothing: what was made of an event is what matters of it."""

    def __init__(self, machine: OperatorSlice) -> None:
        super().__init__(machine)
        self._accounts = Accounts()
        self._ids = Ids(machine.spec.slice_id, 0)

    def begin(self, given: Start) -> None:
        self._ids = Ids(self.machine.spec.slice_id, given.incarnation)

    def made(self, up: str, event: Event, tie: Tie | None, outputs: list[Made], ties: list[list[Tie]]) -> None:
        if tie is None:
            return
        source, root, ids = tie
        for _, places in outputs:
            for place in places:
                one = next(self._ids)
                ids ^= one
                ties[place].append(Anchor(source, root, one))
        self._account(event, source, root, ids)

    def _account(self, event: Event, source: str, root: int, ids: int) -> None:
        self._accounts.tell(source, root, ids)

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        if ties is not None:
            self._accounts.send(self.machine)


class _TellLeft(_TellTaken):
    """Of an operator with a window: nothing is told of an event before it has left the window."""

    def __init__(self, machine: OperatorSlice, window: int) -> None:
        super().__init__(machine)
        self._window = window
        self._held: deque[tuple[int, str, int, int]] = deque()
        """(event time, source, root, exclusive or) of what is still in the window."""

    def _account(self, event: Event, source: str, root: int, ids: int) -> None:
        self._held.append((event.time, source, root, ids))

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        if ties is not None:
            self.rested()

    def rested(self) -> None:
        """What has left the window matters no more."""
        time = self.machine.progress
        kept: deque[tuple[int, str, int, int]] = deque()
        for held in self._held:
            at, source, root, ids = held
            if at + self._window <= time:
                self._accounts.tell(source, root, ids)
            else:
                kept.append(held)
        self._held = kept
        self._accounts.send(self.machine)


class Followed:
    """The events of a source of which something is still on its way."""

    def __init__(self, source: str, ids: Ids) -> None:
        self._source = source
        self._ids = ids
        self._open: dict[int, int] = {}
        """Root -> the exclusive or of all that was told of it."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def send(self, root: int, copies: int) -> list[Anchor]:
        """An event goes out in so many copies."""
        ids = [next(self._ids) for _ in range(copies)]
        if ids:
            self._open[root] = reduce(xor, ids)
        return [Anchor(self._source, root, one) for one in ids]

    def told(self, roots: Sequence[tuple[int, int]]) -> None:
        for root, ids in roots:
            if root in self._open:
                self._open[root] ^= ids
                if self._open[root] == 0:
                    del self._open[root]

    def fail(self, root: int) -> bool:
        """Give up an attempt. False: it has succeeded."""
        return self._open.pop(root, None) is not None


class TimeOut(Timer, frozen=True, gc=False):
    """Events were sent so long ago that they should have been processed."""

    first: int
    """The number of the first of them."""
    attempt: int

    def __str__(self) -> str:
        return f"timeout {self.first} {self.attempt}"


class _Track(AtWork):
    """A source sends those events again that are not known to be processed in time."""

    machine: SourceSlice

    def __init__(self, machine: SourceSlice, settings: Track) -> None:
        super().__init__(machine)
        self._settings = settings
        self._followed = Followed(machine.spec.slice_id, Ids(machine.spec.slice_id, 1))
        self._sent: dict[TimeOut, list[Event]] = {}
        """Timer -> the events that were sent when it was set."""

    def timers(self) -> Mapping[type[Timer], Callable[[Any], None]]:
        return {TimeOut: self._time_out}

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {Tracked: self._tracked}

    def sends(self, events: list[Event]) -> bool:
        self._send(events, 1)
        return True

    def _send(self, events: list[Event], attempt: int) -> None:
        spec = self.machine.spec
        outboxes: list[list[Event]] = [[] for _ in spec.downstream]
        ties: list[list[Tie]] = [[] for _ in spec.downstream]
        for event in events:
            places = spec.receivers[event.key]
            root = (attempt - 1) * NUMBERING_SPAN + event.seq
            for place, anchor in zip(places, self._followed.send(root, len(places)), strict=True):
                outboxes[place].append(event)
                ties[place].append(anchor)
        self.machine.emit(outboxes, ties)
        timer = TimeOut(events[0].seq, attempt)
        self._sent[timer] = events
        self.machine.set_timer(timer, self._settings.timeout.micros)

    def _time_out(self, timer: TimeOut) -> None:
        events = self._sent.pop(timer)
        if timer.attempt == self._settings.attempts:
            return
        for event in events:
            if self._followed.fail((timer.attempt - 1) * NUMBERING_SPAN + event.seq):
                # One by one: what is sent again has gaps in its numbers.
                self._send([event], timer.attempt + 1)
        self.machine.find_end()

    def _tracked(self, neighbour: str, message: Tracked) -> None:
        machine = self.machine
        if (neighbour, message.incarnation) in machine.gone:
            # What it has done with them went with it.
            machine.refuse(neighbour, message)
            return
        self._followed.told(message.roots)
        machine.find_end()

    def input_over(self) -> None:
        if self._followed:
            # Windows close, so that what is in them can be told.
            self.machine.tell_silence(ALWAYS)

    def unfinished(self) -> bool:
        return bool(self._followed)
