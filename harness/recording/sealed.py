"""The records of a sealed run as they are on the disk: read some thousand rows at a time, and kept nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from .arrow_columns import number_column, numbers_in, text_column
from .decoded import held
from .records import Delivered, Offered, OfferedSpan, Record, Stamped
from .streamed import StreamedRecords

_ROWS = 16_384
"""Read at a time."""
_OF_OFFERED = ("n", "at", "source", "seq")
"""Columns that say who offered how many, and of which numbers."""
_decode_step = msgspec.json.Decoder(Record).decode
_ALIKE = frozenset({*PLAIN, float})
"""Types of values that nobody can change, so that one stands for all that are the same."""
_KINDS: tuple[type[Record], ...] = get_args(Record)
_STEPS = text_column([str(kind.__struct_config__.tag) for kind in _KINDS if kind not in (Offered, Delivered)])

_UNREADABLE = (
    pa.ArrowException,
    msgspec.MsgspecError,
    LookupError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    OSError,
)
Numbered = tuple[int, Stamped]
"""A record and its place in the history."""
Whole = NDArray[np.int64]
"""Whole numbers."""


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """A column: the different values, and for each row which of them it has."""

    values: list[Any]
    codes: NDArray[Any]

    def listed(self, rows: slice | Whole) -> list[Any]:
        # None of the values is a sequence of its own.
        found: list[Any] = np.array(self.values, object)[self.codes[rows]].tolist()
        return found

    def at(self, rows: Whole) -> CodedColumn:
        return CodedColumn(self.values, self.codes[rows])


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Events as they stand in a table."""

    source: CodedColumn
    seq: Whole
    key: CodedColumn
    value: CodedColumn | None
    """None where each has to be made by itself, since somebody could change it."""
    encoded: pa.Array
    """The values in JSON."""
    time: Whole

    def events(self, rows: slice) -> list[Event]:
        values = _each_value(self.encoded[rows]) if self.value is None else self.value.listed(rows)
        seqs, times = self.seq[rows].tolist(), self.time[rows].tolist()
        return list(map(Event, self.source.listed(rows), seqs, self.key.listed(rows), values, times))

    def at(self, rows: Whole) -> EventColumns:
        return EventColumns(
            self.source.at(rows),
            self.seq[rows],
            self.key.at(rows),
            None if self.value is None else self.value.at(rows),
            self.encoded.take(number_column(rows)) if self.value is None else self.encoded,
            self.time[rows],
        )


