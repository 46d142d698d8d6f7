"""A link between nodes that is narrow: the kernel's traffic control holds back what its sender sends too fast.

Only what goes out can be shaped. Each pair has a class of its own (tc-htb(8)), to which a filter on the receiver's
address leads; all else passes by. Nothing is dropped: what waits takes as much room as it needs.

The kernel counts no waits: `overlimits` of a class counts packets that were longer than what may go out at once, also
where none was behind them. What proves a narrow link is how long it took for what came to it, beyond what nodes say to
each other that have nothing to do.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from ...recording.history import Proof
from ..spark.control.disturbances import NarrowPackets
from .obstacles import AddressOf, Obstacle, by_sender

_DEVICE = "eth0"
_PACKET = 1600
"""Bytes. No less than one packet with its frame."""
_ROOM = "16mb"
_WIDE = "10gbit"
_IDLE = 1536
"""Bytes a second: as much a link between idle nodes may carry, each way, which beat once a second at most, with what
answers that. An executor and its driver were seen to send each other 1,600 in all, and that was not only idle talk."""
_DRAINED = 100
"""How often it is looked, every 20 ms, whether what has waited is gone, before it is dropped."""


def obstacle(disturbance: NarrowPackets, number: int, address: AddressOf) -> Obstacle:
    """`number` sets it apart from all others of the run."""
    links = {
        sender: [(_class(number, place), address(receiver)) for place, receiver in enumerate(receivers)]
        for sender, receivers in by_sender(disturbance.pairs).items()
    }
    began = time.monotonic()
    return Obstacle(
        {sender: _put_up(those, disturbance.rate) for sender, those in links.items()},
        {sender: _take_down([name for name, _ in those]) for sender, those in links.items()},
        lambda said: _proof(said, disturbance.rate, time.monotonic() - began),
    )


def _proof(said: Sequence[str], rate: int, seconds: float) -> Proof:
    came = [count for listed in said for count in bytes_that_came(listed)]
    idle = round(_IDLE * max(1.0, seconds))
    held = sum(max(0, count - idle) for count in came)
    what = f"ms that a link of {rate:,} bytes/s takes for {held:,} of the {sum(came):,} bytes that came to it"
    return Proof(held * 1000 // rate, f"{what}, as idle nodes may send the others")


def bytes_that_came(listed: str) -> list[int]:
    """To each class that `tc -s class show` has listed: what it has passed on, and what waits there."""
    passed = map(int, re.findall(r"\bSent (\d+) bytes", listed))
    waits = (float(size) * _UNITS[unit] for size, unit in re.findall(r"\bbacklog ([\d.]+)([KM]?)b", listed))
    return [sent + round(waiting) for sent, waiting in zip(passed, waits, strict=True)]


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}
"""Of what tc prints."""


def _class(number: int, place: int) -> int:
    """Minor number of a class: 16 bits, and not 0."""
    return 1 + (number << 5 | place) % 0xFFFE


def _put_up(links: Sequence[tuple[int, str]], rate: int) -> str:
    lines = [
        f"tc qdisc show dev {_DEVICE} root | grep -q '^qdisc htb 1:' || tc qdisc add dev {_DEVICE} root handle 1: htb"
    ]
    # As on a real link, a packet waits until the one before it has passed: no more is sent at once than in 1 ms.
    at_once = max(1, rate // 1000)
    shape = f"htb rate {rate}bps burst {at_once} cburst {at_once} quantum {_PACKET}"
    for name, address in links:
        lines += [
            f"tc class add dev {_DEVICE} parent 1: classid 1:{name:x} {shape}",
            # Takes large segments apart into packets, each of which the class can hold back: tc-tbf(8).
            f"tc qdisc add dev {_DEVICE} parent 1:{name:x} tbf rate {_WIDE} burst {_PACKET} limit {_ROOM}",
            f"tc filter add dev {_DEVICE} parent 1: protocol ip prio {name} u32 match ip dst {address}/32 "
            f"flowid 1:{name:x}",
        ]
    return _where_there_is_a_device(lines)


def _take_down(names: Sequence[int]) -> str:
    lines = []
    for name in names:
        listed = f"tc -s class show dev {_DEVICE} classid 1:{name:x}"
        lines += [
            listed,
            f"tc class change dev {_DEVICE} parent 1: classid 1:{name:x} htb rate {_WIDE} quantum {_PACKET}",
            f"for i in $(seq {_DRAINED}); do {listed} | grep -q 'backlog 0b' && break; sleep 0.02; done",
            f"tc filter del dev {_DEVICE} parent 1: prio {name}",
            f"tc class del dev {_DEVICE} classid 1:{name:x}",
            f"left=$(tc class show dev {_DEVICE})",  # Apart: a pipe would hide that it failed.
            f"if echo \"$left\" | grep -w 'htb 1:{name:x}' >&2; then exit 1; fi",
        ]
    lines.append(f"tc class show dev {_DEVICE} | grep -q . || tc qdisc del dev {_DEVICE} root")
    return _where_there_is_a_device(lines)


def _where_there_is_a_device(lines: Sequence[str]) -> str:
    """A container that has ended has none, and its counters went with it."""
    return "\n".join((f"ip link show {_DEVICE} >/dev/null 2>&1 || exit 0", *lines))
