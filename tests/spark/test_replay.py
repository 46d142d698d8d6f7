"""What a search finds in the simulator replays on embedded Spark, through the same addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from found_in_the_simulator import MUTANTS, breaks_in_the_same_way
from streamproof.harness.recording.folder import read_description
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes

# In containers the same is tried in each run of the tests.
pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize(("origin", "anomaly"), MUTANTS)
def test_a_counterexample_of_the_simulator_breaks_the_claim_in_the_same_way(
    origin: str, anomaly: str, tmp_path: Path
) -> None:
    breaks_in_the_same_way(origin, anomaly, EmbeddedCluster(), tmp_path)
    assert labelled_processes(read_description(tmp_path / "run").run) == []
