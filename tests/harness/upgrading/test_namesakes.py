"""Two versions that each bring a module of one name are not tried as if one of them had the other's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.core.errors import ExitStatus

AT_ITS_IMPORT = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent))
from namesake_steps import counts
from streamproof import Query
QUERY = Query(counts, "counts", mode="update", key=("word",))
"""
LATER = """
import sys
from pathlib import Path
sys.path.append(str(Path(__file__).parent))
from streamproof import Query
def counts(rows):
    import namesake_steps
    return namesake_steps.counts(rows)
QUERY = Query(counts, "counts", mode="update", key=("word",))
"""
STEPS = "def counts(rows):\n    return rows\n"
BESIDE_PYTHONS = LATER.replace("namesake_steps", "types")
WITHIN = AT_ITS_IMPORT.replace("from namesake_steps", "from .namesake_steps")


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if "namesake" in name:
            del sys.modules[name]


def write(folder: Path, queries: str, steps: str) -> None:
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "queries.py").write_text(queries)
    for name in ("namesake_steps.py", "types.py"):
        (folder / name).write_text(steps)


@pytest.mark.parametrize(
    ("queries", "steps", "refused"),
    [
        (AT_ITS_IMPORT, STEPS + "# otherwise\n", True),
        (LATER, STEPS + "# otherwise\n", True),
        (AT_ITS_IMPORT, STEPS, False),
        (WITHIN, STEPS + "# otherwise\n", False),
        (BESIDE_PYTHONS, STEPS + "# otherwise\n", False),
    ],
    ids=["at its import", "within a function", "the same", "as a part of a package", "called as one of Python's"],
)
def test_a_module_that_each_version_has_otherwise_under_one_name_is_refused(
    queries: str, steps: str, refused: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "namesake_old", queries, STEPS)
    write(tmp_path / "namesake_new", queries, steps)
    # What would be next is refused, too: nothing starts.
    ask = ["upgrade", "namesake_old.queries:QUERY", "namesake_new.queries:QUERY", "--claim", "recovers:1s"]
    assert run_command_line(ask) == ExitStatus.USER_MISTAKE
    said = capsys.readouterr().err
    assert ("namesake_steps" in said) is refused
    if refused:
        assert str(tmp_path / "namesake_old") in said
        assert str(tmp_path / "namesake_new") in said
    else:
        assert "an upgrade is judged by its table alone" in said
