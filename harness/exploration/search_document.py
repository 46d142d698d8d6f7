"""What `explore --json` prints, as far as a page is made of it, and how it is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from ..core.errors import ExitStatus, InvalidDocument, UnknownDocumentVersion
from ..core.verdicts import Status
from ..core.wording import counted
from .course import CoursePoint

FORMAT: Final = "streamproof explore"
VERSION: Final = 1
_Count = Annotated[int, msgspec.Meta(ge=0)]


class SaidHead(msgspec.Struct, frozen=True):
    """What was searched, and in which world."""

    subject: str
    circumstances: str


class SaidFact(msgspec.Struct, frozen=True):
    """A line of the screen."""

    label: str
    text: str
    tone: str


class CountedAddresses(msgspec.Struct, frozen=True):
    """Where faults have struck."""

    exist: _Count
    struck: _Count
    beyond: _Count


class RandomSample(msgspec.Struct, frozen=True):
    """Of the schedules that were drawn, those whose faults bit within what is claimed."""

    held: _Count
    violated: _Count
    unknown: _Count
    at_most: float | None
    confidence: float


class ViolatedKind(msgspec.Struct, frozen=True):
    """A way in which a claim was broken, and how often."""

    guarantee: str
    anomaly: str
    schedules: _Count


class SearchDocument(msgspec.Struct, frozen=True):
    """Of the document, what is drawn."""

    version: int
    head: SaidHead
    said: tuple[SaidFact, ...]
    course: tuple[CoursePoint, ...]
    drawn: str | None
    """How schedules were drawn at random. None: none was, or none that a bound could count."""
    scenario: str
    origin: str
    seed: int
    schedules: _Count
    seconds: float
    claims: tuple[str, ...]
    verdicts: dict[Status, _Count]
    violated: tuple[ViolatedKind, ...]
    exercised: dict[str, _Count]
    untried: tuple[str, ...]
    addresses: CountedAddresses
    random: RandomSample
    counterexamples: tuple[dict[str, Any], ...]
    exit_status: ExitStatus | None
    goes_on: bool = False
    """Whether the search had not ended when this was said."""

    def __post_init__(self) -> None:
        if why := self._contradiction():
            raise ValueError(why)

    def _contradiction(self) -> str:
        """What it says twice, and not the same. The page begins with the second, and whoever has altered it may have
        left the first."""
        judged, violated = sum(self.verdicts.values()), self.verdicts.get(Status.VIOLATED, 0)
        found = sum(one.schedules for one in self.violated)
        if judged != self.schedules:
            return f"it has {counted(judged, 'verdict')} on {counted(self.schedules, 'schedule')}"
        if found != violated:
            return f"{violated:,} of its verdicts are VIOLATED, and its kinds of violation count {found:,}"
        if self.counterexamples and not violated:
            return "it has a counterexample, and no schedule that violates"
        if (self.exit_status is ExitStatus.VIOLATED) != bool(violated):
            return f"its exit status is {self._status}, and {violated:,} of its verdicts are VIOLATED"
        if self.exit_status is not ExitStatus.HOLDS:
            return ""
        if self.goes_on:
            return f"its exit status is {self._status}, and it goes on"
        if self.untried:
            return f"its exit status is {self._status}, and it names what was hardly tried: {', '.join(self.untried)}"
        if not self.verdicts.get(Status.HOLDS, 0):
            return f"its exit status is {self._status}, and none of its verdicts is HOLDS"
        return ""

    @property
    def _status(self) -> str:
        return "none" if self.exit_status is None else str(int(self.exit_status))


def search_document(file: Path, found: Any) -> SearchDocument:
    """Raises UnknownDocumentVersion, and InvalidDocument for what is damaged."""
    version = found.get("version")
    if version != VERSION:
        raise UnknownDocumentVersion(
            f"{file} was printed by another `explore --json`: it has version {version!r}, and this streamproof reads "
            f"version {VERSION}; search again"
        )
    try:
        return msgspec.convert(found, SearchDocument)
    except msgspec.ValidationError as error:
        raise InvalidDocument(f"{file} is damaged, or was altered: {error}; search again") from error
