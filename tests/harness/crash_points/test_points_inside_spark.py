"""Crash points inside Spark, without Spark: the listener, the script, the versions, the agent's jar."""

import asyncio
import hashlib
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamproof.harness.core.addresses import FINE_POINTS, Point, Side
from streamproof.harness.core.errors import InvalidScenario, MissingTool, OwnFailure, Unsupported
from streamproof.harness.core.wire import Endpoint
from streamproof.harness.crash_points.inside_python import user_points
from streamproof.harness.crash_points.inside_python.user_points import POINTS, crash_point, points_environment
from streamproof.harness.crash_points.inside_spark import agent, listener
from streamproof.harness.crash_points.inside_spark.agent import agent_path, fetch_agent, find_agent
from streamproof.harness.crash_points.inside_spark.checking import unmatched
from streamproof.harness.crash_points.inside_spark.listener import HeldPoint, PointListener
from streamproof.harness.crash_points.inside_spark.rules import script
from streamproof.harness.crash_points.inside_spark.settings import agent_settings, with_options
from streamproof.harness.crash_points.inside_spark.versions import (
    STATE_OF_TASKS,
    SUPPORTED,
    SparkVersion,
    own_hook,
    supported,
)
from streamproof.harness.install.machine import Spark
from streamproof.harness.install.settings import DAEMON_MODULE, READER_MODULE
from streamproof.harness.worlds.spark.queries.points import OF_THE_SOURCE

VERSION = supported("4.3.0")
ANYWHERE = ("127.0.0.1", 0)
LINE = b"secret driver 2 4711 before offset-log 3\n"


async def answer(place: Endpoint, *lines: bytes) -> bytes:
    """All that the listener says to somebody who says these lines, one after the other, and then no more."""
    reader, writer = await asyncio.open_connection(*place)
    said = b""
    for line in lines:
        writer.write(line)
        said += await reader.read(1)
    if writer.can_write_eof():
        writer.write_eof()
    said += await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return said


def listening(
    scene: Callable[[Endpoint, PointListener], Awaitable[None]], arrived: Callable[[HeldPoint], Awaitable[None]]
) -> list[str]:
    """Play a scene with a listener; returns what the loop was told to have gone wrong."""
    wrong: list[str] = []

    async def play() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(str(context["message"])))
        points = PointListener(ANYWHERE, "secret", arrived)
        place = await points.start()
        try:
            await scene(place, points)
        finally:
            await points.close()

    asyncio.run(play())
    return wrong


