"""What stands in the table of subjects: a query, what it claims, and what a certificate of it must say."""

from __future__ import annotations

from dataclasses import dataclass

from ...harness.certifying.plan import Victim
from ...harness.contracts.query import Query
from ...harness.core.addresses import Point, Side
from ...harness.core.guarantees import Guarantee
from ...harness.core.verdicts import Anomaly, Status
from ...harness.core.workload import Workload


@dataclass(frozen=True)
class Shows:
    """A crash that shows what is wrong with a subject. It shows at most batches, not at all: in the first there may be
    nothing to lose yet."""

    victim: Victim
    point: Point
    side: Side

    def __str__(self) -> str:
        return f"{self.victim} killed {self.side} {self.point}"


@dataclass(frozen=True)
class SubjectLine:
    """One line of the table."""

    query: Query
    workload: Workload
    claims: tuple[Guarantee, ...]
    """What it says of itself, rightly or not."""
    expected: Status
    """The verdict on each of its claims: UNKNOWN where runs without failures differ, or it does not come back."""
    anomaly: Anomaly | None = None
    """What is seen of a claim that is violated, or of its not coming back."""
    needs: tuple[Shows, ...] = ()
    """Crashes any of which shows it. There may be more."""
    holds: tuple[Guarantee, ...] = ()
    """What holds all the same."""
    recovers: Status = Status.HOLDS
    """Whether it is back after every crash, as far as nothing else is violated first; UNKNOWN where runs differ."""

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def verdicts(self) -> dict[Guarantee, Status]:
        """What a certificate must say of each guarantee."""
        return {**dict.fromkeys(self.claims, self.expected), **dict.fromkeys(self.holds, Status.HOLDS)}


def shows(victim: Victim, side: Side, *points: Point) -> tuple[Shows, ...]:
    return tuple(Shows(victim, point, side) for point in points)
