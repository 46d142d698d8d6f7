"""Modules of one name that both versions bring: in one process, the first that is imported is the other one's, too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ..contracts.query import Query
from ..core.errors import InvalidScenario
from ..core.pickling import modules_of_the_user
from ..crash_points.inside_python.whose import is_installed, parts_handed_over


def require_no_namesakes(path_before: Sequence[str]) -> None:
    """Once both versions are loaded. `path_before` is where modules were looked for before: what the versions have put
    there themselves are folders of their own. Raises InvalidScenario where code of the user's imports a module, be it
    within a function, that such a folder has, and another one on the path has otherwise."""
    own = [Path(entry).resolve() for entry in sys.path if entry not in path_before]
    if not own:
        return
    everywhere = list(dict.fromkeys(Path(entry).resolve() for entry in sys.path))
    for name, importing in sorted(_imported_by(modules_of_the_user()).items()):
        if name in sys.stdlib_module_names and _is_loaded_from_elsewhere(name, own):
            # Python had it before anybody looked into these folders, and nobody gets another.
            continue
        for place in own:
            content = _content(place, name)
            others = everywhere if content else []
            other = next((one for one in others if _content(one, name) not in ((), content)), None)
            if other is not None:
                raise _namesake(importing, name, other, place)


def require_modules_of_their_own(queries: Sequence[Query]) -> None:
    """Of versions that were loaded by whomever: nobody knows what the path was before. Raises InvalidScenario where
    code of theirs imports a module that a folder on the path has, which is that of this code or lies below it, and this
    process has it otherwise, from elsewhere."""
    path = list(dict.fromkeys(Path(entry).resolve() for entry in sys.path))
    for module in _modules_of(queries):
        file = Path(module.__file__ or "").resolve()
        beside = [one for one in path if one.is_relative_to(file.parent) and not _is_installed_in(one)]
        for name in sorted(_imports(file)) if beside else ():
            place = next((one for one in beside if _content(one, name)), None)
            found = None if place is None else _found_in(name, path)
            if place is None or found is None or found.is_relative_to(file.parent):
                continue
            if _is_installed_in(found) and (name in sys.stdlib_module_names or _comes_first(found, place, path)):
                # Who runs alone has none of its own, either.
                continue
            if _content(place, name) != _content(found, name):
                raise _namesake(module.__name__, name, found, place)


def _modules_of(queries: Sequence[Query]) -> list[ModuleType]:
    """Those of the user's with the code of these queries, and those that hold what they hand over, or such a query."""
    parts = [part for query in queries for part in parts_handed_over(query)]
    names = {one.__name__ if isinstance(one, ModuleType) else one.__module__ for one, _ in parts}
    handed = {id(one) for query in queries for one in (query.transform, query.write, query.read) if one is not None}

    def holds(value: Any) -> bool:
        # What is asked of its type alone wakes up nothing that is made when it is first used.
        return id(value.transform if issubclass(type(value), Query) else value) in handed

    return [
        module
        for module in modules_of_the_user()
        if module.__name__ in names or any(map(holds, list(vars(module).values())))
    ]


def _found_in(name: str, path: Sequence[Path]) -> Path | None:
    """The folder on the path from which this process has a module, or would have it; None: it has none."""
    module = sys.modules.get(name)
    if module is None:
        return next((one for one in path if _content(one, name)), None)
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve().parents[1 if hasattr(module, "__path__") else 0]


def _comes_first(one: Path, other: Path, path: Sequence[Path]) -> bool:
    return one not in path or path.index(one) < path.index(other)


def _is_installed_in(place: Path) -> bool:
    return is_installed(str(place / "module.py"))


def _namesake(importing: str, name: str, one: Path, other: Path) -> InvalidScenario:
    return InvalidScenario(
        f"{importing} imports {name!r}, which is one module in {one} and another in {other}: both versions are "
        "imported in one process, where one of them would run with the other's; make the folder of each a package, "
        f"with an __init__.py, and import it from there: from .{name} import ..."
    )


def _is_loaded_from_elsewhere(name: str, places: Sequence[Path]) -> bool:
    module = sys.modules.get(name)
    if module is None:
        return False
    file = getattr(module, "__file__", None)
    return file is None or not any(Path(file).resolve().is_relative_to(place) for place in places)


def _imported_by(modules: Sequence[ModuleType]) -> dict[str, str]:
    """What these import by a name that is not relative: its first part, and the module that does."""
    return {name: module.__name__ for module in modules for name in _imports(Path(module.__file__ or ""))}


def _imports(source: Path) -> Iterator[str]:
    """Of what cannot be read as Python, none are known."""
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(source.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (one.name.partition(".")[0] for one in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                yield node.module.partition(".")[0]


def _content(place: Path, name: str) -> tuple[tuple[str, bytes], ...]:
    """Of the module, or the package, of this name in a folder, file by file; empty: there is none."""
    files = [place / f"{name}.py", *sorted((place / name).rglob("*.py"))]
    found = []
    for file in files:
        with suppress(OSError):
            found.append((file.relative_to(place).as_posix(), file.read_bytes()))
    return tuple(found)
