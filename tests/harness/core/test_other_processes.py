"""Processes in which something is executed once more: begun from nothing, or forked from one that has begun."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from process_ends import has_ended
from streamproof.harness.core import other_processes
from streamproof.harness.core.other_processes import begin, forked_quickly
from streamproof.harness.core.waiting import wait_until

MODULE = """
import os, sys, time
from collections import Counter

KEPT = []

def carry_out(told):
    what = told.decode()
    if what == "exit":
        os._exit(7)
    if what == "raise":
        raise ValueError(what)
    if what == "wait":
        time.sleep(600)
    print("what the user's code prints")
    KEPT.append(what)
    said = KEPT, os.getpid(), hash("a"), os.environ.get("MINE"), os.getcwd(), time.tzname[0], len(told)
    return repr(said).encode()
"""


@pytest.fixture(params=["begun", "forked"])
def module(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"carried_out_{request.param}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other_processes, "_servers", type(other_processes._servers)("none", default=None))
        with forked_quickly(()) if request.param == "forked" else nullcontext():
            yield name


def said_by(module: str, told: str, seed: str = "1", **other: str) -> tuple[bytes, str]:
    process = begin(imported(module).carry_out, seed, other)
    try:
        process.tell(told.encode())
        return process.said()
    finally:
        process.end()


def test_it_says_what_came_of_what_it_was_told_and_nothing_that_was_printed(module: str, tmp_path: Path) -> None:
    said, failure = said_by(module, "x" * 300_000, MINE="here", TZ="ELSEWHERE-05:45")
    assert not failure
    kept, pid, _, mine, folder, zone, length = eval(said)
    assert (len(kept), mine, folder, zone, length) == (1, "here", str(tmp_path), "ELSEWHERE", 300_000)
    assert pid != os.getpid()


def test_each_is_as_if_it_were_the_first(module: str) -> None:
    first, second = (eval(said_by(module, "same")[0]) for _ in range(2))
    assert first[0] == second[0] == ["same"]
    assert first[1] != second[1]


def test_the_hash_seed_is_what_was_asked_for(module: str) -> None:
    hashes = [eval(said_by(module, "", seed)[0])[2] for seed in ("1", "2", "1")]
    assert hashes[0] == hashes[2] != hashes[1]


def test_one_that_ends_before_it_has_said_anything_says_with_which_status(module: str) -> None:
    assert said_by(module, "exit") == (b"", "the other process ended with status 7")
    assert said_by(module, "raise") == (b"", "the other process ended with status 1")


def test_one_that_takes_too_long_is_said_to_and_killed(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_processes, "LIMIT_SECONDS", 0.5)
    began = time.monotonic()
    said, failure = said_by(module, "wait")
    assert said == b""
    assert "took more than" in failure
    assert time.monotonic() - began < 60


def test_whoever_is_ended_works_no_longer(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}_at_work.py").write_text(
        "import os, time\n"
        "def carry_out(told):\n"
        "    open('pid', 'w').write(str(os.getpid()) + '.')\n"
        "    time.sleep(600)\n"
    )
    process = begin(imported(f"{module}_at_work").carry_out, "1")
    process.tell(b"")
    pid = wait_until(lambda: whole(tmp_path / "pid"), 30, "the other process at work")
    process.end()
    wait_until(lambda: has_ended(int(pid)), 30, "the end of the other process")


def test_servers_end_with_whoever_asked_for_them(tmp_path: Path) -> None:
    with forked_quickly(()):
        servers = other_processes._servers.get()
        assert servers is not None
        (tmp_path / "nothing.py").write_text("def carry_out(told):\n    return told\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(tmp_path))
            assert said_by("nothing", "this") == (b"this", "")
        processes = [process for process, _ in servers._servers.values()]
    assert [process.returncode for process in processes] == [0]


def imported(module: str) -> ModuleType:
    try:
        return import_module(module)
    finally:
        del sys.modules[module]


def whole(file: Path) -> str:
    """What stands in it before its full stop, once that is written."""
    text, stop, _ = file.read_text().partition(".") if file.exists() else ("", "", "")
    return text if stop else ""
