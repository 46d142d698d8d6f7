"""The table of versions of Spark is the one that was measured, and what was measured is as it must be."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.harness.crash_points.inside_spark.versions import SUPPORTED
from versions.matrix import IN_CONTAINERS, MEASURED, PAGE, Cell, page, read_measured, table


def test_the_page_has_the_tables_of_what_was_measured() -> None:
    assert PAGE.read_text() == page(PAGE.read_text())


def test_of_what_was_not_tried_in_containers_nothing_is_shown() -> None:
    cell = Cell("HOLDS", "HOLDS", "HOLDS", 9, "4.1.3", 60, True)
    assert table({"file-sink": {"4.1.3": cell}}, whole=False).splitlines() == [
        "| query | 4.1.3 |",
        "| --- | --- |",
        "| `file-sink` | HOLDS (9) |",
    ]


@pytest.mark.parametrize("file", [MEASURED, IN_CONTAINERS])
def test_what_was_measured_is_right_and_was_measured_on_the_spark_that_is_named(file: Path) -> None:
    cells = [(version, cell) for cells in read_measured(file).values() for version, cell in cells.items()]
    assert cells
    assert [cell for version, cell in cells if not cell.right or cell.spark != version] == []
    assert {version for version, _ in cells} <= {one.tried for one in SUPPORTED.values()}
