"""The harness's end that offers the input."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.model import Event
from ..recording.records import Offered
from .effects import Start, Timer
from .machine import Machine
from .merging import ALWAYS
from .spec import SliceSpec


class Emit(Timer, frozen=True, gc=False):
    """A source emits its next batch."""

    def __str__(self) -> str:
        return "emit"


EMIT = Emit()


class SourceSlice(Machine):
    """It emits batch by batch, each when its timer fires."""

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
        self._timers[Emit] = self._offer
        self._senders = self.hooks("sends")
        self._unfinished = self.hooks("unfinished")

    def _start(self, given: Start) -> None:
        super()._start(given)
        self.set_timer(EMIT, self._interval)

    def _offer(self, _: Emit) -> None:
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
        self._time = self._offered * self._stretch
        if events:
            self.taken += len(events)
            self.note(Offered(self.spec.slice_id, events))
            if not (self._senders and any(sends(events) for sends in self._senders)):
                self._send(events)
        else:
            for time_passed in self._after_time:
                time_passed()
        self.set_timer(EMIT, self._interval)

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
            self.end({})

    @property
    def progress(self) -> int:
        return self._time
