"""What a campaign's trials come to: the verdict on each claim, and how much of the plan stands behind it.

A pure function of the plan and the trials, so that whoever has the records comes to the same.

- VIOLATED needs a kill or a split brain that shows it. What only a crash state shows is UNKNOWN, with its story. No
  power can be lost here for real: what a loss of power violates has to show in two recoveries from it, and in each.
- A claim is judged by trials of losses of power where it is made of them, on the terms that it states, and by all other
  trials where it is not.
- HOLDS says: for each crash that was planned, at least one trial passed, and every other trial passed too; where no
  time was left to try it, others that are like it have passed (`alike`), which the verdict says. A crash that was not
  reached, not tried and like no other, or came to no verdict in one of its trials (the query stalled, its rows cannot
  be told from lost ones, ...) makes the claim UNKNOWN, whatever else passed. Only a kill that missed is no trial of a
  crash: it stands open until a real one at the same crash has passed.
- Where the subject's own runs without failures disagree, nothing is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ..core.errors import ExitStatus
from ..core.guarantees import Guarantee
from ..core.verdicts import Status
from ..core.wording import counted
from ..judging.statistics import Bound, KillSample, lower_bound, upper_bound
from .alike import Alike
from .errors_left import ErrorsLeft, errors_left, errors_said
from .plan import Crash, CrashTrial, How, Victim

TOO_SMALL: Final = "the budget is too small to say anything: no crash was tried"
UNCUT: Final = "it has effects that no crash could be tried between"
NOT_REALLY: Final = (
    "no power was really lost: files were put back as a loss of power may leave them, by what the file system promises"
)
Terms = Mapping[str, str]
"""Of each claim, by its text, on which terms power is lost where it is judged; empty: in no way."""
NOTHING_PLANNED: Final = "no crash was planned, so nothing was tried"
IN_SPARK: Final = "Spark's JVM"
"""Where an effect is, in place of a line of the user's code."""
AT_THE_END: Final = "the end of the query's process"
"""The same."""
BETWEEN_BATCHES: Final = "between two batches"
"""The same."""
A_LINK: Final = "a link in the run's folders"
"""The same."""


class Planned(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the plan."""

    crash: Crash
    split_brain: bool = False
    """Whether the driver is paused there, to wake up beside a second one, and not killed."""

    def __str__(self) -> str:
        if not self.split_brain:
            return str(self.crash)
        return f"split brain: {str(self.crash).replace(' dies ', ' is paused ', 1)}"


class NotReached(msgspec.Struct, frozen=True):
    """A line of the plan that could not be carried out, although it was tried."""

    planned: Planned
    why: str


class Uncut(msgspec.Struct, frozen=True, order=True):
    """An effect of the user's code that no crash could be tried between: it is where nothing can be held or copied."""

    kind: str
    """One of `EFFECTS` of a query: `file`, `connection`, ..."""
    target: str
    place: str
    """The line of the user's code: `sinks.write:17`; or one of those above."""
    times: int
    """How often it was seen in a run, be it one without failures or a recovery that was watched."""
    accepted: bool = False
    """Whether the user has said, by its name, that it does not count."""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.target}"

    def __str__(self) -> str:
        return f"{self.name} ({self.place}, {counted(self.times, 'time')})"


class Covered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done about one line of the plan."""

    planned: Planned
    states: int = 0
    """Crash states that were recovered from."""
    kills: int = 0
    """Real kills, or split brains."""
    verdicts: dict[str, dict[Status, int]] = {}
    """Claim -> verdict -> how many trials came to it."""
    passed: tuple[str, ...] = ()
    """The claims of which at least one trial passed, and none failed or came to no verdict."""
    not_reached: str = ""
    """Why it was not, if so."""


class ClaimVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the certificate says of a claim."""

    claim: str
    status: Status
    summary: str
    """What it covers, or what was seen."""
    reasons: tuple[str, ...] = ()
    """Why it is UNKNOWN, the heaviest first."""
    covered: int = 0
    """Lines of the plan of which at least one trial passed, and none failed or came to no verdict."""
    planned: int = 0
    violated: int = 0
    """Of the repeats of the schedule that shows a violation, how many showed it."""
    repeats: int = 0
    shown_by: str = ""
    """The run folder that shows the violation, or what only a crash state shows."""
    errors: ErrorsLeft | None = None
    """Of a claim that bounds the error of a result, what the crashes have left of it."""


