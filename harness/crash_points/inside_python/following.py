"""Follows the user's code in a process of a run, as that process is told: in a driver, and in each Python worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import msgspec

from ...core.addresses import Side
from ...core.errors import OwnFailure
from .announcing import Announcer
from .batches import of_the_task
from .consuming import Consuming
from .effects import Effects, OutsideEffect
from .maps import SharedMaps
from .names import place_in
from .outliving import write_out
from .tracing import Tracer
from .watching import LINES, Watching, read_watching

_IMPORT: Final = "its import"
"""A place in the user's code that is no line: what C does while modules are imported."""


class Noted(msgspec.Struct, frozen=True):
    """What a process says of the user's code, without waiting to be let go on."""

    effects: tuple[OutsideEffect, ...] = ()
    unannounced: int = 0
    """How often lines were passed that had been announced often enough."""


# Made once, and here: msgspec ends the process with SIGSEGV where two threads are the first to ask for one type.
_noted = msgspec.json.Decoder(Noted).decode


def read_noted(content: bytes) -> Noted:
    """Raises OwnFailure."""
    try:
        return _noted(content)
    except msgspec.MsgspecError as error:
        raise OwnFailure(f"a process of a run said {content[:200]!r} in passing: {error}") from error


class Follower:
    """Of one process."""

    def __init__(self, watching: Watching, announcer: Announcer) -> None:
        self.watching = watching
        self._announcer = announcer
        self._effects = Effects(watching, announcer.place)
        self._maps = SharedMaps(watching.folders)
        self._ended = False
        if watching.whole:
            self._tracer = Tracer(watching, self._hold, self._tell, self._effects, self._end)
        else:
            self._tracer = Tracer(watching, announcer.hold, self._tell)
        if watching.whole:
            self._effects.install()
            self._tracer.syncing.install()

    @contextmanager
    def following(self) -> Iterator[None]:
        self._ended = False
        with self.noticing():
            with self._tracer.following():
                yield
            self._end()

    @contextmanager
    def noticing(self, place: str = "") -> Iterator[None]:
        """Effects alone are noted, and no line is announced."""
        if self.watching.whole:
            self._effects.begin(place)
        try:
            yield
        finally:
            self._tell(last=True)
            self._effects.active = False

    @contextmanager
    def consuming(self) -> Iterator[Callable[[Callable[[], Iterable[str]]], None]]:
        """What was told when the run began is older than all that the run leaves. Gives what is to be told how to ask
        for the files that Spark reads."""
        since = os.stat(os.environ[LINES]).st_mtime
        consuming = Consuming(self.watching.folders, self._announcer.place, since)
        with consuming.hearing():
            yield lambda files: consuming.read_by_spark(files())
        self._note(consuming.effects())

    def _hold(self, actor: str, side: Side, key: str, text: str) -> None:
        self._effects.come_by(place_in(key))
        self._maps.write_back(asks_the_jvm=self._effects.asks_the_jvm)
        self._announcer.hold(actor, side, key, text)

    def _end(self) -> None:
        """All is done that is wanted of the user's code: once in a task, before Spark hears of it, or in a run."""
        if self.watching.whole and not self._ended:
            self._ended = True
            self._note(self._effects.left_to_the_end())

    def _tell(self, last: bool = False) -> None:
        effects = self._effects.taken() if self.watching.whole else []
        # In the end, too: a generator says of nothing when it is left.
        effects += [
            OutsideEffect("thread", place.rpartition(":")[0], place) for place in self._tracer.lasting_threads()
        ]
        if self._tracer.is_left():
            effects += self._effects.left_to_threads()
        # Who writes the rows of a task is left after each of them, and may wait when it is closed.
        if last or (of_the_task() is None and self._tracer.is_left()):
            effects += self._effects.left_behind()
        unannounced = self._tracer.unannounced if last else 0
        self._note(effects)
        if unannounced:
            self._tracer.unannounced = 0
            self._announcer.note(msgspec.json.encode(Noted((), unannounced)).decode())

    def _note(self, effects: Iterable[OutsideEffect]) -> None:
        # One at a time: what is said in a line is short.
        for effect in effects:
            self._announcer.note(msgspec.json.encode(Noted((effect,))).decode())


def follower_here(known: Follower | None = None) -> Follower | None:
    """As this process is told now; the one that is known, while that is the same. None: nothing is to be followed.
    Raises OwnFailure."""
    watching = read_watching()
    if known is not None and known.watching == watching:
        return known
    announcer = Announcer.of_environment(os.environ) if watching else None
    return None if announcer is None else Follower(watching, announcer)


@contextmanager
def followed() -> Iterator[None]:
    """Whatever is done within is followed. Raises OwnFailure."""
    follower = follower_here()
    if follower is None:
        yield
        return
    with follower.following():
        yield


@contextmanager
def noticed() -> Iterator[None]:
    """What is done within has effects, and is no part of any batch: the user's modules are imported.

    Raises OwnFailure.
    """
    follower = follower_here()
    if follower is None:
        yield
        return
    with follower.noticing(_IMPORT):
        yield


@contextmanager
def consumed() -> Iterator[Callable[[Callable[[], Iterable[str]]], None]]:
    """What a consumer reads within, where nobody holds it, is noted: it holds what the run has left. Gives what is to
    be told how to ask for the files that Spark reads for it, which asks only where it is to be known.

    Raises OwnFailure.
    """
    follower = follower_here()
    if follower is None or not follower.watching.whole:
        yield lambda files: None
        return
    with follower.consuming() as read_by_spark:
        yield read_by_spark


def written_out() -> None:
    """What a run has kept in the memory of its files is written, where that is to be known. Raises OwnFailure."""
    watching = read_watching()
    if watching.whole:
        write_out(watching.folders)


def followed_each(work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, followed whenever it is done: by a worker, for one task after the other."""
    known: Follower | None = None

    @wraps(work)
    def done(*arguments: Any) -> Any:
        nonlocal known
        known = follower_here(known)
        if known is None:
            return work(*arguments)
        with known.following():
            return work(*arguments)

    return done
