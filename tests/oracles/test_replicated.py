"""Slices with replicas, made by hand: one order explains all, replicas that took the same agree, and k-safety."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from handmade import JUDGES, Draw, Highest, Log, Made, Pass, chain
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    GAP,
    K_SAFETY,
    PRECISE,
    REPLICAS_AGREE,
    ROLLBACK_REPEATING,
    k_safety,
)
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import Duration, events
from streamproof.harness.core.verdicts import Anomaly, Status, Verdict
from streamproof.harness.protocol.spec import Numbering
from streamproof.harness.recording.history import Aborted, Drained, History, Stalled, Stamp
from streamproof.harness.recording.records import InSync, Stamped
from streamproof.harness.running.judgement import judge_history
from streamproof.reference_impls.mechanisms.merges import ByTime
from streamproof.scenarios.workloads import numbered


def pair(*, offered: int = 6) -> Made:
    """A slice with two replicas, both in sync."""
    made = Made(chain(Log()), replicas=2)
    made.offer("a", *range(1, offered + 1))
    made.start("op0", 1)
    made.start("op0", 2, replica=1)
    return made


def at_work(made: Made, offered: int = 6) -> Made:
    """Both take everything; the recorder takes some of each."""
    for number in (1, 2):
        made.take("op0", number, "a", 1, 1, offered)
    made.deliver("op0", 1, 1, 2)
    made.deliver("op0", 2, 3, 4)
    made.deliver("op0", 1, *range(5, offered + 1))
    return made


def both_kept(made: Made) -> Made:
    for number in (1, 2):
        made.keep("op0", number)
    return made


def anomalies(verdict: Verdict) -> set[Anomaly]:
    return {tally.anomaly for tally in verdict.anomalies}


def test_copies_of_both_replicas_are_one_output() -> None:
    made = both_kept(at_work(pair()))
    for guarantee in (PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE_OUTPUT, AT_LEAST_ONCE, AT_MOST_ONCE, REPLICAS_AGREE):
        assert made.verdict(guarantee).status is Status.HOLDS, guarantee


def test_what_one_of_the_states_lacks_is_lost() -> None:
    made = pair()
    made.take("op0", 1, "a", 1, 1, 6)
    made.take("op0", 2, "a", 1, 1, 5)
    made.deliver("op0", 1, 1, 2, 3, 4, 5, 6)
    verdict = both_kept(made).verdict(AT_LEAST_ONCE)
    assert verdict.status is Status.VIOLATED
    assert [e.where for e in verdict.anomalies[0].sample] == ["op0-0#2"]


def test_what_one_of_the_states_holds_twice_counts_twice() -> None:
    made = pair()
    made.take("op0", 1, "a", 1, 1, 6)
    made.take("op0", 2, "a", 1, 1, 6)
    made.take("op0", 2, "a", 1, 6, 6)
    made.deliver("op0", 1, 1, 2, 3, 4, 5, 6)
    verdict = both_kept(made).verdict(AT_MOST_ONCE)
    assert verdict.status is Status.VIOLATED
    assert verdict.anomalies[0].sample[0].where == "op0-0#2"


def test_a_replica_that_is_gone_or_not_in_sync_is_no_state_in_the_end() -> None:
    made = pair()
    made.start("op0", 3, replica=2, in_sync=False)
    made.take("op0", 1, "a", 1, 1, 3)
    made.take("op0", 2, "a", 1, 1, 6)
    made.deliver("op0", 1, 1, 2)
    made.lose("op0", 1)
    made.deliver("op0", 2, 3, 4, 5, 6)
    made.keep("op0", 2)
    made.keep("op0", 3)
    assert made.verdict(PRECISE).status is Status.HOLDS
    assert made.verdict(EXACTLY_ONCE).status is Status.HOLDS
    assert [survivor.number for survivor in made.rerun().survivors("op0-0")] == [2]


def test_a_replica_that_is_there_and_left_no_record_of_what_it_kept_is_not_taken_for_right() -> None:
    made = Made(chain(Log()), replicas=2)
    made.offer("a", 1, 2)
    for number in (1, 2):
        made.start("op0", number, replica=number - 1)
        made.take("op0", number, "a", 1, 1, 2)
    made.deliver("op0", 1, 1, 2)
    made.keep("op0", 1)
    verdict = made.verdict(PRECISE)
    assert verdict.status is Status.UNKNOWN
    assert verdict.reason == "op0-0#2 was there at the end, and what it kept was not recorded"
    made.lose("op0", 2, replica=1)
    assert made.verdict(PRECISE).status is Status.HOLDS, "of one that is gone nothing is expected"


def test_a_replica_that_got_in_sync_after_the_end_is_asked_for_nothing() -> None:
    made = Made(chain(Log()), replicas=2)
    made.offer("a", 1, 2)
    for number in (1, 2):
        made.start("op0", number, replica=number - 1)
        made.take("op0", number, "a", 1, 1, 2)
    made.deliver("op0", 1, 1, 2)
    made.lose("op0", 2, replica=1)
    made.start("op0", 3, replica=1, in_sync=False)
    made.keep("op0", 1)
    whole = made.history()
    end = next(entry.stamp.at for entry in whole.timeline if isinstance(entry, Drained))

    def verdict(in_sync: int) -> Verdict:
        records = [*whole.records, Stamped(in_sync, InSync("op0-0", 3))]
        return made.verdict(PRECISE, History(records, whole.timeline))

    assert verdict(end + 1).status is Status.HOLDS
    assert verdict(end).reason == "op0-0#3 was there at the end, and what it kept was not recorded"


def test_no_replica_in_sync_at_the_end_leaves_nothing_to_judge() -> None:
    made = Made(chain(Log()), replicas=2)
    made.offer("a", 1)
    made.start("op0", 1)
    made.start("op0", 2, replica=1, in_sync=False)
    made.take("op0", 1, "a", 1, 1, 1)
    made.deliver("op0", 1, 1)
    made.keep("op0", 2)
    assert "no replica of op0-0 was in sync at the end" in made.verdict(AT_LEAST_ONCE).reason


def test_an_old_output_after_a_newer_one_of_the_same_sender_is_reordered_whoever_came_between() -> None:
    made = pair()
    for number in (1, 2):
        made.take("op0", number, "a", 1, 1, 6)
    made.deliver("op0", 2, 1, 2, 4)
    made.deliver("op0", 1, 3, 5, 6)
    verdict = both_kept(made).verdict(PRECISE)
    assert anomalies(verdict) == {Anomaly.REORDERED_OUTPUT}


def test_numbers_of_their_own_do_not_make_an_order_between_replicas() -> None:
    """Each in its own order: of the one 1, 2 and of the other what they number 1,003 and on; then 4 of the first."""
    made = Made(chain(Pass()), Numbering.FRESH, replicas=2)
    made.offer("a", 1, 2, 3, 4)
    made.start("op0", 1)
    made.start("op0", 2, replica=1, next_seq=1_001)
    for number in (1, 2):
        made.take("op0", number, "a", 1, 1, 4)
    made.deliver("op0", 1, 1, 2)
    made.deliver("op0", 2, 1_003)
    made.deliver("op0", 1, 4)
    assert both_kept(made).verdict(GAP).status is not Status.VIOLATED
    assert both_kept(made).case().collation.reordered.count == 0


# One order


def merging(
    numbering: Numbering = Numbering.CONTINUED,
    *,
    merge: ByTime | None = None,
    operator: Operator[Any] | None = None,
) -> Made:
    """Two sources come together in a slice with two replicas."""
    made = Made(chain(operator or Log(), sources=("a", "b")), numbering, replicas=2, merge=merge)
    made.offer("a", 1)
    made.offer("b", 2)
    made.start("op0", 1)
    made.start("op0", 2, replica=1)
    return made


def in_order(made: Made, number: int, order: str) -> None:
    for source in order:
        made.take("op0", number, source, 1, 1, 1)


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_any_order_that_explains_all_is_precise(order: str) -> None:
    made = merging()
    for number in (1, 2):
        in_order(made, number, order)
    made.deliver("op0", 1, 1)
    made.deliver("op0", 2, 2)
    both_kept(made)
    for guarantee in (PRECISE, REPLICAS_AGREE, EXACTLY_ONCE_OUTPUT):
        assert made.verdict(guarantee).status is Status.HOLDS


class Total(Operator[list[int]]):
    """What it holds in the end depends on no order, what it gives on the way does."""

    fan_out = 1

    def initial_state(self) -> list[int]:
        return [0]

    def process(self, event: Event, state: list[int]) -> Iterable[Output]:
        state[0] += event.value
        return [(event.key, state[0])]


def test_an_order_that_explains_all_is_enough_though_another_replica_took_another() -> None:
    made = merging(operator=Total())
    in_order(made, 1, "ab")
    in_order(made, 2, "ba")
    made.deliver("op0", 1, 1, 2)
    both_kept(made)
    assert made.verdict(PRECISE).status is Status.HOLDS


def test_what_was_drawn_and_taken_downstream_is_drawn_once() -> None:
    """The receiver filters what comes again, so that nobody else notices that the draws are others."""
    made = Made(chain(Draw(), Log()))
    made.offer("a", 1, 2, 3, 4)
    made.start("op0", 1, seed=1)
    made.start("op1", 1)
    made.take("op0", 1, "a", 1, 1, 2)
    made.take("op1", 1, "op0", 1, 1, 2)
    made.lose("op0", 1)
    made.start("op0", 2, seed=2)
    made.take("op0", 2, "a", 1, 1, 4)
    made.take("op1", 1, "op0", 2, 3, 4)
    made.deliver("op1", 1, 1, 2, 3, 4)
    made.keep("op0", 2)
    made.keep("op1", 1)
    verdict = made.verdict(PRECISE)
    assert verdict.status is Status.VIOLATED
    assert [evidence.where for one in verdict.anomalies for evidence in one.sample] == ["op0-0>op1-0"]


def test_outputs_of_two_orders_are_not_of_one() -> None:
    """The first output is one replica's, the second the other's: each is legal, both say that they were the first."""
    made = merging()
    in_order(made, 1, "ab")
    in_order(made, 2, "ba")
    made.deliver("op0", 1, 1)
    made.deliver("op0", 2, 1)
    both_kept(made)
    assert made.verdict(EXACTLY_ONCE_OUTPUT).status is Status.HOLDS
    seen = anomalies(made.verdict(PRECISE))
    assert seen == {Anomaly.PHANTOM_OUTPUT, Anomaly.REPLICA_DIVERGENCE, Anomaly.REORDERED_OUTPUT}


def test_an_order_that_was_visible_and_is_not_kept() -> None:
    made = merging()
    in_order(made, 1, "ab")
    made.deliver("op0", 1, 1)
    made.lose("op0", 1)
    in_order(made, 2, "ba")
    made.deliver("op0", 2, 1)
    made.keep("op0", 2)
    assert made.verdict(EXACTLY_ONCE_OUTPUT).status is Status.HOLDS
    assert Anomaly.REORDERED_OUTPUT in anomalies(made.verdict(PRECISE))


def test_an_output_of_an_order_that_was_given_up_is_one_too_many() -> None:
    """1 and then 2 are both higher than all before; where 2 comes first, 1 is not."""
    made = Made(chain(Highest(), sources=("a", "b")), replicas=2)
    made.offer("a", 1)
    made.offer("b", 2)
    made.start("op0", 1)
    made.start("op0", 2, replica=1)
    in_order(made, 1, "ab")
    made.deliver("op0", 1, 1)
    made.lose("op0", 1)
    in_order(made, 2, "ba")
    made.deliver("op0", 2, 1)
    made.keep("op0", 2)
    assert made.case().collation.superseded_outputs.count == 1
    assert made.verdict(AT_LEAST_ONCE).status is Status.HOLDS
    assert made.verdict(EXACTLY_ONCE).status is Status.HOLDS
    for guarantee in (EXACTLY_ONCE_OUTPUT, ROLLBACK_REPEATING, PRECISE):
        assert made.verdict(guarantee).status is Status.VIOLATED


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_what_follows_one_where_order_matters_is_told_by_its_order_too(order: str) -> None:
    """What a slice further down should take is what was made in the order of the run, not in any."""
    made = Made(chain(Highest(), Pass(), Log(), sources=("a", "b")))
    made.offer("a", 1)
    made.offer("b", 2)
    for name in ("op0", "op1", "op2"):
        made.start(name, 1)
    in_order(made, 1, order)
    count = 2 if order == "ab" else 1
    made.take("op1", 1, "op0", 1, 1, count)
    made.take("op2", 1, "op1", 1, 1, count)
    for seq in range(1, count + 1):
        made.deliver("op2", 1, seq)
    for name in ("op0", "op1", "op2"):
        made.keep(name, 1)
    assert made.verdict(PRECISE).status is Status.HOLDS
    lacking = made.history()
    place = next(n for n, s in enumerate(lacking.records) if type(s.record).__name__ == "Delivered")
    records = [*lacking.records[:place], *lacking.records[place + 1 :]]
    assert made.verdict(AT_LEAST_ONCE, History(records, lacking.timeline)).status is Status.VIOLATED


def test_an_input_that_only_a_replica_that_is_gone_took_is_lost_with_what_it_made() -> None:
    made = merging()
    in_order(made, 1, "ab")
    made.lose("op0", 1)
    in_order(made, 2, "b")
    made.deliver("op0", 2, 1)
    made.keep("op0", 2)
    collation = made.case().collation
    assert (collation.lost_state.count, collation.lost_output.count) == (1, 1)


# Replicas agree


def test_replicas_that_draw_for_themselves_diverge_at_the_first_input() -> None:
    made = Made(chain(Draw()), replicas=2)
    made.offer("a", 1, 2)
    made.start("op0", 1, seed=1)
    made.start("op0", 2, replica=1, seed=2)
    for number in (1, 2):
        made.take("op0", number, "a", 1, 1, 2)
    made.deliver("op0", 1, 1, 2)
    verdict = both_kept(made).verdict(REPLICAS_AGREE)
    assert anomalies(verdict) == {Anomaly.REPLICA_DIVERGENCE}
    assert verdict.anomalies[0].sample[0].what.startswith("after input a-0 #1, as number 1 of what both took,")


def test_an_output_that_is_not_its_peer_s_is_a_divergence_and_a_phantom() -> None:
    made = both_kept(at_work(pair()))

    def altered(row: Event) -> Event:
        return msgspec.structs.replace(row, value="by the clock") if row.seq == 4 else row

    history = made.history(altered)
    verdict = made.verdict(REPLICAS_AGREE, history)
    assert anomalies(verdict) == {Anomaly.REPLICA_DIVERGENCE}
    what = verdict.anomalies[0].sample[0].what
    assert "after input a-0 #4" in what
    # It was the second of the pair that said it.
    assert "the other ('k', 'by the clock')" in what
    assert made.verdict(AT_MOST_ONCE, history).status is Status.VIOLATED


def test_states_that_differ_after_the_same_inputs() -> None:
    made = both_kept(at_work(pair()))
    history = made.history(kept={2: [1, 2, 3]})
    verdict = made.verdict(REPLICAS_AGREE, history)
    assert anomalies(verdict) == {Anomaly.REPLICA_DIVERGENCE}
    assert verdict.anomalies[0].sample[0].where == "op0-0#1 and #2"


def test_another_order_is_a_divergence_only_where_order_is_fixed() -> None:
    for merge, status in ((None, Status.UNKNOWN), (ByTime(), Status.VIOLATED)):
        made = merging(merge=merge)
        made.offer("a", 3)
        for number, rest in ((1, "ab"), (2, "ba")):
            made.take("op0", number, "a", 1, 1, 1)
            for source in rest:
                made.take("op0", number, source, 1, *((2, 2) if source == "a" else (1, 1)))
        made.deliver("op0", 1, 1, 2, 3)
        assert both_kept(made).verdict(REPLICAS_AGREE).status is status


def test_a_replica_that_lags_agrees() -> None:
    made = pair()
    made.take("op0", 1, "a", 1, 1, 6)
    made.take("op0", 2, "a", 1, 1, 3)
    made.deliver("op0", 1, 1, 2, 3, 4, 5, 6)
    assert both_kept(made).verdict(REPLICAS_AGREE).status is Status.HOLDS


def test_one_that_began_blank_when_all_others_were_gone_is_not_compared_with_them() -> None:
    made = Made(chain(Log()), replicas=2)
    made.offer("a", 1, 2)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.lose("op0", 1)
    made.start("op0", 2, replica=1)
    made.take("op0", 2, "a", 1, 2, 2)
    made.keep("op0", 2)
    verdict = made.verdict(REPLICAS_AGREE)
    assert verdict.status is Status.UNKNOWN
    assert verdict.reason == "no two replicas of a slice were in sync at the same time"


def test_replicas_of_which_one_took_nothing_were_not_compared() -> None:
    made = pair()
    made.take("op0", 1, "a", 1, 1, 6)
    made.deliver("op0", 1, 1, 2, 3, 4, 5, 6)
    verdict = both_kept(made).verdict(REPLICAS_AGREE)
    assert (verdict.status, verdict.reason) == (Status.UNKNOWN, "no two replicas of a slice took anything in common")


@pytest.mark.parametrize("earlier", [0, 1])
def test_one_that_is_in_sync_when_the_other_is_gone_is_not_compared_with_it(earlier: int) -> None:
    """Not even in the same microsecond."""
    made = Made(chain(Draw()), replicas=2)
    made.offer("a", 1)
    made.start("op0", 1, seed=1)
    made.start("op0", 2, replica=1, seed=2, in_sync=False)
    for number in (1, 2):
        made.take("op0", number, "a", 1, 1, 1)
    made.lose("op0", 1)
    lost = made.at
    made.at -= 1 + earlier
    made.in_sync("op0", 2)
    assert made.at == lost - earlier
    made.at = lost
    made.deliver("op0", 2, 1)
    made.keep("op0", 2)
    assert made.verdict(REPLICAS_AGREE).status is (Status.VIOLATED if earlier else Status.UNKNOWN)


def test_states_are_compared_once_the_run_has_come_to_its_end() -> None:
    """Before, one of them may have been looked at when it had not heard all."""
    made = both_kept(at_work(pair()))
    history = made.history(kept={2: [1, 2, 3]})
    timeline = [entry for entry in history.timeline if not isinstance(entry, Drained)]
    given_up = History(history.records, [*timeline, Aborted(Stamp(made.at), "the time is up")])
    assert made.verdict(REPLICAS_AGREE, given_up).status is Status.UNKNOWN


def test_a_replica_that_was_never_in_sync_may_hold_anything() -> None:
    made = pair()
    made.start("op0", 3, replica=2, in_sync=False)
    at_work(made, 5)
    assert made.verdict(REPLICAS_AGREE, both_kept(made).history()).status is Status.HOLDS, "it took nothing"
    made.take("op0", 3, "a", 1, 2, 3)
    made.take("op0", 1, "a", 1, 6, 6)
    found = made.verdict(REPLICAS_AGREE)
    said = "op0-0/2 took inputs, and was never in sync with another replica"
    assert (found.status, found.reason) == (Status.UNKNOWN, said)
    made.in_sync("op0", 3)
    assert made.verdict(REPLICAS_AGREE).status is Status.VIOLATED


# k-safety


@pytest.mark.parametrize("offered", [6, 7])
def test_no_clock_is_needed_to_see_a_stall_or_a_loss_in_k_safety_with_a_bound(offered: int) -> None:
    made = both_kept(at_work(pair(offered=offered)))
    history = made.history()
    if offered == 6:
        timeline = [entry for entry in history.timeline if not isinstance(entry, Drained)]
        history = History(history.records, [*timeline, Stalled(Stamp(made.at), "op0-0#2 has not seen the end")])
    verdict = made.verdict(k_safety(Duration(1_000_000)), history)
    assert anomalies(verdict) == {Anomaly.STALL if offered == 6 else Anomaly.LOST_INPUT}


def test_k_safety_without_a_bound_is_exactly_once_and_no_stall() -> None:
    made = both_kept(at_work(pair()))
    assert made.verdict(K_SAFETY).status is Status.HOLDS
    history = made.history()
    timeline = [entry for entry in history.timeline if not isinstance(entry, Drained)]
    stalled = History(history.records, [*timeline, Stalled(Stamp(made.at), "op0-0#2 has not seen the end")])
    assert anomalies(made.verdict(K_SAFETY, stalled)) == {Anomaly.STALL}
    late = History(history.records, [*timeline, Aborted(Stamp(made.at), "op0-0#2 has not seen the end")])
    assert made.verdict(K_SAFETY, late).status is Status.UNKNOWN


def test_k_safety_does_not_bear_a_loss() -> None:
    made = pair()
    made.take("op0", 1, "a", 1, 1, 5)
    made.take("op0", 2, "a", 1, 1, 5)
    made.deliver("op0", 1, 1, 2, 3, 4, 5)
    assert anomalies(both_kept(made).verdict(K_SAFETY)) == {Anomaly.LOST_INPUT}


def test_latency_is_from_the_offer_to_the_first_delivery_and_judged_on_a_real_clock() -> None:
    made = both_kept(at_work(pair()))
    made.deliver("op0", 2, 1)
    # Offered at 1; both replicas start, in two records each; each takes; then come the deliveries.
    offered, last = 1, next(s.at for s in reversed(made.records) if type(s.record).__name__ == "Delivered") - 3
    slowest = last - offered
    bounds = {slowest: Status.HOLDS, slowest - 1: Status.VIOLATED}
    for micros, status in bounds.items():
        bound = k_safety(Duration(micros))
        assert made.verdict(bound, virtual_time=False).status is status
        assert made.verdict(bound).status is Status.UNKNOWN
        assert made.verdict(bound).reason.startswith("the simulator's clock is virtual")
    late = made.verdict(k_safety(Duration(slowest - 1)), virtual_time=False)
    assert anomalies(late) == {Anomaly.BOUND_EXCEEDED}
    assert late.anomalies[0].count == 2
    assert late.anomalies[0].sample[0].where == "op0-0"


# The strongest


def test_the_strongest_guarantees_of_a_replicated_run() -> None:
    made = both_kept(at_work(pair()))
    scenario = Scenario(made.subject, numbered(events=6), claims=[k_safety()])
    judged = judge_history(scenario, made.history(), JUDGES, virtual_time=True)
    assert [str(guarantee) for guarantee in judged.strongest] == [PRECISE, REPLICAS_AGREE]
    assert events(6).count == judged.collation.inputs