@dataclass(frozen=True, slots=True)
class DeliveredColumns:
    """Records of what was delivered, whole, one after the other."""

    at: Whole
    sink: CodedColumn
    channel: CodedColumn
    incarnation: Whole
    position: Whole
    ends: Whole
    """After how many rows each record ends."""
    rows: EventColumns

    def by_channel(self) -> Iterator[tuple[str, DeliveredColumns]]:
        """Those of each channel, in the order in which the channels come first."""
        of = self.channel.codes
        codes, first = np.unique(of, return_index=True)
        counts = np.diff(self.ends, prepend=0)
        of_rows = np.repeat(of, counts)
        for code in codes[np.argsort(first)]:
            mine = np.flatnonzero(of == code)
            yield (
                self.channel.values[code],
                DeliveredColumns(
                    self.at[mine],
                    self.sink.at(mine),
                    self.channel.at(mine),
                    self.incarnation[mine],
                    self.position[mine],
                    np.cumsum(counts[mine]),
                    self.rows.at(np.flatnonzero(of_rows == code)),
                ),
            )

    def firsts(self) -> Iterator[tuple[str, str, int, int]]:
        """Sink, channel, incarnation and the lowest number of an event, of each."""
        begins = np.append(0, self.ends[:-1])
        lowest = np.minimum.reduceat(self.rows.seq, begins).tolist()
        return zip(self.sink.listed(_ALL), self.channel.listed(_ALL), self.incarnation.tolist(), lowest, strict=True)

    def records(self, first: int, last: int) -> Iterator[tuple[int, Delivered]]:
        """From one of them up to another: when it was delivered, and what."""
        begin = int(self.ends[first - 1]) if first else 0
        some = slice(first, last)
        columns = (self.at, self.incarnation, self.position, self.ends)
        numbers = zip(*(column[some].tolist() for column in columns), strict=True)
        names = zip(self.sink.listed(some), self.channel.listed(some), strict=True)
        for (at, incarnation, position, end), (sink, channel) in zip(numbers, names, strict=True):
            yield at, Delivered(sink, channel, incarnation, position, self.rows.events(slice(begin, end)))
            begin = end


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

    def delivered(self) -> Iterator[DeliveredColumns]:
        """All that was delivered, in its order, in columns. Raises DamagedHistory as `of` does."""
        latest = -1
        with self._readable():
            for batch in self._of_whole_records("delivered"):
                numbers = numbers_in(batch["n"])
                steps = np.diff(numbers, prepend=latest)
                # The rows of a record have one number.
                back = np.flatnonzero(np.append(steps[:1] <= 0, steps[1:] < 0))
                if back.size:
                    raise DamagedHistory(self._out_of_order(int(numbers[back[0]])))
                latest = int(numbers[-1])
                yield _delivered_columns(batch, numbers)

    def offered(self) -> Iterator[OfferedSpan]:
        """When, by which source and how many events were offered, without what these are. Raises DamagedHistory as `of`
        does."""
        latest: tuple[int, OfferedSpan] | None = None
        """The last of what was read, with the place of its record: more of it may come."""
        with self._readable():
            for batch in self._file("offered").iter_batches(_ROWS, columns=list(_OF_OFFERED), use_threads=False):
                _check_whole(batch.columns)
                numbers, seqs = numbers_in(batch.column(0)), numbers_in(batch.column(3))
                _check_alike(numbers, batch.columns[1:3])
                goes_on = (np.diff(numbers) == 0) & (np.diff(seqs) == 1)
                first = np.append(0, np.flatnonzero(~goes_on) + 1)
                times, sources = numbers_in(batch.column(1))[first].tolist(), _coded(batch.column(2)).listed(first)
                counts = np.diff(first, append=len(numbers)).tolist()
                spans = map(OfferedSpan, times, sources, seqs[first].tolist(), counts)
                for n, span in zip(numbers[first].tolist(), spans, strict=True):
                    if latest is not None:
                        if latest[0] == n and span.first == latest[1].first + latest[1].length:
                            latest = n, latest[1]._replace(length=latest[1].length + span.length)
                            continue
                        yield latest[1]
                    latest = n, span
            if latest is not None:
                yield latest[1]

    def _in_order(self, found: Iterable[Numbered]) -> Iterator[Stamped]:
        """Raises DamagedHistory for tables that hold something else than records, or not in their order."""
        latest = -1
        with self._readable():
            for place, stamped in found:
                if place <= latest:
                    raise DamagedHistory(self._out_of_order(place))
                latest = place
                yield stamped

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Raises DamagedHistory for tables that hold something else than records."""
        try:
            yield
        except _UNREADABLE as error:
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
                steps = np.diff(places := np.concatenate((last, numbers_in(batch.column(0)))))
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
        with self._readable():
            count, latest = self._places
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

    def _of_whole_records(self, name: str) -> Iterator[dict[str, pa.Array]]:
        """The same, but the rows of a record are all in one."""
        rest: list[dict[str, pa.Array]] = []
        """Of the last record of what was read: more of it may come."""
        for batch in self._batches(name):
            numbers = numbers_in(batch["n"])
            last = int(np.searchsorted(numbers, numbers[-1]))
            if last or (rest and rest[-1]["n"][0] != batch["n"][0]):
                yield _one_after_the_other([*rest, {field: column[:last] for field, column in batch.items()}])
                rest = []
            rest.append({field: column[last:] for field, column in batch.items()})
        if rest:
            yield _one_after_the_other(rest)

    def _steps(self, kinds: Iterable[type[Record]]) -> Iterator[Numbered]:
        wanted = text_column(sorted(str(kind.__struct_config__.tag) for kind in kinds))
        for batch in self._file("steps").iter_batches(_ROWS, use_threads=False):
            _check_whole(batch.columns)
            if not pc.all(pc.is_in(batch.column("kind"), _STEPS)).as_py():
                raise ValueError("there is a step of no kind")
            chosen = batch.filter(pc.is_in(batch.column("kind"), wanted))
            numbers, times, kinds_of, fields = (
                chosen.column(name).to_pylist() for name in ("n", "at", "kind", "fields")
            )
            for n, at, kind, text in zip(numbers, times, kinds_of, fields, strict=True):
                record = held(_decode_step(text), text)
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
            numbers = numbers_in(batch["n"])
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


def _one_after_the_other(batches: Sequence[dict[str, pa.Array]]) -> dict[str, pa.Array]:
    return {field: pa.concat_arrays([batch[field] for batch in batches]) for field in batches[0]}


def _delivered_columns(batch: dict[str, pa.Array], numbers: Whole) -> DeliveredColumns:
    """Raises ValueError for rows with one number that are not of one record."""
    _check_alike(numbers, [batch[field] for field in ("at", "sink", "channel", "incarnation")])
    _check_counted(numbers, batch["position"])
    first = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    return DeliveredColumns(
        numbers_in(batch["at"])[first],
        _coded(batch["sink"]).at(first),
        _coded(batch["channel"]).at(first),
        numbers_in(batch["incarnation"])[first],
        numbers_in(batch["position"])[first],
        np.append(first[1:], len(numbers)),
        EventColumns(
            _coded(batch["source"]),
            numbers_in(batch["seq"]),
            _coded(batch["key"]),
            _coded_values(batch["value"]),
            batch["value"],
            numbers_in(batch["time"]),
        ),
    )


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
        values = (
            numbers_in(column.dictionary_encode().indices) if pa.types.is_string(column.type) else numbers_in(column)
        )
        other = np.flatnonzero(same & (values[1:] != values[:-1]))
        if len(other):
            raise ValueError(_NOT_ONE.format(int(numbers[other[0]])))


def _check_counted(numbers: NDArray[Any], column: pa.Array) -> None:
    """The rows of a record are counted on. Raises ValueError where one is left out, or there twice."""
    values = numbers_in(column)
    other = np.flatnonzero((numbers[1:] == numbers[:-1]) & (np.diff(values) != 1))
    if len(other):
        raise ValueError(_NOT_ONE.format(int(numbers[other[0]])))


def _events(batch: dict[str, pa.Array]) -> list[Event]:
    seqs, times = _numbers(batch["seq"]), _numbers(batch["time"])
    return list(map(Event, _texts(batch["source"]), seqs, _texts(batch["key"]), _values(batch["value"]), times))


def _numbers(column: pa.Array) -> list[int]:
    found: list[int] = numbers_in(column).tolist()
    return found


def _texts(column: pa.Array) -> list[str]:
    """Those that are the same are one object."""
    return _coded(column).listed(_ALL)


_ALL = slice(None)


def _coded(column: pa.Array) -> CodedColumn:
    coded = column.dictionary_encode()
    return CodedColumn(coded.dictionary.to_pylist(), numbers_in(coded.indices))


def _values(column: pa.Array) -> list[Any]:
    coded = _coded_values(column)
    return _each_value(column) if coded is None else coded.listed(_ALL)


def _coded_values(column: pa.Array) -> CodedColumn | None:
    """None where each has to be made by itself, since somebody could change it."""
    coded = _coded(column)
    values = _decoded(f"[{','.join(coded.values)}]")
    if len(values) != len(coded.values):
        raise ValueError("a value is more than one")
    return CodedColumn(values, coded.codes) if _ALIKE.issuperset(map(type, values)) else None


def _decoded(text: str) -> list[Any]:
    found: list[Any] = msgspec.json.decode(text)
    return held(found, text)


def _each_value(column: pa.Array) -> list[Any]:
    return _decoded(f"[{','.join(column.to_pylist())}]")


def _said(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
