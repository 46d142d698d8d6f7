"""Limits of containers, by what an engine answers. No engine is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest
from docker.errors import APIError

from streamproof.harness.core.errors import OwnFailure
from streamproof.harness.worlds.docker import limits as module
from streamproof.harness.worlds.docker.limits import Limits
from streamproof.harness.worlds.spark.control.disturbances import ExhaustMemory, LimitMemory, ThrottleCpu

MIB = 1 << 20
GIVEN = {"CpuQuota": 200_000, "Memory": 1024 * MIB}
BUSY = APIError("500", Mock(status_code=500), "write memory.limit_in_bytes: device or resource busy")
REFUSED = APIError("500", Mock(status_code=500), "read-only file system")


class Machine:
    """Containers that use so much memory, and the engine's idea of their limits."""

    def __init__(self) -> None:
        self.container = "first"
        self.in_use = 650 * MIB
        self.least = 0
        self.limits = {name: dict(GIVEN) for name in ("first", "second")}
        self.counts = {"limited": 3, "throttled": 3, "oom_kills": 0}
        self.state = {"Running": True, "Paused": False, "OOMKilled": False}
        self.answers = True
        """Whether anything can be run in a container."""
        self.api = self

    def run(self, client: object, container: str, operation: str) -> dict[str, int] | None:
        return {"in_use": self.in_use, **self.counts} if self.answers else None

    def inspect_container(self, container: str) -> dict[str, Any]:
        return {"HostConfig": dict(self.limits[container]), "State": dict(self.state)}

    def update_container(self, container: str, cpu_quota: int, mem_limit: int, memswap_limit: int) -> None:
        if mem_limit < self.least:
            raise BUSY
        self.limits[container] = {"CpuQuota": cpu_quota, "Memory": mem_limit}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(module, "run_inside", machine.run)
    return machine


@pytest.fixture
def limits(machine: Machine) -> Limits:
    return Limits(machine, lambda node: machine.container)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("in_use", "least", "got"),
    [(200, 0, 300), (650, 0, 666), (650, 690, 698), (200, 310, 316)],
)
def test_a_node_gets_the_least_memory_that_the_kernel_can_leave_it(
    machine: Machine, limits: Limits, in_use: int, least: int, got: int
) -> None:
    machine.in_use, machine.least = in_use * MIB, least * MIB
    limited = limits.disturb(LimitMemory("node-0", 300 * MIB))
    assert machine.limits["first"]["Memory"] == got * MIB
    assert limited.heal().what == f"times that memory ran short, with {got} MiB of it"
    assert machine.limits["first"] == GIVEN


def test_where_the_kernel_takes_no_limit_there_is_no_proof(machine: Machine, limits: Limits) -> None:
    machine.least = 1000 * MIB
    assert limits.disturb(LimitMemory("node-0", 300 * MIB)).heal().count == 0
    assert machine.limits["first"] == GIVEN


