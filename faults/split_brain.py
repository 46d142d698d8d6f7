"""Split brain: a driver that was taken for lost goes on beside its successor."""

from __future__ import annotations

from ..harness.contracts.injection import FaultKind, Machines, Reach
from ..harness.core.addresses import DRIVER
from ..harness.core.places import Places
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def split_brain(*targets: str) -> Fault:
    """Freeze the driver of a query, start its successor on the same checkpoint, and let the first go on once the second
    has committed a batch, or has come to the end.

    Both run then, as they do where a driver is cut off and another is started in its place. What the first hands to
    the harness's sink is refused; a sink of the user's gets it. Say when with `.at(moment)` or `.after(amount)`. Raises
    InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.split_brain(fault.targets)


def _cannot(fault: Fault, places: Places) -> str:
    return "" if fault.targets == (DRIVER,) else "it is the driver of a query that two can be of; name the driver alone"


KIND = FaultKind(
    name="split-brain",
    breaks="the rule that a query has one driver: two run on one checkpoint",
    heals="the first, when it goes on, is refused or fails, or comes to the end of its input; what is left of it then "
    "is ended",
    proof="all processes of the first driver were seen to be stopped, with input still to be processed, and were let "
    "go on when its successor had begun",
    carriers={
        ("embedded", Reach.NODES): "SIGSTOP to every process of the driver, and SIGCONT beside its successor",
        ("docker", Reach.NODES): "a pause of the driver's container that ends beside its successor",
    },
    inflict=_inflict,
    cannot=_cannot,
    of_actors=True,
)
