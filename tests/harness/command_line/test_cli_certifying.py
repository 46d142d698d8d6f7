"""`certify` on the command line, with a campaign that crashes nothing."""

import io
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import Mock

import msgspec
import pytest
from pyspark import SparkContext

import campaigns
from asking import Answer, Ask
from streamproof import pytest_plugin
from streamproof.harness.certifying import campaign, replaying
from streamproof.harness.certifying.budget import Budget, CampaignProgress
from streamproof.harness.certifying.certificate import Asked
from streamproof.harness.certifying.journal import Journal
from streamproof.harness.certifying.saved import write_saved
from streamproof.harness.certifying.subjects import QueryShape
from streamproof.harness.command_line import clusters
from streamproof.harness.command_line.campaign_line import CertifyingLine
from streamproof.harness.command_line.ending import INTERRUPTED, Terminated
from streamproof.harness.contracts.registry import Registry, load_object
from streamproof.harness.core.errors import MissingTool
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.install import machine
from streamproof.scenarios.workloads import words

HEAD = """
from streamproof import Query, exactly_once, exactly_once_output, recovers_within, seconds
from streamproof import Claim
from streamproof.scenarios.workloads import words

def holds(lines): return lines
def breaks(lines): return lines
def unclear(lines): return lines
def mistaken(lines): return lines

QUERY = Query(holds, claims=[Claim(exactly_once()), Claim(recovers_within(seconds(9)))])
def made(): return QUERY
class Row:
    query = Query(holds)
    claims = (exactly_once_output(),)
    workload = words(events=30)
ROW = Row()
"""

pytestmark = pytest.mark.usefixtures("here", "no_campaign")


@pytest.fixture
def no_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "certify", campaigns.certify)
    monkeypatch.setattr(campaign, "go_on", campaigns.go_on)
    monkeypatch.setattr(clusters, "reap_all", list)
    monkeypatch.setattr(machine, "find_java", lambda: Path("java"))
    monkeypatch.setattr(machine, "find_spark", lambda: Path("spark"))


