"""The simulated network and disks, by themselves: what arrives, when, in which order, and what is lost or late."""

from heapq import heappop
from random import Random

import pytest

from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.events import Event
from streamproof.harness.protocol.messages import Acknowledge, Batch, Message, Open
from streamproof.harness.worlds.simulated.disk import Disks
from streamproof.harness.worlds.simulated.event_queue import EventQueue
from streamproof.harness.worlds.simulated.network import Direction, Network
from streamproof.harness.worlds.simulated.written import WrittenNetwork

DOWN: Direction = ("a-0", 1, "b-0", 1)
UP: Direction = ("b-0", 1, "a-0", 1)
OTHER: Direction = ("a-0", 1, "c-0", 1)
BOTH = (("a-0", "b-0"), ("b-0", "a-0"))


class Wire:
    """A network whose messages are written down when they arrive."""

    def __init__(self, seed: int = 1, kind: type[Network] = Network) -> None:
        self.event_queue = EventQueue()
        self.arrived: list[str] = []
        self.dead: set[tuple[str, int]] = set()
        self.network = kind(
            self.event_queue,
            Random(seed).random,
            (200, 800),
            self._arrive,
            self._reopen,
            lambda slice_id, incarnation: slice_id,
            lambda slice_id, incarnation: (slice_id, incarnation) not in self.dead,
            lambda one, other: False,
        )

    def _arrive(self, link: Direction, message: Message) -> None:
        self.arrived.append(f"{link[0]}>{link[2]} {message.identity}")

    def _reopen(self, link: Direction, message: Message) -> None:
        self.network.accept(link)
        self._arrive(link, message)

    def send(self, *seqs: int, link: Direction = DOWN) -> None:
        for seq in seqs:
            self.network.send(link, Batch(link[1], [Event("a-0", seq, "k", seq, 0)]))

    def run(self, until: int | None = None) -> list[str]:
        queue = self.event_queue.queue
        while queue and (until is None or queue[0][0] <= until):
            self.event_queue.now, _, action, given = heappop(queue)
            action(*given)
        if until is not None:
            self.event_queue.now = until
        return self.arrived


def batches(*seqs: int, to: str = "b-0") -> list[str]:
    return [f"a-0>{to} @{seq}" for seq in seqs]


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_what_arrives_on_a_written_network_is_what_was_sent_whatever_its_sender_does_with_it_since() -> None:
    wire = Wire(kind=WrittenNetwork)
    kept = [Event("a-0", 1, "k", [1], 0), Event("a-0", 2, "k", [2], 0)]
    wire.network.send(DOWN, Batch(1, kept))
    del kept[0]
    assert wire.run() == batches(1)


def test_what_cannot_be_sent_between_processes_is_refused_on_a_written_network() -> None:
    with pytest.raises(InvalidScenario, match="what a-0 says to b-0 cannot be sent"):
        Wire(kind=WrittenNetwork).network.send(DOWN, Batch(1, [Event("a-0", 1, "k", 1, 0)], [(object(),)]))


@pytest.mark.parametrize("seed", range(5))
def test_links_are_fifo(seed: int) -> None:
    wire = Wire(seed)
    wire.send(*range(1, 30))
    assert wire.run() == batches(*range(1, 30))


def test_what_is_cut_waits_and_arrives_in_order_after_healing(wire: Wire) -> None:
    wire.send(1, 2)
    cut = wire.network.cut(BOTH)
    wire.send(3)
    wire.send(9, link=OTHER)
    assert wire.run(10_000) == batches(9, to="c-0")
    wire.network.mend_cut(cut)
    wire.send(4)
    assert wire.run() == [*batches(9, to="c-0"), *batches(1, 2, 3, 4)]
    assert cut.count == 3


def test_a_one_way_cut_lets_the_other_way_pass(wire: Wire) -> None:
    cut = wire.network.cut([("a-0", "b-0")])
    wire.send(1)
    wire.network.send(UP, Acknowledge(1, 7))
    assert wire.run() == ["b-0>a-0 ack@7"]
    wire.network.mend_cut(cut)
    assert wire.run() == ["b-0>a-0 ack@7", *batches(1)]


def test_what_two_cuts_hold_passes_when_both_have_healed(wire: Wire) -> None:
    first, second = wire.network.cut(BOTH), wire.network.cut([("a-0", "b-0")])
    wire.send(1)
    wire.network.mend_cut(first)
    assert wire.run() == []
    wire.network.mend_cut(second)
    assert wire.run() == batches(1)
    assert (first.count, second.count) == (1, 1)


def test_what_a_dead_node_had_to_send_again_is_lost(wire: Wire) -> None:
    cut = wire.network.cut(BOTH)
    wire.send(1)
    wire.dead.add(("a-0", 1))
    wire.network.mend_cut(cut)
    assert wire.run() == []
    assert cut.count == 1


def test_what_is_sent_to_the_dead_proves_nothing(wire: Wire) -> None:
    wire.dead.add(("b-0", 1))
    cut = wire.network.cut(BOTH)
    slow = wire.network.slow([("a-0", "c-0")], 10)
    wire.send(1)
    assert (cut.count, slow.count) == (0, 0)
    assert wire.network.lose_sent_by([("a-0", 1)]) == 0


