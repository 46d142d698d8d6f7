"""Work takes virtual time: what queues, cores, room and crashes come to is what arithmetic says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from simulation import KINDS
from streamproof.faults.crash import crash
from streamproof.faults.pause import pause
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.scenario import Scenario, check
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Address, Moment
from streamproof.harness.core.costs import Costs, described_costs
from streamproof.harness.core.errors import InvalidScenario, UnknownName
from streamproof.harness.core.guarantees import k_safety, recovers_within
from streamproof.harness.core.places import numbered_workers
from streamproof.harness.core.quantities import Duration, events, ms
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Edge, Partitioning, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.judging.recovery import Recovery, recoveries
from streamproof.harness.judging.reexecutor import Reexecutor
from streamproof.harness.recording.history import FaultStruck, History
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.recording.records import Delivered, Offered, Taken
from streamproof.harness.running.judgement import judge_history
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.oracles import ORACLES
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.epoch_merge import epoch_merge
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.stateless import Forward
from streamproof.scenarios.tumbling import tumbling_count
from streamproof.scenarios.word_count import Count
from streamproof.scenarios.workloads import numbered, words

JUDGES = {oracle.guarantee: oracle for oracle in ORACLES}
WORLD = SimulationOptions(nodes=1, link_delay=(200, 201), disk_delay=(500, 501))
LINK = 200
"""Microseconds."""
UP = 3_000 + 3 * LINK + LINK
"""When a slice is deployed, announced, has opened its channel, and has what was offered before."""


def chain(*operators: str, counts: bool = False) -> Topology:
    names = ("source", *operators, "sink")
    return Topology(
        "chain",
        {name: Stage(Count() if counts else Forward()) for name in operators},
        tuple(Edge(up, down, Partitioning.ONE_TO_ONE) for up, down in pairwise(names)),
    )


def beside(*operators: str) -> Topology:
    """Operators that are fed the same, each by the source itself."""
    return Topology(
        "beside",
        {name: Stage(Forward()) for name in operators},
        tuple(edge for name in operators for edge in (Edge("source", name), Edge(name, "sink"))),
    )


def paced(count: int, rate: int, batch: int = 1) -> Workload:
    return replace(numbered(events=count, batch=batch), rate=rate)


def run(
    subject: SchemeSubject,
    workload: Workload,
    costs: Costs | None,
    *faults: Fault,
    world: SimulationOptions = WORLD,
) -> History:
    recorder = MemoryRecorder()
    planned = Run("test", Scenario(subject, workload, faults, costs=costs), 1, recorder, KINDS, None)
    with SimulatedCluster(world).deploy(planned) as deployment:
        deployment.prepare()
        deployment.start()
        deployment.drained(ms(1))
        deployment.stop()
    return recorder.history()


def taken(history: History, slice_id: str) -> list[tuple[int, int]]:
    """When a slice was through with events, and with how many."""
    return [
        (one.at, one.record.count)
        for one in history.of(Taken)
        if isinstance(one.record, Taken) and one.record.slice == slice_id
    ]


def offered(history: History) -> list[tuple[int, int]]:
    return [(one.at, len(one.record.events)) for one in history.of(Offered) if isinstance(one.record, Offered)]


def upto(moments: Sequence[tuple[int, int]], at: int) -> int:
    return sum(count for when, count in moments if when <= at)


def test_an_overloaded_slice_falls_behind_by_what_comes_less_what_it_can_do() -> None:
    history = run(amnesia(chain("work")), paced(300, rate=1_000), Costs({"work": ms(2.5)}))
    came, went = offered(history), taken(history, "work-0")
    backlogs = {at: upto(came, at) - upto(went, at) for at in range(50_000, 300_000, 50_000)}
    for at, backlog in backlogs.items():
        # 1 comes and 0.4 go in a millisecond.
        assert backlog == pytest.approx(0.6 * at / 1_000, abs=2)
    assert [later - earlier for (earlier, _), (later, _) in pairwise(went)] == [2_500] * 299


def test_a_slice_that_can_keep_up_has_no_queue_and_is_as_busy_as_the_law_says() -> None:
    history = run(amnesia(chain("work")), paced(200, rate=1_000), Costs({"work": ms(0.7)}))
    came, went = offered(history), taken(history, "work-0")
    pairs = list(zip(came, went, strict=True))
    assert {later - earlier for (earlier, _), (later, _) in pairs[20:]} == {700 + LINK}
    # Utilisation: 0.7 ms of work in each millisecond; it is through a link and a service after the last has come.
    assert went[-1][0] - went[20][0] == 179 * 1_000


def test_a_batch_costs_what_its_events_cost() -> None:
    history = run(amnesia(chain("work")), paced(12, rate=10, batch=4), Costs({"work": ms(3)}))
    (first, _), *_ = offered(history)
    assert taken(history, "work-0")[0] == (first + LINK + 4 * 3_000, 4)


@pytest.mark.parametrize(("cores", "through"), [(1, 20 * 2_000), (2, 20 * 1_000)])
def test_slices_on_a_node_share_its_cores(cores: int, through: int) -> None:
    workload = paced(20, rate=1_000_000)
    history = run(amnesia(beside("a", "b")), workload, Costs({"a": ms(1), "b": ms(1)}, cores=cores))
    assert max(at for name in ("a-0", "b-0") for at, _ in taken(history, name)) == UP + through


def test_slices_that_share_a_core_take_turns() -> None:
    workload = paced(20, rate=1_000_000)
    history = run(amnesia(beside("a", "b")), workload, Costs({"a": ms(1), "b": ms(1)}))
    turns = [one.record.slice for one in history.of(Taken) if isinstance(one.record, Taken)]
    assert turns[:6] in (["a-0", "b-0"] * 3, ["b-0", "a-0"] * 3)
    assert all(one != other for one, other in pairwise(turns))


def test_on_a_node_each_they_do_not_wait_for_one_another() -> None:
    workload = paced(20, rate=1_000_000)
    apart = replace(WORLD, nodes=2)
    history = run(amnesia(beside("a", "b")), workload, Costs({"a": ms(1), "b": ms(1)}), world=apart)
    assert max(at for at, _ in taken(history, "a-0")) == UP + 20 * 1_000


def test_without_a_cost_an_operator_takes_no_time() -> None:
    history = run(amnesia(chain("work", "free")), paced(20, rate=1_000), Costs({"work": ms(0.1)}))
    worked, freely = taken(history, "work-0"), taken(history, "free-0")
    assert [at + LINK for at, _ in worked[10:]] == [at for at, _ in freely[10:]]


def test_what_is_full_stops_those_that_feed_it_up_to_the_source() -> None:
    slow = {"slow": ms(2)}
    subject, workload = amnesia(chain("fast", "slow")), paced(200, rate=1_000)
    costs = [Costs(slow, cores=2, room=room) for room in (events(5), None)]
    history, free = (run(subject, workload, one) for one in costs)
    for at in range(50_000, 200_000, 10_000):
        assert upto(taken(history, "fast-0"), at) - upto(taken(history, "slow-0"), at) <= 5 + 2
        assert upto(offered(history), at) - upto(taken(history, "fast-0"), at) <= 5 + 2
    assert upto(taken(free, "fast-0"), 190_000) - upto(taken(free, "slow-0"), 190_000) > 80
    assert history.drained
    assert [at for at, _ in taken(history, "slow-0")][-1] == pytest.approx(taken(free, "slow-0")[-1][0], abs=5_000)


def test_the_same_seed_gives_the_same_history_and_another_a_different_one() -> None:
    subject, costs = passive_replication(chain("a", "b"), checkpoint_every=events(8)), Costs({"a": ms(1), "b": ms(1)})
    faults = (crash("a-0").after(ms(30)),)
    one, same = (run(subject, paced(60, rate=1_000), costs, *faults) for _ in range(2))
    assert one.digest() == same.digest()
    assert [stamped.at for stamped in one.records] == [stamped.at for stamped in same.records]
    assert one.digest() != run(subject, paced(60, rate=1_000), None, *faults).digest()


# Crashes and pauses


def struck(history: History) -> FaultStruck:
    return next(entry for entry in history.timeline if isinstance(entry, FaultStruck))


def test_a_crash_in_the_middle_of_an_events_work_loses_that_work_and_says_where() -> None:
    costs, workload = Costs({"work": ms(4)}), paced(8, rate=100)
    subject = upstream_backup(chain("work"), acknowledge_every=events(4))
    calm = run(subject, workload, costs)
    done = taken(calm, "work-0")[2][0]
    history = run(subject, workload, costs, crash("work-0").after(Duration(done - 1_000)))
    assert upto(taken(history, "work-0"), done) == 2
    (where,) = struck(history).under_way
    assert where == "work-0/0#1 after received source-0#1 @3"
    # To those who are left it is as if it had died at that address: they see the same.
    there = run(subject, workload, costs, crash("work-0").at(Moment.exactly(Address.parse(where))))
    assert struck(there).under_way == ()
    assert struck(there).stamp.at == done
    assert rows(there) == rows(history)
    seen = [(one.record.first, one.record.incarnation) for one in history.of(Taken) if isinstance(one.record, Taken)]
    assert (3, 1) not in seen
    assert (3, 2) in seen


def rows(history: History) -> list[int]:
    return [row.seq for record in history.each(Delivered) for row in record.rows]


def test_before_its_arrival_is_before_its_work_and_after_it_is_when_the_work_is_done() -> None:
    costs, workload = Costs({"work": ms(4)}), paced(8, rate=100)
    subject = amnesia(chain("work"))
    done = taken(run(subject, workload, costs), "work-0")[2][0]
    address = "work-0/0#1 {} received source-0#1 @3"
    before, after = (
        run(subject, workload, costs, crash("work-0").at(Moment.exactly(Address.parse(address.format(side)))))
        for side in ("before", "after")
    )
    assert (struck(before).stamp.at, struck(after).stamp.at) == (done - 4_000, done)
    assert upto(taken(before, "work-0"), done) == upto(taken(after, "work-0"), done) == 2


def test_what_waits_for_a_slice_dies_with_its_node() -> None:
    costs = Costs({"work": ms(10)})
    history = run(amnesia(chain("work")), paced(20, rate=1_000), costs, crash("work-0").after(ms(15)))
    assert history.drained
    # It was through with the first; the other 13 or so that had come by then are gone with it.
    assert upto(taken(history, "work-0"), 1 << 40) <= 20 - 12


def test_a_pause_in_the_middle_of_work_makes_it_so_much_longer() -> None:
    costs, workload = Costs({"work": ms(4)}), paced(3, rate=100)
    subject = amnesia(chain("work"))
    calm = taken(run(subject, workload, costs), "work-0")
    for begins in (1_000, 3_999):
        fault = pause("work-0").after(Duration(calm[0][0] - begins)).lasting(ms(2))
        history = run(subject, workload, costs, fault)
        assert taken(history, "work-0")[0][0] == calm[0][0] + 2_000
        assert taken(history, "work-0")[1:] == calm[1:]
        (paused,) = history.struck()
        assert paused.bite.bit, paused.bite.why_not


# Recovery


def recovery(behind: int, cost: Duration) -> Recovery:
    """Of a slice that dies when it has taken so many events since its last checkpoint, the last in memory only."""
    subject = passive_replication(chain("work", counts=True), checkpoint_every=events(40))
    workload = paced(60, rate=100)
    fault = crash("work-0").after(events(40 + behind))
    history = run(subject, workload, Costs({"work": cost}), fault)
    (found,) = recoveries(history, Reexecutor(subject.specs).reexecute(history.records))
    return found


def test_catching_up_takes_what_the_replayed_events_cost() -> None:
    times = {behind: recovery(behind, ms(3)).caught_up for behind in (2, 6, 12)}
    assert all(time is not None for time in times.values())
    found = [time for time in times.values() if time is not None]
    assert found == sorted(found)
    # What is replayed comes in batches, each sent a moment after the other: it is the work that takes long.
    assert found[1] - found[0] == pytest.approx(4 * 3_000, abs=400)
    assert found[2] - found[0] == pytest.approx(10 * 3_000, abs=400)
    doubled = recovery(12, ms(6)).caught_up
    assert doubled is not None
    assert doubled - found[2] == pytest.approx(11 * 3_000, abs=400)


def judged(limit: Duration, costs: Costs | None) -> Iterator[tuple[Status, str]]:
    subject = passive_replication(chain("work", counts=True), checkpoint_every=events(40))
    faults = (crash("work-0").after(events(52)),)
    scenario = Scenario(subject, paced(60, rate=100), faults, claims=[recovers_within(limit)], costs=costs)
    history = run(subject, scenario.workload, costs, *faults)
    for verdict in judge_history(scenario, history, JUDGES, virtual_time=True).verdicts:
        yield verdict.status, verdict.reason


def test_recovers_within_is_judged_in_the_simulator_by_the_costs() -> None:
    total = recovery(12, ms(3)).total
    assert total is not None
    assert list(judged(Duration(total), Costs({"work": ms(3)}))) == [(Status.HOLDS, "")]
    assert list(judged(Duration(total - 1), Costs({"work": ms(3)}))) == [(Status.VIOLATED, "")]
    ((status, reason),) = judged(Duration(total), None)
    assert (status, "virtual" in reason) == (Status.UNKNOWN, True)


# What is written wrong


def test_costs_of_nobody_and_none_at_all_are_refused() -> None:
    places = numbered_workers(3)
    scenario = Scenario(amnesia(chain("work")), numbered(events=8), costs=Costs({"wrok": ms(1)}))
    with pytest.raises(UnknownName, match="work"):
        check(scenario, places, KINDS, JUDGES)
    with pytest.raises(InvalidScenario, match="costs are none"):
        Costs({"work": ms(0)})
    with pytest.raises(InvalidScenario, match="amount of time"):
        Costs({"work": 3})  # type: ignore[dict-item]
    with pytest.raises(InvalidScenario, match="cores"):
        Costs({"work": ms(1)}, cores=0)


def test_costs_come_back_from_a_record() -> None:
    for costs in (Costs({"b": ms(1), "a": ms(0.5)}, 2, events(7)), Costs({"a": ms(1)})):
        assert described_costs(costs.describe()) == costs
    assert described_costs(None) is None
    with pytest.raises(InvalidScenario, match="costs of the record"):
        described_costs({"per_event": 3})


def test_how_late_outputs_of_ends_of_epochs_are_is_not_known() -> None:
    costs = Costs({"count": ms(10)})
    subject = epoch_merge(tumbling_count(epoch=8))
    workload = words(vocabulary=6, events=32, batch=4)
    scenario = Scenario(subject, workload, claims=[k_safety(ms(1)), k_safety()], costs=costs)
    history = run(subject, workload, costs, world=replace(WORLD, nodes=2))
    bounded, plain = judge_history(scenario, history, JUDGES, virtual_time=True).verdicts
    assert bounded.status is Status.UNKNOWN
    assert "come of ends of epochs, and of no one input" in bounded.reason
    assert plain.status is Status.HOLDS
