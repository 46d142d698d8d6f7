"""How faults find the drivers and tasks of a query: what is refused, who is hit, and who is listened to, without a
Spark."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamproof.faults.crash import crash
from streamproof.faults.crash_loop import crash_loop
from streamproof.faults.executor_crash import executor_crash
from streamproof.faults.failed_write import failed_write
from streamproof.faults.pause import pause
from streamproof.faults.python_crash import python_crash
from streamproof.faults.split_brain import split_brain
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.injection import Part
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario, check_carriers
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.errors import InvalidScenario, MissingTool, UnknownName, Unsupported
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.schedule import Fault, batch
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.core.wire import VERSION, BlockingConnection, Greeting
from streamproof.harness.crash_points.files.naming import entry_of_offsets
from streamproof.harness.crash_points.inside_spark.settings import with_options
from streamproof.harness.recording.history import Bite, NodeGone, NodeUp, Placed, Proof
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.recording.records import BatchDone, Delivered, Ended, Kept, Offered, Refused, Stamped, Started
from streamproof.harness.running.run import check_scenario
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.processes import SparkProcesses
from streamproof.harness.worlds.spark.control.machines import Striking
from streamproof.harness.worlds.spark.control.run_messages import Arrived, Begun, Failed, Finishing
from streamproof.harness.worlds.spark.control.run_server import _Span
from streamproof.harness.worlds.spark.queries.deployment import QueryDeployment
from streamproof.harness.worlds.spark.queries.driver_incarnations import (
    DriverIncarnation,
    executors_needed,
    standbys,
    successions,
)
from streamproof.harness.worlds.spark.queries.references import of_references
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.gap import gap
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words


def scenario(*faults: Fault, query: Query | None = None) -> Scenario:
    return Scenario(query or query_word_count(), words(), faults, claims=[exactly_once()])


def check(what: Scenario) -> None:
    check_scenario(what, EmbeddedCluster(), Registry())


# What is refused before anything starts


@pytest.fixture
def no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("no_agent")
@pytest.mark.parametrize("moment", [batch(1).offset_logged, batch(1).committed, batch(1).state_committed])
def test_points_inside_spark_need_the_agent(moment: Moment) -> None:
    with pytest.raises(MissingTool, match="need the agent Byteman"):
        check(scenario(crash("driver").at(moment)))


@pytest.mark.usefixtures("no_agent")
def test_the_harness_ends_need_no_agent() -> None:
    check(scenario(crash("driver").at(batch(1).written), crash("node-0").at(batch(2).source_commit)))
    check(scenario(crash("task").at(batch(1).user("after-upload").of("task"))))


NEVER: list[tuple[Fault, str]] = [
    (
        crash("task").after(seconds(1)),
        r"which task is meant is known where one is held; say .at\(\) a moment of a task",
    ),
    (executor_crash("task").at(batch(1).committed), "a moment of a task"),
    (crash("driver").at(Moment(Point.STATE_COMMIT, Side.AFTER, "1")), "driver never passes state-commit"),
    (crash("task").at(Moment(Point.OFFSET_LOG, Side.AFTER, "1")), "task never passes offset-log"),
    (split_brain("task").at(batch(1).state_committed), "name the driver alone"),
    (split_brain("driver", "task").at(batch(1).committed), "name the driver alone"),
    (split_brain("driver").at(batch(1).committed).lasting(seconds(1)), "has no duration"),
]


@pytest.mark.parametrize(("fault", "message"), NEVER, ids=str)
def test_what_a_query_never_comes_to_is_refused(fault: Fault, message: str) -> None:
    with pytest.raises(InvalidScenario, match=message):
        check(scenario(fault))


@pytest.mark.parametrize(
    ("change", "moment", "message"),
    [
        ({"source": lambda spark, folders: None}, batch(1).source_commit, "a source of its own"),
        (
            {"write": lambda frame, folders: None, "read": lambda spark, folders: None},
            batch(1).written,
            "a sink of its",
        ),
    ],
)
def test_ends_of_the_users_say_nothing_of_the_harness_points(
    change: dict[str, Any], moment: Moment, message: str
) -> None:
    with pytest.raises(InvalidScenario, match=message):
        check(scenario(crash("driver").at(moment), query=replace(query_word_count(), **change)))


def test_a_scheme_has_no_driver_that_another_could_run_beside() -> None:
    fault = split_brain("driver").after(seconds(1))
    with pytest.raises(UnknownName, match="no slice, driver or node 'driver'"):
        check(Scenario(amnesia(word_count()), words(), [fault]))


def test_a_moment_of_a_batch_is_that_of_all_its_tasks() -> None:
    moment = batch(3).state_committed
    assert moment.matches(Address("task", 1, Point.STATE_COMMIT, "3/0/1/default", Side.AFTER), 0)
    assert moment.matches(Address("task", 2, Point.STATE_COMMIT, "3/1/1/default", Side.AFTER), 0)
    assert not moment.matches(Address("task", 1, Point.STATE_COMMIT, "31/0/1/default", Side.AFTER), 0)
    assert not moment.matches(Address("driver", 1, Point.STATE_COMMIT, "3/0/1/default", Side.AFTER), 0)


# Who follows whom


@pytest.mark.parametrize(
    ("faults", "count"),
    [
        ([], 0),
        ([executor_crash("task").at(batch(1).state_committed), crash("node-0").after(seconds(1))], 0),
        ([crash("driver").at(batch(1).added), split_brain("driver").at(batch(2).added)], 2),
        # A loop finds each successor on the node of the one before.
        ([crash("driver").at(batch(1).added), crash_loop("driver").after(seconds(1))], 0),
        ([crash("driver").at(batch(1).added), pause("driver").after(seconds(1))], 0),
    ],
)
def test_a_driver_is_made_ready_where_one_will_be_needed(faults: list[Fault], count: int) -> None:
    assert successions(faults) == count
    assert executors_needed(scenario(*faults)) == (2 if count else 1)


def test_no_more_stand_by_than_have_executors() -> None:
    on_drivers = [crash("driver").at(batch(n).committing) for n in (1, 2, 3)]
    assert [standbys(scenario(*on_drivers), workers) for workers in (1, 2, 3)] == [1, 2, 2]
    # There, each has one on every worker.
    assert standbys(scenario(*on_drivers, executor_crash("task").at(batch(4).state_committed)), 3) == 1


def test_options_of_the_users_are_kept() -> None:
    ours = {"spark.driver.extraJavaOptions": "-javaagent:a", "spark.executor.extraJavaOptions": "-javaagent:a"}
    given = {"spark.driver.extraJavaOptions": "-Dx=1", "spark.executor.extraJavaOptions": ""}
    assert with_options(given, ours) == {
        "spark.driver.extraJavaOptions": "-Dx=1 -javaagent:a",
        "spark.executor.extraJavaOptions": "-javaagent:a",
    }


def test_the_records_of_reference_runs_are_told_from_the_others() -> None:
    mine = [
        Started("reference-1", 1, None, 0),
        Delivered("reference-2", "q", 1, 0, []),
        Kept("reference-2", 1, {}),
        BatchDone("reference-1", 1, 0, 1, 0, 0, 5),
        Ended("reference-1", 1, {}),
    ]
    others = [
        Started("driver", 1, None, 0),
        Delivered("sink", "q", 1, 0, []),
        Offered("source", []),
        Kept("driver", 1, {}),
    ]
    both = [Stamped(at, record) for at, record in enumerate([*mine, *others])]  # type: ignore[arg-type]
    assert [stamped.record for stamped in of_references(both)] == mine


# What is heard, and who is hit


class DriverStub:
    stderr = Path()

    def __init__(self) -> None:
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status


@dataclass
class Killed:
    bit: bool = True
    pids: tuple[int, ...] = (11,)
    proof: Proof | None = None


@dataclass
class Cluster:
    """A deployment that has two incarnations, and a cluster that notes what is done to it."""

    deployment: QueryDeployment
    recorder: MemoryRecorder
    done: list[str] = field(default_factory=list)
    passed: list[Address] = field(default_factory=list)

    def announce(self, line: str, token: str | None = None) -> bytes:
        """What a thread of Spark is answered that comes to a point."""
        server, watch = self.deployment.server, self.deployment._watch
        with socket.create_connection(watch._place, timeout=5) as connection:
            connection.sendall(f"{token or server.token} {line}\n".encode())
            return connection.recv(1)

    def speak(self, node: str, incarnation: int) -> BlockingConnection:
        server = self.deployment.server
        greeting = Greeting(VERSION, server.token, "driver", node, incarnation=incarnation)
        return BlockingConnection(server.place, greeting)

    def bites(self) -> list[Bite]:
        return [struck.bite for struck in self.recorder.history().struck()]

    def refused(self) -> list[Refused]:
        return [stamped.record for stamped in self.recorder.records if isinstance(stamped.record, Refused)]


PIDS = {11: "driver", 22: "driver-2", 33: "node-1", 55: "node-0"}


@dataclass
class FileLayer:
    """One that counts what it is told to refuse, and says nothing of itself."""

    below: Path
    asks_before: bool = False
    done: int = 0

    @property
    def mount(self) -> Path:
        return self.below

    def announce(self, *_: object, asks_before: bool, others_live: bool) -> None:
        assert others_live
        self.asks_before = asks_before

    def refused(self) -> int:
        return self.done


@contextmanager
def cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *faults: Fault, files: FileLayer | None = None
) -> Iterator[Cluster]:
    """Incarnation 1 runs on `driver`, and 2 is there on `driver-2`."""
    recorder, processes = MemoryRecorder(), SparkProcesses("not-started", tmp_path)
    passed: list[Address] = []
    run = Run("test", scenario(*faults), 1, recorder, Registry().faults, tmp_path, passed=passed.append)
    deployment = QueryDeployment(run, processes, files)  # type: ignore[arg-type]
    made = Cluster(deployment, recorder, passed=passed)

    def part(node: str, what: Part) -> Killed:
        made.done.append(f"kill the {what} of {node}")
        return Killed()

    def kill(node: str) -> Killed:
        made.done.append(f"kill {node}")
        return Killed()

    def stop(node: str) -> Killed:
        made.done.append(f"stop {node}")
        return Killed(proof=Proof(1, "processes stopped"))

    monkeypatch.setattr(processes, "nodes", lambda: dict.fromkeys(PIDS.values()))
    monkeypatch.setattr(processes, "node_of", lambda pid, address: PIDS.get(pid))
    monkeypatch.setattr(processes, "kill_node", kill)
    monkeypatch.setattr(processes, "kill_part", part)
    monkeypatch.setattr(processes, "stop_node", stop)
    monkeypatch.setattr(processes, "resume", lambda stopped: made.done.append("resume"))
    for number, node in ((2, "driver-2"), (1, "driver")):
        deployment._drivers[number] = DriverIncarnation(number, node, 0, DriverStub(), ready=True)
        deployment._incarnation = number
    with deployment.server as server:
        server.call(deployment._watch.listen(server.token, deployment._held, files=files is not None))
        if files is not None:
            deployment._watch.announce_files(files, asks_before=False)  # type: ignore[arg-type]
        try:
            yield made
        finally:
            deployment.close()


def test_the_node_is_hit_on_which_the_task_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = executor_crash("task").at(batch(3).state_committed)
    with cluster(tmp_path, monkeypatch, fault) as spark:
        assert spark.announce("driver 1 33 before state-commit 3/0/0/default") == b"g"
        assert spark.done == []
        assert spark.announce("driver 1 33 after state-commit 3/1/0/default") == b"g"
        assert spark.done == ["kill the executor of node-1"]
        # Another attempt comes to the same point.
        assert spark.announce("driver 1 33 after state-commit 3/1/0/default") == b"g"
        assert len(spark.done) == 1
        (bite,) = spark.bites()
        assert (bite.target, bite.node, bite.actors, bite.bit) == ("task", "node-1", ("task",), True)
        assert [str(address) for address in spark.passed] == [
            "task/0#1 before state-commit 3/0/0/default",
            "task/0#1 after state-commit 3/1/0/default",
            "task/0#1 after state-commit 3/1/0/default",
        ]


def test_what_a_process_announced_that_was_ended_meanwhile_is_held_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node lives on, as that of a container does in which the executor was killed."""
    faults = executor_crash("task").at(batch(3).state_committed), crash("node-0").at(batch(4).state_committed)
    with cluster(tmp_path, monkeypatch, *faults) as spark:
        monkeypatch.setattr(spark.deployment._processes, "kill_part", lambda node, part: Killed(pids=(33,)))
        assert spark.announce("driver 1 33 after state-commit 3/0/0/default") == b"g"
        for pid, done in ((33, []), (34, ["kill node-0"])):
            monkeypatch.setitem(PIDS, 34, "node-1")
            assert spark.announce(f"driver 1 {pid} after state-commit 4/0/0/default") == b"g"
            assert spark.done == done


