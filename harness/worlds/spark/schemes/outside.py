"""Where sinks on nodes deliver, on a real cluster: the record, which the harness keeps, and the checkpoint store.

What a sink commits is in the store, and the store alone says so. The harness reads it whenever a sink, or who came
after it, has said something of its checkpoints, and at the end. So no death of a node comes between a transaction and
the record of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ....protocol.outside import Outside
from ....protocol.spec import SliceSpec
from ....protocol.stores import FileStore
from ....recording.history import Stamp
from ....recording.recorder import Recorder
from ....recording.records import Delivered, Record


class Committed(Outside):
    """With what the store holds of the sinks' transactions."""

    def __init__(self, specs: Iterable[SliceSpec], checkpoints: Path) -> None:
        """`checkpoints` is the folder of the store."""
        super().__init__(specs)
        self._checkpoints = checkpoints
        self._read: dict[str, int] = {}
        """Sink -> the number of its last transaction that was read."""

    def committed(self, sink: str) -> Iterator[Delivered]:
        """What a sink has committed since it was last asked, in its order. Raises StorageFailed and DamagedHistory."""
        for checkpoint in FileStore(self._checkpoints).above(sink, self._read.get(sink, 0)):
            self._read[sink] = checkpoint.id.number
            yield from checkpoint.delivers


class NumberingRecorder:
    """The recorder, which is told by the outside as which in its channel it takes a delivery."""

    def __init__(self, recorder: Recorder, outside: Outside) -> None:
        self._recorder = recorder
        self._outside = outside
        self.log = recorder.log
        self.deployed = recorder.deployed

    def note(self, at: int, record: Record) -> None:
        self._recorder.note(at, self._outside.numbered(record) if isinstance(record, Delivered) else record)

    @property
    def latest(self) -> Stamp:
        return self._recorder.latest
