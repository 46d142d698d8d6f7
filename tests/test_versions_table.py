"""The table of versions of Spark is the one that was measured, and what was measured is as it must be."""

from __future__ import annotations

from streamproof.harness.crash_points.inside_spark.versions import SUPPORTED
from versions.matrix import BEGIN, PAGE, read_measured, table
from versions.tables import with_table


def test_the_page_has_the_table_of_what_was_measured() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text(), table(read_measured()), BEGIN)


def test_what_was_measured_is_right_and_was_measured_on_the_spark_that_is_named() -> None:
    cells = [(version, cell) for cells in read_measured().values() for version, cell in cells.items()]
    assert cells
    assert [cell for version, cell in cells if not cell.right or cell.spark != version] == []
    assert {version for version, _ in cells} <= {one.tried for one in SUPPORTED.values()}
