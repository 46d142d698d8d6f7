"""Storage that outlives a node.

Every durable store has one small contract, simulated or real: it can be brought to rest, captured and restored, and it
refuses writers that have been replaced.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol

import msgspec

from .errors import DamagedHistory, StorageFailed
from .slices.messages import Checkpoint


class DurableStore(Protocol):
    """What can be said of any store whose content survives a crash."""

    def quiesce(self) -> None:
        """Return when no write is under way."""

    def capture(self) -> object:
        """What is durable now, independent of later writes."""

    def restore(self, captured: object) -> None:
        """Make exactly that durable again."""


class CheckpointStore(DurableStore, Protocol):
    """Where slices' checkpoints go. Only the newest of each slice is kept."""

    def fence(self, slice_id: str, incarnation: int) -> Checkpoint | None:
        """From now on only `incarnation` or a later one may write for the slice. Returns its newest checkpoint."""

    def write(self, checkpoint: Checkpoint) -> bool:
        """Make a checkpoint durable, in one step, in place of the one before. False: the writer has been fenced off."""


class MemoryStore:
    """The simulator's disk: a dictionary that no simulated crash touches."""

    def __init__(self) -> None:
        self._newest: dict[str, Checkpoint] = {}
        self._fences: dict[str, int] = {}

    def quiesce(self) -> None:
        """Nothing is ever under way: a simulated write happens in one step."""

    def capture(self) -> tuple[dict[str, Checkpoint], dict[str, int]]:
        return dict(self._newest), dict(self._fences)

    def restore(self, captured: object) -> None:
        assert isinstance(captured, tuple)
        newest, fences = captured
        self._newest, self._fences = dict(newest), dict(fences)

    def fence(self, slice_id: str, incarnation: int) -> Checkpoint | None:
        self._fences[slice_id] = max(incarnation, self._fences.get(slice_id, 0))
        return self._newest.get(slice_id)

    def write(self, checkpoint: Checkpoint) -> bool:
        if checkpoint.id.incarnation < self._fences.get(checkpoint.slice, 0):
            return False
        self._newest[checkpoint.slice] = checkpoint
        return True


class FileStore:
    """Checkpoints as files under a folder that every node can reach.

    A checkpoint becomes durable when its file takes its final name. The fence is a file of its own beside it, held
    while it is checked and while the rename happens, so that a replaced writer cannot slip in between.
    """

    _encoder = msgspec.msgpack.Encoder()
    _decoder = msgspec.msgpack.Decoder(Checkpoint)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageFailed(f"cannot make the checkpoint folder {folder}: {error.strerror}") from error

    def quiesce(self) -> None:
        """Writes happen in one step, in their writer."""

    def capture(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self._folder.iterdir())}

    def restore(self, captured: object) -> None:
        assert isinstance(captured, dict)
        for path in self._folder.iterdir():
            if path.name not in captured:
                path.unlink()
        for name, content in captured.items():
            (self._folder / name).write_bytes(content)

    def fence(self, slice_id: str, incarnation: int) -> Checkpoint | None:
        path = self._folder / f"{slice_id}.checkpoint"
        try:
            with _Locked(self._folder / f"{slice_id}.fence") as fence:
                fence.value = max(incarnation, fence.value)
            if not path.exists():
                return None
            return self._decoder.decode(path.read_bytes())
        except OSError as error:
            raise StorageFailed(f"cannot fence {slice_id}, or read {path}: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise DamagedHistory(f"checkpoint {path} cannot be read: {error}") from error

    def write(self, checkpoint: Checkpoint) -> bool:
        path = self._folder / f"{checkpoint.slice}.checkpoint"
        draft = self._folder / f"{checkpoint.slice}.{checkpoint.id.incarnation}.draft"
        try:
            with draft.open("wb") as file:
                file.write(self._encoder.encode(checkpoint))
                file.flush()
                os.fsync(file.fileno())
            with _Locked(self._folder / f"{checkpoint.slice}.fence") as fence:
                if checkpoint.id.incarnation < fence.value:
                    draft.unlink()
                    return False
                draft.replace(path)
        except OSError as error:
            raise StorageFailed(
                f"cannot write checkpoint {checkpoint.id.number} of {checkpoint.slice} to {path}: {error.strerror}"
            ) from error
        return True


class _Locked:
    """A number in a file, locked against other processes while it is held. The lock goes when its holder dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.value = 0

    def __enter__(self) -> _Locked:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self.value = int(os.read(self._file, 32) or b"0")
        except BaseException:
            os.close(self._file)
            raise
        self._before = self.value
        return self

    def __exit__(self, *_: object) -> None:
        # Whatever fails, the lock goes: the next incarnation of the slice waits for it.
        try:
            if self.value != self._before:
                os.pwrite(self._file, str(self.value).encode(), 0)
        finally:
            os.close(self._file)
