"""The sizes and times of a cluster of processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EmbeddedOptions:
    workers: int = 3
    """0: there is no cluster, and drivers bring a master of their own."""
    worker_memory_mb: int = 640
    """Of an executor's JVM."""
    executors: int = 1
    """For how many a worker has room."""
    restart_worker_after: float | None = None
    """Seconds after which a worker that ended is started again, once there is a master; None: never."""
    restart_master_after: float | None = None
    """Seconds after which a master that ended is started again, with the address that it had; None: never."""
    profile: str = "tuned"
    """Of Spark's settings."""
    start_seconds: float = 60.0
    """How long a process may take to come up."""
    kill_seconds: float = 10.0
    """How long a kill may take until everything is gone."""
