"""How long after its input each output came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..recording.records import Offered

if TYPE_CHECKING:
    from .oracle import Case


@dataclass(frozen=True)
class GroupLatencies:
    """Of a key group: what one final slice works on."""

    name: str
    latencies: Sequence[tuple[int, str]]
    """In microseconds, each with the input that it is of."""
    of_no_input: int = 0
    """Outputs that were made of no one input, as at the end of an epoch: how long they took is not known."""

    @property
    def slowest(self) -> int:
        return max((latency for latency, _ in self.latencies), default=0)


def latencies(case: Case) -> Sequence[GroupLatencies]:
    """An analysis: from when the input at the root of an output was offered until it was first delivered. Nothing of a
    subject that cannot be executed again, since it is not known which input an output is of."""
    reexecution = case.collation.reexecution
    if reexecution is None:
        return ()
    offered: dict[tuple[str, int], int] = {}
    for stamped in case.history.of(Offered):
        if isinstance(stamped.record, Offered):
            offered.update(((event.source, event.seq), stamped.at) for event in stamped.record.events)
    groups = []
    for channel, deliveries in reexecution.deliveries.items():
        first: dict[object, tuple[int, str]] = {}
        of_no_input: set[object] = set()
        for output in (output for delivery in deliveries for output in delivery.outputs()):
            derivation = output.derivation
            if derivation is None or derivation in first:
                continue
            if derivation[:2] not in offered:
                of_no_input.add(derivation)
                continue
            source, seq = derivation[:2]
            first[derivation] = output.at - offered[source, seq], f"input {source} #{seq:,}"
        groups.append(GroupLatencies(channel.partition(">")[0], tuple(first.values()), len(of_no_input)))
    return groups
