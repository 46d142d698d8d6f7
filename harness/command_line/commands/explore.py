"""`streamproof explore`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from ...core.errors import ExitStatus
from ..completion import complete_scenario
from ..ending import INTERRUPTED
from ..options import SEED, Json
from ..output import complain, print_json, show
from ..progress_line import working
from ..registered import registered
from ..watching.watch import Watch, Watched

if TYPE_CHECKING:
    from ...exploration.mutants import TriedMutant
    from ...exploration.search import SearchBudget

SCHEDULES: Final = 1_000
SCHEDULES_FOR_A_MUTANT: Final = 10_000
"""The rarest of their bugs shows in one of some 7,000."""


def explore_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="A scenario's name, as `list` shows it, or module:attribute. The search draws faults of its "
            "own; those of the scenario are tried once, at its own sizes, and left aside with --own-sizes.",
            autocompletion=complete_scenario,
            show_default=False,
        ),
    ] = None,
    schedules: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Schedules to try, the same ones and in the same order for the same seed, whatever tries them; "
            "1000 unless told otherwise, and of each mutant 10000 at most.",
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
            help="Feed so many events, 30 unless told otherwise, or more where of 30 nothing reaches a sink; batches, "
            "checkpoints, acknowledgements and windows come in proportion.",
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
    corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Try the schedules in this folder again, then vary them, in place of drawing all at random, and keep "
            "those in it that exercise something new: it grows from search to search, and searches can share it.",
            show_default=False,
        ),
    ] = None,
    mutants: Annotated[
        bool,
        typer.Option(
            "--mutants", help="Search the mutants instead, each on a topology that shows it, or all on the scenario's."
        ),
    ] = False,
    errors: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Where a claim bounds an error: so many schedules more seek the largest one, going on from those that "
            "came closest; 300 unless told otherwise, or a quarter of the --seconds. 0, or with --exhaust: none.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Where a counterexample goes; by default counterexample.json.", show_default=False),
    ] = None,
    watched: Watched = False,
    as_json: Json = False,
) -> int:
    """Search the simulator for crashes that break a scenario's claims, and shrink what is found.

    For every pull request, a search that is the same each time: --schedules 1000. For the night, one that is long, and
    another each night: --seconds 28800 --seed $(date +%Y%m%d). Ctrl-C ends it, and prints and keeps what it has found.
    """
    from ...exploration import exploring
    from ...exploration.documenting import document_of
    from ...exploration.largest_errors import SCHEDULES as SCHEDULES_FOR_ERRORS
    from ...exploration.search import SearchBudget
    from ...exploration.sizes import brought_down, with_events
    from ...exploration.telling import view_of_search
    from ...reporting.screen import search_screen
    from ..search_line import SearchLine

    if schedules is None and seconds is None and not (pairs or exhaust):
        schedules = SCHEDULES_FOR_A_MUTANT if mutants else SCHEDULES
    budget = SearchBudget(schedules, seconds)
    if mutants:
        rest = own_sizes or errors is not None or corpus is not None or output is not None or watched
        if pairs or exhaust or faults or for_spark or rest:
            flags = "--pairs, --exhaust, --fault, --for-spark, --own-sizes, --errors, --corpus, --output and --watch"
            raise typer.BadParameter(f"--mutants goes with none of {flags}")
        if spark_master is not None:
            raise typer.BadParameter("--mutants are searched on this machine: leave out --spark-master")
        cores = jobs or len(os.sched_getaffinity(0))
        return _explore_mutants(name, budget, seed, cores, events, as_json)
    if name is None:
        raise typer.BadParameter("name a scenario, or use --mutants")
    if spark_master is not None and jobs is not None:
        raise typer.BadParameter("a Spark cluster has the cores that it has: --spark-master goes without --jobs")
    if exhaust and (pairs or faults):
        raise typer.BadParameter("--exhaust tries every crash and every pair: leave out --pairs and --fault")
    if corpus is not None and (exhaust or pairs or spark_master is not None):
        raise typer.BadParameter("--corpus goes with none of --exhaust, --pairs and --spark-master")
    registry = registered()
    own = registry.scenario(name)
    named = with_events(own, events) if own_sizes else brought_down(name, registry, events, exhaust)
    with Watch(watched, complain) as watch, SearchLine(sys.stderr, budget, watch.heard) as line:
        found = exploring.explore(
            named,
            registry,
            budget,
            seed=seed,
            jobs=jobs or len(os.sched_getaffinity(0)),
            pairs=pairs,
            output=output,
            master=spark_master,
            kinds=tuple(faults or ("crash",)),
            for_spark=for_spark,
            own=None if own_sizes else own,
            exhaust=exhaust,
            corpus=corpus,
            errors=(0 if exhaust else SCHEDULES_FOR_ERRORS) if errors is None else errors,
            show=line.show,
            say=line.say,
            come_to=watch.search,
        )
        watch.search(found)
    if as_json:
        print_json(document_of(found))
    else:
        show(search_screen(view_of_search(found)))
    return INTERRUPTED if found.exit_status is None else found.exit_status


def _explore_mutants(
    on: str | None, budget: SearchBudget, seed: int, jobs: int, events: int | None, as_json: bool
) -> int:
    from ...exploration.mutants import MUTANT_EVENTS, MutantsPlan, explore_mutants

    registry = registered()
    names = list(registry.mutants)
    plan = MutantsPlan(on, budget, seed, events or MUTANT_EVENTS)
    with working(f"searching {len(names)} mutants"):
        tried = list(explore_mutants(names, registry, plan, jobs=jobs))
    if as_json:
        print_json({"mutants": _mutants_document(tried)})
    else:
        show(_mutants_table(tried, len(names)))
    if any(one.found is None and not one.refused for one in tried):
        return ExitStatus.VIOLATED
    if any(one.refused for one in tried):
        return ExitStatus.UNKNOWN
    return ExitStatus.HOLDS if len(tried) == len(names) else INTERRUPTED


def _mutants_table(tried: Sequence[TriedMutant], all_of_them: int) -> Iterator[Text]:
    """What `explore --mutants` says."""
    name = max((len(one.mutant.name) for one in tried), default=0)
    anomaly = max((len(one.mutant.anomaly) for one in tried), default=0)
    head = f"  {'mutant':<{name}}  {'must show':<{anomaly}}  found  by      schedules  faults  events  breaks"
    yield Text(head, "bold")
    for one in tried:
        found = one.found
        faults = "" if found is None else str(len(found.schedule))
        events = "" if found is None else str(found.events)
        yield Text.assemble(
            f"  {one.mutant.name:<{name}}  {one.mutant.anomaly:<{anomaly}}  ",
            ("-    ", "bold") if one.refused else ("no   ", "bold red") if found is None else ("yes  ", "green"),
            f"  {one.by:<6}  {one.schedules:>9,}  {faults:>6}  {events:>6}  {one.mutant.breaks}",
        )
    yield Text()
    refused = [one for one in tried if one.refused]
    found_ones = sum(one.found is not None for one in tried)
    alive = len(tried) - found_ones - len(refused)
    missing = all_of_them - len(tried) + len(refused)
    yield Text(
        f"  {all_of_them} mutants, {found_ones} found"
        + (f", {alive} live" if alive else "")
        + (f", {missing} not tried" if missing else "")
    )
    for one in refused:
        yield Text(f"  not tried  {one.mutant.name}: {one.refused}")


def _mutants_document(tried: Sequence[TriedMutant]) -> list[dict[str, Any]]:
    return [
        {
            "mutant": one.mutant.name,
            "breaks": one.mutant.breaks,
            "anomaly": str(one.mutant.anomaly),
            "found": one.found is not None,
            "refused": one.refused or None,
            "schedules": one.schedules,
            "by": one.by or None,
            "shrunk": None
            if one.found is None
            else {"events": one.found.events, "faults": [str(fault) for fault in one.found.schedule]},
        }
        for one in tried
    ]
