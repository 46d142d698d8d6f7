"""A node's heartbeat, from a thread and on a connection of its own: a node that is busy, with a batch of a slow
operator or with all that has come in at once, lives as well as one that waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from ....core.wire import VERSION, BlockingConnection, Endpoint, Greeting
from ..control.run_messages import HEARTBEAT, Heartbeat

PURPOSE = "pulse"
"""Of the connection."""


@contextmanager
def pulse(manager: Endpoint, token: str, node: str) -> Iterator[None]:
    """Tell the manager all along that the node lives. Who stops the process stops this, too."""
    over = threading.Event()
    beating = threading.Thread(target=_beat, args=(manager, Greeting(VERSION, token, PURPOSE, node), over), daemon=True)
    beating.start()
    try:
        yield
    finally:
        # Not waited for: it may be connecting, and nobody is told anything wrong by one beat more.
        over.set()


def _beat(manager: Endpoint, greeting: Greeting, over: threading.Event) -> None:
    try:
        with closing(BlockingConnection(manager, greeting)) as connection:
            while not over.is_set():
                connection.send(Heartbeat())
                over.wait(HEARTBEAT)
    except OSError:
        # The manager has gone away, which the node hears on its own connection.
        return