def test_a_node_that_comes_back_while_it_is_struck_is_limited(
    machine: Machine, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = machine.update_container
    starting = threading.Thread(target=limits.node_started, args=("node-0", "second"))

    def restart(container: str, **limits: int) -> None:
        update(container, **limits)
        if machine.container == "first":
            machine.container = "second"
            starting.start()
            starting.join(timeout=0.2)

    monkeypatch.setattr(machine, "update_container", restart)
    throttled = limits.disturb(ThrottleCpu("node-0", 0.1))
    starting.join()
    assert machine.limits["second"]["CpuQuota"] == 10_000
    throttled.heal()
    assert machine.limits["second"] == GIVEN


def test_a_limit_that_cannot_be_had_is_not_in_force_for_whoever_comes_next(
    machine: Machine, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(machine, "update_container", Mock(side_effect=REFUSED))
        with pytest.raises(OwnFailure, match="read-only file system"):
            limits.disturb(ThrottleCpu("node-0", 0.1))
    limits.disturb(LimitMemory("node-0", 900 * MIB))
    assert machine.limits["first"] == {"CpuQuota": 200_000, "Memory": 900 * MIB}


@pytest.mark.parametrize(
    ("disturbance", "counter", "proven"),
    [
        (ThrottleCpu("node-0", 1.9), "throttled", 7),
        (ThrottleCpu("node-0", 2.0), "throttled", 0),
        (ThrottleCpu("node-0", 64.0), "throttled", 0),
        (LimitMemory("node-0", 1023 * MIB), "limited", 7),
        (LimitMemory("node-0", 1024 * MIB), "limited", 0),
    ],
    ids=str,
)
def test_a_limit_is_proven_by_nothing_that_the_nodes_own_does(
    machine: Machine, limits: Limits, disturbance: ThrottleCpu | LimitMemory, counter: str, proven: int
) -> None:
    machine.in_use = 100 * MIB
    limited = limits.disturb(disturbance)
    machine.counts[counter] += 7
    proof = limited.heal()
    assert proof.count == proven
    assert ("no wider" in proof.what) is (proven == 0)


def test_of_two_limits_of_a_node_the_tighter_one_is_proven_by_what_is_held_back(
    machine: Machine, limits: Limits
) -> None:
    def held_back(times: int) -> None:
        machine.counts["throttled"] += times

    looser = limits.disturb(ThrottleCpu("node-0", 1.0))
    held_back(1)
    tighter = limits.disturb(ThrottleCpu("node-0", 0.1))
    held_back(10)
    loosest = limits.disturb(ThrottleCpu("node-0", 1.5))
    held_back(100)
    assert tighter.heal().count == 110
    held_back(1000)
    assert loosest.heal().count == 0
    held_back(10_000)
    assert looser.heal().count == 11_001


def test_what_was_counted_before_nobody_knows_is_proof_of_nothing(machine: Machine, limits: Limits) -> None:
    """In what is paused nothing can be run."""
    machine.counts["throttled"] = 21
    machine.answers = False
    throttled = limits.disturb(ThrottleCpu("node-0", 0.1))
    machine.answers = True
    assert throttled.heal().count == 0


def test_a_limit_is_proven_by_what_it_does_to_the_successor_of_a_node(machine: Machine, limits: Limits) -> None:
    machine.counts["throttled"] = 21
    throttled = limits.disturb(ThrottleCpu("node-0", 0.1))
    machine.container = "second"
    machine.counts["throttled"] = 0
    limits.node_started("node-0", "second")
    machine.counts["throttled"] = 5
    assert throttled.heal().count == 5


@dataclass
class Hog:
    """Takes memory until a test says how it ended."""

    client: object
    container: str
    operation: str
    ended: Callable[[Any], None]
    said: list[dict[str, int]] = field(default_factory=lambda: [{"pid": 7}])
    was_killed: bool = False
    problem: str = ""

    def end(self) -> None:
        pass


@pytest.fixture
def hogs(monkeypatch: pytest.MonkeyPatch) -> list[Hog]:
    hogs: list[Hog] = []

    def begin(client: object, container: str, operation: str, *, ended: Callable[[Any], None]) -> Hog:
        hogs.append(Hog(client, container, operation, ended))
        return hogs[-1]

    monkeypatch.setattr(module, "Background", begin)
    return hogs


def test_memory_is_exhausted_no_longer_when_the_kernel_has_ended_something(
    machine: Machine, limits: Limits, hogs: list[Hog]
) -> None:
    over: list[str] = []
    exhausted = limits.disturb(ExhaustMemory("node-0", lambda: over.append("node-0")))
    (hog,) = hogs
    assert (over, machine.limits["first"]["Memory"]) == ([], 666 * MIB)
    hog.said.append({"ended": 1})
    hog.ended(hog)
    assert (over, machine.limits["first"]) == (["node-0"], GIVEN)
    assert exhausted.heal().count == 1


def test_memory_that_cannot_be_exhausted_is_not_exhausted_any_more(machine: Machine, limits: Limits) -> None:
    over: list[str] = []
    machine.answers = False
    exhausted = limits.disturb(ExhaustMemory("node-0", lambda: over.append("node-0")))
    assert over == ["node-0"]
    assert exhausted.heal().count == 0


@pytest.mark.parametrize("died_of_it", [False, True])
def test_who_took_the_memory_is_no_proof_whatever_ends_the_container_later(
    machine: Machine, limits: Limits, hogs: list[Hog], died_of_it: bool
) -> None:
    def die() -> None:
        machine.answers = False
        machine.state |= {"Running": False, "OOMKilled": True}

    exhausted = limits.disturb(ExhaustMemory("node-0"))
    (hog,) = hogs
    hog.was_killed = True
    machine.counts["oom_kills"] = 1
    if died_of_it:
        die()
    hog.ended(hog)
    if not died_of_it:
        die()
    assert exhausted.heal().count == died_of_it
