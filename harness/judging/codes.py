"""Derivations as whole numbers, so that millions of them can be compared: two have the same number exactly when they
are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import Column, Numbers, Same, numbers_of
from .packed import NumberChunk, Packed, Rows, TupleChunk, View
from .reruns import Derivation

NONE = -1
"""Of None, where nothing that was taken makes an output."""

_HALF = 32
"""Bits of an index; what is above them says at which operator (`execution.hop_of`)."""
_ROOM = 1 << 62

DerivationTable = Sequence[Derivation | None] | tuple[Sequence[Derivation | None], Sequence[int]]
"""Derivations; or each of them with a number that is compared as well."""

_Block = list[Numbers]
"""The fields of some derivations: source, seq, and two for each index. 0 stands for what is not there."""


def coded(*tables: DerivationTable) -> list[Numbers]:
    """The numbers for the rows of each table. They can be compared among these tables alone."""
    sources: dict[str, int] = {}
    lowest: list[int] = []
    highest: list[int] = []
    for table in tables:
        for block in _blocks(table, sources):
            _widen(block, lowest, highest)
    radices = [high - low + 1 for low, high in zip(lowest, highest, strict=True)]
    room = 1
    for radix in radices:
        room *= radix
    if room <= _ROOM:
        return [_packed(table, sources, lowest, radices) for table in tables]
    return _ranked(tables, sources, len(lowest))


def _packed(table: DerivationTable, sources: dict[str, int], lowest: Sequence[int], radices: Sequence[int]) -> Numbers:
    found = np.zeros(_length(table), np.int64)
    begin = 0
    for block in _blocks(table, sources):
        end = begin + len(block[0])
        codes = found[begin:end]
        for place, (low, radix) in enumerate(zip(lowest, radices, strict=True)):
            codes *= radix
            if place < len(block):
                codes += block[place] - low
            else:
                codes -= low
        codes[block[0] == 0] = NONE
        begin = end
    return found


def _ranked(tables: Sequence[DerivationTable], sources: dict[str, int], width: int) -> list[Numbers]:
    """Where the fields do not fit into a number together: by their rank among all that there are."""
    lengths = [_length(table) for table in tables]
    codes = np.zeros(sum(lengths), np.int64)
    for place in range(width):
        column = np.zeros(len(codes), np.int64)
        begin = 0
        for table in tables:
            for block in _blocks(table, sources):
                end = begin + len(block[0])
                if place < len(block):
                    column[begin:end] = block[place]
                begin = end
        _, ranks = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * (int(ranks.max(initial=0)) + 1) + ranks, return_inverse=True)
    known = np.ones(len(codes), bool)
    begin = 0
    for table in tables:
        for block in _blocks(table, sources):
            known[begin : begin + len(block[0])] = block[0] != 0
            begin += len(block[0])
    codes[~known] = NONE
    return list(np.split(codes, np.cumsum(lengths)[:-1]))


def _length(table: DerivationTable) -> int:
    return len(table[0]) if _beside(table) else len(table)  # type: ignore[arg-type]


def _beside(table: DerivationTable) -> bool:
    return isinstance(table, tuple) and len(table) == 2 and isinstance(table[0], Sequence)


def _widen(block: _Block, lowest: list[int], highest: list[int]) -> None:
    while len(lowest) < len(block):
        lowest.append(0)
        highest.append(0)
    for place, column in enumerate(block):
        if len(column):
            lowest[place] = min(lowest[place], int(column.min()))
            highest[place] = max(highest[place], int(column.max()))


def _blocks(table: DerivationTable, sources: dict[str, int]) -> Iterator[_Block]:
    if not _beside(table):
        yield from _fields(table, sources)  # type: ignore[arg-type]
        return
    rows, numbers = table
    beside = array_of(numbers)  # type: ignore[arg-type]
    begin = 0
    for block in _fields(rows, sources):  # type: ignore[arg-type]
        end = begin + len(block[0])
        yield [block[0], beside[begin:end], *block[1:]]
        begin = end


def _fields(rows: Sequence[Derivation | None], sources: dict[str, int]) -> Iterator[_Block]:
    for chunk, low, high in stretches(rows):
        if isinstance(chunk, TupleChunk):
            block = _of_columns(chunk.columns, sources)
            if block is not None:
                yield [column[low:high] for column in block]
                continue
        kept = chunk if isinstance(chunk, list) else chunk.rows()
        yield _of_rows(kept[low:high], sources)


def stretches(rows: Sequence[Any]) -> Iterator[tuple[Any, int, int]]:
    """Where rows are: in which chunk, or list, and from where to where in it."""
    if isinstance(rows, Packed | View):
        yield from rows.chunks(0, len(rows))
    elif len(rows):
        yield list(rows), 0, len(rows)


def _of_columns(columns: Sequence[Column], sources: dict[str, int]) -> _Block | None:
    first = columns[0]
    if not isinstance(first, Same):
        return None
    block: _Block = [np.full(first.count, _source(first.value, sources), np.int64)]
    for place, column in enumerate(columns[1:]):
        numbers = numbers_of(column)
        if numbers is None:
            return None
        block += [numbers] if place == 0 else _halves(numbers)
    return block


def _source(name: str, sources: dict[str, int]) -> int:
    number = sources.get(name)
    if number is None:
        number = sources[name] = len(sources) + 1
    return number


def _halves(indices: Numbers) -> list[Numbers]:
    return [indices >> _HALF, (indices & ((1 << _HALF) - 1)) + 1]


def _of_rows(rows: Sequence[Derivation | None], sources: dict[str, int]) -> _Block:
    try:
        # As a rule all have one width, and none is None.
        names, seqs, *indices = zip(*rows, strict=True)
    except (TypeError, ValueError):
        return _of_any_rows(rows, sources)
    block: _Block = [np.array([_source(name, sources) for name in names], np.int64), np.array(seqs, np.int64)]
    for hop in indices:
        block += _halves(np.array(hop, np.int64))
    return block


def _of_any_rows(rows: Sequence[Derivation | None], sources: dict[str, int]) -> _Block:
    width = max((len(row) for row in rows if row is not None), default=1)
    fields = np.zeros((2 * max(width - 1, 1), len(rows)), np.int64)
    for place, row in enumerate(rows):
        if row is None:
            continue
        fields[0, place], fields[1, place] = _source(row[0], sources), row[1]
        for hop, index in enumerate(row[2:]):
            fields[2 + 2 * hop, place] = index >> _HALF
            fields[3 + 2 * hop, place] = (index & ((1 << _HALF) - 1)) + 1
    return list(fields)


def array_of(numbers: Sequence[int]) -> Numbers:
    """Whole numbers of any sequence."""
    if not isinstance(numbers, Rows):
        return np.asarray(numbers, np.int64)
    found = np.empty(len(numbers), np.int64)
    begin = 0
    for chunk, low, high in stretches(numbers):
        end = begin + high - low
        column = numbers_of(chunk.column) if isinstance(chunk, NumberChunk) else None
        found[begin:end] = (
            chunk[low:high]
            if isinstance(chunk, list)
            else (column[low:high] if column is not None else chunk.rows()[low:high])
        )
        begin = end
    return found


def field_of(rows: Sequence[Any], name: str) -> Numbers:
    """A field of whole numbers of all events: `seq` or `time`."""
    found = np.empty(len(rows), np.int64)
    begin = 0
    for chunk, low, high in stretches(rows):
        end = begin + high - low
        if isinstance(chunk, list):
            found[begin:end] = [getattr(row, name) for row in chunk[low:high]]
        else:
            column = numbers_of(getattr(chunk, name))
            found[begin:end] = column[low:high] if column is not None else getattr(chunk, name).values()[low:high]
        begin = end
    return found


def column_of(rows: Packed[tuple[int, int, int, int]], place: int) -> Numbers:
    """One field of all tuples of whole numbers."""
    found = np.empty(len(rows), np.int64)
    begin = 0
    for chunk, low, high in stretches(rows):
        end = begin + high - low
        column = numbers_of(chunk.columns[place]) if isinstance(chunk, TupleChunk) else None
        if column is None:
            kept = chunk if isinstance(chunk, list) else chunk.rows()
            found[begin:end] = [row[place] for row in kept[low:high]]
        else:
            found[begin:end] = column[low:high]
        begin = end
    return found


def places_in(codes: Numbers, order: Numbers) -> Numbers:
    """Where each stands in an order, for the last time; -1 where it does not."""
    if not len(order) or not len(codes):
        return np.full(len(codes), -1)
    first = int((order == codes[0]).argmax())
    if np.array_equal(order[first : first + len(codes)], codes) and _rises(order):
        return np.arange(first, first + len(codes))
    ascending = None if _rises(order) else order.argsort(kind="stable")
    ordered = order if ascending is None else order[ascending]
    found: Numbers = np.searchsorted(ordered, codes, "right") - 1
    unknown = found < 0
    unknown |= ordered[found] != codes
    unknown |= codes == NONE
    if ascending is not None:
        found = ascending[found]
    found[unknown] = -1
    return found


def first_of_each(codes: Numbers) -> Numbers:
    """For each, where the same stands for the first time."""
    if not len(codes) or _rises(codes):
        return np.arange(len(codes))
    order = codes.argsort(kind="stable")
    ordered = codes[order]
    begins = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    del ordered
    found = np.empty(len(codes), np.int64)
    found[order] = np.repeat(order[begins], np.diff(np.append(begins, len(codes))))
    return found


def differ(codes: Numbers) -> bool:
    """Whether none stands there twice."""
    return bool((first_of_each(codes) == np.arange(len(codes))).all())


def _rises(codes: Numbers) -> bool:
    return bool((codes[1:] > codes[:-1]).all())


def among(codes: Numbers, others: Numbers) -> NDArray[np.bool_]:
    """Which of these are among the others."""
    found: NDArray[np.bool_] = np.isin(codes, others)
    return found
