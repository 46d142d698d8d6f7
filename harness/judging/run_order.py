"""What a slice should have taken, in the order of its run: what was lost stands where it was sent.

For a state that depends on the order of its inputs, what it should have been is that of the order in which it took
them. Only what it did not take has to be put somewhere: behind what came before it on its channel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ..core.events import Event
from .reexecution import Reexecution
from .reruns import Derivation


def in_run_order(
    rerun: Reexecution,
    channels: Sequence[Sequence[Derivation]],
    slice_id: str,
    inputs: Mapping[Derivation, Event],
) -> Mapping[Derivation, Event]:
    """These inputs of a slice, as the survivor that is named first took them. Without one, as they are. `channels` says
    in which order they are sent on each."""
    survivors = rerun.survivors(slice_id)
    if not survivors:
        return inputs
    order = _order(survivors[0].lineage(), channels)
    ordered = {derivation: inputs[derivation] for derivation in order if derivation in inputs}
    return {**ordered, **{derivation: event for derivation, event in inputs.items() if derivation not in ordered}}


def _order(took: Sequence[Derivation], channels: Sequence[Sequence[Derivation]]) -> Iterator[Derivation]:
    known, done = set(took), set[Derivation]()
    place_of = {one: (number, place) for number, channel in enumerate(channels) for place, one in enumerate(channel)}
    reached = [0] * len(channels)
    for derivation in took:
        if derivation not in place_of or derivation in done:
            continue
        number, place = place_of[derivation]
        yield from (lost for lost in channels[number][reached[number] : place] if lost not in known)
        reached[number] = max(reached[number], place + 1)
        done.add(derivation)
        yield derivation
    for number, channel in enumerate(channels):
        yield from (lost for lost in channel[reached[number] :] if lost not in known)


def as_sent(wanted: Collection[Derivation], made: Iterable[Derivation]) -> Sequence[Derivation]:
    """What should have been sent on a channel, in its order, with all else that was made for it, by one incarnation
    after the other: each behind what was made before it."""
    behind: dict[Derivation | None, list[Derivation]] = {}
    last: Derivation | None = None
    for derivation in made:
        if derivation in wanted:
            last = derivation
        else:
            behind.setdefault(last, []).append(derivation)
    if not behind:
        return list(wanted)
    return [*behind.get(None, ()), *(one for due in wanted for one in (due, *behind.get(due, ())))]
