"""What an agent's slices say goes out together."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from streamproof.harness.core.wire import frame
from streamproof.harness.protocol.messages import Acknowledge, Message, ReplayStop
from streamproof.harness.worlds.spark.schemes.outgoing import Outgoing


class Writer:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, body: bytes) -> None:
        self.written.append(body)


def said(*messages: Message, exact: bool, closing: bool = False) -> list[bytes]:
    """What a connection was given in one step of the event loop."""
    writer = Writer()

    async def step() -> None:
        outgoing = Outgoing(exact=exact)
        for message in messages:
            outgoing.send(cast(asyncio.StreamWriter, writer), message)
        assert writer.written == []
        writer.closing = closing
        await asyncio.sleep(0)

    asyncio.run(step())
    return writer.written


def test_all_of_a_step_is_one_write_in_its_order() -> None:
    messages = (Acknowledge(1, 4), ReplayStop(1, 7), Acknowledge(1, 8))
    assert said(*messages, exact=False) == [b"".join(map(frame, messages))]


@pytest.mark.parametrize("exact", [False, True])
def test_the_last_of_what_says_all_again_is_enough_unless_a_crash_point_is_waited_for(exact: bool) -> None:
    messages = [Acknowledge(1, upto) for upto in (4, 8, 12)]
    assert said(*messages, exact=exact) == [b"".join(map(frame, messages if exact else messages[-1:]))]


def test_what_was_for_a_connection_that_is_gone_is_lost_with_it() -> None:
    assert said(Acknowledge(1, 4), exact=False, closing=True) == []


def test_what_is_flushed_before_a_point_is_not_said_again() -> None:
    writer = Writer()

    async def step() -> None:
        outgoing = Outgoing(exact=True)
        outgoing.send(cast(asyncio.StreamWriter, writer), Acknowledge(1, 4))
        outgoing.flush()
        assert writer.written == [frame(Acknowledge(1, 4))]
        await asyncio.sleep(0)

    asyncio.run(step())
    assert len(writer.written) == 1
