"""Same seed and schedule, same history: whatever the process, its hash seed, its version of Python, and who watches."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import streamproof
from sampling import long_but_for
from simulation import CASES, KINDS, WORLDS, drawn, history_of, scenario_of
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.core.addresses import Point
from streamproof.harness.protocol.controller import Controller
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster

PROGRAM = Path(__file__).parents[1] / "programs" / "digests.py"
SEEDS = (500, 36)
"""The first, and how many: every case, and every world."""


@cache
def expected() -> str:
    lines = []
    for seed in range(SEEDS[0], sum(SEEDS)):
        scenario = scenario_of(CASES[seed % len(CASES)])
        world = list(WORLDS)[seed % len(WORLDS)]
        history = history_of(scenario, drawn(scenario, seed, world), seed=seed, world=world)
        lines.append(f"{seed} {history.digest()}\n")
    return "".join(lines)


def digests_by(python: str, folder: Path, hash_seed: str = "0") -> str:
    """What another interpreter gets. It sees the package and the tests' helpers, and its own site-packages only."""
    assert streamproof.__file__ is not None
    (folder / "streamproof").symlink_to(Path(streamproof.__file__).parent, target_is_directory=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))},
        "PYTHONPATH": os.pathsep.join((str(folder), str(PROGRAM.parents[2]))),
        "PYTHONHASHSEED": hash_seed,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [python, str(PROGRAM), *map(str, SEEDS)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_another_process_with_another_hash_seed_gets_the_same_histories(hash_seed: str, tmp_path: Path) -> None:
    assert digests_by(sys.executable, tmp_path, hash_seed) == expected()


def runs(python: str) -> bool:
    """Whether there is such an interpreter; one of pyenv's shims may stand for none."""
    command = [python, "-c", "import venv, sys; assert sys.version_info >= (3, 11)"]
    return (
        shutil.which(python) is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def interpreter(version: str) -> str:
    """The interpreter of that version, from PATH or from pyenv; skips the test where there is none."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        pytest.skip(f"these tests run on Python {version} themselves")
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [f"python{version}", *map(str, sorted(root.glob(f"versions/{version}.*/bin/python")))]
    usable = next((python for python in found if runs(python)), None)
    if usable is None:
        pytest.skip(f"no Python {version} on PATH or in pyenv")
    return usable


@pytest.mark.parametrize("version", long_but_for(["3.13"], ["3.11", "3.12", "3.13"]))
def test_another_version_of_python_gets_the_same_histories(version: str, tmp_path: Path) -> None:
    """The simulator runs where only msgspec is installed."""
    folder = tmp_path / "venv"
    subprocess.run([interpreter(version), "-m", "venv", str(folder)], check=True, capture_output=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "msgspec>=0.19"]
    ended = subprocess.run(install, capture_output=True, text=True, timeout=120, check=False)
    if ended.returncode != 0:
        pytest.skip(f"msgspec cannot be installed for Python {version}: {ended.stderr.strip().splitlines()[-1]}")
    assert digests_by(python, tmp_path) == expected()


@pytest.mark.parametrize("case", CASES)
def test_who_watches_changes_nothing(case: str) -> None:
    class Watching(Controller):
        def watched(self, actor: str) -> frozenset[Point]:
            return frozenset(Point)

    scenario = scenario_of(case)
    schedule = drawn(scenario, 77, "usual")
    recorder = MemoryRecorder()
    run = Run("watched", scenario, 77, recorder, KINDS, None)
    with SimulatedCluster(WORLDS["usual"]).simulate(run, Watching(schedule)) as deployment:
        deployment.prepare()
        deployment.start()
        deployment.drained(scenario.deadline)
        deployment.stop()
    assert recorder.history().digest() == history_of(scenario, schedule, seed=77).digest()


def test_another_seed_gives_another_history() -> None:
    scenario = scenario_of("passive-replication/trace-numbered")
    assert len({history_of(scenario, (), seed=seed).digest() for seed in range(5)}) == 5
