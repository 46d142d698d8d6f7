"""`streamproof certify`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from ...certifying.budget import KILLS, MINUTES
from ...core.errors import ExitStatus, NothingLeft, UserMistake
from ..completion import complete_claim, complete_cluster, complete_subject
from ..ending import INTERRUPTED, Terminated, complain_of
from ..leftovers import reap_silently
from ..options import SEED, Json, not_empty
from ..output import complain, print_json, show
from ..registered import registered
from ..watching.watch import Watch, Watched

if TYPE_CHECKING:
    from ...certifying.budget import CampaignProgress
    from ...certifying.campaign import Certified
    from ...certifying.certificate import Certificate
    from ..campaign_line import CertifyingLine


def certify_command(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="module:attribute of a function of a DataFrame, a Query, or a function without arguments that returns "
            "one; or the name of a subject that is installed.",
            autocompletion=complete_subject,
            show_default=False,
        ),
    ] = None,
    claims: Annotated[
        list[str] | None,
        typer.Option(
            "--claim",
            help="What it promises, as `list oracles` shows it, with the amounts that it states (recovers:10s); "
            "can be given several times. By default what the Query says itself.",
            autocompletion=complete_claim,
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str,
        typer.Option(
            help="embedded (Spark processes on this machine) or docker (Spark in containers).",
            autocompletion=complete_cluster,
        ),
    ] = "embedded",
    minutes: Annotated[
        float | None,
        typer.Option(
            help=f"Time for it, {MINUTES:g} unless told otherwise; what is not tried by then is said.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Trials for it; whichever is over first.", show_default=False),
    ] = None,
    kills: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"Real kills to draw at random, for the bound on how many violate; {KILLS} unless told otherwise.",
            show_default=False,
        ),
    ] = None,
    goes_on: Annotated[
        bool, typer.Option("--go-on", help="Try the rest too, once each claim is known to be violated.")
    ] = False,
    seed: Annotated[int, typer.Option(help="What the campaign draws from: its kills, above all.")] = SEED,
    mode: Annotated[
        str, typer.Option(help="Output mode of a function of a DataFrame: append (the default), update or complete.")
    ] = "",
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            help="A column that names a row of the table that its output makes; can be given several times.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        str, typer.Option(help="Columns of its input, where the events' values are JSON: 'user STRING, clicks INT'.")
    ] = "",
    spark: Annotated[
        str | None,
        typer.Option(
            help="The version of Spark that it runs on, as `streamproof spark list` shows them: 4.1.3.",
            callback=not_empty,
            show_default=False,
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="An interpreter of yours, as .venv/bin/python: it runs on the pyspark that is installed there, beside "
            "whatever else is.",
            callback=not_empty,
            show_default=False,
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:ATTRIBUTE",
            help="What it is fed: a Workload, or a function without arguments that returns one.",
            show_default=False,
        ),
    ] = None,
    victims: Annotated[
        list[str] | None,
        typer.Option(
            "--victim",
            help="What dies: driver, executor, python, node, a request to a store outside, its answer, or (disk) an "
            "operation on a file, which is refused; can be given several times. All but disk, unless told otherwise.",
            show_default=False,
        ),
    ] = None,
    recovering: Annotated[bool, typer.Option(help="Also crash during the recovery from a crash.")] = True,
    split_brain: Annotated[bool, typer.Option(help="Also let a paused driver wake up beside its successor.")] = True,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the certificate goes; by default a new folder in certificates/.", show_default=False),
    ] = None,
    continued: Annotated[
        Path | None,
        typer.Option(
            "--continue",
            metavar="FOLDER",
            help="Go on with the campaign of a certificate, or one that was interrupted: what it has tried counts. "
            "Only --minutes, --runs and --go-on are yours then.",
            show_default=False,
        ),
    ] = None,
    watched: Watched = False,
    as_json: Json = False,
) -> int:
    """Crash a query at every crash point: a certificate of what it promises, or the smallest schedule that refutes it.

    What it leaves open is UNKNOWN: a crash point that was not reached, or not tried in the time given. Ctrl-C ends it,
    prints what is known by then, and keeps it for --continue.
    """
    from ...certifying import campaign
    from ...certifying.budget import Budget
    from ...certifying.folders import check_unused, new_folder
    from ...certifying.planning import every_crash_point
    from ...certifying.subjects import (
        QueryShape,
        claims_named,
        load_subject,
        load_workload,
        on_spark,
        usual_workload,
    )
    from ..clusters import make_spark_cluster

    if minutes is not None and not 0 < minutes < float("inf"):
        raise typer.BadParameter("--minutes needs a positive number")
    if None not in (spark, python):
        raise typer.BadParameter("--spark and --python both say which Spark it runs on: give one of them")
    if continued is not None:
        _refuse_beside_continue(context)
        return _go_on(continued, minutes, runs, goes_on, watched, as_json)
    if name is None:
        raise typer.BadParameter("say what is to be certified, as module:attribute; or --continue FOLDER")
    registry = registered()
    plan = every_crash_point(*(victims or ()), recovering=recovering, split_brain=split_brain)
    limits: dict[str, Any] = {"runs": runs, "minutes": minutes, "kills": kills}
    budget = Budget(**{name: limit for name, limit in limits.items() if limit is not None}, goes_on=goes_on)
    subject = load_subject(name, registry, QueryShape(mode, tuple(keys or ()), schema))
    subject = on_spark(subject, os.path.abspath(python) if python else spark or "")
    claimed = claims_named(claims, registry.oracles) if claims else subject.claims
    if not claimed:
        raise UserMistake(f"{name} claims nothing: say what it promises, as in --claim exactly-once")
    fed = load_workload(workload) if workload is not None else subject.workload or usual_workload(subject.query)
    chosen = make_spark_cluster(cluster)
    path = new_folder(subject.query.name) if folder is None else folder
    check_unused(path)
    reap_silently()

    def carry_out(show_progress: Callable[[CampaignProgress], None]) -> Certified:
        return campaign.certify(
            subject.query,
            claimed,
            plan,
            workload=fed,
            cluster=chosen,
            registry=registry,
            budget=budget,
            seed=seed,
            folder=path,
            origin=name,
            fed_from=workload or "",
            show=show_progress,
        )

    return _carried_out(carry_out, path, watched, as_json)


_BESIDE_CONTINUE = frozenset({"continued", "minutes", "runs", "goes_on", "watched", "as_json"})


def _refuse_beside_continue(context: typer.Context) -> None:
    """Whatever else a campaign is asked for was said when it was begun."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        given = source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")
        if given and parameter.name not in _BESIDE_CONTINUE:
            said = parameter.opts[0] if parameter.opts[0].startswith("-") else "NAME"
            raise typer.BadParameter(f"{said} was said when the campaign was begun: leave it out beside --continue")


