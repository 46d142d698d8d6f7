"""Where a subject runs. One contract for the simulator, embedded Spark and containers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..core.addresses import Address
from ..core.errors import InvalidScenario, Unsupported
from ..core.places import Places
from ..core.quantities import Duration
from ..core.topology import Role
from ..recording.recorder import Recorder
from ..recording.records import Stamped
from .injection import FaultKind
from .scenario import Scenario
from .subject import Deployment, SchemeSubject


@dataclass(frozen=True)
class Live:
    """What the progress line of a running scenario shows."""

    offered: int
    delivered: int
    fault: str
    """The fault in force; empty when there is none."""


@dataclass(frozen=True)
class Run:
    """Everything that a cluster needs to know about one execution of a scenario."""

    id: str
    """The label that everything started for it carries."""
    scenario: Scenario
    seed: int
    recorder: Recorder
    kinds: Mapping[str, FaultKind]
    folder: Path | None
    """Where logs and checkpoints go, absolute, for nodes run in folders of their own; None only where nothing is
    written, in the simulator."""
    show: Callable[[Live], None] = lambda live: None
    references: Sequence[Stamped] = ()
    """What a query's reference runs have left, where they are known; else they are run before it."""
    passed: Callable[[Address], None] | None = None
    """Told of every crash point that a query comes to, in the order in which it does. None: only those are announced
    that a fault waits for."""
    patience: Duration | None = None
    """How long a query may give no sign of work before its run is given up; None: until the scenario's deadline."""
    carriers: frozenset[str] = frozenset()
    """What carries the scenario's faults out, to be made ready before it begins; some have a name in `carriers`."""


def check_room(subject: SchemeSubject, nodes: int) -> None:
    """Raises Unsupported where the replicas of a slice cannot be apart."""
    if subject.replicas > nodes:
        raise Unsupported(
            f"{subject.name} has {subject.replicas} replicas of each slice, apart from one another: "
            f"it needs as many nodes, and there {'is' if nodes == 1 else 'are'} {nodes}"
        )


def check_pace(scenario: Scenario, interval: int | None) -> None:
    """Whether what is in a window leaves it before it is taken for lost and sent again, where batches come every
    `interval` microseconds; None: nobody knows how often.

    A window is in event time and a time-out in the world's: only the pace of the input makes one of the other.

    Raises InvalidScenario.
    """
    subject, workload = scenario.subject, scenario.workload
    if not isinstance(subject, SchemeSubject):
        return
    sources, operators = subject.mechanisms_of(Role.SOURCE), subject.mechanisms_of(Role.OPERATOR)
    timeout = next((one.sends_again_after for one in sources if one.sends_again_after is not None), None)
    if timeout is None:
        return
    idle = next((one.silent_for for one in operators if one.silent_for is not None), Duration(0))
    for name, stage in subject.topology.stages.items():
        window = stage.operator.window
        if window is None:
            continue
        who = f"{name} of {subject.name!r} has a window of {window} ms of event time"
        again = f"an event is sent again after {timeout}"
        if interval is None:
            raise InvalidScenario(
                f"{who}, and {again}: how long a window lasts here depends on how fast the input comes; give the "
                "workload a rate"
            )
        # What comes first in a batch leaves when a batch brings a later time than the window's end.
        lasts = Duration((window // workload.stretch + 1) * interval + idle.micros)
        if lasts >= timeout:
            raise InvalidScenario(
                f"{who}, which lasts {lasts} where {workload.stretch} ms of it come every {Duration(interval)}, and "
                f"{again}: make the time-out longer than the window and the latency together, or the input faster"
            )


class Cluster(Protocol):
    @property
    def name(self) -> str:
        """`simulated`, `embedded` or `docker`."""

    @property
    def places(self) -> Places:
        """Its machines, by the names that faults can be aimed at."""

    @property
    def virtual_time(self) -> bool:
        """Whether durations mean nothing here."""

    def check(self, scenario: Scenario) -> None:
        """Refuse what this cluster cannot run, before anything starts. Raises Unsupported or MissingTool."""

    def require(self, carriers: Collection[str]) -> None:
        """See that what carries faults out can be had here, before anything starts. Raises MissingTool."""

    def describe(self, scenario: Scenario) -> Mapping[str, object]:
        """What a record must say about it as it is for this scenario: sizes, settings, versions."""

    def deploy(self, run: Run) -> AbstractContextManager[Deployment]:
        """The subject on this cluster. Leaving the context releases everything, on every path."""

    def kept_warm(self, folder: Path | None = None) -> AbstractContextManager[Cluster]:
        """The same, with what it starts kept up from one run to the next until the context is left. Until then, what
        belongs to no run is in `folder`, or in `runs`: not in a folder of records, which would not stay as it is."""
