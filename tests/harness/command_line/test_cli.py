"""The command line, in the simulator: exit statuses, messages, JSON, and what is left behind."""

import io
import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from asking import Ask
from readme import FAULT_SCENARIO, example
from streamproof.harness.command_line import clusters, diagnosis
from streamproof.harness.command_line.cli import TO_BEGIN, run_command_line
from streamproof.harness.command_line.progress_line import WorkingLine
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import MissingTool, UnknownName
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.crash_points.inside_spark.agent import FETCH
from streamproof.harness.install import machine
from streamproof.harness.install.class_archive import BUILD_ARCHIVE, archive_path
from streamproof.harness.worlds.docker import reaping as reaping_containers
from streamproof.harness.worlds.embedded import reaping
from streamproof.harness.worlds.embedded.cluster import USUAL, EmbeddedCluster
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster

HEAD = """
from streamproof import *
"""
MASKED = "passive_replication(word_count(), checkpoint_every=events(50), sink_filter=True)"
SMALL = 'text("zen", events=40, batch=5)'
RUN = ("run", "trace.passive-replication", "--cluster", "simulated")


pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def module(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Writes a user's module; its name is the test's own, since Python imports each only once."""

    def write(body: str) -> str:
        name = "user_" + "".join(c if c.isalnum() else "_" for c in request.node.name)
        (tmp_path / f"{name}.py").write_text(HEAD + body)
        return name

    return write


@pytest.fixture(scope="module")
def ended_well(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run. Nothing may change in it."""
    folder = tmp_path_factory.mktemp("ended") / "well"
    assert run_command_line([*RUN, "--folder", str(folder)]) == 0
    return folder


@pytest.fixture
def finished(ended_well: Path, tmp_path: Path) -> Path:
    """The folder of a run that has ended well."""
    return Path(shutil.copytree(ended_well, tmp_path / "finished"))


def program(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "streamproof", *map(str, arguments)]


def scenario(body: str) -> str:
    return f"def mine():\n    '''A scenario of mine.'''\n    return Scenario({body})\n"


# run


def test_what_holds_ends_in_0(ask: Ask, tmp_path: Path) -> None:
    answer = ask("run", "trace.passive-replication", "--cluster", "simulated", "--folder", "here")
    assert (answer.status, answer.err) == (0, "")
    assert "trace under passive-replication" in answer.out
    assert "precise-recovery   HOLDS" in answer.out
    assert "streamproof judge here" in answer.out
    assert "\x1b" not in answer.out
    assert (tmp_path / "here" / "verdicts.json").exists()


def test_what_breaks_as_expected_ends_in_0(ask: Ask) -> None:
    answer = ask("run", "word-count.gap", "--cluster", "simulated")
    assert answer.status == 0
    assert "VIOLATED   as expected" in answer.out


def test_a_violated_claim_ends_in_1(ask: Ask, module: Callable[..., str]) -> None:
    name = module(
        scenario(
            f'gap(word_count(), checkpoint_every=events(50)), {SMALL}, [crash("count-0").after(events(60))], '
            "claims=[at_least_once()]"
        )
    )
    answer = ask("run", f"{name}:mine", "--cluster", "simulated")
    assert answer.status == 1
    assert "at-least-once   VIOLATED" in answer.out
    assert "lost-input" in answer.out


def test_what_a_run_is_asked_to_keep_is_judged_in_place_of_what_its_scenario_says(
    ask: Ask, module: Callable[..., str]
) -> None:
    """And again when it is judged again: the record counts."""
    name = module(scenario(f"{MASKED}, {SMALL}, breaks=[at_least_once()]"))
    claims = ("--claim", "at-least-once", "--claim", "at-most-once")
    run = ("run", f"{name}:mine", "--cluster", "simulated", *claims, "--folder", "here")
    for asked in (run, ("judge", "here")):
        answer = ask(*asked)
        assert answer.status == 0
        assert "at-least-once   HOLDS" in answer.out
        assert "at-most-once    HOLDS" in answer.out
        assert "precise-recovery   HOLDS" not in answer.out
    assert "the nearest are: at-least-once" in ask("run", f"{name}:mine", "--claim", "at-leas").err


def test_what_was_to_break_and_holds_ends_in_1(ask: Ask, module: Callable[..., str]) -> None:
    name = module(scenario(f"{MASKED}, {SMALL}, breaks=[at_least_once()]"))
    answer = ask("run", f"{name}:mine", "--cluster", "simulated")
    assert answer.status == 1
    assert "although the scenario expects it to break" in answer.out


def test_what_cannot_be_known_ends_in_2(ask: Ask, module: Callable[..., str]) -> None:
    name = module(scenario(f'{MASKED}, {SMALL}, [crash("count-0").at(checkpoint(999).durable)]'))
    answer = ask("run", f"{name}:mine", "--cluster", "simulated")
    assert answer.status == 2
    assert "its trigger never came" in answer.out
    assert "UNKNOWN" in answer.out


def test_of_several_runs_the_worst_is_the_status(ask: Ask, module: Callable[..., str], tmp_path: Path) -> None:
    lost = f'gap(word_count(), checkpoint_every=events(50)), {SMALL}, [crash("count-0").after(events(60))], '
    name = module(
        f"def holds(): return Scenario({MASKED}, {SMALL})\n"
        f'def unknown(): return Scenario({MASKED}, {SMALL}, [crash("count-0").at(checkpoint(999).durable)])\n'
        f"def violated(): return Scenario({lost}claims=[at_least_once()])\n"
    )

    def status(*names: str) -> int:
        return ask("run", *(f"{name}:{one}" for one in names), "--cluster", "simulated").status

    assert status("holds", "holds") == 0
    assert status("holds", "unknown", "holds") == 2
    assert status("violated", "unknown", "holds") == 1
    answer = ask("run", f"{name}:unknown", f"{name}:holds", "--cluster", "simulated", "--folder", "both", "--json")
    assert [run["exit_status"] for run in answer.document["runs"]] == [2, 0]
    assert answer.document["exit_status"] == answer.status == 2
    assert {run["folder"] for run in answer.document["runs"]} == {
        str(folder.relative_to(tmp_path)) for folder in (tmp_path / "both").iterdir()
    }


def test_what_was_judged_before_a_run_that_failed_is_not_lost(ask: Ask, module: Callable[..., str]) -> None:
    name = module(
        "class Broken(Operator[None]):\n"
        "    def initial_state(self): return None\n"
        "    def process(self, event, state): raise ValueError('not this one')\n"
        'EDGES = (Edge("source", "broken"), Edge("broken", "sink"))\n'
        'BROKEN = Topology("broken", {"broken": Stage(Broken())}, EDGES)\n'
        f"def holds(): return Scenario({MASKED}, {SMALL})\n"
        f"def fails(): return Scenario(passive_replication(BROKEN, checkpoint_every=events(50)), {SMALL})\n"
    )
    answer = ask("run", f"{name}:holds", f"{name}:holds", f"{name}:fails", "--cluster", "simulated", "--json")
    assert answer.status == 3
    assert [run["exit_status"] for run in answer.document["runs"]] == [0, 0]
    assert "not this one" in answer.document["error"]["message"]


def test_of_several_runs_none_begins_when_one_cannot(ask: Ask, tmp_path: Path) -> None:
    answer = ask("run", "trace.passive-replication", "word-count.nonsense", "--cluster", "simulated")
    assert answer.status == 3
    assert "no scenario 'word-count.nonsense'" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_the_seed_is_the_history(ask: Ask) -> None:
    def digest(seed: int) -> str:
        answer = ask("run", "trace.passive-replication", "--cluster", "simulated", "--seed", seed, "--json")
        return str(answer.document["digest"])

    assert digest(1) == digest(1) != digest(2)


def test_a_run_has_a_folder_of_its_own(ask: Ask, tmp_path: Path) -> None:
    for _ in range(3):
        assert ask("run", "trace.passive-replication", "--cluster", "simulated").status == 0
    assert len(list((tmp_path / "runs").iterdir())) == 3


def test_the_current_directory_can_be_imported(module: Callable[..., str]) -> None:
    """Also by the installed program, whose own folder is not the current one."""
    name = module(scenario(f"{MASKED}, {SMALL}"))
    streamproof = shutil.which("streamproof", path=str(Path(sys.executable).parent))
    assert streamproof is not None
    ended = subprocess.run(
        [streamproof, "run", f"{name}:mine", "--cluster", "simulated", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["origin"] == f"{name}:mine"


def test_the_scenario_of_the_how_to_runs(ask: Ask) -> None:
    Path("my_faults.py").write_text(example("def crash_after_a_checkpoint", FAULT_SCENARIO))
    answer = ask("run", "my_faults:crash_after_a_checkpoint", "--cluster", "simulated")
    assert answer.status == 2, "durations mean nothing in the simulator"
    assert "rollback-recovery-repeating   HOLDS" in answer.out


# The user's mistakes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nonsense", "--cluster", "simulated"], ["no scenario 'nonsense'", "streamproof list scenarios"]),
        (["run", "word-count.gap", "--cluster", "dockr"], ["no cluster 'dockr'", "embedded, simulated"]),
        (["run", "nowhere:x", "--cluster", "simulated"], ["cannot import 'nowhere'"]),
        (["run", ":", "--cluster", "simulated"], ["module:attribute"]),
        (["run", "json:loadz", "--cluster", "simulated"], ["no attribute of json 'loadz'", "loads"]),
        (["run", "json:loads", "--cluster", "simulated"], ["json:loads does not make a scenario"]),
        (["run", "json:__name__", "--cluster", "simulated"], ["gives a str"]),
        (["run", "word-count.gap", "--sed", "1"], ["No such option: --sed", "streamproof run --help"]),
        (["run", "word-count.gap", "--seed", "one"], ["--seed"]),
        (["run"], ["NAME"]),
        (["walk"], ["walk"]),
        (["list", "nonsense"], ["no list 'nonsense'", "faults, oracles, subjects, upgrades, mutants"]),
        (
            ["run", "word-count.gpa", "--cluster", "simulated"],
            ["no scenario 'word-count.gpa'; the nearest are: word-count.gap, ", "streamproof list scenarios"],
        ),
        (
            ["run", "mutant:gap-without-checkpointed-stat@word-count.gap"],
            ["no mutant", "the nearest are: gap-without-checkpointed-state, ", "streamproof list mutants"],
        ),
        (["certify", "file-snik"], ["the nearest are: file-sink, file-sink-by-listing", "streamproof list subjects"]),
        (
            ["certify", "file-sink", "--claim", "exactly-onec"],
            ["no guarantee 'exactly-onec'; the nearest are: exactly-once, ", "streamproof list oracles"],
        ),
        (["judge", "nowhere"], ["nowhere is the folder of no run"]),
    ],
)
def test_mistakes_end_in_3(ask: Ask, arguments: list[str], said: list[str], tmp_path: Path) -> None:
    answer = ask(*arguments)
    assert (answer.status, answer.out) == (3, "")
    for words in said:
        assert words in answer.err
    assert "Traceback" not in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            f'{MASKED}, {SMALL}, [crash("count-9").after(seconds(1))]',
            ["'count-9'", "split-0, count-0, count-1, node-0"],
        ),
        (f'{MASKED}, {SMALL}, [crash("count-0")]', [".at(...) or .after(...)"]),
        (f'{MASKED}, {SMALL}, [crash("count-0").at(recovery("count-0").started)]', ["earlier fault"]),
        (f'amnesia(word_count()), {SMALL}, [crash("count-0").at(checkpoint(1).durable)]', ["never passes"]),
        (f"{MASKED}, {SMALL}, [crash()]", ["needs a target"]),
        (f'{MASKED}, {SMALL}, claims=[Guarantee("twice")]', ["no guarantee 'twice'", "at-least-once"]),
        (f"{MASKED}, {SMALL}, claims=[]", ["claims nothing"]),
        (
            f'{MASKED}, {SMALL}, [__import__("dataclasses").replace(crash("count-0").after(seconds(1)), kind="melt")]',
            ["no kind of fault 'melt'", "streamproof list faults"],
        ),
        ("1 / 0", ["ZeroDivisionError", "line"]),
        ("text('nonsense')", ["no text 'nonsense'"]),
    ],
)
def test_a_wrong_scenario_ends_in_3_before_anything_starts(
    ask: Ask, module: Callable[..., str], tmp_path: Path, body: str, said: list[str]
) -> None:
    name = module(scenario(body))
    answer = ask("run", f"{name}:mine", "--cluster", "simulated")
    assert (answer.status, answer.out) == (3, "")
    for words in said:
        assert words in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("body", ["def mine(:", "raise ValueError('no')", "import sys; sys.exit(9)", "import nonsense"])
