"""The commands that disturb packets between containers, and what is read from what they print. No engine is needed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from streamproof.harness.core.carriers import PACKET_QUEUE, PACKET_RULES
from streamproof.harness.core.errors import OwnFailure, Unsupported
from streamproof.harness.core.quantities import ms
from streamproof.harness.worlds.docker import delaying, rules, shaping
from streamproof.harness.worlds.docker.disturbing import Disturbers
from streamproof.harness.worlds.docker.packets import PacketCarrier
from streamproof.harness.worlds.docker.sidecars import Sidecars, python, sources
from streamproof.harness.worlds.spark.control.disturbances import (
    CutPackets,
    DelayPackets,
    DropPackets,
    NarrowPackets,
    ResetPackets,
)

PAIRS = (("a", "c"), ("b", "c"), ("c", "a"), ("a", "c"))
LISTED = """\
Chain STREAMPROOF-3 (1 references)
    pkts      bytes target     prot opt in     out     source               destination
     120     3480 DROP       0    --  *      *       10.201.7.11          0.0.0.0/0
       3      174 DROP       0    --  *      *       10.201.7.12          0.0.0.0/0
"""


def address(node: str) -> str:
    return f"10.201.7.1{'abc'.index(node)}"


def test_packets_are_dropped_where_they_come_in_by_a_chain_of_their_own() -> None:
    made = rules.obstacle(CutPackets(PAIRS), 3, address)
    assert made.put_up.keys() == made.take_down.keys() == {"a", "c"}
    assert made.put_up["c"].splitlines() == [
        "iptables-restore --noflush <<END",
        "*filter",
        ":STREAMPROOF-3 - [0:0]",
        "-A STREAMPROOF-3 -s 10.201.7.10 -j DROP",
        "-A STREAMPROOF-3 -s 10.201.7.11 -j DROP",
        "-A INPUT -j STREAMPROOF-3",
        "COMMIT",
        "END",
    ]
    assert "-s 10.201.7.12 -j DROP" in made.put_up["a"]


def test_a_chain_is_listed_then_removed_then_looked_for() -> None:
    lines = rules.obstacle(CutPackets(PAIRS), 3, address).take_down["c"].splitlines()
    assert lines[0] == "iptables -t filter -nvxL STREAMPROOF-3"
    assert lines[3:6] == ["-D INPUT -j STREAMPROOF-3", "-F STREAMPROOF-3", "-X STREAMPROOF-3"]
    assert lines[-2:] == [
        "left=$(iptables-save -t filter)",
        'if echo "$left" | grep -wF -e STREAMPROOF-3 >&2; then exit 1; fi',
    ]


def test_what_rules_have_counted_proves_them() -> None:
    made = rules.obstacle(CutPackets(PAIRS), 3, address)
    assert str(made.proof([LISTED, LISTED])) == "packets cut off: 246"
    assert made.proof(["\n".join(LISTED.splitlines()[:2])]).count == 0


def test_a_reset_is_for_tcp_and_a_loss_has_its_share() -> None:
    reset = rules.obstacle(ResetPackets(PAIRS), 1, address)
    assert "-s 10.201.7.10 -p tcp -j REJECT --reject-with tcp-reset" in reset.put_up["c"]
    some = rules.obstacle(DropPackets(PAIRS, 1e-5), 2, address)
    assert "-m statistic --mode random --probability 0.000010000 -j DROP" in some.put_up["c"]


def test_delays_stand_before_all_rules_that_drop_and_each_pair_has_its_seed() -> None:
    made = delaying.obstacle(DelayPackets(PAIRS, ms(50), ms(5), 9), 3, address)
    program, *table = made.put_up["c"].splitlines()
    assert program == (
        'python3 -I -S -c "$STREAMPROOF_PACKET_DELAYS" 3 50000 5000 /tmp/packet-delays-3 '
        "10.201.7.10=9:a:c 10.201.7.11=9:b:c"
    )
    assert table[1] == "*mangle"
    assert "-A STREAMPROOF-3 -s 10.201.7.11 -j NFQUEUE --queue-num 3 --queue-bypass" in table
    without_jitter = delaying.obstacle(DelayPackets(PAIRS, ms(50), None, 9), 3, address)
    assert '_DELAYS" 3 50000 0 ' in without_jitter.put_up["c"]


def test_what_was_held_proves_a_delay() -> None:
    made = delaying.obstacle(DelayPackets(PAIRS, ms(50), None, 9), 3, address)
    assert str(made.proof([f"{LISTED}3 151500\n", f"{LISTED}1 50500\n"])) == "packets delayed, each by 50.5 ms: 4"
    assert str(made.proof([f"{LISTED}0 0\n"])) == "packets delayed: 0"


def test_a_narrow_link_is_shaped_where_its_packets_go_out() -> None:
    made = shaping.obstacle(NarrowPackets(PAIRS, 1_000_000), 3, address)
    assert made.put_up.keys() == made.take_down.keys() == {"a", "b", "c"}
    assert made.put_up["a"].splitlines()[1:] == [
        "tc qdisc show dev eth0 root | grep -q '^qdisc htb 1:' || tc qdisc add dev eth0 root handle 1: htb",
        "tc class add dev eth0 parent 1: classid 1:61 htb rate 1000000bps burst 1000 cburst 1000 quantum 1600",
        "tc qdisc add dev eth0 parent 1:61 tbf rate 10gbit burst 1600 limit 16mb",
        "tc filter add dev eth0 parent 1: protocol ip prio 97 u32 match ip dst 10.201.7.12/32 flowid 1:61",
    ]


def test_classes_have_numbers_that_the_kernel_knows() -> None:
    pairs = tuple(("a", receiver) for receiver in "bcdefgh")
    for number in (1, 2047, 2048, 70_000):
        named = re.findall(r"prio (\d+)", shaping.obstacle(NarrowPackets(pairs, 1), number, str).put_up["a"])
        assert len(set(named)) == len(pairs)
        assert all(0 < int(name) < 1 << 16 for name in named)


def listed(sent: int, backlog: str) -> str:
    return (
        "class htb 1:41 root prio 0 rate 160Kbit ceil 160Kbit burst 1600b cburst 1600b \n"
        f" Sent {sent} bytes 44 pkt (dropped 0, overlimits 7 requeues 0) \n backlog {backlog} 3p requeues 0\n"
    )


def test_what_came_to_a_narrow_link_and_what_waits_there_proves_it() -> None:
    made = shaping.obstacle(NarrowPackets(PAIRS, 20_000), 3, address)
    proof = made.proof([listed(62_048, "0b") + listed(0, "22Kb"), "", listed(42_000, "48b")])
    assert proof.what == (
        "ms that a link of 20,000 bytes/s takes for 122,016 of the 126,624 bytes that came to it, as idle nodes may "
        "send the others"
    )
    assert proof.count == 6_100


def test_the_heartbeats_of_a_quiet_link_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(shaping.time, "monotonic", lambda: now)
    one, long = (shaping.obstacle(NarrowPackets(PAIRS, 1_000), number, address) for number in (3, 4))
    assert one.proof([listed(1_200, "300b")]).count == 0
    now = 160.0
    assert long.proof([listed(60 * 1_500, "0b")]).count == 0
    assert long.proof([listed(60 * 1_500 + 60_000, "0b")]).count > 0
    wide = shaping.obstacle(NarrowPackets(PAIRS, 1_000_000_000), 5, address)
    assert wide.proof([listed(60_000, "0b")]).count == 0, "nobody waits for less than a millisecond"


class Recording(Sidecars):
    """Sidecars that keep what they are told."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []
        self.ended: set[str] = set()
        self.unreached: set[str] = set()
        self.when_probed: Callable[[], None] = lambda: None

    def start(self, container: str) -> str:
        return f"beside {container}"

    def run(self, sidecar: str, commands: str, heard: bool = True) -> str:
        self.ran.append((sidecar, commands))
        if "_PROBE" in commands:
            self.when_probed()
            return "\n".join(set(commands.split()[6:]) - self.unreached)
        return LISTED if "-nvxL" in commands else ""

    def remove(self, sidecar: str) -> None:
        self.ran.append((sidecar, "removed"))

    def runs(self, container: str) -> bool:
        return container not in self.ended

    def ran_in(self, sidecar: str) -> list[str]:
        """What was done there, in short."""
        signs = {"_PROBE": "probe", "-nvxL": "down", ":STREAMPROOF": "up", "removed": "removed"}
        return [next(signs[sign] for sign in signs if sign in ran) for where, ran in self.ran if where == sidecar]


