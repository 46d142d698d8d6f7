"""Two folders side by side: what differs is said in words, and only what does."""

from __future__ import annotations

from pathlib import Path

import pytest

from asking import Ask
from certified import AGAIN, BATCHES, certify_by_hand, crash_at
from pages_read import PageRead, assert_sound, read_page
from streamproof.harness.certifying.comparing import compared_certificates
from streamproof.harness.certifying.plan import How
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.judging.statistics import Bound, KillSample
from streamproof.harness.reporting.html.comparison import count_row, ratio_said, same_or_not, span_row

USERS_MODULE = "user_of_comparisons"
MODULE = """
from streamproof import *

def _scenario(every, *faults):
    return Scenario(
        gap(trace(parallelism=1), checkpoint_every=events(every)),
        numbered(events=32, batch=4),
        faults,
        claims=[at_least_once()],
    )

def loses():
    return _scenario(8, crash("trace-0").after(events(13)))

def calm():
    return _scenario(8)
"""


@pytest.fixture(scope="module")
def runs(users_folder: Path) -> Path:
    """Two runs, of which one lost inputs."""
    for name, status in (("loses", 1), ("calm", 0)):
        asked = ["run", f"{USERS_MODULE}:{name}", "--cluster", "simulated", "--folder", name]
        assert run_command_line(asked) == status
    return users_folder


def drawn(ask: Ask, left: Path, right: Path, page: Path) -> PageRead:
    answer = ask("report", left, right, "--output", page)
    assert (answer.status, answer.err) == (0, "")
    found = read_page(page.read_text())
    assert_sound(found)
    return found


def differing(page: PageRead) -> int:
    return len(page.of("tr", cls="differs")) + len(page.of("li", cls="differs"))


def test_a_run_beside_itself_differs_in_nothing(ask: Ask, runs: Path, tmp_path: Path) -> None:
    page = drawn(ask, runs / "loses", runs / "loses", tmp_path / "page.html")
    assert differing(page) == 0
    assert "What differs Nothing of what is compared" in page.text
    assert page.of("div", cls="bar")
    assert "about the same" in page.text


def test_what_differs_between_two_runs_is_said_in_words(
    ask: Ask, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ask("report", runs / "loses", runs / "calm").out == "  report comparison.html\n"
    page = read_page((tmp_path / "comparison.html").read_text())
    assert_sound(page)
    assert "What differs What was run, Verdicts, Faults" in page.text
    assert "the verdict differs" in page.text
    assert "VIOLATED" in page.text
    assert "trace-0, after fault 1: only in A" in page.text
    assert "B: no such recovery" in page.text
    assert len(page.of("tr", cls="differs")) >= 5


def test_certificates_are_compared_by_verdict_coverage_and_place(ask: Ask, tmp_path: Path) -> None:
    kinds = {"kinds": ("steady",)}
    certify_by_hand(tmp_path / "holds", {"kill": (crash_at(2, **kinds), How.KILL, BATCHES)})
    certify_by_hand(tmp_path / "breaks", {"kill": (crash_at(2, **kinds), How.KILL, AGAIN)})
    page = drawn(ask, tmp_path / "holds", tmp_path / "breaks", tmp_path / "page.html")
    assert "the verdict differs" in page.text
    assert "passedviolateddiffers" in page.text
    assert "how it is violated–duplicate-" in page.text
    same = drawn(ask, tmp_path / "holds", tmp_path / "holds", tmp_path / "same.html")
    assert differing(same) == 0


def test_each_sentence_of_a_sample_has_its_row_though_the_other_says_less(tmp_path: Path) -> None:
    crash = {"kill": (crash_at(2, kinds=("steady",)), How.KILL, BATCHES)}
    draw = KillSample.of("the one crash", (0,), 9, 7)
    bounds = tuple(Bound(claim, 9, 0, 0, 0.3, 0.0) for claim in ("exactly-once", "exactly-once-output"))
    one = certify_by_hand(tmp_path / "one", crash)
    other = certify_by_hand(tmp_path / "other", crash, draw=draw, bounds=bounds)
    found = compared_certificates(tmp_path / "one", one, tmp_path / "other", other)
    rows = [row for section in found.sections for row in section.rows if "drawn at random" in row.right]
    assert [(row.label, row.left) for row in rows] == [("sample", "none was drawn"), ("", "–")]
    assert all(row.differs for row in rows)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("loses", "certificate"), "two of a kind can be compared"),
        (("loses", "file.json"), "is a file"),
        (("loses", "nothing-there"), "is the folder of no run"),
        (("loses", "calm", "loses"), "3 were given"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    ask: Ask, runs: Path, tmp_path: Path, names: tuple[str, ...], said: str
) -> None:
    (runs / "certificate").mkdir(exist_ok=True)
    (runs / "certificate" / "certificate.json").touch()
    (runs / "file.json").touch()
    answer = ask("report", *(runs / name for name in names), "--output", tmp_path / "page.html")
    assert answer.status == 3
    assert said in answer.err
    assert not (tmp_path / "page.html").exists()


def test_only_what_differs_is_said_to() -> None:
    assert same_or_not("seed", "7", "7").differs == ""
    assert same_or_not("seed", "7", "8").differs == "differs"
    assert count_row("rows", 10, 12).differs == "B +2"
    assert span_row("time", 1_000_000, 1_090_000).differs == ""
    assert span_row("time", 1_000_000, 2_000_000).differs == "B is 2.00 × A"
    assert span_row("time", None, 5).differs == "only in B"
    assert ratio_said(0, 0) == ""
    assert ratio_said(0, 5) == "only B is more than 0"
