"""What a random sample of real kills says of all such kills: exact Clopper-Pearson bounds.

C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
Biometrika 26 (1934). A bound is sound only where every draw is independent of the others and of what came of them. So
the sample's size is fixed before it is drawn, it is drawn from a stated population with equal chances and with
replacement, and a sample that was not finished gives none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

CONFIDENCE: Final = 0.95

T = TypeVar("T")


def draw_sample(population: Sequence[T], size: int, seed: int) -> tuple[T, ...]:
    """`size` independent draws with equal chances, with replacement; the same for the same seed, on any machine.

    Nothing is drawn from an empty population.
    """
    # `random` is the one method whose sequence Python promises to keep.
    chance = random.Random(seed).random
    return tuple(population[int(chance() * len(population))] for _ in range(size if population else 0))


def upper_bound(violations: int, draws: int, confidence: float = CONFIDENCE) -> float:
    """The one-sided Clopper-Pearson bound: with this confidence, no greater share of the population violates.

    Raises ValueError unless 0 <= violations <= draws and there was a draw.
    """
    _check(violations, draws)
    if violations == draws:
        return 1.0
    if not violations:
        return float(1 - (1 - confidence) ** (1 / draws))
    return _quantile(confidence, violations + 1, draws - violations)


def lower_bound(violations: int, draws: int, confidence: float = CONFIDENCE) -> float:
    """The one-sided Clopper-Pearson bound from below: with this confidence, no smaller share violates.

    Raises ValueError unless 0 <= violations <= draws and there was a draw.
    """
    _check(violations, draws)
    if not violations:
        return 0.0
    return _quantile(1 - confidence, violations, draws - violations + 1)


def _quantile(share: float, a: int, b: int) -> float:
    """Of the beta distribution."""
    # What needs scipy is the end of a campaign. `scipy.stats`, which has the distribution, takes a second to import.
    from scipy.special import betaincinv

    return float(betaincinv(a, b, share))


def _check(violations: int, draws: int) -> None:
    if not 0 <= violations <= draws or not draws:
        raise ValueError(f"{violations} violations in {draws} draws cannot be")


class KillSample(msgspec.Struct, frozen=True):
    """A random sample of real kills, as it was fixed before the first of them."""

    population: str
    """What it was drawn from, in words: `all 60 planned crashes of the driver`."""
    places: tuple[int, ...]
    """The population: the places of its crashes in the plan."""
    size: int
    seed: int
    drawn: tuple[int, ...]
    """The places in the plan of what was drawn, in order, with replacement."""

    @classmethod
    def of(cls, population: str, places: Sequence[int], size: int, seed: int) -> KillSample:
        return cls(population, tuple(places), size, seed, draw_sample(tuple(places), size, seed))


class Bound(msgspec.Struct, frozen=True):
    """What the sample says of one claim."""

    claim: str
    finished: int
    """How many of the draws have their trial."""
    violations: int
    unknown: int
    """How many trials came to no verdict."""
    upper: float | None
    """The share of such kills that violate is at most this, with 95 % confidence, each trial without a verdict counted
    as a violation. None: the sample was not finished, so it bounds nothing."""
    lower: float | None
    """It is at least this, with 95 % confidence, each trial without a verdict counted as none, and those of one run
    that violate as one: of the kills that share it, any may be innocent."""
    why_none: str = ""
    """Why there is no bound."""
