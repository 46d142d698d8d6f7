"""How long recoveries took is told from the timeline, by what came after each fault."""

from simulation import history_of, scenario_of
from streamproof.faults.crash import crash
from streamproof.harness.judging.recovery import recoveries
from streamproof.harness.recording.history import Bite, FaultStruck, History, NodeGone, Placed, Stamp
from streamproof.harness.recording.records import CheckpointTaken, Stamped, Started, Taken
from streamproof.harness.schedule import checkpoint, recovery

CASE = scenario_of("passive-replication-masked/trace-numbered")


def test_a_recovery_has_the_parts_that_the_world_gave_it() -> None:
    (found,) = recoveries(history_of(CASE, [crash("trace-0").at(checkpoint(1).durable)]))
    assert (found.fault, found.actor, found.incarnation) == (0, "trace-0", 2)
    assert (found.detected, found.redeployed, found.restored) == (5_000, 3_000, 0)
    assert found.caught_up is not None
    assert found.total == 8_000 + found.caught_up


def test_who_dies_while_it_starts_is_not_its_own_successor() -> None:
    schedule = [crash("trace-0").at(checkpoint(1).durable), crash("trace-0").at(recovery("trace-0").started)]
    first, *rest = recoveries(history_of(CASE, schedule))
    assert (first.actor, first.incarnation, first.total) == ("trace-0", 2, None), "it never caught up"
    (second,) = [found for found in rest if found.actor == "trace-0"]
    assert (second.fault, second.incarnation) == (1, 3)
    assert (second.detected, second.redeployed, second.restored) == (5_000, 3_000, 0)


def test_what_a_checkpoint_had_seen_is_reached_as_soon_as_it_is_restored() -> None:
    bite = Bite("c-0", "node-0", ("c-0",), outstanding=True, gone=True)
    timeline = [
        FaultStruck(Stamp(100), 0, "crash c-0", None, bite),
        NodeGone(Stamp(110), "node-0"),
        Placed(Stamp(120), "c-0", 2, "node-1"),
    ]
    records = [
        Stamped(0, Started("c-0", 1, None, 1)),
        Stamped(50, Taken("c-0", 1, "s-0", 1, 1, 10, 10)),
        Stamped(60, CheckpointTaken("c-0", 1, 1)),
        Stamped(130, Started("c-0", 2, (1, 1), 11)),
        Stamped(9_000, Taken("c-0", 2, "s-0", 1, 11, 20, 10)),
    ]
    (found,) = recoveries(History(records, timeline))
    assert (found.caught_up, found.total) == (0, 30)
    late = [*records[:3], Stamped(70, Taken("c-0", 1, "s-0", 1, 11, 12, 2)), *records[3:]]
    (found,) = recoveries(History(late, timeline))
    assert found.caught_up == 9_000 - 130
