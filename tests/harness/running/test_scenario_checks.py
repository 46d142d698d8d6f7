"""What cannot be run or judged is refused before anything starts, with what is there instead."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulation import KINDS, WORLDS, scenario_of
from streamproof import (
    bandwidth,
    bridge,
    cpu_throttle,
    delay,
    executor_crash,
    failed_write,
    isolate,
    loss,
    memory_limit,
    packet_loss,
    partition,
    pause,
    python_crash,
    ring,
    slow_disk,
)
from streamproof.faults.crash import crash
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario, check, check_carriers
from streamproof.harness.core.addresses import Moment, Point
from streamproof.harness.core.errors import (
    ExitStatus,
    InvalidScenario,
    MissingTool,
    UnknownName,
    Unsupported,
    UserMistake,
)
from streamproof.harness.core.guarantees import (
    Guarantee,
    amnesia_recovery,
    exactly_once,
    precise_recovery,
    recovers_within,
)
from streamproof.harness.core.places import numbered_workers
from streamproof.harness.core.quantities import events, ms, seconds
from streamproof.harness.core.schedule import Fault, batch, checkpoint, recovery
from streamproof.harness.running.run import check_scenario
from streamproof.harness.worlds.embedded import cluster as embedded
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.amnesia import amnesia as amnesia_scheme
from streamproof.scenarios.equi_join import equi_join
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import numbered, text, words
from verdicts_of import JUDGES

CASE = scenario_of("passive-replication/word-count-words")
AMNESIA = scenario_of("amnesia/word-count-words")


def checked(scenario: Scenario) -> None:
    check(scenario, SimulatedCluster(WORLDS["usual"]).places, KINDS, JUDGES)


def with_faults(*faults: Fault, base: Scenario = CASE) -> Scenario:
    return Scenario(base.subject, base.workload, faults)


def claiming(*claims: Guarantee, breaks: tuple[Guarantee, ...] = ()) -> Scenario:
    return Scenario(CASE.subject, CASE.workload, (), claims, breaks)


def of_query(*claims: Guarantee, **parts: Any) -> Scenario:
    return Scenario(Query(str, "q", **parts), words(events=20), claims=claims)


GOOD = {
    "no faults": with_faults(),
    "a crash at a checkpoint": with_faults(crash("count-0").at(checkpoint(1).durable)),
    "a crash of neighbours": with_faults(crash("count-0", "split-0").after(events(5))),
    "a crash of a node": with_faults(crash("node-2").after(seconds(0.01))),
    "a crash during a recovery": with_faults(
        crash("count-0").after(events(5)), crash("split-0").at(recovery("count-0").started)
    ),
    "faults of links": with_faults(
        partition("count-0", "split-0", one_way=True).after(events(5)).lasting(ms(3)),
        partition("count-0", "split").after(seconds(1)),
        delay("source-0", "split-0", by=ms(3)).after(seconds(1)),
        loss("count-1", "sink").after(events(5)),
    ),
    "faults of nodes that last": with_faults(
        pause("count-0", "node-1").after(events(5)).lasting(ms(3)),
        slow_disk("count-0", by=ms(3)).after(events(5)),
        failed_write("node-0").after(ms(5)).lasting(seconds(1)),
    ),
    "faults of a rack, and of any node": with_faults(crash("rack-0", "any-worker").after(seconds(1))),
    "faults of several nodes": with_faults(
        bridge("rack-0", "node-2", "any-worker").after(seconds(1)),
        isolate("rack-0", "count-0").after(seconds(1)),
    ),
    "narrow links": with_faults(
        bandwidth("count-0", "sink", rate=1000).after(seconds(1)),
        bandwidth("node-0", "node-1", rate=10).after(seconds(1)),
    ),
    "faults between nodes": with_faults(
        partition("node-0", "rack-1").after(seconds(1)), packet_loss("node-0", "node-1", share=0.1).after(seconds(1))
    ),
    "claims of its own": claiming(exactly_once(), recovers_within(seconds(1)), breaks=(precise_recovery(),)),
}
WRONG: dict[str, tuple[Scenario, str]] = {
    "an unknown slice": (
        with_faults(crash("count-7").after(events(5))),
        "'count-7'.*split-0, count-0, count-1, node-0",
    ),
    "a source": (with_faults(crash("source-0").after(events(5))), "'source-0'"),
    "an unknown kind": (
        with_faults(Fault("flood", ("count-0",))),
        "kind of fault 'flood'; the nearest are: .*streamproof list faults",
    ),
    "a link of one end": (
        with_faults(partition("count-0", "count-0").after(seconds(1))),
        "a link has two different ends",
    ),
    "a link of three ends": (
        with_faults(Fault("loss", ("count-0", "split-0", "sink-0")).after(seconds(1))),
        "a link has two different ends",
    ),
    "a link of an unknown end": (
        with_faults(loss("count-0", "split-7").after(seconds(1))),
        "no end of a link 'split-7'; the nearest are: split-0, split, sink-0. All 9: source-0, split-0",
    ),
    "a link to a node": (
        with_faults(loss("count-0", "node-1").after(seconds(1))),
        "node-1 is a node and the other end is not",
    ),
    "a link that does not exist": (
        with_faults(partition("count-0", "count-1").after(seconds(1))),
        "nothing passes between these two; count-0 has links to: split-0, sink-0",
    ),
    "a link of a node with itself": (
        with_faults(partition("node-1", "node-1").after(seconds(1))),
        "a link has two different ends",
    ),
    "a bridge of two": (
        with_faults(bridge("node-0", "node-1", "node-0").after(seconds(1))),
        "bridge node-0 and node-1 and node-0: it needs 3 different targets",
    ),
    "a bridge between slices": (
        with_faults(bridge("count-0", "node-1", "node-0").after(seconds(1))),
        "bridge count-0 and node-1 and node-0: count-0 is no node; name nodes, of: node-0, ",
    ),
    "a bridge from a node to its rack": (
        with_faults(bridge("node-0", "node-1", "rack-0").after(seconds(1))),
        "node-0 is named twice",
    ),
    "a ring of slices": (
        with_faults(ring("count-0", "count-1", "split-0", "node-0").after(seconds(1))),
        "count-0 is no node",
    ),
    "a ring with the same node twice": (
        with_faults(ring("node-0", "node-1", "node-2", "node-0").after(seconds(1))),
        "node-0 is named twice",
    ),
    "an isolation of all": (
        with_faults(isolate("rack-0", "rack-1").after(seconds(1))),
        "isolate rack-0 and rack-1: these are all nodes, and there is nobody",
    ),
    "less than a link of slices can be narrowed to": (
        with_faults(bandwidth("count-0", "sink", rate=999).after(seconds(1))),
        "in thousands of bytes/s: 999 is less than one of them",
    ),
    "an amount that the kind does not take": (
        with_faults(replace(pause("count-0").after(seconds(1)), amounts=(("by", ms(1)),))),
        "does not take by; it takes: nothing",
    ),
    "a share above 1": (
        with_faults(replace(packet_loss("node-0", "node-1", share=0.5).after(seconds(1)), amounts=(("share", 1.5),))),
        "which share of the packets is lost, a number above 0 and below 1",
    ),
    "jitter that may undo the delay": (
        with_faults(
            Fault("delay", ("count-0", "sink-0"), amounts=(("by", ms(5)), ("jitter", ms(5)))).after(seconds(1))
        ),
        "with jitter=0.005 s, by=0.005 s may be nothing at all; jitter must be less",
    ),
    "a crash that lasts": (
        with_faults(crash("count-0").after(events(5)).lasting(ms(5))),
        "a crash has no duration; the manager restores",
    ),
    "a loss that lasts": (
        with_faults(loss("count-0", "sink-0").after(events(5)).lasting(ms(5))),
        "a loss has no duration; by itself",
    ),
    "a delay of nothing": (
        with_faults(Fault("delay", ("count-0", "sink-0")).after(events(5))),
        "say how much longer it takes, with by=...",
    ),
    "a duration without a unit": (
        with_faults(replace(pause("count-0").after(events(5)), duration=3)),  # type: ignore[arg-type]
        "how long it lasts, 3, needs its unit",
    ),
    "no target": (
        with_faults(Fault("crash", ()).after(seconds(1))),
        "crash nobody, 1 s after the start: the crash has no target, and would hit nobody",
    ),
    "no ends": (with_faults(Fault("loss", ()).after(seconds(1))), "the loss has no target, and would hit nobody"),
    "no trigger": (with_faults(crash("count-0")), "say when"),
    "a moment of an unknown slice": (
        with_faults(crash("count-0").at(Moment(Point.STARTED, actor="count-9"))),
        "no slice or driver 'count-9'",
    ),
    "a checkpoint where none is taken": (
        with_faults(crash("count-0").at(checkpoint(1).durable), base=AMNESIA),
        "never passes checkpoint-durable;",
    ),
    "events of a machine": (
        with_faults(crash("node-0").after(events(20))),
        "node-0 is a machine, which takes no events and passes no points",
    ),
    "a query's moment": (with_faults(crash("count-0").at(batch(1).written)), "never passes sink-write;"),
    "a recovery from nothing": (
        with_faults(crash("count-0").at(recovery("count-0").started)),
        "recovers only if an earlier fault hits it",
    ),
    "a second incarnation from nothing": (
        with_faults(crash("count-0").at(Moment(Point.STARTED, incarnation=2))),
        "recovers only if an earlier fault hits it",
    ),
    "an unknown guarantee": (
        claiming(Guarantee("perfection")),
        "guarantee 'perfection'; the nearest are: precise-recovery",
    ),
    "a claim without its bound": (claiming(Guarantee("recovers-within")), "needs a duration as its bound"),
    "a claim with the wrong bound": (
        claiming(Guarantee("recovers-within", events(5))),
        r"has within=Events\(count=5\); that is to be a duration",
    ),
    "a claim with an amount that it does not take": (
        claiming(Guarantee("exactly-once", events(5))),
        "exactly-once does not take within; it takes: nothing",
    ),
    "a claim that should break": (
        claiming(amnesia_recovery(), breaks=(amnesia_recovery(),)),
        "is claimed, and expected to break",
    ),
    "replicas of a query": (
        of_query(Guarantee("replicas-agree")),
        r"replicas-agree cannot be claimed of .*; what can be: "
        r"at-least-once, at-most-once, bounded-error-of-result, exactly-once, exactly-once-output, recovers, "
        r"recovers-within, rollback-.*",
    ),
    "gaps of a query": (of_query(amnesia_recovery()), "amnesia cannot be claimed of"),
    "a precise recovery of a query": (of_query(precise_recovery()), "speaks of slices and their orders"),
    "single outputs of a sink of the user's": (
        of_query(Guarantee("exactly-once-output"), read=print, write=print),
        "only the table at the end is seen; what can be: at-least-once, at-most-once, bounded-error-of-result, "
        "exactly-once, recovers",
    ),
    "the progress of a query with a sink of its own": (
        of_query(recovers_within(seconds(9)), read=print, write=print),
        "speaks of when input is taken again, .* `recovers`, with the time",
    ),
    "the progress of a query with a source of its own": (
        of_query(recovers_within(seconds(9)), source=print),
        "is seen of streamproof's own source and sink alone",
    ),
    "no claim": (claiming(), "claims nothing"),
    "a spacing of what is no source": (
        Scenario(amnesia_scheme(equi_join()), numbered(spacing={"right": 5})),
        "no source 'right'; there are: left-0, right-0",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_scenario_that_can_be_run_is_let_through(name: str) -> None:
    checked(GOOD[name])


@pytest.mark.parametrize("name", WRONG)
def test_a_scenario_that_cannot_be_run_is_refused_with_its_reason(name: str) -> None:
    scenario, reason = WRONG[name]
    with pytest.raises(UserMistake, match=reason) as caught:
        checked(scenario)
    assert isinstance(caught.value, InvalidScenario | UnknownName)
    assert caught.value.exit_status is ExitStatus.USER_MISTAKE


def test_the_first_incarnation_of_a_second_replica_is_no_recovery() -> None:
    pair = replace(CASE, subject=active_replication(word_count()))
    checked(with_faults(crash("count-0/1").at(Moment(Point.STARTED, incarnation=2)), base=pair))
    with pytest.raises(InvalidScenario, match="recovers only if an earlier fault hits it"):
        checked(with_faults(crash("count-0/1").at(Moment(Point.STARTED, incarnation=3)), base=pair))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: crash(), "needs a target"),
        (lambda: pause(), r"pause\(\) needs a target"),
        (lambda: slow_disk(by=ms(5)), "needs a target"),
        (lambda: ring("node-0", "node-1", "node-2"), "it takes four nodes at least"),
        (lambda: packet_loss("node-0", "node-1", share=1), "a number above 0 and below 1"),
        (lambda: cpu_throttle("node-0", cores=0), "a number above 0$"),
        (lambda: cpu_throttle("node-0", cores=float("inf")), r"cores=inf\): .*, a number above 0 and below 1e\+18$"),
        (lambda: cpu_throttle("node-0", cores=float("nan")), r"cores=nan\): .*, a number above 0$"),
        (lambda: memory_limit("node-0", size=10**30), r", a number above 0 and below 1e\+18$"),
        (lambda: slow_disk("count-0", by=5), "needs an amount of time"),  # type: ignore[arg-type]
        (lambda: delay("a-0", "b-0", by=ms(0)), "needs an amount of time"),
        (lambda: delay("a-0", "b-0", by=ms(5), jitter=ms(6)), "jitter must be less"),
        (lambda: pause("count-0").lasting(5), r"lasting\(5\) needs its unit"),  # type: ignore[arg-type]
        (lambda: pause("count-0").lasting(ms(0)), "never happens"),
        (lambda: ms(-1), "not negative"),
        (lambda: events(0), "positive whole number"),
        (lambda: events(1.5), "positive whole number"),
        (lambda: events(True), "positive whole number"),
        (lambda: seconds(-1), "not negative"),
        (lambda: seconds(float("nan")), "not negative"),
        (lambda: checkpoint(0), "numbered from 1"),
        (lambda: batch(-1), "numbered from 0"),
        (lambda: words(events=0), "events=0"),
        (lambda: numbered(batch=0), "batch=0"),
        (lambda: numbered(spacing={"left-0": 0}), r"spacing\['left-0'\]=0 needs a positive whole number"),
        (lambda: text("bible"), "'bible'; there are: python-docs, docstrings, unicode-names, zen"),
    ],
)
def test_an_amount_or_name_that_means_nothing_is_refused_where_it_is_written(make: object, reason: str) -> None:
    assert callable(make)
    with pytest.raises(UserMistake, match=reason):
        make()


def test_what_no_mechanism_of_a_cluster_carries_is_refused() -> None:
    places = numbered_workers(3)
    nodes = with_faults(partition("node-0", "node-1").after(seconds(1)))
    slices = with_faults(partition("count-0", "sink").after(seconds(1)))
    assert check_carriers(slices, "simulated", places, KINDS) == ("the simulated network",)
    assert "packet rules" in check_carriers(nodes, "docker", places, KINDS)[0]
    with pytest.raises(Unsupported, match="no partition of nodes on embedded; it can be had of: nodes on docker"):
        check_carriers(nodes, "embedded", places, KINDS)
    jittery = with_faults(delay("count-0", "sink", by=ms(5), jitter=ms(1)).after(seconds(1)))
    with pytest.raises(Unsupported, match="no jitter of a delay on simulated; it can be had on: docker, embedded"):
        check_carriers(jittery, "simulated", places, KINDS)


@pytest.mark.parametrize(
    "of_nodes", [isolate("count-0"), partition("node-0", "driver"), delay("node-0", "node-1", by=ms(5))], ids=str
)
@pytest.mark.parametrize("of_slices", [loss("count-0", "sink"), delay("count-0", "sink", by=ms(5))], ids=str)
def test_packets_that_pass_by_a_fault_of_nodes_are_not_taken_for_what_it_cut_off(
    of_nodes: Fault, of_slices: Fault
) -> None:
    places = numbered_workers(3, ("driver",))
    both = [of_nodes.after(seconds(1)), of_slices.after(seconds(2))]
    for fault in both:
        assert check_carriers(with_faults(fault), "docker", places, KINDS)
    with pytest.raises(Unsupported, match=f"{of_slices.whom} lets .*, where {of_nodes.kind} .* would not get at them"):
        check_carriers(with_faults(*both), "docker", places, KINDS)
    assert check_carriers(
        with_faults(of_slices.after(seconds(1)), pause("node-0").after(seconds(1))), "docker", places, KINDS
    )


@pytest.mark.parametrize("kind", [python_crash, executor_crash])
@pytest.mark.parametrize("other", ["master", "driver"])
def test_where_no_executor_is_none_can_crash(kind: Callable[[str], Fault], other: str) -> None:
    places = numbered_workers(3, ("master", "driver"))
    check(with_faults(kind("node-0").after(seconds(1)), kind("count-0").after(seconds(1))), places, KINDS, JUDGES)
    with pytest.raises(InvalidScenario, match=f"there is no executor on the {other}"):
        check(with_faults(kind(other).after(seconds(1))), places, KINDS, JUDGES)


SLOW, NARROW = delay("node-0", "node-1", by=ms(5)), bandwidth("node-0", "node-1", rate=5_000)


@pytest.mark.parametrize(
    ("faults", "refused"),
    [
        ([SLOW.after(seconds(1)), SLOW.after(seconds(2))], True),
        ([NARROW.after(seconds(1)).lasting(seconds(2)), bandwidth("node-1", "node-0", rate=9).after(seconds(2))], True),
        ([SLOW.after(seconds(1)).lasting(seconds(1)), SLOW.after(seconds(2)).lasting(seconds(9))], False),
        ([SLOW.after(seconds(5)), SLOW.after(seconds(2)).lasting(seconds(1))], False),
        ([SLOW.after(seconds(1)).lasting(seconds(5)), SLOW.at(checkpoint(2).durable.of("count-0"))], False),
        ([SLOW.after(seconds(1)), NARROW.after(seconds(1))], False),
        ([SLOW.after(seconds(1)), delay("node-0", "node-2", by=ms(1)).after(seconds(1))], False),
    ],
)
def test_a_second_queue_for_the_same_packets_is_refused(faults: list[Fault], refused: bool) -> None:
    scenario, places = with_faults(*faults), numbered_workers(3)
    if refused:
        with pytest.raises(Unsupported, match=r"a second .* between node-0 and node-1 while the first is in force"):
            check_carriers(scenario, "docker", places, KINDS)
    else:
        assert len(check_carriers(scenario, "docker", places, KINDS)) == 2


def test_replicas_that_cannot_be_apart_are_refused() -> None:
    scenario = scenario_of("2-safe-grouping/word-stream")
    SimulatedCluster(SimulationOptions(nodes=3)).check(scenario)
    with pytest.raises(Unsupported, match=r"3 replicas of each slice, apart .* needs as many nodes, and there are 2"):
        SimulatedCluster(SimulationOptions(nodes=2)).check(scenario)


def test_a_tool_that_is_missing_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "find_java", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cut, slow = partition("count-0", "sink"), delay("count-0", "sink", by=ms(5))
    assert check_scenario(with_faults(cut.after(seconds(1))), embedded.EmbeddedCluster(), Registry())
    with pytest.raises(MissingTool, match="no toxiproxy-server on PATH"):
        check_scenario(with_faults(slow.after(seconds(1))), embedded.EmbeddedCluster(), Registry())
