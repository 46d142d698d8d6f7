"""The program that holds packets: what it tells the kernel, what it is told, and when it lets packets go on."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time

from streamproof.harness.worlds.docker.packet_delays import Delays, Holding, configuration, messages, packet_in, verdict

QUEUE = 5
FROM_A_KERNEL = bytes.fromhex(
    "600000000003000000000000000000000200004d0b00010000000001080001000800050000000245100009000006000002420aca090c0000"
    "08000d000000002108000e000000000118000a0045000021711f40004011a2020aca090c0aca090b"
)
"""As Linux 6.18 has sent it: the first packet of queue 77, a datagram of 10.202.9.12."""


def packet(number: int, sender: str = "10.202.9.12") -> bytes:
    header = bytes(12) + socket.inet_aton(sender) + bytes(4)
    body = struct.pack(">BBH", 2, 0, QUEUE)
    body += struct.pack("=HH", 11, 1) + struct.pack(">IHB", number, 0x0800, 1) + b"\0"
    body += struct.pack("=HH", 24, 10) + header
    return struct.pack("=IHHII", 16 + len(body), 0x300, 0, 0, 0) + body


def test_a_verdict_is_laid_out_as_the_kernel_wants_it() -> None:
    # nlmsghdr, nfgenmsg with the queue, NFQA_VERDICT_HDR: NF_ACCEPT and the packet's number.
    assert verdict(QUEUE, 7).hex(" ", 4) == ("20000000 01030100 00000000 00000000 00000005 0c000200 00000001 00000007")


def test_a_queue_is_bound_and_its_packets_copied_as_far_as_their_addresses() -> None:
    bind, copy, room, flags = (message.hex(" ", 4) for message in configuration(QUEUE))
    head = "02030500 00000000 00000000 00000005"
    assert bind == f"1c000000 {head} 08000100 01000002"
    assert copy == f"20000000 {head} 09000200 00000014 02000000"
    assert room == f"1c000000 {head} 08000300 00100000"
    assert flags == f"24000000 {head} 08000500 00000005 08000400 00000005"


def test_packets_are_found_in_what_the_kernel_sends() -> None:
    found = [(kind, packet_in(body)) for kind, body in messages(FROM_A_KERNEL + packet(2, "10.202.9.13"))]
    assert found == [(0x300, (1, "10.202.9.12")), (0x300, (2, "10.202.9.13"))]


def test_delays_come_from_the_seed_and_keep_the_order() -> None:
    def drawn(seed: str) -> list[int]:
        delays = Delays(1_000, 900, {"a": seed, "b": "another"})
        return [delays.due("a", now) for now in range(0, 20_000, 100)]

    assert drawn("1") == drawn("1") != drawn("2")
    assert drawn("1") == sorted(drawn("1"))
    assert all(due - now >= 100 for due, now in zip(drawn("1"), range(0, 20_000, 100), strict=True))
    free = Delays(1_000, 900, {"a": "1"})
    spread = [free.due("a", now) - now for now in range(0, 1_000_000, 10_000)]
    assert 100 <= min(spread) < 300
    assert 1_700 < max(spread) <= 1_900


def test_senders_do_not_wait_for_one_another() -> None:
    delays = Delays(1_000, 0, {"a": "1", "b": "1"})
    assert (delays.due("a", 5_000), delays.due("b", 10)) == (6_000, 1_010)


def test_packets_go_on_when_their_time_has_come_and_all_that_is_left_in_the_end() -> None:
    kernel, netlink = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    netlink.setblocking(False)
    kernel.settimeout(10)
    ended, end = os.pipe()
    holding = Holding(netlink, QUEUE, Delays(20_000, 0, {"10.202.9.12": ""}))
    thread = threading.Thread(target=holding.hold_until, args=(ended,))
    with kernel, netlink:
        thread.start()
        began = time.monotonic()
        for number in (1, 2):
            kernel.send(packet(number))
        assert [kernel.recv(64) for _ in range(2)] == [verdict(QUEUE, 1), verdict(QUEUE, 2)]
        assert time.monotonic() - began >= 0.02
        kernel.send(packet(3))
        os.close(end)
        assert kernel.recv(64) == verdict(QUEUE, 3)
        thread.join(10)
    os.close(ended)
    assert holding.packets == 3
    assert holding.micros >= 2 * 20_000
