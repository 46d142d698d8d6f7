"""AF-Stream's five algorithms under three failures, one of them of all slices at once, on a real cluster."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from streamproof.harness.contracts.cluster import Cluster
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.core.guarantees import BOUNDED_ERROR
from streamproof.harness.recording.records import Started
from streamproof.harness.reporting.runs import view_of_run
from streamproof.harness.reporting.screen import run_screen
from streamproof.harness.running.run import Finished, run_named

ALGORITHMS = (
    "grep.approximate",
    "partial-counts.approximate",
    "heavy-hitters.approximate",
    "ripple-join.approximate",
    "logistic-regression.approximate",
)


def come_out_as_claimed(name: str, cluster: Cluster, folder: Path) -> Finished:
    """Every failure bit and ended an incarnation of each that it struck, the claim holds, and the screen shows errors
    beside their bounds."""
    registry = Registry()
    finished = run_named(registry.scenario(name), cluster, registry, seed=1, folder=folder)
    (verdict,) = finished.judgement.verdicts
    assert finished.judgement.exit_status is ExitStatus.HOLDS, verdict
    assert verdict.guarantee.name == BOUNDED_ERROR
    struck = list(finished.history.struck())
    assert all(entry.bite.bit for entry in struck)
    assert {entry.number for entry in struck} == {0, 1, 2}
    struck_as_often = Counter(target for fault in registry.scenario(name).scenario.faults for target in fault.targets)
    started = {(one.slice, one.incarnation) for one in finished.history.each(Started)}
    for slice_id, often in struck_as_often.items():
        began = sorted(number for name, number in started if name == slice_id)
        assert len(began) > often, f"{slice_id} was struck {often} times, and has lived as {began} only"
    view = view_of_run(finished.description, finished.history, finished.judgement, finished.folder)
    screen = [line.plain for line in run_screen(view)]
    print("", *screen, sep="\n")
    assert any(" allowed (" in line and line.endswith(" failures") for line in screen), screen
    return finished
