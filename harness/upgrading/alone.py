"""What the attempts of each version alone, and the first that goes on, show of whether anything can be judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..certifying.attempts import Attempt
from ..certifying.profile import batch_of
from ..certifying.seen_outside import uncut_of
from ..contracts.query import Query
from ..core.addresses import Point
from ..core.verdicts import SAMPLE
from ..judging.query_story import often, shortened_row
from ..judging.references import REFERENCES
from ..judging.shapes import OutputShape
from ..judging.tables import disagreement
from ..recording.history import History
from ..recording.records import BatchDone, Stamped
from .switch_judging import first_told_of, table_alone

SHOWN: Final = 5
"""Effects that are named."""


def why_unjudgeable(versions: Mapping[str, Query], attempts: Mapping[str, Sequence[Attempt]]) -> str:
    """Why nothing can be judged; empty: it can. Versions are called `old` and `new`; the first attempt of each was
    watched."""
    for which, query in versions.items():
        if why := why_outside(f"the {which} version", query, attempts[which][0]):
            return why
    records = [stamped for attempt in attempts["new"] for stamped in attempt.records]
    return why_another_each_time(records, versions["new"].shape)


def why_outside(who: str, query: Query, attempt: Attempt) -> str:
    """Why nothing can be judged of what a watched attempt did outside of its folders; empty: nothing that counts."""
    left = [one for one in uncut_of(query, [attempt]) if not one.accepted]
    if not left:
        return ""
    more = f"; and {len(left) - SHOWN:,} more" if len(left) > SHOWN else ""
    return (
        f"{who} has effects outside of its folders, where nothing is put back as it was at a crash: "
        f"{'; '.join(map(str, left[:SHOWN]))}{more}; keep what it needs in its folders, or name what does not count in "
        f"the query's accepts, as in {left[0].name!r}"
    )


def why_read_again(who: str, attempt: Attempt, batches: int) -> str:
    """Why nothing can be judged of a watched attempt in which somebody has read input of before that with which its
    query went on, of so many batches: another query of the version's, with a checkpoint of its own. What the query
    itself does again, each state says. Empty: nobody has."""
    history = History(attempt.records, ())
    done = [one for one in history.each(BatchDone) if one.incarnation == attempt.incarnation]
    last = max((one.batch for one in done if one.rows), default=None)
    if last is None or first_told_of(history, attempt.incarnation) is not None:
        return ""
    # Spark's own numbers count batches without input, too, as a watermark has at the end. Before that each has some, be
    # it that nobody has read it and Spark has counted no row.
    first = batches - sum(one.batch <= last for one in done)
    planned = (batch_of(one.address) for one in attempt.passed if one.address.point is Point.SOURCE_PARTITIONS)
    again = min((batch for batch in planned if batch < first), default=None)
    if again is None:
        return ""
    return (
        f"{who} reads batch {again} of the input again, and the query that it hands over begins with batch {first}: "
        "what another query makes, with a checkpoint of its own, is not what goes on from there; try each query alone"
    )


def why_another_each_time(records: Sequence[Stamped], shape: OutputShape) -> str:
    """Of the records of its two attempts alone."""
    tables = [table_alone(records, shape, name) for name in REFERENCES]
    if None in tables:
        return "the table that the new version makes alone was not read at the end"
    one, other = (table for table in tables if table is not None)
    found = [f"{shortened_row(row)}: {often(n)} and {often(m)}" for row, n, m in disagreement(one, other)]
    if not found:
        return ""
    more = f" and {len(found) - SAMPLE:,} more" if len(found) > SAMPLE else ""
    return (
        "the new version gives another table each time that it runs alone; make it depend on nothing but its input: "
        f"{'; '.join(found[:SAMPLE])}{more}"
    )
