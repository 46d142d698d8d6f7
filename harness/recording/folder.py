"""The run folder: everything that one run leaves behind, enough to judge it again on another machine.

```
scenario.json      what was run: scenario, seed, schedule, claims, versions, machine, cluster
timeline.jsonl     what happened to the machines, one entry a line, with the proof that each fault bit
records.frames     the records while they are being written; gone once they are sealed
offered.parquet    what the sources gave            \\
delivered.parquet  what the recorder took            } sealed
steps.parquet      what slices took, checkpointed, kept /
seal.json          the digests of the three, of the timeline and of scenario.json; written last
verdicts.json      what the oracles said
logs/              the logs of every process
```
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from ..core.errors import (
    DamagedHistory,
    InvalidHistory,
    InvalidScenario,
    RunFolderInUse,
    StorageFailed,
    StreamproofError,
    UnknownHistoryVersion,
    UnusablePlace,
    nearest,
)
from .claims_and_faults import SavedClaim, SavedFault
from .contradictions import why_contradictory
from .decoded import held
from .described import check_described
from .framed import FramedRecords
from .frames import FrameWriter, read_frames
from .history import History, Stamp, TimelineEntry
from .records import Record, Stamped

VERSION = 5
_json = msgspec.json.Encoder().encode
_entry = msgspec.json.Decoder(TimelineEntry).decode


class Description(msgspec.Struct, frozen=True):
    """`scenario.json`."""

    version: int
    run: str
    scenario: str
    origin: str
    """What `streamproof run` was given: the library's name, or module:attribute."""
    subject: dict[str, Any]
    """What it says of itself: of a scheme its kind, operators and edges, of a query its settings and code's hash."""
    workload: dict[str, Any]
    """Its name, and how much of it was fed."""
    seed: int
    schedule: tuple[SavedFault, ...]
    claims: tuple[SavedClaim, ...]
    breaks: tuple[SavedClaim, ...]
    """Claims that the scenario expects to be violated."""
    cluster: dict[str, Any]
    """Its name, sizes and settings."""
    versions: dict[str, str]
    """Of streamproof and what it ran on."""
    machine: dict[str, Any]
    """System, cores, byte order, and the seed of its hashes."""
    began: str
    """UTC, ISO 8601."""
    minimal: bool = False
    """Whether the scenario was shrunk to as little as shows something."""

    def __post_init__(self) -> None:
        check_described(self.workload, self.cluster)


# Made once, and here: msgspec ends the process with SIGSEGV where two threads are the first to ask for one type.
_description = msgspec.json.Decoder(Description).decode


def make_folder(path: Path, what: str = "") -> None:
    """With those above it. `what` it is to be, for the message. Raises UnusablePlace where none can be there, and
    StorageFailed where the disk refuses it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        said = f"cannot make {what}{' ' if what else ''}{path}: {error.strerror or error}"
        raise refused_place(error, said, "name another folder") from error


def refused_place(error: OSError, said: str, instead: str) -> StreamproofError:
    """Of a folder or a file that somebody has named: StorageFailed where the disk takes none, whatever its name is;
    else UnusablePlace, with what to do instead."""
    return StorageFailed(said) if error.errno in _OF_THE_DISK else UnusablePlace(f"{said}; {instead}")


_OF_THE_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class RunFolder:
    """Writes one run. It is the run's recorder; use it as a context manager.

    The folder is held by a lock while it is written, which goes when the writer dies.
    """

    def __init__(self, path: Path, description: Description) -> None:
        self.path = path
        make_folder(path, "the run folder")
        try:
            (path / "logs").mkdir(exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageFailed(f"cannot write to the run folder {path}: {error.strerror or error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise RunFolderInUse(f"another run is writing to {path}; name another folder with --folder") from error
        if (path / "scenario.json").exists():
            os.close(self._lock)
            raise RunFolderInUse(f"{path} already holds a run; name another folder with --folder, or remove it")
        self.description = description
        write_json(path / "scenario.json", description)
        self._latest = 0
        self._frames = FrameWriter(path / "records.frames")
        self._timeline = (path / "timeline.jsonl").open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._frames.close()
        finally:
            self._timeline.close()
            os.close(self._lock)

    @property
    def latest(self) -> Stamp:
        return Stamp(self._latest)

    def note(self, at: int, record: Record) -> None:
        self._latest = max(self._latest, at)
        self._frames.append(Stamped(at, record))

    def log(self, entry: TimelineEntry) -> None:
        """Written at once, after every record that came before it."""
        self._latest = max(self._latest, entry.stamp.at)
        self._frames.flush()
        try:
            self._timeline.write(_json(entry) + b"\n")
        except OSError as error:
            raise StorageFailed(f"cannot write {self.path / 'timeline.jsonl'}: {error.strerror}") from error

    def deployed(self, facts: Mapping[str, object]) -> None:
        """Add to what `scenario.json` says of the cluster."""
        cluster = {**self.description.cluster, **facts}
        self.description = msgspec.structs.replace(self.description, cluster=cluster)
        write_json(self.path / "scenario.json", self.description)

    def flush(self) -> None:
        self._frames.flush()

    def seal(self) -> None:
        """Turn the records into Parquet. Afterwards nothing more can be noted."""
        from .sealing import seal  # with pyarrow, which only sealed runs need

        self._frames.close()
        frames = self.path / "records.frames"
        seal(read_frames(frames), self.path)
        frames.unlink()


def in_use(path: Path) -> bool:
    """Whether a run is being written to this folder now."""
    try:
        lock = os.open(path / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def write_json(path: Path, content: Any) -> None:
    """Write `content` in one step, so that no half of it can be mistaken for the whole. Raises StorageFailed."""
    try:
        write_whole(path, msgspec.json.format(_json(content), indent=2) + b"\n")
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step, and leave nothing else behind. Raises OSError."""
    # Another one may be writing the same.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink()


