"""Executes histories of one subject again, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, is_
from typing import Final, get_args

import msgspec

from ..core.events import Event, Value
from ..core.slice_names import channel_name, operator_of
from ..core.topology import Role, Topology
from ..protocol.spec import SliceSpec
from ..recording.history import in_tables, of
from ..recording.records import (
    Changed,
    CheckpointDurable,
    Delivered,
    InSync,
    Kept,
    Offered,
    Opened,
    Stamped,
    Taken,
)
from .changes import in_order
from .commuting import find_false_commutative
from .exactness import same_events
from .execution import Book, BookEntry, Execution
from .expected import Expected, expect
from .faithfulness import Unfaithful
from .forgetting import find_false_window, find_kept_beyond
from .going_on import false_snapshots
from .hearing import Hearing
from .known_incarnations import KnownIncarnation
from .made import events_of, is_long
from .packed import Packed, packed_events, packed_numbers
from .processing import offer
from .punctuality import Mistimed
from .reexecution import Reexecution
from .reruns import Opening, Rerun
from .words import earliest_of


@dataclass(frozen=True)
class _Found:
    """A slice, executed again."""

    reruns: dict[int, Rerun]
    same_as: dict[int, int] = field(default_factory=dict)
    """Of incarnations that did the same as another which that is, so that it does not matter whose copy somebody
    took."""
    unfaithful: Sequence[Unfaithful] = ()
    left_out: Sequence[Unfaithful] = ()
    mistimed: Sequence[Mistimed] = ()


_Given = Book | Packed[Event]


class Recall:
    """Reruns of slices that no fault touched, kept for the next history in which they did the same.

    In a search nearly every history has them: the same input, taken in the same order, by slices that were not hit.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Given, list[dict[int, Rerun]], _Found]] = {}
        self.longest: dict[str, KnownIncarnation] = {}
        """Slice -> the longest incarnation of it that began blank and was executed."""

    def learn(self, spec: SliceSpec, execution: Execution) -> None:
        """Keep the longest incarnation of a slice."""
        known = self.longest.get(spec.slice_id)
        found = execution.longest(0 if known is None else len(known.events))
        if found is not None:
            self.longest[spec.slice_id] = KnownIncarnation(spec, *found)

    def as_known(self, source: str, offered: Packed[Event]) -> Packed[Event]:
        """The same events, but those that are known already, where these are the beginning of what was offered once."""
        known = self._known.get(source)
        if known is None or not isinstance(known[0], Packed) or known[0].packed or offered.packed:
            return offered
        beginning = known[0].tail[: len(offered)]
        return packed_events(beginning) if same_events(beginning, offered.tail) else offered

    def find(self, slice_id: str, book: _Given, upstream: list[dict[int, Rerun]]) -> _Found | None:
        """What the slice did, if it was given the same by the same."""
        if slice_id not in self._known:
            return None
        known_book, known_upstream, found = self._known[slice_id]
        same = len(upstream) == len(known_upstream) and all(map(is_, upstream, known_upstream))
        return found if same and book == known_book else None

    def keep(self, slice_id: str, book: _Given, upstream: list[dict[int, Rerun]], found: _Found) -> None:
        if slice_id in self._known:
            return
        reruns = found.reruns.values()
        untouched = len({rerun.replica for rerun in reruns}) == len(reruns)
        known = [found.reruns for _, _, found in self._known.values()]
        if untouched and all(any(up is one for one in known) for up in upstream):
            self._known[slice_id] = (book, upstream, found)


