"""Operators that do not give the same every time are found out, whatever they say of themselves; honest ones are not
suspected."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from handmade import Draw, Highest, Last, Log, Pass, chain
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core import operators
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.exploring import explore
from streamproof.harness.exploration.search import SearchBudget
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Offered, Stamped
from streamproof.harness.running.determinism import EVENTS, Determinism, beginning, examine, execute_slices
from streamproof.harness.running.judgement import judge_folder, require_repeatable
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls import passive_replication
from streamproof.scenarios.workloads import words


class Counting(Operator[dict[str, int]]):
    """Counts keys; its outputs say what `said` makes of the count."""

    fan_out = 1

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        state[event.key] = state.get(event.key, 0) + 1
        return [(event.key, self.said(event, state))]

    def said(self, event: Event, state: dict[str, int]) -> Any:
        return state[event.key]


class IteratesASet(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        return list({event.key, "one", "two", "three"})


class Hashes(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        return hash(event.key) % 1_000


class Draws(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        return random.randrange(1_000)


class ReadsTheClock(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        return time.time_ns()


class KeepsInItself(Counting):
    def __init__(self) -> None:
        self.count = 0

    def said(self, event: Event, state: dict[str, int]) -> Any:
        self.count += 1
        return self.count


class KeepsInTurnsInItself(KeepsInItself):
    """What it has forgotten in the middle of its input, it has forgotten at the beginning of a turn."""

    def said(self, event: Event, state: dict[str, int]) -> Any:
        return super().said(event, state) % 10


class KnowsWhatItHasSeen(Counting):
    """Drops what comes again, which only a replay and a second execution do."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        again = event.seq in self.seen
        self.seen.add(event.seq)
        return () if again else super().process(event, state)


class KeepsInItsClass(Counting):
    counts: ClassVar[list[int]] = []

    def said(self, event: Event, state: dict[str, int]) -> Any:
        self.counts.append(1)
        return len(self.counts)


numbers = itertools.count()


