"""Queries on embedded Spark: the driver is killed at exact points, and the verdicts are what Spark's protocol says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from heard_late import hear_late
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.core.guarantees import exactly_once, exactly_once_output
from streamproof.harness.judging.outputs import deliveries
from streamproof.harness.judging.references import REFERENCES, SINK
from streamproof.harness.recording.folder import read_history
from streamproof.harness.recording.history import NodeGone, NodeUp, Placed
from streamproof.harness.recording.records import Delivered, EmptyBatch, Kept, Started
from streamproof.harness.running.judgement import judge_folder
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.harness.worlds.spark.queries import deployment as embedded_query
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.workloads import words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def statuses(finished: Finished) -> dict[str, str]:
    judgement = finished.judgement
    return {v.guarantee.name: v.status.value for v in judgement.verdicts + judgement.broken}


@pytest.fixture(
    scope="module", params=[pytest.param("query.word-count", marks=pytest.mark.long), "query.word-count-after-write"]
)
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A scenario of the library, run once."""
    registry = Registry()
    folder = tmp_path_factory.mktemp("query") / request.param
    return run_named(registry.scenario(request.param), EmbeddedCluster(), registry, seed=1, folder=folder)


def test_the_verdicts_are_as_expected(killed: Finished) -> None:
    expected = {
        "query.word-count": {"exactly-once": "HOLDS", "exactly-once-output": "HOLDS"},
        "query.word-count-after-write": {
            "exactly-once": "HOLDS",
            "rollback-recovery-repeating": "HOLDS",
            "exactly-once-output": "VIOLATED",
        },
    }[killed.description.scenario]
    assert statuses(killed) == expected
    assert killed.judgement.exit_status == 0
    for verdict in killed.judgement.broken:
        assert [str(tally.anomaly) for tally in verdict.anomalies] == ["duplicate-output"]
        assert all(evidence.what.startswith("batch 2 ") for evidence in verdict.anomalies[0].sample)


def test_the_driver_died_at_the_address_and_came_back(killed: Finished) -> None:
    (struck,) = killed.history.struck()
    point = {
        "query.word-count": "driver/0#1 before source-commit 2",
        "query.word-count-after-write": "driver/0#1 after sink-write 2",
    }[killed.description.scenario]
    assert (struck.address, struck.bite.bit, struck.bite.actors) == (point, True, ("driver",)), struck.bite.why_not
    # The driver, its JVM, and what the JVM started.
    assert len(struck.bite.pids) >= 3

    after = [entry for entry in killed.history.timeline if entry.stamp.at >= struck.stamp.at]
    seen = [entry for entry in after if isinstance(entry, NodeGone | NodeUp | Placed)]
    assert [type(entry) for entry in seen] == [NodeGone, NodeUp, Placed]
    started = [s.record for s in killed.history.records if isinstance(s.record, Started) and s.record.slice == "driver"]
    committed = {"query.word-count": 2, "query.word-count-after-write": 1}[killed.description.scenario]
    assert [(record.incarnation, record.restored) for record in started] == [(1, None), (2, (1, committed))]

    (recovery,) = killed.judgement.recoveries
    assert (recovery.actor, recovery.incarnation) == ("driver", 2)
    assert recovery.total is not None


def test_it_can_be_judged_again_and_nothing_is_left(killed: Finished) -> None:
    _, _, judgement = judge_folder(killed.folder, Registry())
    assert (judgement.verdicts, judgement.broken) == (killed.judgement.verdicts, killed.judgement.broken)
    assert labelled_processes(killed.description.run) == []
    assert not (killed.folder / "scratch").exists()


def test_no_token_is_in_the_logs(killed: Finished) -> None:
    logs = [path for path in (killed.folder / "logs").rglob("*") if path.is_file()]
    assert any("MicroBatchExecution" in log.read_text(errors="replace") for log in logs)
    assert not [log for log in logs if "token" in log.read_text(errors="replace").lower()]


EVENTS = 50


def run(query: Query, folder: Path) -> Finished:
    scenario = Scenario(query, words(events=EVENTS), claims=[exactly_once(), exactly_once_output()])
    return run_named(Named("test", "test", "", scenario), EmbeddedCluster(), Registry(), seed=1, folder=folder)


@pytest.mark.long
def test_without_a_fault_both_hold_however_late_the_harness_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear_late(monkeypatch, embedded_query, by=0.15)
    finished = run(query_word_count(batch_events=25), tmp_path / "run")
    assert statuses(finished) == {"exactly-once": "HOLDS", "exactly-once-output": "HOLDS"}
    assert finished.judgement.collation.inputs == EVENTS + 2, "two events close the input"
    assert {"rollback-recovery-repeating", "exactly-once-output"} == {str(g) for g in finished.judgement.strongest}
    assert labelled_processes(finished.description.run) == []


def fail_on_a_word(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    def fail(word: str) -> NoReturn:
        raise ValueError(f"cannot make anything of {word}")

    words = lines.select(f.udf(fail, "string")("value").alias("word"))
    return words.groupBy("word").count()


@pytest.mark.long
def test_a_query_that_fails_is_to_blame_itself(tmp_path: Path) -> None:
    query = replace(query_word_count(), transform=fail_on_a_word)
    with pytest.raises(
        InvalidOperator,
        match=r"'query-word-count' failed: ValueError: cannot make anything of w\d+ \(.*test_query.py, line \d+\)$",
    ):
        run(query, tmp_path / "run")
    assert labelled_processes("run") == []
    assert "InvalidOperator" in (tmp_path / "run" / "timeline.jsonl").read_text()


def names_a_column_twice(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return lines.select("key", f.col("value").alias("key"))


def test_a_column_of_a_name_that_another_has_is_refused_before_the_judged_run(tmp_path: Path) -> None:
    query = Query(names_a_column_twice, "twice", batch_events=40)
    with pytest.raises(InvalidOperator, match=r"'twice': its output .*: it has two columns of the name 'key'"):
        run(query, tmp_path / "run")
    records = read_history(tmp_path / "run").records
    assert not [s.record for s in records if isinstance(s.record, Delivered | EmptyBatch | Kept)]


def maps_of_the_first(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return lines.where("seq <= 40").select(f.create_map("seq", f.struct("timestamp", "value")).alias("m"))


@pytest.mark.long
def test_maps_by_numbers_are_recorded_and_so_are_batches_that_come_out_empty(tmp_path: Path) -> None:
    query = Query(maps_of_the_first, "maps", batch_events=40)
    finished = run(query, tmp_path / "run")
    assert statuses(finished) == {"exactly-once": "HOLDS", "exactly-once-output": "HOLDS"}
    given = {sink: deliveries(finished.history, sink) for sink in (*REFERENCES, SINK)}
    for found in given.values():
        assert [(one.batch, len(one.rows)) for one in found] == [(0, 40), (1, 0), (2, 0), (3, 0)]
    first = given[SINK][0].rows[0].key
    assert first.startswith('{"m":{"$map":[[1,{"timestamp":{"$timestamp":"')
