"""Crash states: what is durable in a run's folders at one moment, kept so that it can be put back at its path.

Contents are kept once each, by their hash: most files of a checkpoint never change. Two states that hold the same are
equal, and a recovery from one is a recovery from the other.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from ..core.errors import OwnFailure, StorageFailed
from ..core.guarantees import PowerLoss
from ..core.waiting import wait_until
from ..core.wire import Endpoint
from ..crash_points.files.operations import database_beside
from ..crash_points.files.trees import attributes_of, mark, owner_of, remove_folder
from ..recording.history import Lost

QUIET_SECONDS = 5.0
"""How long files may go on changing while everybody is held."""


class StateEntry(msgspec.Struct, frozen=True, order=True):
    """A file, folder, link, named pipe or socket of a crash state."""

    path: str
    """Absolute: Spark's logs hold such paths."""
    content: str | None
    """Its hash; None: it is no file."""
    changed: int = 0
    """Of a file, when it was, ns since 1970: a source of files goes by that, and who marks a file by touching it. Of a
    folder whose operations are journalled, the time that somebody has set since its names last changed; 0: none."""
    link: str | None = None
    """Of a link, where it leads: who publishes by turning one has turned it or not."""
    size: int = 0
    """Of a file whose operations are journalled, bytes."""
    mode: int | None = None
    """Its permission bits, and of a pipe or a socket what it is; None: those that a new file gets."""
    attributes: tuple[tuple[str, bytes], ...] = ()
    """Its extended attributes; of a file whose operations are journalled, `content` tells."""
    rolled_back: str = ""
    """Of a SQLite database in the middle of a transaction, and of what lies beside it, what SQLite takes that back to
    (`sqlite_rollback`); empty of any other file, and where that is not known."""
    owner: tuple[int, int] | None = None
    """The numbers of its user and its group; None: those that a new file gets."""
    names: int = 1
    """Of a file whose operations are journalled, how many it has, which it says itself (`st_nlink`)."""
    touched: int = 0
    """Of a file whose operations are journalled, when it or what is known of it was changed (`st_ctime`)."""
    accessed: int | None = None
    """Of a file or folder whose operations are journalled, when it was last looked at, as somebody has said: who marks
    a file so leaves its content and its time of change alone. What reading it makes of that is not followed."""
    same_as: str = ""
    """Of a file that was copied and has several names, the path of the first, where this is another one."""


class CrashState(msgspec.Struct, frozen=True, dict=True):
    """What is durable at a crash point. It is asked for what follows from its files again and again."""

    files: tuple[StateEntry, ...]
    journalled: tuple[int, int] | None = None
    """Of one that is made from a journal, which attempt's, and where in it."""
    lost: Lost | None = None
    """Of one in which power was lost."""
    which: int = 0
    """Of what that can leave."""
    power: PowerLoss | None = None
    """On which terms."""

    @cached_property
    def digest(self) -> str:
        """Of paths, contents, when files were changed, whose they are, who may do what with them, and which are one."""
        told = [
            (one.path, one.content, one.link, one.changed, one.mode, one.attributes, one.owner, one.names, one.touched)
            + (() if one.accessed is None else (one.accessed,))
            + ((one.same_as,) if one.same_as else ())
            for one in self.files
        ]
        return hashlib.sha256(msgspec.json.encode(told)).hexdigest()

    @cached_property
    def shown(self) -> frozenset[tuple[str, str | None, str | None]]:
        """Its paths and contents, without those that are passed over by whoever lists them."""
        kept = (one for one in self.files if not _PASSED_OVER.fullmatch(os.path.basename(one.path)))
        return frozenset((one.path, one.content, one.link) for one in kept)

    @cached_property
    def entries(self) -> Mapping[str, StateEntry]:
        """By their paths."""
        return {entry.path: entry for entry in self.files}

    @cached_property
    def names(self) -> Mapping[str, Sequence[str]]:
        """The paths that lie in a folder, by that."""
        found: dict[str, list[str]] = {}
        for path in self.entries:
            found.setdefault(os.path.dirname(path), []).append(path)
        return found


