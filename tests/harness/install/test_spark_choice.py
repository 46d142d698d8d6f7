"""Which Spark a query runs on is found, or refused before anything starts."""

import platform
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from stand_in_interpreters import make_interpreter
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import as_it_comes
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidScenario, MissingTool, OwnFailure, Unsupported
from streamproof.harness.crash_points.inside_spark.versions import supported
from streamproof.harness.install import spark_choice
from streamproof.harness.install.machine import Spark, find_spark, inherited_import_path
from streamproof.harness.install.python_versions import python_versions
from streamproof.harness.install.spark_choice import (
    check_packages,
    chosen_python,
    chosen_spark,
    chosen_version,
    link_package,
)
from streamproof.harness.worlds.embedded.cluster import spark_of
from streamproof.harness.worlds.spark.control.run_messages import SparkRuns
from streamproof.harness.worlds.spark.queries.what_runs import check_what_runs
from streamproof.scenarios.workloads import words

Interpreter = Callable[..., str]


@pytest.fixture
def interpreter(tmp_path: Path) -> Interpreter:
    """Makes one, in which these modules are to be found, and a Spark of this version."""

    return partial(make_interpreter, tmp_path / "environment")


def test_without_a_name_it_is_this_interpreters() -> None:
    assert chosen_spark() == find_spark() == chosen_spark(version("pyspark"))
    assert chosen_spark().own
    assert chosen_version() == version("pyspark") == find_spark().version


def test_of_an_interpreter_it_is_the_one_of_its_pyspark(interpreter: Interpreter) -> None:
    python = interpreter("pyspark", "msgspec", "pyarrow", "pandas", spark="4.1.3")
    spark = chosen_spark(python)
    assert (spark.version, spark.scala, spark.python, spark.own) == ("4.1.3", "2.13", python, False)
    assert spark.home.name == "pyspark"
    assert chosen_version(python) == "4.1.3"


def test_of_an_interpreter_its_own_python_and_packages_are_known(interpreter: Interpreter) -> None:
    python = interpreter("pyspark", "msgspec", "pyarrow", "pandas", spark="4.1.3", pyspark="4.1.3.dev1", pandas="2.9.9")
    assert chosen_python(python) == {"python": platform.python_version(), "pyspark": "4.1.3.dev1", "pandas": "2.9.9"}
    assert chosen_python() == python_versions()
    assert chosen_python()["pyarrow"] == version("pyarrow")


