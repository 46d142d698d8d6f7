"""The micro-batches of a query's run: which incarnation of the driver ran each, what Spark said of it, and when the
sink was given it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...core.addresses import DRIVER
from ...judging.outputs import deliveries
from ...judging.references import SINK
from ...recording.history import History
from ...recording.records import BatchDone
from .lanes import ActorLane, LaneSign, Sign, thinned

ROWS: Final = 400
"""That are listed."""


@dataclass(frozen=True)
class ShownBatch:
    """One batch in one incarnation of the driver."""

    batch: int
    incarnation: int
    rows: int | None
    """Of its input; None: Spark has said nothing of it, since that incarnation was killed."""
    late: int
    evicted: int
    took: int | None
    """All of the batch, as Spark says, in microseconds."""
    given_at: int | None
    """When the sink was given it. None: it was not, or nobody saw it."""
    given: int
    """Rows."""
    again: bool
    """Whether an earlier one had given it already."""


@dataclass(frozen=True)
class BatchTimes:
    """How long Spark took for whole batches."""

    who: str
    batches: int
    percentiles: tuple[tuple[str, int], ...]
    """`50 of 100`, and microseconds."""


def batches_of(history: History) -> list[ShownBatch]:
    """In the order of incarnations and batches."""
    done = {(record.incarnation, record.batch): record for record in history.each(BatchDone) if record.actor == DRIVER}
    given = {(one.incarnation, one.batch): one for one in deliveries(history, SINK)}
    found: list[ShownBatch] = []
    seen: set[int] = set()
    for incarnation, batch in sorted({*done, *given}):
        said, there = done.get((incarnation, batch)), given.get((incarnation, batch))
        found.append(
            ShownBatch(
                batch,
                incarnation,
                None if said is None else said.rows,
                0 if said is None else said.late,
                0 if said is None else said.evicted,
                None if said is None else said.milliseconds * 1_000,
                None if there is None else there.at,
                0 if there is None else len(there.rows),
                batch in seen and there is not None,
            )
        )
        if there is not None:
            seen.add(batch)
    return found


def batch_times(history: History) -> list[BatchTimes]:
    """Of the judged run, and of the runs without failures beside it."""
    took: dict[bool, list[int]] = {True: [], False: []}
    for record in history.each(BatchDone):
        took[record.actor == DRIVER].append(record.milliseconds * 1_000)
    return [
        BatchTimes(who, len(took[judged]), _percentiles(took[judged]))
        for judged, who in ((True, "this run"), (False, "the runs without failures"))
        if took[judged]
    ]


def _percentiles(took: Sequence[int]) -> tuple[tuple[str, int], ...]:
    percentiles = [(f"{one} of 100", round(float(np.percentile(took, one)))) for one in (50, 95, 99)]
    return (*percentiles, ("longest", max(took)))


def batch_lane(batches: Sequence[ShownBatch]) -> ActorLane | None:
    """When the sink was given each; None where nobody saw that."""
    signs = [
        LaneSign(
            Sign.BATCH,
            one.given_at,
            f"driver#{one.incarnation} gives batch {one.batch} to the sink{', again' if one.again else ''}",
        )
        for one in batches
        if one.given_at is not None
    ]
    drawn = thinned(signs)
    note = "" if len(drawn) == len(signs) else f"{len(drawn):,} of {len(signs):,} batches are drawn"
    return ActorLane("batches", False, (), tuple(sorted(drawn, key=lambda sign: sign.at)), note) if signs else None
