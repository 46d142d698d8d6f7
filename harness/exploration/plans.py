"""Schedules as data: every single crash, every pair, and random ones from a seed.

A plan is numbered pieces of work, each of which gives trials. What a piece gives depends on its number, the scenario
and the seed alone, so that it can be worked out anywhere and in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar, Protocol

from ..contracts.injection import FaultKind, Hits
from ..core.addresses import Address, Moment, Point, Side
from ..core.errors import InvalidOperator, InvalidScenario
from ..core.quantities import Duration
from ..core.schedule import Fault, Schedule
from ..core.verdicts import Status
from .bench import Bench, Outcome, Trial, under
from .branching import TracedRun, Trunk
from .census import Reached
from .classes import distinct

SUCCESSIVE_UP_TO = 30
"""Events of an input for which every pair of crashes can be tried: their number grows with the square of it."""

JudgedTrial = tuple[Trial, Outcome]

_PARTS = 32
_WITHIN = 0.85
"""How often a fault is drawn so that the schedule stays within what the claims tolerate, where that can be told."""


class SearchPlan(Protocol):
    @property
    def large(self) -> bool:
        """Whether its pieces have hundreds of trials each."""

    def pieces(self, bench: Bench) -> Iterator[int]:
        """The numbers of its pieces, in the order in which they are tried."""

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]: ...

    def attempts(self, bench: Bench, piece: int) -> Iterator[JudgedTrial]:
        """The same trials in the same order, with what came of each. Raises InvalidOperator, with the schedule, when
        the user's code fails under it."""


def fault_at(reached: Reached, targets: Sequence[str] = (), kind: str = "crash") -> Fault:
    """A crash, or the like, of the node that is at an address, or of others while it is there."""
    return Fault(kind, tuple(targets) or (reached.address.name,)).at(Moment.exactly(reached.address))


@dataclass(frozen=True)
class EverySingle:
    """At every address of the run without failures, the node of the actor that passes it dies; once for those that
    leave the same world behind (see `classes`)."""

    kind: str = "crash"
    """Or `handed-over-loss`, which takes along what the node had handed to the network."""
    large: ClassVar[bool] = False

    def pieces(self, bench: Bench) -> Iterator[int]:
        """In an order drawn from the seed, so that a search which ends early has looked everywhere."""
        yield from _shuffled(len(bench.calm_classes), bench.seed)

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        yield Trial((fault_at(bench.calm_classes[piece][0], kind=self.kind),), bench.seed)

    def attempts(self, bench: Bench, piece: int) -> Iterator[JudgedTrial]:
        where, *others = bench.calm_classes[piece]
        trunk = bench.trunk()
        if trunk is None:
            ((trial, outcome),) = by_themselves(bench, self.trials(bench, piece))
        else:
            trial, outcome = _branched(bench, trunk, trunk.calm, fault_at(where, kind=self.kind), where)
        yield trial, replace(outcome, alike=tuple([str(one.address) for one in others]))


