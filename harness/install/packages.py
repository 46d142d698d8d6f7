"""Packages of Maven repositories, brought by Spark's own resolver: the user's repositories and mirrors are asked
(`spark.jars.repositories`, `spark.jars.ivySettings`, `DEFAULT_ARTIFACT_REPOSITORY`).

What a query names is resolved before its run, by the harness, and lies in the user's cache from then on. A driver is
given jars: one that resolved for itself would ask the network at each of its starts, and might find something else
after a crash than before.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..core.errors import MissingTool, StorageFailed
from .machine import Java, Spark
from .private_files import write_private
from .settings import as_properties

PACKAGES: Final = "spark.jars.packages"
JARS: Final = "spark.jars"
PYTHON_FILES: Final = "spark.submit.pyFiles"
SECONDS: Final = 600
"""How long it may take to bring them: a connector with all that it needs is some ten megabytes."""
_IVY: Final = "spark.jars.ivy"
_WHERE: Final = ("spark.jars.packages", "spark.jars.repositories", "spark.jars.excludes", "spark.jars.ivySettings")
_RELEASE: Final = re.compile(r"(?!latest\.)[\w.-]+(?<!SNAPSHOT)")
"""A version under which a repository always has the same."""
_SETTINGS_FILE: Final = "spark.jars.ivySettings"
_moving: dict[str, list[Path]] = {}
"""What this process has resolved of packages whose version does not say for good what it is."""
_NOT_DOWNLOADED: Final = "download failed"
_TELLING: Final = ("unresolved dependency", _NOT_DOWNLOADED, "not found", "Exception", "no answer")


def with_jars(
    settings: Mapping[str, str], spark: Spark, java: Java, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The settings, with jars for the packages that they name. Raises MissingTool, StorageFailed."""
    found = kept_jars(settings, spark, java, environment) if settings.get(PACKAGES) else []
    return handed_over(settings, found)


def handed_over(settings: Mapping[str, str], resolved: Iterable[Path]) -> dict[str, str]:
    """The settings, with what was `resolved` for the packages that they name: as Spark itself would have it, in the
    class path, and in Python's import path where a jar holds modules."""
    found, jars = dict(settings), list(resolved)
    found.pop(PACKAGES, None)
    # Every process of a run copies what it is told of: a connector's jars come to a hundred megabytes.
    for name, named in ((JARS, jars), (PYTHON_FILES, [jar for jar in jars if _holds_modules(jar)])):
        if named:
            found[name] = ",".join([*filter(None, [found.get(name, "")]), *map(str, named)])
    return found


@functools.cache
def _holds_modules(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as content:
            return any(name.endswith(".py") for name in content.namelist())
    except (OSError, zipfile.BadZipFile):
        # Spark will say what is wrong with it.
        return False


def kept_jars(
    settings: Mapping[str, str], spark: Spark, java: Java, environment: Mapping[str, str] | None = None
) -> list[Path]:
    """The jars of `spark.jars.packages`, with all that those need, in the user's cache; resolved first where they are
    not there. Of a version that can become another (a snapshot, a range), what a process has found first stays what it
    is for that process.

    Raises MissingTool where they cannot be had, StorageFailed where they cannot be kept.
    """
    env = os.environ if environment is None else environment
    home = _cache(env) / "jars"
    stamp = _stamp(settings, spark, env)
    release = all(_RELEASE.fullmatch(one.rpartition(":")[2].strip()) for one in settings[PACKAGES].split(","))
    if not release and stamp in _moving:
        return _moving[stamp]
    if release and (found := _jars_in(home / stamp)):
        return found
    try:
        with _alone(home):
            # Somebody else may have resolved them while this one waited.
            if not (release and (found := _jars_in(home / stamp))):
                found = _kept(settings, home, stamp, release, spark, java, env)
    except OSError as error:
        raise StorageFailed(f"jars cannot be kept in {home}: {error}") from error
    if not release:
        _moving[stamp] = found
    return found


def _stamp(settings: Mapping[str, str], spark: Spark, environment: Mapping[str, str]) -> str:
    """Of all that decides what is found: Spark leaves out what it has itself."""
    asked = {name: settings.get(name, "") for name in _WHERE}
    try:
        told = Path(asked[_SETTINGS_FILE]).read_bytes() if asked[_SETTINGS_FILE] else b""
    except OSError:
        # The resolver will say what is wrong with it.
        told = b""
    where = environment.get("DEFAULT_ARTIFACT_REPOSITORY", "")
    return hashlib.sha256(repr((asked, told, where, spark.version, spark.scala)).encode()).hexdigest()[:16]


def _jars_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jar"))


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """The resolver's own cache takes one writer."""
    home.mkdir(parents=True, exist_ok=True)
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _kept(
    settings: Mapping[str, str],
    home: Path,
    stamp: str,
    release: bool,
    spark: Spark,
    java: Java,
    environment: Mapping[str, str],
) -> list[Path]:
    # Under another name first: what others see is there whole, or not there.
    new = home / f"{stamp}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    try:
        with tempfile.TemporaryDirectory(prefix="streamproof-packages-") as private:
            cache = packages_cache(settings, environment)
            jars = resolve(settings, Path(private), java, spark, environment, cache)
            for jar in jars:
                # Not a link into the resolver's cache, which others empty.
                shutil.copyfile(jar, new / jar.name)
        folder = home / (stamp if release else f"{stamp}-{_content(new)}")
        if not folder.exists():
            new.rename(folder)
        return _jars_in(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _content(folder: Path) -> str:
    sha = hashlib.sha256()
    for jar in _jars_in(folder):
        sha.update(jar.name.encode() + hashlib.sha256(jar.read_bytes()).digest())
    return sha.hexdigest()[:16]


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
    done = _resolving(settings, folder, java, spark, env, cache)
    if done.returncode != 0 and _NOT_DOWNLOADED in done.stdout + done.stderr and "SPARK_SUBMIT_OPTS" not in env:
        # Maven keeps descriptions without their jars in the user's home, for what it did not need; Spark's resolver
        # believes that both are there, and its cache remembers it. So again, without either.
        folder = folder / "again"
        folder.mkdir()
        away = {**env, "SPARK_SUBMIT_OPTS": f"-Duser.home={folder}"}
        again = _resolving(settings, folder, java, spark, away, None)
        done = again if again.returncode == 0 else done
    jars = sorted((folder / "jars").glob("*.jar"))
    if not jars or done.returncode != 0:
        raise _not_fetched(settings[PACKAGES], _reason(done.stdout + done.stderr))
    return jars


def _resolving(
    settings: Mapping[str, str],
    folder: Path,
    java: Java,
    spark: Spark,
    environment: Mapping[str, str],
    cache: Path | None,
) -> subprocess.CompletedProcess[str]:
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
        **environment,
        "SPARK_HOME": str(spark.home),
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    try:
        return subprocess.run(
            ["bash", *command], env=child, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise _not_fetched(asked[PACKAGES], f"no answer within {SECONDS} s") from None
    except OSError as error:
        raise MissingTool(f"{command[0]} cannot be run: {error}") from error


def packages_cache(settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> Path:
    """That of the resolver which the user has named, else one of streamproof's."""
    env = os.environ if environment is None else environment
    return Path(settings[_IVY], "cache") if settings.get(_IVY) else _cache(env) / "packages"


def _cache(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamproof"


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
