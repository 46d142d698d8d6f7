"""What failures cost a computation that may lose a little: how far its states are from the ideal ones, and what is
missing on its channels, each beside what a bound allows.

All of it is measured by executing operators again. Of the subject's own word nothing is used but the distance of two
states, and that is examined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import Any

from ..core.errors import InvalidOperator, StreamproofError
from ..core.events import Event
from ..core.operators import Operator, compensates, has_timers, measures_divergence, processor_of, punctuated, rows_of
from ..core.slice_names import channel_name, operator_of
from ..core.topology import Role
from ..core.verdicts import Measured
from .copies import copied
from .exactness import other_keys
from .expected import Expected
from .faithfulness import ONCE_MORE, first_otherwise
from .reexecution import Reexecution
from .reruns import Derivation, Rerun
from .run_order import as_sent, in_run_order

STATE_OFF = "state off by"
STATE_LOST = "state lost"
AT_SINKS = "outputs lost", "sinks"
STEPS = 200
"""At so many places of an execution it is looked how far one event moves a state."""
TOLERANCE = 1e-6
"""What is lost in adding up floats, relative to what is added."""


@dataclass(frozen=True)
class ErrorBound:
    """What all failures of a window may cost."""

    theta: float
    l: float  # noqa: E741  It is the paper's.
    gamma: float
    window: int | None = None
    """Milliseconds of event time; None: the whole run."""


def is_over(one: Measured) -> bool:
    """Whether it is more than is allowed; what is no number is."""
    return not one.amount <= one.allowed + TOLERANCE * max(1.0, one.allowed)


@dataclass(frozen=True)
class _Off:
    """How far a state is from the ideal one."""

    by: float
    moved: float
    """By inputs that were lost, as far as that is allowed beside theta."""
    excused: float

    def with_(self, other: _Off) -> _Off:
        return _Off(self.by + other.by, self.moved + other.moved, self.excused + other.excused)


@dataclass(frozen=True)
class FalseDistance:
    """Something that an operator's divergence says, and that no distance can say."""

    slice_id: str
    why: str


def unknowable(reexecution: Reexecution) -> str:
    """Why there is no ideal state to be compared with; empty where there is one."""
    topology = reexecution.topology
    for slice_id in topology.operator_slices:
        operator = topology.stages[operator_of(slice_id)].operator
        if not operator.deterministic:
            return f"{slice_id} draws random numbers, so it has no ideal state"
        closed = operator.epoch is not None or type(operator).close is not Operator.close
        if closed or has_timers(operator):
            what = "the ends of its epochs" if closed else "its timers"
            return f"the operator of {slice_id} may change its state at {what}, and no ideal state was made with these"
        if topology.unordered(slice_id):
            return f"{slice_id} depends on the order of its events, and its channels have none: there is no ideal state"
        if operator.initial_state() is not None and not measures_divergence(operator):
            return f"the operator of {slice_id} does not say how far two of its states are from each other"
    return ""


