"""What an incarnation of a slice comes to when it is executed again: what it took, emitted and held.

Every event has a *derivation*: the source event at its root, then at each hop which of the outputs it was. It names the
event across incarnations, renumberings and replays, and so carries the lineage of state and outputs. What several
inputs make together, as in a join, is derived from the one that came last and triggered it. What is made at the end of
an epoch has that at its root: the slice, and the number of the epoch; its lineage are the inputs of the epoch. What a
timer makes is derived from the input that was taken last before it fired, as a further output of it (`BY_TIMER`).
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, overload

import msgspec

from ..core.events import Event
from ..core.operators import Processor
from ..recording.records import Delivered, Opened, Taken
from .packed import CHUNK, Columns, Packed, joined, packed_events, packed_numbers, packed_tuples

if TYPE_CHECKING:
    from .known_incarnations import KnownIncarnation

Derivation = tuple[Any, ...]
"""(source slice, seq, index of the output at each further hop), or (slice, epoch, ...) of what was made at its end."""


_seq: Callable[[Event], int] = attrgetter("seq")
Window = tuple[Derivation, Derivation, int]
"""The first and the last of the inputs that a slice took between two firings of its timers, and how many they are."""
BY_TIMER = 1 << 24
"""From here on are the indices of what timers made after an input, whoever lived then; below, those of what was made of
it at once."""


@dataclass(slots=True)
class Emissions:
    """What one incarnation put on one channel itself, in order."""

    events: Packed[Event] = field(default_factory=packed_events)
    derivations: Packed[Derivation] = field(default_factory=packed_tuples)
    inherited: bool = False
    """Numbers are those of the inputs, so that they need not rise where channels come together."""
    _places: dict[int, list[int]] | None = None
    _looked: int = -1
    """How many there were when it was looked where they are."""

    @property
    def places(self) -> dict[int, list[int]] | None:
        """Number -> where it is; None where numbers rise. As a rule asked for once everything was emitted; in a cycle
        more comes."""
        if self.inherited and self._looked != len(self.events):
            self._looked = len(self.events)
            if any(earlier.seq >= later.seq for earlier, later in pairwise(self.events)):
                self._places = defaultdict(list)
                for place, event in enumerate(self.events):
                    self._places[event.seq].append(place)
        return self._places

    def settle(self) -> None:
        """Called now and then while events are added."""
        self.events.settle()
        self.derivations.settle()

    def since(self, skip: int) -> Emissions:
        """All but the first `skip`. Nothing may be added to either from now on."""
        if not skip:
            return self
        return Emissions(self.events.since(skip), self.derivations.since(skip), self.inherited)

    def between(self, first: int, last: int, upto: int | None = None) -> tuple[Sequence[Event], Sequence[Derivation]]:
        """What is numbered from `first` to `last`, of the first `upto`."""
        events = self.events
        stop = len(events) if upto is None else upto
        if (places := self.places) is not None:
            if last - first < stop:
                found = (place for number in range(first, last + 1) for place in places.get(number, ()))
                chosen = sorted(place for place in found if place < stop)
            else:
                chosen = [place for place in range(stop) if first <= events[place].seq <= last]
            return [events[place] for place in chosen], [self.derivations[place] for place in chosen]
        low = bisect_left(events.at_hand, first, 0, stop, key=_seq)
        high = bisect_right(events.at_hand, last, low, stop, key=_seq)
        return events[low:high], self.derivations[low:high]

    def place_after(self, number: int) -> int:
        """Where what is numbered higher begins, where numbers rise."""
        return bisect_right(self.events.at_hand, number, key=_seq)

    def at(self, place: int, first: int, last: int, count: int) -> tuple[Sequence[Event], Sequence[Derivation]] | None:
        """The `count` events from a place on, if they are all those numbered from `first` to `last`. Asked for where
        somebody who took what comes before goes on, it spares the search."""
        events, end = self.events.at_hand, place + count
        if self.inherited or not count or end > len(events):
            return None
        # In one go: single events of what is in columns would make rows of a chunk once for each.
        found = events[place:end]
        if found[0].seq != first or found[-1].seq != last:
            return None
        return found, self.derivations.at_hand[place:end]

    def in_a_row(self, first: int, last: int, count: int, since: int) -> int | None:
        """Where `count` events in a row begin, of which the first and the last have these numbers, though numbers need
        not rise: from the place `since` on if there, else anywhere."""
        events = self.events
        fitting = [
            place
            for place in (self.places or {}).get(first, ())
            if place + count <= len(events) and events[place + count - 1].seq == last
        ]
        return next((place for place in fitting if place >= since), fitting[0] if fitting else None)


@dataclass(frozen=True, slots=True)
class Intake:
    """Consecutive events that an incarnation took from one channel."""

    record: Taken
    seqs: Sequence[int]
    derivations: Sequence[Derivation]


@dataclass(slots=True, eq=False)
class Cut:
    """Where in the execution of an incarnation a checkpoint was taken."""

    rerun: Rerun
    stretch: Stretch
    position: int
    """How many events it had taken itself."""
    next_seq: int
    """The number of the next output then."""
    emitted: Mapping[str, int]
    """Downstream slice -> how many events it had put on that channel in that stretch."""
    state: Any = None
    """A copy of its state then, where somebody began with it and it could be copied without the operator's help."""
    closings: int = 0
    """How many epochs had ended in that stretch."""
    known: tuple[KnownIncarnation, int] | None = None
    """Where in a known incarnation that is, if all before was as there: then its state is that."""
    last: Derivation | None = None
    """What it had taken last, however long ago; None: nothing."""
    since: int = 0
    """How many outputs timers had made since."""
    window: tuple[tuple[Derivation, str], ...] = ()
    """What it had taken since a timer fired, and under which keys."""
    come: Mapping[str, int] = field(default_factory=dict)
    """How far event time had come on each channel, by what its state holds, where there are timers."""
    fired: int = -1
    """The event time at which a timer had fired last."""


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of an epoch, as an incarnation came to it."""

    epoch: int
    position: int
    """How many events it had taken itself."""
    lengths: tuple[int, ...]
    """How many events it had put on each channel in that stretch, those of the epoch's end included."""