def test_a_module_that_cannot_be_imported_ends_in_3(ask: Ask, module: Callable[..., str], body: str) -> None:
    name = module(body)
    answer = ask("run", f"{name}:mine", "--cluster", "simulated")
    assert answer.status == 3
    assert f"cannot import {name!r}" in answer.err


def test_an_operator_that_raises_ends_in_3(ask: Ask, module: Callable[..., str]) -> None:
    name = module(
        """
class Bad(Operator[None]):
    def initial_state(self):
        return None
    def process(self, event, state):
        raise ValueError("I am bad")

def mine():
    edges = (Edge("source", "bad"), Edge("bad", "sink"))
    return Scenario(passive_replication(Topology("t", {"bad": Stage(Bad())}, edges)), text("zen", events=10))
"""
    )
    answer = ask("run", f"{name}:mine", "--cluster", "simulated", "--folder", "bad")
    assert (answer.status, answer.out) == (3, "")
    assert "operator of bad-0 failed on event" in answer.err
    assert "I am bad" in answer.err
    assert "Traceback" not in answer.err
    assert "I am bad" in Path("bad/logs/failure.txt").read_text()
    again = ask("judge", "bad")
    assert (again.status, again.out) == (3, "")
    assert "executed again to judge the run" in again.err


@pytest.mark.parametrize("raised", ["SystemExit(0)", "GeneratorExit(0)", "asyncio.CancelledError(0)"])
def test_an_operator_that_ends_the_process_ends_in_3_whatever_it_says(
    ask: Ask, module: Callable[..., str], raised: str
) -> None:
    name = module(
        f"""
import asyncio

class Leaves(Operator[None]):
    def initial_state(self):
        return None
    def process(self, event, state):
        raise {raised}

def mine():
    edges = (Edge("source", "left"), Edge("left", "sink"))
    return Scenario(passive_replication(Topology("t", {{"left": Stage(Leaves())}}, edges)), text("zen", events=10))
"""
    )
    answer = ask("run", f"{name}:mine", "--cluster", "simulated", "--folder", "left")
    assert (answer.status, answer.out) == (3, "")
    assert f"{raised.rpartition('.')[2].partition('(')[0]}: 0 ({Path(name + '.py').resolve()}, line" in answer.err


