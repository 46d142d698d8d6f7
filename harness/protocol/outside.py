"""Where sinks deliver that can be lost: it outlives every node, and it, not they, says what was delivered."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..core.topology import Role
from ..recording.records import Delivered
from .spec import SliceSpec


class Outside:
    """Kept by whoever keeps the record, in every world.

    An incarnation of a sink knows nothing of what those before it have delivered since their last checkpoint. So the
    outside counts what it takes, whether it comes at once, or in one step with a checkpoint of the sink that has become
    durable (`Checkpoint.delivers`): then it is the store's word that it did, whatever the sink lived to say of it.
    """

    def __init__(self, specs: Iterable[SliceSpec]) -> None:
        self.sinks = frozenset(spec.slice_id for spec in specs if spec.on_nodes and spec.role is Role.SINK)
        """Those that can be lost."""
        self._taken: dict[str, int] = {}
        """Channel -> how many outputs it has taken."""

    def numbered(self, delivered: Delivered) -> Delivered:
        """A delivery with the place that it has in its channel; of a sink that is never lost, as it is."""
        if delivered.sink not in self.sinks:
            return delivered
        position = self._taken.get(delivered.channel, 0)
        self._taken[delivered.channel] = position + len(delivered.rows)
        return msgspec.structs.replace(delivered, position=position)
