"""What a query's packages come to: resolved once, before a run, into the user's cache. No Spark is needed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import as_it_comes
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import MissingTool, StorageFailed
from streamproof.harness.install.machine import Java, Spark
from streamproof.harness.install.packages import kept_jars, with_jars
from streamproof.harness.worlds.embedded import cluster as embedded
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.scenarios.workloads import words

UPLOAD = "org.example:upload:1.0"


class Resolver:
    """Stands for Spark's: it brings two jars of whatever is asked for, and notes that it was asked."""

    def __init__(self, home: Path) -> None:
        self._asked = home / "asked"
        self.content = home / "content"
        self.content.write_text("one")
        self.spark = Spark(home / "spark", "2.13", "4.1.3")
        self.java = Java(home / "java", 17)
        submit = self.spark.home / "bin" / "spark-submit"
        submit.parent.mkdir(parents=True)
        submit.write_text(
            f"""while [ $# -gt 0 ]; do
  case "$1" in
    --packages) packages=$2; shift;;
    spark.jars.ivy=*) ivy="${{1#spark.jars.ivy=}}";;
  esac
  shift
done
echo "$packages" >> {self._asked}
case "$packages" in *nowhere*) echo "unresolved dependency: $packages: not found" >&2; exit 1;; esac
case "$packages$SPARK_SUBMIT_OPTS" in *half-there*user.home=*) ;;
  *half-there*) echo "[download failed: org.example#needed;2.0!needed.jar]" >&2; exit 1;;
esac
mkdir -p "$ivy/jars" && cp {self.content} "$ivy/jars/upload-1.0.jar" && echo two > "$ivy/jars/needed-2.0.jar"
"""
        )

    @property
    def asked(self) -> list[str]:
        return self._asked.read_text().splitlines() if self._asked.exists() else []

    def jars(self, packages: str = UPLOAD, **settings: str) -> list[Path]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return kept_jars({"spark.jars.packages": packages, **named}, self.spark, self.java)


@pytest.fixture
def resolver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resolver:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DEFAULT_ARTIFACT_REPOSITORY", raising=False)
    return Resolver(tmp_path)


def test_a_release_is_resolved_once_and_lies_in_the_users_cache(resolver: Resolver, tmp_path: Path) -> None:
    first, second = resolver.jars(), resolver.jars()
    assert first == second
    assert [jar.name for jar in first] == ["needed-2.0.jar", "upload-1.0.jar"]
    assert all(tmp_path / "cache" / "streamproof" / "jars" in jar.parents for jar in first)
    assert resolver.asked == [UPLOAD]


def test_what_is_kept_is_there_for_another_process_that_has_no_network(resolver: Resolver, tmp_path: Path) -> None:
    kept = resolver.jars()
    assert [jar.read_text() for jar in kept] == ["two\n", "one"]
    (tmp_path / "spark" / "bin" / "spark-submit").unlink()
    assert resolver.jars() == kept


