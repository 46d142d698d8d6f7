"""What a StatefulProcessor in Python keeps goes to Spark as a message. Spark 4.0.1 makes room for as many bytes as the
message says that it has, reads once, and takes what has come by then for all of it.

Of a message that is sent in one piece all has come; of one that is larger, the end is missing. Nobody has to die: the
query fails in its first batch, and at each start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...faults.crash import crash
from ...harness.contracts.query import Query
from ...harness.contracts.query_parts import ROCKSDB, STATE_STORE
from ...harness.core.addresses import DRIVER, Moment, Point, Side
from ...harness.judging.shapes import OutputMode
from ..workloads import words
from .line import RealBug, Release, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from pyspark.sql import DataFrame

BATCH: Final = 10
CHARACTERS: Final = 8_000_000
"""As many has each document."""


def longer_documents(frame: DataFrame) -> DataFrame:
    """A document for each word, in which a line stands for each time that it came; given is how many these are."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Documents(StatefulProcessor):
        """A local class, which goes to the workers by value."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            self._document = handle.getValueState("document", "text STRING")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
            kept = self._document.get()
            lines = [] if kept is None else kept[0].split()
            lines += [str(seq) for frame in rows for seq in frame["seq"]]
            self._document.update((" ".join(lines).ljust(CHARACTERS),))
            yield pd.DataFrame({"word": [key[0]], "count": [len(lines)]})

        def close(self) -> None:
            pass

    grouped: Any = frame.groupBy("value")
    documents: DataFrame = grouped.transformWithStateInPandas(
        statefulProcessor=Documents(), outputStructType="word STRING, count LONG", outputMode="Update", timeMode="None"
    )
    return documents


def kept_documents(release: Release) -> Query:
    return Query(
        longer_documents,
        name="kept-documents",
        mode=OutputMode.UPDATE,
        key=("word",),
        settings={STATE_STORE: ROCKSDB},
        spark=release.spark,
        batch_events=BATCH,
    )


BUG: Final = RealBug(
    "spark-53870",
    "Spark: of what a StatefulProcessor in Python keeps, the end is missing where it is large, and the query fails",
    (
        Report("SPARK-53870", "https://issues.apache.org/jira/browse/SPARK-53870"),
        Report("its correction", "https://github.com/apache/spark/pull/52596"),
    ),
    affected=Release("Spark 4.0.1", "4.0.1"),
    fixed=Release("Spark 4.2.0", "4.2.0"),
    make=kept_documents,
    workload=words(vocabulary=2, events=2 * BATCH),
    schedule=(crash("driver").at(Moment(Point.COMMIT_LOG, Side.AFTER, "0", DRIVER)),),
    anomalies=frozenset(),
)


def keeps_more_than_is_read() -> Query:
    """As `streamproof certify` takes it."""
    return kept_documents(BUG.affected)
