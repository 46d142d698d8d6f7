"""What an oracle is: it judges a history against one guarantee.

The oracles stand in `streamproof.oracles`, one guarantee a file. Each says in its docstring, as a definition with its
source, what it checks.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, Final, TypeVar

from ..core.error_text import described_error
from ..core.errors import InvalidScenario, StreamproofError, UnknownName
from ..core.guarantees import Amount, Guarantee
from ..core.lattice import implied, ranked
from ..core.lazily import lazily
from ..core.library import listed_by
from ..core.parameters import Parameter, check_stated, stating
from ..core.reasons import Reason, Why
from ..core.verdicts import Anomaly, Evidence, Measured, Status, Tally, Verdict, tally, unknown
from ..recording.history import History
from .collation import Collation, seen

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """What an oracle is shown. What it asks of the collation, or as an analysis, is computed when it is first asked
    for, by whichever oracle, and once."""

    history: History
    collation: Collation
    checkpoint_every: int | None = None
    """Events between two checkpoints, where the subject declares it."""
    virtual_time: bool = False
    """Whether the clock is the simulator's."""
    not_come: str = ""
    """Which planned fault a run that was cut short says nothing of; empty when there is none."""
    costed: bool = False
    """Whether work takes time on the simulator's clock, as the scenario's costs say."""
    anew: Callable[[], Collation] | None = None
    """Makes the collation once more. Oracles of a user's are shown that one, since they could change what ours judge
    by; without it, they are shown the same."""
    _known: dict[Analysis[Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _verdicts: dict[tuple[Judge, Guarantee], Verdict] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def unproven(self) -> str:
        """Why the faults cannot be said to have happened as planned; empty when each of them bit."""
        return self.collation.unproven or self.not_come

    @property
    def timeless(self) -> bool:
        """Whether a duration means nothing."""
        return self.virtual_time and not self.costed

    def verdict(self, oracle: Oracle, guarantee: Guarantee) -> Verdict:
        """What an oracle says of this history."""
        asked = (oracle.judge, guarantee)
        known = self._verdicts.get(asked)
        if known is None:
            known = self._verdicts[asked] = _asked(oracle, self, guarantee)
        return known

    @lazily
    def apart(self) -> Case:
        """The same, for the oracles of a user's: with ours it shares nothing but the history."""
        return self if self.anew is None else replace(self, collation=self.anew())

    def analysis(self, asked: Analysis[T]) -> T:
        """What an analysis finds in this history."""
        if asked not in self._known:
            self._known[asked] = asked(self)
        found: T = self._known[asked]
        return found


Analysis = Callable[[Case], T]
"""Something that oracles can ask of a history beyond its collation, as `case.analysis(latencies)`: a function of the
case, or a class that is made of one. Whoever names the same is given what was computed for the first; a lambda, which
is another each time, is computed each time. It stands in the file of the one oracle that asks for it, a user's as well
as ours, or in one of its own where several do. None is registered."""
Judge = Callable[[Case, Guarantee], Verdict]


@dataclass(frozen=True)
class Oracle:
    """A guarantee's name and how to judge it."""

    guarantee: str
    judge: Judge
    implies: tuple[str, ...] = ()
    """The next weaker guarantees."""
    implied_by: tuple[str, ...] = ()
    """The next stronger ones, as far as these do not say so themselves: a user's guarantee can stand below ours."""
    ranked: bool = False
    """Whether it is looked for when the strongest guarantee is asked for that a history is consistent with. It says
    something of what comes out, and means something without a bound."""
    anomalies: tuple[str, ...] = ()
    """What shows that it is violated."""
    parameters: tuple[Parameter, ...] = ()
    """The amounts that a claim states, in the order in which they are written."""
    on_clock: bool = False
    """Whether a bound is on a duration, which means nothing in the simulator."""
    executes: bool = False
    """Whether it can hold only of a subject that can be executed again; a query cannot."""
    sees_outputs: bool = False
    """Whether it can hold only where outputs are observed, and not just the table at the end."""
    sees_result: bool = False
    """Whether it can hold only of a query, which leaves a table in the end."""
    sees_progress: bool = False
    """Whether it can hold only where it is seen, from a failure on, when a subject takes which of its input."""

    def cannot_hold(self, executable: bool, observables: Sequence[str], progress: bool = True) -> str:
        """Why it can never hold of such a subject, whatever that does; empty where it can. `progress`: whether it is
        seen when the subject takes its input."""
        if self.executes and not executable:
            return "it speaks of slices and their orders, and a query shows neither"
        if self.sees_result and executable:
            return "it speaks of the table that a query leaves in the end, and a scheme leaves none"
        if self.sees_outputs and "outputs" not in observables:
            return "it speaks of each output, and of a sink of your own only the table at the end is seen"
        if self.sees_progress and not progress:
            return (
                "it speaks of when input is taken again, which is seen of streamproof's own source and sink alone; "
                "`recovers`, with the time, says that work goes on"
            )
        return ""

    def timed(self, guarantee: Guarantee) -> bool:
        """Whether a claim cannot be judged on virtual time."""
        return self.on_clock and guarantee.within is not None

    def claim(self, **amounts: Amount) -> Guarantee:
        """A claim of it. Raises InvalidScenario for amounts that it does not take, or cannot do without."""
        return stating(self.guarantee, amounts, self.parameters)

    def check(self, guarantee: Guarantee) -> None:
        """Raises as `claim`."""
        check_stated(guarantee, self.parameters)

    @property
    def described(self) -> dict[str, object]:
        """What a program may want to know of it."""
        return {
            "implies": list(self.implies),
            "implied_by": list(self.implied_by),
            "anomalies": list(map(str, self.anomalies)),
            "parameters": [
                {
                    "name": one.name,
                    "is": one.called,
                    "meaning": one.meaning,
                    "required": one.required,
                    "as": one.example,
                }
                for one in self.parameters
            ],
        }

    @property
    def definition(self) -> str:
        return (self.judge.__doc__ or "").strip()


def decide(
    case: Case,
    guarantee: Guarantee,
    found: Sequence[Tally],
    holds: str,
    *,
    unclear: Reason | None = None,
    goes_on: bool = False,
) -> Verdict:
    """The verdict that all oracles share: what was found violates; without it the run must have been whole, and its
    faults must have bitten, to hold.

    Where it was cut short, what had not happened could have happened later. Where it came to rest by itself before its
    input was through, nothing would have happened any more: who promises to go on has stalled. `unclear` says why
    something that is wrong cannot be shown to violate this guarantee.

    `goes_on`: a subject that comes to rest before its input is through breaks this guarantee. Whoever promises that
    nothing is lost, from a state at least, promises that all of it comes. Whoever bounds what a crash takes, or says
    that a slice may start blank, promises that it goes on: what it never takes, though it lives, is in no gap. At most
    once holds of one that does nothing, so a stall says nothing of it: what would have counted twice later was not
    seen.
    """
    collation = case.collation
    observables = collation.observables
    found = (*found, *stalled(case)) if goes_on else tuple(found)
    if found:
        return Verdict(guarantee, Status.VIOLATED, observables, ", ".join(map(str, found)), tuple(found))
    if collation.unjudgeable:
        return unknown(guarantee, observables, Reason(Why.UNJUDGEABLE, collation.unjudgeable))
    if unclear is not None:
        return unknown(guarantee, observables, unclear)
    if collation.incomplete:
        return unknown(guarantee, observables, Reason(Why.INCOMPLETE, collation.incomplete))
    if case.unproven:
        return unknown(guarantee, observables, Reason(Why.UNPROVEN, case.unproven))
    return Verdict(guarantee, Status.HOLDS, observables, holds)


def stalled(case: Case) -> tuple[Tally, ...]:
    """The stall that is proven."""
    why = case.collation.stalled
    if not why:
        return ()
    return (tally(Anomaly.STALL, 1, [Evidence(f"came to rest before its input was through: {why}", "all")]),)


EFFECTS: Final = (
    Anomaly.LOST_INPUT,
    Anomaly.DUPLICATE_EFFECT,
    Anomaly.PHANTOM_OUTPUT,
    Anomaly.WRONG_VALUE,
    Anomaly.UNFAITHFUL_SNAPSHOT,
    Anomaly.STALL,
)
"""What shows that effects are not those of each input exactly once."""


def effects(collation: Collation) -> tuple[Tally, ...]:
    """How often each was seen."""
    c = collation
    # What is missing counts, and is looked for, only once the run has come to its end.
    gone = () if c.incomplete else seen(c.lost_state, c.lost_output, c.lacking, c.altered)
    return gone + seen(c.duplicate_effects, c.phantoms, c.compensated, c.unfaithful, c.left_out)


def neither_lost_nor_doubled(case: Case) -> Reason | None:
    """Why a wrong row does not say whether an input was lost or counted twice; None where it does, or none is wrong.

    A slice's rows can be derived from what it took. A black box's can only be compared.
    """
    collation = case.collation
    if collation.doubt:
        return Reason(Why.AMBIGUOUS, collation.doubt)
    if collation.reexecution is not None or not collation.phantoms.count:
        return None
    wrong = f"{collation.phantoms.count:,} rows differ from those without failures"
    said = f"{wrong}; the subject cannot be executed again, so inputs may have been lost or counted twice"
    return Reason(Why.AMBIGUOUS, said)


def missed_states(case: Case) -> Reason | None:
    """Why it is not known whether states lack anything; None where they do, or nothing of the kind was seen."""
    missed = "" if case.collation.incomplete else case.collation.missed
    return Reason(Why.UNJUDGEABLE, missed) if missed else None


def unseen_outputs(case: Case) -> Reason | None:
    """Why nothing can be said of repeated outputs; None where they were observed."""
    if "outputs" in case.collation.observables:
        return None
    said = "only the table at the end was compared; in what steps it came about was not observed"
    return Reason(Why.NOTHING_TO_JUDGE, said)


def judge_each(case: Case, guarantees: Sequence[Guarantee], oracles: Mapping[str, Oracle]) -> list[Verdict]:
    """One verdict a guarantee. One that holds beside a weaker one that is violated is a failure of streamproof's, and
    comes out UNKNOWN, as that; by an oracle of a user's, which says itself what it implies, it is one of that. What a
    user's says of ours takes nothing from these. Raises UnknownName for a guarantee without an oracle.

    So a single claim is not judged alone: where it holds, every ranked guarantee that it implies is judged as well, and
    what these ask for is computed, but nothing else: gap recovery pays for amnesia and at-most-once, not for the merges
    and contents of precise recovery, and a claim that is violated or UNKNOWN for nothing beyond itself.
    """
    for guarantee in guarantees:
        if guarantee.name not in oracles:
            raise UnknownName("guarantee", guarantee.name, sorted(oracles), listed_by("oracles"))
    return [_consistent(case, case.verdict(oracles[one.name], one), oracles) for one in guarantees]


def _asked(oracle: Oracle, case: Case, guarantee: Guarantee) -> Verdict:
    """What an oracle says. One that raises, or gives no verdict on what it was asked, leaves its own guarantee UNKNOWN
    and no other; what is wrong with the record or with the operators, and shows only now, is wrong for all. So is what
    an oracle of a user's does to the history: InvalidScenario, since whoever is asked next would judge another one.

    What holds by an oracle of a user's holds by what `decide` goes by, too, and when it is asked again."""
    ours = _is_ours(oracle)
    before = "" if ours else _digest(case.history)
    try:
        verdict = _verdict_on(guarantee, oracle.judge(case if ours else case.apart, guarantee))
        if not ours and verdict.failed is not None:
            raise _NoVerdict(f"it says itself that it has failed ({verdict.reason})")
        if ours or verdict.status is not Status.HOLDS:
            return verdict
        again = _verdict_on(guarantee, oracle.judge(case.apart, guarantee))
        if again.status is not Status.HOLDS:
            raise _NoVerdict(
                f"asked again of the same history, it says {again.status} ({again.reason or again.summary})"
            )
        known = decide(case, guarantee, (), verdict.summary)
        return verdict if known.status is Status.HOLDS else known
    except (StreamproofError, MemoryError):
        raise
    except Exception as error:
        story = "".join(traceback.format_exception(error))
        # Where it was found out that this is no verdict says nothing; whose it is does.
        said = f"{error}{_place_of(oracle.judge)}" if isinstance(error, _NoVerdict) else described_error(error)
        reason = Reason(Why.ORACLE_FAILED, said, story, of_users=not ours)
        return unknown(guarantee, case.collation.observables, reason)
    finally:
        if before and _digest(case.history) != before:
            raise InvalidScenario(
                f"the oracle of {guarantee.name} changes the history that it is given, so nobody else can judge that; "
                "let it take a copy of what it sorts or changes"
            )


def _is_ours(oracle: Oracle) -> bool:
    return bool(getattr(oracle.judge, "__module__", "").partition(".")[0] == _OURS)


def _place_of(judge: Judge) -> str:
    """Where it is written, in words; empty where nobody knows."""
    code = getattr(inspect.unwrap(judge), "__code__", None)
    return f" ({code.co_filename}, line {code.co_firstlineno})" if isinstance(code, CodeType) else ""


def _digest(history: History) -> str:
    """Empty where nobody could change it: what is read from the disk stays there."""
    return history.digest() if isinstance(history.records, list | tuple) else ""


_OURS: Final = __name__.partition(".")[0]


def _verdict_on(guarantee: Guarantee, found: object) -> Verdict:
    """Raises _NoVerdict for what is none, or says one thing and shows another."""
    if not isinstance(found, Verdict):
        raise _NoVerdict(f"a verdict on {guarantee} was to be returned, and not {found!r}")
    if not isinstance(found.status, Status):
        raise _NoVerdict(f"a verdict has a Status, and not {found.status!r}")
    if found.guarantee != guarantee:
        raise _NoVerdict(f"a verdict on {guarantee} was to be returned, and not one on {found.guarantee}")
    shows = bool(found.anomalies), found.unknown is not None
    if shows != (found.status is Status.VIOLATED, found.status is Status.UNKNOWN):
        raise _NoVerdict(
            f"a verdict that is {found.status} was returned with {len(found.anomalies)} anomalies and "
            f"{'a' if found.unknown else 'no'} reason why it is not known; `decide` and `unknown` make whole ones"
        )
    for what, wanted, given in _parts(found):
        if not isinstance(given, wanted) or isinstance(given, bool):
            raise _NoVerdict(f"a verdict was returned with {given!r} as {what}; that is to be {_CALLED[wanted]}")
    none = next((one for one in found.anomalies if one.count < 1), None)
    if none is not None:
        raise _NoVerdict(f"a verdict was returned with an anomaly, {none.anomaly}, that was seen {none.count} times")
    return found


class _NoVerdict(Exception):
    """What an oracle returned is none on what it was asked."""


_Kinds = type[Any] | tuple[type[Any], ...]
_NUMBER: Final = (int, float)
_CALLED: Final[dict[_Kinds, str]] = {
    str: "a text",
    int: "a whole number",
    _NUMBER: "a number",
    tuple: "a tuple",
    Tally: "a Tally, as `tally` makes them",
    Evidence: "an Evidence",
    Reason: "a Reason",
    Measured: "a Measured",
}


def _parts(found: Verdict) -> Iterator[tuple[str, _Kinds, Any]]:
    """What each part of a verdict is called, what it is to be, and what it is: whoever shows or keeps a verdict relies
    on that."""
    yield "its summary", str, found.summary
    yield "its observables", tuple, found.observables
    yield from (("an observable", str, one) for one in found.observables)
    yield "its anomalies", tuple, found.anomalies
    for one in found.anomalies:
        yield "an anomaly", Tally, one
        yield "the name of an anomaly", str, one.anomaly
        yield "the count of an anomaly", int, one.count
        yield "the sample of an anomaly", tuple, one.sample
        for piece in one.sample:
            yield "a piece of evidence", Evidence, piece
            yield "what a piece of evidence says", str, piece.what
            yield "where a piece of evidence is", str, piece.where
            yield "the times of a piece of evidence", tuple, piece.at
            yield from (("a time of a piece of evidence", int, at) for at in piece.at)
            if piece.fault is not None:
                yield "the fault before a piece of evidence", int, piece.fault
    if found.unknown is not None:
        yield "why it is not known", Reason, found.unknown
    yield "what was measured", tuple, found.measured
    for measured in found.measured:
        yield "an amount that was measured", Measured, measured
        yield "how much was measured", _NUMBER, measured.amount
        yield "how much is allowed", _NUMBER, measured.allowed


def _consistent(case: Case, verdict: Verdict, oracles: Mapping[str, Oracle]) -> Verdict:
    if verdict.status is not Status.HOLDS:
        return verdict
    name = verdict.guarantee.name
    ours = _is_ours(oracles[name])
    below = implied(name, {one: oracle for one, oracle in oracles.items() if not ours or _is_ours(oracle)}) - {name}
    for weaker in (one for one, oracle in oracles.items() if one in below and oracle.ranked):
        other = case.verdict(oracles[weaker], Guarantee(weaker))
        if other.status is Status.VIOLATED:
            about = f"{name} holds, and {weaker}, which it implies, does not ({other.summary})"
            why = Reason(Why.CONTRADICTION, about) if ours else Reason(Why.ORACLE_FAILED, about, of_users=True)
            return unknown(verdict.guarantee, verdict.observables, why)
    return verdict


def strongest(case: Case, oracles: Mapping[str, Oracle]) -> list[Guarantee]:
    """The guarantees that the history is consistent with and that none of the others implies."""
    judged = judge_each(case, [Guarantee(name) for name in ranked(oracles)], oracles)
    holding = [verdict.guarantee.name for verdict in judged if verdict.status is Status.HOLDS]
    covered: set[str] = set()
    found = []
    for name in holding:
        if name not in covered:
            found.append(Guarantee(name))
            covered |= implied(name, oracles)
    return found
