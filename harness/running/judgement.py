"""From a history to its verdicts: for a run that has just ended, and again for its folder, on any machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from ..contracts.query import KIND
from ..contracts.registry import Registry
from ..contracts.scenario import Scenario
from ..contracts.subject import SchemeSubject, Subject
from ..core.costs import described_costs
from ..core.errors import DamagedHistory, ExitStatus, InvalidHistory, InvalidOperator, InvalidScenario, ScenarioChanged
from ..core.events import Event
from ..core.guarantees import Guarantee
from ..core.lattice import implied
from ..core.reasons import Reason, Why
from ..core.verdicts import Anomaly, Status, Verdict, unknown
from ..judging.collation import CollatedQuery, Collation
from ..judging.collecting import seldom_collected
from ..judging.exercised import Activity, Exercised, called_for, said_never
from ..judging.oracle import Case, Oracle, judge_each, strongest
from ..judging.recovery import Recovery, recoveries_of
from ..judging.references import collate_references
from ..judging.shapes import OutputShape
from ..judging.tolerance import PATIENCE, PATIENCE_SIMULATED, Beyond, Tolerance, beyond, never_in_sync, until
from ..recording.digesting import digested_meanwhile
from ..recording.folder import Description, read_description, read_history
from ..recording.history import FaultMissed, FaultStruck, History, Remembered
from .determinism import EVENTS, Determinism, beginning, examine, examine_here
from .fed import check_fed
from .repeating import MakesCluster, why_not_repeated


@dataclass(frozen=True)
class Judgement:
    """What came of a run."""

    verdicts: tuple[Verdict, ...]
    """Of the claims."""
    broken: tuple[Verdict, ...]
    """Of what the scenario expects to be violated."""
    strongest: tuple[Guarantee, ...]
    """What the history is consistent with, and nothing in it is stronger."""
    recoveries: tuple[Recovery, ...]
    collation: Collation
    digest: str
    exercised: Exercised | None = None
    """How often what the subject is made of was at work; None where the records do not tell, as of a query."""
    unchecked: str = ""
    """Why it is not known whether the operators give the same in another process; empty where it is."""
    not_looked_at: str = ""
    """Where the subject's code may remember what a simulated crash does not take; empty where all was seen."""

    @property
    def exit_status(self) -> ExitStatus:
        """HOLDS only if all claims hold, and all that should break is violated. Nothing claimed is nothing known. Where
        nothing is violated, an oracle of a user's that has failed is their mistake."""
        if not self.verdicts and not self.broken:
            return ExitStatus.UNKNOWN
        failed = {v.failed for v in (*self.verdicts, *self.broken)}
        if ExitStatus.OWN_FAILURE in failed:
            return ExitStatus.OWN_FAILURE
        if any(v.status is Status.VIOLATED for v in self.verdicts):
            return ExitStatus.VIOLATED
        if any(v.status is Status.HOLDS for v in self.broken):
            return ExitStatus.VIOLATED
        if ExitStatus.USER_MISTAKE in failed:
            return ExitStatus.USER_MISTAKE
        if any(v.status is Status.UNKNOWN for v in (*self.verdicts, *self.broken)):
            return ExitStatus.UNKNOWN
        return ExitStatus.HOLDS


def judge_history(
    scenario: Scenario,
    history: History,
    oracles: Mapping[str, Oracle],
    virtual_time: bool,
    determinism: Determinism = Determinism(),
) -> Judgement:
    """Judge one history against what its scenario claims, and what it expects to break. `determinism` is that of its
    operators; without it, they are taken at their word."""
    with seldom_collected(), digested_meanwhile(history) as digest:
        return _judge(scenario, history, oracles, virtual_time, determinism, digest)


