"""Judges one upgrade from its record: what became of the version that went on.

The record is that of a run: two runs of the version that went on, alone and without failures, as the reference; what
the version before had delivered by the crash; and the attempts of the version that went on. Only tables are compared:
how the version before cut its rows into batches is its own affair. What is compared is rows, by the oracles that judge
any query whose table a consumer reads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ..core.addresses import DRIVER
from ..core.errors import InvalidHistory
from ..core.events import Value
from ..core.guarantees import EXACTLY_ONCE, Guarantee
from ..core.verdicts import SAMPLE, Status
from ..judging.keyed_outputs import keyed_table
from ..judging.oracle import Case, Oracle, judge_each
from ..judging.outputs import SinkBatch, deliveries, last_of_each
from ..judging.query_story import often, shortened_row
from ..judging.references import REFERENCES, SINK, collate_references
from ..judging.shapes import OutputMode, OutputShape, text_of
from ..judging.tables import Deviation, Table, compare_tables, table_of
from ..judging.unkeyed_outputs import unkeyed_table
from ..recording.history import Aborted, History, IncarnationFailed, Placed
from ..recording.records import BatchDone, Delivered, EmptyBatch, Ended, Kept, Offered, Record, Stamped, Started, Taken
from .outcomes import Basis, UpgradeOutcome, Way

KEY = "key"
"""Where rows are recorded by key, what the column with it is called."""
VALUES = "values"
"""And what the one with all others is."""
OTHER_BATCHES = "it made other batches than alone, so that what it gave on the way was not compared"
COMPARED_AS_STOPPED = (
    "where its input ended it made a batch of its own, which it does not make alone of all input: it is compared with "
    "what it makes alone when it is stopped at the same place and started again"
)
STATE_LEFT = (
    "Whether the state of the version before is taken over: there is some, and --reference since is what a "
    "version makes that begins with none."
)
_NONE_TAKEN_OVER = (
    "the version before has left state, and its table is what it makes where it begins with none: whether it has taken "
    "that over is not known; compare with --reference all"
)
_SINCE_THE_CHANGE = f"compare what was made since the change, with --reference {Basis.SINCE}"
_WITH_A_TABLE = (
    "and what was made since the change says nothing of the state that is there: give both of them write and read, of "
    "the table that is kept of these rows"
)


@dataclass(frozen=True)
class Sides:
    """What is known of the two versions beside the record."""

    before: OutputShape
    after: OutputShape
    since: int
    """The first incarnation of the version that went on."""
    basis: Basis
    last_counting: int
    """The last batch whose input counts: one must be left for the version that went on."""
    empty_shows: bool = False
    """Whether a table that is empty, as it should be, says that nothing is wrong."""
    state_left: bool = False
    """Whether the version before has left state of its operators."""


def sides_beside(
    way: Way, before: OutputShape, since: int, basis: Basis, last_counting: int, *, state_left: bool = False
) -> Sides:
    """Of a version that goes on from a state of its own, or from what another has left of it. The old one has made all
    of its table by itself; whatever the new one began with, it has gone on from the old one."""
    basis = Basis.ALL if way is Way.UPGRADE else basis
    return Sides(before, before, since, basis, last_counting, True, state_left)


@dataclass(frozen=True)
class SwitchJudgement:
    """What the record comes to."""

    outcome: UpgradeOutcome
    why: str = ""
    committed: int = -1
    rows: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    own: bool = False
    """Whether the version before had gone on itself, and had committed nothing since."""


def judge_switch(
    history: History,
    sides: Sides,
    guarantees: Sequence[Guarantee],
    oracles: Mapping[str, Oracle],
    changed: Sequence[str] = (),
) -> SwitchJudgement:
    """`changed` is what a version that failed has changed in the folders, by path.

    Raises UnknownName for a guarantee without an oracle.
    """
    committed = committed_before(history, sides.since)
    failed = [one for one in history.timeline if isinstance(one, IncarnationFailed) and one.incarnation >= sides.since]
    given_up = next((one for one in history.timeline if isinstance(one, Aborted)), None)
    if given_up is not None:
        outcome, why = _of_failed(history, sides, failed, given_up, changed)
        return SwitchJudgement(outcome, why, committed)
    if not history.drained:
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, "the record does not show that it came to its end", committed)
    notes = tuple(_notes(history, sides, failed, committed))
    if committed >= sides.last_counting:
        why = f"batch {committed} was committed by then, and no input that counts was left to be processed"
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, why, committed, notes=notes)
    if (again := _again(history, sides.since)) is not None:
        why = f"it processed batch {again} again, which had been committed: it did not go on from what was there"
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, why, committed, notes=notes)
    if (first := first_told_of(history, last_incarnation(history))) is not None:
        why = (
            f"what it did before batch {first} is not on record, so that whether it processed again what had been "
            "committed is not known: let its code keep spark.sql.streaming.numRecentProgressUpdates as it is"
        )
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, why, committed, notes=notes)
    if not _processed(history, sides.since, committed):
        why = "no batch with input that came since the change is on record: that it goes on shows nothing"
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, why, committed, notes=notes)
    if not all(_processed(history, ended + 1, committed) for ended in _ended_before(history, sides.since)):
        why = "no batch with input is on record since it was started again: that it goes on shows nothing"
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, why, committed, notes=notes)
    if why := _incomparable(history, sides):
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, why, committed, notes=notes)
    try:
        found = _compared(history, sides, guarantees, oracles)
    except InvalidHistory as error:
        # Rows that are none, or without their key: what came about from other states is known all the same.
        found = SwitchJudgement(UpgradeOutcome.UNKNOWN, str(error))
    if found.outcome is UpgradeOutcome.CONTINUES and sides.state_left and sides.basis is Basis.SINCE:
        # Whoever has lost all of it has made just that.
        found = replace(found, outcome=UpgradeOutcome.UNKNOWN, why=_NONE_TAKEN_OVER)
    return replace(found, committed=committed, notes=notes, own=_is_own(history, sides.since, committed))


def committed_before(history: History, since: int) -> int:
    """The last batch that was committed by the time the version that went on was started for the first time, whatever
    it found of that; -1: none."""
    started = (one for one in history.each(Started) if one.slice == DRIVER and one.incarnation <= since)
    return max((one.restored[1] for one in started if one.restored is not None), default=-1)


def _of_failed(
    history: History, sides: Sides, failed: Sequence[IncarnationFailed], given_up: Aborted, changed: Sequence[str]
) -> tuple[UpgradeOutcome, str]:
    did = done_by(history, sides.since, changed)
    if given_up.silent is not None:
        silence = f"it did not come to an end: no sign of work for {given_up.silent / 1e6:,.0f} s; {given_up.why}"
        return UpgradeOutcome.CRASH_LOOP, silence
    last = failed[-1] if failed else None
    if last is None or last.incarnation != last_incarnation(history):
        # What ended the last of its attempts was no error of its own.
        return UpgradeOutcome.UNKNOWN, given_up.why
    if len(failed) < 2:
        return UpgradeOutcome.UNKNOWN, f"it failed once, and was not started again: {last.why}"
    if _ended_before(history, sides.since):
        return UpgradeOutcome.CRASH_LOOP, f"it had gone on, and ended in order; started again, it failed: {last.why}"
    if did:
        return UpgradeOutcome.CRASH_LOOP, f"after it had {did}, it failed at each start: {last.why}"
    return UpgradeOutcome.REFUSED, last.why


def last_incarnation(history: History) -> int:
    """Of the driver; 0: none was begun."""
    placed = (one for one in history.timeline if isinstance(one, Placed) and one.actor == DRIVER)
    return max((one.incarnation for one in placed), default=0)


def _ended_before(history: History, since: int) -> list[int]:
    """The incarnations of the version that went on that ended in order, but for the last of all: it was started again
    after each."""
    last = last_incarnation(history)
    ended = {one.incarnation for one in history.each(Ended) if one.slice == DRIVER}
    return sorted(one for one in ended if since <= one < last)


def done_by(history: History, since: int, changed: Sequence[str]) -> str:
    """What the version that went on did that outlives it, as far as it counts: the sink or the commit log has it."""
    if any(one.sink == SINK and one.incarnation >= since for one in _given(history)):
        return "given rows to the sink"
    for said in changed:
        path = _HOW.sub("", said)
        if path.endswith("/"):
            # Spark makes folders before it looks at what is there.
            continue
        if _COMMIT.fullmatch(path):
            return f"taken back a commit ({said})" if said.endswith("(gone)") else f"committed a batch ({said})"
        if not path.startswith("checkpoint/"):
            return f"changed what the sink holds ({said})"
    return ""


_HOW: Final = re.compile(r" \((new|gone|changed)\)$")
_COMMIT: Final = re.compile(r"checkpoint/commits/[0-9]+")


def _again(history: History, since: int) -> int | None:
    """A batch that had been committed when it was started, and that the version that went on has processed: as one does
    that has a checkpoint of its own elsewhere."""
    done = {(one.incarnation, one.batch) for one in history.each(BatchDone) if one.actor == DRIVER}
    done |= {(one.incarnation, one.batch) for one in deliveries(history, SINK)}
    committed = {number: committed_before(history, number) for number, _ in done if number >= since}
    return min((batch for number, batch in done if batch <= committed.get(number, -1)), default=None)


def first_told_of(history: History, incarnation: int) -> int | None:
    """The first batch of which Spark has told, of this attempt, where the one with which that went on is another; None:
    nothing is missing, or it has told of none."""
    began = [one for one in history.each(Started) if one.slice == DRIVER and one.incarnation == incarnation]
    found = -1 if not began or began[-1].restored is None else began[-1].restored[1]
    done = (one.batch for one in history.each(BatchDone) if one.actor == DRIVER and one.incarnation == incarnation)
    first = min(done, default=0)
    return first if first > found + 1 else None


def _processed(history: History, since: int, committed: int) -> bool:
    """Whether the version that went on has taken anything of the input that was left: by what Spark has said of its
    batches, or, as long as that is said of none, by what the sink was given."""
    done = [one for one in history.each(BatchDone) if one.actor == DRIVER and one.incarnation >= since]
    if done:
        return any(one.rows for one in done if one.batch > committed)
    return any(one.batch > committed for one in deliveries(history, SINK) if one.incarnation >= since)


def _given(history: History) -> Iterator[Delivered | EmptyBatch]:
    yield from history.each(Delivered)
    yield from history.each(EmptyBatch)


def _notes(history: History, sides: Sides, failed: Sequence[IncarnationFailed], committed: int) -> Iterator[str]:
    if failed:
        yield f"it failed {often(len(failed))} before it went on: {failed[-1].why}"
    if committed < 0:
        yield "nothing was committed by then: it began with the first batch"
    elif _is_own(history, sides.since, committed):
        yield f"the version before it had committed nothing since it had gone on from batch {committed} itself"
    if (twice := _given_otherwise_before(history, sides)) is not None:
        yield (
            f"batch {twice} had been given to the sink before, with other rows: one that passes over a batch that it "
            "has keeps those, and one that adds all that it is given has both"
        )
    if any(one.slice == REFERENCES[0] and one.incarnation > 1 for one in history.each(Started)):
        yield COMPARED_AS_STOPPED
    if compares_on_the_way(sides):
        alone, given = last_of_each(deliveries(history, REFERENCES[0])), _given_since(history, sides)
        if given and not _cut_alike(history, alone, given):
            yield OTHER_BATCHES
    old = _untouched(history, sides)
    if old:
        yield f"{old:,} rows of its table are of before the change: no later input touched them"


def _is_own(history: History, since: int, committed: int) -> bool:
    """Whether the version before had gone on itself, from as many batches as are committed now."""
    return 0 <= committed == _found_by_the_last(history, since)


def _found_by_the_last(history: History, since: int) -> int:
    """The last batch that was committed when the version before was started last, where it went on itself; -1 else."""
    started = (one for one in history.each(Started) if one.slice == DRIVER and one.incarnation == since - 1)
    return max((one.restored[1] for one in started if one.restored is not None), default=-1)


def _given_otherwise_before(history: History, sides: Sides) -> int | None:
    """The first batch that the version before has given to the harness's sink, and the one that went on with other
    rows: it was under way at the change. Of tables that are given whole, the last is all that counts."""
    if OutputMode.COMPLETE in (sides.before.mode, sides.after.mode):
        return None
    given, since = deliveries(history, SINK), sides.since
    before = last_of_each(one for one in given if one.incarnation < since)
    after = last_of_each(one for one in given if one.incarnation >= since)
    return min(
        (batch for batch in before.keys() & after.keys() if _rows(before[batch]) != _rows(after[batch])), default=None
    )


def _rows(given: SinkBatch) -> list[str]:
    return [text_of([row.key, row.value]) for row in given.rows]


def _untouched(history: History, sides: Sides) -> int:
    """Rows of the table, in update mode, that nobody has replaced since: what the state says of them is not known."""
    if sides.after.reads or sides.after.mode is not OutputMode.UPDATE or sides.basis is Basis.SINCE:
        return 0
    table = keyed_table(deliveries(history, SINK), sides.after.mode)
    return sum(row.delivery.incarnation < sides.since for row in table.values())


# Tables


def _incomparable(history: History, sides: Sides) -> str:
    before, after = sides.before, sides.after
    if before.reads != after.reads:
        return (
            "one version's table is read by a consumer, and the other's is what the harness's sink was given: give "
            "both of them write and read, or neither"
        )
    if sides.basis is Basis.SINCE:
        return "of a table that a consumer reads, nobody can say what is of the time since the change" * after.reads
    if after.reads or after.mode is OutputMode.COMPLETE:
        return ""
    from_before = any(one.rows and one.incarnation < sides.since for one in deliveries(history, SINK))
    if not from_before:
        return ""
    # Each batch of a table that is given whole is all of it.
    whole = before.mode is OutputMode.COMPLETE and not after.keyed_outputs
    if whole or before.keyed_outputs != after.keyed_outputs or (after.keyed_outputs and before.key != after.key):
        keys = " and ".join(", ".join(shape.key) or "no key" for shape in (before, after))
        return (
            f"the rows of the two versions make no common table: they have {keys}, in {before.mode} and {after.mode} "
            f"mode; {_WITH_A_TABLE if sides.state_left else _SINCE_THE_CHANGE}"
        )
    return ""


def table_given(given: Iterable[SinkBatch], shape: OutputShape) -> Table:
    """What the harness's sink was given, as a table: whole rows, or of each key the rest."""
    if not shape.keyed_outputs:
        return unkeyed_table(given, shape.mode)
    rows = keyed_table(given, shape.mode)
    return Counter(text_of({KEY: key, VALUES: row.value}) for key, row in rows.items())


