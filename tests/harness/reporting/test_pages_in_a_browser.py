"""Pages in a browser: nothing goes wrong, nobody is asked for anything, and keys, zoom and links do what they say.

Needs the system's Chromium, and Playwright's package for Python, which drives it. With `STREAMPROOF_SCREENSHOTS=FOLDER`
each page is left there as pictures, to be looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import long_histories
from certified import crash_at, trial, unsealed
from streamproof.harness.certifying.certificate import with_conclusion, write_certificate
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.core.verdicts import Status

pytestmark = pytest.mark.browser

PAGES = ("run", "counterexample", "certificate", "search", "comparison")
SLOWEST = 2.0
"""Seconds within which a page opens."""
MANY = 200_000
"""Events of the run whose page is the largest here."""
LARGEST = 5_000_000
"""Bytes of its page."""
MODULE = """
from streamproof import *

def _draw(count, seed):
    for number in range(count):
        yield "a&b <img src=x onerror=alert(1)> <script>alert(2)</script>", number

def _scenario(*faults):
    return Scenario(
        gap(trace(parallelism=1), checkpoint_every=events(8)),
        Workload("hostile", 32, 4, _draw, 7),
        faults,
        claims=[at_least_once()],
    )

def loses():
    return _scenario(crash("trace-0").after(events(13)))

def calm():
    return _scenario()
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """One of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "user_of_browsers.py").write_text(MODULE)
    plan = tuple(Planned(crash_at(n, kinds=("first" if n == 0 else "steady",))) for n in range(500))
    trials = [trial(line.crash, name=f"run-{n}") for n, line in enumerate(plan[:499])]
    trials.append(trial(plan[499].crash, name="run-499", exactly_once=Status.VIOLATED))
    write_certificate(folder / "mine", with_conclusion(unsealed(plan=plan, trials=tuple(trials))))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        printed: list[str] = []
        with pytest.MonkeyPatch.context() as quiet:
            quiet.setattr("streamproof.harness.command_line.output.print_text", printed.append)
            asked = ["explore", "user_of_browsers:loses", "--schedules", "60", "--jobs", "1", "--json"]
            assert run_command_line(asked) == 1
        (folder / "searched.json").write_text("".join(printed))
        for command, status in (
            ("run user_of_browsers:loses --cluster simulated --folder lost --report", 1),
            ("explore user_of_browsers:loses --schedules 5 --jobs 1", 1),
            ("report counterexample.json", 0),
            ("report mine", 0),
            ("report searched.json", 0),
            ("run user_of_browsers:calm --cluster simulated --folder calm", 0),
            ("report lost calm", 0),
        ):
            assert run_command_line(command.split()) == status
        yield {
            "run": folder / "lost" / "report.html",
            "counterexample": folder / "counterexample.html",
            "certificate": folder / "mine.html",
            "search": folder / "searched.html",
            "comparison": folder / "comparison.html",
        }


Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, pages: dict[str, Path]) -> Iterator[Open]:
    """Opens a page from disk; at the end, nothing may have gone wrong in it."""
    contexts: list[Any] = []
    wrong: list[str] = []
    asked: list[str] = []

    def open_page(name: str, width: int = 1280, **settings: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(pages[name].as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
    assert [url for url in asked if url not in {path.as_uri() for path in pages.values()}] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_it_opens_quickly_fits_the_screen_and_asks_nobody(opened: Open, name: str, width: int, scheme: str) -> None:
    page = opened(name, width, color_scheme=scheme)
    took = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert took / 1000 < SLOWEST
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if folder := os.environ.get("STREAMPROOF_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}-{width}-{scheme}.png"), full_page=True)


def test_the_page_of_a_long_run_is_small_and_opens_quickly(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `streamproof report` draws it from the folder, judged anew."""
    monkeypatch.syspath_prepend(Path(long_histories.__file__).parent)
    long_histories.write(tmp_path / "long", MANY, crash=True, masked=False)
    assert run_command_line(["report", str(tmp_path / "long")]) == 0
    drawn = tmp_path / "long" / "report.html"
    assert drawn.stat().st_size < LARGEST
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(drawn.as_uri())
        took = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        assert took / 1000 < SLOWEST
        assert "rollback-recovery" in page.locator("main").inner_text()
        assert page.locator("svg.spacetime").count() == 1


