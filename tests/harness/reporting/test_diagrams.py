"""Diagrams of space and time: what is drawn of a history, and how a counterexample's page tells it."""

from __future__ import annotations

import json
import re
import tracemalloc
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

import long_histories
from asking import Ask
from pages_read import PageRead, assert_sound, read_page
from simulation import WORKLOADS
from streamproof import (
    Scenario,
    active_replication,
    active_standby,
    at_least_once,
    checkpoint,
    crash,
    events,
    exactly_once,
    gap,
    passive_replication,
    passive_standby,
    trace,
)
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.command_line.drawing import draw_run
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.verdicts import Anomaly
from streamproof.harness.exploration.small_worlds import SLOW_SOURCE
from streamproof.harness.judging.reexecution import Reexecution
from streamproof.harness.recording.folder import read_records
from streamproof.harness.recording.history import History
from streamproof.harness.reporting.html.affected import harmed_inputs, root_of
from streamproof.harness.reporting.html.holding import inputs_said
from streamproof.harness.reporting.html.labels_placed import CHARACTER, HEIGHT
from streamproof.harness.reporting.html.spacetime import SpaceTime, StepSign, around, spacetime
from streamproof.harness.reporting.html.spacetime_drawing import NUMBERED_ARROWS, drawing, drawing_svg
from streamproof.harness.running.judgement import Judgement, judge_folder, judge_history
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.looking_on import look_on
from streamproof.harness.worlds.simulated.seen_beside import SeenBeside, SentWhileWaiting

_, NUMBERED = WORKLOADS["trace-numbered"]


def run(scenario: Scenario) -> tuple[History, Judgement]:
    registry = Registry()
    return run_in_memory(scenario, SimulatedCluster(), registry.faults, registry.oracles, seed=7)


def drawn(scenario: Scenario) -> tuple[SpaceTime, Judgement, Reexecution]:
    history, judgement = run(scenario)
    rerun = judgement.collation.reexecution
    assert rerun is not None
    return spacetime(history, rerun), judgement, rerun


LOSING = Scenario(
    gap(trace(parallelism=1), checkpoint_every=events(8)),
    NUMBERED,
    [crash("trace-0").after(events(13))],
    claims=[at_least_once()],
)
REPEATING = Scenario(
    passive_replication(trace(parallelism=1), checkpoint_every=events(8)),
    NUMBERED,
    [crash("trace-0").after(events(22))],
    breaks=[exactly_once()],
)


@pytest.fixture(scope="module")
def losing() -> tuple[SpaceTime, Judgement, Reexecution]:
    return drawn(LOSING)


@pytest.fixture(scope="module")
def repeating() -> tuple[SpaceTime, Judgement, Reexecution]:
    return drawn(REPEATING)


def test_what_nobody_took_says_who_took_the_same_or_something_else_under_its_number() -> None:
    copies, _, _ = drawn(Scenario(active_replication(trace(parallelism=1)), NUMBERED))
    untaken = [arrow.said for arrow in copies.arrows if arrow.arrives is None and "to sink-0" in arrow.said]
    assert untaken
    assert all(said.endswith("which nobody took; sink-0#1 took the same from another") for said in untaken)
    broken = Registry().mutants["amnesia-continuing-the-numbering"].make(trace(parallelism=1), events(8))
    mistaken, _, _ = drawn(Scenario(broken, replace(NUMBERED, rate=1_000), [crash("relay-0").after(events(13))]))
    untaken = [arrow.said for arrow in mistaken.arrows if arrow.arrives is None]
    assert any("which nobody took; under #5–#8, trace-0#1 took something else" in said for said in untaken), untaken
    assert not any(arrow.instead for arrow in copies.arrows)
    assert any(arrow.instead for arrow in mistaken.arrows)


