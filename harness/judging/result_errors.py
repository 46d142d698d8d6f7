"""Measures how far the table that a query has left is from the one that it leaves without failures.

An error is what is lost and what is changed, in the measure that a claim states. What is there once too often is no
loss, however little was lost beside it, and is counted apart. Where rows have no key, one that is there too often can
stand in the place of one that is missing; where it takes that to say which of the two it is, it is in doubt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..core.errors import NoDistance
from ..core.result_bounds import Measure, ResultBound, columns_looked_at
from .distances import OwnDistance, plain
from .result_tables import ResultTables
from .shapes import text_of
from .tables import Table, columns_of, compare_tables, total


@dataclass(frozen=True)
class ResultError:
    """How far a table is from what it should be."""

    error: float | None
    """As the claim measures it; None where it cannot be measured so."""
    of_everything: float
    """What it would be if all of the table were lost."""
    missing: int
    """Rows that are lost or changed, whatever the claim makes of them."""
    twice: int
    """Rows that are there once too often, for sure."""
    perhaps_twice: int
    """Those that are so, or stand in the place of one that is missing."""
    strange: int
    """Rows that should not be there and are in nobody's place, as far as the measure does not count them."""
    unseen: int
    """Rows that differ, in columns at which the claim does not look."""
    no_distance: str = ""
    """Why it cannot be measured."""
    alone: int = 0
    """Keys that only one of the two tables has, where a number that is not there counts as 0."""


def measure_error(bound: ResultBound, tables: ResultTables) -> ResultError:
    """Raises NotImportable where a user's distance is not there."""
    rows = _count(tables.wanted, tables.found, tables.key)
    try:
        measured = _measured(bound, tables)
    except NoDistance as why:
        return ResultError(None, 0.0, rows.missing, rows.twice, rows.perhaps_twice, 0, 0, str(why))
    unseen = max(0, measured.unseen)
    told = rows.missing, rows.twice, rows.perhaps_twice, measured.strange, unseen
    return ResultError(measured.error, measured.of_everything, *told, alone=measured.alone)


def check_measurable(bound: ResultBound, tables: ResultTables) -> None:
    """Whether a claim can be measured by the result without failures, and means something of it. Raises NoDistance
    where not, NotImportable where a user's distance is not there."""
    if not tables.wanted:
        return  # There is nothing to judge, which is said by whoever judges it.
    if bound.measure is Measure.DISTANCE:
        OwnDistance.of(bound.distance).check(_looked_at(tables.wanted, tables.wanted, bound.columns))
    error = measure_error(bound, tables)
    why = error.no_distance or means_nothing(bound, error)
    if why:
        raise NoDistance(why)


def means_nothing(bound: ResultBound, error: ResultError, crashes: int = 1) -> str:
    """Why a bound would hold whatever was lost in so many crashes; empty where it says something, as it does where no
    more is gone than a single one may take."""
    if bound.at_most * max(1, crashes) < error.of_everything:
        return ""
    within_one = bound.at_most < error.of_everything and error.error is not None and error.error <= bound.at_most
    if within_one:
        return ""
    everything, claimed = bound.said(error.of_everything), bound.said(bound.at_most)
    times = f" for each of {crashes:,} crashes" if crashes > 1 else ""
    return (
        f"were all of the result lost, the error would be {everything}, and {claimed} are claimed at most{times}: that "
        "holds whatever is lost. Claim less, or feed the query more"
    )


def _rounded(amount: float) -> float:
    """Whoever judges again adds up in the same order, on a machine whose last digit may differ."""
    return float(f"{amount:.12g}")


@dataclass(frozen=True)
class _Measured:
    error: float
    of_everything: float
    strange: int = 0
    unseen: int = 0
    alone: int = 0


def _measured(bound: ResultBound, tables: ResultTables) -> _Measured:
    """Raises NoDistance."""
    columns = columns_looked_at(bound, tables.key)
    wanted, found = (_looked_at(tables.wanted, table, columns) for table in (tables.wanted, tables.found))
    unseen = (tables.wanted - tables.found).total() - (wanted - found).total() if columns else 0
    match bound.measure:
        case Measure.ROWS:
            key = tables.key if not columns or set(tables.key) <= set(columns) else ()
            counted = _count(wanted, found, key)
            return _Measured(counted.missing, wanted.total(), counted.strange, unseen)
        case Measure.MEMBERS:
            return _Measured((wanted - found).total() + (found - wanted).total(), wanted.total(), 0, unseen)
        case Measure.COLUMN:
            return _of_column(bound.column, wanted, found, tables.key, unseen)
        case Measure.DISTANCE:
            own = OwnDistance.of(bound.distance)
            error, everything = _rounded(own.between(wanted, found)), _rounded(own.between(wanted, Counter()))
            return _Measured(error, everything, 0, unseen)


