"""Word count as a Structured Streaming query: how often each word has come so far, kept by Spark's own state store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..harness.contracts.claims import Claim
from ..harness.contracts.query import Query
from ..harness.core.guarantees import exactly_once, rollback_recovery
from ..harness.judging.shapes import OutputMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def count_words(lines: DataFrame) -> DataFrame:
    """Lines in `value` become (word, count), as `word_count` splits them."""
    # In SQL's words, which are older than the function of pyspark 3.5.
    words = lines.selectExpr("explode(regexp_extract_all(lower(value), '([a-z0-9_]+)')) AS word")
    return words.groupBy("word").count()


def query_word_count(batch_events: int = 100) -> Query:
    """Its sink takes every batch that Spark hands it, so it sees the last one again if the driver dies before that is
    in Spark's commit log. The counts are the same then, since the state goes back with the batch."""
    return Query(
        count_words,
        "query-word-count",
        mode=OutputMode.UPDATE,
        key=("word",),
        claims=(Claim(exactly_once()), Claim(rollback_recovery())),
        batch_events=batch_events,
    )
