"""`streamproof replay`: what `explore` has saved, what `certify` has saved, or a run that was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import ExitStatus, UserMistake
from ..completion import complete_cluster
from ..ending import Session
from ..installed import installed
from ..leftovers import reap_silently
from ..options import Json
from ..output import show, write_json


def replay(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="A counterexample that `explore` or `certify` has saved, or the folder of a run.",
            show_default=False,
        ),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            help="simulated (exactly; the default for what `explore` has saved), embedded (for what `certify` "
            "has) or docker; a run's own cluster, with its sizes, is the default for its folder.",
            autocompletion=complete_cluster,
            show_default=False,
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:ATTRIBUTE",
            help="Of what `certify` has saved: what the query was fed, where `certify` was told.",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where a run on Spark is recorded; by default in runs/.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> ExitStatus:
    """Run a counterexample, or a run that was recorded, again."""
    from ...certifying.saved import is_saved

    if not file.is_dir() and is_saved(file):
        return _replay_saved(file, cluster or "embedded", workload, folder, as_json)
    if workload is not None:
        raise typer.BadParameter("--workload is for what `certify` has saved; a scenario has its own")
    if file.is_dir():
        return _replay_run(file, cluster, folder, as_json, context.obj)
    return _replay_found(file, cluster or "simulated", folder, as_json, context.obj)


def _replay_found(file: Path, cluster: str, folder: Path | None, as_json: bool, session: Session) -> ExitStatus:
    from ...exploration.counterexample import load_counterexample, scenario_of
    from ...exploration.counterexample import replay_counterexample as replay_file
    from ...running.run import new_run_id
    from ..clusters import make_cluster
    from ..exploring import end_of_replay, replay_document, replay_status
    from ..progress_line import of_run
    from ..screen import place

    registry = installed()
    found = load_counterexample(file)
    scenario = scenario_of(file, found, registry)
    chosen = make_cluster(cluster)
    if not chosen.virtual_time:
        folder = folder or Path("runs") / new_run_id(found.scenario)
        session.begins(folder)
        reap_silently()
    with of_run(scenario, place(chosen.describe(scenario))) as line:
        replayed = replay_file(file, chosen, registry=registry, folder=folder, show=line.show)
    if as_json:
        write_json(replay_document(replayed))
    else:
        show(end_of_replay(replayed))
    return replay_status(replayed)


def _replay_run(run: Path, cluster: str | None, folder: Path | None, as_json: bool, session: Session) -> ExitStatus:
    from ...certifying.certificate import is_certificate
    from ...recording.folder import read_history
    from ...running.replaying import planned_again
    from ...running.run import new_run_id, run_named
    from ..clusters import cluster_again, make_cluster
    from ..documents import run_document
    from ..progress_line import of_run
    from ..screen import end_of_run, place, run_again

    if is_certificate(run):
        raise UserMistake(f"{run} is a certificate: replay the counterexample.json in it, or one of its runs")
    registry = installed()
    description, named = planned_again(run, registry)
    chosen = cluster_again(description.cluster) if cluster is None else make_cluster(cluster)
    recorded = read_history(run).digest()
    run_id = new_run_id(named.name)
    path = folder or Path("runs") / run_id
    session.begins(path)
    if not chosen.virtual_time:
        reap_silently()
    with of_run(named.scenario, place(chosen.describe(named.scenario))) as line:
        finished = run_named(named, chosen, registry, seed=description.seed, run_id=run_id, folder=path, show=line.show)
    exact = finished.judgement.digest == recorded
    if as_json:
        again = {"replayed": str(run), "exact": exact}
        write_json({**run_document(path, finished.description, finished.judgement), **again})
    else:
        show(end_of_run(finished.description, finished.history, finished.judgement, path))
        show(run_again(run, description, chosen.name, exact))
    return finished.judgement.exit_status


def _replay_saved(file: Path, cluster: str, workload: str | None, folder: Path | None, as_json: bool) -> ExitStatus:
    from ...certifying.folders import check_unused
    from ...certifying.replaying import replay_file, status_of
    from ...certifying.subjects import load_workload
    from ...running.run import new_run_id
    from ..certifying import end_of_saved, saved_document
    from ..clusters import make_spark_cluster

    registry = installed()
    fed = None if workload is None else load_workload(workload)
    chosen = make_spark_cluster(cluster)
    path = folder or Path("runs") / new_run_id("replay")
    check_unused(path)
    reap_silently()
    judged = replay_file(file, chosen, registry, path, workload=fed)
    if as_json:
        write_json(saved_document(judged, path))
    else:
        show(end_of_saved(judged, path))
    return status_of(judged)
