"""Which addresses come to the same when a node dies there: of each such class one is tried, and stands for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..core.addresses import Point, Side
from .census import Reached

_LEAVES: Final = frozenset({(Point.SEND_ISSUED, Side.BEFORE), (Point.CHECKPOINT_DURABLE, Side.BEFORE)})
"""What comes right after one of these leaves the node by a link or a write: a message, or a checkpoint that is durable
from then on."""


def classes(reached: Sequence[Reached]) -> tuple[tuple[Reached, ...], ...]:
    """The addresses, those together that leave the same world behind when their actor's node dies there.

    Of addresses that one actor passes in one step of the world, one after the other, a later one is of the class of the
    one before unless something has left the node in between: a message was handed over, a checkpoint became durable, an
    output was delivered, or the manager or the store was told something. What else happens is in the node's memory,
    which dies with it. So to die before a message is taken, after it is taken, before its first consequence is sent,
    and after a checkpoint was handed to a store that has not written it, are one and the same; and so is to lose,
    besides, all that the node had handed over.
    """
    found: list[list[Reached]] = []
    newest: dict[str, list[Reached]] = {}
    for one in reached:
        actor = one.address.name
        alike = newest.get(actor)
        if alike is None or _differ(alike[-1], one):
            newest[actor] = [one]
            found.append(newest[actor])
        else:
            alike.append(one)
    return tuple(map(tuple, found))


def distinct(reached: Sequence[Reached]) -> list[Reached]:
    """The first address of each class."""
    return [alike[0] for alike in classes(reached)]


def _differ(before: Reached, one: Reached) -> bool:
    return (
        before.step != one.step
        or before.address.incarnation != one.address.incarnation
        or before.left != one.left
        or (before.address.point, before.address.side) in _LEAVES
    )
