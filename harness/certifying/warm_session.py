"""A warm session: a driver whose JVM stays up, and to which one process after the other attaches.

Run as `python -m streamproof.harness.certifying.warm_session PLAN`. It says how its JVM is reached, and ends when the
harness hangs up.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from ..core.wire import VERSION, BlockingConnection, Endpoint, Greeting
from ..worlds.spark.queries.attaching import enter_working_folder, gateway_of
from ..worlds.spark.queries.blaming import error_text, shortened_error

PURPOSE = "warm"


class WarmPlan(msgspec.Struct, frozen=True):
    token: str
    harness: Endpoint
    node: str
    working_folder: str = ""
    """Of the harness; its Python workers are where it is."""


class Warm(msgspec.Struct, frozen=True, tag="warm", array_like=True):
    """Warm session to harness: the JVM is up."""

    gateway: dict[str, str]
    """The environment with which a process attaches to it."""


class NoSession(msgspec.Struct, frozen=True, tag="no-session", array_like=True):
    """Warm session to harness: Spark starts none."""

    why: str


def main(path: str) -> int:
    from pyspark.sql import SparkSession

    plan = msgspec.json.decode(Path(path).read_bytes(), type=WarmPlan)
    enter_working_folder(Path(plan.working_folder))
    harness = BlockingConnection(plan.harness, Greeting(VERSION, plan.token, PURPOSE, plan.node))
    try:
        spark = SparkSession.builder.appName(f"streamproof {plan.node}").getOrCreate()
        # The first job loads what every other one needs.
        spark.range(10).selectExpr("sum(id)").collect()
    except Exception as error:
        # Of whatever kind: what a setting of the user's means is Spark's to say. Its log then ends with what a JVM has
        # said that did not come up.
        harness.send(NoSession(shortened_error(error_text(error))))
        return 1
    harness.send(Warm(dict(gateway_of(spark))))
    harness.receive()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
