"""What an upgrade leaves: its exit status, what it says, and its input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from certified import JUDGES, SUBJECT, crash_at
from streamproof.harness.contracts.query import SOURCE
from streamproof.harness.core.errors import DamagedHistory, ExitStatus, InvalidHistory, UnknownHistoryVersion
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.claims_and_faults import SavedClaim
from streamproof.harness.upgrading.again import touched_again
from streamproof.harness.upgrading.beside import next_beside, with_borrowed
from streamproof.harness.upgrading.outcomes import Aside, Basis, Switched, UpgradeOutcome, Way
from streamproof.harness.upgrading.record import (
    UPGRADE_FILE,
    VERSION,
    SideRecord,
    UpgradeRecord,
    judge_upgrade,
    read_upgrade,
    write_upgrade,
)
from streamproof.harness.upgrading.switching import changes
from streamproof.harness.upgrading.telling import caveats, outcome_lines, tried_of
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.workloads import single_words, words

CONTINUES, REFUSED, WRONG = UpgradeOutcome.CONTINUES, UpgradeOutcome.REFUSED, UpgradeOutcome.WRONG


def switched(outcome: UpgradeOutcome, committed: int = 1, **more: Any) -> Switched:
    return Switched(Way.UPGRADE, (crash_at(),), "runs/upgrade-0001", 2, outcome, committed=committed, **more)


def record(*of: Switched, **more: Any) -> UpgradeRecord:
    side = SideRecord("my_queries:word_count", dict(SUBJECT), {"pyspark": "4.3.0"})
    facts: dict[str, Any] = {
        "version": VERSION,
        "name": "one",
        "began": "2026-01-01T00:00:00.000+00:00",
        "old": side,
        "new": side,
        "basis": Basis.ALL,
        "workload": {"name": "words", "events": 6, "seed": 7, "again": 3},
        "batches": 6,
        "last_counting": 3,
        "last_changed": 2,
        "claims": (SavedClaim.of(exactly_once()),),
        "seed": 7,
        "minutes": 1.0,
        "points": {Way.UPGRADE: 10},
        "switched": of,
    }
    return UpgradeRecord(**{**facts, **more})


LEFT = ("checkpoint/offsets/2 (new)",)
LOOP, UNKNOWN = UpgradeOutcome.CRASH_LOOP, UpgradeOutcome.UNKNOWN


def beside(outcome: UpgradeOutcome, **more: Any) -> Aside:
    """What the version before comes to."""
    return Aside("runs/beside-0002", 3, outcome, **more)


FINE = beside(CONTINUES)


@pytest.mark.parametrize(
    ("of", "status"),
    [
        ([switched(CONTINUES)], ExitStatus.HOLDS),
        ([switched(CONTINUES), switched(REFUSED)], ExitStatus.UNKNOWN),
        ([switched(CONTINUES), switched(WRONG, aside=FINE)], ExitStatus.VIOLATED),
        ([switched(CONTINUES), switched(LOOP, aside=FINE)], ExitStatus.VIOLATED),
        ([switched(CONTINUES), switched(UNKNOWN)], ExitStatus.UNKNOWN),
        ([switched(CONTINUES, committed=-1)], ExitStatus.UNKNOWN),
        ([], ExitStatus.UNKNOWN),
        ([switched(REFUSED, changed=LEFT, aside=beside(CONTINUES, after=True))], ExitStatus.UNKNOWN),
        ([switched(REFUSED, changed=LEFT, aside=beside(REFUSED, after=True, without=FINE))], ExitStatus.VIOLATED),
    ],
)
def test_the_worst_of_all_states_decides(of: Sequence[Switched], status: ExitStatus) -> None:
    assert record(*of).exit_status is status


@pytest.mark.parametrize("outcome", [WRONG, LOOP])
@pytest.mark.parametrize("aside", [None, beside(WRONG), beside(REFUSED), beside(LOOP), beside(UNKNOWN)])
def test_nobody_is_blamed_unless_the_version_before_continues_from_the_same_state(
    outcome: UpgradeOutcome, aside: Aside | None
) -> None:
    assert record(switched(CONTINUES), switched(outcome, aside=aside)).exit_status is ExitStatus.UNKNOWN


@pytest.mark.parametrize("without", [None, beside(REFUSED), beside(UNKNOWN)])
def test_what_one_that_was_refused_leaves_is_not_to_blame_where_the_version_before_fails_without_it(
    without: Aside | None,
) -> None:
    after = beside(REFUSED, after=True, without=without)

    assert record(switched(REFUSED, changed=LEFT, aside=after)).exit_status is ExitStatus.UNKNOWN


def test_of_those_that_look_the_same_two_are_tried_beside_and_the_others_take_their_word() -> None:
    found = [switched(WRONG) for _ in range(4)]
    places = []
    while (place := next_beside(found)) is not None:
        places.append(place)
        found[place] = switched(WRONG, aside=beside(CONTINUES))

    assert places == [0, 1]
    assert [one.aside.like for one in with_borrowed(found) if one.aside is not None] == [False, False, True, True]
    assert {one.status for one in with_borrowed(found)} == {Status.VIOLATED}


def test_of_those_that_look_the_same_all_are_tried_beside_where_one_is_no_better_without_the_change() -> None:
    found = [switched(WRONG) for _ in range(4)]
    outcomes = iter([CONTINUES, WRONG, CONTINUES, CONTINUES])
    while (place := next_beside(found)) is not None:
        found[place] = switched(WRONG, aside=beside(next(outcomes)))

    assert [one.status is Status.VIOLATED for one in found] == [True, False, True, True]


def test_each_kind_is_tried_beside_before_any_is_tried_again() -> None:
    found = [switched(LOOP), switched(LOOP), switched(WRONG), switched(REFUSED), switched(CONTINUES)]
    places = []
    while (place := next_beside(found)) is not None:
        places.append(place)
        found[place] = switched(found[place].outcome, aside=FINE)

    assert places == [2, 0, 1]


def test_those_that_nobody_had_time_for_take_the_word_of_one_that_is_no_better_without_the_change() -> None:
    found = with_borrowed([switched(WRONG, aside=FINE), switched(WRONG, aside=beside(WRONG)), switched(WRONG)])

    assert [one.status for one in found] == [Status.VIOLATED, Status.UNKNOWN, Status.UNKNOWN]


def test_states_of_each_way_are_counted_by_themselves() -> None:
    back = Switched(Way.ROLLBACK, (crash_at(),), "runs/rollback-0002", 3, CONTINUES, committed=1)
    both = record(switched(CONTINUES), back, back, points={Way.UPGRADE: 10, Way.ROLLBACK: 7})

    assert list(tried_of(both)) == [
        "1 crash state tried, of 10 crash points",
        "back: 2 crash states tried, of 7 crash points",
    ]


def test_what_is_to_be_said_of_any_state_is_told_of_all_that_are_told_together() -> None:
    kept, failed = "{} rows of its table are of before the change", "it failed once before it went on"
    found = [switched(CONTINUES), switched(CONTINUES, notes=(kept.format(1), failed)), switched(CONTINUES)]
    (line,) = outcome_lines(record(*found, switched(CONTINUES, notes=(kept.format(2),))))

    assert line.more == (f"{kept.format(1)} (of 2 of these)", f"{failed} (of 1 of these)")


def test_an_input_that_ended_early_is_told_by_itself_and_is_no_further_state() -> None:
    both = record(switched(CONTINUES), switched(WRONG, early=True, aside=FINE))
    worse, fine = outcome_lines(both)

    assert worse.more[0] == "with an input that ends before any of it comes again"
    assert (fine.outcome, fine.more) == (CONTINUES, ())
    assert list(tried_of(both)) == ["1 crash state tried, of 10 crash points"]
    assert both.exit_status is ExitStatus.VIOLATED


def test_one_that_was_started_again_is_told_by_itself_and_is_no_further_state() -> None:
    both = record(switched(CONTINUES), switched(WRONG, again=True, aside=FINE))
    worse, fine = outcome_lines(both)

    assert worse.more[0] == "started again, on what it has left itself: it had ended in order after a part of the input"
    assert (fine.outcome, fine.more) == (CONTINUES, ())
    assert list(tried_of(both)) == ["1 crash state tried, of 10 crash points"]
    assert both.exit_status is ExitStatus.VIOLATED


def test_nothing_counts_of_an_input_that_ended_early_after_the_last_batch_of_a_change() -> None:
    early, other = switched(CONTINUES, early=True), switched(CONTINUES)

    assert [record(one).sides(one).last_counting for one in (early, other)] == [2, 3]


def test_that_nobody_is_blamed_is_told() -> None:
    (line,) = outcome_lines(record(switched(WRONG, aside=beside(WRONG, why="a twice"))))

    assert line.more == (
        "without the change, from the same state: silently wrong: a twice (runs/beside-0002)",
        "nobody is blamed: it is no better without the change",
    )


def test_one_that_goes_back_to_no_more_than_it_has_left_itself_takes_nothing_over() -> None:
    back, own = (
        Switched(Way.ROLLBACK, (crash_at(),), "runs/rollback-0002", 3, CONTINUES, committed=1, own=own)
        for own in (False, True)
    )
    found, alone = record(switched(CONTINUES), back, own), record(switched(CONTINUES), own)

    assert (found.exit_status, alone.exit_status) == (ExitStatus.HOLDS, ExitStatus.UNKNOWN)
    said = "back, it continues only where the new version had committed nothing"
    assert [any(one.startswith(said) for one in caveats(some)) for some in (found, alone)] == [False, True]


def test_that_no_third_start_is_looked_at_is_said_where_it_continues() -> None:
    def says(*of: Switched) -> bool:
        return any(said.startswith("starts after the second") and "killed" in said for said in caveats(record(*of)))

    assert says(switched(CONTINUES), switched(WRONG))
    assert not says(switched(WRONG))


def test_that_the_trigger_which_write_sets_is_not_looked_at_is_said() -> None:
    reads = SideRecord("my_queries:word_count", {**SUBJECT, "reads": True}, {"pyspark": "4.3.0"})

    def says(**sides: SideRecord) -> bool:
        return any(said.startswith("a trigger") for said in caveats(record(switched(CONTINUES), **sides)))

    assert says(old=reads, new=reads)
    assert not says()


def test_what_was_cut_short_leaves_it_unknown() -> None:
    assert record(switched(CONTINUES), cut_short="it was interrupted").exit_status is ExitStatus.UNKNOWN


def test_what_was_not_tried_leaves_it_unknown() -> None:
    assert record(switched(CONTINUES), not_tried=("a point: no time was left",)).exit_status is ExitStatus.UNKNOWN


def test_a_change_that_makes_no_difference_to_this_input_is_said() -> None:
    same = record(switched(CONTINUES), same_table=True, differ_in=("code",))
    settings = replace_settings(same)

    assert any("the change was not exercised" in said for said in caveats(same))
    assert not any("the change was not exercised" in said for said in caveats(settings))
    assert any("whatever a setting would change in it was not exercised" in said for said in caveats(settings))


def test_two_versions_that_are_the_same_are_said_to_be() -> None:
    same, other = record(switched(CONTINUES)), record(switched(CONTINUES), differ_in=("settings",))

    assert any("nothing was changed" in said for said in caveats(same))
    assert not any("nothing was changed" in said for said in caveats(other))


def test_that_each_version_is_read_in_its_own_way_is_said() -> None:
    def of(name: str) -> SideRecord:
        code = {"read": {"name": f"sinks:{name}", "source": None}}
        return SideRecord("my_queries:word_count", {**SUBJECT, "code": code}, {"pyspark": "4.3.0"})

    def said(**sides: SideRecord) -> bool:
        return any("read is another" in one for one in caveats(record(switched(CONTINUES), **sides)))

    assert said(old=of("one"), new=of("other"))
    assert not said(old=of("one"), new=of("one"))
    assert not said(old=of("one"))


def test_that_columns_come_in_another_order_or_of_another_type_is_said() -> None:
    """Rows show neither; a sink that goes by position, or has a schema, makes something else of it."""
    old, swapped, narrow = ("seq bigint", "k string", "v string"), ("seq bigint", "v string", "k string"), ("seq int",)
    side = record().old

    def said(new: tuple[str, ...], *of: Switched) -> list[str]:
        sides = {"old": replace_columns(side, old), "new": replace_columns(side, new)}
        return [said for said in caveats(record(*of, **sides)) if "OLD gives" in said]

    (of_order,) = said(swapped, switched(CONTINUES))
    assert of_order.startswith("OLD gives (seq bigint, k string, v string), and NEW (seq bigint, v string, k string)")
    assert len(said(narrow, switched(CONTINUES))) == 1
    # Not where they are the same, not known, or where nothing continues.
    assert said(old, switched(CONTINUES)) + said((), switched(CONTINUES)) + said(swapped, switched(WRONG)) == []


def replace_columns(side: SideRecord, columns: tuple[str, ...]) -> SideRecord:
    return SideRecord(side.origin, side.subject, side.versions, side.settings, columns)


def replace_settings(one: UpgradeRecord) -> UpgradeRecord:
    """The same change, of settings alone: both versions should make the same."""
    return record(*one.switched, same_table=True, differ_in=("settings",))


def test_states_from_which_the_same_came_about_are_told_together_the_worst_first() -> None:
    refused = [switched(REFUSED, why=f"[SCHEMA] in /checkpoint/state/0/{n}") for n in range(3)]
    lines = outcome_lines(record(switched(CONTINUES), *refused, switched(WRONG, rows=("a twice",))))

    assert [(line.outcome, line.states) for line in lines] == [(WRONG, 1), (REFUSED, 3), (CONTINUES, 1)]
    assert "nothing was written: every file in its folders is as it was" in lines[1].more


def test_what_one_that_was_refused_has_left_and_what_the_old_version_makes_of_it_is_told() -> None:
    aside = beside(CONTINUES, after=True)
    (line,) = outcome_lines(record(switched(REFUSED, changed=LEFT, aside=aside)))

    assert line.more == (
        "it left something behind: checkpoint/offsets/2 (new)",
        "the old version, from what it left: continues (runs/beside-0002)",
    )


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = record(switched(REFUSED, changed=LEFT), same_table=False)
    write_upgrade(tmp_path, written)

    assert read_upgrade(tmp_path) == written


def test_one_of_another_version_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidHistory, match="holds no upgrade"):
        read_upgrade(tmp_path)
    write_upgrade(tmp_path, record(version=VERSION + 1))
    with pytest.raises(UnknownHistoryVersion, match=str(VERSION + 1)):
        judge_upgrade(tmp_path, JUDGES)


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (("old", "subject", "name"), ..., "of the old version, subject has no 'name'"),
        (("new", "subject", "name"), 7, "of the new version, subject has name=7"),
        (("new", "subject", "mode"), "upside", "mode='upside'"),
        (("new", "subject", "key"), [1], r"key=\[1\]"),
        (("new", "subject", "code"), "source", "code='source'"),
        (("old", "versions", "pyspark"), ..., "of the old version, versions has no 'pyspark'"),
        (("switched", 0, "crashes"), [], "runs/upgrade-0001 is the run of no crash"),
        (("switched", 0, "folder"), "runs/../../elsewhere", "folder='runs/../../elsewhere' is none of its runs"),
        (("switched", 0, "aside", "folder"), "/etc", "folder='/etc' is none of its runs"),
        (("switched", 0, "outcome"), "went well", "went well"),
        (("claims", 0, "within"), {}, "amount of nothing"),
        (("switched",), ..., "switched"),
    ],
)
def test_one_that_is_damaged_is_refused_with_what_is_wrong(
    where: Sequence[str | int], value: object, said: str, tmp_path: Path
) -> None:
    write_upgrade(tmp_path, record(switched(WRONG, aside=FINE)))
    content = json.loads((tmp_path / UPGRADE_FILE).read_bytes())
    inside = content
    for step in where[:-1]:
        inside = inside[step]
    if value is ...:
        del inside[where[-1]]
    else:
        inside[where[-1]] = value
    (tmp_path / UPGRADE_FILE).write_text(json.dumps(content))

    with pytest.raises(DamagedHistory, match=said) as refused:
        read_upgrade(tmp_path)
    assert str(tmp_path / UPGRADE_FILE) in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b'"\xff"', b"[" * 100_000, b"{}", b"null"])
def test_what_is_no_record_at_all_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / UPGRADE_FILE).write_bytes(content)

    with pytest.raises(InvalidHistory, match=UPGRADE_FILE):
        read_upgrade(tmp_path)


def test_files_are_compared_by_what_is_in_them() -> None:
    assert changes({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}) == (
        "b (changed)",
        "c (gone)",
        "d (new)",
    )


def test_each_pair_of_key_and_value_comes_again_at_the_end() -> None:
    asked = single_words(3, events=10, batch=5)
    longer = touched_again(asked)
    events = [event for batch in longer.workload.batches(SOURCE) for event in batch]
    before = [(event.key, event.value) for batch in asked.batches(SOURCE) for event in batch]

    assert [(one.key, one.value) for one in events[:10]] == before
    assert sorted((one.key, one.value) for one in events[10:]) == sorted(set(before))
    assert longer.again == len(events) - 10


def test_an_input_whose_events_are_spaced_comes_again_too() -> None:
    spaced = replace(single_words(3, events=100, batch=50), spacing={SOURCE: 10})
    longer = touched_again(spaced)
    events = [event for batch in longer.workload.batches(SOURCE) for event in batch]
    query = replace(query_word_count(), batch_events=5)

    assert len(events) == longer.events == 10 + longer.again
    assert {later.time - earlier.time for earlier, later in pairwise(events)} == {10}
    assert longer.last_before(query) == 1
    assert longer.last_batch(query) == len(query.batches(longer.workload)) - 3


def test_an_input_that_ends_early_has_the_same_batches_up_to_the_last_change() -> None:
    query = replace(query_word_count(), batch_events=4)
    longer = touched_again(words(3, events=10, batch=5))
    whole = query.batches(longer.workload)
    early = longer.ended_early(query, whole)

    assert early[: longer.last_before(query) + 1] == whole[: longer.last_before(query) + 1]
    assert sum(map(len, early[:-2])) == 10
    assert [len(batch) for batch in early[-2:]] == [1, 1]


def test_the_change_is_made_before_any_key_comes_again() -> None:
    query = replace(query_word_count(), batch_events=4)
    longer = touched_again(words(3, events=10, batch=5))

    # Ten events are two whole batches and a half: in the third there are repeated ones.
    assert longer.last_before(query) == 1
    assert longer.last_batch(query) == len(query.batches(longer.workload)) - 3
