"""The input of a query's replayable source: numbered events in a file that the harness writes.

An offset is the number of batches so far. With batches that are never empty, batch n of the source is Spark's batch n.
The source is in Python (`python_source.py`) where Spark has sources in Python that give one micro-batch at a time, from
4.2 on, and else in Java (`harness/install/EventSource.java`).
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ....core.addresses import Moment
from ....core.events import Event
from ....core.wire import Endpoint
from ....install.event_source import CLASS, source_jar
from ....install.machine import Spark, find_java

# pyarrow is imported where events are read or written: a driver does neither, and is started often.

FORMAT = "streamproof-events"
JARS = "spark.jars"


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


def write_input(path: Path, batches: Sequence[Sequence[Event]], in_java: bool) -> None:
    """As the source reads it that is in Python, or in Java."""
    (_write_for_java if in_java else write_events)(path, batches)


def with_source(settings: Mapping[str, str], spark: Spark) -> dict[str, str]:
    """The settings with which a query finds the source in Java. Raises what making its jar raises."""
    jars = [settings[JARS]] if settings.get(JARS) else []
    return {**settings, JARS: ",".join([*jars, str(source_jar(spark, find_java()))])}


def reading(plan_path: Path, in_java: bool) -> tuple[str, dict[str, str]]:
    """The format of the source, and its options."""
    if not in_java:
        return FORMAT, {"plan": str(plan_path)}
    plan = read_source_plan(plan_path)
    return CLASS, {"events": plan.events, "batches": str(plan.batches)}


def read_source_plan(path: Path) -> SourcePlan:
    return msgspec.json.decode(path.read_bytes(), type=SourcePlan)


def _write_for_java(folder: Path, batches: Sequence[Sequence[Event]]) -> None:
    """A file for each micro-batch."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, events in enumerate(batches):
        content = bytearray(struct.pack(">i", len(events)))
        for event in events:
            for text in (event.key.encode(), _text(event.value).encode()):
                content += struct.pack(">i", len(text)) + text
            content += struct.pack(">qq", event.seq, event.time)
        (folder / str(number)).write_bytes(content)


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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
