"""What a checkpoint does not give back is found, whoever says what: values come of an execution without any."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from simulation import EVERY
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    PRECISE,
    ROLLBACK_REPEATING,
)
from streamproof.harness.core.model import Edge, Event, Operator, Output, Stage, Topology
from streamproof.harness.core.quantities import events
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.workloads import words
from verdicts_of import Judged, run

STRONG = (PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE, EXACTLY_ONCE_OUTPUT, AT_LEAST_ONCE)


class Count(Operator[dict[str, int]]):
    """How often each word has come."""

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        made = []
        for word in event.value.split():
            state[word] = state.get(word, 0) + 1
            made.append((word, state[word]))
        return made


class RestoresNothing(Count):
    def restore(self, snapshot: bytes) -> dict[str, int]:
        return {}


class LeavesOutEverySecond(Count):
    def snapshot(self, state: dict[str, int]) -> bytes:
        return msgspec.msgpack.encode({key: state[key] for key in sorted(state)[::2]})


class Doubles(Count):
    def restore(self, snapshot: bytes) -> dict[str, int]:
        return {key: 2 * count for key, count in super().restore(snapshot).items()}


class EmptiesTheState(Count):
    def snapshot(self, state: dict[str, int]) -> bytes:
        made = super().snapshot(state)
        state.clear()
        return made


class CannotRestore(Count):
    def restore(self, snapshot: bytes) -> dict[str, int]:
        raise ValueError("of another version")


@dataclass
class Tally:
    counts: dict[str, int] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Whoever copies it by pickle's rules copies it without what it counts."""
        return {"counts": {}}


class PicklesAmiss(Operator[Tally]):
    def initial_state(self) -> Tally:
        return Tally()

    def process(self, event: Event, state: Tally) -> Iterable[Output]:
        return Count().process(event, state.counts)

    def snapshot(self, state: Tally) -> bytes:
        return pickle.dumps(state)

    def restore(self, snapshot: bytes) -> Tally:
        return pickle.loads(snapshot)

    def rows(self, state: Tally) -> dict[str, int]:
        return state.counts


class HidesWhatItLoses(Count):
    """The rows survive, and what else it keeps does not."""

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        state["(events)"] = state.get("(events)", 0) + 1
        return [(event.key, state["(events)"])]

    def restore(self, snapshot: bytes) -> dict[str, int]:
        return {}

    def rows(self, state: dict[str, int]) -> dict[str, int]:
        return {}


def topology_of(operator: Operator[Any]) -> Topology:
    return Topology("counts", {"count": Stage(operator)}, (Edge("source", "count"), Edge("count", "sink")))


def judged(operator: Operator[Any], *, crashes: bool = True) -> Judged:
    subject = passive_replication(topology_of(operator), checkpoint_every=EVERY, sink_filter=True)
    scenario = Scenario(subject, words(vocabulary=12, events=40, batch=4))
    return run(scenario, [crash("count-0").after(events(21))] if crashes else [])


@pytest.mark.parametrize(
    "operator", [RestoresNothing, LeavesOutEverySecond, Doubles, EmptiesTheState, PicklesAmiss, CannotRestore]
)
@pytest.mark.parametrize("crashes", [True, False])
def test_a_checkpoint_that_does_not_give_back_its_state(operator: Callable[[], Operator[Any]], crashes: bool) -> None:
    if crashes and operator is CannotRestore:
        with pytest.raises(InvalidOperator, match="of another version"):
            judged(operator())
        return
    found = judged(operator(), crashes=crashes)
    for guarantee in STRONG:
        verdict = found.verdict(guarantee)
        assert verdict.status is Status.VIOLATED, guarantee
        assert Anomaly.UNFAITHFUL_SNAPSHOT in {tally.anomaly for tally in verdict.anomalies}
    one = next(t for t in found.verdict(PRECISE).anomalies if t.anomaly is Anomaly.UNFAITHFUL_SNAPSHOT).sample[0]
    assert one.where.startswith("count-0#")
    assert one.what.startswith("checkpoint 1: ")


def test_gap_recovery_needs_faithful_checkpoints_too() -> None:
    subject = gap(topology_of(RestoresNothing()), checkpoint_every=EVERY)
    found = run(Scenario(subject, words(vocabulary=12, events=40, batch=4)), [crash("count-0").after(events(21))])
    assert found.claim.status is Status.VIOLATED


def test_what_no_row_shows_shows_in_the_outputs() -> None:
    calm, crashed = judged(HidesWhatItLoses(), crashes=False), judged(HidesWhatItLoses())
    assert calm.verdict(PRECISE).status is Status.HOLDS
    assert crashed.verdict(PRECISE).status is Status.VIOLATED
    assert crashed.verdict(EXACTLY_ONCE).status is Status.VIOLATED
    assert crashed.verdict(AT_LEAST_ONCE).status is not Status.HOLDS


class PicklesRightly(PicklesAmiss):
    def snapshot(self, state: Tally) -> bytes:
        return msgspec.msgpack.encode(state.counts)

    def restore(self, snapshot: bytes) -> Tally:
        return Tally(msgspec.msgpack.decode(snapshot))


@pytest.mark.parametrize("operator", [Count, PicklesRightly])
def test_a_faithful_one_is_precise(operator: Callable[[], Operator[Any]]) -> None:
    assert judged(operator()).verdict(PRECISE).status is Status.HOLDS


class Shares(Count):
    def __init__(self) -> None:
        self._state: dict[str, int] = {}

    def initial_state(self) -> dict[str, int]:
        return self._state


class SnapshotsTheStateItself(Count):
    def snapshot(self, state: dict[str, int]) -> bytes:
        return state  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("operator", "why"), [(Shares, "make a new one at every call"), (SnapshotsTheStateItself, "return bytes")]
)
def test_a_state_that_is_not_one_s_own_is_refused(operator: Callable[[], Operator[Any]], why: str) -> None:
    with pytest.raises(InvalidOperator, match=why):
        judged(operator())
