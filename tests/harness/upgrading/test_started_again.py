"""Who goes on is started once more on what it has left itself, as in every deployment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from certified import JUDGES
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.core.verdicts import Status
from streamproof.harness.upgrading import upgrade as upgrading
from streamproof.harness.upgrading.outcomes import Switched, UpgradeOutcome, Way
from streamproof.harness.upgrading.record import UpgradeRecord, judge_upgrade
from streamproof.harness.upgrading.started_again import ends_after
from streamproof.harness.upgrading.switch_judging import COMPARED_AS_STOPPED
from streamproof.harness.upgrading.telling import outcome_lines
from toy_spark import Does, toy

Upgrade = Callable[..., UpgradeRecord]
CONTINUES, WRONG, LOOP = UpgradeOutcome.CONTINUES, UpgradeOutcome.WRONG, UpgradeOutcome.CRASH_LOOP


def by_starts(found: UpgradeRecord) -> tuple[list[Switched], list[Switched]]:
    """Those that were started once, and those that were started again."""
    return [one for one in found.switched if not one.again], [one for one in found.switched if one.again]


def test_what_is_wrong_from_the_second_start_on_is_to_blame(upgrade: Upgrade, tmp_path: Path) -> None:
    """As one that takes over whatever the old version has left, each time that it is started."""
    found = upgrade(toy(Does.BY_ID), toy(Does.TAKES_OVER_AT_EACH_START), states=4)

    once, again = by_starts(found)
    assert {one.outcome for one in once} == {CONTINUES}
    assert {(one.outcome, one.status) for one in again if one.committed >= 0} == {(WRONG, Status.VIOLATED)}
    assert found.exit_status is ExitStatus.VIOLATED
    assert outcome_lines(found)[0].more[0].startswith("started again, on what it has left itself")
    assert judge_upgrade(tmp_path / "upgrade", JUDGES).differences == ()


def test_one_that_fails_at_its_second_start_is_in_a_crash_loop(upgrade: Upgrade, tmp_path: Path) -> None:
    found = upgrade(toy(Does.BY_ID), toy(Does.FAILS_AT_ITS_SECOND_START), states=2)

    once, again = by_starts(found)
    assert {one.outcome for one in once} == {CONTINUES}
    assert {(one.outcome, one.status) for one in again} == {(LOOP, Status.VIOLATED)}
    assert "it had gone on, and ended in order; started again, it failed: " in again[0].why
    assert judge_upgrade(tmp_path / "upgrade", JUDGES).differences == ()


def test_nobody_is_blamed_for_what_every_restart_makes_wrong(upgrade: Upgrade, tmp_path: Path) -> None:
    found = upgrade(toy(Does.ADDS_AT_ITS_THIRD_START), toy(Does.ADDS_AT_ITS_THIRD_START), states=2)

    once, again = by_starts(found)
    assert {one.outcome for one in once} == {CONTINUES}
    assert {(one.outcome, one.status) for one in again} == {(WRONG, Status.UNKNOWN)}
    assert all(one.aside is not None and one.aside.outcome is WRONG for one in again)
    assert found.exit_status is not ExitStatus.VIOLATED
    assert judge_upgrade(tmp_path / "upgrade", JUDGES).differences == ()


def test_batches_that_an_end_of_the_input_cuts_otherwise_are_no_fault(upgrade: Upgrade, tmp_path: Path) -> None:
    """As of a query with a watermark, which closes its windows in a batch of their own."""
    found = upgrade(toy(Does.ENDS_WITH_A_BATCH), toy(Does.ENDS_WITH_A_BATCH), states=2)

    _, again = by_starts(found)
    assert {one.outcome for one in found.switched} == {CONTINUES}
    assert [COMPARED_AS_STOPPED in one.notes for one in again] == [True] * 2
    assert judge_upgrade(tmp_path / "upgrade", JUDGES).differences == ()


def test_two_states_with_each_last_batch_are_started_again(upgrade: Upgrade) -> None:
    found = upgrade(toy(Does.BY_ID), toy(Does.BY_ID), and_back=True)

    for way in Way:
        once, again = by_starts(found)
        committed = Counter(one.committed for one in again if one.way is way)
        assert set(committed) == {one.committed for one in once if one.way is way}
        assert max(committed.values()) <= 2
    assert found.exit_status is ExitStatus.HOLDS


def test_who_is_not_started_again_for_want_of_time_is_said(upgrade: Upgrade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrading._Upgrade, "_left", lambda self: 0.0 if self.found.tried[Way.UPGRADE] else 60.0)
    found = upgrade(toy(Does.BY_ID), toy(Does.BY_ID))

    (said,) = (said for said in found.not_looked_at if "started a second time" in said)
    assert said.endswith("after it has gone on from 1 state: no time was left.")


def test_a_batch_that_counts_is_left_for_the_second_start() -> None:
    # Of five batches that count, and two that close.
    assert [ends_after(committed, 4) for committed in range(-1, 5)] == [2, 3, 4, 4, None, None]
