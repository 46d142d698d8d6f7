"""How a fault strikes the nodes of a real cluster, and how it ends: with nodes that only say what is asked of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from simulation import KINDS
from streamproof.faults.cpu_throttle import cpu_throttle
from streamproof.faults.crash import crash
from streamproof.faults.crash_loop import crash_loop
from streamproof.faults.executor_crash import executor_crash
from streamproof.faults.failed_write import failed_write
from streamproof.faults.flapping import flapping
from streamproof.faults.full_disk import full_disk
from streamproof.faults.isolate import isolate
from streamproof.faults.out_of_memory import out_of_memory
from streamproof.faults.partition import partition
from streamproof.faults.pause import pause
from streamproof.faults.stop import stop
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.injection import Link, Part
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.errors import OwnFailure, StreamproofError
from streamproof.harness.core.places import ANY_WORKER
from streamproof.harness.core.quantities import ms, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.recording.history import Bite, FaultHealed, Proof
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.worlds.spark.control.disturbances import (
    CutPackets,
    Disturbance,
    ExhaustMemory,
    FailStore,
    ThrottleCpu,
)
from streamproof.harness.worlds.spark.control.machines import ClusterMachines, Striking
from streamproof.harness.worlds.spark.control.run_messages import HEARTBEAT_LIMIT, Begun, NodeSeen
from streamproof.harness.worlds.spark.control.run_server import RunServer
from streamproof.harness.worlds.spark.schemes.deployment import SchemeDeployment
from streamproof.reference_impls.amnesia import amnesia
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

WORKERS = 4


class Kill:
    bit = True
    pids = (1,)
    proof = None


@dataclass(frozen=True)
class Stop:
    pids: tuple[int, ...]
    proof = Proof(1, "processes stopped")


class InForce:
    def __init__(self, nodes: StubNodes, disturbance: Disturbance) -> None:
        self._nodes = nodes
        self._disturbance = disturbance

    def heal(self) -> Proof:
        self._nodes.healing(self._disturbance)
        self._nodes.healed.append(self._disturbance)
        return Proof(1, "disturbed")


class StubNodes:
    """Notes what is done, and in which threads."""

    workers = WORKERS
    address = "127.0.0.1"

    def __init__(self) -> None:
        self.disturbed: list[Disturbance] = []
        self.healed: list[Disturbance] = []
        self.threads: list[str] = []
        self.resumed: list[tuple[int, ...]] = []
        self.lives = 0
        """Successors have other processes."""
        self.kills = 0
        self.killing: Callable[[], object] = lambda: None
        self.healing: Callable[[Disturbance], object] = lambda disturbance: None

    def nodes(self) -> Mapping[str, Any]:
        return dict.fromkeys([*(f"node-{number}" for number in range(WORKERS)), "master", "driver"])

    def disturb(self, disturbance: Disturbance) -> InForce:
        self.threads.append(threading.current_thread().name)
        self.disturbed.append(disturbance)
        return InForce(self, disturbance)

    def kill_node(self, name: str) -> Kill:
        self.kills += 1
        if self.kills > 1:
            self.killing()
        return Kill()

    terminate_node = kill_node

    def kill_part(self, name: str, part: Part) -> Kill:
        return Kill()

    def stop_node(self, name: str) -> Stop:
        return Stop((list(self.nodes()).index(name) + 100 * self.lives,))

    def resume(self, stop: Stop) -> None:
        self.resumed.append(stop.pids)

    def has_come_up(self, name: str) -> bool:
        return True


@contextmanager
def serving(nodes: StubNodes, *faults: Fault) -> Iterator[tuple[RunServer, MemoryRecorder]]:
    recorder = MemoryRecorder()

    def arm(striking: Striking) -> ClusterMachines:
        return ClusterMachines(nodes, {}, lambda: True, striking)  # type: ignore[arg-type]

    with RunServer(recorder, faults, KINDS, 1, arm, lambda record: None) as server:
        server.start_timers()
        yield server, recorder


def bites(recorder: MemoryRecorder) -> list[Bite]:
    return [struck.bite for struck in recorder.history().struck()]


def struck(recorder: MemoryRecorder) -> list[Bite]:
    return wait_until(lambda: bites(recorder), 5, "a fault to strike")


def ended(recorder: MemoryRecorder) -> list[FaultHealed]:
    return [entry for entry in recorder.history().timeline if isinstance(entry, FaultHealed)]


@pytest.mark.parametrize("seed", range(20))
def test_any_worker_is_one_worker_to_all_that_a_fault_does(seed: int) -> None:
    nodes = StubNodes()

    def machines() -> ClusterMachines:
        striking = Striking(True, lambda: None, Random(seed))
        return ClusterMachines(nodes, {}, lambda: True, striking)  # type: ignore[arg-type]

    refusing = machines()
    refusing.fail_writes([ANY_WORKER])
    (failing,) = nodes.disturbed
    assert failing == FailStore(*refusing.refusing)

    nodes.disturbed.clear()
    machines().cut([Link(ANY_WORKER, "master", one_way=True), Link(ANY_WORKER, "driver", one_way=True)])
    (cut,) = nodes.disturbed
    assert isinstance(cut, CutPackets)
    assert len({sender for sender, _ in cut.pairs}) == 1


@pytest.mark.parametrize(
    ("fault", "hit"),
    [
        (partition("driver", "node-0"), "driver node-0"),
        (flapping("driver", "node-0", every=seconds(9)), "driver node-0"),
        (isolate("node-1"), "driver master node-0 node-1 node-2 node-3"),
        (partition("node-0", "node-1"), "node-0 node-1"),
        (full_disk("node-1"), "driver master node-0 node-1 node-2 node-3"),
        (failed_write("node-1"), "node-1"),
        (stop("driver"), "driver"),
    ],
    ids=str,
)
def test_a_fault_is_known_to_have_hit_the_nodes_at_the_ends_of_what_it_disturbs(fault: Fault, hit: str) -> None:
    nodes = StubNodes()
    with serving(nodes, fault.after(ms(1))) as (server, recorder):
        struck(recorder)
        assert [node for node in sorted(nodes.nodes()) if server.disturbed_since(0, node)] == hit.split()


def test_who_has_not_begun_again_since_its_node_died_runs_nowhere(tmp_path: Path) -> None:
    """Its node's successor may have come up: to kill that kills nothing of it."""
    run = Run("run", Scenario(amnesia(trace()), numbered(events=10)), 1, MemoryRecorder(), KINDS, tmp_path)
    deployment = SchemeDeployment(run, StubNodes())  # type: ignore[arg-type]

    def crashed() -> Bite:
        (bite,) = deployment._arm(Striking(True, lambda: None, Random(1))).crash(["trace-0"])
        return bite

    assert crashed().node is None
    deployment._begun("node-1", Begun("trace-0", 0, 1, 0))
    assert crashed().node == "node-1"
    assert crashed().why_not == "trace-0 ran nowhere"
    deployment._begun("node-2", Begun("trace-0", 0, 2, 0))
    assert crashed().actors == ("trace-0",)


