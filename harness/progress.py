"""How far a run of slices has come, as its records tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .recording.records import Delivered, Ended, Offered, Record
from .slices.machine import SliceSpec


class Progress:
    """Follows the records of a run: what was offered and delivered, and whether everything has come to its end."""

    def __init__(self, specs: Sequence[SliceSpec]) -> None:
        self._upstream = {spec.slice_id: spec.upstream for spec in specs}
        self._ended: dict[str, Ended] = {}
        self.offered = 0
        self.delivered = 0

    def note(self, record: Record) -> None:
        if isinstance(record, Delivered):
            self.delivered += len(record.rows)
        elif isinstance(record, Offered):
            self.offered += len(record.events)
        elif isinstance(record, Ended):
            # What a dead node has said can be read after what its successor says.
            known = self._ended.get(record.slice)
            if known is None or record.incarnation >= known.incarnation:
                self._ended[record.slice] = record

    def drained(self, current: Mapping[str, int]) -> bool:
        """Whether every slice, as its current incarnation, has seen the end of its input from the current
        incarnations of all that feed it. Channels are FIFO, so everything before the end has been taken then."""
        return not any(True for _ in self._unfinished(current))

    def waiting_for(self, current: Mapping[str, int]) -> str:
        """Which slices have not come to their end, and what they have not heard."""
        return "; ".join(self._unfinished(current)) or "nothing"

    def _unfinished(self, current: Mapping[str, int]) -> Iterator[str]:
        for name, upstream in self._upstream.items():
            ended = self._ended.get(name)
            if name not in current:
                yield f"{name} runs nowhere"
            elif ended is None or ended.incarnation != current[name]:
                yield f"{name}#{current[name]} has not seen the end of its input"
            else:
                for up in upstream:
                    if up not in current or current[up] not in ended.inputs.get(up, ()):
                        yield f"{name} has not heard the end from {up}#{current.get(up, '?')}"
