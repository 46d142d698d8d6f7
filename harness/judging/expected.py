"""What an execution without failures takes and delivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ..core.errors import InvalidOperator
from ..core.events import Event, Value
from ..core.operators import rows_of
from ..core.slice_names import channel_name, operator_of
from ..core.topology import Role
from ..protocol.merging import epoch_of
from ..protocol.spec import SliceSpec
from .execution import made_by_hand
from .made import all_of, derivations_of, events_of, made_of, same_order
from .processing import blank_rerun, close, execute, execute_in_time, offer
from .reexecution import Reexecution
from .reruns import Derivation, Rerun
from .untold import times_passed


@dataclass(frozen=True)
class Expected:
    """What an execution without failures has taken and delivered, for results that do not depend on order."""

    taken: Mapping[str, Mapping[Derivation, Event]]
    """Operator slice -> derivation -> event."""
    delivered: Mapping[str, Mapping[Derivation, Event]]
    """Channel into a sink -> derivation -> output."""
    channels: Mapping[str, Mapping[Derivation, Event]]
    """Every channel -> derivation -> event, in the order in which they are sent."""
    states: Mapping[str, Mapping[str, Value]]
    """Operator slice -> rows of its state at the end; none where that depends on the order of inputs, or on chance."""
    false_word: str = ""
    """Which operator does not forget what it says that it forgets, or depends on an order that it says does not matter;
    empty where none was seen to."""
    false_snapshots: Mapping[str, str] = field(default_factory=dict)
    """Operator -> what shows that its checkpoints do not give back its state; those of which nothing was seen to are
    not there."""
    kept_beyond: Mapping[str, str] = field(default_factory=dict)
    """Operator with a window -> what shows that its rows in the end hold more than that; those of which nothing does
    are not there."""


def expect(
    specs: Sequence[SliceSpec],
    offered: Mapping[str, Sequence[Event]],
    known: Reexecution | None = None,
    last_closed: Mapping[str, int] = MappingProxyType({}),
    last_fired: Mapping[str, int] = MappingProxyType({}),
) -> Expected:
    """Execute the topology once, each slice taking its channels one after the other, in each epoch where it knows such.
    After the last event of a slice, epochs without any go on ending up to that which is `last_closed`: what came of
    time after the events is in no record. So it is with timers, the latest of which is `last_fired`; but those that are
    due by the latest event that was offered have to fire, whoever says what.

    A slice that did just that in a history that is `known`, fed by slices that did, is not executed a second time.
    """
    reruns: dict[str, Rerun] = {}
    alike: set[str] = set()
    """Those that are not."""
    taken: dict[str, Mapping[Derivation, Event]] = {}
    channels: dict[str, Mapping[Derivation, Event]] = {}
    passed = times_passed(specs[0].topology, offered)
    for spec in _with_cycles_executed(specs, reruns):
        if spec.role is Role.SOURCE:
            source = None if known is None else known.sources[spec.slice_id]
            reruns[spec.slice_id] = source or offer(spec, offered[spec.slice_id])
            alike.add(spec.slice_id)
            continue
        inputs = [made_by(reruns[up], spec.slice_id) for up in spec.upstream]
        channels.update(zip((channel_name(up, spec.slice_id) for up in spec.upstream), inputs, strict=True))
        if spec.role is Role.SINK:
            continue
        taken[spec.slice_id] = all_of(inputs)
        if spec.slice_id in reruns:
            continue
        if known is not None and spec.epoch is None and not spec.timed and alike.issuperset(spec.upstream):
            same = _took_in_order(known, spec.slice_id, taken[spec.slice_id])
            if same is not None:
                reruns[spec.slice_id] = same
                alike.add(spec.slice_id)
                continue
        rerun = reruns[spec.slice_id] = blank_rerun(spec)
        if spec.epoch is not None:
            _execute_epochs(spec, rerun, inputs, spec.epoch, last_closed.get(spec.slice_id, -1))
            continue
        by_event_time = spec.topology.stages[operator_of(spec.slice_id)].operator.by_event_time
        for place, channel in enumerate(inputs):
            given = events_of(channel), derivations_of(channel)
            if by_event_time:
                upto = max(last_fired.get(spec.slice_id, -1), passed.get(spec.slice_id, -1))
                execute_in_time(spec, rerun, *given, upto)
            else:
                execute(spec, rerun, *given, place)
    topology = specs[0].topology
    into_sinks = {
        name: channel for name, channel in channels.items() if topology.role(name.partition(">")[2]) is Role.SINK
    }
    states = {name: rows_of(topology.stages[operator_of(name)].operator, reruns[name].state) for name in taken}
    return Expected(taken, into_sinks, channels, states)


def _with_cycles_executed(specs: Sequence[SliceSpec], reruns: dict[str, Rerun]) -> Iterator[SliceSpec]:
    """The slices, upstream before downstream; before the first of a cycle, all of it has been executed."""
    spec_of = {spec.slice_id: spec for spec in specs}
    for group in specs[0].topology.groups:
        together = [spec_of[one] for one in group]
        if len(group) > 1:
            _execute_cycle(together, reruns)
        yield from together


ROUNDS = 1_000
"""So often may something go round in an execution without failures, each time longer by what it was derived from."""


def _execute_cycle(specs: Sequence[SliceSpec], reruns: dict[str, Rerun]) -> None:
    """Execute the slices of a cycle without failures: in turn, each takes what is new on its channels, one after the
    other, until there is nothing."""
    reruns.update({spec.slice_id: blank_rerun(spec) for spec in specs})
    taken = {(up, spec.slice_id): 0 for spec in specs for up in spec.upstream}
    for _ in range(ROUNDS):
        before = sum(taken.values())
        for spec in specs:
            for place, up in enumerate(spec.upstream):
                events, derivations = reruns[up].channel(spec.slice_id)
                done, upto = taken[up, spec.slice_id], len(events)
                taken[up, spec.slice_id] = upto
                execute(spec, reruns[spec.slice_id], events[done:upto], derivations[done:upto], place)
        if sum(taken.values()) == before:
            return
    raise InvalidOperator(
        f"{', '.join(spec.slice_id for spec in specs)} of {specs[0].topology.name!r}, executed without failures to "
        f"judge the run, had something to take after {ROUNDS:,} rounds; what is fed back has to come to an end"
    )


def _execute_epochs(
    spec: SliceSpec, rerun: Rerun, inputs: Sequence[Mapping[Derivation, Event]], size: int, last: int
) -> None:
    """Epoch by epoch, and the channels one after the other in each."""
    bags: dict[int, list[tuple[list[Event], list[Derivation]]]] = {}
    for number, channel in enumerate(inputs):
        for derivation, event in channel.items():
            epoch = epoch_of(event.time, size)
            if epoch not in bags:
                bags[epoch] = [([], []) for _ in inputs]
            events, derivations = bags[epoch][number]
            events.append(event)
            derivations.append(derivation)
    for epoch in range(max([last, *bags]) + 1):
        for place, (events, derivations) in enumerate(bags.get(epoch, ())):
            execute(spec, rerun, events, derivations, place)
        close(spec, rerun, epoch, size)


def _took_in_order(known: Reexecution, slice_id: str, inputs: Mapping[Derivation, Event]) -> Rerun | None:
    """The incarnation of a slice that took these, in this order, from the beginning. Of one that began as another
    was, the state was executed, and not restored, so that its outputs are those of one incarnation as well."""
    if not known.topology.stages[operator_of(slice_id)].operator.deterministic or slice_id in known.doubtful:
        return None
    # Nor of one whose state is not made of what it took alone.
    if made_by_hand(known.books[slice_id]):
        return None
    for rerun in known.survivors(slice_id):
        lineage = rerun.lineage()
        if len(lineage) == len(inputs) and same_order(lineage, derivations_of(inputs)):
            return rerun
    return None


def made_by(rerun: Rerun, to: str) -> Mapping[Derivation, Event]:
    """All that an incarnation can send to `to`, once it has come to its end."""
    if to not in rerun.made:
        events, derivations = rerun.channel(to)
        rerun.made[to] = made_of(derivations, events)
    return rerun.made[to]
