"""Processes that have imported what many others need, and are forked for each of them: one for each hash seed.

A forked process is as one that has just begun, but for its imports: nothing was executed in the one that it comes of.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module, invalidate_caches
from time import monotonic, tzset
from typing import Self


class ForkServers:
    """Use it as a context manager, in one process and thread."""

    def __init__(self, preloaded: Sequence[str]) -> None:
        self._preloaded = preloaded
        self._servers: dict[str, tuple[subprocess.Popen[bytes], socket.socket]] = {}
        self._owner = os.getpid()

    @staticmethod
    def possible() -> bool:
        """Whether the system can say of a process that it has ended, whoever began it."""
        return hasattr(os, "pidfd_open") and hasattr(socket, "send_fds")

    @property
    def usable(self) -> bool:
        """Not in a process that was forked from the owner's: two cannot talk with one server."""
        return os.getpid() == self._owner

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.usable:
            for process, line in self._servers.values():
                line.close()
                process.wait()
            self._servers.clear()

    def fork(self, module: str, function: str, argument: str, environment: Mapping[str, str]) -> Forked:
        """A process with this environment, in which this function is called."""
        to, told = os.pipe(), os.pipe()
        ours, theirs = socket.socketpair()
        try:
            plan = [module, function, argument, os.getcwd(), dict(environment)]
            socket.send_fds(self._server(environment), [b"!"], [to[0], told[1], theirs.fileno()])
            ours.sendall(json.dumps(plan).encode() + b"\n")
        except BaseException:
            os.close(to[1])
            os.close(told[0])
            ours.close()
            raise
        finally:
            os.close(to[0])
            os.close(told[1])
            theirs.close()
        return Forked(to[1], told[0], ours)

    def _server(self, environment: Mapping[str, str]) -> socket.socket:
        seed = environment["PYTHONHASHSEED"]
        if seed not in self._servers:
            ours, theirs = socket.socketpair()
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-m", __name__, *self._preloaded],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                )
            self._servers[seed] = process, ours
        return self._servers[seed][1]


class Forked:
    """A process that a server has forked."""

    def __init__(self, to: int, told: int, line: socket.socket) -> None:
        self._to: int | None = to
        self._told: int | None = told
        self._line = line
        """Whoever closes it kills the process; what comes on it is how the process has ended."""

    def tell(self, task: bytes) -> None:
        """All that it reads."""
        assert self._to is not None
        # One that has ended already says how.
        with suppress(BrokenPipeError), os.fdopen(self._to, "wb") as told:
            self._to = None
            told.write(task)

    def said(self, seconds: float) -> tuple[bytes, str] | None:
        """What it has written by its end, and its exit status; None where that takes longer."""
        assert self._told is not None
        poll = select.poll()
        poll.register(self._told, select.POLLIN)
        heard = bytearray()
        ends = monotonic() + seconds
        while True:
            if not poll.poll(max(0.0, ends - monotonic()) * 1_000):
                return None
            some = os.read(self._told, 1 << 20)
            if not some:
                break
            heard += some
        self._line.settimeout(max(0.001, ends - monotonic()))
        try:
            status = self._line.recv(16).decode()
        except TimeoutError:
            return None
        except ConnectionError:
            status = ""
        return bytes(heard), status or "unknown"

    def end(self) -> None:
        for pipe in (self._to, self._told):
            if pipe is not None:
                os.close(pipe)
        self._to = self._told = None
        self._line.close()


# In a server, and what it forks


def _serve(preloaded: Sequence[str]) -> None:
    for name in preloaded:
        import_module(name)
    # Nobody waits for a keeper.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    line = socket.socket(fileno=os.dup(0))
    while True:
        said, (*ends,), *_ = socket.recv_fds(line, 1, 3)
        if not said:
            return
        if not os.fork():
            line.close()
            _apart(partial(_keep, *ends))
        for end in ends:
            os.close(end)


def _keep(to: int, told: int, line: int) -> None:
    """Fork the process that was asked for, say how it ends, and kill it once nobody asks for that any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=line) as asked:
        with asked.makefile("rb") as plan:
            module, function, argument, folder, environment = json.loads(plan.readline())
        process = os.fork()
        if not process:
            asked.close()
            _apart(partial(_work, to, told, folder, environment, module, function, argument))
        os.close(to)
        os.close(told)
        ended = os.pidfd_open(process)
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(asked, select.POLLIN)
        if ended not in [ready for ready, _ in poll.poll()]:
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        with suppress(OSError):
            asked.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _work(
    to: int, told: int, folder: str, environment: Mapping[str, str], module: str, function: str, argument: str
) -> None:
    os.dup2(to, 0)
    os.dup2(told, 1)
    os.close(to)
    os.close(told)
    os.environ.clear()
    os.environ.update(environment)
    tzset()
    os.chdir(folder)
    sys.path[:] = [folder, *environment["PYTHONPATH"].split(os.pathsep)]
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    invalidate_caches()
    getattr(import_module(module), function)(argument)


def _apart(work: Callable[[], None]) -> None:
    """Do something, and end, so that the process that this was forked from is not gone on with."""
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1:])
