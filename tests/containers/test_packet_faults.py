"""What disturbances of packets do between the containers of a run, what proves that they did, and that they heal."""

from __future__ import annotations

import itertools
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median

import pytest

from plain_containers import PlainContainers, plain_containers
from streamproof.harness.core.carriers import PACKET_RULES
from streamproof.harness.core.errors import DeadlinePassed, Unsupported
from streamproof.harness.core.quantities import ms, seconds
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.worlds.docker import labels
from streamproof.harness.worlds.docker.engine import connect
from streamproof.harness.worlds.docker.options import ContainerOptions
from streamproof.harness.worlds.docker.reaping import reap_containers
from streamproof.harness.worlds.docker.spark import SparkContainers
from streamproof.harness.worlds.spark.control.disturbances import (
    CutPackets,
    DelayPackets,
    DropPackets,
    NarrowPackets,
    NodePairs,
    ResetPackets,
)

pytestmark = pytest.mark.docker

NODES = ("a", "b", "c", "d")
ALL = frozenset(itertools.permutations(NODES, 2))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainContainers]:
    with plain_containers(*NODES, scratch=tmp_path_factory.mktemp("scratch")) as nodes:
        yield nodes


@pytest.fixture(autouse=True)
def nothing_left(nodes: PlainContainers) -> Iterator[None]:
    """Of no disturbance, once it has healed: neither rules nor programs nor classes, nor a sidecar without a node."""
    yield
    for left in nodes.in_sidecars("iptables-save; tc qdisc show dev eth0; cat /proc/[0-9]*/cmdline").values():
        assert "STREAMPROOF" not in left
        assert "qdisc noqueue" in left
        assert "/tmp/packet-delays" not in left
    assert len(nodes.sidecars()) == len(NODES)


def both_ways(*links: tuple[str, str]) -> NodePairs:
    return tuple(pair for a, b in links for pair in ((a, b), (b, a)))


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param((("a", "b"),), id="one-way"),
        pytest.param(both_ways(("a", "b")), id="full"),
        pytest.param(both_ways(("a", "b"), ("a", "c"), ("a", "d")), id="isolate"),
        pytest.param(both_ways(("a", "d"), ("b", "d")), id="bridge"),  # Only c sees both sides.
        pytest.param(both_ways(("a", "c"), ("b", "d")), id="ring"),  # Everybody sees two neighbours.
    ],
)
def test_a_cut_stops_the_packets_of_its_pairs_and_no_others(nodes: PlainContainers, pairs: NodePairs) -> None:
    cut = nodes.packets.disturb(CutPackets(pairs))
    arrived = nodes.send_all(10)
    proof = cut.heal()

    assert arrived == {pair: 0 if pair in pairs else 10 for pair in ALL}
    assert str(proof) == f"packets cut off: {10 * len(pairs)}"
    assert nodes.send_all(10) == dict.fromkeys(ALL, 10)


def test_a_cut_that_got_in_the_way_of_nothing_has_no_proof(nodes: PlainContainers) -> None:
    cut = nodes.packets.disturb(CutPackets((("a", "b"),)))
    assert nodes.send("b", "a") == 50
    assert cut.heal().count == 0


def test_a_connection_over_a_cut_link_gets_no_answer(nodes: PlainContainers) -> None:
    """Not even an error: what is lost is lost on the way."""
    cut = nodes.packets.disturb(CutPackets((("a", "b"),)))
    assert nodes.connect("a", "b") == nodes.connect("b", "a") == "TimeoutError"
    assert cut.heal().count > 0
    assert nodes.connect("a", "b") == nodes.connect("b", "a") == "open"


def test_a_reset_ends_connections_at_once(nodes: PlainContainers) -> None:
    with nodes.talking("a", "b") as talk, nodes.talking("a", "c") as bystander:
        reset = nodes.packets.disturb(ResetPackets((("a", "b"),)))
        assert nodes.connect("a", "b") == "ConnectionRefusedError"
        assert nodes.send("a", "b") == 50  # No TCP.
        assert talk.end() == "ConnectionResetError"
        proof = reset.heal()
        assert bystander.end() == "goes on"
    assert proof.count >= 2
    assert proof.what == "segments answered with a reset"
    assert nodes.connect("a", "b") == "open"
    # Its end at b may have heard of nothing. When b dies it tells a, whose answers count where that link is cut.
    nodes.kill("b")
    nodes.start("b")


def test_a_share_of_the_packets_is_dropped(nodes: PlainContainers) -> None:
    dropped = nodes.packets.disturb(DropPackets((("a", "b"),), 0.3))
    arrived, back = nodes.send("a", "b", 1000), nodes.send("b", "a")
    proof = dropped.heal()
    # Six standard deviations of a binomial distribution.
    assert 700 - 87 <= arrived <= 700 + 87
    assert (proof.count, proof.what) == (1000 - arrived, "packets dropped")
    assert back == nodes.send("a", "b") == 50


