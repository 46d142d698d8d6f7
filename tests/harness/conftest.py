"""What the tests of the command line share."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from asking import Answer, Ask
from streamproof.harness.command_line.cli import run_command_line


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current directory, from which modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(scope="session")
def temporary_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(autouse=True)
def own_temporary_folder(temporary_folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A command that fails leaves its traceback in the temporary folder; of a test, nothing is to stay there."""
    # One of pytest's own would take a look at each that it has made before, and there are thousands.
    with tempfile.TemporaryDirectory(dir=temporary_folders, ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(*arguments: object) -> Answer:
        status = run_command_line([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    return ask


@pytest.fixture(scope="module")
def users_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder of a user, with what the tests call `MODULE` in a module of the name `USERS_MODULE`; while
    they go on."""
    folder = tmp_path_factory.mktemp(request.module.USERS_MODULE)
    (folder / f"{request.module.USERS_MODULE}.py").write_text(request.module.MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        yield folder