def test_the_successor_of_a_node_gives_numbers_of_processes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As each container does."""
    faults = (
        executor_crash("task").at(batch(3).state_committed),
        crash("node-1").at(batch(4).state_committed),
        crash("node-1").at(batch(5).state_committed),
    )
    with cluster(tmp_path, monkeypatch, *faults) as spark:
        monkeypatch.setattr(spark.deployment._processes, "kill_part", lambda node, part: Killed(pids=(33,)))
        monkeypatch.setitem(PIDS, 34, PIDS[33])
        for pid, number in ((33, 3), (34, 4), (33, 5)):
            assert spark.announce(f"driver 1 {pid} after state-commit {number}/0/0/default") == b"g"
        assert spark.done == ["kill node-1", "kill node-1"]


def test_a_driver_dies_while_a_task_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, monkeypatch, crash("driver").at(batch(3).state_committed)) as spark:
        spark.announce("driver 1 33 after state-commit 3/1/0/default")
        assert spark.done == ["kill driver"]


@pytest.mark.parametrize(
    "line",
    ["driver-2 2 22 after offset-log 1", "driver 1 44 after offset-log 1"],
    ids=["an incarnation that stands by", "a process that has gone"],
)
def test_who_is_not_the_judged_incarnation_goes_on(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, monkeypatch, crash("driver").at(batch(1).offset_logged)) as spark:
        assert spark.announce(line) == b"g"
        assert spark.announce("driver 1 11 after offset-log 1", token="another") == b""
        assert (spark.done, spark.passed) == ([], [])


def test_a_batch_that_a_thread_does_not_know_is_the_last_that_was_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, crash("driver").at(batch(7).user("after-upload"))) as spark:
        offsets = spark.deployment._checkpoint / "offsets"
        offsets.mkdir(parents=True)
        for name in ("6", "7", ".7.crc", "metadata"):
            (offsets / name).touch()
        spark.announce("driver 1 11 after user ?/after-upload")
        assert spark.done == ["kill driver"]
        assert [address.key for address in spark.passed] == ["7/after-upload"]


def test_a_driver_is_heard_before_whoever_starts_it_has_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, processes = MemoryRecorder(), SparkProcesses("not-started", tmp_path)
    passed = [Stamped(0, Ended("reference-1", 1, {}))]
    run = Run("test", scenario(), 1, recorder, Registry().faults, tmp_path, references=passed)
    deployment = QueryDeployment(run, processes)
    spoke: list[BlockingConnection] = []

    def start_driver(name: str, *_: object) -> DriverStub:
        greeting = Greeting(VERSION, deployment.server.token, "driver", name, incarnation=1)
        spoke.append(BlockingConnection(deployment.server.place, greeting))
        spoke[0].send(Begun("driver", 0, 1, time.monotonic_ns()))
        wait_until(lambda: recorder.timeline or recorder.records, 5, "the driver to be heard")
        spoke[0].send(Arrived(Address("driver", 1, Point.STARTED, "", Side.AFTER), 0, True, time.monotonic_ns()))
        return DriverStub()

    monkeypatch.setattr(processes, "start_driver", start_driver)
    processes.scratch.mkdir(parents=True)
    with deployment.server:
        deployment.prepare()
        deployment.start()
        assert spoke[0].receive() is not None
        spoke[0].close()
        deployment.close()
    assert not [one for one in recorder.records if isinstance(one.record, Refused)]


def test_what_is_read_is_kept_once_by_the_incarnation_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch) as spark:
        driver = spark.speak("driver", 1)
        driver.send(Kept("driver", 1, {"a": 1}))
        spark.deployment._incarnation = 2
        second = spark.speak("driver-2", 2)
        for record in (Kept("driver", 2, {"a": 2}), Ended("driver", 2, {})):
            second.send(record)
        wait_until(lambda: spark.deployment.has_ended(), 5, "the second to end")
        records = [stamped.record for stamped in spark.recorder.records if not isinstance(stamped.record, Refused)]
    assert records == [Kept("driver", 2, {"a": 2}), Ended("driver", 2, {})]


def test_a_driver_that_stands_by_begins_when_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, monkeypatch) as spark:
        deployment = spark.deployment
        first = deployment._drivers[1]
        heir = deployment._drivers[2]
        heir.ready = False
        deployment._standbys.append(heir)
        second = spark.speak("driver-2", 2)
        second.send(Begun("driver", 0, 2, time.monotonic_ns()))
        second.send(Arrived(Address("driver", 2, Point.STARTED, "", Side.AFTER), 0, True, time.monotonic_ns()))
        wait_until(lambda: heir.ready, 5, "the second to stand by")
        second._socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.receive()
        second._socket.settimeout(5)

        assert isinstance(first.started_process, DriverStub)
        first.started_process.status = -9
        deployment.server._spans[0] = _Span(time.monotonic_ns())
        deployment._tend()
        assert second.receive() is not None
        second.send(Started("driver", 2, (1, 4), 5))
        wait_until(lambda: spark.recorder.records, 5, "the second to be heard")
    assert [stamped.record for stamped in spark.recorder.records] == [Started("driver", 2, (1, 4), 5)]
    seen = [entry for entry in spark.recorder.timeline if isinstance(entry, NodeGone | NodeUp | Placed)]
    assert [(type(entry), entry.node) for entry in seen] == [
        (NodeGone, "driver"),
        (NodeUp, "driver-2"),
        (Placed, "driver-2"),
    ]


def test_one_that_cannot_stand_by_is_replaced_by_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, monkeypatch) as spark:
        deployment = spark.deployment
        deployment._standbys.append(deployment._drivers[2])
        second = spark.speak("driver-2", 2)
        second.send(Failed("InvalidOperator", "query 'q' failed: boo"))
        assert second.receive() is not None
        deployment._tend()
        assert spark.done == ["kill driver-2"]
        assert (deployment._standbys, deployment._stand_by) == ([], False)
        assert deployment.server.failure is None


def test_what_a_driver_announced_that_a_fault_has_ended_meanwhile_is_held_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = crash("driver").at(batch(1).written), crash("node-1").at(batch(2).written)
    with cluster(tmp_path, monkeypatch, *faults) as spark:
        driver, before = spark.speak("driver", 1), time.monotonic_ns()
        points = [Address("driver", 1, Point.SINK_WRITE, number, Side.AFTER) for number in ("1", "2")]
        driver.send(Arrived(points[0], 0, True, before))
        driver.send(Arrived(points[1], 0, True, before))
        driver.send(Delivered("sink", "q", 1, 0, [Event("q", 0, "a", 1, 0)]))
        wait_until(lambda: spark.recorder.records, 5, "what came after to be heard: it was sent, and is an output")
        assert (spark.done, spark.passed) == (["kill driver"], points[:1])
        driver.send(Arrived(points[1], 0, True, time.monotonic_ns()))
        wait_until(lambda: len(spark.done) == 2, 5, "a successor of this name to be heard")
    assert [bite.target for bite in spark.bites()] == ["driver", "node-1"]


def test_two_drivers_run_once_the_second_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first goes on when the second is at its end, and the second reads what is kept when the first is gone."""
    with cluster(tmp_path, monkeypatch, split_brain("driver").at(batch(1).adding)) as spark:
        deployment = spark.deployment
        first = spark.speak("driver", 1)
        first.send(Arrived(Address("driver", 1, Point.SOURCE_LATEST, "1", Side.BEFORE), 0, True, time.monotonic_ns()))
        assert first.receive() is not None
        assert spark.announce("driver 1 11 before add-batch 1") == b"g"
        assert spark.done == ["stop driver"]

        deployment._incarnation = 2
        second = spark.speak("driver-2", 2)
        second.send(Finishing())
        wait_until(lambda: deployment._finishing == 2, 5, "the second to finish")
        deployment._tend_zombies()
        assert spark.done == ["stop driver", "resume"]

        # Spark may do what it likes, and the recorder hears nothing of it.
        first.send(Arrived(Address("driver", 1, Point.SOURCE_LATEST, "2", Side.BEFORE), 0, True, time.monotonic_ns()))
        assert first.receive() is not None
        assert not deployment._is_over()
        first.send(Delivered("sink", "q", 1, 0, [Event("q", 0, "a", 1, 0)]))
        assert first.receive() is None
        deployment._tend_zombies()
        assert spark.done[-1] == "kill driver", "what was refused has nothing more to say"
        driver = deployment._drivers[1].started_process
        assert isinstance(driver, DriverStub)
        driver.status = -9
        wait_until(lambda: deployment._drivers[1].conversations == 0, 5, "the first to be heard to its end")
        deployment._tend_zombies()
        assert second.receive() is not None
        second.send(Ended("driver", 2, {}))
        wait_until(deployment._is_over, 5, "the run to be over")
    (bite,) = spark.bites()
    assert (bite.bit, bite.lasting) == (True, True), bite.why_not
    assert str(bite.proof) == "processes stopped, and let go on when driver#2 was at its end: 1"
    assert [(one.peer, one.peer_incarnation, one.message) for one in spark.refused()] == [("driver", 1, "delivered")]
    (gone,) = (one for one in spark.recorder.timeline if isinstance(one, NodeGone))
    assert (gone.node, gone.ended_for) == ("driver", "it spoke for its successor, and the recorder refused that")