@dataclass(slots=True, eq=False)
class Stretch:
    """Part of the execution of an incarnation: from where it started, or took over the state of a peer, until it did so
    again."""

    cut: Cut | None
    """What it began with; None: blank."""
    begins: int
    """How many events the incarnation had taken before."""
    first_seq: int
    """The number of the first output; what is replayed with a lower one was made before the cut."""
    emitted: dict[str, Emissions]
    closings: list[Closing] = field(default_factory=list)
    firings: list[tuple[int, ...]] = field(default_factory=list)
    """After each timer that fired, what was on each channel in that stretch."""


@dataclass(slots=True, eq=False)
class Rerun:
    """One incarnation of a slice, executed again."""

    slice_id: str
    number: int
    replica: int
    stretches: list[Stretch]
    next_seq: int
    """The number of its next output."""
    process: Processor | None
    hop: int
    """What its outputs' indices begin with in derivations."""
    held: Any = None
    """Its state, where it is at hand."""
    took: Packed[Derivation] = field(default_factory=packed_tuples)
    """All that it took itself, in order."""
    seqs: Packed[int] = field(default_factory=packed_numbers)
    """The number of each of these."""
    batches: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """After each batch that it took: how many events it had taken, and what was on each channel then."""
    cuts: dict[int, Cut] = field(default_factory=dict)
    last: Derivation | None = None
    since: int = 0
    window: list[tuple[Derivation, str]] = field(default_factory=list)
    come: dict[str, int] = field(default_factory=dict)
    fired: int = -1
    """As in a cut."""
    told: dict[Derivation, tuple[Window, tuple[Derivation, ...]]] = field(default_factory=dict)
    """Output that a timer made -> the window that it ends, and the inputs in that which it tells of: those of its key,
    and those of keys of which nothing else tells."""
    later: Callable[[], Any] | None = None
    """What executes it to its end, where its state is not at hand; few ask for that of those who are gone."""
    _channels: dict[str, tuple[Sequence[Event], Sequence[Derivation]]] = field(default_factory=dict)
    """What it inherited and made, channel by channel, as far as that was asked for after its end."""
    made: dict[str, Mapping[Derivation, Event]] = field(default_factory=dict)
    """The same, as `made_by` gives it."""

    @property
    def state(self) -> Any:
        if self.later is not None:
            self.held, self.later = self.later(), None
        return self.held

    @property
    def stretch(self) -> Stretch:
        """The one that it is in."""
        return self.stretches[-1]

    @property
    def emitted(self) -> dict[str, Emissions]:
        return self.stretches[-1].emitted

    def as_rows(self) -> None:
        """To be called where rows are added to what it emits that came in columns before."""
        for emissions in self.emitted.values():
            emissions.events.as_rows()
            emissions.derivations.as_rows()

    def lineage(self, upto: int | None = None) -> Sequence[Derivation]:
        """Everything that had gone into its state, in order, through all the checkpoints that it descends from: at the
        end, or when it had just taken the first `upto` events."""
        stretch = self.stretch
        if upto is None:
            upto = len(self.took)
        else:
            stretch = next((s for s in reversed(self.stretches) if s.begins < upto), self.stretches[0])
        if stretch.cut is None:
            return self.took[stretch.begins : upto]
        rerun = self
        parts: list[Sequence[Derivation]] = []
        while True:
            parts.append(rerun.took[stretch.begins : upto])
            cut = stretch.cut
            if cut is None:
                return joined(reversed(parts))
            rerun, stretch, upto = cut.rerun, cut.stretch, cut.position

    def closings(self, upto: int | None = None) -> list[tuple[int, int]]:
        """The epochs that had ended for its state, each with how many events of its lineage had been taken then;
        `upto` as there."""
        stretch = self.stretch
        if upto is None:
            upto = len(self.took)
        else:
            stretch = next((s for s in reversed(self.stretches) if s.begins < upto), self.stretches[0])
        parts = [(stretch.begins, upto, stretch.closings)]
        while (cut := stretch.cut) is not None:
            stretch = cut.stretch
            parts.append((stretch.begins, cut.position, stretch.closings[: cut.closings]))
        found: list[tuple[int, int]] = []
        before = 0
        for begins, end, closings in reversed(parts):
            found += [(one.epoch, before + one.position - begins) for one in closings if one.position <= end]
            before += end - begins
        return found

    def roots(self) -> set[Derivation]:
        """The epochs that had ended for its state, as what was made at their ends is derived from them."""
        return {(self.slice_id, epoch) for epoch, _ in self.closings()}

    def channel(self, to: str, first: int = 0, last: int = sys.maxsize) -> tuple[Sequence[Event], Sequence[Derivation]]:
        """What it can send to `to` with numbers from `first` to `last`, inherited output log included; all of it is
        asked for after its end only. Not to be changed."""
        stretch = self.stretch
        if first <= 0 and last == sys.maxsize:
            if stretch.cut is None:
                emissions = stretch.emitted[to]
                return emissions.events, emissions.derivations
            if to not in self._channels:
                self._channels[to] = self._between(to, first, last)
            return self._channels[to]
        return self._between(to, first, last)

    def _between(self, to: str, first: int, last: int) -> tuple[Sequence[Event], Sequence[Derivation]]:
        stretch = self.stretch
        found = stretch.emitted[to].between(first, last)
        while (cut := stretch.cut) is not None:
            if first >= stretch.first_seq and not stretch.emitted[to].inherited:
                break
            stretch = cut.stretch
            events, derivations = stretch.emitted[to].between(first, last, cut.emitted[to])
            found = joined((events, found[0])), joined((derivations, found[1]))
        return found


