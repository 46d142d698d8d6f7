"""Executes the incarnations of one slice again, from what they took and what those upstream made.

What an incarnation began from is never what the operator's own `restore` made of its own `snapshot`, since a bug of
these would explain itself: it is the state that an execution from the beginning has after the same inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import InvalidOperator
from ..core.events import Event, carried
from ..core.operators import processor_of, rows_of
from ..core.slice_names import operator_of
from ..protocol.spec import Numbering, SliceSpec
from ..recording.records import CheckpointTaken, Closed, Compensated, Fired, PartialTaken, Restored, Started, Taken
from .copies import NotPlain, copied, plain_copy
from .exactness import same_rows
from .faithfulness import ONCE_MORE, Unfaithful, find_left_out, find_unfaithful
from .packed import CHUNK, seq_at
from .processing import close, emissions_of, execute, fire, hop_of
from .punctuality import Mistimed, unasked, unpunctual
from .reruns import Closing, Cut, Derivation, Emissions, Rerun, Stretch

if TYPE_CHECKING:
    from .executing_in_columns import Receivers
    from .known_incarnations import Along, KnownIncarnation

BookEntry = Started | Restored | Taken | Closed | Fired | CheckpointTaken | PartialTaken | Compensated
Book = list[BookEntry]
"""The records of one slice: all that its re-execution depends on, beside what its channels hold."""


_LARGE = 4
"""A batch of more chunks is not taken along with others."""
_BY_HAND = frozenset({PartialTaken, Compensated})
_BEGINNING = frozenset({Started, Restored})
"""What can say that a state is that of a checkpoint."""


def made_by_hand(book: Iterable[BookEntry]) -> bool:
    """Whether states of a slice are not made of what it took alone."""
    return not _BY_HAND.isdisjoint(map(type, book))


class Execution:
    """All incarnations of one slice. One may have begun with what another held, whichever has the lower number: so each
    is executed up to where it needs another, and that one first, up to there.

    In a cycle they need what those make that they feed, too. So there nothing is executed before `go_on` is called, and
    the executions of all its slices share `reruns`."""

    def __init__(
        self, spec: SliceSpec, book: Book, reruns: dict[str, dict[int, Rerun]], known: KnownIncarnation | None = None
    ) -> None:
        """`known` is an incarnation of the same slice, of this history or of another."""
        self._spec = spec
        self._operator = spec.topology.stages[operator_of(spec.slice_id)].operator
        self._hop = hop_of(spec)
        self._reruns = reruns
        """Of slices upstream, all of them; in a cycle, as far as they are executed."""
        self._records: dict[int, list[BookEntry]] = {}
        self._begun_from: set[tuple[int, int]] = set()
        """(incarnation, number) of the checkpoints that somebody began with."""
        records: list[BookEntry] = []
        of = None
        for record in book:
            if record.incarnation != of:
                of = record.incarnation
                records = self._records.setdefault(of, [])
            records.append(record)
            if type(record) in _BEGINNING and (begun := _begun_from(record)) is not None:
                self._begun_from.add(begun)
        self._done = dict.fromkeys(self._records, 0)
        """How many records of each incarnation have been carried out."""
        self._heard: dict[tuple[int, str, int], int] = {}
        """(incarnation, upstream slice, its incarnation) -> the place after what was taken last, where that is known:
        there it goes on, as a rule."""
        self._did: dict[int, tuple[list[_Did], dict[int, int]]] = {}
        self._known = known
        self._along: dict[Rerun, Along] = {}
        """Those of whom nothing is executed, as long as they do what a known one did."""
        self._one_by_one: dict[int, int] = {}
        """Incarnation -> up to which of its records batches are looked at one by one."""
        self._by_hand = made_by_hand(book)
        self._can_be_known = (
            self._operator.deterministic
            and spec.epoch is None
            and not (spec.timed or spec.cycle or self._by_hand)
            and spec.setup.numbering is not Numbering.DERIVED
        )
        self._events: dict[Rerun, list[Event]] = {}
        """What those took who could be known, all that went into their states."""
        self._latest: tuple[Rerun, Sequence[Event]] | None = None
        """Who was executed last, and what it took then."""
        self._continuing: dict[Rerun, Along] = {}
        """Those that began in the middle of a known one, and left it."""
        self._in_columns = False
        """Whether any of what it took is in columns."""
        for up in spec.upstream:
            for sender in reruns.get(up, {}).values():
                self._in_columns |= sender.stretches[-1].emitted[spec.slice_id].events.packed
        self._receivers: Receivers | None = None
        """For what is executed in columns; None where nothing can be."""
        if self._in_columns:
            from .executing_in_columns import Receivers, can_be

            self._receivers = Receivers(spec) if can_be(spec) else None
        self._partial = {
            (one.incarnation, one.number) for one in (book if self._by_hand else ()) if isinstance(one, PartialTaken)
        }
        self._backups: dict[int, Any] = {}
        """Incarnation -> what is backed up of its state, where some of that is backed up in parts."""
        self._keeps_state = all(one.checkpoints_hold_state for one in spec.setup.mechanisms)
        self.unexplained = ""
        self.unfaithful: list[Unfaithful] = []
        """The checkpoints that do not give back the state that they were taken of."""
        self.left_out: list[Unfaithful] = []
        """The partial checkpoints that somebody began with, and that do not hold what the state did."""
        self.mistimed: list[Mistimed] = []
        """What did not happen when its operator's timers put it."""
        self.found: dict[int, Rerun] = {}
        self.same_as: dict[int, int] = {}
        if spec.cycle:
            reruns[spec.slice_id] = self.found
            return
        for number in self._records:
            self._carry_out(number)

    def longest(self, than: int) -> tuple[Rerun, list[Event]] | None:
        """Of the incarnations that began blank, or where a known one was, and were executed in one stretch, the
        longest, from its beginning on, with what it took: if that is more `than` so many events."""
        executed = [
            (one, events) for one, events in self._events.items() if len(one.stretches) == 1 and len(events) > than
        ]
        if not executed:
            return None
        one, events = max(executed, key=lambda found: len(found[1]))
        along = self._continuing.get(one)
        return (one if along is None else along.known.continued(along.since, one)), events

    @property
    def over(self) -> bool:
        """Whether all has been executed."""
        return all(self._done[number] == len(records) for number, records in self._records.items())

    def go_on(self, *, at_all_costs: bool = False) -> bool:
        """In a cycle: execute as far as it goes, or one record more, whatever that needs. Returns whether anything
        was."""
        before = sum(self._done.values())
        for number, records in self._records.items():
            while self._done[number] < len(records):
                if not self._can_be_done(number, records[self._done[number]]):
                    if not at_all_costs:
                        break
                    at_all_costs = False
                self._do(number, records[self._done[number]])
        return sum(self._done.values()) > before

    def _can_be_done(self, number: int, record: BookEntry) -> bool:
        """Whether what it needs is there, or never will be."""
        if isinstance(record, (Started, Restored)):
            begun_from = _begun_from(record)
            return begun_from is None or begun_from[0] not in self._records or self._has(*begun_from)
        if isinstance(record, Taken):
            rerun = self.found.get(number)
            if rerun is None:
                return True
            whose = (number, record.upstream, record.upstream_incarnation)
            return len(self._sent(rerun, record, {whose: self._heard.get(whose, 0)})[0]) == record.count
        return True

    def _carry_out(self, number: int) -> None:
        waiting: list[tuple[int, int | None]] = [(number, None)]
        while waiting:
            current, goal = waiting[-1]
            needed = self._advance(current, goal, {one for one, _ in waiting})
            if needed is None:
                waiting.pop()
            else:
                waiting.append(needed)

    def _advance(self, number: int, goal: int | None, waiting: set[int]) -> tuple[int, int] | None:
        """Carry out what an incarnation did, up to the checkpoint `goal`. Returns which checkpoint of which other it
        needs first, if that is still to come."""
        records = self._records[number]
        while self._done[number] < len(records):
            record = records[self._done[number]]
            kind = type(record)
            if kind is Taken:
                if self._take_along(number, records, goal):
                    if goal is not None and self._has(number, goal):
                        return None
                    continue
                if self._receivers is not None and self._take_in_columns(number, records, self._receivers):
                    continue
            elif kind in _BEGINNING:
                assert isinstance(record, (Started, Restored))
                begun_from = _begun_from(record)
                if begun_from is not None:
                    whose, checkpoint = begun_from
                    ahead = whose in self._records and self._done[whose] < len(self._records[whose])
                    if ahead and whose not in waiting and not self._has(whose, checkpoint):
                        return begun_from
                if self._share(number, record):
                    return None
            self._do(number, record)
            if goal is not None and isinstance(record, CheckpointTaken) and record.number == goal:
                return None
        if (over := self._along.pop(self.found[number], None)) is not None:
            over.end(self.found[number])
        return None

    def _do(self, number: int, record: BookEntry) -> None:
        """Carry out the next record of an incarnation."""
        self._done[number] += 1
        if isinstance(record, Started):
            self.found[number] = self._begin(record)
            if self._partial:
                self._backups[number] = copied(self.found[number].state)
            return
        if number not in self.found:
            self._doubt(f"{self._spec.slice_id}#{number} was at work, but never started")
            self.found[number] = self._begin(_unannounced(self._spec.slice_id, number))
        rerun = self.found[number]
        if type(record) is Taken:
            self._take(rerun, record, self._heard)
        elif type(record) is CheckpointTaken:
            self._cut_at(rerun, record)
            if self._partial:
                self._back_up(rerun, record)
        elif isinstance(record, Restored):
            self._restore(rerun, record)
        elif isinstance(record, Closed):
            self._close(rerun, record)
        elif isinstance(record, Fired):
            self._fire(rerun, record)
        elif isinstance(record, Compensated):
            self._compensate(rerun, record)

    # Those that do what is known

    def _go_along(self, rerun: Rerun, known: KnownIncarnation, place: int) -> bool:
        """Whether one that has taken nothing goes on from where a known one was."""
        along = known.along(place, rerun.stretch.first_seq) if self._can_be_known else None
        if along is None or known.is_to_be_executed():
            return False
        self._along[rerun] = along
        return True

    def _take_along(self, number: int, records: Sequence[BookEntry], goal: int | None) -> bool:
        """Carry out, in one go, the batches in a row that one took which goes along, and the checkpoints that it took
        in between, up to the checkpoint `goal`: as far as each batch is what its sender made next, and what the known
        one took next. Returns whether any were; one by one they may yet be."""
        rerun, done = self.found.get(number), self._done[number]
        along = None if rerun is None else self._along.get(rerun)
        if rerun is None or along is None or done < self._one_by_one.get(number, 0):
            return False
        events: list[Event] = []
        derivations: list[Derivation] = []
        batches: list[tuple[tuple[str, int], int, int]] = []
        """Whose each is, up to where of what that made, and how many events there are with it."""
        cuts: list[tuple[CheckpointTaken, int]] = []
        """And after how many batches each checkpoint was taken."""
        came: dict[tuple[str, int], tuple[list[Event], Sequence[Derivation]]] = {}
        upto: dict[tuple[str, int], int] = {}
        for record in islice(records, done, None):
            if type(record) is CheckpointTaken:
                cuts.append((record, len(batches)))
                if record.number == goal:
                    break
                continue
            if type(record) is not Taken:
                break
            whose = (record.upstream, record.upstream_incarnation)
            if whose not in came:
                came[whose] = self._in_a_row(*whose)
                upto[whose] = self._heard.get((number, *whose), 0)
            sent, made = came[whose]
            place = upto[whose]
            end = place + record.count
            if not place < end <= len(sent) or sent[place].seq != record.first or sent[end - 1].seq != record.last:
                break
            upto[whose] = end
            events += sent[place:end]
            derivations += made[place:end]
            batches.append((whose, end, len(events)))
        same = along.as_far_as_known(events, derivations, [length for _, _, length in batches])
        if same < len(batches):
            # The next of them is no longer what the known one took.
            batches, cuts = batches[:same], [cut for cut in cuts if cut[1] <= same]
            self._one_by_one[number] = done + same + len(cuts) + 1
        if not batches:
            self._one_by_one[number] = done + 1
            return False
        begin = along.at
        for whose, end, _ in batches:
            self._heard[number, *whose] = end
        ends = [length for _, _, length in batches]
        along.at = begin + ends[-1]
        self._done[number] = done + len(batches) + len(cuts)
        rerun.batches += along.batches(ends, begin)
        # The first record of these is a batch.
        self._cut_along(rerun, along, [(record, begin + ends[after - 1]) for record, after in cuts])
        return True

    def _in_a_row(self, up: str, number: int) -> tuple[list[Event], Sequence[Derivation]]:
        """What an incarnation upstream made for this slice, where numbers rise and it is at hand; else nothing."""
        sender = self._reruns[up].get(number) if up in self._spec.upstream else None
        if sender is None or len(sender.stretches) > 1:
            return [], ()
        emissions = sender.emitted[self._spec.slice_id]
        events = emissions.events.at_hand
        return (events, emissions.derivations.at_hand) if type(events) is list and not emissions.inherited else ([], ())

    def _leave(self, rerun: Rerun) -> None:
        """It does something else from now on, and is executed."""
        along = self._along.pop(rerun, None)
        if along is None:
            return
        along.fill(rerun)
        rerun.held = along.known.state_at(along.at)
        self._events[rerun] = list(along.known.events[: along.at])
        if along.since:
            self._continuing[rerun] = along

    def _cut_along(self, rerun: Rerun, along: Along, cuts: Iterable[tuple[CheckpointTaken, int]]) -> None:
        """Checkpoints that one took which goes along, each after so many events of the known one."""
        known, since, stretch, channels = along.known, along.since, rerun.stretch, tuple(rerun.emitted)
        examined = self._keeps_state and not known.stateless
        for record, place in cuts:
            emitted = dict(zip(channels, along.lengths_at(place), strict=True))
            next_seq = known.next_seqs[place]
            rerun.cuts[record.number] = Cut(rerun, stretch, place - since, next_seq, emitted, known=(known, place))
            if not examined:
                continue
            # What was given back before, a restore() may not give back each time.
            again = (rerun.number, record.number) in self._begun_from or known.is_to_be_examined()
            if place in known.faithful and not again:
                continue
            state = known.state_at(place)
            try:
                twin = plain_copy(state)
            except NotPlain:
                twin = known.state_at(place)
            if self._examine(record, state, twin, known.events[max(0, place - ONCE_MORE) : place]):
                known.faithful.add(place)

    # Those that are executed

    def _take_in_columns(self, number: int, records: Sequence[BookEntry], receivers: Receivers) -> bool:
        """Carry out, in one go, batches in a row that one took, as far as each is what its sender made next, and in
        columns. Returns whether any were; one by one they may yet be."""
        from .executing_in_columns import TakenBatches, execute_batches

        rerun, done = self.found.get(number), self._done[number]
        if rerun is None or rerun in self._along or done < self._one_by_one.get(number, 0):
            return False
        batches = TakenBatches([], [])
        upto: dict[tuple[int, str, int], int] = {}
        taken = 0
        for record in islice(records, done, None):
            if type(record) is not Taken or taken >= CHUNK:
                break
            emissions = self._made_in_columns(record.upstream, record.upstream_incarnation)
            if emissions is None:
                break
            whose = (number, record.upstream, record.upstream_incarnation)
            place = upto.get(whose, self._heard.get(whose, 0))
            end = place + record.count
            if not place < end <= min(len(emissions.events), place + _LARGE * CHUNK):
                break
            if (seq_at(emissions.events, place), seq_at(emissions.events, end - 1)) != (record.first, record.last):
                break
            upto[whose] = end
            taken += record.count
            batches.ends.append(taken)
            if batches.stretches and batches.stretches[-1][0] is emissions and batches.stretches[-1][2] == place:
                place = batches.stretches.pop()[1]
            batches.stretches.append((emissions, place, end))
        events = execute_batches(self._spec, rerun, batches, receivers) if taken > CHUNK // 32 else None
        if events is None:
            self._one_by_one[number] = done + max(1, len(batches.ends))
            return False
        self._done[number] += len(batches.ends)
        self._heard.update(upto)
        self._latest = rerun, events
        if rerun in self._events:
            self._remember(rerun, events)
        return True

    def _made_in_columns(self, up: str, number: int) -> Emissions | None:
        """What an incarnation upstream made for this slice, where numbers rise and it is in columns."""
        sender = self._reruns[up].get(number) if up in self._spec.upstream else None
        if sender is None or len(sender.stretches) > 1:
            return None
        emissions = sender.emitted[self._spec.slice_id]
        if not emissions.events.packed:
            return None
        inherited = emissions.inherited and (sender.stretch.cut is not None or emissions.places is not None)
        return None if inherited else emissions

    def _remember(self, rerun: Rerun, events: Sequence[Event]) -> None:
        """What one took who can be known, unless it is too much."""
        taken = self._events[rerun]
        taken += events
        if len(taken) > CHUNK:
            del self._events[rerun]

    def _cut_at(self, rerun: Rerun, record: CheckpointTaken) -> None:
        if (along := self._along.get(rerun)) is not None:
            self._cut_along(rerun, along, ((record, along.at),))
            return
        emitted = {to: len(emissions.events) for to, emissions in rerun.emitted.items()}
        closings = len(rerun.stretch.closings)
        cut = Cut(
            rerun,
            rerun.stretch,
            len(rerun.took),
            rerun.next_seq,
            emitted,
            closings=closings,
            last=rerun.last,
            since=rerun.since,
            window=tuple(rerun.window),
            come=dict(rerun.come),
            fired=rerun.fired,
        )
        rerun.cuts[record.number] = cut
        if rerun.state is None:
            return
        begun_from = (rerun.number, record.number) in self._begun_from
        latest = self._latest_of(rerun)
        try:
            copy = plain_copy(rerun.state)
        except NotPlain:
            if self._keeps_state:
                twins = self._twins(rerun, record, by_copying=not begun_from)
                self._examine(record, *twins, latest if begun_from else ())
            return
        if self._keeps_state:
            self._examine(record, plain_copy(copy), plain_copy(copy) if begun_from else copy, latest)
        if begun_from:
            cut.state = copy

    def _back_up(self, rerun: Rerun, record: CheckpointTaken) -> None:
        """What is backed up now: a part that leaves small changes out does not hold what the state does."""
        if (rerun.number, record.number) not in self._partial:
            self._backups[rerun.number] = copied(rerun.state)
            return
        try:
            backup = copied(self._backups[rerun.number])
            changes = carried(self._operator.delta(rerun.state, backup))
            self._backups[rerun.number] = self._operator.apply_delta(backup, changes)
        except Exception as error:
            raise InvalidOperator(
                f"operator of {rerun.slice_id}, executed again to judge the run, failed at partial backup "
                f"{record.number} of #{rerun.number}: {type(error).__name__}: {error}"
            ) from error
        cut = rerun.cuts[record.number]
        cut.state = copied(self._backups[rerun.number])
        if (rerun.number, record.number) in self._begun_from:
            found = find_left_out(self._operator, record, rerun.state, self._backups[rerun.number])
            self.left_out += () if found is None else (found,)

    def _latest_of(self, rerun: Rerun) -> Sequence[Event]:
        """What one has taken last, where it was executed."""
        if self._latest is None or self._latest[0] is not rerun:
            return ()
        events = self._latest[1]
        return events[max(0, len(events) - ONCE_MORE) :]

    def _examine(self, record: CheckpointTaken, state: Any, twin: Any, latest: Sequence[Event]) -> bool:
        """Whether a checkpoint gives back its state. The state itself goes on untouched: what snapshot() does to it is
        part of what is examined."""
        found = find_unfaithful(self._operator, record, state, twin, latest)
        if found is not None:
            self.unfaithful.append(found)
        return found is None

    def _twins(self, rerun: Rerun, record: CheckpointTaken, *, by_copying: bool) -> tuple[Any, Any]:
        """Two states like that of an incarnation, which it is executed again for. Or, where they are to take no more
        inputs, `by_copying`: that is the user's code here, and believed only as far as rows show; what it leaves out
        otherwise, or shares, whoever begins with it lacks, which its outputs show."""
        if by_copying:
            try:
                twins = deepcopy(rerun.state), deepcopy(rerun.state)
            except Exception:  # Whatever the user's code raises: then there is no copy, and it is executed again.
                twins = None
            if twins is not None and same_rows(rows_of(self._operator, twins[0]), rows_of(self._operator, rerun.state)):
                return twins
        number, checkpoint = rerun.number, record.number
        return self._execute_to(number, checkpoint), self._execute_to(number, checkpoint)

    def _has(self, number: int, checkpoint: int) -> bool:
        return number in self.found and checkpoint in self.found[number].cuts

    def _doubt(self, why: str) -> None:
        self.unexplained = self.unexplained or why

    def _begin(self, record: Started, *, twin: bool = False) -> Rerun:
        """A `twin` is executed whatever is known: its state is asked for."""
        stretch = Stretch(None, 0, record.next_seq, emissions_of(self._spec))
        process = processor_of(self._operator, record.seed)
        rerun = Rerun(
            self._spec.slice_id, record.incarnation, record.replica, [stretch], record.next_seq, process, self._hop
        )
        if record.restored is not None:
            stretch.cut = self._cut(record.restored, rerun)
        known = None if twin else (self._known, 0) if stretch.cut is None else stretch.cut.known
        if known is not None and known[0] is not None and self._go_along(rerun, known[0], known[1]):
            return rerun
        rerun.held = self._operator.initial_state() if stretch.cut is None else self._state_at(stretch.cut)
        if stretch.cut is None and not twin and self._can_be_known:
            self._events[rerun] = []
        if stretch.cut is not None:
            _go_on_from(rerun, stretch.cut)
        return rerun

    def _restore(self, rerun: Rerun, record: Restored, *, twin: bool = False) -> None:
        cut = self._cut(record.checkpoint, rerun)
        if cut is None:
            return
        if (along := self._along.pop(rerun, None)) is not None:
            along.fill(rerun)
        self._events.pop(rerun, None)
        stretch = Stretch(cut, len(rerun.took), record.next_seq, emissions_of(self._spec))
        if rerun.took:
            rerun.stretches.append(stretch)
        else:
            rerun.stretches[-1] = stretch
        rerun.next_seq = record.next_seq
        if rerun.took or twin or cut.known is None or not self._go_along(rerun, *cut.known):
            rerun.held = self._state_at(cut)
        if self._partial and not twin:
            self._backups[rerun.number] = copied(rerun.state)
        _go_on_from(rerun, cut)

    def _state_at(self, cut: Cut) -> Any:
        """What an execution that never snapshots or restores holds there; nobody else has it."""
        if cut.known is not None:
            known, place = cut.known
            return known.state_at(place)
        if cut.state is not None:
            return copied(cut.state)
        if cut.rerun.state is None:
            return None
        return self._execute_to(cut.rerun.number, next(n for n, one in cut.rerun.cuts.items() if one is cut))

    def _execute_to(self, number: int, checkpoint: int) -> Any:
        """Execute an incarnation once more, up to one of its checkpoints; returns its state there."""
        records = iter(self._records[number])
        first = next(records)
        first_record = first if isinstance(first, Started) else _unannounced(self._spec.slice_id, number)
        twin = self._begin(first_record, twin=True)
        heard: dict[tuple[int, str, int], int] = {}
        for record in records if isinstance(first, Started) else self._records[number]:
            if isinstance(record, Taken):
                self._take(twin, record, heard)
            elif isinstance(record, Restored):
                self._restore(twin, record, twin=True)
            elif isinstance(record, Closed):
                self._close(twin, record)
            elif isinstance(record, Fired):
                self._fire(twin, record)
            elif isinstance(record, Compensated):
                self._compensate(twin, record)
            elif isinstance(record, CheckpointTaken) and record.number == checkpoint:
                break
        return twin.state

    def _cut(self, checkpoint: tuple[int, int], rerun: Rerun) -> Cut | None:
        number, which = checkpoint
        if not self._has(number, which):
            self._doubt(f"{rerun.slice_id}#{rerun.number} started from a checkpoint that nobody took")
            return None
        return self.found[number].cuts[which]

    def _take(self, rerun: Rerun, record: Taken, heard: dict[tuple[int, str, int], int]) -> None:
        events, derivations = self._sent(rerun, record, heard)
        if len(events) != record.count:
            self._doubt(
                f"{rerun.slice_id}#{rerun.number} took {record.count} events numbered {record.first} to "
                f"{record.last} from {record.upstream}#{record.upstream_incarnation}, which made {len(events)} of them"
            )
        if (along := self._along.get(rerun)) is not None:
            if along.goes_on(events, derivations):
                rerun.batches += along.batches((len(events),), along.at - len(events))
                return
            self._leave(rerun)
        if rerun in self._events:
            self._remember(rerun, events)
        self._latest = rerun, events
        if self._in_columns:
            rerun.as_rows()
        place = self._spec.upstream.index(record.upstream) if events else 0
        if self._operator.by_event_time:
            self._take_in_time(rerun, record.upstream, events, derivations, place)
        else:
            rerun.took.extend(derivations)
            rerun.seqs.extend([event.seq for event in events])
            execute(self._spec, rerun, events, derivations, place)
        lengths = tuple([len(emissions.events) for emissions in rerun.stretches[-1].emitted.values()])
        rerun.batches.append((len(rerun.took), lengths))

    def _take_in_time(
        self, rerun: Rerun, up: str, events: Sequence[Event], derivations: Sequence[Derivation], place: int
    ) -> None:
        """Take events, each of which has to come after the timers that are due before it, and before those that are
        not."""
        for event, derivation in zip(events, derivations, strict=True):
            self._hold_against(rerun, unpunctual(self._operator, rerun, up, event, derivation), made_up=False)
            rerun.took.append(derivation)
            rerun.seqs.append(event.seq)
            execute(self._spec, rerun, [event], [derivation], place)
            rerun.come[up] = max(event.time, rerun.come.get(up, -1))

    def _hold_against(self, rerun: Rerun, why: str, *, made_up: bool) -> None:
        if why and self.found.get(rerun.number) is rerun:
            self.mistimed.append(Mistimed(rerun.slice_id, rerun.number, why, made_up))

    def _close(self, rerun: Rerun, record: Closed) -> None:
        self._leave(rerun)
        self._events.pop(rerun, None)
        if self._spec.epoch is None:
            self._doubt(f"{rerun.slice_id}#{rerun.number} closed epoch {record.epoch:,}, and knows no epochs")
        else:
            close(self._spec, rerun, record.epoch, self._spec.epoch)

    def _fire(self, rerun: Rerun, record: Fired) -> None:
        if not self._spec.timed or rerun.last is None:
            why = "has none" if not self._spec.timed else "had taken nothing"
            self._doubt(f"a timer of {rerun.slice_id}#{rerun.number} fired at {record.at:,} ms, which {why}")
        else:
            self._hold_against(rerun, unasked(self._operator, rerun, record), made_up=True)
            fire(self._spec, rerun, record.at, record.time, record.clock)
            if not record.clock:
                rerun.fired = max(record.at, rerun.fired)

    def _compensate(self, rerun: Rerun, record: Compensated) -> None:
        try:
            rerun.held = self._operator.compensate(rerun.state, record.missing)
        except Exception as error:
            raise InvalidOperator(
                f"operator of {rerun.slice_id}, executed again to judge the run, failed to compensate: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _sent(
        self, rerun: Rerun, record: Taken, heard: dict[tuple[int, str, int], int]
    ) -> tuple[Sequence[Event], Sequence[Derivation]]:
        """What an incarnation took of one upstream; `heard` says where it goes on, as a rule."""
        to, first, last, count = self._spec.slice_id, record.first, record.last, record.count
        upstream = self._reruns[record.upstream] if record.upstream in self._spec.upstream else {}
        sender = upstream.get(record.upstream_incarnation)
        if sender is None:
            return [], []
        for stretch in sender.stretches[-2::-1]:
            # From before it took over the state of a peer.
            found = stretch.emitted[to].between(first, last)
            if len(found[0]) == count:
                return found
        emissions = sender.emitted[to]
        whose = (rerun.number, record.upstream, record.upstream_incarnation)
        goes_on = heard.get(whose, 0)
        if (following := emissions.at(goes_on, first, last, count)) is not None:
            heard[whose] = goes_on + count
            return following
        if emissions.places is None:
            heard[whose] = emissions.place_after(last)
        else:
            place = emissions.in_a_row(first, last, count, goes_on)
            if place is not None:
                end = place + count
                heard[whose] = end
                return emissions.events[place:end], emissions.derivations[place:end]
        return sender.channel(to, first, last)

    # Those that did the same

    def _doings(self, number: int) -> tuple[list[_Did], dict[int, int]]:
        """What an incarnation did with its state, and by each of its checkpoints, how much of that."""
        if number not in self._did:
            did: list[_Did] = []
            by: dict[int, int] = {}
            for record in self._records[number]:
                if type(record) is Taken or type(record) is Closed or type(record) is Fired:
                    did.append(_did(record))
                elif type(record) is CheckpointTaken:
                    by.setdefault(record.number, len(did))
            self._did[number] = did, by
        return self._did[number]

    def _share(self, number: int, record: Started | Restored) -> bool:
        """Whether all that is still to come of an incarnation, from this record on, is what another did from the same
        state on, so that it is known.

        Replicas that take the same in the same order do the same, but for chance and for a numbering of their own.
        """
        if len(self._records) == 1 or self._by_hand:
            # What a partial backup leaves out is in the state of who took it, and of nobody who begins with it.
            return False
        records, done = self._records[number], self._done[number]
        if isinstance(record, Started):
            replica = record.replica
        elif number in self.found and not self.found[number].took:
            replica = self.found[number].replica
        else:
            return False
        begun, next_seq = _begun_from(record), record.next_seq
        rest = records[done + 1 :]
        if not self._operator.deterministic or not rest or not _DOING.issuperset(map(type, rest)):
            return False
        does = self._doings(number)[0][-len(rest) :]
        others = [self.found[n] for n in (self._records if begun is None else (begun[0],)) if n in self.found]
        for other in others:
            theirs = self._records[other.number]
            if other.number == number or self._done[other.number] < len(theirs) or len(other.stretches) > 1:
                continue
            if other.number in self.same_as or not isinstance(theirs[0], Started):
                continue
            cut = None if begun is None else other.cuts.get(begun[1])
            if begun is None:
                since, comes, closings = 0, 0, 0
                if other.stretch.cut is not None or theirs[0].next_seq != next_seq:
                    continue
                emitted = dict.fromkeys(other.emitted, 0)
            else:
                if cut is None or cut.next_seq != next_seq:
                    continue
                since, emitted, closings = cut.position, dict(cut.emitted), cut.closings
                comes = self._doings(other.number)[1][begun[1]]
            did = self._doings(other.number)[0]
            if len(did) - comes == len(does) and did[comes:] == does:
                stretch = Stretch(cut, 0, next_seq, {}, _since(other.stretch.closings[closings:], since, emitted))
                skips = tuple(emitted.values())
                stretch.firings = [
                    tuple(length - skip for length, skip in zip(lengths, skips, strict=True))
                    for lengths in other.stretch.firings[sum(isinstance(one, _Firing) for one in did[:comes]) :]
                ]
                self.found[number] = _copy(other, number, replica, stretch, since, emitted)
                self.found[number].told = other.told
                self.same_as[number] = other.number
                self._done[number] = len(records)
                return True
        return False


