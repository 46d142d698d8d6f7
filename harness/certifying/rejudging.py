"""Judges runs of a query from what they recorded, without the user's code; and so a whole certificate again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from ..core.addresses import Address, Point
from ..core.errors import AlteredCertificate, ExitStatus, InvalidHistory, InvalidScenario
from ..core.guarantees import Guarantee
from ..core.verdicts import Evidence, Status, Tally, Verdict
from ..core.wording import counted
from ..judging.collation import CollatedQuery
from ..judging.oracle import Case, Oracle, judge_each
from ..judging.statistics import Bound
from ..recording.folder import Description, read_description, read_history
from ..recording.history import History
from ..running.judgement import collate_query, not_come
from .certificate import WITHOUT_FAILURES, Certificate, check_files, concluded, read_certificate
from .conclusion import ClaimVerdict, Conclusion, real
from .errors_left import differing_errors, errors_in, without_meaning
from .plan import CRASH_STATES, IN_THE_OTHER_ORDER, ORDER, POWER_LOSSES, Crash, CrashTrial, How, Victim
from .so_far import refuse_without_end

RESIZED: Final = frozenset({"batch_events"})
"""What may differ between the subject of a certificate and that of its runs: shrinking takes fewer rows."""


@dataclass(frozen=True)
class JudgedRun:
    """What the record of one run comes to."""

    description: Description
    history: History
    collation: CollatedQuery
    verdicts: tuple[Verdict, ...]
    digest: str
    errors: Mapping[str, float] = field(default_factory=dict)
    """As a `CrashTrial` has them."""
    too_small: tuple[str, ...] = ()
    """As a `CrashTrial` has it."""

    @property
    def statuses(self) -> dict[str, Status]:
        """As a `CrashTrial` has them."""
        return {str(verdict.guarantee): verdict.status for verdict in self.verdicts}

    @property
    def missed(self) -> bool:
        """As a `CrashTrial` has it."""
        return bool(self.collation.unproven) and not self.collation.incomplete

    @property
    def reason(self) -> str:
        """Why a verdict is UNKNOWN, as a `CrashTrial` has it."""
        return next((verdict.reason for verdict in self.verdicts if verdict.status is Status.UNKNOWN), "")


@dataclass(frozen=True)
class ReadRun:
    """The record of one run, which can be that of several crashes."""

    description: Description
    history: History
    collation: CollatedQuery
    digest: str


def read_run(folder: Path) -> ReadRun:
    """Raises InvalidHistory, DamagedHistory or UnknownHistoryVersion for a folder that cannot be judged."""
    description = read_description(folder)
    history = read_history(folder)
    return ReadRun(description, history, collate_query(folder, description, history), history.digest())


def judge_read(
    run: ReadRun, crashes: Sequence[Crash], guarantees: Sequence[Guarantee], oracles: Mapping[str, Oracle]
) -> JudgedRun:
    """Judge one run of a query, against those guarantees that are of such crashes: what survives a loss of power is
    judged by losses of power, and nothing else is. To hold, its record must also show that the crashes struck, where
    they say.

    Raises UnknownName for a guarantee without an oracle.
    """
    collation = run.collation
    if not collation.unproven:
        unproven = not_come(run.description.schedule, run.history) or not_struck(crashes, run.history)
        unproven = unproven or _not_in_order(crashes, run.description)
        collation = replace(collation, unproven=unproven)
    terms = next((crash.terms for crash in crashes if crash.terms), "")
    judged = [guarantee for guarantee in guarantees if guarantee.terms == terms]
    verdicts = judge_each(Case(run.history, collation, anew=partial(deepcopy, collation)), judged, oracles)
    errors = errors_in(judged, run.history, collation)
    unknown = [verdict.guarantee for verdict in verdicts if verdict.status is Status.UNKNOWN]
    too_small = without_meaning(unknown, run.history, collation)
    return JudgedRun(run.description, run.history, collation, tuple(verdicts), run.digest, errors, too_small)


def judge_run(
    folder: Path, crashes: Sequence[Crash], guarantees: Sequence[Guarantee], oracles: Mapping[str, Oracle]
) -> JudgedRun:
    """As `judge_read`, of the run in a folder. Raises what both do."""
    return judge_read(read_run(folder), crashes, guarantees, oracles)


def not_struck(crashes: Sequence[Crash], history: History) -> str:
    """Which crash the timeline does not show to have struck at its point, in this order; empty when it shows all."""
    addresses = iter([entry.address for entry in history.struck() if entry.address is not None and entry.bite.bit])
    for crash in crashes:
        if not any(_is_at(crash, address) for address in addresses):
            return f"the timeline does not show that {crash}"
        if crash.lost is not None and not any(entry.lost == crash.lost for entry in history.struck()):
            return f"the timeline does not show that {crash}, on these terms: {crash.lost.terms}"
    return ""


def _not_in_order(crashes: Sequence[Crash], description: Description) -> str:
    """Which crash strikes where tasks come in another order than the record says; empty where all are right."""
    last_first = description.cluster.get(ORDER) == IN_THE_OTHER_ORDER
    other = next((crash for crash in crashes if crash.last_first is not last_first), None)
    return "" if other is None else f"the record does not show the order of tasks in which {other}"


def _is_at(crash: Crash, text: str) -> bool:
    try:
        address = Address.parse(text)
    except InvalidScenario:
        return False
    if (address.point, address.side) != (crash.point, crash.side):
        return False
    # Who sends a message is not always known where it is planned; it is the same message.
    either = crash.point is Point.MESSAGE and crash.victim in (Victim.DRIVER, Victim.ANSWER, Victim.REQUEST)
    if address.actor != crash.actor and not either:
        return False
    if crash.point is Point.TASK_END:
        # Its key has the stage's number, which counts everything that the session has run before.
        return address.key.partition("/")[0] == str(crash.batch)
    return address.key == crash.key


def first_wrong(verdict: Verdict) -> tuple[Tally, Evidence] | None:
    """Of a violation, the evidence that was seen first, and the anomaly that it is of."""
    found = [(tally, piece) for tally in verdict.anomalies for piece in tally.sample]
    return min(found, key=lambda one: one[1].at[-1] if one[1].at else math.inf, default=None)


@dataclass(frozen=True)
class Rejudged:
    """A certificate, and what its records come to now."""

    certificate: Certificate
    conclusion: Conclusion
    """By the records."""
    differences: tuple[str, ...]
    """Where the certificate does not say what its records do."""

    @property
    def exit_status(self) -> ExitStatus:
        """The certificate's, unless it does not say what its records do."""
        return ExitStatus.USER_MISTAKE if self.differences else self.conclusion.exit_status


