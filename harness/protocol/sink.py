"""The end that takes the output: the harness's own, or, where a mechanism says so, one that runs on a node."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.events import Event
from ..core.slice_names import channel_name
from ..recording.records import CheckpointTaken, Delivered
from .channels import InputChannel
from .effects import Start
from .machine import Machine
from .messages import Checkpoint, Tie
from .operator import VECTOR, Vector
from .spec import SliceSpec


class SinkSlice(Machine):
    """What it delivers is visible, and no recovery takes it back."""

    own_parts = (VECTOR,)

    def __init__(self, spec: SliceSpec) -> None:
        super().__init__(spec)
        self._delivered = dict.fromkeys(spec.upstream, 0)
        self._channels = {up: channel_name(up, spec.slice_id) for up in spec.upstream}
        self._deliverers = self.hooks("delivers")
        self._over = self.hooks("input_over")
        self._unfinished = self.hooks("unfinished")

    def _start(self, given: Start) -> None:
        super()._start(given)
        if self.spec.on_nodes:
            self.ready()

    def restore(self, checkpoint: Checkpoint) -> None:
        self._checkpoints = max(self._checkpoints, checkpoint.id.number)
        vector = checkpoint.part(VECTOR, Vector) or Vector()
        for up, mark in vector.marks.items():
            self.inputs[up].go_on_after(mark)
        for restored in self.hooks("restore"):
            restored(checkpoint)

    def snapshot(self, delivers: Sequence[Delivered] = ()) -> Checkpoint:
        """What this sink needs to go on from here: what it has taken last from whom. `delivers` becomes visible in one
        step with it."""
        id_ = self.next_id()
        self.put_on_record(CheckpointTaken(self.spec.slice_id, self.incarnation, id_.number))
        marks = {up: channel.mark for up, channel in self.inputs.items()}
        parts = {VECTOR: Vector(marks)} | {one.part: one.save() for one in self.attached if one.part}
        # Beside those before: what was delivered is never taken back.
        return Checkpoint(self.spec.slice_id, id_, parts, beside=True, delivers=list(delivers))

    def delivery(self, up: str, sender: int, events: list[Event]) -> Delivered:
        """What is delivered of a channel. Of a sink that runs on a node, the outside says as which in number."""
        position = self._delivered[up]
        self._delivered[up] = position + len(events)
        # A list of its own: what a mechanism does to the one that it is given is no part of what was delivered.
        return Delivered(self.spec.slice_id, self._channels[up], sender, position, list(events))

    def _take(
        self, neighbour: str, channel: InputChannel, incarnation: int, events: list[Event], ties: list[Tie] | None
    ) -> None:
        if self.spec.on_nodes:
            # What it takes and what it delivers are two things where it can be lost in between.
            self.note_taken(neighbour, incarnation, events)
        for delivers in self._deliverers:
            if delivers(neighbour, incarnation, events):
                break
        else:
            self.put_on_record(self.delivery(neighbour, incarnation, events))
        self.taken += len(events)
        channel.mark = channel.seen
        for took in self._after_taking:
            took(neighbour, channel, events, ties)

    def find_end(self) -> None:
        """End, once nothing more is to be taken, nor to be delivered."""
        if all(channel.ended for channel in self.inputs.values()):
            for over in self._over:
                over()
            if not any(unfinished() for unfinished in self._unfinished):
                self._end(self._ends_heard())
