"""Slices among their replicas, under any interleaving of what is under way: whoever is left goes on as if nothing had
happened."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuttle import Shuttle
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.events import Event
from streamproof.harness.core.quantities import events
from streamproof.harness.core.topology import Topology
from streamproof.harness.protocol.effects import Effect, Gone, Note, Promote, Ready, Receive, Reroute, Send, Start
from streamproof.harness.protocol.messages import Acknowledge, Batch, Checkpoint, CheckpointId, Open, Replay, Replayed
from streamproof.harness.protocol.operator import NUMBER, STATE, VECTOR, OperatorSlice, Vector
from streamproof.harness.recording.records import Refused, Restored, Taken
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.deployed import deployed
from streamproof.reference_impls.mechanisms.output_log import PART as LOG
from streamproof.reference_impls.mechanisms.output_log import Logged
from streamproof.reference_impls.mechanisms.replicas import Fetch, Sync, Synced, Trim
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
    return Shuttle(
        subject, {source: workload.batches(source) for source in subject.sources}, workload.batch, Random(seed), nodes=4
    )


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
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_without_a_failure_every_interleaving_gives_the_same(scheme: str, topology: str, seed: int) -> None:
    world = shuttle(scheme, topology, seed)
    world.rest()
    assert plain(world) == reference(scheme, topology)


@pytest.mark.parametrize(("scheme", "topology"), CASES)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), crashes=st.integers(1, 3))
def test_as_long_as_one_is_in_sync_a_failure_is_masked(scheme: str, topology: str, seed: int, crashes: int) -> None:
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


SUBJECTS = {name: make(word_count(1)) for name, make in SCHEMES.items()}


def replica(scheme: str, incarnation: int = 2, initial: bool = False) -> OperatorSlice:
    """A counter, just started beside its peers."""
    (spec,) = (spec for spec in SUBJECTS[scheme].specs if spec.slice_id == "count-0")
    counter = OperatorSlice(spec)
    counter.on(Start(incarnation, None, initial=initial))
    return counter


def sent(effects: list[Effect], kind: type) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def batch(first: int, last: int) -> Receive:
    return Receive("split-0", Batch(1, [Event("split-0", seq, "word", 1, seq) for seq in range(first, last + 1)]))


def opened(counter: OperatorSlice) -> list[Effect]:
    """Its only channel is opened, and there was nothing in the log."""
    return [*counter.on(Reroute("split-0", 1)), *counter.on(Receive("split-0", Replayed(1)))]


def state(counts: dict[str, int], mark: int, incarnation: int = 1, number: int = 1) -> Checkpoint:
    log = [Event("count-0", seq, "word", seq, seq) for seq in range(1, mark + 1)]
    encoded = word_count(1).stages["count"].operator.snapshot(counts)
    parts = {STATE: encoded, VECTOR: Vector({"split-0": mark}), LOG: Logged({"sink-0": log}), NUMBER: mark + 1}
    return Checkpoint("count-0", CheckpointId(incarnation, number), parts)


def fetched(effects: list[Effect]) -> list[int]:
    return [send.incarnation for send in sent(effects, Fetch)]


def test_a_joiner_asks_for_the_state_once_its_channels_are_open_and_drops_what_that_holds() -> None:
    joiner = replica("active replication")
    assert fetched(joiner.on(Reroute("count-0", 1))) == []
    assert fetched(opened(joiner)) == [1]
    assert joiner.on(batch(3, 6)) == []
    effects = joiner.on(Receive("count-0", Sync(1, state({"word": 4}, 4))))
    notes = [effect.record for effect in effects if isinstance(effect, Note)]
    assert notes[0] == Restored("count-0", 2, (1, 1), 5)
    assert [(note.first, note.last) for note in notes if isinstance(note, Taken)] == [(5, 6)]
    assert Ready() in effects


def test_a_joiner_whose_peer_dies_asks_the_next() -> None:
    joiner = replica("active replication, three", 3)
    joiner.on(Reroute("count-0", 1))
    joiner.on(Reroute("count-0", 2))
    assert fetched(opened(joiner)) == [1]
    assert fetched(joiner.on(Gone("count-0", 1))) == [2]
    (note,) = joiner.on(Receive("count-0", Sync(1, state({}, 4))))
    assert isinstance(note, Note)
    assert isinstance(note.record, Refused)


def test_of_two_joiners_that_ask_one_another_each_turns_to_somebody_who_has_the_state() -> None:
    joiner = replica("active replication, three", 3)
    joiner.on(Reroute("count-0", 4))
    assert fetched(opened(joiner)) == [4]
    joiner.on(Reroute("count-0", 5))
    assert fetched(joiner.on(Receive("count-0", Fetch(4)))) == [5]


def test_who_was_in_touch_before_says_again_what_was_on_its_way() -> None:
    joiner = replica("active replication")
    joiner.on(Reroute("count-0", 1))
    assert fetched(opened(joiner)) == [1]
    assert fetched(joiner.on(Reroute("count-0", 1))) == [1]
    primary = replica("passive standby, hot", 1, initial=True)
    primary.on(Reroute("count-0", 2))
    opened(primary)
    (first,) = sent(primary.on(batch(1, 4)), Sync)
    assert sent(primary.on(Reroute("count-0", 2)), Sync) == [first]
    assert sent(primary.on(Receive("count-0", Synced(2, 1))), Acknowledge) == [Send("split-0", 1, Acknowledge(1, 4))]
    assert sent(primary.on(Reroute("count-0", 2)), Sync) == []


def test_nobody_gives_its_state_before_those_upstream_know_it() -> None:
    """Else the peer could acknowledge, and so have dropped, what has not come to us."""
    initial = replica("active replication", 1, initial=True)
    initial.on(Reroute("count-0", 2))
    assert sent(initial.on(Receive("count-0", Fetch(2))), Sync) == []
    assert len(sent(opened(initial), Sync)) == 1


def test_a_channel_that_is_opened_before_the_standby_has_its_state_gets_all_of_its_log() -> None:
    standby = replica("passive standby, cold")
    standby.on(Reroute("count-0", 1))
    standby.on(Receive("count-0", Sync(1, state({"word": 4}, 4))))
    assert standby.on(Receive("sink-0", Open(1, 2))) == []
    (replayed,) = sent(standby.on(Promote(None)), Replay)
    assert [event.seq for event in replayed.message.events] == [3, 4]  # type: ignore[attr-defined]


def test_a_primary_whose_peer_goes_before_it_confirms_goes_on_and_acknowledges_nothing() -> None:
    primary = replica("passive standby, hot", 1, initial=True)
    primary.on(Reroute("count-0", 2))
    opened(primary)
    primary.on(batch(1, 4))
    primary.on(batch(5, 9))
    assert primary.taken == 8, "a third interval waits for the first"
    assert sent(primary.on(Gone("count-0", 2)), Acknowledge) == []
    assert primary.taken == 9


def test_a_state_that_comes_after_the_promotion_is_too_late() -> None:
    standby = replica("passive standby, hot")
    standby.on(Reroute("count-0", 1))
    opened(standby)
    standby.on(batch(1, 2))
    standby.on(Promote(None))
    assert standby.on(Receive("count-0", Sync(1, state({"word": 1}, 1)))) == []
    assert standby.taken == 2


@pytest.mark.parametrize("scheme", ["passive standby, hot", "passive standby, cold"])
def test_a_standby_refuses_the_state_of_a_primary_that_was_withdrawn(scheme: str) -> None:
    standby = replica(scheme)
    standby.on(Reroute("count-0", 1))
    standby.on(Gone("count-0", 1))
    assert sent(standby.on(Receive("count-0", Sync(1, state({"word": 1}, 1)))), Synced) == []


def test_a_silent_secondary_trims_its_log_only_by_what_the_primary_passes_on() -> None:
    primary, secondary = replica("active standby", 1, initial=True), replica("active standby")
    for one, other in ((primary, 2), (secondary, 1)):
        one.on(Reroute("count-0", other))
        opened(one)
    secondary.on(Receive("count-0", Sync(1, state({}, 0))))
    primary.on(Receive("sink-0", Open(1, 0)))
    for one in (primary, secondary):
        one.on(batch(1, 3))
    (trim,) = sent(primary.on(Receive("sink-0", Acknowledge(1, 3))), Trim)
    secondary.on(batch(4, 5))
    secondary.on(Receive("count-0", trim.message))
    secondary.on(Promote(None))
    (replayed,) = sent(secondary.on(Receive("sink-0", Open(1, 3))), Replay)
    assert [event.seq for event in replayed.message.events] == [4, 5]  # type: ignore[attr-defined]


def test_who_takes_over_a_log_keeps_it_for_those_who_listened_to_its_peer() -> None:
    """Else a receiver that is quick to open it, and ahead of another, would have dropped what that needs."""
    initial, joiner = replica("active replication", 1, initial=True), replica("active replication")
    for one, other in ((initial, 2), (joiner, 1)):
        one.on(Reroute("count-0", other))
        opened(one)
    initial.on(Receive("sink-0", Open(1, 0)))
    initial.on(Receive("sink-0", Open(2, 0)))
    initial.on(batch(1, 3))
    (sync,) = sent(initial.on(Receive("count-0", Fetch(2))), Sync)
    joiner.on(Receive("count-0", sync.message))
    joiner.on(Receive("sink-0", Open(1, 3)))
    joiner.on(Receive("sink-0", Acknowledge(1, 3)))
    (replayed,) = sent(joiner.on(Receive("sink-0", Open(2, 1))), Replay)
    assert [event.seq for event in replayed.message.events] == [2, 3]  # type: ignore[attr-defined]
    joiner.on(Gone("sink-0", 2))
    joiner.on(Receive("sink-0", Acknowledge(1, 3)))
    assert sent(joiner.on(Receive("sink-0", Open(3, 0))), Replay) == []
