"""Links between slices that pass through a real toxiproxy: what peers at their ends see, what is measured, and healing.

The server is the image's own, on loopback.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from agents_in_process import ThreadsCluster, toxiproxy
from streamproof.faults.bandwidth import bandwidth
from streamproof.faults.crash import crash
from streamproof.faults.delay import delay
from streamproof.faults.slow_close import slow_close
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import MissingTool, OwnFailure, StreamproofError, Unsupported
from streamproof.harness.core.quantities import Duration, events, ms, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.wire import VERSION, Endpoint, Greeting, accept, frame
from streamproof.harness.install.machine import find_toxiproxy
from streamproof.harness.recording.history import FaultHealed, FaultStruck
from streamproof.harness.recording.records import Taken
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.spark.control import toxics
from streamproof.harness.worlds.spark.control.nodes import LOOPBACK
from streamproof.harness.worlds.spark.control.slowing import ProxiedLinks
from streamproof.harness.worlds.spark.control.toxics import Toxic, Toxiproxy
from streamproof.harness.worlds.spark.schemes import relay
from streamproof.harness.worlds.spark.schemes.relay import LinkRelay
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("toxiproxy_on_path")]
T = TypeVar("T")
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def place() -> Iterator[Endpoint]:
    """Where a server listens."""
    with toxiproxy(seed=7) as place:
        yield place


# The adapter


def test_toxics_come_and_go(place: Endpoint) -> None:
    server = Toxiproxy(place)
    assert server.version() == "2.5.0"
    host, _ = server.make("link-0", (LOOPBACK, 9))
    assert host == LOOPBACK
    assert server.toxics("link-0") == ()
    server.add("link-0", "late", toxics.latency(ms(20), ms(5)), "upstream")
    server.add("link-0", "little", toxics.bandwidth_toxic(20_500), "downstream")
    assert sorted(server.toxics("link-0")) == ["late", "little"]
    server.remove("link-0", "late")
    assert server.toxics("link-0") == ("little",)


def test_servers_do_not_get_mixed_up(place: Endpoint) -> None:
    with toxiproxy(seed=8) as other:
        one, another = Toxiproxy(place), Toxiproxy(other)
        one.make("of-one", (LOOPBACK, 9))
        assert one.toxics("of-one") == ()
        with pytest.raises(OwnFailure, match=r"toxiproxy refused get /proxies/of-one/toxics.*not found"):
            another.toxics("of-one")


def test_what_toxiproxy_refuses_is_said(place: Endpoint) -> None:
    server = Toxiproxy(place)
    server.make("link-0", (LOOPBACK, 9))
    with pytest.raises(OwnFailure, match=r"toxiproxy refused post /proxies .*already exists"):
        server.make("link-0", (LOOPBACK, 9))
    with pytest.raises(OwnFailure, match=r"refused post /proxies/link-0/toxics .*invalid toxic type"):
        server.add("link-0", "odd", Toxic("unheard-of", ()), "upstream")


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server((LOOPBACK, 0)) as silent:
        place = silent.getsockname()
        with pytest.raises(OwnFailure, match="does not answer"):
            Toxiproxy(place, seconds=0.2).version()
    with pytest.raises(OwnFailure, match="does not answer"):
        Toxiproxy(place, seconds=0.2).version()


def test_less_than_toxiproxy_can_count_is_refused() -> None:
    with pytest.raises(Unsupported, match="thousands of bytes/s: it cannot let only 999 bytes/s pass"):
        toxics.bandwidth_toxic(999)


def test_where_there_is_no_server_the_command_that_brings_one_is_said(tmp_path: Path) -> None:
    nothing = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(MissingTool, match=f"GOBIN={tmp_path}/streamproof/toxiproxy go install .*/server@v2.5.0"):
        find_toxiproxy(nothing)
    server = tmp_path / "streamproof" / "toxiproxy" / "server"
    server.parent.mkdir(parents=True)
    server.touch(mode=0o755)
    assert find_toxiproxy(nothing) == server


# One link, from the slice "up" to the slice "down"


class Link:
    """Two peers, with the relay and a proxy between them."""

    def __init__(self, relay: LinkRelay, place: Endpoint, incoming: asyncio.Queue[Peer]) -> None:
        self.relay = relay
        self._place = place
        self._incoming = incoming

    async def dial(self) -> tuple[Peer, Peer]:
        near = await asyncio.open_connection(*self._place)
        near[1].write(frame(Greeting(VERSION, "token", "link", "node", "up", 1, "down", 1)))
        return near, await asyncio.wait_for(self._incoming.get(), 10)

    def slow(self, toxic: Toxic, one_way: bool = False) -> Callable[[], Awaitable[str]]:
        """Returns what heals it, and gives the proof."""
        slowing = self.relay.slow(lambda sender, receiver: not one_way or sender == "up", toxic)

        async def heal() -> str:
            return str(await self.relay.hasten(slowing))

        return heal


def on_a_link(place: Endpoint, work: Callable[[Link], Awaitable[T]]) -> T:
    async def whole() -> T:
        failures: list[StreamproofError] = []
        between = LinkRelay("token", lambda slice_id, incarnation: slice_id, failures.append)
        at = await between.listen(LOOPBACK)
        between.pass_through(ProxiedLinks(Toxiproxy(place), at, lambda sender, receiver: True))
        incoming: asyncio.Queue[Peer] = asyncio.Queue()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert await accept(reader, "token") is not None
            incoming.put_nowait((reader, writer))

        listening = await asyncio.start_server(answer, LOOPBACK, 0)
        between.lead("down", 1, listening.sockets[0].getsockname())
        try:
            result = await work(Link(between, at, incoming))
        finally:
            await between.close()
            listening.close()
        assert failures == []
        return result

    return asyncio.run(asyncio.wait_for(whole(), 60))


async def there(sender: Peer, receiver: Peer, size: int = 5) -> float:
    """How long so many bytes take, in seconds; of three times the shortest, since the machine may be busy."""
    took = []
    for _ in range(3):
        began = time.monotonic()
        sender[1].write(b"x" * size)
        await receiver[0].readexactly(size)
        took.append(time.monotonic() - began)
    return min(took)


def test_a_delay_holds_for_both_directions_and_for_connections_made_meanwhile(place: Endpoint) -> None:
    async def work(link: Link) -> str:
        near, far = await link.dial()
        assert await there(near, far) < 0.1
        heal = link.slow(toxics.latency(ms(150)))
        assert 0.15 <= await there(near, far) < 0.25
        assert 0.15 <= await there(far, near) < 0.25
        again = await link.dial()
        assert 0.15 <= await there(*again) < 0.25
        proof = await heal()
        assert await there(near, far) < 0.1
        assert await there(far, near) < 0.1
        assert await there(*again) < 0.1
        assert await there(*await link.dial()) < 0.1
        return proof

    proof = on_a_link(place, work)
    what, _, count = proof.partition(": ")
    assert what.startswith("bytes that took 15")
    # And the greeting of the second connection.
    assert int(count) == 3 * 15 + len(frame(Greeting(VERSION, "token", "link", "node", "up", 1, "down", 1)))


def test_a_delay_of_one_direction_leaves_the_other_alone(place: Endpoint) -> None:
    async def work(link: Link) -> str:
        near, far = await link.dial()
        heal = link.slow(toxics.latency(ms(150)), one_way=True)
        assert await there(near, far) >= 0.15
        assert await there(far, near) < 0.1
        return await heal()

    assert on_a_link(place, work).endswith(": 15")


def test_jitter_spreads_the_delay_and_is_drawn_from_the_seed(place: Endpoint) -> None:
    async def work(link: Link) -> list[float]:
        near, far = await link.dial()
        heal = link.slow(toxics.latency(ms(200), ms(180)))
        took = []
        for _ in range(6):
            began = time.monotonic()
            near[1].write(b"x")
            await far[0].readexactly(1)
            took.append(time.monotonic() - began)
        assert all(one >= 0.02 for one in took)
        await heal()
        return took

    def apart(some: list[float], others: list[float]) -> float:
        return sum(abs(one - other) for one, other in zip(some, others, strict=True))

    first = on_a_link(place, work)
    with toxiproxy(seed=7) as other:
        again = on_a_link(other, work)
    with toxiproxy(seed=8) as third:
        different = on_a_link(third, work)
    assert max(first) - min(first) > 0.05
    assert 2 * apart(first, again) < apart(first, different)


def test_a_narrow_link_carries_so_many_bytes_a_second(place: Endpoint) -> None:
    async def work(link: Link) -> str:
        near, far = await link.dial()
        assert await there(near, far, 100_000) < 0.5
        heal = link.slow(toxics.bandwidth_toxic(100_000))
        began = time.monotonic()
        near[1].write(b"x" * 100_000)
        await far[0].readexactly(100_000)
        assert 1 <= time.monotonic() - began < 2
        proof = await heal()
        assert await there(near, far, 100_000) < 0.5
        return proof

    what, _, count = on_a_link(place, work).partition(": ")
    assert what.startswith("bytes that took")
    assert int(count.replace(",", "")) > 80_000, "all but what catches up with what took longer than it had to"


@pytest.mark.parametrize(
    ("toxic", "on_its_way"),
    [(toxics.latency(seconds(20)), 20_000_000), (toxics.bandwidth_toxic(500_000), 2_000_000)],
    ids=["delay", "bandwidth"],
)
def test_what_was_on_its_way_arrives_whole_when_the_link_heals(place: Endpoint, toxic: Toxic, on_its_way: int) -> None:
    """More than any socket buffers: the proxy would throw away what nobody reads."""
    sent = b"".join(number.to_bytes(4, "big") for number in range(5_000_000))

    async def work(link: Link) -> None:
        near, far = await link.dial()
        heal = link.slow(toxic)
        near[1].write(sent)
        reading = asyncio.create_task(far[0].readexactly(len(sent)))
        while near[1].transport.get_write_buffer_size() > len(sent) - on_its_way:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        await heal()
        assert await reading == sent
        assert time.monotonic() - began < 15, "it would take longer"

    on_a_link(place, work)


def test_that_a_peer_has_closed_is_heard_late_and_once_it_heals_at_once(place: Endpoint) -> None:
    async def work(link: Link) -> str:
        async def close(dialler: bool) -> float:
            """Returns when the other peer heard of it."""
            near, far = await link.dial()
            await there(near, far)
            leaves, stays = (near, far) if dialler else (far, near)
            began = time.monotonic()
            leaves[1].close()
            assert await stays[0].read() == b""
            stays[1].close()
            return time.monotonic() - began

        assert await close(dialler=True) < 2
        heal = link.slow(toxics.slow_close_toxic(seconds(2)))
        assert await close(dialler=True) >= 2
        assert await close(dialler=False) >= 2
        near, far = await link.dial()
        await there(near, far)
        near[1].close()
        proof = await heal()
        began = time.monotonic()
        assert await far[0].read() == b""
        assert time.monotonic() - began < 2, "it waits no longer"
        assert await close(dialler=True) < 2
        assert await close(dialler=False) < 2
        return proof

    assert on_a_link(place, work).startswith("connections whose close took 20")


def test_a_healing_that_does_not_heal_is_our_failure(place: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """toxiproxy says that it has ended, and goes on."""

    async def work(link: Link) -> None:
        await link.dial()
        heal = link.slow(toxics.latency(ms(300)))
        monkeypatch.setattr(relay, "_PROBE_SECONDS", 0.7)
        monkeypatch.setattr(Toxiproxy, "remove", lambda self, proxy, name: None)
        with pytest.raises(OwnFailure, match=r"latency-0-upstream.* of the link up > down does not end"):
            await heal()
        heal = link.slow(toxics.latency(ms(300)))
        monkeypatch.setattr(Toxiproxy, "toxics", lambda self, proxy: ())
        with pytest.raises(OwnFailure, match=r"a latency has ended, and what passes still takes [3-9]\d\d ms"):
            await heal()

    on_a_link(place, work)


def test_a_link_that_is_reset_while_it_is_dialled_leaves_no_connection() -> None:
    async def work() -> None:
        between = LinkRelay("token", lambda slice_id, incarnation: slice_id, pytest.fail)
        at = await between.listen(LOOPBACK)
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            relay_ends.set()
            try:
                heard.put_nowait(await reader.read())
            except ConnectionError:
                heard.put_nowait(b"")

        relay_ends = asyncio.Event()
        listening = await asyncio.start_server(answer, LOOPBACK, 0)
        between.lead("down", 1, listening.sockets[0].getsockname())
        near = await asyncio.open_connection(*at)
        near[1].write(frame(Greeting(VERSION, "token", "link", "node", "up", 1, "down", 1)))
        between.cut(lambda sender, receiver: True)
        while not between._links:
            await asyncio.sleep(0)
        between.forget("up", 1)
        assert await asyncio.wait_for(heard.get(), 5) == b""
        listening.close()
        await between.close()

    asyncio.run(work())


# A scheme


def run(faults: list[Fault], folder: Path, rate: int = 2_000) -> tuple[Finished, FaultStruck, FaultHealed]:
    """The strike and the healing are the first fault's."""
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    scenario = Scenario(subject, words(events=3_000, rate=rate), faults, deadline=seconds(60))
    finished = run_named(Named("test", "test", "", scenario), ThreadsCluster(), Registry(), seed=1, folder=folder)
    assert all(struck.bite.bit for struck in finished.history.struck())
    assert [f"{v.guarantee} {v.status} {v.reason}".strip() for v in finished.judgement.verdicts] == [
        "precise-recovery HOLDS"
    ]
    struck = next(iter(finished.history.struck()))
    (healed,) = (entry for entry in finished.history.timeline if isinstance(entry, FaultHealed))
    return finished, struck, healed