def test_a_folder_is_used_once(ask: Ask, finished: Path) -> None:
    before = sorted(finished.rglob("*"))
    answer = ask("run", "trace.passive-replication", "--cluster", "simulated", "--folder", finished)
    assert (answer.status, answer.out) == (3, "")
    assert "already holds a run" in answer.err
    assert sorted(finished.rglob("*")) == before


def test_without_java_it_says_how(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for option in ([], ["--cluster", "embedded"], ["--dry-run"]):
        answer = ask("run", "word-count.gap", *option)
        assert (answer.status, answer.out) == (3, "")
        assert "install one" in answer.err
        assert "--cluster simulated" in answer.err


def test_embedded_is_the_default_where_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_java", lambda: None)
    monkeypatch.setattr(machine, "find_spark", lambda: None)
    it = SimulatedCluster()
    monkeypatch.setitem(clusters.CLUSTERS, "embedded", lambda profile: it)
    assert clusters.make_cluster(None) is it


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("query.word-count", "--profile", "quick"), ["'quick'", "default, tuned"]),
        (("word-count.gap", "--profile", "default"), ["word-count is no query", "leave out --profile"]),
        (("query.word-count", "--profile", "tuned", "--cluster", "simulated"), ["no Spark in the simulator"]),
    ],
    ids=str,
)
def test_a_profile_is_one_of_two_and_for_queries(ask: Ask, arguments: tuple[str, ...], words: list[str]) -> None:
    answer = ask("run", *arguments)
    assert (answer.status, answer.out) == (3, "")
    for word in words:
        assert word in answer.err


