"""When a slice tells those upstream what it will not ask for again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...harness.core.events import Event
from ...harness.core.proper import proper
from ...harness.core.quantities import Events
from ...harness.protocol.channels import InputChannel
from ...harness.protocol.machine import Machine
from ...harness.protocol.mechanism import AtWork, Made, Mechanism
from ...harness.protocol.messages import Tie
from ...harness.protocol.operator import OperatorSlice


@dataclass(frozen=True)
class AcknowledgeEvery(Mechanism):
    """Acknowledge whenever this many more events of a channel were taken, or, by a sink, delivered."""

    every: Events

    def __post_init__(self) -> None:
        proper(self.every, Events, "the interval of acknowledgements", "a number of events, as in events(100)")

    @property
    def safe_every(self) -> Events:
        return self.every

    def scaled(self, size: Callable[[Events], Events]) -> AcknowledgeEvery:
        return replace(self, every=size(self.every))

    def attach(self, machine: Machine) -> AtWork:
        return _Every(machine, self.every.count)


class _Every(AtWork):
    def __init__(self, machine: Machine, every: int) -> None:
        super().__init__(machine)
        self._every = every

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        channel.unacknowledged += len(events)
        if channel.unacknowledged >= self._every:
            channel.unacknowledged = 0
            self.machine.acknowledge(up, channel.mark)


@dataclass(frozen=True)
class AcknowledgeOutputs(Mechanism):
    """Acknowledge an input once all that was made of it has been acknowledged, and it has left the operator's window
    (the two levels of upstream backup: StreamMine3G, section 3.7.4)."""

    def attach(self, machine: OperatorSlice) -> AtWork:
        return _Outputs(machine, machine.operator.window or 0)


class _Outputs(AtWork):
    """Whoever restores what was made of an input needs it until all of that has been acknowledged, and whoever restores
    the state, until the input has left the window."""

    machine: OperatorSlice

    def __init__(self, machine: OperatorSlice, window: int) -> None:
        super().__init__(machine)
        self._window = window
        self._open: deque[tuple[str, Event, dict[str, int]]] = deque()
        """(upstream, input, downstream -> number of the last output made of it), in the order in which they were taken:
        from the first on of which not all has been acknowledged."""
        self._settled: deque[tuple[str, Event]] = deque()
        """Those before, that may be needed all the same."""
        self._released = 0
        """How many were before those."""
        self._latest: deque[tuple[int, int]] = deque()
        """(number, time) of the settled ones after which none is as late: so their times fall."""
        self._acknowledged = dict.fromkeys(machine.spec.downstream, 0)

    def made(self, up: str, event: Event, tie: Tie | None, outputs: list[Made], ties: list[list[Tie]]) -> None:
        downstream = self.machine.spec.downstream
        last = {downstream[place]: output.seq for output, places in outputs for place in places}
        self._open.append((up, event, last))

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        self._acknowledge_inputs()

    def acknowledged(self, to: str, upto: int) -> None:
        self._acknowledged[to] = max(upto, self._acknowledged[to])
        self._acknowledge_inputs()

    def _acknowledge_inputs(self) -> None:
        self._settle()
        upto: dict[str, int] = {}
        now = 0 if self.machine.last is None else self.machine.last.time
        settled = self._settled
        while settled:
            up, event = settled[0]
            if self._window and event.time + self._window > now:
                break
            if self._is_wanted(event.time + self._window):
                break
            upto[up] = event.seq
            settled.popleft()
            if self._latest[0][0] == self._released:
                self._latest.popleft()
            self._released += 1
        for up, seq in upto.items():
            self.machine.acknowledge(up, seq)

    def _settle(self) -> None:
        """See of which inputs all has been acknowledged by now."""
        acknowledged, latest = self._acknowledged, self._latest
        while self._open:
            up, event, last = self._open[0]
            if any(seq > acknowledged[to] for to, seq in last.items()):
                return
            self._open.popleft()
            while latest and latest[-1][1] <= event.time:
                latest.pop()
            latest.append((self._released + len(self._settled), event.time))
            self._settled.append((up, event))

    def _is_wanted(self, until: int) -> bool:
        """Whether the oldest input, which is settled, may be needed again: for an output of an event that came before
        this time, which is made of it as well. Once an event of that time or later has come, none after it is."""
        if not self._open or self._open[0][1].time >= until:
            return False
        latest = self._latest
        # Of those after the oldest.
        place = 1 if latest[0][0] == self._released else 0
        return len(latest) == place or latest[place][1] < until
