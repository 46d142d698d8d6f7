"""What a batch does, by names that are the same in every batch that does the same in the same order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_NUMBER: Final = re.compile(r"\d+")


def by_rank(names: Iterable[str]) -> Mapping[str, str]:
    """Of the names that one batch uses, what each is called whatever the batch's number is, and whatever is counted in
    names: `sink/N (1st)` for `sink/3`.

    Where names differ by their numbers alone (`a1`, `a2`), they keep their order, so that who writes the second before
    the first is told from who does not.
    """
    known: dict[str, set[tuple[int, ...]]] = {}
    for name in (names := list(names)):
        known.setdefault(_NUMBER.sub("N", name), set()).add(_numbers(name))
    ranks = {plain: {numbers: rank for rank, numbers in enumerate(sorted(some))} for plain, some in known.items()}
    return {name: f"{(plain := _NUMBER.sub('N', name))} ({ranks[plain][_numbers(name)]})" for name in names}


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(name)))
