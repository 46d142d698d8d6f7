"""`streamproof upgrade`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from ...core.errors import ExitStatus, InvalidScenario, UnknownName
from ...core.library import listed_by
from ..completion import complete_basis, complete_claim, complete_upgrade
from ..ending import INTERRUPTED, Terminated, complain_of
from ..leftovers import reap_silently
from ..options import SEED, Json, not_empty
from ..output import complain, print_json, show
from ..registered import registered

if TYPE_CHECKING:
    from rich.text import Text

    from ...certifying.subjects import QueryShape
    from ...core.workload import Workload
    from ...upgrading.record import UpgradeRecord
    from ...upgrading.request import UpgradeSide


def upgrade_command(
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="The version that runs: module:attribute, as for `certify`, or the name of a subject; or, alone, the "
            "name of a pair of the library (`list upgrades`).",
            autocompletion=complete_upgrade,
            show_default=False,
        ),
    ],
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="NEW",
            help="The version that goes on. It can be the same as OLD, with other settings, or on another Spark.",
            autocompletion=complete_upgrade,
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="What NEW must come to: the table that it makes of `all` input (the default), or what it makes of the "
            "input `since` the change.",
            autocompletion=complete_basis,
            show_default=False,
        ),
    ] = None,
    and_back: Annotated[
        bool,
        typer.Option("--and-back", help="Then let OLD go on from the states that NEW leaves, which went on from OLD."),
    ] = False,
    from_spark: Annotated[
        str | None,
        typer.Option(
            help="The Spark that OLD runs on: a version, or the path of an interpreter.",
            callback=not_empty,
            show_default=False,
        ),
    ] = None,
    to_spark: Annotated[
        str | None, typer.Option(help="The Spark that NEW runs on.", callback=not_empty, show_default=False)
    ] = None,
    from_settings: Annotated[
        list[str] | None,
        typer.Option(
            "--from-set",
            metavar="NAME=VALUE",
            help="A setting of Spark's for OLD; can be given several times.",
            show_default=False,
        ),
    ] = None,
    to_settings: Annotated[
        list[str] | None,
        typer.Option("--to-set", metavar="NAME=VALUE", help="A setting of Spark's for NEW.", show_default=False),
    ] = None,
    claims: Annotated[
        list[str] | None,
        typer.Option(
            "--claim",
            help="What must hold of the table across the change; exactly-once, where neither this nor NEW says it.",
            autocompletion=complete_claim,
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Time for trying states, each way, and OLD beside; 10 unless told otherwise.", show_default=False
        ),
    ] = None,
    states: Annotated[
        int | None, typer.Option(min=1, help="States to try, each way; all there is time for.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="What the order of the states is drawn from.")] = SEED,
    mode: Annotated[
        str, typer.Option(help="Output mode of functions of a DataFrame: append (the default), update or complete.")
    ] = "",
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", help="A column that names a row of the table, for functions.", show_default=False),
    ] = None,
    schema: Annotated[str, typer.Option(help="Columns of the input, for functions: 'user STRING, clicks INT'.")] = "",
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:ATTRIBUTE",
            help="What both are fed: a Workload, or a function without arguments that returns one.",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the record goes; by default a new folder in upgrades/.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Change a query under its checkpoint: what becomes of NEW, from every state that a crash of OLD leaves.

    It continues, is refused, is silently wrong, or falls into a crash loop. Exit status: 0 it continues from each, 1 it
    is silently wrong or in a crash loop where OLD is not, or what it leaves behind stops OLD; 2 it is refused, or not
    all is known. Ctrl-C: what was found by then is told and kept, with 1 as above, else 130.
    """
    from rich.text import Text

    from ...certifying.subjects import QueryShape, claims_named, load_workload, usual_workload
    from ...upgrading.ends import UpgradeInterrupted
    from ...upgrading.outcomes import Basis
    from ...upgrading.request import MINUTES, UpgradeRequest
    from ...upgrading.upgrade import upgrade
    from ..campaign_line import CertifyingLine

    if minutes is not None and not 0 < minutes < float("inf"):
        raise typer.BadParameter("--minutes needs a positive number")
    if reference is not None and reference not in list(Basis):
        raise typer.BadParameter(f"--reference is one of: {', '.join(Basis)}")
    registry = registered()
    pair = _loaded(old, new, QueryShape(mode, tuple(keys or ()), schema))
    sides = (
        _as_asked(pair.old, from_spark, from_settings),
        _as_asked(pair.new, to_spark, to_settings),
    )
    fed = pair.workload if workload is None else load_workload(workload)
    basis = Basis(reference or pair.basis)
    request = UpgradeRequest(
        *sides,
        workload=fed or usual_workload(sides[0].query),
        registry=registry,
        claims=claims_named(claims, registry.oracles) if claims else (),
        basis=basis,
        and_back=and_back,
        minutes=MINUTES if minutes is None else minutes,
        states=states,
        seed=seed,
    )
    reap_silently()
    interrupted = False
    try:
        with CertifyingLine(sys.stderr, "starting Spark") as line:
            path, record = upgrade(request, folder, line.show)
    except UpgradeInterrupted as error:
        path, record, interrupted = error.path, error.record, True
    except (KeyboardInterrupt, Terminated) as error:
        complain_of(error)
        raise
    violated = record.exit_status is ExitStatus.VIOLATED
    status = INTERRUPTED if interrupted and not violated else int(record.exit_status)
    if as_json:
        document = upgrade_document(record, path, status)
        print_json({**document, "interrupted": True} if interrupted else document)
    else:
        show(upgrade_screen(record, path))
        as_it_is = basis == pair.basis and not (claims or workload or from_settings or to_settings)
        if said := _expected(pair, sides) if as_it_is else "":
            show([Text(f"  expected of this pair, where something had been committed: {said}")])
    if interrupted and violated:
        complain("interrupted; nothing is left running")
    return status


