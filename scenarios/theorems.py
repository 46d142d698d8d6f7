"""The two theorems of AF-Stream's appendix, as statistical oracles over many runs.

Each says how likely something is, so no single run can refute it, nor any number of them prove it. A test has its size
fixed beforehand: of how many independent runs, and at which level. A theorem that holds is refuted by mistake in at
most that share of such tests, since the tail of the binomial distribution is exact; a claim that something never
happens is refuted by the first time that it does.

What is counted has to be one independent thing a run: of one run with many flows, those that are told by mistake are
told together, by the same hashes. So one flow a run is chosen, by a seed and before anything of the run is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random

from ..harness.core.errors import InvalidScenario
from .accuracy import Hitters, JoinEstimate

LEVEL = 1e-3
"""So often a test refutes what is true, at most."""


@dataclass(frozen=True)
class Tested:
    """What so many runs say of a claim that something happens in no more than a share of them."""

    what: str
    happened: int
    runs: int
    share: float
    """The claim."""
    p_value: float
    """How likely it is to happen so often or more often where the claim is just true."""
    level: float = LEVEL

    @property
    def refuted(self) -> bool:
        return self.p_value < self.level

    @property
    def told(self) -> str:
        verdict = "refuted" if self.refuted else "not refuted"
        return (
            f"{self.what} in {self.happened:,} of {self.runs:,} runs, at most {self.share:.1%} claimed: {verdict} "
            f"(p = {self.p_value:.2g}; what is true is refuted in {self.level:.2g} of such tests at most)"
        )


def at_most(what: str, happened: Sequence[bool], share: float, level: float = LEVEL) -> Tested:
    """An exact binomial test. Raises InvalidScenario where there is nothing to be tested."""
    if not happened:
        raise InvalidScenario(f"no run says anything of this: {what}")
    # It takes a second to import.
    from scipy.stats import binomtest

    count, runs = sum(happened), len(happened)
    if share == 0:
        return Tested(what, count, runs, share, 0.0 if count else 1.0, level)
    return Tested(what, count, runs, share, float(binomtest(count, runs, share, "greater").pvalue), level)


def runs_needed(share: float, wrong: float, power: float = 0.95, level: float = LEVEL) -> int:
    """How many runs it takes so that a test refutes a claimed share, where it is really `wrong`, in this share of the
    cases. Raises InvalidScenario where there is nothing to be told apart."""
    if not 0 < share < wrong <= 1:
        raise InvalidScenario(f"a share of {wrong!r} does not refute one of at most {share!r}")
    from scipy.stats import binom

    runs = 8
    while binom.sf(binom.isf(level, runs, share), runs, wrong) < power:
        runs += max(1, runs // 16)
    return runs


# Theorem 1


@dataclass(frozen=True)
class HitterRun:
    """What one window of one run says of theorem 1."""

    missed: int
    """Heavy hitters that were not told."""
    phantom: bool | None
    """Whether the flow that was chosen beforehand, which is light enough, was told as heavy; None: no flow is so
    light."""


def hitter_run(window: Hitters, heavy: int, width: int, lost: float, seed: int) -> HitterRun:
    """`lost`: Theta + alpha L, what a failure may cost a counter."""
    spread = sum(window.bytes.values()) / width
    light = sorted(flow for flow, size in window.bytes.items() if size < heavy - spread - lost)
    chosen = Random(seed).choice(light) if light else None
    phantom = None if chosen is None else chosen in (window.told or {})
    return HitterRun(len(window.missed(heavy)), phantom)


def theorem_1_misses(runs: Iterable[HitterRun], level: float = LEVEL) -> Tested:
    """With compensation, no heavy hitter is missed."""
    return at_most("a heavy hitter was missed", [run.missed > 0 for run in runs], 0.0, level)


def theorem_1_phantoms(runs: Iterable[HitterRun], rows: int, level: float = LEVEL) -> Tested:
    """After one failure a flow with less than (1 - epsilon) phi - Theta - alpha L bytes is told with a probability of
    2^-rows at most, where the sketch has U / (epsilon phi) counters a row (so epsilon phi is U / width). Of runs with
    one failure at most; those without a flow so light do not count."""
    phantoms = [run.phantom for run in runs if run.phantom is not None]
    return at_most("a light flow was told as heavy", phantoms, 0.5**rows, level)


# Theorem 2


def misses_interval(join: JoinEstimate, estimate: float, rate: float, sampled: int, lost: int, delta: float) -> bool:
    """Whether an estimate is further from the truth than theorem 2 says: z / sqrt(n - lost), where n events are sampled
    and `lost` is Theta + Gamma + L beta.

    The paper leaves z to lemma 2. Here it is that of Chebyshev's inequality, which holds for any distribution:
    without a failure the estimate is within sigma / sqrt(delta) of the truth with a probability of 1 - delta, so z
    is that times sqrt(n), with the sigma of this input. Raises InvalidScenario where more may be lost than is
    sampled."""
    if lost >= sampled:
        nothing = f"{lost:,} of {sampled:,} sampled events may be lost, so theorem 2 says nothing; sample more"
        raise InvalidScenario(nothing)
    allowed = sqrt(join.variance(rate) / delta * sampled / (sampled - lost))
    return abs(estimate - join.pairs) > allowed


def theorem_2(missed: Sequence[bool], delta: float, level: float = LEVEL) -> Tested:
    """The interval misses the truth in a share of `delta` of the runs at most."""
    return at_most("the truth was outside of the interval", missed, delta, level)
