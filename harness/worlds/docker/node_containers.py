"""A node as the container that it is now, and a driver as the one that is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ...core.waiting import wait_until
from .cleanliness import Granted


@dataclass
class ContainerNode:
    """One node and its present incarnation."""

    name: str
    role: str
    number: int
    """Its address."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    incarnation: int = 0
    container: str = ""
    """The engine's id of its newest incarnation."""
    granted: Granted | None = None
    """To that container, at its start."""
    log: Path = Path()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:]) or "(its log is empty)"


class ContainerDriver:
    """One incarnation of a driver."""

    def __init__(
        self, name: str, container: str, stdout: Path, stderr: Path, exit_status: Callable[[str], int | None]
    ) -> None:
        """`exit_status` is that of a container of the run; None while it runs."""
        self.name = name
        self.container = container
        self.stdout = stdout
        self.stderr = stderr
        self._exit_status = exit_status
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its exit status; None: it runs. The engine is asked once a container has ended, and else a thread waits."""
        if self._status is None:
            self._status = self._exit_status(self.container)
        return self._status

    def wait(self, seconds: float) -> int:
        wait_until(lambda: self.poll() is not None, seconds, f"driver {self.name} to end")
        status = self.poll()
        assert status is not None
        return status
