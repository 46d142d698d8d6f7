"""The command line: `streamproof doctor | list | run | certify | explore | replay | judge | reap`.

Every command ends in an `ExitStatus`. What a user did wrong is said in one message on stderr, without a traceback; of a
mistake of ours the traceback goes into a file. With `--json`, stdout carries one JSON document and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console

from ..certifying.budget import KILLS, MINUTES
from ..core.errors import (
    ExitStatus,
    NothingLeft,
    RunFolderInUse,
    StorageFailed,
    StreamproofError,
    UnknownName,
    UserMistake,
)
from ..core.library import LISTS

if TYPE_CHECKING:
    from rich.text import Text

    from ..certifying.campaign import Certified
    from ..contracts.registry import Registry
    from ..contracts.scenario import Scenario

INTERRUPTED: Final = 130
AT_ONCE: Final = ("scenarios", "schemes", "faults", "oracles")
"""What `list` shows unless asked for one kind. Subjects import Spark, and mutants are broken on purpose."""
SEED: Final = 7
SCHEDULES: Final = 1_000
_FROM_WORST: Final = (ExitStatus.VIOLATED, ExitStatus.UNKNOWN, ExitStatus.HOLDS)


@dataclass
class _Session:
    """What the end of a command has to know of its course."""

    folder: Path | None = None
    """That of the run which has begun."""
    judged: list[Any] = field(default_factory=list)
    """With --json, the documents of the runs before it."""


app = typer.Typer(
    name="streamproof",
    help="Proves, or refutes, what a stream processor promises about failure.",
    epilog="Exit status: 0 all claims hold, 1 one is violated, 2 none is violated and one is unknown, "
    "3 a mistake in what was asked for, 4 a failure of streamproof itself.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


# What arguments can be completed to


def _complete_scenario(incomplete: str) -> list[str]:
    return [name for name in _registry().scenarios if name.startswith(incomplete)]


def _complete_cluster(incomplete: str) -> list[str]:
    from .clusters import CLUSTERS

    return [name for name in CLUSTERS if name.startswith(incomplete)]


def _complete_profile(incomplete: str) -> list[str]:
    from .clusters import QUERY_PROFILES

    return [name for name in QUERY_PROFILES if name.startswith(incomplete)]


def _complete_subject(incomplete: str) -> list[str]:
    return [name for name in _registry().subjects if name.startswith(incomplete)]


def _complete_claim(incomplete: str) -> list[str]:
    return [name for name in _registry().oracles if name.startswith(incomplete)]


def _complete_kind(incomplete: str) -> list[str]:
    return [kind for kind in LISTS if kind.startswith(incomplete)]


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        _write(f"streamproof {version('streamproof')}\n")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _streamproof(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Proves, or refutes, what a stream processor promises about failure."""
    if context.invoked_subcommand is None:
        _write(context.get_help() + "\n")
        # Nothing was asked for, so that nothing can be said to hold: a script that has lost its command must not pass.
        raise typer.Exit(ExitStatus.USER_MISTAKE)


@app.command()
def doctor(as_json: Json = False) -> ExitStatus:
    """Show what this machine can run, and the command that adds the rest."""
    from .doctor import diagnose
    from .screen import diagnosis

    found = diagnose()
    if as_json:
        _write_json(
            {
                **asdict(found),
                "embedded": found.embedded,
                "simulated": True,
                "docker": found.docker,
                "commands": found.commands,
                "docker_commands": found.docker_commands,
            }
        )
    else:
        _show(diagnosis(found))
    return ExitStatus.HOLDS if found.embedded else ExitStatus.USER_MISTAKE


