"""Mechanisms of a user who keeps something where no look at Python's objects shows it, and where no simulated crash
takes it. In a file of their own, so that another process can import them."""

from __future__ import annotations

import io
import itertools
import json
import os
import sqlite3
import tempfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.operators import Operator
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.effects import Start
from streamproof.harness.protocol.machine import Machine
from streamproof.harness.protocol.mechanism import AtWork, Mechanism


@dataclass(frozen=True)
class Remembering(Mechanism):
    """A filter whose memory survives in one of `PLACES`."""

    where: str

    def attach(self, machine: Machine) -> AtWork:
        return PLACES[self.where](machine)


class Filter(AtWork):
    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.seen: dict[int, int] = {}

    def begin(self, given: Start) -> None:
        if given.incarnation > 1:
            self.seen.update(self.kept())

    def kept(self) -> dict[int, int]:
        return {}

    def keep(self) -> None:
        pass

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        passed = [event for event in events if event.seq > self.seen.get(channel.place, 0)]
        if events:
            self.seen[channel.place] = max(self.seen.get(channel.place, 0), events[-1].seq)
            self.keep()
        return passed


class _Text(Filter):
    """Keeps texts somewhere."""

    def kept(self) -> dict[int, int]:
        said: dict[str, dict[str, int]] = json.loads(self.read() or "{}")
        return {int(place): seq for place, seq in said.get(self.machine.spec.slice_id, {}).items()}

    def keep(self) -> None:
        said = json.loads(self.read() or "{}")
        self.write(json.dumps({**said, self.machine.spec.slice_id: self.seen}))

    def read(self) -> str:
        raise NotImplementedError

    def write(self, text: str) -> None:
        raise NotImplementedError


_stream = io.StringIO()


class _OfAStream(_Text):
    def read(self) -> str:
        return _stream.getvalue()

    def write(self, text: str) -> None:
        _stream.seek(0)
        _stream.truncate()
        _stream.write(text)


class _OfAnotherModule(_Text):
    def read(self) -> str:
        return getattr(json, "_remembered", "")

    def write(self, text: str) -> None:
        json._remembered = text  # type: ignore[attr-defined]


def _remembering() -> Generator[str, str | None, None]:
    text = ""
    while True:
        given = yield text
        text = text if given is None else given


_generator = _remembering()
next(_generator)


class _OfAGenerator(_Text):
    def read(self) -> str:
        return next(_generator)

    def write(self, text: str) -> None:
        _generator.send(text)


_FILE = Path(tempfile.gettempdir(), f"streamproof-test-{os.getpid()}.json")


class _OfAFile(_Text):
    def read(self) -> str:
        return _FILE.read_text() if _FILE.exists() else ""

    def write(self, text: str) -> None:
        _FILE.write_text(text)


class _OfADatabase(_Text):
    def read(self) -> str:
        with closing(sqlite3.connect(_FILE.with_suffix(".sqlite"))) as database:
            database.execute("create table if not exists kept (text)")
            return "".join(text for (text,) in database.execute("select text from kept"))

    def write(self, text: str) -> None:
        with closing(sqlite3.connect(_FILE.with_suffix(".sqlite"))) as database, database:
            database.execute("delete from kept")
            database.execute("insert into kept values (?)", (text,))


_IN_MEMORY = Path("/dev/shm", f"{os.environ.setdefault('A_TEST_OF_STREAMPROOF', f'of-{os.getpid()}')}.json")
"""The same in a process that begins here."""


_NAMELESS = os.memfd_create("streamproof-test")


class SeenSoFar(Operator[None]):
    """Each output has the numbers of all events of its key up to it, which are kept in a file in memory, or in one
    without a name, which whoever is forked has, too. Who takes an event again makes the same of it."""

    fan_out = 1

    def __init__(self, named: bool) -> None:
        self._named = named

    def _read(self) -> bytes:
        if self._named:
            return _IN_MEMORY.read_bytes() if _IN_MEMORY.exists() else b""
        return os.pread(_NAMELESS, 1 << 20, 0)

    def _write(self, kept: bytes) -> None:
        if self._named:
            _IN_MEMORY.write_bytes(kept)
        else:
            os.pwrite(_NAMELESS, kept, 0)

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> tuple[Output]:
        seen: dict[str, list[int]] = json.loads(self._read() or b"{}")
        numbers = seen.setdefault(event.key, [])
        if event.seq not in numbers:
            numbers.append(event.seq)
            self._write(json.dumps(seen).encode())
        return ((event.key, [seq for seq in numbers if seq <= event.seq]),)


