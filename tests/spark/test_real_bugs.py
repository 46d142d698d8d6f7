"""Bugs of Spark and its connectors, found again by the schedule that shows them, on releases that have them and on some
that have them no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.harness.core.errors import InvalidOperator, MissingTool
from streamproof.harness.core.verdicts import Status
from streamproof.harness.install.machine import find_java
from streamproof.harness.install.packages import kept_jars
from streamproof.harness.install.spark_choice import chosen_spark
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.scenarios.bugs import BUGS, RealBug
from versions.bugs import AFFECTED, SIDES, ran, release_of

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("bug", BUGS, ids=[one.name for one in BUGS])
def test_shows_on_the_release_that_has_it_alone(bug: RealBug, side: str, tmp_path: Path) -> None:
    """It is skipped where its Spark or its connector cannot be had."""
    release = release_of(bug, side)
    if release is None:
        pytest.skip("no release is known that corrects it")
    try:
        kept_jars(bug.make(release).configuration, chosen_spark(release.spark), find_java())
    except MissingTool as error:
        pytest.skip(str(error))
    if side == AFFECTED and not bug.anomalies:
        with pytest.raises(InvalidOperator):
            ran(bug, side, tmp_path / "run")
        return
    finished = ran(bug, side, tmp_path / "run")
    (verdict,) = finished.judgement.verdicts
    assert verdict.status is (Status.VIOLATED if side == AFFECTED else Status.HOLDS), verdict
    assert {one.anomaly for one in verdict.anomalies} == (bug.anomalies if side == AFFECTED else frozenset())
    assert labelled_processes(finished.description.run) == []
