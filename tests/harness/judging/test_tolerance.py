"""Whether a history goes beyond what a claim tolerates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import JUDGES, Log, Made, Pass, chain
from streamproof.harness.contracts.claims import Claim
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    at_least_once,
    exactly_once,
    exactly_once_output,
    precise_recovery,
)
from streamproof.harness.core.verdicts import Evidence, Status, Verdict
from streamproof.harness.judging.tolerance import Beyond, Tolerance, beyond, until
from streamproof.harness.recording.history import Drained, History, NodeGone, Placed, Stamp
from streamproof.harness.recording.records import InSync, Opened, Restored, Stamped, Started
from streamproof.harness.running.judgement import judge_claims, judge_history
from streamproof.scenarios.order import order
from streamproof.scenarios.workloads import numbered


def why(made: Made, tolerance: Tolerance) -> str:
    passed = beyond(made.history(), tolerance, made.topology)
    return "" if passed is None else passed.why


def replicated() -> Made:
    made = Made(chain(Log(), Pass()), replicas=2)
    for name in ("op0", "op1"):
        made.start(name, 1)
        made.start(name, 2, replica=1, in_sync=False)
    return made


def test_any_number_is_any_number() -> None:
    made = replicated()
    for number in (1, 2):
        made.lose("op0", number, replica=number - 1)
    assert why(made, Tolerance.ANY) == ""


def test_one_of_two_in_sync_may_go_and_the_next_only_when_its_successor_is_in_sync() -> None:
    made = replicated()
    made.in_sync("op0", 2)
    made.lose("op0", 1)
    made.start("op0", 3, in_sync=False)
    assert why(made, Tolerance.ONE_IN_SYNC) == ""
    early = replicated()
    early.in_sync("op0", 2)
    early.lose("op0", 1)
    early.start("op0", 3, in_sync=False)
    early.lose("op0", 2, replica=1)
    assert why(early, Tolerance.ONE_IN_SYNC) == "op0-0 lost #2 when no other replica of it was in sync"
    made.in_sync("op0", 3)
    made.lose("op0", 2, replica=1)
    assert why(made, Tolerance.ONE_IN_SYNC) == ""


def test_who_gets_in_sync_when_the_other_is_lost_gets_so_after_it() -> None:
    made = replicated()
    made.lose("op0", 1)
    made.at -= 1
    made.in_sync("op0", 2)
    assert "op0-0 lost #1 when no other" in why(made, Tolerance.ONE_IN_SYNC)


def test_a_replica_that_is_not_in_sync_does_not_count() -> None:
    made = replicated()
    made.lose("op0", 1)
    assert "op0-0 lost #1" in why(made, Tolerance.ONE_IN_SYNC)
    other = replicated()
    other.lose("op0", 2, replica=1)
    assert why(other, Tolerance.ONE_IN_SYNC) == ""


def test_what_strikes_while_a_slice_has_nobody_in_sync_goes_beyond_though_it_hits_another() -> None:
    made = Made(chain(Log(), Pass()), replicas=2)
    for number in (1, 2):
        made.start("op0", number, replica=number - 1)
        made.start("op1", number, replica=number - 1, in_sync=False)
    assert why(made, Tolerance.ONE_IN_SYNC) == "", "nothing has struck"
    made.lose("op0", 1)
    assert why(made, Tolerance.ONE_IN_SYNC) == "op1-0 was hit before any replica of it was in sync"


def test_what_happens_after_the_end_harms_nobody() -> None:
    made = replicated()
    made.timeline.append(Drained(Stamp(made.at)))
    made.at += 10
    made.lose("op0", 1)
    assert why(made, Tolerance.ONE_IN_SYNC) == ""


def test_a_node_that_is_declared_lost_counts_as_lost_from_then_on() -> None:
    made = replicated()
    made.in_sync("op0", 2)
    made.at += 1
    made.timeline.append(NodeGone(Stamp(made.at), "op1-1"))
    assert why(made, Tolerance.ONE_IN_SYNC) == "op1-0 lost #1 when no other replica of it was in sync"


@given(st.lists(st.tuples(st.sampled_from(["lose", "come", "step"]), st.integers(0, 2)), max_size=25))
def test_one_in_sync_is_what_a_count_says(steps: list[tuple[str, int]]) -> None:
    made = Made(chain(Log()), replicas=3)
    numbers = iter(range(1, 100))
    there: dict[int, tuple[int, bool]] = {}
    passed = False

    def come(replica: int, initial: bool) -> None:
        there[replica] = (next(numbers), initial)
        made.start("op0", there[replica][0], replica=replica, in_sync=initial)

    come(0, initial=True)
    for step, replica in steps:
        if step == "come" and replica not in there:
            come(replica, initial=not there)
        elif step == "step" and replica in there:
            there[replica] = (there[replica][0], True)
            made.in_sync("op0", there[replica][0])
        elif step == "lose" and replica in there:
            made.lose("op0", there.pop(replica)[0], replica=replica)
            passed = passed or not any(stepped for _, stepped in there.values())
    assert bool(why(made, Tolerance.ONE_IN_SYNC)) == passed


STEPS = st.tuples(
    st.sampled_from(["lose", "come", "say", "restore", "open", "wait"]),
    st.sampled_from(["op0", "op1"]),
    st.integers(0, 2),
)


@given(st.lists(STEPS, max_size=20), st.sampled_from([Tolerance.ONE, Tolerance.ONE_IN_SYNC]))
def test_what_is_beyond_while_it_goes_on_stays_so_whatever_comes_later(
    steps: list[tuple[str, str, int]], tolerance: Tolerance
) -> None:
    made = Made(chain(Log(), Pass()), replicas=3)
    numbers = iter(range(1, 100))
    there: dict[tuple[str, int], int] = {}
    restored: set[int] = set()
    early: list[Beyond] = []
    for step, name, replica in steps:
        number = there.get((name, replica))
        if step == "wait":
            made.at += 50_000
        elif number is None:
            if step == "come":
                there[name, replica] = next(numbers)
                made.start(name, there[name, replica], replica=replica, in_sync=False)
        elif step == "lose":
            made.lose(name, there.pop((name, replica)), replica=replica)
        elif step == "say":
            made.in_sync(name, number)
        elif step == "restore" and number not in restored:
            restored.add(number)
            made.checkpoint(name, number, 1)
            made.restore(name, number, (number, 1), 1)
        elif step == "open" and name == "op0":
            made.open("a", 1, name, number, 1)
        found = beyond(made.history(), tolerance, made.topology, going_on=True)
        assert found is not None or not early
        early += [] if found is None else [found]
    if early:
        assert {*early, beyond(made.history(), tolerance, made.topology)} == {early[0]}


def test_who_is_not_in_sync_yet_may_get_so_where_a_history_goes_on() -> None:
    made = Made(chain(Log(), Pass()), replicas=2)
    for number in (1, 2):
        made.start("op0", number, replica=number - 1)
        made.start("op1", number, replica=number - 1, in_sync=False)
    made.lose("op0", 1)
    ended, going_on = (
        beyond(made.history(), Tolerance.ONE_IN_SYNC, made.topology, going_on=on) for on in (False, True)
    )
    assert (ended is None, going_on is None) == (False, True)


def lost_all(tolerates: Tolerance) -> tuple[Made, Scenario]:
    made = Made(chain(Log()), replicas=2)
    made.offer("a", 1, 2)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.lose("op0", 1)
    made.start("op0", 2, replica=1)
    made.take("op0", 2, "a", 1, 2, 2)
    made.deliver("op0", 2, 1)
    made.keep("op0", 2)
    subject = made.subject
    claims = (Claim(exactly_once(), tolerates),)
    object.__setattr__(subject, "claims", claims)
    return made, Scenario(subject, numbered(events=2), breaks=[at_least_once()])


@pytest.mark.parametrize(
    ("tolerates", "status"), [(Tolerance.ANY, Status.VIOLATED), (Tolerance.ONE_IN_SYNC, Status.UNKNOWN)]
)
def test_a_claim_is_not_judged_beyond_what_it_tolerates_and_what_should_break_is(
    tolerates: Tolerance, status: Status
) -> None:
    made, scenario = lost_all(tolerates)
    judged = judge_history(scenario, made.history(), JUDGES, virtual_time=True)
    (claim,), (broken,) = judged.verdicts, judged.broken
    assert (claim.guarantee.name, claim.status) == (EXACTLY_ONCE, status)
    assert (broken.guarantee.name, broken.status) == (AT_LEAST_ONCE, Status.VIOLATED)
    if status is Status.UNKNOWN:
        assert claim.reason == (
            "this goes beyond what is claimed: op0-0 lost #1 when no other replica of it was in sync"
        )
        assert claim.anomalies == ()
    case = made.case()
    (weaker,) = judge_claims(scenario.subject, case, [at_least_once()], JUDGES)
    assert weaker.status is status, "so it is with what the claim implies"
    own = replace(scenario, claims=[exactly_once(), precise_recovery()], breaks=())
    stated, further = judge_history(own, made.history(), JUDGES, virtual_time=True).verdicts
    assert (stated.status, further.status) == (status, Status.VIOLATED), "what it does not claim is judged plainly"


def test_a_replica_that_never_gets_in_sync_violates_the_claim_that_needs_one() -> None:
    made = Made(chain(Log()), replicas=2)
    made.offer("a", 1, 2)
    made.start("op0", 1)
    made.start("op0", 2, replica=1, in_sync=False)
    made.take("op0", 1, "a", 1, 1, 2)
    made.deliver("op0", 1, 1, 2)
    made.keep("op0", 1)
    history = made.history()
    at_rest = replace(history, timeline=[*history.timeline[:-1], Drained(Stamp(made.at + 1), (("op0-0", 2),))])
    case = made.case(at_rest)

    def claim(tolerates: Tolerance) -> Verdict:
        subject = replace(made.subject, claims=(Claim(exactly_once(), tolerates),))
        return judge_claims(subject, case, [exactly_once()], JUDGES)[0]

    assert claim(Tolerance.ANY).status is Status.HOLDS
    violated = claim(Tolerance.ONE_IN_SYNC)
    assert (violated.status, violated.summary) == (Status.VIOLATED, "stall x 1")
    assert violated.anomalies[0].sample == (Evidence("#2 never got in sync", "op0-0"),)
    made.lose("op0", 1)
    case = made.case(replace(at_rest, timeline=[*made.timeline, at_rest.timeline[-1]]))
    assert claim(Tolerance.ONE_IN_SYNC).status is Status.UNKNOWN, "this goes beyond what is claimed"


def hit_again(second: bool) -> tuple[Made, Scenario]:
    """A replica is lost, and its peer delivers again what was delivered; then the peer is lost, perhaps."""
    made = Made(chain(Log()), replicas=2)
    made.offer("a", 1, 2, 3, 4)
    for number in (1, 2):
        made.start("op0", number, replica=number - 1)
        made.take("op0", number, "a", 1, 1, 4)
    made.deliver("op0", 1, 1, 2, 3)
    made.lose("op0", 1)
    made.deliver("op0", 2, 2, 3, 4)
    if second:
        made.lose("op0", 2, replica=1, fault=1)
        made.start("op0", 3)
        made.keep("op0", 3)
    else:
        made.keep("op0", 2)
    subject = replace(made.subject, claims=(Claim(precise_recovery(), Tolerance.ONE_IN_SYNC),))
    return made, Scenario(subject, numbered(events=4))


@pytest.mark.parametrize("second", [False, True])
def test_what_happened_before_a_tolerance_was_passed_is_judged_plainly(second: bool) -> None:
    made, scenario = hit_again(second)
    (verdict,) = judge_history(scenario, made.history(), JUDGES, virtual_time=True).verdicts
    assert verdict.status is Status.VIOLATED
    assert [str(tally) for tally in verdict.anomalies] == ["duplicate-output x 2"]
    assert ("before op0-0 lost #2 when no other replica" in verdict.summary) == second


@pytest.mark.parametrize("tolerances", [(Tolerance.ONE, Tolerance.ONE_IN_SYNC), (Tolerance.ONE_IN_SYNC, Tolerance.ONE)])
def test_what_is_claimed_twice_is_judged_until_the_last_of_its_tolerances_is_passed(
    tolerances: tuple[Tolerance, Tolerance],
) -> None:
    """Outputs are delivered again after a second failure, which one of the claims does not tolerate and the other does;
    then a third takes the last replica."""
    made = Made(chain(Log()), replicas=3)
    made.offer("a", 1, 2, 3, 4)
    for number in (1, 2, 3):
        made.start("op0", number, replica=number - 1)
        made.take("op0", number, "a", 1, 1, 4)
    made.deliver("op0", 1, 1, 2, 3)
    made.lose("op0", 1)
    made.lose("op0", 2, replica=1, fault=1)
    made.deliver("op0", 3, 2, 3, 4)
    made.lose("op0", 3, replica=2, fault=2)
    made.start("op0", 4)
    made.keep("op0", 4)
    claims = (Claim(precise_recovery(), tolerances[0]), Claim(exactly_once_output(), tolerances[1]))
    scenario = Scenario(replace(made.subject, claims=claims), numbered(events=4))
    precise, weaker = judge_history(scenario, made.history(), JUDGES, virtual_time=True).verdicts
    assert (weaker.guarantee.name, weaker.status) == (EXACTLY_ONCE_OUTPUT, Status.VIOLATED)
    assert "before op0-0 lost #3 when no other replica" in weaker.summary
    tolerant = tolerances[0] is Tolerance.ONE_IN_SYNC
    assert precise.status is (Status.VIOLATED if tolerant else Status.UNKNOWN), "only the stronger one claims it"


@pytest.mark.parametrize("passed_first", [True, False])
def test_what_one_claim_tolerates_is_judged_to_the_end_though_another_covers_it_too(passed_first: bool) -> None:
    made, scenario = lost_all(Tolerance.ANY)
    claims = (Claim(precise_recovery(), Tolerance.ONE_IN_SYNC), Claim(exactly_once(), Tolerance.ANY))
    subject = replace(made.subject, claims=claims if passed_first else claims[::-1])
    (verdict,) = judge_history(
        replace(scenario, subject=subject, claims=[exactly_once()]), made.history(), JUDGES, True
    ).verdicts
    assert verdict.status is Status.VIOLATED
    assert "before" not in verdict.summary


def silent(*, opened: bool) -> Made:
    """A replica has taken over a state, and opens its channel; it never says that it is in sync, and its peer is
    lost much later."""
    made = Made(chain(Log()), replicas=2)
    made.start("op0", 1)
    made.start("op0", 2, replica=1, in_sync=False)
    made.checkpoint("op0", 1, 1)
    if opened:
        made.open("a", 1, "op0", 2, 1)
    made.restore("op0", 2, (1, 1), 1)
    made.at += 100_000
    made.lose("op0", 1)
    return made


def test_who_is_in_sync_is_asked_of_the_other_side_too() -> None:
    assert why(silent(opened=True), Tolerance.ONE_IN_SYNC) == ""
    assert why(silent(opened=False), Tolerance.ONE_IN_SYNC) != ""


def test_who_says_late_that_it_is_in_sync_is_in_sync_since_it_was_shown() -> None:
    made = silent(opened=True)
    made.in_sync("op0", 2)
    assert why(made, Tolerance.ONE_IN_SYNC) == ""


@pytest.mark.parametrize(
    ("peers_keep", "there_for", "passed"), [(True, 100_000, False), (False, 100_000, True), (True, 1_000, True)]
)
def test_a_checkpoint_that_all_peers_hold_shows_that_those_are_in_sync_who_had_been_there(
    peers_keep: bool, there_for: int, passed: bool
) -> None:
    made = Made(chain(Log()), replicas=2)
    made.start("op0", 1)
    made.start("op0", 2, replica=1, in_sync=False)
    made.at += there_for
    made.checkpoint("op0", 1, 1)
    made.durable("op0", 1, 1)
    made.at += 100_000
    made.lose("op0", 1)
    found = beyond(
        made.history(),
        Tolerance.ONE_IN_SYNC,
        made.topology,
        peers_keep=made.topology.operator_slices if peers_keep else (),
    )
    assert (found is not None) == passed


def test_one_failure_may_hit_several_at_once_and_no_second_one_follows() -> None:
    made = Made(chain(Log(), Pass()))
    for name in ("op0", "op1"):
        made.start(name, 1)
    made.lose("op0", 1)
    made.at -= 1
    made.lose("op1", 1)
    assert why(made, Tolerance.ONE) == ""
    made.start("op0", 2)
    made.lose("op0", 2)
    assert why(made, Tolerance.ONE) == "op0-0 lost #2 after another failure"


def test_until_a_moment_is_before_it() -> None:
    records = [Stamped(at, InSync("op0-0", at)) for at in (1, 2, 3)]
    found = until(History(records, [Drained(Stamp(at)) for at in (1, 2, 3)]), 2)
    assert ([stamped.at for stamped in found.records], [entry.stamp.at for entry in found.timeline]) == ([1], [1])
    assert not found.sealed


@pytest.mark.parametrize(("heard_by", "passed"), [(("relay-0", "relay-1"), False), (("relay-0",), True)])
def test_a_replica_that_not_everybody_upstream_has_heard_of_is_not_in_sync(
    heard_by: tuple[str, ...], passed: bool
) -> None:
    topology = order()
    others = [name for name in topology.operator_slices if name != "chain-0"]
    records = [Stamped(0, InSync(name, 1)) for name in (*others, "chain-0")]
    records += [Stamped(1, Started("chain-0", 2, None, 1, 1)), Stamped(2, Restored("chain-0", 2, (1, 1), 1))]
    records += [Stamped(3, Opened(up, 1, "chain-0", 2, 0, 1)) for up in heard_by]
    timeline = [Placed(Stamp(0), "chain-0", 1, "node-0"), NodeGone(Stamp(1_000_000), "node-0")]
    assert (beyond(History(records, timeline), Tolerance.ONE_IN_SYNC, topology) is not None) == passed
