"""A disk and a network that keep bytes: what is restored, or arrives, is what was written or sent, and no object that
went on changing since, or that somebody else holds as well.

The simulator's own pass on checkpoints and messages as they are, since to encode them takes longer than all else. Who
hands out what it goes on changing would be given back there what it has become, and who changes what it was sent would
change what its sender keeps.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ...core.errors import InvalidScenario
from ...protocol.messages import Checkpoint, Items, Message
from ...protocol.stores import MemoryStore
from .network import Direction, Network

_Written = TypeVar("_Written", Checkpoint, Items, Message)


class WrittenStore(MemoryStore):
    """Raises InvalidScenario for what cannot be written."""

    def write(self, checkpoint: Checkpoint) -> bool:
        return super().write(_as_read(checkpoint, f"a checkpoint of {checkpoint.slice} cannot be written"))

    def append(self, items: Items) -> bool:
        return super().append(_as_read(items, f"what {items.slice} backs up cannot be written"))


class WrittenNetwork(Network):
    """Raises InvalidScenario for what cannot be sent."""

    def send(self, link: Direction, message: Message) -> None:
        super().send(link, _as_read(message, f"what {link[0]} says to {link[2]} cannot be sent"))


def _as_read(what: _Written, failure: str) -> _Written:
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(what), type=type(what))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidScenario(f"{failure}: {error}") from error