def _looked_at(wanted: Table, table: Table, columns: Sequence[str]) -> Table:
    """Its rows with these columns alone, or all. Raises NoDistance for one that no row of the right table has."""
    if not columns:
        return table
    known = {name for row in wanted for name in columns_of(row)}
    missing = next((name for name in columns if name not in known), None)
    if wanted and missing is not None:
        raise NoDistance(f"the result has no column {missing!r}; it has: {', '.join(sorted(known)) or 'none'}")
    found: Table = Counter()
    for row, count in table.items():
        given = columns_of(row)
        found[text_of({name: given.get(name) for name in columns})] += count
    return found


def _of_column(column: str, wanted: Table, found: Table, key: Sequence[str], unseen: int) -> _Measured:
    if not key:
        raise NoDistance(
            f"{column} is measured in each key, and the table has none: name its key columns, as in "
            'Query(..., key=("user",))'
        )
    right, given = (_by_key(table, key, column) for table in (wanted, found))
    for name, numbers in right.items():
        if len(numbers) > 1:
            raise NoDistance(f"without failures the result has the key {name} twice: {', '.join(key)} is no key")
        if numbers[0] is None:
            raise NoDistance(f"{column} is no number in the key {name}; only numbers can be so much apart")
    none = (_Number(Fraction(0)),)
    apart = [
        number.apart_from(other)
        for name in right.keys() | given.keys()
        for other in right.get(name, none)
        for number in given.get(name, none)
        if number is not None and other is not None
    ]
    everything = max((one.apart_from(none[0]) for (one,) in right.values() if one is not None), default=0)
    # How far what is no number is from one, nobody can say.
    strange = sum(number is None for numbers in given.values() for number in numbers)
    return _Measured(max(apart, default=0), everything, strange, unseen, len(right.keys() ^ given.keys()))


@dataclass(frozen=True)
class _Number:
    """What a column has, exactly: among whole numbers and decimals there are neighbours that no float tells apart."""

    amount: Fraction
    rounded: bool = False
    """Whether it is a float that is no whole number, whose last digits depend on the order in which it was added up."""

    def apart_from(self, other: _Number) -> float:
        """Whole where it is a whole number, and then exact."""
        apart = abs(self.amount - other.amount)
        try:
            said = float(apart)
        except OverflowError:
            return math.inf
        if self.rounded or other.rounded:
            return _rounded(said)
        return apart.numerator if apart.denominator == 1 else said


def _by_key(table: Table, key: Sequence[str], column: str) -> dict[str, list[_Number | None]]:
    """The numbers of each key; None for what is none."""
    numbers: dict[str, list[_Number | None]] = {}
    for row, count in table.items():
        columns = columns_of(row)
        name = text_of({one: columns.get(one) for one in key})
        numbers.setdefault(name, []).extend([_number(columns.get(column))] * count)
    return numbers


def _number(given: Any) -> _Number | None:
    given = plain(given)
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal):
        return None
    try:
        finite = math.isfinite(given)
    except (OverflowError, ValueError):  # An int beyond all floats, or a Decimal that is none and signals it.
        finite = False
    if not finite:
        return None
    return _Number(Fraction(given), isinstance(given, float) and not given.is_integer())


@dataclass(frozen=True)
class _Counted:
    missing: int
    """Rows that are not there as they should be, those that are changed among them."""
    twice: int
    perhaps_twice: int
    strange: int


def _count(wanted: Table, found: Table, key: Sequence[str]) -> _Counted:
    if key:
        comparison = compare_tables(wanted, found, key)
        changed = [one for one in comparison.strange if one.instead_of is not None]
        others = total(comparison.strange) - total(changed)
        return _Counted(total(comparison.lost) + total(changed), total(comparison.doubled), 0, others)
    missing, extra = (wanted - found).total(), found - wanted
    copies = sum(count for row, count in extra.items() if row in wanted)
    others = extra.total() - copies
    changed_rows = min(missing, others)
    # What can still stand in the place of a row that is missing.
    places = missing - changed_rows
    return _Counted(missing, max(0, copies - places), min(copies, places), others - changed_rows)
