"""A query certified by a test, on embedded Spark, from the fixture to the certificate."""

import os
import pwd
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from streamproof.harness.certifying.certificate import altered_files, read_certificate
from streamproof.harness.certifying.plan import How, Victim
from streamproof.harness.worlds.embedded.reaping import labelled_processes

pytest_plugins = ("pytester",)
pytestmark = pytest.mark.spark

TEST = """
from streamproof import Query, every_crash_point, exactly_once

def shout(lines):
    return lines.selectExpr("seq", "upper(value) AS word")

def test_shouting(streamproof):
    crashes = every_crash_point("driver", recovering=False, split_brain=False)
    certified = streamproof.certify(Query(shout, batch_events=20), [exactly_once()], crashes, allow_unknown=True)
    assert certified.folder.exists()
"""


@pytest.mark.long
def test_a_query_of_a_test_is_certified_as_far_as_the_budget_goes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is cached for the user is not made anew.
    monkeypatch.setenv("HOME", pwd.getpwuid(os.getuid()).pw_dir)
    pytester.makepyfile(test_mine=TEST)
    named = () if "streamproof" in entry_points(group="pytest11").names else ("-p", "streamproof.pytest_plugin")
    ended = pytester.run(
        *(sys.executable, "-m", "pytest", *named, "--streamproof-budget=2m, 3 runs, 0 kills"),
        "--streamproof-seed=3",
    )
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(["*= streamproof =*", "test_mine.py::test_shouting", "  shout: exactly-once *"])

    (folder,) = (pytester.path / "certificates").glob("*-shout-*")
    certificate = read_certificate(folder)
    assert list(altered_files(folder, certificate)) == []
    assert (certificate.subject["name"], certificate.seed, certificate.budget["runs"]) == ("shout", 3, 3)
    assert {trial.how for trial in certificate.trials} == {How.CRASH_STATE}
    assert {line.crash.victim for line in certificate.plan} == {Victim.DRIVER}
    assert not any(verdict.violated for verdict in certificate.verdicts)
    assert sum(bool(line.passed) for line in certificate.coverage) >= 1
    runs = {Path(trial.folder).name for trial in certificate.trials}
    assert [process for run in (certificate.name, *runs) for process in labelled_processes(run)] == []