def test_it_is_on_the_timeline_that_the_harness_has_ended_who_did_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, split_brain("driver").at(batch(1).adding)) as spark:
        deployment = spark.deployment
        spark.announce("driver 1 11 before add-batch 1")
        deployment._incarnation = deployment._finishing = 2
        deployment._tend_zombies()
        deployment._zombies[0].woken = time.monotonic_ns() - round(31e9)
        for _ in range(2):
            deployment._tend_zombies()
        assert spark.done == ["stop driver", "resume", "kill driver"]
    (gone,) = (one for one in spark.recorder.timeline if isinstance(one, NodeGone))
    assert (gone.node, gone.ended_for) == ("driver", "it had not ended 30 s after it was let go on")


def test_the_harness_has_ended_nobody_whom_it_has_not_seen_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was not there any more has ended by itself, and what is left is tried again."""
    with cluster(tmp_path, monkeypatch, split_brain("driver").at(batch(1).adding)) as spark:
        deployment, seen = spark.deployment, iter((False, True))
        monkeypatch.setattr(deployment._processes, "kill_node", lambda node: Killed(bit=next(seen)))
        spark.announce("driver 1 11 before add-batch 1")
        deployment._incarnation = deployment._finishing = 2
        deployment._tend_zombies()
        (zombie,) = deployment._zombies
        zombie.woken = time.monotonic_ns() - round(31e9)
        told = []
        for _ in range(3):
            deployment._tend_zombies()
            told.append((zombie.ended, sum(isinstance(one, NodeGone) for one in spark.recorder.timeline)))
    assert told == [(False, 0), (True, 1), (True, 1)]


def test_a_driver_that_nobody_followed_was_not_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, monkeypatch, split_brain("driver").at(batch(1).adding)) as spark:
        spark.announce("driver 1 11 before add-batch 1")
        spark.deployment.server.missed()
    (bite,) = spark.bites()
    assert not bite.bit
    assert "let go on when driver#1 had not begun: 0" in bite.why_not


# Operations on files that are refused

ENTRY = "checkpoint/offsets/.2.1f6b7cde-24ba-44cb-9d5d-61df6bb01c6d.tmp"
AT_ENTRY = Moment(Point.FILE, Side.BEFORE, "2/create checkpoint/offsets/.2.*.tmp#1", "driver")
GO, REFUSED = b"g", b"r"


def said(deed: str, pid: int = 11, side: Side = Side.BEFORE) -> str:
    return f"files 0 {pid} {side} file ?/{deed}\tO_EXCL"


def test_the_operation_alone_is_refused_at_which_a_fault_is_aimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FileLayer(tmp_path / "files")
    with cluster(tmp_path, monkeypatch, failed_write("driver").at(AT_ENTRY), files=files) as spark:
        assert files.asks_before
        assert spark.announce(said("mkdir checkpoint/offsets")) == GO
        assert spark.announce(said(f"create {ENTRY}", side=Side.AFTER, pid=33)) == GO, "a task's"
        assert spark.announce(said(f"create {ENTRY}")) == GO, "the second of the batch, whoever did the first"
        assert spark.announce(said("write sink/a")) == GO
        assert spark.bites() == []
    files = FileLayer(tmp_path / "files")
    with cluster(tmp_path, monkeypatch, failed_write("driver").at(AT_ENTRY), files=files) as spark:
        # It counts before it answers, and may be asked at once.
        files.done = 1
        assert spark.announce(said(f"create {ENTRY}")) == REFUSED
        assert spark.announce(said(f"create {ENTRY}")) == GO, "tried again"
        wait_until(lambda: not spark.deployment.server.disturbed, 5, "it to be over")
        # From then on nobody is made to fail by it.
        assert not spark.deployment.server.disturbed_since(time.monotonic_ns())
    (bite,) = spark.bites()
    assert (bite.target, bite.node, bite.why_not, bite.gone) == ("driver", "driver", "", None)
    assert str(bite.proof) == f"operations on files refused with an I/O error ({AT_ENTRY.key}): 1"


def test_what_the_file_layer_did_not_refuse_was_not_bitten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileLayer(tmp_path / "files")
    with cluster(tmp_path, monkeypatch, failed_write("driver").at(AT_ENTRY), files=files) as spark:
        assert spark.announce(said(f"create {ENTRY}")) == REFUSED
        spark.deployment.server.missed()
    (bite,) = spark.bites()
    assert "it got in the way of nothing" in bite.why_not


def test_what_another_does_than_the_target_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is what the target does next."""
    files = FileLayer(tmp_path / "files")
    moment = replace(AT_ENTRY, key="0/write sink/a#1", actor="task")
    with cluster(tmp_path, monkeypatch, failed_write("driver").at(moment), files=files) as spark:
        assert spark.announce(said("write sink/a", pid=33)) == GO
        assert spark.announce(said("write sink/b")) == GO
        spark.deployment.server.missed()
    (bite,) = spark.bites()
    assert "it got in the way of nothing" in bite.why_not