@pytest.mark.parametrize("strike", ["crash", "terminate", "pause"])
def test_a_fault_of_a_node_where_nothing_of_a_scheme_has_begun_gets_in_the_way_of_nothing(
    strike: str, tmp_path: Path
) -> None:
    run = Run("run", Scenario(amnesia(trace()), numbered(events=10)), 1, MemoryRecorder(), KINDS, tmp_path)
    deployment = SchemeDeployment(run, StubNodes())  # type: ignore[arg-type]

    def why_not(*targets: str) -> list[str]:
        machines = deployment._arm(Striking(True, lambda: None, Random(1)))
        bites = getattr(machines, strike)(targets)
        proofs: list[Any] = [heal() for _, heal in machines.lasting] or [bite.proof for bite in bites]
        return [replace(bite, proof=proof).why_not for bite, proof in zip(bites, proofs, strict=True)]

    nobody = "it got in the way of nothing (slices that had begun there: 0)"
    assert why_not("node-1") == [nobody]
    assert why_not("master") == [""]
    deployment._begun("node-1", Begun("trace-0", 0, 1, 5))
    deployment._begun("node-2", Begun("trace-1", 0, 1, 5))
    assert why_not("node-3") == [nobody]
    assert why_not("node-3", "node-1") == ["", ""]
    deployment._begun("node-1", Begun("trace-0", 0, 2, 6))
    # It is found to be lost, and may go on all the same: whoever is to be started again is started anywhere.
    deployment._heard(NodeSeen("node-1", up=False, when=7))
    assert why_not("node-1") == [""]
    assert why_not("node-3") == [""]


