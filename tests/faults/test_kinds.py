"""Each kind of fault in the simulator: what it does to a run, that it proves that it bit, and what a scheme that claims
to survive makes of it."""

from dataclasses import replace
from random import Random
from typing import TypeVar

import pytest

from simulation import KINDS, SIMULATED, WORLDS, options_of, scenario_of
from streamproof import crash, delay, failed_write, handed_over_loss, loss, ms, partition, pause, slow_disk
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.quantities import Duration
from streamproof.harness.core.schedule import Fault, checkpoint
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.plans import RandomSchedules
from streamproof.harness.recording.history import FaultHealed, FaultStruck, History, NodeGone, NodeUp
from streamproof.harness.recording.records import CheckpointDurable, Refused
from verdicts_of import Judged, run

Entry = TypeVar("Entry")

CASE = "passive-replication-masked/trace-numbered"
ACTOR, UP = "trace-1", "relay-0"
SENT = Moment(Point.SEND_HANDED_OVER, Side.AFTER, "trace-1#1 @9", UP)
"""An upstream slice has given its third batch to the network."""
DETECTION = WORLDS["usual"].detection
TAKEN = checkpoint(1).taken.of(ACTOR)

BITING = {
    "crash": crash(ACTOR).at(SENT),
    "correlated crash": crash(ACTOR, UP).at(SENT),
    "handed-over loss": handed_over_loss(UP).at(SENT),
    "short pause": pause(ACTOR).at(SENT).lasting(ms(2)),
    "long pause": pause(ACTOR).at(SENT).lasting(ms(12)),
    "pause to the end": pause(ACTOR, UP).at(SENT),
    "partition": partition(UP, ACTOR).at(SENT).lasting(ms(9)),
    "partition to the end": partition(UP, ACTOR).at(SENT),
    "one-way partition": partition(UP, ACTOR, one_way=True).at(SENT).lasting(ms(9)),
    "partition of an operator": partition("trace", UP).at(SENT).lasting(ms(9)),
    "partition from the source": partition("source-0", UP).after(ms(2)).lasting(ms(9)),
    "partition from the sink": partition(ACTOR, "sink").after(ms(2)).lasting(ms(20)),
    "delay": delay(UP, ACTOR, by=ms(5)).after(ms(5)).lasting(ms(9)),
    "loss": loss(UP, ACTOR).at(SENT),
    "slow disk": slow_disk(ACTOR, by=ms(8)).at(TAKEN).lasting(ms(3)),
    "failed write": failed_write(ACTOR).at(TAKEN).lasting(ms(9)),
    "failed write to the end": failed_write(ACTOR).at(TAKEN),
}


def ran(fault: Fault, *more: Fault, case: str = CASE) -> Judged:
    return run(scenario_of(case), [fault, *more])


def of_kind(history: History, kind: type[Entry]) -> list[Entry]:
    return [entry for entry in history.timeline if isinstance(entry, kind)]


@pytest.mark.parametrize("name", BITING)
def test_every_kind_proves_that_it_bit_and_heals_and_is_survived(name: str) -> None:
    fault = BITING[name]
    judged = ran(fault)
    struck = list(judged.history.struck())
    assert [one.bite.why_not for one in struck] == [""] * len(struck)
    assert struck
    healed = of_kind(judged.history, FaultHealed)
    lasting = KINDS[fault.kind].lasts or fault.kind == "loss"
    assert [one.target for one in healed] == ([one.bite.target for one in struck] if lasting else [])
    if fault.duration is not None:
        assert {one.stamp.at - struck[0].stamp.at for one in healed} == {fault.duration.micros}
    assert all(one.proof.count for one in healed)
    assert judged.alarms() == []
    assert judged.claim.status is Status.HOLDS


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (partition(ACTOR, "sink-0").after(ms(0)).lasting(ms(1)), "messages held back: 0"),
        (delay(ACTOR, "sink-0", by=ms(1)).after(ms(0)).lasting(ms(1)), "messages delayed: 0"),
        (loss(ACTOR, "sink-0").after(ms(0)), "messages lost: 0"),
        (slow_disk(ACTOR).after(ms(0)).lasting(ms(1)), "writes delayed: 0"),
        (failed_write(ACTOR).after(ms(0)).lasting(ms(1)), "writes refused: 0"),
        (pause(ACTOR).after(ms(0.1)).lasting(ms(0.1)), "actions put off: 0"),
        (handed_over_loss(ACTOR).after(ms(2)), "messages handed over and lost: 0"),
        (pause(ACTOR).after(ms(500)).lasting(ms(1)), "all input had been processed by then"),
    ],
    ids=str,
)
def test_what_got_in_the_way_of_nothing_did_not_bite(fault: Fault, why: str) -> None:
    judged = ran(fault)
    assert judged.claim.status is Status.UNKNOWN
    assert why in judged.claim.reason