def judge_certificate(folder: Path, oracles: Mapping[str, Oracle]) -> Rejudged:
    """Verify every file, judge every run again, and conclude anew.

    Raises InvalidCertificate, AlteredCertificate (which names the files) or UnknownCertificateVersion for what cannot
    be judged, UnknownName for a claim without an oracle.
    """
    refuse_without_end(folder)
    certificate = read_certificate(folder)
    check_files(folder, certificate)
    differences = [*_strange_folders(certificate), *_left_out(certificate), *_fed_less(folder, certificate)]
    trials = []
    for trial in certificate.trials:
        judged, found = _again(folder, certificate, trial, oracles)
        trials.append(judged)
        differences += found
    conclusion = concluded(msgspec.structs.replace(certificate, trials=tuple(trials)))
    differences += _compare(certificate, conclusion)
    differences += _compare_counterexample(folder, certificate, oracles)
    return Rejudged(certificate, conclusion, tuple(differences))


def check_trials(folder: Path, certificate: Certificate, oracles: Mapping[str, Oracle]) -> None:
    """Of a campaign that is to go on: what was tried counts by what its runs come to. Raises AlteredCertificate where
    that is not what is said of them."""
    there = {
        f"{trial.folder}/scenario.json": ""
        for trial in certificate.trials
        if PurePosixPath(trial.folder).parent == PurePosixPath("runs") and (folder / trial.folder).is_dir()
    }
    listed = msgspec.structs.replace(certificate, files=there)
    found = [why for trial in certificate.trials for why in _again(folder, listed, trial, oracles)[1]]
    if found:
        more = f"; and {len(found) - 1:,} more" if len(found) > 1 else ""
        raise AlteredCertificate(
            f"what {folder} says of its trials is not what their runs come to: {found[0]}{more}; certify the query "
            "again, into another folder"
        )


def _how(description: Description) -> How:
    """In which way a run has tried its crashes."""
    how = description.cluster.get("how")
    if how in (CRASH_STATES, POWER_LOSSES):
        return How.CRASH_STATE if how == CRASH_STATES else How.POWER_LOSS
    return How.SPLIT_BRAIN if any(fault.kind == How.SPLIT_BRAIN for fault in description.schedule) else How.KILL


