"""What no state shows of two versions, as far as their code and their first attempts alone say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..certifying.attempts import Attempt
from ..certifying.blind_spots import beside_data_sources, code_in_c, passed_too_often, some_of
from ..certifying.seen_outside import uncut_of
from ..contracts.query import Query
from ..core.addresses import Point
from ..crash_points.inside_python.own_clock import functions_that_ask_the_time
from ..recording.records import BatchDone

_CLOCK: Final = (
    "What goes by the time of the day: {functions} may ask for it, and whoever goes on does so within minutes of the "
    "change."
)
_ACCEPTED: Final = (
    "What the {which} version leaves in {names}: its accepts name that, so that it is neither put back as it was at a "
    "crash nor compared."
)
_OLDER: Final = (
    "State that is older: each is of a few batches here, and what Spark does in the background to one that has run for "
    "longer (snapshots of its state, the removal of versions of it and of log entries that are needed no more) is "
    "switched off, so that all of it is there from the first batch on."
)
_OTHER_INPUT: Final = (
    "State that no later row touches: the {which} version takes none of the input that it is fed here, whose keys come "
    "again at its end, but reads a stream of its own."
)


def unseen_of(versions: Mapping[str, Query], attempts: Mapping[str, Sequence[Attempt]], *, watched: bool) -> list[str]:
    """In sentences, each once. Versions are called `old` and `new`; the first attempt of each was watched. `watched`:
    whether the agent sees what Spark does."""
    said: list[str] = []
    for which, query in versions.items():
        if names := list(dict.fromkeys(one.name for one in uncut_of(query, attempts[which][:1]) if one.accepted)):
            said.append(_ACCEPTED.format(which=which, names=some_of(names, "more")))
        if functions := functions_that_ask_the_time(query):
            said.append(_CLOCK.format(functions=some_of(functions, "more function")))
        said += [_OTHER_INPUT.format(which=which)] if watched and _reads_another(attempts[which][0]) else []
        said += code_in_c(query)
        said += [] if watched else beside_data_sources(query)
    if any(one.address.point is Point.STATE_COMMIT for some in attempts.values() for one in some[0].passed):
        said.append(_OLDER)
    # Only of the old one are crash points tried.
    said += passed_too_often(attempts["old"][:1])
    return list(dict.fromkeys(said))


def _reads_another(attempt: Attempt) -> bool:
    """Whether it has taken rows, and none of the harness's source."""
    took = any(isinstance(one.record, BatchDone) and one.record.rows for one in attempt.records)
    return took and not any(one.address.point is Point.SOURCE_PARTITIONS for one in attempt.passed)
