"""`streamproof explore`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...core.errors import ExitStatus
from ..completion import complete_scenario
from ..ending import INTERRUPTED
from ..installed import installed
from ..options import SEED, Json
from ..output import show, write_json

if TYPE_CHECKING:
    from ...exploration.search import SearchBudget

SCHEDULES: Final = 1_000


def explore(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="A scenario's name, as `list` shows it, or module:attribute. Its own faults are left aside.",
            autocompletion=complete_scenario,
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
    from ...exploration import exploring
    from ...exploration.search import SearchBudget
    from ...exploration.sizes import brought_down, with_events
    from ..exploring import SearchLine, end_of_search, search_document

    if schedules is None and seconds is None and not pairs:
        schedules = SCHEDULES
    budget = SearchBudget(schedules, seconds)
    if mutants:
        if pairs or output is not None or faults or for_spark or own_sizes:
            flags = "--pairs, --fault, --for-spark, --own-sizes and --output"
            raise typer.BadParameter(f"--mutants goes with none of {flags}")
        if spark_master is not None:
            raise typer.BadParameter("--mutants are searched on this machine: leave out --spark-master")
        return _explore_mutants(name, budget, seed, jobs or 1, events, as_json)
    if name is None:
        raise typer.BadParameter("name a scenario, or use --mutants")
    if spark_master is not None and jobs is not None:
        raise typer.BadParameter("a Spark cluster has the cores that it has: --spark-master goes without --jobs")
    registry = installed()
    own = registry.scenario(name)
    named = with_events(own, events) if own_sizes else brought_down(name, registry, events)
    with SearchLine(sys.stderr, budget) as line:
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
            own=None if own_sizes else own.scenario,
            show=line.show,
            say=line.say,
        )
    if as_json:
        write_json(search_document(found))
    else:
        show(end_of_search(found))
    return INTERRUPTED if found.exit_status is None else found.exit_status


def _explore_mutants(
    on: str | None, budget: SearchBudget, seed: int, jobs: int, events: int | None, as_json: bool
) -> int:
    from ...exploration.mutants import MUTANT_EVENTS, explore_mutants
    from ..exploring import mutants_document, mutants_table

    registry = installed()
    names = list(registry.mutants)
    tried = list(explore_mutants(names, on, registry, budget, seed=seed, jobs=jobs, events=events or MUTANT_EVENTS))
    if as_json:
        write_json({"mutants": mutants_document(tried)})
    else:
        show(mutants_table(tried, len(names)))
    if any(one.shrunk is None for one in tried):
        return ExitStatus.VIOLATED
    return ExitStatus.HOLDS if len(tried) == len(names) else INTERRUPTED
