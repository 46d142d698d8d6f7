"""What disturbances of packets do between the containers of a run, what proves that they did, and that they heal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from plain_containers import PlainContainers, plain_containers
from streamproof.harness.containers import labels
from streamproof.harness.embedded.disturbances import CutPackets, DropPackets, Pairs, ResetPackets
from streamproof.harness.errors import Unsupported

pytestmark = pytest.mark.docker

NODES = ("a", "b", "c", "d")
ALL = frozenset(itertools.permutations(NODES, 2))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainContainers]:
    with plain_containers(*NODES, scratch=tmp_path_factory.mktemp("scratch")) as nodes:
        yield nodes


def both_ways(*links: tuple[str, str]) -> Pairs:
    return tuple(pair for a, b in links for pair in ((a, b), (b, a)))


def rules(nodes: PlainContainers, node: str) -> str:
    return nodes.in_sidecar(node, "iptables-save")


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
def test_a_cut_stops_the_packets_of_its_pairs_and_no_others(nodes: PlainContainers, pairs: Pairs) -> None:
    cut = nodes.packets.disturb(CutPackets(pairs))
    arrived = nodes.send_all(10)
    proof = cut.heal()

    assert arrived == {pair: 0 if pair in pairs else 10 for pair in ALL}
    assert str(proof) == f"packets cut off: {10 * len(pairs)}"
    assert nodes.send_all(10) == dict.fromkeys(ALL, 10)
    assert not any("STREAMPROOF" in rules(nodes, node) for node in NODES)


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
    before = nodes.sidecars()
    nodes.start("b")
    assert nodes.send("a", "b", 20) == 0
    assert cut.heal().count == 50 + 20
    assert nodes.send("a", "b") == 50
    assert len(nodes.sidecars()) == len(before)


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


def test_who_was_not_started_cannot_be_disturbed(nodes: PlainContainers) -> None:
    with pytest.raises(Unsupported, match="and to e cannot be disturbed"):
        nodes.packets.disturb(CutPackets((("a", "e"),)))


def test_a_sidecar_may_change_its_network_and_nothing_else(nodes: PlainContainers) -> None:
    for sidecar in nodes.sidecars():
        host = sidecar.attrs["HostConfig"]
        assert (host["Privileged"], host["CapDrop"], host["CapAdd"]) == (False, ["ALL"], ["NET_ADMIN"])
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert sidecar.labels[labels.RUN] == nodes.run
