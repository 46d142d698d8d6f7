"""Lets operators take events again, come to the ends of epochs and fire their timers, as their slices did."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import InvalidOperator
from ..core.events import PLAIN, Event, carried
from ..core.operators import processor_of
from ..core.slice_names import operator_of
from ..core.topology import Role
from ..protocol.merging import end_of
from ..protocol.spec import SliceSpec
from .packed import CHUNK, Packed, packed_events, parts_of, roots_of
from .reruns import BY_TIMER, Closing, Derivation, Emissions, Rerun, Stretch


def emissions_of(spec: SliceSpec) -> dict[str, Emissions]:
    inherited = spec.inherits and spec.role is Role.OPERATOR
    return {to: Emissions(inherited=inherited) for to in spec.downstream}


def hop_of(spec: SliceSpec) -> int:
    """Where paths from a source come together again, an index does not say which of them an event has come."""
    topology = spec.topology
    fed = [edge.downstream for edge in topology.edges]
    return list(topology.stages).index(operator_of(spec.slice_id)) << 32 if len(set(fed)) < len(fed) else 0


def offer(spec: SliceSpec, events: Sequence[Event]) -> Rerun:
    rerun = Rerun(spec.slice_id, 1, 0, [Stretch(None, 0, 1, emissions_of(spec))], 1, None, 0)
    channels = [rerun.emitted[to] for to in spec.downstream]
    if len(channels) == 1:
        # Who alone is fed is fed everything, whatever the keys are.
        channels[0].events = given = events if isinstance(events, Packed) else packed_events(events)
        channels[0].derivations = roots_of(given)
        return rerun
    for part in parts_of(events):
        for event in part:
            for place in spec.receivers[event.key]:
                channels[place].events.tail.append(event)
                channels[place].derivations.tail.append((event.source, event.seq))
        for channel in channels:
            channel.settle()
    return rerun


def blank_rerun(spec: SliceSpec, number: int = 1, first_seq: int = 1) -> Rerun:
    """An incarnation that has taken nothing, and whose random draws, if there are any, are of seed 0."""
    operator = spec.topology.stages[operator_of(spec.slice_id)].operator
    stretch = Stretch(None, 0, first_seq, emissions_of(spec))
    process = processor_of(operator, 0)
    return Rerun(spec.slice_id, number, 0, [stretch], first_seq, process, hop_of(spec), operator.initial_state())


def execute(
    spec: SliceSpec, rerun: Rerun, events: Sequence[Event], derivations: Sequence[Derivation], place: int = 0
) -> None:
    """Let the operator take `events` of the channel at a place. Raises InvalidOperator when it fails."""
    if len(events) <= CHUNK:
        _execute(spec, rerun, events, derivations, place)
        return
    for start in range(0, len(events), CHUNK):
        _execute(spec, rerun, events[start : start + CHUNK], derivations[start : start + CHUNK], place)


def _execute(
    spec: SliceSpec, rerun: Rerun, events: Sequence[Event], derivations: Sequence[Derivation], channel: int
) -> None:
    process = rerun.process
    assert process is not None
    channels = [
        (emissions.events.tail.append, emissions.derivations.tail.append)
        for emissions in rerun.stretches[-1].emitted.values()
    ]
    # Who alone is fed is fed everything, whatever the keys are.
    alone = len(channels) == 1
    if alone:
        add_event, add_derivation = channels[0]
    receivers, state, name, seq, hop = spec.receivers, rerun.held, spec.slice_id, rerun.next_seq, rerun.hop
    fan_out = None
    if spec.inherits:
        fan_out = spec.topology.stages[operator_of(name)].operator.fan_out
    event = None
    try:
        for event, derivation in zip(events, derivations, strict=True):
            if fan_out is not None:
                seq = spec.derived(channel, event.seq, fan_out)
            for index, (key, value) in enumerate(process(event, state), hop):
                if type(value) not in PLAIN:
                    value = carried(value)
                output, made = Event(name, seq, key, value, event.time), (*derivation, index)
                seq += 1
                if alone:
                    add_event(output)
                    add_derivation(made)
                    continue
                for place in receivers[key]:
                    add_event, add_derivation = channels[place]
                    add_event(output)
                    add_derivation(made)
    except Exception as error:
        raise InvalidOperator(
            f"operator of {name}, executed again to judge the run, failed on event "
            f"{None if event is None else (event.source, event.seq)}: {type(error).__name__}: {error}"
        ) from error
    rerun.next_seq = seq
    if len(derivations):
        rerun.last, rerun.since = derivations[-1], 0
        if spec.timed:
            rerun.window += [(one, event.key) for event, one in zip(events, derivations, strict=True)]
    for emissions in rerun.stretches[-1].emitted.values():
        emissions.settle()


def close(spec: SliceSpec, rerun: Rerun, epoch: int, size: int) -> None:
    """Let the operator come to the end of an epoch. Raises InvalidOperator when it fails."""
    name, upper, hop = spec.slice_id, end_of(epoch, size), rerun.hop
    channels = list(rerun.emitted.values())
    try:
        outputs = spec.topology.stages[operator_of(name)].operator.close(upper, rerun.held)
        for index, (key, value) in enumerate(outputs, hop):
            output = Event(name, rerun.next_seq, key, value if type(value) in PLAIN else carried(value), upper)
            for place in spec.receivers[key]:
                channels[place].events.append(output)
                channels[place].derivations.append((name, epoch, index))
            rerun.next_seq += 1
    except Exception as error:
        raise InvalidOperator(
            f"operator of {name}, executed again to judge the run, failed at the end of epoch {epoch:,}: "
            f"{type(error).__name__}: {error}"
        ) from error
    lengths = tuple([len(emissions.events) for emissions in channels])
    rerun.stretch.closings.append(Closing(epoch, len(rerun.took), lengths))


def fire(spec: SliceSpec, rerun: Rerun, at: int, time: int, clock: bool) -> None:
    """Let a timer of the operator's fire, once anything was taken. Raises InvalidOperator when it fails."""
    name, last = spec.slice_id, rerun.last
    assert last is not None
    operator = spec.topology.stages[operator_of(name)].operator
    channels = list(rerun.emitted.values())
    try:
        outputs = list(operator.on_clock(at, rerun.state) if clock else operator.on_time(at, rerun.state))
        keys = {key for key, _ in outputs}
        for key, value in outputs:
            output = Event(name, rerun.next_seq, key, value if type(value) in PLAIN else carried(value), time)
            made = (*last, rerun.hop + BY_TIMER + rerun.since)
            for place in spec.receivers[key]:
                channels[place].events.append(output)
                channels[place].derivations.append(made)
            if rerun.window:
                inputs = tuple(one for one, its in rerun.window if its == key or its not in keys)
                rerun.told[made] = (rerun.window[0][0], last, len(rerun.window)), inputs
            rerun.next_seq += 1
            rerun.since += 1
        rerun.window.clear()
    except Exception as error:
        raise InvalidOperator(
            f"operator of {name}, executed again to judge the run, failed when its timer fired at {at:,} ms: "
            f"{type(error).__name__}: {error}"
        ) from error
    rerun.stretch.firings.append(tuple([len(emissions.events) for emissions in channels]))


def execute_in_time(
    spec: SliceSpec, rerun: Rerun, events: Sequence[Event], derivations: Sequence[Derivation], upto: int
) -> None:
    """Let an operator take events, and fire its timers of event time where they are due: before the next event, and
    after the last up to a time. Raises InvalidOperator when it fails."""
    for event, derivation in zip(events, derivations, strict=True):
        _fire_until(spec, rerun, event.time - 1)
        execute(spec, rerun, [event], [derivation])
    _fire_until(spec, rerun, upto)


def _fire_until(spec: SliceSpec, rerun: Rerun, time: int) -> None:
    operator = spec.topology.stages[operator_of(spec.slice_id)].operator
    before = -1
    while rerun.last is not None and (due := operator.due(rerun.state)) is not None and before < due <= time:
        before = due
        fire(spec, rerun, due, due, clock=False)
