"""The table of upgrades is the one that was measured, what was measured is as it must be, and what the same code has
tried is not tried again."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from harness.upgrading.test_upgrade_records import (
    CONTINUES,
    FINE,
    LEFT,
    LOOP,
    REFUSED,
    UNKNOWN,
    WRONG,
    beside,
    record,
    switched,
)
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.install.spark_choice import chosen_version
from streamproof.harness.upgrading.outcomes import Switched, UpgradeOutcome
from streamproof.harness.upgrading.record import UPGRADE_FILE, RejudgedUpgrade, UpgradeRecord, write_upgrade
from streamproof.harness.upgrading.request import UpgradeRequest
from streamproof.scenarios.upgrades import PAIRS
from versions import kept, upgrades
from versions.tables import with_table
from versions.upgrades import BEGIN, NAMES, PAGE, Came, read_measured, table, tried, what_came

HERE = chosen_version()
PAIR = PAIRS[0]
assert PAIR.expected is CONTINUES
SPARK_SAYS = (
    "[STREAM_FAILED] Query [id = 6f0c6a3e-2f55-4ea2-9b6b-0a9f8f8a2d11 runId = 0] terminated with exception: "
    "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema."
)


def on_spark(found: UpgradeRecord, spark: str) -> UpgradeRecord:
    side = msgspec.structs.replace(found.old, versions={**found.old.versions, "spark": spark})
    return msgspec.structs.replace(found, old=side, new=side)


def of(*found: Switched, expected: UpgradeOutcome = CONTINUES) -> Came:
    return what_came(replace(PAIR, expected=expected), on_spark(record(*found), HERE), HERE)


# The table


def test_the_page_has_the_table_of_what_was_measured() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text(), table(read_measured()), BEGIN)


def test_what_was_measured_is_right_and_was_measured_on_the_spark_that_is_named() -> None:
    measured = read_measured()
    assert set(measured) <= set(NAMES)
    came = [(version, one) for by_version in measured.values() for version, one in by_version.items()]
    assert came
    assert [one for version, one in came if not one.right or one.spark != version] == []


def test_what_was_measured_is_what_is_expected_of_the_pair_today() -> None:
    by_name = {pair.name: pair for pair in PAIRS}
    for name, by_version in read_measured().items():
        for version, one in by_version.items():
            assert one.expected == by_name[name].expected_on(version)


def test_another_outcome_is_expected_on_a_line_that_sees_the_change() -> None:
    replaced = next(pair for pair in PAIRS if pair.name == "aggregate-replaced")
    assert [replaced.expected_on(version) for version in ("3.5.9", "4.2.0", "4.3.0", "4.10.0")] == [
        *(REFUSED, REFUSED),
        *(WRONG, WRONG),
    ]
    assert PAIR.expected_on("4.1.3") is PAIR.expected


def test_the_table_has_a_line_for_each_pair_that_was_tried_and_a_column_for_each_version() -> None:
    came = of(switched(CONTINUES))
    made = table({PAIR.name: {"4.3.0": came}, PAIRS[1].name: {"4.1.3": came}}).splitlines()
    assert made == [
        "| pair | 4.1.3 | 4.3.0 |",
        "| --- | --- | --- |",
        f"| `{PAIR.name}` | not tried | continues |",
        f"| `{PAIRS[1].name}` | continues | not tried |",
    ]


# What came


@pytest.mark.parametrize(
    ("came", "right"),
    [
        (of(switched(CONTINUES)), True),
        (of(switched(CONTINUES), switched(WRONG, aside=FINE)), False),
        (of(switched(WRONG, aside=FINE), expected=WRONG), True),
        (of(switched(WRONG), expected=WRONG), False),
        (of(switched(LOOP, aside=beside(LOOP)), expected=LOOP), False),
        (of(switched(REFUSED), expected=REFUSED), True),
        (of(switched(UNKNOWN), expected=UNKNOWN), True),
        (of(switched(CONTINUES, committed=-1)), False),
        (of(), False),
    ],
)
def test_is_right_where_all_states_came_to_what_is_expected_and_the_old_version_is_not_to_blame(
    came: Came, right: bool
) -> None:
    assert came.right is right


@pytest.mark.parametrize(
    ("came", "said"),
    [
        (of(switched(CONTINUES)), "continues"),
        (of(switched(CONTINUES), switched(CONTINUES)), "continues (2 states)"),
        (of(switched(CONTINUES), switched(CONTINUES, early=True)), "continues"),
        (of(switched(WRONG, aside=FINE)), "**silently wrong**, and must be continues"),
        (
            of(switched(REFUSED, why=SPARK_SAYS), expected=REFUSED),
            "refused: STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE; every file is as it was",
        ),
        (
            of(switched(REFUSED, changed=LEFT, aside=beside(CONTINUES, after=True)), expected=REFUSED),
            "refused: OLD goes on from what it leaves",
        ),
        (
            of(switched(REFUSED, changed=LEFT, aside=beside(REFUSED, after=True, without=FINE)), expected=REFUSED),
            "refused: OLD does not go on from what it leaves",
        ),
        (
            of(switched(REFUSED, changed=LEFT), expected=REFUSED),
            "refused: what OLD makes of what it leaves is not known",
        ),
    ],
)
def test_says_the_outcome_with_the_error_and_with_what_is_left(came: Came, said: str) -> None:
    assert came.text == said


# Records that are kept


class Java:
    version = 17


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> argparse.Namespace:
    monkeypatch.setattr(kept, "find_java", Java)
    monkeypatch.setattr(upgrades, "reap_silently", lambda: None)
    monkeypatch.setattr(
        upgrades, "judge_upgrade", lambda folder, oracles: RejudgedUpgrade(upgrades.read_upgrade(folder), ())
    )
    return argparse.Namespace(folder=tmp_path, minutes=1.0, states=1)


def comes_to(outcome: UpgradeOutcome, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """From now on; the folders in which it did."""
    done: list[Path] = []

    def upgrade(request: UpgradeRequest, folder: Path) -> tuple[Path, UpgradeRecord]:
        assert not folder.exists()
        found = record(switched(outcome))
        found = on_spark(found, HERE)
        write_upgrade(folder, found)
        done.append(folder)
        return folder, found

    monkeypatch.setattr(upgrades, "upgrade", upgrade)
    return done


def test_what_the_same_code_has_tried_is_taken(asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    done = comes_to(CONTINUES, monkeypatch)
    first = tried(PAIR, HERE, asked)
    assert (first.right, first.spark) == (True, HERE)
    assert tried(PAIR, HERE, asked) == first
    assert len(done) == 1


@pytest.mark.parametrize("change", ["states", "damaged", "wrong", "cut short"])
def test_what_is_not_the_same_or_no_answer_is_tried_again_in_its_place(
    change: str, asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = comes_to(UNKNOWN if change == "wrong" else CONTINUES, monkeypatch)
    tried(PAIR, HERE, asked)
    if change == "states":
        asked.states = 2
    if change == "damaged":
        (first[0] / UPGRADE_FILE).write_text('{"version": 2')
    if change == "cut short":
        kept = upgrades.read_upgrade(first[0])
        write_upgrade(first[0], msgspec.structs.replace(kept, cut_short="it was interrupted"))
    again = comes_to(CONTINUES, monkeypatch)
    assert tried(PAIR, HERE, asked).right
    assert (len(first), len(again)) == (1, 1)
    assert [one.name for one in asked.folder.iterdir()] == [again[0].name]


def test_what_the_record_does_not_bear_out_is_wrong(
    asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    comes_to(CONTINUES, monkeypatch)
    monkeypatch.setattr(
        upgrades,
        "judge_upgrade",
        lambda folder, oracles: RejudgedUpgrade(upgrades.read_upgrade(folder), ("another table",)),
    )
    assert not tried(PAIR, HERE, asked).right
    assert "judged again: another table" in capsys.readouterr().err


def test_one_that_cannot_be_tried_says_why_and_ends_no_other(
    asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(request: UpgradeRequest, folder: Path) -> None:
        raise InvalidOperator("the old version fails alone, without any change")

    monkeypatch.setattr(upgrades, "upgrade", fails)
    came = tried(PAIR, HERE, asked)
    assert (came.outcome, came.right) == ("InvalidOperator", False)
    assert came.said.startswith("the old version fails alone")
