"""What a campaign's trials come to: the verdict on each claim, and how much of the plan stands behind it.

A pure function of the plan and the trials, so that whoever has the records comes to the same.

- VIOLATED needs a kill or a split brain that shows it. What only a crash state shows is UNKNOWN, with its story.
- HOLDS says: for each crash that was planned, at least one trial passed, and none failed. A crash that was not reached,
  not tried, or came to no verdict makes the claim UNKNOWN, whatever else passed.
- Where the subject's own runs without failures disagree, nothing is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ..errors import ExitStatus
from ..judging.verdicts import Status
from .plan import Crash, How, Trial, Victim
from .statistics import Bound, Draw, lower_bound, upper_bound

TOO_SMALL: Final = "the budget is too small to say anything: no crash was tried"
NOTHING_PLANNED: Final = "no crash was planned, so nothing was tried"


class Planned(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the plan."""

    crash: Crash
    split_brain: bool = False
    """Whether the driver is paused there, to wake up beside a second one, and not killed."""

    def __str__(self) -> str:
        if not self.split_brain:
            return str(self.crash)
        return f"split brain: {str(self.crash).replace(' dies ', ' is paused ', 1)}"


class NotReached(msgspec.Struct, frozen=True):
    """A line of the plan that could not be carried out, although it was tried."""

    planned: Planned
    why: str


class Covered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done about one line of the plan."""

    planned: Planned
    states: int = 0
    """Crash states that were recovered from."""
    kills: int = 0
    """Real kills, or split brains."""
    verdicts: dict[str, dict[Status, int]] = {}
    """Claim -> verdict -> how many trials came to it."""
    not_reached: str = ""
    """Why it was not, if so."""


class ClaimVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the certificate says of a claim."""

    claim: str
    status: Status
    summary: str
    """What it covers, or what was seen."""
    reasons: tuple[str, ...] = ()
    """Why it is UNKNOWN, the heaviest first."""
    covered: int = 0
    """Lines of the plan of which at least one trial passed, and none failed."""
    planned: int = 0
    violated: int = 0
    """Of the repeats of the schedule that shows a violation, how many showed it."""
    repeats: int = 0
    shown_by: str = ""
    """The run folder that shows the violation, or what only a crash state shows."""


class Conclusion(msgspec.Struct, frozen=True):
    verdicts: tuple[ClaimVerdict, ...]
    coverage: tuple[Covered, ...]
    bounds: tuple[Bound, ...]

    @property
    def exit_status(self) -> ExitStatus:
        return exit_status(self.verdicts)


def exit_status(verdicts: Sequence[ClaimVerdict]) -> ExitStatus:
    """VIOLATED outranks UNKNOWN, which outranks HOLDS. Nothing claimed is nothing known."""
    statuses = {verdict.status for verdict in verdicts}
    if Status.VIOLATED in statuses:
        return ExitStatus.VIOLATED
    return ExitStatus.HOLDS if statuses == {Status.HOLDS} else ExitStatus.UNKNOWN
