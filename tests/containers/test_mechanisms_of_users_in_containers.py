"""A mechanism that the package does not know is killed at its own crash point in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.harness.worlds.docker.cluster import DockerCluster
from users_mechanism_on_clusters import dies_where_the_mechanism_says

# On embedded Spark the same is tried in each run of the tests.
pytestmark = [pytest.mark.docker, pytest.mark.long]


@pytest.mark.parametrize("careful", [False, True])
def test_a_crash_at_a_users_point_shows_what_it_breaks(careful: bool, tmp_path: Path) -> None:
    dies_where_the_mechanism_says(DockerCluster(), tmp_path / "run", careful=careful)
