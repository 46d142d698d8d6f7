"""The table of losses of power is the one that was measured, and nothing of it is unknown."""

from __future__ import annotations

from versions.power_losses import DEAD, PAGE, QUERIES, RIGHT, page, read_measured


def test_the_page_has_the_table_of_what_was_measured() -> None:
    assert PAGE.read_text() == page(PAGE.read_text())


def test_every_query_was_measured_and_nothing_is_unknown() -> None:
    measured = read_measured()
    assert list(measured) == list(QUERIES)
    assert [name for name, one in measured.items() if one.unknown] == []


def test_an_empty_entry_of_a_log_ends_every_start_and_a_content_that_nothing_reads_ends_none() -> None:
    for one in read_measured().values():
        assert set(one.outcomes["the content of `checkpoint/offsets/N`"]) <= {DEAD, RIGHT}
        assert DEAD in one.outcomes["the content of `checkpoint/offsets/N`"]
