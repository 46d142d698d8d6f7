"""What a run should have taken and delivered, where that depends on the order in which things came, or on chance.

One execution without failures tells it for operators whose inputs come on one channel. Where channels come together,
or numbers are drawn, what is made of an input can be another in each run. Then it is what was made of it in the order
that survives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..model import Event, Role, Topology, channel_name, operator_of
from .reexecution import Expected, Reexecution
from .reruns import Derivation, Rerun

Made = Mapping[Derivation, Event]
"""Outputs of one channel, by their derivation."""


def order_matters(topology: Topology) -> bool:
    """Whether one execution without failures is not enough to tell what every other would have made."""
    return any(
        len(topology.upstream(slice_id)) > 1 or not topology.stages[operator_of(slice_id)].operator.deterministic
        for slice_id in topology.operator_slices
    )


def as_ordered(rerun: Reexecution, expected: Expected) -> Expected:
    """What should have been taken and delivered, of the input, in the orders that the run took.

    What is made of an input is what those make of it whose states are T. If none of them has it, it is what the last
    incarnation made that took it; if none did, what one execution without failures makes.
    """
    topology = rerun.topology
    if not order_matters(topology):
        return expected
    taken: dict[str, dict[Derivation, Event]] = {}
    channels: dict[str, Made] = {}
    for slice_id in topology.slices:
        role = topology.role(slice_id)
        if role is not Role.SOURCE:
            taken[slice_id] = {}
            for up in topology.upstream(slice_id):
                taken[slice_id].update(channels[channel_name(up, slice_id)])
        for to in topology.downstream(slice_id):
            otherwise = (expected.taken if to in expected.taken else {}).get(to) or expected.delivered.get(
                channel_name(slice_id, to), {}
            )
            channels[channel_name(slice_id, to)] = (
                made_by(rerun.sources[slice_id], to)
                if role is Role.SOURCE
                else _made(rerun, slice_id, to, taken[slice_id].keys(), otherwise)
            )
    return Expected(
        {slice_id: taken[slice_id] for slice_id in topology.operator_slices},
        {channel: channels[channel] for channel in rerun.deliveries},
    )


def _made(rerun: Reexecution, slice_id: str, to: str, inputs: Iterable[Derivation], otherwise: Made) -> Made:
    survivors = rerun.survivors(slice_id)
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
    return found


def made_by(rerun: Rerun, to: str) -> Made:
    """All that an incarnation can send to `to`."""
    events, derivations = rerun.channel(to)
    return dict(zip(derivations, events, strict=True))
