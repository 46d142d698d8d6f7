"""What crashes have left of error in a query's result, where a claim bounds it: of each trial, and of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

import msgspec

from ..contracts.query import Query
from ..core.errors import InvalidScenario, NoDistance
from ..core.guarantees import Guarantee
from ..core.result_bounds import Measure, ResultBound, columns_looked_at, load_distance, result_bound
from ..core.wording import amount_said
from ..judging.collation import Collation
from ..judging.deaths import crashes_of
from ..judging.result_errors import ResultError, check_measurable, means_nothing, measure_error
from ..judging.result_tables import result_tables
from ..judging.shapes import OutputShape
from ..recording.history import History
from .plan import CrashTrial

RESULT_ALONE: Final = (
    "{claim}: what the sink was given on the way, and what a consumer could have read before the end. The error is "
    "that of the table in the end{looked_at}."
)


class ErrorsLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the trials of a claim come to that bounds an error."""

    at_most: float
    """The bound, as it is claimed of each crash."""
    measure: str
    """In words, of that bound: `50 rows`."""
    crashes: int
    """Trials of one crash of which the error was measured."""
    without: int
    """Of these, those that left none."""
    median: float
    largest: float
    largest_said: str
    """In words: `37 rows`."""
    left_by: str = ""
    """The crash that left the largest."""
    folder: str = ""
    """Its run: `runs/<name>`."""
    several: int = 0
    """Crashes in a row, of the trial of several that left most of all."""
    after_several: float = 0.0
    """What these left altogether."""
    unmeasured: int = 0
    """Trials whose crashes struck, and whose error nobody knows."""


def check_bounds(query: Query, claims: Sequence[Guarantee]) -> None:
    """Refuse what could never be measured of a query, before anything starts. Raises InvalidScenario, and NotImportable
    where a user's distance is not there."""
    for claim in claims:
        bound = result_bound(claim)
        if bound is None:
            continue
        if bound.measure is Measure.COLUMN and not query.key:
            raise InvalidScenario(
                f"{claim} cannot be claimed of query {query.name!r}: {bound.column} is measured in each key, and the "
                'query names no key columns, as in Query(..., key=("user",))'
            )
        if bound.measure is Measure.DISTANCE:
            load_distance(bound.distance)


def check_measured(claims: Sequence[Guarantee], references: History, shape: OutputShape) -> None:
    """Refuse what cannot be measured of the result without failures, or would hold whatever was lost, and a user's
    function that is no distance. Raises NoDistance."""
    for claim in claims:
        bound = result_bound(claim)
        tables = None if bound is None else result_tables(references, shape, bound.column, of_reference=True)
        if bound is None or tables is None:
            continue
        try:
            check_measurable(bound, tables)
        except NoDistance as error:
            raise NoDistance(f"{claim}: {error}") from error


def errors_in(guarantees: Sequence[Guarantee], history: History, collation: Collation) -> dict[str, float]:
    """The error that a run has come to, of each claim that bounds it, by its text; none where it is not known."""
    if collation.unproven:
        return {}
    measured = _measured(guarantees, history, collation)
    return {claim: float(error.error) for claim, _, error in measured if error.error is not None}


def without_meaning(guarantees: Sequence[Guarantee], history: History, collation: Collation) -> tuple[str, ...]:
    """The claims, by their texts, that would hold of a run whatever it had lost."""
    measured, crashes = _measured(guarantees, history, collation), crashes_of(history)
    return tuple(
        claim for claim, bound, error in measured if error.error is not None and means_nothing(bound, error, crashes)
    )


def _measured(
    guarantees: Sequence[Guarantee], history: History, collation: Collation
) -> Iterator[tuple[str, ResultBound, ResultError]]:
    """Of each claim that bounds an error, where the run came to an end that can be judged."""
    shape = collation.shape
    if shape is None or collation.incomplete or collation.unjudgeable:
        return
    for guarantee in guarantees:
        bound = result_bound(guarantee)
        tables = None if bound is None else result_tables(history, shape, bound.column)
        if bound is not None and tables is not None:
            yield str(guarantee), bound, measure_error(bound, tables)


def errors_left(guarantee: Guarantee, trials: Sequence[CrashTrial]) -> ErrorsLeft | None:
    """Of the trials that are judged for a claim. None where it bounds no error."""
    bound = result_bound(guarantee)
    if bound is None:
        return None
    claim = str(guarantee)
    struck = [trial for trial in trials if not trial.missed and trial.crashes and claim not in trial.too_small]
    single = [trial for trial in struck if len(trial.crashes) == 1 and claim in trial.errors]
    in_a_row = [trial for trial in struck if len(trial.crashes) > 1 and claim in trial.errors]
    # Of those that left as much, the first.
    worst = max(single, key=lambda trial: trial.errors[claim], default=None)
    most = max(in_a_row, key=lambda trial: trial.errors[claim], default=None)
    errors = [trial.errors[claim] for trial in single]
    largest = max(errors, default=0.0)
    return ErrorsLeft(
        at_most=bound.at_most,
        measure=bound.said(bound.at_most),
        crashes=len(single),
        without=sum(not error for error in errors),
        median=median(errors) if errors else 0.0,
        largest=largest,
        largest_said=bound.said(largest),
        left_by=str(worst.crashes[0]) if worst is not None and largest else "",
        folder=worst.folder if worst is not None and largest else "",
        several=0 if most is None else len(most.crashes),
        after_several=0.0 if most is None else most.errors[claim],
        unmeasured=len(struck) - len(single) - len(in_a_row),
    )


def errors_said(left: ErrorsLeft) -> str:
    """`the largest error that a crash left: 37 rows, of at most 50 rows; median 12, 40 of 97 left none`."""
    if not left.crashes:
        return "no error was measured"
    said = f"the largest error that a crash left: {left.largest_said}, of at most {left.measure}"
    said += f"; median {amount_said(left.median)}, {left.without:,} of {left.crashes:,} left none"
    if left.several:
        said += f"; after {left.several:,} crashes in a row at most {amount_said(left.after_several)} altogether"
    return f"{said}; of {left.unmeasured:,} it is not known" if left.unmeasured else said


def not_measured(claims: Sequence[Guarantee], key: Sequence[str]) -> Iterator[str]:
    """What such claims do not look at, a sentence each."""
    for claim in claims:
        bound = result_bound(claim)
        if bound is not None:
            columns = ", ".join(columns_looked_at(bound, key))
            looked_at = f", in its columns {columns} and no other" if columns else ""
            yield RESULT_ALONE.format(claim=claim, looked_at=looked_at)


def differing_errors(trial: CrashTrial, found: Mapping[str, float]) -> Iterator[str]:
    """Where a trial does not say what its record comes to."""
    for claim in sorted(found.keys() | trial.errors.keys()):
        said, is_now = trial.errors.get(claim), found.get(claim)
        if said != is_now:
            yield (
                f"{trial.folder}: the error of {claim} is {_known(is_now)} by its record, and {_known(said)} in the "
                "certificate"
            )


def _known(error: float | None) -> str:
    return "not known" if error is None else amount_said(error)
