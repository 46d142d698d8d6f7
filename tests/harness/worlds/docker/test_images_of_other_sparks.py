"""The images of other Sparks than streamproof's own: what is in them, how they are called, and what is refused before
anything starts. Environments stand in for what `streamproof spark add` makes, and no engine is needed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from docker.errors import ImageNotFound

from asking import Ask
from stand_in_interpreters import describe, make_interpreter, packages_of
from streamproof.harness.command_line import clusters, diagnosis
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import MissingTool, Unsupported
from streamproof.harness.install.import_places import import_places
from streamproof.harness.install.spark_choice import chosen_spark, chosen_version
from streamproof.harness.worlds.docker import build_image, cluster, engine, image
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.docker.code import code_under_test
from streamproof.harness.worlds.docker.options import ContainerOptions
from streamproof.harness.worlds.docker.spark import SparkContainers
from streamproof.scenarios.subjects import subject

NEEDED = ("msgspec", "pandas", "psutil", "pyarrow", "cloudpickle")


def made(home: Path, spark: str, *without: str, jar: str = "") -> str:
    """The interpreter of an environment with that Spark."""
    modules = [name for name in ("pyspark", *NEEDED) if name not in without]
    python = make_interpreter(home, *modules, spark=spark)
    jars = packages_of(home) / "pyspark" / "jars"
    for name in ("slf4j-api-1.7.jar", "kubernetes-client-6.jar", *filter(None, [jar])):
        (jars / name).touch()
    for name in modules:
        describe(packages_of(home), name, spark if name == "pyspark" else "1.0")
    return python


@pytest.fixture(autouse=True)
def fitting_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever runs these tests."""
    monkeypatch.setattr(image, "PYTHON", sys.version_info[:2])


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The interpreter of what `streamproof spark add 4.1.3` has made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "streamproof" / "spark" / "4.1.3"
    python = made(home, "4.1.3")
    (home / "whole").touch()
    return python


