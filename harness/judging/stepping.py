"""Takes one state of an operator through events, the ends of its epochs and its timers, and says what it makes of each:
for what operators say of themselves, which is tried."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..core.events import PLAIN, Event, Output, carried
from ..core.operators import Operator
from ..protocol.merging import end_of, epoch_of


class Step(NamedTuple):
    """What was made at once."""

    of: str
    """Of what, in words."""
    time: int
    """The event time of that, ms."""
    made: list[list[Any]]
    at_end: bool = False
    """A timer or the end of an epoch, and no event, made it."""

    def __str__(self) -> str:
        return f"{reprlib.repr(self.made)} {self.of}".strip()


class Going:
    """A state, and what has come to it."""

    def __init__(self, operator: Operator[Any], state: Any, *, since: Event | None = None, begun: bool = False) -> None:
        """`since`: the epochs before that of this event are over already. `begun`: the state has taken something."""
        self.state = state
        self._operator = operator
        self._process = operator.process
        self._closed = 0 if since is None or operator.epoch is None else epoch_of(since.time, operator.epoch)
        self._begun = begun
        self.silent = False
        """Nobody asks what is made, which spares half of the time."""

    def take(self, event: Event) -> Iterator[Step]:
        """What is made of an event, and before it of what is over by then."""
        operator = self._operator
        if operator.epoch is not None:
            while self._closed < epoch_of(event.time, operator.epoch):
                yield self._close(operator.epoch)
        if operator.by_event_time and self._begun:
            yield from self._due(event.time - 1)
        self._begun = True
        yield Step(f"of event ({event.source}, {event.seq})", event.time, self._said(self._process(event, self.state)))

    def tick(self, now: int) -> Iterator[Step]:
        """What is made when its node's clock shows `now`, in ms, where it looks at that."""
        if self._operator.every is not None:
            yield Step(f"when its clock shows {now:,}", now, self._said(self._operator.on_clock(now, self.state)), True)

    def end(self, latest: int) -> Iterator[Step]:
        """What is made after the last event, where time has come to `latest`."""
        if not self._begun:
            return
        if self._operator.epoch is not None:
            yield self._close(self._operator.epoch)
        if self._operator.by_event_time:
            yield from self._due(latest)

    def _close(self, size: int) -> Step:
        upper = end_of(self._closed, size)
        self._closed += 1
        made = self._said(self._operator.close(upper, self.state))
        return Step(f"at the end of the epoch up to {upper:,}", upper, made, True)

    def _due(self, upto: int) -> Iterator[Step]:
        before = -1
        while (due := self._operator.due(self.state)) is not None and before < due <= upto:
            before = due
            yield Step(
                f"when its timer fires at {due:,}", due, self._said(self._operator.on_time(due, self.state)), True
            )

    def _said(self, outputs: Iterable[Output]) -> list[list[Any]]:
        if self.silent:
            for _ in outputs:
                pass
            return []
        return [[key, value if type(value) in PLAIN else carried(value)] for key, value in outputs]
