"""What an incarnation starts from, in every world."""

from __future__ import annotations

from .coordinator import Coordinator, CoordinatorSpec, kept_of
from .mechanism import NO_LIMIT
from .messages import Checkpoint
from .spec import SliceSpec
from .stores import CheckpointStore


def starting_point(
    store: CheckpointStore,
    spec: SliceSpec | CoordinatorSpec,
    incarnation: int,
    cut: int | None = None,
) -> Checkpoint | None:
    """Fence an actor, and find the checkpoint that its new incarnation starts from: that of the cut which all slices
    start from together, or else of the last cut that a coordinator of its says is whole, or else the newest.

    Raises FencedOff, and StorageRefused when the disk does not take the fence.
    """
    newest = store.fence(spec.slice_id, incarnation)
    if isinstance(spec, CoordinatorSpec):
        return newest
    cuts = [cut] if cut is not None else [_whole(store, one) for one in spec.setup.coordinators]
    limits = [one for one in cuts if one is not None]
    return store.version(spec.slice_id, min(limits)) if limits else newest


def _whole(store: CheckpointStore, coordinator: Coordinator) -> int | None:
    return coordinator.cut(kept_of(store.version(coordinator.name, NO_LIMIT), coordinator.keeps))
