"""A history as a diagram of space and time: a line for each incarnation of a slice, messages as arrows between them.

Time goes by steps: each thing that happened has a column of its own, however close to another, so that causes stand
before effects and nothing lies on top of anything else. When that was is written above.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Final

import numpy as np

from ...core.slice_names import channel_name, slice_of
from ...core.topology import Role
from ...core.wording import numbers_said
from ...judging.incarnations import in_time, losses
from ...judging.reexecution import Reexecution
from ...judging.reruns import Derivation, Rerun
from ...recording.history import FaultHealed, FaultStruck, History, NodeGone, Placed
from ...recording.records import (
    Adopted,
    Changed,
    CheckpointDurable,
    CheckpointTaken,
    Closed,
    Delivered,
    Fired,
    InSync,
    Offered,
    Opened,
    Promoted,
    Refused,
    Restored,
    Started,
    Taken,
)
from ...worlds.simulated.seen_beside import SeenBeside, SentWhileWaiting
from .affected import Root, root_of
from .holding import HeldStates, inputs_said
from .lanes import ReplayOverChannel, replays

MOST_STEPS: Final = 1_500
"""So many are drawn at most."""
BEFORE: Final = 40
AFTER: Final = 110
"""Steps that are drawn before and after a fault."""

SliceIncarnation = tuple[str, int]
"""Slice and incarnation."""


class StepSign(StrEnum):
    """How a step is drawn on its line."""

    DOT = "dot"
    PLACED = "placed"
    START = "start"
    TAKEN = "checkpoint-taken"
    DURABLE = "checkpoint-durable"
    CRASH = "crash"
    NOTICED = "noticed"
    WORD = "word"


@dataclass(frozen=True)
class IncarnationLine:
    """One incarnation of a slice."""

    slice_id: str
    incarnation: int
    role: Role
    begins: int
    """The step at which it is there; -1: before the first that is drawn."""
    placed: int | None
    """The step at which a node began to start it."""
    ends: int | None
    """The step at which it was lost; None: it was there to the end."""
    node: str

    @property
    def name(self) -> str:
        return f"{self.slice_id}#{self.incarnation}" if self.role is Role.OPERATOR or self.node else self.slice_id


@dataclass(frozen=True)
class MessageArrow:
    """Events that went over a channel together."""

    sender: int
    """Its line."""
    departs: int
    """The step at which the last of them was made, or was sent again; -1: before the first that is drawn."""
    receiver: int
    arrives: int | None
    """None: nobody ever took it."""
    said: str
    numbers: str
    roots: frozenset[Root]
    again: bool
    """Whether it had been made before the channel was opened."""
    instead: bool = False
    """Nobody took it, and a receiver took something else under its numbers."""
    passed: bool = False
    """It came, and its receiver has kept nothing of it."""


@dataclass(frozen=True)
class DiagramStep:
    """Something that happened."""

    at: int
    line: int | None
    sign: StepSign
    said: str
    roots: frozenset[Root] = frozenset()
    holds: tuple[tuple[str, str], ...] = ()
    """What the slice holds from now on: labels and what they say."""
    from_step: int | None = None
    """Where it goes on from what was saved at another step: that."""


@dataclass(frozen=True)
class SpaceTime:
    """All that is drawn."""

    lines: tuple[IncarnationLine, ...]
    steps: tuple[DiagramStep, ...]
    arrows: tuple[MessageArrow, ...]
    left_out: int
    """Steps that are not drawn, since there are too many."""
    began: int = 0
    """When the first step was."""


@dataclass(frozen=True)
class _Saved:
    """A checkpoint."""

    step: int | None = None
    """At which it was taken; -1 where that lies before what is drawn."""
    heard: Mapping[str, int] = field(default_factory=dict)
    """The last that had been taken of each upstream slice."""


@dataclass
class _Drawn:
    """What is found out step by step."""

    steps: list[DiagramStep] = field(default_factory=list)
    made: dict[tuple[str, int, Derivation], int] = field(default_factory=dict)
    """(slice, incarnation, what it took) -> at which step it took that last."""
    closed: dict[tuple[str, int, int], int] = field(default_factory=dict)
    fired: dict[SliceIncarnation, int] = field(default_factory=dict)
    opened: dict[tuple[str, int, str, int], int] = field(default_factory=dict)
    checkpoints: dict[tuple[str, int, int], _Saved] = field(default_factory=dict)
    taken: dict[SliceIncarnation, int] = field(default_factory=dict)
    """How many events it has taken itself."""
    heard: dict[SliceIncarnation, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """The last that it, or who made the state that it goes on from, has taken of each upstream slice."""
    arrows: list[MessageArrow] = field(default_factory=list)
    placed: dict[SliceIncarnation, int] = field(default_factory=dict)
    delivered: int = 0


class _Diagram:
    """Draws one history, or what of it lies in a window of time; of what lies outside, which can be millions of events,
    nothing is kept but counts."""

    def __init__(self, history: History, rerun: Reexecution, begins: int, ends: int, beside: SeenBeside | None) -> None:
        self._history = history
        self._rerun = rerun
        self._begins = begins
        self._ends = ends
        self._lost = losses(history)
        self._replays = {(r.sender, r.incarnation, r.receiver, r.receiver_incarnation): r for r in replays(history)}
        self._held = HeldStates(rerun)
        self._beside = beside
        self._drawn = _Drawn()
        self._lines: dict[SliceIncarnation, int] = {}
        self._intakes = {
            (slice_id, number): iter(rerun.batches(one))
            for slice_id, reruns in rerun.reruns.items()
            for number, one in reruns.items()
        }
        self._deliveries = {channel: iter(found) for channel, found in rerun.deliveries.items()}
        self._sinks: dict[str, list[tuple[int, int]]] = {}
        """Sink -> since when each of its incarnations was there. There is more than one where it can be lost."""
        for stamped in history.of(Started):
            if isinstance(one := stamped.record, Started) and rerun.topology.role(one.slice) is Role.SINK:
                self._sinks.setdefault(one.slice, []).append((stamped.at, one.incarnation))
        self._placed = {slice_of(e.actor) for e in history.timeline if isinstance(e, Placed)}

    # Who is there

    def lines(self) -> list[SliceIncarnation]:
        """In the order of the topology, and of their incarnations."""
        found = []
        for slice_id in self._rerun.topology.slices:
            if self._rerun.topology.role(slice_id) is not Role.OPERATOR and slice_id not in self._placed:
                found.append((slice_id, 1))
                continue
            for started, number in self._incarnations_of(slice_id):
                over = self._lost.get((slice_id, number))
                if started <= self._ends and (over is None or over >= self._begins):
                    found.append((slice_id, number))
        return found

    def _incarnations_of(self, slice_id: str) -> Iterator[tuple[int, int]]:
        """Since when each incarnation was there, by their numbers."""
        if slice_id in self._sinks:
            yield from sorted(self._sinks[slice_id], key=lambda one: one[1])
            return
        for number, rerun in sorted(self._rerun.reruns[slice_id].items()):
            yield self._rerun.started_at(rerun), number

    def _sink_at(self, sink: str, at: int) -> SliceIncarnation:
        """Which incarnation of a sink delivered something: the outside does not say."""
        there = [number for started, number in self._sinks.get(sink, ()) if started <= at]
        return sink, max(there, default=1)

    def draw(self) -> SpaceTime:
        shown = self.lines()
        self._lines = {who: place for place, who in enumerate(shown)}
        left_out = 0
        for at, what in self._happenings():
            if len(self._drawn.steps) >= MOST_STEPS and self._is_drawn(at):
                left_out += 1
                continue
            self._step(at, what)
        steps = self._drawn.steps
        arrows = [*self._drawn.arrows, *self._never_taken()]
        began = steps[0].at if steps else 0
        return SpaceTime(tuple(self._incarnation_lines(shown)), tuple(steps), tuple(arrows), left_out, began)

    def _happenings(self) -> Iterator[tuple[int, object]]:
        """Records and the timeline up to the end of the window: what lies before it as it was recorded, and then in one
        order of time. What has one stamp: first what slices did, then what came to who waited, of which a fault is the
        end; but who is placed comes before what it does."""
        found: list[tuple[int, int, int, object]] = []
        for n, stamped in enumerate(self._history.of(*_SHOWN)):
            if stamped.at < self._begins:
                yield stamped.at, stamped.record
            elif stamped.at <= self._ends:
                found.append((stamped.at, 1, n, stamped.record))
        found += (
            (one.at, 2, n, one)
            for n, one in enumerate(() if self._beside is None else self._beside.sent)
            if self._is_drawn(one.at)
        )
        found += (
            (entry.stamp.at, 0 if isinstance(entry, Placed) else 3, n, entry)
            for n, entry in enumerate(in_time(self._history))
            if isinstance(entry, FaultStruck | FaultHealed | NodeGone | Placed) and entry.stamp.at <= self._ends
        )
        found.sort(key=lambda one: one[:3])
        yield from ((at, what) for at, _, _, what in found)

    def _incarnation_lines(self, shown: Sequence[SliceIncarnation]) -> Iterator[IncarnationLine]:
        steps = self._drawn.steps
        started, lost = self._moments()
        nodes = {(slice_of(e.actor), e.incarnation): e.node for e in self._history.timeline if isinstance(e, Placed)}
        for place, (slice_id, number) in enumerate(shown):
            role = self._rerun.topology.role(slice_id)
            over = self._lost.get((slice_id, number))
            ends = lost.get(place)
            if ends is None and over is not None and over <= self._ends:
                ends = next((n for n, step in enumerate(steps) if step.at >= over), len(steps) - 1)
            yield IncarnationLine(
                slice_id,
                number,
                role,
                started.get(place, -1),
                self._drawn.placed.get((slice_id, number)),
                ends,
                nodes.get((slice_id, number), ""),
            )

    def _moments(self) -> tuple[dict[int, int], dict[int, int]]:
        """Line -> the step at which it starts, and at which it is lost."""
        started: dict[int, int] = {}
        lost: dict[int, int] = {}
        for number, step in enumerate(self._drawn.steps):
            if step.line is None:
                continue
            if step.sign is StepSign.START:
                started.setdefault(step.line, number)
            elif step.sign is StepSign.CRASH:
                lost.setdefault(step.line, number)
        return started, lost

    # What happened

    def _add(
        self,
        at: int,
        who: SliceIncarnation | None,
        sign: StepSign,
        said: str,
        roots: frozenset[Root] = frozenset(),
        holds: Iterable[tuple[str, str]] = (),
        from_step: int | None = None,
    ) -> int:
        """The number of the step; -1 where it lies before the window."""
        if at < self._begins:
            return -1
        line = None if who is None else self._lines.get(who)
        self._drawn.steps.append(DiagramStep(at, line, sign, said, roots, tuple(holds), from_step))
        return len(self._drawn.steps) - 1

    def _step(self, at: int, what: object) -> None:
        drawn = self._drawn
        match what:
            case Offered():
                self._offered(at, what)
            case Taken():
                self._taken(at, what)
            case Delivered():
                self._delivered(at, what)
            case Started():
                self._started(at, what)
            case Restored():
                of, number = what.checkpoint
                who = (what.slice, what.incarnation)
                self._goes_on(at, who, f"takes over checkpoint {number} of #{of}", what.checkpoint)
            case CheckpointTaken():
                who = (what.slice, what.incarnation)
                said = f"{_said(who)} takes checkpoint {what.number}"
                if who in self._intakes and self._is_drawn(at):
                    cut = self._held.made_of(self._rerun_of(who), drawn.taken.get(who, 0))
                    said += f", of a state made of {cut}"
                step = self._add(at, who, StepSign.TAKEN, said, holds=self._holds(who, at))
                drawn.checkpoints[what.slice, what.incarnation, what.number] = _Saved(step, dict(drawn.heard[who]))
            case CheckpointDurable():
                who = (what.slice, what.incarnation)
                self._add(at, who, StepSign.DURABLE, f"checkpoint {what.number} of {_said(who)} is durable")
            case Closed():
                who = (what.slice, what.incarnation)
                said = f"epoch {what.epoch} ends for {_said(who)}"
                drawn.closed[what.slice, what.incarnation, what.epoch] = self._add(at, who, StepSign.WORD, said)
            case Fired():
                who = (what.slice, what.incarnation)
                drawn.fired[who] = self._add(at, who, StepSign.WORD, f"a timer of {_said(who)} fires")
            case Opened():
                self._opened(at, what)
            case Promoted():
                who = (what.slice, what.incarnation)
                self._add(at, who, StepSign.WORD, f"{_said(who)} is active from now on")
            case InSync():
                who = (what.slice, what.incarnation)
                self._add(at, who, StepSign.WORD, f"{_said(who)} is known to be in sync")
            case Refused():
                who = (what.slice, what.incarnation)
                said = f"{_said(who)} refuses {what.message} of {what.peer}#{what.peer_incarnation}, which was replaced"
                self._add(at, who, StepSign.WORD, said)
            case Changed():
                said = f"{what.actor}#{what.incarnation} changes {what.member}, after {what.since:,} inputs"
                settings = ", ".join(f"{name} = {value!r}" for name, value in what.settings.items())
                self._add(at, None, StepSign.WORD, f"{said}: {settings or 'as declared'} (change {what.number})")
            case Adopted():
                who = (what.slice, what.incarnation)
                said = f"{_said(who)} goes by change {what.number}, after {what.position:,} inputs"
                self._add(at, who, StepSign.WORD, said)
            case SentWhileWaiting():
                self._sent(at, what)
            case FaultStruck():
                self._struck(at, what)
            case FaultHealed():
                self._add(at, None, StepSign.WORD, f"{what.fault} has healed")
            case NodeGone():
                self._add(at, None, StepSign.NOTICED, f"the loss of {what.node} is noticed")
            case Placed():
                who = (slice_of(what.actor), what.incarnation)
                if who in self._lines:
                    said = f"{what.node} begins to start {_said(who)}"
                    drawn.placed[who] = self._add(at, who, StepSign.PLACED, said)

    def _offered(self, at: int, what: Offered) -> None:
        if not self._is_drawn(at):
            return
        roots = frozenset((event.source, event.seq) for event in what.events)
        numbers = _numbers([event.seq for event in what.events])
        holds = (("offered", f"up to #{what.events[-1].seq:,}"), *self._held_beside((what.source, 1), at))
        shown = ", ".join(f"({event.key!r}, {event.value!r})" for event in what.events[:3])
        more = ", …" if len(what.events) > 3 else ""
        said = f"{what.source} offers {numbers}: {shown}{more}"
        step = self._add(at, (what.source, 1), StepSign.DOT, said, roots, holds)
        for event in what.events:
            self._drawn.made[what.source, 1, (event.source, event.seq)] = step

    def _taken(self, at: int, what: Taken) -> None:
        who = (what.slice, what.incarnation)
        heard = self._drawn.heard[who]
        heard[what.upstream] = max(heard.get(what.upstream, 0), what.last)
        if who not in self._intakes:
            # A sink: what counts is when it delivers that.
            return
        begin = self._drawn.taken.get(who, 0)
        _, end = next(self._intakes[who])
        self._drawn.taken[who] = end
        if not self._is_drawn(at):
            return
        one = self._rerun_of(who)
        derivations = one.took[begin:end]
        roots = frozenset(map(root_of, derivations))
        numbers = _numbers(one.seqs[begin:end])
        said = f"{_said(who)} takes {numbers} of {what.upstream}#{what.upstream_incarnation}"
        if roots:
            said += f", made of {inputs_said(derivations)}"
        step = self._add(at, who, StepSign.DOT, said, roots, self._holds(who, at))
        self._arrow((what.upstream, what.upstream_incarnation), who, step, derivations, numbers, roots)
        for derivation in derivations:
            self._drawn.made[what.slice, what.incarnation, derivation] = step

    def _sent(self, at: int, what: SentWhileWaiting) -> None:
        """Of what is kept the arrow leads to where it is taken."""
        who, sender = (what.slice_id, what.incarnation), (what.upstream, what.upstream_incarnation)
        said = f"{_said(who)} is sent {numbers_said(what.numbers)} of {_said(sender)} while it takes nothing, and "
        passed = what.passed
        if not passed:
            self._add(at, who, StepSign.WORD, f"{said}keeps it")
            return
        some = f"keeps {numbers_said(what.kept)}, and lets {numbers_said(passed)} pass"
        derivations = self._sent_under(sender, what.slice_id, passed)
        roots = frozenset(map(root_of, derivations))
        step = self._add(at, who, StepSign.WORD, said + (some if what.kept else "lets it pass"), roots)
        self._arrow(sender, who, step, derivations, numbers_said(passed), roots, passed=True)

    def _sent_under(self, sender: SliceIncarnation, to: str, numbers: Sequence[int]) -> list[Derivation]:
        """What a slice has made for another under these numbers."""
        source = self._rerun.sources.get(sender[0])
        one = self._rerun_of(sender) if source is None else source
        events, derivations = one.channel(to, min(numbers), max(numbers))
        wanted = set(numbers)
        return [one for event, one in zip(events, derivations, strict=True) if event.seq in wanted]

    def _delivered(self, at: int, what: Delivered) -> None:
        delivery = next(self._deliveries[what.channel])
        self._drawn.delivered += len(what.rows)
        if not self._is_drawn(at):
            return
        derivations = [one for one in delivery.derivations if one is not None]
        roots = frozenset(map(root_of, derivations))
        numbers = _numbers([event.seq for event in what.rows])
        shown = ", ".join(f"({event.key!r}, {event.value!r})" for event in what.rows[:3])
        more = ", …" if len(what.rows) > 3 else ""
        sender = (what.channel.partition(">")[0], what.incarnation)
        said = f"{what.sink} is given {numbers} of {_said(sender)}: {shown}{more}"
        if len(derivations) < len(what.rows):
            said += "; nothing that was taken gives some of it"
        holds = (("delivered", f"{self._drawn.delivered:,} rows"),)
        sink = self._sink_at(what.sink, at)
        step = self._add(at, sink, StepSign.DOT, said, roots, holds)
        self._arrow(sender, sink, step, derivations, numbers, roots)

    def _started(self, at: int, what: Started) -> None:
        who = (what.slice, what.incarnation)
        operator = self._rerun.topology.role(what.slice) is Role.OPERATOR
        if who not in self._lines or not (operator or what.slice in self._placed):
            return
        if what.restored is None:
            self._add(at, who, StepSign.START, f"{_said(who)} starts blank", holds=self._holds_at_first(who, at))
        else:
            of, number = what.restored
            self._goes_on(at, who, f"starts from checkpoint {number} of #{of}", what.restored)

    def _goes_on(self, at: int, who: SliceIncarnation, how: str, checkpoint: tuple[int, int]) -> None:
        saved = self._drawn.checkpoints.get((who[0], *checkpoint), _Saved())
        self._drawn.heard[who] = dict(saved.heard)
        said = f"{_said(who)} {how}"
        self._add(at, who, StepSign.START, said, holds=self._holds(who, at), from_step=saved.step)

    def _opened(self, at: int, what: Opened) -> None:
        link = (what.slice, what.incarnation, what.downstream, what.downstream_incarnation)
        replay: ReplayOverChannel | None = self._replays.get(link)
        who = (what.slice, what.incarnation if what.slice in self._rerun.reruns else 1)
        asked = f"{_said(who)} is asked by {what.downstream}#{what.downstream_incarnation} for what comes after "
        if replay is not None and replay.begins == at:
            taken = f"{replay.outputs:,} {'is' if replay.outputs == 1 else 'are'} taken"
            said = f"{asked}#{what.after:,}, and sends that again, of which {taken}"
            self._drawn.opened[link] = self._add(at, who, StepSign.WORD, said)
        elif replay is None and what.after >= what.next_seq:
            # What it makes next is not sent: the receiver has had that, or wrongly goes by having had it.
            said = f"{asked}#{what.after:,}, though its next is #{what.next_seq:,}"
            self._add(at, who, StepSign.WORD, said)
        elif replay is None and self._is_of_a_successor(at, what):
            # So it goes by having had all that came before, whether anybody was given that or not.
            self._add(at, who, StepSign.WORD, f"{asked}#{what.after:,}, and sends it nothing of that")

    def _is_of_a_successor(self, at: int, what: Opened) -> bool:
        """Whether it is asked for by one whose predecessor is gone."""
        gone = [one for one, over in self._lost.items() if one[0] == what.downstream and over < at]
        return any(incarnation < what.downstream_incarnation for _, incarnation in gone)

    def _struck(self, at: int, what: FaultStruck) -> None:
        hit = [who for who, over in self._lost.items() if over == at and who[0] in map(slice_of, what.bite.actors)]
        for who in hit if what.bite.gone else []:
            self._add(at, who, StepSign.CRASH, f"{what.fault}: {_said(who)} dies, on {what.bite.node}")
        if not what.bite.gone or not hit:
            target = (slice_of(what.bite.target), 1)
            where = target if target in self._lines else None
            self._add(at, where, StepSign.CRASH if what.bite.gone else StepSign.WORD, str(what.fault))

    # Arrows

    def _arrow(
        self,
        sender: SliceIncarnation,
        receiver: SliceIncarnation,
        arrives: int | None,
        derivations: Sequence[Derivation],
        numbers: str,
        roots: frozenset[Root],
        *,
        passed: bool = False,
    ) -> None:
        source = self._rerun.topology.role(sender[0]) is Role.SOURCE
        if source:
            sender = (sender[0], 1)
        if sender not in self._lines or receiver not in self._lines:
            return
        made = max((self._made_at(sender, derivation) for derivation in derivations), default=-1)
        opened = self._drawn.opened.get((*sender, *receiver), -1)
        again = opened > made and (arrives is None or opened <= arrives)
        departs = opened if again else made
        said = f"{numbers} from {_said(sender)} to {_said(receiver)}" + (", sent again" if again else "")
        said += ", which lets it pass" if passed else ""
        lines = self._lines[sender], departs, self._lines[receiver], arrives
        self._drawn.arrows.append(MessageArrow(*lines, said, numbers, roots, again, passed=passed))

    def _made_at(self, sender: SliceIncarnation, derivation: Derivation) -> int:
        """The step at which a sender made what is derived so; -1 where that lies before what is drawn."""
        if len(derivation) == 2 and (*sender, derivation) in self._drawn.made:
            return self._drawn.made[(*sender, derivation)]
        parent = derivation[:-1]
        closed = self._drawn.closed.get((*sender, parent[1])) if len(parent) == 2 and parent[0] == sender[0] else None
        if closed is not None:
            return closed
        made = self._drawn.made.get((*sender, parent), -1)
        return max(made, self._drawn.fired.get(sender, -1)) if derivation[-1] >= 1 << 24 else made

    def _never_taken(self) -> Iterator[MessageArrow]:
        """What was made in what is drawn, and nobody ever took."""
        for slice_id, number in list(self._lines):
            role = self._rerun.topology.role(slice_id)
            if role is Role.SINK:
                continue
            one = self._rerun.sources[slice_id] if role is Role.SOURCE else self._rerun.reruns[slice_id][number]
            for to in one.emitted:
                made = self._made_here(one, (slice_id, number), to)
                for derivation in self._heard(one, slice_id, to, source=role is Role.SOURCE) if made else ():
                    made.pop(derivation, None)
                yield from self._lost_on(made, (slice_id, number), to)

    def _made_here(self, one: Rerun, sender: SliceIncarnation, to: str) -> dict[Derivation, list[tuple[int, int]]]:
        """What was made for a slice in what is drawn -> at which steps, and under which numbers."""
        found: dict[Derivation, list[tuple[int, int]]] = {}
        for stretch in one.stretches:
            emissions = stretch.emitted[to]
            for place, derivation in enumerate(emissions.derivations):
                if (step := self._made_at(sender, derivation)) >= 0:
                    found.setdefault(derivation, []).append((step, emissions.events[place].seq))
        return found

    def _heard(self, one: Rerun, slice_id: str, to: str, *, source: bool) -> Iterator[Derivation]:
        if not source:
            yield from self._rerun.heard(one, to)
            return
        for other in self._rerun.reruns.get(to, {}).values():
            for (upstream, _), places in self._rerun.taken_of(other).items():
                if upstream == slice_id:
                    for begin, end in places:
                        yield from other.took[begin:end]

    def _lost_on(
        self, made: Mapping[Derivation, Iterable[tuple[int, int]]], sender: SliceIncarnation, to: str
    ) -> Iterator[MessageArrow]:
        receivers = [who for who in self._lines if who[0] == to]
        if not receivers:
            return
        by_step: dict[int, list[tuple[int, Derivation]]] = defaultdict(list)
        for derivation, times in made.items():
            for step, seq in times:
                by_step[step].append((seq, derivation))
        told = {(arrow.sender, arrow.departs, arrow.receiver) for arrow in self._drawn.arrows if arrow.passed}
        for step, lost in by_step.items():
            at = self._drawn.steps[step].at
            there = [who for who in receivers if self._lost.get(who, at + 1) > at] or receivers
            if (self._lines[sender], step, self._lines[there[0]]) in told:
                continue
            numbers = _numbers([seq for seq, _ in lost])
            roots = frozenset(root_of(derivation) for _, derivation in lost)
            said = f"{numbers} from {_said(sender)} to {_said((to, there[0][1]))}, which nobody took"
            same, other = self._taken_instead(lost, sender[0], receivers)
            said += f"; {same} took the same from another" if same else ""
            said += "".join(f"; {one}" for one in other)
            yield MessageArrow(
                self._lines[sender],
                step,
                self._lines[there[0]],
                None,
                said,
                numbers,
                roots,
                again=False,
                instead=bool(other),
            )

    def _taken_instead(
        self, lost: Sequence[tuple[int, Derivation]], sender: str, receivers: Sequence[SliceIncarnation]
    ) -> tuple[str, list[str]]:
        """Who has taken the same from another replica of the sender's, and who something else under the same
        numbers."""
        same, other = [], []
        for who in receivers:
            known = self._taken_under(sender, who, {seq for seq, _ in lost})
            if all(seq in known and known[seq] == derivation for seq, derivation in lost):
                same.append(_said(who))
            elif numbers := [seq for seq, derivation in lost if known.get(seq, derivation) != derivation]:
                other.append(f"under {_numbers(numbers)}, {_said(who)} took something else")
        return ", ".join(same), other

    def _taken_under(self, sender: str, who: SliceIncarnation, seqs: Collection[int]) -> dict[int, Derivation | None]:
        """What has been taken from a slice under these numbers, whichever of its incarnations sent it."""
        first, last = min(seqs), max(seqs)
        found: dict[int, Derivation | None] = {}
        if who[0] not in self._rerun.reruns:
            for delivery in self._rerun.deliveries.get(channel_name(sender, who[0]), ()):
                numbered = zip((event.seq for event in delivery.record.rows), delivery.derivations, strict=True)
                found.update((seq, derivation) for seq, derivation in numbered if seq in seqs)
            return found
        one, begin = self._rerun_of(who), 0
        for record, end in self._rerun.batches(one):
            if record.upstream == sender and record.first <= last and record.last >= first:
                numbered = zip(one.seqs[begin:end], one.took[begin:end], strict=True)
                found.update((seq, derivation) for seq, derivation in numbered if seq in seqs)
            begin = end
        return found

    # States

    def _is_drawn(self, at: int) -> bool:
        return self._begins <= at <= self._ends

    def _rerun_of(self, who: SliceIncarnation) -> Rerun:
        return self._rerun.reruns[who[0]][who[1]]

    def _held_beside(self, who: SliceIncarnation, at: int) -> Iterable[tuple[str, str]]:
        return () if self._beside is None else self._beside.held(*who, at)

    def _holds_at_first(self, who: SliceIncarnation, at: int) -> Iterator[tuple[str, str]]:
        """Where nothing was restored yet, whatever it takes over later."""
        if who in self._intakes:
            yield from self._held.at_first(who[0])
        yield from self._held_beside(who, at)

    def _holds(self, who: SliceIncarnation, at: int) -> Iterator[tuple[str, str]]:
        if who in self._intakes:
            yield from self._held.of(self._rerun_of(who), self._drawn.taken.get(who, 0))
        heard = self._drawn.heard[who]
        if heard:
            yield "has taken of", ", ".join(f"{upstream} up to #{last:,}" for upstream, last in sorted(heard.items()))
        yield from self._held_beside(who, at)


_SHOWN = (
    Offered,
    Taken,
    Delivered,
    Started,
    Restored,
    CheckpointTaken,
    CheckpointDurable,
    Closed,
    Fired,
    Opened,
    Promoted,
    InSync,
    Refused,
    Changed,
    Adopted,
)


def spacetime(
    history: History,
    rerun: Reexecution,
    begins: int = 0,
    ends: int | None = None,
    beside: SeenBeside | None = None,
) -> SpaceTime:
    """Of a whole history, or from one time to another. Raises InvalidOperator where an operator fails that did not in
    the run."""
    if ends is None:
        ends = max((entry.stamp.at for entry in history.timeline), default=0)
        ends = max(chain((ends,), (stamped.at for stamped in history.of(Delivered, Taken))))
    return _Diagram(history, rerun, begins, ends, beside).draw()


def around(history: History, at: int) -> tuple[int, int]:
    """From when to when the diagram of what happened around a moment goes: so many steps before it, and after it."""
    times = array("q", (stamped.at for stamped in history.of(*_SHOWN)))
    ordered = np.sort(np.frombuffer(times, np.int64))
    place = int(np.searchsorted(ordered, at))
    first, last = ordered[max(0, place - BEFORE)], ordered[min(len(ordered) - 1, place + AFTER)]
    return min(at, int(first)), max(at, int(last))


def _said(who: SliceIncarnation) -> str:
    return f"{who[0]}#{who[1]}"


def _numbers(seqs: Sequence[int]) -> str:
    """Of what goes together."""
    if not seqs:
        return "nothing"
    first, last = min(seqs), max(seqs)
    return f"#{first:,}" if first == last else f"#{first:,}–#{last:,}"
