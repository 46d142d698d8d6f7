"""Scenarios of the library on the embedded runtime, without its processes: replicas, standbys and followed events over
real links, with nodes that die in the middle."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agents_in_process import ThreadsCluster
from sampling import long_but_for
from streamproof.faults.crash import crash
from streamproof.faults.loss import loss
from streamproof.faults.partition import partition
from streamproof.faults.pause import pause
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.slice_names import slice_of
from streamproof.harness.core.topology import Edge, Partitioning, Role, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.wire import VERSION, Greeting, accept, frame
from streamproof.harness.core.workload import Workload
from streamproof.harness.exploration.census import census
from streamproof.harness.protocol.effects import Effect, Gone, Input
from streamproof.harness.protocol.machine import Slice
from streamproof.harness.protocol.messages import Checkpoint
from streamproof.harness.protocol.stores import CheckpointStore, FencedOff
from streamproof.harness.recording.history import FaultHealed, NodeGone, NodeUp, Placed
from streamproof.harness.recording.records import CheckpointDurable, InSync, Opened, Promoted, Started
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.spark.control.run_messages import HEARTBEAT_LIMIT
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.deployed import deployed
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.k_safe_grouping import k_safe_grouping
from streamproof.reference_impls.mutants import MUTANTS
from streamproof.reference_impls.mutants.twists import twisted
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.reference_impls.source_replay import source_replay
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.word_stream import word_stream
from streamproof.scenarios.workloads import numbered, single_words, words

SCENARIOS = (
    "word-count.passive-replication-shows",
    "word-count.neighbours-crash",
    "word-count.crash-during-recovery",
    "order.passive-replication",
    "word-count.deployed",
    "stateless.upstream-backup",
    "stateless.source-replay",
    "word-count.passive-standby-hot",
    "word-count.passive-standby-hot-pair-lost",
    "word-count.passive-standby-cold",
    "word-count.active-standby",
    "word-count.active-replication",
    "words.k-safe-grouping",
    "words.k-safe-grouping-one-too-many",
    "words.2-safe-grouping",
    "sum-by-time.active-replication",
    "sum-by-clock.active-replication",
    "trace-by-time.passive-replication-masked",
    "word-count.transactional-sink",
    "trace.transactional-sink",
    "trace.sink-at-once",
)


@pytest.mark.parametrize("name", long_but_for(SCENARIOS[::3], SCENARIOS))
def test_a_scheme_keeps_its_word_on_node_agents_and_no_more_than_that(name: str, tmp_path: Path) -> None:
    registry = Registry()
    finished = run_named(registry.scenario(name), ThreadsCluster(), registry, seed=1, folder=tmp_path / "run")
    assert all(struck.bite.bit for struck in finished.history.struck())
    judgement = finished.judgement
    assert {f"{v.guarantee} {v.status} {v.reason}".strip() for v in (*judgement.verdicts, *judgement.broken)} == {
        *(f"{v.guarantee} HOLDS" for v in judgement.verdicts),
        *(f"{v.guarantee} VIOLATED" for v in judgement.broken),
    }


def test_a_stranger_cannot_make_a_listener_wait_for_a_large_greeting() -> None:
    async def answer(sent: bytes) -> Greeting | None:
        reader = asyncio.StreamReader()
        reader.feed_data(sent)
        return await accept(reader, "token")

    greeting = Greeting(VERSION, "token", "link", "node-0")
    assert asyncio.run(answer(frame(greeting))) == greeting
    assert asyncio.run(answer((8 << 10).to_bytes(4, "big"))) is None


MASKED = {
    "passive-replication": lambda: passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True),
    "passive-standby": lambda: passive_standby(word_count(), synchronize_every=events(60)),
    "active-replication": lambda: active_replication(word_count(), acknowledge_every=events(60)),
}


def _run_subject(
    subject: SchemeSubject, workload: Workload, faults: list[Fault], folder: Path, restart_after: float = 0.3
) -> Finished:
    return _run(Scenario(subject, workload, faults, deadline=seconds(30)), folder, restart_after)


def _run(scenario: Scenario, folder: Path, restart_after: float = 0.3) -> Finished:
    named = Named("test", "test", "", scenario)
    return run_named(named, ThreadsCluster(restart_after=restart_after), Registry(), seed=1, folder=folder)


WORDS = words(events=1_500, rate=2_000)


def _disturbed(scheme: str, faults: list[Fault], folder: Path) -> Finished:
    return _run_subject(MASKED[scheme](), WORDS, faults, folder)


def _sends(scheme: str, link: tuple[str, str]) -> list[Address]:
    """Where a sender of this link has just given a batch to the network, which has something to lose then."""
    first, second = link
    return [
        reached.address
        for reached in census(Scenario(MASKED[scheme](), WORDS), Registry().faults, seed=1)
        if (reached.address.point, reached.address.side) == (Point.SEND_HANDED_OVER, Side.AFTER)
        and reached.address.actor.startswith(first)
        and reached.address.key.startswith(f"{second}#1 @")
    ]


def _holds(finished: Finished) -> bool:
    return all(verdict.status is Status.HOLDS for verdict in finished.judgement.verdicts)


@pytest.mark.parametrize("scheme", long_but_for(["passive-replication"], MASKED))
@pytest.mark.parametrize(
    "fault",
    [
        partition("split-0", "count-0").after(events(200)).lasting(seconds(0.2)),
        partition("count-0", "sink-0", one_way=True).after(events(100)).lasting(seconds(0.2)),
        partition("source-0", "split").after(seconds(0.2)).lasting(seconds(0.2)),
    ],
    ids=str,
)
def test_what_is_sent_into_a_cut_link_gets_through_once_it_heals(scheme: str, fault: Fault, tmp_path: Path) -> None:
    finished = _disturbed(scheme, [fault], tmp_path / "run")
    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    assert struck.bite.proof is not None
    assert struck.bite.proof.count > 0
    assert _holds(finished), finished.judgement.verdicts
    (healed,) = (entry for entry in finished.history.timeline if isinstance(entry, FaultHealed))
    assert 200_000 <= healed.stamp.at - struck.stamp.at < 2_000_000


@pytest.mark.parametrize("scheme", long_but_for(["passive-replication"], MASKED))
@pytest.mark.parametrize("link", [("split-0", "count-0"), ("count", "sink-0")], ids=str)
def test_a_link_that_breaks_is_made_again_and_what_it_lost_is_asked_for(
    scheme: str, link: tuple[str, str], tmp_path: Path
) -> None:
    sent = _sends(scheme, link)
    faults = [loss(*link).at(Moment.exactly(sent[len(sent) * part // 3])) for part in (1, 2)]
    finished = _disturbed(scheme, faults, tmp_path / "run")
    for struck in finished.history.struck():
        assert struck.bite.bit, struck.bite.why_not
    assert _holds(finished), finished.judgement.verdicts
    assert _was_made_again(finished)


@pytest.mark.parametrize("scheme", long_but_for(["passive-replication"], MASKED))
def test_however_often_the_sources_link_breaks_what_it_lost_is_asked_for(scheme: str, tmp_path: Path) -> None:
    faults = [loss("split-0", "source-0").after(events(taken)) for taken in range(500, 1_300, 100)]
    # The source is faster than what it feeds: there is something on the way, unless the link is just being made again.
    finished = _run_subject(MASKED[scheme](), words(events=15_000), faults, tmp_path / "run")
    assert any(struck.bite.bit for struck in finished.history.struck())
    assert finished.history.drained
    assert not any(verdict.anomalies for verdict in finished.judgement.verdicts), finished.judgement.verdicts
    # The one thing that may be open is what a break came to that found nothing to lose.
    assert _holds(finished) or all("did not bite" in verdict.reason for verdict in finished.judgement.verdicts)
    assert _was_made_again(finished)


def _was_made_again(finished: Finished) -> bool:
    opened = [stamped.record for stamped in finished.history.records if isinstance(stamped.record, Opened)]
    return len(opened) > len(
        {(one.slice, one.incarnation, one.downstream, one.downstream_incarnation) for one in opened}
    )


def test_waiting_for_one_delivery_costs_its_node_no_heartbeat(tmp_path: Path) -> None:
    """Where the receiver is on the same node, it does not read meanwhile, and its kernel puts the acknowledgement off
    for 40 ms: a node that waited for those of all its messages would be taken for lost."""
    address = Address("normalise-0", 1, Point.SEND_DELIVERED, "tag-0#1 @1999", Side.AFTER)
    scenario = Scenario(
        passive_replication(stateless(parallelism=1), checkpoint_every=events(500)),
        numbered(events=2_000, batch=2, rate=2_000),
        [crash("normalise-0").at(Moment.exactly(address))],
    )
    cluster = ThreadsCluster(workers=1)
    finished = run_named(Named("test", "", "", scenario), cluster, Registry(), seed=1, folder=tmp_path / "run")
    (struck,) = finished.history.struck()
    assert (struck.address, struck.bite.bit) == (str(address), True), struck.bite.why_not
    assert [e.node for e in finished.history.timeline if isinstance(e, NodeGone)] == [struck.bite.node]


@pytest.mark.parametrize("link", [("count-0", "count-0/1"), ("count-0/1", "count-0")], ids=str)
def test_replicas_that_lose_touch_synchronize_again(link: tuple[str, str], tmp_path: Path) -> None:
    faults = [loss(*link).after(seconds(0.2)), partition(*link).after(seconds(0.3)).lasting(seconds(0.2))]
    finished = _disturbed("passive-standby", faults, tmp_path / "run")
    assert [struck.bite.bit for struck in finished.history.struck()] == [True, True]
    assert _holds(finished), finished.judgement.verdicts
    made = [s.record for s in finished.history.records if isinstance(s.record, CheckpointDurable)]
    assert max(one.number for one in made if one.slice == "count-0") > 5


def test_a_run_waits_for_the_replica_that_returns_and_tells_when_it_never_gets_in_sync(tmp_path: Path) -> None:
    (mutant,) = (one for one in MUTANTS if one.name == "active-standby-never-in-step-again")
    workload = words(events=1_500, rate=2_000)
    scenario = Scenario(active_standby(word_count()), workload, [crash("count-0").after(seconds(0.2))])
    finished = _run(scenario, tmp_path / "keeps-its-word")
    placed = {(slice_of(e.actor), e.incarnation) for e in finished.history.timeline if isinstance(e, Placed)}
    in_sync = {(s.record.slice, s.record.incarnation) for s in finished.history.records if isinstance(s.record, InSync)}
    assert in_sync == placed
    assert _holds(finished), finished.judgement.verdicts
    broken = replace(scenario, subject=mutant.make(word_count(), events(60)), deadline=seconds(3))
    (verdict,) = _run(broken, tmp_path / "breaks-it").judgement.verdicts
    assert (verdict.status, verdict.anomalies[0].anomaly) == (Status.VIOLATED, mutant.anomaly)


def test_what_a_dead_node_had_sent_into_a_cut_link_is_lost(tmp_path: Path) -> None:
    faults = [
        partition("split-0", "count-0").after(seconds(0.2)).lasting(seconds(0.5)),
        crash("split-0").after(seconds(0.3)),
    ]
    finished = _disturbed("passive-replication", faults, tmp_path / "run")
    assert [struck.bite.bit for struck in finished.history.struck()] == [True, True]
    assert _holds(finished), finished.judgement.verdicts


WORDS, NUMBERS = words(events=1_500, rate=2_000), numbered(events=1_500, rate=2_000)
ALL_AT_ONCE = {
    "amnesia": (amnesia(word_count()), WORDS, "HOLDS"),
    "gap": (gap(word_count(), checkpoint_every=events(60)), WORDS, "HOLDS"),
    "passive-replication": (MASKED["passive-replication"](), WORDS, "HOLDS"),
    "deployed": (deployed(word_count(), checkpoint_every=events(60)), WORDS, "HOLDS"),
    "upstream-backup": (upstream_backup(stateless(), acknowledge_every=events(50)), NUMBERS, "HOLDS"),
    "source-replay": (source_replay(stateless(), timeout=seconds(0.5)), NUMBERS, "HOLDS"),
    "passive-standby": (MASKED["passive-standby"](), WORDS, "UNKNOWN"),
    "active-standby": (active_standby(word_count(), acknowledge_every=events(60)), WORDS, "UNKNOWN"),
    "active-replication": (MASKED["active-replication"](), WORDS, "UNKNOWN"),
    "k-safe-grouping": (k_safe_grouping(word_stream()), single_words(events=1_500, rate=2_000), "UNKNOWN"),
}
"""Scheme -> a subject, its input, and the verdict when all of its slices are lost at once."""


@pytest.mark.parametrize("scheme", long_but_for([*ALL_AT_ONCE][::3], ALL_AT_ONCE))
def test_the_death_of_the_driver_is_that_of_all_slices(scheme: str, tmp_path: Path) -> None:
    subject, workload, expected = ALL_AT_ONCE[scheme]
    finished = _run_subject(subject, workload, [crash("driver").after(seconds(0.3))], tmp_path / "run")

    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    assert set(struck.bite.actors) == set(subject.actors)
    assert {str(v.status): v.reason for v in finished.judgement.verdicts}.keys() == {expected}
    for verdict in finished.judgement.verdicts:
        assert verdict.status is not Status.UNKNOWN or verdict.reason.startswith("this goes beyond what is claimed")

    timeline = finished.history.timeline
    after = [entry for entry in timeline[timeline.index(struck) + 1 :] if isinstance(entry, NodeGone | NodeUp | Placed)]
    assert [(type(entry), entry.node) for entry in after[:2] if not isinstance(entry, Placed)] == [
        (NodeGone, "driver"),
        (NodeUp, "driver"),
    ]
    assert {entry.actor for entry in after if isinstance(entry, Placed)} == set(subject.actors)
    started = [s.record for s in finished.history.records if isinstance(s.record, Started)]
    incarnations = [(one.slice, one.incarnation) for one in started]
    assert len(set(incarnations)) == len(incarnations), "no number is given out twice"


def test_a_driver_that_was_paused_takes_nobody_for_lost_for_its_own_silence(tmp_path: Path) -> None:
    fault = pause("driver").after(seconds(0.2)).lasting(seconds(HEARTBEAT_LIMIT + 0.5))
    finished = _run_subject(MASKED["passive-replication"](), words(events=3_500, rate=1_000), [fault], tmp_path / "run")
    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    assert not any(isinstance(entry, NodeGone) for entry in finished.history.timeline)
    assert _holds(finished), finished.judgement.verdicts


def test_a_driver_that_comes_back_makes_do_with_the_nodes_that_are_left(tmp_path: Path) -> None:
    faults = [crash("count-0").after(seconds(0.2)), crash("driver").after(seconds(0.3))]
    subject, workload = MASKED["passive-replication"](), words(events=1_500, rate=2_000)
    finished = _run_subject(subject, workload, faults, tmp_path / "run", restart_after=60)
    first, second = finished.history.struck()
    assert (first.bite.bit, second.bite.bit) == (True, True)
    timeline = finished.history.timeline
    later = [entry.node for entry in timeline[timeline.index(second) :] if isinstance(entry, NodeUp)]
    assert len(later) == 3, "the driver, and two of three nodes"
    assert first.bite.node not in later
    assert _holds(finished), finished.judgement.verdicts


def test_a_source_hears_that_one_is_gone_which_follows_its_events(tmp_path: Path) -> None:
    """Also of a slice that is no neighbour of its own."""
    heard: list[Input] = []

    def listen(machine: Slice, given: Input) -> list[Effect]:
        heard.append(given)
        return machine.on(given)

    subject = replace(source_replay(stateless(), timeout=seconds(1)), wraps={Role.SOURCE: twisted(listen)})
    scenario = Scenario(subject, numbered(events=600, rate=2_000), [crash("tag-0").after(events(50))])
    finished = _run(scenario, tmp_path / "run")
    assert _holds(finished), finished.judgement.verdicts
    assert Gone("tag-0", 1) in heard


class _RefusesTheFirstPromotion:
    """As if one that was placed after it had been active before."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self.quiesce, self.capture, self.restore, self.write = store.quiesce, store.capture, store.restore, store.write
        self.version, self.drop = store.version, store.drop
        self.append, self.items = store.append, store.items

    def fence(self, slice_id: str, incarnation: int) -> Checkpoint | None:
        if (slice_id, incarnation) == ("count-0", 2):
            raise FencedOff(f"{slice_id}#{incarnation}")
        return self._store.fence(slice_id, incarnation)


