"""Links that pass through proxies, what the proxies are told to do to them, and what that did, measured on what passed.

The relay is at both ends of every proxy, so it sees each byte go in and come out.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from itertools import count

from ....core.errors import OwnFailure
from ....core.wire import Endpoint
from ....recording.history import Proof
from .toxics import Stream, Toxic, Toxiproxy

Between = Callable[[str, str], bool]
"""Whether what the first named sends to the second is meant."""

STRIKE_SECONDS = 0.4
"""How long a strike, which holds the loop, waits for the proxies. One of them may itself wait for the loop to read."""


class Slowing:
    """Something that proxies do to what passes in some directions, and what it did."""

    def __init__(self, between: Between, toxic: Toxic) -> None:
        self.between = between
        self.toxic = toxic
        self.began = self.ended = float("inf")
        """On the monotonic clock, in seconds."""
        self._count = 0
        """Bytes, or connections that were closed."""
        self._shortest, self._longest = float("inf"), 0.0
        """How long they took, in seconds."""

    def passed(self, size: int, went_in: float, came_out: float, free: float) -> float:
        """So many bytes, through a proxy that was done with those before them at `free`. Returns when it is done with
        these; what need not wait for others has not been got in the way of by a narrow link."""
        if self.toxic.type == "slow_close" or went_in < self.began:
            return free
        if self.toxic.rate is None:
            self._saw(size, went_in, came_out, self.toxic.least.seconds)
            return free
        done = max(free, went_in) + size / self.toxic.rate
        if free > went_in:
            self._saw(size, went_in, came_out, done - went_in)
        return done

    def closed(self, went_in: float, came_out: float) -> None:
        """A connection: by one end, and then for the other."""
        if self.toxic.type == "slow_close" and went_in >= self.began:
            self._saw(1, went_in, came_out, self.toxic.least.seconds)

    def _saw(self, amount: int, went_in: float, came_out: float, least: float) -> None:
        """What takes less has not been got in the way of."""
        took = came_out - went_in
        if came_out <= self.ended and took >= least:
            self._count += amount
            self._shortest, self._longest = min(self._shortest, took), max(self._longest, took)

    @property
    def proof(self) -> Proof:
        what = "connections whose close took" if self.toxic.type == "slow_close" else "bytes that took"
        if not self._count:
            return Proof(0, f"{what} longer")
        return Proof(self._count, f"{what} {self._shortest * 1e3:.0f} to {self._longest * 1e3:.0f} ms")


class Passage:
    """One direction of a link through a proxy."""

    def __init__(self, ends: tuple[str, str], slowings: Iterable[Slowing]) -> None:
        """`ends` are who sends and who receives; `slowings`, all that are in force, from now on."""
        self._ends = ends
        self._slowings = slowings
        self._inside: deque[tuple[int, float]] = deque()
        """Bytes, and when they went in."""
        self._closing: float | None = None
        self._free: dict[Slowing, float] = {}
        """When it lets the next bytes pass."""

    def enter(self, size: int) -> None:
        self._inside.append((size, time.monotonic()))

    def leave(self, size: int) -> None:
        now = time.monotonic()
        slowings = [slowing for slowing in self._slowings if slowing.between(*self._ends)]
        while size and self._inside:
            waiting, went_in = self._inside.popleft()
            gone = min(size, waiting)
            size -= gone
            if gone < waiting:
                self._inside.appendleft((waiting - gone, went_in))
            for slowing in slowings:
                self._free[slowing] = slowing.passed(gone, went_in, now, self._free.get(slowing, 0.0))

    def close(self) -> None:
        """The end that sends has closed its connection."""
        self._closing = time.monotonic()

    def closed(self) -> None:
        """The end that receives hears of it."""
        if self._closing is not None:
            for slowing in self._slowings:
                if slowing.between(*self._ends):
                    slowing.closed(self._closing, time.monotonic())


class ProxiedLinks:
    """A proxy for each link that a schedule can slow, made when the link is first dialled; it leads back to the relay.

    toxiproxy is asked in a thread of its own, in order: some of its answers come only once what it holds has been read.
    """

    def __init__(self, server: Toxiproxy, relay: Endpoint, wanted: Between) -> None:
        self._server = server
        self._relay = relay
        self._wanted = wanted
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="asks toxiproxy")
        self._numbers = count()
        self._in_force: dict[Slowing, str] = {}
        """Those that proxies are made with, and the names of their toxics."""
        self._proxies: dict[tuple[str, str], tuple[str, Endpoint]] = {}
        """(who dials, who is dialled) -> the name of the proxy, and where it listens. This and what is in force is for
        the thread alone."""

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    async def place(self, dialler: str, dialled: str) -> Endpoint | None:
        """Where to dial instead; None for a link that needs no proxy."""
        if not self._wanted(dialler, dialled) and not self._wanted(dialled, dialler):
            return None
        return await asyncio.wrap_future(self._thread.submit(self._proxy, (dialler, dialled)))

    def slow(self, between: Between, toxic: Toxic) -> Slowing:
        """Raises OwnFailure when toxiproxy does not do it."""
        slowing = Slowing(between, toxic)
        asked: Future[None] = self._thread.submit(self._add_everywhere, slowing)
        with suppress(NotYet):
            asked.result(STRIKE_SECONDS)
        return slowing

    async def heal(self, slowing: Slowing) -> list[Endpoint]:
        """Returns where the proxies listen that did it. Raises OwnFailure when one goes on."""
        return await asyncio.wrap_future(self._thread.submit(self._remove_everywhere, slowing))

    # In the thread

    def _proxy(self, ends: tuple[str, str]) -> Endpoint:
        if ends not in self._proxies:
            name = f"link-{len(self._proxies)}"
            self._proxies[ends] = name, self._server.make(name, self._relay)
            for slowing in self._in_force:
                self._add(slowing, ends)
        return self._proxies[ends][1]

    def _add_everywhere(self, slowing: Slowing) -> None:
        self._in_force[slowing] = f"{slowing.toxic.type}-{next(self._numbers)}"
        for ends in self._proxies:
            self._add(slowing, ends)
        slowing.began = time.monotonic()

    def _add(self, slowing: Slowing, ends: tuple[str, str]) -> None:
        proxy, _ = self._proxies[ends]
        for stream in _streams(slowing, ends):
            self._server.add(proxy, f"{self._in_force[slowing]}-{stream}", slowing.toxic, stream)

    def _remove_everywhere(self, slowing: Slowing) -> list[Endpoint]:
        slowing.ended = time.monotonic()
        toxic = self._in_force.pop(slowing)
        healed = []
        for ends, (proxy, place) in self._proxies.items():
            names = {f"{toxic}-{stream}" for stream in _streams(slowing, ends)}
            healed += [place] if names else []
            for name in names:
                self._server.remove(proxy, name)
            if left := names & set(self._server.toxics(proxy)):
                raise OwnFailure(f"{', '.join(sorted(left))} of the link {' > '.join(ends)} does not end")
        return healed


def _streams(slowing: Slowing, ends: tuple[str, str]) -> list[Stream]:
    dialler, dialled = ends
    streams: list[Stream] = []
    if slowing.between(dialler, dialled):
        streams.append("upstream")
    if slowing.between(dialled, dialler):
        streams.append("downstream")
    return streams
