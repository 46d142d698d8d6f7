"""What a run should have taken and delivered, where that depends on the order in which things came, or on chance.

One execution without failures tells it for operators whose inputs come on one channel. Where channels come together,
or numbers are drawn, what is made of an input can be another in each run. Then it is what was made of it in the order
that survives.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..core.error_text import described_error
from ..core.errors import InvalidScheme, StreamproofError
from ..core.events import Event, carried
from ..core.operators import processor_of
from ..core.slice_names import channel_name, operator_of
from ..core.topology import Role
from ..core.verdicts import Evidence
from ..protocol.merging import ChannelRun, Merge, Order, epoch_of, sequencer
from ..recording.records import Changed
from .expected import Expected, made_by
from .made import all_of, derivations_of, is_long
from .reexecution import Reexecution
from .reruns import Derivation, Rerun

OutputsMade = Mapping[Derivation, Event]
"""Outputs of one channel, by their derivation."""


def order_matters(rerun: Reexecution) -> bool:
    """Whether one execution without failures is not enough to tell what every other would have made."""
    return rerun.order_matters


def as_ordered(rerun: Reexecution, expected: Expected) -> Expected:
    """What should have been taken and delivered, of the input, in the orders that the run took.

    What is made of an input is what those make of it whose states are T. If none of them has it, it is what the last
    incarnation made that took it; if none did, what one execution without failures makes.
    """
    return in_its_order(rerun, expected) if order_matters(rerun) else expected


def in_its_order(rerun: Reexecution, expected: Expected) -> Expected:
    """The same, also where one execution without failures would tell it, of inputs that come in their order."""
    topology = rerun.topology
    taken: dict[str, OutputsMade] = {}
    channels: dict[str, OutputsMade] = {}

    def follow(slice_id: str) -> None:
        role = topology.role(slice_id)
        if role is not Role.SOURCE:
            came = [channels.get(channel_name(up, slice_id), {}) for up in topology.upstream(slice_id)]
            taken[slice_id] = all_of(came)
        for to in topology.downstream(slice_id):
            # Of what comes on other channels, where paths come together again, none is made here.
            otherwise = _otherwise(rerun, slice_id, to, taken.get(slice_id, {}), expected)
            channels[channel_name(slice_id, to)] = (
                made_by(rerun.sources[slice_id], to)
                if role is Role.SOURCE
                else _made(rerun, slice_id, to, taken[slice_id], otherwise)
            )

    for group in topology.groups:
        known = -1
        while True:
            for slice_id in group:
                follow(slice_id)
            # In a cycle, the more should have gone round the more should have come back; it is all in the reruns, or
            # in what is expected, and so comes to an end.
            amount = sum(len(taken.get(one, ())) for one in group)
            if len(group) == 1 or amount == known:
                break
            known = amount
    return Expected(
        {slice_id: taken[slice_id] for slice_id in topology.operator_slices},
        {channel: channels[channel] for channel in rerun.deliveries},
        channels,
        {},
    )


def _otherwise(rerun: Reexecution, slice_id: str, to: str, inputs: OutputsMade, expected: Expected) -> OutputsMade:
    """What one execution without failures makes for a channel; and what a slice without a state would make of inputs
    that came of the order of the run, or of a clock, and that this execution does not know."""
    known = expected.channels[channel_name(slice_id, to)]
    stage = rerun.topology.stages.get(operator_of(slice_id))
    reruns = rerun.reruns.get(slice_id)
    if stage is None or not reruns or not stage.operator.deterministic or stage.operator.initial_state() is not None:
        return known
    took = set[Derivation]().union(*(one.took for one in reruns.values()))
    unknown = {d: event for d, event in inputs.items() if d not in took and d not in expected.taken[slice_id]}
    if not unknown:
        return known
    hop, process = next(iter(reruns.values())).hop, processor_of(stage.operator, 0)
    found = dict(known)
    for derivation, event in unknown.items():
        for index, (key, value) in enumerate(process(event, None), hop):
            if to in rerun.topology.receivers(slice_id, key):
                found[(*derivation, index)] = Event(slice_id, 0, key, carried(value), event.time)
    return found


def _made(rerun: Reexecution, slice_id: str, to: str, inputs: OutputsMade, otherwise: OutputsMade) -> OutputsMade:
    survivors = rerun.survivors(slice_id)
    epochs = slice_id in rerun.epochs
    if len(survivors) == 1 and is_long(inputs) and not epochs and not _missing(inputs, survivors[0]):
        return made_by(survivors[0], to)
    per_survivor = [made_by(survivor, to) for survivor in survivors]
    had: set[Derivation] = set().union(*(survivor.lineage() for survivor in survivors))
    # Replicas that disagree are not told here which of them is right: what only some make is not missed.
    found = {
        derivation: event
        for made in per_survivor[:1]
        for derivation, event in made.items()
        if all(derivation in other for other in per_survivor[1:])
    }
    missing = {derivation for derivation in inputs if derivation not in had}
    if missing:
        for _, one in sorted(rerun.reruns[slice_id].items(), reverse=True):
            took = missing.intersection(one.took)
            if took:
                found.update((d, event) for d, event in made_by(one, to).items() if d[:-1] in took)
                missing -= took
        found.update((d, event) for d, event in otherwise.items() if d[:-1] in missing)
    if epochs:
        found.update(_made_at_ends(rerun, slice_id, to, otherwise))
    return found


def _made_at_ends(
    rerun: Reexecution, slice_id: str, to: str, otherwise: OutputsMade
) -> Iterator[tuple[Derivation, Event]]:
    """What was made at the ends of epochs to which those did not come whose states are T."""
    missing = {d[:-1] for d in otherwise if d[0] == slice_id and len(d) == 3}
    for survivor in rerun.survivors(slice_id):
        missing -= survivor.roots()
    for _, one in sorted(rerun.reruns[slice_id].items(), reverse=True) if missing else ():
        came_to = missing & one.roots()
        if came_to:
            yield from ((d, event) for d, event in made_by(one, to).items() if d[:-1] in came_to)
            missing -= came_to
    yield from ((d, event) for d, event in otherwise.items() if d[:-1] in missing)


def _missing(inputs: OutputsMade, survivor: Rerun) -> bool:
    """Whether a survivor has not taken all of these."""
    from .codes import among, coded

    due, had = coded(derivations_of(inputs), survivor.lineage())
    return not among(due, had).all()


def merged(
    merge: Merge, slice_id: str, channels: Iterable[OutputsMade], changes: Sequence[Changed] = ()
) -> list[Derivation]:
    """The one order in which a deterministic merge takes these channels, where what it goes by changes like this.
    Raises InvalidScheme where the merge fails."""
    try:
        return _merged(merge, slice_id, [list(channel.items()) for channel in channels], changes)
    except StreamproofError:
        raise
    except Exception as error:
        raise InvalidScheme(
            f"the merge of {slice_id} ({type(merge).__qualname__}) failed where it was given all of its input at once, "
            f"to tell in which order that is to be taken: {described_error(error)}"
        ) from error


def _merged(
    merge: Merge, slice_id: str, inputs: Sequence[Sequence[tuple[Derivation, Event]]], changes: Sequence[Changed]
) -> list[Derivation]:
    waiting = sequencer(merge, slice_id, len(inputs))
    for number, events in enumerate(inputs):
        if events:
            waiting.put(ChannelRun(number, 1, [event for _, event in events]))
        waiting.end(number, True)
    order: list[Derivation] = []
    taken = [0] * len(inputs)
    to_come = deque(changes)
    epochs = merge.epoch(slice_id) is not None
    while True:
        while to_come and to_come[0].since <= len(order):
            waiting.changed(to_come.popleft().settings)
        run = waiting.next(to_come[0].since - len(order) if to_come else sys.maxsize)
        if run is None:
            if not epochs or waiting.closing() is None:
                return order
            waiting.advance()
            continue
        begin = taken[run.channel]
        taken[run.channel] = begin + len(run.events)
        order += [derivation for derivation, _ in inputs[run.channel][begin : taken[run.channel]]]


def find_unmerged(rerun: Reexecution, wanted: Expected) -> Iterator[Evidence]:
    """Where an incarnation did not take its channels in the order that its declared merge gives, or an event in an
    epoch that is not its own. What is doubtful is left out."""
    for slice_id, size in rerun.epochs.items():
        if slice_id not in rerun.doubtful:
            for one in rerun.reruns[slice_id].values():
                yield from _misplaced(rerun, one, size, wanted.taken[slice_id])
    for slice_id, merge in rerun.merges.items():
        if slice_id in rerun.doubtful or merge.order is not Order.TOTAL:
            continue
        channels = (wanted.channels[channel_name(up, slice_id)] for up in rerun.topology.upstream(slice_id))
        order = merged(merge, slice_id, channels, rerun.changes.get(slice_id, ()))
        for number, one in rerun.reruns[slice_id].items():
            lineage = one.lineage()
            if lineage == order[: len(lineage)]:
                continue
            place = next((n for n, (d, due) in enumerate(zip(lineage, order, strict=False)) if d != due), len(order))
            came, due = (_said(rerun, one[place]) if place < len(one) else "nothing" for one in (lineage, order))
            yield Evidence(f"took {came} as number {place + 1:,}, where its merge takes {due}", f"{slice_id}#{number}")


def _misplaced(rerun: Reexecution, one: Rerun, size: int, events: OutputsMade) -> Iterator[Evidence]:
    """The first event that an incarnation did not take in its epoch, or the first that did not end in its turn."""
    lineage, where = one.lineage(), f"{one.slice_id}#{one.number}"
    closings = one.closings()
    due, begin = 0, 0
    for epoch, end in [*closings, (closings[-1][0] + 1 if closings else 0, len(lineage))]:
        if epoch != due:
            yield Evidence(f"closed epoch {epoch:,}, where epoch {due:,} was due", where)
            return
        for derivation in lineage[begin:end]:
            event = events.get(derivation)
            if event is not None and epoch_of(event.time, size) != epoch:
                own = epoch_of(event.time, size)
                yield Evidence(f"took {_said(rerun, derivation)} of epoch {own:,} in epoch {epoch:,}", where)
                return
        due, begin = due + 1, end


def first_moved(before: Rerun, upto: int, after: Rerun) -> tuple[Derivation, int] | None:
    """The first of what an incarnation had taken when it had taken `upto` events itself that another has not taken in
    the same epoch, in whatever order, and the epoch."""
    held = [set(lineage) for lineage in _by_epoch(after, None)]
    for epoch, lineage in enumerate(_by_epoch(before, upto)):
        known = held[epoch] if epoch < len(held) else set()
        for derivation in lineage:
            if derivation not in known:
                return derivation, epoch
    return None


def _by_epoch(one: Rerun, upto: int | None) -> Iterator[Sequence[Derivation]]:
    lineage, begin = one.lineage(upto), 0
    for _, end in one.closings(upto):
        yield lineage[begin:end]
        begin = end
    yield lineage[begin:]


def _said(rerun: Reexecution, derivation: Derivation) -> str:
    """An input of a slice, and by which outputs it came, since several may come of one event."""
    return rerun.said(derivation) + "".join(f".{index & 0xFFFFFFFF}" for index in derivation[2:])
