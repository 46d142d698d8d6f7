"""Environments with other versions of Spark than the harness's own: one of Python's `venv` each, in the user's cache.

One holds pyspark and the few packages that what runs inside of Spark needs: of streamproof itself nothing, that is
found where the harness is. Its folder counts as whole once a mark lies in it, which is written last, and as the mark of
who makes it is a lock, one that was given up midway is taken for nothing, and made anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..core.errors import InvalidScenario, MissingTool, RunFolderInUse, StorageFailed, UnknownName

INSIDE: Final = ("msgspec>=0.19", "pandas>=2.2,<3", "protobuf>=6.33.5,<7", "cloudpickle>=3.1,<4", "psutil>=6")
"""What an environment has beside pyspark and what pyspark's own `sql` needs: how drivers speak to the harness, what
Spark's Python workers import for pandas and for a StatefulProcessor, and what reads the harness's pickles where
pyspark's own reader is older."""
BEFORE_4: Final = ("pyarrow>=15,<20", "setuptools<81")
"""Beside pyspark before 4.0: it wants numpy before 2.0, which newer releases of Arrow do not take, and imports what
Python has no more since 3.12 and setuptools has kept."""
BEFORE_4_2: Final = ("pyarrow<26",)
"""Of what newer ones read, `applyInPandasWithState` of these Sparks takes whole numbers for floats, and fails."""
ADD: Final = "streamproof spark add {version}"
_MARK: Final = "whole"
_NUMBER: Final = re.compile(r"\d+\.\d+\.\d+")
_SAID: Final = ("ERROR", "error:")
_ASK_SECONDS: Final = 60
_PIP_SECONDS: Final = 1800
"""Of a slow line: an environment is half a gigabyte to download."""


@dataclass(frozen=True)
class SparkEnvironment:
    """A folder in the user's cache."""

    version: str
    folder: Path
    whole: bool
    """False: somebody was interrupted who made it, or still makes it."""

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def environments(environment: Mapping[str, str] | None = None) -> list[SparkEnvironment]:
    """Those that there are, the oldest version first."""
    folder = _home(environment)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [_found(folder, name) for name in sorted(filter(_NUMBER.fullmatch, names), key=_in_order)]


def environment_with(version: str, environment: Mapping[str, str] | None = None) -> SparkEnvironment:
    """Raises MissingTool, with the command that makes it, where there is none that is whole."""
    found = _found(_home(environment), _checked(version))
    if not found.whole:
        raise MissingTool(
            f"there is no environment with pyspark {version}; this makes one: {ADD.format(version=version)}"
        )
    return found


def add_environment(
    version: str, environment: Mapping[str, str] | None = None, index: Sequence[str] = ()
) -> SparkEnvironment:
    """Make it, unless it is there. `index` are further words for pip, which else goes where the user has told it to.

    Raises MissingTool where pyspark of that version, or what goes with it, cannot be had, RunFolderInUse while somebody
    else makes it. Nothing is left of one that could not be made.
    """
    folder = _home(environment)
    with _alone(folder, _checked(version)):
        found = _found(folder, version)
        if found.whole:
            return found
        try:
            _remove(found.folder)
            _make(found, index)
            (found.folder / _MARK).write_text(f"pyspark {version}\n")
        except OSError as error:
            raise StorageFailed(f"{found.folder} cannot be made: {error}") from error
        finally:
            if not _found(folder, version).whole:
                _remove(found.folder)
    return _found(folder, version)


def remove_environment(version: str, environment: Mapping[str, str] | None = None) -> None:
    """Also one that is not whole. Raises UnknownName where there is none, RunFolderInUse while somebody makes it."""
    folder = _home(environment)
    known = [one.version for one in environments(environment)]
    if version not in known:
        raise UnknownName("environment with pyspark", version, known)
    with _alone(folder, version):
        # Without its mark, it is taken for nothing from here on.
        (folder / version / _MARK).unlink(missing_ok=True)
        _remove(folder / version)


def beside_pyspark(version: str) -> list[str]:
    """What an environment of that version gets beside it, as pip takes it."""
    older = [(BEFORE_4, (4,)), (BEFORE_4_2, (4, 2))]
    return [*INSIDE, *(name for names, than in older if _in_order(version) < than for name in names)]


def _home(environment: Mapping[str, str] | None) -> Path:
    env = os.environ if environment is None else environment
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamproof" / "spark"


def _checked(version: str) -> str:
    if not _NUMBER.fullmatch(version):
        raise InvalidScenario(f"{version!r} is no version of Spark; one has three numbers, as in 4.1.3")
    return version


def _in_order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _found(home: Path, version: str) -> SparkEnvironment:
    return SparkEnvironment(version, home / version, (home / version / _MARK).is_file())


@contextmanager
def _alone(home: Path, version: str) -> Iterator[None]:
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = os.open(home / f"{version}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StorageFailed(f"{home} cannot be written to: {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderInUse(f"somebody makes or removes {home / version} now: wait for that") from None
        yield
    finally:
        os.close(lock)


def _make(found: SparkEnvironment, index: Sequence[str]) -> None:
    hint = "Python's venv module is missing where pip cannot be brought in (Debian: apt-get install python3-venv)"
    _run([sys.executable, "-m", "venv", str(found.folder)], f"{found.folder} cannot be made ({hint})")
    named = f"pyspark[sql]=={found.version}"
    needed = [named, *beside_pyspark(found.version)]
    pip = [str(found.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    _run([*pip, *index, *needed], f"pyspark {found.version} cannot be had for Python {_python()}")
    # Packages that say of one another that they fit do not always.
    imported = "import cloudpickle, msgspec, pandas, pyarrow, pyspark.sql"
    _run([str(found.python), "-c", imported], f"pyspark {found.version} does not work on Python {_python()}")


def _python() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def for_another_python() -> dict[str, str]:
    """The environment without what belongs to this interpreter."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def ask_python(python: str, code: str, *arguments: str, about: str) -> Any:
    """What an interpreter's code prints as JSON. Raises MissingTool where it cannot be asked, saying `about` what."""
    try:
        done = subprocess.run(
            [python, "-c", code, *arguments],
            env=for_another_python(),
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MissingTool(f"{python} cannot be asked {about}: no answer in {_ASK_SECONDS} s") from error
    except OSError as error:
        raise MissingTool(f"{python} cannot be asked {about}: {error}") from error
    try:
        said = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise MissingTool(f"{python} cannot be asked {about}: {_answer(done)}; name an interpreter of Python")
    return said


def _answer(done: subprocess.CompletedProcess[str]) -> str:
    """Where it is none."""
    how = f"it ended with status {done.returncode}"
    if done.returncode < 0:
        how = f"signal {-done.returncode} ended it"
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"{how}, and said {lines[-1].strip()!r}" if lines else f"{how}, and said nothing"


def _run(command: Sequence[str], wrong: str) -> None:
    try:
        done = subprocess.run(
            command,
            env=for_another_python(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PIP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingTool(f"{wrong}: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        said = next((line.strip() for line in reversed(lines) if any(sign in line for sign in _SAID)), lines[-1])
        raise MissingTool(f"{wrong}: {said}")


def _remove(folder: Path) -> None:
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise StorageFailed(f"{folder} cannot be removed: {error}") from error