@app.command("list")
def list_(
    kind: Annotated[
        str | None, typer.Argument(help="One of: " + ", ".join(LISTS) + ".", autocompletion=_complete_kind)
    ] = None,
    as_json: Json = False,
) -> ExitStatus:
    """List the scenarios, schemes, faults and oracles that are installed; subjects and mutants when asked for."""
    from ..certifying.subjects import claims_of
    from .screen import first_sentence, library

    if kind is not None and kind not in LISTS:
        raise UnknownName("list", kind, list(LISTS))
    registry = _registry()
    makers = {
        "scenarios": lambda: {entry.name: entry.summary for entry in registry.scenarios.values()},
        "schemes": lambda: {entry.name: entry.summary for entry in registry.schemes.values()},
        "faults": lambda: {fault.name: fault.breaks for fault in registry.faults.values()},
        "oracles": lambda: {oracle.guarantee: oracle.definition for oracle in registry.oracles.values()},
        "subjects": lambda: {name: claims_of(subject) for name, subject in registry.subjects.items()},
        "mutants": lambda: {mutant.name: f"Breaks: {mutant.breaks}." for mutant in registry.mutants.values()},
    }
    found = {
        name: {key: first_sentence(text) for key, text in makers[name]().items()}
        for name in LISTS
        if kind == name or (kind is None and name in AT_ONCE)
    }
    if as_json:
        more = {name: oracle.described for name, oracle in registry.oracles.items()} if "oracles" in found else {}
        _write_json(
            {
                k: [{"name": n, "summary": s, **(more[n] if k == "oracles" else {})} for n, s in names.items()]
                for k, names in found.items()
            }
        )
    else:
        _show(library(found))
    return ExitStatus.HOLDS


@app.command()
def run(
    context: typer.Context,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Names of scenarios, as `list` shows them, or module:attribute.",
            autocompletion=_complete_scenario,
        ),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            help="embedded (the default: Spark processes on this machine), docker (Spark in containers) or simulated.",
            autocompletion=_complete_cluster,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="What the cluster and the faults draw from.")] = SEED,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Spark's settings for a query: tuned, unless told otherwise, which notices failures in seconds, or "
            "default, Spark's own, which can take minutes.",
            autocompletion=_complete_profile,
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and start nothing.")] = False,
    as_json: Json = False,
) -> ExitStatus:
    """Run scenarios and judge them, one after the other; containers are kept up from one run to the next.

    Of several, the exit status is the worst: a claim that is violated before one that is unknown.
    """
    from ..running.run import check_scenario, new_run_id, run_named
    from .clusters import check_profile, make_cluster
    from .planning import plan
    from .screen import end_of_run, place, planned

    registry = _registry()
    scenarios = [registry.scenario(name) for name in names]
    several = len(scenarios) > 1
    chosen = make_cluster(cluster, profile)
    for named in scenarios:
        if profile is not None:
            check_profile(profile, named.scenario)
        check_scenario(named.scenario, chosen, registry)
    if dry_run:
        plans = [plan(named, chosen, registry.faults, registry.oracles, seed) for named in scenarios]
        if as_json:
            _write_json({"plans": [asdict(one) for one in plans]} if several else asdict(plans[0]))
        else:
            for one in plans:
                _show(planned(one))
        return ExitStatus.HOLDS
    if not chosen.virtual_time:
        _reap_silently()
    statuses = set()
    session: _Session = context.obj
    with chosen.kept_warm(folder) if several else contextlib.nullcontext(chosen) as used:
        for number, named in enumerate(scenarios):
            run_id = new_run_id(named.name)
            path = folder or Path("runs") / run_id
            if folder is not None and several:
                path = folder / run_id
            session.folder = None if (path / "scenario.json").exists() else path
            with _progress(named.scenario, place(chosen.describe(named.scenario))) as line:
                finished = run_named(named, used, registry, seed=seed, run_id=run_id, folder=path, show=line.show)
            statuses.add(finished.judgement.exit_status)
            if as_json:
                session.judged.append(_judged(path, finished.description, finished.judgement))
            else:
                _write("\n" if number else "")
                _show(end_of_run(finished.description, finished.history, finished.judgement, path))
    worst = next(status for status in _FROM_WORST if status in statuses)
    if as_json:
        _write_json({"runs": session.judged, "exit_status": int(worst)} if several else session.judged[0])
    return worst


