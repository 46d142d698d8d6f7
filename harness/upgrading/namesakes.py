"""Modules of one name that both versions bring: in one process, the first that is imported is the other one's, too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from ..core.errors import InvalidScenario
from ..core.pickling import modules_of_the_user


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
                raise InvalidScenario(
                    f"{importing} imports {name!r}, which is one module in {other} and another in {place}: both "
                    "versions are imported in one process, where one of them would run with the other's; make the "
                    f"folder of each a package, with an __init__.py, and import it from there: from .{name} import ..."
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
