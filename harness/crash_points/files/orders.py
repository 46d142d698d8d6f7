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
    """From the owner. It is answered by `Obeyed` once it is in force."""

    asks: Endpoint | None = None
    """Who is told of points; None: nobody, and only what is looked at is journalled."""
    token: str = ""
    node: str = ""
    incarnation: int = 0
    touched: tuple[tuple[int, int, int], ...] = ()
    """Of files and folders that were put back: the inode, when the disk below says that it was touched last, and when
    it really was, ns since 1970. That holds until it is touched again."""
    asks_before: bool = False
    """Whether each operation is told before it is done, too, so that it can be refused."""
    others_live: bool = False
    """Whether others act on when the caller of an operation is killed."""
    remembers: bool = True
    """Whether the kernel may remember for a moment what it was told; of what came before the order, it has forgotten
    all once that is answered."""
    as_before: bool = False
    """The order that is in force stays so; the rest of this one means nothing."""


class Obeyed(msgspec.Struct, frozen=True):
    """What serves the folder, of itself. What had been told when the order came is over."""

    refused: int
    """How many operations it has refused as it was answered, since it began."""
