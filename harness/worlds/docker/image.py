"""The image that every container of a run is made from: what goes into it, and how it is built.

Its tag is a hash of what goes into it, so that a run finds the image which fits its own installation, or none. The
packages are those of the interpreter that has the Spark which is to run, this one's where nobody names another: what is
certified on this machine and in containers has the same Spark by construction.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution
from importlib.resources import files
from pathlib import Path

import docker
from docker.errors import BuildError, DockerException, ImageNotFound
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from ...core.errors import MissingTool, ProcessDied, StorageFailed, Unsupported
from ...install.import_places import import_places
from ...install.machine import Spark
from ...install.spark_environments import environments
from .engine import asking_engine

REPOSITORY = "streamproof/spark-node"
BASE = "debian:bookworm-slim"
PYTHON = (3, 11)
"""Of the base's packages. The harness's own must be alike: both read what the other has pickled."""
BUILD_MODULE = "streamproof.harness.worlds.docker.build_image"
BUILD_TAKES = "three to four minutes, 1.3 GB"
"""Measured; most of it for Debian's packages, the archive of classes, and toxiproxy."""

CONTENT = "streamproof.content"
"""The label that says what is in an image, which those that are made from it inherit."""

JAVA_HOME = Path("/opt/java")
SITE = Path("/opt/site")
ARCHIVE = Path("/opt/spark.jsa")

_PACKAGES = ("pyspark", "pandas", "pyarrow", "msgspec", "psutil", "protobuf", "cloudpickle")
"""With what they need in turn; the last ones only where they are installed."""
_OPTIONAL = frozenset({"protobuf", "cloudpickle"})
"""A `StatefulProcessor` needs the one. Drivers before 4.0 need the other: no Spark of theirs is chosen without it."""
_LEFT_OUT = re.compile(
    r"(^|/)(tests|__pycache__|examples|include)/"
    r"|\.(pyx|pxd|pyi|h|hpp)$"
    r"|^pyspark/(data|licenses|python|R|sbin)/"
    # Other cluster managers, and libraries for other machines: nothing that a standalone cluster loads.
    r"|/jars/(kubernetes-|spark-kubernetes|vertx)"
    r"|/jars/netty-.*(osx|windows|aarch_64|riscv64)"
)
_TRAINING = "streamproof"


@dataclass(frozen=True)
class Built:
    tag: str
    seconds: float
    bytes: int


def tag(python: str = sys.executable) -> str:
    """The name of the image that fits this installation, with the packages of that interpreter. Raises MissingTool, or
    Unsupported for another Python."""
    if sys.version_info[:2] != PYTHON:
        raise Unsupported(
            f"containers have Python {PYTHON[0]}.{PYTHON[1]}, and this is {sys.version_info[0]}.{sys.version_info[1]}: "
            f"run streamproof with Python {PYTHON[0]}.{PYTHON[1]} to use them"
        )
    return f"{REPOSITORY}:{_content(python)}"


def is_built_here(name: str) -> bool:
    """Whether it is the name of an image that `build` makes, and of none of a user's."""
    return name.startswith(f"{REPOSITORY}:")


def build_command(python: str = sys.executable) -> str:
    """What builds the image with the packages of that interpreter."""
    added = {str(one.python): one.version for one in environments()}
    said = f" --spark {added[python]}" if python in added else f" --python {shlex.quote(python)}"
    return f"{sys.executable} -m {BUILD_MODULE}{'' if python == sys.executable else said}"


def built_with(client: docker.DockerClient, python: str = sys.executable) -> str | None:
    """The name of the image with the packages of that interpreter, if the engine has it. Raises as `tag` does."""
    name = tag(python)
    return name if client.images.list(name=name) else None


def require(client: docker.DockerClient, own: str | None = None, python: str = sys.executable) -> str:
    """The image's name, once the engine has it; `own` is one of the user's, made from it.

    Raises MissingTool with the command that builds it, Unsupported for an own one that is made from something else.
    """
    name = own or tag(python)
    try:
        found = client.images.get(name)
    except ImageNotFound:
        if own is not None:
            raise MissingTool(f"the engine has no image {own}: build it, FROM {tag(python)}") from None
        raise MissingTool(
            f"the engine has no image {name}, which containers with the Spark of {python} are made from. "
            f"Build it ({BUILD_TAKES}): {build_command(python)}"
        ) from None
    if found.labels.get(CONTENT) != _content(python):
        raise Unsupported(
            f"the image {name} does not hold what containers with the Spark of {python} need: build it again, "
            f"FROM {tag(python)}"
        )
    return name


def spark_in_image(spark: Spark) -> Spark:
    """Where the image has it."""
    return Spark(SITE / "pyspark", spark.scala)


