"""Queries in local sessions announce their crash points, each once and in order, and can be held and killed there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
import pytest

from process_ends import has_ended
from streamproof.harness.core.addresses import Point, Side
from streamproof.harness.core.errors import MissingTool, Unsupported
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.core.wire import Endpoint
from streamproof.harness.crash_points.inside_python.user_points import points_environment
from streamproof.harness.crash_points.inside_spark.agent import VERSION as AGENT
from streamproof.harness.crash_points.inside_spark.agent import fetch_agent, find_agent
from streamproof.harness.crash_points.inside_spark.checking import check_rules
from streamproof.harness.crash_points.inside_spark.listener import HeldPoint, PointListener
from streamproof.harness.crash_points.inside_spark.rules import script
from streamproof.harness.crash_points.inside_spark.settings import agent_settings, with_options
from streamproof.harness.crash_points.inside_spark.versions import own_hook, supported
from streamproof.harness.install.machine import find_java, find_spark, inherited_import_path

pytestmark = pytest.mark.spark

SPARK_4_3 = supported("4.3.0")
PROGRAM = Path(__file__).with_name("programs") / "query_with_points.py"
BATCHES = 3


@pytest.fixture(scope="module")
def agent() -> Path:
    """Fetched on a machine that has none yet, which is the one thing here that needs a network."""
    return fetch_agent()


async def let_go(_: HeldPoint) -> None:
    """Hold nobody."""


@contextmanager
def listening(arrived: Callable[[HeldPoint], Awaitable[None]]) -> Iterator[tuple[Endpoint, Callable[[], None]]]:
    """A listener in a loop of its own; gives its place, and what closes it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    points = PointListener(("127.0.0.1", 0), "secret", arrived)

    def close() -> None:
        asyncio.run_coroutine_threadsafe(points.close(), loop).result(30)

    try:
        yield asyncio.run_coroutine_threadsafe(points.start(), loop).result(30), close
    finally:
        close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


@dataclass
class Run:
    """One execution of the program."""

    folder: Path
    process: subprocess.Popen[str] = field(init=False)

    def start(self, kind: str, place: Endpoint, agent: Path) -> None:
        (self.folder / "in").mkdir(parents=True, exist_ok=True)
        for batch in range(BATCHES):
            file = self.folder / "in" / f"{batch}.parquet"
            pd.DataFrame({"key": [0, 1, 2, 3], "n": [batch] * 4}).to_parquet(file)
            os.utime(file, (1_700_000_000 + batch,) * 2)
        rules = self.folder / "rules.btm"
        rules.write_text(script(SPARK_4_3, place, "secret", "driver", 1))
        # A driver that is killed does not clear away its temporary files.
        options = f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={self.folder}"
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            **with_options({"spark.driver.extraJavaOptions": options}, agent_settings(agent, rules)),
        }
        environment = {
            **os.environ,
            **points_environment(place, "secret", "driver", 1),
            "PYTHONPATH": inherited_import_path(),
        }
        command = [sys.executable, str(PROGRAM), kind, str(self.folder), json.dumps(settings)]
        log = (self.folder / "log").open("w")
        self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True)
        log.close()

    def end(self) -> None:
        try:
            status = self.process.wait(180)
        finally:
            self.process.kill()
        log = (self.folder / "log").read_text()
        assert status == 0, log[-3000:]
        assert log.endswith("done\n")
        # Byteman says so when a rule cannot be used.
        assert "Exception" not in log, log[-3000:]

    def logged(self, log: str) -> list[str]:
        """The batches in one of the checkpoint's logs."""
        return sorted(file.name for file in (self.folder / "checkpoint" / log).glob("[0-9]*"))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, agent: Path) -> Callable[[str], list[HeldPoint]]:
    """What a query of a kind announces, in order; each kind runs once."""
    known: dict[str, list[HeldPoint]] = {}

    def of(kind: str) -> list[HeldPoint]:
        if kind not in known:
            arrived: list[HeldPoint] = []

            async def arrive(held: HeldPoint) -> None:
                arrived.append(held)

            run = Run(tmp_path_factory.mktemp(kind))
            with listening(arrive) as (place, _):
                run.start(kind, place, agent)
                run.end()
            known[kind] = arrived
        return known[kind]

    return of


