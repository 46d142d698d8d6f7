"""The kinds of fault, one file each. A new one is registered here by one line."""

from __future__ import annotations

from ..harness.injection import FaultKind
from . import crash, delay, failed_write, handed_over_loss, loss, partition, pause, slow_disk

FAULTS: tuple[FaultKind, ...] = (
    crash.KIND,
    handed_over_loss.KIND,
    pause.KIND,
    partition.KIND,
    delay.KIND,
    loss.KIND,
    slow_disk.KIND,
    failed_write.KIND,
)
