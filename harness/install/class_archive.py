"""An archive of Spark's classes, read and checked once, which halves the start of every Spark process.

A convenience: without it all works, slower. `python -m streamproof.harness.worlds.embedded.build_class_archive` builds
it for this Java and this Spark (a minute, 200 MB in the user's cache folder), and from then on every embedded cluster
uses it. One archive serves master, workers, executors and drivers, since all have the same class path; the classes are
those that a small cluster loads while it runs a job of each kind.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from .machine import Java, Spark

RECORDING = "STREAMPROOF_RECORD_CLASSES"
BUILD_ARCHIVE = "streamproof.harness.worlds.embedded.build_class_archive"
"""The module that makes one."""
_RECIPE = 2
"""Changes with what is put into an archive."""


def archive_path(java: Java, spark: Spark) -> Path:
    """Where the archive for exactly this Java and these jars is kept. Java itself refuses one that does not fit."""
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in (spark.home / "jars").glob("*.jar"))
    binary = java.executable.stat()
    stamp = repr((_RECIPE, str(java.home), binary.st_size, binary.st_mtime_ns, str(spark.home), jars))
    return _cache() / f"spark-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"


def remove_archives(stale: Callable[[Path, Path], bool]) -> None:
    """Those of installations that are gone, or are another now. Beside each archive stands where its Spark is."""
    for told in _cache().glob("spark-*.home"):
        archive = told.with_suffix(".jsa")
        if stale(archive, Path(told.read_text())):
            archive.unlink(missing_ok=True)
            told.unlink()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamproof"


def archive_options(java: Java, spark: Spark) -> tuple[str, ...]:
    """What to tell a JVM: to use the archive, if there is one; to record classes, while one is being made."""
    recording = os.environ.get(RECORDING)
    if recording:
        return (f"-XX:DumpLoadedClassList={recording}/%p.classes",)
    archive = archive_path(java, spark)
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
