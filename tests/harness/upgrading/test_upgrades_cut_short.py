"""What an upgrade has found is kept, whatever ends it: without Spark, of queries of a few files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certified import JUDGES
from streamproof.harness.core.errors import ExitStatus, StorageFailed
from streamproof.harness.upgrading import ends
from streamproof.harness.upgrading import upgrade as upgrading
from streamproof.harness.upgrading.ends import UpgradeInterrupted
from streamproof.harness.upgrading.outcomes import Basis, UpgradeOutcome, Way
from streamproof.harness.upgrading.record import UPGRADE_FILE, UpgradeRecord, judge_upgrade, read_upgrade
from toy_spark import Does, toy

CONTINUES = UpgradeOutcome.CONTINUES
GIVEN: dict[str, Any] = {"write": None, "read": None}
"""Of a query whose rows the harness's sink takes."""


def judged_again(tmp_path: Path) -> tuple[str, ...]:
    return judge_upgrade(tmp_path / "upgrade", JUDGES).differences


def test_of_what_a_version_cannot_be_compared_with_no_more_is_lost_than_that(
    upgrade: Callable[..., UpgradeRecord], tmp_path: Path
) -> None:
    """As one that fails at an update of what was created before the change, where it knows of no creation."""
    old, new = toy(Does.BY_ID, **GIVEN), toy(Does.NEEDS_THE_BEGINNING, **GIVEN)

    found = upgrade(old, new, basis=Basis.SINCE)

    assert {side.columns for side in (found.old, found.new)} == {("q string", "a bigint")}
    # Begun anew, those of which nothing was committed have all of the input.
    assert {(one.outcome, one.committed) for one in found.switched} == {(CONTINUES, -1)}
    after = {said.partition(": begun anew ")[2].partition(":")[0] for said in found.not_tried}
    assert after == {
        f"on the input from batch {begun} on, the new version fails alone, so that there is nothing to compare with"
        for begun in (1, 2, 3)
    }
    tried = sum(len(one.crashes) for one in found.switched if not one.once_more)
    assert tried + len(found.not_tried) == found.points[Way.UPGRADE]
    assert found.exit_status is ExitStatus.UNKNOWN
    assert judged_again(tmp_path) == ()


def test_where_a_run_cannot_be_written_what_was_found_before_is_kept(
    upgrade: Callable[..., UpgradeRecord], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written: list[Path] = []

    def write_run(folder: Path, *given: Any) -> None:
        really_write_run(folder, *given)
        written.append(folder)
        if len(written) == 4:
            raise StorageFailed("cannot write timeline.jsonl: No space left on device")

    really_write_run = upgrading.write_run
    monkeypatch.setattr(upgrading, "write_run", write_run)
    found = upgrade(toy(Does.BY_ID), toy(Does.BY_ID), and_back=True)

    assert [one.outcome for one in found.switched if one.way is Way.UPGRADE] == [CONTINUES] * 3
    assert "cannot write timeline.jsonl: No space left on device" in found.not_tried[0]
    assert found.exit_status is ExitStatus.UNKNOWN
    assert judged_again(tmp_path) == ()
    assert not written[3].exists()


Interrupt = Callable[..., None]


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """Whoever has written so many runs of a kind is interrupted before anybody has looked at the last."""

    def interrupt(kind: str, which: int, by: type[BaseException] = KeyboardInterrupt) -> None:
        written: list[str] = []

        def write_run(folder: Path, *given: Any) -> None:
            really_write_run(folder, *given)
            written.append(folder.name.partition("-")[0])
            if written.count(kind) == which and written[-1] == kind:
                raise by

        really_write_run = upgrading.write_run
        monkeypatch.setattr(upgrading, "write_run", write_run)

    return interrupt


@pytest.mark.parametrize(
    ("kind", "which", "status"),
    [
        # With an input that ends early.
        ("upgrade", 2, ExitStatus.UNKNOWN),
        ("upgrade", 5, ExitStatus.UNKNOWN),
        ("beside", 1, ExitStatus.UNKNOWN),
        # Only the old version beside shows that the new one is to blame.
        ("beside", 2, ExitStatus.VIOLATED),
        ("rollback", 2, ExitStatus.VIOLATED),
    ],
)
def test_what_is_found_by_the_time_of_ctrl_c_is_kept(
    kind: str,
    which: int,
    status: ExitStatus,
    upgrade: Callable[..., UpgradeRecord],
    interrupt: Interrupt,
    tmp_path: Path,
) -> None:
    interrupt(kind, which)

    with pytest.raises(UpgradeInterrupted) as ended:
        upgrade(toy(Does.BY_ID), toy(Does.APPENDS), and_back=True, states=5)

    found = read_upgrade(tmp_path / "upgrade")
    assert ended.value.record == found
    assert found.cut_short == "it was interrupted"
    assert judged_again(tmp_path) == ()
    assert sorted(one.name for one in (tmp_path / "upgrade").iterdir()) == ["runs", UPGRADE_FILE]
    for way, planned in found.points.items():
        told = [one for one in found.switched if one.way is way and not one.once_more]
        left = [said for said in found.not_tried if said.startswith(f"{way}: ") and ", and " not in said]
        assert sum(len(one.crashes) for one in told) + len(left) == planned
    assert found.exit_status is status
    assert ("rollback: all: it was interrupted" in found.not_tried) is (kind != "rollback")
    unblamed = "so that nobody is blamed for these: it was interrupted."
    assert any(unblamed in said for said in found.not_looked_at) is ((kind, which) == ("beside", 1))


def test_ctrl_c_before_anything_was_found_leaves_nothing(
    upgrade: Callable[..., UpgradeRecord], interrupt: Interrupt, tmp_path: Path
) -> None:
    interrupt("upgrade", 1)

    with pytest.raises(KeyboardInterrupt) as ended:
        upgrade(toy(Does.BY_ID), toy(Does.BY_ID))

    assert not isinstance(ended.value, UpgradeInterrupted)
    assert ended.value.__notes__ == ["nothing had been found, and nothing is kept"]
    assert not (tmp_path / "upgrade").exists()


def test_whoever_ends_it_otherwise_is_told_what_is_kept(
    upgrade: Callable[..., UpgradeRecord], interrupt: Interrupt, tmp_path: Path
) -> None:
    """As SIGTERM does, or a mistake of ours."""
    folder = tmp_path / "upgrade"
    for by, why in ((SystemExit, "it was interrupted"), (ZeroDivisionError, "ZeroDivisionError: ")):
        interrupt("upgrade", 3, by)
        with pytest.raises(by) as ended:
            upgrade(toy(Does.BY_ID), toy(Does.BY_ID))

        assert ended.value.__notes__ == [f"what was found by then is kept; to see it: streamproof judge {folder}"]
        assert read_upgrade(folder).cut_short == why
        assert judged_again(tmp_path) == ()
        shutil.rmtree(folder)


def test_a_disk_that_was_filled_by_what_it_was_worked_with_takes_the_record(
    upgrade: Callable[..., UpgradeRecord], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def write_upgrade(folder: Path, record: UpgradeRecord) -> None:
        if (folder / "work").exists():
            raise StorageFailed(f"cannot write {folder}: No space left on device")
        really_write_upgrade(folder, record)

    really_write_upgrade = ends.write_upgrade
    monkeypatch.setattr(ends, "write_upgrade", write_upgrade)

    assert upgrade(toy(Does.BY_ID), toy(Does.BY_ID), states=1) == read_upgrade(tmp_path / "upgrade")
