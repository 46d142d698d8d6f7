"""`streamproof replay`: what `explore` has saved, what `certify` has saved, or a run that was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from ...core.errors import ExitStatus, UserMistake
from ...core.verdicts import Status, Verdict
from ..completion import complete_cluster
from ..ending import Session
from ..leftovers import reap_silently
from ..options import Json
from ..output import print_json, show
from ..progress_line import working
from ..registered import registered

if TYPE_CHECKING:
    from ...certifying.rejudging import JudgedRun
    from ...exploration.counterexample import ReplayedCounterexample

STATUSES: Final = {
    Status.VIOLATED: ExitStatus.VIOLATED,
    Status.UNKNOWN: ExitStatus.UNKNOWN,
    Status.HOLDS: ExitStatus.HOLDS,
}


def replay_command(
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
    from ...exploration.telling import view_of_replay
    from ...reporting.runs import place
    from ...reporting.screen import replay_screen
    from ...running.run import new_run_id
    from ..clusters import make_cluster
    from ..progress_line import of_run

    registry = registered()
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
        print_json(_document(replayed))
    else:
        show(replay_screen(view_of_replay(replayed)))
    return _exit_status(replayed.verdict)


def _replay_run(run: Path, cluster: str | None, folder: Path | None, as_json: bool, session: Session) -> ExitStatus:
    from ...certifying.certificate import is_certificate
    from ...recording.folder import read_history
    from ...reporting.runs import compared_again, place, view_of_run
    from ...reporting.screen import again_line, run_screen
    from ...running.replaying import planned_again
    from ...running.run import new_run_id, run_named
    from ..clusters import cluster_again, make_cluster
    from ..documents import run_document
    from ..progress_line import of_run

    if is_certificate(run):
        raise UserMistake(f"{run} is a certificate: replay the counterexample.json in it, or one of its runs")
    registry = registered()
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
        print_json({**run_document(path, finished.description, finished.judgement), **again})
    else:
        show(run_screen(view_of_run(finished.description, finished.history, finished.judgement, path)))
        show([again_line(compared_again(run, description, chosen.name, exact))])
    return finished.judgement.exit_status


def _replay_saved(file: Path, cluster: str, workload: str | None, folder: Path | None, as_json: bool) -> ExitStatus:
    from ...certifying.folders import check_unused
    from ...certifying.replaying import replay_file, status_of
    from ...certifying.subjects import load_workload
    from ...certifying.telling import view_of_saved
    from ...reporting.screen import saved_screen
    from ...running.run import new_run_id
    from ..clusters import make_spark_cluster

    registry = registered()
    fed = None if workload is None else load_workload(workload)
    chosen = make_spark_cluster(cluster)
    path = folder or Path("runs") / new_run_id("replay")
    check_unused(path)
    reap_silently()
    with working(f"replaying {file}"):
        judged = replay_file(file, chosen, registry, path, workload=fed)
    if as_json:
        print_json({**_saved_document(judged, path), "exit_status": int(status_of(judged))})
    else:
        show(saved_screen(view_of_saved(judged, path)))
    return status_of(judged)


def _exit_status(verdict: Verdict) -> ExitStatus:
    """Of one claim."""
    return verdict.failed or STATUSES[verdict.status]


def _document(replayed: ReplayedCounterexample) -> dict[str, Any]:
    """What `replay --json` prints."""
    from ...running.run import verdict_document

    found = replayed.counterexample
    return {
        "scenario": found.scenario,
        "cluster": replayed.cluster,
        "verdict": verdict_document(replayed.verdict),
        "expected": {"guarantee": str(found.claim), "anomaly": found.anomaly},
        "reproduced": replayed.reproduced,
        "exact": replayed.exact,
        "digest": replayed.judgement.digest,
        "folder": None if replayed.folder is None else str(replayed.folder),
        "exit_status": int(_exit_status(replayed.verdict)),
    }


def _saved_document(judged: JudgedRun, folder: Path) -> dict[str, Any]:
    """What `replay --json` prints of it."""
    return {
        "scenario": judged.description.scenario,
        "cluster": judged.description.cluster.get("cluster"),
        "schedule": [str(fault) for fault in judged.description.schedule],
        "verdicts": msgspec.to_builtins(judged.verdicts),
        "digest": judged.digest,
        "folder": str(folder),
    }
