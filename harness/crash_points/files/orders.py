"""What a mounted folder's owner and the process that serves it say to each other."""

from __future__ import annotations

import msgspec

from ...core.wire import Endpoint


class ServingPlan(msgspec.Struct, frozen=True):
    mount: str
    """Where the folder is seen."""
    below: str
    """Where it is kept."""
    nameless: str
    """A folder for files that were removed while somebody has them open."""
    journal: str
    name: str
    """Of the file system, in the machine's table of mounts."""


class StandingOrder(msgspec.Struct, frozen=True):
    """From the owner. It is answered by an empty object once it is in force."""

    asks: Endpoint | None = None
    """Who is told of points; None: nobody, and only what is looked at is journalled."""
    token: str = ""
    node: str = ""
    incarnation: int = 0
    touched: tuple[tuple[int, int, int], ...] = ()
    """Of files and folders that were put back: the inode, when the disk below says that it was touched last, and when
    it really was, ns since 1970. That holds until it is touched again."""
