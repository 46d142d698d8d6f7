"""The records of a sealed run as they are on the disk: read some thousand rows at a time, and kept nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..core.errors import DamagedHistory
from ..core.events import PLAIN, Event
from .records import Delivered, Offered, Record, Stamped
from .streamed import StreamedRecords

_ROWS = 16_384
"""Read at a time."""
_step = msgspec.json.Decoder(Record).decode
_value = msgspec.json.decode
_ALIKE = frozenset({*PLAIN, float})
"""Types of values that nobody can change, so that one stands for all that are the same."""
_KINDS: tuple[type[Record], ...] = get_args(Record)
_STEPS = pa.array([str(kind.__struct_config__.tag) for kind in _KINDS if kind not in (Offered, Delivered)])

Numbered = tuple[int, Stamped]
"""A record and its place in the history."""


class SealedRecords(StreamedRecords):
    """Reads the tables anew each time that it is gone through; see `harness.recording.sealing` for what is in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def rows(self) -> int:
        """Of all three tables."""
        return sum(self._file(name).metadata.num_rows for name in ("offered", "delivered", "steps"))

    def of(self, *kinds: type[Record]) -> Iterator[Stamped]:
        """The records of these kinds, in their order; the others are not looked at."""
        wanted = frozenset(kinds)
        tables: list[Iterator[Numbered]] = []
        if Offered in wanted:
            tables.append(self._offered())
        if Delivered in wanted:
            tables.append(self._delivered())
        if steps := wanted - {Offered, Delivered}:
            tables.append(self._steps(steps))
        found = tables[0] if len(tables) == 1 else merge(*tables, key=itemgetter(0))
        return self._in_order(found)

    def _in_order(self, found: Iterable[Numbered]) -> Iterator[Stamped]:
        """Raises DamagedHistory for tables that hold something else than records, or not in their order."""
        latest = -1
        try:
            for place, stamped in found:
                if place <= latest:
                    raise DamagedHistory(self._out_of_order(place))
                latest = place
                yield stamped
        except (pa.ArrowException, msgspec.MsgspecError, LookupError, TypeError, ValueError, OSError) as error:
            raise DamagedHistory(f"the tables in {self.folder} cannot be read: {_said(error)}") from error

    def _out_of_order(self, place: int) -> str:
        return f"the tables in {self.folder} are out of order at record {place:,}"

    def __iter__(self) -> Iterator[Stamped]:
        return self.of(*_KINDS)

    @cached_property
    def _places(self) -> tuple[int, int]:
        """How many different places there are, and the last of them; a place is in one table."""
        count, latest = 0, -1
        for name in ("offered", "delivered", "steps"):
            last = np.array([-1])
            for batch in self._file(name).iter_batches(_ROWS, columns=["n"], use_threads=False):
                steps = np.diff(places := np.concatenate((last, batch.column(0).to_numpy())))
                if (back := np.flatnonzero(steps < 0)).size:
                    raise DamagedHistory(self._out_of_order(int(places[back[0] + 1])))
                count += int(np.count_nonzero(steps))
                last = places[-1:]
            latest = max(latest, int(last[0]))
        return count, latest

    @property
    def _length(self) -> int:
        return self._places[0]

    def check_places(self) -> None:
        """Raises DamagedHistory where a record is gone, or is there twice: they are numbered without gaps."""
        try:
            count, latest = self._places
        except (pa.ArrowException, LookupError, TypeError, ValueError, OSError) as error:
            raise DamagedHistory(f"the tables in {self.folder} cannot be read: {_said(error)}") from error
        if count != latest + 1:
            raise DamagedHistory(
                f"the tables in {self.folder} hold {count:,} records, which are numbered up to {latest:,} from 0"
            )

    def __len__(self) -> int:
        return self._length

    def _file(self, name: str) -> pq.ParquetFile:
        """Raises DamagedHistory."""
        try:
            return self._opened(name)
        except (pa.ArrowException, OSError) as error:
            raise DamagedHistory(f"{self.folder / name}.parquet cannot be read: {_said(error)}") from error

    def _opened(self, name: str) -> pq.ParquetFile:
        # As bytes: the name of a folder need not be text.
        return pq.ParquetFile(pa.OSFile(os.fsencode(self.folder / f"{name}.parquet")), pre_buffer=False)

    def _batches(self, name: str) -> Iterator[dict[str, pa.Array]]:
        for batch in self._file(name).iter_batches(_ROWS, use_threads=False):
            _check_whole(batch.columns)
            yield dict(zip(batch.schema.names, batch.columns, strict=True))

    def _steps(self, kinds: Iterable[type[Record]]) -> Iterator[Numbered]:
        wanted = pa.array(sorted(str(kind.__struct_config__.tag) for kind in kinds))
        for batch in self._file("steps").iter_batches(_ROWS, use_threads=False):
            _check_whole(batch.columns)
            if not pc.all(pc.is_in(batch.column("kind"), _STEPS)).as_py():
                raise ValueError("there is a step of no kind")
            chosen = batch.filter(pc.is_in(batch.column("kind"), wanted))
            numbers, times, kinds_of, fields = (
                chosen.column(name).to_pylist() for name in ("n", "at", "kind", "fields")
            )
            for n, at, kind, text in zip(numbers, times, kinds_of, fields, strict=True):
                record = _step(text)
                if type(record).__struct_config__.tag != kind:
                    raise ValueError(f"record {n:,} is said to be {kind!r}, and is not")
                yield n, Stamped(at, record)

    def _offered(self) -> Iterator[Numbered]:
        for n, at, (source,), events in self._records("offered", "source"):
            yield n, Stamped(at, Offered(source, events))

    def _delivered(self) -> Iterator[Numbered]:
        for n, at, (sink, channel, incarnation, position), rows in self._records(
            "delivered", "sink", "channel", "incarnation", "position"
        ):
            yield n, Stamped(at, Delivered(sink, channel, incarnation, position, rows))

    def _records(self, name: str, *head: str) -> Iterator[tuple[int, int, tuple[Any, ...], list[Event]]]:
        """Place, time, `head` and the events of each record: of the rows with one number. Raises ValueError where these
        are not of one record."""
        open_: tuple[int, int, tuple[Any, ...], list[Event]] | None = None
        """The last record of what was read: more of it may come."""
        for batch in self._batches(name):
            numbers = batch["n"].to_numpy()
            events = _events(batch)
            _check_alike(numbers, [batch["at"], *(batch[field] for field in head if field != "position")])
            if "position" in head:
                _check_counted(numbers, batch["position"])
            heads = [_texts(batch[field]) if field in _TEXTS else _numbers(batch[field]) for field in head]
            times = _numbers(batch["at"])
            starts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
            for start, stop in pairwise(starts):
                n, of = int(numbers[start]), tuple([column[start] for column in heads])
                if open_ is not None:
                    if open_[0] == n:
                        known, counted = open_[2], len(open_[3])
                        due = tuple(v + counted if f == "position" else v for f, v in zip(head, known, strict=True))
                        if (times[start], of) != (open_[1], due):
                            raise ValueError(_NOT_ONE.format(n))
                        open_[3].extend(events[start:stop])
                        continue
                    yield open_
                open_ = n, times[start], of, events[start:stop]
        if open_ is not None:
            yield open_


