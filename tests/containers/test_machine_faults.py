"""CPU and memory of containers: what a limit does, what proves it, and that it is lifted again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bare_nodes import BareNodes, bare_nodes
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.worlds.docker.executing import run_inside
from streamproof.harness.worlds.docker.limits import Limits

pytestmark = pytest.mark.docker

SPIN = ["python3", "-c", "while True: pass"]
MIB = 1 << 20


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[BareNodes]:
    with bare_nodes(tmp_path) as started:
        yield started


@pytest.fixture
def limits(nodes: BareNodes) -> Limits:
    return Limits(nodes.client, nodes.of)


def holding(mebibytes: int) -> list[str]:
    """Holds so much memory, in a process that is not the first."""
    hold = f"python3 -c 'import time; held = b\"1\" * ({mebibytes} << 20); print(1, flush=True); time.sleep(600)'"
    return ["sh", "-c", f"{hold} & sleep 600"]


def await_use(nodes: BareNodes, node: str, mebibytes: int) -> None:
    wait_until(lambda: counted(nodes, node, "in_use") > mebibytes * MIB, 10, f"{node} to hold {mebibytes} MiB")


def counted(nodes: BareNodes, node: str, counter: str) -> int:
    """By the kernel."""
    found = run_inside(nodes.client, nodes.of(node), "count")
    assert found is not None
    return int(found[counter])


def holds(nodes: BareNodes, node: str) -> bool:
    """Whether the process that holds memory is there."""
    return any(command.startswith("python3 -c import time; held") for command in nodes.commands(node))


def granted(nodes: BareNodes, node: str) -> tuple[int, int]:
    host = nodes.client.api.inspect_container(nodes.of(node))["HostConfig"]
    return host["CpuQuota"], host["Memory"]


def cpu_seconds(nodes: BareNodes, node: str) -> float:
    stats = nodes.client.api.stats(nodes.of(node), stream=False, one_shot=True)
    return float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9


def cores_used(nodes: BareNodes, node: str, seconds: float = 1.5) -> float:
    before, began = cpu_seconds(nodes, node), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(nodes, node) - before) / (time.monotonic() - began)


def test_a_throttled_node_gets_no_more_than_its_share_until_it_heals(nodes: BareNodes, limits: Limits) -> None:
    nodes.start("node-0", SPIN)
    throttled = limits.throttle_cpu("node-0", cores=0.1)
    assert cores_used(nodes, "node-0") < 0.2

    proof = throttled.heal()
    assert proof.count >= 5, "of the periods of 100 ms"
    assert proof.what == "periods of 100 ms without CPU"
    assert granted(nodes, "node-0") == (200_000, 256 * MIB)
    before = counted(nodes, "node-0", "throttled")
    assert cores_used(nodes, "node-0") > 0, "it runs, and is not held back"
    assert counted(nodes, "node-0", "throttled") == before


def test_a_throttle_that_nobody_felt_is_no_proof(nodes: BareNodes, limits: Limits) -> None:
    nodes.start("node-0", ["sleep", "600"])
    assert limits.throttle_cpu("node-0", cores=1.0).heal().count == 0


def test_a_node_that_comes_back_is_throttled_too(nodes: BareNodes, limits: Limits) -> None:
    nodes.start("node-0", SPIN)
    throttled = limits.throttle_cpu("node-0", cores=0.1)
    nodes.kill("node-0")
    nodes.start("node-0", SPIN)
    limits.node_started("node-0", nodes.of("node-0"))
    assert granted(nodes, "node-0") == (10_000, 256 * MIB)
    assert cores_used(nodes, "node-0") < 0.2
    assert throttled.heal().count > 0
    assert granted(nodes, "node-0") == (200_000, 256 * MIB)


def test_of_two_throttles_the_tighter_one_counts_whichever_heals_first(nodes: BareNodes, limits: Limits) -> None:
    nodes.start("node-0", SPIN)
    wide, tight = limits.throttle_cpu("node-0", cores=1), limits.throttle_cpu("node-0", cores=0.2)
    assert granted(nodes, "node-0")[0] == 20_000
    wide.heal()
    assert granted(nodes, "node-0")[0] == 20_000
    tight.heal()
    assert granted(nodes, "node-0")[0] == 200_000


def test_a_memory_limit_makes_the_kernel_take_memory_back(nodes: BareNodes, limits: Limits) -> None:
    nodes.start("node-0", holding(40))
    await_use(nodes, "node-0", 40)
    limited = limits.limit_memory("node-0", 80 * MIB)
    fill_the_cache = ["sh", "-c", "head -c 120000000 /dev/zero > /tmp/file && cat /tmp/file /tmp/file > /dev/null"]
    made = nodes.client.api.exec_create(nodes.of("node-0"), fill_the_cache)
    nodes.client.api.exec_start(made["Id"])

    proof = limited.heal()
    assert proof.count > 0
    assert proof.what == "times that memory ran short, with 80 MiB of it"
    assert granted(nodes, "node-0") == (200_000, 256 * MIB)
    assert holds(nodes, "node-0"), "nothing was ended"


def test_a_memory_limit_below_what_is_in_use_leaves_that_and_ends_nothing(nodes: BareNodes, limits: Limits) -> None:
    nodes.start("node-0", holding(60))
    await_use(nodes, "node-0", 60)
    limited = limits.limit_memory("node-0", 20 * MIB)
    memory = granted(nodes, "node-0")[1]
    assert 60 * MIB < memory < 256 * MIB
    proof = limited.heal()
    assert proof.what == f"times that memory ran short, with {memory // MIB} MiB of it"
    assert granted(nodes, "node-0") == (200_000, 256 * MIB)
    assert holds(nodes, "node-0"), "nothing was ended"


def test_a_node_out_of_memory_loses_a_process_to_the_kernel(nodes: BareNodes, limits: Limits) -> None:
    nodes.start("node-0", holding(60))
    await_use(nodes, "node-0", 60)
    exhausted = limits.exhaust_memory("node-0")
    wait_until(lambda: not holds(nodes, "node-0"), 10, "the large process to be ended")
    proof = exhausted.heal()
    assert (proof.count, proof.what) == (1, "processes ended for want of memory")
    assert granted(nodes, "node-0") == (200_000, 256 * MIB)
    wait_until(lambda: not any("hog" in command for command in nodes.commands("node-0")), 10, "our process to be gone")


def test_a_node_that_dies_of_it_altogether_is_proof_too(nodes: BareNodes, limits: Limits) -> None:
    hold = "import time; held = b'1' * (60 << 20); time.sleep(600)"
    nodes.start("node-0", ["python3", "-c", hold])
    await_use(nodes, "node-0", 60)
    exhausted = limits.exhaust_memory("node-0")
    assert nodes.client.api.wait(nodes.of("node-0"))["StatusCode"] == 137
    assert exhausted.heal().count == 1


def test_a_limit_is_lifted_from_a_node_that_ends_before_the_engine_hears_of_it(
    nodes: BareNodes, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.start("node-0", SPIN)
    throttled = limits.throttle_cpu("node-0", cores=0.5)
    first_process = nodes.client.api.inspect_container(nodes.of("node-0"))["State"]["Pid"]
    update = nodes.client.api.update_container

    def end_first(*args: object, **limits: object) -> object:
        if psutil.pid_exists(first_process):
            os.kill(first_process, signal.SIGKILL)
        return update(*args, **limits)

    monkeypatch.setattr(nodes.client.api, "update_container", end_first)
    throttled.heal()
    assert granted(nodes, "node-0") == (200_000, 256 * MIB)


def test_what_does_not_run_cannot_be_hit(nodes: BareNodes, limits: Limits) -> None:
    nodes.start("node-0", SPIN)
    nodes.kill("node-0")
    for in_force in (limits.throttle_cpu("node-0", 0.1), limits.exhaust_memory("node-0")):
        assert in_force.heal().count == 0
