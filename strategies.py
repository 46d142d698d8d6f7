"""Hypothesis strategies, for property tests of one's own: what goes wrong, and what is fed.

    from hypothesis import given
    from streamproof import simulate
    from streamproof.strategies import schedules

    @given(schedules(SCENARIO))
    def test_no_crash_shows(schedule):
        assert simulate(SCENARIO, schedule).holds

A schedule that fails is shrunk to few faults, at few targets, at early addresses. Each example takes some runs of the
simulator, so keep the input small: tens or hundreds of events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from .harness.contracts.injection import FaultParameter, Hits
from .harness.contracts.scenario import Scenario
from .harness.core.addresses import Address, Moment, Point, Side
from .harness.core.errors import InvalidScenario, MissingTool, UnknownName
from .harness.core.quantities import Duration
from .harness.core.schedule import Fault, FaultAmount, Schedule
from .harness.core.workload import Workload
from .harness.exploration.bench import Bench
from .harness.exploration.simulating import SEED, all_bit, installed
from .harness.worlds.simulated.options import SimulationOptions

try:
    from hypothesis import assume
    from hypothesis import strategies as st
except ImportError as error:
    raise MissingTool(f"streamproof.strategies needs hypothesis ({error}): pip install 'hypothesis>=6.120'") from error

__all__ = ["scenarios", "schedules", "workloads"]

Kind = str | st.SearchStrategy[Fault]


class _Bench(Bench):
    """One simulated world, and how long a run without failures takes in it."""

    @cached_property
    def length(self) -> int:
        """In microseconds of its time."""
        return self.run((), self.seed).records[-1].at

    def bites(self, schedule: Schedule) -> bool:
        return all_bit(self.run(schedule, self.seed))


def schedules(
    scenario: Scenario,
    *,
    max_faults: int = 3,
    kinds: Sequence[Kind] = ("crash",),
    seed: int = SEED,
    options: SimulationOptions | None = None,
) -> st.SearchStrategy[Schedule]:
    """One to `max_faults` faults, each of which strikes, and bites, in the simulated world of this seed and these
    options: at an address that the run passes once the faults before it have struck, after a number of events, or at a
    time.

    `kinds` are names of kinds of fault, or strategies for faults that have no trigger yet. The scenario's own faults
    are left aside.

    Raises InvalidScenario, UnknownName or Unsupported for what cannot be simulated.
    """
    registry = installed()
    bench = _Bench(scenario, registry, seed=seed, options=options)
    if max_faults < 1 or not kinds:
        raise InvalidScenario(f"schedules need one fault at least, not max_faults={max_faults!r} of kinds={kinds!r}")
    for kind in kinds:
        if isinstance(kind, str):
            if kind not in registry.faults:
                raise UnknownName("kind of fault", kind, sorted(registry.faults))
            registry.faults[kind].require_drawn(bench.cluster.name)
    return _schedules(bench, max_faults, tuple(kinds))


@st.composite
def _schedules(draw: st.DrawFn, bench: _Bench, most: int, kinds: tuple[Kind, ...]) -> Schedule:
    schedule: Schedule = ()
    more = True
    while more:
        schedule = (*schedule, draw(_faults(bench, schedule, kinds)))
        # Drawn behind each fault: so Hypothesis can take any of them out, together with its answer.
        more = len(schedule) < most and draw(st.booleans())
    assume(bench.bites(schedule))
    return schedule


@st.composite
def _faults(draw: st.DrawFn, bench: _Bench, before: Schedule, kinds: tuple[Kind, ...]) -> Fault:
    """One more fault. What is drawn first is what Hypothesis shrinks to."""
    kind = draw(st.sampled_from(kinds))
    when = draw(st.sampled_from(("address", "events", "time")))
    if when == "address":
        address = draw(_addresses(bench, before, _bites_at(bench, kind)))
        return draw(_untimed(kind, bench, address.name)).at(Moment.exactly(address))
    fault = draw(_untimed(kind, bench))
    if when == "events":
        # The end of a link can be the harness's own, which takes no events.
        actor = next((target for target in fault.targets if target in bench.actors), bench.actors[0])
        most = bench.scenario.workload.events
        return fault.at(Moment(Point.RECEIVED, Side.AFTER, actor=actor, taken=draw(st.integers(1, most))))
    return fault.after(Duration(draw(st.integers(0, bench.length))))


def _bites_at(bench: _Bench, kind: Kind) -> frozenset[Point]:
    """Where a kind bites, if not everywhere alike."""
    return bench.registry.faults[kind].bites_at if isinstance(kind, str) else frozenset()


@st.composite
def _addresses(draw: st.DrawFn, bench: _Bench, before: Schedule, points: frozenset[Point]) -> Address:
    """An address that the run passes under the faults before, of these points if any are named.

    It is drawn as one of the run without failures, or as its like in a recovery. So it means nearly the same when one
    of the faults before is taken out, and shrinking gets there.
    """
    calm = [one.address for one in bench.calm]
    place = draw(st.sampled_from([one for one in calm if one.point in points] or calm))
    recovering = draw(st.booleans())
    if not before:
        return place
    passed = [one.address for one in bench.reached(before, bench.seed)]
    if not recovering:
        assume(place in passed)
        return place
    others = [address for address in passed if address not in set(calm)]
    alike = [one for one in others if (one.actor, one.point, one.side) == (place.actor, place.point, place.side)]
    assume(others)
    return draw(st.sampled_from(sorted(alike or others, key=lambda one: one.key != place.key)))


def _untimed(kind: Kind, bench: _Bench, passing: str | None = None) -> st.SearchStrategy[Fault]:
    """A fault without a trigger: of the actor that passes the address, rather than of others while it does."""
    if not isinstance(kind, str):
        return kind
    known = bench.registry.faults[kind]
    targets: st.SearchStrategy[tuple[str, ...]]
    if known.hits is Hits.LINK:
        targets = st.sampled_from(bench.aims.links)
    else:
        actors = list(bench.actors)
        targets = st.lists(st.sampled_from(actors), min_size=1, max_size=len(actors), unique=True).map(tuple)
        if passing is not None:
            targets = st.just((passing,)) | targets
    span = st.integers(1, bench.aims.span.micros).map(Duration)
    return st.builds(
        Fault,
        st.just(kind),
        targets,
        duration=span if known.lasts else st.none(),
        amounts=st.tuples(*(st.tuples(st.just(p.name), _amounts(p, span)) for p in known.takes if p.required)),
    )


def _amounts(parameter: FaultParameter, span: st.SearchStrategy[Duration]) -> st.SearchStrategy[FaultAmount]:
    if parameter.type is Duration:
        return span
    if parameter.type is int:
        return st.integers(1, 1_000_000)
    return st.floats(0.01, parameter.below or 1.0, exclude_max=True)


class _Listed:
    """Pairs of key and value that are there already, in the place of a function that draws them."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self._pairs = pairs

    def __call__(self, events: int, seed: int) -> Iterator[tuple[str, object]]:
        """Repeated where more are asked for than there are."""
        for number in range(events):
            yield self._pairs[number % len(self._pairs)]

    def __repr__(self) -> str:
        return repr(self._pairs)