class TestListener:
    def test_tells_who_waits_where_and_lets_it_go_when_that_has_been_dealt_with(self) -> None:
        arrived: list[HeldPoint] = []

        async def arrive(held: HeldPoint) -> None:
            arrived.append(held)

        async def scene(place: Endpoint, _: PointListener) -> None:
            assert await answer(place, LINE) == b"g"

        assert listening(scene, arrive) == []
        (held,) = arrived
        assert held == HeldPoint("driver", 2, 4711, held.peer, Side.BEFORE, Point.OFFSET_LOG, "3")
        assert held.peer[0] == "127.0.0.1"

    def test_holds_as_long_as_it_is_dealt_with_and_others_come_through(self) -> None:
        async def scene(place: Endpoint, _: PointListener) -> None:
            held = asyncio.create_task(answer(place, LINE))
            await asyncio.wait_for(reached.wait(), 10)
            assert await answer(place, LINE.replace(b"driver", b"other")) == b"g"
            assert not held.done()
            go.set()
            assert await held == b"g"

        async def arrive(held: HeldPoint) -> None:
            if held.node == "driver":
                reached.set()
                await go.wait()

        reached, go = asyncio.Event(), asyncio.Event()
        assert listening(scene, arrive) == []

    def test_takes_one_line_after_the_other_over_one_connection(self) -> None:
        keys: list[str] = []

        async def arrive(held: HeldPoint) -> None:
            keys.append(held.key)

        async def scene(place: Endpoint, _: PointListener) -> None:
            assert await answer(place, LINE, LINE.replace(b"3", b"4"), LINE.replace(b" 3\n", b" a b\n")) == b"ggg"

        assert listening(scene, arrive) == []
        assert keys == ["3", "4", "a b"]

    @pytest.mark.parametrize(
        "line",
        [
            LINE.replace(b"secret", b"guessed"),
            LINE.replace(b"secret", b"gu\xff\xfe"),
            LINE.replace(b"secret ", b""),
            LINE.replace(b"before", b"during"),
            LINE.replace(b"offset-log", b"offset-lag"),
            LINE.replace(b"4711", b"many"),
            LINE.replace(b" 3\n", b" \xff\n"),
            b"\n",
            b"x" * (listener.LONGEST_LINE + 1),
        ],
    )
    def test_hangs_up_on_what_is_not_as_it_should_be(self, line: bytes) -> None:
        arrived: list[HeldPoint] = []

        async def arrive(held: HeldPoint) -> None:
            arrived.append(held)

        async def scene(place: Endpoint, _: PointListener) -> None:
            assert await answer(place, line) == b""
            assert await answer(place, LINE) == b"g"

        assert listening(scene, arrive) == []
        assert len(arrived) == 1

    def test_hangs_up_on_who_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listener, "LINE_SECONDS", 0.05)

        async def arrive(held: HeldPoint) -> None:
            raise AssertionError(held)

        async def scene(place: Endpoint, _: PointListener) -> None:
            reader, writer = await asyncio.open_connection(*place)
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()

        assert listening(scene, arrive) == []

    def test_lets_go_without_an_answer_and_says_so_when_dealing_with_it_failed(self) -> None:
        async def arrive(held: HeldPoint) -> None:
            raise OwnFailure("no more disk")

        async def scene(place: Endpoint, _: PointListener) -> None:
            assert await answer(place, LINE) == b""

        (wrong,) = listening(scene, arrive)
        assert "OFFSET_LOG" in wrong

    def test_lets_all_go_when_it_is_closed(self) -> None:
        async def arrive(held: HeldPoint) -> None:
            reached.set()
            await asyncio.Event().wait()

        async def scene(place: Endpoint, points: PointListener) -> None:
            held = asyncio.create_task(answer(place, LINE))
            await asyncio.wait_for(reached.wait(), 10)
            await points.close()
            assert await asyncio.wait_for(held, 10) == b""
            with pytest.raises(ConnectionRefusedError):
                await answer(place, LINE)

        reached = asyncio.Event()
        assert listening(scene, arrive) == []

    def test_goes_on_with_a_kill_whose_victim_has_gone(self) -> None:
        async def arrive(held: HeldPoint) -> None:
            reached.set()
            await go.wait()
            done.append(held.key)

        async def scene(place: Endpoint, _: PointListener) -> None:
            _, writer = await asyncio.open_connection(*place)
            writer.write(LINE)
            await asyncio.wait_for(reached.wait(), 10)
            writer.transport.abort()
            assert await answer(place, b"\n") == b""
            go.set()
            deadline = time.monotonic() + 10
            while not done and time.monotonic() < deadline:
                await asyncio.sleep(0)

        reached, go, done = asyncio.Event(), asyncio.Event(), list[str]()
        assert listening(scene, arrive) == []
        assert done == ["3"]


@pytest.mark.parametrize(
    ("key", "in_task"),
    [
        ("1/state/0/0/2.delta", True),
        ("1/state/0/11/left-keyToNumValues/2.snapshot", True),
        ("0/state/0/0/_metadata/schema", False),
        ("0/state/0/_stateSchema/default/0", False),
        ("1/offsets/1", False),
        ("1/_spark_metadata/1", False),
    ],
)
def test_files_of_a_partition_of_the_state_are_named_by_tasks_and_all_others_by_the_driver(
    key: str, in_task: bool
) -> None:
    assert (STATE_OF_TASKS.search(key) is not None) == in_task


