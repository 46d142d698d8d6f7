"""The certificate: a folder that says what a campaign of runs comes to, and holds what it says it by.

```
certificate.json   all of it, for programs: `Certificate`
certificate.html   the page for people
certificate.md     the same in short, for where no browser is
runs/<name>/       the run folders
```

`certificate.json` lists every other file with its SHA-256, and seals itself: `seal` is the SHA-256 of the file as it is
with 64 zeros in the place of the seal. So a changed byte anywhere is noticed, and so is a file that is gone or was
added. That guards against accidents and careless edits; who writes a whole folder anew can seal it anew, and is found
out only by judging the runs again (see `harness.certifying.rejudging`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from ..core.errors import AlteredCertificate, ExitStatus, InvalidCertificate, StorageFailed, UnknownCertificateVersion
from ..core.guarantees import Guarantee
from ..judging.statistics import Bound, KillSample
from ..recording.claims_and_faults import SavedClaim
from ..recording.described import check_described
from .conclusion import ClaimVerdict, Conclusion, Covered, NotReached, Planned, Uncut, conclude, exit_status
from .page import more_said, page
from .plan import Crash, CrashTrial, How, Victim

VERSION: Final = 2
FILE: Final = "certificate.json"
PAGE: Final = "certificate.md"
LOOK: Final = "certificate.html"
"""Drawn by who writes the certificate (see `drawing`), before it is sealed."""
JOURNAL: Final = "campaign.jsonl"
"""In the folder of a campaign that is under way, or was interrupted. No certificate has one."""
WITHOUT_FAILURES: Final = "runs/without-failures"
"""How folders of runs are called that are no trials: those without failures, one for each part of a campaign."""
_UNSEALED: Final = "0" * 64


class QueryCounterexample(msgspec.Struct, frozen=True):
    """The smallest schedule that was found to violate a claim by real kills, and its story."""

    claim: str
    crashes: tuple[Crash, ...]
    """The schedule."""
    how: How
    events: int
    """Of the input that suffices; 0: it comes from a source of the query's own."""
    batch_events: int
    """Of them, how many make a batch."""
    anomaly: str
    """The first in which the violation shows."""
    wrong: str
    """The first wrong output, or row of the table, and what it should be."""
    input: str
    """The input that made it; empty where that is not known."""
    batch: int | None
    """Of the wrong output, where it has one."""
    folder: str
    """The run that shows it: `runs/<name>`."""
    violated: int
    """Of the repeats of this schedule, how many showed the violation."""
    repeats: int
    command: str
    """Replays it."""
    crashes_before: int
    """How many crashes the schedule had before it was shrunk."""
    events_before: int
    """How many events the input had before it was shrunk."""
    violated_before: int = 0
    """Of the repeats before it was shrunk, how many showed the violation."""
    repeats_before: int = 0


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a campaign was asked for, as far as nothing else of a certificate says it: who goes on with it asks the
    same."""

    named: tuple[str, ...]
    """The guarantees that somebody has claimed; more is judged."""
    victims: tuple[Victim, ...]
    recovering: bool
    split_brain: bool
    origin: str = ""
    """`module:attribute` of the query; empty where it exists in one process only."""
    fed_from: str = ""
    """The same, of its workload; empty where that is what it is fed anyway."""
    code: dict[str, str] = {}
    """The user's modules, each with the SHA-256 of its file."""


class CampaignPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part of a campaign that was continued, or could be."""

    began: str
    """UTC, ISO 8601."""
    versions: dict[str, str]
    machine: dict[str, Any]
    budget: dict[str, Any]
    known: int = 0
    """How many trials there were before it."""
    interrupted: bool = False
    """Whether it came to no end of its own."""
    left_out: tuple[str, ...] = ()
    """Where it was interrupted, the schedules of the runs that were under way, which count for nothing."""


class More(msgspec.Struct, frozen=True, omit_defaults=True):
    """What more time would buy."""

    untried: int
    """Planned crashes that nothing was tried of."""
    planned: int
    sample: int
    """Kills of the random sample that are left."""
    minutes: int
    """About so many more would do."""
    command: str
    """Goes on; empty where only a program has the query."""
    for_verdicts: int = 0
    """About so many would do for what nothing else stands for, so that verdicts rest on it; 0: no fewer."""


class Certificate(msgspec.Struct, frozen=True):
    """`certificate.json`."""

    version: int
    """Of the format: `VERSION`."""
    seal: str
    """SHA-256 of the file with 64 zeros in this place; filled in when it is written."""
    name: str
    """Of the campaign."""
    began: str
    """UTC, ISO 8601."""
    subject: dict[str, Any]
    """What the query says of itself, with its code's hash; as in `scenario.json` of its runs."""
    workload: dict[str, Any]
    """As in `scenario.json`: name, events, seed."""
    claims: tuple[SavedClaim, ...]
    """What was claimed."""
    seed: int
    """What the campaign and its sample were drawn from."""
    cluster: dict[str, Any]
    """Where it ran; as in `scenario.json`."""
    settings: dict[str, str]
    """Spark's configuration, without the values of secrets."""
    versions: dict[str, str]
    """Of streamproof, PySpark, Python, Java and the agent, as far as they were there."""
    machine: dict[str, Any]
    """System, cores and byte order."""
    budget: dict[str, Any]
    """What was allowed: runs, minutes, kills of the sample."""
    exhausted: str
    """Which part of the budget ended the campaign before its plan; empty when none did."""
    not_covered: tuple[str, ...]
    """What no crash of the plan stands for, one sentence each: the loss of unsynced files, crash points that this
    machine has no agent for, ..."""
    batches: dict[str, int]
    """Kind of batch -> how many batches of the run without faults were of that kind."""
    plan: tuple[Planned, ...]
    """Every crash that was planned, in the plan's order."""
    not_reached: tuple[NotReached, ...]
    """Lines of the plan that could not be carried out."""
    trials: tuple[CrashTrial, ...]
    """Every one, in order, with the repeats that confirm and the trials that shrink left out of the sample."""
    unjudgeable: str
    """Why nothing can be judged, with the rows where runs without failures disagree; empty when they agree."""
    draw: KillSample | None
    """The random sample, as it was fixed before its first kill; None: there was none."""
    verdicts: tuple[ClaimVerdict, ...]
    """On each claim, in the order of the claims. Follows from the plan, the trials and the sample, as do the next
    two."""
    coverage: tuple[Covered, ...]
    """What was done about each line of the plan."""
    bounds: tuple[Bound, ...]
    """What the sample says of each claim."""
    counterexample: QueryCounterexample | None
    """Of the first claim that is violated."""
    durations: dict[str, float]
    """Seconds, by part of the campaign; `total` is all of it."""
    figures: dict[str, float]
    """What else was measured, by a name that says the unit: `crash states a minute`."""
    files: dict[str, str]
    """Every other file of the folder -> its SHA-256; filled in when it is written."""
    uncut: tuple[Uncut, ...] = ()
    """What the user's code does where nothing can be held or copied."""
    asked: Asked | None = None
    """What it takes to go on with the campaign. None: it was written by a streamproof that could not."""
    parts: tuple[CampaignPart, ...] = ()
    """Of the campaign, in order: one, unless it was continued."""
    more: More | None = None
    """None: nothing is left that more time would buy."""
    never_run: tuple[str, ...] = ()
    """Lines of the user's functions that no attempt that was watched has executed, and no crash was planned at, by
    function: `sinks.write 31-33, 40`."""

    def __post_init__(self) -> None:
        check_described(self.workload, self.cluster)

    @property
    def exit_status(self) -> ExitStatus:
        return exit_status(self.verdicts)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return tuple(claim.as_guarantee() for claim in self.claims)


def concluded(certificate: Certificate) -> Conclusion:
    """What follows from a certificate's plan, trials and sample, whatever it says itself."""
    return conclude(
        certificate.guarantees,
        certificate.plan,
        certificate.trials,
        certificate.not_reached,
        unjudgeable=certificate.unjudgeable,
        exhausted=certificate.exhausted,
        draw=certificate.draw,
        uncut=certificate.uncut,
        more="" if certificate.more is None else more_said(certificate.more),
    )


def with_conclusion(certificate: Certificate) -> Certificate:
    """The same, with what follows filled in."""
    found = concluded(certificate)
    return msgspec.structs.replace(certificate, verdicts=found.verdicts, coverage=found.coverage, bounds=found.bounds)


