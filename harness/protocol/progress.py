"""How far a run of slices has come, as its records tell."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ..recording.records import Delivered, Ended, Offered, Record
from .spec import SliceSpec

COUNTED: Final[frozenset[type[Record]]] = frozenset({Delivered, Offered, Ended})
"""The records that say how far a run has come."""


class Progress:
    """Follows the records of a run: what was offered and delivered, and whether everything has come to its end."""

    def __init__(self, specs: Sequence[SliceSpec]) -> None:
        self._upstream = {spec.slice_id: spec.upstream for spec in specs}
        self._ended: dict[tuple[str, int], Ended] = {}
        self.offered = 0
        self.delivered = 0

    def note(self, record: Record) -> None:
        # By how often they come.
        if type(record) is Delivered:
            self.delivered += len(record.rows)
        elif type(record) is Offered:
            self.offered += len(record.events)
        elif isinstance(record, Ended):
            self._ended[record.slice, record.incarnation] = record

    def drained(
        self, current: Mapping[str, Collection[int]], standbys: Mapping[str, Collection[int]] = MappingProxyType({})
    ) -> bool:
        """Whether every incarnation of a slice that is active has seen the end of its input from all that are active of
        the slices that feed it. Channels are FIFO, so everything before the end has been taken then.

        `current` says which are active, `standbys` which others have to come to the end.
        """
        return not any(True for _ in self._unfinished(current, standbys))

    def waiting_for(
        self, current: Mapping[str, Collection[int]], standbys: Mapping[str, Collection[int]] = MappingProxyType({})
    ) -> str:
        """Which slices have not come to their end, and what they have not heard."""
        return "; ".join(self._unfinished(current, standbys)) or "nothing"

    def _unfinished(
        self, current: Mapping[str, Collection[int]], standbys: Mapping[str, Collection[int]]
    ) -> Iterator[str]:
        for name, upstream in self._upstream.items():
            if not current.get(name):
                yield f"{name} runs nowhere"
                continue
            for incarnation in (*current[name], *standbys.get(name, ())):
                ended = self._ended.get((name, incarnation))
                if ended is None:
                    yield f"{name}#{incarnation} has not seen the end of its input"
                    continue
                for up in upstream:
                    for sender in current.get(up, ()):
                        if sender not in ended.inputs.get(up, ()):
                            yield f"{name}#{incarnation} has not heard the end from {up}#{sender}"
