"""Judges a black box: what a query gave is compared with what it gave in two runs without failures.

A query cannot be executed again from its record. So each of its runs is preceded by two *reference runs* on the same
input with the same batch boundaries, whose outputs stand in the same history under sinks of their own. Where the two
disagree, the query's output depends on something that a record cannot hold, and nothing can be judged. The same goes
where a batch job over the same input, as a second opinion, gives another table.

Two things are compared. O: the rows that the recorder took, batch by batch. T: the table that they make. In append
mode every row of every batch is one of the table, a batch counted once however often it was delivered; in update mode
a row replaces the one of its key; in complete mode each batch gives the whole table. Where a consumer reads what a
sink of the user's has stored, T is what it read, and there is no O. Where the source is the user's, a failure may cut
the batches otherwise, and T alone is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.addresses import DRIVER
from ..core.events import Value
from ..core.verdicts import SAMPLE
from ..recording.history import History
from ..recording.records import Ended, Kept, Offered
from .collation import CollatedQuery
from .completeness import why_incomplete
from .exactness import same_value
from .findings import Findings
from .keyed_outputs import find_in_keyed, keyed_table
from .outputs import SinkBatch, batch_of_row, deliveries, last_of_each, row_number
from .proven_faults import Faults
from .query_story import Story, often, shortened_row
from .shapes import OutputMode, OutputShape, text_of
from .tables import Table, disagreement, key_of, table_of
from .unkeyed_outputs import find_in_table, find_in_unkeyed, unkeyed_table

__all__ = ["BATCH_JOB", "DRIVER", "REFERENCES", "SINK", "batch_of_row", "collate_references", "row_number"]

SINK = "sink"
REFERENCES = ("reference-1", "reference-2")
"""The reference runs: their actors, and the sinks that they deliver to."""
BATCH_JOB = "batch-job"
"""Who keeps, as a second opinion, the table that a batch job over the same input makes."""


def collate_references(history: History, shape: OutputShape) -> CollatedQuery:
    """Collate a history of a query that was recorded with its reference runs.

    Raises InvalidHistory for a table that is none, or that has no such key columns.
    """
    story = Story(history, DRIVER, SINK, shape.own_source)
    incomplete = why_incomplete(history)
    if shape.reads:
        unjudgeable, findings = _judge_read(history, shape, story, incomplete)
        if DRIVER not in _kept(history):
            incomplete = incomplete or "the table was not read at the end"
    else:
        unjudgeable, findings = _judge_given(history, shape, story, incomplete)
    fixed = not shape.reads and not (shape.own_source and shape.mode is not OutputMode.APPEND)
    return CollatedQuery(
        observables=("outputs", "state") if fixed else ("state",),
        incomplete=incomplete,
        unproven=Faults(history).unproven,
        unjudgeable=unjudgeable,
        lost_state=findings.lost_state,
        lost_output=findings.lost_output,
        duplicate_effects=findings.duplicate_effects,
        duplicate_outputs=findings.duplicate_outputs,
        conflicting_outputs=findings.conflicting_outputs,
        phantoms=findings.phantoms,
        superseded_outputs=findings.superseded_outputs,
        reordered=findings.reordered,
        reordered_repeats=findings.reordered_repeats,
        inputs=sum(len(offered.events) for offered in history.each(Offered)),
        doubt=findings.doubt,
        shape=shape,
    )


def _judge_read(history: History, shape: OutputShape, story: Story, incomplete: str) -> tuple[str, Findings]:
    """What a consumer read. Of a run that was cut short nothing is said: rows may still have been replaced."""
    kept = _kept(history)
    missing = [reference for reference in REFERENCES if reference not in kept]
    if missing or not _were_run(history):
        return _not_run(history), Findings()
    tables = [table_of(kept[reference].rows) for reference in REFERENCES]
    found = None if incomplete or DRIVER not in kept else table_of(kept[DRIVER].rows)
    unjudgeable = (
        _disagreement("two runs without failures disagree", _differing_tables(*tables))
        or _second_opinion(history, tables[0])
        or _nothing(tables[0], found)
    )
    if unjudgeable or found is None:
        return unjudgeable, Findings()
    return "", find_in_table(tables[0], found, shape.key, story, "table")


def _judge_given(history: History, shape: OutputShape, story: Story, incomplete: str) -> tuple[str, Findings]:
    """What the harness's sink was given."""
    references = [deliveries(history, sink) for sink in REFERENCES]
    judged = deliveries(history, SINK)
    unjudgeable = "" if _were_run(history) else _not_run(history)
    if not unjudgeable:
        unjudgeable = _references_disagree(references, shape)
    if not unjudgeable:
        unjudgeable = _second_opinion_on(history, references[0], shape)
    if not unjudgeable:
        rows = (any(delivery.rows for delivery in given) for given in (references[0], judged))
        unjudgeable = _nothing(*rows)
    # Without a reference only what a run says of itself is sure.
    reference = None if unjudgeable else references[0]
    find = find_in_keyed if shape.keyed_outputs else find_in_unkeyed
    return unjudgeable, find(reference, judged, shape, story, bool(incomplete))