@dataclass(frozen=True)
class Successive:
    """So many crashes, one after the other: the first at every address of the run without failures, each further one
    at every address that is passed once those before have struck, all without those that leave the same world behind
    (see `classes`)."""

    faults: int = 2

    @property
    def large(self) -> bool:
        return self.faults > 1

    def pieces(self, bench: Bench) -> Iterator[int]:
        """Raises InvalidScenario for an input that is too long."""
        events = bench.scenario.workload.events
        if events > SUCCESSIVE_UP_TO:
            raise InvalidScenario(
                f"every {said_together(self.faults)} of crashes can be tried for at most {SUCCESSIVE_UP_TO} events, "
                f"not {events:,}; shorten the input, as with --events {SUCCESSIVE_UP_TO}"
            )
        yield from _shuffled(len(bench.calm_classes) * self._parts, bench.seed)

    @property
    def _parts(self) -> int:
        """Pieces for each first crash: of three crashes or more, tens of thousands begin with one."""
        return _PARTS if self.faults > 2 else 1

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        for schedule in self._schedules(bench, (), *divmod(piece, self._parts)):
            yield Trial(schedule, bench.seed)

    def _schedules(self, bench: Bench, before: Schedule, place: int, part: int) -> Iterator[Schedule]:
        """Those that go on from some faults, as whole runs tell."""
        if not before:
            before = (fault_at(bench.calm_classes[place][0]),)
        if len(before) == self.faults:
            yield before
            return
        later = [reached for reached in bench.reached(before, bench.seed) if len(reached.after) == len(before)]
        for where in self._share(distinct(later), before, part):
            yield from self._schedules(bench, (*before, fault_at(where)), place, part)

    def _share(self, places: Sequence[Reached], before: Schedule, part: int) -> Sequence[Reached]:
        return places[part :: self._parts] if len(before) == 1 else places

    def attempts(self, bench: Bench, piece: int) -> Iterator[JudgedTrial]:
        trunk = bench.trunk()
        first, part = divmod(piece, self._parts)
        where, *others = bench.calm_classes[first]
        found = (
            by_themselves(bench, self.trials(bench, piece))
            if trunk is None
            else self._depth_first(bench, trunk, trunk.calm, where, part)
        )
        if self.faults > 1:
            return found
        stood_for = tuple([str(one.address) for one in others])
        return ((trial, replace(outcome, alike=stood_for)) for trial, outcome in found)

    def _depth_first(
        self, bench: Bench, trunk: Trunk, before: TracedRun, where: Reached, part: int
    ) -> Iterator[JudgedTrial]:
        fault = fault_at(where)
        schedule = (*before.schedule, fault)
        if len(schedule) == self.faults:
            yield _branched(bench, trunk, before, fault, where)
            return
        with under(Trial(schedule, bench.seed)):
            passed = trunk.under(before, fault, where)
        for there in self._share(distinct(passed.reached), schedule, part):
            yield from self._depth_first(bench, trunk, passed, there, part)


def _branched(bench: Bench, trunk: Trunk, before: TracedRun, fault: Fault, where: Reached) -> JudgedTrial:
    """One schedule, run on from where it differs. What violates a claim is run once more, as a whole."""
    trial = Trial((*before.schedule, fault), bench.seed)
    with under(trial):
        outcome = bench.outcome(trunk.end_under(before, fault, where))
    if outcome.status is Status.VIOLATED and bench.attempt(trial) != outcome:
        raise InvalidOperator(
            f"what {bench.scenario.subject.name} does depends on something that is no part of its simulated world: put "
            f"back, it came to {outcome.kind} under {'; '.join(map(str, trial.schedule))}, and to something else when "
            "it was run from the beginning; keep nothing in variables of modules or classes, nor in files"
        )
    return trial, outcome


def by_themselves(bench: Bench, trials: Iterable[Trial]) -> Iterator[JudgedTrial]:
    """Each a whole run."""
    for trial in trials:
        yield trial, bench.attempt(trial)


def said_together(faults: int) -> str:
    """What so many crashes are called."""
    return {1: "single", 2: "pair", 3: "triple"}.get(faults, f"group of {faults}")


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
    large: ClassVar[bool] = False

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

    def attempts(self, bench: Bench, piece: int) -> Iterator[JudgedTrial]:
        return by_themselves(bench, self.trials(bench, piece))

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
    large: ClassVar[bool] = False

    def pieces(self, bench: Bench) -> Iterator[int]:
        yield from range(len(self.schedules))

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        yield Trial(self.schedules[piece], bench.seed)

    def attempts(self, bench: Bench, piece: int) -> Iterator[JudgedTrial]:
        return by_themselves(bench, self.trials(bench, piece))


def _shuffled(count: int, seed: int) -> list[int]:
    order = list(range(count))
    Random(seed).shuffle(order)
    return order
