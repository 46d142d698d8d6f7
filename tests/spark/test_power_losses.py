"""Sinks under losses of power, on embedded Spark: what was not synced is lost, and only its own claim speaks of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from file_sinks import synced, unsynced
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import Certified, certify
from streamproof.harness.certifying.conclusion import NOT_REALLY
from streamproof.harness.certifying.plan import How, Victim
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.certifying.saved import COUNTEREXAMPLE, read_saved, replay_saved
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.guarantees import Guarantee, exactly_once, survives_power_loss
from streamproof.harness.core.verdicts import Status
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.scenarios.workloads import words

pytestmark = [pytest.mark.spark, pytest.mark.long]

ONCE = exactly_once()
SURVIVES = survives_power_loss()
"""What the sink loses alone: of Spark's own checkpoint, a local disk with ext4 keeps too little."""


def certified(query: Query, folder: Path, *claims: Guarantee) -> Certified:
    registry = Registry()
    found = certify(
        query,
        claims,
        every_crash_point(Victim.DRIVER, recovering=False, split_brain=False),
        workload=words(events=10),
        cluster=EmbeddedCluster(),
        registry=registry,
        budget=Budget(kills=0, minutes=6),
        folder=folder / "certificate",
    )
    assert judge_certificate(found.folder, registry.oracles).differences == ()
    return found


def status(found: Certified, claim: Guarantee) -> Status:
    (verdict,) = (one for one in found.certificate.verdicts if one.claim == str(claim))
    return verdict.status


def test_a_sink_that_renames_what_it_has_not_synced_loses_a_batch_with_the_power_alone(tmp_path: Path) -> None:
    found = certified(unsynced, tmp_path, ONCE, SURVIVES)
    assert status(found, ONCE) is Status.HOLDS
    assert status(found, SURVIVES) is Status.VIOLATED
    verdict = next(one for one in found.certificate.verdicts if one.claim == str(SURVIVES))
    # Two recovery workers show it of two batches, and either can be the first.
    assert re.search(r"lost: what sink/batch-[01] was written since its last fsync", verdict.summary)
    assert NOT_REALLY in verdict.summary
    assert (verdict.violated, verdict.repeats) == (2, 2)
    shown = found.certificate.counterexample
    assert shown is not None
    assert (shown.claim, shown.how) == (str(SURVIVES), How.POWER_LOSS)
    assert "lost: what sink/" in str(shown.crashes[0])
    again = tmp_path / "again"
    saved = read_saved(found.folder / COUNTEREXAMPLE)
    judged = replay_saved(saved, unsynced, words(events=10), EmbeddedCluster(), Registry(), again)
    assert {str(one.guarantee): one.status for one in judged.verdicts} == {str(SURVIVES): Status.VIOLATED}


def test_its_twin_that_syncs_file_and_folder_keeps_every_batch(tmp_path: Path) -> None:
    found = certified(synced, tmp_path, ONCE, SURVIVES)
    assert (status(found, ONCE), status(found, SURVIVES)) == (Status.HOLDS, Status.HOLDS)
    losses = [trial for trial in found.certificate.trials if trial.how is How.POWER_LOSS]
    assert {trial.crashes[-1].batch for trial in losses} == {0, 1}
    assert any("lost: everything that no fsync covers" in str(trial.crashes[-1]) for trial in losses)
    assert {"crash states a minute", "losses of power a minute"} <= found.certificate.figures.keys()
