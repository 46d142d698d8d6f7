"""Goes on with a campaign: what an earlier part of it has tried counts, what is left is tried.

It counts only where it is the same query on the same input, by the same Spark and the same streamproof; whoever goes on
runs the query without failures again, and has to come to what the earlier part came to.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from ..contracts.query import Query
from ..contracts.registry import Registry
from ..core.errors import InvalidCertificate, InvalidHistory, ScenarioChanged, StorageFailed
from ..core.verdicts import Status
from ..core.workload import Workload
from ..crash_points.inside_python.whose import whose_code
from ..install.spark_choice import chosen_python
from ..judging.references import BATCH_JOB, REFERENCES, collate_references
from ..judging.shapes import OutputShape
from ..recording.folder import read_description, read_history
from ..recording.history import History
from ..recording.records import Offered, Record, Stamped, whose
from .campaign_state import ALL_VIOLATED
from .certificate import WITHOUT_FAILURES, Asked, CampaignPart, Certificate, check_files, read_certificate
from .conclusion import Planned, lines_of, real
from .covering import NOT_EACH_TIME
from .journal import is_under_way, read_journal
from .plan import Crash, CrashTrial, How, Victim
from .subjects import QueryShape, load_subject, load_workload, on_spark, usual_workload

OTHERWISE: Final = "without failures, it gives something else than in the earlier part of the campaign"
NOT_PASSED: Final = "no run without failures passed it in the part of the campaign that went on"


@dataclass(frozen=True)
class Earlier:
    """What a campaign has come to before it goes on."""

    certificate: Certificate
    interrupted: bool
    """Whether its last part came to no end: it has written no certificate."""
    left_out: tuple[str, ...] = ()
    """The schedules of its runs that count for nothing, since they were under way."""
    _tried: frozenset[tuple[How, tuple[Crash, ...]]] = field(init=False)
    _killed: frozenset[Planned] = field(init=False)
    _half: frozenset[Crash] = field(init=False)

    def __post_init__(self) -> None:
        struck = [trial for trial in self.certificate.trials if not trial.missed]
        times = Counter((trial.how, trial.crashes) for trial in struck)
        # A loss of power that violates is to show that again.
        single = {
            (trial.how, trial.crashes)
            for trial in struck
            if trial.how is How.POWER_LOSS and Status.VIOLATED in trial.verdicts.values()
            if times[trial.how, trial.crashes] == 1
        }
        half = {one.planned.crash for one in self.certificate.not_reached if one.why == NOT_EACH_TIME}
        object.__setattr__(self, "_tried", frozenset(times.keys() - single))
        object.__setattr__(self, "_killed", frozenset(line for one in struck if real(one) for line in lines_of(one)))
        object.__setattr__(self, "_half", frozenset(half))

    @property
    def asked(self) -> Asked:
        assert self.certificate.asked is not None
        return self.certificate.asked

    @property
    def parts(self) -> tuple[CampaignPart, ...]:
        """As those of a certificate that is written now."""
        *before, last = self.certificate.parts
        if not self.interrupted:
            return self.certificate.parts
        return (*before, msgspec.structs.replace(last, interrupted=True, left_out=self.left_out))

    @property
    def open(self) -> frozenset[Planned]:
        """Lines that were not reached."""
        return frozenset(one.planned for one in self.certificate.not_reached)

    def has_recovered(self, how: How, crashes: tuple[Crash, ...], times: int = 1) -> bool:
        """Whether crash states were recovered from, of a crash whose batch passes its point so many times."""
        if (how, crashes) not in self._tried:
            return False
        # Who was interrupted has not said which of the times were left.
        return times == 1 or not (self.interrupted or crashes[-1] in self._half)

    def has_killed(self, line: Planned) -> bool:
        return line in self._killed

    def unconfirmed(self, claims: Iterable[str]) -> tuple[list[CrashTrial], list[CrashTrial]]:
        """Of these, what crash states have shown and nobody has tried for real; and what was shown for real."""
        open_claims = set(claims)

        def shows(trial: CrashTrial) -> bool:
            return any(trial.verdicts.get(claim) is Status.VIOLATED for claim in open_claims)

        shown = [trial for trial in self.certificate.trials if shows(trial)]
        killed = {one.crashes for one in self.certificate.trials if real(one) and not one.missed}
        states = [one for one in shown if one.how is How.CRASH_STATE and one.crashes not in killed]
        return states, [one for one in shown if real(one)]

    def as_before(self, planned: Sequence[Planned]) -> list[Planned]:
        """These lines, each as the plan has it already: what is said of a crash beside its place (between which lines
        it lies, of which kind its batch is) may come out otherwise in another session."""
        known = set(self.certificate.plan)
        taken = known & set(planned)
        by_place: dict[object, list[Planned]] = {}
        for line in self.certificate.plan:
            if line not in taken:
                by_place.setdefault(_place(line), []).append(line)
        found = []
        for line in planned:
            others = by_place.get(_place(line), [])
            found.append(line if line in known or not others else others.pop(0))
        return found


def _place(line: Planned) -> object:
    crash = line.crash
    at = crash.point, crash.side, crash.key, crash.actor, crash.victim, crash.batch, crash.recovering
    return at, crash.lost, crash.last_first, line.split_brain


def read_earlier(folder: Path) -> Earlier:
    """What there is to go on with. Raises InvalidCertificate for a folder that holds no campaign, or one that was not
    written for it, AlteredCertificate and UnknownCertificateVersion as reading a certificate does."""
    interrupted = is_under_way(folder)
    certificate = read_journal(folder) if interrupted else read_certificate(folder)
    if not interrupted:
        check_files(folder, certificate)
    if certificate.asked is None:
        raise InvalidCertificate(
            f"{folder} does not say what its campaign was asked for, since the streamproof that wrote it could not go "
            "on with one; certify the query again, into another folder"
        )
    return Earlier(certificate, interrupted, tuple(_under_way(folder, certificate)) if interrupted else ())


def subject_of(folder: Path, earlier: Earlier, registry: Registry) -> tuple[Query, Workload]:
    """The query and its input, from where they were. Raises what loading them raises; InvalidCertificate where only a
    program has them."""
    asked, described = earlier.asked, earlier.certificate.subject
    if not asked.origin:
        raise InvalidCertificate(
            f"{folder} is of a query that was made in a program and has no name: certify it again, into another folder"
        )
    shape = QueryShape(
        str(described.get("mode", "")), tuple(described.get("key", ())), str(described.get("schema", ""))
    )
    subject = on_spark(load_subject(asked.origin, registry, shape, lenient=True), str(described.get("spark", "")))
    fed = load_workload(asked.fed_from) if asked.fed_from else subject.workload or usual_workload(subject.query)
    return subject.query, fed


def nothing_left(earlier: Earlier, goes_on: bool) -> str:
    """Why there is nothing that more time would buy; empty where there is."""
    certificate = earlier.certificate
    if earlier.interrupted:
        return ""
    if certificate.unjudgeable:
        return f"nothing of it can be judged: {certificate.unjudgeable}"
    if certificate.exhausted == ALL_VIOLATED:
        return "" if goes_on else certificate.exhausted
    again = set(certificate.plan) & {one.planned for one in certificate.not_reached}
    return "" if certificate.exhausted or again else "all that was planned was tried"


def check_same(earlier: Earlier, query: Query, workload: Workload, versions: Mapping[str, str]) -> None:
    """Raises ScenarioChanged where what was tried would not count."""
    certificate = earlier.certificate
    said = certificate.versions
    # One that was written before anybody asked says only some. And which Spark ran is known once it has.
    names = versions.keys() | said.keys() - {"spark"} if "python" in said else versions.keys() & said.keys()
    for name in sorted(names):
        before, now = (f"{name} {of[name]}" if name in of else f"no {name}" for of in (said, versions))
        if before != now:
            raise ScenarioChanged(
                f"the campaign was begun with {before}, and this is {now}: its runs would not count. Go on with "
                f"{before}, or certify the query again, into another folder"
            )
    described = msgspec.json.decode(msgspec.json.encode(certificate.subject))
    here = msgspec.json.decode(msgspec.json.encode(query.describe()))
    for name in sorted(described.keys() | here.keys()):
        if described.get(name) != here.get(name):
            raise ScenarioChanged(
                f"the query has changed since the campaign was begun: its {name} was {_short(described.get(name))}, "
                f"and is {_short(here.get(name))} now, so that what was tried would not count. Check out what was "
                "certified, or certify it again, into another folder"
            )
    fed = {"name": workload.name, "events": workload.events, "seed": workload.seed}
    if certificate.workload != fed:
        raise ScenarioChanged(f"the input was {certificate.workload}, and is {fed} now: what was tried would not count")


def check_code(earlier: Earlier, query: Query) -> None:
    """Of the modules that the query's own uses, too. Raises ScenarioChanged."""
    before, now = earlier.asked.code, code_of(query)
    # Whoever uses a module that was not used before has changed too.
    for name in sorted(before.keys() & now.keys()):
        if before[name] != now[name]:
            raise ScenarioChanged(
                f"the query's code has changed since the campaign was begun: the module {name} is another one, so that "
                "what was tried would not count. Check out what was certified, or certify it again, into another folder"
            )


