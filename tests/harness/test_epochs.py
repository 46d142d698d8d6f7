"""Operators that make something at the end of an epoch: when they are asked, what is on record, and what judging makes
of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidOperator, InvalidScenario, InvalidTopology
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.topology import Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging.commuting import find_false_commutative
from streamproof.harness.protocol.merging import end_of, epoch_of
from streamproof.harness.recording.records import Closed, Delivered
from streamproof.harness.running.determinism import execute_slices
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.epoch_merge import epoch_merge
from streamproof.reference_impls.mechanisms.epochs import Epochs
from streamproof.scenarios.order import order
from streamproof.scenarios.tumbling import TumblingCount, running_count, tumbling_count
from streamproof.scenarios.workloads import words
from verdicts_of import run


class LastWins(TumblingCount):
    """Says that it is commutative, and keeps the last value."""

    def process(self, event: Event, state: dict[str, int]) -> tuple[Output, ...]:
        state["last"] = event.seq
        return ()


def with_count(operator: Operator[Any]) -> Topology:
    topology = tumbling_count(epoch=8)
    return replace(topology, stages={**topology.stages, "count": Stage(operator, 2)})


def test_an_epoch_holds_what_is_later_than_its_beginning_up_to_its_end() -> None:
    assert [epoch_of(time, 3) for time in range(8)] == [0, 0, 0, 0, 1, 1, 1, 2]
    assert [end_of(epoch, 3) for epoch in range(3)] == [3, 6, 9]


def test_an_operator_is_asked_at_the_end_of_each_epoch_and_what_it_says_carries_that_time() -> None:
    judged = run(Scenario(epoch_merge(running_count(1, 2, epoch=8)), words(events=40, batch=4)), ())
    assert judged.claim.status is Status.HOLDS
    records = [stamped.record for stamped in judged.history.records]
    closed = [r.epoch for r in records if isinstance(r, Closed) and (r.slice, r.incarnation) == ("count-0", 1)]
    assert closed == [0, 1, 2, 3, 4]
    rows = [row for r in records if isinstance(r, Delivered) for row in r.rows]
    assert [(row.value, row.time) for row in rows if row.key == ""] == [(n, 8 * n) for n in range(1, 6)]
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))


def test_close_without_an_epoch_would_never_be_called() -> None:
    class Forgotten(TumblingCount):
        def __init__(self) -> None:
            super().__init__(8)
            self.epoch = None  # type: ignore[assignment]

    with pytest.raises(InvalidOperator, match=r"close\(\) is never called"):
        with_count(Forgotten())


@pytest.mark.parametrize("scheme", [amnesia, active_replication])
def test_a_scheme_without_epochs_refuses_an_operator_that_has_them(scheme: Any) -> None:
    with pytest.raises(InvalidTopology, match="knows no epochs"):
        scheme(tumbling_count())


def test_a_scheme_that_needs_one_order_refuses_one_that_is_free_within_epochs() -> None:
    with pytest.raises(InvalidScenario, match="leaves the order within an epoch to chance"):
        active_replication(order(), merge=Epochs(8))


def test_an_operator_that_is_not_as_commutative_as_it_says_leaves_nothing_to_be_judged() -> None:
    topology = with_count(LastWins(8))
    taken = [Event("split-0", seq, "k", 1, seq) for seq in range(1, 20)]
    assert "makes [['last'" in find_false_commutative(topology, {"count-0": taken, "count-1": []})
    honest = with_count(TumblingCount(8))
    assert find_false_commutative(honest, {"count-0": taken, "count-1": []}) == ""
    judged = run(Scenario(epoch_merge(topology), words(events=40, batch=4)), ())
    assert judged.claim.status is Status.UNKNOWN
    assert "does not matter" in str(judged.claim.reason)


def test_an_operator_that_fails_at_the_end_of_an_epoch_is_named_with_it() -> None:
    class Fails(TumblingCount):
        def close(self, upper: int, state: dict[str, int]) -> list[Output]:
            raise ValueError("no")

    with pytest.raises(InvalidOperator, match=r"count-\d, close\(\) at 8 ms: ValueError: no"):
        run(Scenario(epoch_merge(with_count(Fails(8))), words(events=40, batch=4)), ())


def test_what_is_made_at_the_ends_of_epochs_has_to_be_the_same_every_time_too() -> None:
    class Impure(TumblingCount):
        calls = 0

        def close(self, upper: int, state: dict[str, int]) -> list[Output]:
            Impure.calls += 1
            return [("calls", Impure.calls)]

    def made(operator: Operator[Any]) -> Iterable[Any]:
        lines = [Event("source-0", seq, str(seq), "a", seq) for seq in range(1, 20)]
        return [one.closed for one in execute_slices(with_count(operator), {"source-0": lines}).values()]

    assert made(TumblingCount(8)) == made(TumblingCount(8))
    split, _, count, other = made(TumblingCount(8))
    assert [upper for _, upper, _ in count or other] == [8, 16, 24]
    assert not split
    assert made(Impure(8)) != made(Impure(8))
