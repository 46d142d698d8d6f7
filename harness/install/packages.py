"""Packages of Maven repositories, brought by Spark's own resolver: the user's repositories and mirrors are asked
(`spark.jars.repositories`, `spark.jars.ivySettings`, `DEFAULT_ARTIFACT_REPOSITORY`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..core.errors import MissingTool
from .machine import Java, Spark
from .private_files import write_private
from .settings import as_properties

PACKAGES: Final = "spark.jars.packages"
SECONDS: Final = 300
"""How long it may take to bring them."""
_IVY: Final = "spark.jars.ivy"
_WHERE: Final = ("spark.jars.packages", "spark.jars.repositories", "spark.jars.excludes", "spark.jars.ivySettings")
_TELLING: Final = ("unresolved dependency", "download failed", "not found", "Exception", "no answer")


def resolve(
    settings: Mapping[str, str],
    folder: Path,
    java: Java,
    spark: Spark,
    environment: Mapping[str, str] | None = None,
    cache: Path | None = None,
) -> list[Path]:
    """The jars of `spark.jars.packages`, with all that those need, in `folder`, which is private to this. Of the other
    settings those count that say where to look. What has been downloaded is kept in `cache`, where there is one.

    Raises MissingTool, with what the resolver said of it, where they cannot be had.
    """
    env = os.environ if environment is None else environment
    program = folder / "nothing.py"
    # Not what resolves: a program that does nothing, because Spark resolves packages for a program alone.
    program.write_text("")
    asked = {name: settings[name] for name in _WHERE if settings.get(name)}
    if cache is not None:
        _keep_downloads(folder, cache)
    properties = write_private(folder / "spark.properties", as_properties({**asked, _IVY: str(folder)}))
    command = [str(spark.home / "bin" / "spark-submit"), "--master", "local[1]", "--packages", asked[PACKAGES]]
    command += ["--properties-file", str(properties), "--conf", f"{_IVY}={folder}"]
    command += ["--conf", "spark.ui.enabled=false", str(program)]
    child = {
        **env,
        "SPARK_HOME": str(spark.home),
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    try:
        done = subprocess.run(
            ["bash", *command], env=child, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise _not_fetched(asked[PACKAGES], f"no answer within {SECONDS} s") from None
    except OSError as error:
        raise MissingTool(f"{command[0]} cannot be run: {error}") from error
    jars = sorted((folder / "jars").glob("*.jar"))
    if not jars or done.returncode != 0:
        raise _not_fetched(asked[PACKAGES], _reason(done.stdout + done.stderr))
    return jars


def packages_cache(settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> Path:
    """That of the resolver which the user has named, else one of streamproof's."""
    env = os.environ if environment is None else environment
    home = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(settings[_IVY], "cache") if settings.get(_IVY) else home / "streamproof" / "packages"


def _keep_downloads(folder: Path, cache: Path) -> None:
    """The resolver has its cache beside its jars, of which none are wanted but those that are asked for."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        (folder / "cache").symlink_to(cache.resolve())
    except OSError:
        # It takes longer then, and that is all.
        return


def _not_fetched(coordinates: str, why: str) -> MissingTool:
    return MissingTool(
        f"{coordinates} could not be fetched ({why}): connect this machine to a network, or name a repository that it "
        "reaches in DEFAULT_ARTIFACT_REPOSITORY or in Spark's spark.jars.ivySettings"
    )


def _reason(said: str) -> str:
    """The line of Spark's that says most."""
    lines = [line.strip(" \t:") for line in said.splitlines() if line.strip(" \t:")]
    for sign in _TELLING:
        for line in lines:
            if sign in line:
                return line
    return lines[-1] if lines else "Spark said nothing"
