"""streamproof proves, or refutes, what a stream processor promises about failure.

What most users need is importable from here, under short names; each loads when it is first used. A scheme and its
guarantee are two things: `gap` and `amnesia` are the schemes, `gap_recovery` and `amnesia_recovery` the guarantees.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .faults.bandwidth import bandwidth
    from .faults.bridge import bridge
    from .faults.cpu_throttle import cpu_throttle
    from .faults.crash import crash
    from .faults.crash_loop import crash_loop
    from .faults.delay import delay
    from .faults.disk_bandwidth import disk_bandwidth
    from .faults.executor_crash import executor_crash
    from .faults.failed_write import failed_write
    from .faults.flapping import flapping
    from .faults.full_disk import full_disk
    from .faults.handed_over_loss import handed_over_loss
    from .faults.isolate import isolate
    from .faults.loss import loss
    from .faults.lost_answer import lost_answer
    from .faults.lost_request import lost_request
    from .faults.memory_limit import memory_limit
    from .faults.out_of_memory import out_of_memory
    from .faults.packet_loss import packet_loss
    from .faults.partition import partition
    from .faults.pause import pause
    from .faults.python_crash import python_crash
    from .faults.reset import reset
    from .faults.ring import ring
    from .faults.slow_close import slow_close
    from .faults.slow_disk import slow_disk
    from .faults.split_brain import split_brain
    from .faults.stop import stop
    from .faults.store_loss import store_loss
    from .harness.certifying.budget import Budget
    from .harness.certifying.planning import CrashPlan, every_crash_point
    from .harness.contracts.claims import Claim
    from .harness.contracts.query import Query, RunFolders, Store
    from .harness.contracts.query_parts import foreach, foreach_batch, pandas_with_state, processor, processor_in_pandas
    from .harness.contracts.scenario import Scenario
    from .harness.core.costs import Costs
    from .harness.core.errors import StreamproofError
    from .harness.core.events import Event, Output
    from .harness.core.guarantees import (
        Guarantee,
        amnesia_recovery,
        at_least_once,
        at_most_once,
        bounded_error,
        exactly_once,
        exactly_once_output,
        gap_recovery,
        k_safety,
        precise_recovery,
        recovers,
        recovers_within,
        replicas_agree,
        rollback_recovery,
        survives_power_loss,
    )
    from .harness.core.operators import Operator, RandomOperator
    from .harness.core.quantities import events, ms, seconds
    from .harness.core.result_bounds import bounded_error_of_result
    from .harness.core.schedule import batch, checkpoint, recovery
    from .harness.core.topology import Edge, Partitioning, Stage, Topology
    from .harness.core.workload import Workload
    from .harness.crash_points.inside_python.user_points import crash_point
    from .harness.exploration.counterexample import assert_survives
    from .harness.exploration.simulating import Simulated, largest_error, simulate
    from .reference_impls.active_replication import active_replication
    from .reference_impls.active_standby import active_standby
    from .reference_impls.amnesia import amnesia
    from .reference_impls.approximate import approximate
    from .reference_impls.deployed import deployed
    from .reference_impls.gap import gap
    from .reference_impls.gap_by_load import gap_by_load
    from .reference_impls.k_safe_grouping import k_safe_grouping
    from .reference_impls.mechanisms.merges import ByTime, RoundRobin
    from .reference_impls.passive_replication import passive_replication
    from .reference_impls.passive_standby import passive_standby
    from .reference_impls.source_replay import source_replay
    from .reference_impls.transactional_sink import transactional_sink
    from .reference_impls.turns_by_load import turns_by_load
    from .reference_impls.upstream_backup import upstream_backup
    from .scenarios.equi_join import equi_join
    from .scenarios.order import order
    from .scenarios.random_draws import random_draws
    from .scenarios.stateless import stateless
    from .scenarios.trace import trace
    from .scenarios.windows import windows
    from .scenarios.word_count import word_count
    from .scenarios.word_stream import word_stream
    from .scenarios.workloads import numbered, single_words, text, words

__all__ = [
    "Budget",
    "ByTime",
    "Claim",
    "Costs",
    "CrashPlan",
    "Edge",
    "Event",
    "Guarantee",
    "Operator",
    "Output",
    "Partitioning",
    "Query",
    "RandomOperator",
    "RoundRobin",
    "RunFolders",
    "Scenario",
    "Simulated",
    "Stage",
    "Store",
    "StreamproofError",
    "Topology",
    "Workload",
    "active_replication",
    "active_standby",
    "amnesia",
    "amnesia_recovery",
    "approximate",
    "assert_survives",
    "at_least_once",
    "at_most_once",
    "bandwidth",
    "batch",
    "bounded_error",
    "bounded_error_of_result",
    "bridge",
    "checkpoint",
    "cpu_throttle",
    "crash",
    "crash_loop",
    "crash_point",
    "delay",
    "deployed",
    "disk_bandwidth",
    "equi_join",
    "events",
    "every_crash_point",
    "exactly_once",
    "exactly_once_output",
    "executor_crash",
    "failed_write",
    "flapping",
    "foreach",
    "foreach_batch",
    "full_disk",
    "gap",
    "gap_by_load",
    "gap_recovery",
    "handed_over_loss",
    "isolate",
    "k_safe_grouping",
    "k_safety",
    "largest_error",
    "loss",
    "lost_answer",
    "lost_request",
    "memory_limit",
    "ms",
    "numbered",
    "order",
    "out_of_memory",
    "packet_loss",
    "pandas_with_state",
    "partition",
    "passive_replication",
    "passive_standby",
    "pause",
    "precise_recovery",
    "processor",
    "processor_in_pandas",
    "python_crash",
    "random_draws",
    "recovers",
    "recovers_within",
    "recovery",
    "replicas_agree",
    "reset",
    "ring",
    "rollback_recovery",
    "seconds",
    "simulate",
    "single_words",
    "slow_close",
    "slow_disk",
    "source_replay",
    "split_brain",
    "stateless",
    "stop",
    "store_loss",
    "survives_power_loss",
    "text",
    "trace",
    "transactional_sink",
    "turns_by_load",
    "upstream_backup",
    "windows",
    "word_count",
    "word_stream",
    "words",
]

_NAMES = {
    "faults.bandwidth": "bandwidth",
    "faults.bridge": "bridge",
    "faults.cpu_throttle": "cpu_throttle",
    "faults.crash": "crash",
    "faults.crash_loop": "crash_loop",
    "faults.delay": "delay",
    "faults.disk_bandwidth": "disk_bandwidth",
    "faults.executor_crash": "executor_crash",
    "faults.failed_write": "failed_write",
    "faults.flapping": "flapping",
    "faults.full_disk": "full_disk",
    "faults.handed_over_loss": "handed_over_loss",
    "faults.isolate": "isolate",
    "faults.loss": "loss",
    "faults.lost_answer": "lost_answer",
    "faults.lost_request": "lost_request",
    "faults.memory_limit": "memory_limit",
    "faults.out_of_memory": "out_of_memory",
    "faults.packet_loss": "packet_loss",
    "faults.partition": "partition",
    "faults.pause": "pause",
    "faults.python_crash": "python_crash",
    "faults.reset": "reset",
    "faults.ring": "ring",
    "faults.slow_close": "slow_close",
    "faults.slow_disk": "slow_disk",
    "faults.split_brain": "split_brain",
    "faults.stop": "stop",
    "faults.store_loss": "store_loss",
    "harness.certifying.budget": "Budget",
    "harness.certifying.planning": "CrashPlan every_crash_point",
    "harness.core.costs": "Costs",
    "harness.core.errors": "StreamproofError",
    "harness.exploration.counterexample": "assert_survives",
    "harness.exploration.simulating": "Simulated largest_error simulate",
    "harness.crash_points.inside_python.user_points": "crash_point",
    "harness.core.guarantees": "Guarantee amnesia_recovery at_least_once at_most_once bounded_error exactly_once "
    "exactly_once_output "
    "gap_recovery k_safety precise_recovery recovers recovers_within replicas_agree rollback_recovery "
    "survives_power_loss",
    "harness.core.events": "Event Output",
    "harness.core.operators": "Operator RandomOperator",
    "harness.core.topology": "Edge Partitioning Stage Topology",
    "harness.core.quantities": "events ms seconds",
    "harness.core.result_bounds": "bounded_error_of_result",
    "harness.contracts.query": "Query RunFolders Store",
    "harness.contracts.query_parts": "foreach foreach_batch pandas_with_state processor processor_in_pandas",
    "harness.contracts.scenario": "Scenario",
    "harness.core.schedule": "batch checkpoint recovery",
    "reference_impls.mechanisms.merges": "ByTime RoundRobin",
    "harness.contracts.claims": "Claim",
    "harness.core.workload": "Workload",
    "reference_impls.amnesia": "amnesia",
    "reference_impls.approximate": "approximate",
    "reference_impls.gap": "gap",
    "reference_impls.gap_by_load": "gap_by_load",
    "reference_impls.turns_by_load": "turns_by_load",
    "reference_impls.upstream_backup": "upstream_backup",
    "reference_impls.source_replay": "source_replay",
    "reference_impls.transactional_sink": "transactional_sink",
    "reference_impls.passive_standby": "passive_standby",
    "reference_impls.k_safe_grouping": "k_safe_grouping",
    "reference_impls.deployed": "deployed",
    "reference_impls.active_standby": "active_standby",
    "reference_impls.active_replication": "active_replication",
    "reference_impls.passive_replication": "passive_replication",
    "scenarios.trace": "trace",
    "scenarios.random_draws": "random_draws",
    "scenarios.word_stream": "word_stream",
    "scenarios.windows": "windows",
    "scenarios.stateless": "stateless",
    "scenarios.order": "order",
    "scenarios.equi_join": "equi_join",
    "scenarios.word_count": "word_count",
    "scenarios.workloads": "numbered single_words text words",
}
_HOMES = {name: (module, name) for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "strategies":
        # Not among the names above, all of which a star imports: it needs hypothesis, which not everybody has.
        return import_module(f"{__name__}.strategies")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = home
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
