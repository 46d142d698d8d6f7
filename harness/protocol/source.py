"""The harness's end that offers the input."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.events import Event
from ..recording.records import Offered
from .effects import Start, Timer
from .machine import Machine
from .mechanism import NO_LIMIT
from .merging import ALWAYS
from .spec import SliceSpec


class Emit(Timer, frozen=True, gc=False):
    """A source emits its next batch."""

    def __str__(self) -> str:
        return "emit"


EMIT = Emit()


class SourceSlice(Machine):
    """It emits batch by batch, each when its timer fires, or once its mechanisms have room for it."""

    def __init__(self, spec: SliceSpec, batches: Iterator[list[Event]], interval: int, stretch: int) -> None:
        """`stretch` is how much event time each batch stands for: an empty one says that nothing came in it."""
        super().__init__(spec)
        self._batches = batches
        self._interval = interval
        self._stretch = stretch
        self._offered = 0
        """Batches."""
        self._time = -1
        self._exhausted = False
        self._due: list[Event] = []
        """What of a batch is still to be offered, where a mechanism waits for something first."""
        self._timers[Emit] = self._next
        self._room = self.hooks("room")
        self._senders = self.hooks("sends")
        self._unfinished = self.hooks("unfinished")

    def _start(self, given: Start) -> None:
        super()._start(given)
        self.set_timer(EMIT, self._interval)

    def _next(self, _: Emit) -> None:
        events = next(self._batches, None)
        if events is None:
            self._exhausted = True
            self.final = self._time
            self._time = ALWAYS
            for input_over in self.hooks("input_over"):
                input_over()
            self.find_end()
            return
        self._offered += 1
        if events:
            self._due = events
            self.work()
        else:
            self._time = self._offered * self._stretch
            for time_passed in self._after_time:
                time_passed()
            self.set_timer(EMIT, self._interval)

    def work(self) -> None:
        """Offer what is due, as far as mechanisms let it; the next batch comes when all of this one has gone out."""
        while self._due:
            most = NO_LIMIT
            for room in self._room:
                most = min(most, room())
            if most <= 0:
                return
            events, self._due = self._due[:most], self._due[most:]
            if not self._due:
                self._time = self._offered * self._stretch
            self._offer(events)
            if not self._due:
                self.set_timer(EMIT, self._interval)

    def _offer(self, events: list[Event]) -> None:
        self.taken += len(events)
        # A list of its own: what a mechanism does to the one that it is given is no part of what was offered.
        self.put_on_record(Offered(self.spec.slice_id, list(events)))
        if not (self._senders and any(sends(events) for sends in self._senders)):
            self._send(events)

    def _send(self, events: list[Event]) -> None:
        outboxes: list[list[Event]] = [[] for _ in self.spec.downstream]
        receivers = self.spec.receivers
        for event in events:
            for place in receivers[event.key]:
                outboxes[place].append(event)
        self.emit(outboxes)

    def find_end(self) -> None:
        """End, once nothing more is to be sent."""
        if self._exhausted and not any(unfinished() for unfinished in self._unfinished):
            self._end({})

    @property
    def progress(self) -> int:
        return self._time