@pytest.fixture
def module(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A user's module; its name is the test's own, since Python imports each only once."""
    name = "user_" + "".join(c if c.isalnum() else "_" for c in request.node.name)
    (tmp_path / f"{name}.py").write_text(HEAD)
    return name


@pytest.fixture
def called(ask: Ask, module: str) -> Callable[..., dict[str, Any]]:
    """What the campaign is called with."""

    def call(attribute: str, *arguments: object) -> dict[str, Any]:
        answer = ask("certify", f"{module}:{attribute}", *arguments, "--folder", "here")
        assert (answer.status, answer.err) == (0, "")
        found: dict[str, Any] = json.loads(Path("here", "called.json").read_text())
        return found

    return call


# What comes of it


@pytest.mark.parametrize(
    ("query", "status", "texts"),
    [
        ("holds", 0, ["exactly-once   HOLDS      all 8 planned crashes passed", "4 real kills drawn at random"]),
        (
            "breaks",
            1,
            [
                "exactly-once   VIOLATED   the driver dies after",
                'row {"word": "the"} is there twice',
                "3 of 3 repeats showed it, with 1 crash and 30 events, shrunk from 2 crashes and 200 events",
                "replay it: streamproof replay certificates/counterexample.json",
            ],
        ),
        ("unclear", 2, ["exactly-once   UNKNOWN", "4 of 8 planned crashes were not tried: 5 minutes were over"]),
    ],
)
def test_the_screen_says_what_it_comes_to_and_the_status_too(
    ask: Ask, module: str, tmp_path: Path, query: str, status: int, texts: list[str]
) -> None:
    answer = ask("certify", f"{module}:{query}", "--claim", "exactly-once", "--folder", "here")
    assert (answer.status, answer.err) == (status, "")
    assert answer.out.startswith(
        f"{query}, a Structured Streaming query     embedded Spark, 1 node · 6 events of words"
    )
    assert "  not covered  " in answer.out
    assert "The loss of files that were not synced." in answer.out
    assert "certificate here/certificate.html     judge it again: streamproof judge here" in answer.out
    assert (tmp_path / "here" / "certificate.html").exists()
    for text in texts:
        assert text in answer.out
    assert "\x1b" not in answer.out


def test_json_says_the_same(ask: Ask, module: str) -> None:
    answer = ask("certify", f"{module}:breaks", "--claim", "exactly-once", "--folder", "here", "--json")
    document = answer.document
    assert document["exit_status"] == answer.status == 1
    assert (document["folder"], document["subject"], document["cluster"]) == ("here", "breaks", "embedded")
    assert [(one["claim"], one["status"]) for one in document["verdicts"]] == [("exactly-once", "VIOLATED")]
    assert (document["coverage"]["planned"], document["coverage"]["passed"]) == (8, {"exactly-once": 7})
    assert document["counterexample"]["anomaly"] == "duplicate-effect"
    assert document["not_covered"] == ["The loss of files that were not synced."]


def test_a_certificate_has_a_folder_of_its_own(ask: Ask, module: str) -> None:
    for _ in range(2):
        assert ask("certify", f"{module}:holds", "--claim", "exactly-once").status == 0
    folders = list(Path("certificates").iterdir())
    assert len(folders) == 2
    assert all("holds" in folder.name and (folder / "certificate.json").exists() for folder in folders)


# What is asked for


def test_a_function_of_a_frame_is_told_the_rest_by_flags(called: Callable[..., dict[str, Any]]) -> None:
    flags = ("--claim", "exactly-once", "--mode", "update", "--key", "a", "--key", "b", "--schema", "a STRING")
    flags = (*flags, "--workload", "streamproof.scenarios.workloads:words")
    query = called("holds", *flags)["query"]
    assert (query["mode"], query["key"], query["schema"]) == ("update", ["a", "b"], "a STRING")


def test_without_flags_everything_is_crashed_for_ten_minutes(called: Callable[..., dict[str, Any]]) -> None:
    asked = called("holds", "--claim", "exactly-once", "--claim", "at-least-once", "--claim", "exactly-once")
    assert asked["claims"] == ["exactly-once", "at-least-once"]
    assert asked["budget"] == {"runs": None, "minutes": 10.0, "kills": 10, "goes_on": False}
    assert asked["faults"] == {
        "victims": ["driver", "executor", "python", "node", "answer", "request"],
        "recovering": True,
        "split_brain": True,
    }
    assert (asked["cluster"], asked["seed"], asked["origin"].partition(":")[2]) == ("embedded", 7, "holds")
    assert asked["workload"] == {"name": "python-docs", "events": 600}


def test_flags_say_what_dies_and_for_how_long(called: Callable[..., dict[str, Any]]) -> None:
    asked = called(
        *("holds", "--claim", "exactly-once", "--victim", "driver", "--no-recovering", "--no-split-brain"),
        *("--minutes", "1.5", "--runs", "9", "--kills", "3", "--seed", "4", "--go-on"),
        *("--workload", "streamproof.scenarios.workloads:numbered"),
    )
    assert asked["faults"] == {"victims": ["driver"], "recovering": False, "split_brain": False}
    assert asked["budget"] == {"runs": 9, "minutes": 1.5, "kills": 3, "goes_on": True}
    assert (asked["seed"], asked["workload"]["name"]) == (4, "numbered")


@pytest.mark.parametrize("attribute", ["QUERY", "made"])
def test_a_query_says_itself_what_it_claims(called: Callable[..., dict[str, Any]], attribute: str) -> None:
    assert called(attribute)["claims"] == ["exactly-once", "recovers-within (9 s)"]


def test_what_is_asked_for_outranks_what_the_query_claims(called: Callable[..., dict[str, Any]]) -> None:
    assert called("QUERY", "--claim", "at-least-once")["claims"] == ["at-least-once"]


def test_a_row_of_a_table_has_claims_and_input_too(called: Callable[..., dict[str, Any]]) -> None:
    asked = called("ROW")
    assert asked["claims"] == ["exactly-once-output"]
    assert asked["workload"] == {"name": "words", "events": 30}


def test_what_is_installed_goes_by_its_name(ask: Ask, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.setattr(Registry, "subjects", {"holds": load_object(f"{module}:ROW")})
    answer = ask("certify", "holds", "--folder", "here")
    assert (answer.status, answer.err) == (0, "")
    assert json.loads(Path("here", "called.json").read_text())["claims"] == ["exactly-once-output"]
    answer = ask("certify", "hold")
    assert (answer.status, answer.out) == (3, "")
    assert "there is no subject 'hold'; there are: holds, module:attribute" in answer.err


def test_the_spark_is_named_by_its_version(called: Callable[..., dict[str, Any]]) -> None:
    assert called("QUERY", "--spark", "4.1.3")["query"]["spark"] == "4.1.3"


def test_the_spark_is_that_of_an_interpreter_also_for_who_goes_on_elsewhere(
    called: Callable[..., dict[str, Any]],
) -> None:
    python = called("QUERY", "--python", ".venv/bin/python")["query"]["spark"]
    assert python == str(Path.cwd() / ".venv" / "bin" / "python")


# The user's mistakes


@pytest.mark.parametrize(
    ("attribute", "arguments", "said"),
    [
        ("holds", [], ["claims nothing", "--claim exactly-once"]),
        ("nothing", ["--claim", "exactly-once"], ["no attribute", "QUERY, Row, breaks, holds, made"]),
        ("holds", ["--claim", "exactly-onec"], ["no guarantee 'exactly-onec'", "exactly-once,"]),
        (
            "holds",
            ["--claim", "recovers-within"],
            ["recovers-within needs a duration as its bound", "recovers-within:10s"],
        ),
        ("holds", ["--claim", "recovers-within:10"], ["within='10'", "a duration, written as in 10s"]),
        ("holds", ["--claim", "exactly-once:10s"], ["exactly-once does not take; it takes: nothing"]),
        ("holds", ["--claim", "gap-recovery (5 events)"], ["no guarantee 'gap-recovery (5 events)'"]),
        ("holds", ["--claim", "exactly-once", "--cluster", "dockr"], ["no cluster 'dockr'"]),
        ("holds", ["--claim", "exactly-once", "--spark", "4.1"], ["spark='4.1' is neither a version, as 4.1.3"]),
        ("holds", ["--claim", "exactly-once", "--spark", "4.1.3", "--python", "p"], ["give one of them"]),
        ("holds", ["--claim", "exactly-once", "--spark", ""], ["'--spark': it is empty"]),
        ("holds", ["--claim", "exactly-once", "--python", ""], ["'--python': it is empty"]),
        ("holds", ["--claim", "exactly-once", "--cluster", "simulated"], ["no Spark in the simulator"]),
        ("holds", ["--claim", "exactly-once", "--mode", "upsert"], ["mode='upsert'", "append, update, complete"]),
        ("holds", ["--claim", "exactly-once", "--mode", "update"], ["key columns"]),
        ("QUERY", ["--mode", "update", "--key", "a"], ["says its output mode, key and schema itself"]),
        ("holds", ["--claim", "exactly-once", "--victim", "cat"], ["'cat' is not a valid Victim", "driver, executor"]),
        ("holds", ["--claim", "exactly-once", "--schema", "a STRING"], ["'a STRING'", "say what it is fed"]),
        ("holds", ["--claim", "exactly-once", "--minutes", "0"], ["--minutes needs a positive number"]),
        ("holds", ["--claim", "exactly-once", "--minutes", "nan"], ["--minutes needs a positive number"]),
        ("holds", ["--claim", "exactly-once", "--runs", "0"], ["--runs"]),
        ("holds", ["--claim", "exactly-once", "--kills", "-1"], ["--kills"]),
        ("holds", ["--claim", "exactly-once", "--workload", "json:loads"], ["json:loads does not make a workload"]),
        ("holds", ["--claim", "exactly-once", "--workload", "json:__name__"], ["gives a str"]),
        ("Row", ["--claim", "exactly-once"], ["is the class Row", "a function of a DataFrame"]),
        ("HOLDS", ["--claim", "exactly-once"], ["no attribute"]),
        ("mistaken", ["--claim", "exactly-once"], ["fails by itself"]),
    ],
)
def test_mistakes_end_in_3_and_leave_nothing(
    ask: Ask, module: str, attribute: str, arguments: list[str], said: list[str], tmp_path: Path
) -> None:
    answer = ask("certify", f"{module}:{attribute}", *arguments)
    assert (answer.status, answer.out) == (3, "")
    for text in said:
        assert text in answer.err
    assert "Traceback" not in answer.err
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == [f"{module}.py"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def wrong(): return 3", ["returns a int"]),
        ("def wrong(): raise ValueError('not today')", ["does not make a Query: ValueError: not today", "line"]),
        ("def wrong(frame, batch): pass", ["takes 2 arguments (frame, batch)", "make a Query first"]),
        ("wrong = 3", ["is a int"]),
        ("wrong = max", ["max", "what can be certified"]),
        ("def wrong(:", ["cannot import", "SyntaxError"]),
        ("import sys; sys.exit(1)", ["cannot import", "SystemExit"]),
    ],
)
def test_what_is_no_query_ends_in_3(ask: Ask, module: str, body: str, said: list[str], tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text(body)
    answer = ask("certify", f"{module}:wrong", "--claim", "exactly-once")
    assert (answer.status, answer.out) == (3, "")
    for text in said:
        assert text in answer.err
    assert not Path("certificates").exists()


def test_a_folder_in_use_is_left_alone(ask: Ask, module: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    for folder in ("mine", f"{module}.py"):
        answer = ask("certify", f"{module}:holds", "--claim", "exactly-once", "--folder", folder)
        assert (answer.status, answer.out) == (3, "")
        assert f"{folder} is not empty" in answer.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_without_java_it_does_not_point_to_the_simulator(
    ask: Ask, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_java() -> NoReturn:
        raise MissingTool("there is no Java")

    monkeypatch.setattr(machine, "find_java", find_java)
    answer = ask("certify", f"{module}:holds", "--claim", "exactly-once")
    assert answer.status == 3
    assert answer.err == "streamproof: there is no Java.\n`streamproof doctor` shows what is missing\n"


def test_ctrl_c_ends_it_as_any_command(ask: Ask, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> NoReturn:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    monkeypatch.setattr(campaign, "certify", interrupted)
    answer = ask("certify", f"{module}:holds", "--claim", "exactly-once")
    assert (answer.status, answer.out) == (INTERRUPTED, "")
    assert answer.err == (
        "streamproof: nothing had been tried, and nothing is kept\nstreamproof: interrupted; nothing is left running\n"
    )


# What was saved


@pytest.fixture
def save(module: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Leaves counterexample.json, of a function of a frame in update mode."""
    monkeypatch.setattr(replaying, "replay_saved", campaigns.replay_saved)
    monkeypatch.syspath_prepend(str(Path.cwd()))

    def save(attribute: str, named: bool = True) -> None:
        origin = f"{module}:{attribute}"
        query = QueryShape("update", ("word",)).query(load_object(origin))
        write_saved(Path("counterexample.json"), campaigns.saved(query, words(), origin if named else ""))

    return save


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("holds", 0, ["exactly-once          HOLDS", "exactly-once-output   HOLDS"]),
        ("breaks", 1, ["exactly-once-output   VIOLATED", "duplicate-output × "]),
    ],
)
def test_what_was_saved_is_replayed(
    ask: Ask, save: Callable[..., None], query: str, status: int, said: list[str]
) -> None:
    save(query)
    answer = ask("replay", "counterexample.json", "--folder", "again")
    assert (answer.status, answer.err) == (status, "")
    for text in (*said, "judge it again: streamproof judge again"):
        assert text in answer.out
    answer = ask("replay", "counterexample.json", "--json")
    assert (answer.status, answer.document["exit_status"]) == (status, status)
    assert Path(answer.document["folder"], "scenario.json").exists()


