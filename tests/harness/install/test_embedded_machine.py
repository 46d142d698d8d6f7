"""What the embedded cluster needs from the machine is found, or what to install is said."""

import os
import sys
from pathlib import Path

import pytest

from streamproof.harness.core.errors import MissingTool
from streamproof.harness.install.class_archive import archive_options, archive_path
from streamproof.harness.install.machine import (
    Java,
    Spark,
    find_java,
    find_spark,
    inherited_import_path,
    link_home,
    parse_java_version,
)
from streamproof.harness.install.settings import PROFILES, as_properties, profile_settings


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx="1"\nopenjdk version "25" 2025-09-16', 25),
    ],
)
def test_reads_the_version_of_java(banner: str, version: int) -> None:
    assert parse_java_version(banner) == version


def test_says_when_it_is_no_java() -> None:
    with pytest.raises(MissingTool, match="command line tools"):
        parse_java_version("no command line tools")


def fake_java(home: Path, version: str, status: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {status}\n")
    java.chmod(0o755)
    return home


class TestJava:
    def test_of_java_home_comes_before_the_one_on_path(self, tmp_path: Path) -> None:
        named, other = fake_java(tmp_path / "named", "21.0.1"), fake_java(tmp_path / "other", "17.0.1")
        java = find_java({"JAVA_HOME": str(named), "PATH": str(other / "bin")})
        assert (java.home, java.version, java.executable) == (named, 21, named / "bin" / "java")

    def test_on_path_is_followed_to_its_home(self, tmp_path: Path) -> None:
        home = fake_java(tmp_path / "home", "17.0.1")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
        assert find_java({"PATH": str(tmp_path / "bin")}).home == home

    def test_that_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(MissingTool, match=r"none is on PATH.*install"):
            find_java({"PATH": str(tmp_path)})
        with pytest.raises(MissingTool, match=r"no bin/java in it.*or unset JAVA_HOME"):
            find_java({"JAVA_HOME": str(tmp_path)})

    def test_that_is_too_old(self, tmp_path: Path) -> None:
        with pytest.raises(MissingTool, match=r"is Java 11\. Spark needs Java 17 or newer: install"):
            find_java({"JAVA_HOME": str(fake_java(tmp_path, "11.0.2"))})

    def test_that_does_not_run(self, tmp_path: Path) -> None:
        with pytest.raises(MissingTool, match="does not work"):
            find_java({"JAVA_HOME": str(fake_java(tmp_path, "17.0.1", status=1))})


class TestSpark:
    def test_is_found_without_importing_it(self) -> None:
        already = "pyspark" in sys.modules
        spark = find_spark()
        assert spark.scala == "2.13"
        assert (spark.home / "jars").is_dir()
        assert ("pyspark" in sys.modules) == already

    def test_is_linked_without_the_modules_that_are_zipped_in_it(self, tmp_path: Path) -> None:
        spark = find_spark()
        link_home(spark, tmp_path / "spark")
        linked = Spark(tmp_path / "spark", spark.scala)
        assert sorted(path.name for path in linked.home.iterdir()) == ["bin", "jars"]
        assert sorted((linked.home / "jars").iterdir())[0].samefile(sorted((spark.home / "jars").iterdir())[0])

    def test_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(MissingTool, match="has no pyspark: pip install"):
            find_spark()


def test_a_child_imports_what_this_process_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = ["", str(tmp_path / "missing"), "/", "/", *(entry for entry in sys.path if "site-packages" in entry)]
    assert inherited_import_path(path).split(os.pathsep) == [str(tmp_path), "/"]


def test_a_class_archive_is_used_when_there_is_one_for_these_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = Java(fake_java(tmp_path / "java", "17.0.1"), 17)
    spark = Spark(tmp_path / "spark", "2.13")
    jar = spark.home / "jars" / "spark-core_2.13-4.3.0.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    assert archive_options(java, spark) == ()
    archive = archive_path(java, spark)
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert archive_options(java, spark) == (f"-XX:SharedArchiveFile={archive}",)
    jar.write_text("another build")
    assert archive_options(java, spark) == ()


def test_a_profile_is_complete_and_plain() -> None:
    for name, profile in PROFILES.items():
        settings = profile_settings(name, 700)
        assert profile.items() <= settings.items()
        assert settings["spark.executor.memory"] == "700m"
        assert settings["spark.driver.host"] == "127.0.0.1"


def test_properties_keep_what_java_would_swallow() -> None:
    assert as_properties({"b": "c:\\d\ne", "a": "x = y"}) == "a=x = y\nb=c:\\\\d\\ne\n"
