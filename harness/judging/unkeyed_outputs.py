"""Judges what a sink was given in append mode, or in complete mode without a key, and tables that a consumer reads.

Rows without a key are multisets, batch by batch. The same batch delivered again is a repetition, and no second effect.
Where nothing is missing, a further copy of a row of the table is one. Where nothing is too many, a row that is missing
is lost. Where both are found, a row that should not be there may stand in the place of one that is missing: an operator
that has lost its state gives early rows once more in the place of later ones, and loses and doubles nothing that could
be pointed at. Only where no batch has both, and no row came in another batch than it should, do the two have nothing to
do with one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ..core.verdicts import Anomaly, Evidence, Tally, tally
from .findings import Findings
from .outputs import SinkBatch, last_of_each
from .query_story import Story, often, shortened_row
from .shapes import OutputMode, OutputShape
from .tables import Deviation, Table, columns_of, compare_tables, doubt_of, total


def unkeyed_table(given: Iterable[SinkBatch], mode: OutputMode) -> Table:
    """The table that is left: the rows of all batches, each batch as it came last; in complete mode the batch that came
    last."""
    given = list(given)
    kept = given[-1:] if mode is OutputMode.COMPLETE else last_of_each(given).values()
    table: Table = Counter()
    for delivery in kept:
        table.update(delivery.counts)
    return table


def find_in_table(wanted: Table, found: Table, key: Sequence[str], story: Story, where: str) -> Findings:
    """Compares two tables, where nothing is known of how they came about."""
    comparison = compare_tables(wanted, found, key)
    words = _TableWords(story, key, where)
    return Findings(
        lost_state=words.tally(Anomaly.LOST_INPUT, comparison.lost),
        duplicate_effects=words.tally(Anomaly.DUPLICATE_EFFECT, comparison.doubled),
        phantoms=words.tally(
            Anomaly.WRONG_VALUE if comparison.strange and comparison.other_values else Anomaly.PHANTOM_OUTPUT,
            comparison.strange,
        ),
        doubt=comparison.doubt,
    )


def find_in_unkeyed(
    reference: Sequence[SinkBatch] | None,
    given: Sequence[SinkBatch],
    shape: OutputShape,
    story: Story,
    incomplete: bool,
) -> Findings:
    """Compares each batch with that of the reference, and the table with the reference's. Without a reference, only
    what the deliveries say of each other; without fixed batches, that and the table."""
    repeats = _Repeats.of(given)
    found = Findings()
    if reference is not None and not shape.own_source:
        come = {delivery.batch for delivery in given}
        # What a run that was cut short has not given yet is not missing.
        due = [delivery for delivery in reference if delivery.batch in come] if incomplete else reference
        found = _find_in_batches(_Batches.of(due, given, shape.mode), story)
    elif reference is not None and not incomplete:
        wanted, table = (unkeyed_table(deliveries, shape.mode) for deliveries in (reference, given))
        found = find_in_table(wanted, table, (), story, story.sink)
    return Findings(
        found.lost_state,
        found.lost_output,
        found.duplicate_effects,
        tally(Anomaly.DUPLICATE_OUTPUT, _total(repeats.again), _told(repeats.again, story)),
        tally(
            Anomaly.PHANTOM_OUTPUT, _total(repeats.conflicting), _told(repeats.conflicting, story), "given otherwise"
        ),
        phantoms=found.phantoms,
        reordered=tally(Anomaly.REORDERED_OUTPUT, _total(repeats.reordered), _told(repeats.reordered, story)),
        doubt=found.doubt,
    )


@dataclass(frozen=True)
class _Said:
    """Something of a delivery that shows in no reference."""

    delivery: SinkBatch
    row: str
    count: int
    what: str
    before: tuple[int, ...] = ()
    """When the batch had come before."""


def _total(said: Iterable[_Said]) -> int:
    return sum(one.count for one in said)


def _told(said: Iterable[_Said], story: Story) -> Iterator[Evidence]:
    for one in said:
        where, at, fault = story.given(one.delivery)
        what = f"batch {one.delivery.batch} {shortened_row(one.row)} {one.what}"
        yield Evidence(what, where, (*one.before, *at), fault)


@dataclass(frozen=True)
class _Repeats:
    """What deliveries say of each other."""

    again: list[_Said]
    conflicting: list[_Said]
    reordered: list[_Said]

    @classmethod
    def of(cls, given: Iterable[SinkBatch]) -> _Repeats:
        found = cls([], [], [])
        seen: dict[int, tuple[Table, int]] = {}
        latest = -1
        for one in given:
            if one.batch in seen:
                found._hear_again(one, *seen[one.batch])
                seen[one.batch] = seen[one.batch][0] | one.counts, seen[one.batch][1]
            else:
                seen[one.batch] = one.counts, one.at
                if one.batch < latest:
                    found.reordered.extend(
                        _Said(one, row, count, "came after a later batch") for row, count in one.counts.items()
                    )
            latest = max(latest, one.batch)
        return found

    def _hear_again(self, one: SinkBatch, before: Table, at: int) -> None:
        for row, count in (one.counts & before).items():
            self.again.append(_Said(one, row, count, f"came again {often(count)}", (at,)))
        for row, count in (one.counts - before).items():
            self.conflicting.append(_Said(one, row, count, "came when the batch was repeated, and not before", (at,)))
        for row, count in (before - one.counts).items():
            self.conflicting.append(_Said(one, row, count, "did not come again when the batch was repeated", (at,)))


@dataclass(frozen=True)
class _Batches:
    """Batch by batch, by number, what should have been given and what was."""

    wanted: Mapping[int, Table]
    never: Mapping[int, Table]
    """What no delivery of the batch had."""
    missing: Mapping[int, Table]
    """What its last delivery did not have."""
    extra: Mapping[int, Table]
    """What one of its deliveries had too many."""
    copies: Mapping[int, Table]
    """Of these, the rows that the table has, and so has once more: of the batch, or in append mode of any."""
    left_out: Mapping[int, Table]
    """What the table at the end lacks, by the batch that should have left it there."""
    deliveries: Mapping[int, Sequence[SinkBatch]]

    @classmethod
    def of(cls, reference: Sequence[SinkBatch], given: Sequence[SinkBatch], mode: OutputMode) -> _Batches:
        wanted = {batch: one.counts for batch, one in last_of_each(reference).items()}
        last = {batch: one.counts for batch, one in last_of_each(given).items()}
        deliveries: dict[int, list[SinkBatch]] = {}
        for one in given:
            deliveries.setdefault(one.batch, []).append(one)
        most = {batch: _most(some) for batch, some in deliveries.items()}
        extra = {batch: table - wanted.get(batch, _NONE) for batch, table in most.items()}
        missing = {batch: table - last.get(batch, _NONE) for batch, table in wanted.items()}
        left_out: Mapping[int, Table] = missing
        everything = set(chain.from_iterable(wanted.values()))
        if mode is OutputMode.COMPLETE and reference:
            left_out = {reference[-1].batch: unkeyed_table(reference, mode) - unkeyed_table(given, mode)}
        return cls(
            wanted,
            {batch: table - most.get(batch, _NONE) for batch, table in wanted.items()},
            missing,
            extra,
            {
                batch: _only(table, wanted.get(batch, _NONE) if mode is OutputMode.COMPLETE else everything)
                for batch, table in extra.items()
            },
            left_out,
            deliveries,
        )

    @property
    def doubt(self) -> str:
        """Why what is missing and what is too many cannot be told apart; empty where they can."""
        return doubt_of(max(_sum(self.missing), _sum(self.left_out)), _sum(self.extra)) if self._entangled() else ""

    def _entangled(self) -> bool:
        in_one_batch = any(table and self.extra.get(batch) for batch, table in self.missing.items())
        moved = set(chain.from_iterable(self.missing.values())) & set(chain.from_iterable(self.extra.values()))
        strange = _sum(self.extra) > _sum(self.copies)
        return in_one_batch or bool(moved) or strange


_NONE: Table = Counter()


def _most(deliveries: Iterable[SinkBatch]) -> Table:
    most: Table = Counter()
    for delivery in deliveries:
        most |= delivery.counts
    return most


def _only(table: Table, rows: Container[str]) -> Table:
    return Counter({row: count for row, count in table.items() if row in rows})


def _sum(tables: Mapping[int, Table]) -> int:
    return sum(table.total() for table in tables.values())


def _find_in_batches(batches: _Batches, story: Story) -> Findings:
    words = _BatchWords(batches, story)
    doubt = batches.doubt
    if doubt:
        wrong = tally(Anomaly.PHANTOM_OUTPUT, _sum(batches.extra), words.extra(batches.extra))
        return Findings(phantoms=wrong, doubt=doubt)
    strange = {batch: table - batches.copies[batch] for batch, table in batches.extra.items()}
    return Findings(
        lost_state=tally(Anomaly.LOST_INPUT, _sum(batches.left_out), words.left_out(batches.left_out), "from tables"),
        lost_output=tally(Anomaly.LOST_INPUT, _sum(batches.never), words.never(batches.never), "from deliveries"),
        duplicate_effects=tally(Anomaly.DUPLICATE_EFFECT, _sum(batches.copies), words.extra(batches.copies)),
        phantoms=tally(Anomaly.PHANTOM_OUTPUT, _sum(strange), words.extra(strange)),
    )


def _in_order(tables: Mapping[int, Table]) -> Iterator[tuple[int, str, int]]:
    for batch in sorted(tables):
        for row in sorted(tables[batch]):
            yield batch, row, tables[batch][row]


class _BatchWords:
    """Puts an anomaly of a batch into words."""

    def __init__(self, batches: _Batches, story: Story) -> None:
        self._batches = batches
        self._story = story

    def never(self, tables: Mapping[int, Table]) -> Iterator[Evidence]:
        for batch, row, count in _in_order(tables):
            what = "was never delivered" if batch in self._batches.deliveries else "is missing, as is the whole batch"
            yield self._missing(batch, row, f"batch {batch} {shortened_row(row)} {what}{_so_often(count)}")

    def left_out(self, tables: Mapping[int, Table]) -> Iterator[Evidence]:
        for batch, row, count in _in_order(tables):
            yield self._missing(batch, row, f"the table lacks {shortened_row(row)} of batch {batch}{_so_often(count)}")

    def extra(self, tables: Mapping[int, Table]) -> Iterator[Evidence]:
        for batch, row, _ in _in_order(tables):
            wanted = self._batches.wanted.get(batch, _NONE)[row]
            delivery = max(self._batches.deliveries[batch], key=lambda one: one.counts[row])
            found = f"batch {batch} has {shortened_row(row)} {often(delivery.counts[row])}"
            what = f"{found}; without failures {often(wanted)}"
            lacks = next(iter(sorted(self._batches.missing.get(batch, ()))), None)
            if lacks is not None:
                what += f", and it lacks {shortened_row(lacks)}"
            likely, _ = self._story.likely_input(columns_of(row), batch)
            yield Evidence(what + likely, *self._story.given(delivery))

    def _missing(self, batch: int, row: str, what: str) -> Evidence:
        likely, _ = self._story.likely_input(columns_of(row), batch)
        return Evidence(what + likely, self._story.sink, (), self._story.fault(batch))


def _so_often(count: int) -> str:
    return "" if count == 1 else f", {often(count)}"


class _TableWords:
    """Puts what is wrong with a table into words."""

    def __init__(self, story: Story, key: Sequence[str], where: str) -> None:
        self._story = story
        self._key = key
        self._where = where

    def tally(self, anomaly: Anomaly, deviations: Sequence[Deviation]) -> Tally:
        return tally(anomaly, total(deviations), map(self._evidence, deviations))

    def _evidence(self, deviation: Deviation) -> Evidence:
        row = shortened_row(deviation.row)
        if deviation.instead_of is not None:
            what = f"the table has {row} where it should have {shortened_row(deviation.instead_of)}"
        else:
            what = f"the table has {row} {often(deviation.found)}; without failures {often(deviation.wanted)}"
        likely, batch = self._story.likely_input(columns_of(deviation.row), None)
        return Evidence(what + likely, self._where, (), self._story.fault(batch))
