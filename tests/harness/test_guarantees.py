from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.errors import InvalidHistory
from streamproof.harness.judging.guarantees import STRENGTH, Guarantee, parse_guarantee
from streamproof.harness.quantities import Duration, Events

BOUNDS = st.none() | st.integers(1, 10**9).map(Events) | st.integers(1, 999_999).map(lambda ms: Duration(ms * 1000))


@given(st.sampled_from(STRENGTH), BOUNDS)
def test_a_guarantee_is_read_as_it_was_written(name: str, within: Duration | Events | None) -> None:
    guarantee = Guarantee(name, within)
    assert parse_guarantee(str(guarantee)) == guarantee


@pytest.mark.parametrize("text", ["", "Exactly once", "recovers-within (soon)", "gap-recovery (1.5 events)"])
def test_what_is_no_guarantee_is_refused(text: str) -> None:
    with pytest.raises(InvalidHistory, match=r"guarantee|number"):
        parse_guarantee(text)