def _judge(
    scenario: Scenario,
    history: History,
    oracles: Mapping[str, Oracle],
    virtual_time: bool,
    determinism: Determinism,
    digest: Callable[[], str],
) -> Judgement:
    subject = scenario.subject
    missed = not_come(scenario.faults, history)
    costed = scenario.costs is not None
    anew = partial(subject.collate_anew, history)
    case = Case(history, subject.collate(history), subject.checkpoint_every, virtual_time, missed, costed, anew)
    exercised = subject.exercised(history) if isinstance(subject, SchemeSubject) else None
    verdicts = judge_claims(subject, case, scenario.claimed, oracles, None if scenario.minimal else exercised)
    if scenario.minimal and isinstance(subject, SchemeSubject) and exercised is not None:
        verdicts = [_though_untried(subject, case, exercised, verdict, oracles) for verdict in verdicts]
    judgement = _judgement(case, verdicts, judge_each(case, scenario.breaks, oracles), oracles, digest, exercised)
    if exercised is not None and not exercised[Activity.DELIVERY]:
        # It is consistent with any of them.
        judgement = replace(judgement, strongest=())
    return _as_far_as_forgotten(_as_far_as_repeatable(judgement, determinism), history)


def examine_operators(scenario: Scenario, offered: Mapping[str, Sequence[Event]], origin: str = "") -> Determinism:
    """Whether the operators of a scenario give the same every time, and its workload. `origin` is what makes the
    scenario anew."""
    subject = scenario.subject
    if not isinstance(subject, SchemeSubject):
        return Determinism()
    return examine(subject.topology, offered, origin, scenario.workload)


def require_repeatable(scenario: Scenario, origin: str = "") -> None:
    """Raises InvalidOperator, with the operator's name, where runs of a scenario cannot be executed again: then no
    schedule of it can be judged. `origin` is what makes it anew."""
    differs = examine_operators(scenario, _offered(scenario), origin).differs
    if differs:
        raise InvalidOperator(differs)


def require_repeatable_here(scenario: Scenario) -> None:
    """As `require_repeatable`, as far as that shows in this process, and in a moment."""
    subject = scenario.subject
    differs = examine_here(subject.topology, _offered(scenario)) if isinstance(subject, SchemeSubject) else ""
    if differs:
        raise InvalidOperator(differs)


def _offered(scenario: Scenario) -> dict[str, list[Event]]:
    """As much of the input as is executed again."""
    workload = replace(scenario.workload, events=min(scenario.workload.events, EVENTS))
    return {source: list(chain.from_iterable(workload.batches(source))) for source in scenario.subject.sources}


_SURE = {Anomaly.STALL}
"""What is seen without executing anything again."""


def _as_far_as_repeatable(judgement: Judgement, determinism: Determinism) -> Judgement:
    """What rests on operators that do not give the same every time is UNKNOWN, whatever it seems to be."""
    judgement = replace(judgement, unchecked=determinism.unchecked)
    if not determinism.differs:
        return judgement

    def known(verdict: Verdict) -> Verdict:
        anomalies = {tally.anomaly for tally in verdict.anomalies}
        if verdict.status is Status.VIOLATED and anomalies <= _SURE:
            return verdict
        return unknown(verdict.guarantee, verdict.observables, Reason(Why.UNREPEATABLE, determinism.differs))

    return _as_far_as_known(judgement, known)


def _as_far_as_repeated(judgement: Judgement, differs: str) -> Judgement:
    """Nothing is known of a run that comes to something else when it is made again."""
    if not differs:
        return judgement
    reason = Reason(Why.NOT_REPEATED, differs)
    return _as_far_as_known(judgement, lambda one: unknown(one.guarantee, one.observables, reason))


def _as_far_as_forgotten(judgement: Judgement, history: History) -> Judgement:
    """Nothing holds of a subject that remembers what a crash would have taken from it."""
    entry = remembered_in(history)
    if entry is None:
        return judgement
    judgement = replace(judgement, not_looked_at=entry.not_looked_at)
    return _as_far_as_known(judgement, partial(unless_remembered, entry)) if entry.what else judgement


