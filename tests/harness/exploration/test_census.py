"""What a census finds in the simulator is there on a real cluster too."""

from __future__ import annotations

from crashed_on_spark import ADDRESSES, masked_word_count
from streamproof.faults import FAULTS
from streamproof.harness.core.addresses import Address
from streamproof.harness.exploration.census import census


def test_the_addresses_that_are_tried_on_spark_are_those_that_the_simulator_passes() -> None:
    reached = census(masked_word_count(), {kind.name: kind for kind in FAULTS}, seed=1)
    assert {Address.parse(text) for text in ADDRESSES} <= {one.address for one in reached}


def test_no_address_of_a_slice_is_passed_twice() -> None:
    """The census keeps the first of each; the count of announcements says whether there were more."""
    reached = census(masked_word_count(), {kind.name: kind for kind in FAULTS}, seed=1)
    slices = masked_word_count().subject.actors
    assert all(one.times == 1 for one in reached if one.address.actor in slices)
