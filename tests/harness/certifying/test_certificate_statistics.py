"""Exact bounds from a random sample."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from streamproof.harness.certifying.page import percent
from streamproof.harness.judging.statistics import KillSample, draw_sample, lower_bound, upper_bound

counts = st.integers(1, 500).flatmap(lambda draws: st.tuples(st.integers(0, draws), st.just(draws)))


def test_three_hundred_kills_without_a_violation_are_at_most_one_percent() -> None:
    bound = upper_bound(0, 300)
    assert bound == pytest.approx(1 - 0.05 ** (1 / 300), rel=1e-9)
    assert bound <= 0.01
    assert percent(bound, up=True) == "1.0 %"
    assert upper_bound(0, 298) > 0.01


@pytest.mark.parametrize(
    ("violations", "draws", "lower", "upper"),
    # From tables of exact one-sided 95 % limits, which are the two-sided 90 % ones.
    [(0, 10, 0.0, 0.2589), (1, 10, 0.0051, 0.3942), (5, 10, 0.2224, 0.7776), (10, 10, 0.7411, 1.0), (0, 20, 0, 0.1391)],
)
def test_known_limits(violations: int, draws: int, lower: float, upper: float) -> None:
    assert lower_bound(violations, draws) == pytest.approx(lower, abs=5e-5)
    assert upper_bound(violations, draws) == pytest.approx(upper, abs=5e-5)


@given(counts)
def test_bounds_are_those_of_scipys_exact_test(count: tuple[int, int]) -> None:
    violations, draws = count
    exact = binomtest(violations, draws).proportion_ci(confidence_level=0.9, method="exact")
    assert lower_bound(violations, draws) == pytest.approx(exact.low, abs=1e-9)
    assert upper_bound(violations, draws) == pytest.approx(exact.high, abs=1e-9)


@given(counts)
def test_at_the_bound_so_few_violations_come_once_in_twenty(count: tuple[int, int]) -> None:
    violations, draws = count
    if violations < draws:
        assert binom.cdf(violations, draws, upper_bound(violations, draws)) == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(("violations", "draws"), [(0, 0), (-1, 5), (6, 5)])
def test_what_cannot_have_been_drawn_is_refused(violations: int, draws: int) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        upper_bound(violations, draws)
    with pytest.raises(ValueError, match="cannot be"):
        lower_bound(violations, draws)


def test_a_sample_is_the_same_for_the_same_seed_on_any_machine() -> None:
    assert draw_sample("abcdef", 8, 7) == tuple("badadcad")
    assert draw_sample("abcdef", 8, 8) != draw_sample("abcdef", 8, 7)


def test_a_larger_sample_begins_as_the_smaller_one() -> None:
    """So that nobody gains by choosing the size after having seen some of it."""
    assert draw_sample("abcdef", 20, 7)[:8] == draw_sample("abcdef", 8, 7)


def test_draws_are_with_replacement_and_with_equal_chances() -> None:
    drawn = Counter(draw_sample(range(10), 20_000, 7))
    assert set(drawn) == set(range(10))
    assert all(1_800 < count < 2_200 for count in drawn.values())


def test_nothing_is_drawn_from_nothing() -> None:
    assert draw_sample((), 5, 7) == ()
    assert KillSample.of("nothing", (), 5, 7).drawn == ()


@given(st.floats(0, 1, allow_nan=False))
def test_a_percentage_is_rounded_to_the_safe_side(share: float) -> None:
    assert float(percent(share, up=True).removesuffix(" %")) >= share * 100 - 1e-8
    assert float(percent(share, up=False).removesuffix(" %")) <= share * 100 + 1e-8


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.0 %"), (1.0, "100.0 %"), (0.01, "1.0 %"), (0.0100001, "1.1 %"), (0.00031, "0.031 %"), (0.5, "50.0 %")],
)
def test_percentages(share: float, text: str) -> None:
    assert percent(share, up=True) == text
