"""What lines and calls of the user's code are called: the same in every process and every run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

CALLS: Final = " calls "

_WITHOUT_EFFECT: Final = frozenset(
    """
    abc ast base64 binascii bisect builtins codecs collections colorsys contextvars copy copyreg csv dataclasses
    datetime decimal difflib enum fractions frozen_importlib frozen_importlib_external functools genericpath
    gettext hashlib heapq hmac html importlib inspect io itertools json keyword linecache locale logging math
    numbers operator ordereddict posixpath pprint random re reprlib secrets signal sre statistics string struct
    textwrap thread threading time token tokenize traceback types typing unicodedata uuid warnings weakref
    zipimport zlib zoneinfo
    """.split()  # noqa: SIM905
)
"""Modules of the standard library whose calls leave nothing behind, or nothing but a log: they are no crash points."""
_EXCEPT: Final = frozenset({"io.open", "io.open_code"})
_OWNER: Final = {"posix": "os", "nt": "os"}
_ASKED: Final = f"{__name__.rpartition('.')[0]}.attached"
"""What SQLite asks of the harness while the user's code calls it is no call of that."""
_STRANGE: Final = re.compile(r"[\s/#]+")


def module_of(frame: FrameType) -> str:
    """By which the module is imported, for that of the process as well."""
    return _module_in(frame.f_globals)


def module_of_code(function: FunctionType) -> str:
    """Of a function, as of its frames: one that stands for another says of itself that it is of that one's module."""
    return _module_in(function.__globals__)


def _module_in(space: Mapping[str, Any]) -> str:
    name = space.get("__name__")
    if name == "__main__":
        spec = space.get("__spec__")
        name = getattr(spec, "name", name)
    return name if isinstance(name, str) else "?"


def function_of(frame: FrameType) -> str:
    return name_in(module_of(frame), frame.f_code)


def first_line_of(module: str, code: CodeType) -> str:
    """`sinks.write:12`, where a function begins."""
    return f"{name_in(module, code)}:{code.co_firstlineno}"


def name_in(module: str, code: CodeType) -> str:
    """Of a function, by its module and its code."""
    return _STRANGE.sub("_", f"{module}.{code.co_qualname}")


def call_of(frame: FrameType) -> str | None:
    """The name of a function that was called, by its frame; None where it leaves nothing behind, and where the garbage
    collector has called it, which it does at any time."""
    return called_of(module_of(frame), frame.f_code)


def called_of(module: str, code: CodeType) -> str | None:
    """The same, by its module and its code."""
    if code.co_name == "__del__" or module == _ASKED or _plain(module):
        return None
    if code.co_qualname.startswith("PurePath."):
        return None
    if module == "contextlib" and code.co_name in ("__init__", "__enter__", "helper"):
        return None
    return name_in(module, code)


def builtin_call_of(function: Any) -> str | None:
    """The same of one that has no frame: it is in C."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, ModuleType):
        module = function.__module__ or getattr(owner, "__name__", "builtins")
        called = function.__name__
    else:
        kind = owner if isinstance(owner, type) else type(owner)
        module, called = kind.__module__, f"{kind.__qualname__}.{function.__name__}"
    return _builtin(str(module), called)


@cache
def _builtin(module: str, called: str) -> str | None:
    top, dot, rest = module.partition(".")
    top = top.lstrip("_") or top
    name = _STRANGE.sub("_", f"{_OWNER.get(top, top)}{dot}{rest}.{called}")
    if name in _EXCEPT or (top == "io" and called.partition(".")[0] not in ("StringIO", "BytesIO", "open_code")):
        # A file that is written to, and closed.
        return name
    return None if _plain(module) else name


@cache
def _plain(module: str) -> bool:
    top = module.partition(".")[0]
    return (top.lstrip("_") or top) in _WITHOUT_EFFECT


def is_quick(function: object) -> bool:
    """Whether there is no need to ask: a method of a list, a number, a text."""
    owner = getattr(function, "__self__", None)
    return type(function) is BuiltinFunctionType and type(owner) in _BUILT_IN


_BUILT_IN: Final = frozenset(
    {list, dict, set, frozenset, tuple, str, bytes, bytearray, int, float, complex, range, slice}
)


def place_of(frame: FrameType) -> str:
    """`sinks.write:17`, where a frame is."""
    return f"{function_of(frame)}:{frame.f_lineno}"


def place_in(key: str) -> str:
    """The same, of the key of a point: of `3/sinks.write:17 calls os.rename#1`."""
    return key.partition("/")[2].rpartition("#")[0].partition(CALLS)[0]


def shortened(path: str) -> str:
    """Without what is drawn at random in the name of a temporary file, and where each run has a folder for those."""
    given = os.environ.get("TMPDIR")
    folder = os.path.realpath(given) if given else ""
    if folder and path.startswith(folder + os.sep):
        path = f"$TMPDIR{path.removeprefix(folder)}"
    return _RANDOM.sub("tmp…", path)


def is_drawn(path: str) -> bool:
    """Whether there is something in it that is drawn at random for a temporary file."""
    return _RANDOM.search(path) is not None


_RANDOM: Final = re.compile(r"(?<![A-Za-z0-9])tmp[a-z0-9_]{8}(?![A-Za-z0-9])")