def classpath(spark: Spark) -> str:
    """As `Spark.classpath` gives it inside a container; the archive of classes fits no other."""
    inside = spark_in_image(spark).home
    slf4j = [str(inside / "jars" / jar.name) for jar in sorted((spark.home / "jars").glob("slf4j-api-*.jar"))]
    return os.pathsep.join([f"{inside}/conf", *slf4j, f"{inside}/jars/*"])


def build(
    client: docker.DockerClient, say: Callable[[str], None] = lambda line: None, python: str = sys.executable
) -> Built:
    """Build the image that fits this installation, with the packages of that interpreter. Raises ProcessDied, with the
    end of what was said, if that fails."""
    name, began = tag(python), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="streamproof-image-") as folder:
        try:
            _fill(Path(folder), python)
        except OSError as error:
            raise StorageFailed(f"the image's context cannot be written to {folder}: {error}") from error
        said: list[str] = []
        arguments = {"BASE": BASE, "CONTENT": _content(python), "GOPROXY": os.environ.get("GOPROXY", "")}
        try:
            for part in client.api.build(
                path=folder, tag=name, rm=True, forcerm=True, decode=True, buildargs=arguments
            ):
                text = part.get("error") or part.get("stream", "").strip()
                said += [text] if text else []
                if "error" in part:
                    raise ProcessDied(f"the image {name} cannot be built:\n" + "\n".join(said[-15:]))
                if text.startswith("Step "):
                    say(text)
        except (BuildError, DockerException) as error:
            raise ProcessDied(f"the image {name} cannot be built: {error}") from error
    return Built(name, time.monotonic() - began, int(client.images.get(name).attrs["Size"]))


def remove_stages(client: docker.DockerClient) -> None:
    """What is left of the stages that no image has: their layers would take as much again. Raises OwnFailure."""
    with asking_engine("what building has left cannot be removed"):
        client.images.prune(filters={"dangling": True, "label": "streamproof.stage"})


def _fill(context: Path, python: str) -> None:
    shutil.copyfile(_dockerfile(), context / "Dockerfile")
    shutil.copyfile(_certificates(), context / "certificates.pem")
    for source, target in _site(python):
        _place(source, context / "site" / target)
    package = Path(str(files(_TRAINING)))
    for source in (package / "__init__.py", *(package / "harness").rglob("*.py")):
        _place(source, context / "training" / _TRAINING / source.relative_to(package))


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _dockerfile() -> Path:
    return Path(str(files(_TRAINING))) / "images" / "spark-node.Dockerfile"


def _certificates() -> Path:
    """The authorities that this machine trusts: its user's choice, its system's, or else those of the web."""
    chosen = os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE")
    system = Path("/etc/ssl/certs/ca-certificates.crt")
    return Path(chosen) if chosen else system if system.is_file() else Path(DEFAULT_CA_BUNDLE_PATH)


def _site(python: str) -> Iterator[tuple[Path, str]]:
    """Every file that goes into the image, and where it goes."""
    for package in _distributions(python):
        for file in package.files or ():
            name = str(file)
            source = Path(str(package.locate_file(file)))
            if not name.startswith(("..", "/")) and not _LEFT_OUT.search(name) and source.is_file():
                yield source, name


@functools.cache
def _distributions(python: str) -> tuple[Distribution, ...]:
    path = list(import_places(python).path)
    found: dict[str, Distribution] = {}
    wanted = [(name, name in _OPTIONAL) for name in _PACKAGES]
    while wanted:
        name, optional = wanted.pop()
        if name in found:
            continue
        package = next(iter(Distribution.discover(name=name, path=path)), None)
        if package is None:
            if optional:
                continue
            raise MissingTool(f"{python} has no {name}, which goes into the image: install it")
        found[name] = package
        for requirement in package.requires or ():
            what, _, condition = requirement.partition(";")
            if "extra" not in condition:
                # A condition is about machines and versions: pip has installed what is for this one.
                wanted.append((_canonical(re.split(r"[^A-Za-z0-9._-]", what, maxsplit=1)[0]), bool(condition)))
    return tuple(found[name] for name in sorted(found))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def _content(python: str = sys.executable) -> str:
    """A hash of what goes in: the Dockerfile (and in it toxiproxy's version), the packages' versions, what is left out,
    what trains the archive."""
    sha = hashlib.sha256()
    training = Path(str(files(_TRAINING))) / "harness" / "worlds" / "embedded"
    for file in (_dockerfile(), training / "training.py", training / "build_class_archive.py"):
        sha.update(file.read_bytes())
    packages = [f"{_canonical(package.metadata['Name'])} {package.version}" for package in _distributions(python)]
    sha.update(repr((BASE, packages, _LEFT_OUT.pattern, sysconfig.get_platform())).encode())
    return sha.hexdigest()[:16]
