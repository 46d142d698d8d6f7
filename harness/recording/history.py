"""A history: everything that is needed to judge a run again. What was offered, delivered, checkpointed and kept, and
the timeline of what really happened to the machines, with the proof that each fault bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from .records import Stamped


class Stamp(msgspec.Struct, frozen=True):
    """When, on the recorder's clock."""

    at: int
    """Microseconds since the run began; virtual in the simulator."""
    step: int | None = None
    """The simulator's step."""


class Bite(msgspec.Struct, frozen=True):
    """What proves, mechanically, that a fault bit, or shows that it did not."""

    target: str
    """As the schedule names it."""
    node: str | None
    """What it stood for when the fault struck; None: nothing."""
    actors: tuple[str, ...]
    """The slices or drivers that ran there and are gone."""
    outstanding: bool
    """Whether input was still to be processed: a crash after the end harms nobody."""
    gone: bool
    """Whether every process of the node was seen to be gone."""
    pids: tuple[int, ...] = ()
    held_at_address: bool = True
    """Whether the node was held at the address until it died."""

    @property
    def bit(self) -> bool:
        return self.gone and self.outstanding and self.held_at_address

    @property
    def why_not(self) -> str:
        if self.node is None:
            return f"{self.target} ran nowhere"
        if not self.gone:
            return f"the processes of {self.node} were not seen to be gone"
        if not self.outstanding:
            return "all input had been processed by then"
        return f"{self.node} was not held at the address"


class FaultStruck(msgspec.Struct, frozen=True, tag="fault-struck"):
    stamp: Stamp
    number: int
    """The fault's place in the schedule."""
    fault: str
    address: str | None
    bite: Bite


class FaultMissed(msgspec.Struct, frozen=True, tag="fault-missed"):
    """The run ended before the fault's trigger came."""

    stamp: Stamp
    number: int
    fault: str


class NodeGone(msgspec.Struct, frozen=True, tag="node-gone"):
    """The loss of a node was detected."""

    stamp: Stamp
    node: str


class NodeUp(msgspec.Struct, frozen=True, tag="node-up"):
    stamp: Stamp
    node: str


class Placed(msgspec.Struct, frozen=True, tag="placed"):
    """A node began to start an incarnation; restoring its state comes next."""

    stamp: Stamp
    actor: str
    incarnation: int
    node: str


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """The end of the input has passed through all slices and nothing more is due."""

    stamp: Stamp


class Aborted(msgspec.Struct, frozen=True, tag="aborted"):
    """The run was given up before it was drained."""

    stamp: Stamp
    why: str


TimelineEntry = FaultStruck | FaultMissed | NodeGone | NodeUp | Placed | Drained | Aborted


@dataclass(frozen=True)
class History:
    """What one run leaves behind."""

    records: Sequence[Stamped]
    timeline: Sequence[TimelineEntry]
    sealed: bool = True
    """False: the writer ended before it had sealed the records; what is there is true and may not be all."""

    @property
    def drained(self) -> bool:
        return self.sealed and any(isinstance(entry, Drained) for entry in self.timeline)

    def struck(self) -> Iterator[FaultStruck]:
        return (entry for entry in self.timeline if isinstance(entry, FaultStruck))

    def digest(self) -> str:
        """SHA-256 of the canonical history: what happened and in which order, without clock and machine."""
        encoder = msgspec.msgpack.Encoder(order="sorted")
        sha = hashlib.sha256()
        for stamped in self.records:
            sha.update(encoder.encode(stamped.record))
        for entry in self.timeline:
            sha.update(encoder.encode(_without_clock(entry)))
        return sha.hexdigest()


def _without_clock(entry: TimelineEntry) -> TimelineEntry:
    entry = msgspec.structs.replace(entry, stamp=Stamp(0, entry.stamp.step))
    if isinstance(entry, FaultStruck):
        return msgspec.structs.replace(entry, bite=msgspec.structs.replace(entry.bite, pids=()))
    return entry
