"""The harness's end that takes the output."""

from __future__ import annotations

from ..model import Event, channel_name
from ..recording.records import Delivered
from .channels import InputChannel
from .effects import Effect, Note, Send
from .machine import ReceivingSlice, SliceSpec
from .messages import Acknowledge, Anchor
from .tracking import Accounts


class SinkSlice(ReceivingSlice):
    """What it passes on is visible, and no recovery takes it back."""

    def __init__(self, spec: SliceSpec) -> None:
        super().__init__(spec)
        self._delivered = dict.fromkeys(spec.upstream, 0)
        self._accounts = Accounts(window=None)

    def _take(
        self,
        peer: str,
        channel: InputChannel,
        incarnation: int,
        events: list[Event],
        anchors: list[Anchor] | None,
        effects: list[Effect],
    ) -> None:
        name, position = self.spec.slice_id, self._delivered[peer]
        effects.append(Note(Delivered(name, channel_name(peer, name), incarnation, position, events)))
        self._delivered[peer] = position + len(events)
        self.taken += len(events)
        channel.mark = channel.seen
        every = self.spec.components.acknowledge_every
        if every is not None:
            channel.unacknowledged += len(events)
            if channel.unacknowledged >= every.count:
                channel.unacknowledged = 0
                message = Acknowledge(self.incarnation, channel.mark)
                effects += [Send(peer, speaker, message) for speaker in channel.links]
        if anchors is not None:
            for event, anchor in zip(events, anchors, strict=True):
                self._accounts.took(event, anchor, ())
            effects += self._accounts.messages(self.incarnation)
