"""What an agent acknowledges in one go it says once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.wire import frame
from streamproof.harness.protocol.messages import Acknowledge, Open
from streamproof.harness.protocol.stores import FileStore
from streamproof.harness.worlds.spark.schemes.agent import NodeAgent
from streamproof.reference_impls.mechanisms.receipt import Received

LINK = ("sum-0", "relay-0", 1)


class Wire:
    """Takes frames, in the place of a connection."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, one: bytes) -> None:
        self.frames.append(one)


def agent(folder: Path, wire: Wire, *armed: Moment) -> NodeAgent:
    unused: Any = None
    made = NodeAgent("node-0", "token", unused, {}, FileStore(folder), armed, unused, unused, unused, unused, unused)
    made._links[LINK] = wire  # type: ignore[assignment]
    return made


def test_the_last_of_those_that_say_all_is_sent_when_what_came_in_has_been_dealt_with(tmp_path: Path) -> None:
    async def said() -> None:
        wire = Wire()
        node = agent(tmp_path, wire)
        for message in (Received(2, 5), Acknowledge(2, 3), Received(2, 4), Acknowledge(2, 9)):
            node.send(*LINK, message)
        assert wire.frames == []
        await asyncio.sleep(0)
        assert wire.frames == [frame(Received(2, 4)), frame(Acknowledge(2, 9))]
        await asyncio.sleep(0)
        assert len(wire.frames) == 2

    asyncio.run(said())


def test_nothing_overtakes_what_waits_for_a_moment(tmp_path: Path) -> None:
    async def said() -> None:
        wire = Wire()
        node = agent(tmp_path, wire)
        for message in (Received(2, 5), Open(2, 0), Received(2, 6)):
            node.send(*LINK, message)
        assert wire.frames == [frame(Received(2, 5)), frame(Open(2, 0))]
        await asyncio.sleep(0)
        assert wire.frames[2:] == [frame(Received(2, 6))]

    asyncio.run(said())


def test_what_waits_for_whom_nobody_is_in_touch_with_any_more_is_lost_as_on_the_link(tmp_path: Path) -> None:
    async def said() -> None:
        wire = Wire()
        node = agent(tmp_path, wire)
        node.send(*LINK, Received(2, 5))
        del node._links[LINK]
        await asyncio.sleep(0)
        assert wire.frames == []

    asyncio.run(said())


def test_where_a_crash_point_may_come_in_between_each_is_sent_at_once(tmp_path: Path) -> None:
    async def said() -> None:
        wire = Wire()
        node = agent(tmp_path, wire, Moment(Point.SEND_HANDED_OVER, Side.AFTER, actor="sum-0"))
        node.send(*LINK, Received(2, 5))
        assert wire.frames == [frame(Received(2, 5))]

    asyncio.run(said())
