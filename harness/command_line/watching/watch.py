"""The command's side of the live view. Whatever goes wrong with it, or takes it long, changes nothing else."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Final, Self

import typer

from ...install.machine import inherited_import_path
from ..progress_line import Heard
from .messages import (
    Said,
    ToldToWatch,
    WatchCampaign,
    WatchEnded,
    WatchOpening,
    WatchRun,
    WatchSearch,
    decode_opened,
    encode_told,
)

if TYPE_CHECKING:
    from ...exploration.exploring import Explored

Watched = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Serve the page of it on loopback while it goes on, at an address that is printed and goes with the "
        "command.",
    ),
]

_OPENS: Final = 30.0
"""Seconds within which the process says where it listens."""
_GOES: Final = 15.0
"""Seconds within which it is gone, with the last page out."""
_EVERY: Final = 1.0
_SHARE: Final = 20
"""Of the time of a search, one in so many goes into saying how far it has come."""


class Watch:
    """Shows what a command does, if that is wanted. Use it as a context manager."""

    def __init__(self, wanted: bool, tell: Callable[[str], None]) -> None:
        """`tell`: where the address is said, and what has become of it."""
        self._wanted = wanted
        self._tell = tell
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: dict[str, ToldToWatch] = {}
        """The newest of each kind that is not written yet: who reads slowly misses some, and holds up nobody."""
        self._changed = threading.Condition()
        self._over = False
        self._next = 0.0

    @property
    def heard(self) -> Heard | None:
        """Who is to be told of the live line, where somebody is."""
        return None if self._process is None else self.say

    def __enter__(self) -> Self:
        if self._wanted:
            self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is None:
            return
        if kind is None:
            self._put("ended", WatchEnded())
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GOES)
        with self._changed:
            self._over = True
            self._changed.notify_all()
        # One that is gone already takes no harm.
        self._process.kill()
        self._process.wait()

    def run(self, folder: Path) -> None:
        """The run that is recorded there is what goes on now."""
        self._put("subject", WatchRun(os.fsencode(folder.absolute())))

    def campaign(self, folder: Path) -> None:
        self._put("subject", WatchCampaign(os.fsencode(folder.absolute())))

    def search(self, explored: Explored) -> None:
        """How far a search has come; to be called as often as it likes."""
        now = time.monotonic()
        if self._process is None or (explored.goes_on and now < self._next):
            return
        from ...exploration.documenting import document_of

        self._put("subject", WatchSearch(document_of(explored)))
        done = time.monotonic()
        self._next = done + max(_EVERY, _SHARE * (done - now))

    def say(self, line: str) -> None:
        """The live line, as it is now."""
        self._put("said", Said(line))

    def _open(self) -> None:
        token = secrets.token_urlsafe(24)
        command = [sys.executable, "-m", "streamproof.harness.command_line.watching.process"]
        try:
            # What interrupts the command is the command's to heed.
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": inherited_import_path()},
                start_new_session=True,
            )
        except OSError as error:
            self._tell(f"there is no live view: {error.strerror}; what is done goes on")
            return
        try:
            port, why = self._opened(process, token)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if why:
            process.kill()
            process.wait()
            self._tell(f"there is no live view: {why}; what is done goes on")
            return
        self._process = process
        threading.Thread(target=self._write, args=(process,), name="watch", daemon=True).start()
        self._tell(f"watch it at http://127.0.0.1:{port}/{token}/")

    @staticmethod
    def _opened(process: subprocess.Popen[bytes], token: str) -> tuple[int, str]:
        """The port, or why there is none."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(encode_told(WatchOpening(token)) + b"\n")
            process.stdin.flush()
        except OSError as error:
            return 0, f"its process ended at once ({error.strerror})"
        ready, _, _ = select.select([process.stdout], [], [], _OPENS)
        line = process.stdout.readline() if ready else b""
        if not line:
            return 0, "its process did not say where it listens"
        opened = decode_opened(line)
        return opened.port, opened.trouble

    def _put(self, what: str, message: ToldToWatch) -> None:
        if self._process is None:
            return
        with self._changed:
            self._waiting[what] = message
            self._changed.notify_all()

    def _write(self, process: subprocess.Popen[bytes]) -> None:
        """In a thread of its own, which may wait as long as it takes."""
        assert process.stdin is not None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._over)
                if self._over:
                    return
                # The end last, whatever was said before it.
                messages = sorted(self._waiting.items(), key=lambda one: one[0] == "ended")
                self._waiting = {}
            try:
                for _, message in messages:
                    process.stdin.write(encode_told(message) + b"\n")
                process.stdin.flush()
            except (OSError, ValueError, TypeError) as error:
                if not self._over:
                    self._tell(f"the live view has ended ({error}); what is done goes on")
                return