def started(*nodes: str) -> tuple[Recording, PacketCarrier]:
    sidecars = Recording()
    carrier = PacketCarrier(sidecars, address, ())
    for node in nodes:
        carrier.node_started(node, f"{node}-1")
    return sidecars, carrier


def test_what_is_in_force_goes_along_with_a_node_and_keeps_its_count() -> None:
    sidecars, carrier = started("a", "c")
    cut = carrier.disturb(CutPackets((("a", "c"),)))
    carrier.node_started("c", "c-2")
    assert cut.heal().count == 2 * 123
    assert sidecars.ran_in("beside c-1") == ["up", "down", "removed"]
    assert sidecars.ran_in("beside c-2") == ["up", "down"]
    assert sidecars.ran_in("beside a-1") == ["probe"]
    carrier.node_started("c", "c-3")
    assert sidecars.ran_in("beside c-3") == []


def test_an_isolated_node_is_cut_off_from_nodes_that_are_new_too() -> None:
    sidecars, carrier = started("a", "b")
    cut = carrier.disturb(CutPackets((("a", "b"), ("b", "a")), isolated=("a",)))
    carrier.node_started("c", "c-1")
    carrier.node_started("c", "c-2")
    carrier.node_started("b", "b-2")
    assert sidecars.ran_in("beside a-1") == ["up", "up"]
    assert sidecars.ran_in("beside c-2") == ["up"]
    assert cut.heal().count == (2 + 1 + 1 + 2) * 123, "at a twice, at both of b and of c"
    for node in ("a-1", "c-2"):
        assert "down" in sidecars.ran_in(f"beside {node}")
    before = len(sidecars.ran_in("beside a-1"))
    carrier.node_started("c", "c-3")
    assert sidecars.ran_in("beside c-3") == []
    assert len(sidecars.ran_in("beside a-1")) == before


