"""The page of a search: what `explore --json` has printed, drawn again."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from asking import Ask
from pages_read import PageRead, assert_sound, read_page
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.exploration.course import POINTS, SearchCourse
from streamproof.harness.exploration.search import SearchFindings

USERS_MODULE = "user_of_searches"
MODULE = """
from streamproof import *

def loses():
    return Scenario(
        gap(trace(parallelism=1), checkpoint_every=events(8)), numbered(events=32, batch=4), claims=[at_least_once()]
    )
"""


@pytest.fixture(scope="module")
def searched(users_folder: Path) -> Path:
    """What a search has printed that found something, and its page beside it."""
    printed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamproof.harness.command_line.output.print_text", printed.append)
        asked = ["explore", f"{USERS_MODULE}:loses", "--schedules", "20", "--jobs", "1", "--json"]
        assert run_command_line(asked) == 1
        (users_folder / "explore.json").write_text("".join(printed))
        assert run_command_line(["report", "explore.json"]) == 0
    return users_folder


@pytest.fixture
def document(searched: Path) -> Any:
    return json.loads((searched / "explore.json").read_text())


@pytest.fixture
def page(searched: Path) -> PageRead:
    return read_page((searched / "explore.html").read_text())


def test_each_kind_of_violation_is_drawn_with_its_smallest_schedule(page: PageRead, document: Any) -> None:
    assert_sound(page)
    (kind,) = document["violated"]
    assert f"at-least-once: {kind['anomaly']}" in page.text
    assert f"{kind['schedules']} of 20 schedules" in page.text
    assert "the very history that was found" in page.text
    assert len(page.of("div", cls="diagram")) == len(document["counterexamples"]) == 1
    assert page.of("g", cls="harmed")


def test_what_was_covered_grows_to_what_the_search_says(page: PageRead, document: Any) -> None:
    course = document["course"]
    struck = [point["struck"] for point in course]
    assert struck == sorted(struck)
    assert [point["schedules"] for point in course] == list(range(1, 21))
    assert course[-1]["struck"] == document["addresses"]["struck"]
    assert len(page.of("path", cls="curve")) == 2
    assert f"Faults struck at {struck[-1]} of the {document['addresses']['exist']:,} addresses" in page.text


def test_how_schedules_were_drawn_and_what_that_bounds_is_said(page: PageRead, document: Any) -> None:
    assert f"Drawn at random: {document['drawn']}" in page.text
    assert "That bounds nothing: schedules that were drawn violate" in page.text
    assert "What was exercised" in page.text


def test_where_the_code_is_gone_the_schedule_is_still_told(ask: Ask, document: Any, tmp_path: Path) -> None:
    for one in document["counterexamples"]:
        one["origin"] = "user_of_searches_that_is_gone:loses"
    (tmp_path / "explore.json").write_text(json.dumps(document))
    assert ask("report", tmp_path / "explore.json").status == 0
    page = read_page((tmp_path / "explore.html").read_text())
    assert_sound(page)
    assert "It cannot be run again to be drawn" in page.text
    assert len(page.of("ol", cls="schedule")) == 1
    assert " crash " in page.text
    assert not page.of("div", cls="diagram")


UNHARMED = {"violated": [], "counterexamples": [], "verdicts": {"HOLDS": 20, "VIOLATED": 0, "UNKNOWN": 0}}
"""What a search says that has found nothing."""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"violated": [], "counterexamples": [], "exit_status": 0}, "of its verdicts are VIOLATED, and its kinds"),
        ({**UNHARMED, "exit_status": 1}, "its exit status is 1, and 0 of its verdicts are VIOLATED"),
        ({"exit_status": 0}, "its exit status is 0, and"),
        ({"exit_status": None}, "its exit status is none, and"),
        ({**UNHARMED, "schedules": 2_000, "exit_status": 0}, "it has 20 verdicts on 2,000 schedules"),
        ({**UNHARMED, "verdicts": {"UNKNOWN": 20}, "exit_status": 0}, "none of its verdicts is HOLDS"),
        ({**UNHARMED, "untried": ["replays"], "exit_status": 0}, "it names what was hardly tried: replays"),
        ({**UNHARMED, "goes_on": True, "exit_status": 0}, "its exit status is 0, and it goes on"),
        ({"violated": [], "verdicts": UNHARMED["verdicts"], "exit_status": 0}, "has a counterexample, and no schedule"),
        ({"verdicts": {"HOLDS": -1}}, "`int` >= 0"),
        ({"verdicts": {"FINE": 20}}, "'FINE'"),
        ({"exit_status": 7}, "7"),
    ],
)
def test_what_contradicts_itself_is_not_drawn(
    change: dict[str, Any], said: str, ask: Ask, document: Any, tmp_path: Path
) -> None:
    """A page begins with the verdict: nobody is to read HOLDS above violations, or where a search knows nothing."""
    file = tmp_path / "explore.json"
    file.write_text(json.dumps({**document, **change}))
    answer = ask("report", file)
    assert answer.status == 3
    assert "is damaged, or was altered" in answer.err
    assert said in answer.err
    assert [one.name for one in tmp_path.iterdir()] == ["explore.json"]


def test_a_search_that_found_nothing_says_so(ask: Ask, document: Any, tmp_path: Path) -> None:
    file = tmp_path / "explore.json"
    file.write_text(json.dumps({**document, **UNHARMED, "untried": [], "exit_status": 0}))
    assert ask("report", file).status == 0
    assert "HOLDS under all that was tried" in read_page(file.with_suffix(".html").read_text()).text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1]", "holds list in JSON"),
        ("{}", "nothing of streamproof's that can be drawn"),
        ('{"format": "streamproof explore", "version": 99}', "it has version 99, and this streamproof reads version 1"),
        ('{"format": "streamproof explore", "version": 1}', "is damaged, or was altered"),
        ('{"mutants": []}', "of which there is no page"),
        ('{"folder": "runs/mine", "verdicts": []}', "`streamproof report runs/mine` draws that"),
        ('{"seal": "0", "trials": []}', "what a certificate's folder says"),
        ('{"run": "x", "schedule": [], "claims": []}', "what a run's folder says"),
        ('{"kind": "crashes-of-a-query"}', "of which there is no diagram"),
    ],
)
def test_what_is_something_else_is_refused_by_what_it_is(ask: Ask, tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "file.json").write_text(content)
    answer = ask("report", tmp_path / "file.json")
    assert answer.status == 3
    assert str(tmp_path / "file.json") in answer.err
    assert said in answer.err
    assert not (tmp_path / "file.html").exists()


def test_a_counterexample_in_it_that_says_nothing_of_its_input_is_refused(
    ask: Ask, searched: Path, tmp_path: Path
) -> None:
    found = json.loads((searched / "explore.json").read_text())
    found["counterexamples"][0]["workload"] = {"name": "numbered"}
    (tmp_path / "file.json").write_text(json.dumps(found))
    answer = ask("report", tmp_path / "file.json")
    assert answer.status == 3
    assert "is damaged: Object missing required field `seed`" in answer.err
    assert not (tmp_path / "file.html").exists()


def test_a_search_has_no_svg_of_its_own(ask: Ask, searched: Path, tmp_path: Path) -> None:
    answer = ask("report", searched / "explore.json", "--svg", tmp_path / "x.svg")
    assert answer.status == 3
    assert "draws one of its counterexamples" in answer.err


def test_the_course_of_a_long_search_stays_short_and_ends_where_that_ends() -> None:
    findings, course = SearchFindings(frozenset(), 1), SearchCourse()
    for _ in range(100_001):
        findings.tried += 1
        course.note(findings)
    points = course.points(findings)
    assert 100 < len(points) <= POINTS + 1
    distances = {b.schedules - a.schedules for a, b in pairwise(points[:-1])}
    assert len(distances) == 1
    assert points[-1].schedules == 100_001


def test_a_search_guided_by_what_recoveries_come_to_says_how_much_that_was(
    users_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["explore", f"{USERS_MODULE}:loses", "--jobs", "1", "--events", "8", "--corpus", "corpus", "--json"]
    assert run_command_line([*asked, "--schedules", "150"]) == 1
    (users_folder / "guided.json").write_text(capsys.readouterr().out)
    assert run_command_line(["report", "guided.json"]) == 0
    course = [point["situations"] for point in json.loads((users_folder / "guided.json").read_text())["course"]]
    assert course == sorted(course)
    assert course[-1] > 0
    page = read_page((users_folder / "guided.html").read_text())
    assert f"The protocol came to {course[-1]:,} situations" in page.text
