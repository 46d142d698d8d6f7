"""What the logs of a simulated run held, and when: the run is carried out once more, and looked at meanwhile, since no
record says what was acknowledged."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from ...contracts.cluster import Run
from ...contracts.injection import FaultKind
from ...contracts.scenario import Scenario
from ...core.wording import numbers_said
from ...protocol.controller import Controller
from ...recording.history import History
from ...recording.recorder import MemoryRecorder
from ...recording.records import Offered, Record, whose
from .cluster import SimulatedCluster
from .deployment import SimulatedDeployment

_Kept = Mapping[str, str]
"""Downstream slice -> what is kept for it, in words."""


class LogsHeld:
    """By slice and incarnation, what its log held after each record of it."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[list[int], list[_Kept]]] = {}

    def note(self, who: tuple[str, int], at: int, kept: _Kept) -> None:
        times, all_kept = self._seen.setdefault(who, ([], []))
        times.append(at)
        all_kept.append(kept)

    def of(self, slice_id: str, incarnation: int, at: int) -> Iterator[tuple[str, str]]:
        """What it held at a time, in microseconds: labels and what they say."""
        times, all_kept = self._seen.get((slice_id, incarnation), ([], []))
        place = bisect_right(times, at)
        for to, numbers in all_kept[place - 1].items() if place else ():
            yield f"log for {to}", numbers


class _LookingOn(MemoryRecorder):
    """Looks at the log of each slice that has something to record."""

    def __init__(self) -> None:
        super().__init__()
        self.logs = LogsHeld()
        self.deployment: SimulatedDeployment | None = None

    def note(self, at: int, record: Record) -> None:
        super().note(at, record)
        who = (record.source, 1) if isinstance(record, Offered) else (whose(record), getattr(record, "incarnation", 0))
        if self.deployment is not None:
            kept = self.deployment.kept_for_replay(*who)
            self.logs.note(who, at, {to: numbers_said(numbers) for to, numbers in kept.items()})


def logs_held(
    cluster: SimulatedCluster, scenario: Scenario, seed: int, kinds: Mapping[str, FaultKind], history: History
) -> LogsHeld:
    """Of the run that has left this history. Nothing is known where what is carried out here comes to another, as code
    does that depends on more than its input. Raises UsersCodeFailed when the user's code does."""
    recorder = _LookingOn()
    run = Run("looked-at", scenario, seed, recorder, kinds, None)
    with cluster.simulate(run, Controller(scenario.faults)) as deployment:
        recorder.deployment = deployment
        deployment.prepare()
        deployment.start()
        deployment.drained(scenario.deadline)
        deployment.stop()
    return recorder.logs if recorder.history().digest() == history.digest() else LogsHeld()
