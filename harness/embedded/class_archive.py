"""An archive of Spark's classes, read and checked once, which halves the start of every Spark process.

It is a convenience: without it all works, slower. `python -m streamproof.harness.embedded.class_archive` builds it for
this Java and this Spark (a minute, 200 MB in the user's cache folder), and from then on every embedded cluster
uses it. One archive serves master, workers, executors and drivers, since all have the same class path; the classes are
those that a small cluster loads while it runs a job of each kind.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from ..errors import ProcessDied, StorageFailed
from .machine import Java, Spark, find_java, find_spark

_RECORDING = "STREAMPROOF_RECORD_CLASSES"


def archive_path(java: Java, spark: Spark) -> Path:
    """Where the archive for exactly this Java and these jars is kept. Java itself refuses one that does not fit."""
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in (spark.home / "jars").glob("*.jar"))
    binary = java.executable.stat()
    stamp = repr((str(java.home), binary.st_size, binary.st_mtime_ns, str(spark.home), jars))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "streamproof" / f"spark-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"


def archive_options(java: Java, spark: Spark) -> tuple[str, ...]:
    """What to tell a JVM: to use the archive, if there is one; to record classes, while one is being made."""
    recording = os.environ.get(_RECORDING)
    if recording:
        return (f"-XX:DumpLoadedClassList={recording}/%p.classes",)
    archive = archive_path(java, spark)
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


def build_archive() -> Path:
    """Run a small cluster, note which classes it loads, and archive them. Returns the archive."""
    from .processes import EmbeddedOptions, SparkProcesses

    java, spark = find_java(), find_spark()
    archive = archive_path(java, spark)
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StorageFailed(f"{archive.parent} cannot be made: {problem}") from problem
    with tempfile.TemporaryDirectory(prefix="streamproof-classes-") as folder:
        lists = Path(folder, "lists")
        lists.mkdir()
        os.environ[_RECORDING] = str(lists)
        try:
            cluster = SparkProcesses(f"class-archive-{os.getpid()}", Path(folder, "run"), EmbeddedOptions(workers=1))
        finally:
            del os.environ[_RECORDING]
        with cluster:
            driver = cluster.start_driver("training", "streamproof.harness.embedded.training", [folder])
            if driver.wait(300) != 0:
                raise ProcessDied(f"the job that loads the classes failed:\n{driver.stderr.read_text()[-2000:]}")
        # A list that was cut off by the kill can end in half a line.
        lines = {line for path in lists.iterdir() for line in path.read_text().split("\n")[:-1]}
        merged = Path(folder, "merged")
        merged.write_text("".join(f"{line}\n" for line in sorted(lines) if not line.startswith("#")))
        _dump(java, spark, merged, archive)
    return archive


def _dump(java: Java, spark: Spark, classes: Path, archive: Path) -> None:
    # Under another name first: what other runs see is there whole, or not there.
    new = archive.with_suffix(f".{os.getpid()}.new")
    command = [str(java.executable), "-Xshare:dump", "-Xmx1g", "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=error"]
    command += [f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={new}", "-cp", spark.classpath]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ProcessDied(f"java -Xshare:dump ended with status {done.returncode}: {done.stdout[-2000:]}")
        new.replace(archive)
    finally:
        new.unlink(missing_ok=True)


if __name__ == "__main__":
    print(build_archive())