def _go_on(folder: Path, minutes: float | None, runs: int | None, goes_on: bool, watched: bool, as_json: bool) -> int:
    from ...certifying import campaign
    from ...certifying.budget import Budget
    from ...certifying.certificate import read_certificate
    from ...certifying.continuing import read_earlier, subject_of
    from ..clusters import make_spark_cluster

    registry = registered()
    earlier = read_earlier(folder)
    query, fed = subject_of(folder, earlier, registry)
    before = earlier.certificate
    limits: dict[str, Any] = {"runs": runs, "minutes": minutes, "kills": before.budget.get("kills")}
    budget = Budget(**{name: limit for name, limit in limits.items() if limit is not None}, goes_on=goes_on)
    chosen = make_spark_cluster(str(before.cluster.get("cluster")))
    reap_silently()

    def carry_out(show_progress: Callable[[CampaignProgress], None]) -> Certified:
        return campaign.go_on(
            folder, query, workload=fed, cluster=chosen, registry=registry, budget=budget, show=show_progress
        )

    try:
        return _carried_out(carry_out, folder, watched, as_json)
    except NothingLeft as error:
        complain(str(error))
        return _certified(campaign.Certified(folder, read_certificate(folder)), as_json)


@contextlib.contextmanager
def _watched_line(watched: bool, folder: Path) -> Iterator[CertifyingLine]:
    """The live line of a campaign, and its live view."""
    from ..campaign_line import CertifyingLine

    with Watch(watched, complain) as watch, CertifyingLine(sys.stderr, "starting Spark", watch.heard) as line:
        watch.campaign(folder)
        yield line


