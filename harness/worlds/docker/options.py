"""How large a cluster of containers is, and how long it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ContainerOptions:
    workers: int = 3
    worker_memory_mb: int = 640
    """Of an executor's JVM."""
    executors: int = 1
    """For how many a worker has room."""
    restart_worker_after: float | None = 2.0
    """Seconds after which a worker that ended is started again, once there is a master; None: never."""
    restart_master_after: float | None = 2.0
    """Seconds after which a master that ended is started again; None: never."""
    profile: str = "tuned"
    """Of Spark's settings."""
    cpus: float = 2.0
    """That a container may use at most."""
    limits_mb: Mapping[str, int] = field(default_factory=lambda: {"master": 512, "worker": 2048, "driver": 2048})
    """Memory that a container may use at most, by role; a worker's, with one executor."""
    another_executor_mb: int = 1024
    """What a worker's container may use more for each executor beyond the first, with its Python workers."""
    image: str | None = None
    """An own image, made FROM the one that `build_image` makes; None: that one."""
    start_seconds: float = 60.0
    """How long a node may take to come up."""
    kill_seconds: float = 10.0
    """How long a kill may take until the container is seen to have ended."""