def _kept(history: History) -> dict[str, Kept]:
    """What each actor kept last."""
    return {kept.actor: kept for kept in history.each(Kept)}


def _were_run(history: History) -> bool:
    ended = {ended.slice for ended in history.each(Ended)}
    return ended.issuperset(REFERENCES)


def _not_run(history: History) -> str:
    why = why_incomplete(history)
    return "the query was not run twice without failures, to compare with" + (f": {why}" if why else "")


def _nothing(wanted: object, found: object) -> str:
    return "" if wanted or found else "the query gives no rows, with failures or without; there is nothing to compare"


def _references_disagree(references: Sequence[Sequence[SinkBatch]], shape: OutputShape) -> str:
    if not shape.own_source:
        differing = _differing_batches(*references, keyed=shape.keyed_outputs)
    elif shape.keyed_outputs:
        differing = _differing_keys(*(_values(reference, shape) for reference in references))
    else:
        differing = _differing_tables(*(unkeyed_table(reference, shape.mode) for reference in references))
    return _disagreement("two runs without failures disagree", differing)


def _second_opinion_on(history: History, reference: Sequence[SinkBatch], shape: OutputShape) -> str:
    if not shape.keyed_outputs:
        return _second_opinion(history, unkeyed_table(reference, shape.mode))
    opinion = _kept(history).get(BATCH_JOB)
    if opinion is None:
        return ""
    values = {key: text_of(value) for key, value in (key_of(row, shape.key) for row in table_of(opinion.rows))}
    return _disagreement(_OTHER_TABLE, _differing_keys(_values(reference, shape), values))


def _second_opinion(history: History, table: Table) -> str:
    opinion = _kept(history).get(BATCH_JOB)
    return "" if opinion is None else _disagreement(_OTHER_TABLE, _differing_tables(table, table_of(opinion.rows)))


_OTHER_TABLE = "a batch job over the same input gives another table: it and the query without failures disagree"


def _disagreement(who: str, differing: Sequence[str]) -> str:
    if not differing:
        return ""
    more = f" and {len(differing) - SAMPLE:,} more" if len(differing) > SAMPLE else ""
    return f"{who} on {len(differing):,} rows: {'; '.join(differing[:SAMPLE])}{more}"


def _differing_batches(one: Sequence[SinkBatch], other: Sequence[SinkBatch], *, keyed: bool) -> list[str]:
    rows, others = (
        {(d.batch, event.key): event.value for d in last_of_each(given).values() for event in d.rows}
        for given in (one, other)
    )

    def said(values: dict[tuple[int, str], Value], id: tuple[int, str]) -> str:
        if keyed:
            return repr(values[id]) if id in values else "no row"
        return often(values.get(id, 0))

    return [
        f"batch {id[0]} {shortened_row(repr(id[1]) if keyed else id[1])}: {said(rows, id)} and {said(others, id)}"
        for id in sorted(rows.keys() | others.keys())
        if id not in rows or id not in others or not same_value(rows[id], others[id])
    ]


def _differing_tables(one: Table, other: Table) -> list[str]:
    return [
        f"{shortened_row(row)}: {often(count)} and {often(times)}" for row, count, times in disagreement(one, other)
    ]


def _differing_keys(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return [
        f"{key!r}: {one.get(key, 'no row')} and {other.get(key, 'no row')}"
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    ]


def _values(given: Iterable[SinkBatch], shape: OutputShape) -> dict[str, str]:
    return {key: text_of(row.value) for key, row in keyed_table(given, shape.mode).items()}
