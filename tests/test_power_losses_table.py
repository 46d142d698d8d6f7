"""The table of losses of power is the one that was measured, and nothing of it is unknown."""

from __future__ import annotations

from versions.power_losses import DEAD, PAGE, QUERIES, page, read_measured


def test_the_page_has_the_table_of_what_was_measured() -> None:
    assert PAGE.read_text() == page(PAGE.read_text())


def test_every_query_was_measured_and_nothing_is_unknown() -> None:
    measured = read_measured()
    assert list(measured) == list(QUERIES)
    assert [name for name, one in measured.items() if one.unknown] == []


def test_spark_starts_no_more_where_what_it_has_to_read_is_there_by_name_alone() -> None:
    """But for an entry that a later one stands for."""
    measured = read_measured()
    needed = {
        "state in files": "checkpoint/state/N/N/N.delta",
        "state in RocksDB": "checkpoint/state/N/N/N.zip",
        "state in RocksDB, changelog": "checkpoint/state/N/N/N.changelog",
    }
    for name, file in needed.items():
        assert {*measured[name].outcomes[f"the content of `{file}`"]} == {DEAD}