def read_description(path: Path) -> Description:
    """Raises InvalidHistory for what is not a run folder, UnknownHistoryVersion for one of another version."""
    file = path / "scenario.json"
    try:
        content = file.read_bytes()
    except OSError as error:
        there = f"{file.name} cannot be read ({error.strerror})" if path.exists() else f"there is none{meant(path)}"
        raise InvalidHistory(f"{path} is the folder of no run, and of no certificate: {there}") from error
    try:
        found = msgspec.json.decode(content)
        version = found.get("version") if isinstance(found, dict) else None
        if version != VERSION:
            raise UnknownHistoryVersion(f"{path} has version {version!r}; this streamproof reads version {VERSION}")
        return _description(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedHistory(f"{file} cannot be read: {error}") from error


def meant(path: Path) -> str:
    """What lies where a path leads to nothing, and is called nearly so: ` (the nearest are: runs/one)`, or nothing."""
    if path.exists():
        return ""
    try:
        beside = [one.name for one in path.parent.iterdir()]
    except OSError:
        return ""
    found = [str(path.parent / name) for name in nearest(path.name, beside, 0.5)]
    return f" (the nearest are: {', '.join(found)})" if found else ""


def read_history(path: Path) -> History:
    """What a run has left, whole or half-way. Raises DamagedHistory when something in it was altered, or contradicts
    the rest of it, and as `read_description` does."""
    description, history = read_description(path), read_records(path)
    cluster = str(description.cluster.get("cluster"))
    try:
        why = why_contradictory(description.schedule, description.subject, history, cluster)
    except InvalidScenario as error:
        raise DamagedHistory(f"{path / 'scenario.json'} cannot be read: {error}") from error
    if why:
        raise DamagedHistory(f"{path} contradicts itself: {why}; get it again from where it came from")
    return history


def read_records(path: Path) -> History:
    """The same, without a look at what `scenario.json` says. Raises DamagedHistory when something in it was altered."""
    from .sealing import is_sealed, read_sealed  # with pyarrow, as above

    sealed = is_sealed(path)
    frames = path / "records.frames"
    if not sealed and not frames.exists():
        raise DamagedHistory(f"{path} has neither records.frames nor seal.json; its records are gone")
    records = read_sealed(path) if sealed else list(read_frames(frames))
    return History(records, _read_timeline(path / "timeline.jsonl"), sealed)


def read_unfinished(path: Path) -> History:
    """What a run that is going on has left so far, read from the disk each time that it is gone through; once it is
    sealed, all of it. Raises DamagedHistory where it has left nothing yet, and as `read_history` does."""
    try:
        records: Sequence[Stamped] = FramedRecords(path / "records.frames")
    except OSError:
        return read_history(path)
    return History(records, _read_timeline(path / "timeline.jsonl"), sealed=False)


def _read_timeline(path: Path) -> list[TimelineEntry]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError as error:
        raise DamagedHistory(f"{path} is missing") from error
    except OSError as error:
        raise DamagedHistory(f"{path} cannot be read: {error.strerror}") from error
    # What follows the last newline is what a killed writer had begun.
    entries = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            entries.append(held(_entry(line), line.decode()))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            raise DamagedHistory(f"{path}, line {number}, cannot be read: {error}") from error
    return entries
