"""Since when the mechanisms of a slice go by which settings, where a coordinator changes them while a run goes on.

What a coordinator has put on record counts, not what slices say that they did: a slice that took a change elsewhere, or
forgot it, did not keep to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def checkpoint_interval(changes: Sequence[Changed], declared: int, position: int) -> int:
    """The longest interval of checkpoints that may be behind a state of so many inputs: a slice never takes more than
    two of them without a durable checkpoint, so one that was in force before that is over."""
    since = [(0, declared), *((one.since, int(one.settings.get(CHECKPOINT_EVERY, declared))) for one in changes)]
    longest = next(every for begin, every in reversed(since) if begin <= position)
    while True:
        earliest = position - 2 * longest
        ends = [*(begin for begin, _ in since[1:]), position]
        behind = (every for (begin, every), end in zip(since, ends, strict=True) if end > earliest and begin < position)
        longer = max(behind, default=longest)
        if longer <= longest:
            return longest
        longest = longer
