"""Schedules as data: every single crash, every pair, and random ones from a seed.

A plan is numbered pieces of work, each of which gives trials. What a piece gives depends on its number, the scenario
and the seed alone, so that it can be worked out anywhere and in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import ClassVar, Final, NamedTuple, Protocol

import msgspec

from ..contracts.injection import FaultKind, Hits
from ..core.addresses import Address, Moment, Point, Side
from ..core.errors import InvalidOperator, InvalidScenario
from ..core.places import ANY_WORKER
from ..core.quantities import Duration
from ..core.schedule import Fault, Schedule
from ..core.verdicts import Status
from ..recording.history import FaultHealed, FaultMissed, FaultStruck, History
from .bench import Bench, Outcome, Trial, under
from .branching import TracedRun, Trunk
from .census import Reached
from .classes import distinct
from .drawn_on_the_way import FaultAhead

SUCCESSIVE_UP_TO = 30
"""Events of an input for which every pair of crashes can be tried: their number grows with the square of it."""

JudgedTrial = tuple[Trial, Outcome]

_PARTS = 32
RUN_ON: Final = 1 / 16
"""Of the successions that go beyond the claims with their last crash, so many are run on to their end."""
WITHIN = 0.85
"""How often a fault is drawn so that the schedule stays within what the claims tolerate, where that can be told."""
LIKELY = 0.85
"""How often a fault that does not bite everywhere strikes where it is likely to."""
_FAR = 0.5
"""How often a further fault strikes anywhere in what is left of the run, and not as soon as log-uniform is."""
_MORE = 1.3
"""A run with a recovery passes about so many times as many addresses."""


MOST_FAULTS: Final = 3
IN_A_WORLD: Final = 32
"""So many random schedules are drawn in one world, so that what comes before their first faults is run once."""
DRAWN: Final = (
    f"each by itself, {IN_A_WORLD} in a row in one of the worlds drawn, whose delays are the same until a fault "
    f"strikes; 1 to {MOST_FAULTS} faults, the first mostly at one of the addresses of the run without failures, each "
    "further one mostly so many addresses after the one before, few more often than many"
)
"""What a bound is about, on what random schedules show."""


class LostTrials(NamedTuple):
    """How many trials nobody knows the outcome of, since whoever tried them died."""

    trials: int
    at_random: int
    """Those of them that count for the bound."""


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

    def lost(self, bench: Bench, piece: int) -> LostTrials:
        """What a piece has, for who must not run what has killed others."""


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

    def lost(self, bench: Bench, piece: int) -> LostTrials:
        return LostTrials(1, 0)

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
    (see `classes`).

    What goes beyond the claims from its last crash on says nothing more of them. Of such runs so many, drawn at random,
    are run on to their end all the same, to see whether the user's code fails there (`RUN_ON`); the others are left
    where that crash has struck."""

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

    def lost(self, bench: Bench, piece: int) -> LostTrials:
        """How many crashes there are after the first is told by running that one."""
        return LostTrials(sum(1 for _ in self.trials(bench, piece)), 0)

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
            else self._depth_first(bench, trunk, trunk.calm, where, part, _chosen(bench, piece))
        )
        if self.faults > 1:
            return found
        stood_for = tuple([str(one.address) for one in others])
        return ((trial, replace(outcome, alike=stood_for)) for trial, outcome in found)

    def _depth_first(
        self, bench: Bench, trunk: Trunk, before: TracedRun, where: Reached, part: int, chosen: Random | None
    ) -> Iterator[JudgedTrial]:
        fault = fault_at(where)
        schedule = (*before.schedule, fault)
        if len(schedule) == self.faults:
            may_be_left = bool(before.schedule) and chosen is not None and chosen.random() >= RUN_ON
            yield _branched(bench, trunk, before, fault, where, may_be_left)
            return
        with under(Trial(schedule, bench.seed)):
            passed = trunk.under(before, fault, where)
            if chosen is not None and not bench.may_be_left_after(passed.history):
                chosen = None
        for there in self._share(distinct(passed.reached), schedule, part):
            yield from self._depth_first(bench, trunk, passed, there, part, chosen)


def _chosen(bench: Bench, piece: int) -> Random | None:
    """Draws which runs that go beyond the claims are run on to their end; None: all of them."""
    return Random(f"{bench.seed}/{piece}") if bench.is_limited else None


def _branched(
    bench: Bench, trunk: Trunk, before: TracedRun, fault: Fault, where: Reached, may_be_left: bool = False
) -> JudgedTrial:
    """One schedule, run on from where it differs; no further than to where it goes beyond the claims, if it may be left
    there."""
    trial = Trial((*before.schedule, fault), bench.seed)
    with under(trial):
        so_far = trunk.struck_under(before, fault, where)
        left = bench.outcome_beyond(so_far) if may_be_left else None
        if left is not None:
            return trial, left
        outcome = bench.outcome(trunk.run_on())
    _require_same_as_whole(bench, trial, outcome)
    return trial, outcome


