"""Limits of containers, by what an engine answers. No engine is needed."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import Mock

import pytest
from docker.errors import APIError

from streamproof.harness.core.errors import OwnFailure
from streamproof.harness.worlds.docker import limits as module
from streamproof.harness.worlds.docker.limits import Limits
from streamproof.harness.worlds.spark.control.disturbances import LimitMemory, ThrottleCpu

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
        self.api = self

    def run(self, client: object, container: str, operation: str) -> dict[str, int]:
        return {"in_use": self.in_use, "limited": 3, "throttled": 3}

    def inspect_container(self, container: str) -> dict[str, Any]:
        return {"HostConfig": dict(self.limits[container]), "State": {"Running": True}}

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
