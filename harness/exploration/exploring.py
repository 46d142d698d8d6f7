"""A search from beginning to end: plans are made, schedules tried, and what is found is made small and kept.

Nothing is parsed or printed here: the command line does that, and whoever else wants a search calls `explore`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..contracts.registry import Named, Registry
from ..contracts.scenario import Scenario
from ..contracts.subject import SchemeSubject
from ..core.errors import ExitStatus, StorageFailed, UnknownName, UserMistake
from ..core.library import listed_by
from ..core.verdicts import Status
from ..judging.exercised import Activity, unexercised
from ..running.judgement import require_repeatable
from ..running.run import making_origin
from ..worlds.simulated.memory_outside import OutsideMemory
from ..worlds.simulated.options import LIKE_EMBEDDED, SimulationOptions
from .as_stated import AsStated, try_as_stated
from .bench import Bench, Outcome, Trial, resized
from .corpus import CorpusGrowth, check_schedules, grow_corpus, make_corpus, read_corpus, tried_again
from .counterexample import Counterexample, counterexample, save
from .exhausting import exhausting_plans, prove, statements
from .guided import CorpusEntry, GuidedSchedules
from .largest_errors import LargestErrors, largest_errors, measures
from .pieces import NO_PIECE, Tried, is_past
from .plans import EverySingle, Given, RandomSchedules, SearchPlan, Successive
from .power import SearchPower, power_of
from .search import SearchBudget, SearchFindings, Violation, search
from .shrinking import STEADY, Shrunk, shows_violation, shrink
from .small_worlds import SLOW_REPLAY

OWN_EVENTS: Final = 200
"""That are fed at most where the largest error is sought at a scenario's own sizes."""


@dataclass(frozen=True)
class KeptViolation:
    """A violation in its smallest form, in a file, or else told all the same."""

    violation: Violation
    shrunk: Shrunk
    file: Path
    content: Counterexample
    unkept: str = ""
    """Why it is in no file; empty where it is."""


@dataclass(frozen=True)
class Explored:
    """A search that has ended."""

    named: Named
    scenario: Scenario
    """With the input that the search fed."""
    bench: Bench
    findings: SearchFindings
    kept: tuple[KeptViolation, ...]
    """One for each kind of violation."""
    own: Scenario | None = None
    """The scenario before its sizes were brought down; None where they were not."""
    exhaust: bool = False
    """Whether everything was to be tried, and nothing drawn at random."""
    corpus: CorpusGrowth | None = None
    """What became of the corpus; None where there was none."""
    errors: LargestErrors | None = None
    """How close failures came to the bounds that are claimed; None where none is, or it was not asked for."""
    usual: bool = True
    """Whether it tried what a search tries unless told otherwise: crashes one at a time, and crashes drawn at random,
    in a small world."""
    goes_on: bool = False
    """Whether this is how far it has come, and it has not ended."""
    kinds: tuple[str, ...] = ("crash",)
    """Of the faults that were to be drawn."""
    stated: AsStated | None = None
    """What the scenario's own faults came to at its own sizes; None where it has none, or the search was not in a small
    world, or has not come so far."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended the search, or what comes after it."""
        stated, errors = self.stated, self.errors
        parts = (self.findings.interrupted, stated is not None and stated.interrupted)
        return any(parts) or (errors is not None and errors.interrupted)

    @property
    def power(self) -> SearchPower | str:
        """Of how many changes to the scheme's code such a search finds one; or why that is not known."""
        if not self.usual:
            return "it was measured for searches of crashes, one at a time and at random, in small worlds"
        scenario = self.named.origin.rpartition("@")[2]
        bench = self.bench
        return power_of(bench.subject, bench.claims, scenario, self.scenario.workload.events, self.findings.tried)

    @property
    def exit_status(self) -> ExitStatus | None:
        """None: it was interrupted, or goes on, and has found nothing so far."""
        statuses = self.findings.statuses
        if statuses[Status.VIOLATED]:
            return ExitStatus.VIOLATED
        if self.interrupted or self.goes_on:
            return None
        failed = self.findings.failed, None if self.stated is None else self.stated.failed_oracle
        if ExitStatus.OWN_FAILURE in failed:
            return ExitStatus.OWN_FAILURE
        in_code = (self.stated is not None and self.stated.failed) or (self.errors is not None and self.errors.failed)
        if in_code or ExitStatus.USER_MISTAKE in failed:
            return ExitStatus.USER_MISTAKE
        if self.exhaust and not prove(statements(self.bench, self.findings)):
            return ExitStatus.UNKNOWN
        cut = self.findings.lost or self.findings.cut_short
        essential = self.findings.essential or (self.stated is not None and self.stated.essential)
        if essential or cut or self.few or self.untried or self.unbitten:
            return ExitStatus.UNKNOWN
        return ExitStatus.HOLDS

    @property
    def few(self) -> bool:
        """Whether too few schedules were judged plainly for the search to say much."""
        if self.exhaust:
            # Where all are tried, those that go beyond a claim are as many as there are.
            return not self.findings.judged
        return 2 * self.findings.judged < self.findings.tried or not self.findings.judged

    @property
    def untried(self) -> tuple[Activity, ...]:
        """What the claims rest on, and was at work under none of the schedules that were judged plainly."""
        return unexercised(self.bench.rests_on, self.findings.exercised_plainly)

    @property
    def unbitten(self) -> tuple[str, ...]:
        """The kinds of fault that were asked for, and have bitten under none of the schedules that were judged plainly:
        what the subject does under them is not known."""
        return tuple(kind for kind in self.kinds if not self.findings.bitten[kind])

    @property
    def unasked(self) -> tuple[Activity, ...]:
        """What the subject has switched on, and was at work under none of these either: by what it says itself, no
        claim rests on that."""
        return unexercised(self.bench.subject.switched_on - self.bench.rests_on, self.findings.exercised_plainly)


