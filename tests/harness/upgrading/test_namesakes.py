"""Two versions that each bring a module of one name are not tried as if one of them had the other's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import ExitStatus, InvalidScenario
from streamproof.harness.upgrading.namesakes import require_modules_of_their_own
from streamproof.harness.upgrading.request import UpgradeRequest, UpgradeSide
from streamproof.harness.upgrading.upgrade import upgrade
from streamproof.scenarios.workloads import words

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
ON_THE_PATH = AT_ITS_IMPORT[AT_ITS_IMPORT.index("from namesake_steps") :]
STEPS = "def counts(rows):\n    return rows\n"
BESIDE_PYTHONS = LATER.replace("namesake_steps", "types")
BY_A_NAME = AT_ITS_IMPORT.replace("from namesake_steps import counts", "import namesake_steps").replace(
    "Query(counts", "Query(namesake_steps.counts"
)
IN_A_FOLDER_BELOW = AT_ITS_IMPORT.replace("(__file__).parent", '(__file__).parent / "lib"')
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
    (folder / "lib").mkdir()
    for name in ("namesake_steps.py", "types.py", "lib/namesake_steps.py"):
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


def test_two_folders_that_were_on_the_path_before_are_looked_into_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for which, steps in (("old", STEPS), ("new", STEPS + "# otherwise\n")):
        write(tmp_path / which, "", steps)
        (tmp_path / which / f"namesake_queries_{which}.py").write_text(ON_THE_PATH)
        monkeypatch.syspath_prepend(tmp_path / which)

    ask = ["upgrade", "namesake_queries_old:QUERY", "namesake_queries_new:QUERY"]
    assert run_command_line(ask) == ExitStatus.USER_MISTAKE
    said = capsys.readouterr().err
    assert "imports 'namesake_steps'" in said


def both_imported(tmp_path: Path) -> list[Query]:
    """As somebody does who asks for an upgrade from Python."""
    names = [f"namesake_{which}.queries" for which in ("old", "new")]
    return [import_module(name).QUERY for name in names]


@pytest.mark.parametrize("queries", [AT_ITS_IMPORT, LATER, BY_A_NAME, IN_A_FOLDER_BELOW])
def test_one_that_python_was_asked_for_is_refused_for_it_too(
    queries: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path / "namesake_old", queries, STEPS)
    write(tmp_path / "namesake_new", queries, STEPS + "# otherwise\n")
    old, new = map(UpgradeSide, both_imported(tmp_path))

    with pytest.raises(InvalidScenario, match="imports 'namesake_steps'") as refused:
        upgrade(UpgradeRequest(old, new, words(events=300), Registry()), tmp_path / "upgrade")
    assert str(tmp_path / "namesake_old") in str(refused.value)
    assert str(tmp_path / "namesake_new") in str(refused.value)
    assert not (tmp_path / "upgrade").exists()


@pytest.mark.parametrize(
    ("queries", "steps"),
    [(AT_ITS_IMPORT, STEPS), (WITHIN, STEPS + "# otherwise\n"), (BESIDE_PYTHONS, STEPS + "# otherwise\n")],
    ids=["the same", "as a part of a package", "called as one of Python's"],
)
def test_versions_that_have_the_modules_that_they_have_alone_are_none(
    queries: str, steps: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path / "namesake_old", queries, STEPS)
    write(tmp_path / "namesake_new", queries, steps)

    require_modules_of_their_own(both_imported(tmp_path))


def test_a_module_of_that_name_which_nobody_is_given_here_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where another folder on the path, below that of both versions, has one for its own tests."""
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path / "namesake_old", AT_ITS_IMPORT, STEPS)
    write(tmp_path / "namesake_new", AT_ITS_IMPORT, STEPS)
    (tmp_path / "namesake_old" / "lib" / "namesake_steps.py").write_text(STEPS + "# otherwise\n")
    old, _ = both_imported(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "namesake_old" / "lib")])

    require_modules_of_their_own([old, old])
