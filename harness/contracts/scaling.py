"""A scenario with all its sizes brought down, so that everything that can happen in it happens within a few events.

A search asks what can go wrong, and not how much: a world of thirty events with a checkpoint every five has the same
protocols at work as one of twenty thousand with a checkpoint every five thousand, and costs far less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ..core.guarantees import Guarantee
from ..core.quantities import Events
from ..core.topology import Role
from ..core.wording import counted
from ..protocol.spec import Setup
from .claims import Claim
from .scenario import Scenario
from .subject import SchemeSubject

EVENTS: Final = 30
"""What a search feeds unless told otherwise."""
BATCHES: Final = 15
"""At least so many, unless told otherwise: with fewer, little comes after a recovery."""


def scaled(scenario: Scenario, events: int = EVENTS, batches: int = BATCHES) -> Scenario:
    """The scenario with so many events, and with its batches, its intervals of checkpoints and acknowledgements and its
    windows in proportion, and what its claims state in events in proportion to its intervals; without its faults,
    whose triggers speak of the sizes that it had.

    A window, which is the operator's own, stays as it is: event time passes the faster. So do time-outs, since time
    costs a simulated world nothing, and a time-out must stay longer than the latency. A scenario that feeds no more
    than `events` as it is keeps its sizes, but for its batches. With fewer `batches`, a checkpoint or an
    acknowledgement is due less often, too.
    """
    workload, subject = scenario.workload, scenario.subject
    share = min(1.0, events / workload.events)
    # Few batches are asked for, so that there are few.
    least = 2 if batches >= BATCHES else max(2, events // batches)
    batch = min(workload.batch, max(least, min(round(workload.batch * share), events // batches)), events)
    tick = workload.tick
    claims = scenario.claims
    if isinstance(subject, SchemeSubject) and share < 1:
        sizes = _Sizes(subject, share, events, batch, max(2, 2 * batches // 5))
        subject = sizes.subject(subject)
        claims = None if claims is None else [sizes.guarantee(one) for one in claims]
        windows = [w for stage in subject.topology.stages.values() if (w := stage.operator.window) is not None]
        if windows:
            tick = max(tick, min(round(tick / share), min(windows) // _IN_WINDOW))
    workload = replace(workload, events=events, batch=batch, tick=tick)
    return replace(scenario, subject=subject, workload=workload, claims=claims, faults=(), breaks=())


_IN_WINDOW: Final = 4
"""At least so many events are in a window."""
_LEAST: Final = 3
"""Events from one checkpoint to the next, at least; more than a batch, so that some fall between two batches."""


class _Sizes:
    def __init__(self, subject: SchemeSubject, share: float, events: int, batch: int, times: int) -> None:
        """At least so many `times` a checkpoint or an acknowledgement is due while a slice takes as many events as are
        fed, as far as these are enough."""
        self._share = share
        self._least = max(_LEAST, batch + 1)
        self._most = max(self._least, events // times)
        taken = (one.checkpoint_every for one in subject.mechanisms_of(Role.OPERATOR))
        self._longest = max((every.count for every in taken if every is not None), default=0)
        """Of its intervals of checkpoints; 0 where it takes none."""

    def interval(self, every: Events) -> Events:
        return Events(min(every.count, max(self._least, min(round(every.count * self._share), self._most))))

    def guarantee(self, guarantee: Guarantee) -> Guarantee:
        within = guarantee.within
        return replace(guarantee, within=self._stated(within)) if isinstance(within, Events) else guarantee

    def _stated(self, within: Events) -> Events:
        """As much of the interval of checkpoints as it was, or of the input where there are none: a scheme that states
        less than it keeps to must not keep to what it states in a small world."""
        if not self._longest:
            return Events(max(1, round(within.count * self._share)))
        return Events(max(1, within.count * self.interval(Events(self._longest)).count // self._longest))

    def claim(self, claim: Claim) -> Claim:
        return replace(claim, guarantee=self.guarantee(claim.guarantee))

    def setup(self, setup: Setup) -> Setup:
        return replace(
            setup,
            mechanisms=tuple(one.scaled(self.interval) for one in setup.mechanisms),
            coordinators=tuple(one.scaled(self.interval) for one in setup.coordinators),
        )

    def subject(self, subject: SchemeSubject) -> SchemeSubject:
        return replace(
            subject,
            setups={role: self.setup(one) for role, one in subject.setups.items()},
            operators={name: self.setup(one) for name, one in subject.operators.items()},
            claims=tuple(map(self.claim, subject.claims)),
        )


def scaled_down(before: Scenario, after: Scenario) -> Iterator[str]:
    """What was brought down, in words: `a checkpoint every 5 events, not 500`."""
    if after.workload.events != before.workload.events:
        yield f"{counted(after.workload.events, 'event')}, not {before.workload.events:,}"
    if after.workload.batch != before.workload.batch:
        yield f"batches of {after.workload.batch:,}, not {before.workload.batch:,}"
    if isinstance(before.subject, SchemeSubject) and isinstance(after.subject, SchemeSubject):
        yield from _intervals(before.subject, after.subject)
    if after.workload.tick != before.workload.tick:
        yield f"{after.workload.tick:,} ms of event time an event, not {before.workload.tick:,}"


def _intervals(before: SchemeSubject, after: SchemeSubject) -> Iterator[str]:
    now, was = after.checkpoint_every, before.checkpoint_every
    if now is not None and now != was:
        yield f"a checkpoint every {counted(now, 'event')}, not {was:,}"
    for role in Role:
        for one, other in zip(after.setups[role].mechanisms, before.setups[role].mechanisms, strict=True):
            if one.checkpoint_every is None and one.safe_every != other.safe_every:
                assert one.safe_every is not None
                assert other.safe_every is not None
                yield f"an acknowledgement every {one.safe_every}, not {other.safe_every.count:,}"
                return
