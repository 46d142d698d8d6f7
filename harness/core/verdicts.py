"""Verdicts and what supports them: named anomalies, counted, with bounded evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from math import inf
from typing import Final

from .errors import ExitStatus
from .guarantees import Guarantee
from .reasons import Reason, Why

SAMPLE = 10
"""How many pieces of evidence a tally keeps."""
_ROUNDING: Final = 1e-9
"""What is left where floats that are equal are subtracted."""


class Anomaly(StrEnum):
    """A named way to be wrong."""

    LOST_INPUT = "lost-input"
    """An input is missing from the effects that it should have had."""
    DUPLICATE_EFFECT = "duplicate-effect"
    """An input counts more than once."""
    DUPLICATE_OUTPUT = "duplicate-output"
    """An output was delivered again."""
    PHANTOM_OUTPUT = "phantom-output"
    """An output, or a row of state, that no legal execution of what was taken gives."""
    WRONG_VALUE = "wrong-value"
    """A row of the right key with another value than without failures: of a black box it does not show whether an input
    is missing in it or counted twice."""
    REORDERED_OUTPUT = "reordered-output"
    """Outputs of one channel, or effects after a recovery, in another order than before."""
    STATE_ROLLBACK = "state-rollback"
    """A crash took back more than its bound, or something that was visible is not in the state any more."""
    REPLICA_DIVERGENCE = "replica-divergence"
    """Replicas of a slice that took the same do not hold, or do not give, the same."""
    UNFAITHFUL_SNAPSHOT = "unfaithful-snapshot"
    """A checkpoint that does not give back the state that it was taken of."""
    BOUND_EXCEEDED = "bound-exceeded"
    """A stated bound was passed: on time, or on an error."""
    STALL = "stall"
    """The run did not come to its end, or a replica that was to get in sync never did."""
    CRASH_LOOP = "crash-loop"
    """Started again and again, the subject failed at the same place each time, although no fault was in force."""


class Status(StrEnum):
    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Evidence:
    """One instance of an anomaly: which input or output, where, when, after which fault."""

    what: str
    where: str
    at: tuple[int, ...] = ()
    """Microseconds since the run began, one for each time that it was seen."""
    fault: int | None = None
    """The place in the schedule of the last fault that struck before, if any."""


@dataclass(frozen=True)
class Tally:
    """How often an anomaly was seen, with a bounded sample."""

    anomaly: str
    """An `Anomaly`, or one of a user's own."""
    count: int
    sample: tuple[Evidence, ...]
    of: str = field(default="", compare=False)
    """What tells it from others of the same anomaly, in words: "from final states", say. Nothing is judged by it."""

    def __str__(self) -> str:
        return f"{self.anomaly} x {self.count:,}"


@lru_cache(typed=True)
def none_of(anomaly: str) -> Tally:
    """It was looked for, and not found."""
    return Tally(anomaly, 0, ())


def tally(anomaly: str, count: int, evidence: Iterable[Evidence], of: str = "") -> Tally:
    """Takes no more of `evidence` than it keeps."""
    if not count:
        return none_of(anomaly)
    sample = []
    for piece in evidence:
        sample.append(piece)
        if len(sample) == SAMPLE:
            break
    return Tally(anomaly, count, tuple(sample), of)


@dataclass(frozen=True)
class Measured:
    """An amount of a run beside the bound that is stated for it."""

    what: str
    where: str
    failures: int
    """Of that part of the subject, by then."""
    amount: float
    allowed: float
    excused: float = 0.0
    """Of both, what other losses account for, each of which is measured and bounded by itself."""

    @property
    def ratio(self) -> float:
        """How much of the bound was used, without what is excused: that is as large as whatever it excuses. An amount
        where nothing is allowed is infinitely much."""
        used, bound = self.amount - self.excused, self.allowed - self.excused
        if used <= _ROUNDING * max(1.0, self.amount):
            return 0.0
        return used / bound if bound > 0 else inf

    def __str__(self) -> str:
        excused = f", {self.excused:,.6g} of both by other losses" if self.excused else ""
        return f"{self.what} {self.amount:,.6g} of {self.allowed:,.6g} allowed ({self.where}){excused}"


@dataclass(frozen=True)
class Verdict:
    """What an oracle says of one guarantee."""

    guarantee: Guarantee
    status: Status
    observables: tuple[str, ...]
    """What was judged: outputs, state, progress."""
    summary: str
    anomalies: tuple[Tally, ...] = ()
    unknown: Reason | None = None
    """Why it is UNKNOWN."""
    measured: tuple[Measured, ...] = ()
    """What was measured, beside its bound."""

    @property
    def reason(self) -> str:
        """Why it is UNKNOWN, as a sentence; empty where it is not."""
        return "" if self.unknown is None else str(self.unknown)

    @property
    def why(self) -> Why | None:
        """Which kind of reason leaves it UNKNOWN."""
        return None if self.unknown is None else self.unknown.why

    @property
    def own_failure(self) -> bool:
        """Whether it is UNKNOWN since streamproof contradicts itself, or an oracle of its own has failed."""
        return self.failed is ExitStatus.OWN_FAILURE

    @property
    def failed(self) -> ExitStatus | None:
        """With which status a command ends that finds nothing violated, where this is UNKNOWN since whoever was to
        judge it has failed: streamproof, or an oracle of a user's. None: nobody has."""
        if self.why is Why.CONTRADICTION:
            return ExitStatus.OWN_FAILURE
        if self.unknown is None or self.why is not Why.ORACLE_FAILED:
            return None
        return ExitStatus.USER_MISTAKE if self.unknown.of_users else ExitStatus.OWN_FAILURE


def unknown(guarantee: Guarantee, observables: tuple[str, ...], reason: Reason) -> Verdict:
    return Verdict(guarantee, Status.UNKNOWN, observables, "", unknown=reason)