class TestScript:
    def test_has_both_sides_of_every_point_inside_spark(self) -> None:
        text = script(VERSION, ("10.0.0.1", 4000), "secret", "driver", 3)
        names = re.findall(r"^RULE (.+)$", text, re.MULTILINE)
        assert len(names) == len(set(names))
        for point in (hook.point for hook in VERSION.hooks):
            assert {f"{point} before", f"{point} after"} <= set(names)
        assert '"10.0.0.1", 4000, ' in text
        assert '"secret driver 3 " + ' in text
        assert text.count("\nENDRULE\n") == len(names)

    def test_knows_the_points_that_addresses_name(self) -> None:
        everywhere = {point for point in Point if list(Point).index(point) >= list(Point).index(Point.OFFSET_LOG)}
        assert {hook.point for hook in VERSION.hooks} == everywhere - FINE_POINTS

    def test_is_only_of_the_points_asked_for(self) -> None:
        text = script(VERSION, ANYWHERE, "secret", "driver", 3, points=[Point.CLEANUP])
        rules = re.findall(r"^RULE (.+)$", text, re.MULTILINE)
        beside_tasks = ["daemon of workers beside tasks", "worker of a stream's reader"]
        assert rules == ["start", *beside_tasks, "cleanup before", "cleanup after"]

    def test_turns_the_tasks_of_a_stage_around_while_there_is_a_file_of_any_name(self) -> None:
        text = script(VERSION, ANYWHERE, "secret", "driver", 3, points=[], last_first=Path("/tmp/übung/last first"))
        assert "RULE tasks in the other order\nCLASS org.apache.spark.scheduler.TaskSetManager\n" in text
        assert 'create("file:///tmp/%C3%BCbung/last%20first")' in text
        assert "other order" not in script(VERSION, ANYWHERE, "secret", "driver", 3)

    def test_counts_itself_out_of_what_raises(self) -> None:
        text = script(VERSION, ANYWHERE, "secret", "driver", 3)
        for hook in VERSION.hooks:
            assert (f"RULE {hook.point} left\n" in text) == hook.overridden

    def test_has_the_points_of_the_users_classes(self) -> None:
        own = [own_hook("after-upload", "com.acme.Upload$Part.finish"), own_hook("closed", "Session.close")]
        text = script(VERSION, ANYWHERE, "secret", "driver", 3, points=[], own=own)
        assert "RULE user 0 before\nCLASS ^com.acme.Upload$Part\nMETHOD finish\n" in text
        assert '"/closed"' in text

    @pytest.mark.parametrize("method", ["finish", "com.acme.Upload.", "com.acme.Upload.finish\nDO x", "a b.c"])
    def test_refuses_what_names_no_method(self, method: str) -> None:
        with pytest.raises(InvalidScenario, match="names no method"):
            own_hook("x", method)

    @pytest.mark.parametrize(("token", "node"), [("a b", "driver"), ("", "driver"), ("a", 'dri"ver'), ("a", "x\n")])
    def test_refuses_what_a_line_cannot_carry(self, token: str, node: str) -> None:
        with pytest.raises(InvalidScenario, match="cannot be announced"):
            script(VERSION, ANYWHERE, token, node, 1)

    def test_refuses_points_that_are_not_inside_spark(self) -> None:
        with pytest.raises(InvalidScenario, match="'sink-write' is no point inside Spark"):
            script(VERSION, ANYWHERE, "secret", "driver", 1, points=[Point.OFFSET_LOG, Point.SINK_WRITE])

    def test_that_matches_nothing_is_found_in_what_the_check_says(self) -> None:
        text = script(VERSION, ANYWHERE, "secret", "driver", 1, points=[Point.CLEANUP, Point.ADD_BATCH, Point.RENAME])
        names = re.findall(r"^RULE (.+)$", text, re.MULTILINE)
        good = "".join(f'Parsed rule "{name}"\nType checked overriding rule "{name}" against x\n' for name in names)
        assert unmatched(text, good) == []
        assert unmatched(text, good.replace('checked overriding rule "cleanup before"', "")) == ["cleanup before"]
        worse = good + 'WARNING : Problem type checking rule "rename after" loaded from x\n'
        assert unmatched(text, worse) == ["rename after"]
        assert unmatched(text, "") == names


