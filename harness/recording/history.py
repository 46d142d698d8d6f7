"""A history: everything that is needed to judge a run again. What was offered, delivered, checkpointed and kept, and
the timeline of what really happened to the machines, with the proof that each fault bit.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

import msgspec

from ..core.promises import Extent
from .records import Offered, OfferedSpan, Record, Stamped, no_such_record

if TYPE_CHECKING:
    from .sealed import DeliveredColumns

RecordType = TypeVar("RecordType", bound=Record)


class Stamp(msgspec.Struct, frozen=True):
    """When, on the recorder's clock."""

    at: int
    """Microseconds since the run began; virtual in the simulator."""
    step: int | None = None
    """The simulator's step."""


class Proof(msgspec.Struct, frozen=True):
    """How often a fault got in the way of something, as counted by whoever carried it out."""

    count: int
    what: str
    """`messages held back`."""

    def __str__(self) -> str:
        return f"{self.what}: {self.count:,}"


class Lost(msgspec.Struct, frozen=True):
    """What a loss of power takes from what was durable for a process."""

    terms: str
    """What is promised of the storage, as claims state it."""
    what: str
    """In words."""
    extent: Extent
    of_sink: bool = False
    """Whether the words are about what the query writes, and not about its checkpoint."""


class Bite(msgspec.Struct, frozen=True):
    """What proves, mechanically, that a fault bit one of its targets, or shows that it did not.

    It takes what a fault of any kind needs, that something was there to be hit while input was still to be processed,
    and what this kind needs: nodes that are gone, or something that was got in the way of, or both.
    """

    target: str
    """As the schedule names it; of a link, both ends."""
    node: str | None
    """What it stood for when the fault struck: a node, or a link; None: nothing."""
    actors: tuple[str, ...]
    """The slices or drivers that ran there, or the ends of the link."""
    outstanding: bool
    """Whether input was still to be processed: a fault after the end harms nobody."""
    gone: bool | None = None
    """Whether every process of the node was seen to be gone; None where the fault ends none."""
    pids: tuple[int, ...] = ()
    held_at_address: bool = True
    """Whether the node was held at the address until it died."""
    lasting: bool = False
    """Whether the proof is known only when the fault heals."""
    proof: Proof | None = None
    """None where nothing is counted, or has been yet."""

    @property
    def bit(self) -> bool:
        return not self.why_not

    @property
    def why_not(self) -> str:
        """Empty when it bit."""
        if self.node is None:
            return f"{self.target} ran nowhere"
        if self.gone is False:
            return f"the processes of {self.node} were not seen to be gone"
        if not self.outstanding:
            return "all input had been processed by then"
        if not self.held_at_address:
            return f"{self.node} was not held at the address"
        if self.lasting and self.proof is None:
            return "it was not seen to heal"
        if self.proof is not None and not self.proof.count:
            return f"it got in the way of nothing ({self.proof})"
        return ""


class FaultStruck(msgspec.Struct, frozen=True, tag="fault-struck", omit_defaults=True):
    """A fault was carried out on one of its targets; the bite says whether that harmed anything."""

    stamp: Stamp
    number: int
    """The fault's place in the schedule."""
    fault: str
    """As it is shown; which kind it is says the schedule."""
    address: str | None
    bite: Bite
    lost: Lost | None = None
    """Where the power failed: everything died, and this is gone."""
    under_way: tuple[str, ...] = ()
    """Where work takes time: what the node was working on, and had not taken when it died, by the addresses after which
    it would have."""


class FaultHealed(msgspec.Struct, frozen=True, tag="fault-healed"):
    """What a fault did to one of its targets has come to its end."""

    stamp: Stamp
    number: int
    fault: str
    target: str
    """As in the bite."""
    proof: Proof


class FaultMissed(msgspec.Struct, frozen=True, tag="fault-missed"):
    """The run ended before the fault's trigger came."""

    stamp: Stamp
    number: int
    fault: str


