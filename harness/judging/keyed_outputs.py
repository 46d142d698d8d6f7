"""Judges what a sink was given in update mode, or in complete mode with a key: each row has a key within its batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.events import Value
from ..core.verdicts import Anomaly, Evidence, tally
from .exactness import same_value
from .findings import Findings
from .outputs import SinkBatch
from .query_story import Story
from .shapes import OutputMode, OutputShape

OutputId = tuple[int, str]
"""Batch and key."""


@dataclass(frozen=True)
class Row:
    """One output, as the recorder took it."""

    key: str
    value: Value
    delivery: SinkBatch

    @property
    def batch(self) -> int:
        return self.delivery.batch

    @property
    def id(self) -> OutputId:
        return self.batch, self.key

    def __str__(self) -> str:
        return f"batch {self.batch} ({self.key!r}, {self.value!r})"


def keyed_table(given: Iterable[SinkBatch], mode: OutputMode) -> dict[str, Row]:
    """The table that is left: of each key the row that came last, or in complete mode the batch that came last."""
    if mode is OutputMode.COMPLETE:
        given = list(given)[-1:]
    return {row.key: row for row in _rows(given)}


def find_in_keyed(
    reference: Sequence[SinkBatch] | None,
    given: Sequence[SinkBatch],
    shape: OutputShape,
    story: Story,
    incomplete: bool,
) -> Findings:
    """Compares each row with that of the reference, and the table with the reference's. Without a reference, only what
    the rows say of each other; without fixed batches, that and the table."""
    wanted = {row.id: row for row in _rows(reference or ())}
    compared = reference is not None and not shape.own_source
    first: dict[OutputId, Row] = {}
    repeated: list[tuple[Row, Row]] = []
    unexplained: list[Row] = []
    reordered: list[Row] = []
    conflicting: list[_Conflict] = []
    come: dict[int, set[str]] = {}
    latest = -1
    for delivery in given:
        rows = {row.key: row for row in _rows([delivery])}
        before = come.get(delivery.batch)
        for row in rows.values():
            if compared and not _same(wanted.get(row.id), row):
                unexplained.append(row)
            earlier = first.setdefault(row.id, row)
            if earlier is not row:
                repeated.append((earlier, row))
                if not _same(earlier, row):
                    conflicting.append((earlier, row, delivery))
            elif before is not None:
                conflicting.append((None, row, delivery))
            elif row.batch < latest:
                reordered.append(row)
        for key in sorted((before or set()) - rows.keys()):
            conflicting.append((first[delivery.batch, key], None, delivery))
        come[delivery.batch] = (before or set()) | rows.keys()
        latest = max(latest, delivery.batch)
    missing = [row for id, row in wanted.items() if id not in first] if compared else []
    stale: list[_Stale] = []
    wrong: list[_Wrong] = []
    # A table that is not finished, and of which no batch is known to be right, may still come right.
    if reference is not None and (compared or not incomplete):
        known = wanted if compared else {}
        stale, wrong = _compare(keyed_table(reference, shape.mode), keyed_table(given, shape.mode), known)

    other_values = all(row.id in wanted for row in unexplained) and all(right is not None for right, _ in wrong)
    words = _Words(story, wanted, set(come))
    return Findings(
        lost_state=tally(Anomaly.LOST_INPUT, len(stale), (words.stale(*one) for one in stale), "from tables"),
        lost_output=tally(Anomaly.LOST_INPUT, len(missing), (words.missing(one) for one in missing), "from deliveries"),
        duplicate_outputs=tally(Anomaly.DUPLICATE_OUTPUT, len(repeated), (words.repeated(*one) for one in repeated)),
        conflicting_outputs=tally(
            Anomaly.PHANTOM_OUTPUT,
            len(conflicting),
            (words.conflicting(*one) for one in conflicting),
            "given otherwise",
        ),
        phantoms=tally(
            Anomaly.WRONG_VALUE if (unexplained or wrong) and other_values else Anomaly.PHANTOM_OUTPUT,
            len(unexplained) + len(wrong),
            words.phantoms(unexplained, wrong),
        ),
        reordered=tally(Anomaly.REORDERED_OUTPUT, len(reordered), (words.reordered(one) for one in reordered)),
    )


def _rows(given: Iterable[SinkBatch]) -> Iterator[Row]:
    for delivery in given:
        for event in delivery.rows:
            yield Row(event.key, event.value, delivery)


def _same(one: Row | None, other: Row) -> bool:
    return one is not None and same_value(one.value, other.value)


_Conflict = tuple[Row | None, Row | None, SinkBatch]
"""The row as it came before, if it did, and as it came when its batch was repeated, if it did; and that repetition."""
_Stale = tuple[Row, Row | None]
"""The row that a table should have, and the older one that it has instead, if any."""
_Wrong = tuple[Row | None, Row]
"""The row that a table should have, if any, and the one that it has."""


def _compare(
    reference: Mapping[str, Row], judged: Mapping[str, Row], wanted: Mapping[OutputId, Row]
) -> tuple[list[_Stale], list[_Wrong]]:
    stale: list[_Stale] = []
    wrong: list[_Wrong] = []
    for key in sorted(reference.keys() | judged.keys()):
        right, found = reference.get(key), judged.get(key)
        if found is None and right is not None:
            stale.append((right, None))
        elif found is not None and not _same(right, found):
            if right is not None and found.batch < right.batch and _same(wanted.get(found.id), found):
                stale.append((right, found))
            else:
                wrong.append((right, found))
    return stale, wrong


class _Words:
    """Puts an anomaly into words: which batch, which key, when, after which fault."""

    def __init__(self, story: Story, wanted: Mapping[OutputId, Row], delivered: set[int]) -> None:
        self._story = story
        self._wanted = wanted
        self._delivered = delivered

    def missing(self, row: Row) -> Evidence:
        how = "was never delivered" if row.batch in self._delivered else "is missing, as is the whole batch"
        return Evidence(f"{row} {how}", self._story.sink, (), self._story.fault(row.batch))

    def stale(self, right: Row, found: Row | None) -> Evidence:
        if found is None:
            what = f"the table has no row {right.key!r}; it should be that of {right}"
            return Evidence(what, self._story.sink, (), self._story.fault(right.batch))
        what = f"the table's row {right.key!r} is that of {found}, not of {right}"
        return Evidence(what, *self._story.given(found.delivery))

    def repeated(self, earlier: Row, later: Row) -> Evidence:
        then = "" if same_value(earlier.value, later.value) else f", then with {later.value!r}"
        where, at, fault = self._story.given(later.delivery)
        return Evidence(f"{earlier}{then}", where, (earlier.delivery.at, *at), fault)

    def conflicting(self, earlier: Row | None, later: Row | None, delivery: SinkBatch) -> Evidence:
        if earlier is not None and later is not None:
            return self.repeated(earlier, later)
        where, at, fault = self._story.given(delivery)
        if earlier is None:
            return Evidence(f"{later} came when the batch was repeated, and not before", where, at, fault)
        what = f"{earlier} did not come again when the batch was repeated"
        return Evidence(what, where, (earlier.delivery.at, *at), fault)

    def phantoms(self, rows: Iterable[Row], wrong: Iterable[_Wrong]) -> Iterator[Evidence]:
        for row in rows:
            right = self._wanted.get(row.id)
            said = "no row" if right is None else repr(right.value)
            yield Evidence(f"{row}: without failures it is {said}", *self._story.given(row.delivery))
        for right, found in wrong:
            said = "has no such row" if right is None else f"ends with {right.value!r}"
            what = (
                f"the table's row {found.key!r} is {found.value!r}, of batch {found.batch}; without failures it {said}"
            )
            yield Evidence(what, *self._story.given(found.delivery))

    def reordered(self, row: Row) -> Evidence:
        return Evidence(f"{row} came after a later batch", *self._story.given(row.delivery))
