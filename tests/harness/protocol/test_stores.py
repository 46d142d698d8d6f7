"""Checkpoint stores: the newest counts, a replaced writer is refused, and what is captured can be put back."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from streamproof.harness.core.errors import DamagedHistory, StorageFailed, StorageRefused
from streamproof.harness.core.events import Event
from streamproof.harness.protocol.messages import Checkpoint, CheckpointId, Items
from streamproof.harness.protocol.operator import STATE, VECTOR, Vector
from streamproof.harness.protocol.stores import CheckpointStore, FencedOff, FileStore, MemoryStore
from streamproof.reference_impls.mechanisms.output_log import PART as LOG
from streamproof.reference_impls.mechanisms.output_log import Logged

STORES: dict[str, Callable[[Path], CheckpointStore]] = {
    "memory": lambda folder: MemoryStore(),
    "files": FileStore,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    return STORES[request.param](tmp_path)


def _checkpoint(number: int, incarnation: int = 1, slice_id: str = "count-0") -> Checkpoint:
    """Its parts are plain, and so come back as they are."""
    parts = {"state": b"state %d" % number, "number": 7, "listeners": {"sink-0": {1: number}}}
    return Checkpoint(slice_id, CheckpointId(incarnation, number), parts)


def test_the_newest_checkpoint_of_each_slice_comes_back_whole(store: CheckpointStore) -> None:
    assert store.fence("count-0", 1) is None
    for number in (1, 2):
        assert store.write(_checkpoint(number))
    assert store.write(_checkpoint(9, slice_id="count-1"))
    assert store.fence("count-0", 2) == _checkpoint(2)


def test_parts_come_back_as_what_they_were_put_in_as(store: CheckpointStore) -> None:
    events = [Event("count-0", 3, "key", [1, None, 0.5], 1)]
    parts = {LOG: Logged({"sink-0": events}), VECTOR: Vector({"split-0": 4}, (1, 2))}
    store.fence("count-0", 1)
    assert store.write(Checkpoint("count-0", CheckpointId(1, 1), parts))
    found = store.fence("count-0", 2)
    assert found is not None
    assert found.part(LOG, Logged) == Logged({"sink-0": events})
    assert found.part(VECTOR, Vector) == Vector({"split-0": 4}, (1, 2))
    assert found.part("other", int) is None


def test_a_replaced_incarnation_is_refused_and_changes_nothing(store: CheckpointStore) -> None:
    store.fence("count-0", 1)
    store.write(_checkpoint(1))
    store.fence("count-0", 2)
    assert not store.write(_checkpoint(2, incarnation=1))
    assert store.write(_checkpoint(2, incarnation=2))
    assert not store.write(_checkpoint(3, incarnation=1))
    assert store.fence("count-0", 3) == _checkpoint(2, incarnation=2)


def test_an_incarnation_that_was_replaced_before_it_started_is_refused(store: CheckpointStore) -> None:
    store.fence("count-0", 2)
    with pytest.raises(FencedOff):
        store.fence("count-0", 1)
    assert store.write(_checkpoint(1, incarnation=2))


def test_what_was_captured_is_what_a_later_incarnation_starts_from(store: CheckpointStore) -> None:
    store.fence("count-0", 1)
    store.write(_checkpoint(1))
    store.quiesce()
    captured = store.capture()
    store.write(_checkpoint(2))
    store.write(_checkpoint(1, slice_id="count-1"))
    store.restore(captured)
    assert store.fence("count-0", 2) == _checkpoint(1)
    assert store.fence("count-1", 2) is None


def test_of_writers_that_race_with_a_fence_none_gets_in_after_it(tmp_path: Path) -> None:
    """Whatever the old writer manages to write, the successor has seen it, or it was refused."""
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        FileStore(folder).fence("count-0", 1)
        accepted: list[int] = []

        def write(folder: Path = folder, accepted: list[int] = accepted) -> None:
            store = FileStore(folder)
            accepted += [number for number in range(1, 30) if store.write(_checkpoint(number))]

        writer = threading.Thread(target=write)
        writer.start()
        seen = FileStore(folder).fence("count-0", 2)
        writer.join()
        assert (0 if seen is None else seen.id.number) == max(accepted, default=0)


def test_of_incarnations_that_fence_at_once_the_latest_wins(tmp_path: Path) -> None:
    for attempt in range(20):
        folder = tmp_path / str(attempt)

        def fence(incarnation: int, folder: Path = folder) -> None:
            with suppress(FencedOff):
                FileStore(folder).fence("count-0", incarnation)

        threads = [threading.Thread(target=fence, args=(incarnation,)) for incarnation in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [FileStore(folder).write(_checkpoint(1, incarnation=i)) for i in (1, 2, 3)] == [False, False, True]


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.fence("count-0", 1)
    store.write(_checkpoint(1))
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(b"\x00")
    with pytest.raises(DamagedHistory, match=r"checkpoint .*count-0.* cannot be read"):
        store.fence("count-0", 2)


def test_a_folder_that_cannot_be_written_is_a_storage_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="cannot make the checkpoint folder"):
        FileStore(tmp_path / "file" / "checkpoints")


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, StorageRefused),
        (errno.EROFS, StorageRefused),
        (errno.EACCES, StorageRefused),
        (errno.EIO, StorageRefused),
        (errno.ENAMETOOLONG, StorageFailed),
    ],
)
def test_what_a_disk_may_take_later_is_told_from_what_it_never_will(
    number: int, error: type[StorageFailed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(number, "no")

    store = FileStore(tmp_path)
    store.fence("count-0", 1)
    store.write(_checkpoint(1))
    with monkeypatch.context() as disk:
        disk.setattr("streamproof.harness.protocol.stores.os.fsync", fail)
        with pytest.raises(StorageFailed, match="cannot write checkpoint 2 of count-0") as caught:
            store.write(_checkpoint(2))
    assert type(caught.value) is error
    assert store.fence("count-0", 2) == _checkpoint(1)


def test_a_store_that_is_lost_in_the_middle_of_a_write_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path)
    store.fence("count-0", 1)
    store.write(_checkpoint(1))
    fenced = FileStore._fenced
    losses = iter([True])

    def lost(self: FileStore, slice_id: str) -> int:
        answer = fenced(self, slice_id)
        if next(losses, False):
            for path in tmp_path.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return answer

    monkeypatch.setattr(FileStore, "_fenced", lost)
    assert store.write(_checkpoint(2))
    assert store.fence("count-0", 2) == _checkpoint(2)


def test_those_beside_one_another_stay_until_they_are_dropped(store: CheckpointStore) -> None:
    store.fence("count-0", 1)
    for number in (1, 2, 3):
        store.write(Checkpoint("count-0", CheckpointId(1, number), {STATE: bytes([number])}, beside=True))
    found = store.fence("count-0", 2)
    assert found is not None
    assert found.id.number == 3
    assert [_number(store, upto) for upto in (0, 1, 2, 9)] == [None, 1, 2, 3]
    store.write(Checkpoint("count-0", CheckpointId(2, 2), {STATE: b"again"}, beside=True))
    assert _number(store, 3) == 3
    second = store.version("count-0", 2)
    assert second is not None
    assert second.id == CheckpointId(2, 2)
    store.drop("count-0", 1, below=3)
    assert _number(store, 1) == 1, "one that was fenced off drops nothing"
    store.drop("count-0", 2, below=2)
    assert [_number(store, upto) for upto in (1, 2, 3)] == [None, 2, 3]


def test_of_one_that_stands_alone_there_is_the_newest_version_only(store: CheckpointStore) -> None:
    store.fence("count-0", 1)
    for number in (1, 2):
        store.write(Checkpoint("count-0", CheckpointId(1, number), {STATE: b""}))
    assert [_number(store, upto) for upto in (1, 2)] == [None, 2]
    assert store.version("never-seen", 5) is None


def _number(store: CheckpointStore, upto: int) -> int | None:
    found = store.version("count-0", upto)
    return None if found is None else found.id.number


def _items(last: int, number: int, incarnation: int = 1) -> Items:
    return Items("count-0", CheckpointId(incarnation, number), last, [last, b"item"])


def _after_fencing(store: CheckpointStore, incarnation: int) -> list[Items]:
    store.fence("count-0", incarnation)
    return store.items("count-0")


def test_items_are_kept_beside_a_checkpoint_until_one_covers_them(store: CheckpointStore) -> None:
    store.fence("count-0", 1)
    assert all(store.append(_items(last, number)) for last, number in ((12, 2), (4, 1), (9, 3)))
    assert [one.last for one in store.items("count-0")] == [4, 9, 12]
    assert store.write(msgspec.structs.replace(_checkpoint(4), covers=9))
    checkpoint, kept = store.fence("count-0", 2), store.items("count-0")
    assert checkpoint is not None
    assert (checkpoint.covers, kept) == (9, [_items(12, 2)])
    assert store.items("count-1") == []


def test_items_of_a_replaced_incarnation_are_refused(store: CheckpointStore) -> None:
    store.fence("count-0", 1)
    assert store.append(_items(4, 1))
    store.fence("count-0", 2)
    assert not store.append(_items(9, 2))
    assert store.append(_items(9, 2, incarnation=2))
    assert [one.id.incarnation for one in _after_fencing(store, 3)] == [1, 2]


def test_items_that_were_captured_come_back(store: CheckpointStore) -> None:
    store.fence("count-0", 1)
    assert store.append(_items(4, 1))
    captured = store.capture()
    assert store.append(_items(9, 2))
    store.restore(captured)
    assert _after_fencing(store, 2) == [_items(4, 1)]