class MeasuredLosses:
    """What the failures of one run cost."""

    def __init__(self, reexecution: Reexecution, wanted: Expected, bound: ErrorBound) -> None:
        self._run = reexecution
        self._wanted = wanted
        self._bound = bound
        self._topology = reexecution.topology
        self._made_by: dict[tuple[str, int, str], dict[Derivation, Event]] = {}

    # What is missing

    @cached_property
    def heard(self) -> Mapping[str, frozenset[Derivation]]:
        """Channel -> what any incarnation of its receiver took, or the recorder."""
        found: dict[str, frozenset[Derivation]] = {}
        for slice_id, taken in self._taken.items():
            for up in self._topology.upstream(slice_id):
                found[channel_name(up, slice_id)] = taken
        for channel, deliveries in self._run.deliveries.items():
            found[channel] = frozenset(d for one in deliveries for d in one.derivations if d is not None)
        return found

    @cached_property
    def made(self) -> Mapping[str, frozenset[Derivation]]:
        """Channel -> what any incarnation of its sender made for it."""
        found: dict[str, set[Derivation]] = {}
        senders = {**{name: {1: one} for name, one in self._run.sources.items()}, **self._run.reruns}
        for slice_id, reruns in senders.items():
            for rerun in reruns.values():
                for stretch in rerun.stretches:
                    for to, emissions in stretch.emitted.items():
                        found.setdefault(channel_name(slice_id, to), set()).update(emissions.derivations)
        return {channel: frozenset(derivations) for channel, derivations in found.items()}

    @cached_property
    def missing(self) -> Mapping[str, tuple[frozenset[Derivation], frozenset[Derivation]]]:
        """Channel -> what was made and nobody took, and what was not made since its input is missing."""
        found: dict[str, tuple[frozenset[Derivation], frozenset[Derivation]]] = {}
        absent: dict[str, set[Derivation]] = {}
        """Operator slice -> inputs that none of its incarnations took."""
        known = -1
        # In a cycle, what is missing goes round.
        while known != sum(map(len, absent.values())):
            known = sum(map(len, absent.values()))
            for to in self._topology.slices:
                for up in self._topology.upstream(to):
                    channel = channel_name(up, to)
                    ideal, made = self._wanted.channels[channel].keys(), self.made.get(channel, frozenset())
                    lost = made - self.heard[channel]
                    unmade = {d for d in ideal - made if d[:-1] in absent.get(up, ())}
                    found[channel] = frozenset(lost), frozenset(unmade)
                    absent.setdefault(to, set()).update(lost, unmade)
            if not self._topology.has_feedback:
                break
        return found

    def lost_inputs(self, slice_id: str) -> int:
        """Inputs that no incarnation of a slice took."""
        return sum(
            len(lost) + len(unmade)
            for up in self._topology.upstream(slice_id)
            for lost, unmade in [self.missing[channel_name(up, slice_id)]]
        )

    def _lost_inputs(self, slice_id: str) -> set[Derivation]:
        pairs = (self.missing[channel_name(up, slice_id)] for up in self._topology.upstream(slice_id))
        return {derivation for lost, unmade in pairs for derivation in (*lost, *unmade)}

    def lost_punctuations(self) -> Iterator[tuple[str, str]]:
        """(Operator slice, input) that must never be lost, and is in none of its final states."""
        for slice_id in self._run.reruns:
            if slice_id in self._run.doubtful or not punctuated(self._operator(slice_id)):
                continue
            held = [set(survivor.lineage()) for survivor in self._run.survivors(slice_id)]
            for derivation in self._wanted.taken[slice_id]:
                if not all(derivation in one for one in held) and self._must_stay(slice_id, derivation):
                    yield slice_id, self._run.said(derivation)

    def _operator(self, slice_id: str) -> Operator[Any]:
        return self._topology.stages[operator_of(slice_id)].operator

    def _must_stay(self, slice_id: str, derivation: Derivation) -> bool:
        """Whether a slice must never lose an input: a punctuation that it has taken, or that was not lost before it
        came here. Where its maker failed and cannot make it again, it is among the outputs that the maker may lose."""
        event, operator = self._wanted.taken[slice_id].get(derivation), self._operator(slice_id)
        if event is None or not punctuated(operator) or not operator.punctuation(event):
            return False
        if derivation in self._taken[slice_id]:
            return True
        return any(self._still_made(up, slice_id, derivation) for up in self._topology.upstream(slice_id))

    def _still_made(self, up: str, to: str, derivation: Derivation) -> bool:
        if derivation not in self._wanted.channels[channel_name(up, to)]:
            return False
        if up in self._run.sources or any(
            derivation in self._of_sender(up, survivor.number, to) for survivor in self._run.survivors(up)
        ):
            return True
        return self._must_stay(up, derivation[:-1])

    @cached_property
    def _taken(self) -> Mapping[str, frozenset[Derivation]]:
        """Operator slice -> what any of its incarnations took."""
        return {
            slice_id: frozenset(derivation for rerun in reruns.values() for derivation in rerun.took)
            for slice_id, reruns in self._run.reruns.items()
        }

    # Failures

    def failures(self, slice_id: str) -> dict[int, int]:
        """Window -> failures of a slice in it, by how far event time had come for what failed."""
        counts: dict[int, int] = {}
        for _, window, count in self._successions(slice_id):
            if count:
                counts[window] = counts.get(window, 0) + count
        return counts

    def _successions(self, slice_id: str) -> Iterator[tuple[Rerun, int, int]]:
        """Each incarnation of a slice, how many failures came before it and after the one before, and in which window
        these were."""
        latest, known = 0, self._initial(slice_id)
        for number, rerun in sorted(self._run.reruns.get(slice_id, {}).items()):
            # One that was placed and never started has failed as well.
            yield rerun, 0 if self._bound.window is None else latest // self._bound.window, max(0, number - known)
            known = max(known, number)
            latest = max([latest, *(self._run.time_of(d) for d in rerun.took)])

    def _initial(self, slice_id: str) -> int:
        """How many incarnations began in nobody's place: one of each replica."""
        return max(1, len({rerun.replica for rerun in self._run.reruns.get(slice_id, {}).values()}))

    def share(self, slice_id: str) -> float:
        """How much of a bound its failures may use: 1 - 2^-k in each window with k of them."""
        return sum(1 - 2.0**-count for count in self.failures(slice_id).values())

    def share_of(self, name: str, window: int | None = None) -> float:
        """The same of an operator: that of its slice that failed most; in one window, if that is named."""
        if window is None:
            return max((self.share(slice_id) for slice_id in self._slices(name)), default=0.0)
        return 1 - 2.0 ** -self._failed(name, window)

    def _slices(self, name: str) -> list[str]:
        return [slice_id for slice_id in self._run.reruns if operator_of(slice_id) == name]

    def _failed(self, name: str, window: int | None = None) -> int:
        counts = (self.failures(slice_id) for slice_id in self._slices(name))
        return max((sum(one.values()) if window is None else one.get(window, 0) for one in counts), default=0)

    # Outputs per input

    def beta(self, name: str) -> int:
        """As many outputs, on all channels, as one input gives at most; no less than one."""
        most = 1
        for slice_id in self._slices(name):
            counts: dict[Derivation, int] = {}
            for to in self._topology.downstream(slice_id):
                for derivation in self._wanted.channels[channel_name(slice_id, to)]:
                    counts[derivation[:-1]] = counts.get(derivation[:-1], 0) + 1
            most = max(most, *counts.values(), 1)
        return most

    # States

    @cached_property
    def _states(self) -> Mapping[str, _State]:
        """By slice: of each that keeps a state, where that can be told."""
        return {s: self._state(s) for s in self._run.stateful() if s not in self._run.doubtful}

    def _state(self, slice_id: str) -> _State:
        operator = self._operator(slice_id)
        # Of a channel, too, the last can be what counts.
        ups = self._topology.upstream(slice_id)
        channels = [as_sent(self._wanted.channels[channel_name(up, slice_id)], self._sent(up, slice_id)) for up in ups]
        inputs = in_run_order(self._run, channels, slice_id, self._inputs(slice_id))
        return _State(slice_id, operator, inputs)

    def _inputs(self, slice_id: str) -> dict[Derivation, Event]:
        """What a slice should have taken: what was made for it, as it took it, or else as it was made last; and what
        was not made since an input is missing. What those upstream made otherwise, as they were off themselves, is
        their error, and no loss of this slice."""
        made: dict[Derivation, Event] = {}
        for up in self._topology.upstream(slice_id):
            made.update(self._sent(up, slice_id))
        for _, rerun in sorted(self._run.reruns[slice_id].items()):
            for intake in self._run.intakes(rerun):
                sender = intake.record.upstream, intake.record.upstream_incarnation
                sent = self._of_sender(*sender, slice_id)
                made.update((d, sent[d]) for d in intake.derivations if d in sent)
        wanted = self._wanted.taken[slice_id]
        unmade: set[Derivation] = set()
        for up in self._topology.upstream(slice_id):
            unmade |= self.missing[channel_name(up, slice_id)][1]
        inputs = {d: made.get(d, event) for d, event in wanted.items() if d in made or d in unmade}
        return {**inputs, **{d: event for d, event in made.items() if d not in inputs}}

    def _sent(self, up: str, to: str) -> dict[Derivation, Event]:
        sent: dict[Derivation, Event] = {}
        for number in sorted(self._run.reruns.get(up, {1: None})):
            sent.update(self._of_sender(up, number, to))
        return sent

    def _of_sender(self, up: str, number: int, to: str) -> Mapping[Derivation, Event]:
        """What one incarnation made for a slice."""
        key = up, number, to
        if key not in self._made_by:
            rerun = self._run.sources[up] if up in self._run.sources else self._run.reruns.get(up, {}).get(number)
            found: dict[Derivation, Event] = {}
            for stretch in rerun.stretches if rerun is not None else ():
                emissions = stretch.emitted[to]
                found.update(zip(emissions.derivations, emissions.events, strict=True))
            self._made_by[key] = found
        return self._made_by[key]

    # What it comes to

    def measured(self) -> Iterator[Measured]:
        """Per operator, and at the sinks; and what one of many has lost, where the failures of others excuse that."""
        whole = [*self._of_inputs(), *self._of_states(), self._at_the_sinks()]
        yield from whole
        over = {(one.what, one.where) for one in whole if is_over(one)}
        for name, one in (*self._of_channels(), *self._of_slices()):
            if is_over(one) and (one.what, name) not in over:
                yield one
        lost = {where.partition(",")[0] for what, where in over if what in (STATE_OFF, STATE_LOST)}
        for name, one in self._for_a_while():
            if is_over(one) and lost.isdisjoint((name, one.where.partition(",")[0])):
                yield one

    def _of_inputs(self) -> Iterator[Measured]:
        bound = self._bound
        for name in self._topology.stages:
            ups = {operator_of(up) for slice_id in self._slices(name) for up in self._topology.upstream(slice_id)}
            share, failed = self.share_of(name), self._failed(name)
            lost = sum(
                len(self.missing[channel_name(up, slice_id)][0])
                for slice_id in self._slices(name)
                for up in self._topology.upstream(slice_id)
            )
            allowed = bound.l * share + bound.gamma * sum(self.share_of(up) for up in ups)
            yield Measured("inputs lost", name, failed, float(lost), allowed)

    def _of_channels(self) -> Iterator[tuple[str, Measured]]:
        """By the failures of their own ends; with the operator, or the sinks, of which each is a part."""
        for to in self._topology.slices:
            what, name = AT_SINKS if self._topology.role(to) is Role.SINK else ("inputs lost", operator_of(to))
            for up in self._topology.upstream(to):
                channel = channel_name(up, to)
                failed = max(sum(self.failures(end).values()) for end in (up, to))
                allowed = self._bound.gamma * self.share(up) + self._bound.l * self.share(to)
                yield name, Measured(what, channel, failed, float(len(self.missing[channel][0])), allowed)

    def _of_slices(self) -> Iterator[tuple[str, Measured]]:
        """The states of copies, by their own failures."""
        for slice_id, off in self._off.items():
            failed, allowed = sum(self.failures(slice_id).values()), self._bound.theta * self.share(slice_id)
            yield operator_of(slice_id), Measured(STATE_OFF, slice_id, failed, off.by, allowed + off.moved)

    def _for_a_while(self) -> Iterator[tuple[str, Measured]]:
        """What was lost of the states of copies, by how far they were off when it had just been lost: what comes later
        may take the place of it."""
        for slice_id, state in self._states.items():
            for window, gone, failed in self._gone(slice_id):
                allowed = self._bound.theta * (1 - 2.0**-failed)
                where = self._in_window(slice_id, window)
                amount = state.without_for_a_while(gone)
                yield operator_of(slice_id), Measured("state lost for a while", where, failed, amount, allowed)

    @cached_property
    def _off(self) -> Mapping[str, _Off]:
        """Of each slice with a state, where anybody holds it."""
        found: dict[str, _Off] = {}
        for slice_id, state in self._states.items():
            survivors = self._run.survivors(slice_id)
            if not survivors:
                continue
            by = max(state.apart(survivor.state) for survivor in survivors)
            missing, alpha = self._lost_inputs(slice_id), state.operator.alpha or 0.0
            if compensates(state.operator):
                # It makes up for what may be lost, whether it is or not.
                found[slice_id] = _Off(by, alpha * max(len(missing), self._bound.l * self.share(slice_id)), 0.0)
            else:
                # Alpha is the operator's word, and a large one must not excuse what else was lost. In this order a
                # distance that is no number excuses nothing.
                moved = min(state.without(missing), alpha * len(missing))
                found[slice_id] = _Off(by, moved, moved)
        return found

    def _of_states(self) -> Iterator[Measured]:
        bound = self._bound
        wholes: dict[str, _Off] = {}
        losses: dict[tuple[str, int], list[float]] = {}
        for slice_id, off in self._off.items():
            name = operator_of(slice_id)
            wholes[name] = wholes.get(name, _Off(0.0, 0.0, 0.0)).with_(off)
            by_failure = list(self._by_failure(slice_id, self._states[slice_id]))
            yield from (one for _, one in by_failure)
            for window, one in dict(by_failure).items():
                losses.setdefault((name, window), []).append(one.amount)
        for (name, window), lost in losses.items():
            if len(lost) > 1:
                allowed = bound.theta * self.share_of(name, window)
                where = self._in_window(name, window)
                yield Measured(STATE_LOST, where, self._failed(name, window), sum(lost), allowed)
        for name, off in wholes.items():
            allowed = bound.theta * self.share_of(name) + off.moved
            yield Measured(STATE_OFF, name, self._failed(name), off.by, allowed, off.excused)

    def _by_failure(self, slice_id: str, state: _State) -> Iterator[tuple[int, Measured]]:
        """Window, and what had been taken into a state and was lost in it, after each failure."""
        for window, gone, failed in self._gone(slice_id):
            allowed = self._bound.theta * (1 - 2.0**-failed)
            yield (
                window,
                Measured("state lost", self._in_window(slice_id, window), failed, state.without(gone), allowed),
            )

    def _gone(self, slice_id: str) -> Iterator[tuple[int, set[Derivation], int]]:
        """After each failure: its window, what had been taken into a state and was lost in that, and how many failures
        there were in it."""
        successions = list(self._successions(slice_id))
        held = [set(rerun.lineage()) for rerun, _, _ in successions]
        lost: dict[int, set[Derivation]] = {}
        failures: dict[int, int] = {}
        for place, (_, window, count) in enumerate(successions[1:], 1):
            gone = lost.setdefault(window, set())
            gone |= held[place - 1].difference(*held[place:])
            failures[window] = failures.get(window, 0) + count
            if failures[window]:
                yield window, gone, failures[window]

    def _in_window(self, where: str, window: int) -> str:
        length = self._bound.window
        return where if length is None else f"{where}, {window * length:,} to {(window + 1) * length:,} ms"

    def _at_the_sinks(self) -> Measured:
        missing, failed, share, beta = 0, 0, 0.0, 1
        for name in self._topology.stages:
            share = max(share, self.share_of(name))
            failed = max(failed, self._failed(name))
            beta = max(beta, self.beta(name))
        for slice_id in self._topology.slices:
            if self._topology.role(slice_id) is Role.SINK:
                missing += self.lost_inputs(slice_id)
        allowed = (self._bound.gamma + beta * self._bound.l) * share
        return Measured(*AT_SINKS, failed, float(missing), allowed)

    def said_of_wide_bounds(self, measured: Iterable[Measured]) -> str:
        """Which bounds would hold though all were lost; empty where none would."""
        everything: dict[tuple[str, str], float] = {}
        for slice_id, state in self._states.items():
            key = STATE_OFF, operator_of(slice_id)
            everything[key] = everything.get(key, 0.0) + state.apart(state.operator.initial_state())
        everything[AT_SINKS] = float(sum(map(len, self._wanted.delivered.values())))
        wide = [
            f"{one.what} ({one.where})"
            for one in measured
            if one.failures and one.allowed >= everything.get((one.what, one.where), one.allowed + 1)
        ]
        return f"; nothing would exceed the bound of: {', '.join(wide)}" if wide else ""

    # Whether the operator's word can be taken

    def false_distances(self, *, once_more: bool = False) -> Iterator[FalseDistance]:
        """What operators say of distances that cannot be so. `once_more`: of states alone that they have been asked of
        before, as one that keeps something of what it was asked says something else by then. Raises InvalidOperator for
        one that changes what it is given."""
        for slice_id, state in self._states.items():
            held = [rerun.state for rerun in self._run.reruns.get(slice_id, {}).values()]
            why = state.false_of(held) if once_more else state.false_distance(held)
            if why:
                yield FalseDistance(slice_id, why)


