"""Faults of networks, nodes and stores where they hurt: around the detection of failures, during a recovery, all at
once, one after the other."""

from __future__ import annotations

from ...faults.crash import crash
from ...faults.flapping import flapping
from ...faults.isolate import isolate
from ...faults.partition import partition
from ...faults.pause import pause
from ...faults.stop import stop
from ...faults.store_loss import store_loss
from ...harness.contracts.scenario import Scenario
from ...harness.core.guarantees import at_least_once, exactly_once, rollback_recovery
from ...harness.core.library import Entry
from ...harness.core.quantities import events, ms, seconds
from ...harness.core.schedule import Fault, batch, recovery
from ...reference_impls.active_replication import active_replication
from ...reference_impls.passive_replication import passive_replication
from ..query_word_count import query_word_count
from ..word_count import word_count
from ..workloads import text


def _passive(*faults: Fault, rate: int = 1_000, size: int = 6_000) -> Scenario:
    subject = passive_replication(word_count(), checkpoint_every=events(500), sink_filter=True)
    return Scenario(subject, text(events=size, batch=50, rate=rate), faults)


def isolated_for_a_moment() -> Scenario:
    """A counter's node is cut off from all others, and back before it is given up for lost: a stall, no failure."""
    return _passive(isolate("count-0").after(events(800)).lasting(seconds(1)))


def isolated_for_long() -> Scenario:
    """A counter's node is cut off for longer than the detection takes: its slices run elsewhere when it is back, and
    what it says then, and has said to the sink meanwhile, is refused."""
    return _passive(isolate("count-0").after(events(800)).lasting(seconds(4)))


def partition_while_recovering() -> Scenario:
    """The link between a counter and its upstream breaks while the counter replays, and heals: the replay goes on."""
    return _passive(
        crash("count-0").after(events(1_700)),
        partition("count-0", "split-0").at(recovery("count-0").started).lasting(seconds(2)),
    )


def zombie() -> Scenario:
    """A counter's node is paused, declared dead and resumed: what it still says is refused, and it joins again."""
    return _passive(pause("count-0").after(events(800)).lasting(seconds(4)))


def zombie_of_a_pair() -> Scenario:
    """One of two replicas is paused, declared dead and resumed; the other has been active all along."""
    return Scenario(
        subject=active_replication(word_count(), acknowledge_every=events(100)),
        workload=text(events=6_000, batch=50, rate=1_000),
        faults=[pause("count-0").after(events(800)).lasting(seconds(4))],
    )


def rack() -> Scenario:
    """A whole rack, two of three nodes, crashes at once: checkpoints outlive it, and what ran there runs elsewhere."""
    return _passive(crash("rack-0").after(seconds(1.5)))


def rack_of_replicas() -> Scenario:
    """A whole rack crashes at once, with both replicas of a slice in it: active replication does not cover that."""
    return Scenario(
        subject=active_replication(word_count(), acknowledge_every=events(100)),
        workload=text(events=6_000, batch=50, rate=1_000),
        faults=[crash("rack-0", "rack-1").after(seconds(1.5))],
        claims=[],
        breaks=[at_least_once()],
    )


def store_lost() -> Scenario:
    """The checkpoints are lost, and new ones are written before anybody needs the old: nothing shows."""
    return _passive(store_loss("count-0").after(events(1_700)), crash("count-0").after(events(4_000)))


def store_lost_when_needed() -> Scenario:
    """The checkpoints are lost and their owner crashes before it has written another: what the log no longer holds is
    gone, which is more than passive replication survives."""
    lost, crashed = store_loss("count-0").after(events(1_700)), crash("count-0").after(events(1_701))
    scenario = _passive(lost, crashed)
    return Scenario(scenario.subject, scenario.workload, [lost, crashed], claims=[], breaks=[at_least_once()])


def flapping_network() -> Scenario:
    """The link between the splitter and a counter goes on and off, ten times: what was held back arrives in order."""
    return _passive(flapping("split-0", "count-0", every=ms(200)).after(seconds(1)).lasting(seconds(4)))


def rolling_restart() -> Scenario:
    """Every node is stopped in its turn, 9 s after the one before: no input is lost and no output shows it."""
    return _passive(*(stop(f"node-{number}").after(seconds(2 + 9 * number)) for number in range(3)), size=26_000)


def rolling_restart_of_a_query() -> Scenario:
    """Every worker and then the driver of a query is stopped in its turn: the counts are right in the end."""
    subject = query_word_count()
    stops = [stop(f"node-{number}").at(batch(2 + 4 * number).written.of("driver")) for number in range(3)]
    return Scenario(
        subject,
        text(events=2_000, batch=50),
        [*stops, stop("driver").at(batch(14).written)],
        claims=[exactly_once(), rollback_recovery()],
    )


def driver_of_a_scheme() -> Scenario:
    """The driver crashes, and with it all slices at once: the manager comes back, and so does everything from its
    checkpoint."""
    return _passive(crash("driver").after(seconds(2)))


def master() -> Scenario:
    """The master crashes and comes back: nothing that runs needs it meanwhile."""
    return _passive(crash("master").after(seconds(1)))


SCENARIOS = (
    Entry("isolated.before-detection", isolated_for_a_moment),
    Entry("isolated.beyond-detection", isolated_for_long),
    Entry("partition.while-recovering", partition_while_recovering),
    Entry("zombie.passive-replication", zombie),
    Entry("zombie.active-replication", zombie_of_a_pair),
    Entry("rack.passive-replication", rack),
    Entry("rack.active-replication-all-lost", rack_of_replicas),
    Entry("store.lost-in-time", store_lost),
    Entry("store.lost-when-needed", store_lost_when_needed),
    Entry("flapping.network", flapping_network),
    Entry("rolling-restart.passive-replication", rolling_restart),
    Entry("rolling-restart.query", rolling_restart_of_a_query),
    Entry("driver.passive-replication", driver_of_a_scheme),
    Entry("master.passive-replication", master),
)
