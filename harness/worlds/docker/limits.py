"""Machine faults of containers: less CPU, less memory, none left.

The engine changes the limits of a container that runs; the kernel counts, in the container's cgroup of either version,
how often they got in the way of something. Where several disturbances of one node overlap, the tightest limit is in
force, and what the kernel counts meanwhile is proof of that disturbance alone. One that takes nothing of what the
container was granted gets in the way of nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from ...core.errors import DeadlinePassed, OwnFailure
from ...core.waiting import wait_until
from ...recording.history import Proof
from ..spark.control.disturbances import ExhaustMemory, LimitMemory, ThrottleCpu
from .executing import Background, run_inside

PERIOD = 100_000
"""Microseconds; the engine's own for a quota."""
_LEAST_QUOTA = 1_000
"""Microseconds of CPU a period: the kernel takes no less."""
_END_SECONDS = 5.0
"""How long a container may take until it is seen to have ended in which nothing can be run any more."""
_ROOM = 16 << 20
"""Bytes that a node has left at first whose limit is as near as can be to what it uses."""
_STEPS = 16
"""How often the limit is tried, that much higher each time: with cgroups of version 1 the kernel refuses one that it
cannot reach by giving up what is cached."""


@dataclass(frozen=True)
class _Limits:
    cpu_quota: int
    memory: int

    def with_(self, other: _Wanted) -> _Limits:
        quota = self.cpu_quota if other.cpu_quota is None else min(self.cpu_quota, other.cpu_quota)
        memory = self.memory if other.memory is None else min(self.memory, other.memory)
        return _Limits(quota, memory)


@dataclass(eq=False)
class _Wanted:
    """What one disturbance asks for."""

    cpu_quota: int | None = None
    memory: int | None = None
    counted: int = 0
    """How often the kernel held something back while this was the tightest."""
    was_tightest: bool = False

    @property
    def limits_nothing(self) -> bool:
        """Whether others, or what was granted, limited the node as much all the while."""
        return not self.was_tightest and (self.cpu_quota is not None or self.memory is not None)


@dataclass(frozen=True)
class _Tightest:
    """What the kernel counts for now, of one of its counters and one node."""

    wanted: _Wanted
    container: str
    since: int | None
    """What had been counted before; None: that could not be read."""


_COUNTERS: Mapping[str, str] = {"throttled": "cpu_quota", "limited": "memory"}
"""The kernel's counters, and the limit that each counts for."""