class KeepsInAGlobal(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        return next(numbers)


class ReadsTheTimeZone(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        return time.localtime(event.time).tm_hour


class HasAStateOfAnotherOrder(Operator[list[str]]):
    """Nothing of it is seen but the state in the end."""

    def initial_state(self) -> list[str]:
        return []

    def process(self, event: Event, state: list[str]) -> Iterable[Output]:
        state[:] = {*state, event.key}
        return []


class IsMadeByChance(Counting):
    def __init__(self) -> None:
        self.salt = random.random()

    def said(self, event: Event, state: dict[str, int]) -> Any:
        return self.salt


class Memoizes(Counting):
    """Keeps something in itself, and gives the same all the same."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def said(self, event: Event, state: dict[str, int]) -> Any:
        return self.known.setdefault(event.key, event.key.upper())


class SaysASet(Counting):
    """A set is carried as a sorted list."""

    def said(self, event: Event, state: dict[str, int]) -> Any:
        return {event.key, "one", "two", "three"}


class Fails(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        if event.seq == 20:
            raise ValueError("no")
        return 1


BROKEN = [
    IteratesASet,
    Hashes,
    Draws,
    ReadsTheClock,
    KeepsInItself,
    KeepsInTurnsInItself,
    KnowsWhatItHasSeen,
    KeepsInItsClass,
    KeepsInAGlobal,
]
BROKEN += [ReadsTheTimeZone, HasAStateOfAnotherOrder]  # type: ignore[list-item]
HONEST: list[Operator[Any]] = [Counting(), Memoizes(), SaysASet(), Fails(), Log(), Highest(), Last(), Draw()]
OFFERED = {"a-0": [Event("a-0", n, f"key{n % 7}", n, n) for n in range(1, 41)]}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_an_operator_that_does_not_give_the_same_is_named(kind: type[Operator[Any]]) -> None:
    found = examine(chain(Pass(), kind()), OFFERED)
    assert f"operator 'op1' ({kind.__name__}) does not give the same every time it is executed: " in found.differs
    assert found.unchecked == ""


class EmptiesWhatItIsGiven(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        return event.value.pop()


class KeepsAndChangesWhatItWasGiven(Counting):
    """Later, when it is part of its state."""

    def process(self, event: Event, state: dict[str, Any]) -> Iterable[Output]:
        state.setdefault(event.key, event.value).append(event.seq)
        return [(event.key, len(state[event.key]))]


class KeepsACopy(KeepsAndChangesWhatItWasGiven):
    def process(self, event: Event, state: dict[str, Any]) -> Iterable[Output]:
        return super().process(Event(event.source, event.seq, event.key, list(event.value), event.time), state)


@pytest.mark.parametrize("kind", [EmptiesWhatItIsGiven, KeepsAndChangesWhatItWasGiven])
def test_an_operator_that_changes_what_it_is_given_is_named(kind: type[Operator[Any]]) -> None:
    """Who sent it may send it again: in the simulator as it is since, and on a cluster as it was."""
    lists = {"a-0": [Event("a-0", n, f"key{n % 7}", [n], n) for n in range(1, 41)]}
    said = f"operator 'op1' ({kind.__name__}) changes an event that it was given: the value of event (op0-0, 1) was [1]"
    assert examine(chain(Pass(), kind()), lists).differs.startswith(said)
    assert examine(chain(Pass(), KeepsACopy()), lists) == Determinism()


class MakesTooLongANumber(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        return 2**64


class MakesHalfACharacter(Counting):
    def said(self, event: Event, state: dict[str, int]) -> Any:
        return "\ud800"


class KeepsTooLongANumber(Counting):
    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        state[event.key] = 2**64
        return []


@pytest.mark.parametrize("kind", [MakesTooLongANumber, MakesHalfACharacter, KeepsTooLongANumber])
def test_what_no_record_can_hold_is_left_to_the_run_that_refuses_it(kind: type[Operator[Any]]) -> None:
    assert examine(chain(Pass(), kind()), OFFERED) == Determinism()


class SharesWithin(Counting):
    """A new state at every call, around one that is not."""

    def __init__(self) -> None:
        self._inner: dict[str, int] = {}

    def initial_state(self) -> dict[str, Any]:
        return {"counts": self._inner}

    def process(self, event: Event, state: dict[str, Any]) -> Iterable[Output]:
        return super().process(event, state["counts"])


def test_an_operator_that_does_not_begin_blank_is_named() -> None:
    assert "operator 'op0' (SharesWithin) does not begin blank" in examine(chain(SharesWithin()), OFFERED).differs


def test_the_first_differing_output_is_told() -> None:
    differs = examine(chain(Pass(), KeepsInItself(), IteratesASet()), OFFERED).differs
    assert differs.startswith("operator 'op1' (KeepsInItself)"), "the first upstream"
    assert differs.endswith("of event 2 that it took it made ('key2', 2), and ('key2', 1) another time")
    differs = examine(chain(HasAStateOfAnotherOrder()), OFFERED).differs
    assert "in the end its state of key ''" in differs


def test_honest_ones_are_not_suspected() -> None:
    assert examine(chain(*HONEST[:3]), OFFERED) == Determinism()
    for those in (HONEST[3:4], HONEST[4:5], HONEST[5:7], HONEST[7:]):
        assert examine(chain(*those), OFFERED) == Determinism()


def test_an_operator_goes_on_with_the_state_and_the_draws_of_another() -> None:
    topology = chain(Draw(), Counting())
    assert execute_slices(topology, OFFERED, lambda: chain(Draw(), Counting())) == execute_slices(topology, OFFERED)
    whole = execute_slices(chain(KeepsInItself()), OFFERED, lambda: chain(KeepsInItself()))["op0-0"]
    forgets_after = [0, 1, 2, 4, 8, 16, 20, 32, 40]
    counts = [count for begin, end in pairwise(forgets_after) for count in range(1, end - begin + 1)]
    assert [outputs[0][1] for outputs in whole.outputs] == counts


def test_what_no_other_process_can_have_is_executed_here_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(Counting):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    found = examine(chain(Local()), OFFERED)
    assert found.differs == ""
    assert "cannot be pickled" in found.unchecked

    class Unknown(Counting):
        pass

    # In a module that every process has, by a name that none of them knows.
    Unknown.__module__, Unknown.__qualname__ = "streamproof.harness.core.operators", "Unknown"
    monkeypatch.setattr(operators, "Unknown", Unknown, raising=False)
    found = examine(chain(Unknown()), OFFERED)
    assert found.differs == ""
    assert "cannot be executed in another process (AttributeError" in found.unchecked


def test_a_class_of_a_function_goes_along() -> None:
    class Inner(Counting):
        def said(self, event: Event, state: dict[str, int]) -> Any:
            return list({event.key, "one", "two", "three"})

    assert "(Inner) does not give the same" in examine(chain(Inner()), OFFERED).differs


SCENARIO = """
import random
from dataclasses import replace
from streamproof import Operator, Scenario, Stage, Topology, Workload, events, exactly_once, at_least_once
from streamproof.harness.core.topology import Edge
from streamproof.reference_impls import passive_replication
from streamproof.scenarios.workloads import words

class Counting(Operator):
    fan_out = 1

    def __init__(self):
        self.salt = random.random()

    def initial_state(self):
        return {}

    def process(self, event, state):
        state[event.key] = state.get(event.key, 0) + 1
        return [(event.key, self.said(event, state))]

class Honest(Counting):
    def said(self, event, state):
        return state[event.key]

class Iterates(Counting):
    def said(self, event, state):
        return list({event.key, "one", "two", "three"})

class Salted(Counting):
    def said(self, event, state):
        return self.salt

def of(operator):
    edges = (Edge("source", "count"), Edge("count", "sink"))
    subject = passive_replication(Topology("t", {"count": Stage(operator)}, edges), checkpoint_every=events(20))
    return Scenario(subject, words(events=60), claims=[exactly_once(), at_least_once()])

def honest():
    return of(Honest())

def iterates():
    return of(Iterates())

def salted():
    return of(Salted())

def from_a_set():
    names = {f"name {number}" for number in range(60)}
    drawn = Workload("from-a-set", 60, 10, lambda count, seed: ((name, 1) for name in names))
    return replace(of(Honest()), workload=drawn)
"""


@pytest.mark.parametrize("name", ["honest", "iterates", "salted"])
def test_a_run_of_such_an_operator_is_unknown_now_and_when_it_is_judged_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"made_{name}.py").write_text(SCENARIO)
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()
    named = registry.scenario(f"made_{name}:{name}")
    finished = run_named(named, SimulatedCluster(), registry, seed=1, folder=tmp_path / "run")
    description, _, again = judge_folder(tmp_path / "run", registry)
    assert description.machine["hash_seed"]
    for judgement in (finished.judgement, again):
        assert judgement.unchecked == ""
        said = {verdict.status for verdict in judgement.verdicts}
        if name == "honest":
            assert said == {Status.HOLDS}
        else:
            assert said == {Status.UNKNOWN}
            assert all(f"operator 'count' ({name.title()})" in verdict.reason for verdict in judgement.verdicts)
            assert judgement.strongest == ()


def test_a_run_is_unknown_of_a_workload_that_draws_in_the_order_of_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_from_a_set.py").write_text(SCENARIO)
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()
    named = registry.scenario("made_from_a_set:from_a_set")
    judgement = run_named(named, SimulatedCluster(), registry, seed=1, folder=tmp_path / "run").judgement
    assert {verdict.status for verdict in judgement.verdicts} == {Status.UNKNOWN}
    said = "workload 'from-a-set' does not draw the same in another process: event 1 of source-0 was"
    assert all(said in verdict.reason for verdict in judgement.verdicts)
    with pytest.raises(InvalidOperator, match=said):
        explore(named, registry, SearchBudget(1), seed=1, jobs=1)


def test_so_is_one_whose_scenario_no_other_process_can_make(tmp_path: Path) -> None:
    subject = passive_replication(chain(IteratesASet()), checkpoint_every=events(20))
    named = Named("test", "nowhere", "", Scenario(subject, words(events=60), claims=[exactly_once()]))
    finished = run_named(named, SimulatedCluster(), Registry(), seed=1, folder=tmp_path / "run")
    assert [verdict.status for verdict in finished.judgement.verdicts] == [Status.UNKNOWN]
    assert finished.judgement.exit_status == 2


def test_the_hash_seed_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = passive_replication(chain(Counting()), checkpoint_every=events(20))
    for seed, said in (("7", "7"), ("", "random")):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        named = Named("test", "nowhere", "", Scenario(subject, words(events=60)))
        finished = run_named(named, SimulatedCluster(), Registry(), seed=1, folder=tmp_path / said)
        assert msgspec.json.decode((finished.folder / "scenario.json").read_bytes())["machine"]["hash_seed"] == said


def test_a_search_is_refused_that_could_judge_no_schedule() -> None:
    subject = passive_replication(chain(Counting()), checkpoint_every=events(20))
    require_repeatable(Scenario(subject, words(events=60)))
    subject = passive_replication(chain(KeepsInItself()), checkpoint_every=events(20))
    with pytest.raises(InvalidOperator, match=r"operator 'op0' \(KeepsInItself\) does not give the same"):
        require_repeatable(Scenario(subject, words(events=60)))


def test_no_more_than_the_beginning_of_the_input_is_executed() -> None:
    def offer(first: int, last: int) -> Stamped:
        return Stamped(0, Offered("a-0", [Event("a-0", n, "k", n, n) for n in range(first, last + 1)]))

    history = History([offer(1, 600), offer(601, 1_100), offer(1_101, 1_200), Stamped(0, Offered("b-0", []))], [])
    found = beginning(history, ["a-0", "b-0"])
    assert [len(events) for events in found.values()] == [EVENTS, 0]
    assert found["a-0"][-1].seq == EVENTS
