"""Schemes that replay from logs: passive replication, a deployed spare, upstream backup, source replay."""

from __future__ import annotations

from ...faults.crash import crash
from ...faults.partition import partition
from ...harness.contracts.scenario import Scenario
from ...harness.core.costs import Costs
from ...harness.core.guarantees import exactly_once_output, precise_recovery, recovers_within, rollback_recovery
from ...harness.core.library import Entry
from ...harness.core.quantities import events, ms, seconds
from ...harness.core.schedule import checkpoint, recovery
from ...reference_impls.deployed import deployed
from ...reference_impls.passive_replication import passive_replication
from ...reference_impls.source_replay import source_replay
from ...reference_impls.upstream_backup import upstream_backup
from ..equi_join import equi_join
from ..order import order
from ..stateless import stateless
from ..trace import trace
from ..windows import windows
from ..word_count import word_count
from ..workloads import numbered, text


def passive_replication_main() -> Scenario:
    """A counter crashes between two checkpoints; replay brings it back, and the outputs since the last one repeat."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(5_000)),
        workload=text(events=8_000, batch=50, rate=2_000),
        faults=[crash("count-0").after(events(17_000))],
        claims=[rollback_recovery(), recovers_within(seconds(10))],
        breaks=[exactly_once_output()],
    )


def masked() -> Scenario:
    """As word-count.passive-replication, with the sink's filter on: the crash is masked."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(500), sink_filter=True),
        workload=text(events=2_000, batch=50),
        faults=[crash("count-0").at(checkpoint(3).durable)],
        claims=[precise_recovery(), exactly_once_output()],
    )


def at_a_cost() -> Scenario:
    """In the simulator, too, it takes its time to count again what was replayed: less than it may, more than none."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(500), sink_filter=True),
        workload=text(events=1_000, batch=10, rate=200),
        faults=[crash("count-0").after(events(2_900))],
        claims=[precise_recovery(), recovers_within(seconds(10))],
        breaks=[recovers_within(ms(100))],
        costs=Costs({"split": ms(0.2), "count": ms(0.5)}, cores=2),
    )


def neighbours() -> Scenario:
    """The splitter and a counter crash at once; the source replays for one, the restored log for the other."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(500), sink_filter=True),
        workload=text(events=2_000, batch=50),
        faults=[crash("count-0", "split-0").at(checkpoint(2).acknowledged)],
        claims=[precise_recovery()],
    )


def during_recovery() -> Scenario:
    """The splitter crashes just when the counter that it must replay for comes back."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(500), sink_filter=True),
        workload=text(events=2_000, batch=50),
        faults=[
            crash("count-0").at(checkpoint(2).durable),
            crash("split-0").at(recovery("count-0").started),
        ],
        claims=[precise_recovery()],
    )


def trace_masked() -> Scenario:
    """A tracer crashes under passive replication with the sink's filter; every output says which inputs made it."""
    return Scenario(
        subject=passive_replication(trace(), checkpoint_every=events(20), sink_filter=True),
        workload=numbered(),
        faults=[crash("trace-0").at(checkpoint(2).durable)],
    )


def merging_by_time() -> Scenario:
    """Channels of two relays merge by event time, so that a replay has the order of the first time."""
    return Scenario(
        subject=passive_replication(order(), checkpoint_every=events(50), sink_filter=True),
        workload=numbered(events=1_000, batch=20, rate=2_000),
        faults=[crash("chain-0").at(checkpoint(2).durable)],
    )


def joining_streams() -> Scenario:
    """Two streams are joined; the joiner comes back with both sides, and makes every pair once."""
    return Scenario(
        subject=passive_replication(equi_join(), checkpoint_every=events(50), sink_filter=True),
        workload=numbered(events=400, keys=40, batch=20, rate=2_000),
        faults=[crash("join-0").at(checkpoint(2).durable)],
    )


def repeating_is_not_precise() -> Scenario:
    """Without the sink's filter a crash shows: outputs since the last checkpoint come again."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(500)),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").after(events(4_700))],
        breaks=[precise_recovery()],
    )


def deployed_spare() -> Scenario:
    """A counter crashes; its spare is there already, reads the newest checkpoint, and goes on."""
    return Scenario(
        subject=deployed(word_count(), checkpoint_every=events(500), sink_filter=True),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").at(checkpoint(3).durable)],
    )


def deployed_shows() -> Scenario:
    """The same without the sink's filter: what the spare makes again comes twice."""
    return Scenario(
        subject=deployed(word_count(), checkpoint_every=events(500)),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").after(events(4_700))],
        breaks=[precise_recovery()],
    )


def upstream_logs() -> Scenario:
    """A stateless slice crashes; upstream has in memory whatever was not acknowledged through to the sink."""
    return Scenario(
        subject=upstream_backup(stateless(), acknowledge_every=events(50)),
        workload=numbered(events=2_000, batch=20, rate=2_000),
        faults=[crash("tag-0").after(events(500))],
    )


def upstream_logs_are_not_precise() -> Scenario:
    """Without a filter at the sink, upstream backup repeats what was delivered and not yet acknowledged."""
    return Scenario(
        subject=upstream_backup(stateless(), acknowledge_every=events(50)),
        workload=numbered(events=2_000, batch=20, rate=2_000),
        faults=[crash("tag-0").after(events(520))],
        breaks=[precise_recovery()],
    )


def upstream_windows() -> Scenario:
    """A window is lost and filled again from upstream: outputs differ at first, and then agree."""
    return Scenario(
        subject=upstream_backup(windows(), acknowledge_every=events(50)),
        workload=numbered(events=2_000, batch=20, rate=2_000),
        faults=[crash("window-0").after(events(500))],
    )


def source_replays() -> Scenario:
    """A slice crashes; the source sends again whatever it has not heard of in time."""
    return Scenario(
        subject=source_replay(stateless(), timeout=seconds(0.5)),
        workload=numbered(events=2_000, batch=20, rate=2_000),
        faults=[crash("tag-0").after(events(500))],
    )


def source_replays_twice() -> Scenario:
    """A link is cut for longer than the time-out: what waited on it is sent again, and counts twice."""
    return Scenario(
        subject=source_replay(stateless(), timeout=seconds(0.5)),
        workload=numbered(events=2_000, batch=20, rate=2_000),
        faults=[partition("normalise-0", "tag-0").after(events(500)).lasting(seconds(1))],
        breaks=[exactly_once_output()],
    )


SCENARIOS = (
    Entry("word-count.passive-replication", passive_replication_main),
    Entry("word-count.passive-replication-masked", masked),
    Entry("word-count.passive-replication-at-a-cost", at_a_cost),
    Entry("word-count.passive-replication-shows", repeating_is_not_precise),
    Entry("word-count.neighbours-crash", neighbours),
    Entry("word-count.crash-during-recovery", during_recovery),
    Entry("trace.passive-replication", trace_masked),
    Entry("order.passive-replication", merging_by_time),
    Entry("join.passive-replication", joining_streams),
    Entry("word-count.deployed", deployed_spare),
    Entry("word-count.deployed-shows", deployed_shows),
    Entry("stateless.upstream-backup", upstream_logs),
    Entry("stateless.upstream-backup-shows", upstream_logs_are_not_precise),
    Entry("windows.upstream-backup", upstream_windows),
    Entry("stateless.source-replay", source_replays),
    Entry("stateless.source-replay-twice", source_replays_twice),
)
