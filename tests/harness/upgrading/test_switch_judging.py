"""What became of an upgrade is judged from its record: rows, and never the word of the version that went on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from certified import JUDGES
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import Guarantee, at_least_once, exactly_once
from streamproof.harness.judging.references import DRIVER, REFERENCES, SINK, row_number
from streamproof.harness.judging.shapes import OutputMode, OutputShape
from streamproof.harness.recording.history import (
    Aborted,
    Bite,
    Drained,
    FaultStruck,
    History,
    IncarnationFailed,
    Placed,
    Proof,
    Stamp,
    TimelineEntry,
)
from streamproof.harness.recording.records import BatchDone, Delivered, Ended, Kept, Offered, Record, Stamped, Started
from streamproof.harness.upgrading.outcomes import Basis, UpgradeOutcome
from streamproof.harness.upgrading.switch_judging import Sides, SwitchJudgement, judge_switch

Rows = Mapping[str, Any]
Given = Mapping[int, Rows]
"""Batch -> key -> value."""

COUNTS = OutputShape(OutputMode.UPDATE, ("word",))
LINES = OutputShape(OutputMode.APPEND)
READ = OutputShape(OutputMode.APPEND, reads=True)
ALONE: Given = {0: {"a": 1, "b": 1}, 1: {"a": 2, "c": 1}, 2: {"a": 3, "b": 2, "c": 2}}
"""What the new version makes of all input."""
SINCE = 2
"""The first incarnation of the version that went on."""


def judged(
    old: Given,
    new: Given,
    *,
    alone: Given = ALONE,
    other: Given | None = None,
    committed: int = 0,
    before: OutputShape = COUNTS,
    after: OutputShape = COUNTS,
    basis: Basis = Basis.ALL,
    failed: Sequence[int] = (),
    gave_up: str = "",
    attempts: int | None = None,
    silent: int | None = None,
    bit: bool = True,
    changed: Sequence[str] = (),
    claims: Sequence[Guarantee] = (exactly_once(),),
    read: Mapping[str, int] | None = None,
    done: Sequence[int] = (),
    done_alone: Mapping[int, int] | None = None,
    empty_shows: bool = False,
    state_left: bool = False,
    since: int = SINCE,
    rows_done: int = 6,
    found: int | None = None,
    ended: int | None = None,
) -> SwitchJudgement:
    """`failed` are the incarnations that ended by an error, `attempts` is how many there were of the version that went
    on (the failed ones, unless told otherwise), and `other` is what the second reference run gave. `found` is what had
    been committed when the version before was started, where it went on itself. Whoever goes on has `done` batches, of
    so many rows of input; where it `ended` in order after a batch, it was started again then."""
    records: list[Stamped] = []

    def note(record: Record) -> None:
        records.append(Stamped(len(records), record))

    note(Offered("source", [Event("source", n, "k", "v", n) for n in range(1, 7)]))
    for name, given in zip(REFERENCES, (alone, alone if other is None else other), strict=True):
        for batch, rows in given.items():
            note(delivered(name, batch, rows, 1))
        for batch, count in (done_alone or {}).items():
            note(BatchDone(name, 1, batch, count, 0, 0, 10))
        if read is not None:
            note(Kept(name, 1, dict.fromkeys(("x", "y"), 1)))
        note(Ended(name, 1, {"source": [1]}))
    note(Started(DRIVER, 1, None if found is None else (0, found), 0))
    for batch, rows in old.items():
        note(delivered(SINK, batch, rows, 1))
    restored = (1, committed) if committed >= 0 else None
    number = SINCE
    timeline: list[TimelineEntry] = [struck(bit)]
    for number in range(SINCE, SINCE + max(1, len(failed) if attempts is None else attempts)):
        # Whoever is not the first of them finds nothing, where `since` says that it is of another version.
        note(Started(DRIVER, number, None if SINCE < number == since else restored, row_number(committed + 1, 0)))
        timeline.append(Placed(Stamp(40), DRIVER, number, DRIVER))
        if number == SINCE and ended is not None:
            restored = (SINCE, ended)
            for batch in range(committed + 1, ended + 1):
                note(delivered(SINK, batch, alone[batch], number))
                note(BatchDone(DRIVER, number, batch, rows_done, 0, 0, 10))
            note(Ended(DRIVER, number, {"source": [1]}))
    for batch, rows in new.items():
        note(delivered(SINK, batch, rows, number))
    timeline += [IncarnationFailed(Stamp(50), DRIVER, one, 1, "query 'q' failed: [STATE_SCHEMA] no") for one in failed]
    if gave_up:
        timeline.append(Aborted(Stamp(90), gave_up, silent))
    else:
        for batch in done:
            note(BatchDone(DRIVER, number, batch, rows_done, 0, 0, 10))
        if read is not None:
            note(Kept(DRIVER, number, dict(read)))
        note(Ended(DRIVER, number, {"source": [1]}))
        timeline.append(Drained(Stamp(100)))
    return judge_switch(
        History(records, timeline),
        Sides(before, after, since, basis, 2, empty_shows, state_left),
        claims,
        JUDGES,
        changed,
    )


def delivered(sink: str, batch: int, rows: Rows, incarnation: int) -> Delivered:
    events = [Event("q", row_number(batch, n), key, rows[key], 0) for n, key in enumerate(sorted(rows))]
    return Delivered(sink, "q", incarnation, 0, events)


def struck(bit: bool) -> FaultStruck:
    bite = Bite(DRIVER, "worker-0", (DRIVER,), True, proof=Proof(3 if bit else 0, "files put back"))
    return FaultStruck(Stamp(10), 0, "crash", "driver#1 after commit-log 0", bite)


OLD: Given = {0: {"a": 1, "b": 1}}
REST: Given = {1: {"a": 2, "c": 1}, 2: {"a": 3, "b": 2, "c": 2}}


def test_one_that_ends_with_the_table_of_all_input_continues() -> None:
    found = judged(OLD, REST)

    assert (found.outcome, found.committed, found.notes) == (UpgradeOutcome.CONTINUES, 0, ())


def test_one_whose_counts_begin_anew_is_silently_wrong_and_the_rows_say_so() -> None:
    found = judged(OLD, {1: {"a": 1, "c": 1}, 2: {"a": 2, "b": 1, "c": 2}})

    assert found.outcome is UpgradeOutcome.WRONG
    assert found.rows[0] == '{"key":"a","values":2} where it should be {"key":"a","values":3}'


MADE_GOOD: Given = {1: {"a": 1, "c": 1}, 2: REST[2]}
"""Its state was lost, and what came later has made that good."""


def test_one_whose_table_was_another_one_on_the_way_is_silently_wrong() -> None:
    for mode in (OutputMode.UPDATE, OutputMode.COMPLETE):
        shape = OutputShape(mode, ("word",))
        found = judged(OLD, MADE_GOOD, before=shape, after=shape)

        assert found.outcome is UpgradeOutcome.WRONG
        assert "its table is right at the end, and was another one on the way" in found.why
        assert found.rows == ('batch 1: {"key":"a","values":1} where it should be {"key":"a","values":2}',)


def test_of_other_rows_on_the_way_a_weaker_claim_says_nothing() -> None:
    """As it does of such rows at the end."""
    found, at_end = (judged(OLD, new, claims=[at_least_once()]) for new in (MADE_GOOD, {**REST, 2: {"a": 1, "c": 2}}))

    assert [one.outcome for one in (found, at_end)] == [UpgradeOutcome.UNKNOWN] * 2
    assert "right at the end, and was another one on the way, of which at-least-once says nothing" in found.why


def test_where_the_version_cuts_its_batches_otherwise_than_alone_what_it_gives_on_the_way_is_not_compared() -> None:
    more = judged(OLD, {**MADE_GOOD, 3: {"c": 2}})
    others = judged(OLD, MADE_GOOD, done=(1, 2), done_alone={1: 6, 2: 0})

    for found in (more, others):
        assert found.outcome is UpgradeOutcome.CONTINUES
        assert "what it gave on the way was not compared" in found.notes[0]


def test_one_whose_table_is_right_although_the_rows_of_before_were_others_continues() -> None:
    found = judged({0: {"a": 7, "b": 9}}, REST)

    assert found.outcome is UpgradeOutcome.CONTINUES


def test_rows_that_nobody_touched_since_the_change_are_counted() -> None:
    alone = {**ALONE, 2: {"a": 3, "c": 2}}

    found = judged(OLD, {1: {"a": 2, "c": 1}, 2: {"a": 3, "c": 2}}, alone=alone)

    assert found.outcome is UpgradeOutcome.CONTINUES
    assert found.notes == ("1 rows of its table are of before the change: no later input touched them",)


def test_one_for_which_no_input_was_left_is_unknown() -> None:
    found = judged(ALONE, {}, committed=2)

    assert found.outcome is UpgradeOutcome.UNKNOWN
    assert "no input that counts was left" in found.why


def test_one_that_processes_again_what_had_been_committed_has_taken_over_nothing() -> None:
    by_the_sink = judged(OLD, ALONE)
    by_spark = judged({}, {}, before=READ, after=READ, read={"x": 1, "y": 1}, done=(0, 1, 2))

    assert [one.outcome for one in (by_the_sink, by_spark)] == [UpgradeOutcome.UNKNOWN] * 2
    assert "it processed batch 0 again" in by_spark.why


def test_one_whose_crash_is_not_proven_is_unknown() -> None:
    assert judged(OLD, REST, bit=False).outcome is UpgradeOutcome.UNKNOWN


def test_nothing_is_said_where_the_new_version_alone_gives_another_table_each_time() -> None:
    found = judged(OLD, REST, other={**ALONE, 2: {"a": 4, "b": 2, "c": 2}})

    assert found.outcome is UpgradeOutcome.UNKNOWN
    assert "disagree" in found.why


def test_a_table_without_rows_shows_nothing() -> None:
    empty: Given = {0: {}, 1: {}, 2: {}}

    assert judged({}, {}, alone=empty).outcome is UpgradeOutcome.UNKNOWN


def test_beside_an_empty_table_shows_that_nothing_is_wrong_without_the_change() -> None:
    empty: Given = {0: {}, 1: {}, 2: {}}

    assert judged({}, {}, alone=empty, done=(1, 2), empty_shows=True).outcome is UpgradeOutcome.CONTINUES


def test_one_that_goes_on_from_less_than_what_had_been_committed_has_taken_over_nothing() -> None:
    """As where one that was refused has thrown the checkpoint away."""
    found = judged(OLD, ALONE, failed=(2,), attempts=2, since=3)

    assert (found.outcome, found.committed) == (UpgradeOutcome.UNKNOWN, 0)
    assert "it processed batch 0 again" in found.why


def test_one_that_is_started_again_is_judged_by_what_both_starts_have_made() -> None:
    def again(*, done: Sequence[int] = (2,), **more: Any) -> SwitchJudgement:
        return judged(OLD, attempts=2, ended=1, done=done, **{"new": {2: ALONE[2]}, **more})

    assert again().outcome is UpgradeOutcome.CONTINUES
    # What the first had committed comes again.
    assert "it processed batch 1 again" in again(new={1: ALONE[1], 2: ALONE[2]}, done=(1, 2)).why
    # What the second has taken no input for, be it right by chance.
    nothing_left = again(new={}, done=(), alone={0: {"a": 1}, 1: {"a": 2}})
    assert nothing_left.outcome is UpgradeOutcome.UNKNOWN
    assert "since it was started again" in nothing_left.why


def test_one_that_ended_in_order_and_fails_when_it_is_started_again_is_in_a_crash_loop() -> None:
    found = judged(OLD, {}, attempts=3, ended=1, failed=(3, 4), gave_up="stall")

    assert found.outcome is UpgradeOutcome.CRASH_LOOP
    assert found.why.startswith("it had gone on, and ended in order; started again, it failed: ")


def test_one_that_fails_at_each_start_before_it_has_done_anything_is_refused() -> None:
    found = judged(OLD, {}, failed=(2, 3), gave_up="stall: it did not recover")

    assert (found.outcome, found.why) == (UpgradeOutcome.REFUSED, "query 'q' failed: [STATE_SCHEMA] no")


def test_one_that_has_written_no_more_than_the_checkpoint_is_refused_too() -> None:
    found = judged(OLD, {}, failed=(2, 3), gave_up="stall", changed=("checkpoint/offsets/1",))

    assert found.outcome is UpgradeOutcome.REFUSED


def test_one_that_failed_once_and_was_not_started_again_is_unknown() -> None:
    assert judged(OLD, {}, failed=(2,), gave_up="stall").outcome is UpgradeOutcome.UNKNOWN


def test_one_that_fails_after_it_has_given_rows_is_in_a_crash_loop() -> None:
    found = judged(OLD, {1: {"a": 2, "c": 1}}, failed=(2, 3, 4), gave_up="stall")

    assert found.outcome is UpgradeOutcome.CRASH_LOOP
    assert "given rows to the sink" in found.why


def test_one_that_has_committed_or_written_to_its_own_sink_is_no_refusal() -> None:
    for path in ("checkpoint/commits/1", "sink/part-0.json"):
        found = judged(OLD, {}, failed=(2, 3), gave_up="stall", changed=(path,))
        assert found.outcome is UpgradeOutcome.CRASH_LOOP, path


def test_one_that_has_left_no_more_than_a_folder_in_its_sink_is_refused() -> None:
    """Spark makes that of a file sink before it looks at what is there."""
    found = judged(OLD, {}, failed=(2, 3), gave_up="stall", changed=("sink/other/_spark_metadata/ (new)",))

    assert found.outcome is UpgradeOutcome.REFUSED


def test_of_one_that_has_taken_back_a_commit_it_is_not_said_that_it_committed() -> None:
    back, draft = (
        judged(OLD, {}, failed=(2, 3), gave_up="stall", changed=(path,))
        for path in ("checkpoint/commits/0 (gone)", "checkpoint/commits/.1.crc (new)")
    )

    assert (back.outcome, draft.outcome) == (UpgradeOutcome.CRASH_LOOP, UpgradeOutcome.REFUSED)
    assert "taken back a commit (checkpoint/commits/0 (gone))" in back.why


def test_one_that_failed_and_was_then_ended_from_outside_is_unknown() -> None:
    after_rows = judged(OLD, {1: {"a": 2}}, failed=(2,), attempts=2, gave_up="stall: no memory", changed=("sink/x",))
    before_any = judged(OLD, {}, failed=(2, 3), attempts=3, gave_up="stall: no memory")

    for found in (after_rows, before_any):
        assert (found.outcome, found.why) == (UpgradeOutcome.UNKNOWN, "stall: no memory"), found


def test_one_that_did_something_and_failed_once_alone_is_unknown() -> None:
    found = judged(OLD, {}, failed=(2,), gave_up="stall", changed=("checkpoint/commits/1",))

    assert found.outcome is UpgradeOutcome.UNKNOWN
    assert "failed once" in found.why


def test_one_that_gives_no_sign_of_work_is_in_a_crash_loop() -> None:
    found = judged(OLD, {}, gave_up="stall: waited", silent=90_000_000)

    assert found.outcome is UpgradeOutcome.CRASH_LOOP
    assert "no sign of work for 90 s" in found.why


def test_what_was_ended_by_no_fault_of_its_own_is_unknown() -> None:
    assert judged(OLD, {}, gave_up="stall: the machine had no memory").outcome is UpgradeOutcome.UNKNOWN


def test_one_that_failed_and_then_came_to_its_end_continues_and_that_is_said() -> None:
    found = judged(OLD, REST, failed=(2,))

    assert found.outcome is UpgradeOutcome.CONTINUES
    assert "failed once before it went on" in found.notes[0]


def test_since_the_change_only_what_was_made_then_is_compared() -> None:
    alone = {0: {"a": 1, "c": 1}, 1: {"a": 2, "b": 1, "c": 2}}
    anew = {1: {"a": 1, "c": 1}, 2: {"a": 2, "b": 1, "c": 2}}

    assert judged(OLD, anew, alone=alone, basis=Basis.SINCE).outcome is UpgradeOutcome.CONTINUES
    assert judged(OLD, REST, alone=alone, basis=Basis.SINCE).outcome is UpgradeOutcome.WRONG


def test_since_the_change_whoever_makes_what_is_made_without_state_may_have_lost_it() -> None:
    alone = {0: {"a": 1, "c": 1}, 1: {"a": 2, "b": 1, "c": 2}}
    anew = {1: {"a": 1, "c": 1}, 2: {"a": 2, "b": 1, "c": 2}}

    found = judged(OLD, anew, alone=alone, basis=Basis.SINCE, state_left=True)
    of_all = judged(OLD, REST, state_left=True)

    assert (found.outcome, of_all.outcome) == (UpgradeOutcome.UNKNOWN, UpgradeOutcome.CONTINUES)
    assert "compare with --reference all" in found.why
    kept = judged(OLD, REST, alone=alone, basis=Basis.SINCE, state_left=True)
    assert kept.outcome is UpgradeOutcome.WRONG


def test_rows_under_other_keys_make_no_common_table() -> None:
    wider = OutputShape(OutputMode.UPDATE, ("word", "length"))

    found = judged(OLD, REST, after=wider)

    assert found.outcome is UpgradeOutcome.UNKNOWN
    assert "--reference since" in found.why


def test_who_has_state_is_not_sent_to_a_comparison_that_says_nothing_of_it() -> None:
    """With --reference since, whoever goes on with the state of before makes another table than one that begins with
    none."""
    stateless, stateful = (judged(OLD, REST, after=LINES, state_left=left) for left in (False, True))

    assert [found.outcome for found in (stateless, stateful)] == [UpgradeOutcome.UNKNOWN] * 2
    assert ["--reference since" in found.why for found in (stateless, stateful)] == [True, False]
    assert "give both of them write and read" in stateful.why


def test_a_table_given_whole_and_rows_added_to_it_make_no_common_table() -> None:
    whole = OutputShape(OutputMode.COMPLETE)

    found = judged(OLD, REST, before=whole, after=LINES)

    assert found.outcome is UpgradeOutcome.UNKNOWN
    assert "in complete and append mode" in found.why


def test_in_complete_mode_nothing_is_left_of_what_the_version_before_gave() -> None:
    whole = OutputShape(OutputMode.COMPLETE, ("word",))

    assert judged({0: {"z": 1}}, ALONE, after=whole, committed=-1).outcome is UpgradeOutcome.CONTINUES


def test_rows_that_the_new_version_would_not_have_made_are_silently_wrong() -> None:
    found = judged(
        {0: {"x": 1, "dropped": 1}}, {1: {"y": 1}}, alone={0: {"x": 1}, 1: {"y": 1}}, before=LINES, after=LINES
    )

    assert found.outcome is UpgradeOutcome.WRONG
    assert found.rows == ("dropped once; it should be there not at all",)


def test_a_batch_that_both_versions_gave_counts_once() -> None:
    found = judged(
        {0: {"x": 1}, 1: {"y": 1}}, {1: {"y": 1}}, alone={0: {"x": 1}, 1: {"y": 1}}, before=LINES, after=LINES
    )

    assert found.outcome is UpgradeOutcome.CONTINUES


def test_one_that_has_taken_nothing_of_the_input_since_the_change_shows_nothing_by_a_table_that_is_right() -> None:
    """As of keys that had all come before, from a source that it takes for read to its end."""
    rows = {"x": 1, "y": 1}
    found = [
        judged({}, {}, before=READ, after=READ, read=rows),
        judged({}, {}, before=READ, after=READ, read=rows, done=(1, 2), rows_done=0),
        judged({}, {}, before=READ, after=READ, read=rows, done=(0,), committed=0),
        judged(ALONE, {}),
    ]

    assert [one.outcome for one in found] == [UpgradeOutcome.UNKNOWN] * 4
    assert [one.why.partition(":")[0] for one in (found[0], found[1], found[3])] == [
        "no batch with input that came since the change is on record"
    ] * 3


def test_one_whose_first_batches_spark_does_not_tell_of_may_have_processed_all_of_it_again() -> None:
    """As code that has Spark remember one batch, and a checkpoint of its own."""
    rows = {"x": 1, "y": 1}
    hidden, told = (judged({}, {}, before=READ, after=READ, read=rows, done=done) for done in ((3,), (1, 2, 3)))
    later = judged({}, {}, before=READ, after=READ, read=rows, done=(2, 3), committed=1, failed=(2,), attempts=2)

    assert (hidden.outcome, told.outcome, later.outcome) == (
        UpgradeOutcome.UNKNOWN,
        UpgradeOutcome.CONTINUES,
        UpgradeOutcome.CONTINUES,
    )
    assert hidden.why.startswith("what it did before batch 3 is not on record")


def test_a_batch_that_was_under_way_and_is_given_with_other_rows_is_said() -> None:
    alone: Given = {0: {"x": 1}, 1: {"y": 1}, 2: {"z": 1}}
    left = {0: {"x": 1}, 1: {"y": 1, "z": 1}}

    other = judged(left, {1: {"y": 1}, 2: {"z": 1}}, alone=alone, before=LINES, after=LINES)
    same = judged({**left, 1: {"y": 1}}, {1: {"y": 1}, 2: {"z": 1}}, alone=alone, before=LINES, after=LINES)

    whole = OutputShape(OutputMode.COMPLETE, ("word",))
    replaced = judged({**OLD, 1: {"a": 7}}, REST, before=whole, after=whole)

    assert (replaced.outcome, replaced.notes) == (UpgradeOutcome.CONTINUES, ())
    assert other.outcome is UpgradeOutcome.CONTINUES
    assert "batch 1 had been given to the sink before, with other rows" in other.notes[0]
    assert same.notes == ()


def test_that_the_version_before_had_done_nothing_since_it_went_on_itself_is_said() -> None:
    """Who goes back from there goes on from his own state."""
    nothing, something = (judged(OLD, REST, found=found) for found in (0, None))

    assert "had committed nothing since it had gone on from batch 0 itself" in nothing.notes[0]
    assert something.notes == ()
    assert (nothing.own, something.own) == (True, False)


def test_what_a_consumer_reads_is_compared_row_by_row() -> None:
    rows = {"x": 1, "y": 1}

    right = judged({}, {}, before=READ, after=READ, read=rows, done=(1, 2))
    double = judged({}, {}, before=READ, after=READ, read={**rows, "y": 2}, done=(1, 2))
    allowed = judged({}, {}, before=READ, after=READ, read={**rows, "y": 2}, done=(1, 2), claims=[at_least_once()])

    assert [one.outcome for one in (right, double, allowed)] == [
        UpgradeOutcome.CONTINUES,
        UpgradeOutcome.WRONG,
        UpgradeOutcome.CONTINUES,
    ]
    assert allowed.rows == ("y twice; it should be there once",)


def test_a_table_that_cannot_be_compared_leaves_its_own_state_unknown() -> None:
    """As a key that the rows do not have, in append mode too, or a count that is none."""
    keyed = OutputShape(OutputMode.APPEND, ("word",))
    rows: Given = {0: {'{"other":1}': 1}, 1: {'{"other":2}': 1}}
    read = OutputShape(OutputMode.APPEND, ("word",), reads=True)

    found = [
        judged({0: rows[0]}, {1: rows[1]}, alone=rows, before=keyed, after=keyed),
        judged({}, {}, before=read, after=read, read={"x": 1, "y": 1}, done=(1, 2)),
        judged({}, {}, before=READ, after=READ, read={"x": -1}, done=(1, 2)),
    ]

    assert [(one.outcome, one.committed) for one in found] == [(UpgradeOutcome.UNKNOWN, 0)] * 3
    assert [one.why.partition(":")[0] for one in found] == [
        "a row has no key column 'word'",
        "a row of a table is no JSON object",
        "a table has the row 'x' -1 times; run the query again",
    ]


def test_one_that_began_with_the_first_batch_is_known_as_that() -> None:
    found = judged({}, ALONE, committed=-1)

    assert (found.outcome, found.committed) == (UpgradeOutcome.CONTINUES, -1)
    assert "nothing was committed by then" in found.notes[0]
