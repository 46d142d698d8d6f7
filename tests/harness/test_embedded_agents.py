"""Scenarios of the library on the embedded runtime, without its processes: replicas, standbys and followed events over
real links, with nodes that die in the middle."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agents_in_process import ThreadsCluster
from streamproof.harness.registry import Registry
from streamproof.harness.running import run_named
from streamproof.harness.wire import VERSION, Greeting, accept, frame

SCENARIOS = (
    "word-count.passive-replication-shows",
    "word-count.neighbours-crash",
    "word-count.crash-during-recovery",
    "order.passive-replication",
    "word-count.deployed",
    "stateless.upstream-backup",
    "stateless.source-replay",
    "word-count.passive-standby-hot",
    "word-count.passive-standby-hot-pair-lost",
    "word-count.passive-standby-cold",
    "word-count.active-standby",
    "word-count.active-replication",
    "words.k-safe-grouping",
    "words.k-safe-grouping-one-too-many",
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scheme_keeps_its_word_on_node_agents_and_no_more_than_that(name: str, tmp_path: Path) -> None:
    registry = Registry()
    finished = run_named(registry.scenario(name), ThreadsCluster(), registry, seed=1, folder=tmp_path / "run")
    assert all(struck.bite.bit for struck in finished.history.struck())
    judgement = finished.judgement
    assert {f"{v.guarantee} {v.status} {v.reason}".strip() for v in (*judgement.verdicts, *judgement.broken)} == {
        *(f"{v.guarantee} HOLDS" for v in judgement.verdicts),
        *(f"{v.guarantee} VIOLATED" for v in judgement.broken),
    }


def test_a_stranger_cannot_make_a_listener_wait_for_a_large_greeting() -> None:
    async def answer(sent: bytes) -> Greeting | None:
        reader = asyncio.StreamReader()
        reader.feed_data(sent)
        return await accept(reader, "token")

    greeting = Greeting(VERSION, "token", "link", "node-0")
    assert asyncio.run(answer(frame(greeting))) == greeting
    assert asyncio.run(answer((8 << 10).to_bytes(4, "big"))) is None
