"""A topology that keeps nothing: what upstream backup repeats after a recovery, it repeats the same."""

from __future__ import annotations

from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.topology import Edge, Partitioning, Stage, Topology


class Forward(Operator[None]):
    """Passes events on as they come. Keeps nothing."""

    fan_out = 1

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> tuple[Output]:
        return ((event.key, event.value),)


class Normalise(Operator[None]):
    """Text in lower case, with one space between words; any other value as it is. Keeps nothing."""

    fan_out = 1

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> tuple[Output]:
        value = event.value
        return ((event.key, " ".join(value.lower().split()) if isinstance(value, str) else value),)


class Tag(Operator[None]):
    """Puts the event's time before its value. Keeps nothing.

    Not its id: a recovered slice upstream may number the same event anew.
    """

    fan_out = 1

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> tuple[Output]:
        return ((event.key, [event.time, event.value]),)


def stateless(parallelism: int = 2) -> Topology:
    """One normaliser, `parallelism` taggers: `normalise-0`, `tag-0`, `tag-1`, ..."""
    return Topology(
        "stateless",
        {"normalise": Stage(Normalise()), "tag": Stage(Tag(), parallelism)},
        (
            Edge("source", "normalise", Partitioning.ONE_TO_ONE),
            Edge("normalise", "tag", Partitioning.SPLIT),
            Edge("tag", "sink", Partitioning.MERGE),
        ),
    )
