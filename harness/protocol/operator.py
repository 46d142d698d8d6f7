"""An operator at work: it takes events into its state, and emits what comes of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from ..core.errors import InvalidOperator, InvalidScheme, InvalidTopology
from ..core.events import PLAIN, Event, Output, Value, carried
from ..core.operator_copies import copy_of
from ..core.operators import Operator, Processor, processor_of, rows_of
from ..core.slice_names import operator_of
from ..recording.records import CheckpointTaken, Closed, Compensated, Kept, PartialTaken
from .channels import InputChannel
from .effects import Durable, Inspect, Reroute, Start
from .laps import Laps
from .machine import Machine
from .mechanism import NO_LIMIT, Made
from .merging import ALWAYS, ChannelRun, end_of, sequencer
from .messages import Checkpoint, Lap, Open, Tie
from .spec import Numbering, SliceSpec
from .timing import Tick, Timing, user_code

_UNCHANGING = frozenset({type(None), bool, int, float, complex, str, bytes, tuple, frozenset})

STATE, VECTOR, NUMBER, LISTENERS = "state", "vector", "number", "listeners"
"""The parts of a checkpoint that are a slice's own (StreamMine3G, section 3.7.2, "Checkpoint Components"): the
operator's snapshot; what was last taken from whom; the number of the next output; who listens to what it sends."""


class Vector(msgspec.Struct, frozen=True):
    """What a state holds of the inputs."""

    marks: dict[str, int] = {}
    """Upstream slice -> sequence number last taken from it."""
    turn: tuple[int, int] = (0, 0)
    """Where the merge stands (`Sequencer.turn`)."""
    time: int = 0
    """How far event time had come, of an operator that goes by the clock."""


