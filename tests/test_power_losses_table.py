"""The table of losses of power is the one that was measured, and nothing of it is unknown."""

from __future__ import annotations

from versions.power_losses import DEAD, PAGE, QUERIES, page, read_measured


def test_the_page_has_the_table_of_what_was_measured() -> None:
    assert PAGE.read_text() == page(PAGE.read_text())


def test_every_query_was_measured_and_nothing_is_unknown() -> None:
    measured = read_measured()
    assert list(measured) == list(QUERIES)
    assert [name for name, one in measured.items() if one.unknown] == []


def test_spark_starts_no_more_where_an_entry_of_the_offset_log_or_a_state_is_empty() -> None:
    measured = read_measured()
    with_state = [one for name, one in measured.items() if name.startswith("state")]
    assert with_state
    assert all({*one.outcomes["the content of `checkpoint/offsets/N`"]} == {DEAD} for one in with_state)
    assert {*measured["state in files"].outcomes["the content of `checkpoint/state/N/N/N.delta`"]} == {DEAD}
