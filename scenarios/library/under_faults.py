"""Every kind of fault once on word count under passive replication, active replication and k-safe grouping, and once on
a Structured Streaming query. Named `KIND.SUBJECT`; each masks the fault, or says what it repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ...faults.bandwidth import bandwidth
from ...faults.bridge import bridge
from ...faults.cpu_throttle import cpu_throttle
from ...faults.crash import crash
from ...faults.crash_loop import crash_loop
from ...faults.delay import delay
from ...faults.disk_bandwidth import disk_bandwidth
from ...faults.executor_crash import executor_crash
from ...faults.failed_write import failed_write
from ...faults.flapping import flapping
from ...faults.full_disk import full_disk
from ...faults.isolate import isolate
from ...faults.loss import loss
from ...faults.memory_limit import memory_limit
from ...faults.out_of_memory import out_of_memory
from ...faults.packet_loss import packet_loss
from ...faults.partition import partition
from ...faults.pause import pause
from ...faults.python_crash import python_crash
from ...faults.reset import reset
from ...faults.ring import ring
from ...faults.slow_close import slow_close
from ...faults.slow_disk import slow_disk
from ...faults.stop import stop
from ...faults.store_loss import store_loss
from ...harness.contracts.scenario import Scenario
from ...harness.core.guarantees import exactly_once, rollback_recovery
from ...harness.core.library import Entry
from ...harness.core.places import ANY_WORKER
from ...harness.core.quantities import events, ms, seconds
from ...harness.core.schedule import Fault, batch
from ...reference_impls.active_replication import active_replication
from ...reference_impls.k_safe_grouping import k_safe_grouping
from ...reference_impls.passive_replication import passive_replication
from ..query_word_count import query_word_count
from ..word_count import word_count
from ..word_stream import word_stream
from ..workloads import single_words, text

_COUNTER: Final = "count-0"
_LINK: Final = (_COUNTER, "sink-0")
_NODES: Final = ("node-0", "driver")
_EXECUTOR: Final = (ANY_WORKER, "driver")
_SHORT, _LONG = seconds(1), seconds(4)
"""Shorter, and longer, than it takes until a silent node is given up for lost."""


@dataclass(frozen=True)
class _Disturbed:
    """One kind of fault, on slices and on a query; None: it does not concern them."""

    name: str
    slices: Fault | None
    query: Fault | None
    rate: int = 1_000
    """Events/s that the sources of slices offer."""
    meanwhile: Fault | None = None
    """What must happen to the slices for it to get in the way of anything."""


def _passive(rate: int) -> Scenario:
    subject = passive_replication(word_count(), checkpoint_every=events(500), sink_filter=True)
    return Scenario(subject, text(events=4_000, batch=50, rate=rate))


def _active(rate: int) -> Scenario:
    subject = active_replication(word_count(), acknowledge_every=events(100))
    return Scenario(subject, text(events=4_000, batch=50, rate=rate))


def _k_safe(rate: int) -> Scenario:
    subject = k_safe_grouping(word_stream(), k=1, acknowledge_every=events(100))
    return Scenario(subject, single_words(events=4_000, batch=50, rate=rate))


def _query() -> Scenario:
    return Scenario(query_word_count(), text(events=1_000, batch=50), claims=[exactly_once(), rollback_recovery()])


_SLICES: Final[Mapping[str, tuple[str, Callable[[int], Scenario]]]] = {
    "passive-replication": ("Word count under passive replication", _passive),
    "active-replication": ("Word count under active replication", _active),
    "k-safe-grouping": ("A stream of words under k-safe grouping", _k_safe),
}


def _disturbed() -> Iterator[_Disturbed]:
    taken, running, third = events(400), seconds(1.5), batch(2).written.of("driver")
    # By then every worker has read a batch, and keeps the Python worker that did.
    late = batch(8).written.of("driver")
    yield _Disturbed("crash", crash(_COUNTER).after(taken), crash(ANY_WORKER).at(third))
    yield _Disturbed("stop", stop(_COUNTER).after(taken), stop("driver").at(third))
    yield _Disturbed("crash-loop", crash_loop(_COUNTER).after(taken).lasting(seconds(12)), None, rate=250)
    yield _Disturbed("executor-crash", executor_crash(_COUNTER).after(taken), executor_crash(ANY_WORKER).at(third))
    yield _Disturbed("python-crash", python_crash(_COUNTER).after(taken), python_crash(ANY_WORKER).at(late))
    yield _Disturbed("pause", pause(_COUNTER).after(taken).lasting(_SHORT), pause(ANY_WORKER).at(third).lasting(_LONG))
    yield _Disturbed(
        "partition",
        partition(*_LINK).after(running).lasting(_SHORT),
        partition(*_EXECUTOR).at(third).lasting(_LONG),
    )
    yield _Disturbed(
        "one-way-partition",
        partition(*_LINK, one_way=True).after(running).lasting(_SHORT),
        partition(*_EXECUTOR, one_way=True).at(third).lasting(_LONG),
    )
    yield _Disturbed(
        "isolate", isolate(_COUNTER).after(taken).lasting(_LONG), isolate(ANY_WORKER).at(third).lasting(_LONG)
    )
    side, bridged = bridge("node-0", "node-1", "driver"), bridge("node-0", "node-1", "driver")
    yield _Disturbed("bridge", side.after(running).lasting(_LONG), bridged.at(third).lasting(_LONG))
    round_table = ring("node-0", "node-1", "node-2", "driver")
    yield _Disturbed("ring", round_table.after(running).lasting(_LONG), round_table.at(third).lasting(_LONG))
    yield _Disturbed(
        "flapping",
        flapping(*_LINK, every=ms(200)).after(running).lasting(seconds(2)),
        flapping(*_EXECUTOR, every=seconds(1)).at(third).lasting(_LONG),
    )
    yield _Disturbed("loss", loss(*_LINK).after(running), None)
    yield _Disturbed(
        "reset", reset(*_NODES).after(running).lasting(_SHORT), reset(*_EXECUTOR).at(third).lasting(_SHORT)
    )
    yield _Disturbed(
        "packet-loss",
        packet_loss(*_NODES, share=0.3).after(running).lasting(_LONG),
        packet_loss(*_EXECUTOR, share=0.3).at(third).lasting(_LONG),
    )
    yield _Disturbed(
        "delay",
        delay(*_LINK, by=ms(100), jitter=ms(50)).after(running).lasting(seconds(2)),
        delay(*_EXECUTOR, by=ms(100), jitter=ms(50)).at(third).lasting(_LONG),
    )
    yield _Disturbed(
        "bandwidth",
        bandwidth(*_LINK, rate=10_000).after(running).lasting(seconds(2)),
        bandwidth(*_EXECUTOR, rate=5_000).at(third).lasting(_LONG),
    )
    yield _Disturbed(
        "slow-close",
        slow_close(*_LINK, by=ms(500)).after(running).lasting(_LONG),
        None,
        meanwhile=crash(_COUNTER).after(seconds(2)),
    )
    yield _Disturbed(
        "cpu-throttle",
        cpu_throttle(_COUNTER, cores=0.01).after(taken).lasting(seconds(2)),
        cpu_throttle(ANY_WORKER, cores=0.1).at(third).lasting(_LONG),
    )
    # Slices come to use no more than they have at once: a limit that leaves them that takes nothing from them.
    yield _Disturbed("memory-limit", None, memory_limit(ANY_WORKER, size=300 << 20).at(third).lasting(_LONG))
    yield _Disturbed(
        "out-of-memory",
        out_of_memory(_COUNTER).after(taken).lasting(seconds(2)),
        out_of_memory(ANY_WORKER).at(third).lasting(seconds(2)),
    )
    # Spark waits for none of what it writes of this query: a disk that takes its time holds nothing of it up.
    yield _Disturbed(
        "disk-bandwidth",
        disk_bandwidth(_COUNTER, rate=20_000).after(taken).lasting(seconds(2)),
        None,
    )
    yield _Disturbed(
        "failed-write",
        failed_write(_COUNTER).after(taken).lasting(seconds(2)),
        failed_write("driver").at(third).lasting(_LONG),
    )
    yield _Disturbed(
        "full-disk",
        full_disk(_COUNTER).after(taken).lasting(seconds(2)),
        full_disk("driver").at(third).lasting(_LONG),
    )
    yield _Disturbed(
        "slow-disk",
        slow_disk(_COUNTER, by=ms(200)).after(taken).lasting(seconds(2)),
        None,
    )
    yield _Disturbed("store-loss", store_loss(_COUNTER).after(events(1_500)), None)


_OF_CHECKPOINTS: Final = frozenset({"slow-disk", "disk-bandwidth", "failed-write", "full-disk", "store-loss"})
"""Kinds that only a scheme with durable checkpoints notices."""


def _entries() -> Iterator[Entry]:
    for disturbed in _disturbed():
        for name, (line, base) in _SLICES.items():
            if disturbed.slices is not None and (
                name == "passive-replication" or disturbed.name not in _OF_CHECKPOINTS
            ):
                faults = [fault for fault in (disturbed.slices, disturbed.meanwhile) if fault is not None]
                yield _entry(f"{disturbed.name}.{name}", line, partial(base, disturbed.rate), faults)
        if disturbed.query is not None:
            yield _entry(f"{disturbed.name}.query", "Word count as a query", _query, [disturbed.query])


def _entry(name: str, line: str, base: Callable[[], Scenario], faults: Sequence[Fault]) -> Entry:
    def make() -> Scenario:
        return replace(base(), faults=faults)

    make.__doc__ = f"{line}: {'; '.join(map(str, faults))}."
    return Entry(name, make)


SCENARIOS = tuple(_entries())