@pytest.mark.parametrize("name", PAGES)
def test_it_can_be_read_without_a_program(opened: Open, name: str) -> None:
    page = opened(name, java_script_enabled=False)
    assert "VIOLATED" in page.locator("main").inner_text()
    assert not page.locator(".tools").first.is_visible()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened: Open, name: str, scheme: str) -> None:
    sync = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    page = opened(name, color_scheme=scheme, bypass_csp=True)
    found = sync.Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in serious] == []


def test_arrow_keys_go_through_a_counterexample_step_by_step(opened: Open) -> None:
    page = opened("counterexample")
    page.locator(".paper").focus()
    page.keyboard.press("Home")
    assert page.locator(".count").inner_text().startswith("step 1 of ")
    first = page.locator(".now-said").inner_text()
    coming = page.locator(".step.to-come").count()
    page.keyboard.press("ArrowRight")
    assert page.locator(".count").inner_text().startswith("step 2 of ")
    assert page.locator(".now-said").inner_text() != first
    assert page.locator(".step.to-come").count() == coming - 1
    page.keyboard.press("End")
    assert page.locator(".step.to-come").count() == 0
    assert page.locator(".held tbody tr").count() >= 3
    page.keyboard.press("ArrowLeft")
    assert page.locator(".step.to-come").count() == 1


def test_one_harmed_input_can_be_followed_alone(opened: Open) -> None:
    page = opened("run")
    harmed = page.locator(".arrow.harmed").count()
    page.locator(".follow select").select_option(index=1)
    assert 0 < page.locator(".arrow.harmed.other").count() < harmed


def shown(page: Any) -> tuple[float, float]:
    begins, ends = page.evaluate(
        "['--from', '--to'].map((name) => Number(document.getElementById('axis').style.getPropertyValue(name)))"
    )
    return begins, ends


def test_the_axis_of_time_zooms_by_keys_and_by_dragging(opened: Open) -> None:
    page = opened("run")
    whole = shown(page)
    page.locator("#axis").focus()
    page.keyboard.press("+")
    begins, ends = shown(page)
    assert ends - begins == pytest.approx((whole[1] - whole[0]) / 2)
    page.keyboard.press("ArrowRight")
    assert shown(page)[0] > begins
    page.keyboard.press("0")
    assert shown(page) == whole
    page.locator(".panel .track").first.scroll_into_view_if_needed()
    box = page.locator(".panel .track").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.up()
    begins, ends = shown(page)
    assert ends - begins == pytest.approx((whole[1] - whole[0]) / 4, rel=0.02)


def test_hovering_says_what_was_when(opened: Open) -> None:
    page = opened("run")
    page.locator(".lane:not(.node) .track").first.scroll_into_view_if_needed()
    box = page.locator(".lane:not(.node) .track").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)
    said = page.locator(".readout").inner_text()
    assert "offered" in said
    assert "relay-0#1 on node-" in said


def test_a_piece_of_evidence_is_shown_on_the_axis(opened: Open) -> None:
    page = opened("run")
    button = page.locator("button.show").first
    button.click()
    assert page.locator(".pin").count() == len(button.get_attribute("data-at").split())
    begins, ends = shown(page)
    assert all(begins <= float(at) <= ends for at in button.get_attribute("data-at").split())


def test_the_way_of_an_input_is_shown_on_the_axis_station_by_station(opened: Open) -> None:
    page = opened("run")
    way = page.locator("details.way").first
    way.locator("summary").click()
    stations = way.locator("li button.show")
    assert stations.count() >= 3
    stations.nth(1).click()
    assert page.locator(".pin").count() == 1
    assert "relay-0#1 takes it" in page.locator(".readout").inner_text()
    way.locator("p button.show").click()
    assert page.locator(".pin").count() == stations.count()


def test_a_cell_of_the_map_leads_to_its_trials(opened: Open) -> None:
    page = opened("certificate")
    page.locator("a.cell.violated").first.click()
    place = page.locator("details.place[open]")
    assert place.count() == 1
    assert place.locator(".outcome").first.inner_text() == "violated"
    place.locator("a").first.click()
    assert "VIOLATED" in page.locator("tr:target").inner_text()
