"""AF-Stream's theorems, over many runs in the simulator with one crash each, and what the tests of them can tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from simulation import history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.events import Event
from streamproof.harness.core.quantities import Duration
from streamproof.harness.recording.history import History
from streamproof.reference_impls.approximate import approximate
from streamproof.scenarios.accuracy import Hitters, JoinEstimate, estimated_pairs, hitters_in, join_of, offered_in
from streamproof.scenarios.equi_join import SIDES
from streamproof.scenarios.heavy_hitters import LARGEST_PACKET, heavy_hitters
from streamproof.scenarios.ripple_join import is_sampled, ripple_join
from streamproof.scenarios.skewed_streams import END, packets, visits_of_two_sites
from streamproof.scenarios.theorems import (
    HitterRun,
    at_most,
    hitter_run,
    misses_interval,
    runs_needed,
    theorem_1_misses,
    theorem_1_phantoms,
    theorem_2,
)

FEW, MANY = 20, 600
"""Runs of a test that is fast, and of one that is long."""
ROWS, WIDTH = 4, 64
LITTLE, MUCH = (3_000, 2), (24_000, 16)
"""Theta and L: one under which there are light flows, and one under which a crash costs several packets."""
RATE, MOST, DELTA, ITEMS = 0.3, 10, 0.25, 200


def crashed(scenario: Scenario, seed: int) -> History:
    """One slice, at a time that the seed says."""
    random = Random(seed)
    actor = random.choice(scenario.subject.actors)
    return history_of(scenario, [crash(actor).after(Duration(random.randrange(20_000, 150_000)))], seed=seed)


def hitters_run(seed: int, thresholds: tuple[int, int], *, compensated: bool = True) -> HitterRun:
    """A window with a flow that is just heavy: the easiest one to miss."""
    theta, pending = thresholds
    lost = theta + LARGEST_PACKET * pending
    workload = packets(100, window=200, events=202, batch=4, seed=seed)
    sizes: Counter[str] = Counter()
    for event in (event for batch in workload.batches("source-0") for event in batch):
        if event.value[0] != END:
            sizes[event.value[0]] += event.value[1]
    heavy = sizes.most_common(3)[-1][1]
    topology = heavy_hitters(rows=ROWS, width=WIDTH, heavy=heavy, slack=lost, compensated=compensated, salt=seed)
    subject = approximate(topology, theta=theta, l=pending, gamma=4)
    (window,) = hitters_in(crashed(Scenario(subject, workload), seed))
    return hitter_run(window, heavy, WIDTH, lost, seed)


def join_run(seed: int) -> tuple[JoinEstimate, float, int]:
    """What was to be joined, the estimate, and how many events were sampled."""
    subject = approximate(ripple_join(rate=RATE, most=MOST, salt=seed), theta=5, l=1, gamma=5)
    history = crashed(Scenario(subject, visits_of_two_sites(20, events=ITEMS, every=20, batch=4, seed=seed)), seed)
    sampled = sum(is_sampled(side, number, RATE, seed) for side in SIDES for number in range(ITEMS))
    return join_of(offered_in(history)), estimated_pairs(history, RATE), sampled


def missed(runs: Sequence[tuple[JoinEstimate, float, int]]) -> list[bool]:
    return [misses_interval(join, estimate, RATE, sampled, 5 + 5 + MOST, DELTA) for join, estimate, sampled in runs]


def test_theorem_1_is_not_refuted_where_recoveries_are_compensated() -> None:
    never = theorem_1_misses(hitters_run(seed, MUCH) for seed in range(FEW))
    assert not never.refuted, never.told
    runs = [hitters_run(seed, LITTLE) for seed in range(FEW)]
    never, seldom = theorem_1_misses(runs), theorem_1_phantoms(runs, ROWS)
    assert not never.refuted, never.told
    assert seldom.runs >= FEW // 4
    assert not seldom.refuted, seldom.told


def test_without_compensation_a_heavy_hitter_is_missed_and_that_is_a_refutation() -> None:
    never = theorem_1_misses(hitters_run(seed, MUCH, compensated=False) for seed in range(FEW))
    assert never.refuted, never.told


def test_theorem_2_is_not_refuted_and_an_estimate_that_is_scaled_wrongly_is() -> None:
    runs = [join_run(seed) for seed in range(FEW)]
    tested = theorem_2(missed(runs), DELTA)
    assert not tested.refuted, tested.told
    # As the paper puts it: divided by the rate, and not by its square.
    wrong = theorem_2(missed([(join, estimate * RATE, sampled) for join, estimate, sampled in runs]), DELTA)
    assert wrong.refuted, wrong.told


@pytest.mark.long
def test_the_theorems_over_many_runs() -> None:
    never = theorem_1_misses(hitters_run(seed, MUCH) for seed in range(MANY))
    seldom = theorem_1_phantoms([hitters_run(seed, LITTLE) for seed in range(MANY)], ROWS)
    tested = theorem_2(missed([join_run(seed) for seed in range(MANY)]), DELTA)
    print(never.told, seldom.told, tested.told, sep="\n")
    assert not any(one.refuted for one in (never, seldom, tested))
    assert seldom.runs >= runs_needed(0.5**ROWS, 0.15)
    assert tested.runs >= runs_needed(DELTA, 0.35)


# What the tests can tell


def test_a_test_refutes_what_is_true_as_seldom_as_it_says_and_what_is_false_as_often() -> None:
    random = Random(1)

    def refuted(share: float, runs: int) -> float:
        draws = ([random.random() < share for _ in range(runs)] for _ in range(300))
        return sum(at_most("it", draw, 0.0625, level=0.05).refuted for draw in draws) / 300

    runs = runs_needed(0.0625, 0.2, power=0.9, level=0.05)
    assert refuted(0.0625, runs) < 0.1
    assert refuted(0.2, runs) > 0.8


def test_what_never_happens_is_refuted_by_once_and_what_was_not_run_is_not_tested() -> None:
    assert at_most("it", [False] * 999, 0.0).p_value == 1
    tested = at_most("it", [True] + [False] * 999, 0.0)
    assert tested.refuted
    assert tested.told.startswith("it in 1 of 1,000 runs, at most 0.0% claimed: refuted (p = 0;")
    with pytest.raises(InvalidScenario, match="no run says anything of this: it"):
        at_most("it", [], 0.1)
    with pytest.raises(InvalidScenario, match=r"a share of 0\.1 does not refute one of at most 0\.2"):
        runs_needed(0.2, 0.1)


def test_a_flow_is_chosen_before_anything_of_the_run_is_known_and_only_a_light_one() -> None:
    sizes = Counter({"heavy": 1_000, "near": 700, "light": 10})
    told = Hitters(0, sizes, {"light": 1_200})
    run = hitter_run(told, heavy=1_000, width=100, lost=300.0, seed=1)
    assert run == HitterRun(missed=1, phantom=True)
    assert hitter_run(told, heavy=1_000, width=1, lost=300.0, seed=1).phantom is None
    assert hitter_run(Hitters(0, sizes, None), heavy=1_000, width=100, lost=300.0, seed=1) == HitterRun(1, False)


def test_the_variance_of_an_estimate_is_what_samples_show() -> None:
    join = JoinEstimate(Counter({"a": 6, "b": 2}), Counter({"a": 4, "b": 5, "c": 3}))
    assert join.pairs == 34
    events = [
        Event(f"{side}-0", n, "", [key, 0], 0)
        for side, keys in (("left", "aab"), ("right", "abb"))
        for n, key in enumerate(keys)
    ]
    assert join_of(events) == JoinEstimate(Counter({"a@0": 2, "b@0": 1}), Counter({"a@0": 1, "b@0": 2}))
    random, estimates = Random(2), []
    for _ in range(20_000):
        left, right = (
            {key: sum(random.random() < 0.5 for _ in range(count)) for key, count in side.items()}
            for side in (join.left, join.right)
        )
        estimates.append(sum(count * right.get(key, 0) for key, count in left.items()) / 0.25)
    mean = sum(estimates) / len(estimates)
    assert mean == pytest.approx(34, rel=0.03)
    assert sum((one - mean) ** 2 for one in estimates) / len(estimates) == pytest.approx(join.variance(0.5), rel=0.05)


def test_theorem_2_says_nothing_where_all_that_is_sampled_may_be_lost() -> None:
    with pytest.raises(InvalidScenario, match="20 of 20 sampled events may be lost"):
        misses_interval(JoinEstimate(Counter(a=1), Counter(a=1)), 1.0, 0.5, 20, 20, 0.1)