class Conclusion(msgspec.Struct, frozen=True):
    verdicts: tuple[ClaimVerdict, ...]
    coverage: tuple[Covered, ...]
    bounds: tuple[Bound, ...]

    @property
    def exit_status(self) -> ExitStatus:
        return exit_status(self.verdicts)


def exit_status(verdicts: Sequence[ClaimVerdict]) -> ExitStatus:
    """VIOLATED outranks UNKNOWN, which outranks HOLDS. Nothing claimed is nothing known."""
    statuses = {verdict.status for verdict in verdicts}
    if Status.VIOLATED in statuses:
        return ExitStatus.VIOLATED
    return ExitStatus.HOLDS if statuses == {Status.HOLDS} else ExitStatus.UNKNOWN


def conclude(
    guarantees: Sequence[Guarantee],
    plan: Sequence[Planned],
    trials: Sequence[CrashTrial],
    not_reached: Sequence[NotReached],
    *,
    unjudgeable: str = "",
    exhausted: str = "",
    draw: KillSample | None = None,
    uncut: Sequence[Uncut] = (),
    more: str = "",
) -> Conclusion:
    """The verdict on each claim, the coverage of each line of the plan, and what the sample bounds.

    `unjudgeable` says why nothing can be judged at all, `exhausted` which part of the budget ended the campaign, and
    `more` what more of it would buy. What is `uncut`, and not accepted, lets no claim hold.
    """
    claims: Terms = {str(guarantee): guarantee.terms for guarantee in guarantees}
    alike = Alike(plan)
    tried = _by_line(trials)
    why_not = {one.planned: one.why for one in not_reached}
    # What was not reached, or came to no verdict, is no less open for standing in no plan.
    unclear = (line for line, found in tried.items() if any(_came_to_nothing(trial, claims) for trial in found))
    wanted = tuple(dict.fromkeys((*plan, *why_not)))
    wanted = tuple(dict.fromkeys((*wanted, *sorted(unclear, key=repr)))) if wanted else ()
    lines = {
        claim: {
            line: _Line(line, tried.get(line, ()), claim, why_not.get(line))
            for line in wanted
            if claims[claim] == line.crash.terms
        }
        for claim in claims
    }
    coverage = []
    for line in wanted:
        judged = [claim for claim in claims if line in lines[claim]]
        passed = tuple(claim for claim in judged if lines[claim][line].covered)
        coverage.append(_covered(line, tried.get(line, ()), judged, passed, why_not.get(line, "")))
    left = tuple(one for one in uncut if not one.accepted)
    verdicts = (
        _verdict(
            claim,
            claims[claim],
            list(lines[claim].values()),
            [trial for trial in trials if claims[claim] == trial.terms and claim not in trial.too_small],
            unjudgeable,
            f"{exhausted}; {more}" if exhausted and more else exhausted,
            left,
            alike,
        )
        for claim in claims
    )
    by_claim = {str(guarantee): guarantee for guarantee in guarantees}
    verdicts = (_with_errors(verdict, by_claim[verdict.claim], trials) for verdict in verdicts)
    # What is drawn is killed, and no power is lost by that.
    of_kills = () if draw is None else tuple(claim for claim in claims if not claims[claim])
    bounds = () if draw is None else tuple(_bound(claim, draw, plan, trials) for claim in of_kills)
    return Conclusion(tuple(verdicts), tuple(coverage), bounds)


