"""The process of the live view: `python -m streamproof.harness.command_line.watching.process`.

It is told what to show, line by line, draws it from the record at a lower priority, and is gone with the command:
when it is told so, when nobody writes to it any more, or when it has another parent.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from .board import Board
from .messages import Said, ToldToWatch, WatchEnded, WatchOpened, WatchOpening, decode, encode_told
from .server import WatchServer
from .sources import source_of

_TICK: Final = 0.5
_LAST: Final = 10.0
"""Seconds that whoever looks has for the last page."""
_NICER: Final = 5
"""Than the command, by so much: what is watched comes first, and where cores are few there is still a page."""


def main() -> None:
    """Listen, say where, and show what is told until the end."""
    parent = os.getppid()
    lines = _lines(parent)
    opening = decode(next(lines, b"{}"))
    assert isinstance(opening, WatchOpening)
    with suppress(OSError):
        os.nice(_NICER)
    board = Board()
    try:
        server = WatchServer(board, opening.token)
    except OSError as error:
        _say(WatchOpened(trouble=f"nothing can listen on loopback: {error.strerror}"))
        return
    for name, job in (("serving", server.serve_forever), ("drawing", lambda: _draw(board))):
        threading.Thread(target=job, name=name, daemon=True).start()
    _say(WatchOpened(port=server.port))
    for line in lines:
        message = decode(line)
        if isinstance(message, WatchEnded):
            board.end()
            _see_it_out(board, parent)
            return
        _heed(board, message)


def _heed(board: Board, message: ToldToWatch) -> None:
    match message:
        case Said(line):
            board.say(line)
        case WatchOpening() | WatchEnded():
            pass
        case subject:
            board.watch(source_of(subject))


def _draw(board: Board) -> None:
    while True:
        board.draw_if_due()
        board.wait_for_looks(_TICK)


def _see_it_out(board: Board, parent: int) -> None:
    until = time.monotonic() + _LAST
    while not board.is_out() and time.monotonic() < until and os.getppid() == parent:
        board.wait_for_looks(_TICK)


def _lines(parent: int) -> Iterator[bytes]:
    """Of the standard input, until it ends, or the parent is another one: what the command has forked may hold the
    other end of the pipe longer than the command lives."""
    rest = b""
    while os.getppid() == parent:
        ready, _, _ = select.select([0], [], [], _TICK)
        if not ready:
            continue
        read = os.read(0, 1 << 16)
        if not read:
            return
        *whole, rest = (rest + read).split(b"\n")
        yield from whole


def _say(opened: WatchOpened) -> None:
    sys.stdout.write(encode_told(opened).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with suppress(msgspec.MsgspecError):
        main()
    os._exit(0)
