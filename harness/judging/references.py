"""Judges a black box: what a query gave is compared with what it gave in two runs without failures, batch by batch.

A query cannot be executed again from its record. So each of its runs is preceded by two *reference runs* on the same
input with the same batch boundaries, whose outputs stand in the same history under sinks of their own. Where the two
disagree, the query's output depends on something that a record cannot hold, and nothing can be judged.

Two things are compared. O: the rows that the recorder took, each (batch, key, value). T: the table that they make when
a row replaces the one of its key, as update mode has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..model import NUMBERING_SPAN, Value
from ..recording.history import History
from ..recording.records import Delivered, Ended, Offered
from .collation import Collation, Faults, why_incomplete
from .exactness import same_value
from .verdicts import SAMPLE, Anomaly, Evidence, tally

DRIVER = "driver"
"""The actor that runs the judged query."""
SINK = "sink"
REFERENCES = ("reference-1", "reference-2")
"""The reference runs: their actors, and the sinks that they deliver to."""

OutputId = tuple[int, str]
"""Batch and key: in update mode a batch has one row for a key."""


def row_number(batch: int, place: int) -> int:
    """The number that the row at `place` of a batch carries, in the canonical order of its rows, counted from 0."""
    return batch * NUMBERING_SPAN + place


def batch_of(number: int) -> int:
    """The batch of the row that carries this number."""
    return number // NUMBERING_SPAN


@dataclass(frozen=True)
class Row:
    """One output, as the recorder took it."""

    batch: int
    key: str
    value: Value
    incarnation: int
    at: int

    @property
    def id(self) -> OutputId:
        return self.batch, self.key

    def __str__(self) -> str:
        return f"batch {self.batch} ({self.key!r}, {self.value!r})"


def collate_references(history: History) -> Collation:
    """Collate a history of a query that was recorded with its reference runs."""
    references = [list(_rows(history, sink)) for sink in REFERENCES]
    wanted = {row.id: row.value for row in references[0]}
    unjudgeable = _unjudgeable(history, references)
    judged = list(_rows(history, SINK))
    faults = Faults(history)

    first: dict[OutputId, Row] = {}
    repeated: list[tuple[Row, Row]] = []
    unexplained: list[Row] = []
    reordered: list[Row] = []
    latest = -1
    for row in judged:
        if row.id not in wanted or not same_value(wanted[row.id], row.value):
            unexplained.append(row)
        earlier = first.setdefault(row.id, row)
        if earlier is not row:
            repeated.append((earlier, row))
        elif row.batch < latest:
            reordered.append(row)
        latest = max(latest, row.batch)
    conflicting = [(earlier, later) for earlier, later in repeated if not same_value(earlier.value, later.value)]
    missing = [(batch, key) for batch, key in wanted if (batch, key) not in first]
    if unjudgeable:
        # Without a reference only what a run says of itself is sure.
        unexplained, missing, wanted = [], [], {}
        references = [judged]
    stale, wrong = _compare_tables(_table(references[0]), _table(judged), wanted)

    story = _Story(faults, wanted, {row.batch for row in judged})
    return Collation(
        observables=("outputs", "state"),
        incomplete=why_incomplete(history),
        unproven=faults.unproven,
        unjudgeable=unjudgeable,
        lost_state=tally(Anomaly.LOST_INPUT, len(stale), (story.stale(*one) for one in stale)),
        lost_output=tally(Anomaly.LOST_INPUT, len(missing), (story.missing(*one) for one in missing)),
        duplicate_effects=tally(Anomaly.DUPLICATE_EFFECT, 0, ()),
        duplicate_outputs=tally(Anomaly.DUPLICATE_OUTPUT, len(repeated), (story.repeated(*one) for one in repeated)),
        conflicting_outputs=tally(
            Anomaly.PHANTOM_OUTPUT, len(conflicting), (story.repeated(*one) for one in conflicting)
        ),
        phantoms=tally(
            Anomaly.PHANTOM_OUTPUT,
            len(unexplained) + len(wrong),
            story.phantoms(unexplained, wrong),
        ),
        superseded_outputs=tally(Anomaly.PHANTOM_OUTPUT, 0, ()),
        reordered=tally(Anomaly.REORDERED_OUTPUT, len(reordered), (story.reordered(one) for one in reordered)),
        reordered_repeats=tally(Anomaly.REORDERED_OUTPUT, 0, ()),
        inputs=sum(len(s.record.events) for s in history.records if isinstance(s.record, Offered)),
        reexecution=None,
    )


def _rows(history: History, sink: str) -> Iterator[Row]:
    for stamped in history.records:
        record = stamped.record
        if isinstance(record, Delivered) and record.sink == sink:
            for event in record.rows:
                yield Row(batch_of(event.seq), event.key, event.value, record.incarnation, stamped.at)


def _table(rows: Iterable[Row]) -> dict[str, Row]:
    """What update mode leaves: of each key the row that came last."""
    return {row.key: row for row in rows}


Stale = tuple[Row, Row | None]
"""The row that a table should have, and the older one that it has instead, if any."""
Wrong = tuple[Row | None, Row]
"""The row that a table should have, if any, and the one that it has."""


def _compare_tables(
    reference: Mapping[str, Row], judged: Mapping[str, Row], wanted: Mapping[OutputId, Value]
) -> tuple[list[Stale], list[Wrong]]:
    stale: list[Stale] = []
    wrong: list[Wrong] = []
    for key in sorted(reference.keys() | judged.keys()):
        right, found = reference.get(key), judged.get(key)
        if found is None and right is not None:
            stale.append((right, None))
        elif found is not None and (right is None or not same_value(right.value, found.value)):
            if (
                right is not None
                and found.batch < right.batch
                and found.id in wanted
                and same_value(wanted[found.id], found.value)
            ):
                stale.append((right, found))
            else:
                wrong.append((right, found))
    return stale, wrong


def _unjudgeable(history: History, references: Sequence[Sequence[Row]]) -> str:
    ended = {s.record.slice for s in history.records if isinstance(s.record, Ended)}
    if not ended.issuperset(REFERENCES):
        why = why_incomplete(history)
        return "the query was not run twice without failures, to compare with" + (f": {why}" if why else "")
    one, other = ({row.id: row.value for row in rows} for rows in references)
    # Values are canonical, so that `in` and `!=` mean the same here as for a judged row.
    differing = [
        id
        for id in sorted(one.keys() | other.keys())
        if id not in one or id not in other or not same_value(one[id], other[id])
    ]
    if not differing:
        return ""
    shown = "; ".join(
        f"batch {batch} {key!r}: {_said(one, (batch, key))} and {_said(other, (batch, key))}"
        for batch, key in differing[:SAMPLE]
    )
    more = f" and {len(differing) - SAMPLE:,} more" if len(differing) > SAMPLE else ""
    return f"two runs without failures disagree on {len(differing):,} rows: {shown}{more}"


def _said(values: Mapping[OutputId, Value], id: OutputId) -> str:
    return repr(values[id]) if id in values else "no row"


class _Story:
    """Puts an anomaly into words: which batch, which key, when, after which fault."""

    def __init__(self, faults: Faults, wanted: Mapping[OutputId, Value], delivered: set[int]) -> None:
        self._faults = faults
        self._wanted = wanted
        self._delivered = delivered
        struck = faults.of((DRIVER,))
        self._struck = None if struck is None else struck.number

    def missing(self, batch: int, key: str) -> Evidence:
        how = "was never delivered" if batch in self._delivered else "is missing, as is the whole batch"
        return Evidence(f"batch {batch} ({key!r}, {self._wanted[batch, key]!r}) {how}", SINK, (), self._struck)

    def stale(self, right: Row, found: Row | None) -> Evidence:
        if found is None:
            return Evidence(f"the table has no row {right.key!r}; it should be that of {right}", SINK, (), self._struck)
        return Evidence(f"the table's row {right.key!r} is that of {found}, not of {right}", *self._where(found))

    def repeated(self, earlier: Row, later: Row) -> Evidence:
        then = "" if same_value(earlier.value, later.value) else f", then with {later.value!r}"
        where, at, fault = self._where(later)
        return Evidence(f"{earlier}{then}", where, (earlier.at, *at), fault)

    def phantoms(self, rows: Iterable[Row], wrong: Iterable[Wrong]) -> Iterator[Evidence]:
        for row in rows:
            yield Evidence(f"{row}: without failures it is {_said(self._wanted, row.id)}", *self._where(row))
        for right, found in wrong:
            said = "has no such row" if right is None else f"ends with {right.value!r}"
            yield Evidence(
                f"the table's row {found.key!r} is {found.value!r}, of batch {found.batch}; without failures it {said}",
                *self._where(found),
            )

    def reordered(self, row: Row) -> Evidence:
        return Evidence(f"{row} came after a later batch", *self._where(row))

    def _where(self, row: Row) -> tuple[str, tuple[int, ...], int | None]:
        return f"{SINK} from {DRIVER}#{row.incarnation}", (row.at,), self._faults.before(row.at)