@pytest.mark.parametrize("moment", [AT_ENTRY, batch(2).written])
def test_for_a_while_all_is_refused_that_the_target_does_to_files(
    moment: Moment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FileLayer(tmp_path / "files")
    fault = failed_write("driver").at(moment).lasting(seconds(60))
    with cluster(tmp_path, monkeypatch, fault, files=files) as spark:
        first = []
        if moment is AT_ENTRY:
            first = [spark.announce(said(f"create {ENTRY}"))]
        else:
            driver = spark.speak("driver", 1)
            driver.send(Arrived(Address("driver", 1, Point.SINK_WRITE, "2", Side.AFTER), 0, True, time.monotonic_ns()))
            assert driver.receive() is not None
        assert first == [REFUSED] * len(first)
        assert spark.announce(said("write sink/a")) == REFUSED
        assert spark.announce(said("write sink/a", pid=33)) == GO
        assert spark.announce(said("write sink/a", side=Side.AFTER)) == GO, "it is done"
        files.done = len(first) + 1
        spark.deployment.server.missed()
        assert spark.announce(said("write sink/b")) == GO
    (bite,) = spark.bites()
    assert bite.why_not == ""
    assert bite.proof is not None
    assert bite.proof.count == files.done


def test_a_driver_that_is_not_the_judged_one_comes_to_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileLayer(tmp_path / "files")
    with cluster(tmp_path, monkeypatch, failed_write("driver").at(AT_ENTRY), files=files) as spark:
        assert spark.announce(said(f"create {ENTRY}", pid=22)) == GO
        assert spark.passed == []


def test_a_node_dies_at_an_operation_on_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileLayer(tmp_path / "files")
    moment = replace(AT_ENTRY, side=Side.AFTER)
    with cluster(tmp_path, monkeypatch, crash("driver").at(moment), files=files) as spark:
        assert not files.asks_before, "nothing is refused"
        spark.announce(said(f"create {ENTRY}"))
        assert spark.done == []
        spark.announce(said(f"create {ENTRY}", side=Side.AFTER))
        assert spark.done == ["kill driver"]


def test_the_worker_dies_that_is_the_first_to_come_to_an_operation_on_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tasks write to one file at once, each is counted as if it were the only one, after the driver."""
    moment = Moment(Point.FILE, Side.AFTER, "0/unlink sink/db-journal#3", "task")
    unlinked = "unlink sink/db-journal"
    files = FileLayer(tmp_path / "files")
    with cluster(tmp_path, monkeypatch, python_crash("task").at(moment), files=files) as spark:
        spark.announce(said(unlinked, side=Side.AFTER))
        for pid in (33, 55):
            spark.announce(said(unlinked, pid, Side.AFTER))
        assert spark.done == []
        spark.announce(said(unlinked, 55, Side.AFTER))
        assert spark.done == ["kill the python of node-0"]
        spark.announce(said(unlinked, 33, Side.AFTER))
        assert len(spark.done) == 1
    assert [str(address) for address in spark.passed] == [
        "driver/0#1 after file 0/unlink sink/db-journal#1",
        *["task/0#1 after file 0/unlink sink/db-journal#2"] * 2,
        *["task/0#1 after file 0/unlink sink/db-journal#3"] * 2,
    ]


def test_what_is_done_to_an_entry_of_the_offset_log_is_of_its_batch() -> None:
    assert entry_of_offsets(f"create {ENTRY}") == 2
    assert entry_of_offsets("rename checkpoint/offsets/..12.a.tmp.crc > checkpoint/offsets/.12.crc") == 12
    assert entry_of_offsets("write checkpoint/commits/.2.a.tmp") == -1
    assert entry_of_offsets("mkdir checkpoint/offsets") == -1


def test_containers_say_nothing_of_files() -> None:
    with pytest.raises(Unsupported, match="say nothing of operations on files"):
        DockerCluster().check(scenario(crash("driver").at(AT_ENTRY)))


def test_a_scheme_has_no_folders_in_the_file_layer() -> None:
    faulty = Scenario(gap(word_count()), words(), [failed_write("count-0").after(seconds(1))])
    with pytest.raises(Unsupported, match=r"no failed-write of word-count.* on embedded"):
        check_carriers(faulty, "embedded", EmbeddedCluster().places, Registry().faults)


@pytest.mark.parametrize(
    ("committed", "planned", "why_not"),
    [
        (None, None, ""),
        (-2, -1, ""),
        (-1, -1, "all input had been processed by then"),
        (-1, 0, ""),
    ],
    ids=["before anything", "before the last is committed", "after that", "with one more under way"],
)
@pytest.mark.parametrize("held", [False, True])
def test_a_crash_at_its_time_harms_a_query_only_before_its_last_batch_is_committed(
    committed: int | None,
    planned: int | None,
    why_not: str,
    held: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of a batch counts from the end of the input. At a point something is under way in any case."""
    with cluster(tmp_path, monkeypatch) as spark:
        deployment = spark.deployment
        for log, batch_from_end in (("commits", committed), ("offsets", planned)):
            if batch_from_end is not None:
                folder = deployment._checkpoint / log
                folder.mkdir(parents=True)
                (folder / str(len(deployment._batches) + batch_from_end)).touch()
        machines = deployment._arm(Striking(True, lambda: None, Random(1), by_the_clock=not held))
        (bite,) = machines.crash(["driver"])
    assert bite.why_not == ("" if held else why_not)
