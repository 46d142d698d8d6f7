"""What `explore --json` prints, as far as a page is made of it, and how it is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from ..core.errors import InvalidDocument, UnknownDocumentVersion
from .course import CoursePoint

FORMAT: Final = "streamproof explore"
VERSION: Final = 1


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

    exist: int
    struck: int
    beyond: int


class RandomSample(msgspec.Struct, frozen=True):
    """Of the schedules that were drawn, those whose faults bit within what is claimed."""

    held: int
    violated: int
    unknown: int
    at_most: float | None
    confidence: float


class ViolatedKind(msgspec.Struct, frozen=True):
    """A way in which a claim was broken, and how often."""

    guarantee: str
    anomaly: str
    schedules: int


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
    schedules: int
    seconds: float
    claims: tuple[str, ...]
    verdicts: dict[str, int]
    violated: tuple[ViolatedKind, ...]
    exercised: dict[str, int]
    untried: tuple[str, ...]
    addresses: CountedAddresses
    random: RandomSample
    counterexamples: tuple[dict[str, Any], ...]
    exit_status: int | None
    goes_on: bool = False
    """Whether the search had not ended when this was said."""


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
