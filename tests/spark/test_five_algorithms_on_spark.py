"""AF-Stream's five algorithms on embedded Spark: the error that three failures left, beside its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from five_algorithms import ALGORITHMS, come_out_as_claimed
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_error_of_three_failures_is_bounded_and_shown(name: str, tmp_path: Path) -> None:
    come_out_as_claimed(name, EmbeddedCluster(), tmp_path / "run")