def remembered_in(history: History) -> Remembered | None:
    """What of a run says that its subject may remember what a crash would have taken from it."""
    return next((entry for entry in history.timeline if isinstance(entry, Remembered)), None)


def unless_remembered(entry: Remembered, verdict: Verdict) -> Verdict:
    """A verdict on such a run."""
    if not entry.what or verdict.status is not Status.HOLDS:
        return verdict
    reason = Reason(
        Why.REMEMBERED,
        f"{entry.what}. Keep it in states, or in attributes of a mechanism's AtWork, or run it on a real cluster",
    )
    return unknown(verdict.guarantee, verdict.observables, reason)


def _as_far_as_known(judgement: Judgement, known: Callable[[Verdict], Verdict]) -> Judgement:
    verdicts, broken = (tuple(map(known, some)) for some in (judgement.verdicts, judgement.broken))
    return replace(judgement, verdicts=verdicts, broken=broken, strongest=())


def _judgement(
    case: Case,
    verdicts: Sequence[Verdict],
    broken: Sequence[Verdict],
    oracles: Mapping[str, Oracle],
    digest: Callable[[], str],
    exercised: Exercised | None = None,
) -> Judgement:
    return Judgement(
        tuple(verdicts),
        tuple(broken),
        tuple(strongest(case, oracles)),
        tuple(case.analysis(recoveries_of)),
        case.collation,
        digest(),
        exercised,
    )


def judge_claims(
    subject: Subject,
    case: Case,
    guarantees: Sequence[Guarantee],
    oracles: Mapping[str, Oracle],
    exercised: Exercised | None = None,
) -> list[Verdict]:
    """As `judge_each`, for what a subject claims, or what that implies. Where the history goes beyond what the claim
    tolerates, what had happened until then is judged, and the rest leaves it UNKNOWN. VIOLATED where a replica never
    gets in sync again that it needs. What it does not claim is judged plainly.

    With what was `exercised`, a claim does not hold either where the faults called for what the claim rests on, and
    that was never at work. A run that is one of many, or is to be as small as can be, need not have it all at work.
    """
    verdicts = judge_each(case, guarantees, oracles)
    if not isinstance(subject, SchemeSubject):
        return verdicts
    before = _Before(subject, case, oracles)
    verdicts = [_tolerated(subject, case, verdict, before, oracles) for verdict in verdicts]
    return (
        verdicts if exercised is None else [_tried(subject, case, exercised, verdict, oracles) for verdict in verdicts]
    )


def violation_of(
    subject: SchemeSubject, case: Case, guarantee: Guarantee, oracles: Mapping[str, Oracle]
) -> Verdict | None:
    """What `judge_claims` says of one claim where that is violated; None where it is not. What else it looks at before
    it says that a claim holds is left aside."""
    verdict = case.verdict(oracles[guarantee.name], guarantee)
    verdict = _tolerated(subject, case, verdict, _Before(subject, case, oracles), oracles)
    return verdict if verdict.status is Status.VIOLATED else None


def _tried(
    subject: SchemeSubject, case: Case, counts: Exercised, verdict: Verdict, oracles: Mapping[str, Oracle]
) -> Verdict:
    return unless_untried(called_for(subject.rests_on(verdict.guarantee, oracles), case.history, counts), verdict)


def _though_untried(
    subject: SchemeSubject, case: Case, counts: Exercised, verdict: Verdict, oracles: Mapping[str, Oracle]
) -> Verdict:
    """Of a counterexample that holds by now nothing more is asked, and what it leaves untried is said."""
    untried = _tried(subject, case, counts, verdict, oracles)
    if untried is verdict:
        return verdict
    return replace(verdict, summary=f"{verdict.summary}; a counterexample, and no proof: {untried.reason}")


def unless_untried(missing: Collection[Activity], verdict: Verdict) -> Verdict:
    """A verdict on a run in which this was never at work, and should have been."""
    if not missing or verdict.status is not Status.HOLDS:
        return verdict
    return unknown(verdict.guarantee, verdict.observables, Reason(Why.UNTRIED, said_never(missing)))


