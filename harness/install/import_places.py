"""Where an interpreter, this one or another, finds what is installed for it."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..core.errors import MissingTool
from .spark_environments import ask_python

_ASK: Final = """\
import json, site, sys, sysconfig
installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
print(json.dumps({"path": sys.path, "installed": installed}))
"""


@dataclass(frozen=True)
class ImportPlaces:
    path: tuple[str, ...]
    """All of its import path."""
    installed: tuple[str, ...]
    """The folders that packages are installed into."""


def import_places(python: str = sys.executable) -> ImportPlaces:
    """Of that interpreter. Of this one it is the path that it has now. Raises MissingTool for what cannot be asked."""
    said = _said_by(python)
    return ImportPlaces(tuple(sys.path), said.installed) if python == sys.executable else said


@functools.cache
def _said_by(python: str) -> ImportPlaces:
    said = ask_python(python, _ASK, about="where its packages are")
    try:
        return ImportPlaces(_folders(said["path"]), _folders(said["installed"]))
    except (LookupError, TypeError) as error:
        raise MissingTool(f"{python} cannot be asked where its packages are: {error}") from error


def _folders(entries: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(entry) for entry in entries if entry and os.path.isdir(entry)))