class TestVersions:
    def test_of_one_release_are_alike(self) -> None:
        assert supported("4.3.0") is supported("4.3.7") is supported("4.3.0.dev1")

    @pytest.mark.parametrize("version", ["3.2.4", "4.30.0", "5.0.0", "3.50.0", "4", ""])
    def test_that_are_not_known_are_refused_with_those_that_are(self, version: str) -> None:
        with pytest.raises(Unsupported, match=re.escape(", ".join(SUPPORTED))):
            supported(version)

    @pytest.mark.parametrize("version", SUPPORTED.values(), ids=list(SUPPORTED))
    def test_have_the_same_points_but_for_those_of_a_source_that_speaks_for_itself(self, version: SparkVersion) -> None:
        of_source = OF_THE_SOURCE if version.source_in_java else frozenset()
        # In 3.3 it is no method of its own.
        missing = {Point.CLEANUP} if version.number == "3.3" else set()
        assert {hook.point for hook in version.hooks} == {hook.point for hook in VERSION.hooks} - missing | of_source
        text = script(version, ANYWHERE, "secret", "driver", 1)
        assert [rule for rule in re.findall(r"^RULE (source-\S+ \S+)$", text, re.MULTILINE) if "log" not in rule] == (
            ["source-latest before", "source-partitions before", "source-commit before", "source-commit after"]
            if version.source_in_java
            else []
        )

    @pytest.mark.parametrize("version", SUPPORTED.values(), ids=list(SUPPORTED))
    def test_have_what_a_data_source_does_beside_its_tasks_followed_where_there_are_such_sources(
        self, version: SparkVersion
    ) -> None:
        has_sources = "data sources and sinks in Python (DataSource)" not in version.lacks
        text = script(version, ANYWHERE, "secret", "driver", 1, points=[])
        assert all((f'RETURN "{module}"' in text) is has_sources for module in (DAEMON_MODULE, READER_MODULE))

    def test_ask_no_release_of_a_line_for_what_came_with_a_later_one(self) -> None:
        assert "isFailed" not in script(supported("3.5.0"), ANYWHERE, "secret", "driver", 1), "which came with 3.5.1"

    def test_from_4_0_on_look_whether_a_worker_lives_before_they_use_it_again(self) -> None:
        assert [line for line, version in SUPPORTED.items() if not version.drops_dead_workers] == ["3.3", "3.4", "3.5"]

    def test_are_tried_with_a_release_of_theirs(self) -> None:
        for line, version in SUPPORTED.items():
            assert supported(version.tried) is version
            assert version.tried.startswith(f"{line}.")

    @pytest.mark.parametrize(
        ("path", "key"),
        [
            ("file:/runs/a/checkpoint/offsets/3", "3/offsets/3"),
            ("file:/runs/a/checkpoint/commits/12", "12/commits/12"),
            ("file:/runs/a/checkpoint/metadata", "?/metadata"),
            ("file:/state/offsets/checkpoint/metadata", "?/metadata"),
            ("hdfs://h/ck/sources/0/2", "?/sources/0/2"),
            ("file:/out/_spark_metadata/9.compact", "9/_spark_metadata/9.compact"),
            ("file:/ck/state/0/1/4.delta", "3/state/0/1/4.delta"),
            ("file:/ck/state/0/1/left-keyToNumValues/4.delta", "3/state/0/1/left-keyToNumValues/4.delta"),
            ("file:/ck/state/0/1/4_0f3c2d1e-0000-4a4a-8b8b-0123456789ab.changelog", "3/state/0/1/4.changelog"),
            ("file:/ck/state/0/_stateSchema/default/2_0f3c2d1e-0000-4a4a-8b8b-0123456789ab", None),
            ("file:/ck/state/0/_metadata/v2/5", "5/state/0/_metadata/v2/5"),
            ("file:/ck/state/0/0/_metadata/schema", "?/state/0/0/_metadata/schema"),
        ],
    )
    def test_know_what_a_renamed_file_is_called(self, path: str, key: str | None) -> None:
        assert renamed(path) == (key or "2/state/0/_stateSchema/default/2")


def renamed(path: str) -> str:
    """What the bindings of the rename rule make of a path; they are Java, whose patterns Python's understand."""
    hook = next(hook for hook in VERSION.hooks if hook.point is Point.RENAME)
    inside, unique = (re.findall(r'(?:matches|replaceAll)\("(.*?)"', hook.bindings[1])[at] for at in (0, 2))
    named, stated = re.findall(r'path\.matches\("(.*?)"\)', hook.bindings[3])
    name = path.rsplit("/", 1)[1]
    within = re.sub(inside.replace(".*/", "^.*/", 1) + "$", r"\1", path) if re.fullmatch(inside, path) else name
    within = re.sub(unique, "", within)
    digits = re.sub("^([0-9]*).*$", r"\1", name)
    if re.fullmatch(named, within):
        return f"{digits}/{within}"
    return f"{int(digits) - 1 if re.fullmatch(stated, within) else '?'}/{within}"


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for what Spark resolves: the file is what comes, when it is there."""
    jar = tmp_path / "in-the-repository.jar"
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(
        f"""for last; do case "$last" in spark.jars.ivy=*) ivy="${{last#spark.jars.ivy=}}";; esac; done
