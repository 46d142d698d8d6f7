"""What the tests in the simulator share: small cases of every scheme, and schedules drawn from a seed.

Imports no more than the simulator needs, so it runs where only msgspec is installed; `verdicts_of.py` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random

from streamproof.faults import FAULTS
from streamproof.faults.crash import crash
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment
from streamproof.harness.core.errors import InvalidTopology
from streamproof.harness.core.quantities import Duration, Events, events, ms, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Topology
from streamproof.harness.core.workload import Workload
from streamproof.harness.exploration.census import Reached, census
from streamproof.harness.recording.history import History
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.approximate import approximate
from streamproof.reference_impls.deployed import deployed
from streamproof.reference_impls.epoch_based_processing import epoch_based_processing
from streamproof.reference_impls.epoch_merge import epoch_merge
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.gap_by_load import gap_by_load
from streamproof.reference_impls.k_safe_grouping import k_safe_grouping
from streamproof.reference_impls.mechanisms.merges import RoundRobin
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.reference_impls.source_replay import source_replay
from streamproof.reference_impls.transactional_sink import transactional_sink
from streamproof.reference_impls.turns_by_load import turns_by_load
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.countdown import countdown
from streamproof.scenarios.equi_join import equi_join
from streamproof.scenarios.jumping_join import jumping_join
from streamproof.scenarios.order import order, two_splitters
from streamproof.scenarios.parameter_server import parameter_server
from streamproof.scenarios.random_draws import random_draws
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.totals import MarkedTotals, Totals, one_total, totals_of_all, word_totals
from streamproof.scenarios.trace import trace
from streamproof.scenarios.tumbling import running_count, tumbling_count
from streamproof.scenarios.windows import windows
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.word_stream import tagged_words, word_stream
from streamproof.scenarios.workloads import numbered, ones, single_words, text, words

KINDS = {kind.name: kind for kind in FAULTS}
SIMULATED = sorted(name for name, kind in KINDS.items() if "simulated" in kind.clusters)
"""The kinds that the simulator carries out."""
EVERY = events(8)
"""Small enough for several checkpoints in a small workload."""

Build = Callable[[Topology], SchemeSubject]


def _without_feedback(build: Build) -> Build:
    return lambda topology: build(_leading_back(topology, wanted=False))


def _with_feedback(build: Build) -> Build:
    return lambda topology: build(_leading_back(topology, wanted=True))


def _leading_back(topology: Topology, *, wanted: bool) -> Topology:
    """Raises InvalidTopology for one of the other kind."""
    if topology.has_feedback is not wanted:
        raise InvalidTopology(f"{topology.name!r} is for the other case of this scheme")
    return topology


def _on(names: set[str], build: Build) -> Build:
    """Of a scheme that is another with one thing added: where that shows."""

    def built(topology: Topology) -> SchemeSubject:
        subject = build(topology)
        if topology.name not in names:
            raise InvalidTopology(f"{topology.name!r} shows nothing that is this scheme's own")
        return subject

    return built


SCHEMES: dict[str, Build] = {
    "amnesia": _without_feedback(amnesia),
    "gap": _without_feedback(lambda topology: gap(topology, checkpoint_every=EVERY)),
    "passive-replication": lambda topology: passive_replication(topology, checkpoint_every=EVERY),
    "passive-replication-masked": lambda topology: passive_replication(
        topology, checkpoint_every=EVERY, sink_filter=True
    ),
    "passive-replication-in-turn": lambda topology: passive_replication(
        topology, checkpoint_every=EVERY, sink_filter=True, merge=RoundRobin()
    ),
    "transactional-sink": lambda topology: transactional_sink(topology, checkpoint_every=EVERY),
    "deployed": lambda topology: deployed(topology, checkpoint_every=EVERY, sink_filter=True),
    "upstream-backup": lambda topology: upstream_backup(topology, acknowledge_every=EVERY),
    "upstream-backup-masked": lambda topology: upstream_backup(topology, acknowledge_every=EVERY, sink_filter=True),
    "passive-standby-hot": lambda topology: passive_standby(topology, hot=True, synchronize_every=EVERY),
    "passive-standby-cold": lambda topology: passive_standby(topology, hot=False, synchronize_every=EVERY),
    "active-standby": lambda topology: active_standby(topology, acknowledge_every=EVERY),
    "active-standby-shown": lambda topology: active_standby(topology, acknowledge_every=EVERY, sink_filter=False),
    "active-replication": lambda topology: active_replication(topology, acknowledge_every=EVERY),
    "active-replication-of-three": lambda topology: active_replication(topology, replicas=3, acknowledge_every=EVERY),
    "k-safe-grouping": lambda topology: k_safe_grouping(topology, k=1, acknowledge_every=EVERY),
    "2-safe-grouping": lambda topology: k_safe_grouping(topology, k=2, acknowledge_every=EVERY),
    "source-replay": _without_feedback(lambda topology: source_replay(topology, timeout=seconds(0.05))),
    "epoch-based-processing": epoch_based_processing,
    "epoch-based-processing-masked": lambda topology: epoch_based_processing(
        topology, checkpoint_epochs=2, sink_filter=True
    ),
    "epoch-merge": lambda topology: epoch_merge(topology, acknowledge_every=EVERY),
    "amnesia-in-a-cycle": _with_feedback(amnesia),
    "gap-in-a-cycle": _with_feedback(lambda topology: gap(topology, checkpoint_every=EVERY)),
    "source-replay-in-a-cycle": _with_feedback(lambda topology: source_replay(topology, timeout=seconds(0.5))),
    "approximate": lambda topology: approximate(topology, theta=8, l=4, gamma=8),
    "approximate-ahead": lambda topology: approximate(topology, theta=12, l=1, gamma=20, ahead=2),
    "turns-by-load": _on(
        {"order", "two-splitters"},
        lambda topology: turns_by_load(topology, acknowledge_every=EVERY, consider_every=events(4)),
    ),
    "gap-by-load": _on(
        {"trace", "word-count"},
        lambda topology: gap_by_load(
            topology, checkpoint_every=events(16), while_quiet=events(3), busy_from=events(9), each=ms(3)
        ),
    ),
}
WORKLOADS: dict[str, tuple[Callable[[], Topology], Workload]] = {
    "word-count-words": (word_count, words(vocabulary=12, events=32, batch=4)),
    "word-count-zen": (word_count, text("zen", events=8, batch=1)),
    "trace-numbered": (trace, numbered(events=32, batch=4)),
    "word-stream": (word_stream, single_words(vocabulary=12, events=32, batch=4)),
    "tagged-words": (tagged_words, single_words(vocabulary=12, events=32, batch=4)),
    "stateless": (stateless, numbered(events=32, batch=4)),
    "windows": (windows, numbered(events=64, keys=4, batch=4)),
    "join": (equi_join, numbered(events=32, keys=16, batch=4)),
    "order": (order, numbered(events=32, batch=4)),
    "two-splitters": (two_splitters, words(vocabulary=6, events=24, batch=4)),
    "random-draws": (random_draws, numbered(events=32, batch=4)),
    "tumbling-count": (partial(tumbling_count, epoch=8), words(vocabulary=6, events=32, batch=4)),
    "running-count": (partial(running_count, epoch=3), replace(words(events=64, batch=4), spacing={"source-0": 5})),
    "jumping-join": (
        partial(jumping_join, epoch=8),
        numbered(events=32, keys=4, batch=4, spacing={"right-0": 6}),
    ),
    "eager-jumping-join": (partial(jumping_join, epoch=8, eager=True), numbered(events=32, keys=4, batch=4)),
    "parameter-server": (parameter_server, numbered(events=32, batch=4)),
    "countdown": (countdown, numbered(events=24, batch=4)),
    "word-totals": (word_totals, words(vocabulary=6, events=32, batch=4)),
    "totals-of-all": (totals_of_all, ones(events=32, batch=4)),
    "one-total": (partial(one_total, Totals(by_sum=True, leaves_out=1)), ones(keys=6, events=32, batch=4)),
    "marked-totals": (partial(one_total, MarkedTotals()), ones(marks=5, events=32, batch=4)),
}
MEASURED = frozenset({"word-totals", "totals-of-all", "one-total", "marked-totals"})
"""Those whose operators say how far their states are from each other: for the schemes that go by that."""


def _accepts(build: Build, topology: Topology) -> bool:
    try:
        build(topology)
    except InvalidTopology:
        return False
    return True


CASES = [
    f"{scheme}/{workload}"
    for scheme, build in SCHEMES.items()
    for workload, (topology, _) in WORKLOADS.items()
    if (workload not in MEASURED or scheme.startswith("approximate")) and _accepts(build, topology())
]
"""Every scheme on every workload that it does not refuse."""


def _spread(cases: Sequence[str]) -> frozenset[str]:
    """Of each scheme the case whose workload has come up least so far, and one of each workload that is left then."""
    used = dict.fromkeys(WORKLOADS, 0)
    chosen = set()
    for scheme in SCHEMES:
        workloads = [workload for of, _, workload in (case.partition("/") for case in cases) if of == scheme]
        workload = min(workloads, key=used.__getitem__)
        used[workload] += 1
        chosen.add(f"{scheme}/{workload}")
    left = [workload for workload, times in used.items() if not times]
    return frozenset(chosen) | {next(case for case in cases if case.endswith(f"/{one}")) for one in left}


SPREAD = _spread(CASES)
"""Some cases that have every scheme and every workload: what dear tests try each time; the long ones try all."""

SLOW_SOURCE = SimulationOptions(offer_interval=3_000)
"""So slow that a recovery is over long before the input is."""
WORLDS = {
    "usual": SLOW_SOURCE,
    "few-nodes": replace(SLOW_SOURCE, nodes=1),
    "a-node-each": replace(SLOW_SOURCE, nodes=4),
    "noticed-at-once": replace(SLOW_SOURCE, detection=0, redeployment=0, restart_node_after=0, control_delay=50),
    "noticed-late": replace(SLOW_SOURCE, detection=30_000, redeployment=10_000, restart_node_after=40_000),
    "slow-disks": replace(SLOW_SOURCE, disk_delay=(5_000, 20_000)),
    "slow-links": replace(SLOW_SOURCE, link_delay=(100, 12_000), detection=500, redeployment=500, control_delay=100),
    "spread": replace(SLOW_SOURCE, nodes=6, link_delay=(100, 12_000)),
    "fast-source": SimulationOptions(offer_interval=10),
    "nodes-lost-for-good": replace(SLOW_SOURCE, nodes=8, restart_node_after=None),
}


def options_of(world: str, scenario: Scenario) -> SimulationOptions:
    """The world, with as many nodes as it takes for replicas to be apart."""
    options = WORLDS[world]
    assert isinstance(scenario.subject, SchemeSubject)
    return replace(options, nodes=max(options.nodes, scenario.subject.replicas))


def subject_of(case: str) -> SchemeSubject:
    scheme, _, workload = case.partition("/")
    return SCHEMES[scheme](WORKLOADS[workload][0]())


@cache
def scenario_of(case: str) -> Scenario:
    """A case without faults."""
    return Scenario(subject_of(case), WORKLOADS[case.partition("/")[2]][1])


def history_of(scenario: Scenario, schedule: Sequence[Fault], *, seed: int = 1, world: str = "usual") -> History:
    """What a run leaves behind, unjudged."""
    recorder = MemoryRecorder()
    planned = Run("test", replace(scenario, faults=tuple(schedule)), seed, recorder, KINDS, None)
    with SimulatedCluster(options_of(world, scenario)).deploy(planned) as deployment:
        deployment.prepare()
        deployment.start()
        deployment.drained(scenario.deadline)
        deployment.stop()
    return recorder.history()


def addresses(
    scenario: Scenario, schedule: Sequence[Fault] = (), *, seed: int = 1, world: str = "usual"
) -> tuple[Reached, ...]:
    return census(scenario, KINDS, seed=seed, schedule=schedule, options=options_of(world, scenario))


def drawn(scenario: Scenario, seed: int, world: str) -> tuple[Fault, ...]:
    """One to three crashes, each of one slice or of several at the same time.

    When: mostly at an address that the run passes once the crashes before it have struck, so that it is a recovery that
    is hit; else at any address of that run, at a time, or after a number of events.
    """
    random = Random(seed)
    actors = scenario.subject.actors
    schedule: list[Fault] = []
    for _ in range(random.randint(1, 3)):
        fault = crash(*random.sample(actors, min(len(actors), random.choice((1, 1, 1, 2, 2, len(actors))))))
        when = random.choice(("recovering", "recovering", "recovering", "address", "time", "events"))
        if when == "time":
            schedule.append(fault.after(Duration(random.randrange(40_000))))
        elif when == "events":
            schedule.append(fault.after(Events(random.randint(1, 30))))
        else:
            reached = addresses(scenario, schedule, seed=seed, world=world)
            recovering = [r for r in reached if len(r.after) == len(schedule)]
            where = random.choice(recovering if when == "recovering" and recovering else reached)
            schedule.append(fault.at(Moment.exactly(where.address)))
    return tuple(schedule)
