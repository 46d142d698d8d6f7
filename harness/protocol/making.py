"""Makes the machine of a slice, in every world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..core.error_text import somebodys_code
from ..core.errors import InvalidScheme, OwnFailure
from ..core.events import Event
from ..core.topology import Role
from .blaming import blamed
from .coordinator import CoordinatorMachine, CoordinatorSpec
from .host import Actor
from .machine import Machine, Slice
from .operator import OperatorSlice
from .sink import SinkSlice
from .source import SourceSlice
from .spec import SliceSpec
from .stores import STORE_METHODS, CheckpointStore
from .wrapped_store import WrappedStore


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
    """A machine in whatever its spec puts around it. Raises InvalidScheme where that is no slice."""
    wrap = machine.spec.wrap
    if wrap is None:
        return machine
    with blamed(machine.spec):
        found = wrap(machine)
    if not callable(getattr(found, "on", None)) or getattr(found, "own", None) is not machine.own:
        raise InvalidScheme(
            f"what is put around {machine.spec.slice_id} ({_named(wrap)}) returned {found!r}, and no slice; return the "
            "machine, or what passes on to it what it is given and asked for"
        )
    return found


def store_within(wrap: Callable[[CheckpointStore], CheckpointStore], store: CheckpointStore) -> CheckpointStore:
    """A store in whatever a subject puts around it. Raises InvalidScheme where that fails, or is no store, now or when
    it is asked."""
    called = f"wrap_store ({_named(wrap)})"
    with somebodys_code(InvalidScheme, f"{called} failed"):
        found = wrap(store)
    if found is store:
        return store
    lacking = next((name for name in STORE_METHODS if not callable(getattr(found, name, None))), "")
    if lacking:
        raise InvalidScheme(f"{called} returned {found!r}, which has no {lacking}(); return a CheckpointStore")
    return WrappedStore(found, called)


def _named(wrap: object) -> str:
    return str(getattr(wrap, "__qualname__", type(wrap).__qualname__))