def test_the_profile_that_is_used_is_on_record() -> None:
    registry = Registry()
    query, scheme = registry.scenario("query.word-count").scenario, registry.scenario("word-count.gap").scenario
    used = {}
    for profile in (None, "default"):
        cluster = EmbeddedCluster(USUAL if profile is None else replace(USUAL, profile=profile))
        for name, scenario in (("query", query), ("scheme", scheme)):
            described = cast(dict[str, Any], cluster.describe(scenario))
            used[profile, name] = described["profile"], described["settings"].get("spark.network.timeout")
    assert used == {
        (None, "query"): ("tuned", "6s"),
        ("default", "query"): ("default", None),
        (None, "scheme"): ("slices", "600s"),
        ("default", "scheme"): ("slices", "600s"),
    }


# --dry-run


def test_a_dry_run_starts_nothing(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr("streamproof.harness.worlds.simulated.cluster.SimulatedCluster.deploy", started)
    answer = ask("run", "word-count.crash-during-recovery", "--cluster", "simulated", "--dry-run", "--folder", "no")
    assert (answer.status, answer.err) == (0, "")
    for words in ("node-1", "after checkpoint 2 of count-0 is durable", "count-0 on node-1", "precise-recovery"):
        assert words in answer.out
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_under_which_conditions_a_claim_is_made(ask: Ask) -> None:
    out = ask("run", "word-count.active-replication", "--cluster", "simulated", "--dry-run").out
    assert "claims     precise-recovery, as long as each slice keeps one replica in sync\n" in out
    assert "needs      deterministic operators and merges, replicas apart\n" in out


@pytest.mark.parametrize("name", ["word-count.neighbours-crash", "word-count.active-replication"])
def test_the_planned_placement_is_the_real_one(name: str, ask: Ask) -> None:
    arguments = ("run", name, "--cluster", "simulated")
    plan = ask(*arguments, "--dry-run", "--json").document
    ask(*arguments, "--folder", "real")
    placed = [json.loads(line) for line in Path("real/timeline.jsonl").read_text().splitlines()]
    first: dict[str, str] = {}
    for entry in placed:
        if entry["type"] == "placed":
            first.setdefault(entry["actor"], entry["node"])
    assert {actor: node for node, actors in plan["placement"].items() for actor in actors} == first
    hits = plan["faults"][0]["hits"]
    assert [hit["node"] for hit in hits] == [first[hit["target"]] for hit in hits]


# judge


def test_judging_again_gives_the_same(ask: Ask, finished: Path) -> None:
    written = (finished / "verdicts.json").read_bytes()
    (finished / "verdicts.json").unlink()
    answer = ask("judge", finished)
    assert answer.status == 0
    assert "precise-recovery   HOLDS" in answer.out
    assert (finished / "verdicts.json").read_bytes() == written
    assert ask("judge", finished, "--json").document["digest"] == json.loads(written)["digest"]


def test_a_run_of_a_certificate_is_judged_and_stays_as_it_is(ask: Ask, finished: Path) -> None:
    run = Path("certificate", "runs", "one")
    run.parent.mkdir(parents=True)
    finished.rename(run)
    Path("certificate", "certificate.json").touch()
    (run / "verdicts.json").unlink()
    assert ask("judge", run).status == 0
    assert not (run / "verdicts.json").exists()


def test_a_run_that_was_cut_short_is_unknown(ask: Ask, finished: Path, module: Callable[..., str]) -> None:
    name = module(
        """
import pathlib
class Stops(Operator[None]):
    def initial_state(self):
        return None
    def process(self, event, state):
        if event.seq == 30 and not pathlib.Path("judging").exists():
            raise KeyboardInterrupt
        return ()

def mine():
    edges = (Edge("source", "stops"), Edge("stops", "sink"))
    topology = Topology("t", {"stops": Stage(Stops())}, edges)
    workload, claims = text("zen", events=50, batch=5), [exactly_once(), at_most_once()]
    return Scenario(passive_replication(topology), workload, [crash("stops-0").after(events(40))], claims)
"""
    )
    answer = ask("run", f"{name}:mine", "--cluster", "simulated", "--folder", "half")
    assert (answer.status, answer.out) == (130, "")
    assert "interrupted" in answer.err
    Path("judging").touch()
    frames = Path("half/records.frames")
    whole = frames.read_bytes()
    for length in (len(whole), len(whole) - 3, len(whole) // 2, 8):
        frames.write_bytes(whole[:length])
        again = ask("judge", "half", "--json")
        assert again.status == 2
        assert {verdict["status"] for verdict in again.document["verdicts"]} == {"UNKNOWN"}


def swapped(content: bytes, place: int) -> bytes:
    """Two lines have changed places."""
    lines = content.split(b"\n")
    lines[place : place + 2] = reversed(lines[place : place + 2])
    return b"\n".join(lines)


def damage(folder: Path, file: str, how: Callable[[bytes], bytes]) -> None:
    path = folder / file
    path.write_bytes(how(path.read_bytes()))


@pytest.mark.parametrize(
    ("file", "how", "said"),
    [
        ("scenario.json", lambda content: content[:50], "cannot be read"),
        ("scenario.json", lambda content: b"\xff\xfe", "cannot be read"),
        ("scenario.json", lambda content: b"[]", "version None"),
        ("scenario.json", lambda content: content.replace(b'"version": 5', b'"version": 99'), "version 99"),
        ("scenario.json", lambda content: content.replace(b'"trace"', b'"other"'), "has changed since"),
        ("scenario.json", lambda content: content.replace(b"trace.passive-replication", b"gone"), "no scenario 'gone'"),
        ("steps.parquet", lambda content: content[:-10], "was altered after it was sealed"),
        ("offered.parquet", lambda content: b"", "was altered after it was sealed"),
        ("seal.json", lambda content: b"{", "cannot be read"),
        ("timeline.jsonl", lambda content: b"{}\n" + content, "was altered after it was sealed"),
        ("timeline.jsonl", lambda content: b"\n".join(content.split(b"\n")[1:]), "was altered after it was sealed"),
        ("timeline.jsonl", lambda content: swapped(content, 3), "was altered after it was sealed"),
        ("timeline.jsonl", lambda content: content.replace(b'"at":', b'"at":1', 1), "was altered after it was sealed"),
        ("timeline.jsonl", lambda content: content[: len(content) // 2], "was altered after it was sealed"),
        (
            "scenario.json",
            lambda content: content.replace(b'"minimal": false', b'"minimal": true'),
            "was altered after",
        ),
        ("scenario.json", lambda content: content.replace(b'"seed": 7', b'"seed": 8', 1), "was altered after"),
        ("scenario.json", lambda content: b"[" * 100_000, "cannot be read"),
        ("seal.json", lambda content: content.replace(b"timeline.jsonl", b"../timeline"), "is no file of a run"),
    ],
)
def test_a_damaged_folder_ends_in_3(
    ask: Ask, finished: Path, file: str, how: Callable[[bytes], bytes], said: str
) -> None:
    damage(finished, file, how)
    verdicts = (finished / "verdicts.json").read_bytes()
    answer = ask("judge", finished)
    assert (answer.status, answer.out) == (3, "")
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert (finished / "verdicts.json").read_bytes() == verdicts


@pytest.mark.parametrize("file", ["steps.parquet", "timeline.jsonl", "seal.json", "scenario.json"])
def test_a_folder_that_lacks_a_file_ends_in_3(ask: Ask, finished: Path, file: str) -> None:
    (finished / file).unlink()
    answer = ask("judge", finished)
    assert (answer.status, answer.out) == (3, "")
    assert file in answer.err


@pytest.mark.parametrize("file", ["steps.parquet", "timeline.jsonl", "seal.json", "scenario.json"])
@pytest.mark.parametrize("instead", ["a folder", "a link to itself"])
def test_a_folder_in_which_something_else_stands_for_a_file_ends_in_3(
    ask: Ask, finished: Path, file: str, instead: str
) -> None:
    (finished / file).unlink()
    if instead == "a folder":
        (finished / file).mkdir()
    else:
        (finished / file).symlink_to(file)
    answer = ask("judge", finished)
    assert (answer.status, answer.out) == (3, "")
    assert file in answer.err


def test_a_folder_that_cannot_be_written_is_judged(ask: Ask, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (finished / "verdicts.json").unlink()
    monkeypatch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert ask("judge", finished).status == 0


SLOW = """
import pathlib
import time
class Slow(Operator[None]):
    def initial_state(self):
        return None
    def process(self, event, state):
        if event.seq == 30 and not pathlib.Path("judging").exists():
            print("waiting", flush=True)
            # A signal that comes just before a sleep begins is seen only when it ends.
            for _ in range(6_000):
                time.sleep(0.01)
        return ()

def mine():
    edges = (Edge("source", "slow"), Edge("slow", "sink"))
    return Scenario(passive_replication(Topology("t", {"slow": Stage(Slow())}, edges)), text("zen", events=50, batch=5))
"""


@pytest.fixture
def slow(module: Callable[..., str]) -> Iterator[subprocess.Popen[str]]:
    """A run that stands still in the middle, writing to `slow`."""
    arguments = program("run", f"{module(SLOW)}:mine", "--cluster", "simulated", "--folder", "slow")
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    Path("judging").touch()
    yield process
    process.kill()
    process.communicate()


def test_a_folder_in_use_is_left_alone(ask: Ask, slow: subprocess.Popen[str]) -> None:
    answer = ask("run", "trace.passive-replication", "--cluster", "simulated", "--folder", "slow")
    assert (answer.status, answer.out) == (3, "")
    assert "another run is writing" in answer.err
    assert not Path("slow/logs/failure.txt").exists()


def test_a_folder_in_use_can_be_judged(ask: Ask, slow: subprocess.Popen[str]) -> None:
    assert ask("judge", "slow").status == 2
    assert not Path("slow/verdicts.json").exists()
    slow.kill()
    slow.wait()
    assert ask("judge", "slow").status == 2
    assert Path("slow/verdicts.json").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_says_so(ask: Ask, slow: subprocess.Popen[str], number: signal.Signals, status: int) -> None:
    slow.send_signal(number)
    _, err = slow.communicate(timeout=30)
    assert slow.returncode == status
    assert "Traceback" not in err
    assert ("streamproof report slow" in err) == (number is signal.SIGINT)
    assert ask("judge", "slow").status == 2


# Failures that are not the user's


@pytest.mark.parametrize("size", [3_000, 60_000])
def test_a_full_disk_ends_in_4_and_leaves_no_half_that_looks_whole(size: int) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    ended = subprocess.run(
        program("run", "word-count.gap", "--cluster", "simulated", "--folder", "full"),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "cannot write full/records.frames" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not Path("full/seal.json").exists()
    assert not Path("full/verdicts.json").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("run", "word-count.gap", "--cluster", "simulated", "--folder"),
        ("explore", "word-count.gap", "--seconds", "1", "--corpus"),
    ],
    ids=["run", "corpus"],
)
def test_a_folder_that_cannot_be_where_it_is_to_be_is_the_users_mistake(
    command: tuple[str, ...], ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Path("file").write_text("")
    answer = ask(*command, "file/run")
    assert (answer.status, answer.out) == (3, "")
    assert "file/run: Not a directory; name another folder" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_mistake_of_ours_ends_in_4(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> None:
        raise IndexError("of our own")

    monkeypatch.setattr("streamproof.harness.contracts.registry.Registry", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    answer = ask("list", "--json")
    assert answer.status == 4
    assert "mistake in streamproof: IndexError: of our own" in answer.err
    assert "Traceback" not in answer.err
    (kept,) = tmp_path.glob("streamproof-failure-*.txt")
    assert str(kept) in answer.err
    assert "Traceback" in kept.read_text()
    assert answer.document["error"]["exit_status"] == 4


# list, doctor, reap


def test_everything_is_listed(ask: Ask) -> None:
    answer = ask("list")
    assert answer.status == 0
    for words in ("scenarios", "word-count.gap", "schemes", "passive-replication", "crash", "exactly-once-output"):
        assert words in answer.out
    document = ask("list", "--json").document
    assert sorted(document) == ["faults", "oracles", "scenarios", "schemes"]
    assert all(entry["summary"] for entries in document.values() for entry in entries)
    for kind in ("faults", "subjects", "mutants"):
        (entries,) = ask("list", kind, "--json").document.values()
        assert all(entry["summary"] for entry in entries)


def test_a_name_that_there_is_not_is_answered_with_the_three_nearest(ask: Ask) -> None:
    said = ask("run", "no-such").err.strip()
    nearest, every = said.partition("the nearest are: ")[2].split(". All ")
    scenarios = ask("list", "scenarios", "--json").document["scenarios"]
    assert len(nearest.split(", ")) == 3
    assert set(nearest.split(", ")) < {entry["name"] for entry in scenarios}
    assert every == f"{len(scenarios)}: streamproof list scenarios"


def test_streamproof_alone_shows_its_help_and_holds_nothing_for_proved(ask: Ask) -> None:
    answer = ask()
    assert (answer.status, answer.err) == (3, "")
    assert answer.out.startswith(ask("--help").out)
    assert "To begin:\n  streamproof doctor " in answer.out


def test_what_it_shows_first_can_be_asked_for_as_it_stands(ask: Ask) -> None:
    registry = Registry()
    commands = [line.split("  ")[1].split() for line in TO_BEGIN.splitlines() if line.startswith("  streamproof")]
    assert [command[1] for command in commands] == ["doctor", "run", "explore", "certify"]
    for _, name, *rest in commands:
        known = {"run": registry.scenarios, "explore": registry.scenarios, "certify": registry.subjects}.get(name)
        assert known is None or rest[0] in known
        flags = ask(name, "--help").out
        assert all(flag in flags for flag in rest if flag.startswith("--"))


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["run", "user_of_nms:x"], "the nearest are: user_of_names"),
        (["run", "json.decodr:x"], "the nearest are: json.decoder"),
        (["run", "shlex.inner:x"], "cannot import 'shlex.inner'"),
        (
            ["judge", "runs/kpt"],
            "runs/kpt is the folder of no run, and of no certificate: there is none (the nearest are:",
        ),
        (["report", "runs/kpt"], "(the nearest are: runs/kept, runs/swept)"),
        (["replay", "countrexample.json"], "(the nearest are: counterexample.json)"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is_nearly_called_so(
    ask: Ask, tmp_path: Path, arguments: list[str], nearest: str
) -> None:
    for folder in ("kept", "swept", "other"):
        (tmp_path / "runs" / folder).mkdir(parents=True)
    (tmp_path / "user_of_names.py").touch()
    (tmp_path / "counterexample.json").touch()
    answer = ask(*arguments)
    assert answer.status == 3
    assert nearest in answer.err


def test_of_many_names_that_no_command_lists_all_are_said_and_the_nearest_first() -> None:
    many = [f"count-{number}" for number in range(40)]
    said = str(UnknownName("slice", "cout-7", many))
    assert "the nearest are: count-7, " in said
    assert "All 40: count-0, count-1, " in said
    assert said.endswith("count-29, ...")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_takes_long_says_what_it_is_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal, pipe = Terminal(), io.StringIO()
    with WorkingLine(terminal, "judging runs/one", after=0.01):
        wait_until(lambda: "judging runs/one · 0 s" in terminal.getvalue(), 30, "a line")
    assert terminal.getvalue().endswith("\r\x1b[K")
    with WorkingLine(pipe, "judging runs/one", after=0.0):
        pass
    assert pipe.getvalue() == ""


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home of what looks like a Java."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    monkeypatch.setattr(diagnosis, "find_java", lambda: machine.Java(home, 21))
    return home


def test_doctor_finds_what_embedded_spark_needs(ask: Ask, java: Path) -> None:
    answer = ask("doctor", "--json")
    assert answer.status == 0
    assert f"21, {java}" in answer.out
    assert answer.document["embedded"] is True
    assert "embedded Spark   can run" in ask("doctor").out


def test_doctor_says_how_to_archive_sparks_classes(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, java: Path, tmp_path: Path
) -> None:
    def archive() -> dict[str, Any]:
        (found,) = (one for one in ask("doctor", "--json").document["findings"] if one["what"] == "archive")
        return dict(found)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (archive()["good"], archive()["needed"]) == (False, False)
    assert archive()["add"].endswith(f"-m {BUILD_ARCHIVE}")
    path = archive_path(machine.Java(java, 21), machine.find_spark())
    path.parent.mkdir()
    path.touch()
    assert archive()["good"]
    assert str(path) in archive()["found"]


def test_doctor_says_how_to_fetch_the_agent(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (agent,) = (one for one in ask("doctor", "--json").document["findings"] if one["what"] == "agent")
    assert (agent["good"], agent["needed"], agent["add"]) == (False, False, FETCH)
    assert str(tmp_path) in agent["found"]


def test_doctor_says_what_to_install(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise MissingTool("no java")

    monkeypatch.setattr(diagnosis, "find_java", none)
    monkeypatch.setattr(diagnosis, "install_java", lambda: "get java")
    answer = ask("doctor")
    assert answer.status == 3
    assert "embedded Spark   cannot run" in answer.out
    assert "get java" in answer.out
    document = ask("doctor", "--json").document
    assert (document["embedded"], document["commands"]) == (False, ["get java"])


@pytest.mark.parametrize(
    ("offered", "command"),
    [
        ("openjdk-17-jre-headless - a\nopenjdk-21-jre-headless - b\n", "apt-get install -y openjdk-21-jre-headless"),
        ("openjdk-17-jre-headless - a\n", "apt-get install -y openjdk-17-jre-headless"),
        ("", "apt-get update"),
    ],
)
def test_the_newest_java_of_the_system_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offered: str, command: str
) -> None:
    for name, answer in (("apt-get", ""), ("apt-cache", offered)):
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '%b' '{answer}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command in diagnosis.install_java()


def left_behind(*survivors: reaping.LabelledProcess) -> list[reaping.Reaped]:
    process = reaping.LabelledProcess(reaping.ProcessId(4711, 1), 1, 1, "r1", "node-0", None, None, "pyspark.daemon")
    return [reaping.Reaped("r1", (process,), survivors)]


def test_reap_says_what_it_ended(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaping_containers, "reap_containers", list)
    monkeypatch.setattr(reaping, "reap", left_behind)
    answer = ask("reap")
    assert (answer.status, answer.out) == (0, "ended what run r1 had left: 1 processes (python-worker)\n")
    assert ask("reap", "--json").document["reaped"][0]["ended"] == [{"pid": 4711, "kind": "python-worker"}]
    monkeypatch.setattr(reaping, "reap", list)
    assert ask("reap").out == "nothing was left behind\n"


def test_reap_says_what_it_could_not_end(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaping, "reap", lambda: left_behind(*left_behind()[0].processes))
    answer = ask("reap")
    assert answer.status == 4
    assert "still there: pid 4711" in answer.out


# Output


def test_json_is_all_there_is_on_stdout(ask: Ask) -> None:
    answer = ask("run", "word-count.gap", "--cluster", "simulated", "--json")
    document = answer.document
    assert document["exit_status"] == answer.status == 0
    assert document["scenario"] == "word-count.gap"
    assert Path(document["folder"], "scenario.json").exists()
    assert [verdict["status"] for verdict in document["expected_to_break"]] == ["VIOLATED"]


@pytest.mark.parametrize("arguments", [["run", "nonsense"], ["run", "word-count.gap", "--sed"], ["judge", "nowhere"]])
def test_errors_are_json_too(ask: Ask, arguments: list[str]) -> None:
    answer = ask(*arguments, "--json")
    assert answer.status == 3
    assert answer.document["error"]["exit_status"] == 3
    assert answer.document["error"]["message"] in answer.err


def on_a_terminal(*arguments: object, **environment: str) -> str:
    """What a program writes to a terminal."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            program(*arguments),
            stdout=theirs,
            stderr=theirs,
            env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm", **environment},
        )
        os.close(theirs)
        seen = b""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and select.select([ours], [], [], 60)[0]:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # How Linux says that the other side is closed.
                break
            if not chunk:
                break
            seen += chunk
        assert process.wait(30) == 0
        return seen.decode()
    finally:
        os.close(ours)


def test_a_terminal_gets_colours_and_a_live_line() -> None:
    seen = on_a_terminal(*RUN)
    assert "starting simulator, 3 nodes" in seen
    assert "200 events offered" in seen
    assert "\x1b[1;32mHOLDS" in seen
    assert seen.rpartition("\x1b[K")[2].lstrip("\r").startswith("\x1b[1mtrace under")


def test_no_color_is_respected() -> None:
    seen = on_a_terminal(*RUN, NO_COLOR="1")
    assert "\x1b[1;32m" not in seen
    assert "32m" not in seen


def test_a_reader_that_has_had_enough_changes_nothing() -> None:
    """Neither the exit status nor, with a traceback, stderr."""
    ours, theirs = os.pipe()
    os.close(ours)
    ended = subprocess.run(program(*RUN), stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_plain_locale_is_no_obstacle() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(program(*RUN), capture_output=True, env=environment, check=False)
    assert ended.returncode == 0
    assert b"trace under passive-replication" in ended.stdout


def test_scenario_names_are_completed() -> None:
    environment = {
        **os.environ,
        "_STREAMPROOF_COMPLETE": "complete_bash",
        "COMP_WORDS": "streamproof run word-count.g",
        "COMP_CWORD": "2",
    }
    ended = subprocess.run(program(), capture_output=True, text=True, env=environment, check=False)
    assert ended.stdout.split() == ["word-count.gap"]


def test_version_and_help(ask: Ask) -> None:
    assert ask("--version").out.startswith("streamproof 0.")
    answer = ask("run", "--help")
    assert (answer.status, answer.err) == (0, "")
    assert "--dry-run" in answer.out


def test_starting_up_imports_neither_spark_nor_arrow() -> None:
    script = (
        "import sys; from streamproof.harness.command_line.cli import run_command_line; run_command_line(['list']); "
        "sys.exit(bool({'pyspark', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


def test_a_run_that_is_made_and_judged_imports_no_pandas() -> None:
    """Which takes a third of a second, and is nothing that a run of a scheme needs."""
    script = (
        "import sys; from streamproof.harness.command_line.cli import run_command_line\n"
        f"for asked in ({[*RUN, '--folder', 'here']}, ['judge', 'here']): run_command_line(asked)\n"
        "sys.exit('pandas' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("shell", "asked", "given"),
    [
        ("bash", {"COMP_WORDS": "streamproof rep", "COMP_CWORD": "1"}, "report"),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "streamproof rep"}, '"report"'),
        ("fish", {"_TYPER_COMPLETE_ARGS": "streamproof rep", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "report"),
    ],
)
def test_a_shell_that_asks_for_completions_is_given_them_and_no_complaint(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, shell: str, asked: dict[str, str], given: str
) -> None:
    monkeypatch.setenv("_STREAMPROOF_COMPLETE", f"complete_{shell}")
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    answer = ask()
    assert given in answer.out
    assert (answer.status, answer.err) == (0, "")


def test_the_script_for_completion_is_printed_and_no_complaint(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is that of the shell from which the command was started, and these tests may have been started from none.
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    answer = ask("--show-completion")
    assert "_STREAMPROOF_COMPLETE" in answer.out
    assert (answer.status, answer.err) == (0, "")
