"""Run folders of any length, made by hand: word count under passive replication, its counters fed one word at a time.

Benchmarks and tests judge and draw such folders. To make one by hand, and draw it, in this folder:

    python long_histories.py FOLDER 10000000 crash
    streamproof report FOLDER
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import msgspec

from streamproof.faults.crash import crash as crash_of
from streamproof.harness.contracts.registry import Named
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import precise_recovery, rollback_recovery
from streamproof.harness.core.quantities import events
from streamproof.harness.recording.folder import write_json
from streamproof.harness.recording.history import Bite, Drained, FaultStruck, NodeGone, Placed, Stamp, TimelineEntry
from streamproof.harness.recording.records import (
    CheckpointDurable,
    CheckpointTaken,
    Delivered,
    Ended,
    Kept,
    Offered,
    Opened,
    Record,
    Stamped,
    Started,
    Taken,
)
from streamproof.harness.recording.sealing import seal
from streamproof.harness.running.run import describe
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

SLICES = ("split-0", "count-0", "count-1")
VOCABULARY = 2_000
BATCH = 100


def subject(masked: bool) -> SchemeSubject:
    """`masked`: its sink drops what comes again."""
    return passive_replication(word_count(), checkpoint_every=events(1_000), sink_filter=masked)


def scenario(masked: bool, outputs: int) -> Scenario:
    claims = [precise_recovery() if masked else rollback_recovery()]
    return Scenario(subject(masked), words(VOCABULARY, events=outputs, batch=BATCH), claims=claims)


def masking() -> Scenario:
    """By its name a folder's scenario is found again."""
    return scenario(True, BATCH)


def repeating() -> Scenario:
    """The same, of one whose sink drops nothing."""
    return scenario(False, BATCH)


@dataclass
class _Counter:
    """One incarnation of a counter."""

    name: str
    number: int
    counts: dict[str, int]
    next_seq: int = 1
    position: int = 0

    def take(self, taken: list[Event]) -> tuple[Taken, list[Event]]:
        """What is recorded, and the outputs."""
        made = []
        for event in taken:
            count = self.counts[event.key] = self.counts.get(event.key, 0) + 1
            made.append(Event(self.name, self.next_seq, event.key, count, event.time))
            self.next_seq += 1
        return Taken(self.name, self.number, "split-0", 1, taken[0].seq, taken[-1].seq, len(taken)), made