def test_a_receiver_that_asks_for_what_comes_after_more_than_was_made_is_told_of() -> None:
    subject = passive_replication(trace(parallelism=1), checkpoint_every=events(8))
    diagram, _, _ = drawn(Scenario(subject, replace(NUMBERED, rate=1_000), [crash("relay-0").after(events(5))]))
    said = [step.said for step in diagram.steps]
    assert "relay-0#2 is asked by trace-0#1 for what comes after #4, though its next is #1" in said


def test_what_goes_on_from_a_checkpoint_says_up_to_where_its_state_was_taken() -> None:
    """Beside what it asks for, that shows a position that was lost. A sink has one as well."""
    broken = Registry().mutants["transactional-sink-with-one-channel-less"].make(trace(), events(8))
    fed = replace(NUMBERED, events=16, batch=4)
    diagram, _, _ = drawn(Scenario(broken, fed, [crash("sink-0").at(checkpoint(1).durable)]))
    (start,) = (step for step in diagram.steps if step.said.startswith("sink-0#2 starts from checkpoint 1"))
    taken = dict(start.holds)["has taken of"]
    assert "trace-0 up to #" in taken
    assert any(step.said.startswith("trace-0#1 is asked by sink-0#2 for what comes after #0") for step in diagram.steps)


def test_who_starts_blank_holds_nothing_of_what_it_takes_over_later() -> None:
    subject = active_standby(trace(parallelism=1))
    diagram, _, _ = drawn(Scenario(subject, NUMBERED, [crash("trace-0").after(events(5))]))
    blank = [step for step in diagram.steps if step.said.endswith("starts blank")]
    over = [step for step in diagram.steps if "takes over checkpoint" in step.said]
    assert blank
    assert over
    assert {dict(step.holds).get("made of", "nothing") for step in blank} == {"nothing"}
    assert any("relay-0 up to #" in dict(step.holds).get("has taken of", "") for step in over)


def test_a_successor_that_asks_for_nothing_again_is_told_of() -> None:
    """What its checkpoint says to have been had, it never gave to anybody."""
    broken = Registry().mutants["transactional-sink-saving-its-vector-first"].make(trace(parallelism=1), events(8))
    fed = replace(NUMBERED, events=8, batch=4)
    diagram, _, _ = drawn(Scenario(broken, fed, [crash("sink-0").at(checkpoint(1).durable)]))
    said = [step.said for step in diagram.steps]
    assert "trace-0#1 is asked by sink-0#2 for what comes after #8, and sends it nothing of that" in said
    calm, _, _ = drawn(Scenario(gap(trace(parallelism=1), checkpoint_every=events(8)), NUMBERED))
    assert not any("sends it nothing of that" in step.said for step in calm.steps)


def test_what_a_standby_is_sent_is_told_and_whether_it_keeps_it() -> None:
    """It is on no record of its own: who takes nothing has nothing to put there."""
    kept, passed = looked_at("passive_standby"), looked_at("passive-standby-hot-letting-input-pass")
    sent = [step.said for step in kept.steps if "while it takes nothing" in step.said]
    assert "trace-0#2 is sent #1 of relay-0#1 while it takes nothing, and keeps it" in sent
    assert all(said.endswith("and keeps it") for said in sent)
    assert not any(arrow.passed for arrow in kept.arrows)
    said = "trace-0#2 is sent #1 of relay-0#1 while it takes nothing, and lets it pass"
    (step,) = (number for number, one in enumerate(passed.steps) if one.said == said)
    (arrow,) = (one for one in passed.arrows if one.passed and one.arrives == step)
    assert arrow.said == "#1 from relay-0#1 to trace-0#2, which lets it pass"
    assert passed.lines[arrow.receiver].name == "trace-0#2"
    assert passed.steps[step].roots == arrow.roots == {("source-0", 1)}
    assert said in drawing_svg(drawing(passed), "")
    (made,) = (one for one in drawing(passed).arrows() if one.arrow is arrow)
    assert "lost" in made.style.split()
    way = arrow.sender, arrow.departs, arrow.receiver
    assert [one for one in passed.arrows if (one.sender, one.departs, one.receiver) == way] == [arrow]


