"""An operator at work: it takes events into its state and emits what comes of them, acknowledges, takes checkpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import InvalidOperator, OwnFailure, StreamproofError
from ..model import PLAIN, Event, Operator, carried, operator_of, processor, rows_of
from ..recording.records import CheckpointDurable, CheckpointTaken, Kept, Taken
from .channels import InputChannel
from .components import AcknowledgeAt, Numbering, Part
from .effects import Durable, Effect, Inspect, Note, Persist, Send, Start
from .machine import ReceivingSlice, SliceSpec
from .merging import Run, sequencer
from .messages import Acknowledge, Anchor, Checkpoint, CheckpointId
from .tracking import Accounts, Ids

_ALL_AT_ONCE = 1 << 62
_UNCHANGING = frozenset({type(None), bool, int, float, complex, str, bytes, tuple, frozenset})


class WorkingSlice(ReceivingSlice):
    """By itself. What its replicas have to do with one another stands in `operator`."""

    def __init__(self, spec: SliceSpec) -> None:
        super().__init__(spec)
        self._operator: Operator[Any] = spec.topology.stages[operator_of(spec.slice_id)].operator
        with _user_code(spec.slice_id, "initial_state()"):
            self._state: Any = _blank(self._operator)
        self._process = processor(self._operator, 0)
        self._working = True
        """Whether events are taken; else they wait."""
        self._waiting = sequencer(spec.components.merge, len(spec.upstream))
        """Input that has come in and cannot be taken yet."""
        components = spec.components
        self._plain = not (
            components.anchored or components.acknowledge_outputs or components.numbering is Numbering.INHERITED
        )
        self._policy = components.checkpointing
        merges = components.merge is not None and len(spec.upstream) > 1
        follows_time = components.silence is not None or (components.anchored and self._operator.window is not None)
        self._at_once = not merges and not follows_time
        self._last: Event | None = None
        """The event taken last, which is the one to name when a snapshot fails."""
        self._checkpoint_number = 0
        self._since_checkpoint = 0
        self._pending: CheckpointId | None = None
        self._marks_at_checkpoint: dict[str, int] = {}
        self._accounts = Accounts(self._operator.window)
        self._ids = Ids(spec.slice_id, 0)
        self._made: deque[tuple[str, Event, dict[str, int]]] = deque()
        """(upstream, input, downstream -> number of the last output made of it) of what is not acknowledged."""
        self._outputs_acknowledged = dict.fromkeys(spec.downstream, 0)

    def _start(self, given: Start, effects: list[Effect]) -> None:
        self._process = processor(self._operator, given.seed)
        self._ids = Ids(self.spec.slice_id, given.incarnation)
        super()._start(given, effects)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._checkpoint_number = max(self._checkpoint_number, checkpoint.id.number)
        if checkpoint.state is not None:
            with _user_code(self.spec.slice_id, "restore()"):
                self._state = self._operator.restore(checkpoint.state)
        for up, mark in checkpoint.vector.items():
            channel = self._inputs[up]
            channel.mark = mark
            channel.seen = max(channel.seen, mark)
            self._waiting.drop(channel.place, mark)
        self._waiting.turn = checkpoint.turn
        for to, events in checkpoint.log.items():
            self._outputs[to].restore(events)
        if checkpoint.next_seq is not None and self.spec.components.numbering is not Numbering.FRESH:
            self._seq = checkpoint.next_seq - 1

    # What comes in

    def _take(
        self,
        peer: str,
        channel: InputChannel,
        incarnation: int,
        events: list[Event],
        anchors: list[Anchor] | None,
        effects: list[Effect],
    ) -> None:
        if self._can_take_at_once(len(events)):
            self._consume(peer, channel, incarnation, events, anchors, effects)
        else:
            self._waiting.put(Run(channel.place, incarnation, events, anchors))
            self._work(effects)

    def _can_take_at_once(self, count: int) -> bool:
        """Nothing is waited for, as nearly always: no need to put it down first."""
        policy = self._policy
        return (
            self._working
            and self._at_once
            and self._waiting.empty
            and (policy is None or self._since_checkpoint + count <= policy.every.count)
        )

    def _channel_ended(self, channel: InputChannel, effects: list[Effect]) -> None:
        self._waiting.end(channel.place, True)
        self._work(effects)
        self._look_out_for_silence(effects)

    def _see_end_of(self, channel: InputChannel) -> None:
        super()._see_end_of(channel)
        self._waiting.end(channel.place, channel.ended)

    def _silent(self, channel: InputChannel, time: int, effects: list[Effect]) -> None:
        self._waiting.silence(channel.place, time)
        self._work(effects)
        self._look_out_for_silence(effects)

    @property
    def _progress(self) -> int:
        return self._waiting.progress

    def _work(self, effects: list[Effect]) -> None:
        """Take whatever can be taken."""
        policy = self._policy
        while self._working:
            room = _ALL_AT_ONCE if policy is None else policy.every.count - self._since_checkpoint
            if room <= 0:
                if self._pending is not None:
                    return
                self._checkpoint(effects)
                continue
            run = self._waiting.next(room)
            if run is None:
                self._waited += not self._waiting.empty
                break
            up = self.spec.upstream[run.channel]
            self._consume(up, self._inputs[up], run.incarnation, run.events, run.anchors, effects)
        if self._working:
            if self.spec.components.anchored:
                self._accounts.passed(self._progress)
                effects += self._accounts.messages(self.incarnation)
            self._find_end(effects)

    def _find_end(self, effects: list[Effect]) -> None:
        if self._working and self._waiting.empty:
            super()._find_end(effects)

    def _consume(
        self,
        up: str,
        channel: InputChannel,
        speaker: int,
        events: list[Event],
        anchors: list[Anchor] | None,
        effects: list[Effect],
    ) -> None:
        """Take consecutive events of one channel; `speaker` is whose copy of them this is."""
        spec, count, last = self.spec, len(events), events[-1]
        slice_id, incarnation = spec.slice_id, self.incarnation
        if spec.components.numbering is Numbering.INHERITED and len(spec.topology.upstream(up)) > 1:
            # The numbers on the channel need not rise, so that first and last do not say which were taken.
            for event in events:
                effects.append(Note(Taken(slice_id, incarnation, up, speaker, event.seq, event.seq, 1)))
        else:
            effects.append(Note(Taken(slice_id, incarnation, up, speaker, events[0].seq, last.seq, count)))
        self._last = last
        if self._plain:
            self._process_plainly(events, effects)
        else:
            self._process_each(up, events, anchors, effects)
        self.taken += count
        if last.seq > channel.mark:
            channel.mark = last.seq
        every = spec.components.acknowledge_every
        if every is not None:
            channel.unacknowledged += count
            if channel.unacknowledged >= every.count:
                channel.unacknowledged = 0
                self._acknowledge(up, channel.mark, effects)
        policy = self._policy
        if policy is not None:
            self._since_checkpoint += count
            if self._since_checkpoint >= policy.every.count and self._pending is None:
                self._checkpoint(effects)

    def _process_plainly(self, events: list[Event], effects: list[Effect]) -> None:
        spec = self.spec
        outboxes: list[list[Event]] = [[] for _ in spec.downstream]
        receivers, process, state, name, seq = spec.receivers, self._process, self._state, spec.slice_id, self._seq
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
        self._seq = seq
        self._emit(outboxes, effects)

    def _process_each(self, up: str, events: list[Event], anchors: list[Anchor] | None, effects: list[Effect]) -> None:
        """With what has to be known of every single event: its number, its anchor, what was made of it."""
        spec, operator = self.spec, self._operator
        inherited = spec.components.numbering is Numbering.INHERITED
        outboxes: list[list[Event]] = [[] for _ in spec.downstream]
        tied: list[list[Anchor]] = [[] for _ in spec.downstream]
        for number, event in enumerate(events):
            anchor = None if anchors is None else anchors[number]
            ids: list[int] = []
            last: dict[str, int] = {}
            try:
                for index, (key, value) in enumerate(self._process(event, self._state)):
                    self._seq = self._inherited(event, index) if inherited else self._seq + 1
                    output = Event(
                        spec.slice_id,
                        self._seq,
                        key,
                        value if type(value) in PLAIN else carried(value),
                        event.time,
                    )
                    for place in spec.receivers[key]:
                        outboxes[place].append(output)
                        last[spec.downstream[place]] = output.seq
                        if anchor is not None:
                            ids.append(next(self._ids))
                            tied[place].append(Anchor(anchor.source, anchor.root, ids[-1]))
            except Exception as error:
                raise self._failed_on(event, error) from error
            if anchor is not None:
                self._accounts.took(event, anchor, ids)
            if spec.components.acknowledge_outputs:
                self._made.append((up, event, last))
        self._emit(outboxes, effects, None if anchors is None else tied)
        if anchors is not None:
            if operator.window is not None:
                self._accounts.passed(self._progress)
            effects += self._accounts.messages(self.incarnation)
        self._acknowledge_inputs(effects)

    def _inherited(self, event: Event, index: int) -> int:
        fan_out = self._operator.fan_out
        if fan_out is None or index >= fan_out:
            raise InvalidOperator(f"it made more than the {fan_out} outputs of one event that it declares as fan_out")
        return event.seq * fan_out + index

    def _failed_on(self, event: Event, error: Exception) -> InvalidOperator:
        return InvalidOperator(
            f"operator of {self.spec.slice_id} failed on event ({event.source}, {event.seq}) "
            f"with key {event.key!r} and value {event.value!r}: {type(error).__name__}: {error}"
        )

    # Acknowledging

    def _acknowledge(self, up: str, upto: int, effects: list[Effect]) -> None:
        message = Acknowledge(self.incarnation, upto)
        effects += [Send(up, speaker, message) for speaker in self._inputs[up].links]

    def _acknowledged(self, to: str, upto: int, effects: list[Effect]) -> None:
        if self.spec.components.acknowledge_outputs:
            self._outputs_acknowledged[to] = max(upto, self._outputs_acknowledged[to])
            self._acknowledge_inputs(effects)

    def _acknowledge_inputs(self, effects: list[Effect]) -> None:
        """Whoever restores what was made of an input needs it until all of that has been acknowledged, and whoever
        restores the state, until the input has left the window."""
        if not self.spec.components.acknowledge_outputs:
            return
        window = self._operator.window or 0
        upto: dict[str, int] = {}
        now = 0 if self._last is None else self._last.time
        while self._made:
            up, event, _ = self._made[0]
            if window and event.time + window > now:
                break
            if self._is_wanted(event.time + window):
                break
            upto[up] = event.seq
            self._made.popleft()
        for up, seq in upto.items():
            self._acknowledge(up, seq, effects)

    def _is_wanted(self, until: int) -> bool:
        """Whether the oldest input may be needed again: for its own output, or for one of an event that came before
        this time, which is made of it as well."""
        for number, (_, event, last) in enumerate(self._made):
            if number and event.time >= until:
                return False
            if any(seq > self._outputs_acknowledged[to] for to, seq in last.items()):
                return True
        return False

    # Checkpoints

    def _checkpoint(self, effects: list[Effect]) -> None:
        policy = self._policy
        assert policy is not None
        self._since_checkpoint = 0
        if not self._kept:
            return
        checkpoint = self._snapshot(policy.contents, effects)
        self._pending = checkpoint.id
        self._marks_at_checkpoint = {up: channel.mark for up, channel in self._inputs.items()}
        self._keep(checkpoint, effects)
        if policy.acknowledge is AcknowledgeAt.TAKEN:
            self._acknowledge_checkpoint(effects)

    @property
    def _kept(self) -> bool:
        """Whether there is anybody to keep a checkpoint."""
        return True

    def _keep(self, checkpoint: Checkpoint, effects: list[Effect]) -> None:
        """Give a checkpoint to whoever keeps it, and says when it is durable."""
        effects.append(Persist(checkpoint))

    def _snapshot(self, contents: frozenset[Part], effects: list[Effect]) -> Checkpoint:
        self._checkpoint_number += 1
        last = self._last
        after_what = "" if last is None else f" after event ({last.source}, {last.seq})"
        with _user_code(self.spec.slice_id, f"snapshot(){after_what}"):
            state = self._operator.snapshot(self._state) if Part.STATE in contents else None
            if not isinstance(state, bytes | None):
                raise InvalidOperator(f"it is a {type(state).__name__}, which can go on changing; return bytes")
        vector = Part.VECTOR in contents
        effects.append(Note(CheckpointTaken(self.spec.slice_id, self.incarnation, self._checkpoint_number)))
        return Checkpoint(
            self.spec.slice_id,
            CheckpointId(self.incarnation, self._checkpoint_number),
            state,
            {up: channel.mark for up, channel in self._inputs.items()} if vector else {},
            {to: channel.kept() for to, channel in self._outputs.items()} if Part.LOG in contents else {},
            self._seq + 1 if Part.NUMBER in contents else None,
            self._waiting.turn if vector else (0, 0),
            {to: channel.acknowledged for to, channel in self._outputs.items()} if Part.LOG in contents else {},
        )

    def _durable(self, given: Durable, effects: list[Effect]) -> None:
        if self._pending is None or given.id != self._pending:
            raise OwnFailure(f"{self.spec.slice_id} did not wait for {given.id}, but it became durable")
        self._pending = None
        effects.append(Note(CheckpointDurable(self.spec.slice_id, given.id.incarnation, given.id.number)))
        policy = self._policy
        assert policy is not None
        if policy.acknowledge is AcknowledgeAt.DURABLE:
            self._acknowledge_checkpoint(effects)
        if self._since_checkpoint >= policy.every.count:
            self._checkpoint(effects)
        self._work(effects)

    def _acknowledge_checkpoint(self, effects: list[Effect]) -> None:
        for up, mark in self._marks_at_checkpoint.items():
            if mark:
                self._acknowledge(up, mark, effects)

    def _inspect(self, given: Inspect, effects: list[Effect]) -> None:
        if not self._working:
            return
        with _user_code(self.spec.slice_id, "rows()"):
            rows = rows_of(self._operator, self._state)
        effects.append(Note(Kept(self.spec.slice_id, self.incarnation, rows)))


def _blank(operator: Operator[Any]) -> Any:
    """Raises InvalidOperator where two slices would share one state, which a crash of one of them would not end."""
    state = operator.initial_state()
    if type(state) not in _UNCHANGING and operator.initial_state() is state:
        raise InvalidOperator(f"it returns the same {type(state).__name__} again; make a new one at every call")
    return state


@contextmanager
def _user_code(slice_id: str, what: str) -> Iterator[None]:
    """Turns what the user's code raises into InvalidOperator, which says where."""
    try:
        yield
    except InvalidOperator as error:
        raise InvalidOperator(f"operator of {slice_id}, {what}: {error}") from error
    except StreamproofError:
        raise
    except Exception as error:
        raise InvalidOperator(f"operator of {slice_id}, {what}: {type(error).__name__}: {error}") from error
