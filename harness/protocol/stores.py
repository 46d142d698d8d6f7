"""Storage that outlives a node.

Every durable store has one small contract, simulated or real: it can be brought to rest, captured and restored, and it
refuses writers that have been replaced.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Protocol

import msgspec

from ..core.errors import DamagedHistory, StorageFailed, StorageRefused
from .mechanism import NO_LIMIT
from .messages import Checkpoint


class FencedOff(Exception):
    """A later incarnation of the slice has been started: this one must not go on. No error, but how fencing works."""


class DurableStore(Protocol):
    """What can be said of any store whose content survives a crash."""

    def quiesce(self) -> None:
        """Return when no write is under way."""

    def capture(self) -> object:
        """What is durable now, independent of later writes."""

    def restore(self, captured: object) -> None:
        """Make exactly that durable again."""


class CheckpointStore(DurableStore, Protocol):
    """Where slices' checkpoints go. Only the newest of each slice is kept, and what is to stand beside it."""

    def fence(self, slice_id: str, incarnation: int) -> Checkpoint | None:
        """From now on only `incarnation` or a later one may write for the slice. Returns its newest checkpoint.

        Raises FencedOff when a later one has said so before, StorageRefused when the disk does not take it.
        """

    def version(self, slice_id: str, upto: int) -> Checkpoint | None:
        """The newest checkpoint of a slice whose number is not above this; of those that stand beside one another, or
        the only one. It fences nobody: who starts from it has fenced the slice before.

        Raises StorageRefused when the disk does not give it.
        """

    def drop(self, slice_id: str, incarnation: int, below: int) -> None:
        """Let go of those with a number below this, of those that stand beside one another. Nothing, where
        `incarnation` has been fenced off. Raises StorageRefused when the disk does not take it."""

    def write(self, checkpoint: Checkpoint) -> bool:
        """Make a checkpoint durable, in one step, in place of those before, or `beside` them, where another with its
        number is replaced; those of one slice are all of one kind. False: the writer has been fenced off.

        Raises StorageRefused when the disk does not take it: the one before is still there.
        """


class MemoryStore:
    """The simulator's disk: a dictionary that no simulated crash touches."""

    def __init__(self) -> None:
        self._versions: dict[str, tuple[Checkpoint, ...]] = {}
        """By number."""
        self._fences: dict[str, int] = {}

    def quiesce(self) -> None:
        """Nothing is ever under way: a simulated write happens in one step."""

    def capture(self) -> tuple[dict[str, tuple[Checkpoint, ...]], dict[str, int]]:
        return dict(self._versions), dict(self._fences)

    def restore(self, captured: object) -> None:
        assert isinstance(captured, tuple)
        versions, fences = captured
        self._versions, self._fences = dict(versions), dict(fences)

    def fence(self, slice_id: str, incarnation: int) -> Checkpoint | None:
        if incarnation < self._fences.get(slice_id, 0):
            raise FencedOff(f"{slice_id}#{incarnation}")
        self._fences[slice_id] = incarnation
        return self.version(slice_id, NO_LIMIT)

    def version(self, slice_id: str, upto: int) -> Checkpoint | None:
        versions = self._versions.get(slice_id, ())
        return next((one for one in reversed(versions) if one.id.number <= upto), None)

    def drop(self, slice_id: str, incarnation: int, below: int) -> None:
        if incarnation >= self._fences.get(slice_id, 0):
            versions = self._versions.get(slice_id, ())
            self._versions[slice_id] = tuple(one for one in versions if one.id.number >= below)

    def write(self, checkpoint: Checkpoint) -> bool:
        if checkpoint.id.incarnation < self._fences.get(checkpoint.slice, 0):
            return False
        others: tuple[Checkpoint, ...] = ()
        if checkpoint.beside:
            others = tuple(
                one for one in self._versions.get(checkpoint.slice, ()) if one.id.number != checkpoint.id.number
            )
        self._versions[checkpoint.slice] = tuple(sorted((*others, checkpoint), key=lambda one: one.id.number))
        return True


