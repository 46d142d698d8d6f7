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
WHOLE_ON_THE_PATH = BY_A_NAME[BY_A_NAME.index("import namesake_steps") :]
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


SCRIPT = """
from namesake_steps.shared import counts
from streamproof import Query
OLD = NEW = Query(counts, "counts", mode="update", key=("word",))
"""


def test_a_folder_that_is_no_package_of_its_own_is_none_beside_one_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As tests of a package that lie in a folder of its name: Python takes the package, wherever it is on the path."""
    for folder in ("tests/namesake_steps", "src/namesake_steps"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests" / "namesake_steps" / "test_shared.py").write_text("# none of anybody's\n")
    (tmp_path / "tests" / "namesake_script.py").write_text(SCRIPT)
    (tmp_path / "src" / "namesake_steps" / "__init__.py").touch()
    (tmp_path / "src" / "namesake_steps" / "shared.py").write_text(STEPS)
    monkeypatch.syspath_prepend(tmp_path / "src")
    (tmp_path / "namesake_adds.py").write_text(
        f"import sys\nsys.path.insert(0, {str(tmp_path / 'tests')!r})\nfrom namesake_script import OLD, NEW\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    run_command_line(["upgrade", "namesake_adds:OLD", "namesake_adds:NEW", "--claim", "recovers:1s"])
    assert "an upgrade is judged by its table alone" in capsys.readouterr().err
    script = import_module("namesake_script")
    require_modules_of_their_own([script.OLD, script.NEW])


@pytest.mark.parametrize("other_file", [False, True], ids=["the same file", "a file each"])
def test_folders_that_are_one_package_together_have_each_file_once(
    other_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = []
    for which in ("old", "new"):
        steps = tmp_path / which / "namesake_steps"
        steps.mkdir(parents=True)
        module = f"of_{which}" if other_file else "shared"
        (steps / f"{module}.py").write_text(f"{STEPS}# {which}\n")
        (tmp_path / which / f"namesake_{which}.py").write_text(SCRIPT.replace("shared", module))
        monkeypatch.syspath_prepend(tmp_path / which)
        queries.append(import_module(f"namesake_{which}").OLD)

    if other_file:
        require_modules_of_their_own(queries)
    else:
        with pytest.raises(InvalidScenario, match="imports 'namesake_steps'"):
            require_modules_of_their_own(queries)


def for_its_import_alone(tmp_path: Path, which: str, forgotten: str = "") -> Query:
    """As usual loaders of a file do it; one that makes Python forget a module first gives each version its own."""
    sys.modules.pop(forgotten, None)
    sys.path.insert(0, str(tmp_path / which))
    query: Query = import_module(f"namesake_queries_{which}").QUERY
    sys.path.pop(0)
    return query


@pytest.mark.parametrize(
    ("queries", "steps", "forgotten", "refused"),
    [
        (ON_THE_PATH, STEPS + "# otherwise\n", "", True),
        (WHOLE_ON_THE_PATH, STEPS + "# otherwise\n", "", True),
        (ON_THE_PATH, STEPS, "", False),
        (ON_THE_PATH, STEPS + "# otherwise\n", "namesake_steps", False),
        (WHOLE_ON_THE_PATH, STEPS + "# otherwise\n", "namesake_steps", False),
    ],
    ids=["a function", "by the module", "the same", "a function, its own", "by the module, its own"],
)
def test_a_version_whose_folder_was_on_the_path_for_its_import_alone_is_looked_into_too(
    queries: str, steps: str, forgotten: str, refused: bool, tmp_path: Path
) -> None:
    for which, text in (("old", STEPS), ("new", steps)):
        write(tmp_path / which, "", text)
        (tmp_path / which / f"namesake_queries_{which}.py").write_text(queries)
    both = [for_its_import_alone(tmp_path, "old"), for_its_import_alone(tmp_path, "new", forgotten)]

    if refused:
        with pytest.raises(InvalidScenario, match="namesake_queries_new imports 'namesake_steps'"):
            require_modules_of_their_own(both)
    else:
        require_modules_of_their_own(both)


def test_a_folder_is_one_where_the_package_was_on_the_path_for_the_other_versions_import_alone(tmp_path: Path) -> None:
    for which in ("old", "new"):
        steps = tmp_path / which / "namesake_steps"
        steps.mkdir(parents=True)
        (steps / "shared.py").write_text(f"{STEPS}# {which}\n")
        (tmp_path / which / f"namesake_queries_{which}.py").write_text(SCRIPT + "QUERY = OLD\n")
    (tmp_path / "old" / "namesake_steps" / "__init__.py").touch()
    both = [for_its_import_alone(tmp_path, which) for which in ("old", "new")]

    with pytest.raises(InvalidScenario, match="namesake_queries_new imports 'namesake_steps'"):
        require_modules_of_their_own(both)
