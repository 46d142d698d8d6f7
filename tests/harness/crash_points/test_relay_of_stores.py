"""The relay to stores outside, between real sockets: what is held goes on, or is lost with whoever sent it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from streamproof.harness.core.addresses import Side
from streamproof.harness.core.errors import StoreUnreachable
from streamproof.harness.crash_points.outside.protocols import PROTOCOLS
from streamproof.harness.crash_points.outside.relay import Fate, HeldMessage, RelayedStore, Sender, StoreRelay
from streamproof.harness.crash_points.outside.senders import pid_of

Held = tuple[str, str]
PUT = b"PUT /orders/17 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
GET = b"GET /orders/17 HTTP/1.1\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SECONDS = 20


@dataclass
class Listener:
    """Writes down what is held, and does what a test wants done then."""

    then: Callable[[HeldMessage], Fate] = lambda held: Fate.GOES_ON
    held: list[Held] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    stranger: bool = False

    def sender(self, pid: int, address: str, incarnation: int) -> Sender | None:
        self.pids.add(pid)
        return None if self.stranger else Sender("node-0", "driver", incarnation)

    def batch(self) -> str:
        return "3"

    async def arrived(self, held: HeldMessage) -> Fate:
        self.held.append((held.side.value, held.key))
        self.sizes.append(held.size)
        return self.then(held)


@dataclass
class Store:
    """Takes what comes, and answers each message with the same."""

    messages: int = 0
    received: bytes = b""
    answer: bytes = OK
    over: asyncio.Event = field(default_factory=asyncio.Event)
    place: tuple[str, int] = ("", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.received += data
                new = (self.received.count(b"HTTP/1.1") or self.received.count(b"\n")) - self.messages
                self.messages += new
                writer.write(self.answer * new)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            self.over.set()
            writer.close()


@asynccontextmanager
async def relayed(
    listener: Listener, protocol: str = "http"
) -> AsyncIterator[tuple[StoreRelay, Store, tuple[str, int]]]:
    store = Store()
    server = await asyncio.start_server(store.serve, "127.0.0.1", 0)
    store.place = server.sockets[0].getsockname()
    relay = StoreRelay([RelayedStore("web", store.place, PROTOCOLS[protocol])], "127.0.0.1", listener)
    try:
        host, _, port = (await relay.open(1, "run-1-driver"))["web"].rpartition(":")
        yield relay, store, (host, int(port))
    finally:
        await relay.close()
        server.close()


def within(work: Awaitable[None]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work, SECONDS)

    asyncio.run(limited())


def test_a_request_is_held_before_it_leaves_and_after_it_is_answered_each_kind_counted() -> None:
    listener = Listener()

    async def run() -> None:
        async with relayed(listener) as (relay, store, place):
            reader, writer = await asyncio.open_connection(*place)
            for request in (PUT, GET, PUT):
                writer.write(request)
                assert await reader.readexactly(len(OK)) == OK
            writer.close()
            await store.over.wait()
            assert store.received == PUT + GET + PUT
            assert (relay.seen["web"].requests, relay.seen["web"].by_strangers) == (3, 0)

    within(run())
    assert listener.held == [
        ("before", "3/web PUT /orders#1"),
        ("after", "3/web PUT /orders#1"),
        ("before", "3/web PUT /orders#2"),
        ("after", "3/web PUT /orders#2"),
    ]
    assert listener.sizes == [0, len(OK), 0, len(OK)]
    assert listener.pids == {os.getpid()}


def test_what_is_held_has_not_reached_the_store_and_an_answer_that_is_held_has_not_reached_the_client() -> None:
    seen = []

    async def run() -> None:
        async with relayed(listener) as (_, store, place):
            sock = socket.create_connection(place)
            sock.setblocking(False)

            def look(held: HeldMessage) -> Fate:
                try:
                    told = sock.recv(1, socket.MSG_PEEK)
                except BlockingIOError:
                    told = b""
                seen.append((held.side, bool(store.received), bool(told)))
                return Fate.GOES_ON

            listener.then = look
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(sock, PUT)
            assert await loop.sock_recv(sock, 1 << 16) == OK
            sock.close()

    listener = Listener()
    within(run())
    assert seen == [(Side.BEFORE, False, False), (Side.AFTER, True, False)]


def test_what_is_held_stays_as_long_as_whoever_listens_waits() -> None:
    seen = []

    async def run() -> None:
        class Waiting(Listener):
            async def arrived(self, held: HeldMessage) -> Fate:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.2)
                seen.append((held.side, bool(store.received)))
                if held.side is Side.AFTER:
                    looked.set()
                return await super().arrived(held)

        looked = asyncio.Event()
        async with relayed(Waiting()) as (_, store, place):
            reader, writer = await asyncio.open_connection(*place)
            writer.write(PUT)
            await asyncio.wait_for(looked.wait(), SECONDS)
            assert await reader.readexactly(len(OK)) == OK
            writer.close()

    within(run())
    assert seen == [(Side.BEFORE, False), (Side.AFTER, True)]


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("reset", [True, False])
def test_with_the_death_of_its_sender_a_request_is_lost_before_it_leaves_and_its_answer_after(
    side: Side, reset: bool
) -> None:
    """A process that is killed leaves connections that are closed, or reset where it had not read all."""
    held = []

    async def run() -> None:
        async with relayed(listener) as (_, store, place):
            sock = socket.create_connection(place)

            def die(message: HeldMessage) -> Fate:
                held.append(message.side)
                if message.side is side:
                    if reset:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    sock.close()
                return Fate.GOES_ON

            listener.then = die
            sock.sendall(PUT)
            # The store sees the end of its connection either way.
            await store.over.wait()
            assert store.received == (b"" if side is Side.BEFORE else PUT)

    listener = Listener()
    within(run())
    assert held == [Side.BEFORE, Side.AFTER][: 1 if side is Side.BEFORE else 2]


def test_a_client_that_has_ended_its_side_before_gets_its_answer() -> None:
    async def run() -> None:
        async with relayed(listener) as (_, _, place):
            reader, writer = await asyncio.open_connection(*place)
            writer.write(PUT)
            writer.write_eof()
            assert await reader.read() == OK

    listener = Listener()
    within(run())
    assert [side for side, _ in listener.held] == ["before", "after"]


@pytest.mark.parametrize(
    ("lost", "arrived"),
    [(Side.AFTER, PUT), (Side.BEFORE, b"")],
    ids=["an answer, although the store has done it", "a request, which goes nowhere"],
)
def test_of_what_is_lost_the_client_hears_of_a_reset(lost: Side, arrived: bytes) -> None:
    async def run() -> None:
        async with relayed(listener) as (_, store, place):
            reader, writer = await asyncio.open_connection(*place)
            writer.write(PUT)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            await store.over.wait()
            assert store.received == arrived
            writer.close()

    listener = Listener(lambda held: Fate.LOST if held.side is lost else Fate.GOES_ON)
    within(run())


def test_an_answer_that_does_not_end_arrives_all_the_same() -> None:
    listener = Listener()
    begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"

    async def run() -> None:
        async with relayed(listener) as (_, store, place):
            store.answer = begun
            reader, writer = await asyncio.open_connection(*place)
            writer.write(PUT)
            assert await reader.readexactly(len(begun)) == begun
            writer.close()

    within(run())
    assert [side for side, _ in listener.held] == ["before"]


def test_whoever_is_not_listened_to_passes_unheard_and_is_counted() -> None:
    listener = Listener(stranger=True)

    async def run() -> None:
        async with relayed(listener) as (relay, _, place):
            reader, writer = await asyncio.open_connection(*place)
            writer.write(PUT)
            assert await reader.readexactly(len(OK)) == OK
            writer.close()
            assert (relay.seen["web"].requests, relay.seen["web"].by_strangers) == (0, 1)

    within(run())
    assert listener.held == []


def test_what_is_no_part_of_the_query_reaches_the_store_unheard() -> None:
    listener = Listener()

    async def run() -> None:
        async with relayed(listener) as (relay, _, _):
            host, _, port = (await relay.open_aside())["web"].rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(PUT)
            assert await reader.readexactly(len(OK)) == OK
            writer.close()
            assert (relay.seen["web"].requests, relay.seen["web"].by_strangers) == (0, 0)

    within(run())
    assert listener.held == []


def test_what_cannot_be_read_is_cut_at_bursts_and_said() -> None:
    listener = Listener()

    async def run() -> None:
        async with relayed(listener) as (relay, store, place):
            store.answer = b"\x15answer"
            reader, writer = await asyncio.open_connection(*place)
            for _ in range(2):
                writer.write(b"\x16\x03\x01 something\n")
                assert await reader.readexactly(7) == store.answer
            writer.close()
            await store.over.wait()
            assert store.received == b"\x16\x03\x01 something\n" * 2
            assert "a request that begins" in relay.seen["web"].unread

    within(run())
    assert listener.held == [(side, f"3/web burst#{n}") for n in (1, 2) for side in ("before", "after")]


def test_a_store_that_is_not_there_is_said_and_the_client_is_hung_up_on() -> None:
    listener = Listener()

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            place = nobody.getsockname()
        relay = StoreRelay([RelayedStore("web", place, PROTOCOLS["http"])], "127.0.0.1", listener)
        host, _, port = (await relay.open(1, "run"))["web"].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.read() == b""
        writer.close()
        assert "cannot be reached" in relay.seen["web"].unreachable
        with pytest.raises(StoreUnreachable, match=rf"the store web at 127.0.0.1:{place[1]} cannot be reached"):
            relay.require_stores()
        relay.begin_anew()
        relay.require_stores()
        await relay.close()

    within(run())


def test_what_holds_the_runs_label_is_called_the_same_in_every_run() -> None:
    async def keys(label: str, table: str) -> list[Held]:
        listener = Listener()
        store = Store(answer=b"Z\0\0\0\5I")
        server = await asyncio.start_server(store.serve, "127.0.0.1", 0)
        place = server.sockets[0].getsockname()
        relay = StoreRelay([RelayedStore("db", place, PROTOCOLS["postgres"])], "127.0.0.1", listener)
        host, _, port = (await relay.open(1, label))["db"].rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        text = f"insert into {table} values (1)".encode() + b"\0"
        writer.write(b"\0\0\0\x08\0\3\0\0" + b"Q" + (len(text) + 4).to_bytes(4, "big") + text)
        while not listener.held:
            await asyncio.sleep(0.001)
        writer.close()
        await relay.close()
        server.close()
        return listener.held

    async def run() -> None:
        one = await keys("2026-11-22-sink-lanes-lane-0", "lines_2026_11_22_sink_lanes_lane_0")
        other = await keys("2026-11-23-sink-driver", '"lines-2026-11-23-sink-driver"')
        assert one[0][1].replace("_", "-") == other[0][1] == "3/db INSERT lines-*#1"

    within(run())


def test_the_process_at_the_other_end_is_found_by_either_version_of_ip() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")):
            client = socket.socket(family)
            client.connect((host, server.getsockname()[1]))
            taken, peer = server.accept()
            assert pid_of(peer, server.getsockname()) == os.getpid()
            client.close()
            assert pid_of(peer, server.getsockname()) == 0
            taken.close()
