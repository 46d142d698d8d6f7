"""What a campaign's trials come to: never more than they show."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from certified import CLAIMS, ONCE, ONCE_OUTPUT, crash_at, trial
from streamproof.harness.certifying.alike import Alike
from streamproof.harness.certifying.conclusion import (
    NOTHING_PLANNED,
    TOO_SMALL,
    ClaimVerdict,
    Conclusion,
    NotReached,
    Planned,
    Uncut,
    conclude,
    exit_status,
    lines_of,
)
from streamproof.harness.certifying.plan import CrashTrial, How, Victim
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging.statistics import KillSample, lower_bound

PLAN = tuple(Planned(crash_at(batch)) for batch in range(3))
ALL_HELD = tuple(trial(crash_at(batch), how=How.CRASH_STATE, name=f"state-{batch}") for batch in range(3))
VIOLATED, UNKNOWN, HOLDS = Status.VIOLATED, Status.UNKNOWN, Status.HOLDS


def on_exactly_once(*arguments: Any, **options: Any) -> ClaimVerdict:
    return conclude(CLAIMS, *arguments, **options).verdicts[0]


# What each thing that can come of a campaign means


def test_every_crash_passed() -> None:
    found = conclude(CLAIMS, PLAN, (*ALL_HELD, trial(crash_at(1), name="kill")), ())
    assert [verdict.status for verdict in found.verdicts] == [HOLDS, HOLDS]
    assert found.verdicts[0].summary == "all 3 planned crashes passed: 3 crash states, 1 real kill"
    assert (found.verdicts[0].covered, found.verdicts[0].planned) == (3, 3)
    assert found.exit_status is ExitStatus.HOLDS
    assert [(line.states, line.kills, line.passed) for line in found.coverage] == [
        (1, 0, (ONCE, ONCE_OUTPUT)),
        (1, 1, (ONCE, ONCE_OUTPUT)),
        (1, 0, (ONCE, ONCE_OUTPUT)),
    ]
    assert found.coverage[1].verdicts[ONCE] == {HOLDS: 2}
    assert found.bounds == ()


def test_an_effect_that_no_crash_cuts_lets_no_claim_hold_unless_it_is_accepted() -> None:
    effect = Uncut("file", "/var/log/x", "sinks.write:17", 3)
    found = conclude(CLAIMS, PLAN, ALL_HELD, (), uncut=[effect])
    assert [verdict.status for verdict in found.verdicts] == [UNKNOWN, UNKNOWN]
    assert found.verdicts[0].reasons == (
        "it has effects that no crash could be tried between: file /var/log/x (sinks.write:17, 3 times)",
    )
    accepted = msgspec.structs.replace(effect, accepted=True)
    assert conclude(CLAIMS, PLAN, ALL_HELD, (), uncut=[accepted]).exit_status is ExitStatus.HOLDS
    kill = trial(crash_at(2), name="kill", exactly_once=VIOLATED)
    found = conclude(CLAIMS, PLAN, (*ALL_HELD, kill), (), uncut=[effect])
    assert [verdict.status for verdict in found.verdicts] == [VIOLATED, UNKNOWN]


@pytest.mark.parametrize(("number", "said"), [(5, "/e (s:1, 1 time)"), (6, "; and 1 more"), (8, "; and 3 more")])
def test_of_many_effects_that_no_crash_cuts_five_are_named(number: int, said: str) -> None:
    effects = [Uncut("file", f"/{name}", "s:1", 1) for name in "abcdefgh"[:number]]
    (reason,) = on_exactly_once(PLAN, ALL_HELD, (), uncut=effects).reasons
    assert reason.count("file /") == 5
    assert reason.endswith(said)


@pytest.mark.parametrize(
    ("whys", "said"),
    [
        ("aabcde", "6 of 9 planned crashes were not reached: a (× 2); b; c; d; e"),
        ("bcaadef", "7 of 9 planned crashes were not reached: a (× 2); b; c; d; e; and 1 more reasons"),
        ("abcdefg", "7 of 9 planned crashes were not reached: a; b; c; d; e; and 2 more reasons"),
    ],
)
def test_of_many_reasons_the_five_most_frequent_are_given(whys: str, said: str) -> None:
    plan = [Planned(crash_at(batch)) for batch in range(9)]
    missed = [NotReached(line, why) for line, why in zip(plan, whys, strict=False)]
    reasons = on_exactly_once(plan, [trial(crash_at(batch)) for batch in range(7, 9)], missed).reasons
    assert reasons[0] == said


def test_it_is_said_at_how_many_crashes_it_is_violated() -> None:
    one, other = (trial(crash_at(n), name=f"kill-{n}", exactly_once=VIOLATED) for n in range(2))
    assert not on_exactly_once(PLAN, (*ALL_HELD, one), ()).summary.endswith("violate")
    assert on_exactly_once(PLAN, (*ALL_HELD, one, other), ()).summary.endswith("; 2 of 3 planned crashes violate")
    # So do crash states, beside a kill; what shared a run with another does not say which of them it was.
    state = trial(crash_at(2), how=How.CRASH_STATE, name="odd", exactly_once=VIOLATED)
    assert on_exactly_once(PLAN, (*ALL_HELD, one, state), ()).summary.endswith("; 2 of 3 planned crashes violate")
    shared = [trial(crash_at(n), name="shared", exactly_once=VIOLATED) for n in (1, 2)]
    assert not on_exactly_once(PLAN, (*ALL_HELD, one, *shared), ()).summary.endswith("violate")


def test_of_schedules_as_small_and_as_clear_the_one_tried_most_often_is_shown() -> None:
    once = [trial(crash_at(0), name="once", exactly_once=VIOLATED)]
    thrice = [trial(crash_at(1), name=f"thrice-{n}", exactly_once=VIOLATED) for n in range(3)]
    assert on_exactly_once(PLAN, (*once, *thrice), ()).shown_by == "runs/thrice-0"
    at_times = [trial(crash_at(2), name=f"at-times-{n}", exactly_once=VIOLATED if n else HOLDS) for n in range(4)]
    assert on_exactly_once(PLAN, (*once, *at_times), ()).shown_by == "runs/once", "each time, and not three of four"
    missed = [
        msgspec.structs.replace(trial(crash_at(1), name=f"missed-{n}", exactly_once=UNKNOWN), missed=True)
        for n in range(2)
    ]
    found = on_exactly_once(PLAN, (*once, *thrice, *missed), ())
    assert (found.violated, found.repeats) == (3, 3), "at a smaller input there may be no such point"


def test_what_several_crash_states_show_is_told_by_one_of_them() -> None:
    odd = [trial(crash_at(n), how=How.CRASH_STATE, name=f"odd-{n}", exactly_once=VIOLATED) for n in (0, 2)]
    (reason,) = on_exactly_once(PLAN, (*ALL_HELD, *odd), ()).reasons
    assert "batch 0 to the commit log, and in 1 more), not confirmed by a kill" in reason
    (reason,) = on_exactly_once(PLAN, (*ALL_HELD, *odd, trial(crash_at(1), name="kill")), ()).reasons
    assert reason.endswith("no kill was tried there")
    odd.append(trial(crash_at(1), how=How.CRASH_STATE, name="odd-1", exactly_once=VIOLATED))
    (reason,) = on_exactly_once(PLAN, (*ALL_HELD, *odd), ()).reasons
    assert "batch 0 to the commit log, and in 2 more), not confirmed by a kill" in reason


def test_trials_that_struck_nothing_are_counted_beside_those_that_passed() -> None:
    missed = [
        msgspec.structs.replace(trial(crash_at(1), name=f"missed-{n}", exactly_once=UNKNOWN), missed=True)
        for n in range(2)
    ]
    verdict = on_exactly_once(PLAN, (*ALL_HELD, trial(crash_at(1), name="kill"), *missed), ())
    assert verdict.summary == (
        "all 3 planned crashes passed: 3 crash states, 1 real kill; 2 more trials struck nothing"
    )


def test_crash_states_from_which_it_was_recovered_together_are_counted_so() -> None:
    together = [trial(crash_at(n), how=How.CRASH_STATE, name="together" if n else "alone") for n in range(3)]
    assert on_exactly_once(PLAN, together, ()).summary == "all 3 planned crashes passed: 3 crash states in 2 recoveries"


def test_a_kill_that_violates_and_its_repeats() -> None:
    kills = [trial(crash_at(2), name=f"kill-{n}", exactly_once=VIOLATED if n else HOLDS) for n in range(4)]
    found = conclude(CLAIMS, PLAN, (*ALL_HELD, *kills), ())
    verdict = found.verdicts[0]
    assert (verdict.status, verdict.violated, verdict.repeats, verdict.shown_by) == (VIOLATED, 3, 4, "runs/kill-1")
    assert verdict.summary == (
        "the driver dies before the driver adds batch 2 to the commit log: violated in 3 of 4 real kills"
    )
    assert found.verdicts[1].status is HOLDS
    assert found.exit_status is ExitStatus.VIOLATED
    missed = msgspec.structs.replace(trial(crash_at(2), name="smaller", exactly_once=UNKNOWN), missed=True)
    assert conclude(CLAIMS, PLAN, (*ALL_HELD, *kills, missed), ()).verdicts[0] == verdict
    assert found.coverage[2].passed == (ONCE_OUTPUT,)


def test_the_schedule_that_is_shown_is_the_smallest_then_the_clearest() -> None:
    two = [trial(crash_at(0), crash_at(1), name=f"two-{n}", exactly_once=VIOLATED) for n in range(3)]
    unclear = [trial(crash_at(1), name=f"unclear-{n}", exactly_once=VIOLATED if n else HOLDS) for n in range(3)]
    clear = [trial(crash_at(2), name=f"clear-{n}", exactly_once=VIOLATED) for n in range(2)]
    assert on_exactly_once(PLAN, (*two, *unclear, *clear), ()).shown_by == "runs/clear-0"


def test_kills_that_share_a_run_with_what_violates_are_not_said_to_violate() -> None:
    shared = [trial(crash_at(n), name="shared", exactly_once=VIOLATED, sampled=True) for n in range(3)]
    alone = [trial(crash_at(1), name=f"alone-{n}", exactly_once=HOLDS if n else VIOLATED) for n in range(3)]
    verdict = on_exactly_once(PLAN, (*ALL_HELD, *shared, *alone), ())
    assert verdict.summary == (
        "the driver dies before the driver adds batch 1 to the commit log: violated in 2 of 4 real kills"
    )
    assert on_exactly_once(PLAN, (*ALL_HELD, *shared), ()).summary.endswith(
        "violated in 1 of 1 real kill, which was not repeated, in one run with 2 others"
    )


def test_of_kills_that_share_a_run_one_alone_is_sure_to_violate() -> None:
    draw = KillSample.of("all 3 planned crashes", range(3), 3, seed=7)
    drawn = [trial(PLAN[n].crash, name="shared", exactly_once=VIOLATED, sampled=True) for n in draw.drawn]
    bound = conclude(CLAIMS, PLAN, drawn, (), draw=draw).bounds[0]
    assert (bound.violations, bound.upper) == (3, 1.0)
    assert bound.lower == lower_bound(1, 3)


def test_a_violation_that_was_not_repeated_says_so() -> None:
    verdict = on_exactly_once(PLAN, (trial(crash_at(2), exactly_once=VIOLATED),), ())
    assert verdict.status is VIOLATED
    assert verdict.summary.endswith("violated in 1 of 1 real kill, which was not repeated")


def test_a_split_brain_violates_by_itself() -> None:
    plan = (*PLAN, Planned(crash_at(1), split_brain=True))
    split = trial(crash_at(1), how=How.SPLIT_BRAIN, exactly_once=VIOLATED)
    verdict = on_exactly_once(plan, (*ALL_HELD, split), ())
    assert verdict.status is VIOLATED
    assert verdict.summary.startswith("split brain: the driver is paused before the driver adds batch 1")


def test_split_brains_that_share_a_run_are_counted_one_by_one() -> None:
    plan = (*PLAN, Planned(crash_at(1), split_brain=True), Planned(crash_at(2), split_brain=True))
    splits = trial(crash_at(1), crash_at(2), how=How.SPLIT_BRAIN)
    verdict = on_exactly_once(plan, (*ALL_HELD, splits), ())
    assert verdict.summary == "all 5 planned crashes passed: 3 crash states, 2 split brains"


def test_what_only_a_crash_state_shows_is_unknown_with_its_story() -> None:
    state = trial(crash_at(2), how=How.CRASH_STATE, name="odd", exactly_once=VIOLATED)
    verdict = on_exactly_once(PLAN, (*ALL_HELD, state), ())
    assert (verdict.status, verdict.shown_by, verdict.covered) == (UNKNOWN, "runs/odd", 2)
    assert verdict.reasons == (
        "a crash state shows a violation (the driver dies before the driver adds batch 2 to the commit log), not "
        "confirmed by a kill: no kill was tried there",
    )
    kills = [trial(crash_at(2), name=f"kill-{n}") for n in range(3)]
    (reason,) = on_exactly_once(PLAN, (*ALL_HELD, state, *kills), ()).reasons
    assert reason.endswith("not confirmed by a kill: 3 real kills there did not show it")


def test_a_crash_that_was_not_reached_leaves_it_open() -> None:
    missed = NotReached(PLAN[1], "Spark did not come to it")
    found = conclude(CLAIMS, PLAN, (ALL_HELD[0], ALL_HELD[2]), (missed,))
    assert found.verdicts[0].status is UNKNOWN
    assert found.verdicts[0].reasons == ("1 of 3 planned crashes were not reached: Spark did not come to it",)
    assert found.coverage[1].not_reached == "Spark did not come to it"
    assert found.exit_status is ExitStatus.UNKNOWN


def test_a_crash_that_was_not_reached_counts_though_it_stands_in_no_plan() -> None:
    missed = NotReached(Planned(crash_at(9)), "the batch never came")
    found = conclude(CLAIMS, PLAN, ALL_HELD, (missed,))
    assert found.verdicts[0].status is UNKNOWN
    assert len(found.coverage) == 4


def test_a_crash_that_stands_in_no_plan_counts_where_one_of_its_trials_came_to_nothing() -> None:
    passed, stalled = trial(crash_at(9)), trial(crash_at(9), reason="stall: it hangs", exactly_once=UNKNOWN)
    found = conclude(CLAIMS, PLAN, (*ALL_HELD, passed, stalled), ())
    assert [verdict.status for verdict in found.verdicts] == [UNKNOWN, HOLDS]
    assert found.verdicts[0].reasons == ("1 of 4 planned crashes came to no verdict: stall: it hangs",)
    without = conclude(CLAIMS, PLAN, (*ALL_HELD, passed), ())
    assert without.exit_status is ExitStatus.HOLDS
    assert [line.planned for line in without.coverage] == list(PLAN), "whoever passes outside of the plan covers none"
    nothing = conclude(CLAIMS, (), (stalled,), ())
    assert nothing.verdicts[0].reasons == (NOTHING_PLANNED,)
    assert nothing.coverage == ()


def test_a_crash_that_was_not_reached_once_is_not_covered_by_what_passed() -> None:
    found = conclude(CLAIMS, PLAN, ALL_HELD, (NotReached(PLAN[1], "not as a kill"),))
    assert (found.verdicts[0].status, found.verdicts[0].covered) == (UNKNOWN, 2)
    assert found.coverage[1].passed == ()


def test_a_budget_that_ended_it_is_the_reason() -> None:
    verdict = on_exactly_once(PLAN, ALL_HELD[:1], (), exhausted="5 minutes were over")
    assert verdict.status is UNKNOWN
    assert verdict.reasons == ("2 of 3 planned crashes were not tried: 5 minutes were over",)
    assert verdict.summary == "1 of 3 planned crashes passed"
    with_more = on_exactly_once(PLAN, ALL_HELD[:1], (), exhausted="5 minutes were over", more="2 more would do")
    assert with_more.reasons == ("2 of 3 planned crashes were not tried: 5 minutes were over; 2 more would do",)
    unasked = on_exactly_once(PLAN, ALL_HELD[:1], (), more="2 more would do")
    assert unasked.reasons == ("2 of 3 planned crashes were not tried",)


def test_a_trial_without_a_verdict_is_the_reason() -> None:
    odd = trial(crash_at(2), reason="the kill came too late", exactly_once=UNKNOWN)
    verdict = on_exactly_once(PLAN, (*ALL_HELD[:2], odd), ())
    assert verdict.reasons == ("1 of 3 planned crashes came to no verdict: the kill came too late",)
    # What passed at the same crash is another time.
    passed = on_exactly_once(PLAN, (*ALL_HELD, odd, trial(crash_at(2), name="passed")), ())
    assert (passed.status, passed.covered) == (UNKNOWN, 2)
    assert passed.reasons == ("1 of 3 planned crashes came to no verdict: the kill came too late",)


def test_nineteen_kills_that_stall_are_not_made_up_for_by_one_that_passes() -> None:
    stalls = [trial(crash_at(2), name=f"stall-{n}", reason="stall: it hangs", exactly_once=UNKNOWN) for n in range(19)]
    verdict = on_exactly_once(PLAN, (*ALL_HELD[:2], *stalls, trial(crash_at(2))), ())
    assert (verdict.status, verdict.covered) == (UNKNOWN, 2)
    assert verdict.reasons == ("1 of 3 planned crashes came to no verdict: stall: it hangs",)


def test_a_crash_state_that_stalls_is_not_made_up_for_by_a_kill_that_passes() -> None:
    state = trial(crash_at(2), how=How.CRASH_STATE, reason="stall: it hangs", exactly_once=UNKNOWN)
    verdict = on_exactly_once(PLAN, (*ALL_HELD[:2], state, trial(crash_at(2))), ())
    assert (verdict.status, verdict.covered) == (UNKNOWN, 2)


def test_a_kill_that_missed_is_no_trial_once_a_real_one_has_passed_there() -> None:
    missed = msgspec.structs.replace(trial(crash_at(2), reason="it did not bite", exactly_once=UNKNOWN), missed=True)
    open_one = on_exactly_once(PLAN, (*ALL_HELD, missed), ())
    assert (open_one.status, open_one.covered) == (UNKNOWN, 2)
    assert open_one.reasons == ("1 of 3 planned crashes came to no verdict: it did not bite",)
    passed = on_exactly_once(PLAN, (*ALL_HELD, missed, trial(crash_at(2), name="passed")), ())
    assert (passed.status, passed.covered) == (HOLDS, 3)
    assert passed.summary.endswith("; 1 more trial struck nothing")


def test_a_stall_at_a_crash_that_stands_in_no_plan_leaves_it_open() -> None:
    stall = trial(crash_at(7), reason="stall: it hangs", exactly_once=UNKNOWN)
    verdict = on_exactly_once(PLAN, (*ALL_HELD, stall), ())
    assert (verdict.status, verdict.planned, verdict.covered) == (UNKNOWN, 4, 3)


def test_a_claim_of_which_no_trial_came_to_a_verdict_is_open_whatever_the_others_are() -> None:
    unclear = [
        trial(crash_at(n), how=How.CRASH_STATE, reason="it cannot be told", exactly_once=UNKNOWN) for n in range(3)
    ]
    found = conclude(CLAIMS, PLAN, unclear, ())
    assert [verdict.status for verdict in found.verdicts] == [UNKNOWN, HOLDS]
    assert found.verdicts[0].reasons == ("3 of 3 planned crashes came to no verdict: it cannot be told (× 3)",)


def test_a_claim_that_a_trial_was_not_judged_for_is_open() -> None:
    silent = CrashTrial((crash_at(2),), How.KILL, "runs/one", {})
    verdict = on_exactly_once(PLAN, (*ALL_HELD[:2], silent), ())
    assert verdict.reasons == ("1 of 3 planned crashes came to no verdict: no verdict was recorded",)


def test_no_trial_at_all() -> None:
    found = conclude(CLAIMS, PLAN, (), (), exhausted="0 runs were allowed")
    assert [verdict.reasons for verdict in found.verdicts] == [(f"{TOO_SMALL}: 0 runs were allowed",)] * 2
    assert found.exit_status is ExitStatus.UNKNOWN


def test_nothing_planned() -> None:
    assert on_exactly_once((), (), ()).reasons == (NOTHING_PLANNED,)


def test_nothing_claimed_is_nothing_known() -> None:
    assert conclude((), PLAN, ALL_HELD, ()).exit_status is ExitStatus.UNKNOWN


def test_references_that_disagree_leave_nothing_to_judge() -> None:
    why = "two runs without failures disagree on 1 rows: batch 0 'a': 1 and 2"
    violated = trial(crash_at(2), exactly_once=VIOLATED)
    verdict = on_exactly_once(PLAN, (*ALL_HELD, violated), (), unjudgeable=why)
    assert (verdict.status, verdict.reasons, verdict.covered) == (UNKNOWN, (why,), 0)


def test_a_crash_state_says_nothing_of_the_death_of_an_executor() -> None:
    crash = crash_at(1, victim=Victim.EXECUTOR)
    state = on_exactly_once((Planned(crash),), (trial(crash, how=How.CRASH_STATE),), ())
    assert state.status is UNKNOWN
    assert "anything but the driver" in state.reasons[0]
    assert on_exactly_once((Planned(crash),), (trial(crash),), ()).status is HOLDS


def test_a_crash_whose_recovery_was_disturbed_was_not_passed_by_itself() -> None:
    recovering = crash_at(1, recovering=True)
    both = trial(crash_at(1), recovering)
    assert lines_of(both) == (Planned(recovering),)
    plan = (Planned(crash_at(1)), Planned(recovering))
    assert on_exactly_once(plan, (both,), ()).covered == 1
    assert on_exactly_once(plan, (both, trial(crash_at(1))), ()).status is HOLDS


def test_several_crashes_of_one_stream_are_each_passed() -> None:
    assert on_exactly_once(PLAN, (trial(crash_at(0), crash_at(1), crash_at(2)),), ()).status is HOLDS


def test_a_kill_is_no_split_brain() -> None:
    plan = (Planned(crash_at(1), split_brain=True),)
    assert on_exactly_once(plan, (trial(crash_at(1)),), ()).status is UNKNOWN
    assert on_exactly_once(plan, (trial(crash_at(1), how=How.SPLIT_BRAIN),), ()).status is HOLDS


# Whatever comes of a campaign

crashes = st.builds(
    crash_at,
    st.integers(0, 3),
    victim=st.sampled_from([Victim.DRIVER, Victim.DRIVER, Victim.EXECUTOR]),
    recovering=st.booleans(),
)
lines = st.builds(Planned, crashes, st.booleans())
verdicts = st.fixed_dictionaries({}, optional=dict.fromkeys(CLAIMS, st.sampled_from(Status)))
trials = st.builds(
    CrashTrial,
    st.lists(crashes, min_size=1, max_size=2).map(tuple),
    # None of these is a loss of power: those are of claims of their own.
    st.sampled_from([how for how in How if how is not How.POWER_LOSS]),
    st.just("runs/one"),
    verdicts,
    st.sampled_from(["", "it did not bite"]),
    missed=st.booleans(),
)
campaigns = st.tuples(
    st.lists(lines, max_size=4),
    st.lists(trials, max_size=6),
    st.lists(st.builds(NotReached, lines, st.just("never came")), max_size=1),
)
Campaign = tuple[list[Planned], list[CrashTrial], list[NotReached]]


def concluded(campaign: Campaign, *more: CrashTrial) -> Conclusion:
    plan, tried, missed = campaign
    return conclude(CLAIMS, plan, [*tried, *more], missed)


def violates(one: CrashTrial, claim: str) -> bool:
    return one.verdicts.get(claim) is VIOLATED


@given(campaigns)
def test_only_what_really_died_or_slept_violates(campaign: Campaign) -> None:
    for verdict in concluded(campaign).verdicts:
        shown = any(violates(one, verdict.claim) and one.how is not How.CRASH_STATE for one in campaign[1])
        assert (verdict.status is VIOLATED) == shown
        assert (verdict.violated > 0) == shown
        assert verdict.violated <= verdict.repeats


@given(campaigns)
def test_to_hold_every_crash_was_reached_and_passed_and_nothing_violates(campaign: Campaign) -> None:
    plan, tried, missed = campaign
    for verdict in concluded(campaign).verdicts:
        if verdict.status is HOLDS:
            assert plan
            assert not missed
            assert not any(violates(one, verdict.claim) for one in tried)
            for one in tried:
                if one.verdicts.get(verdict.claim, UNKNOWN) is UNKNOWN:
                    assert one.missed
            held = {line for one in tried if one.verdicts.get(verdict.claim) is HOLDS for line in lines_of(one)}
            assert held
            spared = [line for line in dict.fromkeys(plan) if line not in held]
            assert verdict.covered == verdict.planned - len(spared)
            assert all(Alike(plan).is_spared(line, held.__contains__) for line in spared)
            for line in held.intersection(plan):
                passed = [one for one in tried if one.verdicts.get(verdict.claim) is HOLDS and line in lines_of(one)]
                assert line.crash.victim is Victim.DRIVER or any(one.how is not How.CRASH_STATE for one in passed)


@given(campaigns)
def test_what_is_unknown_has_a_reason_and_nothing_else_has(campaign: Campaign) -> None:
    for verdict in concluded(campaign).verdicts:
        assert bool(verdict.reasons) == (verdict.status is UNKNOWN)
        assert verdict.summary or verdict.reasons
        assert all(verdict.reasons)


@given(campaigns, trials)
def test_one_more_crash_state_never_makes_a_violation_and_unmakes_none(campaign: Campaign, more: CrashTrial) -> None:
    assume(more.how is How.CRASH_STATE)
    for before, after in zip(concluded(campaign).verdicts, concluded(campaign, more).verdicts, strict=True):
        assert (before.status is VIOLATED) == (after.status is VIOLATED)
        if violates(more, before.claim):
            assert after.status is not HOLDS


@given(campaigns, trials)
def test_one_more_trial_never_takes_a_violation_back(campaign: Campaign, more: CrashTrial) -> None:
    for before, after in zip(concluded(campaign).verdicts, concluded(campaign, more).verdicts, strict=True):
        if before.status is VIOLATED:
            assert after.status is VIOLATED


@given(campaigns, lines)
def test_a_longer_plan_never_makes_a_claim_hold(campaign: Campaign, line: Planned) -> None:
    plan, tried, missed = campaign
    # With it, batches may pass the same points that did not before.
    assume(plan and not Alike([*plan, line]).like(line))
    longer = concluded(([*plan, line], tried, missed))
    for before, after in zip(concluded(campaign).verdicts, longer.verdicts, strict=True):
        if after.status is HOLDS:
            assert before.status is HOLDS


@given(campaigns, st.randoms(use_true_random=False))
def test_the_order_of_trials_does_not_matter(campaign: Campaign, random: Any) -> None:
    plan, tried, missed = campaign
    shuffled = list(tried)
    random.shuffle(shuffled)
    before, after = concluded(campaign), concluded((plan, shuffled, missed))
    assert [verdict.status for verdict in before.verdicts] == [verdict.status for verdict in after.verdicts]
    assert before.coverage == after.coverage


@given(campaigns)
def test_coverage_counts_the_same_as_the_verdicts(campaign: Campaign) -> None:
    found = concluded(campaign)
    for verdict in found.verdicts:
        assert verdict.covered == sum(verdict.claim in line.passed for line in found.coverage)
        assert verdict.planned == len(found.coverage)


# The sample

DRAW = KillSample.of("all 3 planned crashes", (0, 1, 2), 5, 7)


def kills(count: int = 5, *, violated: int = 0, unknown: int = 0) -> list[CrashTrial]:
    statuses = [VIOLATED] * violated + [UNKNOWN] * unknown + [HOLDS] * (count - violated - unknown)
    return [
        trial(PLAN[place].crash, name=f"kill-{n}", sampled=True, exactly_once=status)
        for n, (place, status) in enumerate(zip(DRAW.drawn, statuses, strict=False))
    ]


def test_a_finished_sample_bounds() -> None:
    bound = conclude(CLAIMS, PLAN, kills(), (), draw=DRAW).bounds[0]
    assert (bound.finished, bound.violations, bound.unknown, bound.lower) == (5, 0, 0, 0.0)
    assert bound.upper == pytest.approx(1 - 0.05 ** (1 / 5))


def test_only_the_drawn_kills_count() -> None:
    more = trial(crash_at(1), exactly_once=VIOLATED)
    assert conclude(CLAIMS, PLAN, [*kills(), more], (), draw=DRAW).bounds[0].violations == 0


def test_a_trial_without_a_verdict_may_have_been_a_violation() -> None:
    for unknown in (1, 2):
        bound = conclude(CLAIMS, PLAN, kills(violated=1, unknown=unknown), (), draw=DRAW).bounds[0]
        worst = conclude(CLAIMS, PLAN, kills(violated=1 + unknown), (), draw=DRAW).bounds[0]
        best = conclude(CLAIMS, PLAN, kills(violated=1), (), draw=DRAW).bounds[0]
        assert (bound.upper, bound.lower) == (worst.upper, best.lower)


@pytest.mark.parametrize(
    ("draw", "sampled", "why"),
    [
        (DRAW, kills(4), "only 4 of 5 drawn kills were finished; the verdict rests on the plan, not on them"),
        (DRAW, [*kills(), kills()[0]], "the sample has kills that were not drawn"),
        (DRAW, [*kills(4), trial(crash_at(7), sampled=True)], "the sample has kills that were not drawn"),
        (
            DRAW,
            [*kills(4), trial(PLAN[DRAW.drawn[4]].crash, how=How.CRASH_STATE, sampled=True)],
            "the sample has trials that are not one real kill each",
        ),
        (
            DRAW,
            [*kills(4), trial(PLAN[DRAW.drawn[4]].crash, crash_at(1), sampled=True)],
            "the sample has trials that are not one real kill each",
        ),
        (KillSample("all", (0, 1, 2), 5, 7, (0,) * 5), kills(), "what was drawn does not follow from the seed"),
        (KillSample("all", (0, 1, 2), 10**15, 7, (0,) * 5), kills(), "what was drawn does not follow from the seed"),
        (
            KillSample.of("all", (0, 9), 5, 7),
            kills(),
            "the sample was drawn from crashes that were not planned as kills",
        ),
        (KillSample.of("all", (0, 1, 2), 0, 7), [], "nothing was drawn"),
        (KillSample.of("none", (), 5, 7), [], "nothing was drawn"),
    ],
)
def test_what_is_no_finished_sample_bounds_nothing(draw: KillSample, sampled: list[CrashTrial], why: str) -> None:
    bound = conclude(CLAIMS, PLAN, sampled, (), draw=draw).bounds[0]
    assert (bound.upper, bound.lower, bound.why_none) == (None, None, why)


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ((Status.HOLDS, Status.HOLDS), ExitStatus.HOLDS),
        ((Status.HOLDS, Status.UNKNOWN), ExitStatus.UNKNOWN),
        ((Status.HOLDS, Status.UNKNOWN, Status.VIOLATED), ExitStatus.VIOLATED),
        ((), ExitStatus.UNKNOWN),
    ],
)
def test_a_certificate_holds_where_every_claim_does(statuses: tuple[Status, ...], status: ExitStatus) -> None:
    assert exit_status([ClaimVerdict(f"claim-{n}", one, "") for n, one in enumerate(statuses)]) is status
