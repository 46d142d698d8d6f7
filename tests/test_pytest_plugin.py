"""The plugin in pytest sessions of their own, with a campaign that crashes nothing."""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from importlib.metadata import entry_points
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import campaigns  # noqa: F401 - so that sessions that are forked have it
from readme import CERTIFY, CI, SUITE, example

pytest_plugins = ("pytester",)

SECONDS = 120
FORK = multiprocessing.get_context("fork")
TESTS = Path(__file__).resolve().parent
INSTALLED = "streamproof" in entry_points(group="pytest11").names
"""Else this environment was made before the plugin was, and sessions have to name it."""
NAMED = () if INSTALLED else ("-p", "streamproof.pytest_plugin")

CONFTEST = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
import campaigns
from streamproof.harness.certifying import campaign
from streamproof.harness.command_line import clusters
from streamproof.harness.install import machine

campaign.certify = campaigns.certify
clusters.reap_all = list
machine.find_java = machine.find_spark = lambda: Path("there")
"""
OPERATORS = """
from streamproof import Query, exactly_once, at_least_once, every_crash_point

def holds(lines): return lines
def breaks(lines): return lines
def unclear(lines): return lines
def mistaken(lines): return lines
"""


@pytest.fixture(autouse=True)
def sessions(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(operators=OPERATORS)


def session(pytester: pytest.Pytester, test: str, *arguments: object) -> pytest.RunResult:
    """A session on a file with these tests, in a process of its own: forked from this one, which has imported most."""
    hear, say = multiprocessing.Pipe(duplex=False)
    process = FORK.Process(target=_run, args=(pytester, _written(pytester, test, *arguments), say))
    process.start()
    say.close()
    with hear:
        if not hear.poll(SECONDS):
            process.kill()
            pytest.fail(f"the session has said nothing for {SECONDS} s")
        status, out, wrong, seconds = hear.recv()
    process.join()
    return pytest.RunResult(status, out, wrong, seconds)


def fresh_session(pytester: pytest.Pytester, test: str, *arguments: object) -> pytest.RunResult:
    """As `session`, in a process that has imported nothing."""
    return pytester.runpytest_subprocess(*_written(pytester, test, *arguments))


def _written(pytester: pytest.Pytester, test: str, *arguments: object) -> Sequence[str]:
    pytester.makepyfile(test_mine="from operators import *\n\n" + test)
    return (*NAMED, "--import-mode=prepend", *map(str, arguments))


def _run(pytester: pytest.Pytester, arguments: Sequence[str], say: Connection) -> None:
    ended = pytester.runpytest_inprocess(*arguments)
    say.send((ended.ret, ended.outlines, ended.errlines, ended.duration))


def certifying(*queries: str, more: str = "") -> str:
    return "\n".join(
        f"def test_{query}(streamproof):\n    streamproof.certify(Query({query}), claims=[exactly_once()]{more})\n"
        for query in queries
    )


def called(pytester: pytest.Pytester, root: str = "certificates") -> dict[str, Any]:
    """What the one campaign was called with."""
    (file,) = (pytester.path / root).glob("*/called.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


# What comes of it


def test_what_holds_passes(pytester: pytest.Pytester) -> None:
    ended = session(pytester, certifying("holds"))
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(
        [
            "*= streamproof =*",
            "test_mine.py::test_holds",
            "  holds: exactly-once HOLDS",
            "    covered      8 of 8 planned crashes came to a verdict: *",
            "    certificate  */certificates/*-holds-*",
            "    page         */certificates/*-holds-*/certificate.html",
        ]
    )
    ended.stdout.no_fnmatch_line("    violation *")
    asked = called(pytester)
    assert (asked["cluster"], asked["seed"]) == ("embedded", 7)
    assert asked["budget"] == {"runs": None, "minutes": 10.0, "kills": 10, "goes_on": False}
    assert (asked["faults"]["recovering"], asked["faults"]["split_brain"]) == (True, True)


def test_a_violation_shows_the_schedule_and_how_to_replay_it_and_no_traceback(pytester: pytest.Pytester) -> None:
    ended = session(pytester, certifying("breaks"))
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(
        [
            "*_ test_breaks _*",
            "breaks: exactly-once VIOLATED",
            "*exactly-once   VIOLATED   the driver dies after*",
            "  how exactly-once is violated: 3 of 3 repeats showed it, with 1 crash and 30 events, shrunk from 2 *",
            "    2  The driver dies after the driver gives batch 2 to the sink",
            '*What is wrong then, an input that counts twice (duplicate-effect): row {"word": "the"} is there twice',
            "*replay it: streamproof replay certificates/counterexample.json",
            "*judge it again: streamproof judge */certificates/*",
            "*= streamproof =*",
            "  breaks: exactly-once VIOLATED",
            "    page         */certificate.html",
            "    violation    *",
        ]
    )
    for of_ours in ("Traceback", "pytest_plugin.py", "campaigns.py", "Failed: "):
        assert of_ours not in ended.stdout.str().partition("short test summary")[0]


def test_what_is_not_known_fails_and_says_why(pytester: pytest.Pytester) -> None:
    ended = session(pytester, certifying("unclear"))
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(
        ["*4 of 8 planned crashes were not tried: 5 minutes were over", "*allow_unknown=True lets the test pass*"]
    )


def test_what_is_not_known_passes_where_the_test_says_so(pytester: pytest.Pytester) -> None:
    ended = session(pytester, certifying("unclear", more=", allow_unknown=True"))
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(["  unclear: exactly-once UNKNOWN"])


def test_what_is_violated_never_passes(pytester: pytest.Pytester) -> None:
    session(pytester, certifying("breaks", more=", allow_unknown=True")).assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("certify(Query(mistaken), [exactly_once()])", "streamproof: the query 'mistaken' fails by itself: *"),
        ("certify(Query(holds))", "streamproof: holds claims nothing: *"),
        ("certify(Query(holds), [exactly_once()], allow_unknown='no')", "streamproof: allow_unknown cannot be 'no'; *"),
        ("certify(7, [exactly_once()])", "streamproof: 7 is a int; what can be certified is a Query*"),
        ("certify(lambda: 7, [exactly_once()])", "streamproof: *returns a int*"),
    ],
)
def test_a_mistake_is_said_without_a_traceback(pytester: pytest.Pytester, call: str, said: str) -> None:
    ended = session(pytester, f"def test_it(streamproof):\n    streamproof.{call}\n")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines([said])
    assert "Traceback" not in ended.stdout.str()
    assert "= streamproof =" not in ended.stdout.str()
    assert not list((pytester.path / "certificates").glob("*/*"))


def test_a_mistake_of_ours_keeps_its_traceback(pytester: pytest.Pytester) -> None:
    test = (
        "from streamproof.harness.certifying import campaign\n"
        "def test_it(streamproof, monkeypatch):\n"
        "    monkeypatch.setattr(campaign, 'certify', lambda *_, **__: 1 / 0)\n"
        "    streamproof.certify(holds, [exactly_once()])\n"
    )
    ended = session(pytester, test)
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["E*ZeroDivisionError*"])


def test_what_was_saved_is_a_test_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        CONFTEST + "from streamproof.harness.certifying import replaying\n"
        "replaying.replay_saved = campaigns.replay_saved\n"
    )
    test = (
        "from pathlib import Path\n"
        "import campaigns\n"
        "from streamproof import words\n"
        "from streamproof.harness.certifying.saved import write_saved\n"
        "for function in (holds, breaks, unclear):\n"
        "    write_saved(Path(function.__name__ + '.json'), campaigns.saved(Query(function), words()))\n"
        "def test_holds(streamproof):\n"
        "    streamproof.survives('holds.json', holds)\n"
        "def test_breaks(streamproof):\n"
        "    streamproof.survives('breaks.json', Query(breaks))\n"
        "def test_unclear(streamproof):\n"
        "    streamproof.survives('unclear.json', unclear)\n"
        "def test_other(streamproof):\n"
        "    streamproof.survives('breaks.json', holds)\n"
        "def test_nothing(streamproof):\n"
        "    streamproof.survives('nothing.json', holds)\n"
    )
    ended = session(pytester, test)
    ended.assert_outcomes(passed=1, failed=4)
    ended.stdout.fnmatch_lines(
        [
            "breaks.json is not survived",
            "*exactly-once-output   VIOLATED*",
            "unclear.json came to no verdict",
            "streamproof: the query has changed since: its name was 'breaks', and is 'holds' now*",
            "streamproof: nothing.json cannot be read: *",
            "test_mine.py::test_breaks",
            "    replayed *replay*/report.html",
        ]
    )
    assert "Traceback" not in ended.stdout.str()


# What is asked for


def test_a_function_and_what_makes_a_query_can_be_certified(pytester: pytest.Pytester) -> None:
    test = (
        "from streamproof import Claim\n"
        "def test_function(streamproof):\n"
        "    streamproof.certify(holds, [exactly_once()])\n"
        "def test_maker(streamproof):\n"
        "    streamproof.certify(lambda: Query(holds, claims=[Claim(at_least_once())]))\n"
    )
    ended = session(pytester, test)
    ended.assert_outcomes(passed=2)
    ended.stdout.fnmatch_lines(["  holds: exactly-once HOLDS", "  holds: at-least-once HOLDS"])


def test_the_command_line_outranks_the_test_which_outranks_the_configuration(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nstreamproof_cluster = docker\nstreamproof_budget = 9 runs\nstreamproof_seed = 3\n"
        "streamproof_folder = kept\n"
    )
    pytester.makeconftest(
        CONFTEST + "\nclusters.CLUSTERS['docker'] = lambda profile: clusters.CLUSTERS['embedded'](profile)\n"
    )
    plain = certifying("holds")
    session(pytester, plain).assert_outcomes(passed=1)
    assert called(pytester, "kept")["budget"] == {"runs": 9, "minutes": 10.0, "kills": 10, "goes_on": False}
    assert called(pytester, "kept")["seed"] == 3

    own = "from streamproof import Budget\n" + certifying("holds", more=", budget=Budget(8)")
    session(pytester, own, "--streamproof-folder=second").assert_outcomes(passed=1)
    assert called(pytester, "second")["budget"]["runs"] == 8

    flags = ("--streamproof-folder=third", "--streamproof-budget=90s, 7 runs, 0 kills", "--streamproof-seed=5")
    session(pytester, own, *flags, "--streamproof-cluster=embedded").assert_outcomes(passed=1)
    asked = called(pytester, "third")
    assert (asked["budget"], asked["seed"]) == ({"runs": 7, "minutes": 1.5, "kills": 0, "goes_on": False}, 5)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--streamproof-cluster=dockr", "there is no cluster 'dockr'; there are: embedded, docker"),
        ("--streamproof-seed=one", "the seed 'one' must be a whole number"),
        ("--streamproof-budget=soon", "the budget 'soon' is none: write a time (90s, 5m, 1h)"),
        ("--streamproof-budget=5m, 6m", "the budget '5m, 6m' is none"),
        ("--streamproof-budget=1.5 runs", "the budget '1.5 runs' is none"),
        ("--streamproof-budget=0 runs", "the budget '0 runs' is none"),
        ("--streamproof-budget=0m", "the budget '0m' is none"),
    ],
)
def test_a_wrong_option_is_refused(pytester: pytest.Pytester, option: str, said: str) -> None:
    (pytester.path / "conftest.py").unlink()
    with pytest.raises(pytest.UsageError, match=re.escape(said)):
        pytester.parseconfigure(*NAMED, option)


def test_a_wrong_option_ends_the_session_before_it_begins(pytester: pytest.Pytester) -> None:
    ended = session(pytester, certifying("holds"), "--streamproof-budget=soon")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    ended.stderr.fnmatch_lines(["*the budget 'soon' is none*"])
    assert not (pytester.path / "certificates").exists()


def test_all_tests_share_a_cluster_which_is_released_in_the_end(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        CONFTEST + "from contextlib import contextmanager\n"
        "from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster\n"
        "class Kept(EmbeddedCluster):\n"
        "    @contextmanager\n"
        "    def kept_warm(self, folder):\n"
        "        with open('cluster.txt', 'a') as file: file.write(f'up in {folder.name}\\n')\n"
        "        yield self\n"
        "        with open('cluster.txt', 'a') as file: file.write('down\\n')\n"
        "clusters.CLUSTERS['embedded'] = lambda profile: Kept()\n"
    )
    test = (
        certifying("holds", "breaks", "unclear")
        + "def test_other(): assert open('cluster.txt').read() == 'up in certificates\\n'\n"
    )
    session(pytester, test).assert_outcomes(passed=2, failed=2)
    assert (pytester.path / "cluster.txt").read_text() == "up in certificates\ndown\n"


def test_a_cluster_of_ones_own_is_a_fixture(pytester: pytest.Pytester) -> None:
    test = (
        "import pytest\n"
        "from streamproof.harness.worlds.simulated.cluster import SimulatedCluster\n"
        "@pytest.fixture(scope='session')\n"
        "def streamproof_cluster(): return SimulatedCluster()\n"
    )
    session(pytester, test + certifying("holds")).assert_outcomes(passed=1)
    assert called(pytester)["cluster"] == "simulated"


def test_without_java_every_test_that_certifies_says_so(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        CONFTEST + "from streamproof.harness.core.errors import MissingTool\n"
        "def find_java(): raise MissingTool('there is no Java')\n"
        "machine.find_java = find_java\n"
    )
    ended = session(pytester, certifying("holds", "breaks"))
    ended.assert_outcomes(failed=2)
    ended.stdout.fnmatch_lines(["streamproof: there is no Java.", "`streamproof doctor` shows what is missing"])
    assert "Traceback" not in ended.stdout.str()


# Reports


def properties(file: Path) -> dict[str, list[tuple[str, str]]]:
    """Test -> its properties, by JUnit's file."""
    return {
        case.attrib["name"]: [(one.attrib["name"], one.attrib["value"]) for one in case.iter("property")]
        for case in ElementTree.parse(file).iter("testcase")
    }


