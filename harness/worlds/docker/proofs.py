"""That containers, or parts of them, were ended or paused: what the engine says of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from ...recording.history import Proof

KILLED = 137
"""The exit status of a container whose first process got a SIGKILL."""


@dataclass(frozen=True)
class ContainerKill:
    """What the engine says of a container that was killed."""

    node: str
    container: str
    number: signal.Signals
    """What it was killed with."""
    pids: tuple[int, ...]
    """Of its first process, on this machine; none where it had ended before."""
    ended: bool
    exit_code: int | None
    finished: str
    """When, as the engine has it."""

    @property
    def bit(self) -> bool:
        """A process that is asked to end may end in its own way."""
        expected = (KILLED,) if self.number is signal.SIGKILL else (self.exit_code,)
        return bool(self.pids) and self.ended and self.exit_code in expected

    @property
    def proof(self) -> Proof | None:
        if not self.ended or self.exit_code is None:
            return None
        return Proof(self.exit_code, f"exit status of container {self.container[:12]}, ended {self.finished}")


@dataclass(frozen=True)
class PartKill:
    """What was killed inside a container."""

    pids: tuple[int, ...]
    """As the container numbers them."""
    gone: bool
    """Whether all of it was seen to be gone."""
    proof: Proof | None = None
    """A process leaves nothing to be read."""

    @property
    def bit(self) -> bool:
        return self.gone and bool(self.pids)


@dataclass(frozen=True)
class ContainerStop:
    """What the engine says of a container that was paused."""

    container: str
    pids: tuple[int, ...]
    paused: bool

    @property
    def proof(self) -> Proof:
        return Proof(int(self.paused), "containers paused")