class _Before:
    """What a history shows until it goes beyond what a claim tolerates."""

    def __init__(self, subject: SchemeSubject, case: Case, oracles: Mapping[str, Oracle]) -> None:
        self._subject = subject
        self._case = case
        self._oracles = oracles
        self._cases: dict[int, Case] = {}

    def violated(self, passed: Beyond, guarantee: Guarantee) -> Verdict | None:
        """The verdict on what had happened by then, if that shows a violation."""
        if passed.at not in self._cases:
            history = until(self._case.history, passed.at)
            collation, anew = self._subject.collate(history), partial(self._subject.collate_anew, history)
            self._cases[passed.at] = replace(self._case, history=history, collation=collation, anew=anew)
        verdict = judge_each(self._cases[passed.at], [guarantee], self._oracles)[0]
        if verdict.status is not Status.VIOLATED:
            return None
        return replace(verdict, summary=f"{verdict.summary}, before {passed.why}")


def _tolerated(
    subject: SchemeSubject, case: Case, verdict: Verdict, before: _Before, oracles: Mapping[str, Oracle]
) -> Verdict:
    passed = _passed(subject, case.history, verdict.guarantee, oracles, virtual_time=case.virtual_time, going_on=False)
    if not passed:
        return verdict
    within = [tolerance for tolerance, one in passed.items() if one is None]
    if not within:
        latest = max((one for one in passed.values() if one is not None), key=lambda one: one.at)
        violated = before.violated(latest, verdict.guarantee) if verdict.status is Status.VIOLATED else None
        return violated or unknown(verdict.guarantee, verdict.observables, Reason(Why.BEYOND, latest.why))
    behind = never_in_sync(case.history) if Tolerance.ONE_IN_SYNC in within else ()
    if not behind or verdict.status is Status.VIOLATED:
        return verdict
    return Verdict(verdict.guarantee, Status.VIOLATED, verdict.observables, ", ".join(map(str, behind)), behind)


def goes_beyond(
    subject: SchemeSubject,
    history: History,
    guarantees: Sequence[Guarantee],
    oracles: Mapping[str, Oracle],
    *,
    virtual_time: bool,
) -> bool:
    """Whether a history that goes on is beyond what each of these claims tolerates already: whatever comes later, they
    are judged by what had happened until then."""
    passed = [_passed(subject, history, one, oracles, virtual_time=virtual_time, going_on=True) for one in guarantees]
    return all(one and None not in one.values() for one in passed)


def _passed(
    subject: SchemeSubject,
    history: History,
    guarantee: Guarantee,
    oracles: Mapping[str, Oracle],
    *,
    virtual_time: bool,
    going_on: bool,
) -> Mapping[Tolerance, Beyond | None]:
    """What the claims that promise it tolerate, and when the history goes beyond that; empty where none does."""
    name = guarantee.name
    tolerances = {
        c.tolerates for c in subject.claims if name == c.guarantee.name or name in implied(c.guarantee.name, oracles)
    }
    peers_keep = subject.peers_keep_checkpoints
    patience = PATIENCE_SIMULATED if virtual_time else PATIENCE
    return {
        tolerance: beyond(
            history, tolerance, subject.topology, peers_keep=peers_keep, patience=patience, going_on=going_on
        )
        for tolerance in sorted(tolerances)
    }


def not_come(schedule: Sequence[object], history: History) -> str:
    """Which planned fault a run that was cut short says nothing of; empty when there is none."""
    told = {entry.number for entry in history.timeline if isinstance(entry, FaultStruck | FaultMissed)}
    for number, fault in enumerate(schedule):
        if number not in told:
            return f"the run ended before the trigger of fault {number + 1} came: {fault}"
    return ""


