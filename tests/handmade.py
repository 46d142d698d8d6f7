"""Histories made by hand, record by record: what was taken is stated, and what was made of it is worked out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import Guarantee
from streamproof.harness.core.operators import Operator, RandomOperator, rows_of
from streamproof.harness.core.slice_names import channel_name, replica_name
from streamproof.harness.core.topology import Edge, Role, Stage, Topology
from streamproof.harness.core.verdicts import Verdict
from streamproof.harness.judging.oracle import Case, judge_each
from streamproof.harness.judging.reexecution import Reexecution
from streamproof.harness.judging.reexecutor import reexecute
from streamproof.harness.protocol.merging import Merge
from streamproof.harness.protocol.spec import Numbering, Setup
from streamproof.harness.recording.history import (
    Bite,
    Drained,
    FaultStruck,
    History,
    NodeGone,
    Placed,
    Stamp,
    TimelineEntry,
)
from streamproof.harness.recording.records import (
    CheckpointDurable,
    CheckpointTaken,
    Delivered,
    InSync,
    Kept,
    Offered,
    Opened,
    Promoted,
    Record,
    Restored,
    Stamped,
    Started,
    Taken,
)
from streamproof.oracles import ORACLES

JUDGES = {oracle.guarantee: oracle for oracle in ORACLES}


class Pass(Operator[None]):
    """Passes everything on. Keeps nothing."""

    fan_out = 1

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> Iterable[Output]:
        return [(event.key, event.value)]


class Log(Operator[list[object]]):
    """Keeps the values that it has taken, in order; every output says them all."""

    fan_out = 1

    def initial_state(self) -> list[object]:
        return []

    def process(self, event: Event, state: list[object]) -> Iterable[Output]:
        state.append(event.value)
        return [(event.key, list(state))]


class Highest(Operator[list[int]]):
    """Passes on what is higher than all before: how many that are depends on the order."""

    fan_out = 1

    def initial_state(self) -> list[int]:
        return [-1]

    def process(self, event: Event, state: list[int]) -> Iterable[Output]:
        if event.value <= state[0]:
            return []
        state[0] = event.value
        return [(event.key, event.value)]


class Last(Operator[dict[str, int]]):
    """The sum of the events of the last 10 ms, and before: forgets what is older."""

    fan_out = 1
    window = 10

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        for time in [time for time in state if int(time) <= event.time - 10]:
            del state[time]
        state[str(event.time)] = event.value
        return [(event.key, sum(state.values()))]


class Draw(RandomOperator[list[int]]):
    """Draws a number for every event, keeps it and passes it on."""

    fan_out = 1

    def initial_state(self) -> list[int]:
        return []

    def process_with(self, event: Event, state: list[int], random: object) -> Iterable[Output]:
        drawn = random.randrange(1_000_000)  # type: ignore[attr-defined]
        state.append(drawn)
        return [(event.key, drawn)]


def chain(*operators: Operator[Any], sources: Sequence[str] = ("a",)) -> Topology:
    """The sources all feed the first operator; each feeds the next: op0, op1, ...; the last feeds the sink."""
    names = [f"op{number}" for number in range(len(operators))]
    edges = [Edge(source, names[0]) for source in sources]
    edges += [Edge(up, down) for up, down in zip(names, [*names[1:], "sink"], strict=True)]
    stages = {name: Stage(operator) for name, operator in zip(names, operators, strict=True)}
    return Topology("made-by-hand", stages, tuple(edges), tuple(sources))


@dataclass
class Made:
    """One microsecond passes from each record to the next. Slices are written without `-0`; each incarnation has a node
    of its own, `op0-1` and so on."""

    topology: Topology
    numbering: Numbering = Numbering.CONTINUED
    replicas: int = 1
    merge: Merge | None = None
    at: int = 0
    records: list[Stamped] = field(default_factory=list)
    timeline: list[TimelineEntry] = field(default_factory=list)
    _offered: dict[str, int] = field(default_factory=dict)
    _delivered: dict[str, int] = field(default_factory=dict)

    @property
    def subject(self) -> SchemeSubject:
        setups = {
            Role.SOURCE: Setup(numbering=Numbering.CONTINUED),
            Role.OPERATOR: Setup(numbering=self.numbering, merge=self.merge),
            Role.SINK: Setup(),
        }
        return SchemeSubject("made-by-hand", self.topology, setups, (), self.replicas)

    def note(self, record: Record) -> None:
        self.at += 1
        self.records.append(Stamped(self.at, record))

    def offer(self, source: str, *values: object, every: int = 1, key: str = "k") -> None:
        """Numbers rise by one; event time by `every` ms."""
        first = self._offered.get(source, 0)
        numbers = range(first + 1, first + len(values) + 1)
        events = [Event(f"{source}-0", n, key, v, n * every) for n, v in zip(numbers, values, strict=True)]
        self._offered[source] = first + len(values)
        self.note(Offered(f"{source}-0", events))

    def start(
        self,
        name: str,
        number: int,
        *,
        replica: int = 0,
        restored: tuple[int, int] | None = None,
        next_seq: int = 1,
        seed: int = 0,
        in_sync: bool = True,
    ) -> None:
        actor = replica_name(f"{name}-0", replica)
        self.timeline.append(Placed(Stamp(self.at), actor, number, f"{name}-{number}"))
        self.note(Started(f"{name}-0", number, restored, next_seq, replica, seed))
        if in_sync:
            self.note(InSync(f"{name}-0", number))

    def lose(self, name: str, number: int, *, replica: int = 0, fault: int = 0) -> None:
        """Its node is gone, and that is noticed at once."""
        self.at += 1
        actor = replica_name(f"{name}-0", replica)
        bite = Bite(actor, f"{name}-{number}", (actor,), outstanding=True, gone=True)
        self.timeline.append(FaultStruck(Stamp(self.at), fault, f"crash {actor}", None, bite))
        self.timeline.append(NodeGone(Stamp(self.at), f"{name}-{number}"))

    def restore(self, name: str, number: int, checkpoint: tuple[int, int], next_seq: int) -> None:
        self.note(Restored(f"{name}-0", number, checkpoint, next_seq))

    def in_sync(self, name: str, number: int) -> None:
        self.note(InSync(f"{name}-0", number))

    def promote(self, name: str, number: int) -> None:
        self.note(Promoted(f"{name}-0", number))

    def checkpoint(self, name: str, number: int, which: int) -> None:
        self.note(CheckpointTaken(f"{name}-0", number, which))

    def durable(self, name: str, number: int, which: int) -> None:
        self.note(CheckpointDurable(f"{name}-0", number, which))

    def open(self, up: str, up_number: int, down: str, down_number: int, next_seq: int, after: int = 0) -> None:
        self.note(Opened(f"{up}-0", up_number, f"{down}-0", down_number, after, next_seq))

    def take(
        self, name: str, number: int, up: str, up_number: int, first: int, last: int, count: int | None = None
    ) -> None:
        many = last - first + 1 if count is None else count
        self.note(Taken(f"{name}-0", number, f"{up}-0", up_number, first, last, many))

    def deliver(self, name: str, number: int, *seqs: int) -> None:
        """Rows of these numbers, as the incarnation has made them when the history is finished."""
        rows = [Event(f"{name}-0", seq, "", None, 0) for seq in seqs]
        channel = channel_name(f"{name}-0", "sink-0")
        position = self._delivered.get(channel, 0)
        self._delivered[channel] = position + len(rows)
        self.note(Delivered("sink-0", channel, number, position, rows))

    def keep(self, name: str, number: int) -> None:
        self.note(Kept(f"{name}-0", number, {}))

    def rerun(self) -> Reexecution:
        return reexecute(self.subject.specs, self.records)

    def history(
        self, change: Callable[[Event], Event] = lambda row: row, kept: Mapping[int, object] | None = None
    ) -> History:
        """With what was delivered and kept filled in. `change` alters delivered rows, `kept` what an incarnation of the
        last operator has kept."""
        rerun = self.rerun()
        last = self.topology.operator_slices[-1]
        records: list[Stamped] = []
        for stamped in self.records:
            record = stamped.record
            if isinstance(record, Delivered):
                sender = rerun.reruns[record.channel.partition(">")[0]][record.incarnation]
                made = {event.seq: event for event in sender.channel(record.sink)[0]}
                rows = [change(made[row.seq]) for row in record.rows]
                stamped = Stamped(stamped.at, msgspec.structs.replace(record, rows=rows))
            elif isinstance(record, Kept):
                one = rerun.reruns[record.actor][record.incarnation]
                stage = self.topology.stages[record.actor.removesuffix("-0")]
                rows_kept = rows_of(stage.operator, one.state)
                if kept is not None and record.actor == last and record.incarnation in kept:
                    rows_kept = {"": kept[record.incarnation]}
                stamped = Stamped(stamped.at, msgspec.structs.replace(record, rows=rows_kept))
            records.append(stamped)
        return History(records, [*self.timeline, Drained(Stamp(self.at + 1))])

    def case(self, history: History | None = None, *, virtual_time: bool = True) -> Case:
        history = history or self.history()
        return Case(history, self.subject.collate(history), None, virtual_time)

    def verdict(
        self, guarantee: str | Guarantee, history: History | None = None, *, virtual_time: bool = True
    ) -> Verdict:
        one = guarantee if isinstance(guarantee, Guarantee) else Guarantee(guarantee)
        return judge_each(self.case(history, virtual_time=virtual_time), [one], JUDGES)[0]