class Limits:
    """The limits of a run's containers, and what disturbs them."""

    carries = (ThrottleCpu, LimitMemory, ExhaustMemory)

    def __init__(self, client: docker.DockerClient, container_of: Callable[[str], str]) -> None:
        """`container_of` gives the present container of a node."""
        self._client = client
        self._container_of = container_of
        self._given: dict[str, _Limits] = {}
        """Container -> its limits without any disturbance."""
        self._wanted: dict[str, list[_Wanted]] = {}
        """Node -> what is in force."""
        self._tightest: dict[tuple[str, str], _Tightest] = {}
        """Node and counter -> whose limit that is now."""
        self._lock = threading.RLock()
        """A node that starts meanwhile finds a disturbance in force, or is told of it."""

    def disturb(self, disturbance: ThrottleCpu | LimitMemory | ExhaustMemory) -> LimitInForce | Exhaustion:
        match disturbance:
            case ThrottleCpu(node=node, cores=cores):
                return self.throttle_cpu(node, cores)
            case LimitMemory(node=node, size=size):
                return self.limit_memory(node, size)
            case ExhaustMemory(node=node, over=over):
                return self.exhaust_memory(node, over)

    def node_started(self, node: str, container: str) -> None:
        """Its successor is limited too."""
        with self._lock:
            if self._wanted.get(node):
                self.enforce(node)
                self._reckon(node, container, dict.fromkeys(_COUNTERS, 0))

    def throttle_cpu(self, node: str, cores: float) -> LimitInForce:
        """At most so many cores for all that runs in the node's container. The proof: periods in which the kernel held
        it back."""
        with self._lock:
            container = self._container_of(node)
            before = self._count(container)
            wanted = _Wanted(cpu_quota=max(_LEAST_QUOTA, round(cores * PERIOD)))
            with self._adding(node, wanted):
                self.enforce(node)
            self._reckon(node, container, before)
            return LimitInForce(self, node, wanted, "periods of 100 ms without CPU")

    def limit_memory(self, node: str, limit: int) -> LimitInForce:
        """At most so many bytes; where the node uses more, the least that the kernel can leave it, since to end
        processes is another fault. The proof: how often the kernel had to make room, or bring back what it had taken
        away to make some."""
        with self._lock:
            container = self._container_of(node)
            before = self._count(container)
            in_use = 0 if before is None else before["in_use"]
            wanted = _Wanted(memory=limit)
            with self._adding(node, wanted):
                if in_use > limit or not self._enforced(node):
                    self._squeeze(node, wanted, max(in_use, limit))
            self._reckon(node, container, before)
            got = f", with {wanted.memory >> 20} MiB of it" if wanted.memory else ""
            return LimitInForce(self, node, wanted, f"times that memory ran short{got}")

    def exhaust_memory(self, node: str, over: Callable[[], None] = lambda: None) -> Exhaustion:
        """Next to no memory beyond what is in use, and that is taken by a process of the harness's: until the kernel
        ends something of the node, which may be all of it. Then the limit is what it was, and `over` is called, in some
        thread. The proof: how many processes it ended."""
        with self._lock:
            container = self._container_of(node)
            before = self._count(container)
            wanted = _Wanted()
            exhaustion = Exhaustion(self, node, container, wanted, (before or {}).get("oom_kills", 0), over)
            with self._adding(node, wanted):
                if before is not None and self._squeeze(node, wanted, before["in_use"]):
                    self._reckon(node, container, before)
                    exhaustion.hog = Background(self._client, container, "hog", ended=exhaustion.ended)
        if exhaustion.hog is None:
            over()
        return exhaustion

    @contextmanager
    def _adding(self, node: str, wanted: _Wanted) -> Iterator[None]:
        """To what is in force; it is taken back where it cannot be had."""
        those = self._wanted.setdefault(node, [])
        those.append(wanted)
        try:
            yield
        except BaseException:
            those.remove(wanted)
            raise

    def _squeeze(self, node: str, wanted: _Wanted, memory: int) -> bool:
        """Ask for the least from so many bytes on that the kernel can leave the node. False: for nothing, since it
        takes none that is tried."""
        for step in range(1, _STEPS + 1):
            wanted.memory = memory + step * _ROOM
            if self._enforced(node):
                return True
        wanted.memory = None
        return False

    def lift(self, node: str, wanted: _Wanted) -> None:
        with self._lock:
            if wanted in self._wanted[node]:
                self._wanted[node].remove(wanted)
            self.enforce(node)
            if any(one.wanted is wanted for one in self._tightest.values()):
                # Only now: what has its time and its memory again can answer.
                container = self._container_of(node)
                self._reckon(node, container, self._count(container))

    def _reckon(self, node: str, container: str, counts: Mapping[str, int] | None) -> None:
        """What the kernel has counted so far is proof of what was the tightest; from here on, of what is. `counts` is
        None where it cannot be asked: then nobody knows what counts."""
        for counter, limit in _COUNTERS.items():
            key, now = (node, counter), None if counts is None else counts[counter]
            before = self._tightest.pop(key, None)
            wanted = self._find_tightest(node, container, limit)
            same = before is not None and before.container == container
            if before is not None and same and before.wanted is wanted and before.since is not None:
                self._tightest[key] = before
                continue
            if before is not None and same and before.since is not None and now is not None:
                before.wanted.counted += now - before.since
            if wanted is not None:
                wanted.was_tightest = True
                self._tightest[key] = _Tightest(wanted, container, now)

    def _find_tightest(self, node: str, container: str, limit: str) -> _Wanted | None:
        """None: that is what the container was granted. Of several alike it is the first, beside which the others
        change nothing."""
        given = self._given.get(container)
        asked = [(getattr(one, limit), one) for one in self._wanted.get(node, ()) if getattr(one, limit) is not None]
        if given is None or not asked:
            return None
        least, wanted = min(asked, key=lambda pair: int(pair[0]))
        return wanted if least < getattr(given, limit) else None

    def enforce(self, node: str) -> None:
        """Let the node's present container have the limits that are in force for it. Raises OwnFailure when it does not
        come to have them."""
        if not self._enforced(node):
            raise OwnFailure(f"the kernel does not take the limits of {node}: it cannot give up enough memory")

    def _enforced(self, node: str) -> bool:
        with self._lock:
            container = self._container_of(node)
            try:
                given = self._given.get(container) or self._given.setdefault(container, self._limits(container))
                limits = given
                for wanted in self._wanted.get(node, ()):
                    limits = limits.with_(wanted)
                if limits == self._limits(container):
                    return True
                self._update(container, limits)
                return self._limits(container) == limits
            except APIError as problem:
                if _is_busy(problem):
                    return False
                if problem.status_code == 404:
                    return True  # It is gone, and has no limits.
                raise OwnFailure(f"the limits of {node} cannot be changed: {problem.explanation}") from problem
            except (DockerException, RequestException) as problem:
                raise OwnFailure(f"the limits of {node} cannot be changed: {problem}") from problem

    def _update(self, container: str, limits: _Limits) -> None:
        """Raises APIError."""
        change = partial(
            self._client.api.update_container,
            container,
            cpu_quota=limits.cpu_quota,
            mem_limit=limits.memory,
            memswap_limit=limits.memory,
        )
        try:
            change()
        except APIError as problem:
            # The kernel may have ended it before the engine heard of that. What has ended takes any limits.
            if _is_busy(problem) or not self._ends(container):
                raise
            change()

    def _limits(self, container: str) -> _Limits:
        host = self._inspect(container)["HostConfig"]
        return _Limits(host["CpuQuota"], host["Memory"])

    def _inspect(self, container: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.api.inspect_container(container)
        return answer

    def _count(self, container: str) -> dict[str, int] | None:
        """None: it does not run, or is paused."""
        try:
            return run_inside(self._client, container, "count")
        except OwnFailure:
            # While it ends, the engine may find that in words of its own.
            if not self._ends(container):
                raise
            return None

    def _ends(self, container: str) -> bool:
        try:
            wait_until(lambda: not self._inspect(container)["State"]["Running"], _END_SECONDS, "a container to end")
        except DeadlinePassed:
            return False
        return True

    def processes_ended(self, container: str, before: int, hog: Background) -> int:
        """How many processes of a container's the kernel has ended for want of memory, asked when the hog has ended.

        The hog counts for nothing. A container that ends as a whole takes it along, of which the kernel says only that
        it ended for this.
        """
        for line in hog.said:
            if "ended" in line:
                return int(line["ended"])
        found = self._count(container)
        if found is not None:
            return found["oom_kills"] - before - hog.was_killed
        # What is frozen has not ended, and may die of something else.
        if self._inspect(container)["State"]["Paused"] or not self._ends(container):
            return 0
        return int(self._inspect(container)["State"]["OOMKilled"])


def _is_busy(problem: APIError) -> bool:
    """Whether the kernel cannot take back enough memory for a limit."""
    return "device or resource busy" in str(problem.explanation).lower()


class LimitInForce:
    """One disturbance of one node."""

    def __init__(self, limits: Limits, node: str, wanted: _Wanted, what: str) -> None:
        self._limits = limits
        self._node = node
        self._wanted = wanted
        self._what = what

    def heal(self) -> Proof:
        self._limits.lift(self._node, self._wanted)
        beside = ", beside another limit of the node that is no wider" if self._wanted.limits_nothing else ""
        return Proof(max(0, self._wanted.counted), f"{self._what}{beside}")


class Exhaustion:
    """The memory of one node is being taken."""

    def __init__(
        self, limits: Limits, node: str, container: str, wanted: _Wanted, before: int, over: Callable[[], None]
    ) -> None:
        """`before` is how many processes the kernel had ended there."""
        self.hog: Background | None = None
        """None: nothing runs there, or the kernel takes no limit."""
        self._limits = limits
        self._node = node
        self._container = container
        self._wanted = wanted
        self._before = before
        self._over = over
        self._count: int | None = None
        """Of what the kernel ended; None: it has not been asked."""

    def ended(self, hog: Background) -> None:
        """Ask what the kernel did at once: what ends the container later on has nothing to do with it."""
        self._limits.lift(self._node, self._wanted)
        self._count = self._limits.processes_ended(self._container, self._before, hog)
        self._over()

    def heal(self) -> Proof:
        """Raises OwnFailure where the kernel could not be asked."""
        self._limits.lift(self._node, self._wanted)
        if self.hog is None:
            return Proof(0, _ENDED)
        self.hog.end()
        if self._count is None:
            raise OwnFailure(
                f"what the kernel ended in {self._node} for want of memory is not known: {self.hog.problem}"
            )
        return Proof(max(0, self._count), _ENDED)


_ENDED = "processes ended for want of memory"
