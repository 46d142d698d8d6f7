"""The harness's end that takes the output."""

from __future__ import annotations

from ..core.model import Event, channel_name
from ..recording.records import Delivered
from .channels import InputChannel
from .machine import Machine
from .messages import Tie
from .spec import SliceSpec


class SinkSlice(Machine):
    """What it passes on is visible, and no recovery takes it back."""

    def __init__(self, spec: SliceSpec) -> None:
        super().__init__(spec)
        self._delivered = dict.fromkeys(spec.upstream, 0)
        self._channels = {up: channel_name(up, spec.slice_id) for up in spec.upstream}

    def _take(
        self, neighbour: str, channel: InputChannel, incarnation: int, events: list[Event], ties: list[Tie] | None
    ) -> None:
        name, position = self.spec.slice_id, self._delivered[neighbour]
        self.note(Delivered(name, self._channels[neighbour], incarnation, position, events))
        self._delivered[neighbour] = position + len(events)
        self.taken += len(events)
        channel.mark = channel.seen
        for took in self._after_taking:
            took(neighbour, channel, events, ties)
