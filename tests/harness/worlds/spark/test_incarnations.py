"""What managers have given out outlives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.harness.core.errors import DamagedHistory, StorageFailed
from streamproof.harness.worlds.spark.schemes.incarnations import Incarnations


def test_what_was_written_is_there_for_the_next(tmp_path: Path) -> None:
    assert Incarnations(tmp_path).read() == {}
    first = Incarnations(tmp_path)
    first.write({"count-0": 1, "split-0": 1})
    first.write({"count-0": 3, "split-0": 1})
    assert Incarnations(tmp_path).read() == {"count-0": 3, "split-0": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_manager_that_died_while_it_wrote_has_given_out_nothing(tmp_path: Path) -> None:
    Incarnations(tmp_path).write({"count-0": 1})
    (tmp_path / "incarnations.draft").write_text('{"count-0":')
    assert Incarnations(tmp_path).read() == {"count-0": 1}


def test_it_says_what_is_wrong_with_the_file(tmp_path: Path) -> None:
    gone = Incarnations(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StorageFailed, match=r"cannot write .*gone.*: No such file"):
        gone.write({})
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match=r"cannot make the folder .*file/here: Not a directory"):
        Incarnations(tmp_path / "file" / "here")
    (tmp_path / "incarnations.json").write_text("[]")
    with pytest.raises(DamagedHistory, match=r"incarnations\.json cannot be read"):
        Incarnations(tmp_path).read()
