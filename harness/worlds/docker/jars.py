"""The jars of a query, where containers see them. Their network has no way out: what is to be resolved is resolved out
here, and handed over as jars."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ...core.errors import InvalidScenario, StorageFailed
from ...install.machine import find_java, find_spark
from ...install.packages import PACKAGES, packages_cache, resolve

JARS: Final = "spark.jars"
PYTHON_FILES: Final = "spark.submit.pyFiles"


def bring_jars(settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The settings, with every jar that they name, and those of their packages, in `folder`.

    Raises MissingTool for packages that cannot be had, InvalidScenario for a jar that is not there.
    """
    named = [jar.strip() for jar in settings.get(JARS, "").split(",") if jar.strip()]
    if not named and not settings.get(PACKAGES):
        return dict(settings)
    found = dict(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        jars = [_brought(jar, folder) for jar in named]
        if settings.get(PACKAGES):
            resolved = _resolved(settings, folder)
            jars += resolved
            # Where Spark resolves them itself, what Python they hold can be imported, too.
            found[PYTHON_FILES] = ",".join(filter(None, [settings.get(PYTHON_FILES, ""), *resolved]))
            del found[PACKAGES]
    except OSError as error:
        raise StorageFailed(f"jars cannot be brought to {folder}: {error}") from error
    found[JARS] = ",".join(dict.fromkeys(jars))
    return found


def _brought(jar: str, folder: Path) -> str:
    """What is not a file of this machine stays as it is."""
    parts = urlsplit(jar)
    if parts.scheme not in ("", "file"):
        return jar
    path = Path(unquote(parts.path) if parts.scheme else jar)
    if not path.is_file():
        raise InvalidScenario(f"the jar {jar} is not there: name one of this machine by its whole path")
    return str(_copied(path, folder))


def _resolved(settings: Mapping[str, str], folder: Path) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="streamproof-packages-") as private:
        jars = resolve(settings, Path(private), find_java(), find_spark(), cache=packages_cache(settings))
        return [str(_copied(jar, folder)) for jar in jars]


def _copied(jar: Path, folder: Path) -> Path:
    target = folder / jar.name
    if not target.exists():
        shutil.copyfile(jar, target)
    return target