@pytest.mark.parametrize(
    "other",
    [
        {"packages": "org.example:upload:1.1"},
        {"spark_jars_repositories": "https://repository.example"},
        {"spark_jars_excludes": "org.example:needed"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_is_asked_for_in_another_way_is_resolved_anew(resolver: Resolver, other: dict[str, str]) -> None:
    resolver.jars()
    resolver.jars(**other)
    assert len(resolver.asked) == 2


def test_each_spark_has_its_own_since_the_resolver_leaves_out_what_it_has(resolver: Resolver) -> None:
    first = resolver.jars()
    resolver.spark = replace(resolver.spark, version="4.1.4")
    assert resolver.jars() != first
    assert len(resolver.asked) == 2


def test_where_to_look_is_what_the_users_file_says_now(resolver: Resolver, tmp_path: Path) -> None:
    told = tmp_path / "ivysettings.xml"
    for text in ("<one/>", "<one/>", "<another/>"):
        told.write_text(text)
        resolver.jars(spark_jars_ivySettings=str(told))
    assert len(resolver.asked) == 2


@pytest.mark.parametrize("version", ["1.0-SNAPSHOT", "latest.release", "[1.0,2.0)", "1.+"])
def test_a_version_that_can_become_another_stays_what_it_is_for_one_process_and_is_asked_for_by_the_next(
    resolver: Resolver, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"org.example:upload:{version}"
    first = resolver.jars(package)
    resolver.content.write_text("another")
    assert resolver.jars(package) == first
    # As a process that has just been started.
    monkeypatch.setattr("streamproof.harness.install.packages._moving", {})
    second = resolver.jars(package)
    assert [jar.read_text() for jar in second] == ["two\n", "another"]
    # Who still runs the first has it.
    assert [jar.read_text() for jar in first] == ["two\n", "one"]


def test_packages_that_cannot_be_had_are_named_with_the_reason_and_leave_nothing(
    resolver: Resolver, tmp_path: Path
) -> None:
    wanted = r"org\.nowhere:none:1 could not be fetched \(unresolved dependency: .*DEFAULT_ARTIFACT_REPOSITORY"
    with pytest.raises(MissingTool, match=wanted):
        resolver.jars("org.nowhere:none:1")
    assert [path.name for path in (tmp_path / "cache" / "streamproof" / "jars").iterdir()] == ["lock"]


def test_descriptions_without_jars_in_the_users_maven_are_no_reason_to_go_without(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    jars = resolver.jars("org.example:half-there:1.0")
    assert [jar.name for jar in jars] == ["needed-2.0.jar", "upload-1.0.jar"]
    assert len(resolver.asked) == 2


def test_one_that_was_given_up_midway_is_made_anew(resolver: Resolver) -> None:
    folder = resolver.jars()[0].parent
    folder.rename(folder.with_name(f"{folder.name}.new"))
    assert [jar.name for jar in resolver.jars()] == ["needed-2.0.jar", "upload-1.0.jar"]
    assert not folder.with_name(f"{folder.name}.new").exists()


def test_a_cache_that_cannot_be_written_is_said(resolver: Resolver, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    with pytest.raises(StorageFailed, match="jars cannot be kept in"):
        resolver.jars()


def test_a_driver_is_given_jars_and_resolves_nothing_itself(resolver: Resolver) -> None:
    with zipfile.ZipFile(resolver.content, "w") as jar:
        jar.writestr("upload/__init__.py", "")
    settings = {"spark.jars.packages": UPLOAD, "spark.jars": "/mine.jar", "spark.acme.password": "secret"}
    kept = list(map(str, resolver.jars()))
    # What Python can import of them is told apart: each process copies what it is told of.
    modules = [jar for jar in kept if jar.endswith("upload-1.0.jar")]
    assert with_jars(settings, resolver.spark, resolver.java) == {
        "spark.jars": ",".join(["/mine.jar", *kept]),
        "spark.submit.pyFiles": ",".join(modules),
        "spark.acme.password": "secret",
    }


def test_settings_without_packages_stay_as_they_are(resolver: Resolver) -> None:
    settings = {"spark.jars": "/mine.jar", "spark.jars.packages": ""}
    assert with_jars(settings, resolver.spark, resolver.java) == {"spark.jars": "/mine.jar"}
    assert resolver.asked == []


def test_packages_of_the_query_and_of_its_settings_are_all_brought() -> None:
    query = Query(
        as_it_comes,
        packages=(UPLOAD,),
        jars=("/mine.jar",),
        settings={"spark.jars.packages": "org.example:other:2.0", "spark.jars": "/other.jar"},
    )
    assert query.configuration["spark.jars.packages"] == f"{UPLOAD},org.example:other:2.0"
    assert query.configuration["spark.jars"] == "/mine.jar,/other.jar"


def test_a_query_whose_packages_cannot_be_had_is_refused_before_anything_starts(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "spark_of", lambda scenario: resolver.spark)
    monkeypatch.setattr(embedded, "find_java", lambda: resolver.java)
    workload = words(5, events=20, batch=10, seed=1)
    EmbeddedCluster().check(Scenario(Query(as_it_comes, packages=(UPLOAD,)), workload))
    assert resolver.asked == [UPLOAD]
    with pytest.raises(MissingTool, match=r"org\.nowhere:none:1 could not be fetched"):
        EmbeddedCluster().check(Scenario(Query(as_it_comes, packages=("org.nowhere:none:1",)), workload))


def test_two_processes_that_want_the_same_resolve_it_once(resolver: Resolver, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from streamproof.harness.install.machine import Java, Spark\n"
        "from streamproof.harness.install.packages import kept_jars\n"
        "home = Path(sys.argv[1])\n"
        f"kept_jars({{'spark.jars.packages': '{UPLOAD}'}}, Spark(home / 'spark', '2.13', '4.1.3'), "
        "Java(home / 'java', 17))\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    assert resolver.asked == [UPLOAD]