def test_a_preview_goes_by_the_version_of_its_jars_and_not_by_that_of_its_package(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = "4.3.0-preview2"
    python = interpreter("pyspark", "msgspec", "pyarrow", "pandas", spark=number, pyspark="4.3.0.dev2")
    assert chosen_version(python) == number
    assert supported(number) is supported("4.3.0")
    check_what_runs("a driver", SparkRuns(number, chosen_python(python)), python, here=True)
    with pytest.raises(OwnFailure, match=r"runs Spark 4\.3\.0, and is to run Spark 4\.3\.0-preview2"):
        check_what_runs("a driver", SparkRuns("4.3.0", chosen_python(python)), python, here=True)
    # So it is where the harness's own is one.
    monkeypatch.setattr(spark_choice, "find_spark", lambda: chosen_spark(python))
    assert chosen_version() == number


@pytest.mark.parametrize("number", ["4.9.0-preview1", "5.0.0.dev1", "2.4.8"])
def test_a_preview_of_a_line_that_is_not_known_is_refused(number: str) -> None:
    with pytest.raises(Unsupported, match=rf"Spark '{number}' are not known, only those of Spark 3\.3, .* name one of"):
        supported(number)


@pytest.mark.parametrize(("package", "here"), [("pandas", True), ("pandas", False), ("python", True)])
def test_a_driver_that_runs_on_something_else_than_its_interpreter_has_is_refused(package: str, here: bool) -> None:
    said = {**chosen_python(), package: "1.2.3"}
    mend = "take that out of PYTHONPATH" if here else "build the image again with that"
    with pytest.raises(
        Unsupported, match=rf"worker-0 runs on {package} 1\.2\.3, and is to run on {package} [23].*{mend}"
    ):
        check_what_runs("worker-0", SparkRuns(chosen_version(), said), "", here=here)


def test_of_an_images_python_the_line_is_that_of_this_one() -> None:
    line = platform.python_version().rpartition(".")[0]
    said = {**chosen_python(), "python": f"{line}.99"}
    check_what_runs("a driver", SparkRuns(chosen_version(), said), "", here=False)
    with pytest.raises(Unsupported, match="runs on python"):
        check_what_runs("a driver", SparkRuns(chosen_version(), said), "", here=True)


def test_an_interpreter_without_pyspark_is_refused(interpreter: Interpreter) -> None:
    with pytest.raises(MissingTool, match=r"has no pyspark: .*/bin/python -m pip install 'pyspark\[sql\]'"):
        chosen_spark(interpreter())


def test_an_interpreter_with_no_more_than_a_client_is_refused(interpreter: Interpreter) -> None:
    with pytest.raises(MissingTool, match="holds no Spark"):
        chosen_spark(interpreter("pyspark"))


@pytest.mark.parametrize(
    ("spark", "missing"), [("4.1.3", "msgspec>=0.19' pyarrow"), ("3.5.9", r"pyarrow 'cloudpickle>=3\.1,<4'")]
)
def test_an_interpreter_that_lacks_what_drivers_need_is_refused_with_what_brings_it(
    spark: str, missing: str, interpreter: Interpreter
) -> None:
    with pytest.raises(MissingTool, match=rf"-m pip install 'msgspec>=0.19' .*{missing.split()[-1]}"):
        chosen_spark(interpreter("pyspark", "pandas", spark=spark))


def test_an_interpreter_whose_packages_do_not_fit_one_another_is_refused_with_what_they_say(
    interpreter: Interpreter,
) -> None:
    python = interpreter("pyspark", "msgspec", "pyarrow", "pandas", spark="4.1.3")
    (package,) = Path(python).parents[1].glob("lib/python*/site-packages/pyarrow/__init__.py")
    package.write_text("raise ImportError('it requires NumPy 2.0')")
    with pytest.raises(MissingTool, match=r"pyarrow cannot be imported: ImportError: it requires NumPy 2\.0"):
        chosen_spark(python)


def test_an_interpreter_of_another_python_is_refused(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"python": [3, 8], "home": ["/x"], "wrong": {}}\'\n')
    python.chmod(0o755)
    with pytest.raises(Unsupported, match=r"is Python 3\.8, and streamproof runs on Python 3\.\d+"):
        chosen_spark(str(python))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("echo a; echo 'no such option' >&2; exit 36", "it ended with status 36, and said 'no such option'"),
        ("kill -9 $$", "signal 9 ended it, and said nothing"),
        ("echo hello", "it ended with status 0, and said 'hello'"),
        ("echo 5", "it ended with status 0, and said '5'"),
        ("exit 0", "it ended with status 0, and said nothing"),
    ],
)
def test_what_answers_as_no_python_does_is_refused_by_its_own_words(code: str, said: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{code}\n")
    python.chmod(0o755)
    with pytest.raises(MissingTool) as caught:
        chosen_spark(str(python))
    assert str(caught.value) == f"{python} cannot be asked for its pyspark: {said}; name an interpreter of Python"


@pytest.mark.parametrize("wanted", ["2.4.8", "9.9.9"])
def test_nobody_is_told_to_add_a_spark_that_is_refused_then(wanted: str) -> None:
    with pytest.raises(Unsupported, match=rf"Spark '{wanted}' are not known, only those of Spark 3\.3"):
        spark_of(Scenario(Query(as_it_comes, name="q", spark=wanted), words(events=3)))


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="cannot be asked"):
        chosen_spark(str(tmp_path / "python"))


