"""How guarantees stand to one another: which implies which, by what their oracles say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Standing(Protocol):
    """Where a guarantee stands among the others."""

    @property
    def implies(self) -> tuple[str, ...]:
        """The next weaker ones."""

    @property
    def implied_by(self) -> tuple[str, ...]:
        """The next stronger ones, as far as these do not say so themselves."""

    @property
    def ranked(self) -> bool:
        """Whether it is looked for when the strongest one is asked for that a history is consistent with."""


def implied(name: str, standings: Mapping[str, Standing]) -> frozenset[str]:
    """Every guarantee that `name` implies, itself included."""
    found = {name}
    waiting = [name]
    # Few say who is above them.
    said = [(other, above) for other, standing in standings.items() if (above := standing.implied_by)]
    while waiting:
        one = waiting.pop()
        weaker = standings[one].implies if one in standings else ()
        for other in (*weaker, *(other for other, above in said if one in above)):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return frozenset(found)


def ranked(standings: Mapping[str, Standing]) -> tuple[str, ...]:
    """Those that are looked for, each before all that it implies; else in the order in which they are registered."""
    waiting = [name for name, standing in standings.items() if standing.ranked]
    below = {name: implied(name, standings) - {name} for name in waiting}
    found: list[str] = []
    while waiting:
        # Of a circle, which a test of the registry forbids, the first comes first.
        first = next((one for one in waiting if not any(one in below[other] for other in waiting)), waiting[0])
        waiting.remove(first)
        found.append(first)
    return tuple(found)
