"""The view: what is shown of a run, a search or a certificate, in words, and whether it is good news.

Whoever has the record makes a view of it: `runs.py` of a run, exploration and certifying of theirs. How it looks is
said by what is made of it, such as `screen.py`: nothing here knows of columns, colours or mark-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ..core.verdicts import Status


class Tone(StrEnum):
    """How something is to be taken."""

    PLAIN = "plain"
    GOOD = "good"
    OPEN = "open"
    """Something is not known, or not as it should be."""
    BAD = "bad"


TONES = {Status.HOLDS: Tone.GOOD, Status.VIOLATED: Tone.BAD, Status.UNKNOWN: Tone.OPEN}


@dataclass(frozen=True)
class Fact:
    """Something to know, under a label of a word or two."""

    label: str
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Head:
    """What was tested, and under which circumstances."""

    subject: str
    circumstances: str


@dataclass(frozen=True)
class ShownFinding:
    """Something that a verdict rests on."""

    text: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownVerdict:
    """What became of a claim."""

    claim: str
    status: Status
    tone: Tone
    """As the status, but where a violation was expected."""
    summary: str
    findings: tuple[ShownFinding, ...] = ()
    measured: tuple[str, ...] = ()
    """Amounts beside their bounds."""


@dataclass(frozen=True)
class RunView:
    """A run, with its verdicts."""

    head: Head
    disturbances: tuple[Fact, ...]
    """Every planned fault, with what came of it, and every recovery."""
    verdicts: tuple[ShownVerdict, ...]
    exercised: str
    """What of the subject was at work; empty where the records do not tell."""
    strongest: str
    """The strongest guarantees that the history is consistent with."""
    unchecked: str
    """Why it is not known whether the operators give the same in another process; empty where it is."""
    not_looked_at: str
    """Where the subject's code may remember what a simulated crash does not take; empty where all was seen."""
    folder: Path


@dataclass(frozen=True)
class FoundView:
    """A violation that a search has found, in its smallest form."""

    how: str
    """What is violated by what, when it was found, and what it was shrunk from."""
    schedule: tuple[tuple[str, str], ...]
    """What each fault does, and when."""
    evidence: str
    input: str
    """What suffices."""
    command: str
    """Replays it; empty where it is in no file."""
    unkept: str = ""
    """Why it is in none."""


@dataclass(frozen=True)
class SearchView:
    """A search, with what it has found."""

    found: tuple[FoundView, ...]
    head: Head
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class ReplayView:
    """A counterexample that was run again."""

    head: Head
    faults: tuple[Fact, ...]
    verdict: ShownVerdict
    """On the claim that it was found to violate."""
    compared: str
    """With what was found."""
    folder: Path | None
    """None: in the simulator, where nothing is recorded."""


@dataclass(frozen=True)
class StoryView:
    """How a claim of a certificate is violated."""

    title: str
    sentences: tuple[str, ...]
    command: str
    """Replays it."""


@dataclass(frozen=True)
class CertificateView:
    """What the records of a campaign come to."""

    head: Head
    in_short: str
    """The verdicts, in a line."""
    covered: tuple[str, ...]
    """What was, and in how many parts; a sentence each."""
    not_covered: tuple[str, ...]
    sample: tuple[str, ...]
    """What the random sample says, a sentence for each claim."""
    errors: tuple[str, ...]
    """What crashes left of error, a sentence for each claim that bounds it."""
    verdicts: tuple[ShownVerdict, ...]
    story: StoryView | None
    more: str
    """The command that goes on with the campaign; empty where nothing is left to do."""
    folder: Path
    page: str
    """The name of its page for people in that folder."""


@dataclass(frozen=True)
class RejudgedView:
    """What the records of a certificate come to when they are judged again."""

    certificate: CertificateView
    agreement: str
    """What is as the certificate says."""
    differences: tuple[str, ...]
    """What is not, a sentence each; then the agreement is not shown."""


@dataclass(frozen=True)
class SavedView:
    """A schedule that a campaign has saved and that was run again."""

    faults: tuple[Fact, ...]
    verdicts: tuple[ShownVerdict, ...]
    folder: Path
