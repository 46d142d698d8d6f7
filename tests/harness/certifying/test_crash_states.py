"""What is durable in folders is copied, and put back as it was."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamproof.harness.certifying.crash_states import CopiedFolders, CrashState, NotQuiet
from streamproof.harness.core.errors import DeadlinePassed, ExitStatus, StorageFailed
from streamproof.harness.protocol.stores import DurableStore

Tree = Mapping[str, bytes | None]
"""Relative path -> content; None: a folder."""


def lay(folder: Path, tree: Tree) -> None:
    for name, content in tree.items():
        path = folder / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def seen(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def copied(home: Path) -> CopiedFolders:
    return CopiedFolders((home / "checkpoint", home / "sink"), home / "states")


def of_both(home: Path) -> dict[str, bytes | None]:
    return {name: content for name, content in seen(home).items() if not name.startswith("states")}


NAMES = st.sampled_from(["a", "b", "0", "1.delta", ".1.delta.crc", "_metadata"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """No file is where another path has a folder."""
    found: dict[str, bytes | None] = {}
    for path in draw(st.lists(PATHS, max_size=8, unique=True)):
        if not any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in found):
            found[path] = draw(st.none() | st.sampled_from([b"", b"v1", b"batch 3\n", bytes(range(256))]))
    return {f"{folder}/{path}": content for path, content in found.items() for folder in ("checkpoint", "sink")}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=trees(), after=trees())
def test_what_was_captured_is_there_again_and_nothing_else_whatever_came_since(before: Tree, after: Tree) -> None:
    with TemporaryDirectory() as temporary:
        home = Path(temporary)
        store = copied(home)
        lay(home, before)
        was, state = of_both(home), store.capture()
        for folder in ("checkpoint", "sink"):
            shutil.rmtree(home / folder, ignore_errors=True)
        lay(home, after)
        store.restore(state)
        assert of_both(home) == was
        assert store.capture() == state


@pytest.mark.parametrize("name", ["sink/rows", "sink"])
def test_extended_attributes_come_back_and_tell_states_apart(name: str, tmp_path: Path) -> None:
    store, path = copied(tmp_path), tmp_path / name
    lay(tmp_path, {"sink/rows": b"1"})
    before = store.capture()
    try:
        os.setxattr(path, "user.done", b"yes")
    except OSError as error:
        pytest.skip(f"{tmp_path} keeps no extended attributes: {error}")
    marked = store.capture()
    assert before.digest != marked.digest
    for state, names in ((before, []), (marked, ["user.done"])):
        store.restore(state)
        assert os.listxattr(path) == names


OTHERS = 12345
"""A group that nobody is in: root alone can give it a file."""


def kept_of(path: Path) -> tuple[int, int, int]:
    about = path.stat()
    return stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid


@pytest.mark.parametrize("name", ["sink/batch/rows", "sink/batch", "sink"])
@pytest.mark.parametrize(
    "seals",
    [
        pytest.param(lambda path: path.chmod(0o555), id="permissions"),
        pytest.param(lambda path: os.chown(path, -1, OTHERS), id="group"),
        pytest.param(lambda path: (os.chown(path, -1, OTHERS), path.chmod(0o2550)), id="both"),
    ],
)
def test_who_may_do_what_with_a_file_or_folder_comes_back_and_tells_states_apart(
    name: str, seals: Callable[[Path], object], tmp_path: Path
) -> None:
    """Who seals a batch before its rows are written dies in between."""
    store, path = copied(tmp_path), tmp_path / name
    lay(tmp_path, {"checkpoint": None, "sink/batch/rows": b""})
    open_state, before = store.capture(), kept_of(path)
    try:
        seals(path)
    except PermissionError as error:
        pytest.skip(f"not as this user: {error}")
    sealed_state, after = store.capture(), kept_of(path)
    assert before != after
    assert open_state.digest != sealed_state.digest
    for state, expected in ((open_state, before), (sealed_state, after), (open_state, before)):
        store.restore(state)
        assert kept_of(path) == expected
        assert (tmp_path / "sink/batch/rows").read_bytes() == b""
        assert store.capture().digest == state.digest


def test_two_names_of_one_file_stay_two_names_of_one_file(tmp_path: Path) -> None:
    """Who publishes by a second name goes on writing by the first one."""
    store, draft, rows = copied(tmp_path), tmp_path / "sink/draft", tmp_path / "sink/rows"
    lay(tmp_path, {"checkpoint": None, "sink/draft": b"1"})
    shutil.copy2(draft, rows)
    two_files = store.capture()
    rows.unlink()
    os.link(draft, rows)
    one_file = store.capture()
    assert two_files.digest != one_file.digest
    for state, is_one in ((one_file, True), (two_files, False), (one_file, True)):
        store.restore(state)
        assert draft.samefile(rows) == is_one
        assert rows.stat().st_nlink == 1 + is_one
        assert rows.read_bytes() == b"1"
        assert store.capture().digest == state.digest


def test_who_seals_a_file_meanwhile_has_not_been_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, rows = copied(tmp_path), tmp_path / "sink/rows"
    lay(tmp_path, {"sink/rows": b"1"})
    read_bytes = Path.read_bytes

    def and_seal(path: Path) -> bytes:
        rows.chmod(0o444)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", and_seal)
    with pytest.raises(NotQuiet, match="changed while their crash state was taken"):
        store.capture()


def test_times_of_files_come_back_which_a_source_of_files_goes_by(tmp_path: Path) -> None:
    store = copied(tmp_path)
    lay(tmp_path, {"checkpoint/offsets/0": b"v1"})
    file = tmp_path / "checkpoint/offsets/0"
    os.utime(file, ns=(1, 1_600_000_000_123_456_789))
    state = store.capture()
    file.write_bytes(b"v2")
    store.restore(state)
    assert file.stat().st_mtime_ns == 1_600_000_000_123_456_789


def test_states_that_hold_the_same_are_one_to_whoever_recovers(tmp_path: Path) -> None:
    store = copied(tmp_path)
    lay(tmp_path, {"checkpoint/offsets/0": b"v1", "sink": None})
    one = store.capture()
    other = store.capture()
    assert one.digest == other.digest
    os.utime(tmp_path / "checkpoint/offsets/0", ns=(5, 5))
    assert store.capture().digest != one.digest
    one = store.capture()
    (tmp_path / "checkpoint/commits").mkdir()
    assert store.capture().digest != one.digest
    (tmp_path / "checkpoint/commits").rmdir()
    (tmp_path / "checkpoint/offsets/0").rename(tmp_path / "checkpoint/offsets/1")
    assert store.capture().digest != one.digest


def test_a_link_is_turned_back_and_not_followed(tmp_path: Path) -> None:
    store, current = copied(tmp_path), tmp_path / "sink/current"
    lay(tmp_path, {"checkpoint": None, "sink/v1/rows": b"v1", "sink/v2/rows": b"v2"})
    current.symlink_to("v1")
    (tmp_path / "sink/next").symlink_to("v3")
    one = store.capture()
    current.unlink()
    current.symlink_to("v2")
    assert store.capture().digest != one.digest
    store.restore(one)
    assert current.is_symlink()
    assert (current / "rows").read_bytes() == b"v1"
    assert os.readlink(tmp_path / "sink/next") == "v3"
    assert store.capture().digest == one.digest


def test_a_named_pipe_is_put_back_and_nobody_waits_for_what_it_holds(tmp_path: Path) -> None:
    lay(tmp_path, {"checkpoint/a": b"v1", "sink/a": b"v1"})
    store, pipe = copied(tmp_path), tmp_path / "sink" / "pipe"
    without = store.capture()
    os.mkfifo(pipe)
    state = store.capture()
    assert state.digest != without.digest
    store.restore(without)
    assert not pipe.exists()
    store.restore(state)
    assert pipe.is_fifo()


def test_a_file_cannot_be_taken_for_an_empty_folder(tmp_path: Path) -> None:
    store = copied(tmp_path)
    lay(tmp_path, {"checkpoint/0": b""})
    one = store.capture()
    (tmp_path / "checkpoint/0").unlink()
    (tmp_path / "checkpoint/0").mkdir()
    assert store.capture().digest != one.digest


def test_a_content_that_many_states_and_files_have_is_kept_once(tmp_path: Path) -> None:
    store = copied(tmp_path)
    lay(tmp_path, {f"checkpoint/{n}": b"the same" for n in range(20)} | {"sink/part": b"other"})
    first = store.capture()
    lay(tmp_path, {"sink/another": b"new"})
    second = store.capture()
    assert sorted(path.read_bytes() for path in (tmp_path / "states").iterdir()) == [b"new", b"other", b"the same"]
    store.restore(first)
    assert not (tmp_path / "sink/another").exists()
    store.restore(second)
    assert (tmp_path / "sink/another").read_bytes() == b"new"


def test_a_captured_state_is_independent_of_what_is_written_later(tmp_path: Path) -> None:
    store = copied(tmp_path)
    lay(tmp_path, {"checkpoint/metadata": b"id 1"})
    state = store.capture()
    with (tmp_path / "checkpoint/metadata").open("r+b") as file:
        file.write(b"id 2")
    store.restore(state)
    assert (tmp_path / "checkpoint/metadata").read_bytes() == b"id 1"


def test_before_the_first_run_nothing_is_there(tmp_path: Path) -> None:
    store = copied(tmp_path)
    assert store.capture() == CrashState(())
    lay(tmp_path, {"checkpoint/a/b": b"c", "sink": None})
    store.clear()
    assert of_both(tmp_path) == {}
    lay(tmp_path, {"sink/a": b"b"})
    store.restore(CrashState(()))
    assert of_both(tmp_path) == {}


def test_it_can_be_used_as_any_durable_store(tmp_path: Path) -> None:
    store: DurableStore = copied(tmp_path)
    lay(tmp_path, {"sink/a": b"b"})
    store.quiesce()
    captured = store.capture()
    (tmp_path / "sink/a").unlink()
    store.restore(captured)
    assert (tmp_path / "sink/a").read_bytes() == b"b"


class Writer:
    """Somebody who goes on writing while everybody is thought to be held."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over = threading.Event()
        self._wrote = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            (self._folder / "state").write_bytes(b"%d" % number)
            (self._folder / f"draft-{number % 7}").touch()
            (self._folder / f"draft-{(number - 3) % 7}").unlink(missing_ok=True)
            self._wrote.set()

    def __enter__(self) -> Writer:
        self._thread.start()
        assert self._wrote.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_while_somebody_writes_there_is_no_state_that_a_crash_leaves(tmp_path: Path) -> None:
    store = copied(tmp_path)
    lay(tmp_path, {"sink": None} | {f"checkpoint/{number}": bytes([number % 256]) * 4096 for number in range(300)})
    with Writer(tmp_path / "sink"), pytest.raises(NotQuiet, match=r"while.* crash state was taken") as raised:
        _capture_often(store)
    assert raised.value.exit_status is ExitStatus.OWN_FAILURE
    # Nobody writes any more.
    state = store.capture()
    store.restore(state)
    assert store.capture() == state


def test_it_waits_until_everything_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamproof.harness.certifying.crash_states.QUIET_SECONDS", 0.3)
    store = copied(tmp_path)
    lay(tmp_path, {"checkpoint": None, "sink": None})
    store.quiesce()
    looks = iter(range(10**6))
    monkeypatch.setattr(store, "_look", lambda: next(looks))
    with pytest.raises(DeadlinePassed, match="to be left alone"):
        store.quiesce()


def test_a_disk_that_does_not_take_it_is_no_fault_of_the_query(tmp_path: Path) -> None:
    store = copied(tmp_path)
    lay(tmp_path, {"checkpoint/a": b"b"})
    state = store.capture()
    shutil.rmtree(tmp_path / "states")
    (tmp_path / "states").touch()
    with pytest.raises(StorageFailed, match=r"cannot put .* back"):
        store.restore(state)
    lay(tmp_path, {"checkpoint/a": b"b"})
    with pytest.raises(StorageFailed, match="cannot copy"):
        store.capture()
    with pytest.raises(StorageFailed, match="cannot make"):
        CopiedFolders((), tmp_path / "states" / "within")


def _capture_often(store: CopiedFolders) -> None:
    for _ in range(50):
        store.capture()
