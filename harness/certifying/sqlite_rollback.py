"""What a SQLite database holds whose transaction was cut short, once SQLite has recovered it.

Of a transaction that writes many pages, a crash leaves another state after each, of the database and of what lies
beside it. When the database is next opened, SQLite passes over a rollback journal that was not sealed yet, and takes
back what was written to the database since; of a write-ahead log, it takes the transactions that were committed in it.
Only then it says what it holds.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ..crash_points.files.operations import ROLLBACK_JOURNAL, WRITE_AHEAD_LOG

_NAMES_ANOTHER: Final = bytes.fromhex("d9d505f920a163d7")
"""Ends a journal that is of several databases: whether it counts, another file says."""
_MEMORY: Final = Path("/dev/shm")


def rolled_back(database: bytes, beside: Mapping[str, bytes]) -> str:
    """What SQLite makes of a database and its `beside`, a rollback journal or a write-ahead log by how its name ends:
    by a hash, with what it has to do for that. Empty: that is not known, or the database is damaged."""
    journal = beside.get(ROLLBACK_JOURNAL)
    if journal is not None and (not journal or journal.endswith(_NAMES_ANOTHER)):
        return ""
    with TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as folder:
        file = Path(folder) / "database"
        file.write_bytes(database)
        for name, content in beside.items():
            Path(f"{file}{name}").write_bytes(content)
        try:
            with closing(sqlite3.connect(file)) as connection:
                # It is sound as a whole, not where somebody happens to look.
                (said,) = connection.execute("pragma integrity_check").fetchone()
        except sqlite3.Error:
            return ""
        found = file.read_bytes()
        left = {one.name.removeprefix(file.name): one.read_bytes() for one in Path(folder).iterdir() if one != file}
    # A log is in the database once nobody has it open, and a journal that does not count stays as it is.
    if said != "ok" or WRITE_AHEAD_LOG in left or any(beside.get(name) != content for name, content in left.items()):
        return ""
    if found != database and WRITE_AHEAD_LOG not in beside:
        done = "put back"
    elif left:
        done = "passed over"
    else:
        done = "carried over" if WRITE_AHEAD_LOG in beside else "removed"
    return f"{done}: {hashlib.sha256(found).hexdigest()}"