def test_disturbances_of_one_pair_overlap_and_heal_one_by_one(nodes: PlainContainers) -> None:
    first = nodes.packets.disturb(CutPackets((("a", "b"),)))
    second = nodes.packets.disturb(CutPackets((("a", "b"), ("c", "b"))))
    assert nodes.send("a", "b") == 0
    assert first.heal().count == 50
    assert nodes.send("a", "b") == nodes.send("c", "b") == 0
    assert second.heal().count == 100
    assert nodes.send("a", "b") == 50


def test_a_node_that_comes_back_is_still_disturbed_and_what_it_had_counted_is_kept(nodes: PlainContainers) -> None:
    cut = nodes.packets.disturb(CutPackets((("a", "b"),)))
    assert nodes.send("a", "b") == 0
    nodes.kill("b")
    nodes.start("b")
    assert nodes.send("a", "b", 20) == 0
    assert cut.heal().count == 50 + 20
    assert nodes.send("a", "b") == 50


def test_a_disturbance_of_a_node_that_is_down_waits_for_it(nodes: PlainContainers) -> None:
    nodes.kill("b")
    cut = nodes.packets.disturb(CutPackets(both_ways(("a", "b"))))
    nodes.start("b")
    assert nodes.send("a", "b") == nodes.send("b", "a") == 0
    assert cut.heal().count == 100


def test_healing_does_not_wait_for_a_node_that_is_down(nodes: PlainContainers) -> None:
    cut = nodes.packets.disturb(CutPackets(both_ways(("a", "b"))))
    assert nodes.send("a", "b") == 0
    nodes.kill("b")
    assert cut.heal().count == 50
    nodes.start("b")
    assert nodes.send("a", "b") == nodes.send("b", "a") == 50


def test_packets_of_one_direction_are_delayed(nodes: PlainContainers) -> None:
    quick = nodes.round_trips("a", "b")
    delay = nodes.packets.disturb(DelayPackets((("a", "b"),), ms(100), None, 1))
    with ThreadPoolExecutor() as pool:
        slow, back, bystander = pool.map(lambda link: nodes.round_trips(*link), [("a", "b"), ("b", "a"), ("a", "c")])
    proof = delay.heal()

    assert min(slow) >= 100
    assert min(back) >= 100  # Its answers, which a sends.
    assert median(slow) < 150 + max(bystander)
    assert max(map(min, (quick, bystander, nodes.round_trips("a", "b")))) < 100
    assert proof.count >= len(slow) + len(back)
    each = re.fullmatch(r"packets delayed, each by (\d+\.\d) ms", proof.what)
    assert each is not None
    # The ends of the connections go early where they are still held when it heals.
    assert 100 * (len(slow) + len(back)) / proof.count <= float(each[1]) < 150 + max(bystander)


def test_jitter_spreads_a_delay(nodes: PlainContainers) -> None:
    delay = nodes.packets.disturb(DelayPackets((("a", "b"),), ms(60), ms(40), 7))
    with ThreadPoolExecutor() as pool:
        trips, bystander = pool.map(lambda node: nodes.round_trips("a", node, 40), "bc")
    assert delay.heal().count >= 40
    assert 20 <= min(trips) < 45 + median(bystander)
    assert max(trips) > 75
    assert 45 < median(trips) < 85 + median(bystander)


def test_what_is_held_when_a_delay_heals_arrives(nodes: PlainContainers) -> None:
    delay = nodes.packets.disturb(DelayPackets((("a", "b"),), seconds(60), None, 1))
    before = nodes.arrived("a", "b")
    assert nodes.send("a", "b") == 0
    assert delay.heal().count == 50
    assert nodes.arrived("a", "b") - before == 50


def test_what_is_delayed_can_be_cut(nodes: PlainContainers) -> None:
    delay = nodes.packets.disturb(DelayPackets((("a", "b"),), ms(1), None, 1))
    cut = nodes.packets.disturb(CutPackets((("a", "b"),)))
    assert nodes.send("a", "b") == 0
    assert cut.heal().count == delay.heal().count == 50


def test_a_link_that_is_narrow_takes_its_time_and_loses_nothing(nodes: PlainContainers) -> None:
    quick = nodes.transfer("a", "b", 60_000)
    narrow = nodes.packets.disturb(NarrowPackets((("a", "b"), ("a", "c")), 60_000))
    with ThreadPoolExecutor() as pool:
        links = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "d")]
        slow, other, bystander, elsewhere = pool.map(lambda link: nodes.transfer(link[0], link[1], 60_000), links)
    proof = narrow.heal()

    assert min(slow, other) > 0.9
    assert max(slow, other) < 3 + bystander  # Each link has its own rate.
    assert max(quick, bystander, elsewhere) < min(slow, other)
    assert proof.count > 1_000, "ms, of both links"
    assert proof.what.startswith("ms that a link of 60,000 bytes/s takes for ")
    assert nodes.transfer("a", "b", 60_000) < min(slow, other)