def test_a_fault_that_was_not_seen_to_heal_proves_nothing() -> None:
    history = ran(BITING["partition"]).history
    cut_short = [entry for entry in history.timeline if not isinstance(entry, FaultHealed)]
    (struck,) = History(history.records, cut_short).struck()
    assert struck.bite.why_not == "it was not seen to heal"


def test_a_short_pause_is_a_stall_and_no_failure() -> None:
    history = ran(BITING["short pause"]).history
    assert of_kind(history, NodeGone) == of_kind(history, NodeUp) == []


def test_a_long_pause_makes_a_zombie_that_is_fenced_off_and_joins_again() -> None:
    history = ran(BITING["long pause"]).history
    (struck,) = of_kind(history, FaultStruck)
    (gone,), (up,) = of_kind(history, NodeGone), of_kind(history, NodeUp)
    assert gone.stamp.at - struck.stamp.at == DETECTION
    assert gone.node == up.node == struck.bite.node
    assert up.stamp.at - struck.stamp.at == 12_000 + WORLDS["usual"].control_delay
    refused = [s.record for s in history.records if isinstance(s.record, Refused)]
    assert {(r.peer, r.peer_incarnation) for r in refused} == {(ACTOR, 1)}


def test_the_store_refuses_the_checkpoint_of_a_zombie() -> None:
    """It is frozen when its checkpoint is about to be durable, and writes it when another has taken its place."""
    frozen = pause(ACTOR).at(Moment(Point.CHECKPOINT_DURABLE, Side.BEFORE, "1")).lasting(ms(20))
    judged = ran(frozen)
    durable = [s.record for s in judged.history.records if isinstance(s.record, CheckpointDurable)]
    assert [d.incarnation for d in durable if d.slice == ACTOR and d.number == 1] == [2]
    assert judged.claim.status is Status.HOLDS


def test_a_node_frozen_in_the_middle_of_what_it_does_goes_on_right_there() -> None:
    """It has taken the input and not yet sent what came of it: another fault at the next point strikes after the
    pause."""
    frozen = pause(UP).at(Moment(Point.SEND_ISSUED, Side.BEFORE, "trace-1#1 @9")).lasting(ms(2))
    judged = ran(frozen, crash(UP).at(SENT))
    first, second = of_kind(judged.history, FaultStruck)
    assert second.stamp.at - first.stamp.at == 2_000
    assert judged.claim.status is Status.HOLDS


def test_what_a_frozen_node_had_begun_to_send_on_a_broken_connection_does_not_come_on_the_next() -> None:
    """Else it would come in the place of what the old connection lost, as if the sender had passed that over."""
    gone = loss("count-1", "sink-0").at(Moment(Point.SEND_HANDED_OVER, Side.AFTER, "sink-0#1 @4", "count-1"))
    frozen = pause("count-1").at(Moment(Point.SEND_ISSUED, Side.BEFORE, "sink-0#1 @5", "count-1")).lasting(ms(2))
    judged = run(scenario_of("amnesia/word-count-words"), [gone, frozen], world="fast-source")
    assert [struck.bite.bit for struck in judged.history.struck()] == [True, True]
    assert judged.alarms() == []


def test_a_paused_node_can_crash() -> None:
    judged = ran(BITING["long pause"], crash(ACTOR).at(Moment(Point.RECEIVED, Side.AFTER, "relay-0#1 @13", "trace-0")))
    assert judged.alarms() == []
    assert len(of_kind(judged.history, FaultHealed)) == 1


def test_two_pauses_of_one_node_end_with_the_later() -> None:
    judged = ran(pause(ACTOR).at(SENT).lasting(ms(2)), pause(ACTOR).at(SENT).lasting(ms(4)))
    assert judged.claim.status is Status.HOLDS
    first, second = of_kind(judged.history, FaultHealed)
    assert second.stamp.at - first.stamp.at == 2_000
    assert of_kind(judged.history, NodeGone) == []