def test_what_passed_a_slice_that_keeps_the_rest_is_told_by_its_numbers() -> None:
    history, judgement = run(Scenario(passive_standby(trace(parallelism=1)), NUMBERED))
    rerun = judgement.collation.reexecution
    assert rerun is not None
    beside = SeenBeside()
    beside.sent.append(SentWhileWaiting(9_000, "trace-0", 2, "relay-0", 1, (1, 2, 3, 4), (1, 4)))
    diagram = spacetime(history, rerun, beside=beside)
    (step,) = (one for one in diagram.steps if "while it takes nothing" in one.said)
    assert step.said.endswith("and keeps #1, #4, and lets #2–#3 pass")
    (arrow,) = (one for one in diagram.arrows if one.passed)
    assert arrow.roots == {("source-0", 2), ("source-0", 3)}


def looked_at(subject: str) -> SpaceTime:
    """Of passive standby, or of a mutant of it, whose primary dies at the first event; by who looks on once more."""
    topology = trace(parallelism=1)
    mutants, options = Registry().mutants, SLOW_SOURCE
    broken = mutants[subject].make(topology, events(8)) if subject in mutants else passive_standby(topology)
    scenario = Scenario(broken, replace(NUMBERED, events=8, batch=1), [crash("trace-0").after(events(1))])
    registry, cluster = Registry(), SimulatedCluster(options)
    history, judgement = run_in_memory(scenario, cluster, registry.faults, registry.oracles, seed=7)
    assert judgement.collation.reexecution is not None
    beside = look_on(cluster, scenario, 7, registry.faults, history)
    return spacetime(history, judgement.collation.reexecution, beside=beside)


def test_what_happens_to_no_slice_stands_on_a_line_of_its_own(
    losing: tuple[SpaceTime, Judgement, Reexecution],
) -> None:
    diagram, _, _ = losing
    assert ">beside</text>" in drawing_svg(drawing(diagram), "")
    calm, _, _ = drawn(Scenario(gap(trace(parallelism=1), checkpoint_every=events(8)), NUMBERED))
    assert ">beside</text>" not in drawing_svg(drawing(calm), "")


def test_no_label_of_an_arrow_lies_on_another_or_on_what_happened() -> None:
    subject = passive_replication(trace(parallelism=3), checkpoint_every=events(8))
    diagram, _, _ = drawn(Scenario(subject, replace(NUMBERED, events=24, batch=1), [crash("trace-0").after(events(5))]))
    made = drawing(diagram)
    assert len(diagram.arrows) <= NUMBERED_ARROWS
    boxes = [
        (one.label[0], one.label[1] - HEIGHT / 2, len(one.arrow.numbers) * CHARACTER, HEIGHT)
        for one in made.arrows()
        if one.label
    ]
    signs = [(step.x - 1, step.y - 1, 2, 2) for step in made.steps()]
    assert len(boxes) > len(diagram.arrows) * 0.8
    assert not [(one, other) for one, other in combinations(boxes, 2) if overlap(one, other)]
    assert not [(one, sign) for one in boxes for sign in signs if overlap(one, sign)]


Box = tuple[float, float, float, float]


def overlap(one: Box, other: Box) -> bool:
    """Of two boxes, each by its left and top edge, its width and its height."""
    return all(one[i] < other[i] + other[i + 2] and other[i] < one[i] + one[i + 2] for i in (0, 1))


def test_changes_of_settings_are_told_by_who_decides_and_by_who_goes_by_them() -> None:
    named = Registry().scenario("scaled:30/15@order.turns-by-load")
    diagram, _, _ = drawn(replace(named.scenario, faults=()))
    said = [step.said for step in diagram.steps]
    assert any(
        re.fullmatch(r"adjuster#1 changes chain-0, after \d+ inputs: weights = .* \(change 1\)", one) for one in said
    )
    assert any(re.fullmatch(r"chain-0#1 goes by change 1, after \d+ inputs", one) for one in said)