def judge_folder(
    path: Path, registry: Registry, cluster_of: MakesCluster | None = None
) -> tuple[Description, History, Judgement]:
    """Judge a run folder again, by the claims on record. A scheme's operators come from where the run had them; of a
    query, the record says all. With `cluster_of`, which makes the cluster that a record tells of, a run of the
    simulator is made again, and where it leaves another history, every verdict is UNKNOWN.

    Raises InvalidHistory, DamagedHistory or UnknownHistoryVersion for a folder that cannot be judged, ScenarioChanged,
    NotImportable or UnknownName where the scenario is another now or cannot be found.
    """
    description = read_description(path)
    if description.subject.get("kind") == KIND:
        return _judge_query(path, description, registry.oracles)
    scenario = registry.scenario(description.origin).scenario
    now = scenario.subject.describe()
    if now != description.subject:
        raise ScenarioChanged(
            f"{description.origin} has changed since {path.name} was run: its subject is {now} now, and was "
            f"{description.subject}; check out the version that was run"
        )
    history = read_history(path)
    _require_expected(path.name, description, scenario)
    fed = check_fed(path, description, scenario.workload, history)
    virtual = bool(description.cluster.get("cluster") == "simulated")
    try:
        scenario = replace(
            scenario,
            workload=fed,
            claims=[one.as_guarantee() for one in description.claims],
            breaks=[one.as_guarantee() for one in description.breaks],
            minimal=description.minimal,
            costs=described_costs(description.cluster.get("costs")),
        )
        if description.minimal:
            # A counterexample that is run again has other faults than its scenario.
            scenario = replace(scenario, faults=tuple(saved.fault() for saved in description.schedule))
    except InvalidScenario as error:
        raise DamagedHistory(f"{path / 'scenario.json'} cannot be read: {error}") from error
    # First, as the run itself was: who examines operators or judges executes them, too, and they may remember that.
    differs = "" if cluster_of is None else why_not_repeated(path, description, history, registry, cluster_of)
    determinism = examine_operators(scenario, beginning(history, scenario.subject.sources), description.origin)
    judgement = judge_history(scenario, history, registry.oracles, virtual, determinism)
    return description, history, judgement if determinism.differs else _as_far_as_repeated(judgement, differs)


def collate_query(path: Path, description: Description, history: History) -> CollatedQuery:
    """Of a run of a query, without its code.

    Raises InvalidHistory for a run of anything else, DamagedHistory for a query that is described amiss.
    """
    if description.subject.get("kind") != KIND:
        raise InvalidHistory(f"{path} is a run of {description.subject.get('kind')!r}, and no query's")
    try:
        shape = OutputShape.of(description.subject)
    except (KeyError, ValueError, TypeError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else error
        raise DamagedHistory(f"{path / 'scenario.json'} does not describe its query: {said}") from error
    return collate_references(history, shape)


def _require_expected(run: str, description: Description, scenario: Scenario) -> None:
    """What a run may claim, whoever starts it may say; what is to be violated, its scenario alone, and a violation of
    anything else is none that was expected. Raises ScenarioChanged."""
    said = {str(one) for one in scenario.breaks}
    for one in map(str, (saved.as_guarantee() for saved in description.breaks)):
        if one not in said:
            expects = ", ".join(sorted(said)) or "nothing"
            raise ScenarioChanged(
                f"{description.origin} has changed since {run} was run: that was to violate {one}, and now {expects} "
                "is to be violated; check out the version that was run"
            )


def _judge_query(
    path: Path, description: Description, oracles: Mapping[str, Oracle]
) -> tuple[Description, History, Judgement]:
    history = read_history(path)
    anew = partial(collate_query, path, description, history)
    case = Case(history, anew(), not_come=not_come(description.schedule, history), anew=anew)
    claims, breaks = ([one.as_guarantee() for one in some] for some in (description.claims, description.breaks))
    return (
        description,
        history,
        _judgement(case, judge_each(case, claims, oracles), judge_each(case, breaks, oracles), oracles, history.digest),
    )
