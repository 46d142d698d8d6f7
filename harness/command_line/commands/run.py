"""`streamproof run`."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from ...core.errors import ExitStatus, StreamproofError
from ..completion import complete_claim, complete_cluster, complete_profile, complete_scenario
from ..ending import Session
from ..leftovers import reap_silently
from ..options import SEED, Json
from ..output import complain, print_json, print_text, show
from ..registered import registered
from ..watching.watch import Watch, Watched

_FROM_WORST: Final = (
    ExitStatus.OWN_FAILURE,
    ExitStatus.VIOLATED,
    ExitStatus.USER_MISTAKE,
    ExitStatus.UNKNOWN,
    ExitStatus.HOLDS,
)


def run_command(
    context: typer.Context,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Names of scenarios, as `list` shows them, or module:attribute.",
            autocompletion=complete_scenario,
        ),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            help="embedded (the default: Spark processes on this machine), docker (Spark in containers) or simulated.",
            autocompletion=complete_cluster,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="What the cluster and the faults draw from.")] = SEED,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Spark's settings for a query: tuned, unless told otherwise, which notices failures in seconds, or "
            "default, Spark's own, which can take minutes.",
            autocompletion=complete_profile,
            show_default=False,
        ),
    ] = None,
    claims: Annotated[
        list[str] | None,
        typer.Option(
            "--claim",
            help="What must hold, in place of what the scenario says, as `list oracles` shows it, with its amounts "
            "(recovers-within:10s); can be given several times.",
            autocompletion=complete_claim,
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where the run is recorded, and of several runs each in a folder of its own; by default in a new "
            "folder in runs/.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Draw each run as well: report.html in its folder.")] = False,
    watched: Watched = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and start nothing.")] = False,
    as_json: Json = False,
) -> ExitStatus:
    """Run scenarios and judge them, one after the other; containers are kept up from one run to the next.

    Of several, the exit status is the worst: a claim that is violated before one that is unknown.
    """
    from ...certifying.subjects import claims_named
    from ...contracts.scenario import check_punctuations
    from ...reporting.runs import place, view_of_run
    from ...reporting.screen import report_line, run_screen
    from ...running.run import check_scenario, new_run_id, run_named
    from ..clusters import check_profile, make_cluster
    from ..documents import run_document
    from ..drawing import draw_run
    from ..planning import plan, plan_screen
    from ..progress_line import of_run

    registry = registered()
    scenarios = [registry.scenario(name) for name in names]
    if claims:
        claimed = claims_named(claims, registry.oracles)
        scenarios = [replace(named, scenario=replace(named.scenario, claims=claimed, breaks=())) for named in scenarios]
    several = len(scenarios) > 1
    chosen = make_cluster(cluster, profile)
    for named in scenarios:
        if profile is not None:
            check_profile(profile, named.scenario)
        check_scenario(named.scenario, chosen, registry)
        check_punctuations(named.scenario)
    if dry_run:
        plans = [plan(named, chosen, registry.faults, registry.oracles, seed) for named in scenarios]
        if as_json:
            print_json({"plans": [asdict(one) for one in plans]} if several else asdict(plans[0]))
        else:
            for one in plans:
                show(plan_screen(one))
        return ExitStatus.HOLDS
    if not chosen.virtual_time:
        reap_silently()
    statuses = set()
    session: Session = context.obj
    warm = chosen.kept_warm(folder) if several else contextlib.nullcontext(chosen)
    with Watch(watched, complain) as watch, warm as used:
        for number, named in enumerate(scenarios):
            run_id = new_run_id(named.name)
            path = folder or Path("runs") / run_id
            if folder is not None and several:
                path = folder / run_id
            session.begins(path)
            watch.run(path)
            with of_run(named.scenario, place(chosen.describe(named.scenario)), watch.heard) as line:
                finished = run_named(named, used, registry, seed=seed, run_id=run_id, folder=path, show=line.show)
            statuses.add(finished.judgement.exit_status)
            if as_json:
                session.judged.append(run_document(path, finished.description, finished.judgement))
            else:
                print_text("\n" if number else "")
                show(run_screen(view_of_run(finished.description, finished.history, finished.judgement, path)))
            if not report:
                continue
            try:
                drawn = draw_run(finished.description, finished.history, finished.judgement, path, registry)
            except StreamproofError as error:
                # What was judged stays judged.
                complain(f"streamproof: the page of {path} cannot be drawn: {error}")
                continue
            if as_json:
                session.judged[-1] = {**session.judged[-1], "report": str(drawn)}
            else:
                show([report_line(drawn)])
    worst = next(status for status in _FROM_WORST if status in statuses)
    if as_json:
        print_json({"runs": session.judged, "exit_status": int(worst)} if several else session.judged[0])
    return worst