def taken(finished: Finished, slice_id: str) -> list[int]:
    return [s.at for s in finished.history.records if isinstance(s.record, Taken) and s.record.slice == slice_id]


def test_a_scheme_is_delayed_and_goes_on(tmp_path: Path) -> None:
    lasting: Duration = seconds(0.7)
    fault = delay("split-0", "count-0", by=ms(300), jitter=ms(20)).after(seconds(0.3)).lasting(lasting)
    finished, struck, healed = run([fault], tmp_path / "run")

    assert healed.proof.what.startswith("bytes that took 2")
    assert healed.proof.count > 1_000
    quiet = [at for at in taken(finished, "count-0") if struck.stamp.at + 100_000 < at < struck.stamp.at + 270_000]
    assert quiet == [], "what was sent before has arrived, and what was sent since has not"
    assert any(struck.stamp.at + 100_000 < at < struck.stamp.at + 270_000 for at in taken(finished, "count-1"))


def test_a_scheme_gets_less_over_a_narrow_link(tmp_path: Path) -> None:
    fault = bandwidth("split-0", "count-0", rate=5_000).after(seconds(0.3)).lasting(seconds(1))
    finished, struck, healed = run([fault], tmp_path / "run")

    lasted = (healed.stamp.at - struck.stamp.at) / 1e6
    assert 0 < healed.proof.count <= 5_000 * lasted + 1_000
    assert any(at > healed.stamp.at for at in taken(finished, "count-0"))


def test_a_crash_is_heard_late_over_a_link_that_closes_slowly(tmp_path: Path) -> None:
    slow = slow_close("split-0", "count-0", by=ms(400)).after(seconds(0.3)).lasting(seconds(1))
    _, _, healed = run([slow, crash("count-0").after(seconds(0.5))], tmp_path / "run")

    assert healed.proof.what.startswith("connections whose close took 4")
    assert healed.proof.count in (1, 2), "of one link, either way"
