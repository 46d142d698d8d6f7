"""Seals the records of a finished run into Parquet, and reads them back.

Three tables, each row with `n`, the place of its record in the history:

- `offered.parquet`: source, seq, key, value, time, at
- `delivered.parquet`: sink, channel, incarnation, position, source, seq, key, value, time, at
- `steps.parquet`: every other record, as its kind and its fields in JSON

Values are JSON. `seal.json` has the SHA-256 of each table, and of what else a verdict rests on; it is written last, so
that a folder which has it is whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ..core.errors import DamagedHistory, StorageFailed
from .arrow_columns import number_column, text_column
from .records import Delivered, Offered, Stamped, leaves_rows
from .sealed import SealedRecords

TABLES = ("offered", "delivered", "steps")
BESIDE = ("timeline.jsonl", "scenario.json")
"""What is sealed along with them, where it is there."""
_CHUNK = 50_000
_SHORT = 50_000
"""Rows of a history that is read into memory at once."""
_json = msgspec.json.Encoder().encode

_EVENT = [("source", pa.string()), ("seq", pa.int64()), ("key", pa.string()), ("value", pa.string())]
_EVENT += [("time", pa.int64()), ("at", pa.int64())]
_SCHEMAS = {
    "offered": pa.schema([("n", pa.int64()), *_EVENT]),
    "delivered": pa.schema(
        [
            ("n", pa.int64()),
            ("sink", pa.string()),
            ("channel", pa.string()),
            ("incarnation", pa.int64()),
            ("position", pa.int64()),
            *_EVENT,
        ]
    ),
    "steps": pa.schema([("n", pa.int64()), ("at", pa.int64()), ("kind", pa.string()), ("fields", pa.string())]),
}


class _Table:
    """Collects rows as columns and writes them out in chunks, so that no history has to fit in memory twice."""

    def __init__(self, name: str, folder: Path) -> None:
        self._schema = _SCHEMAS[name]
        # As bytes: the name of a folder need not be text.
        self._file = pa.OSFile(os.fsencode(folder / f"{name}.parquet"), "wb")
        self._writer = pq.ParquetWriter(self._file, self._schema)
        self._rows: list[tuple[Any, ...]] = []

    def add(self, *row: Any) -> None:
        self._rows.append(row)
        if len(self._rows) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self._schema)
        arrays = [
            text_column(column) if field.type == pa.string() else number_column(column)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows = []

    def close(self) -> None:
        self._flush()
        self._writer.close()
        self._file.close()


def seal(records: Iterable[Stamped], folder: Path) -> None:
    """Write the tables, then the seal. Raises StorageFailed when the disk does not take them."""
    try:
        tables = {name: _Table(name, folder) for name in TABLES}
        n = -1
        for stamped in records:
            at, record = stamped.at, stamped.record
            if not leaves_rows(record):
                continue
            n += 1
            match record:
                case Offered():
                    for e in record.events:
                        tables["offered"].add(n, e.source, e.seq, e.key, _json(e.value).decode(), e.time, at)
                case Delivered():
                    head = (n, record.sink, record.channel, record.incarnation)
                    for position, e in enumerate(record.rows, start=record.position):
                        row = (e.source, e.seq, e.key, _json(e.value).decode(), e.time, at)
                        tables["delivered"].add(*head, position, *row)
                case _:
                    kind = str(record.__struct_config__.tag)
                    tables["steps"].add(n, at, kind, _json(record).decode())
        for table in tables.values():
            table.close()
        digests = {name: _digest(folder / name) for name in _sealed_files(folder)}
        draft = folder / "seal.json.draft"
        draft.write_bytes(msgspec.json.format(_json(digests)))
        draft.replace(folder / "seal.json")
    except OSError as error:
        raise StorageFailed(f"cannot seal the records in {folder}: {error.strerror or error}") from error


def _sealed_files(folder: Path) -> tuple[str, ...]:
    return (*(f"{name}.parquet" for name in TABLES), *(name for name in BESIDE if os.path.lexists(folder / name)))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_sealed(folder: Path) -> bool:
    return os.path.lexists(folder / "seal.json")


def read_sealed(folder: Path) -> Sequence[Stamped]:
    """The records of a sealed run, in their order: of a long one, read from the folder whenever they are asked for.

    Raises DamagedHistory when a file of it is missing, cannot be read, or was altered.
    """
    digests = _read_digests(folder / "seal.json")
    for name in sorted({*_sealed_files(folder), *digests}):
        path = folder / name
        try:
            digest = _digest(path)
        except FileNotFoundError as error:
            raise DamagedHistory(f"{path} is missing from the sealed run") from error
        except OSError as error:
            raise DamagedHistory(f"{path} cannot be read: {error.strerror}") from error
        if digest != digests.get(name):
            raise DamagedHistory(
                f"{path} was altered after it was sealed; its SHA-256 does not match {folder / 'seal.json'}"
            )
    records = SealedRecords(folder)
    records.check_places()
    return list(records) if records.rows <= _SHORT else records


def _read_digests(seal: Path) -> dict[str, str]:
    """File -> its SHA-256. Raises DamagedHistory."""
    try:
        digests = msgspec.json.decode(seal.read_bytes(), type=dict[str, str])
    except OSError as error:
        raise DamagedHistory(f"{seal} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedHistory(f"{seal} cannot be read: {error}") from error
    strange = [name for name in digests if Path(name).name != name]
    if strange:
        raise DamagedHistory(f"{seal} cannot be read: {strange[0]!r} is no file of a run")
    return digests
