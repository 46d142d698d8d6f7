"""What the user's code was seen to do outside, of the attempts that a campaign has watched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from certified import unsealed
from profiles import FIVE, attempt_of, passed
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.conclusion import A_LINK, AT_THE_END, BETWEEN_BATCHES, IN_SPARK
from streamproof.harness.certifying.page import not_covered_said
from streamproof.harness.certifying.seen_outside import (
    is_of_spark_itself,
    linked_elsewhere,
    not_told_apart,
    of_any_run,
    unannounced_of,
    uncut_of,
    without_relayed,
    written_elsewhere,
)
from streamproof.harness.contracts.query import Query, Store
from streamproof.harness.core.addresses import DRIVER, Address, Point, Side
from streamproof.harness.crash_points.inside_python.consuming import READ
from streamproof.harness.crash_points.inside_python.effects import OutsideEffect
from streamproof.harness.crash_points.inside_python.following import Noted
from streamproof.harness.recording.records import Ended

LOG = OutsideEffect("file", "/var/log/x", "sinks.write:17")


def query(**more: object) -> Query:
    return Query(lambda frame: frame, **more)  # type: ignore[arg-type]


def noting(*noted: Noted) -> Attempt:
    return replace(attempt_of(FIVE), noted=list(noted))


def test_an_effect_is_said_once_as_often_as_one_attempt_has_it() -> None:
    attempts = [noting(Noted((LOG,)), Noted((replace_times(LOG, 2),))), noting(Noted((LOG,))), noting()]
    (found,) = uncut_of(query(), attempts)
    assert (found.name, found.place, found.times, found.accepted) == ("file /var/log/x", "sinks.write:17", 3, False)


def replace_times(effect: OutsideEffect, times: int) -> OutsideEffect:
    return OutsideEffect(effect.kind, effect.target, effect.place, times)


def test_what_is_done_in_the_sink_as_the_process_ends_is_an_effect_since_nobody_has_looked_at_it() -> None:
    """As what was in the memory of a file that nobody has closed; SQLite tidies up, and drafts go."""
    attempt = attempt_of(FIVE)
    ended = 1 + next(place for place, one in enumerate(attempt.records) if isinstance(one.record, Ended))
    for records, said in (
        (ended - 1, "write sink/rows"),
        (ended, "write sink/rows"),
        (ended, "rename sink/draft > sink/last rows"),
        (ended, "create sink/counts.db-wal"),
        (ended, "write sink/counts.db"),
        (ended, "rmdir sink/tmp*"),
        (ended, "write checkpoint/x"),
    ):
        address = Address(DRIVER, 1, Point.FILE, f"4/{said}#1", Side.AFTER)
        attempt.passed.append(Passed(address, 9, records, None))
    found = uncut_of(query(accepts=["exit sink/last*"]), [attempt])
    assert [(one.name, one.place, one.times, one.accepted) for one in found] == [
        ("exit sink/last rows", AT_THE_END, 1, True),
        ("exit sink/rows", AT_THE_END, 1, False),
    ]


def test_a_message_that_is_sent_or_answered_once_the_sink_has_done_its_batch_is_one_that_nobody_waits_for() -> None:
    attempt = attempt_of(FIVE)
    asked, answered, later, sign_of_life = (
        passed(Point.MESSAGE, side, f"3/{what}")
        for side, what in (
            (Side.BEFORE, "kafka Produce#1"),
            (Side.AFTER, "kafka Produce#1"),
            (Side.BEFORE, "kafka Produce#2"),
            (Side.BEFORE, "mongo burst#1"),
        )
    )
    waited = [passed(Point.MESSAGE, side, "3/web PUT /rows#1") for side in Side]
    by_a_source, again = ([passed(Point.MESSAGE, side, f"{batch}/db COMMIT#1") for side in Side] for batch in (0, 3))
    opening = [passed(Point.MESSAGE, side, "3/kafka InitProducerId#1") for side in Side]

    def at(point: Point, side: Side) -> int:
        return next(
            place
            for place, one in enumerate(attempt.passed)
            if (one.address.point, one.address.side, one.address.key) == (point, side, "3")
        )

    begun, done = at(Point.ADD_BATCH, Side.BEFORE), at(Point.ADD_BATCH, Side.AFTER)
    attempt.passed[done + 1 : done + 1] = [answered, later, sign_of_life, *again, *opening]
    attempt.passed[begun + 1 : begun + 1] = [asked, *waited]
    attempt.passed[:0] = by_a_source
    stores = (Store("kafka", lambda folders: None, address="127.0.0.1:9092", protocol="kafka"),)
    (found,) = uncut_of(query(stores=stores), [attempt])
    assert (found.name, found.place, found.times, found.accepted) == (
        "message kafka Produce",
        BETWEEN_BATCHES,
        2,
        False,
    )
    (said, *_) = not_covered_said(unsealed(uncut=(found,)))
    assert said.startswith("Cut by no crash: what becomes of kafka Produce when it is sent later than it was here.")
    assert 'accepts=("message kafka Produce",)' in said
    (accepted,) = uncut_of(query(stores=stores, accepts=["message kafka *"]), [attempt])
    assert accepted.accepted


def test_what_spark_keeps_in_a_folder_of_a_session_of_its_own_is_nothing_outside(tmp_path: Path) -> None:
    """As what a state store on RocksDB loads from a checkpoint; what anybody else leaves beside that is."""
    own = "spark-b7a974eb-17dc-4ee6-a8cf-00ad6545d3b1/StateStoreId(opId=0,partId=0,name=default)/workingDir/000012.sst"

    assert is_of_spark_itself(f"{tmp_path}/worker-0.session-1/{own}", tmp_path)
    assert is_of_spark_itself(f"file:{tmp_path}/worker-0.session-1/{own}", tmp_path)
    for other in (
        f"/var/{own}",
        f"{tmp_path}/worker-0.session-1/spark-warehouse/table/part-0",
        f"{tmp_path}/worker-0.session-1/part-0",
        f"{tmp_path.parent}/worker-0.session-1/{own}",
        f"{tmp_path}/worker-0.session-1/spark-b7a974eb-17dc-4ee6-a8cf-00ad6545d3b1",
    ):
        assert not is_of_spark_itself(other, tmp_path), other


def test_a_program_that_spark_has_rows_go_through_is_a_process() -> None:
    (effect,) = written_elsewhere("process tee").effects
    assert (effect.kind, effect.target, effect.place) == ("process", "tee", IN_SPARK)


def test_it_is_accepted_by_its_name_alone() -> None:
    attempts = [noting(Noted((LOG,)))]
    assert [one.accepted for one in uncut_of(query(accepts=["file /var/log/*"]), attempts)] == [True]
    assert [one.accepted for one in uncut_of(query(accepts=["connection /var/log/x"]), attempts)] == [False]


@pytest.mark.parametrize("name", ["file /data/rows[1].csv", "process cat (not waited for)"])
def test_what_is_accepted_as_a_certificate_names_it_is_accepted(name: str) -> None:
    kind, _, target = name.partition(" ")
    attempts = [noting(Noted((OutsideEffect(kind, target, "sinks.write:17"),)))]
    assert [(one.name, one.accepted) for one in uncut_of(query(accepts=[name]), attempts)] == [(name, True)]


def test_a_file_that_is_there_for_a_while_counts_where_another_attempt_calls_it_alike() -> None:
    draft, drawn = (OutsideEffect("file", f"/var/tmp/{name}", "sinks.write:17", passing=True) for name in "xy")
    attempts = [noting(Noted((draft, drawn))), noting(Noted((replace_times(draft, 2), draft))), noting()]
    assert [one.name for one in uncut_of(query(), attempts)] == ["file /var/tmp/x"]
    assert uncut_of(query(), attempts[:1]) == ()


@pytest.mark.parametrize(
    ("text", "target"),
    [("/data/lake", "/data/lake"), ("../../lake", "/mnt/lake"), ("../sink/rows", ""), ("/mnt/run/sink/rows", "")],
)
def test_a_link_that_leads_out_of_the_runs_folders_is_an_effect_since_nobody_sees_what_is_written_there(
    tmp_path: Path, text: str, target: str
) -> None:
    (tmp_path / "sink").mkdir()
    (tmp_path / "sink" / "way").symlink_to(text)
    found = linked_elsewhere("symlink sink/way", tmp_path, Path("/mnt/run"))
    assert found == (Noted((OutsideEffect("file", target, A_LINK),)) if target else None)
    assert linked_elsewhere("symlink sink/gone", tmp_path, Path("/mnt/run")) is None
    assert linked_elsewhere("create sink/way", tmp_path, Path("/mnt/run")) is None


def test_a_process_that_was_not_waited_for_is_said_to_be_one() -> None:
    process = OutsideEffect("process", "cat (not waited for)", "sinks.work:17")
    (found,) = uncut_of(query(accepts=["process cat"]), [noting(Noted((process,)))])
    (said, *_) = not_covered_said(unsealed(uncut=(found,)))
    assert said.startswith(
        "Cut by no crash: what process cat (not waited for) does later than it did here. It was started"
    )
    assert 'Wait for it before that, or accept it: Query(..., accepts=("process cat (not waited for)",))' in said


def test_a_thread_that_nobody_has_to_wait_for_is_said_to_be_one() -> None:
    thread = OutsideEffect("thread", "sinks.work", "sinks.work:17")
    (found,) = uncut_of(query(), [noting(Noted((thread, thread)))])
    (said, *_) = not_covered_said(unsealed(uncut=(found,)))
    assert said.startswith("Cut by no crash: what thread sinks.work does later than it did here. It has begun in sinks")
    assert 'accepts=("thread sinks.work",)' in said
    (accepted,) = uncut_of(query(accepts=["thread sinks.*"]), [noting(Noted((thread,)))])
    assert accepted.accepted


@pytest.mark.parametrize("stores", [(), (Store("their-table", lambda folders: None),)], ids=["copied", "killed"])
def test_what_is_left_to_the_exit_of_a_process_is_said_to_be_looked_at_by_no_run(stores: tuple[Store, ...]) -> None:
    at_exit = OutsideEffect("exit", "sinks.flush", "sinks.work:17")
    (found,) = uncut_of(query(stores=stores), [noting(Noted((at_exit,)))])
    (said, *_) = not_covered_said(unsealed(uncut=(found,)))
    assert said.startswith("Cut by no crash, and looked at by no run: what sinks.flush does when the process exits.")
    assert 'Do it within the batch, or accept it: Query(..., accepts=("exit sinks.flush",))' in said
    (accepted,) = uncut_of(query(accepts=["exit sinks.*"]), [noting(Noted((at_exit,)))])
    assert accepted.accepted


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("file:/data/out/part-0.parquet", "/data/out"),
        ("file:/data/out/_temporary/0/_temporary/attempt_1/part-0.parquet", "/data/out"),
        ("file:/data/out/.spark-staging-1/k=1/part-0.parquet", "/data/out"),
        ("s3a://bucket/out/part-0.parquet", "s3a://bucket/out"),
        ("file:/data/out/_temporary/0/", "/data/out"),
        ("file:/data/locks/", "/data/locks"),
        ("s3a://bucket/locks/", "s3a://bucket/locks"),
    ],
)
def test_what_the_jvm_writes_goes_by_the_folder_that_it_is_for_and_a_folder_by_itself(path: str, target: str) -> None:
    (effect,) = written_elsewhere(path).effects
    assert (effect.kind, effect.target, effect.place, effect.times) == ("file", target, "Spark's JVM", 1)


LEDGER = OutsideEffect("connection", "127.0.0.1:8099", "sinks.write:18")
ORDERS = Store("orders", lambda folders: None, address="127.0.0.1:5433", protocol="postgres")
THEIRS = Store("their-table", lambda folders: None)


def test_beside_stores_that_say_where_they_are_whatever_else_is_reached_is_cut_by_nothing() -> None:
    """A lost answer, above all: no relay is in between."""
    found = uncut_of(query(stores=(ORDERS,)), [noting(Noted((LEDGER, LOG)))])
    assert [one.name for one in found] == ["connection 127.0.0.1:8099", "file /var/log/x"]
    assert not_told_apart(query(stores=(ORDERS,)), [noting(Noted((LEDGER,)))]) == ()


@pytest.mark.parametrize(
    "own", [{"stores": (THEIRS,)}, {"stores": (ORDERS, THEIRS)}, {"source": lambda spark, folders: None}]
)
def test_what_may_be_the_source_or_a_store_without_an_address_is_said_and_leaves_no_claim_open(
    own: dict[str, object],
) -> None:
    attempts = [noting(Noted((LEDGER, LOG)))]
    assert uncut_of(query(**own), attempts) == ()
    assert [one.target for one in not_told_apart(query(**own), attempts)] == ["127.0.0.1:8099", "/var/log/x"]
    assert not_told_apart(query(**own, accepts=["file /var/*", "connection *"]), attempts) == ()


def test_its_read_may_reach_a_declared_store_as_it_likes_and_its_code_may_not() -> None:
    for target in ("127.0.0.1:5433", "::1:5433", "localhost:5433"):
        read, written = (OutsideEffect("connection", target, place) for place in (READ, "sinks.write:18"))
        assert uncut_of(query(stores=(ORDERS,)), [noting(Noted((read,)))]) == ()
        assert [one.place for one in uncut_of(query(stores=(ORDERS,)), [noting(Noted((written,)))])] == [written.place]
    assert uncut_of(query(stores=(ORDERS,)), [noting(Noted((OutsideEffect("connection", "db:5434", READ),)))])


@pytest.mark.parametrize("named", ["127.0.0.2:4111", "jdbc:postgresql://127.0.0.2:4111/rows"])
def test_what_goes_by_way_of_the_harness_is_no_effect(named: str) -> None:
    relayed = OutsideEffect("connection", named, "sinks.write:19")
    assert without_relayed(Noted((relayed, LEDGER)), {"127.0.0.2:4111"}) == Noted((LEDGER,))
    for other in ("127.0.0.2:411", "27.0.0.2:4111", "127.0.0.2:41111"):
        assert without_relayed(Noted((relayed,)), {other}) == Noted((relayed,))


def test_lines_that_were_not_announced_are_those_of_the_attempt_that_has_most() -> None:
    assert unannounced_of([noting(Noted(unannounced=2), Noted(unannounced=3)), noting(Noted(unannounced=4))]) == 5
    assert unannounced_of([]) == 0


def test_it_comes_first_of_what_is_not_covered() -> None:
    said = list(not_covered_said(unsealed(uncut=uncut_of(query(), [noting(Noted((LOG,)))]))))
    assert said[0].startswith("Cut by no crash: file /var/log/x; the query's code does this in sinks.write:17, 1 time")
    assert 'accepts=("file /var/log/x",)' in said[0]


@pytest.mark.parametrize(
    ("kind", "target", "advice"),
    [
        ("file", "/var/log/x", "Keep it in the folders of the run, or accept it"),
        (
            "connection",
            "db:5432",
            "Say where the store is, by Store(..., address=...) and folders.reach(...), or accept it",
        ),
        ("process", "tee", "Accept it where it leaves nothing outside of the run's folders"),
    ],
)
def test_what_can_be_done_about_it_is_said_with_it(kind: str, target: str, advice: str) -> None:
    effect = OutsideEffect(kind, target, "sinks.write:17")
    said = list(not_covered_said(unsealed(uncut=uncut_of(query(), [noting(Noted((effect,)))]))))
    assert f'. {advice}: Query(..., accepts=("{kind} {target}",))' in said[0]


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("jdbc:derby:/var/lib/rows;create=true;password=x", "jdbc:derby:/var/lib/rows"),
        ("jdbc:postgresql://db:5432/rows?user=me&password=x", "jdbc:postgresql://db:5432/rows"),
        ("jdbc:mysql://me:x@db/rows", "jdbc:mysql:…@db/rows"),
        ("jdbc:oracle:thin:me/x@db:1521:rows", "jdbc:oracle:…@db:1521:rows"),
    ],
)
def test_a_database_that_spark_connects_to_is_an_effect_without_who_logs_in(url: str, named: str) -> None:
    (effect,) = written_elsewhere(url).effects
    assert (effect.kind, effect.target) == ("connection", named)


def test_what_has_the_runs_label_in_its_name_is_called_the_same_in_every_run_and_so_can_be_accepted() -> None:
    attempts = [
        noting(of_any_run(Noted((OutsideEffect("file", f"/data/{label}-0", "sinks.write:17"),)), label))
        for label in ("one-worker-0", "one-worker-1")
    ]
    (found,) = uncut_of(query(), attempts)
    assert found.name == "file /data/*-0"
    assert [one.accepted for one in uncut_of(query(accepts=[found.name]), attempts)] == [True]