def write_certificate(folder: Path, certificate: Certificate) -> Certificate:
    """Write the page, then `certificate.json` with the hash of every file that is in the folder by then. Nothing in it
    may change afterwards. Returns what was written. Raises StorageFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PAGE).write_text(page(certificate), encoding="utf-8")
        files = {name: _digest(folder / name) for name in _names(folder)}
        unsealed = msgspec.structs.replace(certificate, version=VERSION, seal=_UNSEALED, files=files)
        content = msgspec.json.format(msgspec.json.encode(unsealed), indent=2) + b"\n"
        seal = hashlib.sha256(content).hexdigest()
        draft = folder / f"{FILE}.draft"
        draft.write_bytes(content.replace(_UNSEALED.encode(), seal.encode(), 1))
        draft.replace(folder / FILE)
    except OSError as error:
        raise StorageFailed(f"cannot write the certificate in {folder}: {error.strerror or error}") from error
    return msgspec.structs.replace(unsealed, seal=seal)


def is_certificate(folder: Path) -> bool:
    """Whether somebody meant it to be one, be it damaged, or not finished."""
    return any((folder / name).exists() for name in (FILE, PAGE, JOURNAL))


def read_certificate(folder: Path) -> Certificate:
    """What `certificate.json` says, its own seal verified; `altered_files` compares the others.

    Raises InvalidCertificate for what is none or cannot be read, UnknownCertificateVersion for another version,
    AlteredCertificate where a byte of it was changed.
    """
    file = folder / FILE
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InvalidCertificate(f"{folder} holds no certificate: {FILE} cannot be read ({error.strerror})") from error
    try:
        found = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidCertificate(f"{file} is damaged: {error}; get it again from where it came from") from error
    version = found.get("version") if isinstance(found, dict) else None
    if version != VERSION:
        raise UnknownCertificateVersion(f"{file} has version {version!r}; this streamproof reads version {VERSION}")
    seal = found.get("seal")
    if not isinstance(seal, str) or len(seal) != len(_UNSEALED):
        raise AlteredCertificate(f"{file} was altered: its seal is {seal!r}; get it again from where it came from")
    # The seal stands before everything else that could have the same text.
    if hashlib.sha256(content.replace(seal.encode(), _UNSEALED.encode(), 1)).hexdigest() != seal:
        raise AlteredCertificate(
            f"{file} was altered after it was sealed; its SHA-256 is not what its seal says; get it again from where "
            "it came from"
        )
    try:
        return msgspec.convert(found, Certificate)
    except msgspec.MsgspecError as error:
        raise InvalidCertificate(f"{file} is damaged: {error}") from error


def altered_files(folder: Path, certificate: Certificate) -> Iterator[str]:
    """What is not as it was when the certificate was written, a sentence for each file."""
    present = set(_names(folder))
    for name in sorted(certificate.files.keys() | present):
        if name not in present:
            yield f"{name} is missing"
        elif name not in certificate.files:
            yield f"{name} was added"
        elif _digest(folder / name) != certificate.files[name]:
            yield f"{name} was altered"


def check_files(folder: Path, certificate: Certificate) -> None:
    """Raises AlteredCertificate, which names the files that are not as they were."""
    altered = list(altered_files(folder, certificate))
    if altered:
        raise AlteredCertificate(
            f"{folder} is not what it was when its certificate was written: {_listed(altered)}; get the folder again "
            "from where it came from"
        )


def _listed(sentences: Sequence[str], most: int = 10) -> str:
    more = f"; and {len(sentences) - most:,} more" if len(sentences) > most else ""
    return "; ".join(sentences[:most]) + more


def _names(folder: Path) -> Iterator[str]:
    """Every file of the folder but `certificate.json`, and the journal from which that is written, by its path in it
    with "/", in order."""
    found = []
    for root, folders, files in os.walk(folder):
        # A link is listed, and never followed.
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]
        found += [Path(root, name).relative_to(folder).as_posix() for name in (*files, *links)]
    return (name for name in sorted(found) if name not in (FILE, JOURNAL))


def _digest(path: Path) -> str:
    """Of the content; of a link, of where it leads."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
    if not stat.S_ISREG(mode):
        # What is no file (a socket) holds nothing, and reading it could wait for ever.
        return f"no file, type {stat.S_IFMT(mode):o}"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
