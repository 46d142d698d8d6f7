"""A coordinator of a user's in an executor of Spark's."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinators_on_clusters import dies_while_it_gathers
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_a_coordinator_that_dies_while_a_cut_is_gathered_comes_back_and_goes_on(tmp_path: Path) -> None:
    """With a slice on its node: all slices start again, from the cut that is on record."""
    dies_while_it_gathers(EmbeddedCluster(), tmp_path / "run", "together")
