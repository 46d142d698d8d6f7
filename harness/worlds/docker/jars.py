"""The jars of a query, where containers see them. Their network has no way out: what is to be resolved is resolved out
here, and handed over as jars."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...core.errors import InvalidScenario, StorageFailed
from ...install.machine import Spark, find_java
from ...install.packages import JARS, PACKAGES, handed_over, kept_jars


def bring_jars(settings: Mapping[str, str], folder: Path, spark: Spark) -> dict[str, str]:
    """The settings, with every jar that they name, and those of their packages for that Spark, in `folder`.

    Raises MissingTool for packages that cannot be had, InvalidScenario for a jar that is not there.
    """
    named = [jar.strip() for jar in settings.get(JARS, "").split(",") if jar.strip()]
    if not named and not settings.get(PACKAGES):
        return dict(settings)
    kept = kept_jars(settings, spark, find_java()) if settings.get(PACKAGES) else []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        brought = ",".join(dict.fromkeys(_brought(jar, folder) for jar in named))
        return handed_over({**settings, JARS: brought}, [_copied(jar, folder) for jar in kept])
    except OSError as error:
        raise StorageFailed(f"jars cannot be brought to {folder}: {error}") from error


def _brought(jar: str, folder: Path) -> str:
    """What is not a file of this machine stays as it is."""
    parts = urlsplit(jar)
    if parts.scheme not in ("", "file"):
        return jar
    path = Path(unquote(parts.path) if parts.scheme else jar)
    if not path.is_file():
        raise InvalidScenario(f"the jar {jar} is not there: name one of this machine by its whole path")
    return str(_copied(path, folder))


def _copied(jar: Path, folder: Path) -> Path:
    target = folder / jar.name
    if not target.exists():
        shutil.copyfile(jar, target)
    return target