def code_of(query: Query) -> dict[str, str]:
    """The user's modules that are loaded, each with the SHA-256 of its file."""
    whose = whose_code(query)
    found = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.endswith(".py") and whose.owns(name, file):
            with suppress(OSError):
                found[name] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return found


def versions_here(java: object, query: Query) -> dict[str, str]:
    """What a campaign rests on."""
    return {
        "streamproof": version("streamproof"),
        **chosen_python(query.spark),
        "java": str(java),
    }


def why_other(
    folder: Path, earlier: Earlier, offered: Sequence[Stamped], references: Sequence[Stamped], shape: OutputShape
) -> str:
    """Why what was tried before cannot be judged together with what is tried now: the input or what comes of it without
    failures is another. Empty where both are the same, or nothing was tried."""
    name = next((trial.folder for trial in earlier.certificate.trials if _is_whole(folder, trial, earlier)), None)
    if name is None:
        return ""
    before = read_history(folder / name)
    one = [stamped.record for stamped in offered]
    other = [stamped.record for stamped in before.records if isinstance(stamped.record, Offered)]
    if _events(one) != _events(other):
        return f"the input is not the one of the earlier part of the campaign ({name})"
    then = [stamped for stamped in before.records if whose(stamped.record) == REFERENCES[0]]
    now = [stamped for stamped in references if whose(stamped.record) in (REFERENCES[1], BATCH_JOB)]
    found = collate_references(History([*offered, *then, *now], ()), shape).unjudgeable
    return f"{OTHERWISE}: {found}" if found else ""


