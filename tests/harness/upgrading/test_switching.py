"""A version that fails is started again as whoever runs it would, until it is known what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from streamproof.harness.certifying.attempts import Attempt
from streamproof.harness.certifying.recovery_worker import RecoveryWorker
from streamproof.harness.contracts.query import RunFolders
from streamproof.harness.core.errors import InvalidOperator, ProcessDied, StreamproofError
from streamproof.harness.upgrading.switching import go_on_in, put_back, settings_in_force

Acts = Callable[[int, Path], StreamproofError | None]
"""What an attempt does: given its number and the checkpoint, it ends, or fails by this error."""


class RecoveryWorkerOfOne:
    """As much of a recovery worker as an attempt takes."""

    def __init__(self, home: Path, acts: Acts) -> None:
        self.folders = RunFolders("one", home / "sink", home / "checkpoint")
        self.store = self
        self._acts = acts
        self.lived: list[int] = []
        (home / "checkpoint" / "offsets").mkdir(parents=True)
        (home / "checkpoint" / "offsets" / "1").write_text("one")

    def live(self, actor: str, sink: str, incarnation: int, watched: bool) -> Attempt:
        self.lived.append(incarnation)
        attempt = Attempt(actor, incarnation)
        attempt.failure = self._acts(incarnation, self.folders.checkpoint)
        attempt.failed_in = 1
        return attempt

    def clear(self) -> None:
        """Of what it stores."""


def worker(home: Path, acts: Acts) -> RecoveryWorkerOfOne:
    return RecoveryWorkerOfOne(home / "worker", acts)


NO = InvalidOperator("[STATE_SCHEMA] no")


def test_one_that_goes_on_lives_once(tmp_path: Path) -> None:
    one = worker(tmp_path, lambda number, checkpoint: None)
    went = go_on_in(cast(RecoveryWorker, one), 2, tmp_path / "left")

    assert (one.lived, went.changed, went.left) == ([2], (), None)


def test_one_that_fails_twice_from_the_same_files_is_not_tried_a_third_time(tmp_path: Path) -> None:
    one = worker(tmp_path, lambda number, checkpoint: NO)
    went = go_on_in(cast(RecoveryWorker, one), 2, tmp_path / "left")

    assert (one.lived, went.changed) == ([2, 3], ())
    assert [attempt.incarnation for attempt in (*went.attempt.before, went.attempt)] == [2, 3]


def test_what_the_first_start_has_left_is_there_for_the_next_and_is_kept(tmp_path: Path) -> None:
    def acts(number: int, checkpoint: Path) -> StreamproofError:
        (checkpoint / "offsets" / "2").write_text("two")
        return NO

    one = worker(tmp_path, acts)
    went = go_on_in(cast(RecoveryWorker, one), 2, tmp_path / "left")

    assert (one.lived, went.changed) == ([2, 3], ("checkpoint/offsets/2 (new)",))
    (one.folders.checkpoint / "offsets" / "2").unlink()
    assert went.left is not None
    put_back(cast(RecoveryWorker, one), went.left, tmp_path / "left")
    assert (one.folders.checkpoint / "offsets" / "2").read_text() == "two"


def test_a_folder_that_is_left_is_something_left_and_is_kept_too(tmp_path: Path) -> None:
    """As a lock that is made by making a folder, before Spark refuses what is there."""

    def acts(number: int, checkpoint: Path) -> StreamproofError:
        (checkpoint.parent / "sink" / "lock").mkdir(parents=True, exist_ok=True)
        return NO

    one = worker(tmp_path, acts)
    went = go_on_in(cast(RecoveryWorker, one), 2, tmp_path / "left")

    assert went.changed == ("sink/lock/ (new)",)
    (one.folders.sink / "lock").rmdir()
    assert went.left is not None
    put_back(cast(RecoveryWorker, one), went.left, tmp_path / "left")
    assert (one.folders.sink / "lock").is_dir()


def test_one_that_changes_something_at_each_start_is_given_up_at_the_same_batch(tmp_path: Path) -> None:
    def acts(number: int, checkpoint: Path) -> StreamproofError:
        (checkpoint / "offsets" / "1").write_text(f"by {number}")
        return NO

    one = worker(tmp_path, acts)
    went = go_on_in(cast(RecoveryWorker, one), 2, tmp_path / "left")

    assert (one.lived, went.changed) == ([2, 3, 4], ("checkpoint/offsets/1 (changed)",))


def test_one_that_fails_once_and_then_ends_has_gone_on(tmp_path: Path) -> None:
    one = worker(tmp_path, lambda number, checkpoint: NO if number == 2 else None)
    went = go_on_in(cast(RecoveryWorker, one), 2, tmp_path / "left")

    assert one.lived == [2, 3]
    assert went.attempt.failure is None
    assert [attempt.failure for attempt in went.attempt.before] == [NO]


def test_what_is_no_fault_of_its_own_is_not_tried_again(tmp_path: Path) -> None:
    one = worker(tmp_path, lambda number, checkpoint: ProcessDied("no memory"))
    went = go_on_in(cast(RecoveryWorker, one), 2, tmp_path / "left")

    assert one.lived == [2]
    assert isinstance(went.attempt.failure, ProcessDied)


def in_checkpoint(checkpoint: Path, settings: str) -> None:
    head = f'{{"batchWatermarkMs":0,"conf":{settings}}}'
    (checkpoint / "offsets" / "2").write_text(f'v1\n{head}\n{{"batches":3}}')


def test_a_setting_is_kept_where_another_is_in_force_than_where_the_version_begins_anew(tmp_path: Path) -> None:
    """Whoever has asked for it: the query, its code, or another version of Spark by what it leaves out."""
    partitions, state = "spark.sql.shuffle.partitions", "spark.sql.streaming.join.stateFormatVersion"
    one = worker(
        tmp_path, lambda number, checkpoint: in_checkpoint(checkpoint, f'{{"{partitions}":"2","{state}":"2"}}')
    )

    went = go_on_in(cast(RecoveryWorker, one), 2, tmp_path / "left", {partitions: "3", state: "2", "spark.x": "1"})

    assert went.kept == (f"{partitions} is 2, which the checkpoint holds, and 3 where the version begins anew",)


def test_of_a_log_that_looks_otherwise_no_setting_is_known(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    assert settings_in_force(checkpoint) == {}
    (checkpoint / "offsets").mkdir(parents=True)
    for content in (b"", b"v1\nno JSON", b"v1\n[]", b"\xff\n\xff"):
        (checkpoint / "offsets" / "0").write_bytes(content)
        assert settings_in_force(checkpoint) == {}
