"""The code under test, as containers see it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ...install.import_places import import_places
from ...install.machine import inherited_import_path
from . import image

_CODE = Path("/opt/streamproof")
"""Where it is mounted."""


@dataclass(frozen=True)
class Code:
    """What containers import that is not in the image, and where they find it."""

    mounts: Mapping[str, Path]
    """Folder inside -> folder of this machine."""
    import_path: str


def code_under_test(python: str = sys.executable) -> Code:
    """This package and the user's import path come before the image's packages, all else that is installed for that
    interpreter after them: what the user's code needs, in versions that do not get in the way of Spark's."""
    mounts = {f"{_CODE}/package/streamproof": Path(str(files("streamproof")))}
    first, last = [f"{_CODE}/package"], [str(image.SITE)]
    for number, entry in enumerate(filter(None, inherited_import_path(own=python == sys.executable).split(os.pathsep))):
        inside = f"{_CODE}/path/{number}"
        mounts[inside] = Path(entry)
        first.append(inside)
    for number, entry in enumerate(import_places(python).installed):
        inside = f"{_CODE}/installed/{number}"
        mounts[inside] = Path(entry)
        last.append(inside)
    return Code(mounts, os.pathsep.join((*first, *last)))
