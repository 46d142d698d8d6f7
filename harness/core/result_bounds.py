"""A bound on the error of a query's result: what a user claims that a crash may take from the table in the end.

It is stated in one of four measures, each of which says how far two tables are from one another:

- rows: how many rows of the right table are not there as they should be, lost or changed;
- members: how many rows one of the two tables has, and the other has not, or less often;
- column: by how much a number differs, in the key where that is most; of a key that is not there it is 0;
- distance: what a function of the user's says, `distance(expected_rows, actual_rows)`, each row a dict.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from .errors import InvalidScenario, NotImportable
from .guarantees import Amount, Guarantee
from .parameters import Parameter
from .wording import amount_said

BOUNDED_ERROR_OF_RESULT: Final = "bounded-error-of-result"
AT_MOST: Final = "at_most"
COLUMNS: Final = "columns"
DUPLICATES: Final = "duplicates"
_BETWEEN: Final = "+"
"""Between the names of columns, where they are one text."""
Distance = Callable[[list[dict[str, Any]], list[dict[str, Any]]], float]
"""Of the expected rows, and of the actual ones."""


class Measure(StrEnum):
    """How far two tables are from one another."""

    ROWS = "rows"
    MEMBERS = "members"
    COLUMN = "column"
    DISTANCE = "distance"


PARAMETERS: Final = (
    Parameter(Measure.ROWS, (int,), "how many rows a crash may lose or change"),
    Parameter(Measure.MEMBERS, (int,), "how many rows the result may have, or lack, that it should not"),
    Parameter(Measure.COLUMN, (str,), "the column whose number may differ in each key, by at_most"),
    Parameter(Measure.DISTANCE, (str,), "module:attribute of a function of expected and actual rows, at most at_most"),
    Parameter(AT_MOST, (int, float), "the bound on what column or distance gives"),
    Parameter(COLUMNS, (str,), f"what is looked at, as in user{_BETWEEN}amount; all columns, unless it is stated"),
    Parameter(DUPLICATES, (int,), "how many rows may be there once too often; none, unless it is stated"),
)


@dataclass(frozen=True)
class ResultBound:
    """What a claim states, in its one measure."""

    measure: Measure
    at_most: float
    column: str = ""
    distance: str = ""
    """`module:attribute`."""
    columns: tuple[str, ...] = ()
    """What is looked at; empty: every column."""
    duplicates: int = 0

    @classmethod
    def of(cls, guarantee: Guarantee) -> ResultBound:
        """Raises InvalidScenario for a claim that states none, or more than one."""
        stated = guarantee.stated
        measures = [one for one in Measure if one in stated]
        if len(measures) != 1:
            said = f"it states {', '.join(measures)}" if measures else "it states none"
            raise InvalidScenario(
                f"the claim {guarantee} measures the error in one way, and {said}: {', '.join(Measure)}; write "
                f"{BOUNDED_ERROR_OF_RESULT}:rows=50, or {BOUNDED_ERROR_OF_RESULT}:column=count,at_most=5"
            )
        measure = measures[0]
        numbered = measure in (Measure.ROWS, Measure.MEMBERS)
        if numbered == (AT_MOST in stated):
            needs = f"says its bound itself, so that {AT_MOST} has nothing to say" if numbered else f"needs {AT_MOST}"
            raise InvalidScenario(f"the claim {guarantee}: {measure} {needs}")
        columns = tuple(filter(None, str(stated.get(COLUMNS, "")).split(_BETWEEN)))
        if columns and measure is Measure.COLUMN:
            raise InvalidScenario(f"the claim {guarantee}: of a column nothing is looked at but that and the key")
        return cls(
            measure,
            _not_negative(guarantee, measure if numbered else AT_MOST, stated),
            str(stated.get(Measure.COLUMN, "")),
            str(stated.get(Measure.DISTANCE, "")),
            columns,
            int(_not_negative(guarantee, DUPLICATES, stated)),
        )

    def said(self, error: float) -> str:
        """So much of an error, in words."""
        number = amount_said(error)
        match self.measure:
            case Measure.COLUMN:
                return f"{number} of {self.column}"
            case Measure.DISTANCE:
                return f"{number} by {self.distance}"
            case _:
                return f"{number} {self.measure}" if error != 1 else f"{number} {self.measure.removesuffix('s')}"


def bounded_error_of_result(
    *,
    rows: int | None = None,
    members: int | None = None,
    column: str | None = None,
    distance: Distance | str | None = None,
    at_most: float | None = None,
    columns: Iterable[str] = (),
    duplicates: int = 0,
) -> Guarantee:
    """Each crash leaves the table of a query off by no more than this: by so many `rows`, lost or changed; by so many
    `members`, rows that only one of the two tables has; by `at_most` in a `column`, in each key; or by
    `at_most` as a function says, `distance(expected_rows, actual_rows)`, which Python can import by its name. With
    `columns`, no other column is looked at. A row that is there once too often is no bounded loss, beyond the
    `duplicates` that are stated. Raises InvalidScenario."""
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in (*names, *([] if column is None else [column])):
        if not isinstance(name, str) or not name or _BETWEEN in name or "," in name:
            raise InvalidScenario(
                f"{BOUNDED_ERROR_OF_RESULT}: {name!r} must be the name of a column, without '{_BETWEEN}' and ','"
            )
    stated: dict[str, Amount | None] = {
        Measure.ROWS: rows,
        Measure.MEMBERS: members,
        Measure.COLUMN: column,
        Measure.DISTANCE: origin_of(distance) if callable(distance) else distance,
        AT_MOST: at_most,
        COLUMNS: _BETWEEN.join(names) or None,
        DUPLICATES: duplicates or None,
    }
    amounts = {str(name): amount for name, amount in stated.items() if amount is not None}
    claim = Guarantee(BOUNDED_ERROR_OF_RESULT, None, tuple(amounts.items()))
    for parameter in PARAMETERS:
        if parameter.name in amounts:
            parameter.check(claim.name, amounts[parameter.name])
    ResultBound.of(claim)
    return claim


def result_bound(guarantee: Guarantee) -> ResultBound | None:
    """What a claim bounds the error of a result by, be it after a loss of power; None where it claims something else.
    Raises InvalidScenario as `ResultBound.of`."""
    claim = guarantee if guarantee.power is None else guarantee.power.of
    return ResultBound.of(claim) if claim.name == BOUNDED_ERROR_OF_RESULT else None


def measured_among(guarantees: Iterable[Guarantee]) -> bool:
    """Whether one of these is a bound on the error of a result."""
    return any(result_bound(guarantee) is not None for guarantee in guarantees)


def origin_of(function: Distance) -> str:
    """`module:attribute`. Raises InvalidScenario for what cannot be imported by it: whoever judges a record again has
    to measure by the same."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    origin = f"{module}:{name}"
    if module == "__main__" or not module or not name or "<" in name:
        raise InvalidScenario(_UNFOUND.format(what=repr(function)))
    try:
        found = load_distance(origin)
    except NotImportable as error:
        raise InvalidScenario(f"{_UNFOUND.format(what=origin)} ({error})") from error
    if found is not function:
        raise InvalidScenario(f"{_UNFOUND.format(what=origin)}: something else goes by that name")
    return origin


