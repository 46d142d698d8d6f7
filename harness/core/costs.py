"""What work costs where time is virtual: with it overload, queues and recovery times mean something there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .errors import InvalidScenario
from .proper import positive, proper
from .quantities import Duration, Events
from .slice_names import operator_of


@dataclass(frozen=True)
class Costs:
    """How long each operator works on an event, on one core of its node, and how many cores a node has. A real cluster
    has costs of its own, and leaves these aside.

    What is taken costs; what a filter drops, control messages, checkpoints and what is made at the end of an epoch do
    not.
    """

    per_event: Mapping[str, Duration] = field(hash=False)
    """Operator -> for one event; what is not named costs nothing."""
    cores: int = 1
    """Of each node. A slice works on one input at a time, so that it never uses more than one of them."""
    room: Events | None = None
    """How many events may wait for a slice before those that feed it take nothing more (back-pressure); what is on its
    way by then comes on top. None: any number."""

    def __post_init__(self) -> None:
        """Raises InvalidScenario for costs that are none."""
        wanted = "a mapping from operators to amounts of time, as in {'count': ms(1)}"
        proper(self.per_event, Mapping, "what an event costs", wanted)
        for name, cost in self.per_event.items():
            proper(name, str, "an operator that costs", "a text")
            proper(cost, Duration, f"what an event costs at {name!r}", "an amount of time, as in ms(1)")
        positive(self.cores, "the number of cores of a node")
        proper(self.room, Events | None, "the room for events that wait", "a number of events, as in events(100)")
        if not any(cost.micros for cost in self.per_event.values()):
            raise InvalidScenario(
                "these costs are none: name an operator and what an event costs it, or leave them out"
            )

    def of(self, slice_id: str) -> int:
        """What an event costs a slice, in microseconds."""
        cost = self.per_event.get(operator_of(slice_id))
        return 0 if cost is None else cost.micros

    def describe(self) -> dict[str, Any]:
        """What a record must say of it."""
        return {
            "per_event": {name: cost.micros for name, cost in sorted(self.per_event.items())},
            "cores": self.cores,
            "room": None if self.room is None else self.room.count,
        }


def described_costs(described: object) -> Costs | None:
    """The costs that `Costs.describe` tells of; None where none are told of. Raises InvalidScenario."""
    if described is None:
        return None
    try:
        told = msgspec.convert(described, _Described)
    except msgspec.ValidationError as error:
        raise InvalidScenario(f"the costs of the record are none: {error}") from error
    per_event = {name: Duration(micros) for name, micros in told.per_event.items()}
    return Costs(per_event, told.cores, None if told.room is None else Events(told.room))


class _Described(msgspec.Struct, frozen=True):
    per_event: dict[str, int]
    cores: int
    room: int | None