def test_a_node_that_was_never_started_is_disturbed_from_its_start() -> None:
    sidecars, carrier = started("a")
    cut = carrier.disturb(CutPackets((("a", "c"),)))
    assert sidecars.ran == []
    carrier.node_started("c", "c-1")
    assert sidecars.ran_in("beside c-1") == ["up"]
    assert cut.heal().count == 123


def test_packets_that_do_not_get_through_after_a_disturbance_are_our_failure() -> None:
    sidecars, carrier = started("a", "b", "c")
    cut = carrier.disturb(CutPackets(PAIRS))
    sidecars.unreached = {address("c")}
    with pytest.raises(OwnFailure, match=r"packets from . to c \(10\.201\.7\.12\) do not get through"):
        cut.heal()


def test_nodes_that_have_ended_or_are_disturbed_by_something_else_are_not_probed() -> None:
    sidecars, carrier = started("a", "b", "c")
    sidecars.unreached = {address("c")}
    sidecars.ended = {"b-1"}
    cut, other = carrier.disturb(CutPackets(PAIRS)), carrier.disturb(DropPackets((("c", "a"),), 0.5))
    cut.heal()
    assert "probe" not in sidecars.ran_in("beside a-1") + sidecars.ran_in("beside b-1")
    sidecars.unreached = {address("a")}
    with pytest.raises(OwnFailure, match="packets from c to a"):
        other.heal()


def test_a_probe_whose_sender_is_replaced_meanwhile_is_left_out() -> None:
    sidecars, carrier = started("a", "c")
    cut = carrier.disturb(CutPackets((("a", "c"),)))

    def fail() -> None:
        raise OwnFailure("in sidecar 'beside a-1' commands failed with status 137")

    def restart() -> None:
        carrier.node_started("a", "a-2")
        fail()

    sidecars.when_probed = restart
    assert cut.heal().count == 123
    sidecars.when_probed = fail
    with pytest.raises(OwnFailure, match="status 137"):
        carrier.disturb(CutPackets((("a", "c"),))).heal()


def test_what_runs_in_a_sidecar_needs_no_file_of_ours() -> None:
    said = subprocess.run(
        ["/bin/sh", "-ec", python("probe", 3, "127.0.0.1")],
        env={"PATH": "/usr/bin:/bin", **sources()},
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert said.stdout == "127.0.0.1\n"


def test_what_the_kernel_cannot_do_is_refused_when_the_first_node_starts() -> None:
    class Lacking(Recording):
        def run(self, sidecar: str, commands: str, heard: bool = True) -> str:
            if "NFQUEUE" in commands:
                raise OwnFailure("Extension NFQUEUE revision 0 not supported, missing kernel module?")
            return super().run(sidecar, commands, heard)

    with pytest.raises(Unsupported, match=r"packets cannot be disturbed on this machine.*NFQUEUE"):
        PacketCarrier(Lacking(), address, (PACKET_RULES, PACKET_QUEUE)).node_started("a", "a-1")
    sidecars = Lacking()
    carrier = PacketCarrier(sidecars, address, (PACKET_RULES,))
    for node in "ab":
        carrier.node_started(node, f"{node}-1")
    ((_, tried),) = sidecars.ran
    assert all(sign in tried for sign in ("-j DROP", "-j REJECT", "-m statistic"))
    assert tried.count("iptables -t filter -nvxL") == 3


def test_what_nobody_carries_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"nothing in this run of containers was made ready.*CutPackets"):
        Disturbers(()).disturb(CutPackets(PAIRS))
