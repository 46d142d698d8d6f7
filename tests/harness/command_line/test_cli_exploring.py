"""`explore` and `replay` on the command line."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
import pytest

from asking import Ask
from process_ends import has_ended
from small_scenario import SMALL_SCENARIO
from streamproof.harness.core.errors import StorageFailed
from streamproof.harness.core.quantities import ms
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.verdicts import Anomaly
from streamproof.harness.exploration import exploring
from streamproof.harness.exploration.counterexample import replay_counterexample
from streamproof.harness.worlds.simulated.options import LIKE_EMBEDDED

BROKEN = "mutant:passive-replication-without-source-log@trace.passive-replication"
SOUND = "trace.passive-replication"
PROGRAM = [sys.executable, "-c", "from streamproof.harness.command_line.cli import main; main()"]
INTERRUPTED_AGAIN = """
import os, signal, threading
from concurrent.futures import ProcessPoolExecutor
from streamproof.harness.command_line.cli import main

shutdown = ProcessPoolExecutor.shutdown

def interrupted_again(pool, *given, **named):
    for number in (signal.SIGINT,):
        threading.Timer(0.001, os.kill, (os.getpid(), number)).start()
    shutdown(pool, *given, **named)

ProcessPoolExecutor.shutdown = interrupted_again
main()
"""

SMALL = "user_small:mine"

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A scenario of one operator: all its pairs of crashes take a second."""
    (tmp_path / "user_small.py").write_text(SMALL_SCENARIO)
    return SMALL


def test_a_search_that_finds_nothing_ends_in_0(ask: Ask, tmp_path: Path) -> None:
    answer = ask("explore", SOUND, "--schedules", 60, "--events", 40, "--jobs", 1)
    assert (answer.status, answer.err) == (0, "")
    assert "trace under passive-replication     simulator, 3 nodes · 40 events of numbered · seed 7" in answer.out
    assert "schedules  60, in" in answer.out
    assert "0 VIOLATED" in answer.out
    assert "with 95 % confidence" in answer.out
    assert list(tmp_path.iterdir()) == []


