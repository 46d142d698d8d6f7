"""Machine faults of containers: less CPU, less memory, none left.

The engine changes the limits of a container that runs; the kernel counts, in the container's cgroup of either version,
how often they got in the way of something. Where several disturbances of one node overlap, the tightest limit counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from ...core.errors import OwnFailure
from ...recording.history import Proof
from ..spark.control.disturbances import ExhaustMemory, LimitMemory, ThrottleCpu
from .executing import Background, run_inside

PERIOD = 100_000
"""Microseconds; the engine's own for a quota."""
_LEAST_QUOTA = 1_000
"""Microseconds of CPU a period: the kernel takes no less."""
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
        self._in_force: list[LimitInForce] = []
        self.lock = threading.RLock()

    def disturb(self, disturbance: ThrottleCpu | LimitMemory | ExhaustMemory) -> LimitInForce:
        with self.lock:  # A node that starts meanwhile finds it in force, or is told of it.
            match disturbance:
                case ThrottleCpu(node=node, cores=cores):
                    in_force = self.throttle_cpu(node, cores)
                case LimitMemory(node=node, size=size):
                    in_force = self.limit_memory(node, size)
                case ExhaustMemory(node=node):
                    in_force = self.exhaust_memory(node)
            self._in_force.append(in_force)
        return in_force

    def node_started(self, node: str, container: str) -> None:
        with self.lock:
            for in_force in self._in_force:
                in_force.node_started(node, container)

    def throttle_cpu(self, node: str, cores: float) -> LimitInForce:
        """At most so many cores for all that runs in the node's container. The proof: periods in which the kernel held
        it back."""
        quota = max(_LEAST_QUOTA, round(cores * PERIOD))
        return self._limit(node, _Wanted(cpu_quota=quota), "throttled", "periods of 100 ms without CPU")

    def limit_memory(self, node: str, limit: int) -> LimitInForce:
        """At most so many bytes; where the node uses more, the least that the kernel can leave it, since to end
        processes is another fault. The proof: how often the kernel had to make room, or bring back what it had taken
        away to make some."""
        with self.lock:
            container = self._container_of(node)
            before = self._count(container)
            in_use = 0 if before is None else before["in_use"]
            wanted = _Wanted(memory=limit)
            with self._adding(node, wanted):
                if in_use > limit or not self._enforced(node):
                    self._squeeze(node, wanted, max(in_use, limit))
            got = f", with {wanted.memory >> 20} MiB of it" if wanted.memory else ""
            return LimitInForce(self, node, container, wanted, "limited", f"times that memory ran short{got}", before)

    def exhaust_memory(self, node: str) -> LimitInForce:
        """Next to no memory beyond what is in use, and that is taken by a process of the harness's: until the kernel
        ends something of the node, which may be all of it. Then the limit is what it was. The proof: how many processes
        it ended."""
        with self.lock:
            container = self._container_of(node)
            before = self._count(container)
            wanted = _Wanted()
            hog = None
            with self._adding(node, wanted):
                if before is not None and self._squeeze(node, wanted, before["in_use"]):
                    hog = Background(self._client, container, "hog", ended=lambda: self.lift(node, wanted))
            what = "processes ended for want of memory"
            return LimitInForce(self, node, container, wanted, "oom_kills", what, before, hog)

    def _limit(self, node: str, wanted: _Wanted, counter: str, what: str) -> LimitInForce:
        with self.lock:
            container = self._container_of(node)
            before = self._count(container)
            with self._adding(node, wanted):
                self.enforce(node)
            return LimitInForce(self, node, container, wanted, counter, what, before)

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
        with self.lock:
            if wanted in self._wanted[node]:
                self._wanted[node].remove(wanted)
            self.enforce(node)

    def enforce(self, node: str) -> None:
        """Let the node's present container have the limits that are in force for it. Raises OwnFailure when it does not
        come to have them."""
        if not self._enforced(node):
            raise OwnFailure(f"the kernel does not take the limits of {node}: it cannot give up enough memory")

    def _enforced(self, node: str) -> bool:
        with self.lock:
            container = self._container_of(node)
            try:
                given = self._given.get(container) or self._given.setdefault(container, self._limits(container))
                limits = given
                for wanted in self._wanted.get(node, ()):
                    limits = limits.with_(wanted)
                if limits == self._limits(container):
                    return True
                self._client.api.update_container(
                    container, cpu_quota=limits.cpu_quota, mem_limit=limits.memory, memswap_limit=limits.memory
                )
                return self._limits(container) == limits
            except APIError as problem:
                explanation = str(problem.explanation)
                if "device or resource busy" in explanation.lower():
                    return False
                if problem.status_code == 404:
                    return True  # It is gone, and has no limits.
                raise OwnFailure(f"the limits of {node} cannot be changed: {explanation}") from problem
            except (DockerException, RequestException) as problem:
                raise OwnFailure(f"the limits of {node} cannot be changed: {problem}") from problem

    def _limits(self, container: str) -> _Limits:
        host = self._inspect(container)["HostConfig"]
        return _Limits(host["CpuQuota"], host["Memory"])

    def _inspect(self, container: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.api.inspect_container(container)
        return answer

    def _count(self, container: str) -> dict[str, int] | None:
        """None: it does not run."""
        return run_inside(self._client, container, "count")

    def count(self, container: str, counter: str) -> int:
        """Of a container; of one that has ended, only whether that was for want of memory."""
        found = self._count(container)
        if found is not None:
            return int(found[counter])
        return int(counter == "oom_kills" and self._inspect(container)["State"]["OOMKilled"])

    def runs(self, container: str) -> bool:
        return bool(self._inspect(container)["State"]["Running"])


class LimitInForce:
    """One disturbance of one node."""

    def __init__(
        self,
        limits: Limits,
        node: str,
        container: str,
        wanted: _Wanted,
        counter: str,
        what: str,
        before: dict[str, int] | None,
        hog: Background | None = None,
    ) -> None:
        self._limits = limits
        self._node = node
        self._wanted = wanted
        self._counter = counter
        self._what = what
        self._containers = [container]
        """Of the incarnations that it was in force for."""
        self._before = (before or {}).get(counter, 0)
        self._hog = hog
        self._healed = False

    def node_started(self, node: str, container: str) -> None:
        """Its successor is limited too."""
        if node == self._node and not self._healed:
            if container not in self._containers:
                self._containers.append(container)
            self._limits.enforce(node)

    def heal(self) -> Proof:
        with self._limits.lock:
            self._healed = True
        self._limits.lift(self._node, self._wanted)
        # Only now: what has its time and its memory again can answer.
        count = sum(self._limits.count(container, self._counter) for container in self._containers) - self._before
        if self._hog is not None:
            self._hog.end()
            # A container that ends as a whole takes it along, of which the kernel says only that it ended for this.
            count -= self._hog.was_killed and self._limits.runs(self._containers[0])
        return Proof(max(0, count), self._what)