def test_every_incarnation_has_a_line_and_the_dead_one_ends_at_its_crash(
    losing: tuple[SpaceTime, Judgement, Reexecution],
) -> None:
    diagram, _, _ = losing
    assert [line.name for line in diagram.lines] == ["source-0", "relay-0#1", "trace-0#1", "trace-0#2", "sink-0"]
    dead, successor = diagram.lines[2:4]
    assert dead.ends is not None
    assert diagram.steps[dead.ends].sign is StepSign.CRASH
    assert successor.begins > dead.ends
    assert successor.placed is not None
    assert successor.placed < successor.begins
    assert [line.ends for line in diagram.lines if line is not dead] == [None] * 4


def test_a_message_leaves_where_it_was_made_and_arrives_later(
    repeating: tuple[SpaceTime, Judgement, Reexecution],
) -> None:
    diagram, _, _ = repeating
    for arrow in diagram.arrows:
        assert arrow.departs >= 0
        assert diagram.steps[arrow.departs].line == arrow.sender
        if arrow.arrives is not None:
            assert arrow.departs < arrow.arrives
            assert diagram.steps[arrow.arrives].line == arrow.receiver
            assert diagram.steps[arrow.departs].at <= diagram.steps[arrow.arrives].at


def test_what_was_replayed_leaves_when_it_was_asked_for(repeating: tuple[SpaceTime, Judgement, Reexecution]) -> None:
    diagram, _, _ = repeating
    again = [arrow for arrow in diagram.arrows if arrow.again]
    assert again
    assert {diagram.lines[arrow.receiver].name for arrow in again} == {"trace-0#2"}
    assert all("sends" in diagram.steps[arrow.departs].said for arrow in again)


def test_every_input_that_was_taken_is_on_an_arrow(repeating: tuple[SpaceTime, Judgement, Reexecution]) -> None:
    diagram, _, rerun = repeating
    relay = next(place for place, line in enumerate(diagram.lines) if line.name == "relay-0#1")
    carried = {root for arrow in diagram.arrows if arrow.receiver == relay for root in arrow.roots}
    assert carried == {("source-0", event.seq) for event in rerun.offered["source-0"]}


def test_what_nobody_took_ends_on_the_way(losing: tuple[SpaceTime, Judgement, Reexecution]) -> None:
    diagram, _, rerun = losing
    taken = {root for one in rerun.reruns["trace-0"].values() for root in map(root_of, one.took)}
    lost = {root for arrow in diagram.arrows if arrow.arrives is None for root in arrow.roots}
    assert {root for root in lost if root not in taken} == {
        ("source-0", event.seq) for event in rerun.offered["source-0"]
    } - taken


def test_a_restored_incarnation_leads_back_to_its_checkpoint(
    repeating: tuple[SpaceTime, Judgement, Reexecution],
) -> None:
    diagram, _, _ = repeating
    (start,) = [step for step in diagram.steps if step.sign is StepSign.START and step.said.startswith("trace-0#2")]
    assert start.from_step is not None
    assert diagram.steps[start.from_step].sign is StepSign.TAKEN
    assert "source-0 #1–#" in diagram.steps[start.from_step].said


def test_what_a_slice_held_is_what_its_execution_gives(repeating: tuple[SpaceTime, Judgement, Reexecution]) -> None:
    diagram, _, rerun = repeating
    last = [step for step in diagram.steps if step.line == 3 and step.holds][-1]
    held = dict(last.holds)
    assert held["made of"] == inputs_said(rerun.reruns["trace-0"][2].lineage())
    assert held["has taken of"] == "relay-0 up to #32"