def final_tables(history: History, sides: Sides) -> dict[str, Table]:
    """By who made it: each of the reference runs, and the one that is judged."""
    if sides.after.reads:
        return {kept.actor: table_of(kept.rows) for kept in history.each(Kept)}
    judged = deliveries(history, SINK)
    if sides.basis is Basis.SINCE:
        judged = [one for one in judged if one.incarnation >= sides.since]
    found = {name: table_given(deliveries(history, name), sides.after) for name in REFERENCES}
    return {**found, DRIVER: table_given(judged, sides.after)}


def table_alone(records: Sequence[Stamped], shape: OutputShape, name: str = REFERENCES[0]) -> Table | None:
    """What a version has made without the other, in one of its runs, by their records; None where nobody has read
    it."""
    history = History(records, ())
    if shape.reads:
        return next((table_of(one.rows) for one in history.each(Kept) if one.actor == name), None)
    return table_given(deliveries(history, name), shape)


def _as_read(history: History, tables: Mapping[str, Table], incarnation: int) -> History:
    """The same run, of which no more is known than the tables at the end."""
    kept: list[Stamped] = []
    for stamped in history.of(Offered, Started, Ended, Taken, BatchDone):
        record: Record = stamped.record
        if isinstance(record, Ended) and record.slice in REFERENCES:
            kept.append(_kept(stamped.at, record.slice, 1, tables[record.slice]))
        kept.append(stamped)
    kept.append(_kept(kept[-1].at if kept else 0, DRIVER, incarnation, tables[DRIVER]))
    return History(kept, history.timeline, history.sealed)


