"""A legal order keeps each channel's order, and takes several in that of their merge. Histories made by hand."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from handmade import Log, Made, Pass, chain
from simulation import scenario_of
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.guarantees import (
    AMNESIA,
    EXACTLY_ONCE,
    GAP,
    PRECISE,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
    gap_recovery,
)
from streamproof.harness.core.quantities import Duration, events, ms
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.protocol.effects import Effect, Input, Receive
from streamproof.harness.protocol.machine import Slice
from streamproof.harness.protocol.merging import Merge, sequencer
from streamproof.harness.protocol.messages import Batch
from streamproof.harness.protocol.spec import Numbering
from streamproof.harness.recording.history import NodeGone, Stamp
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.mechanisms.merges import ByTime, RoundRobin
from streamproof.reference_impls.mutants.twists import twisted
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.upstream_backup import horizon, upstream_backup
from streamproof.scenarios.trace import trace
from streamproof.scenarios.windows import WindowedCount
from streamproof.scenarios.workloads import numbered
from verdicts_of import run


def taken(*ranges: tuple[int, int]) -> Made:
    made = Made(chain(Log()))
    made.offer("a", *range(1, 9))
    made.start("op0", 1)
    for first, last in ranges:
        made.take("op0", 1, "a", 1, first, last)
    made.deliver("op0", 1, *range(1, 9))
    made.keep("op0", 1)
    return made


@pytest.mark.parametrize("guarantee", [PRECISE, ROLLBACK_REPEATING, ROLLBACK_DIVERGENT, AMNESIA])
def test_batches_that_were_swapped_on_the_only_channel(guarantee: str) -> None:
    assert taken((1, 4), (5, 8)).verdict(guarantee).status is Status.HOLDS
    verdict = taken((5, 8), (1, 4)).verdict(guarantee)
    assert verdict.status is Status.VIOLATED
    assert Anomaly.REORDERED_OUTPUT in {tally.anomaly for tally in verdict.anomalies}


def test_swapped_batches_alone_lose_nothing_but_give_another_result_than_without_failures() -> None:
    verdict = taken((5, 8), (1, 4)).verdict(EXACTLY_ONCE)
    assert {tally.anomaly for tally in verdict.anomalies} <= {Anomaly.LOST_INPUT, Anomaly.PHANTOM_OUTPUT}
    assert verdict.status is Status.VIOLATED


def merging(merge: Merge, *order: tuple[str, int, int]) -> Made:
    made = Made(chain(Log(), sources=("a", "b")), merge=merge)
    made.offer("a", 1, 2, 3, every=10)
    made.offer("b", 4, 5, 6, every=15)
    made.start("op0", 1)
    for source, first, last in order:
        made.take("op0", 1, source, 1, first, last)
    made.deliver("op0", 1, *range(1, 7))
    made.keep("op0", 1)
    return made


BY_TIME = (("a", 1, 1), ("b", 1, 1), ("a", 2, 3), ("b", 2, 3))
IN_TURN = (("a", 1, 1), ("b", 1, 1), ("a", 2, 2), ("b", 2, 2), ("a", 3, 3), ("b", 3, 3))
AS_THEY_CAME = (("a", 1, 3), ("b", 1, 3))


@pytest.mark.parametrize(("merge", "order"), [(ByTime(), BY_TIME), (RoundRobin(), IN_TURN)])
def test_the_order_of_a_merge_is_the_only_legal_one(merge: Merge, order: tuple[tuple[str, int, int], ...]) -> None:
    assert merging(merge, *order).verdict(PRECISE).status is Status.HOLDS
    for guarantee in (PRECISE, ROLLBACK_REPEATING, ROLLBACK_DIVERGENT):
        verdict = merging(merge, *AS_THEY_CAME).verdict(guarantee)
        assert verdict.status is Status.VIOLATED
        assert "where its merge takes input" in verdict.anomalies[-1].sample[0].what


def takes_as_they_come(machine: Slice) -> Slice:
    """Whatever merge is declared."""
    machine.waiting = sequencer(None, machine.spec.slice_id, len(machine.spec.upstream))  # type: ignore[attr-defined]
    return machine


def test_a_slice_that_ignores_its_merge_is_found_without_any_fault() -> None:
    scenario = scenario_of("passive-replication-in-turn/order")
    assert isinstance(scenario.subject, SchemeSubject)
    assert run(scenario, ()).verdict(PRECISE).status is Status.HOLDS
    ignoring = replace(scenario.subject, wraps={Role.OPERATOR: takes_as_they_come})
    assert run(replace(scenario, subject=ignoring), ()).verdict(PRECISE).status is Status.VIOLATED


def test_the_horizon_is_the_sum_of_the_windows_along_the_longest_path() -> None:
    topology = chain(WindowedCount(20), Pass(), WindowedCount(30))
    assert horizon(topology) == 50
    assert upstream_backup(topology).claims[0].guarantee.within == Duration(50_000)


def returning(opens_after: int, restored: int = 2, *, third: bool = True) -> Made:
    """A slice with checkpoints 1 and 2, after 4 and 8 events, dies after 10 and is back at once; its channel is opened
    when so many more events have been offered, a millisecond each."""
    made = Made(chain(Log()), Numbering.FRESH)
    made.start("op0", 1)
    made.open("a", 1, "op0", 1, 1)
    made.open("op0", 1, "sink", 1, 1)
    made.offer("a", *range(1, 11))
    made.take("op0", 1, "a", 1, 1, 4)
    made.checkpoint("op0", 1, 1)
    made.durable("op0", 1, 1)
    made.take("op0", 1, "a", 1, 5, 8)
    made.checkpoint("op0", 1, 2)
    made.durable("op0", 1, 2)
    made.take("op0", 1, "a", 1, 9, 10)
    made.deliver("op0", 1, *range(1, 11))
    made.lose("op0", 1)
    made.start("op0", 2, restored=(1, restored), next_seq=1_001)
    made.open("op0", 2, "sink", 1, 1_001)
    for number in range(opens_after):
        made.offer("a", 11 + number)
        made.at += 1_000
    made.open("a", 1, "op0", 2, 11 + opens_after)
    made.offer("a", *range(11 + opens_after, 21 + opens_after))
    made.take("op0", 2, "a", 1, 11 + opens_after, 20 + opens_after)
    made.deliver("op0", 2, *range(1_001, 1_011))
    made.keep("op0", 2)
    return made


def test_a_gap_ends_when_the_slice_is_back_and_not_when_it_pleases() -> None:
    assert returning(3).verdict(gap_recovery(events(4))).status is Status.HOLDS
    late = returning(96).verdict(gap_recovery(events(4)))
    assert late.status is Status.VIOLATED
    assert "it was back, and opened the channel later than 0.02 s" in late.anomalies[0].sample[0].what
    assert returning(96).verdict(gap_recovery(events(4), opens_within=ms(100))).status is Status.HOLDS
    assert returning(3).verdict(gap_recovery(events(4), opens_within=ms(1))).status is Status.VIOLATED
    assert returning(3).verdict(gap_recovery(events(4), opens_within=ms(0))).status is Status.VIOLATED, (
        "that is said, too"
    )
    assert returning(96).verdict(AMNESIA).status is Status.HOLDS, "which states no time"
    disturbed = returning(96)
    disturbed.timeline.append(NodeGone(Stamp(disturbed.at), "op0-9"))
    assert disturbed.verdict(gap_recovery(events(4))).status is Status.VIOLATED, "what broke later excuses nothing"


def test_a_gap_begins_at_the_newest_checkpoint_that_was_durable() -> None:
    verdict = returning(0, restored=1).verdict(gap_recovery(events(4)))
    assert verdict.status is Status.VIOLATED
    (tally,) = verdict.anomalies
    assert tally.anomaly is Anomaly.STATE_ROLLBACK
    assert "though checkpoint 2 of incarnation 1, which holds them, was durable" in tally.sample[0].what


def lost_events(count: int) -> Made:
    """A slice that never had a durable checkpoint dies after so many events, and starts blank."""
    made = Made(chain(Log()), Numbering.FRESH)
    made.start("op0", 1)
    made.open("a", 1, "op0", 1, 1)
    made.offer("a", *range(1, count + 1))
    made.take("op0", 1, "a", 1, 1, count)
    made.deliver("op0", 1, *range(1, count + 1))
    made.lose("op0", 1)
    made.start("op0", 2, next_seq=1_001)
    made.open("a", 1, "op0", 2, count + 1)
    made.offer("a", count + 1)
    made.take("op0", 2, "a", 1, count + 1, count + 1)
    made.deliver("op0", 2, 1_001)
    made.keep("op0", 2)
    return made


@pytest.mark.parametrize(("count", "status"), [(8, Status.HOLDS), (9, Status.VIOLATED), (12, Status.VIOLATED)])
def test_two_intervals_may_be_lost_and_no_more(count: int, status: Status) -> None:
    assert lost_events(count).verdict(gap_recovery(events(4))).status is status


def test_the_last_visible_input_counts() -> None:
    """Of the order before the crash everything agrees but the input that was taken last and had become visible."""
    made = Made(chain(Log(), sources=("a", "b")))
    made.offer("a", 1, 2)
    made.offer("b", 3)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.take("op0", 1, "b", 1, 1, 1)
    made.deliver("op0", 1, 1, 2)
    made.lose("op0", 1)
    made.start("op0", 2)
    made.take("op0", 2, "a", 1, 1, 1)
    made.take("op0", 2, "a", 1, 2, 2)
    made.take("op0", 2, "b", 1, 1, 1)
    made.deliver("op0", 2, 2, 3)
    made.keep("op0", 2)
    verdict = made.verdict(PRECISE)
    assert verdict.status is Status.VIOLATED
    assert any("had taken input b-0 #1 as number 2" in e.what for t in verdict.anomalies for e in t.sample)
    assert made.verdict(GAP).status is not Status.HOLDS


def test_a_hole_of_which_nothing_is_seen_is_in_no_legal_order() -> None:
    """Without a crash in between, an incarnation passes over an input; what it made of the others nobody took."""
    made = Made(chain(Log()))
    made.offer("a", 1, 2, 3)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.take("op0", 1, "a", 1, 3, 3)
    made.lose("op0", 1)
    made.start("op0", 2)
    made.take("op0", 2, "a", 1, 1, 3)
    made.deliver("op0", 2, 1, 2, 3)
    made.keep("op0", 2)
    verdict = made.verdict(PRECISE)
    assert [(one.anomaly, one.of) for one in verdict.anomalies] == [(Anomaly.LOST_INPUT, "passed over in channels")]


def reversing(machine: Slice, given: Input) -> list[Effect]:
    """One batch comes in another order than it was sent."""
    if isinstance(given, Receive) and isinstance(given.message, Batch) and given.message.events[0].seq == 21:
        given = Receive(given.neighbour, msgspec.structs.replace(given.message, events=given.message.events[::-1]))
    return machine.on(given)


def test_a_batch_whose_events_come_in_reverse() -> None:
    subject = passive_replication(trace(), checkpoint_every=events(20), sink_filter=True)
    subject = replace(subject, wraps={Role.OPERATOR: twisted(reversing)})
    scenario = Scenario(subject, numbered(events=60, batch=10))
    registry = Registry()
    _, judgement = run_in_memory(scenario, SimulatedCluster(), registry.faults, registry.oracles, seed=1)
    (verdict,) = judgement.verdicts
    assert Anomaly.REORDERED_OUTPUT in {tally.anomaly for tally in verdict.anomalies}
