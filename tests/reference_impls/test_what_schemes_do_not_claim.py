"""Schemes do not keep more than they claim: so the oracles are seen to tell the classes of recovery apart."""

from typing import Any

import pytest

from simulation import SCHEMES, WORLDS, scenario_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidScenario, InvalidTopology
from streamproof.harness.core.guarantees import Guarantee
from streamproof.harness.core.quantities import Events, seconds
from streamproof.harness.core.slice_names import slice_of
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules
from streamproof.harness.exploration.search import SearchBudget, search
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.k_safe_grouping import k_safe_grouping
from streamproof.reference_impls.mechanisms.merges import RoundRobin
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.source_replay import source_replay
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.equi_join import equi_join
from streamproof.scenarios.order import two_splitters
from streamproof.scenarios.random_draws import random_draws
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.word_stream import word_stream
from verdicts_of import run

REGISTRY = Registry()
BEYOND = [
    ("amnesia/word-count-words", Guarantee("gap-recovery", Events(4))),
    ("amnesia/word-count-words", Guarantee("at-least-once")),
    ("gap/trace-numbered", Guarantee("at-least-once")),
    ("gap/trace-numbered", Guarantee("rollback-recovery-divergent")),
    ("upstream-backup/stateless", Guarantee("precise-recovery")),
    ("upstream-backup/stateless", Guarantee("exactly-once-output")),
    ("upstream-backup/windows", Guarantee("rollback-recovery-repeating")),
    ("passive-replication/word-count-words", Guarantee("precise-recovery")),
    ("passive-replication/word-count-words", Guarantee("exactly-once-output")),
    ("active-standby-shown/word-count-words", Guarantee("exactly-once-output")),
    ("source-replay/stateless", Guarantee("exactly-once-output")),
    ("source-replay/stateless", Guarantee("precise-recovery")),
]


@pytest.mark.parametrize(("case", "guarantee"), BEYOND, ids=lambda one: str(one))
def test_what_a_scheme_does_not_claim_some_schedule_violates(case: str, guarantee: Guarantee) -> None:
    scenario = scenario_of(case)
    asking = Scenario(scenario.subject, scenario.workload, claims=[guarantee])
    bench = Bench(asking, REGISTRY, seed=3, options=WORLDS["usual"])
    found = search(bench, [EverySingle(), RandomSchedules(3)], SearchBudget(600), until=lambda violation: True)
    assert found.statuses[Status.VIOLATED] > 0


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if "stand" in name or "active" in name or "safe" in name])
def test_a_slice_that_loses_all_its_replicas_is_beyond_the_claim_and_loses(scheme: str) -> None:
    scenario = scenario_of(f"{scheme}/trace-numbered")
    replicas = [name for name in scenario.subject.actors if slice_of(name) == "trace-0"]
    judged = run(scenario, [crash(*replicas).after(seconds(0.015))])
    assert judged.verdict("at-least-once").status is Status.VIOLATED
    assert judged.claim.status is Status.UNKNOWN
    # The nodes of these replicas run others too.
    assert "beyond what is claimed" in judged.claim.reason
    assert "when no other replica of it was in sync" in judged.claim.reason


def test_what_a_scheme_cannot_protect_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidTopology, match=r"draw of .random-draws. is not deterministic"):
        active_replication(random_draws())
    with pytest.raises(InvalidTopology, match=r"count of .word-count. keeps state for ever"):
        upstream_backup(word_count())
    with pytest.raises(InvalidTopology, match="more than one input channel: its high-water mark"):
        k_safe_grouping(two_splitters())
    with pytest.raises(InvalidTopology, match="declares no fan_out"):
        k_safe_grouping(word_count())
    with pytest.raises(InvalidScenario, match=r"replicas=1: .* needs 2 or more"):
        active_replication(word_count(), replicas=1)
    with pytest.raises(InvalidScenario, match=r"k=0: .* needs 1 or more"):
        k_safe_grouping(word_stream(), k=0)


def test_amounts_without_their_unit_and_merges_that_do_not_fit_are_refused_before_anything_starts() -> None:
    plain: Any = 500
    with pytest.raises(InvalidScenario, match=r"checkpoint_every of .* cannot be 500; .* events"):
        passive_replication(word_count(), checkpoint_every=plain)
    with pytest.raises(InvalidScenario, match=r"acknowledge_every of .* cannot be 500; .* events"):
        active_replication(word_count(), acknowledge_every=plain)
    with pytest.raises(InvalidScenario, match=r"silence of .* cannot be 500; .* seconds"):
        active_replication(equi_join(), silence=plain)
    with pytest.raises(InvalidScenario, match=r"timeout of .* cannot be 500; .* seconds"):
        source_replay(stateless(), timeout=plain)
    with pytest.raises(InvalidScenario, match=r"timeout of .* cannot be nothing"):
        source_replay(stateless(), timeout=seconds(0))
    with pytest.raises(InvalidScenario, match=r"merge of .* cannot be 500"):
        active_replication(equi_join(), merge=plain)
    with pytest.raises(InvalidTopology, match="as many weights"):
        active_replication(equi_join(), merge=RoundRobin((1,)))