def _nothing(_: object) -> None:
    """For those who do not look on."""


def explore(
    named: Named,
    registry: Registry,
    budget: SearchBudget,
    *,
    seed: int,
    jobs: int,
    pairs: bool = False,
    output: Path | None = None,
    master: str | None = None,
    kinds: tuple[str, ...] = ("crash",),
    for_spark: bool = False,
    own: Named | None = None,
    exhaust: bool = False,
    corpus: Path | None = None,
    errors: int = 0,
    show: Callable[[SearchFindings], None] = _nothing,
    say: Callable[[str], None] = _nothing,
    come_to: Callable[[Explored], None] = _nothing,
) -> Explored:
    """Search, shrink the first violation of each kind, and save it. Ctrl-C ends what is being done, and no more.

    `for_spark`: in a world with the times of embedded Spark, and what is kept shows whoever is faster, where such a
    schedule was found. `own`: the scenario before its sizes were brought down, where they were. `exhaust`: every crash,
    every pair and, with a budget, every three, and nothing at random. `corpus`: a folder of schedules that exercised
    something new, which are tried again, for at most half of the budget's schedules, and varied, and to which is added.
    `errors`: so many schedules more, or a quarter of the seconds, seek the largest error where a claim bounds one, at
    the scenario's own sizes. In a small world, the scenario is also run once as it is stated: what that violates, the
    search has found. Where the user's code fails in what comes after the search, that is told beside what it has found.
    `show` is told of what is found while it goes on, and `say` of what comes after; `come_to`
    is told of all of it, each time that there is more.
    """
    if output is not None and not output.parent.is_dir():
        raise UserMistake(f"a counterexample cannot be kept at {output}: {output.parent} is no folder")
    if output is not None and output.is_dir():
        raise UserMistake(f"a counterexample cannot be kept at {output}: that is a folder; name a file in it")
    bench = Bench(named.scenario, registry, seed=seed, options=_world(for_spark, own is not None))
    subjects = [bench.subject, *([] if own is None else [own.scenario.subject])]
    at_first = [OutsideMemory(subject) for subject in subjects if isinstance(subject, SchemeSubject)]

    def forget() -> None:
        """What follows finds what the code keeps outside of the world as it was before anything was run: what comes of
        it rests neither on what was tried before, nor on whether that was tried in this process."""
        for memory in at_first:
            memory.put_back()

    require_repeatable(named.scenario, making_origin(named, registry))
    forget()
    bench.require_forgetting()
    forget()
    for kind in kinds:
        if kind not in registry.faults:
            raise UnknownName("kind of fault", kind, sorted(registry.faults), listed_by("faults"))
        registry.faults[kind].require_drawn(bench.cluster.name)
    known: tuple[CorpusEntry, ...] = ()
    again: Sequence[CorpusEntry] = ()
    if corpus is not None:
        make_corpus(corpus)
        known = read_corpus(corpus, named.origin, bench.scenario)
        check_schedules(known, bench, registry)
    plans = exhausting_plans(budget) if exhaust else _plans(budget, seed, pairs, kinds)
    if corpus is not None:
        again = tried_again(known, budget.schedules, seed)
        as_they_are = Given(tuple(entry.trial for entry in again))
        plans = [as_they_are, *_plans(SearchBudget(), seed, pairs, kinds), GuidedSchedules(seed, kinds, known)]
    in_order = exhaust or corpus is not None
    before = None if own is None else own.scenario
    usual = not (exhaust or pairs or for_spark) and corpus is None and own is not None and kinds == ("crash",)
    kept: list[KeptViolation] = []

    def come_by_now(findings: SearchFindings) -> Explored:
        return Explored(
            named, bench.scenario, bench, findings, tuple(kept), before, exhaust, usual=usual, goes_on=True, kinds=kinds
        )

    def so_far(findings: SearchFindings) -> None:
        come_to(come_by_now(findings))

    def shown(findings: SearchFindings) -> None:
        show(findings)
        so_far(findings)

    def keep(of: Named, at: Bench, violation: Violation, findings: SearchFindings, *, small: bool = False) -> bool:
        """Make it small, where it is not to stay as it is, and save it. Whether nobody has interrupted that."""
        shrunk = None
        if not small:
            say(f"shrinking schedule {violation.number:,}: {violation.kind.anomaly}")
            with suppress(KeyboardInterrupt):
                steady = _steady(at, violation, findings) if for_spark else None
                violation = steady or violation
                shrunk = shrink(at, violation.trial, violation.kind, seeds=STEADY if steady else 1)
        made = shrunk or Shrunk(at, violation.trial, violation.kind, runs=0)
        content = counterexample(of, violation, made, of.scenario)
        file = _file(output, len(kept))
        kept.append(KeptViolation(violation, made, file, content, _not_saved(file, content)))
        so_far(findings)
        return small or shrunk is not None

    findings = search(
        bench, plans, budget, jobs=jobs, master=master, origin=named.origin, in_order=in_order, show=shown
    )
    # Each is kept before more is looked for: that takes its time, and whoever ends this process takes nothing with it.
    interrupted = findings.interrupted
    for violation in findings.first_of_each_kind():
        interrupted |= not keep(named, bench, violation, findings)
    forget()
    stated = None if own is None else try_as_stated(own, bench, _world(for_spark, False), interrupted=interrupted)
    if own is not None and stated is not None and stated.bench is not None:
        # What the search has found by itself counts once.
        new = [one for one in stated.violations if one[1].kind not in findings.kinds]
        for violation in _new_kinds(findings, new):
            # It is the user's own, and with all of its input thousands of runs would take long.
            keep(own, stated.bench, violation, findings, small=True)
    forget()
    largest = None
    interrupted |= stated is not None and stated.interrupted
    if errors and not interrupted and measures(bench):
        sought, seeking = _at_own_sizes(named, bench, own, for_spark)
        largest = _largest(seeking, errors, kinds, budget, say)
        for violation in _new_kinds(findings, largest.violations):
            keep(sought, seeking, violation, findings)
    # What was found is kept by now, whatever becomes of the folder.
    grown = None
    if corpus is not None:
        grown = grow_corpus(corpus, named.origin, bench.scenario, len(known), len(again), findings.corpus)
    return replace(come_by_now(findings), goes_on=False, corpus=grown, errors=largest, stated=stated)