def check_properties(file: Path) -> None:
    found = properties(file)
    assert [name for name, _ in found["test_holds"]] == [
        "streamproof.subject",
        "streamproof.verdicts",
        "streamproof.coverage",
        "streamproof.folder",
        "streamproof.page",
    ]
    assert found["test_holds"][1][1] == "exactly-once HOLDS"
    assert found["test_breaks"][1][1] == "exactly-once VIOLATED"
    assert found["test_breaks"][2][1].startswith("8 of 8 planned crashes came to a verdict")
    assert Path(found["test_breaks"][3][1], "certificate.json").exists()
    assert found["test_breaks"][4][1] == str(Path(found["test_breaks"][3][1], "certificate.html"))


def test_junit_says_the_same(pytester: pytest.Pytester) -> None:
    session(pytester, certifying("holds", "breaks"), "--junitxml=junit.xml").assert_outcomes(passed=1, failed=1)
    check_properties(pytester.path / "junit.xml")
    (failure,) = ElementTree.parse(pytester.path / "junit.xml").iter("failure")
    assert "how exactly-once is violated" in (failure.text or "")


def test_two_processes_certify_one_after_the_other_and_one_summary_says_all(pytester: pytest.Pytester) -> None:
    """While a campaign is under way nobody else can have the lock."""
    pytester.makeconftest(
        CONFTEST + "import fcntl\n"
        "def certify(*arguments, folder, **options):\n"
        "    with open(folder.parent / '.lock') as lock:\n"
        "        try:\n"
        "            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "        except BlockingIOError:\n"
        "            return campaigns.certify(*arguments, folder=folder, **options)\n"
        "    raise AssertionError('two could certify at once')\n"
        "campaign.certify = certify\n"
    )
    names = [f"holds{number}" for number in range(6)]
    more = "".join(f"def {name}(lines): return lines\n" for name in names)
    ended = session(pytester, more + certifying("holds", "breaks", *names), "-n", 2, "--junitxml=junit.xml")
    ended.assert_outcomes(passed=7, failed=1)
    check_properties(pytester.path / "junit.xml")
    said = ended.stdout.str().partition("= streamproof =")[2]
    assert (said.count("exactly-once HOLDS"), said.count("  breaks: exactly-once VIOLATED")) == (7, 1)
    assert "= streamproof =" not in said
    assert {folder.name[-3:] for folder in (pytester.path / "certificates").glob("*-gw*")} == {"gw0", "gw1"}