def test_a_violation_is_shrunk_saved_and_replayed(ask: Ask, tmp_path: Path) -> None:
    answer = ask("explore", BROKEN, "--schedules", 20, "--events", 40, "--jobs", 1)
    assert answer.status == 1
    first, *_ = answer.out.splitlines()
    assert first.startswith("VIOLATED   rollback-recovery-repeating: lost-input, found at schedule")
    assert "\n  1  crash relay-0   after relay-0 " in answer.out
    assert "  with 1 event. streamproof replay counterexample.json" in answer.out
    replayed = ask("replay", "counterexample.json")
    assert replayed.status == 1
    assert "rollback-recovery-repeating   VIOLATED   lost-input" in replayed.out
    assert "the very history that was found" in replayed.out
    document = ask("replay", "counterexample.json", "--json").document
    assert (document["exact"], document["reproduced"], document["exit_status"]) == (True, True, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["counterexample.json"]


def test_what_is_to_replay_on_spark_is_searched_in_a_world_like_it(ask: Ask, tmp_path: Path) -> None:
    answer = ask("explore", BROKEN, "--schedules", 5, "--events", 40, "--jobs", 1, "--for-spark")
    assert answer.status == 1
    kept = json.loads((tmp_path / "counterexample.json").read_text())
    assert kept["world"] == msgspec.json.decode(msgspec.json.encode(asdict(LIKE_EMBEDDED)))
    for seed in (kept["seed"] + 1, kept["seed"] + 2):
        (tmp_path / "other.json").write_text(json.dumps({**kept, "seed": seed}))
        assert replay_counterexample(tmp_path / "other.json").reproduced


def test_no_counterexample_is_overwritten_unasked(ask: Ask, tmp_path: Path) -> None:
    for _ in range(2):
        ask("explore", BROKEN, "--schedules", 5, "--events", 40, "--jobs", 1)
    ask("explore", BROKEN, "--schedules", 5, "--events", 40, "--jobs", 1, "--output", "mine.json")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["counterexample-2.json", "counterexample.json", "mine.json"]


def test_json_says_the_same(ask: Ask) -> None:
    answer = ask("explore", BROKEN, "--schedules", 20, "--events", 40, "--jobs", 1, "--json")
    document = answer.document
    assert answer.status == document["exit_status"] == 1
    assert document["schedules"] == sum(document["verdicts"].values()) == 20
    (kept,) = document["counterexamples"]
    assert kept["file"] == "counterexample.json"
    assert kept["workload"]["events"] == 1
    assert document["violated"][0]["anomaly"] == "lost-input"


def test_a_scenario_of_ones_own_is_searched_on_several_cores(ask: Ask, tmp_path: Path) -> None:
    """Processes of the search find it where this one did: in the current directory."""
    (tmp_path / "user_explored.py").write_text(
        "from streamproof import *\n"
        "def mine():\n"
        "    subject = passive_replication(trace(), checkpoint_every=events(20))\n"
        "    return Scenario(subject, numbered(events=40), claims=[exactly_once_output()])\n"
    )
    answer = ask("explore", "user_explored:mine", "--schedules", 20, "--jobs", 2, "--json")
    assert (answer.status, answer.err) == (1, "")
    (kept,) = answer.document["counterexamples"]
    assert (kept["anomaly"], kept["workload"]["events"]) == ("duplicate-output", 1)
    assert ask("replay", "counterexample.json").status == 1


def test_every_pair_of_a_short_input_is_tried(ask: Ask, small: str) -> None:
    document = ask("explore", small, "--pairs", "--events", 1, "--jobs", 2, "--json").document
    assert document["exhausted"]
    assert document["schedules"] > 200
    assert document["verdicts"]["VIOLATED"] == 0
    assert document["addresses"]["struck"] == document["addresses"]["exist"]
    pairs = document["pairs"]
    assert pairs == {"tried": pairs["exist"], "exist": pairs["exist"], "exact": True}
    singles = document["addresses"]["exist"] - sum(map(len, document["alike"].values()))
    assert pairs["tried"] == document["schedules"] - singles


def test_an_exhausted_search_says_what_it_proves_and_what_it_does_not(ask: Ask, small: str) -> None:
    document = ask("explore", small, "--exhaust", "--events", 1, "--jobs", 2, "--json").document
    single, pair = document["exhausted_levels"]
    assert document["exhausted"]
    assert single["addresses"] == document["addresses"]["exist"] == document["addresses"]["struck"]
    assert single["complete"]
    assert pair["complete"]
    assert pair["tried"] == pair["exist"] == document["pairs"]["tried"]
    assert pair["tried"] == pair["holds"] + pair["harmless"]
    # So little input that no checkpoint is taken: then it proves nothing.
    assert re.fullmatch(
        r"all [\d,]+ pairs of crashes that leave different worlds behind of \d slices, \d of them operators', 1 event: "
        r"no violation, but .*no checkpoint became durable.*; [\d,]+ harmed nobody",
        pair["text"],
    )
    assert document["exit_status"] == 2
    assert any("pauses" in what for what in document["not_covered"])


def test_a_small_world_is_exhausted_and_its_claim_holds(ask: Ask, small: str) -> None:
    answer = ask("explore", small, "--exhaust", "--events", 4, "--jobs", 1, "--json")
    document = answer.document
    single, pair = document["exhausted_levels"]
    assert (answer.status, answer.err, document["exit_status"]) == (0, "", 0)
    assert (document["exhausted"], document["interrupted"], document["cut_short"]) == (True, False, None)
    assert single["text"].startswith(
        f"all {single['addresses']} crashes ({single['tried']} leave different worlds behind)"
    )
    for level in (single, pair):
        assert (level["complete"], level["violated"], level["unknown"], level["never"]) == (True, 0, 0, "")
        assert level["tried"] == level["holds"] + level["harmless"] + level["beyond"] > 0
        assert ": rollback-recovery-repeating holds" in level["text"]
    assert single["tried"] + pair["tried"] == document["schedules"]
    assert (document["counterexamples"], document["random"]["held"]) == ([], 0)
    left_out = " ".join(document["not_covered"])
    for what in ("other delays", "partitions", "several nodes", "larger inputs"):
        assert what in left_out


def test_a_mutant_is_refuted_where_everything_is_tried(ask: Ask, tmp_path: Path) -> None:
    answer = ask("explore", BROKEN, "--exhaust", "--schedules", 40, "--events", 4, "--jobs", 1, "--json")
    document = answer.document
    single, *_ = document["exhausted_levels"]
    assert answer.status == document["exit_status"] == 1
    assert single["violated"] > 0
    assert f"violated under {single['violated']}" in single["text"]
    (kept,) = document["counterexamples"]
    assert (kept["file"], kept["anomaly"]) == ("counterexample.json", "lost-input")
    assert ask("replay", "counterexample.json").status == 1


def test_a_search_that_could_not_exhaust_says_how_far_it_came(ask: Ask) -> None:
    some = ask("explore", SOUND, "--exhaust", "--schedules", 200, "--events", 4, "--jobs", 1)
    assert some.status == 2
    assert re.search(r"\n  exhausted  all [\d,]+ crashes \([\d,]+ leave different worlds behind\) of ", some.out)
    assert re.search(r"\n +\d+( of about [\d,]+)? pairs of crashes of .*: no violation so far", some.out)
    assert "\n  left out   other delays" in some.out


def test_pairs_are_counted_out_of_those_that_exist(ask: Ask, small: str) -> None:
    assert "\n  pairs      " not in ask("explore", SOUND, "--schedules", 5, "--events", 4, "--jobs", 1).out
    some = ask("explore", SOUND, "--pairs", "--schedules", 300, "--events", 4, "--jobs", 1)
    found = re.search(r"\n  pairs      (\d+) of about ([\d,]+), all that begin at (\d+) of (\d+) addresses", some.out)
    assert found is not None, some.out
    tried, exist, through, firsts = (int(number.replace(",", "")) for number in found.groups())
    assert 0 < tried < 300 < exist
    assert 0 < through < firsts
    every = ask("explore", small, "--pairs", "--events", 1, "--jobs", 1)
    assert re.search(r"\n  pairs      all [\d,]+ that leave different worlds behind\n", every.out)


def test_other_kinds_of_fault_are_drawn_when_asked_for(ask: Ask) -> None:
    answer = ask(
        "explore", SOUND, "--fault", "pause", "--fault", "loss", "--schedules", 30, "--events", 12, "--jobs", 1
    )
    assert answer.status in (0, 2)
    assert "schedules  30, in" in answer.out
    assert re.search(r"\n  bitten     loss in \d+ · pause in \d+\n", answer.out)
    wrong = ask("explore", SOUND, "--fault", "nonsense", "--jobs", 1)
    assert wrong.status == 3
    assert "there is no kind of fault 'nonsense'; the nearest are: " in wrong.err
    assert "streamproof list faults" in wrong.err


def test_the_help_says_how_a_short_and_a_long_search_are_asked_for(ask: Ask) -> None:
    told = " ".join(ask("explore", "--help").out.split())
    assert "For every pull request, a search that is the same each time: --schedules 1000." in told
    assert "For the night" in told
    assert "with --schedules, whichever is over first" in re.sub(r"[│ ]+", " ", told)


def test_whichever_budget_is_over_first_ends_the_search(ask: Ask) -> None:
    few = ask("explore", SOUND, "--schedules", 5, "--seconds", 60, "--events", 4, "--jobs", 1, "--json").document
    assert (few["schedules"], few["exhausted"]) == (5, False)
    assert few["seconds"] < 60
    short = ask("explore", SOUND, "--schedules", 10**7, "--seconds", 0.3, "--events", 4, "--jobs", 1, "--json").document
    assert 0 < short["schedules"] < 10**7


def test_the_table_of_mutants(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamproof.harness.contracts.registry import Registry

    names = ("passive-replication-without-source-log", "passive-replication-without-output-log")
    mutants = {name: Registry().mutants[name] for name in names}
    monkeypatch.setattr(Registry, "mutants", mutants)
    answer = ask("explore", "--mutants", "--events", 40)
    assert answer.status == 0
    head, *rows = answer.out.splitlines()
    assert head.split() == ["mutant", "must", "show", "found", "by", "schedules", "faults", "events", "breaks"]
    assert rows[0].split()[:3] == [names[0], "lost-input", "yes"]
    assert rows[0].split()[3] in ("single", "random")
    assert rows[-1] == "  2 mutants, 2 found"
    alive = ask("explore", "--mutants", "--events", 1, "--schedules", 1, "--jobs", 1, "--json", "--seed", 3)
    found = [mutant["found"] for mutant in alive.document["mutants"]]
    assert alive.status == (0 if all(found) else 1)


def test_mutants_that_show_only_after_a_recovery_are_found_too(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamproof.harness.contracts.registry import Registry

    names = ("gap-continuing-the-numbering", "amnesia-continuing-the-numbering")
    mutants = {name: Registry().mutants[name] for name in names}
    monkeypatch.setattr(Registry, "mutants", mutants)
    answer = ask("explore", "--mutants", "--jobs", 1, "--json")
    assert [mutant["found"] for mutant in answer.document["mutants"]] == [True, True]


def test_a_mutant_that_lives_ends_in_1(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamproof.harness.contracts.registry import Registry

    name = "gap-without-checkpointed-state"
    monkeypatch.setattr(Registry, "mutants", {name: Registry().mutants[name]})
    answer = ask("explore", "--mutants", "--events", 4, "--schedules", 10, "--jobs", 1)
    assert answer.status == 1
    assert "1 mutants, 0 found, 1 live" in answer.out


@dataclass(frozen=True)
class MadeOf:
    """A mutant of a user's."""

    made: Callable[[], object]
    kinds: tuple[str, ...] = ("crash",)
    name: str = "mine"
    breaks: str = "a rule"
    anomaly: Anomaly = Anomaly.LOST_INPUT
    on: str = SOUND
    spread: bool = False

    def make(self, topology: object, checkpoint_every: object) -> object:
        return self.made()


@pytest.mark.parametrize(
    ("mutant", "why"),
    [
        (MadeOf(lambda: {}["every"]), "mutant mine cannot be made on trace.passive-replication: KeyError: 'every'"),
        (MadeOf(lambda: None), "mutant mine gives a NoneType; it must give a SchemeSubject"),
        (MadeOf(lambda: None, kinds=("no-such",)), "there is no kind of fault of mutant mine 'no-such'"),
    ],
)
def test_a_mutant_that_cannot_be_looked_for_says_why_beside_the_others(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, mutant: MadeOf, why: str
) -> None:
    from streamproof.harness.contracts.registry import Registry

    known = "passive-replication-without-source-log"
    monkeypatch.setattr(Registry, "mutants", {"mine": mutant, known: Registry().mutants[known]})
    answer = ask("explore", "--mutants", "--events", 40, "--jobs", 1)
    assert answer.status == 2
    assert "  2 mutants, 1 found, 1 not tried" in answer.out
    assert f"  not tried  mine: {why}" in " ".join(answer.out.split("\n"))


def test_mutants_are_looked_for_under_no_scenario_of_which_no_run_can_be_judged(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would be credited with what the operator does itself."""
    from streamproof.harness.contracts.registry import Registry

    known = "passive-replication-without-source-log"
    monkeypatch.setattr(Registry, "mutants", {known: Registry().mutants[known]})
    forgetful = SMALL_SCENARIO.replace("str(state[event.key])", "str(SEEN.append(1) or len(SEEN))").replace(
        "class Count", "SEEN = []\n\nclass Count"
    )
    (tmp_path / "user_small.py").write_text(forgetful)
    answer = ask("explore", SMALL, "--mutants", "--jobs", 1, "--schedules", 10)
    assert answer.status == 3, answer.out
    assert "found" not in answer.out


def test_a_kind_of_fault_that_never_bites_is_said_and_nothing_holds(ask: Ask) -> None:
    """Under amnesia there is no checkpoint, which a slow disk could delay."""
    command = ["explore", "word-count.amnesia", "--fault", "crash", "--fault", "slow-disk", "--schedules", 60]
    answer = ask(*command, "--jobs", 1)
    assert (answer.status, answer.err) == (2, "")
    assert re.search(r"\n  bitten     crash in \d+\n", answer.out)
    assert "  untried    no slow-disk has bitten: UNKNOWN" in answer.out
    document = json.loads(ask(*command, "--jobs", 1, "--json").out)
    assert (document["exit_status"], document["unbitten"]) == (2, ["slow-disk"])
    assert list(document["bitten"]) == ["crash"]


def test_a_kind_of_fault_is_told_from_one_whose_name_begins_alike(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamproof.harness.contracts.registry import Registry

    kinds = Registry().faults
    slow = replace(kinds["slow-disk"], name="crash of a disk")
    slow = replace(slow, draw=lambda random, aims: Fault(slow.name, aims.actors[:1], amounts=(("by", ms(5)),)))
    monkeypatch.setattr(Registry, "faults", {**kinds, slow.name: slow})
    command = ["explore", "word-count.amnesia", "--fault", "crash", "--fault", slow.name, "--schedules", 60]
    answer = ask(*command, "--jobs", 1, "--json")
    assert (answer.document["exit_status"], answer.document["unbitten"]) == (2, [slow.name])
    assert list(answer.document["bitten"]) == ["crash"]


def test_what_no_file_can_hold_is_told_all_the_same(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, found: object) -> None:
        raise StorageFailed(f"cannot write {path}: No space left on device")

    monkeypatch.setattr(exploring, "save", full)
    answer = ask("explore", BROKEN, "--schedules", 20, "--jobs", 1)
    assert (answer.status, answer.err) == (1, "")
    assert "VIOLATED   rollback-recovery-repeating: lost-input" in answer.out
    said = "It is kept in no file: cannot write counterexample.json: No space left on device"
    assert said in answer.out
    assert "streamproof replay" not in answer.out
    answer = ask("explore", BROKEN, "--schedules", 20, "--jobs", 1, "--json")
    assert answer.status == 1
    (found,) = json.loads(answer.out)["counterexamples"]
    assert (found["file"], found["unkept"]) == (None, "cannot write counterexample.json: No space left on device")
    Path("explore.json").write_text(answer.out)
    assert ask("report", "explore.json").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explore"], "name a scenario, or use --mutants"),
        (["explore", "nonsense"], "there is no scenario 'nonsense'"),
        (["explore", SOUND, "--seconds", "0"], "positive number of seconds"),
        (["explore", SOUND, "--seconds", "nan"], "positive number of seconds"),
        (["explore", SOUND, "--schedules", "0"], "--schedules"),
        (["explore", SOUND, "--pairs", "--jobs", "1", "--own-sizes"], "at most 30 events, not 200"),
        (["explore", SOUND, "--output", "nowhere/it.json"], "nowhere is no folder"),
        (["explore", SOUND, "--output", "."], "a counterexample cannot be kept at .: that is a folder"),
        (["explore", "query.word-count"], "the simulator runs schemes"),
        (["explore", "--mutants", "--pairs"], "--mutants goes with none of"),
        (["explore", "--mutants", "--spark-master", "local"], "leave out --spark-master"),
        (["explore", SOUND, "--spark-master", "local", "--jobs", "2"], "goes without --jobs"),
        (["replay", "none.json"], "none.json cannot be read"),
    ],
)
def test_mistakes_end_in_3(ask: Ask, arguments: list[str], message: str) -> None:
    answer = ask(*arguments)
    assert (answer.status, answer.out) == (3, "")
    assert message in answer.err
    assert "Traceback" not in answer.err


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


@dataclass
class Searching:
    """A search on two cores, with a terminal for its live line."""

    process: subprocess.Popen[str]
    terminal: int
    seen: bytes = b""

    def read(self) -> bool:
        """Take what the terminal shows; False once nobody writes to it any more."""
        ready, _, _ = select.select([self.terminal], [], [], 0.2)
        try:
            more = os.read(self.terminal, 4096) if ready else b""
        except OSError:
            return False
        self.seen += more
        return bool(more) or self.process.poll() is None

    def until(self, shown: bytes) -> list[int]:
        """Wait for what its line shows; the processes that it has started."""
        late = time.monotonic() + 60
        while re.search(shown, self.seen) is None and self.read():
            assert time.monotonic() < late, self.seen
        return children(self.process.pid)


@pytest.fixture
def searching() -> Iterator[Callable[..., Searching]]:
    begun: list[Searching] = []

    def begin(*arguments: str, program: Sequence[str] = PROGRAM) -> Searching:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*program, "explore", *arguments, "--events", "40", "--schedules", "1000000", "--jobs", "2"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
            text=True,
        )
        os.close(theirs)
        begun.append(Searching(process, ours))
        return begun[-1]

    yield begin
    for search in begun:
        search.process.kill()
        search.process.communicate()
        os.close(search.terminal)


def gone(pids: list[int]) -> bool:
    until = time.monotonic() + 20
    while not all(map(has_ended, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return all(map(has_ended, pids))


def test_ctrl_c_prints_what_was_found_and_leaves_nobody(searching: Callable[..., Searching]) -> None:
    search = searching(BROKEN)
    workers = search.until(rb"[1-9]\d* VIOLATED")
    assert len(workers) >= 2
    # As a terminal does it: all processes of the search are told.
    for pid in (search.process.pid, *workers):
        os.kill(pid, signal.SIGINT)
    out, _ = search.process.communicate(timeout=60)
    while search.read():
        pass
    assert search.process.returncode == 1
    assert b"Traceback" not in search.seen
    assert "interrupted, in" in out
    assert "go on      what was found is kept, and the same command with --seed 7 tries the same again" in out
    assert out.startswith("VIOLATED")
    assert gone(workers)


def test_ctrl_c_before_anything_was_found_ends_as_interrupted(searching: Callable[..., Searching]) -> None:
    search = searching(SOUND)
    search.until(rb"[1-9]\d* HOLDS")
    search.process.send_signal(signal.SIGINT)
    out, _ = search.process.communicate(timeout=60)
    assert search.process.returncode == 130
    assert "interrupted, in" in out
    assert "go on      the same command with --seed 7 tries the same again" in out


def test_who_is_interrupted_again_while_processes_end_ends_all_the_same(searching: Callable[..., Searching]) -> None:
    """As `timeout -s INT` does, which signals the process, and then its group."""
    search = searching(SOUND, program=[sys.executable, "-c", INTERRUPTED_AGAIN])
    workers = search.until(rb"[1-9]\d* HOLDS")
    search.process.send_signal(signal.SIGINT)
    out, _ = search.process.communicate(timeout=60)
    assert search.process.returncode == 130
    assert "interrupted, in" in out
    assert gone(workers)


def test_a_search_that_is_terminated_leaves_nobody(searching: Callable[..., Searching]) -> None:
    search = searching(SOUND)
    workers = search.until(rb"[1-9]\d* HOLDS")
    # As `timeout` does: all of them are told.
    for pid in (search.process.pid, *workers):
        os.kill(pid, signal.SIGTERM)
    search.process.communicate(timeout=60)
    assert search.process.returncode == 128 + signal.SIGTERM
    assert gone(workers)


def test_a_search_that_is_killed_leaves_nobody(searching: Callable[..., Searching]) -> None:
    search = searching(SOUND)
    workers = search.until(rb"[1-9]\d* HOLDS")
    assert len(workers) >= 2
    search.process.kill()
    search.process.wait()
    assert gone(workers)


def test_ctrl_c_while_shrinking_keeps_the_schedule_as_it_was_found(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object, seeds: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(exploring, "shrink", interrupted)
    answer = ask("explore", BROKEN, "--schedules", 20, "--events", 40, "--jobs", 1)
    assert answer.status == 1
    assert "with 40 events. streamproof replay counterexample.json" in answer.out
    assert "the very history that was found" in ask("replay", "counterexample.json").out