@dataclass
class Maker:
    """A history with about `outputs` rows delivered, and as many events offered. Where it crashes, count-0 is gone when
    half of the input has been taken, comes back from the checkpoint before, and gives again what it gave since."""

    outputs: int
    crash: bool
    masked: bool
    timeline: list[TimelineEntry] = field(default_factory=list)
    delivered: int = 0
    _at: int = 0

    def _stamped(self, record: Record) -> Stamped:
        self._at += 1
        return Stamped(self._at, record)

    def records(self) -> Iterator[Stamped]:
        workload = scenario(self.masked, self.outputs).workload
        fed = enumerate(workload.draw(self.outputs, workload.seed), start=1)
        receivers = next(spec for spec in subject(self.masked).specs if spec.slice_id == "split-0").receivers
        counters = [_Counter(f"count-{place}", 1, {}) for place in range(2)]
        for name in SLICES:
            self.timeline.append(Placed(Stamp(self._at), name, 1, f"node-{name}"))
            yield self._stamped(Started(name, 1, None, 1))
        for up, to in (("source-0", "split-0"), ("split-0", "count-0"), ("split-0", "count-1")):
            yield self._stamped(Opened(up, 1, to, 1, 0, 1))
        for name in ("count-0", "count-1"):
            yield self._stamped(Opened(name, 1, "sink-0", 1, 0, 1))
        since: list[Event] = []
        """What count-0 has taken since its last checkpoint."""
        checkpoint, saved = 0, (1, dict[str, int]())
        every = max(BATCH, self.outputs // 10)
        """Events from one checkpoint to the next."""
        crashed = False
        for first in range(1, self.outputs + 1, BATCH):
            drawn = [
                Event("source-0", seq, key, value, seq * workload.tick) for seq, (key, value) in islice(fed, BATCH)
            ]
            yield self._stamped(Offered("source-0", drawn))
            yield self._stamped(Taken("split-0", 1, "source-0", 1, drawn[0].seq, drawn[-1].seq, len(drawn)))
            split: dict[int, list[Event]] = defaultdict(list)
            for event in drawn:
                split[receivers[event.value][0]].append(Event("split-0", event.seq, event.value, 1, event.time))
            if self.crash and not crashed and first > self.outputs // 2:
                crashed = True
                yield from self._crash(counters, checkpoint, saved, since)
            for place, taken in sorted(split.items()):
                yield from self._taken(counters[place], taken)
            since += split[0]
            if len(since) >= every and not crashed:
                checkpoint += 1
                yield self._stamped(CheckpointTaken("count-0", 1, checkpoint))
                yield self._stamped(CheckpointDurable("count-0", 1, checkpoint))
                saved, since = (counters[0].next_seq, dict(counters[0].counts)), []
            elif crashed or not self.crash:
                since = []
        yield self._stamped(Kept("split-0", 1, {}))
        for counter in counters:
            yield self._stamped(Kept(counter.name, counter.number, counter.counts))
        yield self._stamped(Ended("split-0", 1, {"source-0": [1]}))
        for counter in counters:
            yield self._stamped(Ended(counter.name, counter.number, {"split-0": [1]}))
        self.timeline.append(Drained(Stamp(self._at + 1)))

    def _taken(self, counter: _Counter, taken: list[Event], known: int = 0) -> Iterator[Stamped]:
        """`known`: the sink drops outputs with numbers up to this."""
        record, made = counter.take(taken)
        yield self._stamped(record)
        rows = [row for row in made if row.seq > known]
        if rows:
            position, counter.position = counter.position, counter.position + len(rows)
            self.delivered += len(rows)
            yield self._stamped(Delivered("sink-0", f"{counter.name}>sink-0", counter.number, position, rows))

    def _crash(
        self, counters: list[_Counter], checkpoint: int, saved: tuple[int, dict[str, int]], since: list[Event]
    ) -> Iterator[Stamped]:
        dead = counters[0]
        bite = Bite("count-0", "node-count-0", ("count-0",), outstanding=True, gone=True)
        self.timeline.append(FaultStruck(Stamp(self._at), 0, "crash count-0", None, bite))
        self.timeline.append(NodeGone(Stamp(self._at), "node-count-0"))
        self.timeline.append(Placed(Stamp(self._at), "count-0", 2, "node-again"))
        counters[0] = _Counter("count-0", 2, saved[1], saved[0], dead.position)
        yield self._stamped(Started("count-0", 2, (1, checkpoint) if checkpoint else None, saved[0]))
        after = since[0].seq - 1
        yield self._stamped(Opened("split-0", 1, "count-0", 2, after, since[-1].seq + 1))
        yield self._stamped(Opened("count-0", 2, "sink-0", 1, dead.next_seq - 1, saved[0]))
        for start in range(0, len(since), BATCH):
            known = dead.next_seq - 1 if self.masked else 0
            yield from self._taken(counters[0], since[start : start + BATCH], known)


def write(folder: Path, outputs: int, *, crash: bool, masked: bool) -> int:
    """Returns how many rows were delivered."""
    folder.mkdir(parents=True, exist_ok=True)
    maker = Maker(outputs, crash, masked)
    origin = f"{Path(__file__).stem}:{'masking' if masked else 'repeating'}"
    faults = [crash_of("count-0").after(events(1))] if crash else []
    named = Named(origin, origin, "", replace(scenario(masked, outputs), faults=faults))
    write_json(folder / "scenario.json", describe(named, EmbeddedCluster(), 7, folder.name))

    def records() -> Iterator[Stamped]:
        yield from maker.records()
        # What happened is known then, and is sealed along with the records.
        lines = (msgspec.json.encode(entry) + b"\n" for entry in maker.timeline)
        (folder / "timeline.jsonl").write_bytes(b"".join(lines))

    seal(records(), folder)
    return maker.delivered


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), crash="crash" in sys.argv, masked="masked" in sys.argv)
