"""Which Spark a query runs on: the harness's own, that of an environment that was added, or of one of the user's."""

from __future__ import annotations

import functools
import os
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ..core.errors import InvalidScenario, MissingTool, StorageFailed, Unsupported
from .machine import Spark, find_spark, spark_in
from .python_versions import PACKAGES, python_versions
from .spark_environments import ask_python, environment_with

NUMBER: Final = re.compile(r"\d+\.\d+\.\d+")
_COORDINATES: Final = re.compile(r"[^\s:,]+:[^\s:,]+:[^\s:,]+")
_NEEDED: Final = {"msgspec": "msgspec>=0.19", "pyarrow": "pyarrow", "pandas": "pandas<3"}
"""What has to be installed beside pyspark, as Python imports it, and as pip knows it."""
_NEEDED_BEFORE_4: Final = {"cloudpickle": "cloudpickle>=3.1,<4"}
_ASK: Final = """\
import importlib, importlib.metadata, importlib.util, json, platform, sys
home = importlib.util.find_spec("pyspark")
places = list(home.submodule_search_locations) if home and home.submodule_search_locations else []
packages, names = sys.argv[1].split(), sys.argv[2:]
versions, wrong = {"python": platform.python_version()}, {}
for name in packages:
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
for name in names:
    try:
        importlib.import_module(name)
    except Exception as error:
        wrong[name] = "" if importlib.util.find_spec(name) is None else f"{type(error).__name__}: {error}"
print(json.dumps({"python": list(sys.version_info[:2]), "home": places, "versions": versions, "wrong": wrong}))
"""


def check_spark_name(wanted: str) -> None:
    """Raises InvalidScenario for what names neither a version nor an interpreter."""
    if wanted and os.sep not in wanted and not NUMBER.fullmatch(wanted):
        raise InvalidScenario(
            f"spark={wanted!r} is neither a version, as 4.1.3, nor the path of an interpreter, as .venv/bin/python"
        )


def chosen_spark(wanted: str = "") -> Spark:
    """The Spark of that version, or of that interpreter; without either, of this interpreter.

    Raises InvalidScenario for what names neither, MissingTool where it cannot be had, with what brings it, and
    Unsupported for an interpreter whose Python is another one than this.
    """
    check_spark_name(wanted)
    if not wanted:
        return find_spark()
    if os.sep in wanted:
        return _spark_of(os.path.abspath(wanted))
    if python_versions().get("pyspark") == wanted:
        return find_spark()
    return _spark_of(str(environment_with(wanted).python))


def chosen_version(wanted: str = "") -> str:
    """Its number, as its JVM says it: of a preview, pip has another one for the package."""
    return chosen_spark(wanted).version


def chosen_python(wanted: str = "") -> dict[str, str]:
    """The versions of the Python that drivers of that Spark run on, and of what is installed there."""
    spark = chosen_spark(wanted) if wanted else None
    return python_versions() if spark is None or spark.own else dict(_said_by(spark.python)["versions"])


@functools.cache
def _said_by(python: str) -> dict[str, Any]:
    asked = [" ".join(PACKAGES), *_NEEDED, *_NEEDED_BEFORE_4]
    said: dict[str, Any] = ask_python(python, _ASK, *asked, about="for its pyspark")
    return said


@functools.cache
def _spark_of(python: str) -> Spark:
    said = _said_by(python)
    here = sys.version_info[:2]
    if tuple(said["python"]) != here:
        theirs, ours = ".".join(map(str, said["python"])), ".".join(map(str, here))
        raise Unsupported(
            f"{python} is Python {theirs}, and streamproof runs on Python {ours}: code is handed over as it is "
            f"compiled, so both must be one; install streamproof for Python {theirs}, or name an interpreter of {ours}"
        )
    pip = f"{shlex.quote(python)} -m pip install"
    if not said["home"]:
        raise MissingTool(f"{python} has no pyspark: {pip} 'pyspark[sql]'")
    spark = spark_in(Path(said["home"][0]), python)
    needed = {**_NEEDED, **(_NEEDED_BEFORE_4 if spark.version.startswith("3.") else {})}
    wrong = {name: why for name, why in said["wrong"].items() if name in needed}
    if missing := [needed[name] for name in wrong]:
        words = " ".join(map(shlex.quote, missing))
        why = "".join(f" ({name} cannot be imported: {error})" for name, error in wrong.items() if error)
        raise MissingTool(f"{python} lacks what drivers need to speak to streamproof{why}: {pip} {words}")
    return spark


def check_packages(packages: Iterable[str], spark: Spark, named: bool = True) -> None:
    """Raises InvalidScenario for what are no Maven coordinates, and Unsupported for those that say that they are for
    another Scala, or, where somebody has `named` the Spark, for another Spark: without that, one of the line before may
    be all that there is."""
    line = ".".join(spark.version.split(".")[:2])
    for package in packages:
        if not _COORDINATES.fullmatch(package):
            raise InvalidScenario(
                f"{package!r} does not say which release of which package is meant: group:artifact:version does, as in "
                f"org.apache.spark:spark-sql-kafka-0-10_{spark.scala or '2.13'}:{spark.version}"
            )
        group, artifact, number = package.split(":")
        scala = re.search(r"_(2\.1\d)$", artifact)
        if scala and spark.scala and scala[1] != spark.scala:
            raise Unsupported(
                f"{package} is made for Scala {scala[1]}, and Spark {spark.version} has Scala {spark.scala}"
            )
        said = re.search(r"(?:[_-]|spark)(\d\.\d)(?:-bundle)?_2\.1\d$", artifact)
        made_for = said[1] if said else ".".join(number.split(".")[:2]) if group == "org.apache.spark" else line
        if named and made_for != line:
            raise Unsupported(
                f"{package} is made for Spark {made_for}, and the query runs on Spark {spark.version}: name the "
                f"package for {line}, or another Spark, as in spark={made_for + '.0'!r}"
            )


def link_package(folder: Path) -> Path:
    """Make a folder from which an interpreter in which streamproof is not installed imports it, and nothing else of
    this one's. Raises StorageFailed."""
    package = Path(__file__).resolve().parents[2]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / __package__.partition(".")[0]).symlink_to(package, target_is_directory=True)
    except FileExistsError:
        return folder
    except OSError as error:
        raise StorageFailed(f"{folder} cannot be made: {error.strerror or error}") from error
    return folder
