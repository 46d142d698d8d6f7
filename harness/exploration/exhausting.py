"""What an exhausted search says: a statement on every crash, and every succession of so many, in one small world; and
what it does not cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..core.verdicts import Status
from ..core.wording import counted
from ..judging.exercised import Activity, said_never, unexercised
from ..recording.records import CheckpointDurable
from .bench import BEYOND, Bench
from .plans import RUN_ON, SearchPlan, Successive, said_together
from .search import SearchBudget, SearchFindings, Succession

EXHAUSTED_EVENTS: Final = 20
EXHAUSTED_BATCHES: Final = 5
"""The input of a world that is exhausted, unless told otherwise: some hundred addresses, and at least two checkpoints
of a slice."""


PLAINLY: Final = "where a schedule was judged plainly"
PROVED: Final = 2
"""So many crashes, one after the other, are tried by a search that proves something."""


def exhausting_plans(budget: SearchBudget) -> list[SearchPlan]:
    """Every crash, then every pair; where time or schedules are limited, every three with what is left."""
    return [Successive(faults) for faults in ((1, 2) if budget == SearchBudget() else (1, 2, 3))]


@dataclass(frozen=True)
class CrashStatement:
    """What is known of so many crashes, one after the other."""

    text: str
    faults: int
    tried: int
    """Those that leave different worlds behind."""
    addresses: int | None
    """Of single crashes: how many addresses these stand for."""
    exist: int | None
    """As many; an estimate unless all were tried. None: there is no telling."""
    complete: bool
    holds: int
    violated: int
    beyond: int
    """UNKNOWN, as more fails at once than the claims tolerate."""
    run_on: int
    """Of these, how many were run on to their end; the others were left where the last crash had struck."""
    harmless: int
    """UNKNOWN, as a fault harmed nobody: all input was processed, or its target ran nowhere."""
    unknown: int
    """UNKNOWN for another reason."""
    never: str
    """What the claims rest on and was at work under none that was judged plainly; empty where all of it was."""
    untried: tuple[Activity, ...] = ()
    """The same."""

    @property
    def proves(self) -> bool:
        """Whether the claims hold under all of them, as far as these stay within what is claimed. Whether what they
        rest on was at work is asked of all together (`prove`)."""
        return self.complete and self.holds > 0 and not (self.violated or self.unknown)


def statements(bench: Bench, findings: SearchFindings) -> list[CrashStatement]:
    """One for each number of crashes that was tried, and for single ones and pairs also where there was no time for
    any: what proves something has tried these."""
    asked = (one for _, one in sorted(findings.successions.items()))
    return [_statement(bench, one) for one in asked if one.tried or not (one.exact or one.faults > PROVED)]


def prove(stated: Sequence[CrashStatement]) -> bool:
    """Whether the claims hold under every crash and every pair, and all that they rest on was at work under some."""
    proving = [one for one in stated if one.faults <= PROVED]
    untried = frozenset(Activity).intersection(*(one.untried for one in proving))
    return all(one.proves for one in proving) and not untried


def _statement(bench: Bench, one: Succession) -> CrashStatement:
    beyond = one.reasons[BEYOND]
    unknown = one.statuses[Status.UNKNOWN]
    untried = unexercised(bench.rests_on, one.exercised)
    made = CrashStatement(
        "",
        one.faults,
        one.tried,
        one.stand_for if one.faults == 1 else None,
        one.exist,
        one.exact,
        one.statuses[Status.HOLDS],
        one.statuses[Status.VIOLATED],
        beyond,
        beyond - one.cut,
        unknown - one.essential - beyond,
        one.essential,
        said_never(untried),
        untried,
    )
    return replace(made, text=f"{_which(one)} of {world_of(bench)}: {_outcome(bench, made)}")


def _which(one: Succession) -> str:
    what = "crashes" if one.faults == 1 else f"{said_together(one.faults)}s of crashes"
    if one.faults == 1 and one.exact:
        return f"all {one.stand_for:,} {what} ({one.tried:,} leave different worlds behind)"
    if one.exact:
        return f"all {one.tried:,} {what} that leave different worlds behind"
    exist = "" if one.exist is None else f" of about {one.exist:,}"
    return f"{one.tried:,}{exist} {what}"


def world_of(bench: Bench) -> str:
    """How small it is."""
    operators, replicas = len(bench.subject.topology.operator_slices), bench.subject.replicas
    checkpoints = sum(1 for _ in bench.calm_history.each(CheckpointDurable))
    each = f" with {replicas} replicas each" if replicas > 1 else ""
    slices = f"{len(bench.subject.specs)} slices, {operators} of them operators'{each}"
    parts = [slices, counted(bench.scenario.workload.events, "event")]
    return ", ".join([*parts, counted(checkpoints, "checkpoint")] if checkpoints else parts)


def _outcome(bench: Bench, made: CrashStatement) -> str:
    claims = " and ".join(map(str, bench.claims))
    if not made.tried:
        return "the time was over before"
    if made.violated:
        said = f"{claims} violated under {made.violated:,}"
    elif made.unknown:
        said = f"unknown under {made.unknown:,}"
    elif not made.holds:
        said = "nothing is known, as none harmed anybody within what is claimed"
    elif made.never:
        said = f"no violation, but {PLAINLY}, {made.never}"
    elif made.complete:
        said = f"{claims} holds"
    else:
        said = "no violation so far"
    on = f" (of these, {made.run_on:,} were run on to their end)" if made.run_on < made.beyond else ""
    aside = [f"{made.beyond:,} go beyond what is claimed{on}"] if made.beyond else []
    aside += [f"{made.harmless:,} harmed nobody"] if made.harmless else []
    return "; ".join([said, *aside])


def not_covered(seed: int) -> Sequence[str]:
    """What such a search has not looked at, in a world of this seed."""
    return (
        f"other delays than those of seed {seed}, and so other orders of messages that are in flight together on "
        "different links",
        "crashes while time passes between two addresses: a later detection, a slower restart",
        "other kinds of fault than crashes of a node: pauses, partitions, lost messages, failing disks",
        "several nodes at the same address; more crashes than are counted above",
        "an address that is passed more than once, at other times than the first",
        f"code that fails only once more has failed than is claimed, but for one in {round(1 / RUN_ON)} of the pairs "
        "that bring it about with their second crash",
        "larger inputs, other keys, other sizes of batches and intervals",
    )
