"""Sinks that write outside, as `module:attribute` names them: their servers' ports come from the environment."""

from __future__ import annotations

import os

import outside_sinks
from streamproof.harness.contracts.query import Query
from streamproof.harness.core.workload import Workload
from streamproof.scenarios.workloads import text

POSTGRES, WEB, KAFKA = "SINKS_POSTGRES_PORT", "SINKS_WEB_PORT", "SINKS_KAFKA_PORT"


def _port(server: str) -> int:
    return int(os.environ[server])


def in_two_transactions() -> Query:
    return outside_sinks.postgres_query(outside_sinks.in_two_transactions, _port(POSTGRES))


def in_one_transaction() -> Query:
    return outside_sinks.postgres_query(outside_sinks.in_one_transaction, _port(POSTGRES))


def adding_to_counts() -> Query:
    return outside_sinks.postgres_query(
        outside_sinks.adding_to_counts, _port(POSTGRES), outside_sinks.read_counts, ("word",)
    )


def counting_by_batch() -> Query:
    return outside_sinks.postgres_query(
        outside_sinks.counting_by_batch, _port(POSTGRES), outside_sinks.read_counts, ("word",)
    )


def source_in_two() -> Query:
    return outside_sinks.source_query(outside_sinks.to_two, _port(POSTGRES))


def source_in_one() -> Query:
    return outside_sinks.source_query(outside_sinks.to_one, _port(POSTGRES))


def retrying_without_key() -> Query:
    return outside_sinks.web_query(outside_sinks.retrying_without_key, _port(WEB))


def retrying_with_key() -> Query:
    return outside_sinks.web_query(outside_sinks.retrying_with_key, _port(WEB))


def kafka_sink() -> Query:
    return outside_sinks.kafka_query(_port(KAFKA))


def five_events() -> Workload:
    """A batch of those that take five, and the two that close the input."""
    return text(events=5)


def twenty_events() -> Workload:
    return text(events=20)


def fifty_events() -> Workload:
    return text(events=50)