class _State:
    """The ideal state of a slice, and those near it."""

    def __init__(self, slice_id: str, operator: Operator[Any], taken: Mapping[Derivation, Event]) -> None:
        self.slice_id = slice_id
        self.operator = operator
        self._taken = taken
        self._step = max(1, len(taken) // STEPS)

    @cached_property
    def ideal(self) -> Any:
        return self._execute(self._taken.values())

    def _execute(self, events: Any) -> Any:
        state = self.operator.initial_state()
        process = processor_of(self.operator, 0)
        for event in events:
            for _ in process(event, state):
                pass
        return state

    def distance(self, one: Any, other: Any) -> float:
        try:
            return float(self.operator.divergence(one, other))
        except StreamproofError:
            raise
        except Exception as error:
            raise InvalidOperator(
                f"operator of {self.slice_id}, divergence(), asked to judge the run: {type(error).__name__}: {error}"
            ) from error

    def apart(self, state: Any) -> float:
        return self.distance(state, self.ideal)

    def without(self, lost: set[Derivation]) -> float:
        """How far it is from what it were without these inputs."""
        if not lost:
            return 0.0
        return self.distance(self._execute(event for d, event in self._taken.items() if d not in lost), self.ideal)

    def without_for_a_while(self, lost: set[Derivation]) -> float:
        """The same when the last of these had just been taken, and nothing that came after it."""
        places = [place for place, derivation in enumerate(self._taken) if derivation in lost]
        if not places:
            return 0.0
        by_then = list(islice(self._taken.items(), places[-1] + 1))
        held = self._execute(event for derivation, event in by_then if derivation not in lost)
        return self.distance(held, self._execute(event for _, event in by_then))

    def false_distance(self, states: Sequence[Any]) -> str:
        """What the operator says of distances that cannot be so; empty where nothing was found."""
        operator, alpha = self.operator, self.operator.alpha or 0.0
        blank = operator.initial_state()
        for one in (*states, self.ideal, blank):
            for other in (self.ideal, blank):
                self._require_unchanged(one, other)
        if why := self.false_of(states):
            return why
        state, process = operator.initial_state(), processor_of(operator, 0)
        furthest, earlier, anything = 0.0, blank, False
        for number, event in enumerate(self._taken.values()):
            before = copied(state) if number % self._step == 0 else None
            for _ in process(event, state):
                pass
            if before is None:
                continue
            moved = self.distance(state, before)
            what = f"event ({event.source}, {event.seq})"
            if moved > alpha * (1 + TOLERANCE):
                return f"{what} moved the state by {moved:,.6g}, and alpha is {alpha:,.6g}"
            if why := self._false(state, before):
                return why
            for one, other in ((state, before), (before, earlier), (state, self.ideal)):
                if why := self._shorter(one, other, blank):
                    return why
            earlier = before
            furthest += alpha * self._step
            if (far := self.distance(state, blank)) > furthest * (1 + TOLERANCE):
                return f"{what} brought the state {far:,.6g} from a blank one, and alpha allows {furthest:,.6g}"
            anything = anything or moved > 0 or far > 0
        return "" if anything else self._never_measured(blank)

    def _never_measured(self, blank: Any) -> str:
        """Of an operator whose states are nowhere told from a blank one, by their rows either, though they make other
        outputs: whatever is lost of them, no bound would notice."""
        latest = list(self._taken.values())[-ONCE_MORE:]
        found = first_otherwise(self.operator, latest, copied(self.ideal), copied(blank))
        if found is None:
            return ""
        return (
            "its divergence says 0 of a blank state and of each that comes of the input, and its rows tell none of "
            f"them from another; but of event ({found.event.source}, {found.event.seq}), taken once more, the last of "
            f"them makes {found.made}, and a blank one {found.other}"
        )

    def false_of(self, states: Sequence[Any]) -> str:
        """The same of these states, the ideal one and a blank one."""
        blank = self.operator.initial_state()
        for one in (*states, self.ideal, blank):
            for other in (self.ideal, blank):
                if why := self._false(one, other):
                    return why
            if why := self._shorter(one, self.ideal, blank):
                return why
        return ""

    def _require_unchanged(self, *states: Any) -> None:
        """Raises InvalidOperator where two states are others once the operator was asked how far they are apart."""
        given = [copied(state) for state in states]
        self.distance(*given)
        for state, now in zip(states, given, strict=True):
            rows, others = rows_of(self.operator, state), rows_of(self.operator, now)
            key = next(iter(other_keys(rows, others)), None)
            if key is not None:
                raise InvalidOperator(
                    f"operator of {self.slice_id}, divergence(), changes a state that it is given: in {key!r}, "
                    f"{rows.get(key)!r} became {others.get(key)!r}; change a copy"
                )

    def _shorter(self, one: Any, other: Any, third: Any) -> str:
        """Of three states, no two are further from each other than by way of the third: or else a state that is far off
        could be said to be near."""
        apart = sorted((self.distance(one, other), self.distance(one, third), self.distance(other, third)))
        for amount in apart:
            if not isfinite(amount) or amount < 0:
                return f"its divergence says {amount} of two states"
        if apart[2] > (apart[0] + apart[1]) * (1 + TOLERANCE):
            return (
                f"its divergence says {apart[2]:,.6g} of two states, and {apart[0]:,.6g} and {apart[1]:,.6g} on the "
                "way between them by a third"
            )
        return ""

    def _false(self, one: Any, other: Any) -> str:
        there, back = self.distance(one, other), self.distance(other, one)
        if not isfinite(there) or there < 0:
            return f"its divergence says {there} of two states"
        if abs(there - back) > TOLERANCE * max(there, back):
            return f"its divergence says {there:,.6g} one way and {back:,.6g} the other"
        if (itself := self.distance(one, copied(one))) != 0:
            return f"its divergence says {itself:,.6g} of a state and a copy of it"
        if there > 0:
            return ""
        rows, others = rows_of(self.operator, one), rows_of(self.operator, other)
        key = next(iter(other_keys(rows, others)), None)
        if key is not None:
            differing = f"{rows.get(key)!r} and {others.get(key)!r}"
            return f"its divergence says 0 of two states that differ in {key!r} ({differing})"
        return ""