class FileStore:
    """Checkpoints as files under a folder that every node can reach.

    The fence of a slice is the name of the folder that its checkpoint lies in: whoever fences it renames that folder,
    and a replaced writer, which still has the old name, can put nothing there any more. Every step is one rename, so
    nobody ever waits for anybody, also not for a process that is stopped half-way.
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

    def capture(self) -> dict[str, bytes | None]:
        """Relative path -> content; None: a folder."""
        return {
            str(path.relative_to(self._folder)): None if path.is_dir() else path.read_bytes()
            for path in sorted(self._folder.rglob("*"))
        }

    def restore(self, captured: object) -> None:
        assert isinstance(captured, dict)
        for path in self._folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, content in captured.items():
            if content is None:
                (self._folder / name).mkdir()
            else:
                (self._folder / name).write_bytes(content)

    def fence(self, slice_id: str, incarnation: int) -> Checkpoint | None:
        path = self._folder / slice_id
        try:
            while True:
                fenced = self._fenced(slice_id)
                if fenced > incarnation:
                    raise FencedOff(f"{slice_id}#{incarnation}")
                try:
                    (path / str(fenced)).rename(path / str(incarnation))
                except FileNotFoundError:
                    continue  # Another one has fenced it meanwhile.
                found = self._find(slice_id, incarnation, NO_LIMIT)
                # There is none yet, unless another one has fenced it meanwhile.
                if found is None and self._fenced(slice_id) != incarnation:
                    raise FencedOff(f"{slice_id}#{incarnation}")
                return found
        except OSError as error:
            raise _failed(f"cannot fence {slice_id}, or read {path}", error) from error
        except msgspec.MsgspecError as error:
            raise DamagedHistory(f"checkpoint {path} cannot be read: {error}") from error

    def version(self, slice_id: str, upto: int) -> Checkpoint | None:
        try:
            while True:
                fenced = self._fenced(slice_id)
                found = self._find(slice_id, fenced, upto)
                # What is not there may have gone with the folder's name.
                if found is not None or self._fenced(slice_id) == fenced:
                    return found
        except OSError as error:
            raise _failed(f"cannot read the checkpoints of {slice_id} in {self._folder}", error) from error
        except msgspec.MsgspecError as error:
            raise DamagedHistory(f"a checkpoint of {slice_id} in {self._folder} cannot be read: {error}") from error

    def drop(self, slice_id: str, incarnation: int, below: int) -> None:
        folder = self._folder / slice_id / str(incarnation)
        try:
            for number in _numbers(folder):
                if number < below:
                    (folder / str(number)).unlink(missing_ok=True)
        except OSError as error:
            raise _failed(f"cannot drop checkpoints of {slice_id} below {below}", error) from error

    def _find(self, slice_id: str, fenced: int, upto: int) -> Checkpoint | None:
        """The newest up to a number, in the folder that has this fence for a name; None also where it has it no
        more."""
        folder = self._folder / slice_id / str(fenced)
        names = [str(number) for number in sorted(_numbers(folder), reverse=True) if number <= upto]
        for name in (*names, _CHECKPOINT):
            try:
                found = self._decoder.decode((folder / name).read_bytes())
            except FileNotFoundError:
                continue
            return found if found.id.number <= upto else None
        return None

    def write(self, checkpoint: Checkpoint) -> bool:
        slice_id, incarnation = checkpoint.slice, checkpoint.id.incarnation
        draft = self._folder / f".{slice_id}.{incarnation}.draft"
        name = str(checkpoint.id.number) if checkpoint.beside else _CHECKPOINT
        try:
            self._draft(draft, checkpoint)
            while True:
                fenced = self._fenced(slice_id)
                if fenced > incarnation:
                    draft.unlink(missing_ok=True)
                    return False
                try:
                    draft.replace(self._folder / slice_id / str(fenced) / name)
                except FileNotFoundError:
                    # It has been fenced meanwhile, or all that was in the store is lost, the draft too.
                    if not draft.exists():
                        self._draft(draft, checkpoint)
                    continue
                return True
        except OSError as error:
            what = f"cannot write checkpoint {checkpoint.id.number} of {slice_id} to {self._folder}"
            raise _failed(what, error) from error

    def _draft(self, draft: Path, checkpoint: Checkpoint) -> None:
        with draft.open("wb") as file:
            file.write(self._encoder.encode(checkpoint))
            file.flush()
            os.fsync(file.fileno())

    def _fenced(self, slice_id: str) -> int:
        """The oldest incarnation that may write for the slice."""
        folder = self._folder / slice_id
        while True:
            try:
                names = os.listdir(folder)
            except FileNotFoundError:
                self._make(folder)
                continue
            if len(names) == 1:
                return int(names[0])
            # Listed in the middle of a rename.

    def _make(self, folder: Path) -> None:
        """The folder of a slice, fenced by nobody. Only one of several who try succeeds."""
        draft = Path(tempfile.mkdtemp(dir=self._folder, prefix="."))
        try:
            (draft / "0").mkdir()
            draft.rename(folder)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not folder.exists():
                raise


_REFUSALS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})


def _failed(what: str, error: OSError) -> StorageFailed:
    kind = StorageRefused if error.errno in _REFUSALS else StorageFailed
    return kind(f"{what}: {error.strerror}")


_CHECKPOINT = "newest"
"""The file of one that stands alone; of those beside one another each has its number for a name."""


def _numbers(folder: Path) -> list[int]:
    """Of the checkpoints that stand beside one another there."""
    try:
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]
    except FileNotFoundError:
        return []