_UNFOUND: Final = (
    "distance={what} must be a function that Python finds by the name of its module and its own, since a certificate "
    "is judged again elsewhere: define it in a module, outside of other functions"
)


def load_distance(origin: str) -> Distance:
    """Raises NotImportable."""
    module, _, path = origin.partition(":")
    if not module or not path:
        raise NotImportable(f"{origin!r} does not name a function of two tables; write module:attribute")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise NotImportable(
            f"the function {origin}, by which a claim measures, cannot be imported ({error}); is its folder on "
            "PYTHONPATH?"
        ) from error
    if not callable(found):
        raise NotImportable(f"{origin}, by which a claim is to measure, is a {type(found).__name__}, and no function")
    function: Distance = found
    return function


def _not_negative(guarantee: Guarantee, name: str, stated: Mapping[str, Amount]) -> float:
    amount = stated.get(name, 0)
    number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if not number or not math.isfinite(float(amount)) or float(amount) < 0:  # type: ignore[arg-type]
        raise InvalidScenario(f"the claim {guarantee}: {name}={amount!r} needs a number that is not negative")
    return amount  # type: ignore[return-value]


def columns_looked_at(bound: ResultBound, key: Sequence[str]) -> tuple[str, ...]:
    """Those of a table with these key columns; empty: all."""
    return tuple(dict.fromkeys((*key, bound.column))) if bound.measure is Measure.COLUMN else bound.columns
