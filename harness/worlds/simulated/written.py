"""A disk that keeps bytes: what is restored from it is what was written, and no object that went on changing since.

The simulator's own keeps checkpoints as they are, since to encode them takes longer than all else. Who hands out what
it goes on changing, in a part of a checkpoint, would be given back there what it has become.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ...core.errors import InvalidScenario
from ...protocol.messages import Checkpoint, Items
from ...protocol.stores import MemoryStore

_Written = TypeVar("_Written", Checkpoint, Items)


class WrittenStore(MemoryStore):
    """Raises InvalidScenario for what cannot be written."""

    def write(self, checkpoint: Checkpoint) -> bool:
        return super().write(_as_read(checkpoint))

    def append(self, items: Items) -> bool:
        return super().append(_as_read(items))


def _as_read(what: _Written) -> _Written:
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(what), type=type(what))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidScenario(f"a checkpoint of {what.slice} cannot be written: {error}") from error