def test_a_window_of_time_is_that_part_of_the_whole() -> None:
    history, judgement = run(REPEATING)
    rerun = judgement.collation.reexecution
    assert rerun is not None
    whole = spacetime(history, rerun)
    crashed = next(step.at for step in whole.steps if step.sign is StepSign.CRASH)
    part = spacetime(history, rerun, crashed, crashed + 20_000)
    assert [step.said for step in part.steps] == [s.said for s in whole.steps if crashed <= s.at <= crashed + 20_000]
    assert [s.holds for s in part.steps if s.sign is StepSign.DOT] == [
        s.holds for s in whole.steps if crashed <= s.at <= crashed + 20_000 and s.sign is StepSign.DOT
    ]


def test_a_window_of_a_long_history_takes_no_more_memory_than_what_is_drawn(tmp_path: Path) -> None:
    """Of 30,000 events, with all that was made of them; what is drawn is 150 steps of up to 100 events each."""
    long_histories.write(tmp_path, 30_000, crash=True, masked=False)
    history = read_records(tmp_path)
    judged = long_histories.scenario(False, 30_000)
    rerun = judge_history(judged, history, Registry().oracles, False).collation.reexecution
    assert rerun is not None
    (struck,) = history.struck()
    window = around(history, struck.stamp.at)
    tracemalloc.start()
    try:
        found = spacetime(history, rerun, *window)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 100 < len(found.steps) < 200
    assert peak < 16e6


def test_harmed_inputs_are_those_that_are_lost(losing: tuple[SpaceTime, Judgement, Reexecution]) -> None:
    _, judgement, rerun = losing
    wanted = judgement.collation.wanted
    assert wanted is not None
    survivor = {root[:2] for root in rerun.survivors("trace-0")[0].lineage()}
    missing = {("source-0", event.seq) for event in rerun.offered["source-0"]} - survivor
    assert {one.root for one in harmed_inputs(rerun, wanted, Anomaly.LOST_INPUT)} == missing


def test_harmed_inputs_of_a_masked_failure_are_none(repeating: tuple[SpaceTime, Judgement, Reexecution]) -> None:
    _, judgement, rerun = repeating
    wanted = judgement.collation.wanted
    assert wanted is not None
    harmed = harmed_inputs(rerun, wanted)
    assert {one.anomaly for one in harmed} == {Anomaly.DUPLICATE_OUTPUT}
    assert harmed_inputs(rerun, wanted, Anomaly.DUPLICATE_OUTPUT) == harmed


def test_inputs_are_said_in_runs() -> None:
    assert inputs_said([]) == "nothing"
    assert inputs_said([("s", 1, 0), ("s", 2, 0), ("s", 2, 1), ("s", 4, 0)]) == "s #1–#2, #4"
    assert inputs_said([("s", 1, 0), ("s", 1, 0)]) == "s #1; s #1 2 times"


# The page of a counterexample

USERS_MODULE = "user_of_diagrams"
MODULE = """
from streamproof import *

def loses():
    return Scenario(
        gap(trace(parallelism=1), checkpoint_every=events(8)), numbered(events=32, batch=4), claims=[at_least_once()]
    )

def doubles():
    return Scenario(
        passive_replication(trace(parallelism=1), checkpoint_every=events(8)),
        numbered(events=32, batch=4),
        claims=[exactly_once_output()],
    )
"""


@pytest.fixture(scope="module")
def found(users_folder: Path) -> Path:
    """A counterexample, and its page and diagram beside it."""
    assert run_command_line(["explore", f"{USERS_MODULE}:loses", "--schedules", "20", "--jobs", "1"]) == 1
    assert run_command_line(["report", "counterexample.json", "--svg", "drawn.svg"]) == 0
    return users_folder


@pytest.fixture
def page(found: Path) -> PageRead:
    return read_page((found / "counterexample.html").read_text())


def test_the_page_of_a_counterexample_tells_it_without_a_program(page: PageRead) -> None:
    assert_sound(page)
    assert "breaks at-least-once" in page.text
    assert "VIOLATED at-least-once" in page.text
    assert "the very history that was found" in page.text
    assert re.search(r"\d+\.\d{3} ms source-0 offers #1", page.text)
    assert page.of("g", cls="harmed")
    assert [one for one in page.of("g", cls="step") if "crash" in one["class"].split()]