def test_a_spare_that_the_store_does_not_let_be_active_is_placed_again(tmp_path: Path) -> None:
    subject = deployed(word_count(), checkpoint_every=events(60), sink_filter=True)
    subject = replace(subject, wrap_store=_RefusesTheFirstPromotion)
    workload = words(events=1_500, rate=2_000)
    finished = _run_subject(subject, workload, [crash("count-0").after(seconds(0.2))], tmp_path / "run")
    promoted = [s.record for s in finished.history.records if isinstance(s.record, Promoted)]
    # On a slow machine, the third can be taken for lost as well.
    assert min(one.incarnation for one in promoted if one.slice == "count-0") > 2
    assert _holds(finished), finished.judgement.verdicts


_SECONDS_EACH = 0.015


class _Slow(Operator[None]):
    """Passes events on, and takes its time on a node."""

    fan_out = 1

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> tuple[Output]:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(_SECONDS_EACH)
        return ((event.key, event.value),)


@pytest.mark.parametrize("batch", [1, 200])
def test_a_node_that_is_busy_is_not_taken_for_dead(batch: int, tmp_path: Path) -> None:
    """It takes longer over one batch, or over all that it has read already, than a node may be silent."""
    edges = (Edge("source", "slow", Partitioning.ONE_TO_ONE), Edge("slow", "sink", Partitioning.ONE_TO_ONE))
    subject = upstream_backup(Topology("slow", {"slow": Stage(_Slow())}, edges))
    workload = numbered(events=200, batch=batch, rate=100_000)
    assert workload.events * _SECONDS_EACH > HEARTBEAT_LIMIT
    finished = _run_subject(subject, workload, [], tmp_path / "run")
    assert not [entry for entry in finished.history.timeline if isinstance(entry, NodeGone)]
    assert finished.history.drained
