"""A host on a node where work takes time: inputs wait for the slice, slices wait for a core, and take turns.

An input begins when its slice is through with those before it and a core is free. The slice takes it in memory then;
what comes of it, its records included, happens when the time that its events cost is over. So a node that dies in
between has never taken them: to those who are left it is as if it had died at the address of the input's arrival, after
it. That address is announced when the work is done, the one before it when it begins.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...core.addresses import Address, Side
from ...core.costs import Costs
from ...protocol.effects import Effect, Fire, Input, Inspect, Receive, Start
from ...protocol.host import Actor, Arrival, Host, World, arrival_of
from ...protocol.messages import Batch, Flow, Replay
from .event_queue import Action, EventQueue


class Workplace(World, Protocol):
    """The node that it is on."""

    alive: bool
    lost: bool

    def puts_off(self, action: Action, *given: Any) -> bool: ...


@dataclass(eq=False)
class _Desk:
    """One slice's, from its start to its end."""

    machine: Actor
    cost: int
    """Of an event, in microseconds."""
    waiting: deque[Input] = field(default_factory=deque)
    events: int = 0
    """Those among what waits."""
    busy: bool = False
    """Whether an input is being worked on."""
    queued: bool = False
    """Whether it stands in line for a core."""


@dataclass(eq=False)
class _Work:
    """An input that is being worked on."""

    desk: _Desk
    arrival: Arrival | None
    effects: list[Effect]
    due: int


class Workforce:
    """All hosts of a world in which work takes time, and who must wait since another has no room."""

    def __init__(self, event_queue: EventQueue, costs: Costs) -> None:
        self.event_queue = event_queue
        self.costs = costs
        self._room = None if costs.room is None else costs.room.count
        self._hosts: list[WorkingHost] = []

    def host(self, node: Workplace, *, cores: bool = True) -> WorkingHost:
        """For a node; without `cores`, for one on which each slice has a core of its own."""
        host = WorkingHost(node, self, self.costs.cores if cores else None)
        self._hosts.append(host)
        return host

    def crowded(self, machine: Actor) -> bool:
        """Whether one of those that a slice feeds has no room for more."""
        room = self._room
        return room is not None and any(
            host.waiting_for(to) >= room for to in machine.spec.downstream for host in self._hosts
        )

    def eased(self) -> None:
        """There may be room again where there was none."""
        if self._room is not None:
            for host in self._hosts:
                self.event_queue.next(host.go_on)

    def release(self) -> None:
        """It is over, and its parts refer to it no more."""
        for host in self._hosts:
            vars(host).clear()
        self._hosts.clear()

    def is_full(self, events: int) -> bool:
        return self._room is not None and events >= self._room


