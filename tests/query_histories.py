"""Histories of queries, made by hand: what two runs without failures gave, and what a judged one did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import Guarantee
from streamproof.harness.core.verdicts import Tally
from streamproof.harness.judging.collation import Collation
from streamproof.harness.judging.oracle import Case, judge_each
from streamproof.harness.judging.references import DRIVER, REFERENCES, SINK, collate_references, row_number
from streamproof.harness.judging.shapes import OutputShape, keyed, text_of
from streamproof.harness.recording.history import (
    Aborted,
    Bite,
    Drained,
    FaultStruck,
    History,
    Stamp,
    TimelineEntry,
)
from streamproof.harness.recording.records import Delivered, EmptyBatch, Ended, Kept, Offered, Record, Stamped
from streamproof.oracles import ORACLES
from told_by import told_by

Row = Mapping[str, object]
JUDGES = {oracle.guarantee: oracle for oracle in ORACLES}
EVERY = 10
"""Microseconds from one delivery to the next."""


@dataclass(frozen=True)
class Given:
    """A batch, as a sink was given it once."""

    batch: int
    rows: Sequence[Row]
    incarnation: int = 1


def delivered(shape: OutputShape, sink: str, given: Given) -> Delivered | EmptyBatch:
    if not given.rows:
        return EmptyBatch(sink, "q", given.incarnation, given.batch)
    if shape.keyed_outputs:
        found = dict(keyed(row, shape.key) for row in given.rows)
    else:
        found = dict(Counter(text_of(row) for row in given.rows))
    events = [Event("q", row_number(given.batch, place), key, found[key], 0) for place, key in enumerate(sorted(found))]
    return Delivered(sink, "q", given.incarnation, 0, events)


def kept(actor: str, rows: Iterable[Row]) -> Kept:
    return Kept(actor, 1, dict(Counter(text_of(row) for row in rows)))


def struck(at: int, number: int = 0, address: str | None = None) -> FaultStruck:
    return FaultStruck(Stamp(at), number, "crash driver", address, Bite(DRIVER, DRIVER, (DRIVER,), True, True))


def query_history(
    shape: OutputShape,
    wanted: Sequence[Given] | Sequence[Row],
    found: Sequence[Given] | Sequence[Row] | None,
    *,
    other: Sequence[Given] | Sequence[Row] | None = None,
    offered: Sequence[Sequence[Event]] = (),
    faults: Sequence[TimelineEntry] = (),
    also: Sequence[Record] = (),
    drained: bool = True,
) -> History:
    """`wanted` is what the references gave, or `other` the second of them; deliveries, or a table where one is read.
    Without `found` no table was read at the end."""
    records: list[Record] = [Offered("source", list(events)) for events in offered]
    for name, given in zip(REFERENCES, (wanted, wanted if other is None else other), strict=True):
        records += _recorded(shape, name, name, given)
        records.append(Ended(name, 1, {"source": [1]}))
    stamped = [Stamped(0, record) for record in (*records, *also)]
    judged = [] if found is None else _recorded(shape, SINK, DRIVER, found)
    stamped += [Stamped(EVERY * place, record) for place, record in enumerate(judged, start=1)]
    end = Stamp(EVERY * (len(judged) + 1))
    return History(stamped, [*faults, Drained(end) if drained else Aborted(end, "stall: nothing more came")])


def _recorded(shape: OutputShape, sink: str, actor: str, given: Sequence[Given] | Sequence[Row]) -> list[Record]:
    if shape.reads:
        return [kept(actor, [row for row in given if not isinstance(row, Given)])]
    return [delivered(shape, sink, one) for one in given if isinstance(one, Given)]


def counts(collation: Collation) -> dict[str, int]:
    return {name: one.count for name, one in told_by(collation).items() if isinstance(one, Tally) and one.count}


def statuses(history: History, shape: OutputShape, *names: str) -> dict[str, str]:
    case = Case(history, collate_references(history, shape))
    return {v.guarantee.name: v.status.value for v in judge_each(case, [Guarantee(name) for name in names], JUDGES)}