@pytest.mark.parametrize("wanted", ["4.1", "newest", "python3"])
def test_what_names_neither_a_version_nor_an_interpreter_is_refused(wanted: str) -> None:
    with pytest.raises(InvalidScenario, match=r"neither a version, .*, nor the path of an interpreter"):
        chosen_spark(wanted)


def test_a_version_that_was_not_added_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingTool, match=r"streamproof spark add 4\.1\.99"):
        chosen_spark("4.1.99")


@pytest.mark.parametrize(
    ("package", "spark", "scala"),
    [
        ("io.delta:delta-spark_4.1_2.13:4.4.0", "4.1.3", "2.13"),
        ("io.delta:delta-spark_2.12:3.2.0", "3.5.9", "2.12"),
        ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0", "4.0.4", "2.13"),
        ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.6.1", "3.5.9", "2.12"),
        ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.0.2", "3.5.9", "2.12"),
        ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0", "4.1.3", "2.13"),
        ("org.postgresql:postgresql:42.7.4", "4.1.3", "2.13"),
        ("com.acme:tool_2.13:3.5.1", "4.1.3", "2.13"),
    ],
)
def test_packages_that_fit_are_let_pass(package: str, spark: str, scala: str) -> None:
    check_packages([package], Spark(Path("spark"), scala, spark))


@pytest.mark.parametrize(
    ("package", "spark", "scala", "why"),
    [
        ("io.delta:delta-spark_4.2_2.13:4.4.0", "4.1.3", "2.13", "made for Spark 4.2"),
        ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.13:1.6.1", "4.0.4", "2.13", "made for Spark 3.5"),
        ("org.apache.hudi:hudi-spark3.5-bundle_2.13:1.0.2", "4.0.4", "2.13", "made for Spark 3.5"),
        ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", "4.1.3", "2.13", "made for Spark 4.2"),
        ("io.delta:delta-spark_2.12:3.2.0", "4.1.3", "2.13", r"made for Scala 2\.12"),
    ],
)
def test_packages_that_say_that_they_are_for_another_spark_are_refused(
    package: str, spark: str, scala: str, why: str
) -> None:
    with pytest.raises(Unsupported, match=why):
        check_packages([package], Spark(Path("spark"), scala, spark))


@pytest.mark.parametrize(
    "package",
    [
        "org.apache.spark:spark-sql-kafka-0-10_2.13",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:",
        "delta-spark_2.13",
        "",
        ":a:1",
        "a:b:1,c:d:2",
        "a:b:c:1",
    ],
)
def test_packages_that_do_not_say_their_version_are_refused(package: str) -> None:
    with pytest.raises(InvalidScenario, match=rf"'{package}' does not say .*: group:artifact:version does"):
        check_packages([package], Spark(Path("spark"), "2.13", "4.1.3"))


def test_of_the_line_before_may_be_all_that_there_is_for_the_newest_spark() -> None:
    newest = Spark(Path("spark"), "2.13", "4.3.0")
    check_packages(["io.delta:delta-spark_4.2_2.13:4.4.0"], newest, named=False)
    with pytest.raises(Unsupported, match=r"made for Scala 2\.12"):
        check_packages(["io.delta:delta-spark_2.12:3.2.0"], newest, named=False)


def test_another_interpreter_finds_this_streamproof_and_nothing_else_that_is_installed_here(tmp_path: Path) -> None:
    folder = link_package(tmp_path / "inside")
    assert link_package(folder) == folder
    assert [path.name for path in folder.iterdir()] == ["streamproof"]
    assert (folder / "streamproof" / "harness" / "install" / "spark_choice.py").is_file()
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "theirs" / "pyspark").mkdir(parents=True)
    (tmp_path / "theirs" / "pyspark" / "__init__.py").touch()
    path = [str(tmp_path), str(tmp_path / "site-packages"), str(tmp_path / "theirs"), *sys.path]
    kept = inherited_import_path(path, own=False).split(":")
    assert str(tmp_path) in kept
    assert not [entry for entry in kept if "site-packages" in entry or entry.endswith("theirs")]
