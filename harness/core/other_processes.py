"""Processes of Python's own in which the user's code is executed once more: they know nothing of what was before.

A function of a module of ours says what is done there.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from importlib import import_module
from types import MappingProxyType
from typing import Final, Protocol

from .fork_servers import Forked, ForkServers

LIMIT_SECONDS: Final = 120.0
"""How long one may take."""

UNREADABLE: Final = "what the other process has said cannot be read"

_servers: Final[ContextVar[ForkServers | None]] = ContextVar("servers", default=None)
"""Those of `forked_quickly`, where that is in force."""


class FreshProcess(Protocol):
    """One that has begun. Who begins one ends it."""

    def tell(self, task: bytes) -> None:
        """All that it is told."""

    def said(self) -> tuple[bytes, str]:
        """What it has said by its end, and why it has said nothing; empty when it has."""

    def end(self) -> None:
        """Kill it, if it still works."""


def begin(
    work: Callable[[bytes], bytes], hash_seed: str, other: Mapping[str, str] = MappingProxyType({})
) -> FreshProcess:
    """A process in which this function of a module is called with what the process is told, and what it returns is
    said. It can import what this process can. `other` is what its environment has otherwise."""
    name = f"{work.__module__}:{work.__name__}"
    path = [os.path.abspath(entry) for entry in sys.path]
    environment = {**os.environ, **other, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(path)}
    servers = _servers.get()
    if servers is not None and servers.usable:
        return _Forked(servers.fork(__name__, answer.__name__, name, environment))
    return _Started(name, environment)


@contextmanager
def forked_quickly(preloaded: Sequence[str]) -> Iterator[None]:
    """As long as this is entered, other processes are forked from one that has imported these modules and executed
    nothing: for whoever has many made, one after the other. Without it, each begins from nothing."""
    if not ForkServers.possible():
        yield
        return
    with ForkServers((__name__, *preloaded)) as servers:
        token = _servers.set(servers)
        try:
            yield
        finally:
            _servers.reset(token)


class _Started:
    """One that Python has started."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def tell(self, task: bytes) -> None:
        assert self._process.stdin is not None
        # One that has ended already says how.
        with suppress(BrokenPipeError), self._process.stdin as told:
            told.write(task)
        self._process.stdin = None

    def said(self) -> tuple[bytes, str]:
        try:
            said, _ = self._process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            return b"", _TOO_LONG
        return said, "" if said else _ended(self._process.returncode)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class _Forked:
    """One that was forked from one of Python's."""

    def __init__(self, process: Forked) -> None:
        self._process = process
        self.tell = process.tell
        self.end = process.end

    def said(self) -> tuple[bytes, str]:
        came = self._process.said(LIMIT_SECONDS)
        if came is None:
            return b"", _TOO_LONG
        said, status = came
        return said, "" if said else _ended(status)


_TOO_LONG: Final = f"executing them in another process took more than {LIMIT_SECONDS:g} s"


def _ended(status: object) -> str:
    return f"the other process ended with status {status}"


def answer(name: str) -> None:
    """In such a process: do what it was told, and say what came of it."""
    module, _, function = name.partition(":")
    out = os.dup(1)
    # What the user's code prints is nobody's.
    os.dup2(2, 1)
    with redirect_stdout(io.StringIO()):
        work: Callable[[bytes], bytes] = getattr(import_module(module), function)
        with os.fdopen(0, "rb", closefd=False) as told:
            found = work(told.read())
    with os.fdopen(out, "wb") as said:
        said.write(found)


if __name__ == "__main__":
    answer(sys.argv[1])