def workloads(
    values: st.SearchStrategy[Any] | None = None,
    *,
    keys: st.SearchStrategy[str] | None = None,
    max_events: int = 40,
    max_batch: int = 10,
) -> st.SearchStrategy[Workload]:
    """One to `max_events` events, of these keys (default: a to d) and values (default: small whole numbers), in batches
    of one to `max_batch`."""
    if max_events < 1 or max_batch < 1:
        raise InvalidScenario(f"max_events={max_events!r} and max_batch={max_batch!r} must be positive")
    pairs = st.tuples(
        st.sampled_from("abcd") if keys is None else keys, st.integers(0, 99) if values is None else values
    )

    def made(drawn: list[tuple[str, Any]], batch: int) -> Workload:
        return Workload("drawn", len(drawn), batch, _Listed(drawn))

    return st.builds(made, st.lists(pairs, min_size=1, max_size=max_events), st.integers(1, max_batch))


@st.composite
def scenarios(
    draw: st.DrawFn,
    scenario: Scenario,
    workload: st.SearchStrategy[Workload] | None = None,
    *,
    max_faults: int = 3,
    kinds: Sequence[Kind] = ("crash",),
    seed: int = SEED,
    options: SimulationOptions | None = None,
) -> Scenario:
    """`scenario` with other faults, and where `workload` is given with other input: `simulate` takes it as it is."""
    if workload is not None:
        scenario = replace(scenario, workload=draw(workload))
    drawn = schedules(scenario, max_faults=max_faults, kinds=kinds, seed=seed, options=options)
    return replace(scenario, faults=draw(drawn), breaks=())