def test_what_cannot_be_replayed_ends_in_3(ask: Ask, save: Callable[..., None], module: str) -> None:
    def refused(*arguments: str) -> str:
        answer = ask("replay", "counterexample.json", *arguments)
        assert (answer.status, answer.out) == (3, "")
        assert not Path("runs").exists()
        return answer.err

    save("holds")
    assert "no Spark in the simulator" in refused("--cluster", "simulated")
    assert "cannot import 'nowhere'" in refused("--workload", "nowhere:x")
    save("holds", named=False)
    assert "was made in a program and has no name" in refused()
    save("holds")
    text = Path("counterexample.json").read_text()
    Path("counterexample.json").write_text(text.replace('"name": "holds"', '"name": "other"'))
    assert "the query has changed since: its name was 'other', and is 'holds' now" in refused()
    Path("counterexample.json").write_text(text.replace('"version": 2', '"version": 99'))
    assert "has version 99" in refused()


# The live line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_live_line_says_the_phase_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    terminal = Terminal()
    with CertifyingLine(terminal, "starting Spark") as line:
        line.show(CampaignProgress("crash states", 12, 1060, 125.0))
    _, first, second, *_, last = terminal.getvalue().split("\r\x1b[K")
    assert (first, last) == ("starting Spark", "")
    assert re.fullmatch(r"crash states: 12 of 1,060 · at most 2:0[45] min left", second)


