"""The sinks that write to stores that people use: each can be made and handed over, and fits the Spark it is for."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark import cloudpickle

from streamproof.harness.contracts.query import SOURCE, Query
from streamproof.harness.core.errors import UnknownName, Unsupported
from streamproof.harness.core.verdicts import Status
from streamproof.harness.install.machine import Spark
from streamproof.harness.install.spark_choice import check_packages
from streamproof.scenarios.subjects import delta, iceberg
from streamproof.scenarios.subjects.releases import release_for
from streamproof.scenarios.subjects.stores import STORES, StoreLine, store_line

SPARK = {"Iceberg": "4.0.0"}
"""For which a store has a connector, where that is not 4.1.3."""
STORE_NAMES = ("Delta Lake", "Iceberg", "Kafka")


def made(one: StoreLine) -> Query:
    return one.make(spark_of(one), "127.0.0.1:9092")


def spark_of(one: StoreLine) -> str:
    return SPARK.get(one.sink.partition(",")[0], "4.1.3")


each_store = pytest.mark.parametrize("one", STORES, ids=[one.name for one in STORES])


def test_names_are_unique_and_lead_to_their_sinks() -> None:
    assert [store_line(one.name) for one in STORES] == list(STORES)
    with pytest.raises(UnknownName, match=r"there is no store 'hudi'; .*delta-sink"):
        store_line("hudi")


@each_store
def test_its_packages_are_for_the_spark_that_it_is_made_for(one: StoreLine) -> None:
    query = made(one)
    assert query.spark == spark_of(one)
    check_packages(query.packages, Spark(Path("spark"), "2.13", spark_of(one)))


@each_store
def test_it_can_be_sent_to_a_driver_and_to_a_consumer(one: StoreLine) -> None:
    query = made(one)
    again = pickle.loads(cloudpickle.dumps(query))  # type: ignore[no-untyped-call]
    assert again.describe() == query.describe()
    assert query.read is not None
    one.workload.check([SOURCE])


@each_store
def test_a_sink_with_a_server_is_reached_by_way_of_the_harness_and_others_keep_all_in_their_folders(
    one: StoreLine,
) -> None:
    query = made(one)
    assert bool(query.relayed) == (not query.copyable) == bool(one.server)


@each_store
def test_one_that_is_wrong_says_how(one: StoreLine) -> None:
    assert (one.anomaly is not None) == (one.expected is Status.VIOLATED)
    assert one.documented.startswith("https://")


def test_every_store_has_one_that_holds_and_one_that_does_not() -> None:
    assert {one.sink.partition(",")[0] for one in STORES} == set(STORE_NAMES)
    for store in STORE_NAMES:
        assert {one.expected for one in STORES if one.sink.startswith(store)} == {Status.HOLDS, Status.VIOLATED}


def test_a_spark_without_a_release_of_a_connector_is_refused() -> None:
    assert release_for("Delta", delta.RELEASES, "4.1.4") == delta.RELEASES["4.1"]
    assert release_for("Iceberg", iceberg.RELEASES, "4.0.1") == iceberg.RELEASES["4.0"]
    with pytest.raises(Unsupported, match=r"no release of Delta for Spark 4\.3\.0 is known here"):
        release_for("Delta", delta.RELEASES, "4.3.0")
    with pytest.raises(
        Unsupported, match=r"no release of Iceberg for Spark 4\.1\.3 is known here; there are for: 4\.0"
    ):
        release_for("Iceberg", iceberg.RELEASES, "4.1.3")