def test_each_line_of_its_diagram_is_named_beside_it_also_that_of_what_happens_to_no_slice(found: Path) -> None:
    text = (found / "counterexample.html").read_text()
    names = re.search(r'<div class="names".*?</div>', text, re.DOTALL)
    assert names is not None
    assert ">beside</span>" in names[0]
    assert ">trace-0#1</span>" in names[0]


def test_its_steps_are_all_in_it(found: Path, page: PageRead) -> None:
    text = (found / "counterexample.html").read_text()
    data = re.search(r'<script type="application/json" class="steps-data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    steps = json.loads(data[1])["steps"]
    assert len(steps) == len(page.of("g", cls="step"))
    assert [one["at"] for one in steps] == sorted(one["at"] for one in steps)


def test_its_steps_say_what_each_log_held(found: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No record says what was acknowledged: the run is looked at once more."""
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["explore", f"{USERS_MODULE}:doubles", "--schedules", "20", "--jobs", "1"]) == 1
    assert run_command_line(["report", "counterexample.json"]) == 0
    text = Path("counterexample.html").read_text()
    data = re.search(r'<script type="application/json" class="steps-data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    held = [dict(one["holds"]) for one in json.loads(data[1])["steps"]]
    assert [one["log for relay-0"] for one in held if "log for relay-0" in one] == ["#1"]
    # What sends it again has kept it, and who died with what it had sent begins with nothing.
    assert [one["log for trace-0"] for one in held if "log for trace-0" in one] == ["nothing", "#1"]
    assert [one["log for sink-0"] for one in held if "log for sink-0" in one] == ["nothing", "#1", "nothing", "#1"]


@pytest.mark.usefixtures("users_folder")
def test_the_steps_of_a_simulated_run_say_what_each_log_held(tmp_path: Path) -> None:
    """As those of a counterexample do, on both ways to its page; of a run on a real cluster nobody knows."""
    named = f"{USERS_MODULE}:doubles"
    folder = tmp_path / "run"
    run_command_line(["run", named, "--cluster", "simulated", "--folder", str(folder), "--report"])
    page = folder / "report.html"
    drawn = page.read_text()
    page.unlink()
    assert run_command_line(["report", str(folder)]) == 0
    assert page.read_text() == drawn
    assert '"log for sink-0"' in drawn
    description = json.loads((folder / "scenario.json").read_text())
    described, history, judgement = judge_folder(folder, Registry())
    on_spark = msgspec.structs.replace(described, cluster={**description["cluster"], "cluster": "embedded"})
    assert '"log for' not in draw_run(on_spark, history, judgement, folder, Registry()).read_text()


def test_the_diagram_by_itself_is_svg_that_needs_nothing(found: Path) -> None:
    text = (found / "drawn.svg").read_text()
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "url(" not in text
    assert "href" not in text
    assert not root.findall(".//{http://www.w3.org/2000/svg}script")


def test_svg_of_what_has_no_diagram_is_refused(ask: Ask, found: Path, tmp_path: Path) -> None:
    saved = {"kind": "crashes-of-a-query", "version": 2}
    (tmp_path / "counterexample.json").write_text(json.dumps(saved))
    answer = ask("report", tmp_path / "counterexample.json", "--svg", tmp_path / "x.svg")
    assert answer.status == 3
    assert not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize("content", ["{}", "no json", '{"version": 4, "faults": []}'])
def test_what_is_no_counterexample_is_refused(ask: Ask, tmp_path: Path, content: str) -> None:
    (tmp_path / "file.json").write_text(content)
    answer = ask("report", tmp_path / "file.json")
    assert answer.status == 3
    assert "file.json" in answer.err
    assert not (tmp_path / "file.html").exists()
