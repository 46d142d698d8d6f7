"""Small changes to what a slice hears and says, each of which breaks one rule of a protocol.

A twist stands between a host and a slice: it is given the slice and its input, and returns the effects. All that
slices do is seen there, so no rule has to be broken inside of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from ...harness.core.events import NUMBERING_SPAN
from ...harness.core.slice_names import operator_of
from ...harness.protocol.effects import Effect, Fire, Gone, Input, Persist, Promote, Receive, Send, Start
from ...harness.protocol.machine import Slice
from ...harness.protocol.messages import Acknowledge, Batch, Checkpoint, Replay, Tie
from ...harness.protocol.operator import LISTENERS, NUMBER, STATE, VECTOR, Vector
from ..mechanisms.adjusting import PART as ADJUSTED
from ..mechanisms.output_log import PART as LOG
from ..mechanisms.replicas import Fetch, Sync
from ..mechanisms.tracking import Anchor, TimeOut, Tracked

_FURTHER = 100
"""More than is ever on its way at a time."""

Twist = Callable[[Slice, Input], list[Effect]]


class Twisted:
    """A slice with a twist."""

    def __init__(self, twist: Twist, machine: Slice) -> None:
        self.__dict__.update(_twist=twist, _machine=machine)

    def on(self, given: Input) -> list[Effect]:
        effects: list[Effect] = self._twist(self._machine, given)
        return effects

    def __getattr__(self, name: str) -> Any:
        if name.startswith(
            "__"
        ):  # Asked of an object that is being read from what was kept of it, and has nothing yet.
            raise AttributeError(name)
        return getattr(self.__dict__["_machine"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._machine, name, value)


def twisted(twist: Twist) -> Callable[[Slice], Slice]:
    return partial(_wrap, twist)


def _wrap(twist: Twist, machine: Slice) -> Slice:
    return Twisted(twist, machine)


def anchors_of(batch: Batch) -> list[Anchor]:
    """What the source of its events ties them to."""
    return [Anchor(*tie) for tie in batch.ties or ()]


def _returned(machine: Slice) -> bool:
    """Whether it is not the first incarnation of its replica."""
    return machine.incarnation > machine.replica + 1


# What is sent


def _messages(machine: Slice, given: Input, change: Callable[[Any], Any]) -> list[Effect]:
    """With every message changed; None drops it."""
    effects: list[Effect] = []
    for effect in machine.on(given):
        if isinstance(effect, Send):
            message = change(effect.message)
            if message is None:
                continue
            effect = msgspec.structs.replace(effect, message=message)
        effects.append(effect)
    return effects


def replays_one_too_few(machine: Slice, given: Input) -> list[Effect]:
    """The last event of each batch out of the log is left out."""

    def shorter(message: Any) -> Any:
        if isinstance(message, Replay):
            return msgspec.structs.replace(message, events=message.events[:-1]) if message.events[1:] else None
        return message

    return _messages(machine, given, shorter)


def swaps_outputs(machine: Slice, given: Input) -> list[Effect]:
    """Once it has returned, two neighbours of a batch change places."""

    def swapped(message: Any) -> Any:
        if isinstance(message, Batch) and message.events[1:] and _returned(machine):
            first, second, *rest = message.events
            return msgspec.structs.replace(message, events=[second, first, *rest])
        return message

    return _messages(machine, given, swapped)


def repeats_its_first_batch(machine: Slice, given: Input) -> list[Effect]:
    """Once it has returned, it sends what it makes twice."""
    effects: list[Effect] = []
    for effect in machine.on(given):
        effects.append(effect)
        if isinstance(effect, Send) and isinstance(effect.message, Batch) and _returned(machine):
            effects.append(effect)
    return effects


def syncs_without_log(machine: Slice, given: Input) -> list[Effect]:
    return _syncs(machine, given, LOG)


def syncs_without_vector(machine: Slice, given: Input) -> list[Effect]:
    return _syncs(machine, given, VECTOR)


def syncs_without_numbering(machine: Slice, given: Input) -> list[Effect]:
    return _syncs(machine, given, NUMBER)


def syncs_without_state(machine: Slice, given: Input) -> list[Effect]:
    return _syncs(machine, given, STATE)


def syncs_without_listeners(machine: Slice, given: Input) -> list[Effect]:
    """A replica that joins keeps its log for those only that have opened its channels already."""
    return _syncs(machine, given, LISTENERS)


def syncs_without_settings(machine: Slice, given: Input) -> list[Effect]:
    """A replica that joins goes by what was declared."""
    return _syncs(machine, given, ADJUSTED)


def syncs_without_turn(machine: Slice, given: Input) -> list[Effect]:
    """A replica that joins does not hear whose turn it is at the merge."""
    return _messages(
        machine, given, lambda m: Sync(m.incarnation, _without_turn(m.checkpoint)) if isinstance(m, Sync) else m
    )


def _without(checkpoint: Checkpoint, *lacking: str) -> Checkpoint:
    """A checkpoint that lacks parts; of the numbering, the number that a blank slice begins with."""
    parts = {name: part for name, part in checkpoint.parts.items() if name not in lacking}
    if NUMBER in lacking:
        parts[NUMBER] = 1
    return msgspec.structs.replace(checkpoint, parts=parts)


def _syncs(machine: Slice, given: Input, lacking: str) -> list[Effect]:
    def poorer(message: Any) -> Any:
        if isinstance(message, Sync):
            return msgspec.structs.replace(message, checkpoint=_without(message.checkpoint, lacking))
        return message

    return _messages(machine, given, poorer)


def persists_without_turn(machine: Slice, given: Input) -> list[Effect]:
    """A stored checkpoint does not say whose turn it is at the merge."""
    effects: list[Effect] = []
    for effect in machine.on(given):
        if isinstance(effect, Persist):
            effect = Persist(_without_turn(effect.checkpoint))
        effects.append(effect)
    return effects


def _without_turn(checkpoint: Checkpoint) -> Checkpoint:
    vector = checkpoint.part(VECTOR, Vector) or Vector()
    return msgspec.structs.replace(checkpoint, parts=checkpoint.parts | {VECTOR: Vector(vector.marks)})


def acknowledges_too_far(machine: Slice, given: Input) -> list[Effect]:
    """What has not come in yet is acknowledged too."""

    def further(message: Any) -> Any:
        return (
            Acknowledge(message.incarnation, message.upto + _FURTHER) if isinstance(message, Acknowledge) else message
        )

    return _messages(machine, given, further)


def replays_nothing(machine: Slice, given: Input) -> list[Effect]:
    """What is in the log is never sent."""
    return _messages(machine, given, lambda message: None if isinstance(message, Replay) else message)


def tells_nothing_of_what_it_made(machine: Slice, given: Input) -> list[Effect]:
    """The source hears of the events that were taken, and not of those that were made of them."""
    effects = machine.on(given)
    made: dict[tuple[str, int], int] = {}
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, Batch):
            for anchor in anchors_of(effect.message):
                made[anchor.source, anchor.root] = made.get((anchor.source, anchor.root), 0) ^ anchor.id
    changed: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, Tracked):
            roots = [(root, ids ^ made.get((effect.to, root), 0)) for root, ids in effect.message.roots]
            effect = msgspec.structs.replace(effect, message=Tracked(effect.message.incarnation, roots))
        changed.append(effect)
    return changed


def acknowledges_what_is_in_the_window(machine: Slice, given: Input) -> list[Effect]:
    """An input is acknowledged as soon as its output is, though the state is made of it still. For operators that make
    one output of each input, and number it like that."""
    effects = machine.on(given)
    if isinstance(given, Receive) and isinstance(given.message, Acknowledge):
        message = Acknowledge(machine.incarnation, given.message.upto)
        effects += [Send(up, 1, message) for up in machine.spec.upstream]
    return effects


def tells_of_what_is_in_the_window(machine: Slice, given: Input) -> list[Effect]:
    """The source hears at once of what was taken into a window, and not when it has left it."""
    effects = machine.on(given)
    batch = given.message if isinstance(given, Receive) else None
    stage = machine.spec.topology.stages[operator_of(machine.spec.slice_id)]
    if stage.operator.window is None or not isinstance(batch, Batch):
        return effects
    ids: dict[tuple[str, int], int] = {}
    made = [anchors_of(e.message) for e in effects if isinstance(e, Send) and isinstance(e.message, Batch)]
    for anchors in (anchors_of(batch), *made):
        for anchor in anchors:
            ids[anchor.source, anchor.root] = ids.get((anchor.source, anchor.root), 0) ^ anchor.id
    told = [Send(source, 1, Tracked(machine.incarnation, [(root, told)])) for (source, root), told in ids.items()]
    return [*effects, *told]


def asks_nobody(machine: Slice, given: Input) -> list[Effect]:
    """Once it has returned, it does not ask for the state of a peer."""
    return _messages(machine, given, lambda m: None if isinstance(m, Fetch) and _returned(machine) else m)


# What is heard


def takes_what_is_new_before_the_replay_is_over(machine: Slice, given: Input) -> list[Effect]:
    """Nothing is held: what is new goes in as if it came out of the log."""
    if isinstance(given, Receive) and isinstance(given.message, Batch) and _returned(machine):
        given = Receive(given.neighbour, Replay(given.message.incarnation, given.message.events))
    return machine.on(given)


def skips_the_first_batch_after_its_return(machine: Slice, given: Input) -> list[Effect]:
    if isinstance(given, Receive) and isinstance(given.message, Batch) and _returned(machine) and machine.taken == 0:
        batch = given.message
        if not batch.events[1:]:
            return []
        tied = None if batch.ties is None else batch.ties[1:]
        given = Receive(given.neighbour, Batch(batch.incarnation, batch.events[1:], tied))
        # Something is taken now, so that no other batch is skipped.
    return machine.on(given)


def joins_without_the_state(machine: Slice, given: Input) -> list[Effect]:
    """A replica that returns goes to work blank, as if it were the first."""
    if isinstance(given, Start) and not given.initial and _returned(machine):
        given = msgspec.structs.replace(given, initial=True)
    return machine.on(given)


def takes_over_without_the_checkpoint(machine: Slice, given: Input) -> list[Effect]:
    """A standby that is promoted starts blank."""
    if isinstance(given, Promote):
        given = Promote(None)
    return machine.on(given)


def keeps_nothing_while_it_stands_by(machine: Slice, given: Input) -> list[Effect]:
    """A standby lets all input pass."""
    waits = machine.replica > 0 and machine.taken == 0
    if isinstance(given, Receive) and isinstance(given.message, Batch) and waits:
        return []
    return machine.on(given)


def hears_of_no_end(machine: Slice, given: Input) -> list[Effect]:
    """Whoever was replaced is listened to all the same."""
    return [] if isinstance(given, Gone) else machine.on(given)


def takes_over_without_what_it_holds(machine: Slice, given: Input) -> list[Effect]:
    """The state that a standby is sent is confirmed, and not kept."""
    if isinstance(given, Receive) and isinstance(given.message, Sync):
        sync = given.message
        empty = _without(sync.checkpoint, STATE, VECTOR, LOG, NUMBER)
        given = Receive(given.neighbour, msgspec.structs.replace(sync, checkpoint=empty))
    return machine.on(given)


def follows_only_the_first_attempt(machine: Slice, given: Input) -> list[Effect]:
    """What a source has sent again it takes for processed."""
    effects = machine.on(given)
    if isinstance(given, Fire) and isinstance(given.timer, TimeOut):
        for effect in tuple(effects):
            if isinstance(effect, Send) and isinstance(effect.message, Batch):
                told = [(anchor.root, anchor.id) for anchor in anchors_of(effect.message)]
                effects += machine.on(Receive(effect.to, Tracked(effect.incarnation, told)))
    return effects


def tells_and_does_not_take(machine: Slice, given: Input) -> list[Effect]:
    """The first batch after a return is accounted for, and passed over."""
    batch = given.message if isinstance(given, Receive) else None
    if isinstance(batch, Batch) and batch.ties and _returned(machine) and machine.taken == 0:
        first, *rest = anchors_of(batch)
        told: list[Effect] = [Send(first.source, 1, Tracked(machine.incarnation, [(first.root, first.id)]))]
        if not rest or not isinstance(given, Receive):
            return told
        return told + machine.on(Receive(given.neighbour, Batch(batch.incarnation, batch.events[1:], list[Tie](rest))))
    return machine.on(given)


def drops_and_tells_what_comes_again(machine: Slice, given: Input) -> list[Effect]:
    """What a source sends again is accounted for, and passed over."""
    batch = given.message if isinstance(given, Receive) else None
    if isinstance(batch, Batch) and batch.ties and anchors_of(batch)[0].root > NUMBERING_SPAN:
        first = anchors_of(batch)[0]
        return [Send(first.source, 1, Tracked(machine.incarnation, [(first.root, first.id)]))]
    return machine.on(given)