def _with_errors(verdict: ClaimVerdict, guarantee: Guarantee, trials: Sequence[CrashTrial]) -> ClaimVerdict:
    left = errors_left(guarantee, [trial for trial in trials if trial.terms == guarantee.terms])
    if left is None:
        return verdict
    said = f"{verdict.summary}; {errors_said(left)}" if verdict.summary else verdict.summary
    return msgspec.structs.replace(verdict, summary=said, errors=left)


def lines_of(trial: CrashTrial) -> tuple[Planned, ...]:
    """The lines of a plan that a trial says something of: its crashes, but for those from which it did not recover
    undisturbed."""
    split = trial.how is How.SPLIT_BRAIN
    followers = (*trial.crashes[1:], None)
    return tuple(
        Planned(crash, split)
        for crash, after in zip(trial.crashes, followers, strict=True)
        if after is None or not after.recovering
    )


def passes(trial: CrashTrial, line: Planned, claim: str) -> bool:
    """Whether a trial of this line of the plan counts as passed. A crash state stands for the death of the driver, with
    all that it runs, and of nothing else."""
    if trial.verdicts.get(claim) is not Status.HOLDS:
        return False
    return real(trial) or line.crash.victim is Victim.DRIVER


def real(trial: CrashTrial) -> bool:
    """Whether something really died, or slept."""
    return trial.how not in (How.CRASH_STATE, How.POWER_LOSS)


def showing(claim: str, trials: Iterable[CrashTrial]) -> list[CrashTrial]:
    """Those which may show that a claim is violated, and do: real ones; and of losses of power, those from which it was
    recovered twice at least, and came to that each time."""
    found: dict[tuple[How, tuple[Crash, ...]], list[CrashTrial]] = {}
    for trial in trials:
        found.setdefault((trial.how, trial.crashes), []).append(trial)
    return [
        trial
        for (how, _), same in found.items()
        if how is not How.CRASH_STATE and (how is not How.POWER_LOSS or len(same) > 1)
        if how is not How.POWER_LOSS or all(one.verdicts.get(claim) is Status.VIOLATED for one in same)
        for trial in same
        if trial.verdicts.get(claim) is Status.VIOLATED
    ]


def _by_line(trials: Iterable[CrashTrial]) -> dict[Planned, list[CrashTrial]]:
    found: dict[Planned, list[CrashTrial]] = {}
    for trial in trials:
        for line in dict.fromkeys(lines_of(trial)):
            found.setdefault(line, []).append(trial)
    return found


def _covered(
    line: Planned, trials: Sequence[CrashTrial], claims: Sequence[str], passed: tuple[str, ...], why_not: str
) -> Covered:
    kills = sum(map(real, trials))
    counts = {claim: Counter(trial.verdicts.get(claim, Status.UNKNOWN) for trial in trials) for claim in claims}
    verdicts = {claim: {status: n for status in Status if (n := counts[claim][status])} for claim in claims if trials}
    return Covered(line, len(trials) - kills, kills, verdicts, passed, why_not)


class _Line:
    """What the trials of one line of the plan say of one claim."""

    def __init__(self, planned: Planned, trials: Sequence[CrashTrial], claim: str, why_not: str | None) -> None:
        self.planned = planned
        self.trials = trials = [trial for trial in trials if claim not in trial.too_small]
        self.why_not = why_not
        self.violated = any(trial.verdicts.get(claim) is Status.VIOLATED for trial in trials)
        self.passed = any(passes(trial, planned, claim) for trial in trials)
        self.open = sorted({_why_open(trial, claim) for trial in _unsettled(trials, planned, claim)})

    @property
    def covered(self) -> bool:
        return self.passed and not self.open and not self.violated and self.why_not is None


def _came_to_nothing(trial: CrashTrial, claims: Terms) -> bool:
    judged = (
        trial.verdicts.get(claim, Status.UNKNOWN)
        for claim, terms in claims.items()
        if terms == trial.terms and claim not in trial.too_small
    )
    return not trial.missed and any(status is Status.UNKNOWN for status in judged)


