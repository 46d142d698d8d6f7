"""How the simulated machines behave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...core.errors import InvalidScenario
from ...core.workload import Workload

MOST_NODES: Final = 10_000


@dataclass(frozen=True)
class SimulationOptions:
    """How the simulated machines behave; times in microseconds of virtual time."""

    nodes: int = 3
    offer_interval: int = 1_000
    """Between two batches of a source, of a workload without a rate."""
    obeys_rate: bool = True
    """Whether a workload's own rate is kept to, where it states one. A search makes its own world, whose proportions it
    has chosen: there input comes as `offer_interval` says."""
    link_delay: tuple[int, int] = (200, 800)
    """Bounds of a message's delay, drawn uniformly for each; channels stay FIFO."""
    disk_delay: tuple[int, int] = (500, 3_000)
    detection: int = 5_000
    """From the death of a node until the manager knows."""
    redeployment: int = 3_000
    """From the manager's decision until a slice starts."""
    restart_node_after: int | None = 20_000
    """Until a dead node joins again; None: never."""
    control_delay: int = 200
    turn: int = 100
    """What a slice puts off for a moment, to let others in between, comes so much later."""
    step_limit: int = 5_000_000
    """A run that takes more steps than this is given up as not coming to rest."""

    def __post_init__(self) -> None:
        """Raises InvalidScenario."""
        if not 1 <= self.nodes <= MOST_NODES:
            raise InvalidScenario(f"a simulated world of {self.nodes:,} nodes: give it 1 to {MOST_NODES:,}")
        for name, (low, high) in (("link_delay", self.link_delay), ("disk_delay", self.disk_delay)):
            if not 0 <= low <= high:
                raise InvalidScenario(f"{name} is ({low}, {high}): give a lower and an upper bound, in microseconds")
        times = ("offer_interval", "detection", "redeployment", "restart_node_after", "control_delay", "turn")
        for name in (*times, "step_limit"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise InvalidScenario(f"{name} is {value}: it cannot be below zero")

    def interval(self, workload: Workload) -> int:
        """Between two batches of each source of this workload."""
        return workload.interval if self.obeys_rate and workload.rate is not None else self.offer_interval


LIKE_EMBEDDED: Final = SimulationOptions(
    offer_interval=250_000,
    obeys_rate=False,
    link_delay=(100, 1_000),
    disk_delay=(1_000, 20_000),
    detection=30_000,
    redeployment=10_000,
    restart_node_after=6_000_000,
    control_delay=500,
)
"""A world whose times are those of embedded Spark, with input that comes slowly enough for a recovery to be over before
the next batch. What is found here does not rest on proportions that a real cluster does not have, such as a checkpoint
that takes as long as three batches, and so it replays there (see `exploration.counterexample.replay`)."""
