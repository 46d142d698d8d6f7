"""A node as the processes that it is made of, and a driver as the one that is waited for."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from ...core.errors import DeadlinePassed
from ..spark.control.log_tails import log_tail
from .reaping import LabelledProcess, ProcessId


@dataclass(frozen=True)
class NodeState:
    name: str
    alive: bool
    incarnation: int
    processes: tuple[LabelledProcess, ...]

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes)


@dataclass
class ProcessNode:
    """One node and its present incarnation."""

    name: str
    role: str
    lock: threading.RLock = field(default_factory=threading.RLock)
    incarnation: int = 0
    popen: subprocess.Popen[bytes] | None = None
    process: ProcessId | None = None
    logs: tuple[Path, ...] = ()

    def running(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def log_text(self) -> str:
        return "".join(log.read_text(errors="replace") for log in self.logs if log.exists())

    def log_tail(self, lines: int = 15) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:]) or "(its log is empty)"


class DriverProcess:
    """One incarnation of a driver."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], stdout: Path, stderr: Path) -> None:
        self.name = name
        self.stdout = stdout
        self.stderr = stderr
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    def poll(self) -> int | None:
        """Its exit status; negative: the signal that ended it; None: it runs."""
        return self._popen.poll()

    def wait(self, seconds: float) -> int:
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise DeadlinePassed(f"driver {self.name} to end", seconds, log_tail(self.stderr)) from None
