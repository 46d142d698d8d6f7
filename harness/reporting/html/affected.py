"""Which inputs a failure has harmed: what is in the results not at all, or too often, or as nothing makes it.

The same that oracles count, input by input, so that each can be followed through a drawing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ...core.slice_names import operator_of
from ...core.verdicts import Anomaly
from ...judging.expected import Expected
from ...judging.reexecution import Reexecution
from ...judging.reruns import Derivation

Root = tuple[str, int]
"""Source, and the number of the event; or slice, and the number of the epoch at the end of which something was made."""


@dataclass(frozen=True)
class HarmedInput:
    """An input, and what became of it."""

    root: Root
    said: str
    """`input source-0 #3`."""
    how: str
    anomaly: Anomaly


def root_of(derivation: Derivation) -> Root:
    return derivation[0], derivation[1]


def harmed_inputs(rerun: Reexecution, wanted: Expected, anomaly: str = "") -> list[HarmedInput]:
    """Each once, in the order of the sources' numbers. Where the anomaly is one of those that tell of inputs, only
    those that it tells of."""
    found: dict[Root, HarmedInput] = {}
    every = [*_of_states(rerun, wanted), *_of_outputs(rerun, wanted)]
    chosen = [one for one in every if one.anomaly == anomaly] or every
    for one in sorted(chosen, key=lambda one: one.root):
        found.setdefault(one.root, one)
    return list(found.values())


def _of_states(rerun: Reexecution, wanted: Expected) -> Iterator[HarmedInput]:
    for slice_id in rerun.stateful():
        if slice_id in rerun.doubtful:
            continue
        # Looked up often: that of a long history finds each by going through all.
        should = dict.fromkeys(wanted.taken[slice_id])
        window = rerun.topology.stages[operator_of(slice_id)].operator.window
        for survivor in rerun.survivors(slice_id):
            counts = Counter(survivor.lineage())
            for derivation in should:
                if derivation not in counts and window is None:
                    yield _harmed(rerun, derivation, Anomaly.LOST_INPUT, f"is missing in the state of {slice_id}")
            for derivation, count in counts.items():
                if count > 1:
                    text = f"counts {count} times in the state of {slice_id}"
                    yield _harmed(rerun, derivation, Anomaly.DUPLICATE_EFFECT, text)


def _of_outputs(rerun: Reexecution, wanted: Expected) -> Iterator[HarmedInput]:
    for channel, deliveries in rerun.deliveries.items():
        should = dict.fromkeys(wanted.delivered[channel])
        counts: Counter[Derivation] = Counter()
        for delivery in deliveries:
            for output in delivery.outputs():
                if output.derivation is None:
                    continue
                counts[output.derivation] += 1
                if output.derivation not in should:
                    text = f"has an output on {channel} that no execution without failures gives"
                    yield _harmed(rerun, output.derivation, Anomaly.PHANTOM_OUTPUT, text)
        for derivation in should:
            if not counts[derivation]:
                text = f"has an output on {channel} that was never delivered"
                yield _harmed(rerun, derivation, Anomaly.LOST_INPUT, text)
            elif counts[derivation] > 1:
                text = f"has an output on {channel} that was delivered {counts[derivation]} times"
                yield _harmed(rerun, derivation, Anomaly.DUPLICATE_OUTPUT, text)


def _harmed(rerun: Reexecution, derivation: Derivation, anomaly: Anomaly, how: str) -> HarmedInput:
    return HarmedInput(root_of(derivation), rerun.said(derivation), how, anomaly)
