"""What can become of an upgrade: the words, and the record of one state from which the other version went on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from ..certifying.plan import Crash
from ..core.errors import ExitStatus
from ..core.verdicts import Status


class UpgradeOutcome(StrEnum):
    """What became of it, from one state."""

    CONTINUES = "continues"
    """It came to the end of its input, and its table is the one that is asked for."""
    REFUSED = "refused"
    """It failed at each start, before the sink was given anything and before anything was committed."""
    WRONG = "silently wrong"
    """It came to the end of its input without an error, and its table is another one."""
    CRASH_LOOP = "crash loop"
    """It failed at each start after it had done something, or did not come to an end."""
    UNKNOWN = "unknown"
    """It could not be judged."""


class Basis(StrEnum):
    """What the new version must come to."""

    ALL = "all"
    """The table that it makes of all input, as if it had run from the beginning."""
    SINCE = "since"
    """What it makes of the input since the change, as if it had begun there."""


class Way(StrEnum):
    """Which version goes on from what the other has left."""

    UPGRADE = "upgrade"
    ROLLBACK = "rollback"
    """The old version goes on from where the new one was, which went on from the old one."""

    @property
    def goes_on(self) -> str:
        """The version that goes on."""
        return "new" if self is Way.UPGRADE else "old"

    @property
    def before(self) -> str:
        """The version before it."""
        return "old" if self is Way.UPGRADE else "new"


class Aside(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the version before comes to where the one after it has not continued: from what that has left, or without
    it."""

    folder: str
    """The run: `runs/<name>`."""
    since: int
    """The first incarnation of the version before, where it goes on."""
    outcome: UpgradeOutcome
    why: str = ""
    after: bool = False
    """Whether it went on from what the other had left; else from the same crash, as if nobody had changed anything."""
    changed: tuple[str, ...] = ()
    """What it has changed in the folders, by path, where it has failed."""
    like: bool = False
    """Whether this was tried of another state than this one, from which the same came about."""
    without: Aside | None = None
    """Where it has not continued after the other: what it comes to without that."""

    @property
    def continues(self) -> bool:
        return self.outcome is UpgradeOutcome.CONTINUES

    @property
    def fails(self) -> bool:
        """Whether that is known of it."""
        return not self.continues and self.outcome is not UpgradeOutcome.UNKNOWN


class Switched(msgspec.Struct, frozen=True, omit_defaults=True):
    """One state, from which the other version went on, and what became of it."""

    way: Way
    crashes: tuple[Crash, ...]
    """All that leave this state, or one that could not be told from it."""
    folder: str
    """The run: `runs/<name>`."""
    since: int
    """The first incarnation of the version that went on."""
    outcome: UpgradeOutcome
    why: str = ""
    """The error, how its table differs, or the reason why it is unknown."""
    committed: int = -1
    """The last batch that was committed by then; -1: none, and it began anew."""
    rows: tuple[str, ...] = ()
    """Rows that differ, a few."""
    changed: tuple[str, ...] = ()
    """What one that failed has changed in the folders, by path."""
    notes: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Settings of the version that went on that were not in force, since the checkpoint holds others."""
    aside: Aside | None = None
    early: bool = False
    """Whether the input ended before anything of it came again, here and for those beside: there, what was lost of the
    state is not made good by what comes again."""
    again: bool = False
    """Whether it was started once more, and those beside, too: after a part of the input, at whose end each had ended
    in order."""
    state_left: bool = False
    """Whether the version before had left state of its operators."""
    own: bool = False
    """Whether the version before had gone on itself, and had committed nothing since: what is there is of the one that
    went on."""

    @property
    def takes_over(self) -> bool:
        """Whether it continues from what the version before had committed."""
        return self.outcome is UpgradeOutcome.CONTINUES and self.committed >= 0 and not self.own

    @property
    def once_more(self) -> bool:
        """Whether it was tried in another way, from a state that was tried before."""
        return self.early or self.again

    @property
    def clean(self) -> bool:
        """Of one that was refused: whether it left everything as it was."""
        return not self.changed

    @property
    def status(self) -> Status:
        """What it comes to for a claim. Somebody is to blame only where the version before continues from the same
        state. One that was refused violates nothing, as long as that one continues from what is left, too."""
        if self.outcome is UpgradeOutcome.CONTINUES:
            return Status.HOLDS
        beside = self.aside
        if beside is not None and self.outcome is UpgradeOutcome.REFUSED:
            beside = beside.without if beside.after and beside.fails else None
        blamed = self.outcome is not UpgradeOutcome.UNKNOWN and beside is not None and beside.continues
        return Status.VIOLATED if blamed else Status.UNKNOWN


def exit_status_of(switched: Iterable[Switched], unjudgeable: str, tried_on_state: bool) -> ExitStatus:
    """1 where the version that went on was silently wrong, fell into a crash loop, or broke what the other goes on
    from, and is to blame for that; 2 where it was refused, or something is not known; 0 where it continues from each
    state. `tried_on_state`: whether one of these, each way, had a batch that the version before had committed."""
    found = {one.status for one in switched}
    if Status.VIOLATED in found:
        return ExitStatus.VIOLATED
    if unjudgeable or found != {Status.HOLDS} or not tried_on_state:
        return ExitStatus.UNKNOWN
    return ExitStatus.HOLDS


_NUMBER: Final = re.compile(r"\d+|[0-9a-f]{8}-[0-9a-f-]{27}")


def without_numbers(text: str) -> str:
    """What is the same where no more than numbers and ids differ."""
    return _NUMBER.sub("N", text)
