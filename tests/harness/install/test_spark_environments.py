"""Environments with other versions of Spark: one that was not made to its end is taken for none."""

import fcntl
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamproof.harness.core.errors import InvalidScenario, MissingTool, RunFolderInUse, StorageFailed, UnknownName
from streamproof.harness.install import spark_environments
from streamproof.harness.install.spark_environments import (
    SparkEnvironment,
    add_environment,
    beside_pyspark,
    environment_with,
    environments,
    remove_environment,
)

HERE = "4.1.3"


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path)}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "streamproof" / "spark"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Environments are empty folders; which were made."""
    found: list[str] = []

    def make(one: SparkEnvironment, index: Sequence[str]) -> None:
        one.folder.mkdir()
        found.append(one.version)

    monkeypatch.setattr(spark_environments, "_make", make)
    return found


def test_one_is_made_once(cache: dict[str, str], home: Path, made: list[str]) -> None:
    added = add_environment(HERE, cache)
    assert added == SparkEnvironment(HERE, home / HERE, whole=True)
    assert added.python == home / HERE / "bin" / "python"
    assert environment_with(HERE, cache) == add_environment(HERE, cache) == added
    assert made == [HERE]


def test_releases_of_arrow_that_spark_fails_with_are_left_out_for_it() -> None:
    of_arrow = {v: [one for one in beside_pyspark(v) if one.startswith("pyarrow")] for v in ("4.0.4", "4.1.3", "4.2.0")}
    assert of_arrow == {"4.0.4": ["pyarrow<26"], "4.1.3": ["pyarrow<26"], "4.2.0": []}


def test_they_are_listed_by_their_numbers(cache: dict[str, str], home: Path, made: list[str]) -> None:
    assert environments(cache) == []
    for version in ("4.10.0", "4.2.0", "3.5.9"):
        add_environment(version, cache)
    (home / "notes").touch()
    assert [one.version for one in environments(cache)] == ["3.5.9", "4.2.0", "4.10.0"]


@pytest.mark.parametrize("how", [KeyboardInterrupt, MissingTool])
def test_nothing_is_left_of_one_that_could_not_be_made(
    how: type[BaseException], cache: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(one: SparkEnvironment, index: Sequence[str]) -> None:
        (one.folder / "bin").mkdir(parents=True)
        raise how

    monkeypatch.setattr(spark_environments, "_make", make)
    with pytest.raises(how):
        add_environment(HERE, cache)
    assert environments(cache) == []
    assert not (home / HERE).exists()


def test_what_somebody_has_left_who_was_killed_is_no_environment_and_is_made_anew(
    cache: dict[str, str], home: Path, made: list[str]
) -> None:
    (home / HERE / "bin").mkdir(parents=True)
    (home / HERE / "bin" / "python").touch()
    assert [one.whole for one in environments(cache)] == [False]
    with pytest.raises(MissingTool, match=r"no environment with pyspark 4\.1\.3; .*: streamproof spark add 4\.1\.3$"):
        environment_with(HERE, cache)
    assert add_environment(HERE, cache).whole
    assert not (home / HERE / "bin").exists()


def test_one_is_removed_whole_or_not(cache: dict[str, str], home: Path, made: list[str]) -> None:
    add_environment(HERE, cache)
    (home / "4.2.0").mkdir()
    for version in (HERE, "4.2.0"):
        remove_environment(version, cache)
    assert environments(cache) == []
    with pytest.raises(UnknownName, match=r"no environment with pyspark '4\.1\.3'; there are: none"):
        remove_environment(HERE, cache)


def test_two_do_not_make_one_at_once(cache: dict[str, str], home: Path, made: list[str]) -> None:
    home.mkdir(parents=True)
    lock = os.open(home / f"{HERE}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunFolderInUse, match="wait for that"):
            add_environment(HERE, cache)
    finally:
        os.close(lock)
    assert add_environment(HERE, cache).whole


@pytest.mark.parametrize("version", ["4.1", "4.1.3.dev1", "../4.1.3", "latest", ""])
def test_what_is_no_version_is_refused(version: str, cache: dict[str, str]) -> None:
    with pytest.raises(InvalidScenario, match=r"as in 4\.1\.3"):
        add_environment(version, cache)


def test_a_cache_that_cannot_be_written_to_is_said(tmp_path: Path, made: list[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="cannot be written to"):
        add_environment(HERE, {"XDG_CACHE_HOME": str(tmp_path / "file")})


@pytest.mark.long
def test_a_version_that_cannot_be_had_is_said_with_what_pip_says_of_it(cache: dict[str, str], home: Path) -> None:
    with pytest.raises(MissingTool, match=r"pyspark 4\.1\.99 cannot be had for Python 3\.\d+: ERROR: .*pyspark"):
        add_environment("4.1.99", cache, index=["--no-index"])
    assert not (home / "4.1.99").exists()


def test_python_without_pip_is_said(cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(
            command, 1, "", "Error: Command 'ensurepip' returned non-zero exit status 1."
        )

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(MissingTool, match=r"python3-venv\)\): Error: .*ensurepip"):
        add_environment(HERE, cache)
