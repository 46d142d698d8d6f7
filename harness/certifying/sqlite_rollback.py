"""What a SQLite database holds whose transaction was cut short, once SQLite has taken that back.

Of a transaction that writes many pages, a crash leaves another state after each, of the database and of the journal
beside it. When the database is next opened, SQLite passes over a journal that was not sealed yet, and takes back what
was written to the database since, and only then says what it holds.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ..crash_points.files.operations import SQLITE_JOURNAL

_NAMES_ANOTHER: Final = bytes.fromhex("d9d505f920a163d7")
"""Ends a journal that is of several databases: whether it counts, another file says."""
_MEMORY: Final = Path("/dev/shm")


def rolled_back(database: bytes, journal: bytes) -> str:
    """What SQLite makes of both, by a hash, with what it has to do for that. Empty: that is not known, or the database
    is damaged."""
    if not journal or journal.endswith(_NAMES_ANOTHER):
        return ""
    with TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as folder:
        file = Path(folder) / "database"
        beside = Path(f"{file}{SQLITE_JOURNAL}")
        file.write_bytes(database)
        beside.write_bytes(journal)
        try:
            with closing(sqlite3.connect(file)) as connection:
                # It is sound as a whole, not where somebody happens to look.
                (said,) = connection.execute("pragma integrity_check").fetchone()
        except sqlite3.Error:
            return ""
        content = file.read_bytes()
        left = {one.name for one in Path(folder).iterdir()} - {file.name}
        if said != "ok" or not left <= {beside.name} or (left and beside.read_bytes() != journal):
            return ""
    done = "put back" if content != database else "passed over" if left else "removed"
    return f"{done}: {hashlib.sha256(content).hexdigest()}"
