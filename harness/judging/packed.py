"""Sequences of events and derivations that fit into memory however long they are.

The newest rows of a sequence are kept as they are, and all of those of a short one; whenever there are a few thousand
of them, they become columns. Rows are made of columns again when they are asked for, a few thousand at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from operator import eq
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from ..core.events import Event

if TYPE_CHECKING:  # What makes columns takes long to import, and short histories have none.
    from .columns import Column, Values

CHUNK = 8_192
"""Rows that become columns together."""

T = TypeVar("T")
U = TypeVar("U")


class Chunk(Protocol[T]):
    """Rows in columns."""

    def rows(self) -> list[T]: ...


@dataclass(frozen=True, slots=True)
class EventChunk:
    source: Column
    seq: Column
    key: Column
    value: Column
    time: Column

    def rows(self) -> list[Event]:
        columns = (self.source, self.seq, self.key, self.value, self.time)
        return list(map(Event, *(column.values() for column in columns)))


def _of_events(rows: Sequence[Event]) -> EventChunk:
    from .columns import pack

    return EventChunk(
        pack([row.source for row in rows]),
        pack([row.seq for row in rows]),
        pack([row.key for row in rows]),
        pack([row.value for row in rows]),
        pack([row.time for row in rows]),
    )


@dataclass(frozen=True, slots=True)
class TupleChunk:
    columns: tuple[Column, ...]

    def rows(self) -> list[tuple[Any, ...]]:
        return list(zip(*(column.values() for column in self.columns), strict=True))


@dataclass(frozen=True, slots=True)
class MixedChunk:
    """Tuples of which not all are as long as the others, and None."""

    kept: list[Any]

    def rows(self) -> list[Any]:
        return self.kept


def _of_tuples(rows: Sequence[Any]) -> Chunk[Any]:
    if len(set(map(type, rows))) > 1 or rows[0] is None or len(set(map(len, rows))) > 1:
        return MixedChunk(list(rows))
    from .columns import pack

    return TupleChunk(tuple([pack([row[place] for row in rows]) for place in range(len(rows[0]))]))


@dataclass(frozen=True, slots=True)
class NumberChunk:
    column: Column

    def rows(self) -> list[int]:
        return self.column.values()


def _of_numbers(rows: Sequence[int]) -> NumberChunk:
    from .columns import pack

    return NumberChunk(pack(rows))


class PackedRows(list[T]):
    """Rows that stand one after the other in columns, and where."""

    __slots__ = ("origin", "place")

    def __init__(self, rows: Iterable[T], origin: Packed[T], place: int) -> None:
        super().__init__(rows)
        self.origin = origin
        self.place = place


@dataclass(frozen=True, slots=True)
class Lent(Generic[T]):
    """Rows that another sequence has, from a place on."""

    origin: Packed[T]
    place: int

    def rows(self) -> list[T]:
        return list(self.origin[self.place : self.place + CHUNK])


def _columns_of(chunk: Chunk[Any]) -> tuple[Column, ...] | None:
    """None for what is not in columns."""
    if isinstance(chunk, EventChunk):
        return chunk.source, chunk.seq, chunk.key, chunk.value, chunk.time
    if isinstance(chunk, TupleChunk):
        return chunk.columns
    return (chunk.column,) if isinstance(chunk, NumberChunk) else None


def _of_columns(to_columns: Callable[..., Any], columns: Iterable[Values]) -> Chunk[T]:
    """A chunk of the kind that a function makes."""
    from .columns import pack

    found: Any
    if to_columns is _of_events:
        found = EventChunk(*map(pack, columns))
    elif to_columns is _of_tuples:
        found = TupleChunk(tuple(map(pack, columns)))
    else:
        found = NumberChunk(*map(pack, columns))
    return found  # type: ignore[no-any-return]


def _part_of(chunk: Chunk[T] | list[T], low: int, high: int, to_columns: Callable[..., Chunk[T]]) -> Columns | None:
    """The rows of a chunk, or a list, from a place up to another; None where they have no columns."""
    from .columns import column_part

    if isinstance(chunk, list):
        chunk, low, high = to_columns(chunk[low:high]), 0, high - low
    columns = _columns_of(chunk)
    return None if columns is None else tuple([column_part(column, low, high) for column in columns])


Columns = tuple["Values", ...]
"""The columns of some rows."""


class Rows(Sequence[T]):
    """A sequence that is read a few thousand rows at a time."""

    __slots__ = ()

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[list[T]]:
        """The rows from `start` up to `stop`, in order, a few thousand at a time."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self.parts())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows | list | tuple):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(map(eq, self, other)))

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, row: object) -> bool:
        return any(row in part for part in self.parts())

    def count(self, value: Any) -> int:
        return sum([part.count(value) for part in self.parts()])

    def __repr__(self) -> str:
        beginning = ", ".join(map(repr, islice(self, 5)))
        return f"<{len(self):,} rows: {beginning}{', ...' if len(self) > 5 else ''}>"


