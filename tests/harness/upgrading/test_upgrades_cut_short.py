"""What an upgrade has found is kept, whatever ends it: without Spark, of queries of a few files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toy_spark
from certified import JUDGES
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import ExitStatus, StorageFailed
from streamproof.harness.upgrading import upgrade as upgrading
from streamproof.harness.upgrading.outcomes import Basis, UpgradeOutcome, Way
from streamproof.harness.upgrading.record import UpgradeRecord, judge_upgrade
from streamproof.harness.upgrading.request import UpgradeRequest, UpgradeSide
from streamproof.scenarios.workloads import words
from toy_spark import Does, ToySpark, toy

CONTINUES = UpgradeOutcome.CONTINUES
GIVEN: dict[str, Any] = {"write": None, "read": None}
"""Of a query whose rows the harness's sink takes."""


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., UpgradeRecord]:
    toy_spark.install(monkeypatch, tmp_path)
    agent = tmp_path / "agent.jar"
    agent.touch()
    monkeypatch.setattr(upgrading, "SparkProcesses", ToySpark)
    monkeypatch.setattr(upgrading, "fetch_agent", lambda: agent)
    monkeypatch.setattr(upgrading, "check_rules", lambda *_, **__: None)

    def upgrade(old: Query, new: Query, **more: Any) -> UpgradeRecord:
        request = UpgradeRequest(UpgradeSide(old), UpgradeSide(new), words(events=30), Registry(), **more)
        return upgrading.upgrade(request, tmp_path / "upgrade")[1]

    return upgrade


def judged_again(tmp_path: Path) -> tuple[str, ...]:
    return judge_upgrade(tmp_path / "upgrade", JUDGES).differences


def test_of_what_a_version_cannot_be_compared_with_no_more_is_lost_than_that(
    upgrade: Callable[..., UpgradeRecord], tmp_path: Path
) -> None:
    """As one that fails at an update of what was created before the change, where it knows of no creation."""
    old, new = toy(Does.BY_ID, **GIVEN), toy(Does.NEEDS_THE_BEGINNING, **GIVEN)

    found = upgrade(old, new, basis=Basis.SINCE)

    # Begun anew, those of which nothing was committed have all of the input.
    assert {(one.outcome, one.committed) for one in found.switched} == {(CONTINUES, -1)}
    after = {said.partition(": begun anew ")[2].partition(":")[0] for said in found.not_tried}
    assert after == {
        f"on the input from batch {begun} on, the new version fails alone, so that there is nothing to compare with"
        for begun in (1, 2, 3)
    }
    assert sum(len(one.crashes) for one in found.switched) + len(found.not_tried) == found.points[Way.UPGRADE]
    assert found.exit_status is ExitStatus.UNKNOWN
    assert judged_again(tmp_path) == ()


def test_where_a_run_cannot_be_written_what_was_found_before_is_kept(
    upgrade: Callable[..., UpgradeRecord], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written: list[Path] = []

    def write_run(folder: Path, *given: Any) -> None:
        really_write_run(folder, *given)
        written.append(folder)
        if len(written) == 3:
            raise StorageFailed("cannot write timeline.jsonl: No space left on device")

    really_write_run = upgrading.write_run
    monkeypatch.setattr(upgrading, "write_run", write_run)
    found = upgrade(toy(Does.BY_ID), toy(Does.BY_ID), and_back=True)

    assert [one.outcome for one in found.switched if one.way is Way.UPGRADE] == [CONTINUES] * 2
    assert "cannot write timeline.jsonl: No space left on device" in found.not_tried[0]
    assert found.exit_status is ExitStatus.UNKNOWN
    assert judged_again(tmp_path) == ()
    assert not written[2].exists()
