"""What long lineages lack and hold too often, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.events import Event
from .made import Chosen, derivations_of, events_of, is_long
from .reruns import Derivation

if TYPE_CHECKING:
    from .columns import Numbers


def compared(
    lineage: Sequence[Derivation], should: Sequence[Derivation]
) -> tuple[Sequence[Derivation], Iterator[tuple[Derivation, int]]]:
    """What should be in a lineage and is not; and what is in it more than once, with how often."""
    import numpy as np

    from .codes import among, coded

    had, due = coded(lineage, should)
    if len(had) == len(due) and np.array_equal(had, due):
        return (), iter(())
    missing = Chosen(should, np.flatnonzero(~among(due, had)))
    _, first, counts = np.unique(had, return_index=True, return_counts=True)
    often = np.flatnonzero(counts > 1)
    often = often[first[often].argsort()]
    return missing, zip(Chosen(lineage, first[often]), counts[often].tolist(), strict=True)


def first_difference(some: Sequence[Derivation], others: Sequence[Derivation]) -> int | None:
    """Where the first stands that is not the same among the others, if there is one."""
    length = min(len(some), len(others))
    if is_long(some, others):
        import numpy as np

        from .codes import coded

        one, other = coded(some, others)
        differing = np.flatnonzero(one[:length] != other[:length])
        place = int(differing[0]) if len(differing) else None
    else:
        place = next((n for n, (a, b) in enumerate(zip(some, others, strict=False)) if a != b), None)
    if place is None and len(some) > length:
        return length
    return place


def not_in(some: Sequence[Derivation], several: Sequence[Sequence[Derivation]]) -> Sequence[Derivation]:
    """Those that are in none of the others."""
    if not is_long(some, *several):
        known = set().union(*several)
        return [derivation for derivation in some if derivation not in known]
    return Chosen(some, _known(some, several, False))


def both_in(some: Sequence[Derivation], others: Sequence[Derivation]) -> Sequence[Derivation]:
    """Those that are in the others, too."""
    if not is_long(others) and not isinstance(some, Chosen):
        known = set(others)
        return [derivation for derivation in some if derivation in known]
    return Chosen(some, _known(some, [others], True))


def _known(some: Sequence[Derivation], several: Sequence[Sequence[Derivation]], which: bool) -> Numbers:
    import numpy as np

    from .codes import among, coded

    mine, *others = coded(some, *several)
    known = np.zeros(len(mine), bool)
    for other in others:
        known |= among(mine, other)
    return np.flatnonzero(known == which)


def has_twice(derivations: Sequence[Derivation]) -> bool:
    """Whether anything is there more than once."""
    if not is_long(derivations):
        return len(set(derivations)) != len(derivations)
    import numpy as np

    from .codes import coded

    (codes,) = coded(derivations)
    ordered = np.sort(codes)
    return bool((ordered[1:] == ordered[:-1]).any())


def needed(
    missing: Sequence[Derivation],
    should: Mapping[Derivation, Event],
    window: int,
    taken: Sequence[Sequence[Derivation]],
) -> Sequence[Derivation]:
    """Those of the missing that are still in the window, or that nobody took."""
    import numpy as np

    from .codes import among, coded, field_of

    lost, due, *took = coded(missing, derivations_of(should), *taken)
    times = field_of(events_of(should), "time")
    known = among(lost, np.concatenate(took)) if took else np.zeros(len(lost), bool)
    order = due.argsort()
    mine = times[order[np.searchsorted(due[order], lost)]]
    return Chosen(missing, np.flatnonzero((mine + window > int(times.max())) | ~known))