def nested(arrived: list[HeldPoint]) -> list[str]:
    """The points as brackets: what comes between both sides of one is indented."""
    lines: list[str] = []
    opened: list[tuple[Point, str]] = []
    for held in arrived:
        place = (held.point, held.key)
        if held.side is Side.BEFORE:
            lines.append(f"{'  ' * len(opened)}{held.point} {held.key}")
            opened.append(place)
        elif held.point is Point.USER:
            lines.append(f"{'  ' * len(opened)}{held.point} {held.key}")
        else:
            assert opened.pop() == place
    assert opened == []
    return lines


def of_batch(arrived: list[HeldPoint], batch: int) -> list[str]:
    """What lies between the commit logs of two batches, with the number of the stage left out."""
    commits = [at for at, held in enumerate(arrived) if held.point is Point.COMMIT_LOG and held.side is Side.AFTER]
    assert len(commits) == BATCHES
    first = commits[batch - 1] + 1 if batch else 0
    between = arrived[first : commits[batch] + 1]
    stages: list[str] = []
    for at, held in enumerate(between):
        if held.point is Point.TASK_END:
            number, stage, partition = held.key.split("/")
            stages += [stage] if stage not in stages else []
            between[at] = replace(held, key=f"{number}/{'abc'[stages.index(stage)]}/{partition}")
    return nested(between)


BEGIN = """\
source-log 1
  rename ?/sources/0/1
offset-log 1
  rename 1/offsets/1
cleanup 1
add-batch 1"""

END = """
commit-log 1
  rename 1/commits/1"""

STEADY = {
    "append": """
  writer-commit 1/0
    task-commit 1/0
  task-end 1/a/0
  job-commit 1
  user 1/appended""",
    "files": """
  writer-commit 1/0
    task-commit 1/0
  task-end 1/a/0
  job-commit 1
    sink-log 1
      rename 1/_spark_metadata/1""",
    "count": """
  task-end 1/a/0
  state-commit 1/0/0/default
    rename 1/state/0/0/2.delta
  task-end 1/b/0
  state-commit 1/1/0/default
    rename 1/state/0/1/2.delta
  task-end 1/b/1""",
}


IN_EVERY_RUN = "count"


KINDS = [pytest.param(kind, marks=[] if kind == IN_EVERY_RUN else [pytest.mark.long]) for kind in STEADY]


@pytest.mark.parametrize("kind", KINDS)
def test_a_steady_batch_announces_its_points_in_order(kind: str, seen: Callable[[str], list[HeldPoint]]) -> None:
    assert of_batch(seen(kind), 1) == (BEGIN + STEADY[kind] + END).splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_batch_announces_what_starts_a_checkpoint_too(
    kind: str, seen: Callable[[str], list[HeldPoint]]
) -> None:
    first, steady = of_batch(seen(kind), 0), of_batch(seen(kind), 1)
    assert first[0] == "rename ?/metadata"
    assert sum("/state/0/_metadata/metadata" in line for line in first) == (kind == "count")
    assert len([line for line in first if "metadata" not in line.replace("_spark_metadata", "")]) == len(steady)


@pytest.mark.parametrize("kind", KINDS)
def test_each_point_of_each_batch_is_announced_once(kind: str, seen: Callable[[str], list[HeldPoint]]) -> None:
    counts = Counter((held.side, held.point, held.key) for held in seen(kind) if held.point is not Point.USER)
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("kind", KINDS)
def test_who_announces_is_said(kind: str, seen: Callable[[str], list[HeldPoint]]) -> None:
    inside = [held for held in seen(kind) if held.point is not Point.USER]
    assert {(held.node, held.incarnation) for held in inside} == {("driver", 1)}
    (pid,) = {held.pid for held in inside}
    assert pid != os.getpid()


