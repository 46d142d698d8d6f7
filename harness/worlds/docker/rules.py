"""Packets between nodes that are cut off, refused or dropped, by rules of the receiver's packet filter.

They are dropped where they come in: where they go out, the sender would see an error. A disturbance has a chain of its
own, so that healing removes its rules and nothing else. The counters of the rules prove what they got in the way of.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...recording.history import Proof
from ..spark.control.disturbances import CutPackets, DropPackets, ResetPackets
from .obstacles import AddressOf, Obstacle, by_receiver

Ruled = CutPackets | ResetPackets | DropPackets


def obstacle(disturbance: Ruled, number: int, address: AddressOf) -> Obstacle:
    """`number` sets it apart from all others of the run."""
    chain = f"STREAMPROOF-{number}"
    verdict, what = _verdict(disturbance)
    senders = by_receiver(disturbance.pairs)
    rules = {node: [f"-s {address(sender)} {verdict}" for sender in sent] for node, sent in senders.items()}
    return Obstacle(
        {node: add_chain("filter", chain, those) for node, those in rules.items()},
        dict.fromkeys(rules, remove_chain("filter", chain)),
        lambda said: Proof(sum(map(packets_counted, said)), what),
    )


def _verdict(disturbance: Ruled) -> tuple[str, str]:
    """What a rule does, and what its counter has counted."""
    match disturbance:
        case CutPackets():
            return "-j DROP", "packets cut off"
        case ResetPackets():
            return "-p tcp -j REJECT --reject-with tcp-reset", "segments answered with a reset"
        case DropPackets(share=share):
            # Which ones is for the kernel to draw: its generator takes no seed.
            return f"-m statistic --mode random --probability {share:.9f} -j DROP", "packets dropped"


def add_chain(table: str, chain: str, rules: Iterable[str]) -> str:
    """Commands that add a chain to what passes INPUT: all rules at once."""
    return _restore(table, f":{chain} - [0:0]", *(f"-A {chain} {rule}" for rule in rules), f"-A INPUT -j {chain}")


def remove_chain(table: str, chain: str) -> str:
    """Commands that list a chain with its counters, remove it, and fail if it is still there."""
    removal = _restore(table, f"-D INPUT -j {chain}", f"-F {chain}", f"-X {chain}")
    return "\n".join(
        (
            f"iptables -t {table} -nvxL {chain}",
            removal,
            f"left=$(iptables-save -t {table})",  # Apart: a pipe would hide that it failed.
            f'if echo "$left" | grep -wF -e {chain} >&2; then exit 1; fi',
        )
    )


def _restore(table: str, *lines: str) -> str:
    return "\n".join(("iptables-restore --noflush <<END", f"*{table}", *lines, "COMMIT", "END"))


def packets_counted(listed: str) -> int:
    """By all rules of a chain that `iptables -nvxL` has listed."""
    rules = listed.splitlines()[2:]
    return sum(int(rule.split()[0]) for rule in rules if rule.strip())
