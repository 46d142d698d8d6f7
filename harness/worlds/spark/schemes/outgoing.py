"""What the slices of a node say to their peers, handed to the kernel together at the end of a step of the event loop.

A step takes in what has come by then, often dozens of messages: one system call for each answer would cost more than
the answers.
"""

from __future__ import annotations

import asyncio

from ....core.wire import frame
from ....protocol.messages import Message


class Outgoing:
    def __init__(self, *, exact: bool) -> None:
        """`exact`: every message is sent, since one of them may be a crash point that somebody waits for. Otherwise one
        that says again all that the one before it said takes its place."""
        self._exact = exact
        self._waiting: dict[asyncio.StreamWriter, list[tuple[type[Message], bytes]]] = {}

    def send(self, writer: asyncio.StreamWriter, message: Message) -> None:
        """Raises InvalidOperator for a value that no message can carry."""
        # Encoded now: whoever sent it may go on changing what is in it.
        body = frame(message)
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        waiting = self._waiting.setdefault(writer, [])
        if message.cumulative and not self._exact and waiting and waiting[-1][0] is type(message):
            waiting.pop()
        waiting.append((type(message), body))

    def flush(self) -> None:
        """Hand all of it to the kernel, as far as that takes it; what was for a connection that is gone is lost with
        it."""
        waiting, self._waiting = self._waiting, {}
        for writer, sent in waiting.items():
            if not writer.is_closing():
                writer.write(b"".join([body for _, body in sent]))
