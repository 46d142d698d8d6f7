"""Pairs of versions of a query, each with what becomes of the new one that goes on from what the old one leaves.

`streamproof upgrade grouping-widened` tries one; `streamproof list upgrades` has them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from ..harness.contracts.query import Query
from ..harness.core.workload import Workload
from ..harness.upgrading.outcomes import Basis, UpgradeOutcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH = 6


def few_pairs(seed: int = 7) -> Workload:
    """A few pairs of key and value, each again and again: small, since each is run hundreds of times."""

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for _ in range(count):
            yield random.choice(("k0", "k1", "k2")), random.choice(("k0", "k1"))

    return Workload("few-pairs", 3 * BATCH, BATCH, draw, seed)


@dataclass(frozen=True)
class UpgradePair:
    """One change."""

    name: str
    summary: str
    old: Query
    new: Query
    expected: UpgradeOutcome
    """From states with a committed batch."""
    basis: Basis = Basis.ALL
    workload: Workload = few_pairs()


# What is changed


def count_by_key(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").count()


def count_by_key_and_value(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key", "value").count()


def _halves(frame: DataFrame) -> DataFrame:
    """Two columns of one type."""
    return frame.selectExpr("key AS one", "value AS other")


def count_by_one_and_other(frame: DataFrame) -> DataFrame:
    return _halves(frame).groupBy("one", "other").count()


def count_by_other_and_one(frame: DataFrame) -> DataFrame:
    return _halves(frame).groupBy("other", "one").count()


def _counts(transform: object, *key: str) -> Query:
    return Query(transform, mode="update", key=key, batch_events=BATCH)  # type: ignore[arg-type]


BY_KEY = _counts(count_by_key, "key")

PAIRS: tuple[UpgradePair, ...] = (
    UpgradePair("nothing-changed", "Nothing is changed.", BY_KEY, BY_KEY, UpgradeOutcome.CONTINUES),
    UpgradePair(
        "grouping-widened",
        "A column is added to the grouping.",
        BY_KEY,
        _counts(count_by_key_and_value, "key", "value"),
        UpgradeOutcome.REFUSED,
    ),
    UpgradePair(
        "keys-swapped",
        "Two columns of the grouping change places, which have the same type.",
        _counts(count_by_one_and_other, "one", "other"),
        _counts(count_by_other_and_one, "one", "other"),
        UpgradeOutcome.WRONG,
    ),
    UpgradePair(
        "provider-changed",
        "The state store's provider is RocksDB, and was the one in memory.",
        BY_KEY,
        replace(
            BY_KEY,
            settings={
                "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
                "RocksDBStateStoreProvider"
            },
        ),
        UpgradeOutcome.REFUSED,
    ),
)
