"""Which installed packages the user's functions use that have code in C, as far as they say so by names: of what such
code does, Python tells nobody."""

from __future__ import annotations

import dis
import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Final

from .own_lines import codes_in, own_functions
from .whose import OURS, whose_code

if TYPE_CHECKING:
    from ...contracts.query import Query

_NO_OTHERS: Final = (sys.stdlib_module_names - {"ctypes"}) | {"pyspark", "py4j", "__main__", OURS}
"""But for what is made to call code in C."""


def packages_in_c(query: Query) -> tuple[str, ...]:
    """Their names, in order. What these use in turn is not looked into."""
    own = {one.partition(".")[0] for one in whose_code(query).packages}
    named = {name.partition(".")[0] for function in own_functions(query) for name in _modules_in(function)}
    return tuple(sorted(filter(_has_code_in_c, named - own - _NO_OTHERS)))


def _modules_in(function: FunctionType) -> Iterator[str]:
    """The modules that a function imports, and those of what it names."""
    for code in codes_in(function.__code__):
        for name in code.co_names:
            held = function.__globals__.get(name)
            found = held.__name__ if isinstance(held, ModuleType) else getattr(held, "__module__", None)
            if isinstance(found, str):
                yield found
        yield from (one.argval for one in dis.get_instructions(code) if one.opname == "IMPORT_NAME")


def _has_code_in_c(package: str) -> bool:
    """Of one that is not installed here, nobody knows it."""
    if package == "ctypes":
        return True
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        found = None
    if found is None:
        return False
    suffixes = tuple(EXTENSION_SUFFIXES)
    folders = found.submodule_search_locations or ()
    return (found.origin or "").endswith(suffixes) or any(
        one.name.endswith(suffixes) for folder in folders for one in Path(folder).rglob("*.*")
    )
