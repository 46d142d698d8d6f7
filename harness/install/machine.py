"""What this machine offers an embedded cluster: a Java, a Spark, a toxiproxy, and what a child process may import.

The Spark is the one inside the pyspark package, found without importing it: the harness's process holds no JVM and no
pyspark.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import MissingTool

OLDEST_JAVA = 17
TOXIPROXY = "2.5.0"
"""The version that the project is tested with; the containers' image has the same."""


@dataclass(frozen=True)
class Java:
    home: Path
    version: int

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


@dataclass(frozen=True)
class Spark:
    home: Path
    scala: str
    version: str = ""
    """Of the pyspark package that holds it."""
    python: str = sys.executable
    """The interpreter in which that package is installed."""

    @property
    def own(self) -> bool:
        """Whether it is that of the harness's own interpreter."""
        return self.python == sys.executable

    @property
    def classpath(self) -> str:
        """As Spark's own launcher writes it, so that all JVMs of a run agree (a class-data archive needs that)."""
        slf4j = [str(jar) for jar in sorted((self.home / "jars").glob("slf4j-api-*.jar"))]
        return os.pathsep.join([f"{self.home}/conf", *slf4j, f"{self.home}/jars/*"])


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java of JAVA_HOME, else the one on PATH. MissingTool when there is none, or it is too old for Spark."""
    env = os.environ if environment is None else environment
    wanted = f"Spark needs Java {OLDEST_JAVA} or newer: install one (Debian: apt-get install openjdk-17-jre-headless)"
    named = env.get("JAVA_HOME")
    if named:
        java = Path(named) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise MissingTool(f"JAVA_HOME is {named!r}, but there is no bin/java in it. {wanted}, or unset JAVA_HOME")
    else:
        on_path = shutil.which("java", path=env.get("PATH"))
        if on_path is None:
            raise MissingTool(f"no java: JAVA_HOME is not set and none is on PATH. {wanted}")
        java = Path(on_path)
    version = _java_version(java)
    if version < OLDEST_JAVA:
        raise MissingTool(f"{java} is Java {version}. {wanted}, and point JAVA_HOME to it")
    # /usr/bin/java is a link on most systems; what it leads to is the home that Spark's launcher can use.
    home = java.resolve().parent.parent
    return Java(home if (home / "bin" / "java").exists() else java.parent.parent, version)


@functools.cache
def _java_version(java: Path) -> int:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as problem:
        raise MissingTool(f"{java} -version does not work: {problem}") from problem
    return parse_java_version(answer.stderr + answer.stdout)


def parse_java_version(text: str) -> int:
    """The feature number in what `java -version` prints: 17 for "17.0.15", 8 for "1.8.0_392"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None:
        raise MissingTool(f"cannot tell which Java this is: java -version printed {text.strip()[:200]!r}")
    return int(found[1])


def find_spark() -> Spark:
    """The Spark inside the pyspark package of this interpreter. MissingTool when there is none, or only a client."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise MissingTool(f"{sys.executable} has no pyspark: pip install 'pyspark>=4'")
    return spark_in(Path(next(iter(spec.submodule_search_locations))))


def spark_in(home: Path, python: str = sys.executable) -> Spark:
    """The Spark in the folder of a pyspark package. MissingTool when that is only a client."""
    for jar in (home / "jars").glob("spark-core_*.jar"):
        scala, _, version = jar.stem.partition("_")[2].partition("-")
        return Spark(home, scala, version, python)
    raise MissingTool(f"{home} holds no Spark (pyspark-client only?): pip install 'pyspark>=4'")


def link_home(spark: Spark, folder: Path) -> None:
    """Make a home for the same Spark that has its programs and jars, and not the Python modules that are zipped in it.

    Those would come first for every Python process of Spark's, and each would compile them for itself, which takes it
    half a second of CPU; without them they import the ones of the pyspark package, which are compiled. Raises OSError.
    """
    folder.mkdir()
    for part in ("bin", "jars"):
        (folder / part).symlink_to(spark.home / part, target_is_directory=True)


def find_toxiproxy(environment: Mapping[str, str] | None = None) -> Path:
    """The `toxiproxy-server` on PATH, else the one in streamproof's cache folder. MissingTool when there is none."""
    env = os.environ if environment is None else environment
    on_path = shutil.which("toxiproxy-server", path=env.get("PATH"))
    found = Path(on_path) if on_path else _toxiproxy_folder(env) / "server"
    if not os.access(found, os.X_OK):
        raise MissingTool(
            "no toxiproxy-server on PATH, which delays, narrows and slowly closes links between slices: install one "
            f"(with Go: {install_toxiproxy(env)})"
        )
    return found


def install_toxiproxy(environment: Mapping[str, str]) -> str:
    """The command that puts one where `find_toxiproxy` finds it."""
    folder = _toxiproxy_folder(environment)
    return f"GOBIN={folder} go install github.com/Shopify/toxiproxy/v2/cmd/server@v{TOXIPROXY}"


def _toxiproxy_folder(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamproof" / "toxiproxy"


def inherited_import_path(path: Iterable[str] | None = None, own: bool = True) -> str:
    """A PYTHONPATH with which a child imports what this process can (user code found through pytest, `-m`, ...).

    The interpreter's own folders are left out: every child has them anyway, and in PYTHONPATH they would come first.
    Where the child is of another interpreter than this one's `own`, packages that are installed are left out, too: it
    has others under the same names.
    """
    known = {os.path.realpath(p) for p in (*sysconfig.get_paths().values(), *site.getsitepackages())}
    known.add(os.path.realpath(sysconfig.get_path("stdlib") + "/lib-dynload"))
    entries = [os.path.abspath(entry) for entry in (sys.path if path is None else path)]
    kept = [entry for entry in entries if os.path.isdir(entry) and os.path.realpath(entry) not in known]
    if not own:
        kept = [entry for entry in kept if not _has_packages(Path(entry))]
    return os.pathsep.join(dict.fromkeys(kept))


def _has_packages(folder: Path) -> bool:
    """Whether it is a folder that packages are installed into, or has a pyspark of its own."""
    return folder.name in ("site-packages", "dist-packages") or (folder / "pyspark" / "__init__.py").exists()