def _kept(at: int, actor: str, incarnation: int, table: Table) -> Stamped:
    rows: dict[str, Value] = dict(sorted(table.items()))
    return Stamped(at, Kept(actor, incarnation, rows))


def _compared(
    history: History, sides: Sides, guarantees: Sequence[Guarantee], oracles: Mapping[str, Oracle]
) -> SwitchJudgement:
    tables = final_tables(history, sides)
    missing = [name for name in (*REFERENCES, DRIVER) if name not in tables]
    if missing:
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, f"the table of {', '.join(missing)} is not in the record")
    if not any(tables.values()):
        if sides.empty_shows:
            return SwitchJudgement(UpgradeOutcome.CONTINUES)
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, _empty(sides.basis))
    keyed = sides.after.keyed_outputs and not sides.after.reads
    key = (KEY,) if keyed else sides.after.key
    shape = OutputShape(sides.after.mode, key, reads=True)
    as_read = _as_read(history, tables, sides.since)
    anew = partial(collate_references, as_read, shape)
    case = Case(as_read, anew(), anew=anew)
    if case.collation.unjudgeable:
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, case.collation.unjudgeable)
    verdicts = judge_each(case, guarantees, oracles)
    rows = differing_rows(tables[REFERENCES[0]], tables[DRIVER], key)
    on_the_way = "" if rows else "its table is right at the end, and was another one on the way"
    if on_the_way:
        rows = given_otherwise(history, sides)
    violated = [one for one in verdicts if one.status is Status.VIOLATED]
    if violated:
        said = "; ".join(f"{one.guarantee} is violated: {one.summary}" for one in violated)
        return SwitchJudgement(UpgradeOutcome.WRONG, said, rows=rows)
    unknown = [one for one in verdicts if one.status is not Status.HOLDS]
    if unknown:
        said = "; ".join(f"{one.guarantee}: {one.reason}" for one in unknown)
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, said, rows=rows)
    if on_the_way and rows:
        # State that was lost, and that input which came again has made good: of a maximum, say, or a set.
        if any(one.name == EXACTLY_ONCE for one in guarantees):
            return SwitchJudgement(UpgradeOutcome.WRONG, on_the_way, rows=rows)
        claimed = ", ".join(str(one.guarantee) for one in verdicts)
        said = f"{on_the_way}, of which {claimed} says nothing: which inputs its rows lack, or have twice, is not known"
        return SwitchJudgement(UpgradeOutcome.UNKNOWN, said, rows=rows)
    if rows:
        # The claim allows it, as at-least-once allows a row twice.
        allowed = ", ".join(str(one.guarantee) for one in verdicts)
        return SwitchJudgement(UpgradeOutcome.CONTINUES, f"its table differs as far as {allowed} allows", rows=rows)
    return SwitchJudgement(UpgradeOutcome.CONTINUES)


