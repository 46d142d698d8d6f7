"""A file is there whole or not at all, and nothing is left beside it."""

from pathlib import Path

import pytest

from streamproof.harness.core.errors import StorageFailed
from streamproof.harness.recording.folder import write_json


def test_nothing_is_left_beside_what_was_written(tmp_path: Path) -> None:
    write_json(tmp_path / "one.json", {"a": 1})
    write_json(tmp_path / "one.json", {"a": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]
    assert '"a": 2' in (tmp_path / "one.json").read_text()


def test_what_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.json" / "in it").mkdir(parents=True)
    for path in (tmp_path / "file" / "one.json", tmp_path / "folder.json", tmp_path / "nowhere" / "one.json"):
        with pytest.raises(StorageFailed, match="cannot write"):
            write_json(path, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.json"]
