"""What a campaign has come to so far, as a file that outlives it: who interrupts it, or kills it, can go on with it.

The first line is the certificate as it would be without any verdict when the plan was made; each line after it adds
something. The file goes when the certificate is written.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from ..core.errors import InvalidCertificate, RunFolderInUse, StorageFailed, UnknownCertificateVersion
from ..judging.statistics import KillSample
from .certificate import JOURNAL, VERSION, Certificate, QueryCounterexample
from .conclusion import Planned
from .plan import CrashTrial


class _Added(msgspec.Struct, frozen=True, tag="planned"):
    planned: tuple[Planned, ...]


class _Tried(msgspec.Struct, frozen=True, tag="tried"):
    trials: tuple[CrashTrial, ...]


class _Drawn(msgspec.Struct, frozen=True, tag="drawn"):
    draw: KillSample


class _Found(msgspec.Struct, frozen=True, tag="found"):
    counterexample: QueryCounterexample


_line = msgspec.json.Decoder(_Added | _Tried | _Drawn | _Found)


class Journal:
    """Of one campaign, from its begin. Use it as a context manager: while it is open, nobody else can have it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL
        self._lock = threading.Lock()
        self._begun = False

    def __enter__(self) -> Self:
        """Raises RunFolderInUse where another process is at work on the campaign, StorageFailed."""
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageFailed(f"cannot open {self._path}: {error.strerror or error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise RunFolderInUse(f"another process is at work on the campaign in {self._path.parent}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # An empty one says nothing.
        if not os.fstat(self._file).st_size:
            self._path.unlink(missing_ok=True)
        os.close(self._file)

    def begin(self, certificate: Certificate) -> None:
        """From here on. What stood here before is in the certificate."""
        content = msgspec.json.encode(certificate) + b"\n"
        draft = self._path.with_suffix(".draft")
        try:
            draft.write_bytes(content)
            # At once: who is killed meanwhile has the one or the other.
            there = os.open(draft, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            fcntl.flock(there, fcntl.LOCK_EX)
            draft.replace(self._path)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error.strerror or error}") from error
        os.close(self._file)
        self._file = there
        self._begun = True

    def plan(self, planned: tuple[Planned, ...]) -> None:
        self._add(_Added(planned))

    def tried(self, trials: tuple[CrashTrial, ...]) -> None:
        self._add(_Tried(trials))

    def drawn(self, draw: KillSample) -> None:
        self._add(_Drawn(draw))

    def found(self, counterexample: QueryCounterexample) -> None:
        self._add(_Found(counterexample))

    def end(self) -> None:
        """The certificate is written, and says all of it."""
        self._begun = False
        self._path.unlink(missing_ok=True)

    def _add(self, line: msgspec.Struct) -> None:
        if not self._begun:
            return
        content = msgspec.json.encode(line) + b"\n"
        with self._lock:
            try:
                os.write(self._file, content)
            except OSError as error:
                raise StorageFailed(f"cannot write {self._path}: {error.strerror or error}") from error


def is_under_way(folder: Path) -> bool:
    """Whether a campaign in this folder has come to no end: it is going on, or was interrupted."""
    try:
        return (folder / JOURNAL).stat().st_size > 0
    except OSError:
        return False


def read_journal(folder: Path) -> Certificate:
    """As far as the campaign has come: a certificate with neither verdicts nor a seal.

    Raises InvalidCertificate for what is damaged, UnknownCertificateVersion for another version.
    """
    path = folder / JOURNAL
    try:
        # Who is killed while a line is written leaves half of it.
        first, *rest = path.read_bytes().split(b"\n")[:-1]
        found = msgspec.json.decode(first)
        version = found.get("version") if isinstance(found, dict) else None
        if version != VERSION:
            raise UnknownCertificateVersion(f"{path} has version {version!r}; this streamproof reads version {VERSION}")
        certificate = msgspec.convert(found, Certificate)
        for line in map(_line.decode, rest):
            certificate = _with(certificate, line)
        return certificate
    except OSError as error:
        raise InvalidCertificate(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InvalidCertificate(f"{path} is damaged: {error}; certify the query again, into another folder") from error


def _with(certificate: Certificate, line: _Added | _Tried | _Drawn | _Found) -> Certificate:
    match line:
        case _Added(planned):
            return msgspec.structs.replace(certificate, plan=(*certificate.plan, *planned))
        case _Tried(trials):
            return msgspec.structs.replace(certificate, trials=(*certificate.trials, *trials))
        case _Drawn(draw):
            return msgspec.structs.replace(certificate, draw=draw)
        case _Found(counterexample):
            return msgspec.structs.replace(certificate, counterexample=counterexample)