RERUNS = """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    # As pytest-rerunfailures: what fails is run once more, and only that counts.
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True

certify, tried = campaign.certify, []

def better(query, *arguments, **options):
    tried.append(query)
    return certify(Query(operators.holds) if len(tried) > 1 else query, *arguments, **options)

import operators
from streamproof import Query
campaign.certify = better
"""


@pytest.mark.parametrize(("seen", "passed"), [("breaks", 0), ("unclear", 1)])
def test_to_run_a_test_again_takes_no_violation_back(seen: str, passed: int, pytester: pytest.Pytester) -> None:
    """And that nothing was known is no violation."""
    pytester.makeconftest(CONFTEST + RERUNS)
    ended = session(pytester, certifying(seen))
    ended.assert_outcomes(passed=passed, failed=1 - passed)
    assert len(list((pytester.path / "certificates").glob("*/called.json"))) == 1 + passed
    if not passed:
        ended.stdout.fnmatch_lines(
            ["breaks: exactly-once VIOLATED", "That was seen when this test ran before in this session; *"]
        )


def test_what_another_claim_was_violated_by_does_not_stay(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST + RERUNS)
    test = (
        "import pytest\nfrom streamproof import at_most_once\nruns = []\n"
        "def test_it(streamproof):\n"
        "    runs.append(1)\n"
        "    if len(runs) == 1:\n"
        "        with pytest.raises(pytest.fail.Exception): streamproof.certify(breaks, [exactly_once()])\n"
        "    else:\n"
        "        streamproof.certify(Query(breaks), [at_most_once()])\n"
        "    assert len(runs) > 1\n"
    )
    session(pytester, test).assert_outcomes(passed=1)


