"""A topology may lead back where it says so: it comes to its end, is judged, and what a crash in it loses is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents_in_process import ThreadsCluster
from simulation import KINDS, SCHEMES, WORLDS, drawn, scenario_of
from streamproof.faults.crash import crash
from streamproof.faults.loss import loss
from streamproof.faults.partition import partition
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.errors import InvalidOperator, InvalidTopology
from streamproof.harness.core.events import Event
from streamproof.harness.core.quantities import events, ms, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Edge, Role, Stage, Topology, chosen
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging import expected
from streamproof.harness.protocol.laps import Laps
from streamproof.harness.protocol.progress import Progress
from streamproof.harness.recording.history import Drained
from streamproof.harness.recording.records import Delivered, Ended, Kept, Record, Started, Taken
from streamproof.harness.running.determinism import execute_slices
from streamproof.harness.running.run import run_in_memory, run_named
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.mechanisms.merges import ByTime, RoundRobin
from streamproof.reference_impls.source_replay import source_replay
from streamproof.scenarios.countdown import countdown
from streamproof.scenarios.parameter_server import one_for_each, parameter_server
from streamproof.scenarios.stateless import Forward
from streamproof.scenarios.windows import WindowedCount
from streamproof.scenarios.workloads import numbered
from verdicts_of import JUDGES, Judged, run

IN_CYCLES = ("amnesia-in-a-cycle", "gap-in-a-cycle")


def drained(judged: Judged) -> bool:
    return any(isinstance(entry, Drained) for entry in judged.history.timeline)


def taken(judged: Judged, slice_id: str) -> int:
    records = [stamped.record for stamped in judged.history.of(Taken)]
    return sum(one.count for one in records if isinstance(one, Taken) and one.slice == slice_id)


def delivered(judged: Judged) -> list[Event]:
    records = [stamped.record for stamped in judged.history.of(Delivered)]
    return [row for one in records if isinstance(one, Delivered) for row in one.rows]


# Declaring it


def of(*edges: Edge, operators: tuple[str, ...] = ("a", "b")) -> Topology:
    return Topology("t", {name: Stage(Forward()) for name in operators}, edges)


THERE = (Edge("source", "a"), Edge("a", "b"), Edge("b", "sink"))
WRONG: dict[str, tuple[Callable[[], Topology], str]] = {
    "a cycle that is not declared": (
        lambda: of(*THERE, Edge("b", "a")),
        r"cycle through a, b; declare the edge that leads back: Edge\(..., feedback=True\)",
    ),
    "one behind a cycle that is": (
        lambda: of(
            *THERE[:2],
            Edge("b", "a", feedback=True),
            Edge("b", "c"),
            Edge("c", "d"),
            Edge("d", "c"),
            Edge("d", "sink"),
            operators=("a", "b", "c", "d"),
        ),
        "cycle through c, d;",
    ),
    "feedback that leads forward": (
        lambda: of(Edge("source", "a"), Edge("a", "b", feedback=True), Edge("a", "sink"), Edge("b", "sink")),
        "no other edges lead from 'b' to 'a'",
    ),
    "feedback to itself": (lambda: of(*THERE, Edge("a", "a", feedback=True)), "from an operator to itself"),
    "feedback to a source": (lambda: of(*THERE, Edge("b", "source", feedback=True)), "only operators can feed"),
    "what is fed by nothing but feedback": (
        lambda: of(Edge("source", "b"), Edge("a", "b"), Edge("b", "a", feedback=True), Edge("b", "sink")),
        "'a' is not connected on both sides",
    ),
    "what leads to less than nothing": (
        lambda: of(*THERE, Edge("b", "a", feedback=True, leads_to=-1)),
        "leads_to=-1 of .* is to be a whole number, 0 or more, or None",
    ),
    "what leads to no number": (
        lambda: of(*THERE, Edge("b", "a", feedback=True, leads_to=True)),
        "leads_to=True of .* is to be a whole number",
    ),
    "what is said of an edge that leads forward": (
        lambda: of(THERE[0], Edge("a", "b", leads_to=1), THERE[2]),
        "leads forward, where what an event leads to follows from fan_out",
    ),
    "feedback that is no switch": (lambda: of(*THERE, Edge("b", "a", feedback=1)), "feedback of .* True or False"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_an_edge_that_leads_back_is_declared_and_nothing_else_is(name: str) -> None:
    make, reason = WRONG[name]
    with pytest.raises(InvalidTopology, match=reason):
        make()


def test_slices_of_a_cycle_come_together_and_before_those_that_they_feed() -> None:
    topology = parameter_server()
    assert topology.slices == ("source-0", "worker-0", "worker-1", "server-0", "sink-0")
    assert topology.groups == (("source-0",), ("worker-0", "worker-1", "server-0"), ("sink-0",))
    assert topology.cycle("server-0") == ("worker-0", "worker-1", "server-0")
    assert topology.cycle("source-0") == ()
    assert topology.upstream("worker-1") == ("source-0", "server-0")
    assert topology.leads_back("server-0", "worker-1")
    assert not topology.leads_back("worker-1", "server-0")
    apart = countdown(parallelism=2)
    assert apart.groups[1:3] == (("count-0", "return-0"), ("count-1", "return-1"))


def test_what_feeds_a_cycle_comes_before_all_of_it() -> None:
    late = of(*THERE, Edge("b", "a", feedback=True), Edge("source", "c"), Edge("c", "b"), operators=("a", "b", "c"))
    assert late.groups == (("source-0",), ("c-0",), ("a-0", "b-0"), ("sink-0",))


def test_a_key_for_each_reaches_each() -> None:
    for slices in range(1, 12):
        assert [chosen(range(slices), key) for key in one_for_each(slices)] == list(range(slices))


# Who can protect it

COPING = ("amnesia", "gap", "source-replay", "approximate")
REFUSING = [name for name in SCHEMES if not name.startswith(COPING)]


@pytest.mark.parametrize("scheme", REFUSING)
def test_a_scheme_that_cannot_cope_with_feedback_says_so_and_why(scheme: str) -> None:
    with pytest.raises(InvalidTopology, match=r"return feeds count back in 'countdown': \w.*\. .* cannot protect it"):
        SCHEMES[scheme](countdown())


def test_source_replay_refuses_feedback_with_a_window() -> None:
    edges = (*THERE, Edge("b", "a", feedback=True))
    windowed = Topology("t", {"a": Stage(WindowedCount(5)), "b": Stage(Forward())}, edges)
    with pytest.raises(InvalidTopology, match="b feeds a back in 't': a window is left only by"):
        source_replay(windowed)


@pytest.mark.parametrize("merge", [ByTime(), RoundRobin()])
def test_a_scheme_of_anybodys_that_merges_in_a_cycle_is_refused(merge: Any) -> None:
    plain = amnesia(parameter_server())
    setups = {**plain.setups, Role.OPERATOR: replace(plain.setups[Role.OPERATOR], merge=merge)}
    with pytest.raises(InvalidTopology, match=r"worker-0 of 'parameter-server' is in a cycle \(.*\), and .* waits"):
        replace(plain, setups=setups)
    with pytest.raises(InvalidTopology, match="leads back, and amnesia has 2 replicas"):
        replace(plain, replicas=2)


# Its end


@pytest.mark.parametrize("world", WORLDS)
def test_a_cycle_is_drained_once_nothing_goes_round_any_more(world: str) -> None:
    for seed in range(3):
        judged = run(Scenario(amnesia(countdown(2, turns=4)), numbered(events=20, batch=2)), (), seed=seed, world=world)
        assert drained(judged)
        assert taken(judged, "count-0") + taken(judged, "count-1") == 20 * 5
        assert sorted(row.value[1] for row in delivered(judged)) == sorted(list(range(4)) * 20)
        assert not judged.alarms()
        assert judged.lost == 0


def after_the_end(judged: Judged) -> list[Record]:
    """What was taken or delivered once the harness, by the records so far, would have called the run drained. Whoever
    was active at the end is known."""
    subject = judged.scenario.subject
    assert isinstance(subject, SchemeSubject)
    records = [stamped.record for stamped in judged.history.records]
    current = {spec.slice_id: {1} for spec in subject.specs}
    for record in records:
        if isinstance(record, Started):
            current[record.slice] = {max(record.incarnation, *current[record.slice])}
    progress = Progress(subject.specs)
    for number, record in enumerate(records, start=1):
        progress.note(record)
        if isinstance(record, Ended) and progress.drained(current):
            return [one for one in records[number:] if isinstance(one, Taken | Delivered)]
    raise AssertionError("it was never drained")


@pytest.mark.parametrize("scheme", ["amnesia-in-a-cycle", "source-replay-in-a-cycle"])
def test_nothing_is_taken_once_a_cycle_is_drained(scheme: str) -> None:
    scenario = scenario_of(f"{scheme}/countdown")
    for seed, world in enumerate(WORLDS):
        for schedule in ((), drawn(scenario, seed, world)):
            assert after_the_end(run(scenario, schedule, seed=seed, world=world)) == []


def test_who_does_not_wait_for_laps_is_drained_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above would find."""
    monkeypatch.setattr(Laps, "over", property(lambda laps: bool(laps.made)))
    monkeypatch.setattr(Laps, "disturbed", lambda laps: None)
    scenario = Scenario(amnesia(countdown(turns=6)), numbered(events=20, batch=2))
    assert any(after_the_end(run(scenario, (), seed=seed, world="slow-links")) for seed in range(5))


