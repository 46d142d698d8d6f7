"""Puts what is wrong with a query's output into words: which row, where, when, of which input, after which fault."""

from __future__ import annotations

from ..core.addresses import Address
from ..core.errors import InvalidScenario
from ..core.events import Value
from ..recording.history import FaultStruck, History
from .inputs import Inputs
from .outputs import SinkBatch
from .proven_faults import Faults

LONGEST = 400
"""Characters of a row that evidence shows."""


class Story:
    """Of one judged run."""

    def __init__(self, history: History, actor: str, sink: str, own_source: bool) -> None:
        self._faults = Faults(history)
        self._struck = list(history.struck())
        self._inputs = Inputs(None if own_source else history)
        self._actor = actor
        self.sink = sink

    def given(self, delivery: SinkBatch) -> tuple[str, tuple[int, ...], int | None]:
        """Where a batch was given, when, and the last fault before."""
        where = f"{self.sink} from {self._actor}#{delivery.incarnation}"
        return where, (delivery.at,), self._faults.before(delivery.at)

    def fault(self, batch: int | None = None) -> int | None:
        """The last fault that struck at this batch or an earlier one, where addresses tell; else the first that hit
        the query."""
        if batch is not None:
            at = [(where, one.number) for one in self._struck if (where := _batch(one)) is not None and where <= batch]
            if at:
                return max(at)[1]
        first = self._faults.of((self._actor,))
        return None if first is None else first.number

    def likely_input(self, row: Value, batch: int | None) -> tuple[str, int | None]:
        """In words, with the batch; empty where it is not known."""
        found = self._inputs.likely(row, batch)
        if found is None:
            return "", batch
        of, event = found
        if event is None:
            return "", of
        return f"; its input is likely {event.source} #{event.seq:,} of batch {of}", of


def _batch(struck: FaultStruck) -> int | None:
    """The batch that a fault was aimed at."""
    if struck.address is None:
        return None
    try:
        key = Address.parse(struck.address).key
    except InvalidScenario:
        return None
    first = key.partition("/")[0]
    return int(first) if first.isdigit() else None


def often(count: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(count, f"{count:,} times")


def shortened_row(row: str) -> str:
    return row if len(row) <= LONGEST else f"{row[:LONGEST]}..."
