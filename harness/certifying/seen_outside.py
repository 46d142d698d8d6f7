"""What the user's code was seen to do in runs without failures where nothing can be held or copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from ..contracts.query import Query
from .attempts import Attempt
from .conclusion import Uncut


def uncut_of(query: Query, lives: Sequence[Attempt]) -> tuple[Uncut, ...]:
    """Each effect once, as often as the life has it that has it most often. Where the query has stores that cannot be
    copied, each of its calls is cut by a real kill, and none is left."""
    if not query.copyable:
        return ()
    most: Counter[tuple[str, str, str]] = Counter()
    for life in lives:
        found: Counter[tuple[str, str, str]] = Counter()
        for effect in (effect for noted in life.noted for effect in noted.effects):
            found[effect.kind, effect.target, effect.place] += effect.times
        most |= found
    return tuple(
        Uncut(kind, target, place, times, any(fnmatchcase(f"{kind} {target}", one) for one in query.accepts))
        for (kind, target, place), times in sorted(most.items())
    )


def unannounced_of(lives: Sequence[Attempt]) -> int:
    """How often lines were passed, in the life that did so most often, at which nobody was held any more."""
    return max((sum(noted.unannounced for noted in life.noted) for life in lives), default=0)
