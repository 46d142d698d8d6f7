"""The commands that disturb packets between containers, and what is read from what they print. No engine is needed."""

from __future__ import annotations

import pytest

from streamproof.harness.containers import rules
from streamproof.harness.containers.disturbing import Carriers
from streamproof.harness.embedded.disturbances import CutPackets, DropPackets, ResetPackets
from streamproof.harness.errors import Unsupported

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
    assert lines[-1] == "if iptables-save -t filter | grep -wF -e STREAMPROOF-3 >&2; then exit 1; fi"


def test_what_rules_have_counted_proves_them() -> None:
    made = rules.obstacle(CutPackets(PAIRS), 3, address)
    assert str(made.proof([LISTED, LISTED])) == "packets cut off: 246"
    assert made.proof(["\n".join(LISTED.splitlines()[:2])]).count == 0


def test_a_reset_is_for_tcp_and_a_loss_has_its_share() -> None:
    reset = rules.obstacle(ResetPackets(PAIRS), 1, address)
    assert "-s 10.201.7.10 -p tcp -j REJECT --reject-with tcp-reset" in reset.put_up["c"]
    some = rules.obstacle(DropPackets(PAIRS, 1e-5), 2, address)
    assert "-m statistic --mode random --probability 0.000010000 -j DROP" in some.put_up["c"]


def test_what_nobody_carries_is_refused() -> None:
    with pytest.raises(Unsupported, match="containers cannot carry out CutPackets"):
        Carriers(()).disturb(CutPackets(PAIRS))
