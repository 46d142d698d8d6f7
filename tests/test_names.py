"""What can be imported from `streamproof` itself."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
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
    """Of every room, and of what stands beside them; constants apart: the files of a room say theirs under the same
    one."""
    homes: dict[str, list[str]] = {}
    root = Path(streamproof.__file__ or "").parent
    rooms = ("faults", "harness", "oracles", "reference_impls", "scenarios")
    files = [*root.glob("*.py"), *(file for room in rooms for file in (root / room).rglob("*.py"))]
    for file in sorted(files):
        for name in public_names(ast.parse(file.read_text())):
            homes.setdefault(name, []).append(str(file.relative_to(root)))
    several = {name: files for name, files in homes.items() if len(files) > 1 and name not in BY_CONTRACT}
    assert several == {}


MODULE = """
if x:
    class A: ...
else:
    def b(): ...
try:
    from spark import Theirs
except E:
    Theirs, C = int, int
finally:
    d = 1
with e:
    class F: ...
g, H, (Hh, _, _i) = 1, 2, 3
if __name__ == "__main__":
    k = 1
"""


def test_a_name_is_seen_wherever_a_module_says_it() -> None:
    assert public_names(ast.parse(MODULE)) == {"A", "b", "d", "F", "g", "Hh"}


def public_names(module: ast.Module) -> set[str]:
    """Whatever a module defines or assigns, also where it asks first; not what stands in for what it imports."""
    imported = {
        alias.asname or alias.name
        for one in ast.walk(module)
        if isinstance(one, ast.Import | ast.ImportFrom)
        for alias in one.names
    }
    return {name for name in _said(module.body) if not name.startswith("_") and name not in imported}


def _said(body: Iterable[ast.AST]) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from _assigned(target)
            case ast.AnnAssign(target=target):
                yield from _assigned(target)
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                """A program's own."""
            case _:
                for inner in ("body", "orelse", "finalbody", "handlers"):
                    yield from _said(getattr(statement, inner, ()))


def _assigned(target: ast.expr) -> Iterator[str]:
    return (one.id for one in ast.walk(target) if isinstance(one, ast.Name) and not one.id.isupper())
