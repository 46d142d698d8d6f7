"""Since when the mechanisms of a slice go by which settings, where a coordinator changes them while a run goes on.

What a coordinator has put on record counts, not what slices say that they did: a slice that took a change elsewhere, or
forgot it, did not keep to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from ..core.errors import OwnFailure
from ..protocol.mechanism import CHECKPOINT_EVERY
from ..recording.records import Changed


def in_order(changes: Iterable[Changed]) -> dict[str, list[Changed]]:
    """Slice -> its changes. Where a coordinator and its successor say different things of one, the first of them does:
    slices may have gone by it."""
    known: dict[tuple[str, int], Changed] = {}
    for change in sorted(changes, key=_incarnation):
        known.setdefault((change.member, change.number), change)
    found: dict[str, list[Changed]] = {}
    for (member, _), change in sorted(known.items()):
        found.setdefault(member, []).append(change)
    return found


def _incarnation(change: Changed) -> int:
    return change.incarnation


def most_unprotected(changes: Sequence[Changed], declared: int, position: int) -> int:
    """How many of so many inputs of a state may come after the newest durable checkpoint. At each place a slice goes on
    only as long as fewer than the interval in force there have come since the checkpoint that it took last; and it
    takes one only once that before is durable."""
    if not changes:
        return 2 * declared
    since = [(0, declared), *((one.since, int(one.settings.get(CHECKPOINT_EVERY, declared))) for one in changes)]
    # The earlier a checkpoint, the earlier whoever starts from it has to wait.
    return position - bisect_left(range(position), position, key=lambda place: _reach(since, _reach(since, place)))


def raised(changes: Mapping[str, Sequence[Changed]], declared: int) -> str:
    """Which slices a coordinator let take checkpoints less often than declared, and how seldom, in words; empty where
    there is none."""
    seldomest = {
        slice_id: max((int(one.settings.get(CHECKPOINT_EVERY, declared)) for one in own), default=declared)
        for slice_id, own in changes.items()
    }
    return ", ".join(
        f"{slice_id} every {most:,} events" for slice_id, most in sorted(seldomest.items()) if most > declared
    )


def _reach(since: Sequence[tuple[int, int]], checkpoint: int) -> int:
    """How far a slice gets until the checkpoint after the one that it took there."""
    ends = [*(begin for begin, _ in since[1:]), inf]
    for (begin, every), end in zip(since, ends, strict=True):
        due = max(begin, checkpoint + every)
        if due < end and checkpoint < end:
            return due
    raise OwnFailure(f"no interval of checkpoints holds after {checkpoint:,} inputs")