def _at_own_sizes(named: Named, bench: Bench, own: Named | None, for_spark: bool) -> tuple[Named, Bench]:
    """Where the largest error is sought: amounts are stated for a scenario's own sizes, and small ones show little."""
    if own is None:
        return named, bench
    workload = own.scenario.workload
    fed = resized(own.scenario, min(OWN_EVENTS, workload.events), min(OWN_EVENTS, workload.batch))
    return replace(own, scenario=fed), Bench(fed, bench.registry, seed=bench.seed, options=_world(for_spark, False))


def _new_kinds(findings: SearchFindings, violations: Sequence[tuple[Trial, Outcome]]) -> Iterator[Violation]:
    """Count violations that were met at the scenario's own sizes, and give the first of each kind that the search had
    not."""
    known = {violation.kind for violation in findings.violations}
    for trial, outcome in violations:
        violation = _added(findings, trial, outcome)
        if violation is not None and violation.kind not in known:
            known.add(violation.kind)
            yield violation


def _added(findings: SearchFindings, trial: Trial, outcome: Outcome) -> Violation | None:
    """One that no plan gave."""
    return findings.add(Tried(NO_PIECE, 0, False, outcome, trial), lambda: trial)


def _largest(
    bench: Bench, errors: int, kinds: tuple[str, ...], budget: SearchBudget, say: Callable[[str], None]
) -> LargestErrors:
    """Which errors failures can make."""
    until = None if budget.seconds is None else time.monotonic() + budget.seconds / 4

    def enough(tried: int, ratio: float) -> bool:
        say(f"seeking the largest error: {ratio:.2f} of its bound, by {tried:,} of {errors:,} schedules")
        return is_past(until)

    return largest_errors(bench, errors, kinds=kinds, until=enough)