def _carried_out(
    campaign: Callable[[Callable[[CampaignProgress], None]], Certified], folder: Path, watched: bool, as_json: bool
) -> int:
    """What the campaign comes to, also where somebody interrupts it. Whoever turns that into an exit status keeps
    nothing of how to go on, which is said here."""
    try:
        with _watched_line(watched, folder) as line:
            certified = campaign(line.show)
    except KeyboardInterrupt as error:
        try:
            return _interrupted(folder, as_json)
        finally:
            complain_of(error)
    except Terminated as error:
        complain_of(error)
        raise
    return _certified(certified, as_json)


def _interrupted(folder: Path, as_json: bool) -> int:
    """Say what is known so far, as a search does."""
    from ...certifying.certificate import is_certificate
    from ...certifying.journal import is_under_way
    from ...certifying.so_far import INTERRUPTED as WHY
    from ...certifying.so_far import NO_END, so_far
    from ...certifying.telling import view_of_certificate
    from ...reporting.screen import unfinished_screen

    if not is_under_way(folder):
        if not is_certificate(folder):
            complain("nothing had been tried, and nothing is kept")
        return INTERRUPTED
    known = so_far(folder, NO_END, WHY)
    violated = known.exit_status is ExitStatus.VIOLATED
    status = int(ExitStatus.VIOLATED) if violated else INTERRUPTED
    if as_json:
        print_json({**_document(known, folder), "page": None, "interrupted": True, "exit_status": status})
    else:
        show(unfinished_screen(view_of_certificate(known, folder)))
    if violated:
        complain("interrupted; nothing is left running")
    return status


def _certified(certified: Certified, as_json: bool) -> ExitStatus:
    from ...certifying.telling import view_of_certificate
    from ...reporting.screen import certificate_screen

    if as_json:
        print_json(_document(certified.certificate, certified.folder))
    else:
        show(certificate_screen(view_of_certificate(certified.certificate, certified.folder)))
    return certified.certificate.exit_status


def _document(certificate: Certificate, folder: Path) -> dict[str, Any]:
    """What `certify --json` prints; `certificate.json` has all of it."""
    from ...certifying.certificate import LOOK
    from ...certifying.page import covered_said, not_covered_said, subject_name

    passed = Counter(claim for line in certificate.coverage for claim in line.passed)
    return {
        "folder": str(folder),
        "page": str(folder / LOOK),
        "name": certificate.name,
        "subject": subject_name(certificate),
        "cluster": certificate.cluster.get("cluster"),
        "seed": certificate.seed,
        "budget": certificate.budget,
        "verdicts": [msgspec.to_builtins(verdict) for verdict in certificate.verdicts],
        "coverage": {
            "planned": len(certificate.coverage),
            "passed": {str(claim): passed[str(claim)] for claim in certificate.claims},
            "trials": {str(how): count for how, count in Counter(trial.how for trial in certificate.trials).items()},
            "said": covered_said(certificate),
        },
        "not_covered": list(not_covered_said(certificate)),
        "bounds": [msgspec.to_builtins(bound) for bound in certificate.bounds],
        "counterexample": msgspec.to_builtins(certificate.counterexample),
        "parts": msgspec.to_builtins(certificate.parts),
        "more": msgspec.to_builtins(certificate.more),
        "durations": certificate.durations,
        "figures": certificate.figures,
        "exit_status": int(certificate.exit_status),
    }
