"""What a sink was given in append and complete mode, batch by batch: histories by hand, each with one thing wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from query_histories import JUDGES, Given, Row, counts, kept, query_history, statuses, struck
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    GAP,
    K_SAFETY,
    PRECISE,
    ROLLBACK_CONVERGENT,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
    survives_power_loss,
)
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging.collation import Collation
from streamproof.harness.judging.oracle import Case, judge_each
from streamproof.harness.judging.references import BATCH_JOB, collate_references
from streamproof.harness.judging.shapes import OutputMode, OutputShape
from streamproof.harness.recording.history import FaultStruck

APPEND = OutputShape(OutputMode.APPEND)
COMPLETE = OutputShape(OutputMode.COMPLETE, ("word",))
UNKEYED = OutputShape(OutputMode.COMPLETE)
OWN = OutputShape(OutputMode.APPEND, own_source=True)

ALL = (
    PRECISE,
    ROLLBACK_REPEATING,
    ROLLBACK_CONVERGENT,
    ROLLBACK_DIVERGENT,
    EXACTLY_ONCE_OUTPUT,
    EXACTLY_ONCE,
    K_SAFETY,
    GAP,
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
)
EFFECTS = {EXACTLY_ONCE, ROLLBACK_CONVERGENT, ROLLBACK_DIVERGENT, K_SAFETY}


def row(word: str, n: int = 1) -> Row:
    return {"word": word, "n": n}


A, B, C = row("a"), row("b"), row("c")
A2, A3 = row("a", 2), row("a", 3)
BATCHES = (Given(0, [A, B]), Given(1, [A2, B, B]), Given(2, [A3, C]))
TABLES = (Given(0, [A, B]), Given(1, [A2, B]), Given(2, [A3, B, C]))
"""In complete mode."""


def collated(found: Sequence[Given], shape: OutputShape = APPEND, wanted: Sequence[Given] = BATCHES) -> Collation:
    return collate_references(query_history(shape, wanted, found), shape)


def broken(found: Sequence[Given], shape: OutputShape = APPEND, wanted: Sequence[Given] = BATCHES) -> set[str]:
    told = statuses(query_history(shape, wanted, found), shape, *ALL)
    return {name for name, status in told.items() if status == "VIOLATED"}


def holding(found: Sequence[Given], shape: OutputShape = APPEND, wanted: Sequence[Given] = BATCHES) -> set[str]:
    told = statuses(query_history(shape, wanted, found), shape, *ALL)
    return {name for name, status in told.items() if status == "HOLDS"}


@pytest.mark.parametrize(
    ("shape", "batches"),
    [(APPEND, BATCHES), (COMPLETE, TABLES), (UNKEYED, TABLES), (OWN, BATCHES)],
    ids=["append", "complete", "complete without a key", "own source"],
)
def test_as_without_failures(shape: OutputShape, batches: Sequence[Given]) -> None:
    assert counts(collated(batches, shape, batches)) == {}
    assert holding(batches, shape, batches) == set(ALL) - {PRECISE, GAP}
    assert broken(batches, shape, batches) == set()


@pytest.mark.parametrize(
    ("shape", "batches"),
    [(APPEND, BATCHES), (COMPLETE, TABLES), (UNKEYED, TABLES), (OWN, BATCHES)],
    ids=["append", "complete", "complete without a key", "own source"],
)
def test_a_batch_again_is_a_repetition_and_no_effect(shape: OutputShape, batches: Sequence[Given]) -> None:
    """Any number of times, as long as it is the last."""
    again = [batches[0], batches[0], batches[1], batches[2], batches[2], batches[2]]
    assert set(counts(collated(again, shape, batches))) == {"duplicate_outputs"}
    assert broken(again, shape, batches) == {PRECISE, EXACTLY_ONCE_OUTPUT}
    assert holding(again, shape, batches) == {*EFFECTS, ROLLBACK_REPEATING, AT_LEAST_ONCE, AT_MOST_ONCE}


def test_every_row_of_a_repeated_batch_counts() -> None:
    collation = collate_references(
        query_history(APPEND, BATCHES, [*BATCHES[:2], BATCHES[1], BATCHES[2]], faults=[struck(25)]), APPEND
    )
    assert collation.duplicate_outputs.count == 3
    assert [evidence.what for evidence in collation.duplicate_outputs.sample] == [
        'batch 1 {"n":1,"word":"b"} came again twice',
        'batch 1 {"n":2,"word":"a"} came again once',
    ]
    first = collation.duplicate_outputs.sample[0]
    assert (first.where, first.at, first.fault) == ("sink from driver#1", (20, 30), 0)


def test_a_lost_batch() -> None:
    found = [BATCHES[0], BATCHES[2]]
    collation = collated(found)
    assert counts(collation) == {"lost_output": 3, "lost_state": 3}
    assert [evidence.what for evidence in collation.lost_output.sample] == [
        'batch 1 {"n":1,"word":"b"} is missing, as is the whole batch, twice',
        'batch 1 {"n":2,"word":"a"} is missing, as is the whole batch',
    ]
    assert broken(found) == {PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE_OUTPUT, *EFFECTS, AT_LEAST_ONCE}
    assert AT_MOST_ONCE in holding(found)


def test_a_lost_row() -> None:
    collation = collated([BATCHES[0], Given(1, [A2, B]), BATCHES[2]])
    assert counts(collation) == {"lost_output": 1, "lost_state": 1}
    assert collation.lost_output.sample[0].what == 'batch 1 {"n":1,"word":"b"} was never delivered'
    assert collation.lost_state.sample[0].what == 'the table lacks {"n":1,"word":"b"} of batch 1'


def test_a_row_more_often_in_its_batch_is_a_second_effect() -> None:
    """An operator that gives a row twice."""
    found = [BATCHES[0], Given(1, [A2, A2, B, B]), BATCHES[2]]
    collation = collated(found)
    assert counts(collation) == {"duplicate_effects": 1}
    assert collation.duplicate_effects.sample[0].what == 'batch 1 has {"n":2,"word":"a"} twice; without failures once'
    assert broken(found) == {PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE_OUTPUT, *EFFECTS, AT_MOST_ONCE}
    assert AT_LEAST_ONCE in holding(found)


def test_a_row_of_the_table_once_more_in_another_batch_is_a_second_effect() -> None:
    """A deduplication that has forgotten what it had seen."""
    found = [*BATCHES[:2], Given(2, [A3, C, A])]
    assert counts(collated(found)) == {"duplicate_effects": 1}
    assert {AT_MOST_ONCE, EXACTLY_ONCE} <= broken(found)
    assert AT_LEAST_ONCE in holding(found)


def test_a_row_that_is_nowhere_is_a_phantom() -> None:
    found = [*BATCHES[:2], Given(2, [A3, C, row("z")])]
    assert counts(collated(found)) == {"phantoms": 1}
    assert broken(found) == {PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE_OUTPUT, *EFFECTS}
    assert holding(found) == set()


@pytest.mark.parametrize(
    "found",
    [
        # Lost its state before batch 1: early rows come once more, and the table has no other rows.
        [BATCHES[0], Given(1, [A, B, B]), Given(2, [A2, C])],
        # Counts batch 1 twice.
        [BATCHES[0], Given(1, [A3, B, B]), Given(2, [row("a", 4), C])],
    ],
    ids=["lost its state", "counts twice"],
)
def test_a_running_count_that_goes_wrong_is_neither_lost_nor_doubled(found: Sequence[Given]) -> None:
    collation = collated(found)
    assert counts(collation) == {"phantoms": 2}
    assert broken(found) == {PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE_OUTPUT, *EFFECTS}
    assert holding(found) == set()
    assert collation.doubt.startswith("2 rows are missing and 2 are there that should not be")
    assert "and it lacks" in collation.phantoms.sample[0].what


def test_what_is_lost_here_has_nothing_to_do_with_what_is_doubled_there() -> None:
    """No batch has both, and no row came in another batch than it should."""
    found = [Given(0, [A, A, B]), BATCHES[1]]
    assert counts(collated(found)) == {"duplicate_effects": 1, "lost_output": 2, "lost_state": 2}
    assert {AT_LEAST_ONCE, AT_MOST_ONCE} <= broken(found)


def test_beside_a_phantom_not_even_a_missing_batch_is_sure_to_be_lost() -> None:
    found = [Given(0, [A, B, row("z")]), BATCHES[1]]
    assert counts(collated(found)) == {"phantoms": 1}
    assert EXACTLY_ONCE in broken(found)
    assert AT_LEAST_ONCE not in broken(found) | holding(found)


def test_a_row_in_another_batch_than_without_failures_is_wrong() -> None:
    """The batches are fixed, and so is what each gives: it came of other inputs."""
    found = [BATCHES[0], Given(1, [A2, B, B, C]), Given(2, [A3])]
    assert counts(collated(found)) == {"phantoms": 1}
    assert EXACTLY_ONCE in broken(found)
    assert not {AT_LEAST_ONCE, AT_MOST_ONCE} & (broken(found) | holding(found))


def test_a_source_of_the_users_may_cut_its_batches_otherwise() -> None:
    found = [Given(0, [A]), Given(1, [B, A2, B, B, A3, C])]
    assert counts(collated(found, OWN)) == {}
    assert {EXACTLY_ONCE, EXACTLY_ONCE_OUTPUT} <= holding(found, OWN)
    assert counts(collated([*found, Given(2, [C])], OWN)) == {"duplicate_effects": 1}
    assert counts(collated([found[0]], OWN)) == {"lost_state": 6}
    assert counts(collated([found[0], Given(1, [B, B, B, A3, row("z")])], OWN)) == {"phantoms": 1}


def test_a_copy_that_may_stand_in_the_place_of_a_missing_row_shows_no_loss_and_no_second_effect() -> None:
    found = [Given(0, [A]), Given(1, [B, A2, B, B, A3, A3])]
    history = query_history(OWN, BATCHES, found)
    assert collate_references(history, OWN).doubt
    assert statuses(history, OWN, AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE) == {
        AT_LEAST_ONCE: "UNKNOWN",
        AT_MOST_ONCE: "UNKNOWN",
        EXACTLY_ONCE: "VIOLATED",
    }


def test_with_a_source_of_the_users_the_table_alone_is_compared() -> None:
    update = OutputShape(OutputMode.UPDATE, ("word",), own_source=True)
    wanted = [Given(0, [A, B]), Given(1, [A2, C])]
    found = [Given(0, [A, B, C]), Given(1, [A2])]
    assert counts(collated(found, update, wanted)) == {}
    assert collated(found, update, wanted).observables == ("state",)
    assert EXACTLY_ONCE in holding(found, update, wanted)
    assert counts(collated([Given(0, [A, B]), Given(1, [A3])], update, wanted)) == {"lost_state": 1, "phantoms": 1}
    complete = OutputShape(OutputMode.COMPLETE, ("word",), own_source=True)
    assert counts(collated([Given(7, [A3, B, C])], complete, TABLES)) == {}
    assert counts(collated(TABLES[:2], complete, TABLES)) == {"lost_state": 1, "phantoms": 1}
    for shape in (update, complete, OWN):
        history = query_history(shape, wanted, wanted[:1], drained=False)
        assert counts(collate_references(history, shape)) == {}


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ([A2, B, B, C], {"duplicate_outputs": 3, "conflicting_outputs": 1, "duplicate_effects": 1}),
        ([A2, B, B, row("z")], {"duplicate_outputs": 3, "conflicting_outputs": 1, "phantoms": 1}),
        ([A2, B], {"duplicate_outputs": 2, "conflicting_outputs": 1, "lost_state": 1}),
        ([A3, B, B], {"duplicate_outputs": 2, "conflicting_outputs": 2, "phantoms": 1}),
    ],
    ids=["a copy too many", "a phantom", "a row too few", "another row"],
)
def test_a_batch_again_with_another_content(second: Sequence[Row], expected: dict[str, int]) -> None:
    """What came last stays in the table."""
    found = [*BATCHES[:2], Given(1, second, 2), BATCHES[2]]
    assert counts(collated(found)) == expected
    assert {ROLLBACK_REPEATING, EXACTLY_ONCE} <= broken(found)


def test_a_later_batch_first() -> None:
    found = [BATCHES[1], BATCHES[0], BATCHES[2]]
    assert counts(collated(found)) == {"reordered": 2}
    assert broken(found) == {PRECISE, ROLLBACK_REPEATING}
    assert {EXACTLY_ONCE, EXACTLY_ONCE_OUTPUT} <= holding(found)


def test_a_run_that_was_cut_short_shows_what_is_too_many_and_not_what_is_lost() -> None:
    def told(found: Sequence[Given]) -> dict[str, str]:
        history = query_history(APPEND, BATCHES, found, drained=False)
        return statuses(history, APPEND, EXACTLY_ONCE, AT_LEAST_ONCE, AT_MOST_ONCE, K_SAFETY)

    assert told(BATCHES[:2]) == {
        EXACTLY_ONCE: "UNKNOWN",
        AT_LEAST_ONCE: "UNKNOWN",
        AT_MOST_ONCE: "UNKNOWN",
        K_SAFETY: "UNKNOWN",
    }
    assert told([BATCHES[0], Given(1, [A2, B, B, B])])[AT_MOST_ONCE] == "VIOLATED"
    # What has not come yet is not missing.
    wrong = query_history(APPEND, BATCHES, [Given(0, [A, B, row("z")])], drained=False)
    assert collate_references(wrong, APPEND).doubt == ""
    # A row of a batch that is still to come.
    assert told([BATCHES[0], Given(1, [A2, B, B, C])])[AT_MOST_ONCE] == "UNKNOWN"


def test_complete_mode_is_the_table_that_came_last() -> None:
    for shape in (COMPLETE, UNKEYED):
        collation = collated(TABLES[:2], shape, TABLES)
        assert counts(collation) == {"lost_output": 3, "lost_state": 2}
        assert AT_LEAST_ONCE in broken(TABLES[:2], shape, TABLES)
        assert AT_MOST_ONCE in holding(TABLES[:2], shape, TABLES)


def test_an_old_table_that_comes_last_stays() -> None:
    found = [*TABLES, TABLES[1]]
    for shape in (COMPLETE, UNKEYED):
        assert counts(collated(found, shape, TABLES)) == {"duplicate_outputs": 2, "lost_state": 2}
        assert EXACTLY_ONCE in broken(found, shape, TABLES)


def test_a_complete_table_whose_last_batch_lacks_a_key() -> None:
    found = [*TABLES[:2], Given(2, [A3, C])]
    for shape in (COMPLETE, UNKEYED):
        assert counts(collated(found, shape, TABLES)) == {"lost_output": 1, "lost_state": 1}


@pytest.mark.parametrize("n", [1, 4])
def test_a_wrong_row_of_a_complete_table(n: int) -> None:
    found = [*TABLES[:2], Given(2, [row("a", n), B, C])]
    assert counts(collated(found, COMPLETE, TABLES)) == {"phantoms": 2}
    assert counts(collated(found, UNKEYED, TABLES)) == {"phantoms": 1}
    for shape in (COMPLETE, UNKEYED):
        assert EXACTLY_ONCE in broken(found, shape, TABLES)
        assert not {AT_LEAST_ONCE, AT_MOST_ONCE} & (broken(found, shape, TABLES) | holding(found, shape, TABLES))


def test_a_row_twice_in_a_complete_table() -> None:
    assert counts(collated([*TABLES[:2], Given(2, [A3, B, C, C])], UNKEYED, TABLES)) == {"duplicate_effects": 1}
    # A row of an older table is no copy of one of this.
    assert counts(collated([*TABLES[:2], Given(2, [A3, A2, B, C])], UNKEYED, TABLES)) == {"phantoms": 1}


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (APPEND, 'batch 2 {"n":1,"word":"c"}: once and twice; batch 2 {"n":3,"word":"a"}: once and not at all'),
        (COMPLETE, "batch 2 'a': 3 and no row; batch 2 'c': 1 and 5"),
        (OWN, '{"n":1,"word":"c"}: once and twice; {"n":3,"word":"a"}: once and not at all'),
    ],
)
def test_references_that_disagree(shape: OutputShape, said: str) -> None:
    second = Given(2, [row("c", 5)] if shape is COMPLETE else [C, C])
    history = query_history(shape, BATCHES[::2], BATCHES[::2], other=[BATCHES[0], second])
    assert collate_references(history, shape).unjudgeable == f"two runs without failures disagree on 2 rows: {said}"
    assert set(statuses(history, shape, *ALL).values()) == {"UNKNOWN"}


def test_a_batch_job_that_disagrees() -> None:
    update = OutputShape(OutputMode.UPDATE, ("word",))
    wanted = [Given(0, [A, B]), Given(1, [A2])]
    for shape, right, wrong in (
        (update, [A2, B], [A2]),
        (APPEND, [A, A2, B], [A, B]),
        (COMPLETE, [A2], [A, B]),
        (UNKEYED, [A2], [A2, A2]),
    ):
        agrees = query_history(shape, wanted, wanted, also=[kept(BATCH_JOB, right)])
        assert collate_references(agrees, shape).unjudgeable == ""
        differs = query_history(shape, wanted, wanted, also=[kept(BATCH_JOB, wrong)])
        reason = collate_references(differs, shape).unjudgeable
        assert reason.startswith("a batch job over the same input gives another table")
        assert set(statuses(differs, shape, *ALL).values()) == {"UNKNOWN"}


def test_a_query_without_rows_shows_nothing() -> None:
    for shape in (APPEND, COMPLETE, OWN):
        assert collated([], shape, []).unjudgeable.startswith("the query gives no rows")


@pytest.mark.parametrize("faults", [(), (struck(5),)])
def test_what_survives_a_loss_of_power_is_not_known_where_none_was_lost(faults: tuple[FaultStruck, ...]) -> None:
    history = query_history(APPEND, BATCHES, BATCHES, faults=faults)
    case = Case(history, collate_references(history, APPEND))
    (verdict,) = judge_each(case, [survives_power_loss()], JUDGES)
    assert verdict.status is Status.UNKNOWN
    assert verdict.reason == "no power was lost in this run: it is judged by those of a certificate in which it is"


def test_evidence_tells_the_input_of_the_batch_and_the_fault_that_was_aimed_there() -> None:
    offered = [[Event("source", n, "k", "a b", n)] for n in range(3)]
    faults = [struck(5 + n, n, f"driver/0#{n + 1} after sink-write {n}") for n in range(3)]
    history = query_history(APPEND, BATCHES, [BATCHES[0], BATCHES[2]], offered=offered, faults=faults)
    first = collate_references(history, APPEND).lost_output.sample[0]
    assert first.what.endswith("; its input is likely source #1 of batch 1")
    assert first.fault == 1


def test_thousands_of_rows_are_judged_at_once() -> None:
    batches = [Given(n, [row(f"w{i}", n) for i in range(100)]) for n in range(100)]
    for shape in (APPEND, COMPLETE, UNKEYED):
        history = query_history(shape, batches, [*batches[:50], batches[49], *batches[51:]])
        began = time.perf_counter()
        collation = collate_references(history, shape)
        assert time.perf_counter() - began < 5
        assert collation.duplicate_outputs.count == collation.lost_output.count == 100


EMPTY = Given(2, [])


@pytest.mark.parametrize("key", [(), ("word",)])
@pytest.mark.parametrize("own_source", [False, True])
def test_a_last_batch_that_comes_out_empty_is_an_empty_table(key: tuple[str, ...], own_source: bool) -> None:
    """Lost state, in complete mode."""
    shape = OutputShape(OutputMode.COMPLETE, key, own_source=own_source)
    found = [*TABLES[:2], EMPTY]
    collation = collated(found, shape, TABLES)
    assert collation.lost_state.count == 3
    assert {EXACTLY_ONCE, AT_LEAST_ONCE} <= broken(found, shape, TABLES)
    # Nor does a table of its own last forever.
    collation = collated(TABLES, shape, [*TABLES[:2], EMPTY])
    assert counts(collation).keys() & {"phantoms", "duplicate_effects"}
    assert EXACTLY_ONCE in broken(TABLES, shape, [*TABLES[:2], EMPTY])


@pytest.mark.parametrize("key", [(), ("word",)])
@pytest.mark.parametrize("own_source", [False, True])
def test_a_table_that_is_empty_in_the_end_is_right_where_it_is_without_failures(
    key: tuple[str, ...], own_source: bool
) -> None:
    shape = OutputShape(OutputMode.COMPLETE, key, own_source=own_source)
    emptied = [*TABLES[:2], EMPTY]
    assert counts(collated(emptied, shape, emptied)) == {}
    assert EXACTLY_ONCE in holding(emptied, shape, emptied)
    assert broken(emptied, shape, emptied) == set()
    assert counts(collated([*emptied, EMPTY], shape, emptied)) == {}, "an empty batch again"
    nothing = collated([EMPTY], shape, [EMPTY])
    assert "gives no rows" in nothing.unjudgeable


@pytest.mark.parametrize("mode", [OutputMode.APPEND, OutputMode.UPDATE])
@pytest.mark.parametrize("own_source", [False, True])
def test_in_other_modes_an_empty_batch_adds_nothing_and_takes_nothing_away(mode: OutputMode, own_source: bool) -> None:
    shape = OutputShape(mode, ("word",), own_source=own_source)
    batches = [Given(0, [A, B]), Given(1, []), Given(2, [A2]), Given(3, [])]
    assert counts(collated(batches, shape, batches)) == {}
    # Nothing is lost with one that never comes, and nothing doubled by one too many.
    assert counts(collated([batches[0], batches[2]], shape, batches)) == {}
    assert counts(collated([*batches, Given(4, [])], shape, batches)) == {}


@pytest.mark.parametrize(
    "shape",
    [OutputShape(mode, key, own_source=own) for mode in OutputMode for key in ((), ("word",)) for own in (False, True)],
)
def test_a_batch_that_is_repeated_without_its_rows_is_not_the_same(shape: OutputShape) -> None:
    """Nor is one that is repeated with rows, and had none."""
    batches = [Given(0, [A]), Given(1, [A, B])]
    for again in ([], [A], [A, B, C]):
        found = collated([*batches, Given(1, again)], shape, batches)
        assert found.conflicting_outputs.count == abs(2 - len(again)), again
    if "outputs" in found.observables:
        assert {PRECISE, ROLLBACK_REPEATING} <= broken([*batches, Given(1, [])], shape, batches)
    first = collated([batches[0], Given(1, []), batches[1]], shape, batches)
    assert first.conflicting_outputs.count == 2


def test_an_empty_batch_that_came_late_shows_what_comes_out_of_order() -> None:
    for shape in (APPEND, OutputShape(OutputMode.UPDATE, ("word",))):
        found = collated([BATCHES[0], Given(2, []), Given(1, [A2])], shape, [BATCHES[0], Given(1, [A2]), Given(2, [])])
        assert counts(found) == {"reordered": 1}
