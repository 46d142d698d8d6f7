"""The process that serves a mounted folder: passes every operation on to a folder below, and journals it.

Run as `python -m streamproof.harness.crash_points.files.serving PLAN`. Its owner speaks with it over its standard
input, a line of JSON each way, and hangs up when the mount is to go: so it goes with its owner, however that ends.

While it *asks*, each operation is announced as a crash point once it is done, by the protocol of `inside_spark`, and
answered when the harness says go. A process that waits for the answer cannot be killed before it is given, even by
SIGKILL; so a waiting caller that is being killed gets its answer at once, and never returns to its own code. From then
on nothing is done any more for anybody, until the owner says `fresh`: what was in flight when the victim died is lost
with it. Where others live on, by the owner's order, only who is being killed is done nothing for.

Where the order says so, an operation is announced before it is done as well, and what is refused there is not done, nor
journalled: its caller lives, and has an I/O error. A write is refused for good: tried again by the same thread, at the
same place of the same open file, it is refused again. For the kernel cuts up a large write, and tells of no error where
a part of one is done already; who wrote goes on with the rest then, and has to hear of it.

While it asks, a write that crosses from one page to another is done in two halves, with a crash point between them: the
kernel copies what is written page by page, and looks before each whether the writer is being killed, so that of one
write a death leaves a part. Of writes that follow each other in a file one only is cut so, since the ends of the others
are such parts.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import socket
import stat
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import mfusepy
import msgspec

from ...core.addresses import Point, Side
from ..inside_spark.listener import REFUSE
from .mounts import unmount
from .naming import entry_of_offsets
from .operations import BESIDE_SQLITE, KERNEL, MOVES, OF_ATTRIBUTES, WRITTEN, Operation, OperationKind, framed
from .orders import Obeyed, ServingPlan, StandingOrder
from .trees import USERS_OWN, owner_of

_library = ctypes.CDLL(None, use_errno=True)
ASK_SECONDS = 10.0
"""How long it may take to reach whoever is told of points."""
LONGEST = 1 << 30
"""How long a file can be, bytes, be it empty for the most part: whoever makes crash states of it holds it in memory."""
_LOOK_SECONDS = 0.005
"""How often a caller that waits is looked after."""
REMEMBERED_SECONDS = 0.03
"""How long the kernel answers by itself what it has just asked: which names are there, which are not, and what is under
them. Spark's JVM asks for the same dozens of times in a row."""
FORGOTTEN_SECONDS = 0.06
"""After how long it has forgotten what it was answered, also where who has asked was slow to take it."""
_BEFORE_OTHERS = -10
"""A nice value."""
_NAMELESS = ".fuse_hidden"
"""How the names begin that libfuse gives to files that were removed while somebody has them open."""
_KILLED, _STOPPED = 1 << 8, 1 << 18
"""SIGKILL and SIGSTOP, in a mask of pending signals. Whoever kills a node stops it first."""


@dataclass(slots=True)
class _Handle:
    fd: int
    file: int
    path: str
    """Its file's name by now; empty: none any more."""


class _Answer(Enum):
    GO = "go"
    REFUSED = "refused"
    DYING = "dying"
    """Nobody's: the caller is being killed."""


class _Asking:
    """The connection over which points are announced."""

    def __init__(self, order: StandingOrder) -> None:
        self._order = order
        self._connection: socket.socket | None = None

    def _connect(self) -> socket.socket:
        """Who listens hangs up on those that say nothing for a while: so, only when there is something to say."""
        assert self._order.asks is not None
        if self._connection is None:
            self._connection = socket.create_connection(self._order.asks, ASK_SECONDS)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # By the kernel, and once: Python's own timeouts cost each call two more of the system's.
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(ASK_SECONDS))
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(_LOOK_SECONDS))
            self._connection.settimeout(None)
        return self._connection

    def ask(self, one: Operation, way: str, side: Side) -> _Answer:
        """`way` is how the file is used. Returns once the harness has answered, or nobody is left to do so."""
        order = self._order
        what = f"{one.called} {one.path}"
        if one.kind in MOVES or one.kind in OF_ATTRIBUTES:
            what += f" > {one.other}"
        # A line ends at its end, what it is about at a tab, and a path can hold anything.
        key = f"?/{what}".encode(errors="surrogateescape").decode(errors="replace").translate(_NOT_IN_A_KEY)
        said = f"{key}\t{way}" if way else key
        line = f"{order.token} {order.node} {order.incarnation} {one.thread} {side} {Point.FILE} {said}\n"
        try:
            connection = self._connect()
            connection.sendall(line.encode())
            while True:
                try:
                    return _Answer.REFUSED if connection.recv(1) == REFUSE else _Answer.GO
                except BlockingIOError:
                    if _dying(one.thread):
                        # What it is answered is nobody's: the next is asked anew.
                        self.close()
                        return _Answer.DYING
        except OSError:
            # A harness that is gone holds nobody. One that is there finds more in the journal than it was told.
            return _Answer.GO

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _timeval(seconds: float) -> bytes:
    """As the kernel takes it."""
    whole = int(seconds)
    return struct.pack("@ll", whole, round((seconds - whole) * 1e6))


def _caller() -> int:
    """The thread for which something is done."""
    return int(mfusepy.fuse_get_context()[2])


