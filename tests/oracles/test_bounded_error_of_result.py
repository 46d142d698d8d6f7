"""How much of a result a crash may take: histories made by hand, measured in each way, and what would fool it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distances
from query_histories import JUDGES, Given, Row, kept, query_history, struck
from streamproof.harness.core.addresses import DRIVER, Address, Point, Side
from streamproof.harness.core.errors import InvalidScenario, NoDistance, NotImportable
from streamproof.harness.core.guarantees import Guarantee, survives_power_loss
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.result_bounds import (
    BOUNDED_ERROR_OF_RESULT,
    Measure,
    ResultBound,
    bounded_error_of_result,
    result_bound,
)
from streamproof.harness.core.verdicts import Anomaly, Status, Verdict
from streamproof.harness.judging.deaths import crashes_of
from streamproof.harness.judging.oracle import Case, judge_each
from streamproof.harness.judging.references import BATCH_JOB, collate_references
from streamproof.harness.judging.result_errors import check_measurable, measure_error
from streamproof.harness.judging.result_tables import ResultTables, result_tables
from streamproof.harness.judging.shapes import OutputMode, OutputShape, text_of
from streamproof.harness.recording.history import (
    Bite,
    FaultHealed,
    FaultStruck,
    IncarnationFailed,
    NodeGone,
    Placed,
    Proof,
    Stamp,
    TimelineEntry,
)

READ = OutputShape(OutputMode.APPEND, reads=True)
KEYED = replace(READ, key=("seq",))
LINES: tuple[Row, ...] = tuple({"seq": seq, "n": seq % 10} for seq in range(1, 101))


def hit(at: int, number: int = 0, incarnation: int = 1, batch: int = 3) -> FaultStruck:
    return struck(at, number, str(Address(DRIVER, incarnation, Point.COMMIT_LOG, str(batch), Side.BEFORE)))


HIT = (hit(5),)


def replace_bite(one: FaultStruck, **changes: bool) -> FaultStruck:
    return msgspec.structs.replace(one, bite=msgspec.structs.replace(one.bite, **changes))


def verdict_of(
    claim: Guarantee,
    found: Sequence[Any] | None,
    wanted: Sequence[Any] = LINES,
    shape: OutputShape = KEYED,
    faults: Sequence[TimelineEntry] = HIT,
    **more: Any,
) -> Verdict:
    history = query_history(shape, wanted, found, faults=faults, **more)
    case = Case(history, collate_references(history, shape))
    return judge_each(case, [claim], JUDGES)[0]


def status_of(claim: Guarantee, found: Sequence[Any] | None, *args: Any, **more: Any) -> str:
    return verdict_of(claim, found, *args, **more).status.value


def anomalies(verdict: Verdict) -> dict[str, int]:
    return {tally.anomaly: tally.count for tally in verdict.anomalies}


def rows(at_most: int, **more: Any) -> Guarantee:
    return bounded_error_of_result(rows=at_most, **more)


# Rows


def test_the_last_fifty_rows_are_within_fifty_and_beyond_ten() -> None:
    verdict = verdict_of(rows(50), LINES[:50])
    assert (verdict.status, verdict.summary) == (
        Status.HOLDS,
        "an error of 50 rows after 1 crash, of at most 50 rows a crash",
    )
    verdict = verdict_of(rows(10), LINES[:50])
    assert (verdict.status, anomalies(verdict)) == (Status.VIOLATED, {Anomaly.BOUND_EXCEEDED: 1})
    (evidence,) = verdict.anomalies[0].sample
    assert evidence.what.startswith("an error of 50 rows, of at most 10 rows a crash: the table has ")
    assert '"seq":51' in evidence.what
    assert evidence.fault == 0


def test_one_row_more_than_is_claimed_is_too_many() -> None:
    assert [status_of(rows(49), LINES[:left]) for left in (51, 50)] == ["HOLDS", "VIOLATED"]
    assert status_of(rows(0), LINES) == "HOLDS"
    assert status_of(rows(0), LINES[1:]) == "VIOLATED"


@pytest.mark.parametrize("shape", [READ, KEYED])
def test_a_row_that_is_changed_counts_as_one(shape: OutputShape) -> None:
    changed = [{**row, "n": 99} for row in LINES[:7]]
    assert status_of(rows(7), [*changed, *LINES[7:]], shape=shape) == "HOLDS"
    assert status_of(rows(6), [*changed, *LINES[7:]], shape=shape) == "VIOLATED"
    assert status_of(rows(17), [*changed, *LINES[17:]], shape=shape) == "HOLDS"
    assert status_of(rows(16), [*changed, *LINES[17:]], shape=shape) == "VIOLATED"


@pytest.mark.parametrize("shape", [READ, KEYED])
def test_a_row_that_comes_twice_is_no_bounded_loss(shape: OutputShape) -> None:
    verdict = verdict_of(rows(50), [*LINES, LINES[3]], shape=shape)
    assert (verdict.status, anomalies(verdict)) == (Status.VIOLATED, {Anomaly.DUPLICATE_EFFECT: 1})
    assert "1 row is there once too often: the table has" in verdict.anomalies[0].sample[0].what
    claimed = verdict_of(rows(50, duplicates=1), [*LINES, LINES[3]], shape=shape)
    assert (claimed.status, claimed.summary) == (
        Status.HOLDS,
        "an error of 0 rows after 1 crash, of at most 50 rows a crash; 1 row is there once too often, as is claimed",
    )
    assert status_of(rows(50, duplicates=1), [*LINES, LINES[3], LINES[4]], shape=shape) == "VIOLATED"


def test_by_its_key_a_second_row_is_one_though_others_are_lost_and_it_says_something_else() -> None:
    assert status_of(rows(50), [*LINES[:90], LINES[3]]) == "VIOLATED"
    assert status_of(rows(50), [*LINES[:90], {**LINES[3], "n": 99}]) == "VIOLATED"


def test_without_a_key_a_second_row_beside_a_missing_one_may_be_either() -> None:
    found = [*LINES[:90], LINES[3]]
    verdict = verdict_of(rows(50), found, shape=READ)
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.AMBIGUOUS)
    assert "name its key columns" in verdict.reason
    assert status_of(rows(50, duplicates=1), found, shape=READ) == "HOLDS"
    # More than are missing cannot all stand in their place.
    assert status_of(rows(50), [*LINES[:98], *LINES[:3]], shape=READ) == "VIOLATED"


@pytest.mark.parametrize("shape", [READ, KEYED])
def test_a_row_that_should_not_be_there_is_no_loss(shape: OutputShape) -> None:
    verdict = verdict_of(rows(50), [*LINES, {"seq": 777, "n": 1}], shape=shape)
    assert (verdict.status, anomalies(verdict)) == (Status.VIOLATED, {Anomaly.PHANTOM_OUTPUT: 1})
    assert verdict.anomalies[0].sample[0].what.startswith("1 row is there that should not be, in nobody's place: ")


def test_by_its_key_a_strange_row_is_in_nobodys_place() -> None:
    assert status_of(rows(50), [*LINES[:90], {"seq": 777, "n": 1}]) == "VIOLATED"
    # Without one it may be a row that was changed.
    assert status_of(rows(50), [*LINES[:90], {"seq": 777, "n": 1}], shape=READ) == "HOLDS"


def test_columns_at_which_it_does_not_look_are_named_when_they_differ() -> None:
    changed = [{**row, "n": 99} for row in LINES[:7]]
    verdict = verdict_of(rows(5, columns=["seq"]), [*changed, *LINES[7:]])
    assert verdict.status is Status.HOLDS
    assert verdict.summary.endswith("; not looked at: 7 rows differ in other columns")


# Members


def test_members_count_on_both_sides() -> None:
    found = [*LINES[:97], {"seq": 777, "n": 1}]
    assert [status_of(bounded_error_of_result(members=n), found) for n in (4, 3)] == ["HOLDS", "VIOLATED"]


def test_members_of_a_column() -> None:
    hitters = [{"word": word, "count": 5} for word in "abcdef"]
    found = [{"word": word, "count": 3} for word in "abcdex"]
    shape = replace(READ, key=("word",))
    claim = bounded_error_of_result(members=2, columns=["word"])
    assert status_of(claim, found, hitters, shape) == "HOLDS"
    assert status_of(bounded_error_of_result(members=1, columns="word"), found, hitters, shape) == "VIOLATED"
    assert status_of(claim, [*found, found[0]], hitters, shape) == "VIOLATED"


# A number of a column


COUNTS = [{"word": word, "count": count} for word, count in zip("abcd", (5, 8, 100, 1), strict=True)]
WORDS = replace(READ, key=("word",))


def counted(at_most: float, **more: Any) -> Guarantee:
    return bounded_error_of_result(column="count", at_most=at_most, **more)


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (COUNTS, 0),
        ([*COUNTS[:2], {"word": "c", "count": 93}, COUNTS[3]], 7),
        ([*COUNTS[:2], {"word": "c", "count": 107}, COUNTS[3]], 7),
        ([COUNTS[0], {"word": "b", "count": 6}, {"word": "c", "count": 97}, COUNTS[3]], 3),
        # A key that is not there is 0.
        (COUNTS[:3], 1),
        (COUNTS[1:], 5),
        ([*COUNTS, {"word": "x", "count": 12}], 12),
    ],
)
def test_a_number_is_off_by_as_much_as_in_the_key_where_it_is_most(found: Sequence[Row], error: int) -> None:
    assert status_of(counted(error), found, COUNTS, WORDS) == "HOLDS"
    if error:
        assert status_of(counted(error - 0.5), found, COUNTS, WORDS) == "VIOLATED"


def test_keys_that_are_gone_or_made_up_within_a_bound_are_said() -> None:
    """What is not there is 0: of small numbers, and of those that are 0, any may be lost within the bound."""
    wanted = [{"word": f"w{number}", "count": number - 10} for number in range(21)]
    gone = [row for row in wanted if abs(row["count"]) > 2]  # type: ignore[call-overload]
    found = verdict_of(counted(2), gone, wanted, WORDS)
    assert (found.status, found.summary) == (
        Status.HOLDS,
        "an error of 2 of count after 1 crash, of at most 2 of count a crash; 5 keys only in one of the two tables, "
        "which counts as 0 in the other",
    )
    made_up = verdict_of(counted(2), [*wanted, {"word": "none", "count": 0}], wanted, WORDS)
    assert made_up.summary.endswith("; 1 key only in one of the two tables, which counts as 0 in the other")


def test_what_is_no_number_is_within_no_bound() -> None:
    found = [*COUNTS[:3], {"word": "d", "count": None}]
    verdict = verdict_of(counted(50), found, COUNTS, WORDS)
    assert (verdict.status, anomalies(verdict)) == (Status.VIOLATED, {Anomaly.PHANTOM_OUTPUT: 1})
    assert verdict.anomalies[0].sample[0].what.startswith("1 row is there without a number as count")


def test_numbers_of_sparks_own_kinds_are_numbers() -> None:
    def row(word: str, amount: str) -> Row:
        return {"word": word, "count": {"$decimal": amount}}

    wanted, found = [row("a", "10.5"), row("b", "3")], [row("a", "10.25"), row("b", "3")]
    assert status_of(counted(0.25), found, wanted, WORDS) == "HOLDS"
    assert status_of(counted(0.2), found, wanted, WORDS) == "VIOLATED"


BIG = 2**53


@pytest.mark.parametrize(
    ("right", "given", "apart"),
    [
        (BIG + 1, BIG, 1),
        (BIG + 3, 1, BIG + 2),
        (10**12 + 1, 0, 10**12 + 1),
        ({"$decimal": "12345678901234567890.02"}, {"$decimal": "12345678901234567890.01"}, 0.01),
        ({"$decimal": "9007199254740993"}, float(BIG), 1),
        (2.5e300, 2.5e300, 0),
    ],
)
def test_numbers_that_no_float_tells_apart_are_so_far_apart_as_they_are(right: Any, given: Any, apart: float) -> None:
    rest = {"word": "b", "count": {"$decimal": "1e25"}}
    wanted, found = [{"word": "a", "count": right}, rest], [{"word": "a", "count": given}, rest]
    assert status_of(counted(apart), found, wanted, WORDS) == "HOLDS"
    if apart:
        less = apart - 1 if isinstance(apart, int) else apart / 2
        assert status_of(counted(less), found, wanted, WORDS) == "VIOLATED"


def test_the_last_digits_of_a_sum_of_floats_are_no_error_beyond_what_is_claimed() -> None:
    wanted, found = [{"word": "a", "count": 1.1}], [{"word": "a", "count": 1.0}]
    assert 1.1 - 1.0 > 0.1
    assert status_of(counted(0.1), found, wanted, WORDS) == "HOLDS"


@pytest.mark.parametrize("given", [1.7e308, 10**400])
def test_a_number_beyond_all_floats_is_within_no_bound(given: Any) -> None:
    wanted, found = [{"word": "a", "count": -1.7e308}], [{"word": "a", "count": given}]
    assert status_of(counted(5), found, wanted, WORDS) == "VIOLATED"


@pytest.mark.parametrize(
    ("claim", "shape", "wanted", "why"),
    [
        (counted(1), READ, COUNTS, "the table has none: name its key columns"),
        (bounded_error_of_result(column="size", at_most=1), WORDS, COUNTS, "no column 'size'; it has: count, word"),
        (rows(1, columns=["size"]), WORDS, COUNTS, "no column 'size'"),
        (counted(1), WORDS, [*COUNTS, {"word": "a", "count": 3}], "is no key"),
        (counted(1), WORDS, [{"word": "a", "count": "many"}], "is no number"),
    ],
)
def test_what_cannot_be_measured_is_unknown_and_refused_before(
    claim: Guarantee, shape: OutputShape, wanted: Sequence[Row], why: str
) -> None:
    verdict = verdict_of(claim, wanted, wanted, shape)
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.NO_DISTANCE)
    assert why in verdict.reason
    with pytest.raises(NoDistance, match=why.partition(":")[0]):
        check(claim, wanted, shape)


def check(claim: Guarantee, wanted: Sequence[Row], shape: OutputShape = KEYED) -> None:
    history = query_history(shape, wanted, None)
    tables = result_tables(history, shape, of_reference=True)
    assert tables is not None
    check_measurable(ResultBound.of(claim), tables)


# A function of the user's


def by(function: Any, at_most: float, **more: Any) -> Guarantee:
    return bounded_error_of_result(distance=function, at_most=at_most, **more)


def test_a_function_of_the_users_is_executed() -> None:
    check(by(distances.rows_apart, 10), LINES)
    assert [status_of(by(distances.rows_apart, n), LINES[:90]) for n in (10, 9)] == ["HOLDS", "VIOLATED"]
    claim = by(distances.total_apart, 20.5)
    check(claim, LINES)
    # 8 + 9 + 0, and three rows.
    verdict = verdict_of(claim, LINES[:97])
    assert (verdict.status, verdict.summary) == (
        Status.HOLDS,
        "an error of 17.003 by distances:total_apart after 1 crash, of at most 20.5 by distances:total_apart a crash; "
        "3 rows are lost or changed",
    )


def test_a_function_that_uses_up_its_rows_does_no_harm() -> None:
    check(by(distances.empties, 10), LINES)
    assert status_of(by(distances.empties, 10), LINES[:90]) == "HOLDS"


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (distances.zero, "gives 0 of tables that differ"),
        (distances.one_sided, "with a row more"),
        (distances.of_counts, "with another n in .*left out by columns="),
        (distances.at_random, "asked again"),
        (distances.forgetful, "asked again"),
        (distances.by_order, "asked again"),
        (distances.share_missing, "0 actual ones it raises ZeroDivisionError"),
        (distances.not_finite, "gives inf"),
        (distances.negative, "gives -"),
        (distances.in_words, "gives 'some'; an error is a number"),
    ],
)
def test_a_function_that_is_no_distance_is_refused(function: Any, why: str) -> None:
    with pytest.raises(NoDistance, match=why) as refused:
        check(by(function, 10), LINES)
    assert f"distances:{function.__name__} is no distance" in str(refused.value)


def test_a_function_that_lies_only_of_what_was_really_lost_lets_nothing_hold() -> None:
    claim = by(distances.forgives_the_seventh, 10)
    only = [{"seq": n, "n": n} for n in range(1, 30)]
    check(claim, only)
    verdict = verdict_of(claim, [row for row in only if row["n"] != 7], only)
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.NO_DISTANCE)
    assert "gives 0 of tables that differ" in verdict.reason


def test_what_it_need_not_see_is_left_out() -> None:
    claim = by(distances.rows_apart, 3, columns=["seq"])
    check(claim, LINES)
    changed = [{**row, "n": 99} for row in LINES[:7]]
    assert status_of(claim, [*changed, *LINES[7:98]]) == "HOLDS"


def test_duplicates_are_none_of_its_business() -> None:
    assert status_of(by(distances.rows_apart, 10), [*LINES, LINES[3]]) == "VIOLATED"
    assert status_of(by(distances.rows_apart, 10, duplicates=1), [*LINES, LINES[3]]) == "HOLDS"


@pytest.mark.parametrize("function", [lambda one, other: 0.0, check.__call__, len])
def test_a_function_that_nobody_else_could_find_is_refused(function: Any) -> None:
    if function is len:
        assert by(function, 1).amount(Measure.DISTANCE) == "builtins:len"
        return
    with pytest.raises(InvalidScenario, match="finds by the name of its module"):
        by(function, 1)


def test_a_function_that_is_not_there_any_more_stops_who_judges() -> None:
    with pytest.raises(NotImportable, match="distances:gone"):
        verdict_of(by("distances:gone", 1), LINES)
    with pytest.raises(NotImportable, match="is a int, and no function"):
        verdict_of(by("distances:NO_FUNCTION", 1), LINES)


# What says nothing


@pytest.mark.parametrize(
    "claim",
    [
        rows(100),
        bounded_error_of_result(members=100),
        bounded_error_of_result(column="n", at_most=9),
        by(distances.unequal, 1),
    ],
)
def test_a_bound_that_holds_though_all_is_lost_says_nothing(claim: Guarantee) -> None:
    verdict = verdict_of(claim, LINES[:90])
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.NOTHING_TO_JUDGE)
    assert "that holds whatever is lost" in verdict.reason
    with pytest.raises(NoDistance, match="whatever is lost"):
        check(claim, LINES)


def test_without_a_crash_nothing_holds() -> None:
    verdict = verdict_of(rows(50), LINES, faults=())
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.NOTHING_TO_JUDGE)
    # What is off by less than one may leave was left by none.
    verdict = verdict_of(rows(50), LINES[:60], faults=())
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.NOTHING_TO_JUDGE)
    assert verdict.reason == "no crash struck, so that there was nothing to lose"
    # What is lost without one is lost all the same.
    assert status_of(rows(50), LINES[:20], faults=()) == "VIOLATED"


def test_references_that_differ_leave_it_unknown() -> None:
    verdict = verdict_of(rows(50), LINES[:90], other=LINES[:99])
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.UNJUDGEABLE)


def test_a_run_that_did_not_come_to_its_end_or_was_not_read_is_unknown() -> None:
    assert verdict_of(rows(50), LINES[:20], drained=False).why is Why.INCOMPLETE
    assert verdict_of(rows(50), None).why is Why.INCOMPLETE


# Crashes


def test_each_crash_may_leave_so_much() -> None:
    twice = (*HIT, hit(6, 1, incarnation=2, batch=5))
    assert [status_of(rows(n), LINES[:40], faults=twice) for n in (30, 29)] == ["HOLDS", "VIOLATED"]
    verdict = verdict_of(rows(30), LINES[:40], faults=twice)
    assert verdict.summary == "an error of 60 rows after 2 crashes, of at most 30 rows a crash"


def slowed(at: int, number: int) -> Sequence[FaultStruck | FaultHealed]:
    bite = Bite(DRIVER, DRIVER, (DRIVER,), True, lasting=True)
    proof = Proof(7, "writes held back")
    return (
        FaultStruck(Stamp(at), number, "slow disk driver", None, bite),
        FaultHealed(Stamp(at + 1), number, "slow disk driver", DRIVER, proof),
    )


def test_a_fault_that_heals_is_no_crash_and_may_take_nothing() -> None:
    faults = [*HIT, *slowed(6, 1), *slowed(8, 2)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=faults)) == 1
    assert [status_of(rows(n), LINES[:70], faults=faults) for n in (30, 29)] == ["HOLDS", "VIOLATED"]
    assert verdict_of(rows(30), LINES, faults=slowed(6, 0)).why is Why.NOTHING_TO_JUDGE


def test_a_driver_that_was_replaced_while_it_slept_is_lost_as_by_a_crash() -> None:
    paused = FaultStruck(Stamp(5), 0, "split-brain driver", None, Bite(DRIVER, DRIVER, (DRIVER,), True, lasting=True))
    healed = FaultHealed(Stamp(8), 0, "split-brain driver", DRIVER, Proof(9, "processes stopped"))
    successor = Placed(Stamp(7), DRIVER, 2, "driver-2")
    beside = [paused, successor, healed]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=beside)) == 1
    assert [status_of(rows(n), LINES[:70], faults=beside) for n in (30, 29)] == ["HOLDS", "VIOLATED"]
    assert status_of(rows(30), LINES, faults=beside) == "HOLDS"
    alone = [paused, healed, Placed(Stamp(9), DRIVER, 2, "driver-2")]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=alone)) == 0
    # Who was killed meanwhile was replaced for that.
    killed = [paused, hit(6, 1), successor, healed]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=killed)) == 1


def test_a_crash_that_did_not_bite_may_take_nothing() -> None:
    alive = replace_bite(hit(7, 1, incarnation=2), gone=False)
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=[*HIT, alive])) == 1


def on_worker(name: str, at: int, number: int = 0) -> FaultStruck:
    return FaultStruck(Stamp(at), number, "crash workers", None, Bite(name, name, (name,), True, True))


def test_a_fault_that_ends_several_nodes_at_once_is_one_crash() -> None:
    together = [on_worker(f"worker-{place}", 5) for place in range(3)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=together)) == 1
    assert [status_of(rows(n), LINES[:50], faults=together) for n in (50, 20)] == ["HOLDS", "VIOLATED"]
    with_its_driver = [on_worker("worker-0", 5), hit(5)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=with_its_driver)) == 1


def test_faults_that_end_several_nodes_one_after_the_other_are_several_crashes() -> None:
    each = [on_worker(f"worker-{place}", 5 + place, place) for place in range(3)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=each)) == 3
    assert status_of(rows(20), LINES[:50], faults=each) == "HOLDS"


def lost_answer(at: int, number: int = 0) -> FaultStruck:
    bite = Bite(DRIVER, DRIVER, (DRIVER,), True, proof=Proof(300, "answers lost"))
    return FaultStruck(Stamp(at), number, "lost-answer driver", None, bite)


def test_a_fault_of_which_nobody_dies_is_no_crash() -> None:
    lost = [lost_answer(5)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=lost)) == 0
    for left, error in ((60, 40), (40, 60)):
        found = verdict_of(rows(50), LINES[:left], faults=lost)
        assert (found.status, found.why) == (Status.UNKNOWN, Why.AMBIGUOUS)
        assert found.reason.startswith(f"an error of {error} rows, and nobody has crashed")
    # No bound allows a row that is there twice, whatever struck.
    assert status_of(rows(50), [*LINES, LINES[3]], faults=lost) == "VIOLATED"
    assert [status_of(rows(n), LINES[:60], faults=[*HIT, lost_answer(7, 1)]) for n in (40, 20)] == ["HOLDS", "VIOLATED"]


def test_a_fault_of_which_nobody_dies_and_that_takes_nothing_from_the_result_holds() -> None:
    found = verdict_of(rows(50), LINES, faults=[lost_answer(5)])
    assert (found.status, found.summary) == (
        Status.HOLDS,
        "an error of 0 rows after a fault of which nobody has crashed, of at most 50 rows a crash",
    )


def test_a_driver_that_fails_of_what_was_lost_has_crashed() -> None:
    failed = IncarnationFailed(Stamp(6), DRIVER, 1, 3, "OSError: [Errno 5]", disturbed=True)
    by_itself = msgspec.structs.replace(failed, disturbed=False)
    later = IncarnationFailed(Stamp(9), DRIVER, 2, 3, "OSError: [Errno 5]", disturbed=True)
    again = Placed(Stamp(7), DRIVER, 2, DRIVER)
    for entries, crashes in (([failed, again], 1), ([by_itself, again], 0), ([again, later], 0)):
        history = query_history(KEYED, LINES, LINES, faults=[lost_answer(5), *entries])
        assert crashes_of(history) == crashes
    assert status_of(rows(50), LINES[:60], faults=[lost_answer(5), failed, again]) == "HOLDS"
    # It can have died only once.
    both = [lost_answer(4), lost_answer(5, 1), failed, again]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=both)) == 1


def refused(at: int, until: int) -> Sequence[FaultStruck | FaultHealed]:
    bite = Bite(DRIVER, DRIVER, (DRIVER,), True, lasting=True)
    return (
        FaultStruck(Stamp(at), 0, "failed-write driver", None, bite),
        FaultHealed(Stamp(until), 0, "failed-write driver", DRIVER, Proof(3, "writes refused")),
    )


def failed_at(at: int, incarnation: int) -> IncarnationFailed:
    return IncarnationFailed(Stamp(at), DRIVER, incarnation, 3, "OSError: [Errno 5]", disturbed=True)


def again_at(at: int, incarnation: int) -> Placed:
    return Placed(Stamp(at), DRIVER, incarnation, DRIVER)


@pytest.mark.parametrize("back", [7, 9], ids=["while it lasts", "when it is over"])
def test_a_driver_that_fails_of_what_is_refused_for_a_while_has_crashed_whenever_it_is_back(back: int) -> None:
    faults = [*refused(5, 8), failed_at(6, 1), again_at(back, 2)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=faults)) == 1
    assert [status_of(rows(n), LINES[:70], faults=faults) for n in (30, 29)] == ["HOLDS", "VIOLATED"]
    # Who was told later of what had been refused before.
    told_later = [*refused(5, 8), failed_at(9, 1), again_at(10, 2)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=told_later)) == 1


def test_each_driver_that_fails_of_what_is_refused_has_crashed() -> None:
    faults = [*refused(5, 20), failed_at(6, 1), again_at(7, 2), failed_at(8, 2), again_at(9, 3)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=faults)) == 2
    assert [status_of(rows(n), LINES[:40], faults=faults) for n in (30, 29)] == ["HOLDS", "VIOLATED"]
    # Who began when it was over failed of something else.
    alone = [*refused(5, 8), failed_at(6, 1), again_at(9, 2), failed_at(10, 2)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=alone)) == 1


def test_a_recovery_from_what_was_durable_stands_for_a_crash() -> None:
    bite = Bite(DRIVER, "worker", (DRIVER,), True, proof=Proof(7, "files put back"))
    put_back = msgspec.structs.replace(hit(5), bite=bite)
    faults = [put_back, NodeGone(Stamp(5), DRIVER)]
    assert crashes_of(query_history(KEYED, LINES, LINES, faults=faults)) == 1


def test_so_many_crashes_that_all_may_be_lost_say_nothing() -> None:
    """Each may take 40 rows of 100, and three of them all: only what one may take is within a bound that says much."""
    thrice = (hit(5), hit(6, number=1, incarnation=2), hit(7, number=2, incarnation=3))
    verdict = verdict_of(rows(40), [], faults=thrice)
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.NOTHING_TO_JUDGE)
    assert "40 rows are claimed at most for each of 3 crashes: that holds whatever is lost" in verdict.reason
    assert status_of(rows(40), LINES[:59], faults=thrice) == "UNKNOWN"
    assert status_of(rows(40), LINES[:60], faults=thrice) == "HOLDS"
    assert status_of(rows(30), LINES[:10], faults=thrice) == "HOLDS"
    assert status_of(rows(30), LINES[:9], faults=thrice) == "VIOLATED"


def test_points_of_one_incarnation_at_which_it_could_have_died_are_one_crash() -> None:
    alike = [hit(n, n, batch=n) for n in range(1, 5)]
    history = query_history(KEYED, LINES, LINES, faults=[*alike, hit(9, 9, incarnation=2, batch=7)])
    assert crashes_of(history) == 2
    assert status_of(rows(30), LINES[:60], faults=alike) == "VIOLATED"


# What a sink of the harness is given


GIVEN = (Given(0, [{"word": "a", "n": 1}, {"word": "b", "n": 1}]), Given(1, [{"word": "a", "n": 20}]))


@pytest.mark.parametrize("mode", [OutputMode.UPDATE, OutputMode.COMPLETE])
def test_the_last_row_of_each_key_is_what_counts(mode: OutputMode) -> None:
    shape = OutputShape(mode, ("word",))
    wanted = GIVEN if mode is OutputMode.UPDATE else [*GIVEN[:1], Given(1, [*GIVEN[1].rows, GIVEN[0].rows[1]])]
    short = Given(1, [{"word": "a", "n": 17}, *wanted[1].rows[1:]])
    for claim, found, status in (
        (bounded_error_of_result(column="n", at_most=3), short, "HOLDS"),
        (bounded_error_of_result(column="n", at_most=2), short, "VIOLATED"),
        (rows(1), short, "HOLDS"),
        (rows(0), short, "VIOLATED"),
    ):
        assert status_of(claim, [wanted[0], found], wanted, shape) == status
    # A batch that is delivered again is no second row of the table.
    again = [*wanted, Given(1, wanted[1].rows, 2)]
    assert status_of(rows(1), again, wanted, shape) == "HOLDS"


def test_of_batches_that_are_appended_each_counts_once() -> None:
    shape = OutputShape(OutputMode.APPEND)
    assert status_of(rows(1), [*GIVEN, Given(1, GIVEN[1].rows, 2)], GIVEN, shape) == "HOLDS"
    assert status_of(rows(1), [GIVEN[0]], GIVEN, shape) == "HOLDS"
    assert status_of(rows(0), [GIVEN[0]], GIVEN, shape) == "VIOLATED"


def test_the_one_column_beside_the_key_is_called_as_a_batch_job_calls_it() -> None:
    shape = OutputShape(OutputMode.UPDATE, ("word",))
    table = [{"word": "a", "n": 20}, {"word": "b", "n": 1}]
    history = query_history(shape, GIVEN, GIVEN, also=[kept(BATCH_JOB, table)])
    tables = result_tables(history, shape)
    assert tables is not None
    assert tables.wanted == tables.found == Counter(map(text_of, table))


@pytest.mark.parametrize("key", ["a", "null", '"quoted', None, ""])
def test_whole_rows_are_made_again_of_what_was_recorded_by_key(key: str | None) -> None:
    shape = OutputShape(OutputMode.UPDATE, ("word",))
    history = query_history(shape, [Given(0, [{"word": key, "n": 1, "m": 2}])], [])
    tables = result_tables(history, shape)
    assert tables is not None
    assert tables.wanted == Counter([text_of({"word": key, "n": 1, "m": 2})])


# How it is stated


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"rows": 5, "members": 5},
        {"rows": 5, "at_most": 5},
        {"column": "n"},
        {"distance": "distances:zero"},
        {"rows": -1},
        {"rows": 1.5},
        {"rows": True},
        {"column": "n", "at_most": float("inf")},
        {"column": "n", "at_most": float("nan")},
        {"column": "n", "at_most": 1, "columns": ["n"]},
        {"rows": 5, "duplicates": -1},
        {"rows": 5, "columns": ["a+b"]},
        {"rows": 5, "columns": [""]},
        {"column": "", "at_most": 5},
        {"at_most": 5},
    ],
)
def test_what_states_no_bound_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(InvalidScenario):
        bounded_error_of_result(**facts)


def test_it_is_found_in_a_claim_of_what_survives_a_loss_of_power() -> None:
    inner = rows(5)
    assert result_bound(survives_power_loss(inner)) == result_bound(inner) == ResultBound(Measure.ROWS, 5)
    assert result_bound(Guarantee("exactly-once")) is None
    assert inner.name == BOUNDED_ERROR_OF_RESULT


# Properties


TABLES = st.lists(st.sampled_from("abcdef"), max_size=8).map(lambda keys: Counter(f'{{"k":"{key}"}}' for key in keys))


@given(TABLES, TABLES)
def test_the_measures_are_zero_of_equal_tables_alone_and_no_more_than_what_differs(
    one: Counter[str], other: Counter[str]
) -> None:
    for bound in (ResultBound(Measure.ROWS, 1), ResultBound(Measure.MEMBERS, 1)):
        same = measure_error(bound, ResultTables(one, one, ()))
        assert (same.error, same.twice, same.perhaps_twice, same.strange) == (0, 0, 0, 0)
        measured = measure_error(bound, ResultTables(one, other, ()))
        assert measured.error is not None
        clean = not (measured.error or measured.twice or measured.perhaps_twice or measured.strange)
        assert clean == (one == other)
        assert measured.error <= (one - other).total() + (other - one).total()


@given(TABLES, TABLES, TABLES)
def test_what_two_crashes_leave_is_no_more_than_what_each_leaves(
    one: Counter[str], other: Counter[str], third: Counter[str]
) -> None:
    """Else the bound of several crashes, so many times that of one, would be none."""

    def apart(wanted: Counter[str], found: Counter[str], measure: Measure) -> float:
        error = measure_error(ResultBound(measure, 1), ResultTables(wanted, found, ())).error
        assert error is not None
        return error

    for measure in (Measure.ROWS, Measure.MEMBERS):
        assert apart(one, third, measure) <= apart(one, other, measure) + apart(other, third, measure)


@given(TABLES, st.integers(0, 8))
def test_of_a_table_that_only_lost_rows_the_error_is_their_number(table: Counter[str], lost: int) -> None:
    gone = Counter(list(table.elements())[:lost])
    error = measure_error(ResultBound(Measure.ROWS, 1), ResultTables(table, table - gone, ()))
    assert (error.error, error.of_everything, error.twice, error.perhaps_twice, error.strange) == (
        gone.total(),
        table.total(),
        0,
        0,
        0,
    )
