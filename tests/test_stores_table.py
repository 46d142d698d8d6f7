"""The table of stores is the one that was measured, and what was measured is as it must be."""

from __future__ import annotations

from streamproof.scenarios.subjects.stores import STORES
from versions.matrix import read_measured
from versions.stores import BEGIN, MEASURED, PAGE, table
from versions.tables import with_table


def test_the_page_has_the_table_of_what_was_measured() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text(), table(read_measured(MEASURED)), BEGIN)


def test_what_was_measured_is_right_and_was_measured_on_the_spark_that_is_named() -> None:
    cells = [(version, cell) for cells in read_measured(MEASURED).values() for version, cell in cells.items()]
    assert cells
    assert [cell for version, cell in cells if not cell.right or cell.spark != version] == []
    assert set(read_measured(MEASURED)) <= {one.name for one in STORES}
