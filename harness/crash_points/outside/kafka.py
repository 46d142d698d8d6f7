"""Kafka's protocol: frames with their size, a request by the name of its key, an answer by the number of its request.

Brokers tell their clients where they are. Where that is the place of the store, by whichever name a machine calls
itself, the client is told the relay's, so that it comes through it again; other brokers of the same cluster, and the
same one by any other name, are not reached through the relay.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...core.wire import ITSELF, Endpoint
from .framing import FramedPart, Request, Unreadable, no_more

_HEAD: Final = struct.Struct(">ihhi")
_ANSWER: Final = struct.Struct(">ii")
_LONGEST: Final = 1 << 30
_LONGEST_REQUEST: Final = 128 << 20
"""Brokers take no more, unless told to; and what begins an encrypted connection would be one of 369 MB."""
_NAMES: Final = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    42: "DeleteGroups",
    44: "IncrementalAlterConfigs",
    47: "OffsetDelete",
    60: "DescribeCluster",
    61: "DescribeProducers",
    65: "DescribeTransactions",
    66: "ListTransactions",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    75: "DescribeTopicPartitions",
}
_READS: Final = frozenset(
    [
        "Fetch",
        "ListOffsets",
        "Metadata",
        "OffsetFetch",
        "FindCoordinator",
        "JoinGroup",
        "Heartbeat",
        "LeaveGroup",
        "SyncGroup",
        "DescribeGroups",
        "ListGroups",
        "SaslHandshake",
        "ApiVersions",
        "OffsetForLeaderEpoch",
        "DescribeAcls",
        "DescribeConfigs",
        "DescribeLogDirs",
        "SaslAuthenticate",
        "DescribeCluster",
        "DescribeProducers",
        "DescribeTransactions",
        "ListTransactions",
        "ConsumerGroupHeartbeat",
        "ConsumerGroupDescribe",
        "GetTelemetrySubscriptions",
        "PushTelemetry",
        "DescribeTopicPartitions",
    ]
)
"""What leaves the topics, the offsets and the transactions as they are. Who is in a group is not kept."""
_PLACES: Final = frozenset({"Metadata", "FindCoordinator", "DescribeCluster"})
"""What is answered with the places of brokers."""


@dataclass(frozen=True)
class _Asked:
    number: int
    """Which the answer says again."""
    name: str


class Kafka:
    def __init__(self, store: Endpoint, relay: Endpoint) -> None:
        host, port = store
        called = sorted(ITSELF) if host in ITSELF else [host]
        self._told = tuple(
            told for name in called for told in zip(_encoded((name, port)), _encoded(relay), strict=True)
        )
        self._up = b""
        self._left = 0
        """Bytes of a request's frame that are still to come."""
        self._down = b""
        self._asked: deque[_Asked] = deque()

    def asked(self, data: bytes) -> Iterator[FramedPart]:
        self._up += data
        while self._up:
            if self._left:
                given, self._up = self._up[: self._left], self._up[self._left :]
                self._left -= len(given)
                yield FramedPart(given)
                continue
            if len(self._up) < _HEAD.size:
                return
            size, key, version, number = _HEAD.unpack_from(self._up)
            if not _HEAD.size - 4 <= size <= _LONGEST_REQUEST or not 0 <= key < 1000 or not 0 <= version < 100:
                raise Unreadable(f"a request that begins {self._up[: _HEAD.size]!r}")
            name = _NAMES.get(key, f"request {key}")
            self._asked.append(_Asked(number, name))
            head, self._up = self._up[: _HEAD.size], self._up[_HEAD.size :]
            self._left = size + 4 - _HEAD.size
            yield FramedPart(head, Request(name, name not in _READS))

    def answered(self, data: bytes) -> Iterator[FramedPart]:
        self._down += data
        while len(self._down) >= _ANSWER.size:
            size, number = _ANSWER.unpack_from(self._down)
            if not 4 <= size <= _LONGEST or all(asked.number != number for asked in self._asked):
                raise Unreadable(f"an answer that begins {self._down[: _ANSWER.size]!r}")
            if len(self._down) < size + 4:
                return
            frame, self._down = self._down[: size + 4], self._down[size + 4 :]
            ends, name = self._answer(number)
            yield FramedPart(self._moved(frame) if name in _PLACES else frame, ends=ends)

    def ended(self) -> Iterator[FramedPart]:
        return no_more()

    def unread(self) -> tuple[bytes, bytes]:
        return self._up, self._down

    def _answer(self, number: int) -> tuple[int, str]:
        """How many requests are over with it, and what it answers: what was asked before has none (`acks=0`)."""
        ends = 0
        while True:
            asked = self._asked.popleft()
            ends += 1
            if asked.number == number:
                return ends, asked.name

    def _moved(self, frame: bytes) -> bytes:
        body = frame[4:]
        for ours, instead in self._told:
            body = body.replace(ours, instead)
        return struct.pack(">i", len(body)) + body


def _encoded(place: Endpoint) -> tuple[bytes, bytes]:
    """As brokers say where they are: host and port, in the older versions of an answer and in the newer ones."""
    host, port = place[0].encode(), struct.pack(">i", place[1])
    return struct.pack(">h", len(host)) + host + port, _compact(len(host) + 1) + host + port


def _compact(number: int) -> bytes:
    """An unsigned number of as many bytes as it needs."""
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def kafka(store: Endpoint, relay: Endpoint) -> Kafka:
    return Kafka(store, relay)
