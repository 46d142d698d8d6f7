"""Processes of Python's own in which the user's code is executed once more: they know nothing of what was before."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from types import MappingProxyType

LIMIT_SECONDS = 120.0
"""How long one may take."""


def begin(module: str, hash_seed: str, other: Mapping[str, str] = MappingProxyType({})) -> subprocess.Popen[bytes]:
    """A process that runs a module of ours, and can import what this one can. It is told what to do (`tell`), and says
    what came of it (`said_by`). Who begins one kills it."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **other, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
    )


def tell(process: subprocess.Popen[bytes], task: bytes) -> None:
    """All that it is told."""
    assert process.stdin is not None
    # One that has ended already says how.
    with suppress(BrokenPipeError), process.stdin as told:
        told.write(task)
    process.stdin = None


def said_by(process: subprocess.Popen[bytes]) -> tuple[bytes, str]:
    """What it has said by its end, and why it has said nothing; empty when it has."""
    try:
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return b"", f"executing them in another process took more than {LIMIT_SECONDS:g} s"
    return said, "" if said else f"the other process ended with status {process.returncode}"


def answer(carry_out: Callable[[bytes], bytes]) -> int:
    """In such a process: do what it was told, and say what came of it."""
    out = os.dup(1)
    # What the user's code prints is nobody's.
    os.dup2(2, 1)
    with redirect_stdout(io.StringIO()):
        found = carry_out(sys.stdin.buffer.read())
    with os.fdopen(out, "wb") as said:
        said.write(found)
    return 0