_COUNTS = tuple(itertools.count(1) for _ in range(64))


class _OfIterators(Filter):
    """Counts what has passed by two iterators a slice, which show the count only to those who go on with it."""

    def kept(self) -> dict[int, int]:
        return {place: int(repr(self._of(place)).removeprefix("count(")[:-1]) - 1 for place in range(2)}

    def keep(self) -> None:
        for place, seq in self.seen.items():
            while int(repr(self._of(place)).removeprefix("count(")[:-1]) <= seq:
                next(self._of(place))

    def _of(self, place: int) -> Iterator[int]:
        return _COUNTS[2 * (zlib.crc32(self.machine.spec.slice_id.encode()) % 32) + place]


PLACES: dict[str, type[Filter]] = {
    "stream": _OfAStream,
    "module of another": _OfAnotherModule,
    "generator": _OfAGenerator,
    "file": _OfAFile,
    "database": _OfADatabase,
    "iterators": _OfIterators,
}


def forget() -> None:
    """Remove the files."""
    os.ftruncate(_NAMELESS, 0)
    for file in (_FILE, _IN_MEMORY, _FILE.with_suffix(".sqlite")):
        file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Noting(Mechanism):
    """Keeps a log of its own, and something that cannot go elsewhere, where it is asked to."""

    to: str = ""
    holding: bool = False

    def attach(self, machine: Machine) -> AtWork:
        return _Noting(machine, self)


class _Noting(AtWork):
    def __init__(self, machine: Machine, declared: Noting) -> None:
        super().__init__(machine)
        self._to = declared.to
        self._holds = iter(_remembering()) if declared.holding else None

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        if self._to:
            with Path(self._to).open("a") as file:
                file.write(f"{len(events)}\n")
        return events


@dataclass(frozen=True)
class Rereading(Mechanism):
    """Counts in a file, and changes nothing by that."""

    file: str

    def attach(self, machine: Machine) -> AtWork:
        return _Rereading(machine, self)


class _Rereading(AtWork):
    def __init__(self, machine: Machine, declared: Rereading) -> None:
        super().__init__(machine)
        self._file = Path(declared.file)

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        counted = int(self._file.read_text()) if self._file.exists() else 0
        self._file.write_text(str(counted + len(events)))
        return events


@dataclass(frozen=True)
class ReadingLater(Mechanism):
    """Only the first incarnation writes, and only those after it read. Changes nothing by that. With `marks`, it looks
    whether a file is there, which nobody is told."""

    file: str
    marks: bool = False

    def attach(self, machine: Machine) -> AtWork:
        return _ReadingLater(machine, self)


class _ReadingLater(AtWork):
    def __init__(self, machine: Machine, declared: ReadingLater) -> None:
        super().__init__(machine)
        self._file = Path(declared.file)
        self._marks = declared.marks

    def begin(self, given: Start) -> None:
        if given.incarnation > 1 and self._file.exists() and not self._marks:
            self._file.read_text()

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        if self.machine.incarnation == 1:
            if self._marks:
                self._file.touch()
            else:
                self._file.write_text("some")
        return events


_late: set[str] = set()


@dataclass(frozen=True)
class RelyingOnLater(Mechanism):
    """Who comes in the place of another loses what comes after so many events, unless that one has said that it had
    begun with these: in a variable of this module, or of one `of_others`."""

    most: int
    of_others: bool

    def attach(self, machine: Machine) -> AtWork:
        return _RelyingOnLater(machine, self)


class _RelyingOnLater(AtWork):
    def __init__(self, machine: Machine, declared: RelyingOnLater) -> None:
        super().__init__(machine)
        self._most = declared.most
        self._said: set[str] = json.__dict__.setdefault("_late", set()) if declared.of_others else _late

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        mine = self.machine.spec.slice_id
        if not events or events[-1].seq <= self._most:
            return events
        if self.machine.incarnation > 1 and mine not in self._said:
            return []
        self._said.add(mine)
        return events
