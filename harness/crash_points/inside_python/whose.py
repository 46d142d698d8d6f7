"""Which code is the user's: the packages and folders of the functions that a query hands over, and nothing else."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from ...contracts.query import Query

OURS: Final = __name__.partition(".")[0]
_SUBJECTS: Final = f"{OURS}.scenarios"
"""Part of the library that is as a user's."""
_SPARK: Final = frozenset({"pyspark", "py4j"})


class Whose(msgspec.Struct, frozen=True):
    """Where the user's code is. Each process of a run asks it of the code that it comes to."""

    packages: tuple[str, ...] = ()
    """By the names of modules: these, and what is in them."""
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Of code that lies in no folder, such as what was typed in."""

    def __bool__(self) -> bool:
        return bool(self.packages or self.folders or self.files)

    def owns(self, module: str, file: str) -> bool:
        """Whether code of this module, from this file, is the user's."""
        if module.partition(".")[0] in _SPARK or _is_ours(module):
            return False
        if file in self.files:
            return True
        if file.startswith("<"):
            # Made by a library: what a dataclass has for `__init__`.
            return False
        if any(_within(module, package, ".") for package in self.packages):
            return True
        return any(_within(file, folder, os.sep) for folder in self.folders) and not is_installed(file)


def whose_code(query: Query) -> Whose:
    """Of a query: the packages of what it hands over, and of what that refers to outside of any installed one. `read`
    is a consumer's."""
    packages: set[str] = set()
    folders: set[str] = set()
    files: set[str] = set()
    for function, direct in parts_handed_over(query):
        module, file = _home(function)
        top = module.partition(".")[0]
        installed = is_installed(file)
        if top in _SPARK or top in sys.stdlib_module_names or _is_ours(module) or (installed and not direct):
            continue
        if module != "__main__":
            packages.add(_SUBJECTS if top == OURS else top)
        if top == OURS or installed or (module != "__main__" and _is_package(top)):
            continue
        # A script, or a module by itself: what lies beside it is theirs too.
        if file.startswith("<"):
            files.add(file)
        elif file:
            folders.add(os.path.dirname(os.path.abspath(file)))
    return Whose(tuple(sorted(packages)), tuple(sorted(folders)), tuple(sorted(files)))


@cache
def is_installed(file: str) -> bool:
    """Whether Python or one of its package managers has put the file there."""
    if any(part in ("site-packages", "dist-packages") for part in file.split(os.sep)):
        return True
    return any(_within(file, folder, os.sep) for folder in _installed_folders())


@cache
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {*site.getsitepackages()}
    return tuple({path for one in found for path in (one, os.path.realpath(one))})


def _within(name: str, outer: str, separator: str) -> bool:
    return name == outer or name.startswith(outer.rstrip(separator) + separator)


def _is_ours(module: str) -> bool:
    return _within(module, OURS, ".") and not _within(module, _SUBJECTS, ".")


def _is_package(top: str) -> bool:
    return hasattr(sys.modules.get(top), "__path__")


def _home(function: FunctionType | type | ModuleType) -> tuple[str, str]:
    """The module and the file of a function or class."""
    if isinstance(function, ModuleType):
        return function.__name__, getattr(function, "__file__", None) or ""
    if isinstance(function, FunctionType):
        return function.__module__ or "__main__", function.__code__.co_filename
    own = (one.__code__.co_filename for one in vars(function).values() if isinstance(one, FunctionType))
    module = function.__module__
    return module, next(own, getattr(sys.modules.get(module), "__file__", None) or "")


def parts_handed_over(query: Query) -> Iterator[tuple[FunctionType | type | ModuleType, bool]]:
    """Functions, classes and modules; and whether they were handed over, or are what such a one refers to."""
    seen: dict[int, object] = {}
    """Kept, so that nothing else has their identity."""
    waiting: list[tuple[Any, bool]] = [(one, True) for one in (query.transform, query.write, query.source)]
    while waiting:
        given, direct = waiting.pop()
        if given is None or id(given) in seen or isinstance(given, CodeType):
            continue
        seen[id(given)] = given
        if isinstance(given, ModuleType):
            yield given, False
        elif isinstance(given, partial):
            waiting += [(one, direct) for one in (given.func, *given.args, *given.keywords.values())]
        elif isinstance(given, MethodType):
            waiting += [(given.__func__, direct), (given.__self__, direct)]
        elif isinstance(given, FunctionType):
            yield given, direct
            waiting.append((getattr(given, "__wrapped__", None), direct))
            if not is_installed(given.__code__.co_filename):
                waiting += [(one, False) for one in _referred_to(given)]
        elif isinstance(given, type):
            yield given, direct
            waiting += [(base, False) for base in given.__bases__]
            if not _is_ours(given.__module__) and not is_installed(_home(given)[1]):
                waiting += [(one, False) for one in vars(given).values() if isinstance(one, FunctionType)]
        elif callable(given) or not _is_plain(given):
            kind = type(given)
            waiting.append((kind, direct))
            # What stands for the user's code carries it: a part of a query. Else, it is what the code refers to.
            ours = _is_ours(kind.__module__)
            if hasattr(given, "__dict__") and (ours or not is_installed(_home(kind)[1])):
                waiting += [(one, direct and ours) for one in vars(given).values()]


def _is_plain(given: object) -> bool:
    return type(given).__module__ == "builtins"


def _referred_to(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield _if_code(cell.cell_contents)
        except ValueError:
            # Not bound yet.
            continue
    for name in function.__code__.co_names:
        yield _if_code(function.__globals__.get(name))
    yield from map(_if_code, function.__defaults__ or ())


def _if_code(found: object) -> object:
    """Not what is only kept: a query that refers to a frame, a lock or a client of a library."""
    return found if isinstance(found, FunctionType | MethodType | partial | type | ModuleType) else None