def judged(bench: Bench, trial: Trial, history: History | None) -> tuple[History, Outcome]:
    """A trial and what came of the run that it was drawn in; None: it has to be run by itself. Raises UsersCodeFailed
    when the user's code does, InvalidOperator where a run from the beginning comes to something else."""
    if history is None:
        with under(trial):
            history = bench.run(trial.schedule, trial.seed)
        return history, bench.outcome(history)
    outcome = bench.outcome(history)
    _require_same_as_whole(bench, trial, outcome)
    return history, outcome


def _require_same_as_whole(bench: Bench, trial: Trial, outcome: Outcome) -> None:
    """What violates a claim in a run that may have branched off is run once more, from the beginning. Raises
    InvalidOperator where that comes to something else, UsersCodeFailed when the user's code fails then."""
    if outcome.status is Status.VIOLATED and not bench.whole_runs and bench.attempt(trial) != outcome:
        raise InvalidOperator(
            f"what {bench.scenario.subject.name} does depends on something that is no part of its simulated world: put "
            f"back, it violated {' by '.join(outcome.kind or ())} under {'; '.join(map(str, trial.schedule))}, and "
            "came to something else when it was run from the beginning; keep nothing in variables of modules or "
            "classes, nor in files, and change nothing that was sent, or that a checkpoint holds: restore() takes a "
            "copy of its part"
        )


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

    When: the first mostly at an address that the run without failures passes, each further one mostly so many of the
    addresses ahead that are passed once those before have struck, soon more often than late, so that a recovery is hit;
    else at a time, or after a number of events. What does not come before the run is over is left out, unless nothing
    does. Where the claims hold only as long as each slice keeps a replica in sync,
    mostly at an address at which each has two: what goes beyond a claim cannot break it.

    Each is drawn by itself from its number and the seed, independently of all others; so many in a row in one simulated
    world, whose run without failures they branch off from. What is never seen in any bounds the chance of it among the
    schedules of these worlds: drawn from several kinds of worlds, as many from each, it is seen no less often than if
    all were of one kind (Hoeffding 1956, On the distribution of the number of successes in independent trials).
    """

    seed: int
    count: int | None = None
    """None: without end."""
    most: int = MOST_FAULTS
    kinds: tuple[str, ...] = ("crash",)
    """Claims are made for crashes; what else a subject survives, it has to be asked."""
    large: ClassVar[bool] = False

    def pieces(self, bench: Bench) -> Iterator[int]:
        number = 0
        while self.count is None or number < self.count:
            yield number
            number += 1

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        yield self.drawn(bench, piece)[0]

    def lost(self, bench: Bench, piece: int) -> LostTrials:
        """Its faults are drawn while it is run: nobody knows them otherwise."""
        return LostTrials(1, 1)

    def attempts(self, bench: Bench, piece: int) -> Iterator[JudgedTrial]:
        trial, history = self.drawn(bench, piece)
        yield trial, judged(bench, trial, history)[1]

    def drawn(self, bench: Bench, piece: int) -> tuple[Trial, History | None]:
        """A schedule, and what came of the run that it was drawn in, where that is what comes of it."""
        random = Random(f"{self.seed}/{piece}")
        world = Random(f"{self.seed}/world {piece // IN_A_WORLD}").getrandbits(32)
        known: list[Fault] = []
        ahead: list[FaultAhead] = []
        left = 1.0
        """Which part of the run without failures comes after what was drawn so far."""
        for place in range(min(self.most, random.choice((1, 1, 2, 2, 3)))):
            within = bench.is_limited and bool(bench.calm_and_spared) and random.random() < WITHIN
            if bench.is_limited and not within and place and random.random() < WITHIN:
                # No more can go wrong that the claims tolerate.
                break
            kind, fault = without_trigger(bench, self.kinds, random)
            if within and kind.hits_any_nodes:
                fault = replace(fault, targets=bench.apart(fault.targets))
            likely = bool(kind.bites_at) and random.random() < LIKELY
            others = () if within else ("anywhere", "time", "events")
            when = "recovering" if likely else random.choice(("recovering", "recovering", "recovering", *others))
            if place and when in ("recovering", "anywhere"):
                far = when == "anywhere" or random.random() < _FAR
                ahead.append(so_far_ahead(bench, kind if likely else None, fault, within, far, left, random))
                continue
            fault, since = self._at_once(bench, kind if likely else None, fault, within, when, random)
            known.append(fault)
            left = min(left, 1 - since)
        trial, history = settled(bench, tuple(known), ahead, world)
        return replace(trial, random=True), history

    def _at_once(
        self, bench: Bench, likely: FaultKind | None, fault: Fault, within: bool, when: str, random: Random
    ) -> tuple[Fault, float]:
        """A fault with a trigger, and after about which part of a run that comes."""
        # In the part without failures, the worlds of other seeds pass the same addresses, but for a few.
        places: Sequence[Reached] = bench.calm_and_spared if within else bench.calm
        if likely is not None:
            places = [one for one in places if _would_do(likely, fault, one.address)] or places
        match when:
            case "time":
                span = bench.aims.offering
                after = random.randrange(span.micros)
                return fault.after(Duration(after)), after / span.micros
            case "events":
                # Each slice of an operator gets its part of the events.
                actor = random.choice(bench.actors)
                most = max(1, bench.scenario.workload.events // (2 * bench.slices_beside(actor)))
                taken = random.randint(1, most)
                return fault.at(Moment(Point.RECEIVED, Side.AFTER, actor=actor, taken=taken)), taken / (2 * most)
            case _:
                where = random.choice(places)
                return fault.at(Moment.exactly(where.address)), where.at / max(1, bench.calm[-1].at)


def settled(bench: Bench, known: Schedule, ahead: Sequence[FaultAhead], world: int) -> tuple[Trial, History | None]:
    """Run under some faults and some that are drawn on the way: what was come to is the schedule. With what came of it,
    where that is what comes of the schedule by itself."""
    drawn = bench.drawn(Trial(known, world), ahead)
    schedule, history = drawn.schedule, drawn.history
    missed = {entry.number for entry in history.timeline if isinstance(entry, FaultMissed)}
    # What a frozen node puts off is counted, and a run that is watched has more of it.
    watched_in_vain = (ahead or missed) and any(bench.registry.faults[fault.kind].lasts for fault in schedule)
    if missed and len(missed) < len(schedule):
        came = [number for number in range(len(schedule)) if number not in missed]
        schedule = tuple([schedule[number] for number in came])
        # Which worker any is, is drawn by the number of the fault.
        watched_in_vain = watched_in_vain or any(ANY_WORKER in fault.targets for fault in schedule)
        history = _without_missed(history, {number: place for place, number in enumerate(came)})
    return Trial(schedule, world), None if watched_in_vain else history


def _without_missed(history: History, places: Mapping[int, int]) -> History:
    """What is left behind where nobody waits for the faults that never come, who do nothing but be missed; the others
    get these places in the schedule."""
    timeline = [
        msgspec.structs.replace(entry, number=places[entry.number])
        if isinstance(entry, (FaultStruck, FaultHealed))
        else entry
        for entry in history.timeline
        if not isinstance(entry, FaultMissed)
    ]
    return History(history.records, timeline)


def so_far_ahead(
    bench: Bench, likely: FaultKind | None, fault: Fault, within: bool, far: bool, left: float, random: Random
) -> FaultAhead:
    """A fault, so far ahead: anywhere in what is left of a run, or soon more often than late; where it is `likely` to
    bite, if that is said."""
    amount = len(bench.calm)
    would_do: Callable[[Address], bool] = _any_address
    if likely is not None:
        those = partial(_would_do, likely, fault)
        if fitting := sum(those(one.address) for one in bench.calm):
            amount, would_do = fitting, those
    # A recovery passes addresses of its own.
    most = 1 + int(_MORE * amount * left)
    passed = random.randrange(most) if far else int(most ** random.random()) - 1
    return FaultAhead(fault, passed, would_do, within)


def without_trigger(bench: Bench, kinds: Sequence[str], random: Random) -> tuple[FaultKind, Fault]:
    """Raises InvalidScenario where the subject never does what one of these kinds would disturb."""
    known, points = bench.registry.faults, bench.scenario.subject.points
    others = [kind for kind in kinds if kind != "crash" and (not known[kind].bites_at or known[kind].bites_at & points)]
    crashes = "crash" in kinds and (not others or random.random() < 0.5)
    if not crashes and not others:
        raise InvalidScenario(f"{bench.scenario.subject.kind} never does what {', '.join(kinds)} would disturb")
    kind = known["crash" if crashes else random.choice(others)]
    assert kind.draw is not None
    return kind, kind.drawn_fault(random, bench.aims)


def _any_address(address: Address) -> bool:
    return True


def _would_do(kind: FaultKind, fault: Fault, address: Address) -> bool:
    """Whether a fault is likely to bite at an address."""
    return address.point in kind.bites_at and _concerns(kind, fault, address)


def _concerns(kind: FaultKind, fault: Fault, address: Address) -> bool:
    """Whether an address is a target's own; of a link, also of what passes from one end to the other."""
    if kind.hits is Hits.NODES:
        return address.name in fault.targets
    peer = address.key.partition("#")[0]
    return (address.name, peer) in ((fault.targets, fault.targets[::-1]) if not fault.one_way else (fault.targets,))


@dataclass(frozen=True)
class Given:
    """Trials that are there already, in their order."""

    given: tuple[Trial, ...]
    large: ClassVar[bool] = False

    def pieces(self, bench: Bench) -> Iterator[int]:
        yield from range(len(self.given))

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        yield self.given[piece]

    def lost(self, bench: Bench, piece: int) -> LostTrials:
        return LostTrials(1, 0)

    def attempts(self, bench: Bench, piece: int) -> Iterator[JudgedTrial]:
        return by_themselves(bench, self.trials(bench, piece))


def _shuffled(count: int, seed: int) -> list[int]:
    order = list(range(count))
    Random(seed).shuffle(order)
    return order
