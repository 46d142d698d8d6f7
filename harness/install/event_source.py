"""The harness's source as a jar, for the versions of Spark that need it in Java (`EventSource.java`).

It is compiled once for each Spark, by the compiler within, and kept in the user's cache:
`python -m streamproof.harness.install.event_source JAR`, run by the interpreter that has that pyspark.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from ..core.errors import OwnFailure, StorageFailed
from .machine import Java, Spark
from .spark_choice import link_package

CLASS: Final = "streamproof.EventSource"
"""As `format` takes it."""
_COMPILE_SECONDS: Final = 120
_YEAR: Final = (2000, 1, 1, 0, 0, 0)
"""Of what is in the jar, so that one that is made again is the same."""


def source_jar(spark: Spark, java: Java, environment: Mapping[str, str] | None = None) -> Path:
    """Where it is, made first where it is not there. Raises OwnFailure, StorageFailed."""
    env = os.environ if environment is None else environment
    stamp = hashlib.sha256(repr((_text(), spark.version, str(spark.home))).encode()).hexdigest()
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamproof"
    path = cache / f"source-{stamp[:16]}.jar"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(prefix="streamproof-source-") as folder:
        # Under another name first: what others see is there whole, or not there.
        new = path.with_suffix(f".{os.getpid()}.new")
        try:
            cache.mkdir(parents=True, exist_ok=True)
            _compile(spark, java, link_package(Path(folder)), new, env)
            new.replace(path)
        except OSError as error:
            raise StorageFailed(f"{path} cannot be written: {error}") from error
        finally:
            new.unlink(missing_ok=True)
    return path


def _text() -> str:
    return resources.files(__package__).joinpath("EventSource.java").read_text(encoding="utf-8")


def _compile(spark: Spark, java: Java, imported_from: Path, target: Path, environment: Mapping[str, str]) -> None:
    foreign = ("SPARK_", "PYSPARK_", "PYTHON")
    child = {name: value for name, value in environment.items() if not name.startswith(foreign)}
    child |= {"JAVA_HOME": str(java.home), "SPARK_HOME": str(spark.home), "SPARK_LOCAL_IP": "127.0.0.1"}
    child["PYTHONPATH"] = str(imported_from)
    command = [spark.python, "-m", __name__, str(target)]
    try:
        done = subprocess.run(
            command,
            env=child,
            cwd=imported_from,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMPILE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OwnFailure(f"the source of events cannot be compiled for Spark {spark.version}: {error}") from error
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-2000:]
        raise OwnFailure(f"the source of events cannot be compiled for Spark {spark.version}: {said}")


def _compiled(jvm: Any) -> dict[str, bytes]:
    """The classes by their names."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    if "getBytecodes" in dir(compiler):
        compiler.cook(_text())
        return {str(name): bytes(code) for name, code in compiler.getBytecodes().items()}
    # That of Spark 3.3 keeps what it makes to itself, and gives it a step below.
    janino = jvm.org.codehaus.janino
    parser = janino.Parser(janino.Scanner(None, jvm.java.io.StringReader(_text())))
    known = janino.ClassLoaderIClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    made = janino.UnitCompiler(parser.parseAbstractCompilationUnit(), known).compileUnit(True, True, True)
    return {str(one.getThisClassName()): bytes(one.toByteArray()) for one in made}


def main(target: str) -> None:
    from pyspark.java_gateway import launch_gateway

    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    try:
        classes = _compiled(gateway.jvm)
    finally:
        gateway.shutdown()
    with zipfile.ZipFile(target, "w") as jar:
        for name in sorted(classes):
            jar.writestr(zipfile.ZipInfo(name.replace(".", "/") + ".class", _YEAR), classes[name])


if __name__ == "__main__":
    main(sys.argv[1])
