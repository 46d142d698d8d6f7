"""What somebody took of a long channel, in columns: which places of it, and what is missing between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .codes import NONE, among, array_of, coded, column_of, field_of, places_in
from .columns import Numbers
from .packed import Rows, joined
from .reruns import Deliveries, Derivation, Rerun

if TYPE_CHECKING:
    from .reexecution import Reexecution

LongIntake = tuple[Numbers, Sequence[Derivation | None]]
"""Numbers and derivations."""


def taken_of(reexecution: Reexecution, rerun: Rerun) -> dict[tuple[str, int], LongIntake]:
    """What an incarnation took of each upstream and incarnation of it."""
    seqs = array_of(rerun.seqs)
    return {
        up: (np.concatenate([seqs[low:high] for low, high in places]), _pieces(rerun.took, places))
        for up, places in reexecution.taken_of(rerun).items()
    }


def delivered_of(deliveries: Deliveries) -> dict[int, LongIntake]:
    """What was delivered of each incarnation."""
    heads, rows, derivations = deliveries.columns()
    seqs = field_of(rows, "seq")
    whose: dict[int, list[tuple[int, int]]] = {}
    begin = 0
    for number, count in zip(column_of(heads, 1).tolist(), column_of(heads, 3).tolist(), strict=True):
        end = begin + count
        places = whose.setdefault(number, [])
        if places and places[-1][1] == begin:
            places[-1] = (places[-1][0], end)
        else:
            places.append((begin, end))
        begin = end
    return {
        number: (np.concatenate([seqs[low:high] for low, high in places]), _pieces(derivations, places))
        for number, places in whose.items()
    }


def _pieces(rows: Rows[Any], places: Sequence[tuple[int, int]]) -> Sequence[Derivation | None]:
    return joined(rows[low:high] for low, high in places)


class LongChannel:
    """As `_Channel` of `contiguity`."""

    def __init__(self, sender: Rerun, to: str, opened: Sequence[int], taken: LongIntake, whole: bool) -> None:
        events, self._derivations = sender.channel(to)
        self._seqs = field_of(events, "seq")
        seqs, derivations = taken
        made, took = coded((self._derivations, _numbers(self._seqs)), (derivations, _numbers(seqs)))
        self.taken = places_in(took, made)
        unknown = took == NONE
        if unknown.any():
            self.taken[unknown] = places_in(seqs[unknown], self._seqs)
        del made, took
        if len(self.taken) and self.taken.min() < 0:
            self.taken = self.taken[self.taken >= 0]
        inherited = len(self._seqs) - len(sender.emitted[to].events)
        self.opened = [inherited + made_before for made_before in opened]
        self._whole = whole

    def flaws(self, known: Sequence[Sequence[Derivation | None]], ordered: bool) -> tuple[str, str, bool]:
        """What was taken; the first that is missing among that, if any is; and whether it was not in order. What is
        `known` is not missing."""
        got = np.zeros(len(self._seqs), bool)
        got[self.taken] = True
        passed = [low + np.flatnonzero(~got[low:high]) for low, high in self._intervals()]
        missing = np.concatenate(passed) if passed else np.zeros(0, np.int64)
        if len(missing):
            lost, *others = coded([self._derivations[place] for place in missing.tolist()], *known)
            there = np.logical_or.reduce([among(lost, other) for other in others]) if others else np.zeros(1, bool)
            missing = missing[~np.broadcast_to(there, len(missing))]
        back = int(np.count_nonzero(self.taken[1:] <= self.taken[:-1])) if ordered else 0
        disorder = back > max(0, len(self.opened) - 1)
        if not len(missing) and not disorder:
            return "", "", False
        seqs = self._seqs[self.taken]
        took = f"#{seqs[0]:,} to #{seqs[-1]:,}" if len(seqs) else "nothing"
        return took, f"#{self._seqs[missing[0]]:,}" if len(missing) else "", disorder

    def _intervals(self) -> Iterator[tuple[int, int]]:
        taken, opened, end = self.taken, self.opened, len(self._seqs)
        if not opened:
            if len(taken):
                yield int(taken.min()), int(taken.max()) + 1
            return
        bounds = [*opened, end]
        replayed = taken[taken < opened[0]]
        if len(replayed):
            over = bool(((taken >= opened[0]) & (taken < bounds[1])).any()) or (self._whole and len(opened) == 1)
            yield int(replayed.min()), opened[0] if over else int(replayed.max()) + 1
        for number, (low, high) in enumerate(pairwise(bounds), start=1):
            inside = taken[(taken >= low) & (taken < high)]
            if self._whole and number == len(opened):
                yield low, high
            elif len(inside):
                yield low, int(inside.max()) + 1


def _numbers(array: Numbers) -> Sequence[int]:
    return array  # type: ignore[return-value]


def visible(rerun: Rerun, heard: Mapping[str, Sequence[LongIntake]]) -> list[int] | None:
    """As `Reexecution.visible`, of what somebody heard on each channel; None where it took something twice, so that it
    has to be gone through event by event, or knows epochs."""
    if any(stretch.closings for stretch in rerun.stretches):
        return None
    found = []
    for stretch in rerun.stretches:
        last = 0
        for to, emissions in stretch.emitted.items():
            made, *others = coded(
                (emissions.derivations, _numbers(field_of(emissions.events, "seq"))),
                *((derivations, _numbers(seqs)) for seqs, derivations in heard[to]),
            )
            known = np.zeros(len(made), bool)
            for other in others:
                known |= among(made, other[other != NONE])
            if not known.any():
                continue
            upto = int(np.flatnonzero(known)[-1])
            trigger, took = coded([emissions.derivations[upto][:-1]], rerun.took[stretch.begins :])
            if len(np.unique(took)) < len(took):
                return None
            last = max(last, stretch.begins + int(np.flatnonzero(took == trigger[0])[0]) + 1)
        if last:
            found.append(last)
    return found


def is_whole(lineage: Sequence[Derivation], channels: Sequence[Sequence[Derivation]]) -> bool:
    """Whether of each channel a beginning was taken, in its order, and each event of it once."""
    had, *sent = coded(lineage, *channels)
    for order in sent:
        mine = had[among(had, order)]
        if not np.array_equal(mine, order[: len(mine)]):
            return False
    return True