class DeliveredRow(msgspec.Struct, frozen=True):
    """One delivered row, and what made it (None: nothing that was taken does)."""

    event: Event
    derivation: Derivation | None
    incarnation: int
    at: int


class Delivery(msgspec.Struct, frozen=True):
    """Rows that were delivered together, each beside what made it."""

    record: Delivered
    at: int
    derivations: Sequence[Derivation | None]

    def outputs(self) -> Iterator[DeliveredRow]:
        for event, derivation in zip(self.record.rows, self.derivations, strict=True):
            yield DeliveredRow(event, derivation, self.record.incarnation, self.at)


class Deliveries(Sequence[Delivery]):
    """Everything that was delivered on a channel, in order."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self._heads: Packed[tuple[int, int, int, int]] = packed_tuples()
        """Of what is in columns: when it came, of which incarnation, from which position on, how many rows."""
        self._rows = packed_events()
        self._derivations: Packed[Derivation | None] = packed_tuples()
        self._latest: list[Delivery] = []
        self._waiting = 0
        """Rows of the latest, which become columns when there are enough of them."""
        self._in_one: tuple[list[Event], list[Derivation | None]] | None = None

    def append(self, delivery: Delivery) -> None:
        self._in_one = None
        self._latest.append(delivery)
        self._waiting += len(delivery.derivations)
        if self._waiting >= CHUNK:
            self._settle()

    def _settle(self) -> None:
        for delivery in self._latest:
            record = delivery.record
            self._heads.append((delivery.at, record.incarnation, record.position, len(record.rows)))
            self._rows.extend(record.rows)
            self._derivations.extend(delivery.derivations)
        self._latest, self._waiting = [], 0

    def lend(self, heads: Columns, emitted: Emissions, start: int, stop: int) -> None:
        """Add deliveries, in columns: the heads, and where their rows are among what was emitted."""
        self._settle()
        self._in_one = None
        self._heads.extend_columns(heads, len(heads[0]))  # type: ignore[arg-type]
        self._rows.lend(emitted.events, start, stop)
        self._derivations.lend(emitted.derivations, start, stop)  # type: ignore[arg-type]

    def columns(self) -> tuple[Packed[tuple[int, int, int, int]], Packed[Event], Packed[Derivation | None]]:
        """(When, incarnation, position, number of rows) of each delivery; all rows; and what made each of them."""
        self._settle()
        return self._heads, self._rows, self._derivations

    def in_one(self) -> tuple[list[Event], list[Derivation | None]]:
        """All rows, and what made each of them, where they are few. Not to be changed."""
        if self._in_one is None:
            rows = [row for delivery in self for row in delivery.record.rows]
            self._in_one = rows, [derivation for delivery in self for derivation in delivery.derivations]
        return self._in_one

    def __len__(self) -> int:
        return len(self._heads) + len(self._latest)

    @property
    def count(self) -> int:  # type: ignore[override]
        """Rows in all."""
        return len(self._rows) + self._waiting

    def __iter__(self) -> Iterator[Delivery]:
        sink = self.channel.partition(">")[2]
        end = 0
        for at, incarnation, position, count in self._heads:
            begin, end = end, end + count
            rows, derivations = list(self._rows[begin:end]), self._derivations[begin:end]
            yield Delivery(Delivered(sink, self.channel, incarnation, position, rows), at, derivations)
        yield from self._latest

    @overload
    def __getitem__(self, index: int) -> Delivery: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Delivery]: ...
    def __getitem__(self, index: int | slice) -> Delivery | Sequence[Delivery]:
        return list(self)[index]


@dataclass(frozen=True, slots=True)
class Opening:
    """A receiver opened a channel."""

    record: Opened
    at: int
    before: int
    """Records of the sender's book that came before, of all its incarnations; of a source: events offered before."""
