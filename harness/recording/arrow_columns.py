"""Arrow's columns, made and read without pandas.

`pyarrow.array` and `to_numpy` import it, where it is installed, to ask whether they were given one of its objects: that
takes a third of a second, in every process that writes or reads a run, for nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_LARGEST: Final = 2**31 - 1
"""Bytes of all texts of a column that is in one piece."""
_READ: Final = {pa.int64(): np.int64, pa.int32(): np.int32}


def number_column(values: Iterable[int] | NDArray[np.int64]) -> pa.Array:
    """Of 64 bits. Raises TypeError for what is none, OverflowError for what is larger."""
    found = values.astype(np.int64, copy=False) if isinstance(values, np.ndarray) else array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(found), [None, pa.py_buffer(found)])


def text_column(values: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """Raises UnicodeEncodeError for what is no text."""
    encoded = [value.encode() for value in values]
    if sum(map(len, encoded)) > _LARGEST:
        return pa.array(values, pa.string())
    ends = array("i", accumulate(map(len, encoded), initial=0))
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def numbers_in(column: pa.Array) -> NDArray[Any]:
    """What is in a column of whole numbers. Raises ValueError where one is missing, or it holds anything else."""
    if column.null_count:
        raise ValueError("a value is missing")
    if column.type not in _READ:
        raise ValueError(f"a column of whole numbers holds {column.type}")
    content, kind = column.buffers()[1], _READ[column.type]
    if not len(column):
        return np.empty(0, kind)
    return np.frombuffer(content, kind)[column.offset : column.offset + len(column)]
