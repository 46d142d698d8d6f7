"""One machine of the simulated world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ...core.addresses import Address, Point
from ...protocol.effects import RestartAll, Timer
from ...protocol.host import Host
from ...protocol.messages import Checkpoint, Items, Message
from .freezing import Freezable

if TYPE_CHECKING:
    from .world import SimulatedWorld

HARNESS = "harness"
"""The host of the sources and sinks that are outside every fault domain."""


class WorldNode(Freezable):
    """One simulated machine, and the world as its host sees it. Its memory is its host, which goes when it dies."""

    def __init__(self, name: str, world: SimulatedWorld) -> None:
        super().__init__(world.note, world.network.send)
        self.name = name
        self.alive = True
        self.boot = 1
        """Its number, as it rises with each restart, so that what was under way in an earlier one is void."""
        self.lost = False
        """Whether it was given up for lost though it is alive, and has not heard of it yet."""
        self.work = None if world.workforce is None else world.workforce.host(self, cores=name != HARNESS)
        """Where work takes time: the host, as what works."""
        self.host = self.work or Host(self)
        self._world = world
        self.watched: Callable[[str], frozenset[Point]] = world.watched
        self.arrive: Callable[[Address, int], bool] = partial(world.arrive, self)

    def send(self, sender: str, to: str, incarnation: int, message: Message) -> None:
        self.send_on((sender, message.incarnation, to, incarnation), message)

    def has_delivered(self, address: Address, taken: int, to: str, incarnation: int) -> bool:
        """Delivery takes time, and is announced when the message arrives."""
        return False

    def persist(self, checkpoint: Checkpoint | Items) -> None:
        if not (self.freezes and self.puts_off(self.persist, checkpoint)):
            self._world.persist(self, checkpoint)

    def set_timer(self, slice_id: str, timer: Timer, delay: int) -> None:
        if not (self.freezes and self.puts_off(self.set_timer, slice_id, timer, delay)):
            self._world.set_timer(self, slice_id, timer, delay)

    def drop_below(self, slice_id: str, incarnation: int, below: int) -> None:
        if not self.puts_off(self.drop_below, slice_id, incarnation, below):
            self._world.left_nodes += 1
            self._world.placing.drop_below(slice_id, incarnation, below)

    def restart_all(self, coordinator: str, incarnation: int, given: RestartAll) -> None:
        if not self.puts_off(self.restart_all, coordinator, incarnation, given):
            self._world.left_nodes += 1
            self._world.placing.restart_all(coordinator, incarnation, given)

    def ready(self, slice_id: str, incarnation: int) -> None:
        if not self.puts_off(self.ready, slice_id, incarnation):
            self._world.left_nodes += 1
            self._world.placing.ready(slice_id, incarnation)

    @property
    def actors(self) -> tuple[str, ...]:
        return tuple(machine.name for machine in self.host.slices.values())

    @property
    def incarnations(self) -> tuple[tuple[str, int], ...]:
        return tuple((slice_id, machine.incarnation) for slice_id, machine in self.host.slices.items())

    @property
    def under_way(self) -> tuple[str, ...]:
        return () if self.work is None else self.work.under_way
