"""The schemes keep what they claim under every crash that the simulator can place, and lose what they may."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from sampling import long_but_for
from simulation import CASES, WORLDS, addresses, drawn, history_of, options_of, scenario_of, subject_of
from streamproof.faults.crash import crash
from streamproof.faults.pause import pause
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment
from streamproof.harness.core.guarantees import AT_LEAST_ONCE, AT_MOST_ONCE
from streamproof.harness.core.lattice import implied
from streamproof.harness.core.quantities import ms
from streamproof.harness.core.slice_names import slice_of
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.census import Reached
from streamproof.harness.exploration.plans import RandomSchedules, Successive
from streamproof.harness.judging.incarnations import losses
from streamproof.harness.recording.history import Placed
from streamproof.harness.recording.records import InSync
from verdicts_of import JUDGES, run

SINGLE = 10
"""Addresses at which each case is tried in every run of the tests; the long ones try all."""
RANDOM_SCHEDULES = 828
CHUNKS = 12
"""Pieces in which schedules are run, so that all cores share them."""
LONG_SCHEDULES = 100_000
WORLDS_OF_A_CASE = 3
STANDARD = "passive-replication-masked/word-count-words"

STATED = (
    "all input had been processed by then",
    "ran nowhere",
    "slices that had begun there: 0",
    "the trigger of fault",
    "beyond what is claimed",
    "and outputs still differed",
)
"""Why a run with crashes may be UNKNOWN: a crash did not come, or harmed nobody, or was one too many, or came so late
that there was no time to converge."""


def own_addresses(case: str) -> list[Reached]:
    """Those of the replicas, without failures."""
    actors = set(scenario_of(case).subject.actors)
    return [reached for reached in addresses(scenario_of(case)) if reached.address.name in actors]


@pytest.mark.parametrize("case", CASES)
def test_without_failures_every_scheme_is_precise_and_loses_nothing(case: str) -> None:
    judged = run(scenario_of(case), ())
    assert judged.claim.status is Status.HOLDS
    assert judged.alarms() == []
    assert judged.verdict("precise-recovery").status is Status.HOLDS
    assert judged.lost == 0


def may_lose(case: str) -> bool:
    """Whether nothing that its scheme claims says that all input counts."""
    return all(AT_LEAST_ONCE not in implied(claimed.name, JUDGES) for claimed in scenario_of(case).claimed)


def test_who_may_lose_is_known_by_what_is_claimed() -> None:
    assert {case.partition("/")[0] for case in CASES if may_lose(case)} >= {"amnesia", "gap"}
    assert not may_lose(STANDARD)


def crash_at_each(case: str, reached: Sequence[Reached]) -> None:
    """The node dies at each address in turn; no claim breaks, and those that may lose do."""
    scenario = scenario_of(case)
    bitten = losing = 0
    for one in reached:
        judged = run(scenario, [crash(one.address.name).at(Moment.exactly(one.address))])
        assert judged.alarms() == [], str(one.address)
        if judged.claim.status is Status.UNKNOWN:
            # It harmed nobody any more, or struck while replicas were only just joining.
            assert any(stated in judged.claim.reason for stated in STATED), judged.claim.reason
            continue
        (struck,) = judged.history.struck()
        assert struck.bite.bit
        assert struck.address == str(one.address)
        bitten += 1
        at_least_once = judged.verdict(AT_LEAST_ONCE).status
        # A backup that leaves out a small change has lost what made it.
        gone = judged.lost + judged.collation.left_out.count
        assert at_least_once is (Status.VIOLATED if gone else Status.HOLDS)
        if not case.startswith("source-replay"):
            assert judged.verdict(AT_MOST_ONCE).status is Status.HOLDS
        losing += judged.lost > 0
    assert bitten > 0
    if case.startswith("approximate"):
        return  # What it loses is bounded, and that is what it claims.
    if may_lose(case):
        assert losing > bitten / 2, "a scheme that does not replay loses by most crashes"
    else:
        assert losing == 0


@pytest.mark.parametrize("case", long_but_for(CASES[::3], CASES))
def test_no_single_crash_at_a_sample_of_the_addresses_breaks_a_claim(case: str) -> None:
    reached = own_addresses(case)
    crash_at_each(case, Random(case).sample(reached, min(SINGLE, len(reached))))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_no_single_crash_at_any_address_breaks_a_claim(case: str) -> None:
    crash_at_each(case, own_addresses(case))


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_no_pair_of_crashes_breaks_the_standard_case(part: int) -> None:
    """Passive replication with all filters, on word count."""
    bench = Bench(scenario_of(STANDARD), Registry(), seed=1).with_input(30, 5)
    plan = Successive(2)
    statuses: Counter[Status] = Counter()
    for piece in list(plan.pieces(bench))[part::8]:
        for trial, outcome in plan.attempts(bench, piece):
            assert outcome.kind is None, "; ".join(map(str, trial.schedule))
            statuses[outcome.status] += 1
    print(f"pairs: {dict(statuses)}")
    assert statuses[Status.HOLDS] > 0


def assert_no_false_alarm(seed: int, case: str = "", world: str = "") -> Status:
    """Case and world follow from the seed, unless they are said."""
    case = case or CASES[seed % len(CASES)]
    world = world or list(WORLDS)[seed // len(CASES) % len(WORLDS)]
    scenario = scenario_of(case)
    schedule = drawn(scenario, seed, world)
    judged = run(scenario, schedule, seed=seed, world=world)
    story = f"seed {seed}: {case} in world {world}: {'; '.join(map(str, schedule))}"
    assert judged.alarms() == [], story
    claim = judged.claim
    if claim.status is Status.UNKNOWN:
        stalled = claim.reason.startswith("stall")
        assert stalled or any(stated in claim.reason for stated in STATED), f"{story}: {claim.reason}"
    return claim.status


@pytest.mark.parametrize("chunk", long_but_for(range(CHUNKS // 3), range(CHUNKS)))
def test_no_drawn_schedule_of_up_to_three_crashes_raises_a_false_alarm(chunk: int) -> None:
    statuses = [assert_no_false_alarm(seed) for seed in range(chunk, RANDOM_SCHEDULES, CHUNKS)]
    assert statuses.count(Status.HOLDS) > len(statuses) / 4, "many schedules should strike as planned"


@pytest.mark.parametrize(
    ("seed", "case", "world"),
    [
        (1_040_997, "upstream-backup/windows", "noticed-at-once"),
        (1_052_451, "upstream-backup/windows", "slow-links"),
        (1_053_833, "upstream-backup-masked/windows", "slow-links"),
    ],
)
def test_a_window_is_logged_until_all_that_is_made_of_it_was_delivered(seed: int, case: str, world: str) -> None:
    """Outputs are lost on their way when what they were made of has left the window."""
    assert assert_no_false_alarm(seed, case, world) is Status.HOLDS


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_none_of_a_hundred_thousand_schedules_raises_a_false_alarm(case: str) -> None:
    """As a search draws them, in some of the worlds: over all cases in each of them as often."""
    scenario, place, worlds = scenario_of(case), CASES.index(case), [*WORLDS]
    each = -(-LONG_SCHEDULES // (len(CASES) * WORLDS_OF_A_CASE))
    statuses: Counter[Status] = Counter()
    for number in range(place * WORLDS_OF_A_CASE, (place + 1) * WORLDS_OF_A_CASE):
        world = worlds[number % len(worlds)]
        bench = Bench(scenario, Registry(), seed=1, options=options_of(world, scenario))
        plan = RandomSchedules(number, count=each)
        for piece in plan.pieces(bench):
            for trial, outcome in plan.attempts(bench, piece):
                story = f"{world}, seed {trial.seed}: {'; '.join(map(str, trial.schedule))}: {outcome.kind}"
                assert outcome.kind is None, story
                statuses[outcome.status] += 1
    print(f"{case}: {dict(statuses)}")
    assert statuses[Status.HOLDS] > statuses.total() / 4


@pytest.mark.parametrize("case", [case for case in CASES if subject_of(case).replicas > 1])
def test_at_rest_every_replica_is_in_sync_again(case: str) -> None:
    """Claims that tolerate one failure at a time speak of the next one only then: of a scheme whose replicas stayed
    behind they would say nothing."""
    subject = scenario_of(case).subject
    assert isinstance(subject, SchemeSubject)
    slices = subject.topology.slices
    for seed in range(3):
        history = history_of(scenario_of(case), drawn(scenario_of(case), seed, "usual"), seed=seed)
        placed = {
            (slice_of(e.actor), e.incarnation)
            for e in history.timeline
            if isinstance(e, Placed) and slice_of(e.actor) in slices
        }
        steps = (s.record for s in history.records if isinstance(s.record, InSync))
        assert placed - losses(history).keys() == {(r.slice, r.incarnation) for r in steps} - losses(history).keys()


def test_a_spare_that_comes_up_after_one_placed_later_has_been_active_is_placed_again() -> None:
    """The store does not let it be active."""
    schedule = [
        crash("trace-0/1").after(ms(15)),
        crash("trace-0").after(ms(15.5)),
        pause("node-6").after(ms(22)).lasting(ms(4.9)),
        crash("trace-0").after(ms(28)),
    ]
    judged = run(scenario_of("deployed/trace-numbered"), schedule, world="nodes-lost-for-good")
    placed = [
        e.incarnation for e in judged.history.timeline if isinstance(e, Placed) and slice_of(e.actor) == "trace-0"
    ]
    assert placed == [1, 2, 4, 3, 5, 6]
    assert all(struck.bite.bit for struck in judged.history.struck())
    assert judged.claim.status is Status.HOLDS