def _unsettled(trials: Sequence[CrashTrial], line: Planned, claim: str) -> Iterator[CrashTrial]:
    """Those of a line that came to no verdict, or to one that says nothing of it."""
    struck = any(real(trial) and passes(trial, line, claim) for trial in trials)
    passed = any(passes(trial, line, claim) for trial in trials)
    for trial in trials:
        status = trial.verdicts.get(claim, Status.UNKNOWN)
        if (status is Status.UNKNOWN and not (trial.missed and struck)) or (status is Status.HOLDS and not passed):
            yield trial


def _why_open(trial: CrashTrial, claim: str) -> str:
    if trial.verdicts.get(claim) is Status.HOLDS:
        return "a crash state says nothing of the death of anything but the driver"
    return trial.reason or "no verdict was recorded"


def _verdict(
    claim: str,
    terms: str,
    lines: Sequence[_Line],
    trials: Sequence[CrashTrial],
    unjudgeable: str,
    exhausted: str,
    uncut: Sequence[Uncut],
    alike: Alike,
) -> ClaimVerdict:
    covered = sum(line.covered for line in lines)
    verdict = ClaimVerdict(claim, Status.UNKNOWN, "", covered=covered, planned=len(lines))
    if unjudgeable:
        return msgspec.structs.replace(verdict, reasons=(unjudgeable,), covered=0)
    violating = [trial for trial in trials if trial.verdicts.get(claim) is Status.VIOLATED]
    if shown := showing(claim, trials):
        return _violated(verdict, claim, shown, violating, trials, lines)
    passed = {line.planned for line in lines if line.covered}
    spared = [one for one in lines if _is_untried(one) and alike.is_spared(one.planned, passed.__contains__)]
    wanted = [line for line in lines if line not in spared]
    reasons = tuple(_reasons(wanted, len(lines), trials, violating, exhausted))
    if uncut:
        more = f"; and {len(uncut) - 5:,} more" if len(uncut) > 5 else ""
        reasons = (*reasons, f"{UNCUT}: {'; '.join(map(str, uncut[:5]))}{more}")
    if reasons:
        summary = f"{covered:,} of {_crashes(len(lines))} passed" if trials else ""
        shown_by = violating[0].folder if violating else ""
        return msgspec.structs.replace(verdict, reasons=reasons, summary=summary, shown_by=shown_by)
    return msgspec.structs.replace(
        verdict, status=Status.HOLDS, summary=_held(claim, terms, wanted, trials, len(spared))
    )


def _is_untried(line: _Line) -> bool:
    return not line.trials and line.why_not is None


def _violated(
    verdict: ClaimVerdict,
    claim: str,
    shown_by: Sequence[CrashTrial],
    violating: Sequence[CrashTrial],
    trials: Sequence[CrashTrial],
    lines: Sequence[_Line],
) -> ClaimVerdict:
    """By the schedule that shows it best: with the fewest crashes, then in most of its repeats."""
    repeats: dict[tuple[How, tuple[Crash, ...]], list[CrashTrial]] = {}
    for trial in trials:
        # With a smaller input there may be no such point, and nothing struck.
        if not trial.missed or trial.verdicts.get(claim) is Status.VIOLATED:
            repeats.setdefault((trial.how, trial.crashes), []).append(trial)
    struck = _struck(trials)

    def clarity(trial: CrashTrial) -> tuple[int, float, int]:
        same = repeats[trial.how, trial.crashes]
        shown = sum(one.verdicts.get(claim) is Status.VIOLATED for one in same)
        return struck[trial.folder], -shown / len(same), -len(same)

    best = min(shown_by, key=clarity)
    same = repeats[best.how, best.crashes]
    shown = sum(one.verdicts.get(claim) is Status.VIOLATED for one in same)
    # Where several struck in one run, it does not show which of them it took.
    shows = [trial for trial in violating if not real(trial) or struck[trial.folder] == 1]
    wrong = len({line for trial in shows for line in lines_of(trial)})
    summary = f"{schedule(best)}: violated in {shown} of {_times(len(same), best.how)}"
    if len(same) == 1:
        summary += ", which was not repeated"
    if struck[best.folder] > len(best.crashes):
        summary += f", in one run with {counted(struck[best.folder] - len(best.crashes), 'other')}"
    if wrong > 1:
        summary += f"; {wrong:,} of {_crashes(len(lines))} violate"
    if best.how is How.POWER_LOSS:
        summary += f"; {NOT_REALLY}"
    return msgspec.structs.replace(
        verdict,
        status=Status.VIOLATED,
        summary=summary,
        violated=shown,
        repeats=len(same),
        shown_by=best.folder,
    )


