"""AF-Stream's five algorithms: what they make, and whether their divergences are what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation import history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidOperator, InvalidScenario
from streamproof.harness.core.events import Event, carried
from streamproof.harness.core.guarantees import EXACTLY_ONCE, PRECISE, ROLLBACK_CONVERGENT
from streamproof.harness.core.operators import Operator, measures_divergence, measures_many, rows_of
from streamproof.harness.core.quantities import events, ms
from streamproof.harness.core.topology import Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.exploration.simulating import simulate
from streamproof.harness.recording.history import History
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.approximate import approximate
from streamproof.scenarios import accuracy
from streamproof.scenarios.grep import grep
from streamproof.scenarios.heavy_hitters import Sketch, heavy_hitters
from streamproof.scenarios.library import five_algorithms
from streamproof.scenarios.logistic_regression import likely, logistic_regression
from streamproof.scenarios.partial_counts import partial_counts
from streamproof.scenarios.ripple_join import RippleJoin, ripple_join
from streamproof.scenarios.skewed_streams import END, packets, points, visits_of_two_sites, zipf_words
from streamproof.scenarios.workloads import text
from verdicts_of import run

HEAVY = 5_000
RATE = 0.3
TEST_POINTS = [event for batch in points(events=400, batch=400, seed=99).batches("source-0") for event in batch]

CASES: dict[str, tuple[Topology, Workload, Callable[[History], Any], Any]] = {
    "grep": (grep("LETTER"), text("unicode-names", events=300), lambda h: accuracy.share_of_matches(h, "LETTER"), 1.0),
    "word count": (partial_counts(), zipf_words(100, events=300), accuracy.largest_count_error, 0),
    "heavy hitters": (
        heavy_hitters(heavy=HEAVY, width=512),
        packets(200, window=150, events=304),
        lambda h: accuracy.precision_and_recall(h, HEAVY),
        (1.0, 1.0),
    ),
    "online join": (
        ripple_join(rate=1.0, most=1_000),
        visits_of_two_sites(20, events=200, every=20),
        lambda h: accuracy.join_error(h, 1.0),
        0.0,
    ),
    "logistic regression": (
        logistic_regression(),
        points(events=600),
        lambda h: accuracy.predicted_rightly(h, TEST_POINTS) > 0.85,
        True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_without_failures_each_algorithm_is_as_accurate_as_it_can_be(name: str) -> None:
    topology, workload, measured, best = CASES[name]
    judged = run(Scenario(amnesia(topology), workload), ())
    assert measured(judged.history) == best
    assert not judged.alarms()
    assert not judged.collation.unjudgeable
    assert judged.lost == 0


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("grep", "logistic regression")])
def test_a_slice_that_forgets_costs_accuracy(name: str) -> None:
    topology, workload, measured, best = CASES[name]
    scenario = Scenario(amnesia(topology), workload)
    judged = run(scenario, [crash(scenario.subject.actors[0]).after(events(100))])
    assert measured(judged.history) != best
    assert not judged.alarms()


def test_a_model_that_is_fed_back_reaches_the_workers() -> None:
    topology, workload, _, _ = CASES["logistic regression"]
    judged = run(Scenario(amnesia(topology), workload), ())
    rerun = judged.collation.reexecution
    assert rerun is not None
    (one,) = rerun.reruns["local-0"].values()
    assert sum(derivation[0] == "source-0" and len(derivation) > 2 for derivation in one.took) >= 20


def test_samples_at_a_lower_rate_estimate_as_many_pairs() -> None:
    estimates = []
    for salt in range(6):
        scenario = Scenario(amnesia(ripple_join(rate=RATE, salt=salt)), visits_of_two_sites(10, events=400, every=20))
        history = history_of(scenario, ())
        estimates.append(accuracy.estimated_pairs(history, RATE) / accuracy.join_of(accuracy.offered_in(history)).pairs)
    assert 0.85 < sum(estimates) / len(estimates) < 1.15
    assert len(set(estimates)) > 1


# What is drawn


def test_a_workload_is_skewed_and_the_same_each_time() -> None:
    drawn = [event.value for batch in zipf_words(1_000, events=5_000).batches("source-0") for event in batch]
    assert 0.1 < drawn.count("w0") / 5_000 < 0.17
    assert 1.6 < drawn.count("w0") / drawn.count("w1") < 2.4
    assert len(set(drawn)) > 500
    assert drawn[:5] == ["w5", "w1", "w72", "w0", "w30"]
    headers = [e.value for batch in packets(100, window=50, workers=2, events=104).batches("source-0") for e in batch]
    assert [place for place, (flow, _) in enumerate(headers) if flow == END] == [50, 51, 102, 103]
    assert {size for flow, size in headers if flow != END} == {40, 576, 1_500}


def test_labels_are_noisy_as_said() -> None:
    def of(noise: float) -> list[Event]:
        return [e for batch in points(noise=noise, events=2_000, batch=500).batches("source-0") for e in batch]

    pure, noisy = of(0.0), of(0.2)
    assert all(sum(x * x for x in event.value[0]) <= 1 for event in pure)
    assert 0.4 < sum(event.value[1] for event in pure) / 2_000 < 0.6
    flipped = sum(one.value[1] != other.value[1] for one, other in zip(pure, noisy, strict=True)) / 2_000
    assert 0.16 < flipped < 0.24
    with pytest.raises(InvalidScenario, match=r"noise=0.5 of points: it is a share"):
        points(noise=0.5)


def test_the_logistic_function_is_right_to_four_places() -> None:
    from math import exp

    for margin in (-20.0, -3.0, -0.5, 0.0, 0.1, 2.0, 30.0):
        assert likely([margin], [1.0]) == pytest.approx(1 / (1 + exp(-margin)), rel=1e-4)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: grep("("), r"cannot look for '\('"),
        (lambda: partial_counts(every=0), "every cannot be 0"),
        (lambda: heavy_hitters(rows=9), "rows=9 of a sketch"),
        (lambda: heavy_hitters(width=0), "width cannot be 0"),
        (lambda: ripple_join(rate=1.5), r"rate=1\.5 of a ripple join"),
        (lambda: logistic_regression(step=0.0), r"step=0\.0 of a model"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Callable[[], Topology], reason: str) -> None:
    with pytest.raises(InvalidOperator, match=reason):
        make()


def test_an_operator_whose_punctuation_never_comes_is_refused_by_name() -> None:
    """Nothing of its windows would have been tried."""
    endless = Scenario(approximate(heavy_hitters()), packets(window=500, events=100))
    with pytest.raises(InvalidScenario, match=r"'sketch' of 'heavy-hitters' waits for punctuations.* none"):
        simulate(endless, [])


# Divergences

FLOWS = st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 1_500)).map(list)
POINT = st.tuples(st.lists(st.floats(-0.4, 0.4), min_size=5, max_size=5), st.integers(0, 1)).map(list)
MODEL = st.lists(st.floats(-8, 8), min_size=5, max_size=5)
NUMBERED = st.tuples(st.sampled_from(["left", "right"]), st.integers(0, 200)).map(list)


def a_sketch(window: int) -> list[Any]:
    return [window, "AQAAAAAAAAA=", ["a"]]


def said(source: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[Event]:
    return st.builds(Event, st.just(source), st.integers(1, 99), st.sampled_from(["a", "b", "c"]), value, st.just(1))


TAKES: dict[str, tuple[Operator[Any], st.SearchStrategy[Event]]] = {
    "partial": (partial_counts(every=3).stages["partial"].operator, said("source-0", st.sampled_from(["x", "y", "z"]))),
    "add": (partial_counts(every=3).stages["add"].operator, said("partial-0", st.just(3))),
    "sketch": (
        heavy_hitters(rows=2, width=5, heavy=3_000).stages["sketch"].operator,
        said("source-0", st.one_of(FLOWS, FLOWS, FLOWS, st.just([END, 0]))),
    ),
    "hitters": (
        heavy_hitters(workers=2, rows=1, width=1).stages["hitters"].operator,
        st.one_of(*(said(f"sketch-{n}", st.integers(0, 2).map(a_sketch)) for n in range(2))),
    ),
    "join": (RippleJoin(0.5, 100, 0), said("header-0", NUMBERED)),
    "local": (
        logistic_regression().stages["local"].operator,
        st.one_of(said("source-0", POINT), said("average-0", MODEL)),
    ),
    "average": (logistic_regression(radius=20.0).stages["average"].operator, said("local-0", MODEL)),
}


def after(operator: Operator[Any], taken: Sequence[Event]) -> Any:
    state = operator.initial_state()
    for event in taken:
        list(operator.process(event, state))
    return state


@pytest.mark.parametrize("name", TAKES)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_divergence_is_a_distance_that_one_event_moves_by_alpha_at_most(name: str, data: st.DataObject) -> None:
    operator, event = TAKES[name]
    assert measures_divergence(operator)
    assert operator.alpha is not None
    first, second, third = (after(operator, data.draw(st.lists(event, max_size=12))) for _ in range(3))
    apart = operator.divergence(first, second)
    assert apart >= 0
    assert operator.divergence(first, first) == 0
    assert operator.divergence(second, first) == apart
    slack = 1e-9 * (1 + apart)
    assert apart <= operator.divergence(first, third) + operator.divergence(third, second) + slack
    moved, taken = deepcopy(first), data.draw(event)
    list(operator.process(taken, moved))
    now = operator.divergence(moved, second)
    assert abs(now - apart) <= operator.alpha + slack
    assert operator.divergence_after(taken, moved, second, apart) >= now - slack
    assert measures_many(operator)
    more = [taken, *data.draw(st.lists(event, max_size=8))]
    for other in more[1:]:
        list(operator.process(other, moved))
    assert abs(operator.divergence(moved, second) - apart) <= operator.alpha_of_all(more) + slack
    assert operator.alpha_of_all(more) <= operator.alpha * len(more) + slack
    assert operator.divergence_after_all(more, moved, second, apart) >= operator.divergence(moved, second) - slack


@pytest.mark.parametrize("name", [name for name in TAKES if name not in ("hitters", "local", "average")])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_partial_backup_makes_the_state_of_the_backup(name: str, data: st.DataObject) -> None:
    operator, event = TAKES[name]
    beginning, rest = data.draw(st.lists(event, max_size=8)), data.draw(st.lists(event, max_size=8))
    backup, state = after(operator, beginning), after(operator, [*beginning, *rest])
    restored = operator.apply_delta(deepcopy(backup), carried(operator.delta(state, backup)))
    assert rows_of(operator, restored) == rows_of(operator, state)
    assert rows_of(operator, operator.restore(operator.snapshot(state))) == rows_of(operator, state)


def test_a_sketch_that_is_compensated_says_more_of_every_flow() -> None:
    packet = Event("source-0", 1, "0", ["a", 100], 1)
    for compensated, more in ((False, 0), (True, 8)):
        sketch = Sketch(2, 5, 50, compensated=compensated, salt=0)
        state = after(sketch, [packet])
        before = state.counters.copy()
        assert ((sketch.compensate(state, 7.5).counters - before) == more).all()


# Under approximate fault tolerance

BOUNDS = {
    "grep": (1, 20, 20),
    "word count": (20, 20, 20),
    "heavy hitters": (20_000, 20, 20),
    "online join": (20, 20, 20),
    "logistic regression": (5, 20, 20),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_with_all_slices_gone_at_once_the_error_is_bounded(name: str) -> None:
    topology, workload, _, _ = CASES[name]
    theta, pending, gamma = BOUNDS[name]
    if name == "online join":
        topology = ripple_join(rate=0.5, most=10)
    subject = approximate(topology, theta=theta, l=pending, gamma=gamma)
    scenario = Scenario(subject, replace(workload, events=104 if name == "heavy hitters" else 100, batch=4))
    judged = run(scenario, [crash(*subject.actors).after(ms(40)), crash(subject.actors[0]).after(ms(70))])
    assert judged.claim.status is Status.HOLDS, judged.claim
    assert not judged.collation.unjudgeable


def test_a_state_that_makes_up_for_a_loss_is_not_that_of_a_run_without_failures() -> None:
    """Executed again, it is the same, since the compensation is on record."""
    planned = {entry.name: entry.make for entry in five_algorithms.SCENARIOS}["heavy-hitters.approximate"]()
    judged = run(planned, planned.faults)
    assert judged.collation.compensated.count > 0
    assert judged.claim.status is Status.HOLDS
    for stronger in (PRECISE, EXACTLY_ONCE, ROLLBACK_CONVERGENT):
        assert judged.verdict(stronger).status is Status.VIOLATED