class NodeGone(msgspec.Struct, frozen=True, tag="node-gone", omit_defaults=True):
    """The loss of a node was detected."""

    stamp: Stamp
    node: str
    ended_for: str = ""
    """Why the harness has ended it, which no fault asked for; empty where it has not."""


class NodeUp(msgspec.Struct, frozen=True, tag="node-up"):
    """A node is there, and can be given slices."""

    stamp: Stamp
    node: str


class Placed(msgspec.Struct, frozen=True, tag="placed"):
    """A node began to start an incarnation; restoring its state comes next."""

    stamp: Stamp
    actor: str
    incarnation: int
    node: str


class Drained(msgspec.Struct, frozen=True, tag="drained", omit_defaults=True):
    """The end of the input has passed through all slices and nothing more is due."""

    stamp: Stamp
    behind: tuple[tuple[str, int], ...] = ()
    """(slice, incarnation) of those that run, and never got in sync with their peers though no fault was in force."""


class IncarnationFailed(msgspec.Struct, frozen=True, tag="life-failed", omit_defaults=True):
    """An incarnation of the subject was ended by an error of its own."""

    stamp: Stamp
    actor: str
    incarnation: int
    batch: int
    """The newest that had been begun; -1: none."""
    why: str
    """The error, with the place in the user's code where that is known."""
    disturbed: bool = False
    """Whether a fault was in force at any moment of that incarnation, and may have made it fail."""


class Stalled(msgspec.Struct, frozen=True, tag="stalled"):
    """The subject has come to rest without being drained: nothing is due any more, no fault is in force, and a machine
    is there for every slice. Who waits longer waits for nothing. Only a world that knows all that is due can say so."""

    stamp: Stamp
    waiting_for: str
    """Who has not come to its end, and what it has not heard."""


class Aborted(msgspec.Struct, frozen=True, tag="aborted", omit_defaults=True):
    """The run was given up before it was drained."""

    stamp: Stamp
    why: str
    silent: int | None = None
    """For how long the subject had given no sign of work by then, microseconds; None where that was not measured, or
    means nothing."""


class Remembered(msgspec.Struct, frozen=True, tag="remembered", omit_defaults=True):
    """In the simulator: the subject's code may remember what a crash would have taken from a real process."""

    stamp: Stamp
    what: str
    """How that shows; empty where it does not."""
    not_looked_at: str = ""
    """Where it could not be looked for; empty where all was seen."""


TimelineEntry = (
    FaultStruck
    | FaultHealed
    | FaultMissed
    | NodeGone
    | NodeUp
    | Placed
    | IncarnationFailed
    | Drained
    | Stalled
    | Aborted
    | Remembered
)


@runtime_checkable
class Records(Protocol):
    """Records that are somewhere else, of which those of some kinds can be read without the others."""

    def of(self, *kinds: type[Record]) -> Iterator[Stamped]: ...


@runtime_checkable
class Tables(Protocol):
    """Records of which those that were delivered can be read in columns, and of those that were offered how many."""

    def delivered(self) -> Iterator[DeliveredColumns]: ...

    def offered(self) -> Iterator[OfferedSpan]: ...


def in_tables(records: Sequence[Stamped]) -> Tables | None:
    """The same records, where they are in tables."""
    return records if not isinstance(records, list | tuple) and isinstance(records, Tables) else None


def of(records: Sequence[Stamped], *kinds: type[Record]) -> Iterator[Stamped]:
    """The records of these kinds, in their order."""
    if not isinstance(records, (list, tuple)) and isinstance(records, Records):
        return records.of(*kinds)
    if len(kinds) == 1:
        (kind,) = kinds
        return iter([stamped for stamped in records if type(stamped.record) is kind])
    wanted = frozenset(kinds)
    return iter([stamped for stamped in records if type(stamped.record) in wanted])