def reexecute(specs: Sequence[SliceSpec], records: Sequence[Stamped], recall: Recall | None = None) -> Reexecution:
    """Execute a history again. Whatever the user's code raises comes through: it did not raise in the run."""
    topology = specs[0].topology
    offered = {spec.slice_id: packed_events() for spec in specs if spec.role is Role.SOURCE}
    offered_at = {source: packed_numbers() for source in offered}
    books: dict[str, Book] = {spec.slice_id: [] for spec in specs}
    times: dict[str, list[int]] = {spec.slice_id: [] for spec in specs}
    channels = [channel_name(up, spec.slice_id) for spec in specs if spec.role is Role.SINK for up in spec.upstream]
    kept: dict[str, dict[int, Mapping[str, Value]]] = {}
    in_sync: dict[str, set[int]] = {}
    openings: list[Opening] = []
    durable: dict[str, set[tuple[int, int]]] = {spec.slice_id: set() for spec in specs}
    unexplained: dict[str, str] = {}
    changes: list[Changed] = []
    for stamped in of(records, *_EXECUTED_BY):
        record = stamped.record
        try:
            if type(record) in _BOOKED:
                name = record.slice  # type: ignore[union-attr]
                books[name].append(record)  # type: ignore[arg-type]
                times[name].append(stamped.at)
            elif type(record) is Offered:
                offered[record.source].extend(record.events)
                offered_at[record.source].extend([stamped.at] * len(record.events))
            elif type(record) is Kept:
                books[record.actor]
                kept.setdefault(record.actor, {})[record.incarnation] = record.rows
            elif type(record) is InSync:
                books[record.slice]
                in_sync.setdefault(record.slice, set()).add(record.incarnation)
            elif type(record) is CheckpointDurable:
                durable[record.slice].add((record.incarnation, record.number))
            elif type(record) is Changed:
                changes.append(record)
            elif type(record) is Opened:
                before = len(offered[record.slice] if record.slice in offered else books[record.slice])
                openings.append(Opening(record, stamped.at, before))
        except KeyError as error:
            unexplained.setdefault("", _no_part(error, topology))

    recall = recall or Recall()
    reruns: dict[str, dict[int, Rerun]] = {}
    same_as: dict[str, dict[int, int]] = {}
    unfaithful: list[Unfaithful] = []
    left_out: list[Unfaithful] = []
    mistimed: list[Mistimed] = []
    spec_of = {spec.slice_id: spec for spec in specs}
    for group in topology.groups:
        spec = spec_of[group[0]]
        if spec.role is Role.SINK:
            continue
        if len(group) > 1:
            together = {one: Execution(spec_of[one], _by_incarnation(books[one], same_as), reruns) for one in group}
            _execute_together(together)
            for one, execution in together.items():
                same_as[one] = execution.same_as
                unfaithful += execution.unfaithful
                left_out += execution.left_out
                mistimed += execution.mistimed
                if execution.unexplained:
                    unexplained.setdefault(one, execution.unexplained)
            continue
        name = spec.slice_id
        upstream = [reruns[up] for up in spec.upstream]
        given = offered[name] if spec.role is Role.SOURCE else _by_incarnation(books[name], same_as)
        found = recall.find(name, given, upstream)
        if found is None:
            if spec.role is Role.SOURCE:
                found = _Found({1: offer(spec, recall.as_known(name, offered[name]))})
            else:
                execution = Execution(spec, given, reruns, recall.longest.get(name))  # type: ignore[arg-type]
                found = _Found(
                    execution.found, execution.same_as, execution.unfaithful, execution.left_out, execution.mistimed
                )
                if execution.unexplained:
                    unexplained.setdefault(name, execution.unexplained)
                else:
                    recall.learn(spec, execution)
            if name not in unexplained:
                recall.keep(name, given, upstream, found)
        reruns[name], same_as[name] = found.reruns, found.same_as
        unfaithful += found.unfaithful
        left_out += found.left_out
        mistimed += found.mistimed

    operators = {spec.slice_id: reruns[spec.slice_id] for spec in specs if spec.role is Role.OPERATOR}
    for name, states in kept.items():
        for number in states.keys() - operators[name].keys():
            unexplained.setdefault(name, f"{name}#{number} kept a state, but never started")
    hearing = {channel: Hearing(channel, reruns[channel.partition(">")[0]]) for channel in channels}
    for channel in _hear(hearing, records):
        unexplained.setdefault("", _no_part(KeyError(channel), topology))
    for heard in hearing.values():
        heard.end()
    return Reexecution(
        topology,
        offered,
        offered_at,
        {source: reruns[source][1] for source in offered},
        operators,
        {channel: one.deliveries for channel, one in hearing.items()},
        kept,
        unexplained,
        {name: frozenset(numbers) for name, numbers in in_sync.items()},
        openings,
        {s.slice_id: s.setup.merge for s in specs if len(s.upstream) > 1 and s.setup.merge is not None},
        frozenset(s.slice_id for s in specs if s.setup.replicas_take_all),
        books,
        times,
        {name: frozenset(known) for name, known in durable.items()},
        unfaithful,
        left_out,
        mistimed,
        {s.slice_id: s.epoch for s in specs if s.epoch is not None},
        in_order(changes),
    )