class Engine:
    """One that runs, and has these images: names, and what their labels say of what is in them."""

    def __init__(self, **contents: str) -> None:
        self.contents = contents
        self.pruned = 0

    @property
    def images(self) -> Engine:
        return self

    def get(self, name: str) -> Any:
        if name not in self.contents:
            raise ImageNotFound(name)
        return Mock(attrs={"Size": 1_000_000_000}, labels={image.CONTENT: self.contents[name]})

    def prune(self, filters: object) -> None:
        self.pruned += 1

    def list(self, name: str) -> list[str]:
        return [name] if name in self.contents else []

    def version(self) -> dict[str, str]:
        return {"Version": "1"}

    def close(self) -> None:
        pass


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine of this machine."""
    found = Engine()
    for module in (cluster, build_image):
        monkeypatch.setattr(module, "connect", lambda **named: found)
    monkeypatch.setattr(engine, "connect", lambda **named: found)
    return found


def scenario(spark: str) -> Scenario:
    one = subject("blind-append")
    return Scenario(replace(one.query, spark=spark), one.workload)


def test_each_spark_has_an_image_of_its_own(tmp_path: Path) -> None:
    pythons = [made(tmp_path / name, spark) for name, spark in (("a", "4.1.3"), ("b", "4.2.0"), ("c", "4.1.3"))]
    first, other, again = map(image.tag, pythons)
    assert first == again
    assert len({first, other, image.tag()}) == 3


def test_the_name_of_an_image_says_which_packages_are_in_it(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a", "4.1.3"), made(tmp_path / "b", "4.1.3", "psutil")
    (packages_of(tmp_path / "b") / "psutil").mkdir()
    describe(packages_of(tmp_path / "b"), "psutil", "2.0")
    assert image.tag(first) != image.tag(second)


def test_what_goes_into_an_image_are_the_packages_of_that_interpreter_and_what_they_need(tmp_path: Path) -> None:
    python = made(tmp_path, "3.5.9", "pandas")
    packages = packages_of(tmp_path)
    for name, needs in (("pandas", {"numpy": ">=1", "tzdata": "; extra == 'all'"}), ("numpy", {}), ("tzdata", {})):
        (packages / name).mkdir()
        (packages / name / "__init__.py").touch()
        describe(packages, name, "1.0", needs)
    found = dict(image._site(python))
    assert all(packages in source.parents for source in found)
    there = set(found.values())
    assert {"pyspark/jars/spark-core_2.12-3.5.9.jar", "cloudpickle/__init__.py", "numpy/__init__.py"} <= there
    assert not [name for name in there if "kubernetes" in name or name.startswith(("tzdata", "pip"))]


def test_an_interpreter_that_lacks_what_containers_need_is_refused(tmp_path: Path) -> None:
    python = made(tmp_path, "4.1.3", "psutil")
    with pytest.raises(MissingTool, match=rf"{python} has no psutil, which goes into the image: install it"):
        image.tag(python)


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match=r"none cannot be asked where its packages are"):
        import_places(str(tmp_path / "none"))


def test_containers_are_told_of_the_spark_in_their_image(tmp_path: Path) -> None:
    spark = chosen_spark(made(tmp_path / "environment", "3.5.9"))
    assert image.spark_in_image(spark).scala == "2.12"
    inside = f"{image.SITE}/pyspark"
    assert image.classpath(spark) == f"{inside}/conf:{inside}/jars/slf4j-api-1.7.jar:{inside}/jars/*"
    containers = SparkContainers("run", tmp_path / "run", spark=spark)
    assert (containers.spark, containers._layout.spark.scala) == (spark, "2.12")
    assert SparkContainers("run", tmp_path / "run").spark == chosen_spark()


def test_beside_another_spark_nothing_is_mounted_that_is_installed_for_this_interpreter(tmp_path: Path) -> None:
    code = code_under_test(made(tmp_path, "4.1.3"))
    found = code.import_path.split(os.pathsep)
    assert found[0] == "/opt/streamproof/package"
    last = found[found.index(str(image.SITE)) + 1 :]
    assert [code.mounts[entry] for entry in last] == [packages_of(tmp_path).resolve()]
    own = {os.path.realpath(folder) for folder in import_places().installed}
    assert own.isdisjoint(os.path.realpath(folder) for folder in code.mounts.values())


def test_without_its_image_a_query_is_refused_before_anything_starts(added: str, running: Engine) -> None:
    running.contents = {image.tag(): image._content()}
    wanted = rf"no image {image.tag(added)}.* Build it \(.*\): .* -m {image.BUILD_MODULE} --spark 4\.1\.3"
    with pytest.raises(MissingTool, match=wanted):
        DockerCluster().check(scenario("4.1.3"))


def test_the_image_of_an_interpreter_of_the_users_is_built_by_its_path(tmp_path: Path, running: Engine) -> None:
    python = made(tmp_path / "with space", "4.1.3")
    with pytest.raises(MissingTool, match=rf"{image.BUILD_MODULE} --python '{python}'"):
        DockerCluster().check(scenario(python))


def test_with_its_image_a_query_on_another_spark_is_let_pass(
    added: str, running: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = image.tag(added)
    running.contents = {name: image._content(added)}
    monkeypatch.setattr(cluster.psutil, "virtual_memory", lambda: Mock(available=64 << 30))
    DockerCluster().check(scenario("4.1.3"))
    assert DockerCluster().describe(scenario("4.1.3"))["image"] == name
    with pytest.raises(MissingTool, match=rf"no image {image.tag()}"):
        DockerCluster().check(scenario(""))


@pytest.mark.usefixtures("added")
def test_a_record_of_another_spark_gives_containers_with_its_image_again() -> None:
    for options in (ContainerOptions(workers=2), ContainerOptions(workers=2, image="mine:1")):
        described = json.loads(json.dumps(DockerCluster(options).describe(scenario("4.1.3"))))
        again = clusters.cluster_again(described)
        assert isinstance(again, DockerCluster)
        assert again.options.image == options.image
        assert again.describe(scenario("4.1.3")) == DockerCluster(options).describe(scenario("4.1.3"))


def test_an_own_image_that_is_made_from_that_of_another_spark_is_refused(added: str, running: Engine) -> None:
    running.contents = {"mine:1": image._content()}
    with pytest.raises(Unsupported, match=rf"mine:1 does not hold .* FROM {image.tag(added)}"):
        DockerCluster(ContainerOptions(image="mine:1")).check(scenario("4.1.3"))


def test_packages_for_another_spark_are_refused_as_everywhere(added: str, running: Engine) -> None:
    one = scenario("4.1.3")
    query = replace(one.subject, packages=("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",))
    with pytest.raises(Unsupported, match=r"made for Spark 4\.2, and the query runs on Spark 4\.1\.3"):
        DockerCluster().check(replace(one, subject=query))


def test_what_builds_images_builds_that_of_the_spark_that_is_asked_for(
    added: str, running: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(client: Engine, say: object, python: str) -> image.Built:
        client.contents[image.tag(python)] = image._content(python)
        return image.Built(image.tag(python), 1.0, 10**9)

    monkeypatch.setattr(build_image, "build", build)
    for arguments, python in (([], sys.executable), (["--spark", "4.1.3"], added), (["--python", added], added)):
        running.contents = {}
        assert build_image.main(arguments) == 0
        assert capsys.readouterr().out == f"{image.tag(python)}: built in 1 s, 1.00 GB\n"
        assert list(running.contents) == [image.tag(python)]


def test_of_several_images_what_they_share_is_built_once(
    added: str, running: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(client: Engine, say: object, python: str) -> image.Built:
        assert client.pruned == 0
        return image.Built(image.tag(python), 1.0, 10**9)

    running.contents = {image.tag(): image._content()}
    monkeypatch.setattr(build_image, "build", build)
    assert build_image.main(["--spark", chosen_version(), "--spark", "4.1.3"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [f"{image.tag()}: there already", f"{image.tag(added)}: built in 1 s, 1.00 GB"]
    assert running.pruned == 1


@pytest.mark.usefixtures("added")
def test_what_was_not_added_is_not_built(running: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert build_image.main(["--spark", "4.2.0"]) == 3
    assert "streamproof spark add 4.2.0" in capsys.readouterr().err
    assert running.contents == {}


@pytest.mark.usefixtures("here")
def test_it_is_said_which_versions_have_an_image(added: str, running: Engine, ask: Ask) -> None:
    (missing,) = _other_images()
    assert (missing.good, missing.needed, missing.containers) == (False, False, False)
    assert missing.found.startswith("none with Spark 4.1.3, which queries on it need in containers: ")
    assert missing.add.endswith(f" -m {image.BUILD_MODULE} --spark 4.1.3")
    running.contents = {image.tag(): image._content()}
    assert ask("spark", "list", "--json").document["images"] == {chosen_version(): image.tag()}
    running.contents[image.tag(added)] = image._content(added)
    (found,) = _other_images()
    assert (found.good, found.found) == (True, f"{image.tag(added)}, with Spark 4.1.3")
    assert f"4.1.3    {added}, in containers by {image.tag(added)}\n" in ask("spark", "list").out


def _other_images() -> Iterator[diagnosis.Finding]:
    return (one for one in diagnosis._containers() if one.what == "image" and not one.containers)
