"""Compares two tables that a query has made: multisets of rows, or rows that their key columns name.

A row is canonical JSON text, so that equal rows are equal texts. With a key, a difference says what it is: a key that
is missing is lost, one that is there too often is doubled, one with other columns is altered. Without, a row that
should not be there can stand in the place of one that is missing, and then nothing shows which of these it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..core.errors import InvalidHistory
from ..core.events import Value
from .shapes import keyed

Table = Counter[str]
"""Canonical row -> how often it is there."""


@dataclass(frozen=True)
class Deviation:
    """A row of which a table has too few, or too many."""

    row: str
    wanted: int
    found: int
    count: int
    """By how many it is too few or too many in this way; the rest of them is altered."""
    instead_of: str | None = None
    """The row in whose place it stands, where its key tells."""


@dataclass(frozen=True)
class Comparison:
    """How a table deviates from the one that it should be, in a fixed order."""

    lost: list[Deviation] = field(default_factory=list)
    """Rows that are missing."""
    doubled: list[Deviation] = field(default_factory=list)
    """Rows that are there too often."""
    strange: list[Deviation] = field(default_factory=list)
    """Rows that should not be there at all."""

    @property
    def other_values(self) -> bool:
        """Whether each strange row stands in the place of a right one of its key."""
        return all(deviation.instead_of is not None for deviation in self.strange)

    doubt: str = ""
    """Why a row that is missing or too many does not say whether an input was lost or counted twice."""


def table_of(rows: Mapping[str, Value]) -> Table:
    """A table as a consumer has read it. Raises InvalidHistory for what is no number of rows."""
    for row, count in rows.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise InvalidHistory(f"a table has the row {row!r} {count!r} times; run the query again")
    return Counter({row: count for row, count in rows.items() if count})


def compare_tables(wanted: Table, found: Table, key: Sequence[str] = ()) -> Comparison:
    """Raises InvalidHistory where a row has no such key columns."""
    comparison = _by_key(wanted, found, key) if key else _as_multisets(wanted, found)
    for deviations in (comparison.lost, comparison.doubled, comparison.strange):
        deviations.sort(key=lambda deviation: (_place(deviation.row), deviation.row))
    return comparison


def key_of(row: str, key: Sequence[str]) -> tuple[str, Value]:
    """A canonical row's key and what else it has. Raises InvalidHistory where it has no such columns."""
    try:
        return keyed(_columns(row), key)
    except KeyError as error:
        raise InvalidHistory(
            f"a row has no key column {error.args[0]!r}: {row}; name the columns of the table in the query's key"
        ) from error


def columns_of(row: str) -> dict[str, Any]:
    """A canonical row's columns; none where it is no object."""
    try:
        return _columns(row)
    except InvalidHistory:
        return {}


def _columns(row: str) -> dict[str, Any]:
    try:
        return _decoder.decode(row)
    except msgspec.DecodeError as error:
        raise InvalidHistory(f"a row of a table is no JSON object: {row!r}; run the query again") from error


_decoder = msgspec.json.Decoder(dict[str, Any])


def _place(row: str) -> tuple[bool, int]:
    """Rows that carry their input's number come first, in its order."""
    seq = columns_of(row).get("seq")
    return (False, seq) if type(seq) is int else (True, 0)


def _as_multisets(wanted: Table, found: Table) -> Comparison:
    missing, extra = wanted - found, found - wanted
    doubled = [_deviation(row, wanted, found, count) for row, count in extra.items() if row in wanted]
    strange = [_deviation(row, wanted, found, count) for row, count in extra.items() if row not in wanted]
    # Beside strange rows not even the table's own rows say what is lost.
    lost = [] if strange else [_deviation(row, wanted, found, count) for row, count in missing.items()]
    return Comparison(lost, doubled, strange, doubt_of(missing.total(), extra.total()))


def doubt_of(missing: int, others: int) -> str:
    """Why rows that are missing beside rows that are too many show neither a loss nor a second effect."""
    if not missing or not others:
        return ""
    return (
        f"{missing:,} rows are missing and {others:,} are there that should not be; the rows have no key, so one may "
        "stand in the place of another, and inputs may have been lost or counted twice"
    )


def _by_key(wanted: Table, found: Table, key: Sequence[str]) -> Comparison:
    comparison = Comparison()
    right, given = _grouped(wanted, key), _grouped(found, key)
    for name in sorted(right.keys() | given.keys()):
        _compare_key(comparison, right.get(name, Counter()), given.get(name, Counter()))
    return comparison


def _grouped(table: Table, key: Sequence[str]) -> dict[str, Table]:
    groups: dict[str, Table] = {}
    for row, count in table.items():
        groups.setdefault(key_of(row, key)[0], Counter())[row] = count
    return groups


def _compare_key(comparison: Comparison, wanted: Table, found: Table) -> None:
    """As many rows of a key as are missing and too many at once are altered; what is left is lost or doubled."""
    if wanted == found:
        return
    missing, extra = wanted - found, found - wanted
    # A further copy of a right row is a second one before it is an altered one.
    spare = sorted(extra.elements(), key=lambda row: (row in wanted, row))
    gone = sorted(missing.elements())
    altered = min(len(spare), len(gone))
    for (row, instead_of), count in Counter(zip(spare[:altered], gone[:altered], strict=True)).items():
        comparison.strange.append(_deviation(row, wanted, found, count, instead_of))
    for row, count in Counter(gone[altered:]).items():
        comparison.lost.append(_deviation(row, wanted, found, count))
    for row, count in Counter(spare[altered:]).items():
        (comparison.doubled if wanted else comparison.strange).append(_deviation(row, wanted, found, count))


def _deviation(row: str, wanted: Table, found: Table, count: int, instead_of: str | None = None) -> Deviation:
    return Deviation(row, wanted[row], found[row], count, instead_of)


def disagreement(one: Table, other: Table) -> Iterator[tuple[str, int, int]]:
    """The rows that two tables do not have equally often, and how often they have each."""
    for row in sorted((one - other) | (other - one)):
        yield row, one[row], other[row]


def total(deviations: Iterable[Deviation]) -> int:
    return sum(deviation.count for deviation in deviations)
