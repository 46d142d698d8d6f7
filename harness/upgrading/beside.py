"""Who is to blame where a version has not continued: that is known once the one before it has gone on from the same
state, or from what was left of it.

Of the states from which the same came about, a few are tried so; all of them, as long as there is time, where the
version before does not continue either. The others take the word of one that is like them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from .outcomes import Aside, Switched, UpgradeOutcome, without_numbers

ASIDES: Final = 2
"""How often the version before is tried beside, for what looks the same, as long as it continues."""
_BLAMED: Final = (UpgradeOutcome.WRONG, UpgradeOutcome.CRASH_LOOP, UpgradeOutcome.REFUSED)
"""The worst first."""


def wants_aside(one: Switched) -> bool:
    """Whether somebody could be to blame for it."""
    return one.outcome in _BLAMED and not (one.outcome is UpgradeOutcome.REFUSED and one.clean)


def next_beside(switched: Sequence[Switched], without: Collection[int] = ()) -> int | None:
    """The place of the state that is to be tried next, `without` those of which that came to nothing; None: there is
    none left. Each kind comes once before any comes again."""
    tried = Counter(_kind(one) for one in switched if one.aside is not None)
    unsure = {_kind(one) for one in switched if one.aside is not None and not one.aside.continues}
    waiting = [
        (tried[kind], _BLAMED.index(one.outcome), place)
        for place, one in enumerate(switched)
        if one.aside is None
        and place not in without
        and wants_aside(one)
        and (tried[kind := _kind(one)] < ASIDES or kind in unsure)
    ]
    return min(waiting)[-1] if waiting else None


def planned_beside(switched: Sequence[Switched]) -> int:
    """How many are tried at least."""
    kinds = Counter(_kind(one) for one in switched if wants_aside(one))
    return sum(min(ASIDES, count) for count in kinds.values())


def with_borrowed(switched: Sequence[Switched]) -> tuple[Switched, ...]:
    """Those that were not tried so take the word of one like them; of one that does not continue, if there is one."""
    known: dict[object, Aside] = {}
    for one in switched:
        if one.aside is not None:
            known.setdefault(_kind(one), one.aside)
            if not one.aside.continues:
                known[_kind(one)] = one.aside
    return tuple(_with(one, known.get(_kind(one))) if wants_aside(one) else one for one in switched)


def _with(one: Switched, aside: Aside | None) -> Switched:
    if one.aside is not None or aside is None:
        return one
    return msgspec.structs.replace(one, aside=msgspec.structs.replace(aside, like=True))


def _kind(one: Switched) -> object:
    """What looks the same but for numbers."""
    crash = one.crashes[0]
    changed = frozenset(without_numbers(path) for path in one.changed)
    place = () if one.outcome is UpgradeOutcome.REFUSED else (crash.point, crash.side)
    return one.outcome, place, changed, one.committed < 0, one.early, one.again