def _struck(trials: Iterable[CrashTrial]) -> Counter[str]:
    """How many crashes struck in each run: kills that were drawn share one. A recovery from what several crashes leave
    is one from each."""
    struck: Counter[str] = Counter()
    for trial in trials:
        struck[trial.folder] = len(trial.crashes) + (struck[trial.folder] if real(trial) else 0)
    return struck


_HOWS = {
    How.KILL: "real kill",
    How.SPLIT_BRAIN: "split brain",
    How.CRASH_STATE: "crash state",
    How.POWER_LOSS: "recovery from a loss of power",
}
_PLURALS = {How.POWER_LOSS: "recoveries from losses of power"}


def schedule(trial: CrashTrial) -> str:
    """What struck in a trial, in words."""
    split = trial.how is How.SPLIT_BRAIN
    return ", then ".join(str(Planned(crash, split)) for crash in trial.crashes) or "no crash"


def _reasons(
    lines: Sequence[_Line], total: int, trials: Sequence[CrashTrial], violating: Sequence[CrashTrial], exhausted: str
) -> Iterator[str]:
    """Why a claim that no kill violates cannot be said to hold; nothing where it can. `lines` are those of `total` that
    no others stand for."""
    if violating:
        yield _only_in_states(violating, trials)
    if not lines:
        yield NOTHING_PLANNED
    elif not trials and not any(line.why_not is not None for line in lines):
        yield f"{TOO_SMALL}{_because(exhausted)}"
    else:
        missed = [line.why_not for line in lines if line.why_not is not None]
        if missed:
            yield f"{len(missed):,} of {_crashes(total)} were not reached: {_counted(missed)}"
        rest = [line for line in lines if not line.covered and not line.violated and line.why_not is None]
        unclear = ["; ".join(line.open) for line in rest if line.trials]
        if unclear:
            yield f"{len(unclear):,} of {_crashes(total)} came to no verdict: {_counted(unclear)}"
        untried = sum(not line.trials for line in rest)
        if untried:
            yield f"{untried:,} of {_crashes(total)} were not tried{_because(exhausted)}"


def _only_in_states(violating: Sequence[CrashTrial], trials: Sequence[CrashTrial]) -> str:
    if violating[0].how is How.POWER_LOSS:
        return f"a loss of power shows a violation ({schedule(violating[0])}), and not each time that it was put back"
    kills = sum(real(trial) and any(trial.crashes == one.crashes for one in violating) for trial in trials)
    shown = dict.fromkeys(schedule(trial) for trial in violating)
    more = f", and in {len(shown) - 1:,} more" if len(shown) > 1 else ""
    tried = f"{counted(kills, 'real kill')} there did not show it" if kills else "no kill was tried there"
    return f"a crash state shows a violation ({next(iter(shown))}{more}), not confirmed by a kill: {tried}"


