"""Schedules as data: every single crash, every pair, and random ones from a seed.

A plan is numbered pieces of work, each of which gives trials. What a piece gives depends on its number, the scenario
and the seed alone, so that it can be worked out anywhere and in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from ..contracts.injection import FaultKind, Hits
from ..core.addresses import Address, Moment, Point, Side
from ..core.errors import InvalidScenario
from ..core.quantities import Duration
from ..core.schedule import Fault, Schedule
from .bench import Bench, Trial
from .census import Reached

PAIRS_UP_TO = 30
"""Events of an input for which every pair of crashes can be tried: their number grows with the square of it."""

_WITHIN = 0.85
"""How often a fault is drawn so that the schedule stays within what the claims tolerate, where that can be told."""

_LEAVES = frozenset({(Point.SEND_ISSUED, Side.BEFORE), (Point.CHECKPOINT_DURABLE, Side.BEFORE)})
"""What comes right after one of these leaves the node: a message, or a checkpoint that is durable from then on."""


class SearchPlan(Protocol):
    def pieces(self, bench: Bench) -> Iterator[int]:
        """The numbers of its pieces, in the order in which they are tried."""

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]: ...


def distinct(reached: Sequence[Reached]) -> list[Reached]:
    """The addresses that leave different worlds behind when their actor's node dies there.

    Of addresses that one actor passes in one step of the world, one after the other, a later one is left out unless
    something has left the node since the one before: a message was handed over, or a checkpoint became durable. What
    else happens in between is in the node's memory, which dies with it. So to die before a message is taken, after it
    is taken, before its first consequence is sent, and after a checkpoint was handed to a store that has not written
    it, are one and the same.
    """
    found: list[Reached] = []
    previous: dict[str, Reached] = {}
    for one in reached:
        actor = one.address.name
        before = previous.get(actor)
        if (
            before is None
            or before.step != one.step
            or before.address.incarnation != one.address.incarnation
            or (before.address.point, before.address.side) in _LEAVES
        ):
            found.append(one)
        previous[actor] = one
    return found


def fault_at(reached: Reached, targets: Sequence[str] = (), kind: str = "crash") -> Fault:
    """A crash, or the like, of the node that is at an address, or of others while it is there."""
    return Fault(kind, tuple(targets) or (reached.address.name,)).at(Moment.exactly(reached.address))


@dataclass(frozen=True)
class EverySingle:
    """At every address of the run without failures, the node of the actor that passes it dies."""

    kind: str = "crash"
    """Or `handed-over-loss`, which takes along what the node had handed to the network."""

    def pieces(self, bench: Bench) -> Iterator[int]:
        """In an order drawn from the seed, so that a search which ends early has looked everywhere."""
        yield from _shuffled(len(bench.calm), bench.seed)

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        yield Trial((fault_at(bench.calm[piece], kind=self.kind),), bench.seed)


@dataclass(frozen=True)
class EveryPair:
    """Two crashes: the first at every address of the run without failures, the second at every address that is passed
    once the first has struck, both without those that leave the same world behind (see `distinct`)."""

    def pieces(self, bench: Bench) -> Iterator[int]:
        """Raises InvalidScenario for an input that is too long."""
        events = bench.scenario.workload.events
        if events > PAIRS_UP_TO:
            raise InvalidScenario(
                f"every pair of crashes can be tried for at most {PAIRS_UP_TO} events, not {events:,}; shorten the "
                f"input, as with --events {PAIRS_UP_TO}"
            )
        yield from _shuffled(len(distinct(bench.calm)), bench.seed)

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        first = fault_at(distinct(bench.calm)[piece])
        later = [reached for reached in bench.reached((first,), bench.seed) if reached.after]
        for reached in distinct(later):
            yield Trial((first, fault_at(reached)), bench.seed)


@dataclass(frozen=True)
class RandomSchedules:
    """One to `most` faults each, of the given kinds: crashes mostly, where they are among them.

    When: mostly at an address that the run passes once the crashes before have struck, so that a recovery is hit; else
    at any address, at a time, or after a number of events. Where the claims hold only as long as each slice keeps a
    replica in step, mostly at an address at which each has two: what goes beyond a claim cannot break it.

    Each is drawn, and run, by itself from its number and the seed: in a simulated world of its own, and independently
    of all others.
    """

    seed: int
    count: int | None = None
    """None: without end."""
    most: int = 3
    kinds: tuple[str, ...] = ("crash",)
    """Claims are made for crashes; what else a subject survives, it has to be asked."""

    def pieces(self, bench: Bench) -> Iterator[int]:
        number = 0
        while self.count is None or number < self.count:
            yield number
            number += 1

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        random = Random(f"{self.seed}/{piece}")
        world = random.getrandbits(32)
        schedule: Schedule = ()
        # In the part without failures, the worlds of other seeds pass the same addresses, but for a few.
        reached: Sequence[Reached] = bench.calm
        spared: Sequence[Reached] = bench.calm_and_spared if bench.is_limited else reached
        for _ in range(min(self.most, random.choice((1, 1, 2, 2, 3)))):
            if schedule:
                reached, spared = bench.reached_and_spared(schedule, world)
                # What never came will not come for what is drawn later.
                came = {number for one in reached[-1:] for number in one.after}
                schedule = tuple(fault for number, fault in enumerate(schedule) if number in came)
            within = bench.is_limited and bool(spared) and random.random() < _WITHIN
            if bench.is_limited and not within and schedule and random.random() < _WITHIN:
                # No more can go wrong that the claims tolerate.
                break
            drawn = self._drawn(bench, schedule, spared if within else reached, random, exactly=within)
            schedule = (*schedule, drawn)
        yield Trial(schedule, world, random=True)

    def _drawn(
        self, bench: Bench, before: Schedule, reached: Sequence[Reached], random: Random, exactly: bool
    ) -> Fault:
        kind, fault = self._without_trigger(bench, random)
        later = [one for one in reached if len(one.after) == len(before)]
        if exactly:
            if kind.hits is Hits.NODES:
                fault = replace(fault, targets=bench.apart(fault.targets))
            if before and random.random() < 0.5:
                # When those that came back have only just got in step.
                later = later[: max(1, len(later) // 4)]
        if kind.bites_at and random.random() < 0.85:
            likely = [
                one for one in later if one.address.point in kind.bites_at and _concerns(kind, fault, one.address)
            ]
            if likely:
                return fault.at(Moment.exactly(random.choice(likely).address))
        others = () if exactly else ("address", "time", "events")
        match random.choice(("recovering", "recovering", "recovering", *others)):
            case "time":
                span = bench.aims.span if before else bench.aims.offering
                return fault.after(Duration(random.randrange(span.micros)))
            case "events":
                # Each slice of an operator gets its part of the events.
                actor = random.choice(bench.actors)
                most = max(1, bench.scenario.workload.events // (2 * bench.slices_beside(actor)))
                return fault.at(Moment(Point.RECEIVED, Side.AFTER, actor=actor, taken=random.randint(1, most)))
            case when:
                where = random.choice(later if when == "recovering" and later else reached)
                return fault.at(Moment.exactly(where.address))

    def _without_trigger(self, bench: Bench, random: Random) -> tuple[FaultKind, Fault]:
        known, points = bench.registry.faults, bench.scenario.subject.points
        others = [kind for kind in self.kinds if kind != "crash" and known[kind].bites_at <= points]
        crashes = "crash" in self.kinds and (not others or random.random() < 0.5)
        if not crashes and not others:
            raise InvalidScenario(
                f"{bench.scenario.subject.kind} never does what {', '.join(self.kinds)} would disturb"
            )
        kind = known["crash" if crashes else random.choice(others)]
        assert kind.draw is not None
        return kind, kind.draw(random, bench.aims)


def _concerns(kind: FaultKind, fault: Fault, address: Address) -> bool:
    """Whether an address is a target's own; of a link, also of what passes from one end to the other."""
    if kind.hits is Hits.NODES:
        return address.name in fault.targets
    peer = address.key.partition("#")[0]
    return (address.name, peer) in ((fault.targets, fault.targets[::-1]) if not fault.one_way else (fault.targets,))


@dataclass(frozen=True)
class Given:
    """Schedules that are there already."""

    schedules: tuple[Schedule, ...]

    def pieces(self, bench: Bench) -> Iterator[int]:
        yield from range(len(self.schedules))

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        yield Trial(self.schedules[piece], bench.seed)


def _shuffled(count: int, seed: int) -> list[int]:
    order = list(range(count))
    Random(seed).shuffle(order)
    return order
