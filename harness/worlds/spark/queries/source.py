"""The replayable source of a query: numbered events from a file that the harness wrote, one micro-batch at a time.

Spark runs the reader in a child process of the driver's JVM, and its `read` in the executors' Python workers. An offset
is the number of batches so far. With batches that are never empty, batch n of the source is Spark's batch n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from ....core.addresses import Address, Moment, Point, Side
from ....core.errors import OwnFailure
from ....core.model import Event
from ....core.wire import VERSION, BlockingConnection, Endpoint, Greeting
from ..control.run_messages import Arrived

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# pyarrow is imported where events are read or written: a driver does neither, and is started often.

FORMAT = "streamproof-events"


class SourcePlan(msgspec.Struct, frozen=True):
    """What the reader needs to know.

    It holds the run's token, so it is handed over in a file that only this user can read; Spark may log options.
    """

    events: str
    batches: int
    node: str
    actor: str
    incarnation: int
    token: str
    harness: Endpoint
    armed: tuple[Moment, ...] | None
    """The points that are announced; None: all."""


def write_events(path: Path, batches: Sequence[Sequence[Event]]) -> None:
    """One record batch for each micro-batch. Values that are no strings are written as JSON."""
    import pyarrow as pa

    columns = {"key": pa.string(), "value": pa.string(), "seq": pa.int64(), "time": pa.int64()}
    schema = pa.schema(list(columns.items()))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for events in batches:
            values = (
                [event.key for event in events],
                [_text(event.value) for event in events],
                [event.seq for event in events],
                [event.time for event in events],
            )
            writer.write_batch(pa.record_batch([*map(pa.array, values, schema.types)], schema=schema))


def spans(batches: Sequence[Sequence[Event]]) -> tuple[tuple[int, int], ...]:
    """The first and the last event of each batch, by their numbers."""
    return tuple((events[0].seq, events[-1].seq) for events in batches)


def _batch(events: str, number: int) -> pa.RecordBatch:
    import pyarrow as pa

    with pa.memory_map(events) as file:
        return pa.ipc.open_file(file).get_batch(number)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


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
        return msgspec.json.decode(Path(self.options["plan"]).read_bytes(), type=SourcePlan)


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
        self._controller.send(Arrived(address, 0, exact=True))
        if self._controller.receive() is None:
            raise OwnFailure("the controller went away while a point was held")
