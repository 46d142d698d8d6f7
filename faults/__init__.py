"""The kinds of fault, one file each. A new one is registered here by one line."""

from __future__ import annotations

from ..harness.contracts.injection import FaultKind
from . import (
    bandwidth,
    bridge,
    cpu_throttle,
    crash,
    crash_loop,
    delay,
    disk_bandwidth,
    executor_crash,
    failed_write,
    flapping,
    full_disk,
    handed_over_loss,
    isolate,
    loss,
    lost_answer,
    memory_limit,
    out_of_memory,
    packet_loss,
    partition,
    pause,
    python_crash,
    reset,
    ring,
    slow_close,
    slow_disk,
    split_brain,
    stop,
    store_loss,
)

FAULTS: tuple[FaultKind, ...] = (
    # Of nodes.
    crash.KIND,
    handed_over_loss.KIND,
    stop.KIND,
    crash_loop.KIND,
    executor_crash.KIND,
    python_crash.KIND,
    pause.KIND,
    split_brain.KIND,
    # Of networks.
    partition.KIND,
    isolate.KIND,
    bridge.KIND,
    ring.KIND,
    flapping.KIND,
    loss.KIND,
    reset.KIND,
    packet_loss.KIND,
    delay.KIND,
    bandwidth.KIND,
    slow_close.KIND,
    lost_answer.KIND,
    # Of machines.
    cpu_throttle.KIND,
    memory_limit.KIND,
    out_of_memory.KIND,
    slow_disk.KIND,
    disk_bandwidth.KIND,
    failed_write.KIND,
    full_disk.KIND,
    store_loss.KIND,
)