@dataclass(frozen=True)
class Looks:
    """What a recovery has looked at, by absolute paths. Whoever finds all of that alike, does alike."""

    opened: frozenset[str]
    """Whose content."""
    asked: frozenset[str]
    """Whether they are there, what they are, how large, and when they were changed."""
    listed: frozenset[str]
    """Which names they hold."""
    skimmed: frozenset[str] = frozenset()
    """The same, of who passes over what is temporary."""
    opened_by_sqlite: frozenset[str] = frozenset()
    """Whose content, once it has taken back what was half done."""

    @cached_property
    def without_sqlite(self) -> Looks:
        """The same, as if anybody might see what SQLite takes back."""
        return replace(self, opened=self.opened | self.opened_by_sqlite, opened_by_sqlite=frozenset())

    def tell_apart(self, one: CrashState, other: CrashState) -> bool:
        """Whether who looks at just that can know one state from the other.

        A name in a folder that is skimmed, and then not looked at, tells nothing where it is one that Spark and Hadoop
        give to what is temporary (`.x.<uuid>.tmp`, `.x.crc`): its logs and file sources pass over them. Any other
        hidden one does: somebody may keep a marker there, or take up what an attempt before has left, and look for it
        in the list.

        Of a database in the middle of a transaction, and of its journal or its log, SQLite tells nothing but what there
        was before: it asks how large they are, and takes back what is there. Where it has not opened both, or anybody
        else one of them, their contents count.
        """
        here, there = one.entries, other.entries
        back = self._by_sqlite_alone
        for path in self.opened | self.opened_by_sqlite:
            content = _taken_back if path in back else _content
            if content(here.get(path)) != content(there.get(path)):
                return True
        for path in self.asked:
            kind = _kind_taken_back if path in back else _kind
            if kind(here.get(path)) != kind(there.get(path)):
                return True
        if any(set(one.names.get(path, ())) != set(other.names.get(path, ())) for path in self.listed):
            return True
        return any(self._skimmed(one, path) != self._skimmed(other, path) for path in self.skimmed)

    @cached_property
    def _by_sqlite_alone(self) -> frozenset[str]:
        """Databases and what lies beside them that SQLite alone has opened."""
        alone = self.opened_by_sqlite - self.opened
        beside = {path for path in alone if database_beside(path) in alone}
        return frozenset(beside | set(map(database_beside, beside)))

    def _skimmed(self, state: CrashState, folder: str) -> set[str]:
        return {
            path
            for path in state.names.get(folder, ())
            if not _PASSED_OVER.fullmatch(os.path.basename(path)) or path in self.asked or path in self.opened
        }


_UUID: Final = "-".join(f"[0-9a-f]{{{length}}}" for length in (8, 4, 4, 4, 12))
_DRAFT: Final = rf"\..*\.{_UUID}(\.TID\d+)?\.tmp"
_PASSED_OVER: Final = re.compile(rf"\..*\.crc|{_DRAFT}|\.spark-staging-.*")
DRAFT: Final = re.compile(rf"{_DRAFT}(\.crc)?")
"""How Spark calls a file until all of it is written, and Hadoop its checksums."""


def _content(entry: StateEntry | None) -> object:
    return entry and (entry.content, entry.link, entry.attributes)


def _kind(entry: StateEntry | None) -> object:
    if entry is None:
        return None
    times = entry.changed, entry.touched, entry.accessed
    return entry.content is None, entry.link, entry.size, entry.mode, times, entry.owner, entry.names


def _taken_back(entry: StateEntry | None) -> object:
    return entry.rolled_back if entry is not None and entry.rolled_back else _content(entry)


def _kind_taken_back(entry: StateEntry | None) -> object:
    if entry is None or not entry.rolled_back:
        return _kind(entry)
    return entry.rolled_back, entry.link, entry.mode, entry.owner, entry.names


class NotQuiet(OwnFailure):
    """Somebody wrote to a store while its crash state was taken."""


class RecoveryWorkerStore(Protocol):
    """What is durable of a recovery worker's attempts, and can be put back."""

    def begin(self, watched: Endpoint | None, incarnation: int) -> None:
        """An attempt begins, on what is there; `watched` is where its points are told, None where they are not."""

    def mark(self) -> object:
        """While a point is held: what it takes to know its state. Raises NotQuiet."""

    def count(self, mark: object) -> int:
        """How many file operations are crash points, up to a mark."""

    def states(self, marks: Sequence[object]) -> Sequence[CrashState]:
        """When the watched attempt is over: what was durable at its marks."""

    def since(self, begin: CrashState, states: Sequence[CrashState]) -> Sequence[CrashState]:
        """Of states of an attempt that was watched, in order, the same with what has become of each file since it had
        left the first of them, as far as that is known, in the place of its content."""

    def looks(self) -> Looks | None:
        """What the attempt has looked at; None: nobody knows."""

    def losses(self, state: CrashState, power: PowerLoss) -> Sequence[CrashState]:
        """What can be left of it where the power fails, the one in which nothing is lost first; none: nobody knows."""

    def restore(self, state: CrashState) -> None: ...

    def clear(self) -> None:
        """As before the first run."""


