"""By what is seen that a node of a Spark cluster has come up, wherever it runs: by what it writes into its log."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Final

MASTER_IS_UP: Final = re.compile(
    r"Starting Spark master at spark://([^:\s]+):(\d+)(?=[\s\S]*(?:New state: ALIVE|Recovery complete))"
)
"""Its groups are the host and the port."""
WORKER_IS_REGISTERED: Final = re.compile(r"Successfully registered with master")
_ANYTHING: Final = re.compile(r"\S")
_LOOK: Final = 0.05
"""Seconds between two looks at whether there is a master."""


def has_come_up(role: str, log: str) -> bool:
    """Whether a node of this role that has written this log does what it is there for; of a driver, that it has begun
    to say something."""
    sign = {"master": MASTER_IS_UP, "driver": _ANYTHING}.get(role, WORKER_IS_REGISTERED)
    return sign.search(log) is not None


def master_comes(is_up: Callable[[], bool], comes_back: bool, closing: threading.Event) -> bool:
    """Return when there is a master, or none will come: a worker that finds none waits for 20 s before it tries again.
    False: the cluster is being stopped."""
    while not is_up():
        if not comes_back:
            return True
        if closing.wait(_LOOK):
            return False
    return True