def test_nobody_is_given_up_for_a_link() -> None:
    for name in ("partition to the end", "delay", "loss"):
        assert of_kind(ran(BITING[name]).history, NodeGone) == []


def test_loss_breaks_what_only_crashes_leave_alone() -> None:
    """Amnesia replays nothing: what a connection loses is lost, though nobody has crashed."""
    judged = run(scenario_of("amnesia/trace-numbered"), [BITING["loss"]])
    assert judged.lost > 0


@pytest.mark.parametrize("kind", sorted(name for name, kind in KINDS.items() if kind.draw is not None))
def test_a_drawn_fault_is_one_that_can_be_meant(kind: str) -> None:
    scenario = scenario_of(CASE)
    aims = replace(Bench(scenario, Registry(), seed=1).aims, nodes=("node-0", "node-1", "node-2", "driver"))
    draw = KINDS[kind].draw
    assert draw is not None
    drawn = [draw(Random(seed), aims) for seed in range(50)]
    assert len(set(drawn)) > 1
    assert drawn == [draw(Random(seed), aims) for seed in range(50)]
    assert {fault.kind for fault in drawn} == {kind}
    assert {fault.duration is not None for fault in drawn} == {KINDS[kind].lasts}
    assert all(fault.trigger is None and hash(fault) for fault in drawn)


@pytest.mark.parametrize("world", ["usual", "few-nodes", "noticed-at-once", "slow-links"])
@pytest.mark.parametrize("case", [CASE, "passive-replication/word-count-words"])
def test_no_schedule_of_all_kinds_breaks_what_replays(case: str, world: str) -> None:
    scenario = scenario_of(case)
    bench = Bench(scenario, Registry(), seed=5, options=options_of(world, scenario))
    plan = RandomSchedules(5, 60, kinds=tuple(SIMULATED))
    trials = [trial for piece in plan.pieces(bench) for trial in plan.trials(bench, piece)]
    assert {fault.kind for trial in trials for fault in trial.schedule} == set(SIMULATED)
    outcomes = [bench.attempt(trial) for trial in trials]
    for trial, outcome in zip(trials, outcomes, strict=True):
        story = f"seed {trial.seed}: {'; '.join(map(str, trial.schedule))}: {outcome.reason}"
        assert outcome.status is not Status.VIOLATED, story
        assert not outcome.essential, story
    held = [outcome.status for outcome in outcomes].count(Status.HOLDS)
    assert held > len(outcomes) / 2, "most schedules should strike as planned"


def test_kinds_that_have_nothing_to_disturb_are_not_drawn() -> None:
    bench = Bench(scenario_of("amnesia/trace-numbered"), Registry(), seed=5)
    disks = ("slow-disk", "failed-write")
    with pytest.raises(InvalidScenario, match="amnesia never does what slow-disk, failed-write would disturb"):
        list(RandomSchedules(5, 1, kinds=disks).trials(bench, 0))
    drawn = (trial for piece in range(20) for trial in RandomSchedules(5, kinds=("crash", *disks)).trials(bench, piece))
    assert {fault.kind for trial in drawn for fault in trial.schedule} == {"crash"}


@pytest.mark.parametrize(
    "fault",
    [
        partition("relay-0", "trace-1/1").after(ms(9)),
        loss("trace-1", "relay-0/1").at(Moment(Point.SEND_HANDED_OVER, Side.AFTER, "trace-1#1 @9", "relay-0/1")),
    ],
    ids=str,
)
def test_a_link_of_one_replica_leaves_its_peer_alone(fault: Fault) -> None:
    """The other replica has what this one lacks, and whoever listens takes it from there."""
    judged = run(scenario_of("active-replication/trace-numbered"), [fault])
    (struck,) = judged.history.struck()
    assert struck.bite.why_not == ""
    assert set(struck.bite.actors) == set(fault.targets)
    assert judged.alarms() == []


def test_faults_say_what_they_are() -> None:
    assert str(BITING["one-way partition"]).startswith("partition relay-0 to trace-1, after relay-0 has handed over")
    assert str(BITING["one-way partition"]).endswith(", for 0.009 s")
    assert str(BITING["delay"]) == "delay relay-0 and trace-1 by 0.005 s, 0.005 s after the start, for 0.009 s"
    assert BITING["delay"].amount("by", Duration) == Duration(5_000)