def test_a_test_may_certify_twice(pytester: pytest.Pytester) -> None:
    test = (
        "def test_two(streamproof):\n"
        "    streamproof.certify(holds, [exactly_once()])\n"
        "    streamproof.certify(unclear, [exactly_once()], allow_unknown=True)\n"
    )
    ended = session(pytester, test)
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(["  holds: exactly-once HOLDS", "  unclear: exactly-once UNKNOWN"])


OPERATOR = ("def count_words", CERTIFY)


@pytest.mark.parametrize(
    ("files", "also"),
    [
        ({"test_my_operator": ("def test_counts_survive", "README.md")}, ""),
        ({"my_operator": OPERATOR, "test_my_operator": ("def test_counts_survive", CERTIFY)}, ""),
        ({"my_operator": OPERATOR, "test_my_operator": ("def test_counts_survive", CI)}, ""),
        ({"my_operator": OPERATOR, "test_my_operator": ("def test_counts_survive", SUITE)}, ", recovers (60 s) HOLDS"),
    ],
    ids=["readme", "how-to", "ci", "suite"],
)
def test_the_examples_pass(files: dict[str, tuple[str, str]], also: str, pytester: pytest.Pytester) -> None:
    """With a campaign that crashes nothing; the files are as a reader has them."""
    pytester.makepyfile(**{name: example(line, page) for name, (line, page) in files.items()})
    ended = session(pytester, "")
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines([f"  count-words: exactly-once HOLDS{also}"])
    query = called(pytester)["query"]
    assert (query["mode"], query["key"]) == ("update", ["word"])


# Who does not certify anything


def test_it_does_not_disturb_a_session_that_does_not_use_it(pytester: pytest.Pytester) -> None:
    """Nor import anything of streamproof but itself."""
    pytester.makeconftest("")
    test = (
        "import sys\n"
        "def test_nothing_is_there():\n"
        "    ours = sorted(name for name in sys.modules if name.startswith('streamproof'))\n"
        "    assert ours == ['streamproof', 'streamproof.pytest_plugin']\n"
        "    assert not {'pyspark', 'msgspec', 'rich', 'pandas'} & set(sys.modules)\n"
    )
    pytester.makepyfile(operators="")
    ended = fresh_session(pytester, test, "--strict-config", "--strict-markers", "-W", "error")
    ended.assert_outcomes(passed=1)
    assert "= streamproof =" not in ended.stdout.str()
    assert not (pytester.path / "certificates").exists()


def test_it_is_found_where_streamproof_is_installed() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--trace-config", "--collect-only", "-q", os.devnull],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("streamproof.pytest_plugin" in listed.stdout) is INSTALLED
