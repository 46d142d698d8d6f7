"""What the file layer writes down: each operation that changes what the folders hold, and what was looked at.

A journal is a file of frames: four bytes of length, most significant first, and a message. A frame is written before
the operation is answered, and so a process that goes on has its operations in the journal: its length is a position in
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from ...core.errors import StorageFailed


class OperationKind(StrEnum):
    CREATE = "create"
    """A file that was not there, or not under this name."""
    WRITE = "write"
    TRUNCATE = "truncate"
    RENAME = "rename"
    EXCHANGE = "exchange"
    """Two names change places, each with all that is under it (renameat2 with RENAME_EXCHANGE)."""
    LINK = "link"
    SYMLINK = "symlink"
    MKNOD = "mknod"
    """A named pipe or a socket that was not there."""
    UNLINK = "unlink"
    MKDIR = "mkdir"
    RMDIR = "rmdir"
    SYNC = "fsync"
    """A file's content is on the disk from then on."""
    SYNC_FOLDER = "fsync-folder"
    """A folder's names are."""
    TIMES = "times"
    """When a file or folder was changed, or was last looked at, is set. No content changes."""
    MODE = "chmod"
    """Who may do what with a file or folder is set, to something else than before."""
    OWNER = "chown"
    """Whose a file or folder is, or of which group, is set, to something else than before."""
    SET_ATTRIBUTE = "setxattr"
    """An extended attribute of a file or folder gets a value."""
    REMOVE_ATTRIBUTE = "removexattr"
    OPENED = "opened"
    """What a file holds was looked at. Only its first time since `fresh`, as of the others."""
    ASKED = "asked"
    """Whether a path is there was looked at, and what it is."""
    LISTED = "listed"
    """Which names a folder has was looked at."""
    SKIMMED = "skimmed"
    """The same, by a JVM: Hadoop and Spark pass over names that are temporary."""
    ASKED_IN_PASSING = "asked-in-passing"
    """Whether a path is there was looked at by a JVM that has skimmed its folder: it asks so of each name in it."""
    OPENED_BY_SQLITE = "opened-by-sqlite"
    """What a file holds was looked at, by SQLite: it takes a transaction back that is half done, before it tells."""


LOOKS = (
    OperationKind.OPENED,
    OperationKind.ASKED,
    OperationKind.LISTED,
    OperationKind.SKIMMED,
    OperationKind.OPENED_BY_SQLITE,
    OperationKind.ASKED_IN_PASSING,
)
"""What only looks."""
OF_ATTRIBUTES = frozenset({OperationKind.SET_ATTRIBUTE, OperationKind.REMOVE_ATTRIBUTE})
MOVES = frozenset({OperationKind.RENAME, OperationKind.EXCHANGE})
"""What gives names to others, and changes the folders of both of its paths."""
OF_NAMES = frozenset(
    {
        *MOVES,
        OperationKind.CREATE,
        OperationKind.LINK,
        OperationKind.SYMLINK,
        OperationKind.MKNOD,
        OperationKind.UNLINK,
        OperationKind.MKDIR,
        OperationKind.RMDIR,
    }
)
"""What changes which names a folder has."""
HALF_WRITE: Final = "half-write"
"""What the first half of a write is called as a crash point, in the place of its kind."""
KERNEL: Final = 0
"""The thread of the kernel itself, which writes down what was stored in a shared map of memory, page by page: no death
of a process leaves some of these pages and not the others."""


class Operation(msgspec.Struct, array_like=True, frozen=True, gc=False):
    kind: OperationKind
    path: str
    """From the root of the mounted folder on, without a leading slash; empty: a file whose last name is gone."""
    at: int = 0
    """ns since 1970."""
    thread: int = 0
    """Who asked for it: a thread's id, as this machine's kernel counts, or KERNEL."""
    other: str = ""
    """Of a rename, the new path; of an exchange, the other one; of a link, the path of the file that it leads to; of a
    symbolic one, its text; of an extended attribute, its name; of OWNER, the numbers of user and group, `0:100`; of
    TIMES, that of the last access, ns since 1970, where it is set."""
    offset: int = 0
    """Of a write, in bytes; of a truncation, the length; of TIMES, the time of the change, ns since 1970; of MODE, the
    permission bits; of MKNOD, what it is (`st_mode`)."""
    data: bytes = b""
    """Of a write, or an extended attribute."""
    file: int = 0
    """Which file: its inode. Written to through a handle, it may have another name by now, or none."""
    half: bool = False
    """Of a write, whether it is the first half of one: the rest follows as the next operation, unless who writes dies
    or the disk refuses it."""

    @property
    def called(self) -> str:
        """As a crash point."""
        return HALF_WRITE if self.half else self.kind

    @property
    def is_point(self) -> bool:
        """Whether it is a crash point."""
        return self.kind not in LOOKS and self.thread != KERNEL


WRITTEN: Final = "user.streamproof.written"
"""An attribute of whatever lies in a mounted folder, for who asks: how many bytes its process has written there in all,
and whoever has by maps of memory, in whole pages."""
ROLLBACK_JOURNAL: Final = "-journal"
WRITE_AHEAD_LOG: Final = "-wal"
LOG_INDEX: Final = "-shm"
"""Of a write-ahead log, where which page is. It is made anew by who opens a database that nobody has open."""
BESIDE_SQLITE: Final = (ROLLBACK_JOURNAL, WRITE_AHEAD_LOG, LOG_INDEX)
"""How the names of files end that SQLite keeps beside a database, which begin with that of the database."""


def database_beside(path: str) -> str:
    """The SQLite database to which a file belongs, by its name; empty: it belongs to none."""
    return path.rpartition("-")[0] if path.endswith(BESIDE_SQLITE) else ""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Operation)
_LENGTH = 4


def framed(operation: Operation) -> bytes:
    body = _encoder.encode(operation)
    return len(body).to_bytes(_LENGTH, "big") + body


def read_operations(journal: Path, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, Operation]]:
    """The operations between two positions, each with the position after it.

    Raises StorageFailed where the journal cannot be read, or is cut off, as by a full disk: whoever wrote it lives.
    """
    try:
        with journal.open("rb") as file:
            file.seek(begin)
            position = begin
            while end is None or position < end:
                head = file.read(_LENGTH)
                body = file.read(int.from_bytes(head, "big"))
                if not head and end is None:
                    return
                if len(head) < _LENGTH or len(body) < int.from_bytes(head, "big"):
                    raise StorageFailed(_CUT_OFF.format(journal=journal, why=f"breaks off at byte {position:,}"))
                position += _LENGTH + len(body)
                yield position, _decoder.decode(body)
    except OSError as error:
        raise StorageFailed(f"cannot read {journal}: {error.strerror or error}") from error
    except msgspec.MsgspecError as error:
        raise StorageFailed(_CUT_OFF.format(journal=journal, why=str(error))) from error


_CUT_OFF: Final = (
    "the journal of file operations {journal} cannot be read: {why}; that is so where the disk is full: make room on "
    "it, or name a folder elsewhere"
)