def test_what_never_comes_to_rest_is_given_up_and_never_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(amnesia(countdown(turns=10**9)), numbered(events=4, batch=2))
    monkeypatch.setattr(expected, "ROUNDS", 20)
    cluster = SimulatedCluster(SimulationOptions(step_limit=2_000))
    with pytest.raises(InvalidOperator, match="after 20 rounds; what is fed back has to come to an end"):
        run_in_memory(scenario, cluster, KINDS, JUDGES, seed=1)


# Crashes in it


@pytest.mark.parametrize("scheme", IN_CYCLES)
def test_a_server_that_forgets_is_a_loss_and_no_alarm(scheme: str) -> None:
    scenario = scenario_of(f"{scheme}/parameter-server")
    judged = run(scenario, [crash("server-0").after(events(5))])
    assert drained(judged)
    assert judged.claim.status is Status.HOLDS
    assert judged.lost > 0
    assert judged.verdict("exactly-once").status is Status.VIOLATED
    states = [stamped.record for stamped in judged.history.of(Kept)]
    (kept,) = [one.rows for one in states if isinstance(one, Kept) and one.actor == "server-0"]
    assert kept["total"] < sum(range(32))


@pytest.mark.parametrize("scheme", [*IN_CYCLES, "source-replay-in-a-cycle"])
@given(seed=st.integers(0, 10**9), world=st.sampled_from(list(WORLDS)))
@settings(max_examples=10, deadline=None)
def test_under_random_crashes_a_cycle_comes_to_its_end_and_keeps_what_is_claimed(
    scheme: str, seed: int, world: str
) -> None:
    for workload in ("parameter-server", "countdown"):
        if scheme.startswith("source-replay") and workload == "parameter-server":
            continue
        scenario = scenario_of(f"{scheme}/{workload}")
        judged = run(scenario, drawn(scenario, seed, world), seed=seed, world=world)
        assert drained(judged)
        assert not judged.alarms()
        assert not judged.collation.unjudgeable


