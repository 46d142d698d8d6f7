"""The Java agent: Byteman, made for fault injection, as its authors publish it.

It comes through Spark's own resolver, so the user's repositories and mirrors are asked (`spark.jars.ivySettings`,
`DEFAULT_ARTIFACT_REPOSITORY`), is pinned by its checksum, and lies in the user's cache folder from then on; no run
needs a network. `python -m streamproof.harness.crash_points.inside_spark.agent` fetches it, and prints where it is.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...core.errors import MissingTool, StorageFailed
from ...install.machine import find_java, find_spark
from ...install.packages import PACKAGES, resolve

VERSION: Final = "4.0.25"
COORDINATES: Final = f"org.jboss.byteman:byteman:{VERSION}"
SHA256: Final = "8739e25888ec1a79e81fc193889546933c2d22beb84a421b2151397981c63898"
FETCH: Final = f"{sys.executable} -m streamproof.harness.crash_points.inside_spark.agent"
"""The command that brings it."""


def agent_path(environment: Mapping[str, str] | None = None) -> Path:
    """Where it is kept, whether it is there or not."""
    env = os.environ if environment is None else environment
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "streamproof" / f"byteman-{VERSION}.jar"


def find_agent(environment: Mapping[str, str] | None = None) -> Path:
    """The cached jar. MissingTool, with the command that brings it, when it is not there or not what it should be."""
    path = agent_path(environment)
    problem = _problem(path)
    if problem is not None:
        raise MissingTool(f"crash points inside Spark need the agent Byteman {VERSION}: {problem}. Fetch it: {FETCH}")
    return path


def fetch_agent(environment: Mapping[str, str] | None = None) -> Path:
    """The cached jar, resolved first where it is missing or damaged.

    Raises MissingTool where no repository has it, or one has another jar under its name.
    """
    env = os.environ if environment is None else environment
    path = agent_path(env)
    if _problem(path) is None:
        return path
    with tempfile.TemporaryDirectory(prefix="streamproof-agent-") as folder:
        content = _resolved(Path(folder), env)
    _keep(path, content)
    return path


def _problem(path: Path) -> str | None:
    """What is wrong with the cached jar."""
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return f"{path} is not there"
    except OSError as error:
        return f"{path} cannot be read ({error})"
    return None if found == SHA256 else f"{path} has the SHA-256 {found}, and not {SHA256}"


def _resolved(folder: Path, environment: Mapping[str, str]) -> bytes:
    java, spark = find_java(environment), find_spark()
    try:
        jars = resolve({PACKAGES: COORDINATES}, folder, java, spark, environment)
    except MissingTool as problem:
        raise MissingTool(f"{problem}, or copy the jar to {agent_path(environment)}") from problem
    content = jars[0].read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise MissingTool(
            f"a repository gave a jar for {COORDINATES} that has the SHA-256 {found}, and not {SHA256}; it was not "
            "kept: ask whoever runs that repository, or name another one in DEFAULT_ARTIFACT_REPOSITORY"
        )
    return content


def _keep(path: Path, content: bytes) -> None:
    # Under another name first: what others see is there whole, or not there.
    new = path.with_suffix(f".{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(content)
        new.replace(path)
    except OSError as problem:
        raise StorageFailed(f"{path} cannot be written: {problem}") from problem
    finally:
        new.unlink(missing_ok=True)


def main() -> int:
    try:
        print(fetch_agent())
    except (MissingTool, StorageFailed) as problem:
        print(problem, file=sys.stderr)
        return problem.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
