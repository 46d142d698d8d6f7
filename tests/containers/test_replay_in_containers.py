"""What a search finds in the simulator replays in containers, through the same addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from found_in_the_simulator import MUTANTS, breaks_in_the_same_way
from streamproof.harness.worlds.docker.cluster import DockerCluster

pytestmark = pytest.mark.docker


@pytest.mark.parametrize(("origin", "anomaly"), MUTANTS)
def test_a_counterexample_of_the_simulator_breaks_the_claim_in_the_same_way(
    origin: str, anomaly: str, tmp_path: Path
) -> None:
    breaks_in_the_same_way(origin, anomaly, DockerCluster(), tmp_path)