_TEXTS = frozenset({"sink", "channel", "source"})
_NOT_ONE = "the rows of record {:,} are not of one record"


def _check_whole(columns: Iterable[pa.Array]) -> None:
    """Raises ValueError where something is not said."""
    if any(column.null_count for column in columns):
        raise ValueError("a value is missing")


def _check_alike(numbers: NDArray[Any], columns: Iterable[pa.Array]) -> None:
    """What a record says once stands in each of its rows. Raises ValueError where these say different things."""
    same = numbers[1:] == numbers[:-1]
    for column in columns:
        values = column.dictionary_encode().indices.to_numpy() if pa.types.is_string(column.type) else column.to_numpy()
        other = np.flatnonzero(same & (values[1:] != values[:-1]))
        if len(other):
            raise ValueError(_NOT_ONE.format(int(numbers[other[0]])))


def _check_counted(numbers: NDArray[Any], column: pa.Array) -> None:
    """The rows of a record are counted on. Raises ValueError where one is left out, or there twice."""
    values = column.to_numpy()
    other = np.flatnonzero((numbers[1:] == numbers[:-1]) & (np.diff(values) != 1))
    if len(other):
        raise ValueError(_NOT_ONE.format(int(numbers[other[0]])))


def _events(batch: dict[str, pa.Array]) -> list[Event]:
    seqs, times = _numbers(batch["seq"]), _numbers(batch["time"])
    return list(map(Event, _texts(batch["source"]), seqs, _texts(batch["key"]), _values(batch["value"]), times))


def _numbers(column: pa.Array) -> list[int]:
    found: list[int] = column.to_numpy().tolist()
    return found


def _texts(column: pa.Array) -> list[str]:
    """Those that are the same are one object."""
    coded = column.dictionary_encode()
    return _at(coded.dictionary.to_pylist(), coded.indices)


def _at(some: Sequence[Any], places: pa.Array) -> list[Any]:
    """What stands there, none of which is a sequence of its own."""
    found: list[Any] = np.array(some, object)[places.to_numpy()].tolist()
    return found


def _values(column: pa.Array) -> list[Any]:
    coded = column.dictionary_encode()
    texts: list[str] = coded.dictionary.to_pylist()
    values: list[Any] = _value(f"[{','.join(texts)}]")
    if len(values) != len(texts):
        raise ValueError("a value is more than one")
    if _ALIKE.issuperset(map(type, values)):
        return _at(values, coded.indices)
    return _value(f"[{','.join(column.to_pylist())}]")  # type: ignore[no-any-return]


def _said(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