def _held(claim: str, terms: str, lines: Sequence[_Line], trials: Sequence[CrashTrial], spared: int) -> str:
    """`spared` is how many more were planned that others stand for."""
    held = [trial for trial in trials if trial.verdicts.get(claim) is Status.HOLDS]
    every = f"all {_crashes(len(lines))}" if len(lines) > 1 else "the one planned crash"
    if spared:
        total = len(lines) + spared
        every = f"{len(lines):,} of {_crashes(total)}, and so all that none of the others stands for,"
    text = f"{every} passed: {tried_said(held)}"
    missed = len(trials) - len(held)
    text = f"{text}; {counted(missed, 'more trial')} struck nothing" if missed else text
    return f"{text}; {NOT_REALLY}" if terms else text


def tried_said(trials: Iterable[CrashTrial]) -> str:
    """`60 crash states in 12 recoveries, 1 real kill`. In one run, several can strike; one crash state stands for one
    crash, and one recovery for all whose states it could not have told apart."""
    hows: Counter[How] = Counter()
    recoveries: dict[How, set[str]] = {}
    for trial in trials:
        hows[trial.how] += len(trial.crashes) if real(trial) else 1
        if not real(trial):
            recoveries.setdefault(trial.how, set()).add(trial.folder)
    said = []
    for how in (how for how in How if hows[how]):
        fewer = len(recoveries.get(how, ()))
        shared = f" in {counted(fewer, 'recovery', 'recoveries')}" if 0 < fewer < hows[how] else ""
        said.append(f"{_times(hows[how], how)}{shared}")
    return ", ".join(said)


def _times(number: int, how: How) -> str:
    return counted(number, _HOWS[how], _PLURALS.get(how, ""))


def _crashes(number: int) -> str:
    return counted(number, "planned crash", "planned crashes")


def _because(exhausted: str) -> str:
    return f": {exhausted}" if exhausted else ""


def _counted(reasons: Iterable[str], most: int = 5) -> str:
    """The most frequent reasons, each with how often it was given."""
    counts = Counter(reasons).most_common()
    said = [f"{reason} (× {times:,})" if times > 1 else reason for reason, times in counts[:most]]
    return "; ".join(said) + (f"; and {len(counts) - most:,} more reasons" if len(counts) > most else "")


def _bound(claim: str, draw: KillSample, plan: Sequence[Planned], trials: Sequence[CrashTrial]) -> Bound:
    """Over the sampled kills, each of which must have been drawn."""
    sampled = [trial for trial in trials if trial.sampled]
    found = Counter(trial.verdicts.get(claim, Status.UNKNOWN) for trial in sampled)
    violations, unknown = found[Status.VIOLATED], found[Status.UNKNOWN]
    bound = Bound(claim, len(sampled), violations, unknown, None, None, _why_no_bound(draw, plan, sampled))
    if bound.why_none:
        return bound
    upper = upper_bound(violations + unknown, len(sampled))
    # Of the kills that share a run, one can make all of them violate.
    sure = len({trial.folder for trial in sampled if trial.verdicts.get(claim) is Status.VIOLATED})
    return msgspec.structs.replace(bound, upper=upper, lower=lower_bound(sure, len(sampled)))


def _why_no_bound(draw: KillSample, plan: Sequence[Planned], sampled: Sequence[CrashTrial]) -> str:
    if not draw.size or not draw.places:
        return "nothing was drawn"
    if not all(0 <= place < len(plan) and not plan[place].split_brain for place in draw.places):
        return "the sample was drawn from crashes that were not planned as kills"
    # Not drawn again where it is seen at once: a size can be any number.
    if len(draw.drawn) != draw.size or KillSample.of(draw.population, draw.places, draw.size, draw.seed) != draw:
        return "what was drawn does not follow from the seed"
    wanted = Counter(plan[place].crash for place in draw.drawn)
    if any(trial.how is not How.KILL or len(trial.crashes) != 1 for trial in sampled):
        return "the sample has trials that are not one real kill each"
    done = Counter(trial.crashes[0] for trial in sampled)
    if not done <= wanted:
        return "the sample has kills that were not drawn"
    if done != wanted:
        done_of = f"{len(sampled):,} of {draw.size:,} drawn kills were finished"
        return f"only {done_of}; the verdict rests on the plan, not on them"
    return ""