def test_a_slow_link_is_late_and_stays_fifo(wire: Wire) -> None:
    slow = wire.network.slow(BOTH, 5_000)
    wire.send(1)
    wire.network.mend_slow(slow)
    wire.send(2)
    assert wire.run(5_000) == []
    assert wire.run(6_000) == batches(1, 2)
    assert slow.count == 1


def test_a_broken_connection_loses_what_is_sent_until_the_channel_is_open_again(wire: Wire) -> None:
    reopened: list[int] = []
    wire.network.send(UP, Open(1, 0))
    wire.send(1)
    wire.run()
    wire.send(2)
    broken = wire.network.break_connections(BOTH, lambda: reopened.append(wire.event_queue.now))
    wire.send(3)
    wire.network.send(UP, Acknowledge(1, 1))
    wire.run(5_000)
    wire.network.send(UP, Open(1, 1))
    wire.network.send(UP, Acknowledge(1, 1))
    wire.send(4)
    opened = ["b-0>a-0 open", *batches(1), "b-0>a-0 open@1", "b-0>a-0 ack@1"]
    assert sorted(wire.run()) == sorted(opened)
    wire.send(5)
    assert wire.run()[-1:] == batches(5)
    assert not set(batches(2, 3, 4)) & set(wire.arrived)
    assert broken.count == 4
    assert len(reopened) == 1


def test_a_new_incarnation_has_a_connection_of_its_own(wire: Wire) -> None:
    wire.network.send(UP, Open(1, 0))
    wire.run()
    broken = wire.network.break_connections(BOTH, lambda: None)
    wire.send(1, link=("a-0", 1, "b-0", 2))
    assert wire.run()[-1:] == batches(1)
    assert broken.count == 0


def test_an_opening_that_is_lost_with_the_next_connection_leaves_the_channel_closed(wire: Wire) -> None:
    healed: list[str] = []
    wire.network.send(UP, Open(1, 0))
    wire.run()
    wire.network.break_connections(BOTH, lambda: healed.append("first"))
    wire.network.send(UP, Open(1, 0))
    second = wire.network.break_connections(BOTH, lambda: healed.append("second"))
    wire.send(1)
    assert wire.run() == ["b-0>a-0 open"]
    assert healed == ["first"]
    assert second.count == 2
    wire.network.mend_broken(second)
    wire.send(2)
    assert wire.run()[-1:] == batches(2)
    assert healed == ["first", "second"]


def test_what_was_handed_over_is_lost_in_flight_and_where_it_is_held(wire: Wire) -> None:
    wire.send(1, link=OTHER)
    wire.network.send(UP, Acknowledge(1, 1))
    cut = wire.network.cut([("a-0", "b-0")])
    wire.send(2)
    assert wire.network.lose_sent_by([("a-0", 1)]) == 2
    wire.network.mend_cut(cut)
    assert wire.run() == ["b-0>a-0 ack@1"]


def test_what_one_link_suffers_changes_no_other() -> None:
    quiet, disturbed = Wire(), Wire()
    disturbed.network.slow([("x-0", "y-0")], 1_000)
    times: list[list[int]] = []
    for wire in (quiet, disturbed):
        wire.send(1, 2, 3)
        wire.send(4, link=OTHER)
        times.append(sorted(entry[0] for entry in wire.event_queue.queue))
    assert times[0] == times[1]


def test_what_is_next_comes_before_all_else_that_is_due_and_in_order() -> None:
    event_queue, done = EventQueue(), []
    event_queue.at(0, done.append, "due")
    for name in ("first", "second"):
        event_queue.next(done.append, name)
    while event_queue.queue:
        _, _, action, given = heappop(event_queue.queue)
        action(*given)
    assert done == ["first", "second", "due"]


# Disks


class Disk:
    def __init__(self) -> None:
        self.event_queue = EventQueue()
        self.disks = Disks(self.event_queue, lambda bounds: bounds[0], (100, 100))
        self.written: list[tuple[int, str]] = []

    def begin(self, name: str, node: str = "node-0") -> None:
        self.disks.begin(node, self._write, node, name)

    def _write(self, node: str, name: str) -> None:
        if not self.disks.refuses(node, self._write, node, name):
            self.written.append((self.event_queue.now, name))

    def run(self, until: int = 1_000_000) -> list[tuple[int, str]]:
        while self.event_queue.queue and self.event_queue.queue[0][0] <= until:
            self.event_queue.now, _, action, given = heappop(self.event_queue.queue)
            action(*given)
        self.event_queue.now = until
        return self.written


def test_a_slow_disk_delays_the_writes_that_begin_while_it_is_slow() -> None:
    disk = Disk()
    disk.begin("before")
    slow = disk.disks.slow("node-0", 1_000)
    disk.begin("slow")
    disk.begin("elsewhere", "node-1")
    disk.disks.mend("node-0", slow)
    disk.begin("after")
    assert disk.run() == [(100, "before"), (100, "elsewhere"), (100, "after"), (1_100, "slow")]
    assert slow.count == 1


def test_a_failing_disk_refuses_and_takes_the_same_writes_once_it_has_healed() -> None:
    disk = Disk()
    first, second = disk.disks.fail("node-0"), disk.disks.fail("node-0")
    disk.begin("refused")
    assert disk.run(5_000) == []
    disk.disks.mend("node-0", first)
    assert disk.run(6_000) == []
    disk.disks.mend("node-0", second)
    assert disk.run(7_000) == [(6_100, "refused")]
    assert (first.count, second.count) == (1, 1)
