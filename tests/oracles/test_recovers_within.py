"""Recovers within t, on a real clock: histories by hand, in which one slice is lost and another begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from handmade import Log, Made, Pass, chain
from streamproof.harness.core.events import NUMBERING_SPAN, Event, Output
from streamproof.harness.core.guarantees import RECOVERS_WITHIN, Guarantee, recovers_within
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import Duration
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.core.verdicts import Anomaly, Status, Verdict
from streamproof.harness.judging.recovery import recoveries, recoveries_of, sure_recoveries
from streamproof.harness.protocol.merging import Merge
from streamproof.harness.protocol.spec import Numbering
from streamproof.harness.recording.history import Bite, FaultHealed, FaultStruck, Proof, Stamp
from streamproof.harness.reporting.html.lanes import Doing, lanes_of
from streamproof.reference_impls.mechanisms.merges import ByTime


class Silent(Operator[list[int]]):
    """Keeps its inputs and tells nothing."""

    def initial_state(self) -> list[int]:
        return []

    def process(self, event: Event, state: list[int]) -> Iterable[Output]:
        state.append(event.value)
        return []


LOST, BACK = 1_000_000, 3_500_000
"""Microseconds: when a slice is lost, and when its successor has caught up."""


def lost_once(offered: int) -> Made:
    """So many events, of which three were taken and heard before the slice was lost; another is there in its place."""
    made = Made(chain(Log()))
    made.offer("a", *range(1, offered + 1))
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 3)
    made.deliver("op0", 1, 1, 2, 3)
    made.at = LOST - 1
    made.lose("op0", 1)
    made.start("op0", 2)
    return made


def crashed(*, back: bool = True, again: bool = False) -> Made:
    made = lost_once(6)
    if back:
        made.at = BACK - 1
        made.take("op0", 2, "a", 1, 1, 6)
        made.at = BACK - 1
        made.deliver("op0", 2, *range(1, 7))
    if again:
        made.at = BACK + 10
        made.lose("op0", 2, fault=1)
        made.start("op0", 3)
    made.keep("op0", 3 if again else 2)
    return made


def verdict(made: Made, micros: int, *, virtual: bool = False) -> Verdict:
    return made.verdict(recovers_within(Duration(micros)), virtual_time=virtual)


def test_it_is_from_the_failure_until_what_had_been_seen_is_seen_again() -> None:
    found = verdict(crashed(), BACK - LOST)
    assert (found.status, found.summary) == (Status.HOLDS, "slowest of 1 recoveries 2.50 s")
    assert found.observables == ("outputs", "state")


def test_a_microsecond_more_is_too_late() -> None:
    found = verdict(crashed(), BACK - LOST - 1)
    assert found.status is Status.VIOLATED
    (late,) = found.anomalies
    assert (late.anomaly, late.count) == (Anomaly.BOUND_EXCEEDED, 1)
    (evidence,) = late.sample
    assert (evidence.what, evidence.where, evidence.fault) == ("recovered after 2.50 s", "op0-0", 0)


SECOND = 1_000_000


def started_blank(idle: int, asleep: int) -> Made:
    """After its crash a slice wants only what comes after all that it had taken, a second later; the next input comes
    `idle` seconds after that, and is taken `asleep` seconds later."""
    made = Made(chain(Pass()))
    made.start("op0", 1)
    for seq in range(1, 11):
        made.offer("a", seq)
        made.at += 1_000
        made.take("op0", 1, "a", 1, seq, seq)
        made.deliver("op0", 1, seq)
    made.lose("op0", 1)
    made.at += SECOND
    made.start("op0", 2)
    made.open("a", 1, "op0", 2, 11, 10)
    made.at += idle * SECOND
    made.offer("a", *range(11, 16))
    made.at += asleep * SECOND
    made.take("op0", 2, "a", 1, 11, 15)
    made.deliver("op0", 2, *range(1, 6))
    made.keep("op0", 2)
    return made


def test_a_slice_that_starts_blank_does_not_catch_up_with_what_it_has_lost() -> None:
    """It waits for the next input, and that is no part of its recovery."""
    found = verdict(started_blank(idle=100, asleep=0), 5 * SECOND)
    assert (found.status, found.summary) == (Status.HOLDS, "slowest of 1 recoveries 1.00 s")


def test_who_leaves_alone_what_is_there_has_not_recovered() -> None:
    found = verdict(started_blank(idle=0, asleep=100), 5 * SECOND)
    assert found.status is Status.VIOLATED
    assert found.anomalies[0].sample[0].what == "what was there for it was taken 100.00 s later"


def test_one_that_was_not_seen_to_catch_up_is_open() -> None:
    found = verdict(crashed(back=False), 10_000_000)
    assert (found.status, found.reason) == (Status.UNKNOWN, "op0-0 was not seen to catch up after fault 1")
    found = verdict(crashed(again=True), BACK - LOST)
    assert (found.status, found.reason) == (Status.UNKNOWN, "op0-0 was not seen to catch up after fault 2")


def heard(*, after: int | None, operator: type[Operator[Any]] = Log, waits: int = 0) -> Made:
    """One that has its inputs again a second after it was lost, with `waits` before there is more than it had before,
    and is heard anew so long after that."""
    made = Made(chain(operator()))
    made.offer("a", *range(1, 7))
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 3)
    if operator is Log:
        made.deliver("op0", 1, 1, 2, 3)
    made.at = LOST - 1
    made.lose("op0", 1)
    made.start("op0", 2)
    made.at = 2 * LOST - 1
    made.take("op0", 2, "a", 1, 1, 3)
    made.at += waits
    made.take("op0", 2, "a", 1, 4, 6)
    if after is not None:
        made.at += after
        made.deliver("op0", 2, *range(1, 7))
    made.keep("op0", 2)
    return made


def test_who_has_its_inputs_again_and_is_not_heard_is_not_back() -> None:
    late = verdict(heard(after=600_000_000), 5_000_000)
    assert late.status is Status.VIOLATED
    assert late.anomalies[0].sample[0].what == "recovered after 601.00 s"
    never = verdict(heard(after=None), 5_000_000)
    assert never.status is Status.UNKNOWN
    assert never.reason == "op0-0 came to where it was after fault 1, and no new output of it was heard"
    assert verdict(heard(after=None), 900_000).status is Status.VIOLATED, "it took a second at least"


def test_what_a_recovered_slice_waits_for_its_input_is_no_part_of_the_recovery() -> None:
    found = verdict(heard(after=500_000, waits=600_000_000), 1_600_000)
    assert (found.status, found.summary) == (Status.HOLDS, "slowest of 1 recoveries 1.50 s")


def test_who_makes_nothing_is_back_when_it_has_its_inputs() -> None:
    found = verdict(heard(after=None, operator=Silent), 1_100_000)
    assert (found.status, found.summary) == (Status.HOLDS, "slowest of 1 recoveries 1.00 s")


def test_one_that_was_lost_again_on_its_way_is_said_to_have_been() -> None:
    made = crashed(back=False)
    made.at = BACK
    made.lose("op0", 2, fault=1)
    made.start("op0", 3)
    made.take("op0", 3, "a", 1, 1, 6)
    made.deliver("op0", 3, *range(1, 7))
    found = verdict(made, 10_000_000)
    assert found.status is Status.UNKNOWN
    assert found.reason == "op0-0 was lost again, by fault 2, before it had caught up after fault 1"


def lost_unheard(*, own: bool = False) -> Made:
    """Two crashes: who came after the first had caught up after 1 s, and was lost before it was heard, but for `own`.
    Who came after it says what it made too, 1.8 s after the second."""
    made = lost_once(7)
    made.at = 2 * LOST - 1
    made.take("op0", 2, "a", 1, 1, 6)
    made.at += 200_000
    if own:
        made.deliver("op0", 2, 4, 5, 6)
    made.lose("op0", 2, fault=1)
    made.start("op0", 3)
    made.at += 1_000_000
    made.take("op0", 3, "a", 1, 1, 7)
    made.at += 800_000
    made.deliver("op0", 3, *range(1, 8))
    made.keep("op0", 3)
    return made


def test_who_was_lost_before_it_was_heard_is_not_heard_by_who_comes_after_it() -> None:
    found = verdict(lost_unheard(), 2_500_000)
    assert found.status is Status.UNKNOWN
    assert found.reason == "op0-0 was lost again, by fault 2, before it was heard after fault 1"
    assert verdict(lost_unheard(), 1_700_000).status is Status.VIOLATED, "the second took longer"
    assert verdict(lost_unheard(own=True), 2_500_000).status is Status.HOLDS


LATER = 10 * LOST


def two_stages(*, receives: int, pause: tuple[int, int] | None = None, usual: int = 0, target: str = "op1-0") -> Made:
    """op0 is lost, and has caught up after a second; op1 takes what it makes so long after the loss. Before that it
    took what was made after `usual`. Microseconds."""
    made = Made(chain(Pass(), Pass(), Pass()))
    made.offer("a", *range(1, 7))
    for name in ("op0", "op1", "op2"):
        made.start(name, 1)
    made.take("op0", 1, "a", 1, 1, 3)
    made.at += usual
    made.take("op1", 1, "op0", 1, 1, 3)
    made.take("op2", 1, "op1", 1, 1, 3)
    made.deliver("op2", 1, 1, 2, 3)
    made.at = LATER - 1
    made.lose("op0", 1)
    made.start("op0", 2)
    made.at = LATER + LOST - 1
    made.take("op0", 2, "a", 1, 1, 6)
    if pause is not None:
        begins, ends = (LATER + one for one in pause)
        node = f"{target.partition('-')[0]}-1"
        ends_of = (target,) if ">" not in target else tuple(target.split(">"))
        bite = Bite(target, node, ends_of, outstanding=True, lasting=True)
        made.timeline.append(FaultStruck(Stamp(begins), 1, f"pause {target}", None, bite))
        proof = Proof(ends - begins, "us that it did nothing")
        made.timeline.append(FaultHealed(Stamp(ends), 1, f"pause {target}", target, proof))
    made.at = LATER + receives - 1
    made.take("op1", 1, "op0", 2, 4, 6)
    made.take("op2", 1, "op1", 1, 4, 6)
    made.deliver("op2", 1, 4, 5, 6)
    for name, number in (("op0", 2), ("op1", 1), ("op2", 1)):
        made.keep(name, number)
    return made


@pytest.mark.parametrize("target", ["op1-0", "op2-0", "op0-0", "op0-0>op1-0"])
def test_another_fault_that_held_up_the_receiver_is_not_charged_to_who_recovered(target: str) -> None:
    made = two_stages(receives=11_000_000, pause=(900_000, 10_900_000), target=target)
    found = verdict(made, 5_000_000)
    assert found.status is Status.UNKNOWN
    assert found.reason == (
        "op0-0 came to where it was 1.00 s after fault 1 and was heard after 11.00 s, which others may have brought "
        f"about: fault 2 was felt meanwhile: pause {target}"
    )
    assert "fault 2 ended no slice" in verdict(made, 12_000_000).reason
    assert verdict(made, 900_000).status is Status.VIOLATED, "it took a second by itself"


@pytest.mark.parametrize("pause", [None, (100_000, 900_000), (1_000_000, 2_000_000)])
def test_what_is_late_long_after_another_fault_or_without_one_is_late(pause: tuple[int, int] | None) -> None:
    found = verdict(two_stages(receives=11_000_000, pause=pause), 5_000_000)
    assert found.status is Status.VIOLATED
    said = found.anomalies[0].sample[0].what
    assert said == ("recovered after 10.00 s, or later" if pause and pause[1] > LOST else "recovered after 11.00 s")


def test_what_outputs_take_at_any_time_is_no_part_of_the_recovery() -> None:
    held_back = verdict(two_stages(receives=4_000_000, usual=3_000_000 - 1), 2_000_000)
    assert (held_back.status, held_back.summary) == (
        Status.HOLDS,
        "slowest of 1 recoveries 1.00 s; beside it, 3.00 s is what outputs took before the first fault",
    )
    late = verdict(two_stages(receives=7_000_000, usual=3_000_000 - 1), 2_000_000)
    assert late.status is Status.VIOLATED
    assert late.anomalies[0].sample[0].what == (
        "recovered after 4.00 s, beside 3.00 s that outputs took before the first fault"
    )
    assert verdict(two_stages(receives=4_000_000), 2_000_000).status is Status.VIOLATED


def merged(*, merge: Merge | None, other_made: int) -> Made:
    """op0 is lost and has caught up after a second. op2 takes its outputs and those of op1, and takes what op0 made
    anew 11 s after the loss; what op1 made before that was made at `other_made`."""
    edges = (Edge("a", "op0"), Edge("b", "op1"), Edge("op0", "op2"), Edge("op1", "op2"), Edge("op2", "sink"))
    stages = {name: Stage(Pass()) for name in ("op0", "op1", "op2")}
    made = Made(Topology("merged", stages, edges, ("a", "b")), merge=merge)
    made.offer("a", *range(1, 7))
    made.offer("b", *range(1, 7))
    for name in ("op0", "op1", "op2"):
        made.start(name, 1)
    made.take("op0", 1, "a", 1, 1, 3)
    made.take("op1", 1, "b", 1, 1, 3)
    for seq in (1, 2, 3):
        made.take("op2", 1, "op0", 1, seq, seq)
        made.take("op2", 1, "op1", 1, seq, seq)
    made.at = LOST - 1
    made.lose("op0", 1)
    made.start("op0", 2)
    made.at = 2 * LOST - 1
    made.take("op0", 2, "a", 1, 1, 6)
    made.at = LOST + other_made - 1
    made.take("op1", 1, "b", 1, 4, 6)
    made.at = 12 * LOST - 1
    for seq in (4, 5, 6):
        made.take("op2", 1, "op0", 2, seq, seq)
        made.take("op2", 1, "op1", 1, seq, seq)
    made.deliver("op2", 1, *range(1, 13))
    for name, number in (("op0", 2), ("op1", 1), ("op2", 1)):
        made.keep(name, number)
    return made


def test_what_a_receiver_waits_for_another_channel_of_its_merge_is_not_charged_to_who_recovered() -> None:
    waited = verdict(merged(merge=ByTime(), other_made=10_900_000), 5_000_000)
    assert waited.status is Status.UNKNOWN
    assert waited.reason.endswith("op2-0 takes its channels in an order, and may have waited for another")
    assert verdict(merged(merge=ByTime(), other_made=10_900_000), 12_000_000).status is Status.HOLDS
    assert verdict(merged(merge=ByTime(), other_made=1_100_000), 5_000_000).status is Status.VIOLATED
    assert verdict(merged(merge=None, other_made=10_900_000), 5_000_000).status is Status.VIOLATED


def test_where_nothing_had_passed_before_the_fault_nobody_knows_what_is_usual() -> None:
    made = crashed_first()
    found = verdict(made, 5_000_000)
    assert found.status is Status.UNKNOWN
    assert found.reason.endswith("what is usual on op0-0>sink-0 is not known: nothing passed before the faults")
    assert verdict(made, 11_000_000).status is Status.HOLDS


def crashed_first() -> Made:
    """Lost before anything of it was heard; back after a second, and heard 10 s later."""
    made = Made(chain(Log()))
    made.offer("a", *range(1, 7))
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 3)
    made.at = LOST - 1
    made.lose("op0", 1)
    made.start("op0", 2)
    made.at = 2 * LOST - 1
    made.take("op0", 2, "a", 1, 1, 6)
    made.at += 9_000_000
    made.deliver("op0", 2, *range(1, 7))
    made.keep("op0", 2)
    return made


def restored_on_its_way(*, first: bool, heard: bool) -> Made:
    """What took over is given a checkpoint once it runs: `first`, before it takes anything, or once it has gone
    on after a second. It is heard half a second later, or never."""
    made = Made(chain(Log()))
    made.offer("a", *range(1, 7))
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 3)
    made.checkpoint("op0", 1, 1)
    made.deliver("op0", 1, 1, 2, 3)
    made.at = LOST - 1
    made.lose("op0", 1)
    made.start("op0", 2)
    if first:
        made.restore("op0", 2, (1, 1), 4)
        made.at = 2 * LOST - 1
        made.take("op0", 2, "a", 1, 4, 6)
    else:
        made.at = 2 * LOST - 1
        made.take("op0", 2, "a", 1, 1, 3)
        made.take("op0", 2, "a", 1, 4, 5)
        made.restore("op0", 2, (1, 1), 4)
        made.take("op0", 2, "a", 1, 4, 6)
    made.at += 500_000
    if heard:
        made.deliver("op0", 2, 4, 5, 6)
    made.keep("op0", 2)
    return made


def test_who_was_given_a_state_while_it_ran_is_heard_as_well_or_it_is_said_that_nobody_can_tell() -> None:
    assert verdict(restored_on_its_way(first=True, heard=True), 1_500_000).status is Status.HOLDS
    assert verdict(restored_on_its_way(first=True, heard=True), 400_000).status is Status.VIOLATED
    assert verdict(restored_on_its_way(first=True, heard=False), 1_500_000).status is Status.UNKNOWN
    anew = verdict(restored_on_its_way(first=False, heard=True), 2_000_000)
    assert anew.status is Status.UNKNOWN
    assert anew.reason.endswith("when it was heard is not known: op0-0 began anew with the state of another meanwhile")


def test_but_another_that_was_late_was_late() -> None:
    found = verdict(crashed(again=True), BACK - LOST - 1)
    assert (found.status, [tally.count for tally in found.anomalies]) == (Status.VIOLATED, [1])


def test_without_a_fault_there_is_nothing_to_recover_from() -> None:
    made = Made(chain(Log()))
    made.offer("a", 1)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.deliver("op0", 1, 1)
    made.keep("op0", 1)
    found = verdict(made, 1)
    assert (found.status, found.why) == (Status.UNKNOWN, Why.NOTHING_TO_JUDGE)
    assert found.reason == "no fault struck, so there was nothing to recover from"


@pytest.mark.parametrize("lost", [False, True])
def test_a_fault_that_ended_no_slice_was_not_recovered_from_in_no_time(lost: bool) -> None:
    made = crashed() if lost else Made(chain(Log()))
    if not lost:
        made.offer("a", 1)
        made.start("op0", 1)
        made.take("op0", 1, "a", 1, 1, 1)
        made.keep("op0", 1)
    proof = Proof(60_000_000, "us that it did nothing")
    bite = Bite("op0-0", "node-0", ("op0-0",), outstanding=True, lasting=True, proof=proof)
    made.timeline.append(FaultStruck(Stamp(BACK + 5), 7, "pause op0-0", None, bite))
    found = verdict(made, BACK - LOST)
    assert found.status is Status.UNKNOWN
    assert "fault 8 ended no slice, and how long it was felt is not measured: pause op0-0" in found.reason
    if lost:
        assert verdict(made, BACK - LOST - 1).status is Status.VIOLATED


@pytest.mark.parametrize(
    ("guarantee", "virtual", "reason"),
    [
        (recovers_within(Duration(10_000_000)), True, "virtual"),
        (Guarantee(RECOVERS_WITHIN), False, "no limit"),
    ],
)
def test_what_cannot_be_measured_is_unknown(guarantee: Guarantee, virtual: bool, reason: str) -> None:
    found = crashed().verdict(guarantee, virtual_time=virtual)
    assert found.status is Status.UNKNOWN
    assert reason in found.reason


def both_lost(numbering: Numbering) -> Made:
    """Both slices are lost. What the first makes again can have higher numbers than anything before."""
    made = Made(chain(Pass(), Log()), numbering)
    made.offer("a", *range(1, 7))
    made.start("op0", 1)
    made.start("op1", 1)
    made.take("op0", 1, "a", 1, 1, 4)
    made.take("op1", 1, "op0", 1, 1, 4)
    made.at = LOST - 2
    made.lose("op1", 1)
    made.lose("op0", 1)
    first = NUMBERING_SPAN + 1 if numbering is Numbering.FRESH else 1
    made.start("op0", 2, next_seq=first)
    made.start("op1", 2, next_seq=first)
    made.take("op0", 2, "a", 1, 1, 6)
    made.take("op1", 2, "op0", 2, first, first)
    made.at = BACK - 1
    made.take("op1", 2, "op0", 2, first + 1, first + 3)
    made.take("op1", 2, "op0", 2, first + 4, first + 5)
    made.at -= 2
    made.deliver("op1", 2, *range(first, first + 4))
    made.keep("op0", 2)
    made.keep("op1", 2)
    return made


@pytest.mark.parametrize("numbering", [Numbering.CONTINUED, Numbering.FRESH])
def test_numbers_that_begin_above_the_old_ones_are_no_progress(numbering: Numbering) -> None:
    made = both_lost(numbering)
    assert verdict(made, BACK - LOST + 1).status is Status.HOLDS
    late = verdict(made, BACK - LOST)
    assert late.status is Status.VIOLATED
    # What op0 made anew was heard when op1 took it, which was not there before.
    assert [one.where for one in late.anomalies[0].sample] == ["op1-0"]


def test_where_nothing_is_executed_again_no_recovery_is_shorter_than_the_one_that_is_judged() -> None:
    history = both_lost(Numbering.FRESH).history()
    shown = {one.actor: one.total or 0 for one in recoveries(history)}
    assert shown["op1-0"] < 10, "by the numbers alone"
    assert [one.actor for one in sure_recoveries(history)] == ["op0-0"]
    assert [one.total for one in sure_recoveries(history)] == [shown["op0-0"]]
    lane = next(one for one in lanes_of(history, history.timeline[-1].stamp.at) if one.name == "op1-0")
    assert [one.said.endswith(" or later") for one in lane.stretches if one.doing is Doing.CATCHING_UP] == [True]
    judged = recoveries_of(both_lost(Numbering.FRESH).case())
    (told,) = [
        one
        for lane in lanes_of(history, history.timeline[-1].stamp.at, judged)
        for one in lane.stretches
        if one.doing is Doing.CATCHING_UP and lane.name == "op1-0"
    ]
    assert told.ends == LOST - 1 + next(one.total or 0 for one in judged if one.actor == "op1-0")
    assert not told.said.endswith(" or later")


def test_a_replica_that_lags_behind_has_not_taken_over_by_what_it_repeats() -> None:
    """Nobody filters what comes twice. What goes on is what nobody had heard before."""
    made = Made(chain(Log()), replicas=2)
    made.offer("a", *range(1, 7))
    made.start("op0", 1)
    made.start("op0", 2, replica=1)
    made.take("op0", 1, "a", 1, 1, 4)
    made.take("op0", 2, "a", 1, 1, 1)
    made.deliver("op0", 1, 1, 2, 3, 4)
    made.at = LOST - 1
    made.lose("op0", 1)
    made.take("op0", 2, "a", 1, 2, 6)
    made.deliver("op0", 2, 1, 2, 3)
    made.at = BACK - 1
    made.deliver("op0", 2, 4, 5, 6)
    made.keep("op0", 2)
    assert verdict(made, BACK - LOST).status is Status.HOLDS
    assert verdict(made, BACK - LOST - 1).status is Status.VIOLATED
