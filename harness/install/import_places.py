"""Where an interpreter, this one or another, finds what is installed for it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..core.errors import MissingTool
from .spark_environments import for_another_python

_ASK: Final = """\
import json, site, sys, sysconfig
installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
print(json.dumps({"path": sys.path, "installed": installed}))
"""
_ASK_SECONDS: Final = 60


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
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            env=for_another_python(),
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_SECONDS,
            check=True,
        )
        said = json.loads(done.stdout)
        return ImportPlaces(_folders(said["path"]), _folders(said["installed"]))
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
        raise MissingTool(f"{python} cannot be asked where its packages are: {error}") from error


def _folders(entries: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(entry) for entry in entries if entry and os.path.isdir(entry)))