def _strange_folders(certificate: Certificate) -> Iterator[str]:
    # One recovery can stand for several points at which the same was durable, and one run for several kills that were
    # drawn; but not twice for one of them, nor for trials of two sorts.
    sorts: dict[str, set[str]] = {}
    for trial in certificate.trials:
        sort = "drawn" if trial.sampled else "recovery" if not real(trial) else "run"
        sorts.setdefault(trial.folder, set()).add(sort)
    uses = Counter(
        (trial.folder, trial.crashes if trial.sampled or not real(trial) else ()) for trial in certificate.trials
    )
    strange = {name for (name, _), times in uses.items() if times > 1}
    strange |= {name for name, found in sorts.items() if len(found) > 1}
    for name in sorted(strange):
        yield f"{name} stands for more trials than it is a run of"
    if certificate.draw is None and any(trial.sampled for trial in certificate.trials):
        yield "trials are said to be of a random sample, and none was drawn"


def _left_out(certificate: Certificate) -> Iterator[str]:
    """What is there, or was asked for, and the certificate does not speak of."""
    told = {trial.folder for trial in certificate.trials}
    for name in sorted(certificate.files):
        folder = name.removesuffix("/seal.json")
        if folder != name and folder not in told and not folder.startswith(WITHOUT_FAILURES):
            yield f"{folder} is a run, and no trial of the certificate"
    claimed = {guarantee.name for guarantee in certificate.guarantees}
    for name in () if certificate.asked is None else certificate.asked.named:
        if name not in claimed:
            yield f"{name} was claimed, and the certificate does not list it as a claim"


def _fed_less(folder: Path, certificate: Certificate) -> Iterator[str]:
    """Whether no run was fed as much as the certificate tells of. Only what shrinks a violation takes fewer events."""
    events = certificate.workload.get("events")
    if not isinstance(events, int) or not certificate.trials:
        return
    for name in dict.fromkeys(trial.folder for trial in certificate.trials):
        if f"{name}/scenario.json" in certificate.files:
            with suppress(InvalidHistory):
                if read_description(folder / name).workload.get("events") == events:
                    return
    yield f"none of its runs was fed the {counted(events, 'event')} that it tells of"


def _again(
    folder: Path, certificate: Certificate, trial: CrashTrial, oracles: Mapping[str, Oracle]
) -> tuple[CrashTrial, list[str]]:
    """A trial with the verdicts of its record, and where they differ from what is said of it."""
    if f"{trial.folder}/scenario.json" not in certificate.files:
        # No folder but those whose files are listed: what lies elsewhere was not verified.
        why = "its run is not in the certificate's folder"
        gone = msgspec.structs.replace(trial, verdicts={}, reason=why, missed=False, errors={}, too_small=())
        return gone, [f"{trial.folder} is not a run in the certificate's folder"]
    try:
        judged = judge_run(folder / trial.folder, trial.crashes, certificate.guarantees, oracles)
    except InvalidHistory as error:
        # Whoever wrote the certificate could not judge it either.
        of_it = [str(claim) for claim in certificate.guarantees if claim.terms == trial.terms]
        unknown = dict.fromkeys(of_it, Status.UNKNOWN)
        lost = msgspec.structs.replace(trial, verdicts=unknown, missed=False, errors={}, too_small=())
        return lost, list(_compare_statuses(trial, unknown, dict.fromkeys(of_it, f" ({error})")))
    failed = {str(one.guarantee): f" ({one.reason})" for one in judged.verdicts if one.failed is not None}
    differences = [*_compare_statuses(trial, judged.statuses, failed), *differing_errors(trial, judged.errors)]
    if judged.digest != trial.digest:
        differences.append(f"{trial.folder}: its history is not the one that the certificate tells of, by its digest")
    if judged.missed != trial.missed:
        said = "missed by its record, and struck" if judged.missed else "struck by its record, and missed"
        differences.append(f"{trial.folder}: its crash {said} by the certificate")
    if (how := _how(judged.description)) is not trial.how:
        differences.append(f"{trial.folder} is a {how} by its record, and a {trial.how} by the certificate")
    if (how is How.POWER_LOSS) != bool(trial.terms):
        differences.append(f"{trial.folder} is a {how} by its record, and its crashes say otherwise of the power")
    other = sorted(_other(certificate.subject, judged.description.subject))
    if other:
        differences.append(f"{trial.folder} is a run of another subject: {', '.join(other)} differ")
    if _fed_otherwise(certificate.workload, judged.description.workload):
        differences.append(f"{trial.folder} is a run on another input: {judged.description.workload}")
    now = msgspec.structs.replace(
        trial, verdicts=judged.statuses, missed=judged.missed, errors=dict(judged.errors), too_small=judged.too_small
    )
    return now, differences


