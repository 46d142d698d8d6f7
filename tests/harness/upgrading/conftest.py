"""Upgrades without Spark, of queries of a few files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toy_spark
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.upgrading import upgrade as upgrading
from streamproof.harness.upgrading.record import UpgradeRecord
from streamproof.harness.upgrading.request import UpgradeRequest, UpgradeSide
from streamproof.scenarios.workloads import words
from toy_spark import ToySpark


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