def test_a_node_that_has_come_up_anew_has_nothing_of_what_ran_there(tmp_path: Path) -> None:
    run = Run("run", Scenario(amnesia(trace()), numbered(events=10)), 1, MemoryRecorder(), KINDS, tmp_path)
    deployment = SchemeDeployment(run, StubNodes())  # type: ignore[arg-type]
    deployment._begun("node-1", Begun("trace-0", 0, 1, 5))
    deployment._heard(NodeSeen("node-1", up=True, when=4))
    assert deployment._may_run_on("node-1"), "what it began it has begun since"
    deployment._heard(NodeSeen("node-1", up=False, when=6))
    deployment._heard(NodeSeen("node-1", up=True, when=7))
    deployment._begun("node-2", Begun("trace-0", 0, 2, 8))
    assert not deployment._may_run_on("node-1")


def test_who_takes_long_to_die_was_held_at_the_address_all_the_same() -> None:
    """It beats while it is held, and is taken for lost by nobody."""

    class SlowToKill(StubNodes):
        def kill_node(self, name: str) -> Kill:
            time.sleep(HEARTBEAT_LIMIT + 0.1)
            return super().kill_node(name)

    address = Address("trace-0", 1, Point.RECEIVED, "source-0#1 @5", Side.AFTER)
    with serving(SlowToKill(), Fault("crash", ("node-0",)).at(Moment.exactly(address))) as (server, recorder):

        async def arrive() -> None:
            server.arrived(address, 5, exact=True)

        server.call(arrive())
        (bite,) = struck(recorder)
    assert bite.bit, bite.why_not


def test_the_failure_of_one_heal_leaves_no_other_target_disturbed() -> None:
    nodes = StubNodes()

    def fail(disturbance: Disturbance) -> None:
        if disturbance == ThrottleCpu("node-0", 0.5):
            raise OwnFailure("the limit stays")

    nodes.healing = fail
    with serving(nodes, cpu_throttle("node-0", "node-1", cores=0.5).after(ms(1))) as (server, recorder):
        struck(recorder)
        with pytest.raises(OwnFailure, match="the limit stays"):
            server.finish(lambda: True)
    assert nodes.healed == [ThrottleCpu("node-1", 0.5)]
    assert [healed.target for healed in ended(recorder)] == ["node-1"]


@pytest.mark.parametrize("error", [OwnFailure("no"), RuntimeError("no")], ids=repr)
def test_a_crash_loop_that_cannot_kill_ends_the_run(error: Exception) -> None:
    nodes = StubNodes()

    def fail() -> None:
        if nodes.kills > 2:
            raise error

    nodes.killing = fail
    with serving(nodes, crash_loop("node-0").after(ms(1))) as (server, recorder):
        wait_until(lambda: nodes.kills > 2, 5, "a kill that fails")
        with pytest.raises(OwnFailure, match="no"):
            server.missed()
    assert ended(recorder) == []


def test_a_flapping_link_of_nodes_is_cut_and_mended_beside_the_loop() -> None:
    nodes = StubNodes()
    with serving(nodes, flapping("node-0", "node-1", every=ms(5)).after(ms(1))) as (server, recorder):
        wait_until(lambda: len(nodes.disturbed) >= 3, 5, "three cuts")
        server.missed()
    assert nodes.healed == nodes.disturbed
    strike, *later = nodes.threads
    assert strike == "run server"
    assert "run server" not in later
    (healed,) = ended(recorder)
    assert str(healed.proof) == f"disturbed, in {len(later) + 1} cuts: {len(later) + 1}"


