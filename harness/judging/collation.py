"""What a history comes to, before any guarantee is asked: what is missing, doubled, unexplained or out of order.

Oracles read this, and never the records. A subject whose operators can be executed again is collated by re-execution; a
black box against reference runs (see `harness.judging.references`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import lt

from ..model import Event, rows_of
from ..recording.history import Aborted, FaultMissed, FaultStruck, History
from .reexecution import Delivery, Derivation, Expected, Output, Reexecution, Rerun
from .verdicts import Anomaly, Evidence, Tally, tally


@dataclass(frozen=True)
class Collation:
    """Counts with bounded evidence. A count of 0 means that it was looked for and not found."""

    observables: tuple[str, ...]
    incomplete: str
    """Why nothing can be said to be lost; empty when the run came to its end and rest."""
    unproven: str
    """Why the faults cannot be said to have happened as planned; empty when each of them bit."""
    unjudgeable: str
    """Why the record itself cannot be trusted to be judged; empty when it explains itself."""
    lost_state: Tally
    """Inputs that the final state does not hold."""
    lost_output: Tally
    """Inputs without the output that they should have had."""
    duplicate_effects: Tally
    """Inputs that the final state holds more than once, or that one which was replaced did when it was seen."""
    duplicate_outputs: Tally
    """Outputs delivered again, for the same input."""
    conflicting_outputs: Tally
    """Of those, the ones whose content differs from the first."""
    phantoms: Tally
    """Outputs and rows of state that no execution of what was taken gives."""
    reordered: Tally
    """Outputs delivered after a later one of their channel, other than as a repetition."""
    inputs: int
    """Events that were offered."""
    reexecution: Reexecution | None = None
    """Where the subject could be executed again."""

    def tallies(self, *names: str) -> tuple[Tally, ...]:
        """The named tallies that count anything."""
        return tuple(t for name in names if (t := getattr(self, name)).count)


def collate_reexecution(history: History, rerun: Reexecution, expected: Expected) -> Collation:
    """Collate a history of slices."""
    faults = Faults(history)
    lost_state: list[tuple[str, Derivation]] = []
    doubled: list[tuple[Rerun, Derivation, int]] = []
    for slice_id in rerun.stateful():
        survivor = rerun.survivor(slice_id)
        if len(rerun.reruns[slice_id]) > 1:
            doubled += _doubled_in_passing(rerun, slice_id)
        lineage = [] if survivor is None else survivor.lineage()
        wanted = _wanted(rerun, slice_id, expected.taken[slice_id])
        if len(lineage) == len(wanted) and wanted.keys() == set(lineage):
            continue
        seen = Counter(lineage)
        lost_state += [(slice_id, derivation) for derivation in wanted if derivation not in seen]
        if survivor is not None:
            doubled += [(survivor, derivation, count) for derivation, count in seen.items() if count > 1]

    lost_output: list[tuple[str, Derivation]] = []
    repeated: list[tuple[str, Output, Output]] = []
    reordered: list[tuple[str, Output]] = []
    phantom_rows: list[tuple[str, Output]] = []
    for channel, deliveries in rerun.deliveries.items():
        upstream, _, sink = channel.partition(">")
        wanted = _wanted(rerun, sink, expected.delivered[channel], upstream)
        if _is_as_expected(deliveries, wanted):
            continue
        first: dict[Derivation, Output] = {}
        highest = 0
        for output in (output for delivery in deliveries for output in delivery.outputs()):
            if output.derivation is None:
                phantom_rows.append((channel, output))
                continue
            earlier = first.setdefault(output.derivation, output)
            if earlier is not output:
                repeated.append((channel, earlier, output))
            elif output.event.seq < highest:
                reordered.append((channel, output))
            else:
                highest = output.event.seq
        lost_output += [(channel, d) for d in wanted if d not in first]
    conflicting = [r for r in repeated if (r[1].event.key, r[1].event.value) != (r[2].event.key, r[2].event.value)]
    wrong_state = list(_wrong_state(rerun))

    story = _Story(rerun, expected, faults)
    return Collation(
        observables=("outputs", "state"),
        incomplete=_incomplete(history, rerun),
        unproven=faults.unproven,
        unjudgeable=rerun.unexplained[0] if rerun.unexplained else "",
        lost_state=tally(Anomaly.LOST_INPUT, len(lost_state), (story.lost(*one) for one in lost_state)),
        lost_output=tally(Anomaly.LOST_INPUT, len(lost_output), (story.lost_output(*one) for one in lost_output)),
        duplicate_effects=tally(Anomaly.DUPLICATE_EFFECT, len(doubled), (story.doubled(*one) for one in doubled)),
        duplicate_outputs=tally(Anomaly.DUPLICATE_OUTPUT, len(repeated), (story.repeated(*one) for one in repeated)),
        conflicting_outputs=tally(
            Anomaly.PHANTOM_OUTPUT, len(conflicting), (story.repeated(*one) for one in conflicting)
        ),
        phantoms=tally(
            Anomaly.PHANTOM_OUTPUT,
            len(phantom_rows) + len(wrong_state),
            _chain(wrong_state, (story.phantom(*one) for one in phantom_rows)),
        ),
        reordered=tally(Anomaly.REORDERED_OUTPUT, len(reordered), (story.reordered(*one) for one in reordered)),
        inputs=sum(len(events) for events in rerun.offered.values()),
        reexecution=rerun,
    )


def _doubled_in_passing(rerun: Reexecution, slice_id: str) -> Iterator[tuple[Rerun, Derivation, int]]:
    """What an incarnation that was replaced had taken more than once when its last visible effect came of it, and the
    final state does not hold more than once."""
    *replaced, survivor = (one for _, one in sorted(rerun.reruns[slice_id].items()))
    found: dict[Derivation, tuple[Rerun, Derivation, int]] = {}
    for one in replaced:
        if len(set(one.lineage())) == len(one.lineage()) or not (visible := rerun.visible(one)):
            continue
        for derivation, count in Counter(one.lineage(visible)).items():
            if count > 1:
                found.setdefault(derivation, (one, derivation, count))
    if not found:
        return
    final = Counter(survivor.lineage())
    yield from (entry for derivation, entry in found.items() if final[derivation] < 2)


def _wanted(
    rerun: Reexecution, to: str, expected: Mapping[Derivation, Event], *upstream: str
) -> Mapping[Derivation, Event]:
    """What `to` should have been given by `upstream`, by default all that feed it.

    Where an operator has several input channels, what it makes of an input can depend on the order. Then it is what
    the order of the run gives, for what is in the sender's final state, and what another order gives, for what is not.
    """
    topology = rerun.topology
    if all(len(topology.upstream(slice_id)) == 1 for slice_id in topology.operator_slices):
        return expected
    wanted: dict[Derivation, Event] = {}
    taken: set[Derivation] = set()
    for up in upstream or topology.upstream(to):
        survivor = rerun.survivor(up) if up in rerun.reruns else None
        if survivor is not None:
            events, derivations = survivor.channel(to, 0, sys.maxsize)
            wanted.update(zip(derivations, events, strict=True))
            taken.update(survivor.lineage())
    return {**{d: event for d, event in expected.items() if d[:-1] not in taken}, **wanted}


def _is_as_expected(deliveries: Sequence[Delivery], expected: Mapping[Derivation, Event]) -> bool:
    """Whether everything was delivered once, in order: most of the histories of a search."""
    seen = [derivation for delivery in deliveries for derivation in delivery.derivations]
    if len(seen) != len(expected) or expected.keys() != set(seen):
        return False
    seqs = [event.seq for delivery in deliveries for event in delivery.record.rows]
    return all(map(lt, seqs, islice(seqs, 1, None)))


def _chain(*parts: Iterable[Evidence]) -> Iterator[Evidence]:
    for part in parts:
        yield from part


def _incomplete(history: History, rerun: Reexecution) -> str:
    reason = why_incomplete(history)
    if not reason:
        missing = [s for s in rerun.topology.operator_slices if s not in rerun.kept]
        if missing:
            reason = f"the state of {', '.join(missing)} was not recorded at the end"
        for slice_id, (incarnation, _) in rerun.kept.items():
            if not reason and incarnation != max(rerun.reruns[slice_id], default=0):
                reason = f"the state of {slice_id} was recorded of incarnation {incarnation}, which is not its last"
    return reason


def why_incomplete(history: History) -> str:
    """Why a history cannot show that something was lost; empty when it can."""
    for entry in history.timeline:
        if isinstance(entry, Aborted):
            return entry.why
    if not history.sealed:
        return "the run ended before its records were sealed"
    if not history.drained:
        return "stall: the end of the input did not pass through"
    return ""


def _wrong_state(rerun: Reexecution) -> Iterator[Evidence]:
    for slice_id, (incarnation, rows) in rerun.kept.items():
        executed = rerun.reruns[slice_id].get(incarnation)
        operator = rerun.topology.stages[slice_id.rpartition("-")[0]].operator
        given = {} if executed is None else rows_of(operator, executed.state)
        for key in sorted(rows.keys() | given.keys()):
            if key not in rows or key not in given or rows[key] != given[key]:
                was, gives = (repr(r[key]) if key in r else "not there" for r in (rows, given))
                yield Evidence(
                    f"state of key {key!r} is {was}, but what was taken gives {gives}",
                    f"{slice_id}#{incarnation}",
                )


class Faults:
    """What a history proves about its faults."""

    def __init__(self, history: History) -> None:
        self._struck = list(history.struck())
        self.unproven = self._unproven(history)

    def _unproven(self, history: History) -> str:
        for entry in history.timeline:
            if isinstance(entry, FaultMissed):
                return f"the trigger of fault {entry.number + 1} never came: {entry.fault}"
        for struck in self._struck:
            if not struck.bite.bit:
                return f"fault {struck.number + 1} did not bite ({struck.fault}): {struck.bite.why_not}"
        return ""

    def before(self, at: int) -> int | None:
        """The last fault that struck before a time."""
        return max((s.number for s in self._struck if s.stamp.at <= at), default=None)

    def of(self, actors: Sequence[str]) -> FaultStruck | None:
        """The first fault that hit one of these, else the first of all."""
        hit = (s for s in self._struck if any(actor in s.bite.actors for actor in actors))
        return next(hit, next(iter(self._struck), None))


class _Story:
    """Puts an anomaly into words: which input, which slice, when, after which fault."""

    def __init__(self, rerun: Reexecution, expected: Expected, faults: Faults) -> None:
        self._rerun = rerun
        self._expected = expected
        self._faults = faults

    def _input(self, derivation: Derivation, event: Event | None) -> str:
        what = "" if event is None else f" ({event.key!r}, {event.value!r})"
        return f"input {derivation[0]} #{derivation[1]:,}{what}"

    def lost(self, slice_id: str, derivation: Derivation) -> Evidence:
        event = self._expected.taken[slice_id].get(derivation)
        takers = [r for r in self._rerun.reruns[slice_id].values() if derivation in r.took]
        fault = self._faults.of((slice_id, *self._rerun.topology.upstream(slice_id)))
        fate = (
            "never taken"
            if not takers
            else f"taken by incarnation {', '.join(str(t.number) for t in takers)} and not restored"
        )
        at = tuple(time for taker in takers for time in self._rerun.took_at(taker, derivation))
        return Evidence(
            f"{self._input(derivation, event)}: {fate}", slice_id, at, None if fault is None else fault.number
        )

    def lost_output(self, channel: str, derivation: Derivation) -> Evidence:
        event = self._expected.delivered[channel].get(derivation)
        upstream = channel.partition(">")[0]
        fault = self._faults.of((upstream, *self._rerun.topology.upstream(upstream)))
        where = None if fault is None else fault.number
        return Evidence(f"{self._input(derivation, event)}: its output was never delivered", channel, (), where)

    def doubled(self, rerun: Rerun, derivation: Derivation, count: int) -> Evidence:
        slice_id = rerun.slice_id
        event = self._expected.taken[slice_id].get(derivation)
        reruns = self._rerun.reruns[slice_id].values()
        at = tuple(time for other in reruns for time in self._rerun.took_at(other, derivation))
        fault = self._faults.before(at[-1]) if at else None
        where = slice_id if rerun is self._rerun.survivor(slice_id) else f"{slice_id}#{rerun.number}"
        return Evidence(f"{self._input(derivation, event)}: counts {count} times", where, at, fault)

    def repeated(self, channel: str, earlier: Output, later: Output) -> Evidence:
        said = f"({later.event.key!r}, {later.event.value!r})"
        if (earlier.event.key, earlier.event.value) != (later.event.key, later.event.value):
            said = f"({earlier.event.key!r}, {earlier.event.value!r}), then {said}"
        return Evidence(
            f"{later.event.source} #{later.event.seq:,} {said}",
            channel,
            (earlier.at, later.at),
            self._faults.before(later.at),
        )

    def phantom(self, channel: str, output: Output) -> Evidence:
        return Evidence(
            f"{output.event.source}#{output.incarnation} #{output.event.seq:,} "
            f"({output.event.key!r}, {output.event.value!r}): nothing that it took gives this",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )

    def reordered(self, channel: str, output: Output) -> Evidence:
        return Evidence(
            f"{output.event.source} #{output.event.seq:,} ({output.event.key!r}, {output.event.value!r}) "
            "came after a later one",
            channel,
            (output.at,),
            self._faults.before(output.at),
        )
