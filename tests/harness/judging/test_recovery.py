"""How long recoveries took is told from the timeline, by what came after each fault."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import Log, Made, chain
from simulation import history_of, scenario_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.quantities import events
from streamproof.harness.core.schedule import checkpoint, recovery
from streamproof.harness.judging.incarnations import losses
from streamproof.harness.judging.oracle import Case
from streamproof.harness.judging.proven_faults import Faults
from streamproof.harness.judging.recovery import recoveries, recoveries_of
from streamproof.harness.recording.history import (
    Bite,
    Drained,
    FaultHealed,
    FaultStruck,
    History,
    NodeGone,
    NodeUp,
    Placed,
    Proof,
    Stamp,
    TimelineEntry,
)
from streamproof.harness.recording.records import CheckpointTaken, Stamped, Started, Taken

CASE = scenario_of("passive-replication-masked/trace-numbered")


def test_a_recovery_has_the_parts_that_the_world_gave_it() -> None:
    (found,) = recoveries(history_of(CASE, [crash("trace-0").at(checkpoint(1).durable)]))
    assert (found.fault, found.actor, found.incarnation) == (0, "trace-0", 2)
    assert (found.detected, found.redeployed, found.restored) == (5_000, 3_000, 0)
    assert found.caught_up is not None
    assert found.total == 8_000 + found.caught_up


@pytest.mark.parametrize("case", ["epoch-based-processing-masked/tumbling-count", "passive-replication/word-count-zen"])
def test_who_recovers_is_heard_again_whether_inputs_or_ends_of_epochs_tell(case: str) -> None:
    of = scenario_of(case)
    assert isinstance(of.subject, SchemeSubject)
    history = history_of(of, [crash("count-0").after(events(20))])
    (found,) = recoveries_of(Case(history, of.subject.collate(history), None))
    assert found.heard is not None
    assert found.total == (found.until_caught_up or 0) + found.heard


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


def test_what_was_placed_while_the_node_died_is_not_who_follows_it() -> None:
    bite = Bite("driver", "driver", ("c-0",), outstanding=True, gone=True)
    timeline = [
        FaultStruck(Stamp(100), 0, "crash driver", None, bite),
        Placed(Stamp(101), "c-0", 2, "node-1"),
        NodeGone(Stamp(110), "driver"),
        Placed(Stamp(120), "c-0", 3, "node-1"),
    ]
    records = [
        Stamped(0, Started("c-0", 1, None, 1)),
        Stamped(50, Taken("c-0", 1, "s-0", 1, 1, 10, 10)),
        Stamped(130, Started("c-0", 3, None, 1)),
        Stamped(140, Taken("c-0", 3, "s-0", 1, 1, 10, 10)),
    ]
    (found,) = recoveries(History(records, timeline))
    assert (found.incarnation, found.redeployed, found.total) == (3, 10, 40)


def with_a_peer() -> Made:
    made = Made(chain(Log()), replicas=2)
    made.offer("a", *range(1, 7))
    made.start("op0", 1)
    made.start("op0", 2, replica=1)
    made.take("op0", 1, "a", 1, 1, 2)
    made.deliver("op0", 1, 1, 2)
    return made


def test_where_another_is_active_already_the_recovery_is_until_something_is_heard_of_it() -> None:
    made = with_a_peer()
    made.take("op0", 2, "a", 1, 1, 6)
    made.lose("op0", 1)
    failed = made.at
    made.at += 500
    made.deliver("op0", 2, 3, 4)
    made.deliver("op0", 2, 5, 6)
    (found,) = recoveries(made.history())
    assert (found.actor, found.incarnation) == ("op0-0", 2)
    assert (found.detected, found.redeployed, found.restored, found.caught_up) == (0, 0, 0, failed + 501 - failed)


def test_where_another_is_promoted_that_it_is_active_stands_for_restored() -> None:
    made = with_a_peer()
    made.lose("op0", 1)
    made.at += 100
    made.promote("op0", 2)
    made.take("op0", 2, "a", 1, 1, 6)
    made.at += 30
    made.deliver("op0", 2, 3, 4, 5, 6)
    (found,) = recoveries(made.history())
    assert (found.incarnation, found.detected, found.redeployed) == (2, 0, 0)
    assert (found.restored, found.caught_up, found.total) == (101, 32, 133)


def test_a_replica_that_stood_by_is_missed_by_nobody() -> None:
    made = with_a_peer()
    made.lose("op0", 2, replica=1)
    (found,) = recoveries(made.history())
    assert (found.actor, found.incarnation, found.total) == ("op0-0/1", 1, 0)


def test_both_at_once_recover_as_one_without_a_peer_does() -> None:
    made = with_a_peer()
    made.lose("op0", 1)
    made.at -= 1
    made.lose("op0", 2, replica=1)
    first, second = recoveries(made.history())
    assert (first.incarnation, first.total, second.incarnation, second.total) == (0, None, 0, None)


def test_a_crash_whose_proof_comes_when_it_heals_is_recovered_from_too() -> None:
    bite = Bite("c-0", "node-0", ("c-0",), outstanding=True, gone=True, lasting=True)
    timeline = [
        FaultStruck(Stamp(100), 0, "crash-loop c-0", None, bite),
        NodeGone(Stamp(110), "node-0"),
        Placed(Stamp(120), "c-0", 2, "node-1"),
        FaultHealed(Stamp(130), 0, "crash-loop c-0", "c-0", Proof(2, "kills")),
    ]
    (found,) = recoveries(History([], timeline))
    assert (found.incarnation, found.detected, found.redeployed) == (2, 10, 10)


ONE = Bite("c-0", "node-0", ("c-0",), outstanding=True, gone=True)
PLACED = [
    Placed(Stamp(10), "c-0", 1, "node-0"),
    Placed(Stamp(11), "d-0", 1, "node-1"),
    FaultStruck(Stamp(100), 1, "crash c-0", None, ONE),
    NodeGone(Stamp(110), "node-0"),
    Placed(Stamp(120), "c-0", 2, "node-1"),
    NodeUp(Stamp(130), "node-0"),
    FaultStruck(Stamp(200), 0, "crash node-1", None, Bite("node-1", "node-1", ("c-0", "d-0"), True, gone=True)),
    NodeGone(Stamp(215), "node-1"),
    Placed(Stamp(230), "d-0", 2, "node-0"),
    Placed(Stamp(231), "c-0", 3, "node-0"),
    Drained(Stamp(900)),
]
SAID = [
    Stamped(12, Started("c-0", 1, None, 1)),
    Stamped(125, Started("c-0", 2, None, 1)),
    Stamped(240, Started("c-0", 3, None, 1)),
    Stamped(241, Started("d-0", 2, None, 1)),
]


def told(timeline: Sequence[TimelineEntry]) -> dict[tuple[int, str], tuple[int, int | None, int | None]]:
    found = recoveries(History(SAID, timeline))
    return {(one.fault, one.actor): (one.incarnation, one.detected, one.total) for one in found}


@given(st.permutations(PLACED))
def test_what_happened_first_is_said_by_the_clock_and_never_by_who_was_heard_first(heard: list[TimelineEntry]) -> None:
    assert told(heard) == {(1, "c-0"): (2, 10, 25), (0, "c-0"): (3, 15, 40), (0, "d-0"): (2, 15, 41)}
    assert losses(History(SAID, heard)) == {("c-0", 1): 100, ("c-0", 2): 200, ("d-0", 1): 200}
    faults = Faults(History(SAID, heard))
    assert [faults.before(at) for at in (99, 100, 199, 200, 899)] == [None, 1, 1, 0, 0]
    first = faults.of(("c-0",))
    assert first is not None
    assert first.number == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_a_successor_that_is_heard_of_before_the_loss_is_one(swapped: bool) -> None:
    gone_and_placed = [NodeGone(Stamp(110), "node-0"), Placed(Stamp(120), "c-0", 2, "node-1")]
    timeline = [
        PLACED[0],
        FaultStruck(Stamp(100), 0, "crash c-0", None, ONE),
        *gone_and_placed[:: -1 if swapped else 1],
    ]
    (found,) = recoveries(History([Stamped(130, Started("c-0", 2, None, 1))], timeline))
    assert (found.incarnation, found.detected, found.redeployed, found.total) == (2, 10, 10, 30)
    # A loss can be heard of while the fault that made it is still being carried out.
    (found,) = recoveries(History([], [timeline[0], timeline[2], timeline[3], timeline[1]]))
    assert (found.incarnation, found.detected) == (2, 10)


@pytest.mark.parametrize("swapped", [False, True])
def test_of_one_moment_the_cause_comes_first(swapped: bool) -> None:
    """Placed as the loss was detected: for that reason, unless it was replaced for no other."""
    struck = FaultStruck(Stamp(100), 0, "crash driver", None, Bite("driver", "driver", ("c-0",), True, gone=True))
    at_once = [NodeGone(Stamp(110), "driver"), Placed(Stamp(110), "c-0", 2, "node-1")]
    timeline = [PLACED[0], struck, *at_once[:: -1 if swapped else 1]]
    (found,) = recoveries(History([], timeline))
    assert (found.incarnation, found.redeployed) == (2, 0)
    (found,) = recoveries(History([], [*timeline, Placed(Stamp(120), "c-0", 3, "node-1")]))
    assert (found.incarnation, found.redeployed) == (3, 10)
    lost_again = [NodeGone(Stamp(115), "node-1"), Placed(Stamp(120), "c-0", 3, "node-2")]
    (found,) = recoveries(History([], [*timeline, *lost_again]))
    assert (found.incarnation, found.redeployed) == (2, 0)


def test_who_was_hit_is_not_its_own_successor_however_late_it_began() -> None:
    """Its own beginning can be stamped as the loss is."""
    timeline = [
        Placed(Stamp(100), "c-0", 1, "node-0"),
        FaultStruck(Stamp(100), 0, "crash c-0", None, ONE),
        NodeGone(Stamp(100), "node-0"),
    ]
    (found,) = recoveries(History([], timeline))
    assert (found.incarnation, found.total) == (0, None)
    (found,) = recoveries(History([], [*timeline, Placed(Stamp(100), "c-0", 2, "node-1")]))
    assert found.incarnation == 2


def test_a_node_that_was_taken_for_lost_before_it_died_needs_no_second_detection() -> None:
    timeline = [
        PLACED[0],
        NodeGone(Stamp(90), "node-0"),
        FaultStruck(Stamp(100), 0, "crash c-0", None, ONE),
        Placed(Stamp(120), "c-0", 2, "node-1"),
    ]
    (found,) = recoveries(History([Stamped(130, Started("c-0", 2, None, 1))], timeline))
    assert (found.incarnation, found.detected, found.redeployed, found.total) == (2, 0, 20, 30)
    (found,) = recoveries(History([], [*timeline[:2], NodeUp(Stamp(95), "node-0"), *timeline[2:]]))
    assert found.detected is None


def test_one_that_begins_when_its_place_has_been_taken_takes_nobodys() -> None:
    timeline = [PLACED[0], NodeGone(Stamp(90), "node-0"), Placed(Stamp(120), "c-0", 3, "node-2")]
    late = Placed(Stamp(125), "c-0", 2, "node-1")
    assert losses(History([], [*timeline, late])) == {("c-0", 1): 90, ("c-0", 2): 125}
    assert losses(History([], [*timeline, late, NodeGone(Stamp(200), "node-2")]))["c-0", 3] == 200


def test_a_crash_where_an_actor_ran_once_does_not_take_it() -> None:
    timeline = [
        PLACED[0],
        Placed(Stamp(50), "c-0", 2, "node-1"),
        FaultStruck(Stamp(100), 0, "crash c-0", None, ONE),
    ]
    assert losses(History([], timeline)) == {("c-0", 1): 50}
    driver = Bite("driver", "driver", ("c-0",), True, gone=True)
    assert (
        losses(History([], [*timeline[:2], FaultStruck(Stamp(100), 0, "crash driver", None, driver)]))["c-0", 2] == 100
    )


def test_who_was_promoted_first_is_said_by_the_clock_too() -> None:
    made = with_a_peer()
    made.lose("op0", 1)
    made.promote("op0", 2)
    made.promote("op0", 2)
    (wanted,) = recoveries(made.history())
    made.records[-2:] = made.records[:-3:-1]
    assert recoveries(made.history()) == [wanted]
