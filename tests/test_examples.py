"""The examples run as their files say."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PROJECT = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())
STREAMPROOF = "import sys; from streamproof.harness.command_line.cli import main; sys.exit(main())"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a process for which the examples are installed, as `pip install -e examples` would."""
    metadata = tmp_path / "streamproof_examples-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: streamproof-examples\nVersion: 0.1.0\n")
    registered = PROJECT["project"]["entry-points"]["streamproof"]
    lines = [f"{name} = {value}" for name, value in registered.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[streamproof]", *lines, ""]))
    given = [EXAMPLES, tmp_path, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    # What is cached for the user is not made anew.
    home = pwd.getpwuid(os.getuid()).pw_dir
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, given)), "HOME": home}


def commands(file: str) -> list[list[str]]:
    """The commands in a file's first lines."""
    text = (EXAMPLES / file).read_text().partition('"""\n\n')[0]
    return [
        shlex.split(line, comments=True) for line in re.findall(r"^    (?:streamproof|pytest) .*", text, re.MULTILINE)
    ]


def ran(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    tool, *arguments = command
    python = [sys.executable, *(("-c", STREAMPROOF) if tool == "streamproof" else ("-m", tool))]
    return subprocess.run(
        [*python, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_module_is_listed() -> None:
    modules = PROJECT["tool"]["setuptools"]["py-modules"]
    assert sorted(modules) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("file", ["an_oracle.py", "a_mechanism.py", "bounded_error_of_ones_own.py"])
def test_an_example_runs_in_the_simulator_as_it_says(file: str, tmp_path: Path, installed: dict[str, str]) -> None:
    found = commands(file)
    assert len(found) == 2
    for command in found:
        done = ran(command, tmp_path, installed)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_examples_are_listed_once_they_are_installed(tmp_path: Path, installed: dict[str, str]) -> None:
    listed = ran(["streamproof", "list"], tmp_path, installed).stdout
    assert all(name in listed for name in ("no-key-more-than", "shedding", "masked", "repeated"))


def test_what_the_oracle_claims_is_violated_where_it_says_so(tmp_path: Path, installed: dict[str, str]) -> None:
    command = ["streamproof", "run", "an_oracle:repeated", "--cluster", "simulated"]
    assert "too-often × 18" in ran(command, tmp_path, installed).stdout


@pytest.mark.spark
def test_the_sink_s_own_test_passes(tmp_path: Path, installed: dict[str, str]) -> None:
    _, tests = commands("certify_a_sink.py")
    tool, file, *_ = tests
    budget = ["--streamproof-budget", "2m, 4 runs, 0 kills", "--streamproof-folder", "certificates"]
    done = ran([tool, str(EXAMPLES / file), "-p", "no:cacheprovider", *plugin(), *budget], tmp_path, installed)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    (page,) = (tmp_path / "certificates").glob("*by-batch*/certificate.md")
    assert "VIOLATED" not in page.read_text()


@pytest.mark.spark
@pytest.mark.long
def test_the_other_sink_is_refuted(tmp_path: Path, installed: dict[str, str]) -> None:
    refuted, _ = commands("certify_a_sink.py")
    done = ran(refuted, tmp_path, installed)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "exactly-once VIOLATED" in done.stdout


def plugin() -> list[str]:
    """Where the environment was made before the plugin was, sessions have to name it."""
    named = "streamproof" in entry_points(group="pytest11").names
    return [] if named else ["-p", "streamproof.pytest_plugin"]