def test_the_time_left_goes_on_while_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with CertifyingLine(terminal, "starting Spark") as line:
        line.show(CampaignProgress("kills", 1, 9, 1.0))
        wait_until(lambda: "kills: 1 of 9 · the time is up, finishing" in terminal.getvalue(), 30, "the time to be up")


def test_in_a_pipe_a_line_says_now_and_then_that_it_is_alive() -> None:
    stream = io.StringIO()
    with CertifyingLine(stream, "starting Spark", alive=0.05) as line:
        wait_until(lambda: stream.getvalue(), 30, "a line")
        line.show(CampaignProgress("kills", 1, 9, 100.0))
        wait_until(lambda: "kills" in stream.getvalue(), 30, "another")
    said = stream.getvalue().splitlines()
    assert said[0] == "streamproof: starting Spark"
    assert re.fullmatch(r"streamproof: kills: 1 of 9 · at most 1:[34][0-9] min left", said[-1])


def test_a_module_without_an_attribute_names_what_can_be_certified_in_it(ask: Ask, module: str) -> None:
    answer = ask("certify", module, "--claim", "exactly-once")
    assert answer.status == 3
    names = ("QUERY", "ROW", "breaks", "holds", "made")
    assert f"{module} is a module: say what in it is to be certified" in answer.err
    assert all(f"{module}:{name}" in answer.err for name in names)
    assert "Row," not in answer.err


