"""Coordinators on the embedded runtime, without its processes: they are placed, led to, crashed and replaced over real
links."""

from __future__ import annotations

from pathlib import Path

from agents_in_process import ThreadsCluster
from coordinators_on_clusters import dies_beside_its_slices, dies_while_it_gathers


def test_a_coordinator_that_dies_while_a_cut_is_gathered_comes_back_and_goes_on(tmp_path: Path) -> None:
    dies_while_it_gathers(ThreadsCluster(workers=4), tmp_path / "run", "together")


def test_all_slices_start_again_together_when_one_is_lost(tmp_path: Path) -> None:
    dies_beside_its_slices(ThreadsCluster(workers=4), tmp_path / "run")