def _other(one: Mapping[str, Any], two: Mapping[str, Any]) -> set[str]:
    """In what two descriptions of a subject differ, their size aside."""
    # What has been written and read again has lists for tuples.
    plain = [msgspec.json.decode(msgspec.json.encode(dict(subject))) for subject in (one, two)]
    names = plain[0].keys() | plain[1].keys()
    return {name for name in names - RESIZED if plain[0].get(name) != plain[1].get(name)}


def _fed_otherwise(said: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Shrinking takes fewer events."""
    most, events = said.get("events"), run.get("events")
    more = isinstance(most, int) and not (isinstance(events, int) and events <= most)
    return more or any(said.get(name) != run.get(name) for name in ("name", "seed"))


def _compare_statuses(trial: CrashTrial, found: Mapping[str, Status], why: Mapping[str, str]) -> Iterator[str]:
    """`why` has of some claims why it is so."""
    for claim in sorted(found.keys() | trial.verdicts.keys()):
        said, is_now = trial.verdicts.get(claim), found.get(claim)
        if said is not is_now:
            yield (
                f"{trial.folder}: {claim} is {is_now or 'not judged'} by its record{why.get(claim, '')}, and "
                f"{said or 'not judged'} in the certificate"
            )


def _compare(certificate: Certificate, conclusion: Conclusion) -> Iterator[str]:
    yield from _compare_verdicts(certificate.verdicts, conclusion.verdicts)
    if certificate.coverage != conclusion.coverage:
        yield "the coverage is not what the plan and the trials come to"
    if not _same_bounds(certificate.bounds, conclusion.bounds):
        yield "the bounds are not what the sample comes to"


def _compare_verdicts(said: Sequence[ClaimVerdict], found: Sequence[ClaimVerdict]) -> Iterator[str]:
    by_claim = {verdict.claim: verdict for verdict in said}
    for verdict in found:
        other = by_claim.pop(verdict.claim, None)
        if other is None:
            yield f"{verdict.claim}: {verdict.status} by the records, and no verdict in the certificate"
        elif other.status is not verdict.status:
            yield f"{verdict.claim}: {verdict.status} by the records, and {other.status} in the certificate"
        elif other != verdict:
            yield f"{verdict.claim}: {verdict.status} by the records too, on other grounds than in the certificate"
    for claim, verdict in by_claim.items():
        yield f"{claim}: {verdict.status} in the certificate, which does not list it as a claim"


def _same_bounds(said: Sequence[Bound], found: Sequence[Bound]) -> bool:
    """To within what another version of scipy computes."""

    def near(one: float | None, other: float | None) -> bool:
        return one == other if one is None or other is None else math.isclose(one, other, rel_tol=1e-6)

    return len(said) == len(found) and all(
        near(one.upper, other.upper)
        and near(one.lower, other.lower)
        and msgspec.structs.replace(one, upper=None, lower=None)
        == msgspec.structs.replace(other, upper=None, lower=None)
        for one, other in zip(said, found, strict=True)
    )


def _compare_counterexample(folder: Path, certificate: Certificate, oracles: Mapping[str, Oracle]) -> Iterator[str]:
    shown = certificate.counterexample
    if shown is None:
        return
    same = [
        trial
        for trial in certificate.trials
        if (trial.folder, trial.crashes, trial.how) == (shown.folder, shown.crashes, shown.how)
    ]
    claim = next((one for one in certificate.guarantees if str(one) == shown.claim), None)
    if not same or claim is None or f"{shown.folder}/scenario.json" not in certificate.files:
        yield f"the counterexample is not one of the trials: {shown.folder}"
        return
    try:
        (verdict,) = judge_run(folder / shown.folder, shown.crashes, [claim], oracles).verdicts
    except InvalidHistory as error:
        yield f"the counterexample cannot be judged: {error}"
        return
    found = first_wrong(verdict)
    if verdict.status is not Status.VIOLATED:
        yield f"the counterexample does not violate {shown.claim} by its record, which is {verdict.status}"
    elif found is not None and (found[0].anomaly, found[1].what) != (shown.anomaly, shown.wrong):
        yield f"the counterexample's first wrong output is another by its record: {found[0].anomaly}, {found[1].what}"
