"""The replayable source of a query in Python: gives one micro-batch at a time.

Spark runs the reader in a child process of the driver's JVM, and its `read` in the executors' Python workers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from ....core.addresses import Address, Point, Side
from ....core.errors import OwnFailure
from ....core.wire import VERSION, BlockingConnection, Greeting
from ..control.run_messages import Arrived
from .source import FORMAT, SourcePlan, read_source_plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class EventSource(DataSource):
    """`spark.readStream.format("streamproof-events").option("plan", PATH)`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "key string, value string, seq long, time long"

    def streamReader(self, schema: StructType) -> EventReader:
        return EventReader(self._plan())

    def reader(self, schema: StructType) -> WholeInput:
        return WholeInput(self._plan())

    def _plan(self) -> SourcePlan:
        return read_source_plan(Path(self.options["plan"]))


class WholeInput(DataSourceReader):
    """All batches at once, for a batch job."""

    def __init__(self, plan: SourcePlan) -> None:
        self._events = plan.events
        self._batches = plan.batches

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(batch) for batch in range(self._batches)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield _batch(self._events, partition.value)


class EventReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives every batch as often as it is asked for, and announces the points of its own that are armed."""

    def __init__(self, plan: SourcePlan) -> None:
        self._events = plan.events
        self._plan = plan
        self._controller: BlockingConnection | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the executors: neither token nor connection."""
        return {"_events": self._events}

    def initialOffset(self) -> dict[str, int]:
        return {"batches": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """The input is whole from the start."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        batch = start["batches"]
        # Spark asks again and again when nothing more comes.
        if batch < self._plan.batches:
            self._pass(Point.SOURCE_LATEST, batch, Side.BEFORE)
        return {"batches": min(batch + 1, self._plan.batches)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self._pass(Point.SOURCE_PARTITIONS, end["batches"] - 1, Side.BEFORE)
        return [InputPartition(batch) for batch in range(start["batches"], end["batches"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield _batch(self._events, partition.value)

    def commit(self, end: dict[str, int]) -> None:
        for side in Side:
            self._pass(Point.SOURCE_COMMIT, end["batches"] - 1, side)

    def _pass(self, point: Point, batch: int, side: Side) -> None:
        plan = self._plan
        address = Address(plan.actor, plan.incarnation, point, str(batch), side)
        if plan.armed is None or any(moment.matches(address, 0) for moment in plan.armed):
            self._hold(address)

    def _hold(self, address: Address) -> None:
        plan = self._plan
        if self._controller is None:
            greeting = Greeting(VERSION, plan.token, "driver", plan.node, incarnation=plan.incarnation)
            self._controller = BlockingConnection(plan.harness, greeting)
        self._controller.send(Arrived(address, 0, True, time.monotonic_ns()))
        if self._controller.receive() is None:
            raise OwnFailure("the controller went away while a point was held")


def _batch(events: str, number: int) -> pa.RecordBatch:
    import pyarrow as pa

    with pa.memory_map(events) as file:
        return pa.ipc.open_file(file).get_batch(number)
