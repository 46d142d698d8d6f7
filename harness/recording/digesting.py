"""The digest of a long history, computed by another process while this one judges it: there are all records to read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from ..core.other_processes import begin
from .history import History, digest_records
from .records import Stamped
from .streamed import StreamedRecords

LONG: Final = 1_000_000
"""Rows of a history from which on it is worth a process."""
_HASH_SEED: Final = "0"


class _Task(msgspec.Struct, frozen=True, array_like=True):
    folder: bytes
    timeline: list[bytes]
    """As it is digested."""


@contextmanager
def digested_meanwhile(history: History) -> Iterator[Callable[[], str]]:
    """What is given says the digest, as `History.digest` does."""
    folder = _of_long(history.records)
    if folder is None or _cores() < 2:
        yield history.digest
        return
    process = begin(digest_of_task, _HASH_SEED)
    try:
        process.tell(msgspec.msgpack.encode(_Task(os.fsencode(folder), list(history.digested_timeline()))))

        def digest() -> str:
            said, _ = process.said()
            # Whatever keeps it from that is said by who does it here.
            return said.decode() or history.digest()

        yield digest
    finally:
        process.end()


def _of_long(records: Sequence[Stamped]) -> Path | None:
    """The folder of records that are long, and read from there."""
    if not isinstance(records, StreamedRecords):
        return None
    from .sealed import SealedRecords  # with pyarrow, which only sealed runs need

    return records.folder if isinstance(records, SealedRecords) and records.rows >= LONG else None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def digest_of_task(task: bytes) -> bytes:
    """In the other process."""
    from .sealed import SealedRecords  # with pyarrow, as above

    told = msgspec.msgpack.decode(task, type=_Task)
    sha = hashlib.sha256()
    digest_records(sha, SealedRecords(Path(os.fsdecode(told.folder))))
    for entry in told.timeline:
        sha.update(entry)
    return sha.hexdigest().encode()