@dataclass(frozen=True)
class History:
    """What one run leaves behind."""

    records: Sequence[Stamped]
    timeline: Sequence[TimelineEntry]
    sealed: bool = True
    """False: the writer ended before it had sealed the records; what is there is true and may not be all."""
    known: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was found out about it by those who are asked for the same again."""

    def of(self, *kinds: type[Record]) -> Iterator[Stamped]:
        """The records of these kinds, in their order. Whoever needs only some asks for them here: of a long history
        they are read from the disk each time."""
        return of(self.records, *kinds)

    def each(self, kind: type[RecordType]) -> Iterator[RecordType]:
        """The records of one kind, in their order, without the time of each."""
        return (stamped.record for stamped in self.of(cast(type[Record], kind)) if isinstance(stamped.record, kind))

    def offered(self) -> Iterator[OfferedSpan]:
        """When, by which source and how many events were offered, record by record, and where numbers do not follow one
        another, in parts of one."""
        if (tables := in_tables(self.records)) is not None:
            yield from tables.offered()
            return
        for stamped in self.of(Offered):
            record = stamped.record
            assert isinstance(record, Offered)
            seqs = [event.seq for event in record.events]
            begins = [place for place, seq in enumerate(seqs) if not place or seq != seqs[place - 1] + 1]
            for begin, end in pairwise([*begins, len(seqs)]):
                yield OfferedSpan(stamped.at, record.source, seqs[begin], end - begin)

    @property
    def drained(self) -> bool:
        return self.sealed and any(isinstance(entry, Drained) for entry in self.timeline)

    def struck(self) -> Iterator[FaultStruck]:
        """The faults that struck, each with the proof that came when it healed. What one fault does to a target in
        several ways heals in the order in which it was done."""
        proofs: dict[tuple[int, str], deque[Proof]] = {}
        for entry in self.timeline:
            if isinstance(entry, FaultHealed):
                proofs.setdefault((entry.number, entry.target), deque()).append(entry.proof)
        for entry in self.timeline:
            if isinstance(entry, FaultStruck):
                healed = proofs.get((entry.number, entry.bite.target)) if entry.bite.lasting else None
                if healed:
                    bite = msgspec.structs.replace(entry.bite, proof=healed.popleft())
                    entry = msgspec.structs.replace(entry, bite=bite)
                yield entry

    def hits(self) -> dict[tuple[int, str], FaultStruck]:
        """Number of a fault and actor -> how that struck this."""
        return {(one.number, actor): one for one in self.struck() for actor in one.bite.actors}

    def healed(self) -> dict[tuple[int, str], int]:
        """Number of a fault and target -> when all that it did there was over."""
        found: dict[tuple[int, str], int] = {}
        for entry in self.timeline:
            if isinstance(entry, FaultHealed):
                what = entry.number, entry.target
                found[what] = max(entry.stamp.at, found.get(what, entry.stamp.at))
        return found

    def digest(self) -> str:
        """SHA-256 of the canonical history: what happened and in which order, without clock and machine. Raises
        InvalidOperator for a value that no record can hold."""
        sha = hashlib.sha256()
        digest_records(sha, self.records)
        for entry in self.digested_timeline():
            sha.update(entry)
        return sha.hexdigest()

    def digested_timeline(self) -> Iterator[bytes]:
        """What of the timeline goes into the digest, after the records."""
        encode = msgspec.msgpack.Encoder(order="sorted").encode
        return (encode(_without_clock(entry)) for entry in self.timeline)


def digest_records(sha: hashlib._Hash, records: Iterable[Stamped]) -> None:
    """Raises InvalidOperator for a value that no record can hold."""
    encode = msgspec.msgpack.Encoder(order="sorted").encode
    for stamped in records:
        try:
            sha.update(encode(stamped.record))
        except (ValueError, OverflowError, TypeError) as error:
            raise no_such_record(stamped, error) from error


def _without_clock(entry: TimelineEntry) -> TimelineEntry:
    entry = msgspec.structs.replace(entry, stamp=Stamp(0, entry.stamp.step))
    if isinstance(entry, FaultStruck):
        return msgspec.structs.replace(entry, bite=msgspec.structs.replace(entry.bite, pids=()))
    if isinstance(entry, Aborted) and entry.silent is not None:
        return msgspec.structs.replace(entry, silent=0)
    return entry
