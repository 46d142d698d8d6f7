"""Worlds that are carried into another process, each at the moment of a crash, and go on there.

What is reached from a world goes with it, and nothing else: what the subject's code keeps in variables of modules and
classes, in iterators, in objects that are not written in Python, in modules of others, or in the process itself, is
there what it is in a process that has just begun. So a world that comes to something else there than here rests on what
is remembered outside of it, wherever that is.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import ceil
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple, Self

import msgspec

from ...contracts.subject import SchemeSubject
from ...core.error_text import described_error
from ...core.kept_files import KeptFiles, all_heard, listening
from ...core.other_processes import LIMIT_SECONDS, UNREADABLE, FreshProcess, begin
from ...core.quantities import Duration
from ...recording.recorder import MemoryRecorder
from .deployment import SimulatedDeployment

_BY_VALUE: Final = (str, bytes, int, float, complex, type(None), type, ModuleType, FunctionType, BuiltinFunctionType)
"""What needs no name: it is what it is, or has one already."""


class WorldsArrived(msgspec.Struct, frozen=True, array_like=True):
    """What came of the worlds in the other process."""

    digests: list[str | None]
    """Of the history of each; None where it did not come to its end."""
    files: KeptFiles
    """What they have done to files, all of them together."""
    failure: str = ""
    """Why they did not come to their ends; empty when they did."""


class _Task(msgspec.Struct, frozen=True, array_like=True):
    subject: bytes
    worlds: list[bytes]


class OtherProcess:
    """Where worlds of one subject are carried. It is as the subject is when this is made; use it as a context
    manager."""

    def __init__(self, subject: SchemeSubject) -> None:
        self.failure = ""
        """Why nothing can be carried there; empty as long as all can."""
        self._worlds: list[bytes] = []
        self._process: FreshProcess | None = None
        try:
            self._carrier = _Carrier(subject)
        except Exception as error:
            self.failure = described_error(error)

    def __enter__(self) -> Self:
        if not self.failure:
            seed = os.environ.get("PYTHONHASHSEED") or "random"
            self._process = begin(go_on_here, seed, {"PYTHONDONTWRITEBYTECODE": "1"})
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.end()

    def carry(
        self, world: SimulatedDeployment, recorder: MemoryRecorder, deadline: Duration, upto: int | None = None
    ) -> None:
        """Take a world along as it is now. It goes on until so many steps have been taken; None: to its end."""
        if self.failure:
            return
        try:
            self._worlds.append(self._carrier.world(_Carried(world, recorder, deadline, upto)))
        except Exception as error:
            self.failure = described_error(error)

    def arrived(self, here: KeptFiles) -> WorldsArrived:
        """What all of them came to there. `here`: what was done to files before, in this process: there it may be found
        done."""
        if self.failure or self._process is None:
            return WorldsArrived([], here, self.failure)
        self._process.tell(msgspec.msgpack.encode(_Task(self._carrier.subject, self._worlds)))
        said, failure = self._process.said()
        try:
            arrived = msgspec.msgpack.decode(said, type=WorldsArrived)
        except msgspec.MsgspecError:
            return WorldsArrived([], here, failure or UNREADABLE)
        return msgspec.structs.replace(arrived, files=all_heard([here, arrived.files]))


class _Carried(NamedTuple):
    """What is taken along of a world."""

    world: SimulatedDeployment
    recorder: MemoryRecorder
    deadline: Duration
    upto: int | None

    def go_on(self) -> str:
        """The digest of its history by then."""
        if self.upto is None:
            self.world.drained(self.deadline)
            self.world.stop()
        else:
            self.world.run_to(self.upto)
        return self.recorder.history().digest()


class _Carrier:
    """Pickles worlds of a subject so that this, and all that it holds, is there what it was at first."""

    def __init__(self, subject: SchemeSubject) -> None:
        # Not above: who searches for nothing new has no need of it.
        from pyspark import cloudpickle

        from ...core.pickling import modules_of_the_user, modules_only_here, sent_along

        only_here = modules_only_here()
        named = {
            id(value): (module.__name__, name)
            for module in modules_of_the_user()
            if module not in only_here
            for name, value in list(vars(module).items())
            if not isinstance(value, _BY_VALUE)
        }

        class Pickler(cloudpickle.Pickler):
            """What is a variable of a module goes by its name."""

            def persistent_id(self, one: object) -> tuple[str, str] | None:
                return named.get(id(one))

        self._file = io.BytesIO()
        self._pickler = Pickler(self._file)  # type: ignore[no-untyped-call]
        self._along = partial(sent_along, only_here)
        with self._along():
            self._pickler.dump(subject)  # type: ignore[no-untyped-call]
        self.subject = self._file.getvalue()
        self._known = self._pickler.memo.copy()

    def world(self, carried: _Carried) -> bytes:
        self._file.seek(0)
        self._file.truncate()
        self._pickler.memo = self._known
        with self._along():
            self._pickler.dump(carried)  # type: ignore[no-untyped-call]
        return self._file.getvalue()


# In the other process


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: Any) -> Any:
        module, variable = name
        __import__(module)
        return getattr(sys.modules[module], variable)


def go_on_here(told: bytes) -> bytes:
    """In the other process: go on with the worlds that arrive."""
    task = msgspec.msgpack.decode(told, type=_Task)
    with suppress(Exception):
        # What it needs is imported once for all of them.
        _loaded(task.subject, task.worlds[0])
    found: list[_One] = []
    # The last one first, and the one that begins at no crash last: what the kernel keeps for all of them, as in a pipe
    # that was opened when a module was imported, holds nothing yet of what comes before the crash that one begins at.
    for body in reversed(task.worlds):
        one = _apart(partial(_one, task.subject, body))
        found.append(one)
        if one.failure:
            break
    digests = [None if one.failure else one.digest for one in reversed(found)]
    return msgspec.msgpack.encode(
        WorldsArrived(
            [*[None] * (len(task.worlds) - len(found)), *digests],
            all_heard(one.files for one in found),
            next((one.failure for one in found if one.failure), ""),
        )
    )


class _One(msgspec.Struct, frozen=True, array_like=True):
    """What came of one world."""

    digest: str = ""
    files: KeptFiles = KeptFiles()
    failure: str = ""


def _apart(work: Callable[[], _One]) -> _One:
    """What comes of it in a process of its own, so that it leaves nothing behind for the next."""
    read, write = os.pipe()
    process = os.fork()
    if not process:
        signal.alarm(ceil(LIMIT_SECONDS))
        with os.fdopen(write, "wb") as told:
            told.write(msgspec.msgpack.encode(work()))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as heard:
        said = heard.read()
    _, status = os.waitpid(process, 0)
    try:
        return msgspec.msgpack.decode(said, type=_One)
    except msgspec.MsgspecError:
        return _One(failure=f"the other process ended with status {os.waitstatus_to_exitcode(status)}")


def _one(subject: bytes, body: bytes) -> _One:
    try:
        carried = _loaded(subject, body)
        with listening() as listener:
            digest = carried.go_on()
    except Exception as error:
        return _One(failure=described_error(error))
    return _One(digest, listener.heard)


def _loaded(subject: bytes, body: bytes) -> _Carried:
    unpickler = _Unpickler(io.BytesIO(subject + body))
    unpickler.load()
    found: _Carried = unpickler.load()
    return found
