"""A real broker, and a client of its own that writes in transactions, with the relay between them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import pytest
from kafka import KafkaConsumer, KafkaProducer

from kafka_broker import kafka_broker
from streamproof.harness.core.addresses import Side
from streamproof.harness.core.errors import MissingTool
from streamproof.harness.crash_points.outside.protocols import PROTOCOLS
from streamproof.harness.crash_points.outside.relay import Fate, HeldMessage, RelayedStore, Sender, StoreRelay

# It needs Java, as Spark does.
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    try:
        with kafka_broker() as port:
            yield port
    except MissingTool as error:
        pytest.skip(str(error))


@dataclass
class Listener:
    lose: str = ""
    """The first answer to this is lost."""
    held: list[tuple[Side, str]] = field(default_factory=list)

    def sender(self, pid: int, address: str, incarnation: int) -> Sender | None:
        return Sender("node-0", "task", incarnation)

    def batch(self) -> str:
        return "0"

    async def arrived(self, held: HeldMessage) -> Fate:
        self.held.append((held.side, held.key.partition(" ")[2].partition("#")[0]))
        if self.lose and held.side is Side.AFTER and self.held[-1][1] == self.lose:
            self.lose = ""
            return Fate.LOST
        return Fate.GOES_ON


@contextmanager
def relayed(listener: Listener, port: int, host: str = "127.0.0.1") -> Iterator[str]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    relay = StoreRelay([RelayedStore("kafka", (host, port), PROTOCOLS["kafka"])], "127.0.0.1", listener)
    try:
        yield asyncio.run_coroutine_threadsafe(relay.open(1, "run"), loop).result()["kafka"]
        assert relay.seen["kafka"].unread == ""
    finally:
        asyncio.run_coroutine_threadsafe(relay.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def committed(port: int, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=f"127.0.0.1:{port}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=5_000,
        isolation_level="read_committed",
    )
    with closing(consumer):
        return [message.value for message in consumer]


def send(place: str, topic: str, value: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=place, transactional_id=topic, acks="all")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value).get(30)
        producer.commit_transaction()


@pytest.mark.long
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_all_of_a_transaction_passes_through_the_relay_and_is_told_apart(port: int, host: str) -> None:
    """By whichever name of this machine the broker is declared: of itself it says one."""
    listener = Listener()
    topic = f"told-apart-{host}"
    with relayed(listener, port, host) as place:
        send(place, topic, b"one")
    # The coordinator may not be there yet, and is asked again.
    kinds = list(dict.fromkeys(kind for _, kind in listener.held))
    assert [kind for kind in kinds if kind != "CreateTopics"] == [
        "InitProducerId",
        "AddPartitionsToTxn",
        "Produce",
        "EndTxn",
    ]
    assert committed(port, topic) == [b"one"]


@pytest.mark.long
def test_a_commit_whose_answer_is_lost_was_done_and_is_asked_for_again(port: int) -> None:
    listener = Listener(lose="EndTxn")
    with relayed(listener, port) as place:
        send(place, "asked-again", b"one")
    assert listener.held.count((Side.BEFORE, "EndTxn")) == 2
    assert committed(port, "asked-again") == [b"one"]
