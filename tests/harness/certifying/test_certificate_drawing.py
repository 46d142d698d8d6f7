"""The page of a certificate to look at: its map and its trials, without a browser."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from asking import Ask
from certified import AGAIN, certify_by_hand, crash_at, trial, unsealed
from pages_read import PageRead, assert_sound, read_page
from streamproof.harness.certifying.certificate import (
    LOOK,
    Certificate,
    altered_files,
    read_certificate,
    with_conclusion,
    write_certificate,
)
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.drawing import TRIALS, certificate_html, write_look
from streamproof.harness.certifying.plan import How, Victim
from streamproof.harness.command_line.drawing import draw_violation
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Point, Side
from streamproof.harness.core.verdicts import Status

HOSTILE = "<script>alert(1)</script>"
PLAN = tuple(
    Planned(crash_at(batch, point=point, side=side, kinds=(kind,)))
    for point, side, (batch, kind) in product(
        (Point.COMMIT_LOG, Point.OFFSET_LOG), Side, ((0, "first"), (1, "steady"), (2, "last"))
    )
)


def certificate() -> Certificate:
    """Of twelve planned crashes one violates, one is unclear, one was not tried, and all others pass."""
    trials = [trial(line.crash, name=f"run-{n}") for n, line in enumerate(PLAN[:9])]
    trials += [
        trial(PLAN[9].crash, name="run-9", how=How.KILL, exactly_once=Status.VIOLATED),
        trial(PLAN[10].crash, name="run-10", exactly_once=Status.UNKNOWN, reason=f"stalled at {HOSTILE}"),
    ]
    return with_conclusion(unsealed(plan=PLAN, trials=tuple(trials)))


def drawn(made: Certificate, beside: str | None = "mine") -> PageRead:
    page = read_page(certificate_html(made, Path("mine"), beside))
    for _, found in page.attributes:
        if found.get("href", "").startswith("mine/"):
            found["to-run"] = found.pop("href")
    return page


def test_the_page_is_sound_and_nothing_of_a_record_is_markup() -> None:
    page = drawn(certificate())
    assert_sound(page)
    assert page.tags["script"] == 1
    assert HOSTILE in page.text


def test_what_was_covered_and_what_not_comes_before_the_map() -> None:
    text = drawn(certificate()).text
    assert text.index("What was claimed") < text.index("Not covered") < text.index("Map of crash points")
    assert "Planned and not tried" in text


def test_the_map_has_a_cell_for_each_place_and_kind_with_the_worst_of_its_crashes() -> None:
    page = drawn(certificate())
    body = [found["title"] for tag, found in page.attributes if "cell" in found.get("class", "") and "title" in found]
    assert len(body) == 12
    assert sum("1 violated" in said for said in body) == 1
    assert sum("1 unclear" in said for said in body) == 1
    assert sum("1 untried" in said for said in body) == 1
    assert sum("1 passed" in said for said in body) == 9


def test_places_stand_in_the_order_in_which_a_batch_passes_them() -> None:
    text = drawn(certificate()).text
    assert text.index("before offset-log") < text.index("after offset-log") < text.index("before commit-log")


def test_each_cell_leads_to_its_trials_and_these_to_their_runs() -> None:
    page = drawn(certificate())
    links = {found["href"][1:] for found in page.of("a") if found.get("href", "").startswith("#")}
    assert links <= set(page.ids)
    assert {f"trial-{number}" for number in range(1, 12)} <= links
    assert len([found for found in page.of("a") if "to-run" in found]) == 11


def test_of_the_trials_at_a_place_those_that_violate_come_first() -> None:
    plan = tuple(Planned(crash_at(n, kinds=("steady",))) for n in range(4))
    trials = [trial(line.crash, name=f"run-{n}") for n, line in enumerate(plan[:3])]
    trials.append(trial(plan[3].crash, name="run-3", exactly_once=Status.VIOLATED))
    page = drawn(with_conclusion(unsealed(plan=plan, trials=tuple(trials))))
    assert re.search(r"driver \(4\) violated 4 passed 1 2 3", page.text)


def test_trials_that_are_not_listed_are_no_links() -> None:
    plan = tuple(Planned(crash_at(n, kinds=("steady",))) for n in range(TRIALS + 2))
    trials = tuple(trial(line.crash, name=f"run-{n}") for n, line in enumerate(plan))
    page = drawn(with_conclusion(unsealed(plan=plan, trials=trials)))
    links = {found["href"][1:] for found in page.of("a") if found.get("href", "").startswith("#")}
    assert links <= set(page.ids)
    assert f"{TRIALS + 1} {TRIALS + 2}" in page.text


def test_of_500_trials_the_page_stays_small() -> None:
    plan = tuple(Planned(crash_at(n, kinds=("steady",), victim=Victim.DRIVER)) for n in range(500))
    trials = tuple(trial(line.crash, name=f"run-{n}") for n, line in enumerate(plan))
    text = certificate_html(with_conclusion(unsealed(plan=plan, trials=trials)), Path("mine"), "mine")
    assert len(text.encode()) < 500_000


def test_the_page_lies_beside_the_folder_in_which_nothing_may_change(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    write_certificate(folder, certificate())
    before = sorted(folder.rglob("*"))
    assert ask("report", folder).status == 0
    assert (tmp_path / "mine.html").exists()
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--output", "mine/page.html"], "in which nothing may change"), (["--svg", "x.svg"], "has no diagram")],
)
def test_what_cannot_be_drawn_of_it_is_refused(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_certificate(tmp_path / "mine", certificate())
    answer = ask("report", "mine", *more)
    assert answer.status == 3
    assert said in answer.err


def test_an_altered_certificate_is_refused(ask: Ask, tmp_path: Path) -> None:
    write_certificate(tmp_path / "mine", certificate())
    file = tmp_path / "mine" / "certificate.json"
    file.write_text(file.read_text().replace("steady", "sturdy", 1))
    answer = ask("report", tmp_path / "mine")
    assert answer.status == 3
    assert "was altered" in answer.err


def test_a_page_that_was_drawn_before_the_seal_is_part_of_what_is_sealed(tmp_path: Path) -> None:
    write_look(tmp_path, certificate())
    written = write_certificate(tmp_path, certificate())
    assert LOOK in written.files
    page = read_page((tmp_path / LOOK).read_text())
    assert "which lists it with its digest" in page.text
    assert page.of("a", href="./runs/run-0/")
    (tmp_path / LOOK).write_text("HOLDS")
    assert list(altered_files(tmp_path, read_certificate(tmp_path))) == [f"{LOOK} was altered"]


def test_the_run_that_refutes_a_claim_is_drawn_beside_the_certificate(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    refuted = certify_by_hand(folder, {"kill": (crash_at(), How.KILL, AGAIN)}).counterexample
    assert refuted is not None
    before = sorted(folder.rglob("*"))
    drawn = draw_violation(folder, refuted.folder, Registry())
    assert drawn == tmp_path / "mine-violation.html"
    page = read_page(drawn.read_text())
    assert_sound(page)
    assert "word-count, a Structured Streaming query" in page.text
    # It came to the end of its input.
    assert "driver is back; how long it took in all is not on record" in page.text
    assert "not back" not in page.text
    assert sorted(folder.rglob("*")) == before
