"""Where a query's packages and jars come from when it runs in containers, which have no way out: no Spark is needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamproof.harness.core.errors import InvalidScenario, MissingTool
from streamproof.harness.install.machine import Java, Spark
from streamproof.harness.worlds.docker import jars
from streamproof.harness.worlds.docker.jars import bring_jars

COORDINATES = "org.example:upload:1.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that containers would see."""
    return tmp_path / "scratch" / "jars"


@pytest.fixture
def spark(tmp_path: Path) -> Spark:
    """Whose resolver is asked."""
    return Spark(tmp_path / "spark", "2.13")


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for Spark's resolver: it brings two jars of whatever is asked for, and leaves here what it was told."""
    told = tmp_path / "told"
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(
        f"""while [ $# -gt 0 ]; do
  case "$1" in
    --packages) packages=$2; shift;;
    --properties-file) cp "$2" {told}; shift;;
    spark.jars.ivy=*) ivy="${{1#spark.jars.ivy=}}";;
  esac
  shift
done
case "$packages" in *nowhere*) echo "unresolved dependency: $packages: not found" >&2; exit 1;; esac
mkdir -p "$ivy/jars" && echo one > "$ivy/jars/upload-1.0.jar" && echo two > "$ivy/jars/needed-2.0.jar"
[ -e "$ivy/cache/upload" ] && echo again >> {told}
echo > "$ivy/cache/upload"
"""
    )
    monkeypatch.setattr(jars, "find_java", lambda: Java(tmp_path / "java", 17))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return told


def test_what_names_no_jars_stays_as_it_is(folder: Path, spark: Spark) -> None:
    settings = {"spark.sql.shuffle.partitions": "2"}
    assert bring_jars(settings, folder, spark) == settings
    assert not folder.exists()


def test_jars_of_this_machine_are_copied_and_others_are_left_to_spark(
    folder: Path, tmp_path: Path, spark: Spark
) -> None:
    mine, other = tmp_path / "mine.jar", tmp_path / "with space.jar"
    mine.write_bytes(b"mine")
    other.write_bytes(b"other")
    given = f"{mine}, {other.as_uri()},hdfs://store/its.jar"
    found = bring_jars({"spark.jars": given}, folder, spark)
    assert found == {"spark.jars": f"{folder / 'mine.jar'},{folder / 'with space.jar'},hdfs://store/its.jar"}
    assert (folder / "mine.jar").read_bytes() == b"mine"
    assert (folder / "with space.jar").read_bytes() == b"other"


def test_a_jar_that_is_not_there_is_said_before_anything_starts(folder: Path, tmp_path: Path, spark: Spark) -> None:
    with pytest.raises(InvalidScenario, match=r"the jar .*/none\.jar is not there"):
        bring_jars({"spark.jars": f"{tmp_path}/none.jar"}, folder, spark)


def test_packages_are_resolved_here_and_handed_over_as_jars(
    folder: Path, asked: Path, tmp_path: Path, spark: Spark
) -> None:
    mine = tmp_path / "mine.jar"
    mine.write_bytes(b"mine")
    settings = {
        "spark.jars": str(mine),
        "spark.jars.packages": COORDINATES,
        "spark.jars.repositories": "https://repository.example",
        "spark.acme.password": "secret",
    }
    found = bring_jars(settings, folder, spark)
    names = [folder / "needed-2.0.jar", folder / "upload-1.0.jar"]
    assert found["spark.jars"].split(",") == [str(folder / "mine.jar"), *map(str, names)]
    # Of what holds no module, Python is not told.
    assert "spark.submit.pyFiles" not in found
    assert "spark.jars.packages" not in found
    assert found["spark.acme.password"] == "secret"
    told = asked.read_text()
    assert "spark.jars.repositories=https://repository.example\n" in told
    assert "secret" not in told


def test_what_was_downloaded_once_is_kept_for_the_user(folder: Path, asked: Path, spark: Spark) -> None:
    bring_jars({"spark.jars.packages": COORDINATES}, folder, spark)
    assert "again" not in asked.read_text()
    asked.unlink()
    assert "needed-2.0.jar" in bring_jars({"spark.jars.packages": COORDINATES}, folder / "other", spark)["spark.jars"]
    assert not asked.exists()
    bring_jars({"spark.jars.packages": "org.example:upload:1.1"}, folder, spark)
    assert "again" in asked.read_text()


def test_the_cache_of_the_resolver_that_the_user_names_is_used(
    folder: Path, asked: Path, tmp_path: Path, spark: Spark
) -> None:
    own = tmp_path / "own"
    bring_jars({"spark.jars.packages": COORDINATES, "spark.jars.ivy": str(own)}, folder, spark)
    assert os.listdir(own / "cache") == ["upload"]


@pytest.mark.usefixtures("asked")
def test_packages_that_cannot_be_had_are_named_with_the_reason(folder: Path, spark: Spark) -> None:
    wanted = r"org\.nowhere:none:1 could not be fetched \(unresolved dependency: .*DEFAULT_ARTIFACT_REPOSITORY"
    with pytest.raises(MissingTool, match=wanted):
        bring_jars({"spark.jars.packages": "org.nowhere:none:1"}, folder, spark)
