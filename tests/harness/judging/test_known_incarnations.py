"""An incarnation that is a piece of a known one is not executed again, and nothing of a history is seen otherwise for
that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import msgspec
import pytest

from judged_twice import told_in_full
from simulation import CASES, drawn, history_of, scenario_of, subject_of
from streamproof import checkpoint, crash, ms
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events
from streamproof.harness.core.topology import Role, Stage, Topology
from streamproof.harness.judging import processing
from streamproof.harness.judging.known_incarnations import Along, KnownIncarnation
from streamproof.harness.judging.reexecution import Reexecution
from streamproof.harness.judging.reruns import Derivation, Rerun
from streamproof.harness.judging.tolerance import until
from streamproof.harness.protocol.spec import SliceSpec
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Started
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered


def histories(case: str, seeds: int) -> list[History]:
    """Of drawn schedules, each also cut short after its last fault."""
    scenario = scenario_of(case)
    found = []
    for seed in range(seeds):
        history = history_of(scenario, drawn(scenario, seed, "usual"), seed=seed)
        struck = [entry.stamp.at for entry in history.struck()]
        found += [history, *(until(history, at + 3_000) for at in struck[-1:])]
    return found


@pytest.mark.parametrize("case", CASES[::9])
def test_who_has_judged_before_comes_to_the_same(case: str) -> None:
    experienced = subject_of(case)
    for history in histories(case, 3):
        assert told_in_full(experienced, history) == told_in_full(subject_of(case), history)


def test_in_a_search_operators_are_hardly_executed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    case = "passive-replication/trace-numbered"
    subject, found = subject_of(case), histories(case, 8)
    executed: list[int] = []
    once = processing._execute

    def noted(
        spec: SliceSpec, rerun: Rerun, events: Sequence[Event], derivations: Sequence[Derivation], channel: int
    ) -> None:
        executed.append(len(events))
        once(spec, rerun, events, derivations, channel)

    for history in found[:8]:
        subject.collate(history)
    monkeypatch.setattr(processing, "_execute", noted)
    reruns = [collated_again(subject, history).reruns for history in found[8:]]
    taken = sum(len(one.took) for slices in reruns for incarnations in slices.values() for one in incarnations.values())
    assert taken > 300
    assert sum(executed) < taken / 4


def collated_again(subject: SchemeSubject, history: History) -> Reexecution:
    reexecution = subject.collate(history).reexecution
    assert reexecution is not None
    return reexecution


def known(event: Event) -> Along:
    """At the beginning of an incarnation that took this."""
    spec = next(one for one in subject_of("amnesia/trace-numbered").specs if one.role is Role.OPERATOR)
    rerun = Rerun(spec.slice_id, 1, 0, [], 1, None, 0)
    rerun.took.append((event.source, event.seq))
    return Along(KnownIncarnation(spec, rerun, [event]), 0, 0)


def test_equal_events_are_not_taken_for_known_where_they_say_something_else() -> None:
    event, other = (Event("source-0", 1, "k", 1, 0) for _ in range(2))
    derived = [("source-0", 1)]
    assert known(event).goes_on([event], derived)
    assert known(event).goes_on([other], derived)
    assert not known(event).goes_on([Event("source-0", 1, "k", True, 0)], derived), "equal, and another type"
    assert not known(event).goes_on([other], [("source-0", 2)]), "made of something else"
    assert not known(event).goes_on([event, other], [*derived, ("source-0", 2)]), "more than is known"


def test_batches_are_known_up_to_the_first_that_is_another() -> None:
    event, other = Event("source-0", 1, "k", 1, 0), Event("source-0", 2, "k", 1, 0)
    derived = [("source-0", 1), ("source-0", 2)]
    along = known(event)
    assert along.as_far_as_known([event, other], derived, [1, 2]) == 1
    assert along.as_far_as_known([event, other], derived, [2]) == 0
    assert along.as_far_as_known([event], derived[:1], [1]) == 1
    assert along.at == 0, "it goes on only where it is told to"


_worn: dict[str, bool] = {}
"""What operators remember of themselves beside their states, against the rule."""


class Wearing(Operator[dict[str, int]]):
    """Counts by key, and does something of it wrong once it is worn."""

    def initial_state(self) -> dict[str, int]:
        return {}

    def snapshot(self, state: dict[str, int]) -> bytes:
        return msgspec.json.encode(state)

    def restore(self, snapshot: bytes) -> dict[str, int]:
        return {} if _worn.get("restore") else msgspec.json.decode(snapshot, type=dict[str, int])

    def rows(self, state: dict[str, int]) -> dict[str, int]:
        return dict(state)

    def process(self, event: Event, state: dict[str, int]) -> list[Output]:
        state[event.key] = state.get(event.key, 0) + 1
        return [(event.key, -1 if _worn.get("process") else state[event.key])]


@pytest.fixture
def wearing() -> Iterator[Scenario]:
    base = trace()
    stages = {name: Stage(Wearing(), stage.parallelism) for name, stage in base.stages.items()}
    topology = Topology(base.name, stages, base.edges, base.sources, base.sinks)
    yield Scenario(passive_replication(topology, checkpoint_every=events(4)), numbered(events=16, batch=2))
    _worn.clear()


def crashed(scenario: Scenario) -> History:
    """One that begins from a checkpoint."""
    actor = scenario.subject.actors[0]
    history = history_of(scenario, [crash(actor).at(checkpoint(1).durable.of(actor))])
    assert any(started.restored for started in history.each(Started))
    return history


def test_a_checkpoint_that_somebody_began_from_is_examined_each_time(wearing: Scenario) -> None:
    """One that gave its state back before may not do so now: a restore() can go wrong now and then."""
    subject = cast(SchemeSubject, wearing.subject)
    history = crashed(wearing)
    for _ in range(5):
        # So that all is known that is in it.
        assert not subject.collate(history).unfaithful.count
    _worn["restore"] = True
    assert subject.collate(history).unfaithful.count


def test_other_checkpoints_are_examined_again_now_and_then(wearing: Scenario) -> None:
    subject = cast(SchemeSubject, wearing.subject)
    sound = [history_of(wearing, [crash(actor).after(ms(2.0 + n))]) for n, actor in enumerate(wearing.subject.actors)]
    for history in sound:
        assert not subject.collate(history).unfaithful.count
    _worn["restore"] = True
    assert any(subject.collate(history).unfaithful.count for history in sound * 8)


def test_known_incarnations_are_executed_again_now_and_then(wearing: Scenario) -> None:
    """What process() remembers beside the state makes other outputs, which those that were executed once excuse."""
    subject = cast(SchemeSubject, wearing.subject)
    history = crashed(wearing)
    for _ in range(5):
        assert not subject.collate(history).phantoms.count
    _worn["process"] = True
    assert any(subject.collate(history).phantoms.count for _ in range(60))
