"""Slices among their replicas, under any interleaving of what is under way: whoever is left goes on as if nothing had
happened."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuttle import Shuttle
from streamproof.harness.model import Event, Topology
from streamproof.harness.quantities import events
from streamproof.harness.subject import SchemeSubject
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.deployed import deployed
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.scenarios.order import order
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import numbered, words

EVERY = events(4)
TOPOLOGIES: dict[str, Callable[[], Topology]] = {"word-count": lambda: word_count(2), "order": order}
SCHEMES: dict[str, Callable[[Topology], SchemeSubject]] = {
    "passive replication": lambda t: passive_replication(t, checkpoint_every=EVERY, sink_filter=True),
    "deployed": lambda t: deployed(t, checkpoint_every=EVERY, sink_filter=True),
    "active replication": lambda t: active_replication(t, acknowledge_every=EVERY),
    "active replication, three": lambda t: active_replication(t, replicas=3, acknowledge_every=EVERY),
    "active standby": lambda t: active_standby(t, acknowledge_every=EVERY),
    "passive standby, hot": lambda t: passive_standby(t, hot=True, synchronize_every=EVERY),
    "passive standby, cold": lambda t: passive_standby(t, hot=False, synchronize_every=EVERY),
}
STABLE = ("passive replication", "deployed")
"""Those whose checkpoints outlive every node."""
CASES = [(scheme, topology) for scheme in SCHEMES for topology in TOPOLOGIES]


def shuttle(scheme: str, topology: str, seed: int) -> Shuttle:
    subject = SCHEMES[scheme](TOPOLOGIES[topology]())
    workload = words(vocabulary=5, events=30, batch=3) if topology == "word-count" else numbered(events=30, batch=3)
    return Shuttle(subject, {source: workload.batches(source) for source in subject.sources}, Random(seed), nodes=4)


@cache
def reference(scheme: str, topology: str) -> dict[str, list[tuple[int, str, object, int]]]:
    world = shuttle(scheme, topology, 0)
    world.rest()
    return plain(world)


def plain(world: Shuttle) -> dict[str, list[tuple[int, str, object, int]]]:
    return {channel: [seen(event) for event in rows] for channel, rows in sorted(world.delivered().items())}


def seen(event: Event) -> tuple[int, str, object, int]:
    return event.seq, event.key, event.value, event.time


@pytest.mark.parametrize(("scheme", "topology"), CASES)
@given(seed=st.integers(0, 2**32))
def test_without_a_failure_every_interleaving_gives_the_same(scheme: str, topology: str, seed: int) -> None:
    world = shuttle(scheme, topology, seed)
    world.rest()
    assert plain(world) == reference(scheme, topology)


@pytest.mark.parametrize(("scheme", "topology"), CASES)
@given(seed=st.integers(0, 2**32), crashes=st.integers(1, 3))
def test_as_long_as_one_is_in_step_a_failure_is_masked(scheme: str, topology: str, seed: int, crashes: int) -> None:
    world = shuttle(scheme, topology, seed)
    random = Random(seed)
    down: list[str] = []
    for _ in range(crashes):
        for _ in range(random.randrange(400)):
            world.step()
        spare = [node for node in world.live if scheme in STABLE or world.expendable(node)]
        if spare and len(world.live) > 1:
            down.append(random.choice(spare))
            world.crash(down[-1])
        for _ in range(random.randrange(100)):
            world.step()
        if down and random.random() < 0.7:
            world.join(down.pop(0))
    world.rest()
    assert plain(world) == reference(scheme, topology)
    rows = {}
    for kept in world.kept():
        assert rows.setdefault(kept.actor, kept.rows) == kept.rows, "replicas agree"