class OperatorSlice(Machine):
    """An operator, with the order in which it takes its inputs."""

    own_parts = (STATE, VECTOR, NUMBER, LISTENERS)

    def __init__(self, spec: SliceSpec) -> None:
        self.operator: Operator[Any] = copy_of(spec.topology.stages[operator_of(spec.slice_id)].operator)
        with user_code(spec.slice_id, "initial_state()"):
            self.state: Any = _blank(self.operator)
        super().__init__(spec)
        self._process: Processor
        """Once it has started, and its chance has a seed."""
        self.waiting = sequencer(spec.setup.merge, spec.slice_id, len(spec.upstream))
        """Input that has come in and cannot be taken yet."""
        self._after_each = self.hooks("made")
        self._plain = not (self._after_each or spec.inherits)
        self._left = self.hooks("left")
        self._room = self.hooks("room")
        self._rested = self.hooks("rested")
        self._epoch = spec.epoch
        if self._epoch is not None and self._after_each:
            raise InvalidTopology(
                f"{spec.slice_id} has a mechanism that follows what is made of every single input, and nothing that is "
                "made at the end of an epoch; leave one of the two out"
            )
        self._after_closing = self.hooks("closed")
        self._timing = Timing(self) if spec.timed else None
        if self._timing is not None:
            if self._after_each:
                raise InvalidTopology(
                    f"{spec.slice_id} has a mechanism that follows what is made of every single input, and nothing "
                    "that is made by a timer; leave one of the two out"
                )
            self._timers[Tick] = self._timing.tick
        merges = (
            self._epoch is not None
            or self._timing is not None
            or (spec.setup.merge is not None and len(spec.upstream) > 1)
        )
        self._at_once = not merges and not self._rested and not self._after_time
        self._laps = Laps(spec) if spec.cycle else None
        """What finds out when a cycle has come to rest; None where the slice is in none."""
        self.last: Event | None = None
        """The event taken last."""

    def compensate(self, missing: float) -> None:
        """Let the operator make up for what a recovery could not restore."""
        with user_code(self.spec.slice_id, f"compensate({missing})"):
            self.state = self.operator.compensate(self.state, missing)
        self.put_on_record(Compensated(self.spec.slice_id, self.incarnation, missing))

    def change(self, settings: Mapping[str, Value]) -> None:
        self.waiting.changed(settings)
        super().change(settings)

    # Life cycle

    def _start(self, given: Start) -> None:
        self._process = processor_of(self.operator, given.seed)
        if self._laps is not None:
            self._laps.meet(self.spec.slice_id, given.incarnation)
        super()._start(given)
        if not self.hooks("promoted"):
            if not given.initial:
                raise InvalidScheme(f"{self.spec.slice_id} has no mechanism by which a replica could join others")
            self.ready()
        if self._timing is not None:
            self._timing.start()

    def restore(self, checkpoint: Checkpoint) -> None:
        self._checkpoints = max(self._checkpoints, checkpoint.id.number)
        state = checkpoint.part(STATE, bytes)
        if state is not None:
            with user_code(self.spec.slice_id, "restore()"):
                self.state = self.operator.restore(state)
        vector = checkpoint.part(VECTOR, Vector) or Vector()
        for up, mark in vector.marks.items():
            channel = self.inputs[up]
            channel.go_on_after(mark)
            self.waiting.drop(channel.place, mark)
        self.waiting.turn = vector.turn
        if self._timing is not None:
            self._timing.time = vector.time
        for restored in self.hooks("restore"):
            restored(checkpoint)
        self._log_restored()
        number = checkpoint.part(NUMBER, int)
        if number is not None and self.spec.setup.numbering is not Numbering.FRESH:
            self.seq = number - 1
        self._restored = checkpoint.id.incarnation, checkpoint.id.number

    def snapshot(
        self, without: Collection[str] = (), *, number: int | None = None, beside: bool = False, partial: bool = False
    ) -> Checkpoint:
        """A checkpoint of this moment, without these parts; with the next number, or a higher one; in place of those
        before or beside them; `partial`: what has changed in the state is kept in another way. Raises InvalidOperator
        when the user's code fails."""
        id_ = self.next_id(number)
        parts: dict[str, Any] = {}
        if STATE not in without:
            with user_code(self.spec.slice_id, "snapshot()", self.last):
                parts[STATE] = state = self.operator.snapshot(self.state)
                if not isinstance(state, bytes):
                    raise InvalidOperator(f"it is a {type(state).__name__}; return bytes, which do not go on changing")
        if partial:
            self.put_on_record(PartialTaken(self.spec.slice_id, self.incarnation, id_.number))
        self.put_on_record(CheckpointTaken(self.spec.slice_id, self.incarnation, id_.number))
        if VECTOR not in without:
            time = 0 if self._timing is None else self._timing.time
            parts[VECTOR] = Vector({up: channel.mark for up, channel in self.inputs.items()}, self.waiting.turn, time)
        if NUMBER not in without:
            parts[NUMBER] = self.seq + 1
        if LISTENERS not in without:
            parts[LISTENERS] = {to: channel.acknowledged for to, channel in self.outputs.items()}
        for one in self.attached:
            if one.part and one.part not in without:
                parts[one.part] = one.save()
        return Checkpoint(self.spec.slice_id, id_, parts, beside)

    def became_durable(self, given: Durable) -> None:
        """A checkpoint is durable, though no store says so: whoever keeps it in place of the store does. Raises
        InvalidScheme where nobody does."""
        if self.keeper is None:
            raise InvalidScheme(
                f"{self.spec.slice_id} is told that {given.id} is durable, and nobody keeps its checkpoints but the "
                "store, which says so itself"
            )
        self._durable(given)

    def _inspect(self, given: Inspect) -> None:
        if not self.working:
            return
        with user_code(self.spec.slice_id, "rows()"):
            rows = rows_of(self.operator, self.state)
        self.put_on_record(Kept(self.spec.slice_id, self.incarnation, rows))

    # What comes in

    def _take(
        self, neighbour: str, channel: InputChannel, incarnation: int, events: list[Event], ties: list[Tie] | None
    ) -> None:
        if self._at_once and self.working and self.waiting.empty:
            for left in self._left:
                if left() < len(events):
                    # It wants to be asked before all of these are taken.
                    break
            else:
                # As nearly always: no need to put it down first.
                self.consume(neighbour, channel, incarnation, events, ties)
                return
        self.waiting.put(ChannelRun(channel.place, incarnation, events, ties))
        self.work()

    def _channel_ended(self, channel: InputChannel) -> None:
        self.waiting.end(channel.place, True, self.final)
        self.work()
        for hook in self._after_time:
            hook()

    def _see_end_of(self, channel: InputChannel) -> None:
        super()._see_end_of(channel)
        self.waiting.end(channel.place, channel.ended, self.final)
        if self._laps is not None and not channel.ended and self.spec.upstream[channel.place] not in self.spec.cycle:
            self._laps.disturbed()

    def _silent(self, channel: InputChannel, time: int) -> None:
        self.waiting.silence(channel.place, time)
        self.work()
        for hook in self._after_time:
            hook()

    @property
    def progress(self) -> int:
        over = self.waiting.progress
        return over if self._timing is None else self._timing.told_by(self._come_to(over), over)

    def _come_to(self, over: int) -> int:
        """How far event time has come, where nothing up to `over` is still to be taken."""
        return self.final if over == ALWAYS else over

    def work(self) -> None:
        """Take whatever can be taken."""
        if not self.working:
            return
        waiting, timing = self.waiting, self._timing
        consume = self.consume if timing is None else timing.consume
        while self.working:
            most = NO_LIMIT
            for room in self._room:
                if (left := room()) < most:
                    most = left
            if most <= 0:
                return
            run = waiting.next(most)
            if run is None:
                if self._epoch is not None and self._closes(self._epoch):
                    continue
                self._waited += not waiting.empty
                break
            up = self.spec.upstream[run.channel]
            consume(up, self.inputs[up], run.incarnation, run.events, run.ties)
        if self.working:
            if timing is not None:
                timing.pass_to(self._come_to(waiting.progress))
            for rested in self._rested:
                rested()
            self.find_end()

    def _closes(self, size: int) -> bool:
        """Close the epoch that ends now, if one does."""
        epoch = self.waiting.closing()
        if epoch is None:
            return False
        upper = end_of(epoch, size)
        self.put_on_record(Closed(self.spec.slice_id, self.incarnation, epoch))
        with user_code(self.spec.slice_id, f"close() at {upper} ms"):
            self.give(self.operator.close(upper, self.state), upper)
        self.waiting.advance()
        for closed in self._after_closing:
            closed(epoch)
        return True

    def give(self, made: Iterable[Output], time: int) -> None:
        """Send what is made of no single event."""
        spec, seq = self.spec, self.seq
        outboxes: list[list[Event]] = [[] for _ in spec.downstream]
        for key, value in made:
            seq += 1
            output = Event(spec.slice_id, seq, key, value if type(value) in PLAIN else carried(value), time)
            for place in spec.receivers[key]:
                outboxes[place].append(output)
        self.seq = seq
        self.emit(outboxes)

    def find_end(self) -> None:
        if self.working and self.waiting.empty and (self._timing is None or self._timing.finished):
            if self._laps is None:
                super().find_end()
            else:
                self._go_round(self._laps)

    # In a cycle

    def _go_round(self, laps: Laps) -> None:
        """Once nothing more comes from outside of the cycle, find out whether anything does from inside."""
        cycle = self.spec.cycle
        if not all(channel.ended for up, channel in self.inputs.items() if up not in cycle):
            return
        for number, quiet in laps.next((self.taken, self.seq)):
            for to in laps.downstream:
                for receiver in self.outputs[to].listeners:
                    self.send(to, receiver, Lap(self.incarnation, laps.incarnations, number, quiet))
        if laps.over:
            self._end(self._ends_heard())
        else:
            self.ended = False

    def _lapped(self, neighbour: str, lap: Lap) -> None:
        if self._laps is None:
            super()._lapped(neighbour, lap)
        elif self._laps.heard(neighbour, lap):
            self.ended = False
        self.find_end()

    def _meet(self, laps: Laps, neighbour: str, incarnation: int) -> None:
        """What was found out about a cycle is so no more, with somebody new in it."""
        if laps.meet(neighbour, incarnation):
            self.ended = False

    def _reroute(self, given: Reroute) -> None:
        laps = self._laps
        if (
            laps is not None
            and given.neighbour in laps.upstream
            and (given.neighbour, given.incarnation) not in self.gone
        ):
            self._meet(laps, given.neighbour, given.incarnation)
        super()._reroute(given)
        if laps is not None:
            self.find_end()

    def _open(self, neighbour: str, message: Open) -> None:
        laps = self._laps
        if laps is None or neighbour not in laps.downstream or not self.working:
            super()._open(neighbour, message)
            return
        if (neighbour, message.incarnation) not in self.gone:
            self._meet(laps, neighbour, message.incarnation)
        super()._open(neighbour, message)
        if message.incarnation in self.outputs[neighbour].listeners:
            # It may have been sent what has got lost, as on another connection.
            for number, quiet in enumerate(laps.made):
                self.send(neighbour, message.incarnation, Lap(self.incarnation, laps.incarnations, number, quiet))
        self.find_end()

    def consume(self, up: str, channel: InputChannel, sender: int, events: list[Event], ties: list[Tie] | None) -> None:
        """Take consecutive events of one channel; `sender` is whose copy of them this is."""
        count, last = len(events), events[-1]
        self.note_taken(up, sender, events)
        self.last = last
        if self._plain:
            self._process_plainly(events)
        elif not self._after_each and ties is None:
            self._process_numbered(up, events)
        else:
            self._process_each(up, events, ties)
        self.taken += count
        if last.seq > channel.mark:
            channel.mark = last.seq
        for took in self._after_taking:
            took(up, channel, events, ties)

    def _process_plainly(self, events: list[Event]) -> None:
        spec = self.spec
        outboxes: list[list[Event]] = [[] for _ in spec.downstream]
        receivers, process, state, name, seq = spec.receivers, self._process, self.state, spec.slice_id, self.seq
        event = events[0]
        try:
            for event in events:
                for key, value in process(event, state):
                    if type(value) not in PLAIN:
                        value = carried(value)
                    seq += 1
                    output = Event(name, seq, key, value, event.time)
                    for place in receivers[key]:
                        outboxes[place].append(output)
        except Exception as error:
            raise self._failed_on(event, error) from error
        self.seq = seq
        self.emit(outboxes)

    def _process_numbered(self, up: str, events: list[Event]) -> None:
        """Each output has the number of what it is made of, and nobody follows every single event."""
        spec = self.spec
        outboxes: list[list[Event]] = [[] for _ in spec.downstream]
        receivers, process, state, name, seq = spec.receivers, self._process, self.state, spec.slice_id, self.seq
        place, fan_out = self.inputs[up].place, self.operator.fan_out or 0
        event = events[0]
        try:
            for event in events:
                left = fan_out
                for key, value in process(event, state):
                    if not left:
                        raise self._too_many()
                    seq = spec.derived(place, event.seq, fan_out) if left == fan_out else seq + 1
                    left -= 1
                    if type(value) not in PLAIN:
                        value = carried(value)
                    output = Event(name, seq, key, value, event.time)
                    for to in receivers[key]:
                        outboxes[to].append(output)
        except Exception as error:
            raise self._failed_on(event, error) from error
        self.seq = seq
        self.emit(outboxes)

    def _process_each(self, up: str, events: list[Event], ties: list[Tie] | None) -> None:
        """With what has to be known of every single event: its number, its tie, what was made of it."""
        spec, name, inherits = self.spec, self.spec.slice_id, self.spec.inherits
        outboxes: list[list[Event]] = [[] for _ in spec.downstream]
        tied: list[list[Tie]] = [[] for _ in spec.downstream]
        place = self.inputs[up].place
        for number, event in enumerate(events):
            outputs: list[Made] = []
            try:
                for index, (key, value) in enumerate(self._process(event, self.state)):
                    self.seq = self._inherited(place, event, index) if inherits else self.seq + 1
                    output = Event(name, self.seq, key, value if type(value) in PLAIN else carried(value), event.time)
                    places = spec.receivers[key]
                    outputs.append((output, places))
                    for to in places:
                        outboxes[to].append(output)
            except Exception as error:
                raise self._failed_on(event, error) from error
            tie = None if ties is None else ties[number]
            for made in self._after_each:
                made(up, event, tie, outputs, tied)
        self.emit(outboxes, None if ties is None else tied)

    def _inherited(self, place: int, event: Event, index: int) -> int:
        fan_out = self.operator.fan_out
        if fan_out is None or index >= fan_out:
            raise self._too_many()
        return self.spec.derived(place, event.seq, fan_out) + index

    def _too_many(self) -> InvalidOperator:
        fan_out = self.operator.fan_out
        return InvalidOperator(f"it made more than the {fan_out} outputs of one event that it declares as fan_out")

    def _failed_on(self, event: Event, error: Exception) -> InvalidOperator:
        return InvalidOperator(
            f"operator of {self.spec.slice_id} failed on event ({event.source}, {event.seq}) "
            f"with key {event.key!r} and value {event.value!r}: {type(error).__name__}: {error}"
        )


def _blank(operator: Operator[Any]) -> Any:
    """Raises InvalidOperator where two slices would share one state, which a crash of one of them would not end."""
    state = operator.initial_state()
    if type(state) not in _UNCHANGING and operator.initial_state() is state:
        raise InvalidOperator(f"it returns the same {type(state).__name__} again; make a new one at every call")
    return state
