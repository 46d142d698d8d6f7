"""Which lines of the user's functions no attempt that was watched has executed, and no crash was planned at: what they
do is known of no trial, but where a recovery has come to them by the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from ..contracts.query import Query
from ..core.addresses import CodeLine, Point
from ..crash_points.inside_python.own_lines import own_data_sources, own_lines
from ..crash_points.inside_spark.versions import EVERY_BATCH
from .attempts import Attempt
from .conclusion import Planned


def lines_never_run(query: Query, attempts: Iterable[Attempt], plan: Iterable[Planned]) -> tuple[str, ...]:
    """`sinks.write 31-33, 40`, of each function that has some, in the order of their names. `attempts` are those that
    were watched."""
    attempts = list(attempts)
    keys = [one.address.key for attempt in attempts for one in attempt.passed if one.address.point is Point.LINE]
    keys += [one.crash.key for one in plan if one.crash.point is Point.LINE]
    run: dict[str, set[int]] = {}
    for line in filter(None, map(CodeLine.of, keys)):
        run.setdefault(line.function, set()).add(line.line)
    if own_data_sources(query) and not _watched_inside(attempts):
        # Some of its code runs where only the agent has it followed.
        return ()
    # Where no line was told of, nobody has followed the code, and which lines were run is not known.
    return said_by_function(own_lines(query), run) if run else ()


def _watched_inside(attempts: Iterable[Attempt]) -> bool:
    return any(one.address.point in EVERY_BATCH for attempt in attempts for one in attempt.passed)


def said_by_function(lines: Mapping[str, frozenset[int]], run: Mapping[str, set[int]]) -> tuple[str, ...]:
    """Lines that follow each other, with none between them that was run, are said as one stretch."""
    said = []
    for function, own in sorted(lines.items()):
        known = run.get(function, set())
        stretches = [list(some) for was_run, some in groupby(sorted(own), known.__contains__) if not was_run]
        if stretches:
            said.append(f"{function} {', '.join(_stretch(one) for one in stretches)}")
    return tuple(said)


def _stretch(lines: list[int]) -> str:
    return f"{lines[0]}" if len(lines) == 1 else f"{lines[0]}-{lines[-1]}"