def _empty(basis: Basis) -> str:
    of = "the input since the change" if basis is Basis.SINCE else "this input"
    return (
        f"its table is empty, as it is where it makes it of {of} alone, and shows nothing: if rows are to come, its "
        "code loses them, with the change or without; else give it an input of which it makes some"
    )


def given_otherwise(history: History, sides: Sides) -> tuple[str, ...]:
    """Rows that the version gave on the way, where each batch gives what the table has from then on, and that it does
    not give alone after the same input."""
    if not compares_on_the_way(sides):
        return ()
    one, other = (last_of_each(deliveries(history, name)) for name in REFERENCES)
    given = _given_since(history, sides)
    if not _cut_alike(history, one, given):
        return ()
    found: list[str] = []
    for batch in sorted(given):
        wanted, unsure, table = (table_given([some[batch]], sides.after) for some in (one, other, given))
        if wanted == unsure:
            key = (KEY,) if sides.after.keyed_outputs else ()
            found += [f"batch {batch}: {said}" for said in differing_rows(wanted, table, key)]
    return tuple(found[:SAMPLE])


def compares_on_the_way(sides: Sides) -> bool:
    """Whether what each batch has given is compared, as far as both have made the same batches."""
    return not sides.after.reads and sides.after.mode is not OutputMode.APPEND and sides.basis is Basis.ALL


