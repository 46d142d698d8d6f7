"""Who hears of each operation on a mounted folder, and lets its caller wait."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from streamproof.harness.core.errors import MissingTool
from streamproof.harness.crash_points.files.mounting import check_mounts


def why_no_mounts() -> str:
    try:
        check_mounts()
    except MissingTool as error:
        return str(error)
    return ""


needs_mounts = pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts() or "can be mounted")


class Controller:
    """Hears of each operation, and answers as it is told to."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        """What was done."""
        self.about: list[str] = []
        """What was about to be."""
        self.refuses: Callable[[str], bool] = lambda key: False
        """Whether what is about to be done is refused."""
        self.ways: list[str] = []
        """Of each, how its file is used."""
        self.answers: Callable[[int, str], bool] = lambda thread, key: True
        """Whether whoever waits may go on."""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.place = self._server.getsockname()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        # Who is served by nobody any more hangs up.
        with suppress(OSError), connection, connection.makefile("rb") as lines:
            for line in lines:
                _, _, _, thread, side, _, key = line.decode().rstrip("\n").split(" ", 6)
                key, _, way = key.partition("\t")
                what = key.removeprefix("?/")
                if side == "before":
                    self.about.append(what)
                    connection.sendall(b"r" if self.refuses(what) else b"g")
                    continue
                self.heard.append(what)
                self.ways.append(way)
                if self.answers(int(thread), key):
                    connection.sendall(b"g")

    def close(self) -> None:
        # Whoever waits is woken and gone before the next one's socket gets the same number.
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()
