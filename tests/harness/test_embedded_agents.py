"""Every scheme on the embedded runtime, without the processes: replicas, standbys and followed events over real links,
with nodes that die in the middle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agents_in_process import ThreadsCluster
from streamproof.faults.crash import crash
from streamproof.harness.quantities import events, seconds
from streamproof.harness.registry import Named, Registry
from streamproof.harness.running import Finished, run_named
from streamproof.harness.scenario import Scenario
from streamproof.harness.schedule import Fault
from streamproof.harness.subject import SchemeSubject
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.deployed import deployed
from streamproof.reference_impls.k_safe_grouping import k_safe_grouping
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.reference_impls.source_replay import source_replay
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

EVERY = events(60)

SCHEMES: dict[str, Callable[[], SchemeSubject]] = {
    "passive-replication": lambda: passive_replication(word_count(), checkpoint_every=EVERY, sink_filter=True),
    "active-replication": lambda: active_replication(word_count(), acknowledge_every=EVERY),
    "active-standby": lambda: active_standby(word_count()),
    "passive-standby-hot": lambda: passive_standby(word_count(), checkpoint_every=EVERY),
    "deployed": lambda: deployed(word_count(), checkpoint_every=EVERY),
}


def _run(subject: SchemeSubject, faults: list[Fault], folder: Path) -> Finished:
    scenario = Scenario(subject, words(events=1_000, rate=2_000), faults, deadline=seconds(15))
    return run_named(Named("test", "test", "", scenario), ThreadsCluster(), Registry(), seed=1, folder=folder)


def _verdicts(finished: Finished) -> dict[str, str]:
    return {v.guarantee.name: f"{v.status} {v.reason or v.summary}" for v in finished.judgement.verdicts}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("target", ["nobody", "count-0", "count-0/1", "split-0"])
def test_a_scheme_keeps_its_word_on_node_agents(scheme: str, target: str, tmp_path: Path) -> None:
    subject = SCHEMES[scheme]()
    if target != "nobody" and target not in subject.actors:
        pytest.skip(f"{scheme} has no {target}")
    faults = [] if target == "nobody" else [crash(target).after(seconds(0.15))]
    finished = _run(subject, faults, tmp_path / "run")
    assert [struck.bite.bit for struck in finished.history.struck()] == [True] * len(faults)
    verdicts = _verdicts(finished)
    assert verdicts and all(text.startswith("HOLDS") for text in verdicts.values()), verdicts
