"""A store with one rule of its protocol broken."""

from __future__ import annotations

from ...harness.protocol.messages import Checkpoint
from ...harness.protocol.stores import CheckpointStore


class Unfenced:
    """A store that takes what a replaced incarnation writes."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self.quiesce, self.capture, self.restore = store.quiesce, store.capture, store.restore
        self.write, self.version, self.drop = store.write, store.version, store.drop

    def fence(self, slice_id: str, incarnation: int) -> Checkpoint | None:
        return self._store.fence(slice_id, 0)
