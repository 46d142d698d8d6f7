"""What the reference runs of a query leave in a history, for runs of the same query on the same input to come."""

from __future__ import annotations

from collections.abc import Iterable

from ....judging.references import REFERENCES
from ....recording.records import BatchDone, Delivered, EmptyBatch, Ended, Kept, Stamped, Started, Taken


def of_references(records: Iterable[Stamped]) -> tuple[Stamped, ...]:
    """The records of the reference runs alone, in their order."""
    return tuple(stamped for stamped in records if _whose(stamped) in REFERENCES)


def _whose(stamped: Stamped) -> str:
    match stamped.record:
        case Delivered(sink=name) | EmptyBatch(sink=name) | Kept(actor=name) | BatchDone(actor=name):
            return name
        case Started(slice=name) | Taken(slice=name) | Ended(slice=name):
            return name
        case _:
            return ""
