"""`streamproof report` of a run: what the page says, without a browser. `test_pages_in_a_browser.py` looks at it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from asking import Ask
from pages_read import PageRead, assert_sound, read_page
from resealing import seal_anew
from streamproof.harness.command_line import drawing
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import StorageFailed
from streamproof.harness.recording.history import NodeGone, Stamp
from streamproof.harness.reporting.html.run_page import run_page
from streamproof.harness.running.judgement import judge_folder

HOSTILE = "<script>alert('key')</script>"
USERS_MODULE = "user_of_reports"
MODULE = f"""
from streamproof import *

def _draw(count, seed):
    for number in range(count):
        yield "a&b {HOSTILE} {{{{7*7}}}} " + str(number % 3), number

def loses():
    return Scenario(
        gap(trace(parallelism=1), checkpoint_every=events(50)),
        Workload("hostile", 60, 5, _draw, 7),
        [crash("trace-0").after(events(40))],
        claims=[at_least_once()],
        breaks=[exactly_once()],
    )
"""


@pytest.fixture(scope="module")
def lost(users_folder: Path) -> Path:
    """The folder of a run that lost inputs with a hostile key, and was drawn. Nothing may change in it."""
    assert run_command_line(["run", f"{USERS_MODULE}:loses", "--cluster", "simulated", "--folder", "lost"]) == 1
    assert run_command_line(["report", "lost"]) == 0
    return users_folder / "lost"


@pytest.fixture
def text(lost: Path) -> str:
    return (lost / "report.html").read_text()


@pytest.fixture
def page(text: str) -> PageRead:
    return read_page(text)


def test_a_page_is_sound_and_asks_nobody_for_anything(page: PageRead) -> None:
    assert_sound(page)


def test_verdicts_come_first_in_words_with_their_evidence(page: PageRead) -> None:
    assert page.text.index("at-least-once") < page.text.index("Faults and recoveries")
    assert re.search(r"VIOLATED at-least-once", page.text)
    assert "VIOLATED exactly-once as expected" in page.text
    assert re.search(r"lost-input × \d+", page.text)
    assert page.of("button", cls="show")


def test_findings_of_one_anomaly_are_told_apart_by_their_headings(page: PageRead) -> None:
    headings = re.findall(r"lost-input × [\d,]+(?:, from [a-z ]+?)?(?= trace-0)", page.text)
    assert [heading.partition(", ")[2] for heading in headings[:2]] == ["from final states", "from outputs"]


def test_nothing_of_a_record_is_markup(text: str, page: PageRead) -> None:
    assert HOSTILE not in text
    assert page.tags["script"] == 4
    assert f"a&b {HOSTILE} {{{{7*7}}}}" in page.text


def test_every_slice_and_node_has_a_lane_that_says_what_it_did(page: PageRead) -> None:
    lanes = page.of("div", cls="lane")
    assert len(lanes) == 5
    assert re.search(r"trace-0#2 on node-\d catches up", page.text)
    assert "trace-0#1 on node-1 is lost" in page.text
    assert re.search(r"node-1 is gone, which is not noticed yet", page.text)


def test_the_fault_is_a_band_and_its_recovery_a_bar(page: PageRead) -> None:
    (bitten,) = [one for one in page.of("i", cls="band") if "bitten" in one["class"]]
    (recovering,) = [one for one in page.of("i", cls="band") if "recovering" in one["class"]]
    assert bitten["title"].startswith("crash trace-0")
    begins, ends = (int(part.partition(":")[2]) for part in recovering["style"].split(";"))
    assert ends > begins
    shares = [float(re.findall(r"[\d.]+", one["style"])[0]) for one in page.of("i", cls="part")]
    assert sum(shares) == pytest.approx(100, abs=0.1)


def test_offered_and_delivered_are_all_there(text: str) -> None:
    """What the curves hold, summed up, is what the record holds."""
    found = re.search(r'<script type="application/json" id="curves">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    throughput, latency = json.loads(found[1])
    offered, delivered = throughput["curves"]
    assert sum(offered["values"]) * throughput["width"] / 1e6 == pytest.approx(60)
    assert 0 < sum(delivered["values"]) < sum(offered["values"])
    assert {one["name"] for one in latency["curves"]} == {"50 %", "95 %", "99 %"}


def test_a_page_drawn_again_is_the_same_and_goes_where_it_is_told_to(ask: Ask, lost: Path, tmp_path: Path) -> None:
    answer = ask("report", lost, "--output", tmp_path / "pages" / "mine.html", "--json")
    assert answer.document["file"] == str(tmp_path / "pages" / "mine.html")
    assert answer.document["bytes"] == (tmp_path / "pages" / "mine.html").stat().st_size
    again = (tmp_path / "pages" / "mine.html").read_text()
    assert again.replace(f" {lost}<", " lost<") == (lost / "report.html").read_text()


def test_what_happened_around_the_fault_is_a_diagram(page: PageRead) -> None:
    assert len(page.of("div", cls="diagram")) == 1
    assert [one for one in page.of("g", cls="step") if "crash" in one["class"].split()]
    assert page.of("g", cls="harmed")


def test_the_diagram_of_a_run_can_be_had_by_itself(ask: Ask, lost: Path, tmp_path: Path) -> None:
    assert ask("report", lost, "--output", tmp_path / "page.html", "--svg", tmp_path / "drawn.svg").status == 0
    assert (tmp_path / "drawn.svg").read_text().startswith("<svg xmlns=")


@pytest.mark.usefixtures("here")
def test_run_draws_when_asked(ask: Ask, tmp_path: Path) -> None:
    answer = ask("run", "trace.passive-replication", "--cluster", "simulated", "--folder", "here", "--report")
    assert answer.status == 0
    assert answer.out.endswith("  report here/report.html\n")
    assert_sound(read_page((tmp_path / "here" / "report.html").read_text()))


@pytest.mark.usefixtures("here")
def test_a_page_that_cannot_be_drawn_takes_no_verdict_away(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StorageFailed("no place for it")

    monkeypatch.setattr(drawing, "draw_run", fails)
    answer = ask("run", "trace.passive-replication", "--cluster", "simulated", "--folder", "here", "--report")
    assert answer.status == 0
    assert "HOLDS" in answer.out
    assert "the page of here cannot be drawn: no place for it" in answer.err


@pytest.mark.parametrize("option", ["--output", "--svg"])
def test_no_page_is_put_into_a_certificate(ask: Ask, lost: Path, tmp_path: Path, option: str) -> None:
    run = tmp_path / "certificate" / "runs" / "one"
    shutil.copytree(lost, run)
    (tmp_path / "certificate" / "certificate.json").touch()
    answer = ask("report", run, "--output", tmp_path / "page.html", option, run / "page")
    assert answer.status == 3
    assert "in which nothing may change" in answer.err
    assert not (run / "page").exists()


def test_a_run_whose_code_is_gone_has_the_verdicts_on_record(ask: Ask, lost: Path, tmp_path: Path) -> None:
    gone = shutil.copytree(lost, tmp_path / "gone")
    file = gone / "scenario.json"
    file.write_text(file.read_text().replace("user_of_reports:", "user_of_reports_that_is_gone:"))
    seal_anew(gone)
    assert ask("report", gone).status == 0
    page = read_page((gone / "report.html").read_text())
    assert_sound(page)
    assert re.search(r"They could not be judged again: .*user_of_reports_that_is_gone", page.text)
    assert "VIOLATED at-least-once" in page.text
    assert "lost-input" in page.text
    assert len(page.of("div", cls="lane")) == 5
    assert not page.of("div", cls="diagram")
    (gone / "verdicts.json").unlink()
    assert ask("report", gone).status == 3


@pytest.mark.parametrize("named", ["nothing-there", "empty"])
def test_what_is_no_run_is_refused(ask: Ask, tmp_path: Path, named: str) -> None:
    (tmp_path / "empty").mkdir()
    answer = ask("report", tmp_path / named)
    assert answer.status == 3
    assert "is the folder of no run" in answer.err


def test_a_damaged_record_is_refused(ask: Ask, lost: Path, tmp_path: Path) -> None:
    cut = shutil.copytree(lost, tmp_path / "cut")
    file = cut / "delivered.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    answer = ask("report", cut)
    assert answer.status == 3
    assert "delivered.parquet" in answer.err


def test_where_nothing_can_be_written_that_is_said(ask: Ask, lost: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = ask("report", lost, "--output", tmp_path / "file" / "page.html")
    assert answer.status == 3
    assert "name another file with --output" in answer.err


def test_an_input_that_evidence_names_is_followed_from_where_it_was_offered(page: PageRead) -> None:
    ways = page.of("details", cls="way")
    assert ways
    way = page.text.partition("its way")[2].partition("show all")[0]
    assert re.match(
        r" ?\d+\.\d{3} s source-0 offers #\d+ .*relay-0#1 takes it .*trace-0#1 takes what was made of it", way
    )
    starts = [button for button in page.of("button", cls="show") if len(button["data-at"].split()) > 2]
    for button in starts:
        moments = list(map(int, button["data-at"].split()))
        assert moments == sorted(moments)


def test_why_the_harness_has_ended_a_node_is_said_beside_its_loss(lost: Path) -> None:
    description, history, judgement = judge_folder(lost, Registry())
    for entry in (NodeGone(Stamp(5), "driver", "it spoke, and nobody heard it"), NodeGone(Stamp(6), "node-0")):
        history = replace(history, timeline=[*history.timeline, entry])
    said = [one.said for one in run_page(description, history, judgement, lost).happenings]
    assert "the loss of driver is detected (the harness has ended it: it spoke, and nobody heard it)" in said
    assert "the loss of node-0 is detected" in said
