"""One partition of an operator at work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

from ..errors import InvalidOperator, OwnFailure, StreamproofError
from ..model import PLAIN, Event, Operator, carried, operator_of, processor, rows_of
from ..recording.records import CheckpointDurable, CheckpointTaken, Kept, Promoted, Restored, Taken
from .channels import InputChannel
from .components import AcknowledgeAt, Keeper, Numbering, Part, Standby
from .effects import (
    Durable,
    Effect,
    Gone,
    Inspect,
    Note,
    Persist,
    Promote,
    Ready,
    Reroute,
    Send,
    Start,
)
from .machine import ReceivingSlice, SliceSpec
from .merging import Run, sequencer
from .messages import (
    Acknowledge,
    Anchor,
    Checkpoint,
    CheckpointId,
    Fetch,
    Internal,
    Open,
    ReplayStop,
    Sync,
    Synced,
    Trim,
)
from .tracking import Accounts, Ids

_ALL_AT_ONCE = 1 << 62


class _Phase(Enum):
    JOINING = auto()
    """It takes in, and waits for the state that this belongs to."""
    STANDING_BY = auto()
    """It waits to be promoted."""
    AT_WORK = auto()


class OperatorSlice(ReceivingSlice):
    """Takes events into the operator's state and emits what comes of them; takes checkpoints, and shares its state with
    the other replicas of its slice, as its components say."""

    def __init__(self, spec: SliceSpec) -> None:
        super().__init__(spec)
        self._operator: Operator[Any] = spec.topology.stages[operator_of(spec.slice_id)].operator
        with _user_code(spec.slice_id, "initial_state()"):
            self._state: Any = self._operator.initial_state()
        self._process = processor(self._operator, 0)
        self._phase = _Phase.AT_WORK
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
        self._sync: Sync | None = None
        """The pending checkpoint, where fellows keep it."""
        self._awaited: set[int] = set()
        """The fellows that have not confirmed it."""
        self._confirmed: set[int] = set()
        """Those that have."""
        self._fellows: set[int] = set()
        """Other replicas of this slice that we are in touch with."""
        self._asked: int | None = None
        """The fellow that was asked for its state."""
        self._askers: list[int] = []
        self._held: Checkpoint | None = None
        """The primary's last state, for when we are promoted."""
        self._in_step = False
        self._early: list[tuple[str, Open | Acknowledge | ReplayStop]] = []
        """What receivers have said before we had what they ask for."""
        self._accounts = Accounts(self._operator.window)
        self._ids = Ids(spec.slice_id, 0)
        self._made: deque[tuple[str, Event, dict[str, int]]] = deque()
        """(upstream, input, downstream -> number of the last output made of it) of what is not acknowledged."""
        self._outputs_acknowledged = dict.fromkeys(spec.downstream, 0)

    # Life

    def _start(self, given: Start, effects: list[Effect]) -> None:
        self._process = processor(self._operator, given.seed)
        self._ids = Ids(self.spec.slice_id, given.incarnation)
        super()._start(given, effects)
        if not given.founder:
            standby = self.spec.components.standby
            joins = standby is None or standby is Standby.SILENT
            self._phase = _Phase.JOINING if joins else _Phase.STANDING_BY
        if given.founder or self.spec.components.standby is Standby.LOADED:
            self._step_in(effects)

    def _step_in(self, effects: list[Effect]) -> None:
        if not self._in_step:
            self._in_step = True
            effects.append(Ready())

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

    def _take_over(self, checkpoint: Checkpoint, effects: list[Effect]) -> None:
        """Go on from the state of a fellow, or of one that was before us."""
        self._restore(checkpoint)
        taken = (checkpoint.id.incarnation, checkpoint.id.number)
        effects.append(Note(Restored(self.spec.slice_id, self.incarnation, taken, self._seq + 1)))

    def _open(self, peer: str, message: Open, effects: list[Effect]) -> None:
        if self._phase is _Phase.AT_WORK:
            super()._open(peer, message, effects)
        else:
            self._early.append((peer, message))

    def _from_downstream(self, peer: str, message: Acknowledge | ReplayStop, effects: list[Effect]) -> None:
        if self._phase is _Phase.AT_WORK:
            super()._from_downstream(peer, message, effects)
        else:
            self._early.append((peer, message))

    def _set_to_work(self, effects: list[Effect]) -> None:
        """We have all that we shall get from others."""
        self._phase = _Phase.AT_WORK
        early, self._early = self._early, []
        for peer, message in early:
            if isinstance(message, Open):
                self._open(peer, message, effects)
            else:
                self._from_downstream(peer, message, effects)
        self._answer_askers(effects)

    def _promote(self, given: Promote, effects: list[Effect]) -> None:
        checkpoint = given.checkpoint or self._held
        standing_by = self._phase is _Phase.STANDING_BY
        if standing_by and checkpoint is not None:
            self._take_over(checkpoint, effects)
        self._held = None
        effects.append(Note(Promoted(self.spec.slice_id, self.incarnation)))
        # Whatever it has is the state of its slice from now on.
        self._step_in(effects)
        self._set_to_work(effects)
        if standing_by and self.spec.components.standby is not Standby.QUEUING:
            for up, channel in self._inputs.items():
                for incarnation in channel.links:
                    self._open_at(up, incarnation, effects)
        self._work(effects)

    def _reroute(self, given: Reroute, effects: list[Effect]) -> None:
        if given.peer != self.spec.slice_id:
            super()._reroute(given, effects)
        elif (given.peer, given.incarnation) not in self._gone:
            self._meet(given.incarnation, effects)

    def _meet(self, fellow: int, effects: list[Effect]) -> None:
        """What was on its way to a fellow that we knew before is lost: say it again."""
        self._fellows.add(fellow)
        if self._pending is not None and fellow in self._awaited:
            assert self._sync is not None
            effects.append(Send(self.spec.slice_id, fellow, self._sync))
        if self._asked == fellow:
            self._asked = None
        self._fetch(effects)

    def _open_at(self, peer: str, incarnation: int, effects: list[Effect]) -> None:
        listens = self._phase is not _Phase.STANDING_BY or self.spec.components.standby is Standby.QUEUING
        if listens:
            super()._open_at(peer, incarnation, effects)

    def _lose(self, given: Gone, effects: list[Effect]) -> None:
        super()._lose(given, effects)
        if given.peer == self.spec.slice_id:
            self._fellows.discard(given.incarnation)
            self._awaited.discard(given.incarnation)
            self._confirmed.discard(given.incarnation)
            if self._asked == given.incarnation:
                self._asked = None
                self._fetch(effects)
            self._find_confirmed(effects)

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
            self._phase is _Phase.AT_WORK
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
        while self._phase is _Phase.AT_WORK:
            room = _ALL_AT_ONCE if policy is None else policy.every.count - self._since_checkpoint
            if room <= 0:
                if self._pending is not None:
                    return
                self._checkpoint(effects)
                continue
            run = self._waiting.next(room)
            if run is None:
                break
            up = self.spec.upstream[run.channel]
            self._consume(up, self._inputs[up], run.incarnation, run.events, run.anchors, effects)
        if self._phase is _Phase.AT_WORK:
            if self.spec.components.anchored:
                self._accounts.passed(self._progress)
                effects += self._accounts.messages(self.incarnation)
            self._find_end(effects)

    def _find_end(self, effects: list[Effect]) -> None:
        if self._phase is _Phase.AT_WORK and self._waiting.empty:
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
        components = self.spec.components
        if components.standby is Standby.SILENT:
            effects += [
                Send(self.spec.slice_id, fellow, Trim(self.incarnation, to, upto)) for fellow in sorted(self._fellows)
            ]
        if components.acknowledge_outputs:
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
            up, event, last = self._made[0]
            if window and event.time + window > now:
                break
            if any(seq > self._outputs_acknowledged[to] for to, seq in last.items()):
                break
            upto[up] = event.seq
            self._made.popleft()
        for up, seq in upto.items():
            self._acknowledge(up, seq, effects)

    # Checkpoints

    def _checkpoint(self, effects: list[Effect]) -> None:
        policy = self._policy
        assert policy is not None
        self._since_checkpoint = 0
        if policy.keeper is Keeper.FELLOWS and not self._fellows:
            return
        checkpoint = self._snapshot(policy.contents, effects)
        self._pending = checkpoint.id
        self._marks_at_checkpoint = {up: channel.mark for up, channel in self._inputs.items()}
        if policy.keeper is Keeper.STORE:
            effects.append(Persist(checkpoint))
        else:
            self._awaited, self._confirmed = set(self._fellows), set()
            self._sync = Sync(self.incarnation, checkpoint)
            effects += [Send(self.spec.slice_id, fellow, self._sync) for fellow in sorted(self._fellows)]
        if policy.acknowledge is AcknowledgeAt.TAKEN:
            self._acknowledge_checkpoint(effects)

    def _snapshot(self, contents: frozenset[Part], effects: list[Effect]) -> Checkpoint:
        self._checkpoint_number += 1
        last = self._last
        after_what = "" if last is None else f" after event ({last.source}, {last.seq})"
        with _user_code(self.spec.slice_id, f"snapshot(){after_what}"):
            state = self._operator.snapshot(self._state) if Part.STATE in contents else None
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

    # Among replicas

    def _from_fellow(self, peer: str, message: Internal, effects: list[Effect]) -> None:
        if (peer, message.incarnation) in self._gone:
            self._refuse(peer, message, effects)
            return
        if message.incarnation not in self._fellows:
            # It heard of us before we heard of it.
            self._meet(message.incarnation, effects)
        if isinstance(message, Fetch):
            if message.incarnation not in self._askers:
                self._askers.append(message.incarnation)
            self._answer_askers(effects)
            if message.incarnation == self._asked:
                self._asked = None
                self._fetch(effects)
        elif isinstance(message, Sync):
            self._synchronize(message, effects)
        elif isinstance(message, Synced):
            if self._pending is not None and message.number == self._pending.number:
                self._awaited.discard(message.incarnation)
                self._confirmed.add(message.incarnation)
                self._find_confirmed(effects)
        else:
            self._outputs[message.downstream].trim(message.upto)

    def _fetch(self, effects: list[Effect]) -> None:
        """Ask a fellow for its state, once we cannot miss anything that comes after it. One that asks us has none."""
        needs = self._phase is _Phase.JOINING or (
            self._phase is _Phase.STANDING_BY and self.spec.components.standby is not Standby.LOADED
        )
        helpful = self._fellows.difference(self._askers)
        if not needs or self._in_step or self._asked is not None or not helpful:
            return
        if self._listens and not self._hears_all:
            return
        self._asked = min(helpful)
        effects.append(Send(self.spec.slice_id, self._asked, Fetch(self.incarnation)))

    @property
    def _listens(self) -> bool:
        return self._phase is not _Phase.STANDING_BY or self.spec.components.standby is Standby.QUEUING

    @property
    def _hears_all(self) -> bool:
        """Whether somebody speaks on every channel, and we have what was logged there."""
        return all(any(not link.replaying for link in channel.links.values()) for channel in self._inputs.values())

    def _replayed(self, effects: list[Effect]) -> None:
        self._fetch(effects)
        self._answer_askers(effects)

    def _answer_askers(self, effects: list[Effect]) -> None:
        """Not before those upstream know us: what a fellow acknowledges that is ahead of us, they would drop."""
        if self._phase is not _Phase.AT_WORK or not self._hears_all:
            return
        for asker in self._askers:
            if asker in self._fellows:
                sync = Sync(self.incarnation, self._snapshot(frozenset(Part), effects))
                effects.append(Send(self.spec.slice_id, asker, sync))
        self._askers.clear()

    def _synchronize(self, message: Sync, effects: list[Effect]) -> None:
        checkpoint = message.checkpoint
        if self._phase is _Phase.JOINING:
            self._take_over(checkpoint, effects)
            for to, listeners in checkpoint.listeners.items():
                for receiver, upto in listeners.items():
                    if (to, receiver) not in self._gone:
                        self._outputs[to].expect(receiver, upto)
            self._step_in(effects)
            self._set_to_work(effects)
            self._work(effects)
        elif self._phase is _Phase.STANDING_BY:
            self._held = checkpoint
            effects.append(
                Send(self.spec.slice_id, message.incarnation, Synced(self.incarnation, checkpoint.id.number))
            )
            if self.spec.components.standby is Standby.QUEUING:
                for up, mark in checkpoint.vector.items():
                    self._waiting.drop(self._inputs[up].place, mark)
                    if mark:
                        self._acknowledge(up, mark, effects)
            self._step_in(effects)

    def _find_confirmed(self, effects: list[Effect]) -> None:
        """Durable is what all fellows have; nothing is, if none is left that has confirmed."""
        policy = self._policy
        if policy is None or policy.keeper is not Keeper.FELLOWS or self._pending is None or self._awaited:
            return
        self._sync = None
        if self._confirmed:
            self._durable(Durable(self._pending), effects)
        else:
            self._pending = None
            self._work(effects)

    def _inspect(self, given: Inspect, effects: list[Effect]) -> None:
        if self._phase is not _Phase.AT_WORK:
            return
        with _user_code(self.spec.slice_id, "rows()"):
            rows = rows_of(self._operator, self._state)
        effects.append(Note(Kept(self.spec.slice_id, self.incarnation, rows)))


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
