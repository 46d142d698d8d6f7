"""Gap by load: gap recovery whose checkpoint interval follows the load (StreamMine3G, section 2.2.2; cf. chapter 7).

The busier a slice is, the rarer its checkpoints: they cost time that it does not have, and a gap of so many events is
the shorter a time. An adjuster sees what comes in for each slice in so many microseconds, and changes its interval
between two bounds while the run goes on.

- All else is as in gap recovery: what a crash takes back is no more than the intervals allow that were in force.
- A slice that starts from a checkpoint goes by the interval that was in force there, and asks the adjuster for what was
  changed since then before it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.errors import InvalidScenario
from ..harness.core.events import Value
from ..harness.core.guarantees import gap_recovery
from ..harness.core.quantities import Duration, Events, events, ms
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.protocol.mechanism import CHECKPOINT_EVERY
from .gap import gap
from .mechanisms.adjusting import Adjustable, Adjuster, Load
from .requirements import settings


@dataclass(frozen=True)
class SpacesCheckpoints(Adjuster):
    """A long interval while more than so many events come in a tick, a short one while fewer do."""

    quiet: int = 100
    from_rate: int = 10
    """So many events a tick are busy."""

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        busy = sum(load.arrived) >= self.from_rate * max(1, load.ticks)
        # What was declared is the long one.
        return {} if busy else {CHECKPOINT_EVERY: self.quiet}

    def scaled(self, size: Callable[[Events], Events]) -> SpacesCheckpoints:
        """Its short interval stays no longer than the other, and what is busy is as many events a second."""
        smaller = super().scaled(size)
        assert isinstance(smaller, SpacesCheckpoints)
        from_rate = size(Events(self.from_rate)).count
        every = max(1, self.every * from_rate // self.from_rate) if self.every else 0
        return replace(smaller, quiet=size(Events(self.quiet)).count, from_rate=from_rate, every=every)


def gap_by_load(
    topology: Topology,
    *,
    checkpoint_every: Events = events(500),
    while_quiet: Events = events(100),
    busy_from: Events = events(50),
    each: Duration = ms(5),
) -> SchemeSubject:
    """Claims gap recovery within the interval that was in force, for any number of failures: `while_quiet` while fewer
    than `busy_from` events come in for a slice in `each`, else `checkpoint_every`, with which it begins. And within
    `checkpoint_every`, whatever the adjuster may have put in force.

    Costs checkpoints of state, and a coordinator, which makes two things durable in about `while_quiet` events of each
    slice; while nobody coordinates, slices stop after twice as many at most.

    Raises InvalidTopology for operators with timers, InvalidScenario where the interval while it is quiet is longer.
    """
    plain = gap(topology, checkpoint_every=checkpoint_every)
    settings("gap recovery by load", while_quiet=while_quiet, busy_from=busy_from, each=each)
    if while_quiet > checkpoint_every:
        raise InvalidScenario(
            f"while_quiet={while_quiet} is more than checkpoint_every={checkpoint_every}: checkpoints are rarer while "
            "there is much to do"
        )
    span = 2 * while_quiet.count
    leader = SpacesCheckpoints(span, while_quiet.count, each.micros, while_quiet.count, busy_from.count)
    operators = plain.setups[Role.OPERATOR]
    adjusted = replace(operators, mechanisms=(Adjustable(), *operators.mechanisms), coordinators=(leader,))
    rests_on = (Activity.CHECKPOINT, Activity.RESTORE, Activity.CHANGE)
    needs = "checkpoints survive, the adjuster's too"
    return replace(
        plain,
        kind="gap-by-load",
        setups={**plain.setups, Role.OPERATOR: adjusted},
        # The one goes by what the adjuster put on record, the other takes its word for nothing.
        claims=tuple(
            Claim(guarantee, needs=needs, rests_on=rests_on)
            for guarantee in (gap_recovery(), gap_recovery(checkpoint_every))
        ),
    )
