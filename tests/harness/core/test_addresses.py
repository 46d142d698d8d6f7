"""Crash addresses print as text that reads back; moments are addresses with something left open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation import CASES, addresses, scenario_of
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.errors import InvalidScenario

actors = st.text(st.characters(exclude_categories=("Z", "C"), exclude_characters="/"), min_size=1, max_size=10)
keys = st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=12)
any_address = st.builds(
    Address, actors, st.integers(0, 99), st.sampled_from(Point), keys, st.sampled_from(Side), st.integers(0, 9)
)


@given(any_address)
def test_an_address_reads_back_as_it_prints(address: Address) -> None:
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "count-0", "count-0/0#1 after lunch", "count-0/0 after timer emit", "x/0#1 at timer"]
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidScenario, match="one looks like"):
        Address.parse(text)


@given(any_address, any_address)
def test_an_exact_moment_strikes_at_its_own_address_only(one: Address, other: Address) -> None:
    moment = Moment.exactly(one)
    assert moment.matches(one, 0)
    assert moment.matches(other, 0) == (one == other)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("0/mkdir sink#1", "after driver does mkdir sink in batch 0"),
        ("?/write a#b#2", "after driver does write a#b, the second time"),
        ("3/write a#21", "after driver does write a in batch 3, the 21st time"),
        ("3/write a#112", "after driver does write a in batch 3, the 112th time"),
        ("3", "after driver does 3"),
    ],
)
def test_a_moment_says_an_operation_on_a_file_in_words(key: str, said: str) -> None:
    assert str(Moment(Point.FILE, Side.AFTER, key, "driver")) == said


def test_a_moment_leaves_open_what_it_does_not_name() -> None:
    address = Address("count-0", 2, Point.RECEIVED, "split-0@11", Side.AFTER)
    assert Moment(Point.RECEIVED).matches(address, 0)
    assert Moment(Point.RECEIVED, recovering=True).matches(address, 0)
    assert Moment(Point.RECEIVED, taken=5).matches(address, 5)
    assert not Moment(Point.RECEIVED, taken=5).matches(address, 4)
    assert not Moment(Point.RECEIVED, incarnation=1).matches(address, 0)
    assert not Moment(Point.RECEIVED, Side.BEFORE).matches(address, 0)
    assert Moment(Point.RECEIVED).of("count-1").actor == "count-1"
    assert Moment(Point.RECEIVED, actor="split-0").of("count-1").actor == "split-0"


@pytest.mark.parametrize("case", CASES)
def test_every_address_that_a_run_passes_prints_and_reads_back(case: str) -> None:
    reached = [r.address for r in addresses(scenario_of(case))]
    assert len(set(reached)) == len(reached)
    assert [Address.parse(str(address)) for address in reached] == reached