def _hear(hearing: Mapping[str, Hearing], records: Sequence[Stamped]) -> Iterator[str]:
    """Hear all that was delivered. Returns the channels that are none, as often as something came on them."""
    if (tables := in_tables(records)) is not None:
        for block in tables.delivered():
            for channel, some in block.by_channel():
                if channel in hearing:
                    hearing[channel].hear_columns(some)
                else:
                    yield channel
        return
    for stamped in of(records, Delivered):
        record = stamped.record
        assert isinstance(record, Delivered)
        if record.channel in hearing:
            hearing[record.channel].hear(stamped.at, record)
        else:
            yield record.channel


_incarnation: Final[Callable[[BookEntry], int]] = attrgetter("incarnation")
_BOOKED: Final[frozenset[type]] = frozenset(get_args(BookEntry))
"""What goes into a slice's book."""
_EXECUTED_BY: Final = (*get_args(BookEntry), Offered, Kept, InSync, Opened, CheckpointDurable, Changed)


def _execute_together(executions: Mapping[str, Execution]) -> None:
    """Execute the slices of a cycle again, each as far as what the others made so far takes it, in turn. Where none
    gets any further, what is to be taken next was never made."""
    while any(not execution.over for execution in executions.values()):
        if not sum(execution.go_on() for execution in executions.values()):
            next(execution for execution in executions.values() if not execution.over).go_on(at_all_costs=True)


def _by_incarnation(book: Book, same_as: Mapping[str, Mapping[int, int]]) -> Book:
    """One incarnation after the other; it matters neither how they were alive beside one another, nor which of several
    that sent the same was heard.

    What a dead node has said can be read after what its successor says; within an incarnation the order is true.
    """
    ordered = sorted(book, key=_incarnation)
    if not any(same_as.values()):
        return ordered
    return [
        msgspec.structs.replace(record, upstream_incarnation=same_as[record.upstream][record.upstream_incarnation])
        if isinstance(record, Taken) and record.upstream_incarnation in same_as.get(record.upstream, ())
        else record
        for record in ordered
    ]


def _no_part(error: KeyError, topology: Topology) -> str:
    return f"the records speak of {error}, which is no part of {topology.name}"


_REMEMBERED = 16
"""Inputs for which it is kept what they give without failures."""


@dataclass(frozen=True)
class _Wanted:
    """What is expected of an input."""

    offered: Mapping[str, Sequence[Event]]
    amounts: list[int]
    ends: tuple[Mapping[str, int], Mapping[str, int]]
    expected: Expected


class Reexecutor:
    """Executes the histories of one subject again, and keeps for the next what does not change between them."""

    def __init__(self, specs: Sequence[SliceSpec]) -> None:
        self._specs = specs
        self._recall = Recall()
        self._expected: list[_Wanted] = []
        """For the inputs that were asked about last. Many histories have the same, and some are judged up to a moment
        as well."""

    def reexecute(self, records: Sequence[Stamped]) -> Reexecution:
        return reexecute(self._specs, records, self._recall)

    def expect(self, rerun: Reexecution) -> Expected:
        """What an execution without failures gives for the input of a history."""
        offered, ends = rerun.offered, (rerun.last_closed, rerun.last_fired)
        if is_long(*offered.values()):
            return self._examined(expect(self._specs, offered, rerun, *ends))
        amounts = [len(events) for events in offered.values()]
        for place, known in enumerate(self._expected):
            if known.amounts == amounts and known.ends == ends and known.offered == offered:
                self._expected.insert(0, self._expected.pop(place))
                return known.expected
        expected = self._examined(expect(self._specs, offered, None, *ends))
        self._expected = [_Wanted(offered, amounts, ends, expected), *self._expected[: _REMEMBERED - 1]]
        return expected

    def _examined(self, expected: Expected) -> Expected:
        """With what is wrong about what its operators say of themselves."""
        taken = {slice_id: events_of(events) for slice_id, events in expected.taken.items()}
        topology = self._specs[0].topology
        channels = expected.channels
        by_time = {
            slice_id: earliest_of(
                [events_of(channels[channel_name(up, slice_id)]) for up in topology.upstream(slice_id)]
            )
            for slice_id in taken
            for operator in (topology.stages[operator_of(slice_id)].operator,)
            if operator.window is not None or operator.commutative
        }
        said = find_false_window(topology, by_time) or find_false_commutative(topology, by_time)
        return replace(
            expected,
            false_word=said,
            false_snapshots=false_snapshots(topology, taken),
            kept_beyond=find_kept_beyond(topology, by_time),
        )