@pytest.mark.long
def test_the_users_python_workers_announce_with_the_batch(seen: Callable[[str], list[HeldPoint]]) -> None:
    arrived = [held for held in seen("pandas") if held.point is Point.USER]
    assert Counter(held.key for held in arrived) == {f"{batch}/counted": 4 for batch in range(BATCHES)}
    jvm = {held.pid for held in seen("pandas") if held.point is not Point.USER}
    assert jvm.isdisjoint({held.pid for held in arrived})
    assert Counter(held.key for held in seen("pandas") if held.point is Point.STATE_COMMIT) == {
        f"{batch}/{partition}/0/default": 2 for batch in range(BATCHES) for partition in range(2)
    }


@pytest.mark.parametrize(
    ("side", "point", "offsets", "commits"),
    [
        (Side.BEFORE, Point.OFFSET_LOG, ["0"], ["0"]),
        pytest.param(Side.AFTER, Point.COMMIT_LOG, ["0", "1"], ["0", "1"], marks=pytest.mark.long),
    ],
)
def test_a_driver_that_is_killed_at_a_point_dies_there(
    side: Side, point: Point, offsets: list[str], commits: list[str], tmp_path: Path, agent: Path
) -> None:
    run = Run(tmp_path)
    arrived: list[HeldPoint] = []

    async def arrive(held: HeldPoint) -> None:
        arrived.append(held)
        if (held.side, held.point, held.key) == (side, point, "1"):
            os.kill(held.pid, signal.SIGKILL)
            await asyncio.to_thread(wait_until, lambda: has_ended(held.pid), 30, f"the end of {held.pid}")

    with listening(arrive) as (place, _):
        run.start("append", place, agent)
        try:
            assert run.process.wait(180) != 0
        finally:
            run.process.kill()
    assert (arrived[-1].side, arrived[-1].point, arrived[-1].key) == (side, point, "1")
    assert (run.logged("offsets"), run.logged("commits")) == (offsets, commits)


@pytest.mark.long
def test_a_query_runs_on_when_the_listener_goes_away(tmp_path: Path, agent: Path) -> None:
    run = Run(tmp_path)
    reached = threading.Event()

    async def arrive(held: HeldPoint) -> None:
        if (held.point, held.key, held.side) == (Point.ADD_BATCH, "1", Side.AFTER):
            reached.set()
            await asyncio.Event().wait()

    with listening(arrive) as (place, close):
        run.start("append", place, agent)
        assert reached.wait(180)
        close()
        run.end()
    assert run.logged("commits") == ["0", "1", "2"]


@pytest.mark.long
def test_a_query_runs_when_nobody_listens(tmp_path: Path, agent: Path) -> None:
    run = Run(tmp_path)
    with listening(let_go) as (place, close):
        close()
        run.start("append", place, agent)
        run.end()
    assert run.logged("commits") == ["0", "1", "2"]


def test_the_rules_fit_this_spark_and_that_is_remembered(
    tmp_path: Path, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    check_rules(SPARK_4_3, agent, environment=env)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("asked again"))
    check_rules(SPARK_4_3, agent, environment=env)


WRONG: Mapping[Point, dict[str, str]] = {
    Point.CLEANUP: {"method": "cleanUpTheLastMicroBatch"},
    Point.TASK_END: {"place": "CLASS org.apache.spark.TaskContextImplementation"},
    Point.STREAM_COMMIT: {"place": "INTERFACE ^org.apache.spark.sql.connector.write.Streaming"},
    Point.RENAME: {"before": "AT INVOKE renameTemporaryFile"},
    Point.STATE_COMMIT: {"key": "id.shop()"},
    Point.OFFSET_LOG: {"condition": "$0 instanceof org.apache.spark.OffsetSeqLog"},
}
"""Each in a way of its own. A check of the rules takes a JVM, and says of each rule what it finds of that."""