def _process_of(thread: int) -> int:
    """The one that a thread is of; itself, where that is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{thread}/status").read_bytes().splitlines():
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    return thread


def _dying(thread: int) -> bool:
    """Whether a thread will never run again, but to end."""
    try:
        status = Path(f"/proc/{thread}/status").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True
    pending = 0
    for line in status.splitlines():
        if line.startswith((b"SigPnd:", b"ShdPnd:")):
            pending |= int(line.split()[1], 16)
    return bool(pending & (_KILLED | _STOPPED))


def _renames(thread: int) -> bool:
    """Whether the call in which a thread is, is one that renames."""
    try:
        number = Path(f"/proc/{thread}/syscall").read_text().split()[0]
    except OSError:
        return False
    return number in _RENAMING.get(platform.machine(), ())


def _is_java(thread: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{thread}/exe")) == "java"
    except OSError:
        return False


def _is_sqlite(thread: int, flags: int) -> bool:
    """Whether it is SQLite that opens a file: as nearly nobody else does, it follows no link there."""
    if not flags & os.O_NOFOLLOW:
        return False
    try:
        return b"sqlite" in Path(f"/proc/{thread}/maps").read_bytes()
    except OSError:
        return False


_RENAMING = {"x86_64": ("82", "264", "316"), "aarch64": ("38", "276")}
"""The numbers of rename, renameat and renameat2."""


class Folders(mfusepy.Operations):  # type: ignore[misc]
    """What the kernel asks for. Paths begin with a slash."""

    use_ns = True

    def __init__(self, plan: ServingPlan) -> None:
        self._below = plan.below
        self._nameless = plan.nameless
        self._journal = open(plan.journal, "ab", buffering=0)  # noqa: SIM115 - as long as the process lives
        self._handles: dict[int, _Handle] = {}
        self._folders: dict[int, str] = {}
        self._next = 1
        self._lock = threading.Lock()
        """What is done and what is journalled is in one order."""
        self._asking: _Asking | None = None
        self._order = StandingOrder()
        self._struck = False
        self._refused = 0
        """How many operations were, in all."""
        self._refused_writes: set[tuple[int, int, int]] = set()
        """Writes that are refused for good: thread, handle and offset."""
        self._halved: dict[int, tuple[int, int]] = {}
        """By thread, of the writes that it does in a row of which one was cut in two, the handle and where the last
        ends. A row ends with whatever else the thread does, and with the batch."""
        self._hidden: dict[str, str] = {}
        """Of files that a rename is about to replace, and that somebody has open, the name that libfuse gave them."""
        self._seen: set[tuple[OperationKind, str]] = set()
        self._made: set[int] = set()
        """Inodes whose content is all of the current attempt's making."""
        self._created: set[int] = set()
        """Those of them whose names are, too: the files were not there before."""
        self._touched: dict[int, tuple[int, int]] = {}
        """By inode, when it was touched last, as the disk below says it and as it was."""
        self._written: Counter[int] = Counter()
        """Bytes, by process; those that were stored in maps of memory are the kernel's, and nobody says whose."""
        self._processes: dict[int, int] = {}
        """Of threads that have written of late."""
        self._kernel: Any = None
        """libfuse's settings, by which the kernel remembers."""
        self._remembers = False
        self._told = 0.0
        """When the kernel was last told what it remembers, on the monotonic clock."""

    def obey(self, order: StandingOrder) -> Obeyed:
        with self._lock:
            if not order.as_before:
                self._begin_anew(order)
                # Who looks at something is to be seen from now on.
                self._forget()
                if order.remembers:
                    self._let_remember(REMEMBERED_SECONDS)
            return Obeyed(self._refused)

    def _begin_anew(self, order: StandingOrder) -> None:
        if self._asking is not None:
            self._asking.close()
        self._asking = None if order.asks is None else _Asking(order)
        self._order = order
        self._struck = False
        self._refused_writes.clear()
        self._halved.clear()
        self._touched = {inode: (below, really) for inode, below, really in order.touched}
        self._seen.clear()
        self._made.clear()
        self._created.clear()
        # The number of a thread that is gone is given again.
        self._processes.clear()

    def _let_remember(self, seconds: float) -> None:
        self._remembers = seconds > 0
        if self._kernel is not None:
            self._kernel.attr_timeout = self._kernel.entry_timeout = self._kernel.negative_timeout = seconds

    def _forget(self) -> None:
        """From now on the kernel remembers nothing. Returns when that is so of what it was told until now; nobody can
        ask it."""
        self._let_remember(0.0)
        while (left := self._told + FORGOTTEN_SECONDS - time.monotonic()) > 0:
            time.sleep(left)

    # What changes something

    def _change(self, kind: OperationKind, path: str, way: str = "", **more: Any) -> bool:
        """Note what was done, with the lock held, and tell who wants to know, with the way in which the file is used.
        Returns whether who has done it lives on."""
        if self._asking is None:
            return True
        thread = _caller()
        self._halved.pop(thread, None)
        if entry_of_offsets(path) >= 0:
            self._halved.clear()
        one = Operation(kind, path[1:], time.time_ns(), thread, **more)
        self._journal.write(framed(one))
        if one.is_point and self._asking.ask(one, way, Side.AFTER) is _Answer.DYING:
            self._struck = not self._order.others_live
            return False
        return True

    def _refuse_after_death(self) -> None:
        if self._struck:
            raise OSError(errno.EIO, "its process is being killed")

    def _permit(self, kind: OperationKind, path: str, way: str = "", other: str = "") -> None:
        """Ask whether this may be done, with the lock held, where somebody is to be asked. Raises OSError where it may
        not."""
        self._refuse_after_death()
        if self._is_refused(kind, path, way, other):
            self._refuse()

    def _is_refused(self, kind: OperationKind, path: str, way: str, other: str = "", half: bool = False) -> bool:
        """Raises OSError where who wants it done is dying."""
        if self._asking is None or not self._order.asks_before:
            return False
        one = Operation(kind, path[1:], time.time_ns(), _caller(), other, half=half)
        if not one.is_point:
            return False
        answer = self._asking.ask(one, way, Side.BEFORE)
        if answer is _Answer.DYING:
            self._struck = not self._order.others_live
            raise OSError(errno.EIO, "its process is being killed")
        return answer is _Answer.REFUSED

    def _refuse(self) -> None:
        self._refused += 1
        raise OSError(errno.EIO, "refused, as the harness wants it")

    def _at(self, path: str) -> str:
        """Where it is kept. A file that somebody still uses, and that has no name any more, is not kept among those
        that have one."""
        name = path.rpartition("/")[2]
        return f"{self._nameless}/{name}" if name.startswith(_NAMELESS) else self._below + path

    def _meddle(self, path: str) -> None:
        """A file is taken away, emptied or replaced: a database, or one beside it that SQLite has not opened yet. What
        SQLite makes of them then is no more than what it would have recovered from them: as if they had been read."""
        for beside in (path,) if path.endswith(BESIDE_SQLITE) else (path + name for name in BESIDE_SQLITE):
            if (OperationKind.OPENED_BY_SQLITE, beside) in self._seen:
                continue
            try:
                if os.lstat(self._at(beside)).st_ino not in self._created:
                    self._look(OperationKind.OPENED, path)
            except OSError as error:
                # What is beside a name can be longer than a name may be: then it is not there either.
                if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
                    raise

    def create(self, path: str, mode: int, flags: int = 0) -> int:
        with self._lock:
            there = os.path.lexists(self._at(path))
            if there and not flags & os.O_TRUNC:
                self._refuse_after_death()
            else:
                self._permit(OperationKind.TRUNCATE if there else OperationKind.CREATE, path, _way_of(flags))
            fd = os.open(self._at(path), (flags | os.O_CREAT) & ~_OURS, mode)
            file = os.fstat(fd).st_ino
            if not there:
                self._made.add(file)
                self._created.add(file)
                self._change(OperationKind.CREATE, path, _way_of(flags), file=file)
            elif flags & os.O_TRUNC:
                self._made.add(file)
                self._change(OperationKind.TRUNCATE, path, _way_of(flags), file=file)
            handle = self._opened(fd, file, flags, path)
        if there and not flags & os.O_TRUNC:
            # Somebody else has made it since the kernel asked.
            self._look(OperationKind.OPENED, path)
        return handle

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_TRUNC:
            self._meddle(path)
            with self._lock:
                self._permit(OperationKind.TRUNCATE, path, _way_of(flags))
                fd = os.open(self._at(path), flags & ~_OURS)
                file = os.fstat(fd).st_ino
                self._made.add(file)
                self._change(OperationKind.TRUNCATE, path, _way_of(flags), file=file)
                return self._opened(fd, file, flags, path)
        # What a process may write, the kernel reads for it where a page is written in part.
        access = os.O_RDWR if flags & os.O_ACCMODE == os.O_WRONLY else flags & os.O_ACCMODE
        fd = os.open(self._at(path), (flags & ~os.O_ACCMODE & ~_OURS) | access)
        file = os.fstat(fd).st_ino
        if file not in self._created:
            by_sqlite = _is_sqlite(_caller(), flags)
            self._look(OperationKind.OPENED_BY_SQLITE if by_sqlite else OperationKind.OPENED, path)
        with self._lock:
            return self._opened(fd, file, flags, path)

    def _opened(self, fd: int, file: int, flags: int, path: str) -> int:
        number = self._next
        self._next += 1
        self._handles[number] = _Handle(fd, file, path)
        return number

    def write(self, path: str | None, data: bytes, offset: int, fh: int, appends: bool = False) -> int:
        """`appends`: as its file is used by now, whatever it was opened for."""
        handle = self._handles[fh]
        with self._lock:
            if appends:
                offset = os.fstat(handle.fd).st_size
            _check_length(offset + len(data))
            way = _way_of(os.O_APPEND) if appends else "" if offset else "at 0"
            thread = _caller()
            if thread == KERNEL:
                # What was stored in a map of memory outlives who has stored it.
                return self._write(handle, way, data, offset)[0]
            self._permit_write(handle.path, way, (thread, fh, offset))
            in_row = self._halved.get(thread) == (fh, offset)
            half = 0 if in_row or self._asking is None else _half_of(offset, len(data))
            if half:
                written, goes_on = self._write_half(handle, way, data[:half], offset, (thread, fh, offset + half))
                if not goes_on:
                    return written
                written += self._write(handle, way, data[half:], offset + half)[0]
            else:
                written, _ = self._write(handle, way, data, offset)
            if in_row or half:
                self._halved[thread] = fh, offset + written
            return written

    def _write_half(
        self, handle: _Handle, way: str, data: bytes, offset: int, rest: tuple[int, int, int]
    ) -> tuple[int, bool]:
        """The first half of a write, whose rest is `rest`. Returns how many bytes were written, and whether the rest is
        to be: it can be refused, as by a disk that is full by then, which its caller hears when it tries that again."""
        refused = self._is_refused(OperationKind.WRITE, handle.path, way, half=True)
        written, lives = self._write(handle, way, data, offset, half=True)
        if refused:
            self._refused += 1
            self._refused_writes.add(rest)
        return written, lives and not refused and written == len(data)

    def _write(self, handle: _Handle, way: str, data: bytes, offset: int, half: bool = False) -> tuple[int, bool]:
        """Returns how many bytes were written, and whether who has them written lives on."""
        written = os.pwrite(handle.fd, data, offset)
        self._count(written)
        done = bytes(data[:written])
        lives = self._change(
            OperationKind.WRITE, handle.path, way, offset=offset, data=done, file=handle.file, half=half
        )
        return written, lives

    def _count(self, written: int) -> None:
        thread = _caller()
        if thread == KERNEL:
            self._written[KERNEL] += -(-written // mmap.PAGESIZE) * mmap.PAGESIZE
        else:
            self._written[self._process_of(thread)] += written

    def _process_of(self, thread: int) -> int:
        if thread not in self._processes:
            self._processes[thread] = _process_of(thread)
        return self._processes[thread]

    def _permit_write(self, path: str, way: str, which: tuple[int, int, int]) -> None:
        if which in self._refused_writes:
            self._refuse()
        try:
            self._permit(OperationKind.WRITE, path, way)
        except OSError:
            self._refused_writes.add(which)
            raise

    def truncate(self, path: str | None, length: int, fh: int | None = None) -> int:
        if named := self._named(path, fh):
            self._meddle(named)
        _check_length(length)
        with self._lock:
            way = "" if length else "to 0"
            self._permit(OperationKind.TRUNCATE, self._named(path, fh), way)
            about = self._meant(path, fh)
            os.truncate(about, length)
            file = os.stat(about).st_ino
            if length == 0:
                self._made.add(file)
            self._change(OperationKind.TRUNCATE, self._named(path, fh), way, offset=length, file=file)
            return 0

    def fallocate(self, path: str | None, mode: int, offset: int, size: int, fh: int) -> int:
        """Room on the disk is nothing that a crash state shows: a file that gets longer is, and one that is emptied in
        part."""
        if mode & ~(_KEEPS_LENGTH | _PUNCHES | _ZEROES):
            raise OSError(errno.EOPNOTSUPP, f"fallocate with the mode {mode:#x}")
        handle, end = self._handles[fh], offset + size
        _check_length(end)
        with self._lock:
            self._refuse_after_death()
            length = os.fstat(handle.fd).st_size
            if mode & (_PUNCHES | _ZEROES) and offset < length:
                zeroes = bytes(min(end, length) - offset)
                way = "" if offset else "at 0"
                self._permit(OperationKind.WRITE, handle.path, way)
                os.pwrite(handle.fd, zeroes, offset)
                self._change(OperationKind.WRITE, handle.path, way, offset=offset, data=zeroes, file=handle.file)
            if not mode & _KEEPS_LENGTH and end > length:
                self._permit(OperationKind.TRUNCATE, handle.path)
                os.ftruncate(handle.fd, end)
                self._change(OperationKind.TRUNCATE, handle.path, offset=end, file=handle.file)
            return 0

    def rename(self, old: str, new: str, flags: int = 0) -> int:
        if flags == _EXCHANGE:
            return self._exchange(old, new)
        removed = new.rpartition("/")[2].startswith(_NAMELESS)
        if removed:
            self._meddle(old)
        else:
            self._look_into(old)
            self._meddle(new)
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(_stat(self._at(new)).st_mode):
                # It is replaced only where it is empty.
                self._look(OperationKind.LISTED, new)
        with self._lock:
            self._refuse_after_death()
            if flags & ~_NO_REPLACE:
                raise OSError(errno.EINVAL, f"a rename with the flags {flags}")
            if flags and os.path.lexists(self._at(new)):
                raise OSError(errno.EEXIST, f"{new} is there")
            hidden = self._hidden.pop(new, "")
            # That is how libfuse says that a file which is still open has lost its name; where another one is about to
            # get it, that is one step.
            replaced = removed and _renames(_caller())
            try:
                if removed and not replaced:
                    self._permit(OperationKind.UNLINK, old)
                elif not removed:
                    self._permit(OperationKind.RENAME, old, other=new[1:])
                if hidden and os.path.samefile(self._at(hidden), self._at(old)):
                    # Of two names of one file, both stay.
                    self._bring_back(hidden, new)
                    return 0
                os.rename(self._at(old), self._at(new))
            except OSError:
                if hidden:
                    self._bring_back(hidden, new)
                raise
            if removed:
                self._rename_handles(old, "")
                if replaced:
                    self._hidden[old] = new
                else:
                    self._change(OperationKind.UNLINK, old)
            else:
                self._rename_handles(old, new)
                self._change(OperationKind.RENAME, old, other=new[1:])
            return 0

    def _bring_back(self, hidden: str, name: str) -> None:
        """A file that was to be replaced keeps its name. libfuse removes the other one once nobody has it open. To the
        kernel the name is still that of what libfuse has hidden."""
        self._forget()
        file = os.stat(self._at(hidden)).st_ino
        os.link(self._at(hidden), self._at(name))
        for handle in self._handles.values():
            if handle.file == file:
                handle.path = name

    def _exchange(self, one: str, other: str) -> int:
        for path in (one, other):
            self._look_into(path)
            self._meddle(path)
        with self._lock:
            self._permit(OperationKind.EXCHANGE, one, other=other[1:])
            _exchange_names(self._at(one), self._at(other))
            for handle in self._handles.values():
                handle.path = _moved(handle.path, {one: other, other: one})
            self._change(OperationKind.EXCHANGE, one, other=other[1:])
            return 0

    def link(self, target: str, source: str) -> int:
        self._look_into(source)
        with self._lock:
            self._permit(OperationKind.LINK, target, other=source[1:])
            # To the kernel they are two files: what is done by one name changes nothing that it knows of the other.
            self._forget()
            os.link(self._at(source), self._at(target))
            self._change(OperationKind.LINK, target, other=source[1:])
            return 0

    def symlink(self, target: str, source: str) -> int:
        with self._lock:
            self._permit(OperationKind.SYMLINK, target, other=source)
            os.symlink(source, self._at(target))
            self._change(OperationKind.SYMLINK, target, other=source)
            return 0

    def mknod(self, path: str, mode: int, dev: int) -> int:
        """A named pipe or a socket: what goes through it is the kernel's, and seen where somebody writes it down. The
        kernel makes files by `create`."""
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
            raise OSError(errno.EPERM, f"something of the mode {mode:o}")
        with self._lock:
            self._permit(OperationKind.MKNOD, path)
            os.mknod(self._at(path), mode)
            self._change(OperationKind.MKNOD, path, offset=mode)
            return 0

    def unlink(self, path: str) -> int:
        self._meddle(path)
        with self._lock:
            has_name = not path.rpartition("/")[2].startswith(_NAMELESS)
            if has_name:
                self._permit(OperationKind.UNLINK, path)
            else:
                self._refuse_after_death()
            os.unlink(self._at(path))
            if has_name:
                self._rename_handles(path, "")
                self._change(OperationKind.UNLINK, path)
            return 0

    def mkdir(self, path: str, mode: int) -> int:
        with self._lock:
            self._permit(OperationKind.MKDIR, path)
            os.mkdir(self._at(path), mode)
            self._made.add(os.stat(self._at(path)).st_ino)
            self._change(OperationKind.MKDIR, path)
            return 0

    def rmdir(self, path: str) -> int:
        # It goes only where it is empty.
        self._look(OperationKind.LISTED, path)
        with self._lock:
            self._permit(OperationKind.RMDIR, path)
            os.rmdir(self._at(path))
            self._change(OperationKind.RMDIR, path)
            return 0

    def fsync(self, path: str | None, datasync: int, fh: int) -> int:
        # Whoever loses power is the harness, which knows what was synced: the disk below has nothing to do.
        with self._lock:
            self._permit(OperationKind.SYNC, self._handles[fh].path)
            self._change(OperationKind.SYNC, self._handles[fh].path, file=self._handles[fh].file)
            return 0

    def fsyncdir(self, path: str | None, datasync: int, fh: int) -> int:
        with self._lock:
            self._permit(OperationKind.SYNC_FOLDER, path or self._folders.get(fh, "/"))
            self._change(OperationKind.SYNC_FOLDER, path or self._folders.get(fh, "/"))
            return 0

    def utimens(
        self, path: str | None, times: tuple[int | None, int | None] | None = None, fh: int | None = None
    ) -> int:
        """`times` are of the last access and of the last change, ns since 1970; None: it stays as it is."""
        with self._lock:
            self._refuse_after_death()
            about = self._meant(path, fh)
            before, now = _stat(about), time.time_ns()
            accessed, changed = times or (now, now)
            kept = before.st_atime_ns, before.st_mtime_ns
            ns = kept[0] if accessed is None else accessed, kept[1] if changed is None else changed
            is_told = _is_kept(path, before)
            if is_told:
                self._permit(OperationKind.TIMES, self._named(path, fh))
            os.utime(about, ns=ns, follow_symlinks=isinstance(about, int))
            if is_told:
                told = "" if accessed is None else str(accessed)
                self._change(OperationKind.TIMES, self._named(path, fh), other=told, offset=ns[1], file=before.st_ino)
            return 0

    def chmod(self, path: str | None, mode: int, fh: int | None = None) -> int:
        with self._lock:
            self._refuse_after_death()
            about = self._meant(path, fh)
            before = _stat(about)
            if stat.S_ISLNK(before.st_mode):
                raise OSError(errno.EOPNOTSUPP, "a link has no permissions of its own")
            bits = stat.S_IMODE(mode)
            changes = _is_kept(path, before) and stat.S_IMODE(before.st_mode) != bits
            if changes:
                self._permit(OperationKind.MODE, self._named(path, fh))
            os.chmod(about, mode)
            if changes:
                self._change(OperationKind.MODE, self._named(path, fh), offset=bits, file=before.st_ino)
            return 0

    def setxattr(self, path: str, name: str, value: bytes, options: int) -> int:
        """Only of names that anybody may set: nothing else of them is kept in a crash state."""
        if not name.startswith(USERS_OWN) or not _is_kept(path, os.lstat(self._at(path))):
            raise OSError(errno.ENOTSUP, f"an attribute {name} of {path}")
        if options:
            # It goes by what is there.
            self._look_at(path)
        with self._lock:
            self._permit(OperationKind.SET_ATTRIBUTE, path, other=name)
            os.setxattr(self._at(path), name, value, options, follow_symlinks=False)
            self._change_attribute(OperationKind.SET_ATTRIBUTE, path, name, value)
            return 0

    def removexattr(self, path: str, name: str) -> int:
        self._look_at(path)
        with self._lock:
            self._permit(OperationKind.REMOVE_ATTRIBUTE, path, other=name)
            os.removexattr(self._at(path), name, follow_symlinks=False)
            self._change_attribute(OperationKind.REMOVE_ATTRIBUTE, path, name)
            return 0

    def _change_attribute(self, kind: OperationKind, path: str, name: str, value: bytes = b"") -> None:
        self._change(kind, path, other=name, data=value, file=os.lstat(self._at(path)).st_ino)

    def getxattr(self, path: str, name: str) -> bytes:
        if name == WRITTEN:
            with self._lock:
                return str(self._written[_process_of(_caller())] + self._written[KERNEL]).encode()
        self._look_at(path)
        return os.getxattr(self._at(path), name, follow_symlinks=False)

    def listxattr(self, path: str) -> list[str]:
        self._look_at(path)
        return [name for name in os.listxattr(self._at(path), follow_symlinks=False) if name.startswith(USERS_OWN)]

    def chown(self, path: str | None, uid: int, gid: int, fh: int | None = None) -> int:
        with self._lock:
            self._refuse_after_death()
            about = self._meant(path, fh)
            before = _stat(about)
            asked = tuple(old if new == _SAME else new for new, old in zip((uid, gid), owner_of(before), strict=True))
            if _is_kept(path, before) and asked != owner_of(before):
                self._permit(OperationKind.OWNER, self._named(path, fh), other="{}:{}".format(*asked))
            os.chown(about, uid, gid, follow_symlinks=isinstance(about, int))
            owner = owner_of(_stat(about))
            if _is_kept(path, before) and owner != owner_of(before):
                told = "{}:{}".format(*owner)
                self._change(OperationKind.OWNER, self._named(path, fh), other=told, file=before.st_ino)
            return 0

    def _meant(self, path: str | None, fh: int | None) -> str | int:
        """A file by its handle, where there is one: it may have no name any more."""
        if fh:
            return self._handles[fh].fd
        if path is None:
            raise OSError(errno.ENOENT, "a file without a name, and without a handle")
        return self._at(path)

    def _named(self, path: str | None, fh: int | None) -> str:
        return self._handles[fh].path if fh else path or ""

    def _rename_handles(self, old: str, new: str) -> None:
        for handle in self._handles.values():
            handle.path = _moved(handle.path, {old: new})

    # What only looks

    def _look(self, kind: OperationKind, path: str) -> None:
        if (kind, path) in self._seen:
            return
        with self._lock:
            if (kind, path) not in self._seen:
                self._seen.add((kind, path))
                self._journal.write(framed(Operation(kind, path[1:], time.time_ns())))

    def _look_at(self, path: str) -> None:
        """At what a file holds, its attributes among that, or at those of a folder."""
        about = os.lstat(self._at(path))
        if about.st_ino not in (self._made if stat.S_ISDIR(about.st_mode) else self._created):
            self._look(OperationKind.OPENED, path)

    def _look_into(self, path: str) -> None:
        """What it holds gets another name, under which it may be read: that is a look at all of it, but for what this
        attempt has made."""
        where = self._at(path)
        try:
            about = os.lstat(where)
            if stat.S_ISDIR(about.st_mode):
                if about.st_ino not in self._made:
                    self._look(OperationKind.LISTED, path)
                for name in os.listdir(where):
                    self._look_into(f"{path}/{name}")
            elif about.st_ino not in self._made:
                self._look(OperationKind.OPENED, path)
        except FileNotFoundError:
            return

    def getattr(self, path: str | None, fh: int | None = None) -> tuple[os.stat_result, int]:
        """What is known of a file or folder, and when it was touched last, ns since 1970. What the kernel remembers,
        that a name is not there included, it is told here."""
        try:
            return self._about(path, fh)
        finally:
            if self._remembers:
                self._told = time.monotonic()

    def _about(self, path: str | None, fh: int | None) -> tuple[os.stat_result, int]:
        if fh and fh in self._handles:
            about = os.fstat(self._handles[fh].fd)
        elif path is not None:
            self._ask(path)
            about = os.lstat(self._at(path))
        else:
            raise OSError(errno.ENOENT, "a file without a name, and without a handle")
        if about.st_nlink > 1 and stat.S_ISREG(about.st_mode):
            self._let_remember(0.0)
        below, really = self._touched.get(about.st_ino, (0, 0))
        touched = about.st_ctime_ns
        return about, really if touched == below else touched

    def _ask(self, path: str) -> None:
        if (OperationKind.ASKED, path) in self._seen:
            return
        skimmed = (OperationKind.SKIMMED, path.rpartition("/")[0] or "/") in self._seen
        in_passing = skimmed and _is_java(_caller())
        self._look(OperationKind.ASKED_IN_PASSING if in_passing else OperationKind.ASKED, path)

    def access(self, path: str, amode: int) -> int:
        self._ask(path)
        if not os.path.islink(self._at(path)) and not os.access(self._at(path), amode):
            raise OSError(errno.EACCES, f"{path} does not permit {amode}")
        return 0

    def readlink(self, path: str) -> str:
        self._look(OperationKind.ASKED, path)
        return os.readlink(self._at(path))

    def opendir(self, path: str) -> int:
        with self._lock:
            number = self._next
            self._next += 1
            self._folders[number] = path
            return number

    def readdir(self, path: str | None, fh: int) -> Iterator[tuple[str, dict[str, int], int]]:
        folder = path or self._folders[fh]
        skims = _is_java(_caller())
        self._look(OperationKind.SKIMMED if skims else OperationKind.LISTED, folder)
        with os.scandir(self._at(folder)) as entries:
            found = [(entry.name, {"st_ino": entry.inode(), "st_mode": _mode(entry)}, 0) for entry in entries]
        # A name without an inode is passed over by who reads a folder.
        own = {"st_ino": os.stat(self._at(folder)).st_ino, "st_mode": stat.S_IFDIR}
        return iter([(".", own, 0), ("..", own, 0), *found])

    def releasedir(self, path: str | None, fh: int) -> int:
        self._folders.pop(fh, None)
        return 0

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
        return os.pread(self._handles[fh].fd, size, offset)

    def release(self, path: str | None, fh: int) -> int:
        with self._lock:
            handle = self._handles.pop(fh, None)
        if handle is not None:
            os.close(handle.fd)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        about = os.statvfs(self._at(path))
        return {name: getattr(about, name) for name in _OF_THE_DISK}

    def init_with_config(self, connection: Any, config: Any) -> None:
        if config is None:
            return
        self._kernel = config
        self._let_remember(REMEMBERED_SECONDS)
        # What is done through a handle is done by the handle.
        config.nullpath_ok = config.use_ino = 1


class _Mount(mfusepy.FUSE):  # type: ignore[misc]
    """Tells the operations what the binding leaves out: the handle of a file that is changed through one, how a rename
    is meant, and whether a file is appended to. And does briefly what the binding does at length, and the kernel asks
    for in each batch by the hundred."""

    def __init__(self, *args: Any, **more: Any) -> None:
        """Serves until it is unmounted."""
        self._threads = threading.local()
        super().__init__(*args, **more)

    def _wrapper(self, func: Any, *args: Any) -> int:
        if not hasattr(self._threads, "known"):
            # Python did not start libfuse's threads. Of one that has entered it and not left it keeps what it knows; of
            # any other it makes that anew for each call, and maps memory for it.
            self._threads.known = ctypes.pythonapi.PyGILState_Ensure()
        return super()._wrapper(func, *args)  # type: ignore[no-any-return]

    def getattr_fuse_3(self, path: bytes | None, buf: Any, fip: Any) -> int:
        try:
            about, touched = self.operations.getattr(self._path(path), _handle(fip))
        except OSError as error:
            return -(error.errno or errno.EIO)
        ctypes.memset(buf, 0, ctypes.sizeof(mfusepy.c_stat))
        told = buf.contents
        for name in _ABOUT:
            setattr(told, name, getattr(about, name))
        for time_of, ns in (
            (told.st_atimespec, about.st_atime_ns),
            (told.st_mtimespec, about.st_mtime_ns),
            (told.st_ctimespec, touched),
        ):
            time_of.tv_sec, time_of.tv_nsec = divmod(ns, 1_000_000_000)
        return 0

    def getxattr(self, path: bytes, name: bytes, value: Any, size: int, *more: Any) -> int:
        # The kernel asks for others than the user's of its own accord, before each write.
        if not name.startswith(USERS_OWN.encode()):
            return -errno.ENODATA
        return super().getxattr(path, name, value, size, *more)  # type: ignore[no-any-return]

    def create(self, path: bytes, mode: int, fip: Any) -> int:
        opened = fip.contents
        opened.fh = self.operations.create(self._path(path), mode, opened.flags)
        return 0

    def write(self, path: bytes | None, buf: Any, size: int, offset: int, fip: Any) -> int:
        data, opened = ctypes.string_at(buf, size), fip.contents
        appends = bool(opened.flags & os.O_APPEND)
        return self.operations.write(self._path(path), data, offset, opened.fh, appends)  # type: ignore[no-any-return]

    def truncate_fuse_3(self, path: bytes | None, length: int, fip: Any) -> int:
        return self.operations.truncate(self._path(path), length, _handle(fip))  # type: ignore[no-any-return]

    def chmod_fuse_3(self, path: bytes | None, mode: int, fip: Any) -> int:
        return self.operations.chmod(self._path(path), mode, _handle(fip))  # type: ignore[no-any-return]

    def chown_fuse_3(self, path: bytes | None, uid: int, gid: int, fip: Any) -> int:
        return self.operations.chown(self._path(path), uid, gid, _handle(fip))  # type: ignore[no-any-return]

    def utimens_fuse_3(self, path: bytes | None, buf: Any, fip: Any) -> int:
        times = (_ns(buf.contents.actime), _ns(buf.contents.modtime)) if buf else None
        return self.operations.utimens(self._path(path), times, _handle(fip))  # type: ignore[no-any-return]

    def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> int:
        return self.operations.rename(self._path(old), self._path(new), flags)  # type: ignore[no-any-return]

    def _path(self, path: bytes | None) -> str | None:
        return None if path is None else path.decode(self.encoding, self.errors)


def _check_length(length: int) -> None:
    if length > LONGEST:
        raise OSError(errno.EFBIG, f"a file of {length:,} bytes; {LONGEST:,} are the most")


def _stat(about: str | int) -> os.stat_result:
    """Of a link that is named, of itself: the kernel has followed those that are not meant. Where one leads may be in
    the mounted folder, about which nobody here may ask while the lock is held."""
    return os.stat(about, follow_symlinks=isinstance(about, int))


def _half_of(offset: int, size: int) -> int:
    """How many bytes of a write there are before the border of two pages that is nearest to its middle: so that of most
    there is something whole in either half, and something that is not. 0: all of it is in one page."""
    page = mmap.PAGESIZE
    first, last = (offset // page + 1) * page, (offset + size - 1) // page * page
    middle = (offset + size // 2 + page // 2) // page * page
    return min(max(middle, first), last) - offset if first <= last else 0


def _is_kept(path: str | None, about: os.stat_result) -> bool:
    """Whether a crash state keeps its permissions, attributes and times; the mounted folder itself is no run's."""
    return stat.S_ISREG(about.st_mode) or (stat.S_ISDIR(about.st_mode) and path != "/")


def _exchange_names(one: str, other: str) -> None:
    """In one step, which Python has no call for."""
    paths = _HERE, os.fsencode(one), _HERE, os.fsencode(other)
    if _library.renameat2(*paths, ctypes.c_uint(_EXCHANGE)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), one)


def _moved(path: str, moves: Mapping[str, str]) -> str:
    """A path, once others, or folders above it, have got other names; empty where it has none any more."""
    for old, new in moves.items():
        if path == old or path.startswith(f"{old}/"):
            return new and new + path[len(old) :]
    return path


def _mode(entry: os.DirEntry[str]) -> int:
    """What kind of thing a name leads to, as far as a folder says."""
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else stat.S_IFMT(entry.stat().st_mode)


def _handle(fip: Any) -> int | None:
    return fip.contents.fh if fip else None


def _ns(asked: Any) -> int | None:
    """What a `timespec` says: a time, now, or nothing."""
    if asked.tv_nsec == _NOW:
        return time.time_ns()
    if asked.tv_nsec == _AS_IT_IS:
        return None
    found: int = mfusepy.time_of_timespec(asked, use_ns=True)
    return found


def _way_of(flags: int) -> str:
    """How a file is opened, as far as it says what becomes of what is there already."""
    return "|".join(name for name, flag in _WAYS.items() if flags & flag)


_WAYS = {"O_APPEND": os.O_APPEND, "O_EXCL": os.O_EXCL, "O_TRUNC": os.O_TRUNC}
_NOT_IN_A_KEY = str.maketrans("\n\t", "??")
_OURS = os.O_NOFOLLOW | os.O_DIRECT | os.O_APPEND
"""How a file is opened, by the kernel's word to us alone: what it hands on is aligned no more, and whether it is to be
appended it says each time."""
_NOW, _AS_IT_IS = (1 << 30) - 1, (1 << 30) - 2
"""UTIME_NOW and UTIME_OMIT, in the place of the nanoseconds of a time that is set."""
_KEEPS_LENGTH, _PUNCHES, _ZEROES = 0x1, 0x2, 0x10
"""Of fallocate: the file does not get longer; a part of it is given back, or zeroed, and reads as zeroes then."""
_SAME = -1
"""Of a user or a group: it stays who it is."""
_NO_REPLACE, _EXCHANGE = 1, 2
"""Of a rename: only where nothing has the new name; and the two names change places."""
_HERE = -100
"""AT_FDCWD: a path is meant as it stands."""
_ABOUT = ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_blksize", "st_rdev")
_OF_THE_DISK = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail", "f_namemax")


def _listen(folders: Folders, plan: ServingPlan) -> None:
    for line in sys.stdin.buffer:
        obeyed = folders.obey(msgspec.json.decode(line, type=StandingOrder))
        sys.stdout.buffer.write(msgspec.json.encode(obeyed) + b"\n")
        sys.stdout.buffer.flush()
    unmount(Path(plan.mount))
    os._exit(0)


def main(path: str) -> int:
    plan = msgspec.json.decode(Path(path).read_bytes(), type=ServingPlan)
    folders = Folders(plan)
    # All that a query does with files waits for this process, for less than a millisecond each time, but hundreds of
    # times in a batch. Only root may be served first.
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _BEFORE_OTHERS)
    threading.Thread(target=_listen, args=(folders, plan), daemon=True).start()
    _Mount(folders, plan.mount, foreground=True, fsname=plan.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
