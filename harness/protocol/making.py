"""Makes the machine of a slice, in every world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..core.errors import OwnFailure
from ..core.model import Event, Role
from .blaming import blamed
from .coordinator import CoordinatorMachine, CoordinatorSpec
from .host import Actor
from .machine import Machine, Slice
from .operator import OperatorSlice
from .sink import SinkSlice
from .source import SourceSlice
from .spec import SliceSpec


@dataclass(frozen=True)
class Feed:
    """What sources offer, and how fast."""

    batches: Callable[[str], Iterator[list[Event]]]
    """Of a source, from the first."""
    interval: int
    """Microseconds between two batches."""
    stretch: int
    """How much event time each batch stands for."""


def make_actor(spec: SliceSpec | CoordinatorSpec, feed: Feed | None = None) -> Actor:
    """A slice or a coordinator. Raises UsersCodeFailed when the user's code does, as all of these."""
    if not isinstance(spec, CoordinatorSpec):
        return make_slice(spec, feed)
    with blamed(spec):
        return CoordinatorMachine(spec)


def make_slice(spec: SliceSpec, feed: Feed | None = None) -> Slice:
    """A slice that has not been started, in whatever its spec puts around it. Only sources need a feed."""
    return wrapped(make_machine(spec, feed))


def make_machine(spec: SliceSpec, feed: Feed | None = None) -> Machine:
    """The machine itself, which its spec puts nothing around yet."""
    with blamed(spec):
        match spec.role:
            case Role.OPERATOR:
                return OperatorSlice(spec)
            case Role.SINK:
                return SinkSlice(spec)
            case Role.SOURCE:
                if feed is None:
                    raise OwnFailure(f"{spec.slice_id} is a source, and is placed where nothing is offered")
                return SourceSlice(spec, feed.batches(spec.slice_id), feed.interval, feed.stretch)


def wrapped(machine: Machine) -> Slice:
    """A machine in whatever its spec puts around it."""
    if machine.spec.wrap is None:
        return machine
    with blamed(machine.spec):
        return machine.spec.wrap(machine)