@dataclass(frozen=True)
class _Pair:
    old: UpgradeSide
    new: UpgradeSide
    workload: Workload | None
    basis: str = "all"
    expected_on: Callable[[str], str | None] = lambda version: None


def _expected(pair: _Pair, sides: Sequence[UpgradeSide]) -> str:
    """With the Spark that it is expected on; empty where nobody knows, as of a change of Spark beside."""
    from ...install.spark_choice import chosen_version

    old, new = (chosen_version(side.query.spark) for side in sides)
    said = pair.expected_on(new) if old == new else None
    return f"{said}, on Spark {new}" if said else ""


def _loaded(old: str, new: str | None, shape: QueryShape) -> _Pair:
    """Both versions, by their names, or a pair of the library. Raises a UserMistake."""
    from ...certifying.subjects import QueryShape, load_subject
    from ...upgrading.namesakes import require_no_namesakes
    from ...upgrading.request import UpgradeSide

    registry = registered()
    if new is not None:
        path = list(sys.path)
        before, after = (load_subject(name, registry, shape) for name in (old, new))
        require_no_namesakes(path)
        return _Pair(UpgradeSide(before.query, old), UpgradeSide(after.query, new), before.workload or after.workload)
    if old not in registry.upgrades:
        raise UnknownName(
            "pair of versions", old, [*sorted(registry.upgrades), "OLD NEW, both as module:attribute"], UPGRADES
        )
    if shape != QueryShape():
        raise InvalidScenario(
            f"{old} is a pair of versions that say their output mode, key and schema themselves: leave them out here"
        )
    found = registry.upgrades[old]
    sides = UpgradeSide(found.old, old), UpgradeSide(found.new, old)
    return _Pair(*sides, found.workload, found.basis, found.expected_on)


UPGRADES = listed_by("upgrades")


def _as_asked(side: UpgradeSide, spark: str | None, settings: Sequence[str] | None) -> UpgradeSide:
    """On that Spark, with those settings. Raises BadParameter, and what a Query does."""
    given = dict(_setting(one) for one in settings or ())
    query = replace(side.query, settings={**side.query.settings, **given})
    if spark:
        query = replace(query, spark=os.path.abspath(spark) if os.sep in spark else spark)
    return replace(side, query=query)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise typer.BadParameter(f"{text!r} is no setting of Spark's: write it as spark.sql.shuffle.partitions=8")
    return name, value


def upgrade_screen(record: UpgradeRecord, folder: Path, differences: Sequence[str] = ()) -> Iterator[Text]:
    """One line for each outcome, the worst first, and what it rests on."""
    from rich.text import Text

    from ...core.verdicts import Status
    from ...core.wording import counted
    from ...upgrading.outcomes import Way
    from ...upgrading.telling import caveats, outcome_lines, tried_of

    styles = {Status.HOLDS: "bold green", Status.VIOLATED: "bold red", Status.UNKNOWN: "bold yellow"}
    old, new = (f"{side.name} on Spark {side.spark}" for side in (record.old, record.new))
    yield Text.assemble((f"{old} -> {new}", "bold"), f"     {'; '.join(tried_of(record))}")
    yield Text(f"  differ in   {', '.join(record.differ_in) or 'nothing that they say of themselves'}")
    yield Text(f"  reference   what the version that goes on makes of {_REFERENCES[record.basis]}")
    yield Text()
    if record.unjudgeable:
        yield Text.assemble(("  UNKNOWN", "bold yellow"), f"   {record.unjudgeable}")
    for line in outcome_lines(record):
        way = "" if line.way is Way.UPGRADE else "back: "
        many = f"{counted(line.states, 'state')}, {counted(line.points, 'crash point')}"
        yield Text.assemble(f"  {way}", (f"{line.outcome:<15}", styles[line.status]), f"{many}")
        if line.said:
            yield Text(f"      {line.said}")
        yield from (Text(f"        {one}") for one in line.more)
        yield Text(f"      first: {line.first}     {line.folder}", "dim")
    yield Text()
    for said in caveats(record):
        yield Text(f"  {said}", "yellow")
    yield from (Text(f"  {one}", "bold red") for one in differences)
    yield Text(f"  record {folder}")


_REFERENCES = {"all": "all input, alone", "since": "the input since the change, alone"}


def upgrade_document(
    record: UpgradeRecord, folder: Path, status: int, differences: Sequence[str] = ()
) -> dict[str, Any]:
    """What `--json` prints; `upgrade.json` has all of it."""
    from ...upgrading.telling import caveats, outcome_lines, states_tried

    return {
        "folder": str(folder),
        "name": record.name,
        "old": msgspec.to_builtins(record.old),
        "new": msgspec.to_builtins(record.new),
        "reference": str(record.basis),
        "outcomes": [msgspec.to_builtins(line) for line in outcome_lines(record)],
        "states": states_tried(record),
        "points": dict(record.points),
        "cut_short": record.cut_short,
        "not_tried": list(record.not_tried),
        "caveats": list(caveats(record)),
        "unjudgeable": record.unjudgeable,
        "same_table": record.same_table,
        "durations": record.durations,
        "differences": list(differences),
        "exit_status": int(status),
    }
