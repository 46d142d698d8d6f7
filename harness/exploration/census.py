"""Every crash address that a run in the simulator passes: what there is to enumerate.

The same scenario and seed pass the same addresses, so each of them is a place at which a later run can be struck: turn
one into a trigger with `Moment.exactly`. A census under a schedule also passes what only a recovery reaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import msgspec

from ..contracts.cluster import Run
from ..contracts.injection import FaultKind
from ..contracts.scenario import Scenario
from ..core.addresses import Address, Moment, Point
from ..core.quantities import Duration
from ..core.schedule import AtTime, Fault
from ..protocol.controller import Controller, Strike
from ..recording.history import History, Stamp
from ..recording.recorder import MemoryRecorder
from ..worlds.simulated.cluster import SimulatedCluster
from ..worlds.simulated.deployment import SimulatedDeployment
from ..worlds.simulated.options import SimulationOptions


class Reached(msgspec.Struct, frozen=True, gc=False):
    """An address, and where in the run it was first reached."""

    address: Address
    step: int
    """The simulator's step."""
    after: tuple[int, ...]
    """The places in the schedule of the faults that had struck before; empty in the part without failures."""
    times: int = 1
    """How often it was reached; what a slice does has an address of its own each time."""
    at: int = 0
    """Microseconds of virtual time since the run began."""
    taken: int = 0
    """Events that its actor had taken."""
    left: int = 0
    """How often something had left a node, otherwise than by a link or a write."""


class CensusController(Controller):
    """Lets every point of these actors be announced, as long as it watches, and keeps what was; None: of all, the
    sources and sinks among them."""

    def __init__(self, schedule: Sequence[Fault] = (), actors: Collection[str] | None = None) -> None:
        super().__init__(schedule)
        self._actors = actors
        self.watching = True
        """Who changes this gives the world its `control` once more."""
        self.look_at(None)
        self._passed: list[Reached] = []
        self._struck: tuple[int, ...] = ()

    def look_at(self, world: SimulatedDeployment | None) -> None:
        """See there where in the run something is reached. Let go of it, so that they do not refer to one another."""
        self._now: Callable[[], Stamp] = _at_no_time if world is None else world.now
        self._has_left: Callable[[], int] = int if world is None else world.has_left

    def watched(self, actor: str) -> frozenset[Point]:
        wanted = self.watching and (self._actors is None or actor in self._actors)
        return _EVERY if wanted else super().watched(actor)

    def watches(self, point: Point) -> bool:
        return self.watching or super().watches(point)

    def arrived(self, address: Address, taken: int = 0) -> list[Strike]:
        # Others are announced as well only where a fault waits for them.
        if self.watching and (not self._moments or self._actors is None or address.name in self._actors):
            now, left = self._now(), self._has_left()
            self._passed.append(Reached(address, now.step or 0, self._struck, at=now.at, taken=taken, left=left))
        return self._note(super().arrived(address, taken)) if self._moments else []

    def arm(self, number: int, fault: Fault) -> None:
        """Wait for one more fault, with this place in the schedule, whose moment or time has not come. Who arms one
        with a time gives the world its `control` once more."""
        if isinstance(fault.trigger, Moment):
            self._moments = [*self._moments, (number, fault, fault.trigger)]
        elif isinstance(fault.trigger, AtTime):
            self._times = [*self._times, (number, fault, fault.trigger.after)]

    def elapsed(self, since_start: Duration) -> list[Strike]:
        return self._note(super().elapsed(since_start))

    def _note(self, strikes: list[Strike]) -> list[Strike]:
        if strikes:
            self._struck += tuple(strike.number for strike in strikes)
        return strikes

    @property
    def passed(self) -> tuple[Reached, ...]:
        """All that was reached, each as often as it was."""
        return tuple(self._passed)

    def since(self, faults: int) -> tuple[Reached, ...]:
        """What was first reached once so many faults had struck, in order."""
        return tuple(one for one in self._first().values() if len(one.after) == faults)

    def reached(self) -> tuple[Reached, ...]:
        """In the order in which they were first reached."""
        first = self._first()
        if len(first) < len(self._passed):
            for address, times in Counter(one.address for one in self._passed).items():
                if times > 1:
                    first[address] = msgspec.structs.replace(first[address], times=times)
        return tuple(first.values())

    def _first(self) -> dict[Address, Reached]:
        first: dict[Address, Reached] = {}
        for one in self._passed:
            first.setdefault(one.address, one)
        return first


_EVERY = frozenset(Point)


def _at_no_time() -> Stamp:
    return Stamp(0, 0)


def census(
    scenario: Scenario,
    kinds: Mapping[str, FaultKind],
    *,
    seed: int,
    schedule: Sequence[Fault] | None = None,
    options: SimulationOptions | None = None,
) -> tuple[Reached, ...]:
    """The addresses that `scenario` passes, in the order in which they are first reached.

    `schedule` is used in place of the scenario's own faults; `()` asks for the run without failures. What is reached
    after a fault has struck says so, and what of it a run without failures does not pass belongs to the recovery:

        calm = census(scenario, kinds, seed=1, schedule=())
        recovering = [r for r in census(scenario, kinds, seed=1, schedule=faults) if r.after]

    Raises Unsupported for a subject that the simulator cannot run, InvalidOperator when the user's code fails.
    """
    return watched_run(scenario, kinds, seed=seed, schedule=schedule, options=options)[0]


def watched_run(
    scenario: Scenario,
    kinds: Mapping[str, FaultKind],
    *,
    seed: int,
    schedule: Sequence[Fault] | None = None,
    options: SimulationOptions | None = None,
    actors: Collection[str] | None = None,
) -> tuple[tuple[Reached, ...], History]:
    """As `census`, of some actors only where they are named, with what the run leaves behind; it is not inspected at
    the end."""
    faults = scenario.faults if schedule is None else schedule
    recorder = MemoryRecorder()
    controller = CensusController(faults, actors)
    run = Run("census", replace(scenario, faults=tuple(faults)), seed, recorder, kinds, None)
    with SimulatedCluster(options).simulate(run, controller) as deployment:
        controller.look_at(deployment)
        deployment.prepare()
        deployment.start()
        deployment.drained(scenario.deadline)
        controller.look_at(None)
    return controller.reached(), recorder.history()