def _given_since(history: History, sides: Sides) -> dict[int, SinkBatch]:
    return last_of_each(one for one in deliveries(history, SINK) if one.incarnation >= sides.since)


def _cut_alike(history: History, alone: Mapping[int, SinkBatch], given: Mapping[int, SinkBatch]) -> bool:
    """Whether the version has made the batches that it makes alone, of which the other has made the first: as many
    rows of input in each, as far as that is known."""
    if not given or given.keys() != {batch for batch in alone if batch >= min(given)}:
        return False
    known: dict[str, dict[int, int]] = {REFERENCES[0]: {}, DRIVER: {}}
    for done in history.each(BatchDone):
        if done.actor in known:
            known[done.actor][done.batch] = done.rows
    wanted, found = known[REFERENCES[0]], known[DRIVER]
    return all(wanted[batch] == found[batch] for batch in given if batch in wanted and batch in found)


def differing_rows(wanted: Table, found: Table, key: Sequence[str]) -> tuple[str, ...]:
    """The first few, each in words."""
    compared = compare_tables(wanted, found, key)
    said = [
        *map(_said, compared.strange),
        *map(_said, compared.doubled),
        *map(_said, compared.lost),
    ]
    # Beside strange rows, a comparison without a key names no lost ones.
    if not key and compared.strange:
        said += [
            f"{shortened_row(row)} not at all; it should be there {often(n)}" for row, n in (wanted - found).items()
        ]
    return (*said[:SAMPLE], *([f"and {len(said) - SAMPLE:,} more"] if len(said) > SAMPLE else []))


def _said(one: Deviation) -> str:
    if one.instead_of is not None:
        return f"{shortened_row(one.row)} where it should be {shortened_row(one.instead_of)}"
    return f"{shortened_row(one.row)} {often(one.found)}; it should be there {often(one.wanted)}"
