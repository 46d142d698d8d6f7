"""Upgrades on embedded Spark: each pair of the library comes to what is expected of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from certified import JUDGES
from streamproof.harness.contracts.query import RunFolders
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.verdicts import Status
from streamproof.harness.upgrading.outcomes import UpgradeOutcome, Way
from streamproof.harness.upgrading.record import UpgradeRecord, judge_upgrade
from streamproof.harness.upgrading.request import UpgradeRequest, UpgradeSide
from streamproof.harness.upgrading.upgrade import upgrade
from streamproof.scenarios.upgrades import PAIRS, UpgradePair

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BY_NAME = {pair.name: pair for pair in PAIRS}


def upgraded(pair: UpgradePair, folder: Path, states: int, *, and_back: bool = False) -> UpgradeRecord:
    request = UpgradeRequest(
        UpgradeSide(pair.old),
        UpgradeSide(pair.new),
        pair.workload,
        Registry(),
        basis=pair.basis,
        and_back=and_back,
        states=states,
    )
    return upgrade(request, folder)[1]


def outcomes(record: UpgradeRecord, way: Way = Way.UPGRADE) -> set[UpgradeOutcome]:
    """From states with a committed batch."""
    return {one.outcome for one in record.switched if one.way is way and one.committed >= 0}


@pytest.mark.spark
def test_what_spark_takes_for_the_same_state_is_wrong(tmp_path: Path) -> None:
    found = upgraded(BY_NAME["keys-swapped"], tmp_path / "upgrade", states=1)

    assert outcomes(found) == {UpgradeOutcome.WRONG}
    assert all("count bigint" in side.columns for side in (found.old, found.new))
    assert judge_upgrade(tmp_path / "upgrade", JUDGES).differences == ()


def upserted(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    """As a table that is merged into: each key has the row that came last."""

    def merge(frame: DataFrame, batch: int) -> None:
        table = _table_in(folders)
        table.update((row[0], row[1]) for row in frame.collect())
        # A name of its own is all that a batch that was cut short leaves.
        new = folders.sink / f"table.{batch}.new"
        new.write_text(json.dumps(table, sort_keys=True))
        new.replace(folders.sink / "table.json")

    return rows.writeStream.foreachBatch(merge)


def as_upserted(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.createDataFrame(list(_table_in(folders).items()), "key STRING, value STRING")


def _table_in(folders: RunFolders) -> dict[str, str]:
    place = folders.sink / "table.json"
    table: dict[str, str] = json.loads(place.read_text()) if place.exists() else {}
    return table


@pytest.mark.spark
@pytest.mark.long
def test_what_later_input_makes_good_shows_in_a_table_that_is_read_before(tmp_path: Path) -> None:
    pair = BY_NAME["maximum-replaced"]
    old, new = (replace(query, write=upserted, read=as_upserted) for query in (pair.old, pair.new))
    found = upgraded(replace(pair, old=old, new=new), tmp_path / "upgrade", states=1)

    assert [(one.early, one.again, one.outcome, one.status) for one in found.switched] == [
        (False, False, UpgradeOutcome.CONTINUES, Status.HOLDS),
        (True, False, UpgradeOutcome.WRONG, Status.VIOLATED),
        # Here it has come to the end of all input, which has made it good.
        (False, True, UpgradeOutcome.CONTINUES, Status.HOLDS),
    ]
    assert judge_upgrade(tmp_path / "upgrade", JUDGES).differences == ()


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_each_pair_comes_to_what_is_expected_of_it(pair: UpgradePair, tmp_path: Path) -> None:
    found = upgraded(pair, tmp_path / "upgrade", states=1)

    assert outcomes(found) == {pair.expected}
    if pair.expected in (UpgradeOutcome.WRONG, UpgradeOutcome.CRASH_LOOP):
        # The old version goes on from there.
        assert {one.status for one in found.switched} == {Status.VIOLATED}
    assert judge_upgrade(tmp_path / "upgrade", JUDGES).differences == ()


@pytest.mark.spark
@pytest.mark.long
def test_nothing_that_changed_goes_on_from_many_states_and_back_again(tmp_path: Path) -> None:
    found = upgraded(BY_NAME["nothing-changed"], tmp_path / "upgrade", states=8, and_back=True)

    assert outcomes(found) == {UpgradeOutcome.CONTINUES}
    assert outcomes(found, Way.ROLLBACK) == {UpgradeOutcome.CONTINUES}
