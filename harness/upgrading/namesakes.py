"""Modules of one name that both versions bring: in one process, the first that is imported is the other one's, too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ..contracts.query import Query
from ..core.errors import InvalidScenario
from ..core.pickling import modules_of_the_user
from ..crash_points.inside_python.whose import is_installed, parts_handed_over


def require_no_namesakes(path_before: Sequence[str]) -> None:
    """Once both versions are loaded. `path_before` is where modules were looked for before: what the versions have put
    there themselves are folders of their own. Raises InvalidScenario where code of the user's imports a module, be it
    within a function, that such a folder has, and another one on the path has otherwise."""
    own = _folders(entry for entry in sys.path if entry not in path_before)
    everywhere = _folders(sys.path)
    imported = _imported_by(modules_of_the_user()) if own else {}
    for name, importing in sorted(imported.items()):
        found = _found_in(name, everywhere) if _first_with(name, own) else None
        if found is not None and not _is_pythons(name, found):
            _require_no_rival(importing, name, found, everywhere, everywhere)


def require_modules_of_their_own(queries: Sequence[Query]) -> None:
    """Of versions that were loaded by whomever: nobody knows what the path was before. Raises InvalidScenario where
    code of theirs imports a module that this process has from elsewhere, and that a folder has otherwise which is that
    of this code or lies below it: one that is on the path, or that of a module of no package, where Python looks when
    that runs alone, and whoever has loaded it may have looked meanwhile."""
    path = _folders(sys.path)
    for module in _modules_of(queries):
        file = Path(module.__file__ or "").resolve()
        apart = [] if module.__package__ else [file.parent]
        beside = [one for one in path if one.is_relative_to(file.parent)] + apart
        own = [one for one in beside if not _is_installed_in(one)]
        for name in sorted(_imports(file)) if own else ():
            place = _first_with(name, own)
            found = None if place is None else _given_to(module, name) or _found_in(name, path)
            if place is None or found is None or found.is_relative_to(file.parent) or _is_pythons(name, found):
                continue
            if _is_installed_in(found) and _comes_first(found, place, path):
                # Who runs alone has none of its own, either.
                continue
            _require_no_rival(module.__name__, name, found, [place], path)


def _require_no_rival(importing: str, name: str, found: Path, places: Iterable[Path], path: Sequence[Path]) -> None:
    """`found` is where this process has the module from, or would have it."""
    for place in places:
        if place != found and _is_rival(name, found, place, path):
            raise InvalidScenario(
                f"{importing} imports {name!r}, which is one module in {found} and another in {place}: both versions "
                "are imported in one process, where one of them would run with the other's; make the folder of each a "
                f"package, with an __init__.py, and import it from there: from .{name} import ..."
            )


def _is_rival(name: str, found: Path, place: Path, path: Sequence[Path]) -> bool:
    """Whether somebody who looks there gets another module of this name. Folders without an `__init__.py` are one
    package together, of which Python knows nothing where any folder on its path has a module, or a package with one."""
    here, there = dict(_content(found, name)), dict(_content(place, name))
    if _is_regular(place, name):
        return here != there
    if _is_regular(found, name) and found in path:
        return False
    return any(here[file] != there[file] for file in here.keys() & there.keys())


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


def _folders(entries: Iterable[str]) -> list[Path]:
    return list(dict.fromkeys(Path(entry).resolve() for entry in entries))


def _first_with(name: str, places: Sequence[Path]) -> Path | None:
    """The one of these folders, in this order, from which Python takes a module."""
    regular = (one for one in places if _is_regular(one, name))
    return next(regular, None) or next((one for one in places if _content(one, name)), None)


def _given_to(module: ModuleType, name: str) -> Path | None:
    """The folder from which a module has been given the one of this name, as far as what it holds tells that: whoever
    has loaded it may have let each version have its own."""
    for value in list(vars(module).values()):
        names: Mapping[str, Any] = {}
        if issubclass(type(value), ModuleType):
            names = vars(value)
        elif issubclass(type(value), FunctionType):
            names = value.__globals__
        own, file = str(names.get("__name__")), names.get("__file__")
        if own.partition(".")[0] == name and file is not None:
            return _folder_of(file, own, "__path__" in names)
    return None


def _found_in(name: str, path: Sequence[Path]) -> Path | None:
    """The folder on the path from which this process has a module, or would have it; None: it has none."""
    module = sys.modules.get(name)
    if module is None:
        return _first_with(name, path)
    file = getattr(module, "__file__", None)
    if file is not None:
        return _folder_of(file, name, hasattr(module, "__path__"))
    portion = next(iter(getattr(module, "__path__", ())), None)
    return None if portion is None else Path(portion).resolve().parent


def _folder_of(file: str, name: str, is_package: bool) -> Path:
    """Where the first part of this name was found."""
    return Path(file).resolve().parents[name.count(".") + is_package]


def _is_pythons(name: str, found: Path) -> bool:
    """Python had it before anybody looked into any folder, and nobody gets another."""
    return name in sys.stdlib_module_names and _is_installed_in(found)


def _comes_first(one: Path, other: Path, path: Sequence[Path]) -> bool:
    """A folder that is on the path no more came before all others while it was."""
    return other in path and (one not in path or path.index(one) < path.index(other))


def _is_installed_in(place: Path) -> bool:
    return is_installed(str(place / "module.py"))


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


def _is_regular(place: Path, name: str) -> bool:
    """Whether a folder has a module, or a package that says so itself."""
    return (place / f"{name}.py").is_file() or (place / name / "__init__.py").is_file()


def _content(place: Path, name: str) -> tuple[tuple[str, bytes], ...]:
    """Of the module, or the package, of this name in a folder, file by file; empty: there is none."""
    files = [place / f"{name}.py", *sorted((place / name).rglob("*.py"))]
    found = []
    for file in files:
        with suppress(OSError):
            found.append((file.relative_to(place).as_posix(), file.read_bytes()))
    return tuple(found)