class WorkingHost(Host):
    """The slices of one node that works at a finite speed."""

    def __init__(self, node: Workplace, force: Workforce, cores: int | None) -> None:
        super().__init__(node)
        self._node = node
        self._force = force
        self._event_queue = force.event_queue
        self._cores = cores
        self._desks: dict[str, _Desk] = {}
        self._line: deque[_Desk] = deque()
        self._under_way: list[_Work] = []
        self._paused_at: int | None = None

    def start(self, machine: Actor, given: Start) -> None:
        slice_id = machine.spec.slice_id
        self._desks[slice_id] = _Desk(machine, self._force.costs.of(slice_id))
        super().start(machine, given)

    def forget(self) -> None:
        super().forget()
        self._desks, self._line, self._under_way, self._paused_at = {}, deque(), [], None
        self._force.eased()

    def feed(self, slice_id: str, given: Input) -> None:
        desk = self._desks[slice_id]
        if isinstance(given, Inspect):
            self._finish(desk)
            super().feed(slice_id, given)
            return
        desk.waiting.append(given)
        desk.events += _events_of(given)
        self._stand_in_line(desk)
        self.go_on()

    # What waits

    def waiting_for(self, slice_id: str) -> int:
        """How many events wait for a slice here, where it is not given up."""
        desk = self._desks.get(slice_id)
        if desk is None or not self._node.alive or self._node.lost or not self._is_here(desk):
            return 0
        return desk.events

    def go_on(self) -> None:
        """Begin what can begin."""
        held: list[_Desk] = []
        while self._line and (self._cores is None or len(self._under_way) < self._cores):
            if self._node.puts_off(self.go_on):
                break
            desk = self._line.popleft()
            desk.queued = False
            if not self._is_here(desk):
                continue
            given = self._next_of(desk)
            if given is None:
                held.append(desk)
            else:
                self._work_on(desk, given)
        for desk in held:
            # Its receivers say when they have room again.
            self._stand_in_line(desk)

    def _stand_in_line(self, desk: _Desk, *, first: bool = False) -> None:
        if desk.waiting and not desk.busy and not desk.queued and self._is_here(desk):
            desk.queued = True
            if first:
                self._line.appendleft(desk)
            else:
                self._line.append(desk)

    def _is_here(self, desk: _Desk) -> bool:
        return self.slices.get(desk.machine.spec.slice_id) is desk.machine

    def _next_of(self, desk: _Desk) -> Input | None:
        """The first input that may begin; where receivers are crowded, what is no data goes on."""
        crowded = self._force.crowded(desk.machine)
        for place, given in enumerate(desk.waiting):
            if not (crowded and _is_data(given)):
                del desk.waiting[place]
                was_full = self._force.is_full(desk.events)
                desk.events -= _events_of(given)
                if was_full and not self._force.is_full(desk.events):
                    self._force.eased()
                return given
        return None

    # Work

    def _work_on(self, desk: _Desk, given: Input) -> None:
        machine, arrival = desk.machine, arrival_of(given)
        if not self.begin(machine, arrival, self._node.watched(machine.name)):
            return
        before = machine.taken
        effects = self.asked(machine, given)
        cost = (machine.taken - before) * desk.cost
        if cost:
            desk.busy = True
            work = _Work(desk, arrival, effects, self._event_queue.now + cost)
            self._under_way.append(work)
            self._event_queue.at(work.due, self._done, work)
        else:
            self.carry_out(machine, arrival, effects, self._node.watched(machine.name))
            # What takes no time is no turn.
            self._stand_in_line(desk, first=True)

    def _done(self, work: _Work) -> None:
        if work not in self._under_way or self._node.puts_off(self._done, work):
            return
        if self._event_queue.now < work.due:
            # It was paused meanwhile.
            self._event_queue.at(work.due, self._done, work)
            return
        self._under_way.remove(work)
        work.desk.busy = False
        if self._is_here(work.desk):
            self._carry_out_now(work)
        self._stand_in_line(work.desk)
        self.go_on()

    def _carry_out_now(self, work: _Work) -> None:
        machine = work.desk.machine
        self.carry_out(machine, work.arrival, work.effects, self._node.watched(machine.name))

    def _finish(self, desk: _Desk) -> None:
        """The run is over: what was taken in memory is on record before what is kept."""
        for work in [work for work in self._under_way if work.desk is desk]:
            self._under_way.remove(work)
            self._carry_out_now(work)

    @property
    def under_way(self) -> tuple[str, ...]:
        """The addresses after which what is being worked on would have been taken."""
        found = []
        for work in self._under_way:
            machine = work.desk.machine
            if work.arrival is not None:
                point, key = work.arrival
                slice_id, incarnation = machine.spec.slice_id, machine.incarnation
                found.append(str(Address(slice_id, incarnation, point, key, Side.AFTER, machine.replica)))
        return tuple(found)

    # Pauses

    def pause(self) -> None:
        """Nobody works here until `resume`."""
        self._paused_at = self._event_queue.now

    def resume(self) -> int:
        """What is under way takes so much longer. Returns how many inputs that are."""
        if self._paused_at is None:
            return 0
        for work in self._under_way:
            work.due += self._event_queue.now - self._paused_at
        self._paused_at = None
        return len(self._under_way)


def _events_of(given: Input) -> int:
    message = given.message if isinstance(given, Receive) else None
    return len(message.events) if isinstance(message, Batch | Replay) else 0


def _is_data(given: Input) -> bool:
    """What waits where there is no room for what comes of it. Timers do: a source offers by one."""
    return isinstance(given, Fire) or (isinstance(given, Receive) and given.message.flow is Flow.DOWNSTREAM)
