"""A journal of file operations that a full disk has cut off is no mistake of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.harness.core.errors import StorageFailed
from streamproof.harness.crash_points.files.operations import Operation, OperationKind, framed, read_operations

ONE = Operation(OperationKind.MKDIR, "sink", 1)


@pytest.mark.parametrize("left", [framed(ONE)[:-3], framed(ONE)[:2], framed(ONE)[:-3] + framed(ONE)])
def test_one_that_is_cut_off_says_what_to_do(left: bytes, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_bytes(framed(ONE) + left)

    with pytest.raises(StorageFailed, match=r"journal cannot be read: .* the disk is full: make room on it"):
        list(read_operations(journal))
