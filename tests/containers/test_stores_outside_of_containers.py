"""Stores outside of the containers, which reach them through the harness and in no other way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from killed_queries import addresses, killed, verdict
from outside_sinks import retrying_without_key, web_query
from streamproof.faults.crash import crash
from streamproof.faults.lost_answer import lost_answer
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.schedule import Fault
from streamproof.harness.worlds.docker.cluster import DockerCluster
from web_store import web_store

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    with web_store() as port:
        yield port


def moment(batch: int, side: Side) -> Moment:
    return Moment(Point.MESSAGE, side, f"{batch}/web POST /orders#1", "driver")


@pytest.mark.parametrize(
    ("faults", "comes_to"),
    [
        pytest.param(
            (crash("driver").at(moment(0, Side.BEFORE)), crash("driver").at(moment(1, Side.AFTER))),
            "HOLDS",
            marks=pytest.mark.long,
        ),
        ((lost_answer("driver").at(moment(1, Side.AFTER)),), "VIOLATED"),
    ],
)
def test_what_containers_send_is_held_and_lost(
    faults: tuple[Fault, ...], comes_to: str, web: int, tmp_path: Path
) -> None:
    finished = killed(tmp_path / "run", DockerCluster(), web_query(retrying_without_key, web), *faults, batches=2)
    assert len(addresses(finished)) == len(faults)
    assert verdict(finished) == comes_to
