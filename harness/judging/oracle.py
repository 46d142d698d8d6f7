"""What an oracle is: it judges a history against one guarantee.

The oracles stand in `streamproof.oracles`, one guarantee a file. Each says in its docstring, as a definition with its
source, what it checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import UnknownName
from ..library import listed_by
from ..quantities import Duration, Events
from ..recording.history import History
from .collation import Collation
from .guarantees import STRENGTH, Guarantee, implied, promises_progress
from .verdicts import Anomaly, Evidence, Status, Tally, Verdict, tally


@dataclass(frozen=True)
class Case:
    """What an oracle is shown."""

    history: History
    collation: Collation
    checkpoint_every: int | None = None
    """Events between two checkpoints, where the subject declares it."""
    virtual_time: bool = False
    """Whether the clock is the simulator's, on which a duration means nothing."""


Judge = Callable[[Case, Guarantee], Verdict]


@dataclass(frozen=True)
class Oracle:
    """A guarantee's name and how to judge it."""

    guarantee: str
    judge: Judge
    bound: tuple[type[Duration | Events], ...] = ()
    """The kinds of bound of which a claim has to state one."""
    on_clock: bool = False
    """Whether a bound is on a duration, which means nothing in the simulator."""
    executes: bool = False
    """Whether it can hold only of a subject that can be executed again; a query cannot."""
    sees_outputs: bool = False
    """Whether it can hold only where outputs are observed, and not just the table at the end."""

    def cannot_hold(self, executable: bool, observables: Sequence[str]) -> str:
        """Why it can never hold of such a subject, whatever that does; empty where it can."""
        if self.executes and not executable:
            return "it speaks of slices and their orders, and a query shows neither"
        if self.sees_outputs and "outputs" not in observables:
            return "it speaks of each output, and of a sink of your own only the table at the end is seen"
        return ""

    def timed(self, guarantee: Guarantee) -> bool:
        """Whether a claim cannot be judged on virtual time."""
        return self.on_clock and guarantee.within is not None

    @property
    def definition(self) -> str:
        return (self.judge.__doc__ or "").strip()


def decide(
    case: Case,
    guarantee: Guarantee,
    found: Sequence[Tally],
    holds: str,
    *,
    unclear: str = "",
) -> Verdict:
    """The verdict that all oracles share: what was found violates; without it the run must have been whole, and its
    faults must have bitten, to hold.

    Where it was cut short, what had not happened could have happened later. Where it came to rest by itself before its
    input was through, nothing would have happened any more: who promises to go on has stalled. `unclear` says why
    something that is wrong cannot be shown to violate this guarantee.
    """
    collation = case.collation
    observables = collation.observables
    found = (*found, *stalled(case, guarantee))
    if found:
        return Verdict(guarantee, Status.VIOLATED, observables, ", ".join(map(str, found)), tuple(found))
    if collation.unjudgeable:
        return Verdict(guarantee, Status.UNKNOWN, observables, "", reason=collation.unjudgeable)
    if unclear:
        return Verdict(guarantee, Status.UNKNOWN, observables, "", reason=unclear)
    if collation.incomplete:
        return Verdict(guarantee, Status.UNKNOWN, observables, "", reason=collation.incomplete)
    if collation.unproven:
        return Verdict(guarantee, Status.UNKNOWN, observables, "", reason=collation.unproven)
    return Verdict(guarantee, Status.HOLDS, observables, holds)


def stalled(case: Case, guarantee: Guarantee) -> tuple[Tally, ...]:
    """The stall that is proven, for a guarantee that it breaks."""
    why = case.collation.stalled
    if not why or not promises_progress(guarantee.name):
        return ()
    return (tally(Anomaly.STALL, 1, [Evidence(f"came to rest before its input was through: {why}", "all")]),)


def lost(collation: Collation, *names: str) -> tuple[Tally, ...]:
    """Tallies of losses, which count only once the run has come to its end."""
    return () if collation.incomplete else collation.tallies(*names)


def effects(collation: Collation) -> tuple[Tally, ...]:
    """What shows that effects are not those of each input exactly once."""
    return lost(collation, "lost_state", "lost_output", "lacking", "altered") + collation.tallies(
        "duplicate_effects", "phantoms", "unfaithful"
    )


def neither_lost_nor_doubled(case: Case) -> str:
    """Why a wrong row does not say whether an input was lost or counted twice; empty where it does, or none is wrong.

    A slice's rows can be derived from what it took. A black box's can only be compared.
    """
    collation = case.collation
    if collation.doubt:
        return collation.doubt
    if collation.reexecution is not None or not collation.phantoms.count:
        return ""
    wrong = f"{collation.phantoms.count:,} rows differ from those without failures"
    return f"{wrong}; the subject cannot be executed again, so inputs may have been lost or counted twice"


def unseen_outputs(case: Case) -> str:
    """Why nothing can be said of repeated outputs; empty where they were observed."""
    if "outputs" in case.collation.observables:
        return ""
    return "only the table at the end was compared; in what steps it came about was not observed"


def judge(case: Case, guarantees: Sequence[Guarantee], oracles: Mapping[str, Oracle]) -> list[Verdict]:
    """One verdict a guarantee. One that holds beside a weaker one that is violated is a failure of streamproof's, and
    comes out UNKNOWN, as that. Raises UnknownName for a guarantee without an oracle."""
    for guarantee in guarantees:
        if guarantee.name not in oracles:
            raise UnknownName("guarantee", guarantee.name, sorted(oracles), listed_by("oracles"))
    known: dict[Guarantee, Verdict] = {}
    return [_consistent(case, _judged(case, guarantee, oracles, known), oracles, known) for guarantee in guarantees]


def _judged(
    case: Case, guarantee: Guarantee, oracles: Mapping[str, Oracle], known: dict[Guarantee, Verdict]
) -> Verdict:
    if guarantee not in known:
        known[guarantee] = oracles[guarantee.name].judge(case, guarantee)
    return known[guarantee]


def _consistent(
    case: Case, verdict: Verdict, oracles: Mapping[str, Oracle], known: dict[Guarantee, Verdict]
) -> Verdict:
    if verdict.status is not Status.HOLDS:
        return verdict
    name = verdict.guarantee.name
    for weaker in STRENGTH:
        if weaker == name or weaker not in implied(name) or weaker not in oracles:
            continue
        other = _judged(case, Guarantee(weaker), oracles, known)
        if other.status is Status.VIOLATED:
            reason = (
                f"streamproof contradicts itself: {name} holds, and {weaker}, which it implies, does not "
                f"({other.summary}). That is a failure of streamproof's: please report it, with the run's folder"
            )
            return Verdict(verdict.guarantee, Status.UNKNOWN, verdict.observables, "", reason=reason, own_failure=True)
    return verdict


def strongest(case: Case, oracles: Mapping[str, Oracle]) -> list[Guarantee]:
    """The guarantees that the history is consistent with and that none of the others implies."""
    judged = judge(case, [Guarantee(name) for name in STRENGTH if name in oracles], oracles)
    holding = [verdict.guarantee.name for verdict in judged if verdict.status is Status.HOLDS]
    covered: set[str] = set()
    found = []
    for name in holding:
        if name not in covered:
            found.append(Guarantee(name))
            covered |= implied(name)
    return found