def test_rules_that_match_nothing_in_this_spark_are_found_and_no_others(tmp_path: Path, agent: Path) -> None:
    hooks = tuple(replace(hook, **WRONG.get(hook.point, {})) for hook in SPARK_4_3.hooks)
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(Unsupported) as refused:
        check_rules(replace(SPARK_4_3, hooks=hooks), agent, environment=env)
    named = re.search(r"Spark 4\.3: (.+?)\. ", str(refused.value))
    assert named is not None
    found = named[1].split(", ")
    assert {f"{point} before" for point in WRONG} <= set(found)
    assert {rule.rpartition(" ")[0] for rule in found} == set(WRONG)
    assert not list(tmp_path.rglob("*.checked"))


def test_the_users_own_method_that_does_not_exist_is_found(tmp_path: Path, agent: Path) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    own = [own_hook("stop", "org.apache.spark.SparkContext.stop"), own_hook("x", "org.apache.spark.Missing.stop")]
    with pytest.raises(Unsupported, match="user 1 before"):
        check_rules(SPARK_4_3, agent, own, environment=env)


@pytest.mark.long
def test_the_agent_comes_through_spark_from_the_repository_that_the_user_names(tmp_path: Path) -> None:
    """And is not kept when it is not what it should be."""
    folder = tmp_path / "repository" / "org" / "jboss" / "byteman" / "byteman" / AGENT
    folder.mkdir(parents=True)
    (folder / f"byteman-{AGENT}.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.jboss.byteman</groupId>"
        f"<artifactId>byteman</artifactId><version>{AGENT}</version></project>"
    )
    (folder / f"byteman-{AGENT}.jar").write_bytes(b"not a jar")
    env = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "DEFAULT_ARTIFACT_REPOSITORY": (tmp_path / "repository").as_uri(),
        # Where a user's own Maven may have the right one.
        "SPARK_SUBMIT_OPTS": f"-Duser.home={tmp_path}",
    }
    with pytest.raises(MissingTool, match="a repository gave a jar"):
        fetch_agent(env)
    with pytest.raises(MissingTool, match="is not there"):
        find_agent(env)


NESTED = """\
public class Nested {
    public static class Plain { public void finish() {} }
    public static class Wider extends Plain { public void finish() { super.finish(); super.finish(); } }
    public static class Failing extends Plain {
        public void finish() { super.finish(); throw new IllegalStateException(); }
    }
    public static void main(String[] args) {
        org.apache.spark.SparkEnv.set(null);
        new Wider().finish();
        try { new Failing().finish(); } catch (IllegalStateException expected) { }
        new Plain().finish();
    }
}
"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a Java compiler")
def test_of_methods_that_call_one_another_the_outermost_counts(tmp_path: Path, agent: Path) -> None:
    arrived: list[HeldPoint] = []

    async def arrive(held: HeldPoint) -> None:
        arrived.append(held)

    (tmp_path / "Nested.java").write_text(NESTED)
    classpath = f"{tmp_path}{os.pathsep}{find_spark().classpath}"
    subprocess.run(["javac", "-cp", classpath, "Nested.java"], cwd=tmp_path, check=True)
    with listening(arrive) as (place, _):
        rules = tmp_path / "rules.btm"
        rules.write_text(script(SPARK_4_3, place, "secret", "x", 1, [], [own_hook("finished", "Nested$Plain.finish")]))
        java = str(find_java().executable)
        subprocess.run([java, f"-javaagent:{agent}=script:{rules}", "-cp", classpath, "Nested"], check=True)
    assert [held.side for held in arrived] == [Side.BEFORE, Side.AFTER, Side.BEFORE, Side.BEFORE, Side.AFTER]
    assert {held.key for held in arrived} == {"?/finished"}
