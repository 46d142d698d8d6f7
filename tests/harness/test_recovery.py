"""How long recoveries took is told from the timeline, by what came after each fault."""

from simulation import history_of, scenario_of
from streamproof.faults.crash import crash
from streamproof.harness.judging.recovery import recoveries
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
