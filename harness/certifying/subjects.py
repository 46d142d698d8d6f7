"""What somebody wants certified, as they hand it over: a query, a function that makes one, an entry of a table."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..contracts.claims import Claim
from ..contracts.query import Query
from ..contracts.registry import Certifiable, Registry, certifiable_in, load_object
from ..core.error_text import somebodys_code
from ..core.errors import InvalidScenario, UnknownName
from ..core.guarantees import Guarantee
from ..core.library import listed_by
from ..core.parameters import parse_claim
from ..core.workload import Workload
from ..judging.oracle import Oracle
from ..judging.shapes import OutputMode


@dataclass(frozen=True)
class QuerySubject:
    """A query, with what it claims and is fed unless somebody says otherwise."""

    query: Query
    claims: tuple[Guarantee, ...] = ()
    workload: Workload | None = None


@dataclass(frozen=True)
class QueryShape:
    """What a function of a DataFrame does not say of its output and input, and a Query does."""

    mode: str = ""
    key: tuple[str, ...] = ()
    schema: str = ""

    def query(self, transform: Any) -> Query:
        """Raises InvalidScenario, of a mode that there is not too."""
        mode = cast(OutputMode, self.mode or OutputMode.APPEND)
        return Query(transform, mode=mode, key=self.key, schema=self.schema)


def load_subject(
    name: str, registry: Registry, shape: QueryShape = QueryShape(), lenient: bool = False
) -> QuerySubject:
    """What goes by this name in the library, or what `module:attribute` leads to.

    Raises NotImportable, UnknownName, or InvalidScenario where it is nothing that can be certified.
    """
    if ":" in name:
        return as_subject(load_object(name), shape, name, lenient)
    if name not in registry.subjects:
        offered = certifiable_in(name)
        if offered is not None:
            raise InvalidScenario(
                f"{name} is a module: say what in it is to be certified, as module:attribute; there are: "
                f"{', '.join(offered) or 'none'}"
            )
        raise UnknownName("subject", name, [*sorted(registry.subjects), "module:attribute"], listed_by("subjects"))
    return as_subject(registry.subjects[name], shape, name, lenient)


def as_subject(made: Any, shape: QueryShape = QueryShape(), name: str = "", lenient: bool = False) -> QuerySubject:
    """A Query; an object with one as its `query`, and with `claims` and `workload`; a function without arguments that
    returns either; or a function of a DataFrame, of which `shape` says the rest.

    Raises InvalidScenario for anything else, and, unless `lenient`, for a shape where the Query says it itself.
    """
    name = name or getattr(made, "__qualname__", "") or repr(made)
    found = _found(made, name)
    if found is not None:
        if shape != QueryShape() and not lenient:
            raise InvalidScenario(
                f"{name} gives a Query, which says its output mode, key and schema itself: leave them out here"
            )
        return found
    return QuerySubject(shape.query(made))


def on_spark(subject: QuerySubject, spark: str) -> QuerySubject:
    """On this Spark, where one is named, whatever the query says itself. Raises InvalidScenario."""
    return replace(subject, query=replace(subject.query, spark=spark)) if spark else subject


def _found(made: Any, name: str) -> QuerySubject | None:
    """None: a function of a DataFrame."""
    known = _known(made)
    if known is not None:
        return known
    if isinstance(made, type) or not callable(made):
        what = f"the class {made.__name__}" if isinstance(made, type) else f"a {type(made).__name__}"
        raise InvalidScenario(f"{name} is {what}; {_WANTED}")
    needed = _parameters(made, name)
    if len(needed) == 1:
        return None
    if needed:
        raise InvalidScenario(f"{name} takes {len(needed)} arguments ({', '.join(needed)}); {_WANTED}")
    with somebodys_code(InvalidScenario, f"{name} does not make a Query"):
        returned = made()
    known = _known(returned)
    if known is None:
        raise InvalidScenario(f"{name} returns a {type(returned).__name__}; {_WANTED}")
    return known


_WANTED = (
    "what can be certified is a Query, a function without arguments that returns one, or a function of a DataFrame; "
    "of a part of a query (a sink's function, a StatefulProcessor) make a Query first"
)


def _known(made: Any) -> QuerySubject | None:
    """A Query, or an object that has one."""
    if isinstance(made, Query):
        return QuerySubject(made, tuple(claim.guarantee for claim in made.claims))
    if isinstance(made, type) or not isinstance(getattr(made, "query", None), Query):
        return None
    row: Certifiable = made
    return QuerySubject(row.query, _stated(row), getattr(row, "workload", None))


def _stated(row: Certifiable) -> tuple[Guarantee, ...]:
    stated = getattr(row, "claims", ()) or row.query.claims
    return tuple(claim.guarantee if isinstance(claim, Claim) else claim for claim in stated)


def claims_of(row: Certifiable) -> str:
    """What an entry of a table claims, in words."""
    return f"Claims {', '.join(map(str, _stated(row))) or 'nothing'}."


def _parameters(function: Any, name: str) -> list[str]:
    """Those that it cannot be called without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InvalidScenario(f"{name} does not say which arguments it takes ({error}); {_WANTED}") from error
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is inspect.Parameter.empty and one.kind not in rest]


def claims_named(names: Sequence[str], oracles: Mapping[str, Oracle]) -> tuple[Guarantee, ...]:
    """Claims as they are written on the command line, each once: by the names of their guarantees, with the amounts
    that they state (`recovers:10s`).

    Raises UnknownName, and InvalidScenario for amounts that a guarantee does not take, or cannot do without.
    """
    found = []
    for text in names:
        name = text.partition(":")[0]
        if name not in oracles:
            raise UnknownName("guarantee", name, sorted(oracles), listed_by("oracles"))
        found.append(parse_claim(text, name, oracles[name].parameters))
    return tuple(dict.fromkeys(found))


def usual_workload(query: Query) -> Workload:
    """What a query is fed unless somebody says otherwise: lines of a real text, enough for a batch of each kind.

    Raises InvalidScenario where the query wants something else.
    """
    if query.schema:
        raise InvalidScenario(
            f"query {query.name!r} takes events of the schema {query.schema!r}, which nobody can make up: say what "
            "it is fed, as a Workload of JSON objects"
        )
    made: Workload = load_object(_USUAL)(events=_BATCHES * query.batch_events)
    return made


_USUAL = "streamproof.scenarios.workloads:text"
_BATCHES = 6


def load_workload(origin: str) -> Workload:
    """A Workload, or what a function without arguments returns. Raises NotImportable, UnknownName, InvalidScenario."""
    made = load_object(origin)
    if callable(made) and not isinstance(made, Workload):
        with somebodys_code(InvalidScenario, f"{origin} does not make a workload"):
            made = made()
    if not isinstance(made, Workload):
        raise InvalidScenario(f"{origin} gives a {type(made).__name__}; it must be, or return, a Workload")
    return made