def _world(for_spark: bool, scaled: bool) -> SimulationOptions | None:
    if for_spark:
        return LIKE_EMBEDDED
    return SLOW_REPLAY if scaled else None


def _steady(bench: Bench, violation: Violation, findings: SearchFindings) -> Violation | None:
    """The first of its kind that shows whoever is faster."""
    alike = (other for other in findings.violations if other.kind == violation.kind)
    return next((other for other in alike if shows_violation(bench, other.trial, other.kind, STEADY)), None)


def usual_plans(budget: SearchBudget, seed: int) -> list[SearchPlan]:
    """What a search tries unless told otherwise."""
    return _plans(budget, seed, pairs=False, kinds=("crash",))


def _plans(budget: SearchBudget, seed: int, pairs: bool, kinds: tuple[str, ...]) -> list[SearchPlan]:
    """What can be enumerated, of crashes, and random schedules in turn with it where a budget ends them."""
    plans: list[SearchPlan] = [EverySingle()] if "crash" in kinds else []
    if pairs:
        plans.append(Successive(2))
    return plans if budget == SearchBudget() else [*plans, RandomSchedules(seed, kinds=kinds)]


def _not_saved(file: Path, content: Counterexample) -> str:
    """Why what was found is not in the file; empty where it is. A disk that is full takes none of it away."""
    try:
        save(file, content)
    except StorageFailed as error:
        return str(error)
    return ""


def _file(output: Path | None, place: int) -> Path:
    """The named file, with a number for what is not the first; without a name, one that is not there yet."""
    if output is not None:
        return output if place == 0 else output.with_stem(f"{output.stem}-{place + 1}")
    number = 1
    while (path := Path(f"counterexample-{number}.json" if number > 1 else "counterexample.json")).exists():
        number += 1
    return path
