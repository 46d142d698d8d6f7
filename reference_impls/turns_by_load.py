"""Turns by load: active replication whose merge goes by turns, with weights that follow the load of the channels.

A merge by turns (StreamMine3G, listing 3.5) waits for a channel that brings little while others wait for it, unless its
weights are about those of what the channels bring. Here an adjuster sees what comes in, and changes the weights of each
slice while the run goes on: a channel that brings so many times as much as the slowest gets so many events a turn.

- All else is as in active replication.
- A change comes at the same number of inputs in every replica, since the adjuster says where, and no replica gets as
  far before it has been said and is durable. So replicas, and those that join them, take the same in the same order.
- A replica that joins goes by the weights that were in force in the state that it takes over.

Where this departs from the paper: its weights are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..harness.contracts.subject import SchemeSubject
from ..harness.core.events import Value
from ..harness.core.proper import positive
from ..harness.core.quantities import Events, events
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from .active_replication import active_replication
from .mechanisms.adjusting import Adjustable, Adjuster, Load
from .mechanisms.merges import WEIGHTS, RoundRobin
from .requirements import activities_of_merge, settings


@dataclass(frozen=True)
class WeighsChannels(Adjuster):
    """So many events a turn of each channel as it brings for one of the slowest."""

    most: int = 4
    """Of a channel, in a turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.most, "the largest weight of a channel")

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        if len(load.arrived) < 2:
            return settings
        least = max(1, min(load.arrived))
        weights = [min(self.most, max(1, round(came / least))) for came in load.arrived]
        return {WEIGHTS: weights} if max(weights) > 1 else {}


def turns_by_load(
    topology: Topology,
    *,
    replicas: int = 2,
    acknowledge_every: Events = events(100),
    consider_every: Events = events(50),
) -> SchemeSubject:
    """Claims precise recovery, as long as each slice keeps one replica in sync. Weights are considered again whenever
    about `consider_every` events have come in for a slice, and change twice as many later.

    Costs what active replication does; a coordinator, which makes two things durable in so many events of each slice;
    and while nobody coordinates, slices stop after twice as many at most.

    Raises InvalidTopology for feedback and for operators that are not deterministic, InvalidScenario for fewer than two
    replicas.
    """
    fixed = active_replication(topology, replicas=replicas, acknowledge_every=acknowledge_every, merge=RoundRobin())
    settings("turns by load", consider_every=consider_every)
    leader = WeighsChannels(span=2 * consider_every.count, least=consider_every.count)
    operators = fixed.setups[Role.OPERATOR]
    adjusted = replace(operators, mechanisms=(Adjustable(), *operators.mechanisms), coordinators=(leader,))
    needs = "deterministic operators, replicas apart, what the adjuster made durable survives"
    # Where no channels meet, no weights could change.
    changing = (Activity.CHANGE,) if activities_of_merge(topology, RoundRobin()) else ()
    return replace(
        fixed,
        kind="turns-by-load",
        setups={**fixed.setups, Role.OPERATOR: adjusted},
        claims=tuple(
            replace(claim, needs=needs, rests_on=(*(claim.rests_on or ()), *changing)) for claim in fixed.claims
        ),
    )
