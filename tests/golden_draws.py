"""Draws the runs that golden histories are kept of. What was drawn is kept with them: this is asked again only for what
is new, or when all is to be drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from random import Random
from typing import TypeVar

from golden_lines import Planned, encoded
from golden_runs import Sized, mutants, scenario, workloads_of
from simulation import SIMULATED, WORLDS, addresses, options_of
from streamproof.faults.crash import crash
from streamproof.faults.delay import delay
from streamproof.faults.failed_write import failed_write
from streamproof.faults.handed_over_loss import handed_over_loss
from streamproof.faults.loss import loss
from streamproof.faults.partition import partition
from streamproof.faults.pause import pause
from streamproof.faults.slow_disk import slow_disk
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment, Point
from streamproof.harness.core.quantities import Duration, ms
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.slice_names import operator_of, slice_of
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.census import Reached
from streamproof.harness.exploration.mutants import mutant_world
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules
from streamproof.harness.exploration.search import SearchBudget, search
from streamproof.harness.exploration.shrinking import shrink

USUAL, LOST = "usual", "nodes-lost-for-good"
SEED = 1
IN_DETAIL = ("trace-numbered", "stateless", "countdown", "order")
"""On the first of these that a scheme takes, every kind of address is tried: each point at its first, a middle and its
last key, each kind of message once. On other workloads some are, at one of the three."""
FEW, MANY = 7, 16
"""Kinds of address, of those that there are."""
RANDOM_SCHEDULES = 2
"""A workload; each in another world. More in detail."""
MOST_FAULTS = 4
MUTANT_SCHEDULES = 1_500
"""That a mutant may survive."""
MUTANT_SEED = 7
MUTANT_EFFORT = 20_000
"""Events that shrinking may feed: enough for few faults and little input, if not for the least."""
BY_HAND = {
    # A spare that is promoted once one that was placed later has been active: the store refuses it.
    "deployed/trace-numbered": (
        Planned(
            "nodes-lost-for-good",
            SEED,
            "crash trace-0/1 t=15000 ; crash trace-0 t=15500 ; pause node-6 for=4900us t=22000 ; crash trace-0 t=28000",
        ),
    ),
}
T = TypeVar("T")


def drawn(scheme: str, workload: str, place: int) -> list[Planned]:
    """What is tried of one scheme on one workload; `place` is that of the workload among all, so that not all try the
    same."""
    draws = _Draws(scheme, workload, place)
    plans = (Planned(USUAL, SEED, encoded(schedule)) for schedule in draws.schedules())
    by_hand = BY_HAND.get(f"{scheme}/{workload}", ())
    return list(dict.fromkeys((*plans, *draws.random_schedules(), *draws.for_good(), *by_hand)))


class _Draws:
    def __init__(self, scheme: str, workload: str, place: int) -> None:
        self._scenario = scenario(scheme, workload)
        self._place = place
        self._in_detail = workload == next(one for one in IN_DETAIL if one in workloads_of(scheme))
        self._random = Random(f"{scheme}/{workload}")
        subject = self._scenario.subject
        assert isinstance(subject, SchemeSubject)
        self._subject = subject
        self._passed = addresses(self._scenario)
        self._own = [one for one in self._passed if one.address.name in subject.actors]

    def schedules(self) -> Iterator[tuple[Fault, ...]]:
        yield ()
        yield from self._single_crashes()
        yield from self._crashes_while_others_are_at_work()
        yield from self._crashes_of_who_recovers()
        yield from self._neighbours()
        yield from self._links()
        yield from self._nodes()

    def _single_crashes(self) -> Iterator[tuple[Fault, ...]]:
        found: list[Reached] = []
        kinds = list(enumerate(_kinds(self._own)))
        for number, alike in kinds if self._in_detail else self._sample(kinds, FEW):
            found += _ends_and_middle(alike) if self._in_detail else [self._one(alike, number)]
        if self._in_detail:
            known = {_message(one) for one in found}
            found += [alike[len(alike) // 2] for alike in _by(_message, self._own) if _message(alike[0]) not in known]
        yield from ((_at(crash(one.address.name), one),) for one in dict.fromkeys(found))

    def _crashes_while_others_are_at_work(self) -> Iterator[tuple[Fault, ...]]:
        """The slice next to a source, or to a sink, dies while that is at an address."""
        topology = self._subject.topology
        ends = [one for one in self._passed if one.address.name not in self._subject.actors]
        kinds = list(enumerate(_by(lambda one: (operator_of(one.address.actor), _kind(one)), ends)))
        for number, alike in self._sample(kinds, MANY if self._in_detail else 2):
            one = self._one(alike, number)
            beside = [*topology.downstream(one.address.name), *topology.upstream(one.address.name)]
            yield (_at(crash(beside[number % len(beside)]), one),)

    def _crashes_of_who_recovers(self) -> Iterator[tuple[Fault, ...]]:
        """A second crash, at what is passed only since the first has struck."""
        early = [one for one in self._own if one.address.point is Point.RECEIVED]
        first_at = early[len(early) // 2]
        first = _at(crash(first_at.address.name), first_at)
        calm = {one.address for one in self._own}
        later = [
            one
            for one in addresses(self._scenario, [first])
            if one.after and one.address not in calm and one.address.name in self._subject.actors
        ]
        for number, alike in self._sample(list(enumerate(_kinds(later))), MANY if self._in_detail else 3):
            one = self._one(alike, number)
            yield (first, _at(crash(one.address.name), one))

    def _neighbours(self) -> Iterator[tuple[Fault, ...]]:
        """Two that feed one another, or stand for one another, at once; and all."""
        actors = self._subject.actors
        pairs = [pair for pair in self._subject.links if set(pair) <= set(actors)]
        for first, second in self._sample(pairs, 4 if self._in_detail else 1):
            yield (_at(crash(first, second), self._drawn_address(first)),)
        if self._in_detail or self._place % 2:
            yield (_at(crash(*actors), self._drawn_address(actors[0])),)
        if pairs and (self._in_detail or not self._place % 2):
            first, second = self._random.choice(pairs)
            yield (_at(crash(first), self._drawn_address(first)), _at(crash(second), self._drawn_address(second)))

    def _links(self) -> Iterator[tuple[Fault, ...]]:
        for number, (first, second) in enumerate(self._sample(self._subject.links, 4 if self._in_detail else 1)):
            sends = self._drawn_address(first, Point.SEND_ISSUED)
            one_way = bool((number + self._place) % 2)
            lasting = ms(self._random.randint(1, 30))
            yield (_at(partition(first, second, one_way=one_way), sends).lasting(lasting),)
            if self._in_detail or self._place % 2:
                yield (_at(loss(first, second), self._drawn_address(first, Point.SEND_HANDED_OVER)),)
            if self._in_detail or not self._place % 2:
                cut = partition(first, second).after(Duration(self._random.randrange(20_000))).lasting(lasting)
                actor = self._random.choice(self._subject.actors)
                yield (cut, _at(crash(actor), self._drawn_address(actor)))
            if self._in_detail:
                yield (_at(delay(first, second, by=lasting), sends).lasting(lasting),)

    def _nodes(self) -> Iterator[tuple[Fault, ...]]:
        for number in range(4) if self._in_detail else (self._place,):
            actor = self._actor()
            # Shorter than the failure detector waits, and longer.
            lasting = ms(self._random.randint(1, 4) if number % 2 else self._random.randint(8, 40))
            yield (_at(pause(actor), self._drawn_address(actor)).lasting(lasting),)
        if self._in_detail or self._place % 2:
            actor = self._actor()
            yield (_at(handed_over_loss(actor), self._drawn_address(actor, Point.SEND_HANDED_OVER)),)
        if Point.CHECKPOINT_ISSUED not in self._subject.points:
            return
        for number in range(6) if self._in_detail else (self._place, self._place + 1):
            actor = self._actor()
            issued = self._drawn_address(actor, Point.CHECKPOINT_ISSUED)
            lasting = ms(self._random.randint(2, 20))
            match number % 3:
                case 0:
                    yield (_at(failed_write(actor), issued).lasting(lasting),)
                case 1:
                    fails = _at(failed_write(actor), issued).lasting(lasting)
                    yield (fails, _at(crash(actor), self._drawn_address(actor)))
                case _:
                    yield (_at(slow_disk(actor, by=lasting), issued),)

    def _actor(self) -> str:
        return self._random.choice(self._subject.actors)

    def random_schedules(self) -> Iterator[Planned]:
        """Several faults of every kind, in several worlds."""
        worlds = list(WORLDS)
        for number in range(RANDOM_SCHEDULES * (5 if self._in_detail else 1)):
            world = worlds[(self._place * RANDOM_SCHEDULES + number) % len(worlds)]
            bench = Bench(self._scenario, _registry(), seed=SEED, options=options_of(world, self._scenario))
            plan = RandomSchedules(SEED, most=MOST_FAULTS, kinds=tuple(SIMULATED))
            trials = (trial for piece in range(200) for trial in plan.trials(bench, piece + 1_000 * number))
            wanted = 2 if number else 1
            trial = next(trial for trial in trials if len(trial.schedule) >= wanted)
            yield Planned(world, trial.seed, encoded(trial.schedule))

    def for_good(self) -> Iterator[Planned]:
        """What nothing mends before the end of the run, and what leaves no node."""
        if not self._in_detail:
            return
        actor = self._subject.actors[0]
        for first, second in (self._subject.links[0], self._subject.links[-1]):
            yield Planned(USUAL, SEED, encoded([_at(partition(first, second), self._drawn_address(first))]))
        for fault in (pause(actor), failed_write(actor)):
            yield Planned(USUAL, SEED, encoded([_at(fault, self._drawn_address(actor))]))
        nodes = [f"node-{number}" for number in range(WORLDS[LOST].nodes)]
        yield Planned(LOST, SEED, encoded([_at(crash(*nodes), self._drawn_address(actor))]))
        yield Planned(LOST, SEED, encoded([crash(node).after(ms(10 + 3 * n)) for n, node in enumerate(nodes)]))

    def _one(self, alike: Sequence[Reached], number: int) -> Reached:
        return (alike[0], alike[len(alike) // 2], alike[-1])[(number + self._place) % 3]

    def _drawn_address(self, actor: str, point: Point | None = None) -> Reached:
        """In the middle of the run, where input is outstanding."""
        those = [one for one in self._passed if one.address.name == actor and point in (None, one.address.point)]
        those = those or [one for one in self._own if one.address.actor == slice_of(actor)] or self._own
        return self._random.choice(those[len(those) // 4 : max(1, len(those) * 3 // 4)] or those)

    def _sample(self, those: Sequence[T], most: int) -> list[T]:
        return self._random.sample(those, min(most, len(those)))


def _kinds(reached: Iterable[Reached]) -> list[list[Reached]]:
    """Those together whose replica, the first or another, point and side are alike."""
    return _by(_kind, reached)


def _kind(one: Reached) -> Hashable:
    address = one.address
    return address.replica > 0, address.point, address.side


def _message(one: Reached) -> Hashable:
    """Its kind, and what kind of message it is about."""
    address = one.address
    about = address.key.rpartition(" ")[2].partition("@")[0]
    return _kind(one), "" if about.isdecimal() or "#" in about else about


def _by(kind: Callable[[Reached], Hashable], reached: Iterable[Reached]) -> list[list[Reached]]:
    found: dict[Hashable, list[Reached]] = {}
    for one in reached:
        found.setdefault(kind(one), []).append(one)
    return list(found.values())


def _ends_and_middle(alike: Sequence[Reached]) -> list[Reached]:
    return [alike[0], alike[len(alike) // 2], alike[-1]]


def _at(fault: Fault, reached: Reached) -> Fault:
    return fault.at(Moment.exactly(reached.address))


@cache
def _registry() -> Registry:
    return Registry()


def counterexample(name: str) -> tuple[Sized, Planned]:
    """The schedule that shows a mutant's anomaly first, and the input, as a search finds and shrinks them."""
    mutant = mutants()[name]
    sized = Sized(name, 48, 4)
    bench = Bench(scenario("mutants", str(sized)), _registry(), seed=MUTANT_SEED, options=mutant_world(mutant))
    found = search(
        bench,
        [EverySingle(), EverySingle("handed-over-loss"), RandomSchedules(MUTANT_SEED, kinds=mutant.kinds)],
        SearchBudget(MUTANT_SCHEDULES),
        until=lambda violation: violation.kind.anomaly == str(mutant.anomaly),
    )
    first = next((one for one in found.violations if one.kind.anomaly == str(mutant.anomaly)), None)
    assert first is not None, f"{name} lives after {found.tried} schedules"
    shrunk = shrink(bench, first.trial, first.kind, effort=MUTANT_EFFORT)
    workload = shrunk.bench.scenario.workload
    planned = Planned("spread" if mutant.spread else USUAL, shrunk.trial.seed, encoded(shrunk.trial.schedule))
    return Sized(name, workload.events, workload.batch), planned