def test_a_link_that_could_not_be_cut_again_ends_the_run() -> None:
    nodes = StubNodes()

    def fail(disturbance: Disturbance) -> None:
        raise RuntimeError("no")

    nodes.healing = fail
    with serving(nodes, flapping("node-0", "node-1", every=ms(5)).after(ms(1))) as (server, recorder):
        struck(recorder)
        with pytest.raises(StreamproofError, match="the end of a fault failed: RuntimeError: no"):
            server.missed()


def test_memory_is_exhausted_of_each_node_until_the_kernel_has_ended_something_there() -> None:
    nodes = StubNodes()
    with serving(nodes, out_of_memory("node-0", "node-1").after(ms(1))) as (server, recorder):
        wait_until(lambda: len(bites(recorder)) == 2, 5, "both nodes to be struck")
        exhausted = next(one for one in nodes.disturbed if isinstance(one, ExhaustMemory) and one.node == "node-0")
        exhausted.over()
        wait_until(lambda: ended(recorder), 5, "the first to be over")
        assert [healed.target for healed in ended(recorder)] == ["node-0"]
        assert server.disturbed
        server.missed()
    assert [healed.target for healed in ended(recorder)] == ["node-0", "node-1"]


@pytest.mark.parametrize("ends", [crash, stop, crash_loop], ids=lambda ends: str(ends.__name__))
def test_a_pause_is_over_where_its_node_ends(ends: Callable[..., Fault]) -> None:
    nodes = StubNodes()
    faults = pause("node-0", "node-1").after(ms(1)), ends("node-0").after(ms(30))
    with serving(nodes, *faults) as (server, recorder):
        (healed,) = wait_until(lambda: [one for one in ended(recorder) if one.number == 0], 5, "the pause to be over")
        assert (healed.target, healed.proof.count) == ("node-0", 1)
        assert healed.stamp == next(one.stamp for one in recorder.history().struck() if one.number == 1)
        assert server.disturbed
        server.missed()
    assert [one.target for one in ended(recorder) if one.number == 0] == ["node-0", "node-1"]


def test_a_pause_goes_on_where_a_part_of_its_node_ends() -> None:
    """Whoever started that part is frozen all the same."""
    nodes = StubNodes()
    faults = pause("node-0").after(ms(1)), executor_crash("node-0").after(ms(20)), crash("node-1").after(ms(20))
    with serving(nodes, *faults) as (server, recorder):
        wait_until(lambda: len(bites(recorder)) == 3, 5, "all to strike")
        assert server.finish(lambda: True)
    kinds = [type(entry).__name__ for entry in recorder.history().timeline]
    assert kinds == ["FaultStruck", "FaultStruck", "FaultStruck", "FaultHealed"]
    assert nodes.resumed == [(0,)]


def test_a_node_that_two_freeze_goes_on_when_the_last_lets_it() -> None:
    nodes = StubNodes()
    with serving(nodes, *(pause("node-0", "node-1").after(ms(1)), pause("node-0").after(ms(2)))) as (server, recorder):
        wait_until(lambda: len(bites(recorder)) == 3, 5, "both to strike")
        server.call(server._heal(0, None))
        assert nodes.resumed == [(1,)]
        server.call(server._heal(1, None))
    assert nodes.resumed == [(1,), (0,), (0,)]
    assert [(one.number, one.target) for one in ended(recorder)] == [(0, "node-0"), (0, "node-1"), (1, "node-0")]


def test_who_froze_a_node_does_not_hold_its_successor() -> None:
    nodes = StubNodes()
    with serving(nodes, *(pause("node-0").after(ms(1)), pause("node-0").after(ms(500)))) as (server, recorder):
        struck(recorder)
        nodes.lives += 1
        wait_until(lambda: len(bites(recorder)) == 2, 5, "both to strike")
        server.call(server._heal(1, None))
        assert nodes.resumed == [(100,)]
        server.missed()
    assert nodes.resumed == [(100,), (0,)]