class CopiedFolders:
    """The durable store of a run whose every effect lies in folders, as `DurableStore` has it."""

    def __init__(self, folders: Sequence[Path], contents: Path) -> None:
        """`contents` is a folder of its own for what is kept."""
        self._folders = tuple(folders)
        self._contents = contents
        try:
            contents.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageFailed(f"cannot make {contents}: {error.strerror or error}") from error

    def begin(self, watched: Endpoint | None, incarnation: int) -> None:
        """What is durable is copied while a point is held: nothing is to be prepared."""

    def mark(self) -> CrashState:
        return self.capture()

    def count(self, mark: object) -> int:
        return 0

    def states(self, marks: Sequence[object]) -> list[CrashState]:
        return [mark for mark in marks if isinstance(mark, CrashState)]

    def since(self, begin: CrashState, states: Sequence[CrashState]) -> list[CrashState]:
        """Nobody knows what was done to a file that is another one now."""
        return unchanged_since(begin, states)

    def looks(self) -> None:
        return None

    def losses(self, state: CrashState, power: PowerLoss) -> list[CrashState]:
        return []

    def quiesce(self) -> None:
        """Return when the folders look the same twice in a row. Raises DeadlinePassed."""
        before = self._look()

        def quiet() -> bool:
            nonlocal before
            now = self._look()
            settled, before = now == before, now
            return settled

        wait_until(quiet, QUIET_SECONDS, f"{', '.join(map(str, self._folders))} to be left alone", every=0.005)

    def capture(self) -> CrashState:
        """Raises NotQuiet where something changed meanwhile: then it is no state that any crash leaves."""
        before = self._look()
        first: dict[int, str] = {}
        try:
            files = tuple(self._keep(seen, first.setdefault(seen.inode, seen.path)) for seen in before)
        except FileNotFoundError as error:
            raise NotQuiet(f"{error.filename} went away while its crash state was taken") from error
        except OSError as error:
            raise StorageFailed(f"cannot copy {error.filename}: {error.strerror or error}") from error
        if self._look() != before:
            raise NotQuiet(f"{', '.join(map(str, self._folders))} changed while their crash state was taken")
        return CrashState(files)

    def restore(self, captured: object) -> None:
        assert isinstance(captured, CrashState)
        try:
            self.clear()
            for kept in captured.files:
                self._put_back(Path(kept.path), kept)
            # Once each holds what it holds, which may be forbidden from then on.
            for kept in reversed(captured.files):
                if _is_folder(kept):
                    mark(Path(kept.path), dict(kept.attributes), kept.owner, kept.mode)
        except OSError as error:
            raise StorageFailed(f"cannot put {error.filename} back: {error.strerror or error}") from error

    def _put_back(self, path: Path, kept: StateEntry) -> None:
        if kept.link is not None:
            path.symlink_to(kept.link)
        elif kept.same_as:
            path.hardlink_to(kept.same_as)
        elif _is_folder(kept):
            path.mkdir(parents=True, exist_ok=True)
        elif kept.content is None:
            assert kept.mode is not None
            os.mknod(path, kept.mode)
        else:
            shutil.copyfile(self._contents / kept.content, path)
            mark(path, dict(kept.attributes), kept.owner, kept.mode)
            os.utime(path, ns=(kept.changed, kept.changed))

    def clear(self) -> None:
        """As before the first run. Raises StorageFailed."""
        try:
            for folder in self._folders:
                if folder.exists():
                    remove_folder(folder)
        except OSError as error:
            raise StorageFailed(f"cannot clear {error.filename}: {error.strerror or error}") from error

    def _keep(self, seen: _Seen, first: str) -> StateEntry:
        """`first` is the first name of what it is."""
        path = Path(seen.path)
        if path.is_symlink():
            return StateEntry(str(path), None, link=os.readlink(path))
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode):
            return StateEntry(str(path), None, mode=about.st_mode)
        owner = None if owner_of(about) == (os.geteuid(), os.getegid()) else owner_of(about)
        held = StateEntry(
            str(path),
            None,
            mode=stat.S_IMODE(about.st_mode),
            attributes=tuple(sorted(attributes_of(path).items())),
            owner=owner,
        )
        if stat.S_ISDIR(about.st_mode):
            return held
        content = path.read_bytes()
        name = hashlib.sha256(content).hexdigest()
        if not (self._contents / name).exists():
            (self._contents / name).write_bytes(content)
        another = "" if first == seen.path else first
        return msgspec.structs.replace(held, content=name, changed=seen.changed, same_as=another)

    def _look(self) -> list[_Seen]:
        """Every file, folder and link, in an order in which folders come before what is in them."""
        return [found for folder in self._folders for found in _walk(folder)]


class _Seen(NamedTuple):
    """What a path is, as far as it is told from what it was before."""

    path: str
    changed: int
    """ns since 1970."""
    touched: int
    """When what is known of it was changed, too: who may do what with it, whose it is, what it is called."""
    size: int
    inode: int


def _walk(folder: Path) -> Iterator[_Seen]:
    """What goes away meanwhile is not there."""
    try:
        about = folder.stat()
        yield _Seen(str(folder), about.st_mtime_ns, about.st_ctime_ns, 0, about.st_ino)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path))
            else:
                about = entry.stat(follow_symlinks=False)
                yield _Seen(entry.path, about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino)
        except FileNotFoundError:
            continue


def unchanged_since(begin: CrashState, states: Sequence[CrashState]) -> list[CrashState]:
    """Of states that followed on one, the same without the content of what has the same content still."""
    return [CrashState(tuple(_since(begin.entries.get(one.path), one) for one in state.files)) for state in states]


def _since(before: StateEntry | None, now: StateEntry) -> StateEntry:
    if before is None or before.content is None or before.content != now.content:
        return now
    return msgspec.structs.replace(now, content="")


def _is_folder(kept: StateEntry) -> bool:
    """Of a state that was copied."""
    return kept.content is None and kept.link is None and not stat.S_IFMT(kept.mode or 0)
