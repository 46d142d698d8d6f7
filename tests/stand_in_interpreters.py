"""Interpreters that stand for environments with another Spark: real ones, whose packages are no more than their names,
versions and files."""

from __future__ import annotations

import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path


def make_interpreter(home: Path, *modules: str, spark: str = "", **versions: str) -> str:
    """One in which these modules are to be found, a Spark of this version, and packages of these versions."""
    venv.create(home, symlinks=True)
    packages = packages_of(home)
    for module in modules:
        (packages / module).mkdir()
        (packages / module / "__init__.py").touch()
    if spark:
        scala = "2.12" if spark.startswith("3.") else "2.13"
        jars = packages / "pyspark" / "jars"
        jars.mkdir()
        (jars / f"spark-core_{scala}-{spark}.jar").touch()
    for module, number in versions.items():
        describe(packages, module, number)
    return str(home / "bin" / "python")


def packages_of(home: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(home)}))


def describe(packages: Path, module: str, number: str, needs: Mapping[str, str] | None = None) -> None:
    """Let it be installed in that version, with the files that it has by now."""
    described = packages / f"{module}-{number}.dist-info"
    described.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {module}", f"Version: {number}"]
    lines += [f"Requires-Dist: {name}{condition}" for name, condition in (needs or {}).items()]
    (described / "METADATA").write_text("\n".join([*lines, ""]))
    files = [path for path in (packages / module).rglob("*") if path.is_file()]
    recorded = "".join(f"{path.relative_to(packages)},,\n" for path in (*files, described / "METADATA"))
    (described / "RECORD").write_text(recorded)