test -f {jar} || {{ echo ":: UNRESOLVED"; echo "unresolved dependency: org.jboss.byteman" >&2; exit 1; }}
mkdir -p "$ivy/jars" && cp {jar} "$ivy/jars/org.jboss.byteman_byteman-{agent.VERSION}.jar"
"""
    )
    monkeypatch.setattr(agent, "find_spark", lambda: Spark(tmp_path / "spark", "2.13"))
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return jar


class TestAgent:
    def test_that_is_not_there_is_asked_for_with_the_command(self, cache: dict[str, str]) -> None:
        with pytest.raises(
            MissingTool, match=r"is not there.*-m streamproof\.harness\.crash_points\.inside_spark\.agent"
        ):
            find_agent(cache)

    def test_is_fetched_once_and_then_found(
        self, cache: dict[str, str], repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        repository.write_bytes(b"the jar")
        monkeypatch.setattr(agent, "SHA256", hashlib.sha256(b"the jar").hexdigest())
        env = {**cache, "JAVA_HOME": os.environ["JAVA_HOME"]}
        path = fetch_agent(env)
        assert path == agent_path(env) == find_agent(env)
        assert path.read_bytes() == b"the jar"
        repository.unlink()
        assert fetch_agent(env) == path
        assert [file.name for file in path.parent.iterdir()] == [path.name]

    def test_that_is_damaged_is_refused_and_fetched_again(
        self, cache: dict[str, str], repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        repository.write_bytes(b"the jar")
        monkeypatch.setattr(agent, "SHA256", hashlib.sha256(b"the jar").hexdigest())
        agent_path(cache).parent.mkdir(parents=True)
        agent_path(cache).write_bytes(b"the ja")
        with pytest.raises(MissingTool, match=r"has the SHA-256 .* Fetch it"):
            find_agent(cache)
        assert fetch_agent(cache).read_bytes() == b"the jar"

    def test_of_another_checksum_is_not_kept(self, cache: dict[str, str], repository: Path) -> None:
        repository.write_bytes(b"something else")
        with pytest.raises(MissingTool, match=r"a repository gave a jar .*DEFAULT_ARTIFACT_REPOSITORY"):
            fetch_agent(cache)
        assert not agent_path(cache).exists()

    @pytest.mark.usefixtures("repository")
    def test_that_no_repository_has_is_said_with_the_reason_and_what_to_do(self, cache: dict[str, str]) -> None:
        with pytest.raises(MissingTool, match=r"\(unresolved dependency: org.jboss.byteman\).*or copy the jar to /"):
            fetch_agent(cache)


class TestSettings:
    def test_are_for_driver_and_executors(self) -> None:
        option = "-javaagent:/a/b.jar=script:/r/rules.btm"
        settings = agent_settings(Path("/a/b.jar"), Path("/r/rules.btm"))
        assert settings == {"spark.driver.extraJavaOptions": option, "spark.executor.extraJavaOptions": option}

    def test_keep_what_the_user_has_set(self) -> None:
        others = {"spark.driver.extraJavaOptions": "-Dx=1 -ea", "spark.executor.memory": "1g"}
        settings = with_options(others, agent_settings(Path("/a b/c.jar"), Path("/r.btm")))
        assert settings["spark.driver.extraJavaOptions"] == "-Dx=1 -ea '-javaagent:/a b/c.jar=script:/r.btm'"
        assert settings["spark.executor.extraJavaOptions"] == "'-javaagent:/a b/c.jar=script:/r.btm'"

    def test_refuse_a_path_at_which_the_agent_would_split_its_options(self) -> None:
        with pytest.raises(InvalidScenario, match="comma"):
            agent_settings(Path("/a.jar"), Path("/runs/a,b/rules.btm"))


class TestUsersPoint:
    def test_does_nothing_outside_a_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(POINTS, raising=False)
        monkeypatch.setattr(user_points, "_announce", lambda *_: pytest.fail("announced"))
        monkeypatch.setitem(sys.modules, "pyspark", None)
        crash_point("after-upload")

    def test_waits_for_the_answer_in_a_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        arrived: list[HeldPoint] = []

        async def arrive(held: HeldPoint) -> None:
            arrived.append(held)

        async def scene(place: Endpoint, _: PointListener) -> None:
            for name, value in points_environment(place, "secret", "worker-1", 2).items():
                monkeypatch.setenv(name, value)
            await asyncio.to_thread(crash_point, "after-upload")

        assert listening(scene, arrive) == []
        (held,) = arrived
        expected = HeldPoint("worker-1", 2, os.getpid(), held.peer, Side.AFTER, Point.USER, "?/after-upload", "driver")
        assert held == replace(expected, peer=held.peer)

    def test_goes_on_when_nobody_listens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(POINTS, "127.0.0.1:1 secret driver 1")
        crash_point("after-upload")

    def test_goes_on_when_the_harness_hangs_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def arrive(held: HeldPoint) -> None:
            raise OwnFailure("no more disk")

        async def scene(place: Endpoint, _: PointListener) -> None:
            monkeypatch.setenv(POINTS, f"{place[0]}:{place[1]} secret driver 1")
            await asyncio.to_thread(crash_point, "after-upload")

        assert len(listening(scene, arrive)) == 1

    @pytest.mark.parametrize("name", ["", "after upload", "a/b", "a\nb", "--", "é"])
    def test_refuses_a_name_that_no_key_can_have(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(POINTS, raising=False)
        with pytest.raises(InvalidScenario, match="letters, digits"):
            crash_point(name)

    def test_says_when_its_environment_is_malformed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(POINTS, "nonsense")
        with pytest.raises(OwnFailure, match=POINTS):
            crash_point("after-upload")
