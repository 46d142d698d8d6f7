"""Bounded error of a result: a crash leaves the table of a query off by no more than is claimed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ..harness.core.guarantees import EXACTLY_ONCE, Guarantee
from ..harness.core.reasons import Reason, Why
from ..harness.core.result_bounds import BOUNDED_ERROR_OF_RESULT, PARAMETERS, Measure, ResultBound
from ..harness.core.verdicts import Anomaly, Evidence, Tally, Verdict, tally, unknown
from ..harness.core.wording import counted
from ..harness.judging.deaths import crashes_of, spared
from ..harness.judging.oracle import Case, Oracle, decide
from ..harness.judging.result_errors import ResultError, means_nothing, measure_error
from ..harness.judging.result_tables import result_tables


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """After k crashes, the table that the query has left is off from the one that it leaves without failures by no more
    than k times what the claim states: in rows that are lost or changed, in members that only one of the two has, in a
    number in the key where it differs most, or as a function of the user's says of both tables.

    A row that is there once too often is no bounded loss: there are none, beyond the duplicates that the claim states.
    Nor is, where rows are counted, one that should not be there and is in nobody's place, or a number that is none.
    What is compared is T, once the run has come to its end; what was given on the way is not. UNKNOWN where runs
    without failures disagree, where no crash struck and no more is gone than one may take, where anything is off,
    however much, though a fault took a message or a write alone and nobody has crashed, where rows without a key may be
    there twice or stand in the place of missing ones, where the bound of so many crashes would hold though all of the
    result were lost, and more is gone than one may take, and where the user's function is no distance: it gives 0 of
    tables that differ, is not finite, or changes its mind. (Ours; of schemes, Huang and Lee, "Toward High-Performance
    Distributed Stream Processing via Approximate Fault Tolerance", PVLDB 2016, bound what a failure takes in this way.)
    """
    collation = case.collation
    if collation.reexecution is not None or (collation.shape is None and not collation.incomplete):
        said = "the subject is no query: it leaves no table to measure"
        return unknown(guarantee, collation.observables, Reason(Why.NOTHING_TO_JUDGE, said))
    if collation.incomplete or collation.unjudgeable or collation.shape is None:
        return decide(case, guarantee, (), "")
    bound = ResultBound.of(guarantee)
    tables = result_tables(case.history, collation.shape, bound.column)
    if tables is None:
        said = "the table was not read at the end"
        return unknown(guarantee, collation.observables, Reason(Why.INCOMPLETE, said))
    crashes = crashes_of(case.history)
    unbound = not crashes and spared(case.history)
    error = measure_error(bound, tables)
    found = tuple(_found(case, bound, error, crashes, unbound))
    unclear = _unclear(bound, error, crashes, unbound)
    return decide(case, guarantee, found, _holds(bound, error, crashes), unclear=unclear)


def _found(case: Case, bound: ResultBound, error: ResultError, crashes: int, unbound: bool) -> Iterator[Tally]:
    """`unbound`: a fault took something, and nobody has crashed, so that no bound speaks of it."""
    collation = case.collation
    wrong = list(chain(collation.lost_state.sample, collation.phantoms.sample))
    if error.error is not None and error.error > bound.at_most * max(1, crashes) and not unbound:
        after = "" if crashes == 1 else f", after {crashes:,} crashes"
        said = f"an error of {bound.said(error.error)}, of at most {bound.said(bound.at_most)} a crash{after}"
        yield tally(Anomaly.BOUND_EXCEEDED, 1, [_with_a_row(said, wrong)])
    if error.twice > bound.duplicates:
        allowed = f", of at most {bound.duplicates:,}" if bound.duplicates else ""
        said = f"{_rows(error.twice)} there once too often{allowed}"
        twice = [*collation.duplicate_effects.sample, *collation.phantoms.sample]
        yield tally(Anomaly.DUPLICATE_EFFECT, error.twice, [_with_a_row(said, twice)])
    if error.strange:
        column = bound.measure is Measure.COLUMN
        what = f"without a number as {bound.column}" if column else "that should not be, in nobody's place"
        said = f"{_rows(error.strange)} there {what}"
        yield tally(Anomaly.PHANTOM_OUTPUT, error.strange, [_with_a_row(said, list(collation.phantoms.sample))])


def _rows(number: int) -> str:
    return "1 row is" if number == 1 else f"{number:,} rows are"


def _with_a_row(said: str, wrong: list[Evidence]) -> Evidence:
    """With the first row that is wrong, and where."""
    if not wrong:
        return Evidence(said, "table")
    first = wrong[0]
    return Evidence(f"{said}: {first.what}", first.where, first.at, first.fault)


def _unclear(bound: ResultBound, error: ResultError, crashes: int, unbound: bool) -> Reason | None:
    """Why nothing can be said though nothing was found."""
    if error.no_distance:
        return Reason(Why.NO_DISTANCE, error.no_distance)
    if why := means_nothing(bound, error, crashes):
        return Reason(Why.NOTHING_TO_JUDGE, why)
    if error.twice + error.perhaps_twice > bound.duplicates:
        doubtful = f"{_rows(error.perhaps_twice)} there once too often, or in the place of missing ones"
        return Reason(Why.AMBIGUOUS, f"{doubtful}, and the table has no key that would tell: name its key columns")
    if unbound:
        if not error.error:
            return None
        said = f"an error of {bound.said(error.error)}, and nobody has crashed"
        return Reason(Why.AMBIGUOUS, f"{said}: what a fault took beside that, no bound of a crash allows or forbids")
    if not crashes:
        return Reason(Why.NOTHING_TO_JUDGE, "no crash struck, so that there was nothing to lose")
    return None


def _holds(bound: ResultBound, error: ResultError, crashes: int) -> str:
    if error.error is None:
        return ""
    after = counted(crashes, "crash", "crashes") if crashes else "a fault of which nobody has crashed"
    said = f"an error of {bound.said(error.error)} after {after}, of at most {bound.said(bound.at_most)} a crash"
    twice = f"; {_rows(error.twice)} there once too often, as is claimed" if error.twice else ""
    unseen = f"; not looked at: {error.unseen:,} rows differ in other columns" if error.unseen else ""
    # What a function makes of them, nobody else has said.
    lost = f"; {_rows(error.missing)} lost or changed" if bound.measure is Measure.DISTANCE else ""
    keys = "1 key" if error.alone == 1 else f"{error.alone:,} keys"
    alone = f"; {keys} only in one of the two tables, which counts as 0 in the other" if error.alone else ""
    return f"{said}{lost}{alone}{twice}{unseen}"


ORACLE = Oracle(
    BOUNDED_ERROR_OF_RESULT,
    judge,
    implied_by=(EXACTLY_ONCE,),
    anomalies=(Anomaly.BOUND_EXCEEDED, Anomaly.DUPLICATE_EFFECT, Anomaly.PHANTOM_OUTPUT),
    parameters=PARAMETERS,
    sees_result=True,
)