@app.command()
def certify(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="module:attribute of a function of a DataFrame, a Query, or a function without arguments that returns "
            "one; or the name of a subject that is installed.",
            autocompletion=_complete_subject,
            show_default=False,
        ),
    ] = None,
    claims: Annotated[
        list[str] | None,
        typer.Option(
            "--claim",
            help="What it promises, as `list oracles` shows it, with the amounts that it states (recovers-within:10s); "
            "can be given several times. By default what the Query says itself.",
            autocompletion=_complete_claim,
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str,
        typer.Option(
            help="embedded (Spark processes on this machine) or docker (Spark in containers).",
            autocompletion=_complete_cluster,
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
            help="What dies: driver, executor, python, node, or the answer of a store outside; can be given several "
            "times. All, unless told otherwise.",
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
    as_json: Json = False,
) -> ExitStatus:
    """Crash a query at every crash point: a certificate of what it promises, or the smallest schedule that refutes it.

    What it leaves open is UNKNOWN: a crash point that was not reached, or not tried in the time given.
    """
    from ..certifying import campaign
    from ..certifying.budget import Budget
    from ..certifying.folders import check_unused, new_folder
    from ..certifying.planning import every_crash_point
    from ..certifying.subjects import Shape, claims_named, load_subject, load_workload, usual_workload
    from .certifying import CertifyingLine
    from .clusters import make_spark_cluster

    if minutes is not None and not 0 < minutes < float("inf"):
        raise typer.BadParameter("--minutes needs a positive number")
    if continued is not None:
        _refuse_beside_continue(context)
        return _go_on(continued, minutes, runs, goes_on, as_json)
    if name is None:
        raise typer.BadParameter("say what is to be certified, as module:attribute; or --continue FOLDER")
    registry = _registry()
    plan = every_crash_point(*(victims or ()), recovering=recovering, split_brain=split_brain)
    limits: dict[str, Any] = {"runs": runs, "minutes": minutes, "kills": kills}
    budget = Budget(**{name: limit for name, limit in limits.items() if limit is not None}, goes_on=goes_on)
    subject = load_subject(name, registry, Shape(mode, tuple(keys or ()), schema))
    claimed = claims_named(claims, registry.oracles) if claims else subject.claims
    if not claimed:
        raise UserMistake(f"{name} claims nothing: say what it promises, as in --claim exactly-once")
    fed = load_workload(workload) if workload is not None else subject.workload or usual_workload(subject.query)
    chosen = make_spark_cluster(cluster)
    path = new_folder(subject.query.name) if folder is None else folder
    check_unused(path)
    _reap_silently()
    with _saying_how_to_go_on(), CertifyingLine(sys.stderr, "starting Spark") as line:
        certified = campaign.certify(
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
            show=line.show,
        )
    return _certified(certified, as_json)


_BESIDE_CONTINUE = frozenset({"continued", "minutes", "runs", "goes_on", "as_json"})


def _refuse_beside_continue(context: typer.Context) -> None:
    """Whatever else a campaign is asked for was said when it was begun."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        given = source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")
        if given and parameter.name not in _BESIDE_CONTINUE:
            said = parameter.opts[0] if parameter.opts[0].startswith("-") else "NAME"
            raise typer.BadParameter(f"{said} was said when the campaign was begun: leave it out beside --continue")


def _go_on(folder: Path, minutes: float | None, runs: int | None, goes_on: bool, as_json: bool) -> ExitStatus:
    from ..certifying import campaign
    from ..certifying.budget import Budget
    from ..certifying.certificate import read_certificate
    from ..certifying.continuing import read_earlier, subject_of
    from .certifying import CertifyingLine
    from .clusters import make_spark_cluster

    registry = _registry()
    earlier = read_earlier(folder)
    query, fed = subject_of(folder, earlier, registry)
    before = earlier.certificate
    limits: dict[str, Any] = {"runs": runs, "minutes": minutes, "kills": before.budget.get("kills")}
    budget = Budget(**{name: limit for name, limit in limits.items() if limit is not None}, goes_on=goes_on)
    chosen = make_spark_cluster(str(before.cluster.get("cluster")))
    _reap_silently()
    try:
        with _saying_how_to_go_on(), CertifyingLine(sys.stderr, "starting Spark") as line:
            certified = campaign.go_on(
                folder, query, workload=fed, cluster=chosen, registry=registry, budget=budget, show=line.show
            )
    except NothingLeft as error:
        _complain(str(error))
        certified = campaign.Certified(folder, read_certificate(folder))
    return _certified(certified, as_json)


@contextlib.contextmanager
def _saying_how_to_go_on() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        # Whoever turns it into an exit status keeps nothing of it.
        _complain_of(error)
        raise


def _certified(certified: Certified, as_json: bool) -> ExitStatus:
    from .certificates import end_of_campaign
    from .certifying import certificate_document

    if as_json:
        _write_json(certificate_document(certified.certificate, certified.folder))
    else:
        _show(end_of_campaign(certified.certificate, certified.folder))
    return certified.certificate.exit_status


@app.command()
def explore(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="A scenario's name, as `list` shows it, or module:attribute. Its own faults are left aside.",
            autocompletion=_complete_scenario,
            show_default=False,
        ),
    ] = None,
    schedules: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Schedules to try, the same ones and in the same order for the same seed, whatever tries them; "
            "1000 unless told otherwise.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds to search; with --schedules, whichever is over first. Shrinking comes after.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="What schedules are drawn from; another seed, other schedules.")] = SEED,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one a core.", show_default=False)
    ] = None,
    spark_master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Search on the cores of a Spark cluster instead: spark://HOST:PORT, local[2], ... Its machines need "
            "streamproof; what the scenario needs of your own code is sent along.",
            show_default=False,
        ),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also every pair of crashes, for at most 30 events; all, without a budget.")
    ] = False,
    exhaust: Annotated[
        bool,
        typer.Option(
            "--exhaust",
            help="Try every crash and every pair of crashes in a world of 20 events, and with --seconds every three "
            "with the time that is left, and say what that proves. Nothing is drawn at random.",
        ),
    ] = False,
    faults: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            help="Draw faults of this kind, as `list faults` shows them, at random; can be given several times. "
            "Crashes, unless told otherwise: claims are made for them.",
            show_default=False,
        ),
    ] = None,
    events: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Feed so many events, 30 unless told otherwise; batches, checkpoints, acknowledgements and windows "
            "come in proportion.",
            show_default=False,
        ),
    ] = None,
    own_sizes: Annotated[
        bool,
        typer.Option(
            "--own-sizes",
            help="Keep the sizes that the scenario states: the interval of its checkpoints, its batches and, without "
            "--events, its input.",
        ),
    ] = False,
    for_spark: Annotated[
        bool,
        typer.Option(
            "--for-spark",
            help="Search a world with the times of embedded Spark, and shrink to what shows whoever is faster, so that "
            "it replays there.",
        ),
    ] = False,
    mutants: Annotated[
        bool,
        typer.Option(
            "--mutants", help="Search the mutants instead, each on a topology that shows it, or all on the scenario's."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Where a counterexample goes; by default counterexample.json.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Search the simulator for crashes that break a scenario's claims, and shrink what is found.

    For every pull request, a search that is the same each time: --schedules 1000. For the night, one that is long, and
    another each night: --seconds 28800 --seed $(date +%Y%m%d). Ctrl-C ends it, and prints and keeps what it has found.
    """
    from ..exploration.search import Budget
    from .exploring import (
        MUTANT_EVENTS,
        SearchLine,
        brought_down,
        end_of_search,
        explore_mutants,
        mutants_document,
        mutants_table,
        search_document,
        with_events,
    )
    from .exploring import explore as explore_scenario

    registry = _registry()
    if schedules is None and seconds is None and not (pairs or exhaust):
        schedules = SCHEDULES
    budget = Budget(schedules, seconds)
    cores = jobs or len(os.sched_getaffinity(0))
    if mutants:
        if pairs or exhaust or output is not None or faults or for_spark or own_sizes:
            flags = "--pairs, --exhaust, --fault, --for-spark, --own-sizes and --output"
            raise typer.BadParameter(f"--mutants goes with none of {flags}")
        if spark_master is not None:
            raise typer.BadParameter("--mutants are searched on this machine: leave out --spark-master")
        names = list(registry.mutants)
        tried = list(
            explore_mutants(names, name, registry, budget, seed=seed, jobs=jobs or 1, events=events or MUTANT_EVENTS)
        )
        if as_json:
            _write_json({"mutants": mutants_document(tried)})
        else:
            _show(mutants_table(tried, len(names)))
        if any(one.shrunk is None for one in tried):
            return ExitStatus.VIOLATED
        return ExitStatus.HOLDS if len(tried) == len(names) else INTERRUPTED
    if name is None:
        raise typer.BadParameter("name a scenario, or use --mutants")
    if spark_master is not None and jobs is not None:
        raise typer.BadParameter("a Spark cluster has the cores that it has: --spark-master goes without --jobs")
    if exhaust and (pairs or faults):
        raise typer.BadParameter("--exhaust tries every crash and every pair: leave out --pairs and --fault")
    own = registry.scenario(name)
    named = with_events(own, events) if own_sizes else brought_down(name, registry, events, exhaust)
    with SearchLine(sys.stderr, budget) as line:
        found = explore_scenario(
            named,
            registry,
            budget,
            seed=seed,
            jobs=cores,
            pairs=pairs,
            output=output,
            line=line,
            master=spark_master,
            kinds=tuple(faults or ("crash",)),
            for_spark=for_spark,
            own=None if own_sizes else own.scenario,
            exhaust=exhaust,
        )
    if as_json:
        _write_json(search_document(found))
    else:
        _show(end_of_search(found))
    return INTERRUPTED if found.exit_status is None else found.exit_status


@app.command()
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
            autocompletion=_complete_cluster,
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
    from ..certifying.saved import is_saved

    if file.is_dir():
        if workload is not None:
            raise typer.BadParameter("--workload is for what `certify` has saved; a scenario has its own")
        return _replay_run(file, cluster, folder, as_json, context.obj)
    if is_saved(file):
        return _replay_saved(file, cluster or "embedded", workload, folder, as_json)
    if workload is not None:
        raise typer.BadParameter("--workload is for what `certify` has saved; a scenario has its own")
    cluster = cluster or "simulated"
    from ..exploration.counterexample import load, scenario_of
    from ..exploration.counterexample import replay as replay_file
    from .clusters import make_cluster
    from .exploring import end_of_replay, replay_document, replay_status
    from .screen import place

    registry = _registry()
    found = load(file)
    scenario = scenario_of(file, found, registry)
    chosen = make_cluster(cluster)
    if not chosen.virtual_time:
        from ..running.run import new_run_id

        folder = folder or Path("runs") / new_run_id(found.scenario)
        session: _Session = context.obj
        session.folder = None if (folder / "scenario.json").exists() else folder
        _reap_silently()
    with _progress(scenario, place(chosen.describe(scenario))) as line:
        replayed = replay_file(file, chosen, registry=registry, folder=folder, show=line.show)
    if as_json:
        _write_json(replay_document(replayed))
    else:
        _show(end_of_replay(replayed))
    return replay_status(replayed)


def _replay_run(run: Path, cluster: str | None, folder: Path | None, as_json: bool, session: _Session) -> ExitStatus:
    from ..certifying.certificate import is_certificate
    from ..recording.folder import read_history
    from ..running.replaying import planned_again
    from ..running.run import new_run_id, run_named
    from .clusters import cluster_again, make_cluster
    from .screen import end_of_run, place, run_again

    if is_certificate(run):
        raise UserMistake(f"{run} is a certificate: replay the counterexample.json in it, or one of its runs")
    registry = _registry()
    description, named = planned_again(run, registry)
    chosen = cluster_again(description.cluster) if cluster is None else make_cluster(cluster)
    recorded = read_history(run).digest()
    run_id = new_run_id(named.name)
    path = folder or Path("runs") / run_id
    session.folder = None if (path / "scenario.json").exists() else path
    if not chosen.virtual_time:
        _reap_silently()
    with _progress(named.scenario, place(chosen.describe(named.scenario))) as line:
        finished = run_named(named, chosen, registry, seed=description.seed, run_id=run_id, folder=path, show=line.show)
    exact = finished.judgement.digest == recorded
    if as_json:
        again = {"replayed": str(run), "exact": exact}
        _write_json({**_judged(path, finished.description, finished.judgement), **again})
    else:
        _show(end_of_run(finished.description, finished.history, finished.judgement, path))
        _show(run_again(run, description, chosen.name, exact))
    return finished.judgement.exit_status


def _replay_saved(file: Path, cluster: str, workload: str | None, folder: Path | None, as_json: bool) -> ExitStatus:
    from ..certifying.folders import check_unused
    from ..certifying.replaying import replay_file, status_of
    from ..certifying.subjects import load_workload
    from ..running.run import new_run_id
    from .certifying import end_of_saved, saved_document
    from .clusters import make_spark_cluster

    registry = _registry()
    fed = None if workload is None else load_workload(workload)
    chosen = make_spark_cluster(cluster)
    path = folder or Path("runs") / new_run_id("replay")
    check_unused(path)
    _reap_silently()
    judged = replay_file(file, chosen, registry, path, workload=fed)
    if as_json:
        _write_json(saved_document(judged, path))
    else:
        _show(end_of_saved(judged, path))
    return status_of(judged)


@app.command()
def judge(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, or of a certificate.", show_default=False)],
    as_json: Json = False,
) -> ExitStatus:
    """Judge a run again from its folder, or a certificate with all of its runs.

    A certificate's runs are judged without the query's code. One that was altered, or does not say what its runs come
    to, ends in status 3.
    """
    from ..certifying.certificate import is_certificate
    from ..recording.folder import in_use
    from ..running.judgement import judge_folder
    from ..running.run import write_verdicts
    from .screen import end_of_run

    if is_certificate(folder):
        return _judge_certificate(folder, as_json)
    description, history, judgement = judge_folder(folder, _registry())
    # What a certificate lists must stay as it is.
    if not in_use(folder) and not is_certificate(folder.resolve().parent.parent):
        # A folder that cannot be written can be judged all the same.
        with contextlib.suppress(StorageFailed):
            judgement = write_verdicts(folder, judgement)
    if as_json:
        _write_json(_judged(folder, description, judgement))
    else:
        _show(end_of_run(description, history, judgement, folder))
    return judgement.exit_status


def _judge_certificate(folder: Path, as_json: bool) -> ExitStatus:
    from ..certifying.rejudging import judge_certificate
    from .certificates import document, judged_again

    judged = judge_certificate(folder, _registry().oracles)
    if as_json:
        _write_json(document(judged, folder))
    else:
        _show(judged_again(judged, folder))
    return judged.exit_status


@app.command()
def reap(as_json: Json = False) -> ExitStatus:
    """End what runs have left behind that were killed themselves."""
    from .clusters import reap_all

    reaped = reap_all()
    if as_json:
        _write_json({"reaped": [_reaped(one) for one in reaped]})
    elif reaped:
        _write("".join(_said(one) + "\n" for one in reaped))
    else:
        _write("nothing was left behind\n")
    return ExitStatus.OWN_FAILURE if any(one.survivors for one in reaped) else ExitStatus.HOLDS


def _reap_silently() -> None:
    from .clusters import reap_all

    try:
        for one in reap_all():
            _complain(_said(one))
    except StreamproofError as error:
        # The run may need nothing of what failed.
        _complain(str(error))


def _said(reaped: Any) -> str:
    if hasattr(reaped, "containers"):
        sorts = ("containers", "networks", "volumes")
        counts = ", ".join(f"{len(found)} {sort}" for sort in sorts if (found := getattr(reaped, sort)))
        text = f"ended what run {reaped.run} had left: {counts or 'nothing'}"
        if reaped.stuck:
            text += f"; the engine keeps {', '.join(reaped.stuck)} until it is restarted, though nothing uses it"
        return text + (f"; still there: {', '.join(reaped.survivors)}" if reaped.survivors else "")
    kinds = ", ".join(sorted({process.kind for process in reaped.processes}))
    text = f"ended what run {reaped.run} had left: {len(reaped.processes)} processes ({kinds})"
    if reaped.survivors:
        text += f"; still there: pid {', '.join(str(process.pid) for process in reaped.survivors)}"
    return text


def _reaped(reaped: Any) -> dict[str, Any]:
    if hasattr(reaped, "containers"):
        return asdict(reaped)
    return {
        "run": reaped.run,
        "ended": [{"pid": process.pid, "kind": process.kind} for process in reaped.processes],
        "survivors": [process.pid for process in reaped.survivors],
    }


def _judged(folder: Path, description: Any, judgement: Any) -> dict[str, Any]:
    from ..running.run import summary

    return {
        "folder": str(folder),
        "run": description.run,
        "scenario": description.scenario,
        "origin": description.origin,
        "cluster": description.cluster.get("cluster"),
        "seed": description.seed,
        **summary(judgement),
    }


def _progress(scenario: Scenario, where: str) -> Any:
    from .progress_line import ProgressLine

    return ProgressLine(sys.stderr, f"starting {where}", scenario.deadline)


def _registry() -> Registry:
    from ..contracts.registry import Registry

    # What lies in the current directory can be named as module:attribute, and a run's processes inherit the path.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    return Registry()


# Output


def _show(lines: Iterable[Text]) -> None:
    """Coloured on a terminal only (rich looks, and heeds NO_COLOR); long lines are the terminal's to wrap."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            console.print(line)
    _write(captured.get())


def _write_json(document: Any) -> None:
    _write(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")


def _write(text: str) -> None:
    """To stdout. Who reads it may have had enough (`| head`): that does not change how the command ended."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"streamproof: {text}\n")
        sys.stderr.flush()


# The ends of a command


def execute(arguments: Sequence[str]) -> int:
    """Run one command; its exit status."""
    session = _Session()
    try:
        status = typer.main.get_command(app).main(
            list(arguments), prog_name="streamproof", standalone_mode=False, obj=session
        )
        if status == INTERRUPTED:
            _complain("interrupted; nothing is left running")
        return int(status or 0)
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted; nothing is left running")
        return INTERRUPTED
    except StreamproofError as error:
        return _failed(str(error), error, error.exit_status, session, arguments)
    except Exception as error:
        wrong_flag = getattr(error, "format_message", None)
        if wrong_flag is not None:
            return _failed(_usage(error, wrong_flag()), error, ExitStatus.USER_MISTAKE, _Session(), arguments)
        text = f"this is a mistake in streamproof: {type(error).__name__}: {error}"
        return _failed(text, error, ExitStatus.OWN_FAILURE, session, arguments)


def _usage(error: Exception, message: str) -> str:
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message}\n{context.get_usage()}\nMore: {context.command_path} --help"


def _complain_of(error: BaseException) -> None:
    """What whoever met an error has added to it."""
    for note in getattr(error, "__notes__", ()):
        _complain(note)


def _failed(text: str, error: Exception, status: ExitStatus, session: _Session, arguments: Sequence[str]) -> int:
    """Say what went wrong; where the run had begun or the mistake may be ours, also where to find more."""
    _complain(text)
    _complain_of(error)
    folder = session.folder
    begun = folder is not None and not isinstance(error, RunFolderInUse) and (folder / "scenario.json").exists()
    ours = not isinstance(error, StreamproofError) and status is ExitStatus.OWN_FAILURE
    if begun or ours:
        kept = _keep_traceback(error, folder if begun else None)
        if kept is not None:
            _complain(f"the traceback is in {kept}")
    if "--json" in arguments:
        kind = (
            type(error).__name__ if isinstance(error, StreamproofError) else "WrongUsage" if not ours else "OwnFailure"
        )
        before = {"runs": session.judged} if session.judged else {}
        _write_json({**before, "error": {"kind": kind, "message": text, "exit_status": int(status)}})
    return int(status)


def _keep_traceback(error: Exception, folder: Path | None) -> Path | None:
    """Write a traceback to the run's logs, or to a new file of its own; None when neither can be written."""
    content = "".join(traceback.format_exception(error))
    if folder is not None:
        with contextlib.suppress(OSError):
            path = folder / "logs" / "failure.txt"
            path.write_text(content, encoding="utf-8")
            return path
    with contextlib.suppress(OSError):
        number, name = tempfile.mkstemp(prefix="streamproof-failure-", suffix=".txt")
        with open(number, "w", encoding="utf-8") as file:
            file.write(content)
        return Path(name)
    return None


def main() -> NoReturn:
    """The entry point."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another one, and no run ends because of it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(execute(sys.argv[1:]))


def _terminate(number: int, frame: object) -> NoReturn:
    """Leave by way of every context that is open, so that what was started is ended."""
    raise SystemExit(128 + number)
