"""The harness's end that offers the input."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import NUMBERING_SPAN, Event
from ..recording.records import Offered
from .effects import Effect, Fire, Note, SetTimer, Start
from .machine import SliceBase, SliceSpec
from .merging import ALWAYS
from .messages import Anchor, Tracked
from .tracking import Followed, Ids

EMIT = "emit"
"""The timer on which a source emits its next batch."""
_TIMEOUT = "timeout"


class SourceSlice(SliceBase):
    """It emits batch by batch, each when its timer fires, and where it follows what becomes of its events, it sends
    those again that are not known to be processed in time (R+SM, section 8.3)."""

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
        self._tracking = spec.components.tracking
        self._followed = Followed(spec.slice_id, Ids(spec.slice_id, 1))
        self._attempts: dict[str, tuple[list[Event], int]] = {}
        """Timer -> the events that were sent when it was set, and the how manieth attempt that was."""

    def _start(self, given: Start, effects: list[Effect]) -> None:
        super()._start(given, effects)
        effects.append(SetTimer(EMIT, self._interval))

    def _fire(self, given: Fire, effects: list[Effect]) -> None:
        if given.timer == EMIT:
            self._offer(effects)
        elif given.timer.startswith(_TIMEOUT):
            self._time_out(given.timer, effects)
        else:
            super()._fire(given, effects)

    def _offer(self, effects: list[Effect]) -> None:
        events = next(self._batches, None)
        if events is None:
            self._exhausted = True
            self._time = ALWAYS
            if self._followed:
                # Windows close, so that what is in them can be told.
                self._tell_silence(ALWAYS, effects)
            self._find_end(effects)
            return
        self._offered += 1
        self._time = self._offered * self._stretch
        if events:
            self.taken += len(events)
            effects.append(Note(Offered(self.spec.slice_id, events)))
            if self._tracking is not None:
                self._send_followed(events, 1, effects)
            else:
                self._send(events, effects)
        else:
            self._look_out_for_silence(effects)
        effects.append(SetTimer(EMIT, self._interval))

    def _send(self, events: list[Event], effects: list[Effect]) -> None:
        outboxes: list[list[Event]] = [[] for _ in self.spec.downstream]
        receivers = self.spec.receivers
        for event in events:
            for place in receivers[event.key]:
                outboxes[place].append(event)
        self._emit(outboxes, effects)

    def _find_end(self, effects: list[Effect]) -> None:
        if self._exhausted and not self._followed:
            self._end({}, effects)

    @property
    def _progress(self) -> int:
        return self._time

    # Following events

    def _send_followed(self, events: list[Event], attempt: int, effects: list[Effect]) -> None:
        assert self._tracking is not None
        outboxes: list[list[Event]] = [[] for _ in self.spec.downstream]
        tied: list[list[Anchor]] = [[] for _ in self.spec.downstream]
        for event in events:
            places = self.spec.receivers[event.key]
            root = (attempt - 1) * NUMBERING_SPAN + event.seq
            for place, anchor in zip(places, self._followed.send(root, len(places)), strict=True):
                outboxes[place].append(event)
                tied[place].append(anchor)
        self._emit(outboxes, effects, tied)
        timer = f"{_TIMEOUT} {events[0].seq} {attempt}"
        self._attempts[timer] = events, attempt
        effects.append(SetTimer(timer, self._tracking.timeout.micros))

    def _time_out(self, timer: str, effects: list[Effect]) -> None:
        assert self._tracking is not None
        events, attempt = self._attempts.pop(timer)
        if attempt == self._tracking.attempts:
            return
        for event in events:
            if self._followed.fail((attempt - 1) * NUMBERING_SPAN + event.seq):
                # One by one: what is sent again has gaps in its numbers.
                self._send_followed([event], attempt + 1, effects)
        self._find_end(effects)

    def _tracked(self, peer: str, message: Tracked, effects: list[Effect]) -> None:
        if (peer, message.incarnation) in self._gone:
            # What it has done with them went with it.
            self._refuse(peer, message, effects)
            return
        self._followed.told(message.roots)
        self._find_end(effects)