def test_a_module_names_no_function_that_makes_its_input(ask: Ask, tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text(
        f"""{HEAD}
from streamproof import Workload
def small(): return words(events=20)
def as_said() -> Workload: return ROW.workload
def put_off() -> "Workload": return ROW.workload
def claims_it(): return Query(holds), words(events=20)
def unknown(): return print
"""
    )
    answer = ask("certify", module, "--claim", "exactly-once")
    offered = answer.err.rpartition("there are: ")[2]
    assert [name for name in ("small", "as_said", "put_off") if f":{name}" in offered] == []
    assert [name for name in ("made", "claims_it", "unknown") if f":{name}" in offered] == [
        "made",
        "claims_it",
        "unknown",
    ]


def test_a_column_that_is_made_at_import_names_the_line_that_makes_it(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process without a session has it."""
    (tmp_path / "columns.py").write_text("from pyspark.sql import functions as f\n\nLONG = f.col('value') > 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    answer = ask("certify", "columns:LONG", "--claim", "exactly-once")
    assert answer.status == 3
    assert f"({tmp_path}/columns.py, line 3)" in answer.err
    assert "needs a Spark session: make it within the function" in answer.err


def test_a_script_finds_no_arguments_of_this_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parses.py").write_text("import sys\nFOUND = sys.argv[1:]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sys.argv", ["streamproof", "certify", "parses:FOUND"])
    assert load_object("parses:FOUND") == []


def test_where_nobody_watches_nothing_is_drawn() -> None:
    stream = io.StringIO()
    with CertifyingLine(stream, "starting Spark") as line:
        line.show(CampaignProgress("kills", 1, 9, 1.0))
    assert stream.getvalue() == ""


# Going on


def test_a_campaign_is_gone_on_with_by_its_folder_alone(ask: Ask, module: str) -> None:
    assert ask("certify", f"{module}:unclear", "--claim", "exactly-once", "--kills", 4, "--folder", "here").status == 2
    answer = ask("certify", "--continue", "here", "--minutes", 3)
    assert (answer.status, answer.err) == (2, "")
    called = json.loads(Path("here.called").read_text())
    assert called["query"] == "unclear"
    assert called["cluster"] == "embedded"
    assert (called["budget"]["minutes"], called["budget"]["runs"]) == (3, None)


def test_where_nothing_is_left_to_do_the_certificate_is_shown_as_it_is(ask: Ask, module: str) -> None:
    ask("certify", f"{module}:holds", "--claim", "exactly-once", "--folder", "here")
    answer = ask("certify", "--continue", "here")
    assert answer.status == 0
    assert "here: nothing is left to do, since all that was planned was tried" in answer.err
    assert "HOLDS" in answer.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("holds", "--continue", "here"), "NAME was said when the campaign was begun"),
        (("--continue", "here", "--claim", "exactly-once"), "--claim was said when the campaign was begun"),
        (("--continue", "here", "--no-split-brain"), "--split-brain was said when the campaign was begun"),
        (("--continue", "nowhere"), "nowhere holds no certificate"),
        ((), "say what is to be certified"),
    ],
)
def test_what_cannot_be_gone_on_with_is_the_users_mistake(ask: Ask, arguments: tuple[str, ...], said: str) -> None:
    answer = ask("certify", *arguments)
    assert answer.status == 3
    assert said in answer.err.replace("\n", " ")


@pytest.fixture
def interrupt(ask: Ask, module: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Certifies a query, and is interrupted when half of its trials are on record."""

    def interrupt(name: str, *arguments: str, by: type[BaseException] = KeyboardInterrupt) -> Answer:
        asked = Asked(("exactly-once",), (), recovering=True, split_brain=True, origin=f"{module}:{name}")
        whole = msgspec.structs.replace(campaigns.certificate(name), asked=asked)
        # One that breaks has shown it by then.
        half = whole.trials if whole.counterexample is not None else whole.trials[:3]

        def certify(*given: object, folder: Path, **named: object) -> NoReturn:
            folder.mkdir()
            with Journal(folder) as journal:
                journal.begin(msgspec.structs.replace(whole, trials=(), counterexample=None, exhausted=""))
                journal.tried(half)
                if whole.counterexample is not None:
                    journal.found(whole.counterexample)
            error = by()
            error.add_note(campaign.GO_ON.format(folder=folder))
            raise error

        monkeypatch.setattr(campaign, "certify", certify)
        return ask("certify", f"{module}:{name}", "--claim", "exactly-once", "--folder", "here", *arguments)

    return interrupt


def test_who_interrupts_a_campaign_is_told_what_is_known_and_how_to_go_on(interrupt: Callable[..., Answer]) -> None:
    answer = interrupt("holds")
    assert answer.status == INTERRUPTED
    assert "3 of 8 planned crashes came to a verdict: 3 crash states" in answer.out
    assert "Planned and not tried (it was interrupted): " in answer.out
    assert "exactly-once   UNKNOWN" in answer.out
    assert "the campaign has come to no end" in answer.out
    assert "HOLDS" not in answer.out
    assert answer.err == (
        "streamproof: what was tried counts; go on with: streamproof certify --continue here\n"
        "streamproof: interrupted; nothing is left running\n"
    )


def test_a_campaign_that_is_interrupted_once_a_claim_is_violated_ends_in_1(interrupt: Callable[..., Answer]) -> None:
    answer = interrupt("breaks")
    assert answer.status == 1
    assert "exactly-once   VIOLATED" in answer.out
    assert "replay it: streamproof replay certificates/counterexample.json" in answer.out
    assert "go on with: streamproof certify --continue here" in answer.err
    assert "interrupted; nothing is left running" in answer.err


def test_json_of_an_interrupted_campaign_says_the_same(interrupt: Callable[..., Answer]) -> None:
    found = interrupt("holds", "--json").document
    assert (found["interrupted"], found["page"], found["exit_status"]) == (True, None, INTERRUPTED)
    assert [verdict["status"] for verdict in found["verdicts"]] == ["UNKNOWN"]
    assert found["coverage"]["trials"] == {"crash-state": 3}


def test_who_terminates_a_campaign_is_told_how_to_go_on(interrupt: Callable[..., Answer], capsys: Any) -> None:
    with pytest.raises(Terminated):
        interrupt("holds", by=Terminated)
    assert "go on with: streamproof certify --continue here" in capsys.readouterr().err


def test_a_campaign_without_an_end_is_drawn_as_far_as_it_has_come(interrupt: Callable[..., Answer], ask: Ask) -> None:
    interrupt("holds")
    assert ask("report", "here").status == 0
    page = Path("here.html").read_text()
    assert "A campaign without an end so far" in page
    assert "streamproof certify --continue here" in page
    assert "streamproof judge" not in page
    assert page.count('class="cell passed"') > 0
    assert sorted(path.name for path in Path("here").iterdir()) == ["campaign.jsonl"]


def test_a_campaign_without_an_end_is_compared_with_nothing(interrupt: Callable[..., Answer], ask: Ask) -> None:
    interrupt("holds")
    answer = ask("report", "here", "here")
    assert answer.status == 3
    assert "has come to no end" in answer.err
    assert "go on with: streamproof certify --continue here" in answer.err


def test_the_help_says_the_budget_that_is_in_force(ask: Ask) -> None:
    said = " ".join(ask("certify", "--help").out.split())
    assert f"Time for it, {Budget().minutes:g} unless told otherwise" in said
    assert f"how many violate; {Budget().kills} unless told otherwise" in said


def test_the_options_of_pytest_say_the_budget_that_is_in_force() -> None:
    parser = Mock()
    pytest_plugin.pytest_addoption(parser)
    options = {call.args[0]: call.kwargs["help"] for call in parser.getgroup.return_value.addoption.call_args_list}
    assert f"(default: {Budget().minutes:g}m, {Budget().kills} kills)" in options["--streamproof-budget"]