_DOING = frozenset({Taken, Closed, Fired})
"""Records of what an incarnation does with its state."""


def _go_on_from(rerun: Rerun, cut: Cut) -> None:
    """With what timers know."""
    rerun.last, rerun.since, rerun.window = cut.last, cut.since, list(cut.window)
    rerun.come, rerun.fired = dict(cut.come), cut.fired


def _unannounced(slice_id: str, number: int) -> Started:
    """The beginning of an incarnation whose record of it is missing."""
    return Started(slice_id, number, None, 1)


def _begun_from(record: BookEntry) -> tuple[int, int] | None:
    """Which checkpoint a stretch begins with: (whose, its number)."""
    if type(record) is Started:
        return record.restored
    return record.checkpoint if type(record) is Restored else None


class _Firing(NamedTuple):
    at: int
    time: int
    clock: bool


_Did = int | tuple[str, int, int, int, int] | _Firing


def _did(record: Taken | Closed | Fired) -> _Did:
    if type(record) is Closed:
        return record.epoch
    if type(record) is Fired:
        return _Firing(record.at, record.time, record.clock)
    assert type(record) is Taken
    return record.upstream, record.upstream_incarnation, record.first, record.last, record.count


def _since(closings: Sequence[Closing], since: int, emitted: Mapping[str, int]) -> list[Closing]:
    """The same ends of epochs, from where so many events had been taken and emitted."""
    skips = tuple(emitted.values())
    return [
        Closing(
            one.epoch,
            one.position - since,
            tuple([length - skip for length, skip in zip(one.lengths, skips, strict=True)]),
        )
        for one in closings
    ]


def _copy(other: Rerun, number: int, replica: int, stretch: Stretch, since: int, emitted: Mapping[str, int]) -> Rerun:
    """What an incarnation did that did the same as another, from where that had taken `since` events and emitted so
    many."""
    for to, emissions in other.emitted.items():
        stretch.emitted[to] = emissions.since(emitted[to])
    skips = tuple(emitted.values())
    return Rerun(
        other.slice_id,
        number,
        replica,
        [stretch],
        other.next_seq,
        None,
        other.hop,
        other.held,
        other.took.since(since),
        other.seqs.since(since),
        [
            (taken - since, tuple(length - skip for length, skip in zip(lengths, skips, strict=True)))
            for taken, lengths in other.batches
            if taken > since
        ],
        later=other.later,
    )
