"""Timers of an operator's: of event time, and of its node's clock.

A timer of event time fires where the events alone put it: after all up to its time, and before any that is later. What
moves event time is the next event, a silence that passes through, or the end of the input; which of them it was changes
how soon it fires, and not what it makes. One of the clock fires when it fires, and so that is put on record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.errors import InvalidOperator, StreamproofError
from ..core.events import Event
from ..recording.records import Fired
from .channels import InputChannel
from .effects import Timer
from .messages import Tie

if TYPE_CHECKING:
    from .operator import OperatorSlice


class Tick(Timer, frozen=True, gc=False):
    """The operator is called by the clock."""

    number: int
    """Of this incarnation."""

    def __str__(self) -> str:
        return f"tick@{self.number}"


class Timing:
    """The timers of one incarnation of a slice."""

    def __init__(self, machine: OperatorSlice) -> None:
        self._machine = machine
        self._operator = machine.operator
        self.time = 0
        """How far event time has come, of what was taken."""
        self._ticks = 0
        self._due = False
        """Whether the next tick is."""
        self._news = True
        """Whether anything may have been taken since the last tick."""

    def start(self) -> None:
        """The incarnation begins."""
        every = self._operator.every
        if every is not None and not self._due:
            self._due = True
            self._ticks += 1
            self._machine.set_timer(Tick(self._ticks), every * 1_000)

    def consume(self, up: str, channel: InputChannel, sender: int, events: list[Event], ties: list[Tie] | None) -> None:
        """Take events, each after what is due before it."""
        machine = self._machine
        for number, event in enumerate(events):
            self.pass_to(event.time - 1)
            machine.consume(up, channel, sender, [event], None if ties is None else [ties[number]])
            self.time = max(self.time, event.time)
            self._news = True
        self.start()

    def pass_to(self, time: int) -> None:
        """No event up to this time is still to be taken. Raises InvalidOperator when the user's code fails."""
        machine, operator = self._machine, self._operator
        name = machine.spec.slice_id
        before = -1
        while (due := _asked(name, operator.due, machine.state)) is not None and due <= time:
            if due < self.time or due <= before:
                said = f"after an event of {self.time} ms" if due < self.time else "once more"
                raise InvalidOperator(f"operator of {name}: due() wants to be called at {due} ms, {said}")
            before = due
            machine.put_on_record(Fired(name, machine.incarnation, due, due, clock=False))
            with user_code(name, f"on_time() at {due} ms"):
                machine.give(operator.on_time(due, machine.state), due)

    def told_by(self, time: int, over: int) -> int:
        """Up to when nothing more is emitted, where event time has come to `time` and nothing up to `over` is still to
        be taken: what a timer makes which is due by then, and has to wait, is still to come."""
        due = _asked(self._machine.spec.slice_id, self._operator.due, self._machine.state)
        return over if due is None or due > time else due - 1

    def tick(self, _: Tick) -> None:
        machine, name = self._machine, self._machine.spec.slice_id
        self._due = False
        if machine.working:
            if any(channel.mark for channel in machine.inputs.values()):
                machine.put_on_record(Fired(name, machine.incarnation, machine.clock, self.time, clock=True))
                with user_code(name, f"on_clock() at {machine.clock} ms"):
                    machine.give(self._operator.on_clock(machine.clock, machine.state), self.time)
            self._news = False
            machine.work()
        if not machine.ended:
            self.start()

    @property
    def finished(self) -> bool:
        """Whether nothing that was taken waits for a tick."""
        return self._operator.every is None or not self._news


def _asked(name: str, due: Callable[[Any], int | None], state: Any) -> int | None:
    with user_code(name, "due()"):
        when = due(state)
        if when is not None and type(when) is not int:
            raise InvalidOperator(f"it is {when!r}; return a whole number of milliseconds, or None")
        return when


class user_code:
    """Turns what the user's code raises into InvalidOperator, which says where, and after which event if that is
    told."""

    __slots__ = ("_last", "_slice_id", "_what")

    def __init__(self, slice_id: str, what: str, last: Event | None = None) -> None:
        self._slice_id = slice_id
        self._what = what
        self._last = last

    def __enter__(self) -> None:
        """Nothing has been raised yet."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception) or (
            isinstance(error, StreamproofError) and not isinstance(error, InvalidOperator)
        ):
            return
        last = self._last
        after_what = "" if last is None else f" after event ({last.source}, {last.seq})"
        what = str(error) if isinstance(error, InvalidOperator) else f"{type(error).__name__}: {error}"
        raise InvalidOperator(f"operator of {self._slice_id}, {self._what}{after_what}: {what}") from error
