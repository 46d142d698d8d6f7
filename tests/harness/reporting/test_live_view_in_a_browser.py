"""The live view in a browser: what is new comes by itself, the reader stays where they are, and it says its end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from losing_run import LOSES
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.command_line.watching.board import Board
from streamproof.harness.command_line.watching.server import WatchServer
from streamproof.harness.command_line.watching.sources import WatchedRun
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.recording.folder import RunFolder, read_description, read_history

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("here")]

WITHIN = 30_000
"""Milliseconds."""


@dataclass
class Live:
    """A run that goes on when a test says so."""

    board: Board
    address: str
    goes_on: Callable[[], None]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    (tmp_path / "user_of_live_view.py").write_text(LOSES)
    sys.modules.pop("user_of_live_view", None)
    asked = ["run", "user_of_live_view:loses", "--cluster", "simulated", "--folder", "whole"]
    assert run_command_line(asked) == 1
    history = read_history(Path("whole"))
    half = len(history.records) // 2
    parts = iter([history.records[:half], history.records[half:]])
    # It is drawn as soon as there is something, whatever it has cost.
    board = Board(lambda: time.monotonic() * 1_000)
    server = WatchServer(board, "token")
    over = threading.Event()

    def draw() -> None:
        while not over.is_set():
            board.draw_if_due()
            board.wait_for_looks(0.05)

    threads = [threading.Thread(target=job, daemon=True) for job in (server.serve_forever, draw)]
    with RunFolder(tmp_path / "half", read_description(Path("whole"))) as recorder:

        def goes_on() -> None:
            for stamped in next(parts):
                recorder.note(stamped.at, stamped.record)
            for entry in history.timeline:
                recorder.log(entry)

        board.watch(WatchedRun(tmp_path / "half"))
        for thread in threads:
            thread.start()
        yield Live(board, f"http://127.0.0.1:{server.port}/token/", goes_on)
        over.set()
        server.shutdown()
        server.server_close()
        threads[1].join()


@pytest.fixture
def page(browser: Any, live: Live) -> Iterator[Any]:
    """At the end, nothing may have gone wrong in it, and nobody else have been asked for anything."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=False)
    opened = context.new_page()
    wrong: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(live.address)
    yield opened
    context.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith(live.address)] == []


def test_what_is_new_comes_by_itself_and_the_reader_stays_where_they_were(page: Any, live: Live) -> None:
    frame = page.frame_locator("iframe:not(.coming)")
    frame.get_by_text("Nothing has happened yet").wait_for(timeout=WITHIN)
    live.goes_on()
    frame.get_by_text("the run goes on, and is judged when it has ended").wait_for(timeout=WITHIN)
    assert frame.locator(".status").all_inner_texts() == ["UNKNOWN"]
    axis = frame.locator("#axis")
    axis.focus()
    page.keyboard.press("+")
    frame.locator("#timeline ~ details > summary").click()
    axis.focus()
    zoomed = axis.evaluate("(axis) => axis.style.getPropertyValue('--to')")
    before = live.board.state().page
    live.board.say("40 events offered")
    live.goes_on()
    page.get_by_text("40 events offered").wait_for(timeout=WITHIN)
    page.locator(f"iframe[src='page?{before + 1}']:not(.coming)").wait_for(timeout=WITHIN)
    page.locator("iframe.coming").wait_for(state="detached", timeout=WITHIN)
    assert frame.locator("#axis").evaluate("(axis) => axis.style.getPropertyValue('--to')") == zoomed
    assert frame.locator("#timeline ~ details").get_attribute("open") is not None
    assert page.evaluate("document.querySelector('iframe').contentDocument.activeElement.id") == "axis"
    if folder := os.environ.get("STREAMPROOF_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / "live-1280-light.png"))


def test_it_can_be_stopped_and_says_when_it_is_over(page: Any, live: Live) -> None:
    live.goes_on()
    page.frame_locator("iframe:not(.coming)").locator("#axis").wait_for(timeout=WITHIN)
    button = page.get_by_role("button", name="stop updating")
    button.click()
    shown = page.locator("iframe").get_attribute("src")
    live.goes_on()
    wait_until(lambda: live.board.state().page == 2, WITHIN / 1_000, "a newer page")
    live.board.say("more has happened")
    page.get_by_text("more has happened").wait_for(timeout=WITHIN)
    assert page.get_by_role("button", name="update again").get_attribute("aria-pressed") == "true"
    assert page.locator("iframe").get_attribute("src") == shown
    live.board.end()
    page.get_by_role("heading", name="The command has ended").wait_for(timeout=WITHIN)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_around_the_page(browser: Any, live: Live, scheme: str) -> None:
    sync = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(live.address)
    found = sync.Axe().run(page).response["violations"]
    context.close()
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in serious] == []
