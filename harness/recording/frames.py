"""Framed segments: an append-only file of records of which a killed writer leaves a readable beginning.

A frame is a length and a CRC-32 (begun with the length), each four bytes big-endian, then the MessagePack of one
stamped record. A file begins with eight bytes that name the format and its version.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..core.errors import DamagedHistory, StorageFailed, UnknownHistoryVersion
from .records import Stamped, no_such_record

MAGIC = b"SPFRAME1"
_HEAD = struct.Struct(">II")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Stamped).decode


def _checksum(body: bytes) -> int:
    return zlib.crc32(body, len(body))


class FrameWriter:
    """Appends records to a new file. The caller decides when to flush."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file: BinaryIO = path.open("xb", buffering=1 << 18)
        except OSError as error:
            raise StorageFailed(f"cannot write {path}: {error.strerror}") from error
        self._write(MAGIC)

    def append(self, record: Stamped) -> None:
        """Raises StorageFailed when the disk does not take it, InvalidOperator for a value that no record can hold."""
        try:
            body = _encode(record)
        except (ValueError, OverflowError, TypeError) as error:
            raise no_such_record(record, error) from error
        self._write(_HEAD.pack(len(body), _checksum(body)) + body)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Raises StorageFailed when what was buffered cannot be written."""
        try:
            self._file.close()
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error.strerror}") from error

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error.strerror}") from error


def read_frames(path: Path, until: int | None = None) -> Iterator[Stamped]:
    """The whole frames of a file, or of its first `until` bytes; a frame cut short at the end is what a killed writer
    leaves, and is passed over.

    Raises DamagedHistory where a frame is altered, or the file cannot be read, UnknownHistoryVersion for a file of
    another version.
    """
    try:
        yield from _frames_of(path, until)
    except OSError as error:
        raise DamagedHistory(f"{path} cannot be read: {error.strerror}") from error


def _frames_of(path: Path, until: int | None) -> Iterator[Stamped]:
    with path.open("rb", buffering=1 << 20) as file:
        magic = file.read(len(MAGIC))
        if len(magic) < len(MAGIC) and MAGIC.startswith(magic):
            return
        if magic != MAGIC:
            if magic[:7] == MAGIC[:7]:
                raise UnknownHistoryVersion(
                    f"{path} has frame format {magic[7:8]!r}; this streamproof reads {MAGIC[7:8]!r}"
                )
            raise DamagedHistory(f"{path} does not begin as a file of records does; it was altered or is not one")
        place, size = len(MAGIC), path.stat().st_size if until is None else until
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            length, crc = _HEAD.unpack(head)
            if place + _HEAD.size + length > size:
                return
            body = file.read(length)
            if _checksum(body) != crc:
                raise DamagedHistory(f"{path}: the record at byte {place:,} was altered; its checksum does not match")
            try:
                yield _decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise DamagedHistory(f"{path}: the record at byte {place:,} cannot be read: {error}") from error
            place += _HEAD.size + length