@dataclass(frozen=True, slots=True)
class _Piece(Generic[T]):
    """Rows in the columns of others, or in columns of their own."""

    of: Packed[T] | Columns
    start: int
    stop: int

    def columns(self) -> Iterator[Columns | None]:
        from .columns import cut

        if isinstance(self.of, Packed):
            yield from self.of.columns(self.start, self.stop)
        else:
            yield tuple([cut(values, self.start, self.stop) for values in self.of])

    def rows(self, to_columns: Callable[..., Chunk[T]]) -> Sequence[T]:
        if isinstance(self.of, Packed):
            return self.of[self.start : self.stop]
        (columns,) = self.columns()
        assert columns is not None
        return _of_columns(to_columns, columns).rows()


class Packed(Rows[T]):
    """Rows of one kind, to which more can be added."""

    __slots__ = ("_ahead", "_chunks", "_loan", "_place", "_rows", "_skip", "_to_columns", "_waiting", "tail")

    def __init__(self, to_columns: Callable[[Sequence[T]], Chunk[T]], rows: Iterable[T] = ()) -> None:
        self._to_columns = to_columns
        self._chunks: list[Chunk[T]] = []
        self._skip = 0
        """Rows of the first chunks that are not part of this."""
        self._place = -1
        """The chunk whose rows were asked for last, and these."""
        self._rows: list[T] = []
        self._loan: tuple[Packed[T], int, int] | None = None
        """What the newest rows are a piece of, the place there of one of them, and which of the tail that is."""
        self._ahead: list[_Piece[T]] = []
        """The newest rows, where they came in columns, and are not enough for a chunk. Then there are chunks, and there
        is no tail."""
        self._waiting = 0
        """How many those are."""
        self.tail: list[T] = []
        """The newest rows; all, as long as there are few. Whoever adds to it calls `settle` now and then."""
        if rows != ():
            self.extend(rows)

    def __len__(self) -> int:
        if not self._chunks:
            return len(self.tail)
        return len(self._chunks) * CHUNK + len(self.tail) + self._waiting - self._skip

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self.parts()) if self._chunks else iter(self.tail)

    def __eq__(self, other: object) -> bool:
        if not self._chunks:
            kind = type(other)
            if kind is Packed:
                if not other._chunks:  # type: ignore[attr-defined]
                    return bool(self.tail == other.tail)  # type: ignore[attr-defined]
            elif kind is list:
                return self.tail == other
        return super().__eq__(other)

    __hash__ = None

    def append(self, row: T) -> None:
        if self._ahead:
            self.as_rows()
        self._loan = None
        self.tail.append(row)
        if len(self.tail) >= CHUNK:
            self.settle()

    def extend(self, rows: Iterable[T]) -> None:
        if self._ahead:
            self.as_rows()
        if type(rows) is list:
            self._loan = None
        elif type(rows) is PackedRows:
            known, here = self._loan, len(self.tail)
            if known is None or known[0] is not rows.origin or known[1] + here - known[2] != rows.place:
                self._loan = rows.origin, rows.place, here
        elif isinstance(rows, Rows):
            for part in rows.parts():
                self.extend(part)
            return
        else:
            self._loan = None
        self.tail += rows
        if len(self.tail) >= CHUNK:
            self.settle()

    def __iadd__(self, rows: Iterable[T]) -> Packed[T]:
        self.extend(rows)
        return self

    def settle(self) -> None:
        """Turn what has been added into columns, if it is enough."""
        tail = self.tail
        end = len(tail) // CHUNK * CHUNK
        for start in range(0, end, CHUNK):
            if self._loan is not None and self._loan[2] <= start:
                origin, place, which = self._loan
                self._chunks.append(Lent(origin, place + start - which))
            else:
                self._chunks.append(self._to_columns(tail[start : start + CHUNK]))
        if end:
            del tail[:end]
            if self._loan is not None:
                origin, place, which = self._loan
                self._loan = origin, place, which - end

    def lend(self, origin: Packed[T], start: int, stop: int) -> None:
        """Add the rows of another sequence from `start` up to `stop`, of which there are some, without making any."""
        if not self._set_aside():
            self.extend(list(origin[start:stop]))
            return
        last = self._ahead[-1] if self._ahead else None
        if last is not None and last.of is origin and last.stop == start:
            self._ahead[-1] = _Piece(origin, last.start, stop)
        else:
            self._ahead.append(_Piece(origin, start, stop))
        self._add(stop - start)

    def extend_columns(self, columns: Columns, count: int) -> None:
        """Add so many rows, which are in columns."""
        if not count:
            return
        if not self._set_aside():
            self.extend(_of_columns(self._to_columns, columns).rows())
            return
        self._ahead.append(_Piece(columns, 0, count))
        self._add(count)

    def _set_aside(self) -> bool:
        """Whether what was added as rows is in columns now, if there was anything."""
        if not self.tail:
            return True
        count = len(self.tail)
        if self._loan is not None and self._loan[2] <= 0:
            origin, place, which = self._loan
            self._ahead.append(_Piece(origin, place - which, place - which + count))
        else:
            columns = _part_of(self.tail, 0, count, self._to_columns)
            if columns is None:
                return False
            self._ahead.append(_Piece(columns, 0, count))
        self._waiting, self.tail, self._loan = count, [], None
        return True

    def _add(self, count: int) -> None:
        self._waiting += count
        while self._waiting >= CHUNK:
            self._chunks.append(self._next_chunk())
            self._waiting -= CHUNK
        if not self._chunks:
            self.as_rows()

    def _next_chunk(self) -> Chunk[T]:
        """Of what is ahead, which is enough."""
        from .columns import in_one

        pieces: list[_Piece[T]] = []
        due = CHUNK
        while due:
            first = self._ahead[0]
            end = min(first.stop, first.start + due)
            pieces.append(_Piece(first.of, first.start, end))
            due -= end - first.start
            self._ahead[:1] = [_Piece(first.of, end, first.stop)] if end < first.stop else []
        if len(pieces) == 1 and isinstance(first.of, Packed):
            return Lent(first.of, first.start)
        parts = [columns for piece in pieces for columns in piece.columns()]
        if None in parts or len(set(map(len, parts))) > 1:  # type: ignore[arg-type]
            return self._to_columns([row for piece in pieces for row in piece.rows(self._to_columns)])
        return _of_columns(self._to_columns, map(in_one, zip(*parts, strict=True)))

    def as_rows(self) -> None:
        """Turn what is not enough for a chunk into rows. To be called before any is added to the tail by others."""
        if self._ahead:
            ahead, self._ahead, self._waiting = self._ahead, [], 0
            for piece in ahead:
                self.extend(piece.rows(self._to_columns))

    def since(self, skip: int) -> Packed[T]:
        """The same rows without the first `skip`. Nothing may be added to either from now on."""
        found: Packed[T] = Packed(self._to_columns)
        if not self._chunks:
            found.tail = self.tail[skip:]
            return found
        self.as_rows()
        skip = min(skip, len(self)) + self._skip
        chunks = min(skip // CHUNK, len(self._chunks))
        found._chunks = self._chunks[chunks:]
        found._skip = skip - chunks * CHUNK
        found.tail = self.tail
        if not found._chunks:
            found.tail, found._skip = self.tail[found._skip :], 0
        return found

    def mapped(
        self,
        to_columns: Callable[[Sequence[U]], Chunk[U]],
        of_chunk: Callable[[Chunk[T]], Chunk[U]],
        of: Callable[[T], U],
    ) -> Packed[U]:
        """As many rows of another kind: a chunk of each chunk, and a row of each row that is in none."""
        self.as_rows()
        found: Packed[U] = Packed(to_columns)
        found._chunks = list(map(of_chunk, self._chunks))
        found._skip = self._skip
        found.tail = list(map(of, self.tail))
        return found

    @property
    def at_hand(self) -> Sequence[T]:
        """The same rows, as a list where there are few."""
        return self if self._chunks else self.tail

    @property
    def packed(self) -> bool:
        """Whether any of it is in columns."""
        return bool(self._chunks)

    def chunks(self, start: int, stop: int) -> Iterator[tuple[Chunk[T] | list[T], int, int]]:
        """Where the rows from `start` up to `stop` are: each chunk, and from where to where in it."""
        for chunk, low, high in self._own_chunks(start, stop):
            if isinstance(chunk, Lent):
                yield from chunk.origin.chunks(chunk.place + low, chunk.place + high)
            else:
                yield chunk, low, high

    def columns(self, start: int, stop: int) -> Iterator[Columns | None]:
        """The rows from `start` up to `stop`, chunk by chunk; None for those that have no columns."""
        for chunk, low, high in self.chunks(start, stop):
            yield _part_of(chunk, low, high, self._to_columns)

    def _own_chunks(self, start: int, stop: int) -> Iterator[tuple[Chunk[T] | list[T], int, int]]:
        self.as_rows()
        start, stop = start + self._skip, stop + self._skip
        for place in range(start // CHUNK, len(self._chunks)):
            begins = place * CHUNK
            if begins >= stop:
                return
            yield self._chunks[place], max(0, start - begins), min(CHUNK, stop - begins)
        begins = len(self._chunks) * CHUNK
        if stop > begins:
            yield self.tail, max(0, start - begins), stop - begins

    def _chunk(self, place: int) -> list[T]:
        if self._place != place:
            self._rows = self._chunks[place].rows()
            self._place = place
        return self._rows

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[list[T]]:
        self.as_rows()
        start += self._skip
        stop = len(self._chunks) * CHUNK + len(self.tail) if stop is None else stop + self._skip
        for place in range(start // CHUNK, len(self._chunks)):
            begins = place * CHUNK
            if begins >= stop:
                return
            rows = self._chunk(place)
            whole = start <= begins and stop >= begins + CHUNK
            yield rows if whole else rows[max(0, start - begins) : stop - begins]
        begins = len(self._chunks) * CHUNK
        if stop > begins:
            yield self.tail[max(0, start - begins) : stop - begins]

    def within_one_part(self, start: int, stop: int) -> list[T] | None:
        """As `parts`, of what they give in one."""
        place, begin = divmod(start + self._skip, CHUNK)
        end = begin + stop - start
        if end > CHUNK or place >= len(self._chunks):
            return None
        return self._chunk(place)[begin:end]

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if not self._chunks:
            return self.tail[index]
        if isinstance(index, slice):
            return _sliced(self, index)
        self.as_rows()
        place = _index(index, len(self)) + self._skip
        chunk, row = divmod(place, CHUNK)
        return self._chunk(chunk)[row] if chunk < len(self._chunks) else self.tail[place - len(self._chunks) * CHUNK]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class View(Rows[T], Generic[T]):
    """Stretches of other sequences, one after the other."""

    stretches: tuple[tuple[Packed[T] | list[T], int, int], ...]
    """Of which, from where, up to where."""

    def __len__(self) -> int:
        return sum(stop - start for _, start, stop in self.stretches)

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[list[T]]:
        for rows, low, high in self.cut(start, len(self) if stop is None else stop):
            if isinstance(rows, Packed):
                yield from rows.parts(low, high)
            else:
                yield rows[low:high]

    def chunks(self, start: int, stop: int) -> Iterator[tuple[Chunk[T] | list[T], int, int]]:
        """As of `Packed`."""
        for rows, low, high in self.cut(start, stop):
            if isinstance(rows, Packed):
                yield from rows.chunks(low, high)
            else:
                yield rows, low, high

    def cut(self, start: int, stop: int) -> Iterator[tuple[Packed[T] | list[T], int, int]]:
        """The stretches that the rows from `start` up to `stop` are."""
        begins = 0
        for rows, low, high in self.stretches:
            first, last = max(low, low + start - begins), min(high, low + stop - begins)
            if first < last:
                yield rows, first, last
            begins += high - low

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return _sliced(self, index)
        place = _index(index, len(self))
        rows, low, _ = next(self.cut(place, place + 1))
        return rows[low]


def _index(index: int, length: int) -> int:
    place = index + length if index < 0 else index
    if not 0 <= place < length:
        raise IndexError(f"{index} of {length} rows")
    return place


def _sliced(rows: Packed[T] | View[T], which: slice) -> Sequence[T]:
    start, stop, step = which.indices(len(rows))
    stop = max(start, stop)
    if step != 1:
        return [rows[place] for place in range(*which.indices(len(rows)))]
    if stop - start <= CHUNK:
        if isinstance(rows, Packed) and (part := rows.within_one_part(start, stop)) is not None:
            return PackedRows(part, rows, start)
        found = chain.from_iterable(rows.parts(start, stop))
        return PackedRows(found, rows, start) if isinstance(rows, Packed) else list(found)
    return View(((rows, start, stop),) if isinstance(rows, Packed) else tuple(rows.cut(start, stop)))


def joined(parts: Iterable[Sequence[T]]) -> Sequence[T]:
    """These, one after the other."""
    given = [part for part in parts if len(part)]
    if len(given) == 1:
        return given[0]
    if all(isinstance(part, list) for part in given) and sum(map(len, given)) <= CHUNK:
        return list(chain.from_iterable(given))
    return View(tuple(stretch for part in given for stretch in _stretches(part)))


def same_chunks(some: Sequence[T], start: int, stop: int, others: Sequence[T], place: int) -> bool:
    """Whether the rows from `start` up to `stop` are lent by those who have the others from a place on, so that nobody
    has to look at them."""
    if not isinstance(some, Packed | View) or not isinstance(others, Packed | View):
        return False
    theirs = others.chunks(place, place + stop - start)
    return all(
        one is not None and other is not None and one[0] is other[0] and one[1:] == other[1:]
        for one, other in zip_longest(some.chunks(start, stop), theirs)
    )


def _stretches(rows: Sequence[T]) -> Iterable[tuple[Packed[T] | list[T], int, int]]:
    if isinstance(rows, View):
        return rows.stretches
    kept = rows if isinstance(rows, Packed | list) else list(rows)
    return ((kept, 0, len(kept)),)


def parts_of(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    """The rows of any sequence, a few thousand at a time."""
    if isinstance(rows, Rows):
        return rows.parts()
    if len(rows) <= CHUNK:
        return (rows,)
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))


def packed_events(events: Iterable[Event] = ()) -> Packed[Event]:
    return Packed(_of_events, events)


def packed_tuples(rows: Iterable[Any] = ()) -> Packed[Any]:
    """Tuples, or None."""
    return Packed(_of_tuples, rows)


def seq_at(events: Packed[Event], place: int) -> int:
    """The number of an event, without making it of its columns."""
    from .columns import value_at

    ((chunk, low, _),) = events.chunks(place, place + 1)
    found: int = value_at(chunk.seq, low) if isinstance(chunk, EventChunk) else events[place].seq
    return found


def roots_of(events: Packed[Event]) -> Packed[Any]:
    """What the events of a source are derived from: each from itself."""
    return events.mapped(_of_tuples, _roots_of, _root_of)


def _roots_of(chunk: Chunk[Event]) -> Chunk[Any]:
    if isinstance(chunk, EventChunk):
        return TupleChunk((chunk.source, chunk.seq))
    return _of_tuples([_root_of(event) for event in chunk.rows()])


def _root_of(event: Event) -> tuple[str, int]:
    return event.source, event.seq


def packed_numbers(numbers: Iterable[int] = ()) -> Packed[int]:
    return Packed(_of_numbers, numbers)
