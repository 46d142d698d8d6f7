"""What can be imported from `streamproof` itself."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import streamproof


@pytest.mark.parametrize("name", streamproof.__all__)
def test_every_name_leads_somewhere(name: str) -> None:
    assert getattr(streamproof, name) is not None
    assert name in dir(streamproof)


def test_type_checkers_see_what_loads() -> None:
    """The imports under TYPE_CHECKING, the names and the table say the same."""
    assert streamproof.__file__ is not None
    tree = ast.parse(Path(streamproof.__file__).read_text())
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == streamproof._HOMES
    assert sorted(seen) == sorted(streamproof.__all__)


def test_a_scheme_is_no_guarantee() -> None:
    assert isinstance(streamproof.amnesia_recovery(), streamproof.Guarantee)
    assert streamproof.amnesia(streamproof.word_count()).kind == "amnesia"


def test_what_is_not_there_is_said_as_python_does() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        streamproof.nonsense  # noqa: B018
    assert not hasattr(streamproof, "__path_hooks__")


def imported_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_importing_it_imports_no_room() -> None:
    modules = imported_by("import streamproof; dir(streamproof)")
    assert [name for name in modules if name.startswith("streamproof.")] == []
    assert not modules & {"pyspark", "pyarrow", "pandas", "msgspec", "typer"}


def test_one_name_imports_no_other_room() -> None:
    modules = imported_by("from streamproof import seconds, at_least_once")
    assert not modules & {f"streamproof.{room}" for room in ("faults", "oracles", "scenarios", "reference_impls")}
    assert not modules & {"pyspark", "pyarrow"}


BY_CONTRACT = {
    "judge": "what a file of oracles/ answers with",
    "main": "what a module does that is run as a program",
    "obstacle": "what each way to disturb packets puts up",
}


def test_no_two_public_classes_types_or_functions_have_one_name() -> None:
    """Constants apart: the files of a room say theirs under the same one."""
    homes: dict[str, list[str]] = {}
    root = Path(streamproof.__file__ or "").parent
    for room in ("faults", "harness", "oracles", "reference_impls", "scenarios"):
        for file in sorted((root / room).rglob("*.py")):
            for name in public_names(ast.parse(file.read_text())):
                homes.setdefault(name, []).append(str(file.relative_to(root)))
    several = {name: files for name, files in homes.items() if len(files) > 1 and name not in BY_CONTRACT}
    assert several == {}


def public_names(module: ast.Module) -> set[str]:
    defined = {
        statement.name
        for statement in module.body
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assigned = {
        target.id
        for statement in module.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name) and not target.id.isupper()
    }
    return {name for name in defined | assigned if not name.startswith("_")}
