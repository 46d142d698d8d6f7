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
from typing import Final, Protocol

import msgspec

from ..core.errors import DamagedHistory, StorageFailed, StorageRefused
from .mechanism import NO_LIMIT
from .messages import Checkpoint, Items


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

    def append(self, items: Items) -> bool:
        """Make items durable, in one step, beside the newest checkpoint. False, and raises, as `write`."""

    def items(self, slice_id: str) -> list[Items]:
        """Those that no checkpoint covers, in the order of their numbers; for the one that has fenced the slice.

        Raises StorageRefused when the disk does not give them.
        """


STORE_METHODS: Final = (
    *("quiesce", "capture", "restore"),
    *("fence", "version", "drop", "write", "append", "items"),
)
"""What whoever is given a store calls."""


def put(store: CheckpointStore, what: Checkpoint | Items) -> bool:
    """Make either durable. False, and raises, as `CheckpointStore.write`."""
    return store.append(what) if isinstance(what, Items) else store.write(what)


class MemoryStore:
    """The simulator's disk: a dictionary that no simulated crash touches."""

    def __init__(self) -> None:
        self._versions: dict[str, tuple[Checkpoint, ...]] = {}
        """By number."""
        self._fences: dict[str, int] = {}
        self._items: dict[str, tuple[Items, ...]] = {}

    def quiesce(self) -> None:
        """Nothing is ever under way: a simulated write happens in one step."""

    def capture(self) -> tuple[dict[str, tuple[Checkpoint, ...]], dict[str, int], dict[str, tuple[Items, ...]]]:
        return dict(self._versions), dict(self._fences), dict(self._items)

    def restore(self, captured: object) -> None:
        assert isinstance(captured, tuple)
        versions, fences, items = captured
        self._versions, self._fences, self._items = dict(versions), dict(fences), dict(items)

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
        versions: tuple[Checkpoint, ...] = (checkpoint,)
        if checkpoint.beside:
            number = checkpoint.id.number
            others = [one for one in self._versions.get(checkpoint.slice, ()) if one.id.number != number]
            versions = tuple(sorted((*others, checkpoint), key=lambda one: one.id.number))
        self._versions[checkpoint.slice] = versions
        kept = self._items.get(checkpoint.slice)
        if kept:
            self._items[checkpoint.slice] = tuple(one for one in kept if one.last > checkpoint.covers)
        return True

    def append(self, items: Items) -> bool:
        if items.id.incarnation < self._fences.get(items.slice, 0):
            return False
        self._items[items.slice] = tuple(sorted((*self._items.get(items.slice, ()), items), key=_place))
        return True

    def items(self, slice_id: str) -> list[Items]:
        return list(self._items.get(slice_id, ()))


def _place(items: Items) -> tuple[int, int, int]:
    return items.last, items.id.incarnation, items.id.number


class FileStore:
    """Checkpoints as files under a folder that every node can reach.

    The fence of a slice is the name of the folder that its checkpoint lies in: whoever fences it renames that folder,
    and a replaced writer, which still has the old name, can put nothing there any more. Every step is one rename, so
    nobody ever waits for anybody, also not for a process that is stopped half-way.
    """

    _encoder = msgspec.msgpack.Encoder()
    _decoder = msgspec.msgpack.Decoder(Checkpoint)
    _items_decoder = msgspec.msgpack.Decoder(Items)

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

    def above(self, slice_id: str, number: int) -> list[Checkpoint]:
        """The checkpoints of a slice that stand beside one another, with a number above this, in their order. It fences
        nobody. Raises StorageFailed and DamagedHistory."""
        try:
            while True:
                fenced = self._fenced(slice_id)
                folder = self._folder / slice_id / str(fenced)
                numbers = sorted(one for one in _numbers(folder) if one > number)
                try:
                    found = [self._decoder.decode((folder / str(one)).read_bytes()) for one in numbers]
                except FileNotFoundError:
                    continue  # It has been fenced meanwhile.
                if self._fenced(slice_id) == fenced:
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
            folder = self._put(draft, checkpoint, name)
            if folder is None:
                return False
            if checkpoint.covers:
                self._drop(folder, checkpoint.covers)
            return True
        except OSError as error:
            what = f"cannot write checkpoint {checkpoint.id.number} of {slice_id} to {self._folder}"
            raise _failed(what, error) from error

    def append(self, items: Items) -> bool:
        slice_id, id_ = items.slice, items.id
        draft = self._folder / f".{slice_id}.{id_.incarnation}.{id_.number}.draft"
        try:
            name = f"{_ITEMS}{items.last}.{id_.incarnation}.{id_.number}"
            return self._put(draft, items, name) is not None
        except OSError as error:
            raise _failed(f"cannot write items {id_.number} of {slice_id} to {self._folder}", error) from error

    def items(self, slice_id: str) -> list[Items]:
        fenced = self._fenced(slice_id)
        folder = self._folder / slice_id / str(fenced)
        try:
            paths = [path for path in folder.iterdir() if _last_of(path) > 0]
            if not paths:
                return []
            newest = self._find(slice_id, fenced, NO_LIMIT)
            covered = 0 if newest is None else newest.covers
            kept = (path.read_bytes() for path in paths if _last_of(path) > covered)
            return sorted(map(self._items_decoder.decode, kept), key=_place)
        except OSError as error:
            raise _failed(f"cannot read the items of {slice_id} in {folder}", error) from error
        except msgspec.MsgspecError as error:
            raise DamagedHistory(f"items in {folder} cannot be read: {error}") from error

    def _put(self, draft: Path, what: Checkpoint | Items, name: str) -> Path | None:
        """Put a file beside the newest checkpoint of a slice, in one rename. Returns the folder that it lies in; None
        where its writer has been fenced off."""
        slice_id, incarnation = what.slice, what.id.incarnation
        self._draft(draft, what)
        while True:
            fenced = self._fenced(slice_id)
            if fenced > incarnation:
                draft.unlink(missing_ok=True)
                return None
            folder = self._folder / slice_id / str(fenced)
            try:
                draft.replace(folder / name)
            except FileNotFoundError:
                # It has been fenced meanwhile, or all that was in the store is lost, the draft too.
                if not draft.exists():
                    self._draft(draft, what)
                continue
            return folder

    def _drop(self, folder: Path, covered: int) -> None:
        """Whoever does not come to it leaves items that nobody reads any more, and the next one drops them."""
        try:
            for path in list(folder.iterdir()):
                if 0 < _last_of(path) <= covered:
                    path.unlink(missing_ok=True)
        except FileNotFoundError:
            return  # It has been fenced meanwhile.

    def _draft(self, draft: Path, what: Checkpoint | Items) -> None:
        with draft.open("wb") as file:
            file.write(self._encoder.encode(what))
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
_ITEMS = "items."


def _numbers(folder: Path) -> list[int]:
    """Of the checkpoints that stand beside one another there."""
    try:
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]
    except FileNotFoundError:
        return []


def _last_of(path: Path) -> int:
    """The highest number of the items in a file; 0 for what has none."""
    return int(path.name.removeprefix(_ITEMS).partition(".")[0]) if path.name.startswith(_ITEMS) else 0
