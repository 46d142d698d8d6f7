"""Packets between nodes that arrive later: the receiver's packet filter hands them to a program that holds them.

A kernel without a delaying queueing discipline (sch_netem) can do this too. The rules stand in a table of their own,
before those that drop: what is delayed can still be dropped afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...recording.history import Proof
from ..spark.control.disturbances import DelayPackets
from .obstacles import AddressOf, Obstacle, by_receiver
from .rules import add_chain, remove_chain
from .sidecars import python

_TABLE = "mangle"
_END_SECONDS = 5


def obstacle(disturbance: DelayPackets, number: int, address: AddressOf) -> Obstacle:
    """`number` sets it apart from all others of the run. Each pair draws its jitter from a seed of its own."""
    senders = by_receiver(disturbance.pairs)
    jitter = disturbance.jitter.micros if disturbance.jitter else 0
    put_up = {
        receiver: _put_up(
            number,
            f"{disturbance.by.micros} {jitter}",
            {address(sender): f"{disturbance.seed}:{sender}:{receiver}" for sender in sent},
        )
        for receiver, sent in senders.items()
    }
    return Obstacle(put_up, dict.fromkeys(senders, _take_down(number)), _proof)


def _put_up(number: int, delays: str, seeds: dict[str, str]) -> str:
    queue = number & 0xFFFF
    held = " ".join(f"{address}={seed}" for address, seed in seeds.items())
    # Were the program to die, packets would pass: that is seen at the end, and no other fault takes place meanwhile.
    rules = [f"-s {address} -j NFQUEUE --queue-num {queue} --queue-bypass" for address in seeds]
    program = python("packet_delays", queue, delays, _files(number), held)
    return f"{program}\n{add_chain(_TABLE, _chain(number), rules)}"


def _take_down(number: int) -> str:
    files = _files(number)
    end = (
        f"kill $(cat {files}.pid) || {{ cat {files}.log >&2; exit 1; }}",
        f"timeout {_END_SECONDS} tail --pid=$(cat {files}.pid) -s 0.01 -f /dev/null",
        f"cat {files}.count || {{ cat {files}.log >&2; exit 1; }}",
    )
    return "\n".join((remove_chain(_TABLE, _chain(number)), *end))


def _chain(number: int) -> str:
    return f"STREAMPROOF-{number}"


def _files(number: int) -> str:
    return f"/tmp/packet-delays-{number}"


def _proof(said: Sequence[str]) -> Proof:
    counted = [delays_counted(text) for text in said]
    packets, micros = (sum(those) for those in zip((0, 0), *counted, strict=True))
    mean = f", each by {micros / packets / 1e3:.1f} ms" if packets else ""
    return Proof(packets, f"packets delayed{mean}")


def delays_counted(said: str) -> tuple[int, int]:
    """How many packets, and for how many microseconds in all: what the program has written last."""
    packets, micros = said.split()[-2:]
    return int(packets), int(micros)