def test_a_narrow_link_that_is_not_used_has_no_proof(nodes: PlainContainers) -> None:
    narrow = nodes.packets.disturb(NarrowPackets((("a", "b"),), 60_000))
    nodes.transfer("a", "c", 60_000)
    assert narrow.heal().count == 0


@pytest.mark.parametrize("again", [DelayPackets((("a", "b"),), ms(1), None, 1), NarrowPackets((("a", "b"),), 1_000)])
def test_a_link_is_not_delayed_or_narrow_twice_at_once(
    nodes: PlainContainers, again: DelayPackets | NarrowPackets
) -> None:
    first = nodes.packets.disturb(again)
    with pytest.raises(Unsupported, match=r"from a to b are .* already"):
        nodes.packets.disturb(again)
    first.heal()
    nodes.packets.disturb(again).heal()


LINK = both_ways(("a", "b"))


@pytest.mark.parametrize("kind", [DelayPackets(LINK, ms(80), None, 1), NarrowPackets(LINK, 60_000)])
def test_a_link_of_nodes_that_come_back_is_still_slow(
    nodes: PlainContainers, kind: DelayPackets | NarrowPackets
) -> None:
    slow = nodes.packets.disturb(kind)
    for node in ("a", "b"):
        nodes.kill(node)
        nodes.start(node)
    took = min(nodes.transfer("a", "b", 60_000) for _ in range(3))
    assert took > 0.15
    assert slow.heal().count > 0
    assert min(nodes.transfer("a", "b", 60_000) for _ in range(3)) < took / 2


def test_a_sidecar_may_change_its_network_and_nothing_else(nodes: PlainContainers) -> None:
    for sidecar in nodes.sidecars():
        host = sidecar.attrs["HostConfig"]
        assert (host["Privileged"], host["CapDrop"], host["CapAdd"]) == (False, ["ALL"], ["NET_ADMIN"])
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert sidecar.labels[labels.RUN] == nodes.run


PROGRAM = """
import sys, time
from pathlib import Path
from plain_containers import plain_containers
from streamproof.harness.worlds.spark.control.disturbances import CutPackets, DelayPackets
from streamproof.harness.core.quantities import ms
with plain_containers("a", "b", scratch=Path(sys.argv[1])) as nodes:
    nodes.packets.disturb(CutPackets((("a", "b"),)))
    nodes.packets.disturb(DelayPackets((("b", "a"),), ms(50), None, 1))
    nodes.kill("b")
    print(nodes.run, flush=True)
    time.sleep(600)
"""


def test_nothing_survives_kill_9_of_the_harness_once_it_is_reaped(tmp_path: Path) -> None:
    """Not even a sidecar in the network of a container that has ended."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        run = harness.stdout.readline().strip()
        harness.kill()
    with closing(connect()) as engine:
        label = {"label": f"{labels.RUN}={run}"}
        assert len(engine.containers.list(all=True, filters=label, sparse=True)) == 4
        reap_containers(engine)
        assert engine.containers.list(all=True, filters=label, sparse=True) == engine.networks.list(filters=label) == []


def test_a_worker_that_comes_back_while_it_is_cut_off_registers_when_that_has_healed(tmp_path: Path) -> None:
    options = ContainerOptions(workers=1, restart_worker_after=0.1)
    run = f"cut-{secrets.token_hex(4)}"
    with SparkContainers(run, tmp_path / "run", options, frozenset({PACKET_RULES})) as cluster:
        cut = cluster.disturb(CutPackets(both_ways(("master", "node-0"))))
        assert cluster.kill_node("node-0").bit
        wait_until(lambda: cluster.nodes()["node-0"].incarnation == 2, 20, "its successor")
        log = cluster.nodes()["node-0"].log

        def says(text: str) -> bool:
            return log.is_file() and text in log.read_text()

        wait_until(lambda: says("Connecting to master"), 60, "the worker to look for its master")
        # Its first segments go out at 0, 1 and 3 s: what is cut off is sent, and sent again.
        with pytest.raises(DeadlinePassed):
            wait_until(lambda: says("Successfully registered"), 3, "a worker that is cut off to register")
        assert cut.heal().count > 0
        wait_until(lambda: says("Successfully registered"), 30, "the worker to register")
    assert not Path(tmp_path / "run" / "scratch").exists()


def test_a_cluster_that_was_not_told_of_packet_faults_has_no_sidecars_and_carries_none_out(tmp_path: Path) -> None:
    run = f"plain-{secrets.token_hex(4)}"
    with SparkContainers(run, tmp_path / "run", ContainerOptions(workers=1)) as cluster, closing(connect()) as engine:
        assert len(engine.containers.list(filters={"label": f"{labels.RUN}={run}"})) == 2
        with pytest.raises(Unsupported, match="made ready"):
            cluster.disturb(CutPackets((("node-0", "master"),)))
