"""What proves that a fault did something to the processes of a node."""

from __future__ import annotations

from dataclasses import dataclass

from ...recording.history import Proof
from .reaping import LabelledProcess


@dataclass(frozen=True)
class Killed:
    pid: int
    kind: str
    command: str


@dataclass(frozen=True)
class KillProof:
    """That a kill bit: what was alive, when the first signal went out, and that all of it was gone at `gone_at`."""

    node: str
    processes: tuple[Killed, ...]
    when: int
    gone_at: int
    gone: bool
    proof: Proof | None = None
    """A process leaves nothing to be read."""

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes)

    @property
    def bit(self) -> bool:
        """False also when there was nothing left to kill."""
        return self.gone and bool(self.processes)


@dataclass(frozen=True)
class StopProof:
    """That a pause bit: what was seen to be stopped."""

    node: str
    processes: tuple[LabelledProcess, ...]
    stopped: bool
    """Whether no process of the node went on."""

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes)

    @property
    def proof(self) -> Proof:
        return Proof(len(self.processes) if self.stopped else 0, "processes stopped")