def _is_whole(folder: Path, trial: CrashTrial, earlier: Earlier) -> bool:
    """Whether a run was fed all of the input: what is made smaller is not."""
    try:
        described = read_description(folder / trial.folder)
    except InvalidHistory:
        return False
    whole = described.workload.get("events") == earlier.certificate.workload.get("events")
    return whole and described.subject.get("batch_events") == earlier.certificate.subject.get("batch_events")


def _events(records: Iterable[Record]) -> list[object]:
    return [event for record in records if isinstance(record, Offered) for event in record.events]


def _short(value: Any, most: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


# What somebody interrupted has left


def _under_way(folder: Path, certificate: Certificate) -> Iterator[str]:
    for run in _strange(folder, certificate):
        said = run.name
        with suppress(InvalidHistory):
            said = ", then ".join(map(str, read_description(run).schedule)) or said
        yield said


def clear_up(folder: Path, earlier: Earlier) -> None:
    """Remove what no certificate is to hold: folders of work, and of runs that were under way. Raises StorageFailed."""
    try:
        work = folder / "work"
        if work.exists():
            shutil.rmtree(work)
        if earlier.interrupted:
            for run in _strange(folder, earlier.certificate):
                shutil.rmtree(run)
    except OSError as error:
        raise StorageFailed(
            f"cannot remove {error.filename}, which an interrupted campaign has left: {error.strerror}; streamproof "
            "reap ends what still uses it"
        ) from error


def _strange(folder: Path, certificate: Certificate) -> list[Path]:
    """Run folders of which nothing is known."""
    known = {trial.folder for trial in certificate.trials}
    runs = folder / "runs"
    found = sorted(runs.iterdir()) if runs.exists() else []
    return [
        run for run in found if f"runs/{run.name}" not in known and not f"runs/{run.name}".startswith(WITHOUT_FAILURES)
    ]


def is_driver_alone(trial: CrashTrial) -> bool:
    """Whether nothing but drivers died in it, or a disk refused something, which a recovery worker can try again."""
    here = (Victim.DRIVER, Victim.DISK)
    return trial.how is How.KILL and all(crash.victim in here for crash in trial.crashes)
