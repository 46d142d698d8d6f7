"""Operators of Spark's own that go by event time, into a sink that takes what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...harness.contracts.query import Query
from .inputs import AD_EVENT, BATCH, VISIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def when_it_was(frame: DataFrame) -> DataFrame:
    """With the time `at` which it happened; what comes more than 20 ms after later events may be left out."""
    from pyspark.sql import functions as f

    at = f.timestamp_millis(f.unix_millis("timestamp") - f.col("late"))
    return frame.withColumn("at", at).withWatermark("at", "20 milliseconds")


def first_visits(visits: DataFrame) -> DataFrame:
    """The first of each user's visits to a page; a later one counts again when it is 20 ms since."""
    return when_it_was(visits).dropDuplicatesWithinWatermark(["user", "page"]).select("user", "page", "seq")


def clicks_of_ads(events: DataFrame) -> DataFrame:
    """Each ad that was shown, with each click on it within 30 ms, or none."""
    from pyspark.sql import functions as f

    timed = when_it_was(events)
    shown = timed.where("kind = 'shown'").select(
        f.col("ad").alias("ad"), f.col("at").alias("shown_at"), f.col("seq").alias("shown")
    )
    clicked = timed.where("kind = 'clicked'").select(
        f.col("ad").alias("clicked_ad"), f.col("at").alias("clicked_at"), f.col("seq").alias("clicked")
    )
    soon = f.expr("clicked_ad = ad AND clicked_at BETWEEN shown_at AND shown_at + INTERVAL 30 MILLISECONDS")
    return shown.join(clicked, soon, "left_outer").select("ad", "shown", "clicked")


def sessions(visits: DataFrame) -> DataFrame:
    """Visits of a user with less than 12 ms between them, counted."""
    from pyspark.sql import functions as f

    session = f.session_window("at", "12 milliseconds").alias("session")
    counted = when_it_was(visits).groupBy("user", session).agg(f.count("*").alias("visits"))
    return counted.select(
        "user", f.unix_millis("session.start").alias("start"), f.unix_millis("session.end").alias("end"), "visits"
    )


deduplication = Query(first_visits, name="deduplication", schema=VISIT, batch_events=BATCH)
stream_join = Query(clicks_of_ads, name="stream-join", schema=AD_EVENT, batch_events=BATCH)
session_windows = Query(sessions, name="session-windows", schema=VISIT, batch_events=BATCH)
