"""What a query says of itself, what is refused before anything starts, and that a replaced driver is not heard."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import Row

from streamproof.faults.crash import crash
from streamproof.faults.failed_write import failed_write
from streamproof.faults.lost_answer import lost_answer
from streamproof.faults.lost_request import lost_request
from streamproof.harness.contracts.claims import Claim
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.query import CLOSING_MS, Query, RunFolders, Store
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import claimed
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.errors import InvalidOperator, InvalidScenario, UnknownName, Unsupported
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import exactly_once, exactly_once_output
from streamproof.harness.core.quantities import events, ms, seconds
from streamproof.harness.core.schedule import Fault, batch, checkpoint, recovery
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.core.wire import VERSION, BlockingConnection, Greeting
from streamproof.harness.crash_points.outside.protocols import PROTOCOLS
from streamproof.harness.judging.shapes import OutputMode
from streamproof.harness.judging.stalls import ATTEMPTS
from streamproof.harness.recording.history import IncarnationFailed
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.recording.records import Delivered, Refused
from streamproof.harness.running.run import check_scenario
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.processes import SparkProcesses
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.spark.control.nodes import Driver
from streamproof.harness.worlds.spark.control.run_messages import Arrived, Failed
from streamproof.harness.worlds.spark.queries import points
from streamproof.harness.worlds.spark.queries.deployment import QueryDeployment
from streamproof.harness.worlds.spark.queries.driver_incarnations import DriverIncarnation
from streamproof.harness.worlds.spark.queries.python_source import EventReader
from streamproof.harness.worlds.spark.queries.rows import canonical_rows
from streamproof.harness.worlds.spark.queries.source import SourcePlan, write_events
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.subjects.counting import counts_by_processor
from streamproof.scenarios.workloads import words
from verdicts_of import JUDGES


def scenario(*faults: Fault, rate: int | None = None) -> Scenario:
    workload = replace(words(), rate=rate)
    return Scenario(query_word_count(), workload, faults, claims=[exactly_once()])


def test_what_its_spark_has_not_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "chosen_version", lambda spark: spark)
    query = replace(counts_by_processor, spark="4.0.4")
    with pytest.raises(Unsupported, match=r"needs transformWithState, which Spark 4\.0\.4 has not: .* 4\.1\.3"):
        points.check_points(Scenario(query, words(), (), claims=[exactly_once()]))
    points.check_points(Scenario(replace(query, spark="4.1.0"), words(), (), claims=[exactly_once()]))
    with pytest.raises(Unsupported, match=r"those of Spark 3\.3, 3\.4, 3\.5, .* 4\.3: name one of these"):
        points.check_points(Scenario(replace(query, spark="3.2.4"), words(), (), claims=[exactly_once()]))


@pytest.mark.parametrize("spark", ["4.1", "newest", 4.1])
def test_what_names_no_spark_is_refused(spark: Any) -> None:
    with pytest.raises(InvalidScenario, match="spark="):
        replace(query_word_count(), spark=spark)


def check(what: Scenario) -> None:
    check_scenario(what, EmbeddedCluster(), Registry())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transform": "count"}, "must be a function"),
        ({"key": "word"}, "must name its key columns"),
        ({"key": ()}, "update mode needs the key columns"),
        ({"mode": "upsert"}, "mode='upsert'; there are: append, update, complete"),
        ({"write": lambda frame, folders: None}, "write is given without read"),
        ({"read": lambda spark, folders: None}, "read is given without write"),
        ({"source": "kafka"}, "must be a function"),
        ({"stores": ["postgres"]}, "'postgres', which is no Store"),
        ({"settings": {"shuffle": "1"}}, "must begin with 'spark.'"),
        ({"hooks": {"flushed": "flush"}}, "names no method of a class"),
        ({"hooks": {"flushed": 1}}, "must give each name a method"),
        ({"key": 5}, "must name its key columns"),
        ({"schema": 5}, "schema=5 must be a text"),
        ({"packages": "com.acme:upload:1"}, "packages='com.acme:upload:1' must be a list"),
        ({"stores": 3}, "stores=3 must be a list"),
        ({"stores": [Store("a", len), Store("a", len)]}, "two stores are called 'a'"),
        ({"claims": ("exactly-once",)}, "'exactly-once', which is no Claim"),
        ({"settings": [("spark.x", "1")]}, "settings must be a dict"),
        ({"secrets": {"spark.password": 1}}, "must be a text"),
        ({"accepts": ("/var/log/x",)}, "an effect is named as in"),
        ({"batch_events": 0}, "positive whole number"),
        ({"batch_events": True}, "positive whole number"),
    ],
)
def test_a_query_that_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidScenario, match=message):
        replace(query_word_count(), **change)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"address": "localhost"}, "address='localhost' is no host:port"),
        ({"address": "::1:5432"}, "is no host:port"),
        ({"address": "localhost:99999"}, "is no host:port"),
        ({"address": 5432}, "must be texts"),
        ({"address": "localhost:5432", "protocol": "mysql"}, "there are: postgres, kafka, http, bytes"),
        ({"protocol": "postgres"}, "without an address"),
        ({"name": "my db", "address": "localhost:5432"}, "a name has letters"),
    ],
)
def test_a_store_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidScenario, match=message):
        Store(**{"name": "db", "reset": len, **given})


def test_stores_with_an_address_are_seen_and_any_protocol_is_bytes_unless_it_is_said() -> None:
    stores = (Store("a", len), Store("b", len, "localhost:5432", "postgres"), Store("c", len, "host.example:1"))
    relayed = replace(query_word_count(), stores=stores).relayed
    assert [(one.name, one.place) for one in relayed] == [("b", ("localhost", 5432)), ("c", ("host.example", 1))]
    assert [one.converse for one in relayed] == [PROTOCOLS["postgres"], PROTOCOLS["bytes"]]


def test_a_store_is_reached_by_its_name_and_one_that_is_not_declared_is_refused() -> None:
    folders = RunFolders("run", Path("sink"), Path("checkpoint"), {"db": "127.0.0.1:5432"})
    assert folders.reach("db") == "127.0.0.1:5432"
    with pytest.raises(InvalidScenario, match=r"no store 'web' with an address is declared; there are: db"):
        folders.reach("web")


def test_what_it_claims() -> None:
    assert claimed(query_word_count(), exactly_once(), JUDGES)
    assert replace(query_word_count(), claims=[exactly_once()]).claims == (Claim(exactly_once()),)
    assert not claimed(query_word_count(), exactly_once_output(), JUDGES)


def test_a_changed_query_is_noticed() -> None:
    def other(lines: Any) -> Any:
        return lines

    query = query_word_count()
    assert query.describe() == query_word_count().describe()
    assert query.describe()["code"]["transform"]["name"] == "streamproof.scenarios.query_word_count:count_words"
    assert replace(query, transform=other).describe()["code"] != query.describe()["code"]


def test_no_record_holds_a_secret() -> None:
    query = replace(query_word_count(), secrets={"spark.jdbc.password": "hunter2"})
    assert query.describe()["secrets"] == ["spark.jdbc.password"]
    assert "hunter2" not in str(query.describe()) + repr(query)
    assert query.configuration["spark.jdbc.password"] == "hunter2"
    assert query.without_secrets("connecting with hunter2\n") == "connecting with ***\n"


def test_a_query_goes_by_the_name_of_its_function() -> None:
    def count_clicks(lines: Any) -> Any:
        return lines

    assert Query(count_clicks).name == "count-clicks"
    assert Query(lambda lines: lines).name == "query"


def test_the_input_ends_with_events_that_let_every_watermark_pass() -> None:
    batches = query_word_count(batch_events=50).batches(words(events=120))
    assert [len(one) for one in batches] == [50, 50, 20, 1, 1]
    closing = [event for batch in batches[-2:] for event in batch]
    assert [(event.seq, event.time - batches[2][-1].time) for event in closing] == [
        (121, CLOSING_MS),
        (122, CLOSING_MS),
    ]


def test_the_simulator_refuses_it() -> None:
    with pytest.raises(
        Unsupported, match="query-word-count is a structured-streaming-query; the simulator runs schemes"
    ):
        check_scenario(scenario(), SimulatedCluster(), Registry())


SENT = Moment(Point.MESSAGE, Side.AFTER, "0/db COMMIT#1", "driver")


def test_faults_that_can_be_aimed_at_it() -> None:
    check(scenario(crash("driver").at(batch(0).source_commit)))
    check(scenario(crash("driver").at(batch(1).written), crash("driver").at(recovery("driver").started)))
    check(scenario(crash("node-0").at(batch(1).written.of("driver"))))


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (crash("count-0").at(batch(0).written), UnknownName, "All 9: driver, task, node-0"),
        (crash("driver").at(checkpoint(1).durable), InvalidScenario, "never passes"),
        (crash("driver").after(events(5)), InvalidScenario, "never passes"),
        (crash("driver").at(recovery("driver").started), InvalidScenario, "recovers only if an earlier fault"),
        (crash("driver").at(SENT), InvalidScenario, "has no store with an address"),
        (lost_answer("driver").at(replace(SENT, side=Side.BEFORE)), InvalidScenario, "lost after a message"),
        (lost_answer("driver").at(batch(0).written), InvalidScenario, "lost after a message"),
        (lost_request("driver").at(SENT), InvalidScenario, "lost before a message"),
        (
            failed_write("driver").at(Moment(Point.FILE, Side.AFTER, "0/write sink/a#1")),
            InvalidScenario,
            "refused before it is done",
        ),
    ],
)
def test_faults_that_cannot(fault: Fault, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check(scenario(fault))


def test_it_sets_its_own_pace() -> None:
    with pytest.raises(Unsupported, match="leave out the workload's rate"):
        check(scenario(rate=100))


def test_rows_are_recorded_in_the_order_of_their_keys() -> None:
    query = Query(lambda lines: lines, "q", mode=OutputMode.UPDATE, key=("a", "b"))
    rows = [Row(a="x", b=2, n=7), Row(a="x", b=1, n=8.5)]
    found = canonical_rows(query, rows, 3)
    assert [(event.seq, event.key, event.value) for event in found] == [
        (3_000_000_000, '["x",1]', 8.5),
        (3_000_000_001, '["x",2]', 7),
    ]
    single = canonical_rows(replace(query, key=("a",)), rows[:1], 0)
    assert single == [Event("q", 0, "x", {"b": 2, "n": 7}, 0)]
    unnamed = canonical_rows(replace(query, mode="append"), [*rows, rows[0]], 0)
    assert [(event.key, event.value) for event in unnamed] == [
        ('{"a":"x","b":1,"n":8.5}', 1),
        ('{"a":"x","b":2,"n":7}', 2),
    ]


def test_a_key_twice_in_a_batch_is_the_querys_mistake() -> None:
    query = Query(lambda lines: lines, "q", mode=OutputMode.UPDATE, key=("a",))
    rows = [Row(a="x", n=1), Row(a="x", n=2)]
    with pytest.raises(InvalidOperator, match="'x' twice in batch 4"):
        canonical_rows(query, rows, 4)


def test_the_source_gives_a_batch_as_often_as_it_is_asked(tmp_path: Path) -> None:
    given = [event for part in words(events=25).batches("source") for event in part]
    batches = [given[:10], given[10:20], [*given[20:24], Event("source", 25, "k", [1, "x"], 25)]]
    write_events(tmp_path / "input", batches)
    plan = SourcePlan(str(tmp_path / "input"), 3, "driver", "driver", 1, "token", ("127.0.0.1", 1), ())
    reader = EventReader(plan)

    offsets = [reader.initialOffset()]
    while (latest := reader.latestOffset(offsets[-1], None)) != offsets[-1]:  # type: ignore[arg-type]
        offsets.append(latest)
    assert offsets == [{"batches": n} for n in range(4)]
    for _ in range(2):
        (partition,) = reader.partitions(offsets[1], offsets[2])
        (read,) = reader.read(partition)
        assert read.column("seq").to_pylist() == list(range(11, 21))
        assert read.column("value").to_pylist() == [event.value for event in batches[1]]
    (last,) = reader.read(reader.partitions(offsets[2], offsets[3])[0])
    assert last.column("value").to_pylist()[-1] == '[1,"x"]'
    assert "token" not in str(reader.__getstate__())
    # Nothing is armed, so nobody is asked.
    reader.commit(offsets[1])


def test_a_replaced_driver_is_not_heard(tmp_path: Path) -> None:
    recorder = MemoryRecorder()
    processes = SparkProcesses("not-started", tmp_path)
    deployment = QueryDeployment(Run("test", scenario(), 1, recorder, {}, tmp_path), processes)
    with deployment.server as server:
        stranger = BlockingConnection(server.place, Greeting(VERSION, server.token, "driver", "driver", incarnation=7))
        stranger.send(Delivered("sink", "q", 7, 0, [Event("q", 0, "a", 1, 0)]))
        assert stranger.receive() is None
        source = BlockingConnection(server.place, Greeting(VERSION, server.token, "driver", "driver", incarnation=7))
        source.send(Arrived(Address("driver", 7, Point.SOURCE_COMMIT, "0", Side.BEFORE), 0, True, time.monotonic_ns()))
        assert source.receive() is None
        wait_until(lambda: len(recorder.records) == 2, 5, "two refusals", lambda: str(recorder.records))
    assert [stamped.record for stamped in recorder.records] == [
        Refused("recorder", 0, "driver", 7, "delivered"),
        Refused("recorder", 0, "driver", 7, "arrived"),
    ]


@contextmanager
def told_that_it_failed(tmp_path: Path, *faults: Fault, cleanly: bool = False) -> Iterator[QueryDeployment]:
    """A deployment whose driver says that the query has failed: after these faults have struck, and where that is
    asked for in an incarnation that began after them."""
    recorder = MemoryRecorder()
    run = Run("test", scenario(*faults), 1, recorder, Registry().faults, tmp_path)
    deployment = QueryDeployment(run, SparkProcesses("not-started", tmp_path))
    with deployment.server as server:
        server.start_timers()
        wait_until(lambda: len(recorder.timeline) == len(faults), 5, "the faults to strike")
        if cleanly:
            deployment._launched = time.monotonic_ns()
        driver = BlockingConnection(server.place, Greeting(VERSION, server.token, "driver", "driver", incarnation=0))
        driver.send(Failed("InvalidOperator", "query 'q' failed: boo"))
        assert driver.receive() is not None
        yield deployment


def test_a_query_that_fails_before_any_fault_is_wrong_itself(tmp_path: Path) -> None:
    with told_that_it_failed(tmp_path) as deployment:
        assert isinstance(deployment.server.failure, InvalidOperator)
        assert str(deployment.server.failure) == "query 'q' failed: boo"


def test_a_query_that_fails_in_an_incarnation_that_a_fault_has_touched_is_not_blamed(tmp_path: Path) -> None:
    with told_that_it_failed(tmp_path, crash("node-0").after(ms(1))) as deployment:
        assert deployment.server.failure is None
        assert deployment.waiting_for().endswith("under faults the query failed 1 times, last: query 'q' failed: boo")


@dataclass
class EndedDriver:
    status: int
    stderr: Path

    def poll(self) -> int:
        return self.status


@pytest.mark.parametrize(
    ("status", "ready", "disturbed", "failed"),
    [(3, True, True, True), (-9, True, True, False), (3, False, True, False), (3, True, False, False)],
    ids=["by itself", "killed from outside", "before it began", "before any fault"],
)
def test_a_process_that_ends_by_itself_after_a_fault_is_a_query_that_failed(
    status: int, ready: bool, disturbed: bool, failed: bool, tmp_path: Path
) -> None:
    recorder = MemoryRecorder()
    faults = [crash("node-0").after(ms(1))] if disturbed else []
    run = Run("test", scenario(*faults), 1, recorder, Registry().faults, tmp_path)
    deployment = QueryDeployment(run, SparkProcesses("not-started", tmp_path))
    log = tmp_path / "driver.log"
    log.write_text("Segmentation fault\n")
    with deployment.server as server:
        server.start_timers()
        wait_until(lambda: len(recorder.timeline) == len(faults), 5, "the faults to strike")
        deployment._launched = time.monotonic_ns()
        deployment._drivers[0] = DriverIncarnation(0, "driver", 0, cast(Driver, EndedDriver(status, log)), ready=ready)
        assert server.call(deployment._ended_by_itself()) is failed
        assert server.failure is None
    failures = [entry for entry in recorder.timeline if isinstance(entry, IncarnationFailed)]
    assert len(failures) == failed
    assert all("its process ended with status 3; its log ends:\nSegmentation fault" in one.why for one in failures)


def test_a_run_is_given_up_when_the_query_gives_no_sign_for_as_long_as_it_may(tmp_path: Path) -> None:
    recorder = MemoryRecorder()
    run = Run("test", scenario(), 1, recorder, {}, tmp_path, patience=ms(50))
    deployment = QueryDeployment(run, SparkProcesses("not-started", tmp_path))
    with deployment.server:
        deployment._drivers[0] = DriverIncarnation(
            0, "driver", 0, cast(Driver, EndedDriver(0, tmp_path)), conversations=1
        )
        assert not deployment.drained(seconds(60))
    assert deployment.silent() >= 50_000
    assert "it gave no sign of work for" in deployment.waiting_for()


def test_a_query_that_fails_again_and_again_when_nothing_disturbs_it_does_not_recover(tmp_path: Path) -> None:
    with told_that_it_failed(tmp_path, crash("node-0").after(ms(1)), cleanly=True) as deployment:
        for _ in range(ATTEMPTS - 1):
            assert deployment.server.failure is None
            assert not deployment._failures.given_up
            deployment._hear_failure(True, InvalidOperator("query 'q' failed: boo"))
        assert deployment.server.failure is None
        assert not deployment.drained(seconds(60))
        recorder = cast(MemoryRecorder, deployment._run.recorder)
        failures = [entry for entry in recorder.timeline if isinstance(entry, IncarnationFailed)]
        assert [(one.batch, one.disturbed) for one in failures] == [(-1, False)] * ATTEMPTS
        assert deployment.waiting_for().endswith(
            "the query failed again when no fault disturbed it any more: query 'q' failed: boo"
        )