def test_what_one_incarnation_took_of_feedback_is_executed_again_from_its_checkpoint() -> None:
    """The restored state of one slice rests on what another sent, which rests on what the first had sent before."""
    scenario = scenario_of("gap-in-a-cycle/parameter-server")
    judged = run(scenario, [crash("worker-0").after(events(12)), crash("server-0").after(events(9))])
    rerun = judged.collation.reexecution
    assert rerun is not None
    assert not rerun.unexplained
    assert any(one.stretch.cut is not None for one in rerun.reruns["worker-0"].values())
    for slice_id, states in rerun.kept.items():
        for number, rows in states.items():
            assert rerun.reruns[slice_id][number].state == rows


# Whether its operators are what they say


def test_operators_are_tried_on_what_comes_back_too() -> None:
    offered = {"source-0": [Event("source-0", n, f"k{n}", n, n) for n in range(1, 6)]}
    executed = execute_slices(countdown(), offered)
    assert executed["count-0"].outputs == [[(f"k{n}", [n, left])] for left in (2, 1) for n in range(1, 6)]


# Links over which both sides are fed

PAIR = ("count-0", "return-0")


@pytest.mark.parametrize("disturb", [loss, lambda *pair: partition(*pair).lasting(ms(10))], ids=["loss", "partition"])
@pytest.mark.parametrize("pair", [PAIR, PAIR[::-1]])
def test_two_that_feed_one_another_open_both_channels_again(
    disturb: Callable[..., Fault], pair: tuple[str, str]
) -> None:
    """Each sends nothing more before the other has asked for it, so neither passes over what was lost."""
    scenario = Scenario(amnesia(countdown()), numbered(events=60, batch=4))
    for seed in range(10):
        judged = run(scenario, [disturb(*pair).after(ms(3 + 4 * seed))], seed=seed)
        assert drained(judged)
        assert not judged.alarms()


@pytest.mark.parametrize("disturb", ["crash", "loss"])
def test_on_real_links_two_that_feed_one_another_share_one(disturb: str, tmp_path: Path) -> None:
    faults = {"crash": crash("return-0").after(events(200)), "loss": loss(*PAIR).after(seconds(0.15))}
    scenario = Scenario(amnesia(countdown()), numbered(events=400, rate=1_500), [faults[disturb]], deadline=seconds(30))
    cluster = ThreadsCluster(restart_after=0.3)
    finished = run_named(Named("test", "test", "", scenario), cluster, Registry(), seed=1, folder=tmp_path / "run")
    assert any(isinstance(entry, Drained) for entry in finished.history.timeline)
    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    verdicts = {str(v.guarantee): (v.status, v.reason or v.summary) for v in finished.judgement.verdicts}
    assert {status for status, _ in verdicts.values()} == {Status.HOLDS}, verdicts
