"""A user's own distance between two results. It is tried on tables that differ in known ways, and not believed: a
function that gives 0 of tables that differ would let any claim hold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import msgspec

from ..core.error_text import described_error
from ..core.errors import NoDistance
from ..core.result_bounds import Distance, load_distance
from .shapes import text_of
from .tables import Table, columns_of

_ADDED: Final = "\N{REPLACEMENT CHARACTER}"
"""What is added to a text to make it another one."""


@dataclass(frozen=True)
class OwnDistance:
    """By its origin, `module:attribute`."""

    origin: str
    function: Distance

    @classmethod
    def of(cls, origin: str) -> OwnDistance:
        """Raises NotImportable."""
        return cls(origin, load_distance(origin))

    def between(self, wanted: Table, found: Table) -> float:
        """As the function says. Raises NoDistance where it says what is none: of these tables, or when it is asked
        again, with the same rows in another order."""
        first = self._called(wanted, found)
        for again in (self._called(wanted, found), self._called(wanted, found, backwards=True)):
            if not math.isclose(first, again, rel_tol=1e-9, abs_tol=1e-12):
                raise self._wrong(
                    f"asked again of the same tables, whose rows have no order, it gives {again!r}, after {first!r}"
                )
        if wanted == found and first:
            raise self._wrong(f"of two equal tables it gives {first!r}, not 0")
        if wanted != found and not first:
            row = min((wanted - found) + (found - wanted))
            raise self._wrong(f"it gives 0 of tables that differ, in {_shown(row)}")
        return first

    def check(self, table: Table) -> None:
        """Raises NoDistance where it is none on tables like this one."""
        self.between(table, table)
        for probe in _probes(table):
            try:
                self._called(table, probe.table)
            except NoDistance:
                if probe.made_up:
                    # It may rightly not understand what nobody would have written.
                    continue
                raise
            try:
                self.between(table, probe.table)
            except NoDistance as error:
                raise NoDistance(f"{error} (tried on the result without failures, {probe.how})") from error

    def _called(self, wanted: Table, found: Table, *, backwards: bool = False) -> float:
        try:
            given: Any = self.function(_rows(wanted, backwards), _rows(found, backwards))
        except Exception as error:
            sizes = f"{wanted.total():,} expected rows and {found.total():,} actual ones"
            raise self._wrong(f"of {sizes} it raises {described_error(error)}") from error
        try:
            # Those of numpy and Decimals are numbers, too.
            number = math.nan if isinstance(given, bool | str | bytes) else float(given)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number) or number < 0:
            raise self._wrong(f"it gives {given!r}; an error is a number that is finite and not negative")
        return number

    def _wrong(self, why: str) -> NoDistance:
        return NoDistance(f"{self.origin} is no distance of two tables: {why}")


def _rows(table: Table, backwards: bool) -> list[dict[str, Any]]:
    """Made anew each time, for a function that changes them."""
    rows = [
        {name: plain(value) for name, value in msgspec.json.decode(row).items()} for row in sorted(table.elements())
    ]
    return rows[::-1] if backwards else rows


def plain(value: Any) -> Any:
    """What a record holds of a value of Spark's that JSON has not: a number as one of Python's, a date or an instant as
    its text. What is none of these stays as it is."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, content),) = value.items()
    match kind:
        case "$decimal":
            return Decimal(content)
        case "$float":
            return float(content)
        case "$date" | "$time" | "$timestamp" | "$timestamp_ntz" | "$interval":
            return content
        case _:
            return value


@dataclass(frozen=True)
class _Probe:
    """A table that differs from another one in a known way."""

    how: str
    table: Table
    made_up: bool = False
    """Whether it holds texts that are like no others."""


def _probes(table: Table) -> Iterator[_Probe]:
    yield _Probe("against an empty table", Counter())
    rows = sorted(table)
    if not rows:
        return
    largest = _largest_numbers(table)
    for row in dict.fromkeys((rows[0], rows[-1])):
        if table.total() > 1:
            yield _Probe(f"without {_shown(row)}", table - Counter([row]))
        columns = columns_of(row)
        for column, value in columns.items():
            other = _other_than(value, largest.get(column, 0))
            if other is not None:
                changed = table - Counter([row]) + Counter([text_of({**columns, column: other})])
                how = f"with another {column} in {_shown(row)}; what is not to count is left out by columns="
                yield _Probe(how, changed, not isinstance(other, int | float))
    others = {column: _other_than(value, largest.get(column, 0)) for column, value in columns_of(rows[0]).items()}
    if None not in others.values():
        strange = text_of(others)
        yield _Probe(f"with a row more, {_shown(strange)}", table + Counter([strange]), True)


def _largest_numbers(table: Table) -> dict[str, float]:
    """By column."""
    largest: dict[str, float] = {}
    for row in table:
        for column, value in columns_of(row).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                largest[column] = max(value, largest.get(column, value))
    return largest


def _other_than(value: Any, largest: float) -> bool | float | str | None:
    """Another value of the same type, which no row has; None where there is none to be had."""
    match value:
        case bool():
            return not value
        case int() | float():
            return largest + 1 if abs(largest) < 1e15 else None
        case str():
            return value + _ADDED
        case _:
            return None


def _shown(row: str, most: int = 200) -> str:
    return row if len(row) <= most else f"{row[:most]}..."
