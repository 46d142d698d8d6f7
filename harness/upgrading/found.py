"""What an upgrade has found so far, and has not looked at, as its record will tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from ..certifying.budget import time_spent
from ..certifying.continuing import versions_here
from ..certifying.recovering import Crashed
from ..certifying.waiting import Group
from ..core.wording import counted
from ..install.machine import find_java
from ..recording.claims_and_faults import SavedClaim
from .again import TouchedAgain
from .beside import wants_aside, with_borrowed
from .outcomes import Switched, Way
from .record import VERSION, SideRecord, UpgradeRecord
from .request import UpgradeRequest, UpgradeSide
from .switching import WentOn

NO_WAY_BACK: Final = f"{Way.ROLLBACK}: all: "


@dataclass(frozen=True)
class TriedState:
    """One state, from which the other version went on."""

    crashed: Crashed
    went: WentOn
    switched: Switched
    mates: tuple[Crashed, ...] = ()
    """All that leave this state, or one that could not be told from it."""


@dataclass
class UpgradeFound:
    """Of one upgrade, by its name."""

    name: str
    not_looked_at: list[str] = field(default_factory=list)
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    tried: dict[Way, list[TriedState]] = field(default_factory=lambda: {way: [] for way in Way})
    same_table: bool | None = None
    """Whether both versions make the same of all input; None: not known."""
    cut_short: str = ""
    """Why it did not come to its end."""
    not_tried: list[str] = field(default_factory=list)
    durations: dict[str, float] = field(default_factory=dict)
    ran: dict[str, dict[str, str]] = field(default_factory=dict)
    """The Spark, the Python and the packages that each version has said it ran on."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """That each has given to the harness's sink."""
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of the session of each."""
    points: dict[Way, int] = field(default_factory=dict)
    """How many were planned."""
    unjudgeable: str = ""
    """Why nothing can be judged."""
    _runs: int = 0

    def next_run(self, kind: str) -> str:
        self._runs += 1
        return f"runs/{kind}-{self._runs:04d}"

    def say_not_tried(self, way: Way, groups: Sequence[Group], why: str) -> None:
        self.not_tried += [f"{way}: {one.crash}: {why}" for group in groups for one in group]

    def say_no_way_back(self, why: str) -> None:
        """Where nobody has come as far as to the states of which each is said."""
        if Way.ROLLBACK not in self.points and not any(said.startswith(NO_WAY_BACK) for said in self.not_tried):
            self.not_tried.append(f"{NO_WAY_BACK}{why}")

    def say_unblamed(self, way: Way, switched: Sequence[Switched], why: str) -> None:
        """Of those for which nobody was tried beside."""
        unsure = sum(1 for one in with_borrowed(switched) if one.aside is None and wants_aside(one))
        if unsure:
            self.not_looked_at.append(
                f"What the {way.before} version comes to from {counted(unsure, 'state')} from which the other "
                f"did not continue, so that nobody is blamed for these: {why}."
            )

    def say_not_started_again(self, way: Way, states: int, why: str) -> None:
        """Of so many, from which nobody was started once more."""
        if states:
            self.not_looked_at.append(
                f"What the {way.goes_on} version comes to when it is started a second time, after it has gone on from "
                f"{counted(states, 'state')}: {why}."
            )

    def timed(self, part: str) -> AbstractContextManager[None]:
        return time_spent(self.durations, part)

    def record(self, request: UpgradeRequest, given: TouchedAgain) -> UpgradeRecord:
        """Of what was asked for, on the input that was given."""
        java = find_java().version

        def side(one: UpgradeSide, which: str) -> SideRecord:
            versions = {**versions_here(java, one.query), **self.ran.get(which, {})}
            columns = self.columns.get(which, ())
            return SideRecord(one.origin, one.query.describe(), versions, self.settings[which], columns)

        old, new, workload = side(request.old, "old"), side(request.new, "new"), given.workload
        return UpgradeRecord(
            version=VERSION,
            name=self.name,
            began=self.began,
            old=old,
            new=new,
            basis=request.basis,
            workload={
                "name": workload.name,
                "events": workload.events,
                "seed": workload.seed,
                "again": given.again,
            },
            batches=len(request.old.query.batches(workload)),
            last_counting=given.last_batch(request.old.query),
            last_changed=given.last_before(request.old.query),
            claims=tuple(map(SavedClaim.of, request.claims)),
            seed=request.seed,
            minutes=request.minutes,
            points=self.points,
            switched=tuple(one.switched for some in self.tried.values() for one in some),
            not_tried=tuple(self.not_tried),
            not_looked_at=tuple(self.not_looked_at),
            unjudgeable=self.unjudgeable,
            same_table=self.same_table,
            cut_short=self.cut_short,
            differ_in=said_differently(old.subject, new.subject),
            durations={part: round(spent, 1) for part, spent in self.durations.items()},
        )


def said_differently(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, ...]:
    """What two queries say differently of themselves, and what one of them alone says."""
    return tuple(sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)))
