"""Builds the class archive for this Java and this Spark, if there is none: run as a module, it prints where it is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ...core.errors import ProcessDied, StorageFailed, StreamproofError
from ...install.class_archive import RECORDING, archive_path, remove_archives
from ...install.machine import Java, Spark, find_java, find_spark
from .options import EmbeddedOptions
from .processes import SparkProcesses


def build_archive(spark: Spark | None = None) -> Path:
    """Run a small cluster of this Spark, or this interpreter's, note which classes it loads, and archive them, if that
    has not been done. Returns the archive."""
    java, spark = find_java(), spark or find_spark()
    archive = archive_path(java, spark)
    if archive.exists():
        return archive
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StorageFailed(f"{archive.parent} cannot be made: {problem}") from problem
    with tempfile.TemporaryDirectory(prefix="streamproof-classes-") as folder:
        lists = Path(folder, "lists")
        lists.mkdir()
        os.environ[RECORDING] = str(lists)
        try:
            label, options = f"class-archive-{os.getpid()}", EmbeddedOptions(workers=1)
            cluster = SparkProcesses(label, Path(folder, "run"), options, spark)
        finally:
            del os.environ[RECORDING]
        with cluster:
            driver = cluster.start_driver("training", "streamproof.harness.worlds.embedded.training", [folder])
            if driver.wait(300) != 0:
                raise ProcessDied(f"the job that loads the classes failed:\n{driver.stderr.read_text()[-2000:]}")
        # A list that was cut off by the kill can end in half a line.
        lines = {line for path in lists.iterdir() for line in path.read_text().split("\n")[:-1]}
        merged = Path(folder, "merged")
        merged.write_text("".join(f"{line}\n" for line in sorted(lines) if _can_be_archived(line)))
        _dump(java, spark, merged, archive)
    archive.with_suffix(".home").write_text(str(spark.home))
    remove_archives(lambda other, home: other != archive and (home == spark.home or not home.exists()))
    return archive


def _can_be_archived(line: str) -> bool:
    """Not what Java makes up itself for method handles: with an agent that looks at classes as they are loaded, as the
    one that holds crash points is, Java 17 looks for the file of such a class, and dies of finding none."""
    return not line.startswith(("#", "@lambda-form-invoker", "java/lang/invoke/BoundMethodHandle$Species_"))


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


def main() -> int:
    try:
        print(build_archive())
    except StreamproofError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
