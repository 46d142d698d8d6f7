"""The live view: who may look, what is shown of what has not ended, and that nothing else depends on it."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from asking import Ask
from certified import trial, unsealed
from losing_run import LOSES
from process_ends import has_ended
from streamproof.harness.certifying.journal import Journal
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.command_line.progress_line import LiveLine
from streamproof.harness.command_line.watching import watch as watching
from streamproof.harness.command_line.watching.board import LOOKED_AT, SHARE, Board
from streamproof.harness.command_line.watching.messages import WatchSearch
from streamproof.harness.command_line.watching.server import WatchServer
from streamproof.harness.command_line.watching.sources import WatchedCampaign, WatchedRun, WatchedSearch
from streamproof.harness.command_line.watching.watch import Watch
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.exploration.documenting import document_of
from streamproof.harness.exploration.exploring import Explored
from streamproof.harness.recording.folder import RunFolder, read_description, read_history

pytestmark = pytest.mark.usefixtures("here")

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/([\w-]+)/")


@pytest.fixture
def loses(tmp_path: Path) -> str:
    (tmp_path / "user_of_watching.py").write_text(LOSES)
    sys.modules.pop("user_of_watching", None)
    return "user_of_watching:loses"


@dataclass
class Drawn:
    """A source that counts how often it is drawn."""

    times: int = 0
    marked: Hashable = 0
    takes: Callable[[], None] = lambda: None
    wrong: Exception | None = None

    def mark(self) -> Hashable:
        return self.marked

    def draw(self) -> str | None:
        self.times += 1
        self.takes()
        if self.wrong is not None:
            raise self.wrong
        return f"page {self.times}"


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now

    def on(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Shown:
    """A board, with what it is drawn from."""

    clock: Clock = field(default_factory=Clock)
    source: Drawn = field(default_factory=Drawn)

    def __post_init__(self) -> None:
        self.board = Board(self.clock)
        self.board.watch(self.source)


# When it is drawn


def test_nothing_is_drawn_while_nobody_looks() -> None:
    shown = Shown()
    assert not shown.board.draw_if_due()
    shown.board.state()
    assert shown.board.draw_if_due()
    shown.source.marked = 1
    shown.clock.on(LOOKED_AT + 1)
    assert not shown.board.draw_if_due()
    assert shown.source.times == 1


def test_what_is_as_it_was_is_not_drawn_anew() -> None:
    shown = Shown()
    shown.board.state()
    shown.board.draw_if_due()
    shown.clock.on(5)
    shown.board.state()
    assert not shown.board.draw_if_due()
    shown.source.marked = 1
    assert shown.board.draw_if_due()
    assert shown.board.state().page == 2


def test_a_page_that_takes_long_is_drawn_seldom() -> None:
    shown = Shown()
    shown.source.takes = lambda: shown.clock.on(2)
    shown.board.state()
    shown.board.draw_if_due()
    shown.source.marked = 1
    shown.clock.on(2 * SHARE - 1)
    shown.board.state()
    assert not shown.board.draw_if_due()
    shown.clock.on(1)
    assert shown.board.draw_if_due()


def test_a_page_that_cannot_be_drawn_leaves_the_one_before_and_says_why() -> None:
    shown = Shown()
    shown.board.state()
    shown.board.draw_if_due()
    shown.source.marked, shown.source.wrong = 1, ValueError("half of it")
    shown.clock.on(5)
    shown.board.draw_if_due()
    assert shown.board.state().trouble == "ValueError: half of it"
    assert shown.board.page() == (1, "page 1")
    shown.source.wrong = None
    shown.clock.on(5)
    shown.board.draw_if_due()
    assert shown.board.state().trouble == ""
    assert shown.board.page() == (2, "page 3")


def test_who_looks_at_the_end_is_given_the_last_page_and_nobody_else_is_waited_for() -> None:
    shown = Shown()
    shown.board.end()
    assert shown.board.is_out()
    shown.board.state()
    assert not shown.board.is_out()
    assert not shown.board.state().ended
    shown.board.draw_if_due()
    assert shown.board.state().ended
    number, _ = shown.board.page()
    assert not shown.board.is_out(), "it is not sent yet"
    shown.board.gave(number)
    assert shown.board.is_out()


# Who may look


@pytest.fixture
def server() -> Iterator[WatchServer]:
    served = WatchServer(Board(), "right")
    thread = threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield served
    served.shutdown()
    served.server_close()


def get(port: int, path: str, host: str | None = None) -> http.client.HTTPResponse:
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    asking.request("GET", path, headers={} if host is None else {"Host": host})
    return asking.getresponse()


@pytest.mark.parametrize("path", ["/", "/wrong/", "/right", "/right/../wrong/page", "/wrong/page", "//", "/%72ight/"])
def test_who_has_not_the_token_is_told_nothing(server: WatchServer, path: str) -> None:
    server.board.watch(Drawn())
    server.board.say("a secret")
    answer = get(server.port, path)
    said = answer.read()
    assert answer.status in (403, 404)
    assert said.startswith(b"streamproof: ")
    assert b"secret" not in said
    assert b"right" not in said


def test_a_name_that_leads_to_this_machine_is_not_enough(server: WatchServer) -> None:
    assert get(server.port, "/right/", host=f"evil.example:{server.port}").status == 403
    assert get(server.port, "/right/", host=f"localhost:{server.port}").status == 200


def test_it_listens_on_loopback_alone_and_lets_nobody_keep_or_frame_the_page(server: WatchServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    shell = get(server.port, "/right/")
    assert "frame-ancestors 'none'" in str(shell.getheader("Content-Security-Policy"))
    page = get(server.port, "/right/page")
    assert page.getheader("Content-Security-Policy") == "frame-ancestors 'self'"
    assert {one.getheader("Cache-Control") for one in (shell, page)} == {"no-store"}
    assert {one.getheader("Referrer-Policy") for one in (shell, page)} == {"no-referrer"}


def test_the_state_is_told_with_the_page_that_goes_with_it(server: WatchServer) -> None:
    assert b"Nothing has happened yet" in get(server.port, "/right/page").read()
    server.board.say("3 of 9 <b>")
    server.board.watch(Drawn())
    server.board.draw_if_due()
    assert json.load(get(server.port, "/right/state")) == {
        "page": 1,
        "said": "3 of 9 <b>",
        "ended": False,
        "trouble": "",
    }
    assert get(server.port, "/right/page?1").read() == b"page 1"
    server.board.end()
    wait_until(server.board.is_out, 30, "the page to be out")


# What is shown of what goes on


def test_a_run_that_goes_on_is_unknown_whatever_it_looks_like_and_is_as_recorded_once_it_has_ended(
    loses: str, tmp_path: Path
) -> None:
    assert run_command_line(["run", loses, "--cluster", "simulated", "--folder", "whole"]) == 1
    description, history = read_description(Path("whole")), read_history(Path("whole"))
    source = WatchedRun(tmp_path / "half")
    assert source.draw() is None
    with RunFolder(tmp_path / "half", description) as recorder:
        for stamped in history.records:
            recorder.note(stamped.at, stamped.record)
        for entry in history.timeline:
            recorder.log(entry)
        before = source.mark()
        page = source.draw()
        assert page is not None
        assert re.findall(r'class="status">(\w+)', page) == ["UNKNOWN"]
        assert "the run goes on, and is judged when it has ended" in page
        assert "whether a slice was heard again is seen at the end" in page
        # A frame of which half is on the disk.
        with (tmp_path / "half" / "records.frames").open("ab") as file:
            file.write(b"\0\0\0\x10\0")
        assert source.mark() != before
        assert source.draw() is not None
    ended = WatchedRun(tmp_path / "whole").draw()
    assert ended is not None
    assert re.findall(r'class="status">(\w+)', ended) == ["VIOLATED"]
    assert "The run has ended" in ended
    assert "whether a slice was heard again" not in ended


def test_a_run_that_has_ended_recovered_as_it_was_judged_and_not_as_numbers_say(loses: str) -> None:
    run_command_line(["run", loses, "--cluster", "simulated", "--folder", "whole"])
    file = Path("whole/verdicts.json")
    kept = json.loads(file.read_text())
    (recovery,) = kept["recoveries"]
    file.write_text(json.dumps({**kept, "recoveries": [{**recovery, "caught_up": 77_000_000}]}))
    page = WatchedRun(Path("whole")).draw()
    assert page is not None
    assert "caught up 77.00" in page


def test_no_claim_of_a_campaign_that_goes_on_holds_though_all_that_was_planned_has_passed(tmp_path: Path) -> None:
    whole = unsealed()
    source = WatchedCampaign(tmp_path)
    assert source.draw() is None
    with Journal(tmp_path) as journal:
        journal.begin(msgspec.structs.replace(whole, trials=()))
        journal.tried((trial(),))
        page = source.draw()
        assert page is not None
        assert re.findall(r'class="status">(\w+)', page) == ["UNKNOWN", "UNKNOWN"]
        assert "the campaign goes on" in page
        assert "cell passed" in page
        journal.tried((trial(name="two", exactly_once=Status.VIOLATED),))
        page = source.draw()
        assert page is not None
        assert re.findall(r'class="status">(\w+)', page) == ["VIOLATED", "UNKNOWN"]


def test_a_search_that_goes_on_has_found_nothing_so_far_and_is_unknown(
    loses: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    come_to: list[dict[str, Any]] = []
    # As the search tells it, before what is told seldom.
    monkeypatch.setattr(Watch, "search", lambda self, found: come_to.append(document_of(found)))
    assert ask("explore", loses, "--schedules", "3", "--jobs", "1").status == 1
    *before, kept, ended = come_to
    assert [one["schedules"] for one in before] == [1, 2, 3]
    assert all(one["goes_on"] for one in (*before, kept))
    assert "goes_on" not in ended
    page = WatchedSearch(WatchSearch(before[-1])).draw()
    assert page is not None
    assert "VIOLATED" in page
    assert "it is made small once the search has ended" in page
    held = {**before[-1], "verdicts": {"HOLDS": 3}, "violated": [], "exit_status": None}
    page = WatchedSearch(WatchSearch(held)).draw()
    assert page is not None
    assert "UNKNOWN</span> so far: the search goes on" in page


def test_a_search_is_told_seldom_and_its_end_always(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    monkeypatch.setattr("streamproof.harness.exploration.documenting.document_of", lambda found: {"on": found.goes_on})
    watch = Watch(False, lambda said: None)
    monkeypatch.setattr(watch, "_process", object())
    monkeypatch.setattr(watch, "_put", lambda what, message: told.append(message.document["on"]))
    going: Any = type("Going", (), {"goes_on": True})()
    over: Any = type("Over", (), {"goes_on": False})()
    for _ in range(1_000):
        watch.search(going)
    watch.search(over)
    assert told == [True, False]


# Nothing else depends on it


def digest(folder: str) -> Any:
    return json.loads((Path(folder) / "verdicts.json").read_text())["digest"]


def test_a_watched_run_says_where_in_plain_text_and_its_watch_goes_with_it(loses: str, ask: Ask) -> None:
    alone = ask("run", loses, "--cluster", "simulated", "--folder", "alone")
    answer = ask("run", loses, "--cluster", "simulated", "--folder", "watched", "--watch")
    assert answer.status == alone.status == 1
    assert answer.out.replace("watched", "alone") == alone.out
    assert re.fullmatch(rf"streamproof: watch it at {ADDRESS.pattern}\n", answer.err)
    assert digest("watched") == digest("alone")
    found = ADDRESS.search(answer.err)
    assert found is not None
    with pytest.raises(OSError, match="refused"):
        get(int(found[1]), f"/{found[2]}/state")
    assert [one for one in psutil.Process().children() if "watching" in " ".join(one.cmdline())] == []


def test_a_watch_that_cannot_start_is_said_and_changes_nothing(
    loses: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_at_once(process: object, token: str) -> tuple[int, str]:
        return 0, "nothing can listen on loopback"

    monkeypatch.setattr(Watch, "_opened", staticmethod(end_at_once))
    answer = ask("run", loses, "--cluster", "simulated", "--folder", "watched", "--watch")
    assert answer.err == "streamproof: there is no live view: nothing can listen on loopback; what is done goes on\n"
    assert answer.status == 1
    assert "at-least-once   VIOLATED" in answer.out


def test_where_no_process_can_be_started_that_is_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **settings: object) -> None:
        raise OSError(11, "no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    said: list[str] = []
    with Watch(True, said.append) as watch:
        watch.say("to nobody")
    assert said == ["there is no live view: no more processes; what is done goes on"]


def _of_watch(watch: Watch) -> psutil.Process:
    process = watch._process
    assert process is not None
    return psutil.Process(process.pid)


def test_a_watch_that_dies_or_hangs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_GOES", 0.2)
    said: list[str] = []
    with Watch(True, said.append) as watch:
        process = _of_watch(watch)
        process.suspend()
        # More than a pipe holds.
        for number in range(50):
            watch._put(str(number), WatchSearch({"long": "x" * 100_000}))
        watch.say("one more")
    assert not process.is_running()
    with Watch(True, said.append) as watch:
        process = _of_watch(watch)
        process.kill()
        process.wait()
        watch.say("to nobody")
        wait_until(lambda: len(said) == 3, 30, "the end to be said", lambda: str(said))
    assert said[-1].startswith("the live view has ended")


def test_a_watch_goes_with_a_command_that_is_killed(tmp_path: Path) -> None:
    """Though somebody else still holds the pipe by which it is told."""
    program = (
        "import os, sys, time\n"
        "from streamproof.harness.command_line.watching.watch import Watch\n"
        "with Watch(True, print) as watch:\n"
        "    print(watch._process.pid, flush=True)\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(60)\n"
        "    else:\n"
        "        sys.stdin.read()\n"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert command.stdout is not None
        address, pid = command.stdout.readline(), int(command.stdout.readline())
        assert ADDRESS.search(address)
        os.kill(command.pid, signal.SIGKILL)
        wait_until(lambda: has_ended(pid), 30, "the process of the live view to go")
    finally:
        os.killpg(command.pid, signal.SIGKILL)
        command.wait()
        assert command.stdin is not None
        assert command.stdout is not None
        command.stdin.close()
        command.stdout.close()


# The live line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_pipe_the_live_line_is_a_plain_line_every_minute() -> None:
    clock, stream = Clock(), io.StringIO()
    heard: list[str] = []
    with LiveLine(stream, "starting", heard.append, clock=clock) as line:
        for number in range(130):
            clock.on(1)
            line._draw(f"{number} of 130")
    assert stream.getvalue() == "streamproof: 59 of 130\nstreamproof: 119 of 130\n"
    assert heard == ["starting", *(f"{number} of 130" for number in range(130))]


def test_on_a_terminal_it_is_one_line_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    clock, terminal = Clock(), Terminal()
    with LiveLine(terminal, "starting", clock=clock) as line:
        clock.on(600)
        line._draw("going on")
    assert terminal.getvalue().split("\r\x1b[K")[1:] == ["starting", "going on", ""]


def test_what_a_search_tells_of_itself_costs_nothing_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(found: Explored) -> dict[str, Any]:
        raise AssertionError("a document was made")

    monkeypatch.setattr("streamproof.harness.exploration.documenting.document_of", never)
    going: Any = type("Going", (), {"goes_on": False})()
    with Watch(False, lambda said: None) as watch:
        watch.search(going)
