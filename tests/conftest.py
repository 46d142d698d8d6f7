"""What all tests share: Spark needs Java, keeps to loopback, and runs its Python workers on this interpreter."""

import gc
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from audit_hooks import AuditHooks, ending_hooks
from browsers import why_no_browser

OLDEST_JAVA = 17

# Spark's workers otherwise take the first python3 on PATH, and its listeners whatever the host's name resolves to.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

# How long an example takes says more of the machine than of the code. And a change is not to fail for what another one
# broke: examples are the same each time, but where new ones are asked for (`tox -e drawn-anew`).
settings.register_profile("drawn-anew", deadline=None, derandomize=False, print_blob=True)
settings.register_profile("streamproof", deadline=None, derandomize=True, database=None)
settings.load_profile("streamproof")

# A shell that starts the tests in the background has SIGINT ignored, and every process that a test starts, to interrupt
# it, would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def audit_hooks() -> Iterator[AuditHooks]:
    with ending_hooks() as hooks:
        yield hooks


@pytest.fixture(autouse=True)
def hooks_end_with_their_test(audit_hooks: AuditHooks) -> Iterator[None]:
    yield
    audit_hooks.end()


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are processors: many tests wait for a process, a timer or a deadline."""
    cores = len(os.sched_getaffinity(0))
    return cores + (cores + 1) // 2


@cache
def why_no_java() -> str | None:
    """Why Spark cannot start here, or None if it can. Looks for Java where Spark does: JAVA_HOME, else PATH."""
    if home := os.environ.get("JAVA_HOME"):
        java, place = str(Path(home, "bin", "java")), f"JAVA_HOME ({home})"
    else:
        java, place = shutil.which("java") or "", "PATH"
    if not java or not os.access(java, os.X_OK):
        return f"needs Java {OLDEST_JAVA} or newer: none at {place}"
    banner = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', banner)
    if version is None or int(version[1]) < OLDEST_JAVA:
        return f"needs Java {OLDEST_JAVA} or newer: {java} is {version[1] if version else 'of unknown version'}"
    return None


@cache
def why_no_containers() -> str | None:
    """Why containers cannot be started here, or None if they can."""
    from streamproof.harness.core.errors import StreamproofError
    from streamproof.harness.worlds.docker import image
    from streamproof.harness.worlds.docker.engine import connect

    try:
        client = connect()
        try:
            image.require(client)
        finally:
            client.close()
    except StreamproofError as error:
        return str(error)
    return None


@pytest.fixture(scope="session", autouse=True)
def others_are_forked() -> Iterator[None]:
    """The processes in which operators are executed again, of which nearly every test that judges has some."""
    from streamproof.harness.core.other_processes import forked_quickly

    ours = (
        "harness.running.run",
        "harness.worlds.simulated.carried_over",
        "reference_impls.deployed",
        "scenarios.library",
    )
    with forked_quickly(("pyspark.cloudpickle", *(f"streamproof.{module}" for module in ours))):
        yield


@pytest.fixture(scope="session")
def toxiproxy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a toxiproxy-server: the image's own, or else what this machine has."""
    from streamproof.harness.core.errors import MissingTool
    from streamproof.harness.install.machine import find_toxiproxy
    from streamproof.harness.worlds.docker import image
    from streamproof.harness.worlds.docker.engine import connect

    if reason := why_no_containers():
        try:
            return find_toxiproxy().parent
        except MissingTool as error:
            pytest.skip(f"{error}; and {reason}")
    folder = tmp_path_factory.mktemp("toxiproxy")
    client = connect()
    try:
        container = client.containers.create(image.require(client), "toxiproxy-server")
        try:
            chunks, _ = container.get_archive("/usr/local/bin/toxiproxy-server")
            with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
                archive.extractall(folder, filter="data")
        finally:
            container.remove()
    finally:
        client.close()
    return folder


@pytest.fixture
def toxiproxy_on_path(toxiproxy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{toxiproxy_folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def confirmed_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign repeats what violates no more often than confirms it, and reports it as large as it is. What a user's
    campaign does more is shown by a long test of `test_lines_of_code.py`: each kill more starts Spark twice."""
    proving = "streamproof.harness.certifying.proving"
    monkeypatch.setattr(f"{proving}.REPEATS", 2)
    monkeypatch.setattr(f"{proving}.shrink_kills", lambda found, keys, shows: found)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("docker") and (reason := why_no_containers()):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("browser") and (reason := why_no_browser()):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("spark") and (reason := why_no_java()):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """The modules of all tests are there for good: whoever looks for garbage need not go through them each time."""
    gc.collect()
    gc.freeze()
