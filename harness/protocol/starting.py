"""What an incarnation starts from, in every world."""

from __future__ import annotations

from ..core.errors import InvalidScheme
from .blaming import blamed
from .coordinator import Coordinator, CoordinatorSpec, durable_state_of
from .mechanism import NO_LIMIT
from .messages import Checkpoint, Items
from .spec import SliceSpec
from .stores import CheckpointStore


def starting_point(
    store: CheckpointStore,
    spec: SliceSpec | CoordinatorSpec,
    incarnation: int,
    cut: int | None = None,
) -> tuple[Checkpoint | None, list[Items]]:
    """Fence an actor, and find the checkpoint that its new incarnation starts from: that of the cut which all slices
    start from together, or else of the last cut that a coordinator of its says is whole, or else the newest; and the
    items that stand beside it.

    Raises FencedOff, and StorageRefused when the disk does not take the fence.
    """
    newest = store.fence(spec.slice_id, incarnation)
    if isinstance(spec, CoordinatorSpec):
        return newest, []
    cuts = [cut] if cut is not None else [_whole(store, one) for one in spec.setup.coordinators]
    limits = [one for one in cuts if one is not None]
    found = store.version(spec.slice_id, min(limits)) if limits else newest
    return found, store.items(spec.slice_id)


def _whole(store: CheckpointStore, coordinator: Coordinator) -> int | None:
    with blamed(CoordinatorSpec(coordinator, ())):
        cut = coordinator.cut(durable_state_of(store.version(coordinator.name, NO_LIMIT), coordinator.keeps))
    if cut is not None and type(cut) is not int:
        raise InvalidScheme(f"cut() of coordinator {coordinator.name!r} returned {cut!r}; it returns a number, or None")
    return cut
