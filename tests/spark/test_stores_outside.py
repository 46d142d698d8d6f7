"""Sinks that write to real stores outside, certified by kills at their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_broker import kafka_broker
from killed_queries import addresses, killed, verdict
from outside_sinks import (
    CommitsInTwo,
    adding_to_counts,
    counting_by_batch,
    from_tasks,
    in_one_transaction,
    in_two_transactions,
    kafka_query,
    looking_away,
    nothing,
    postgres_query,
    posting_to_one_place,
    read_counts,
    read_one_place,
    reset_one_place,
    retrying_with_key,
    retrying_without_key,
    source_query,
    to_one,
    to_two,
    web_query,
)
from postgres_server import postgres_server, why_no_postgres
from streamproof.faults.crash import crash
from streamproof.faults.executor_crash import executor_crash
from streamproof.faults.lost_answer import lost_answer
from streamproof.faults.lost_request import lost_request
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import Certified, certify
from streamproof.harness.certifying.plan import Victim
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.contracts.query import Query, RunFolders, Store
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.errors import InvalidOperator, MissingTool, StoreUnreachable
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.folder import read_history
from streamproof.harness.recording.history import Aborted, Drained, NodeGone
from streamproof.harness.running.run import Finished
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.scenarios.workloads import words
from web_store import web_store
from wrong_sinks import by_batch

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    with web_store() as port:
        yield port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    if reason := why_no_postgres():
        pytest.skip(reason)
    with postgres_server() as port:
        yield port


HOUR = Budget(minutes=60, kills=0)


@pytest.fixture(scope="module")
def broker() -> Iterator[int]:
    try:
        with kafka_broker() as port:
            yield port
    except MissingTool as error:
        pytest.skip(str(error))


def certified(query: Query, folder: Path, *victims: Victim, budget: Budget | None = None) -> Certified:
    registry = Registry()
    found = certify(
        query,
        (),
        every_crash_point(*victims, recovering=False, split_brain=False),
        workload=words(events=query.batch_events),
        cluster=EmbeddedCluster(),
        registry=registry,
        budget=budget or Budget(minutes=6, kills=0),
        folder=folder / "certificate",
    )
    assert judge_certificate(found.folder, registry.oracles).differences == ()
    return found


def statuses(found: Certified) -> dict[str, Status]:
    """By guarantee: the time that `recovers` states is longer on a slower machine."""
    return {verdict.claim.partition(" ")[0]: verdict.status for verdict in found.certificate.verdicts}


def test_a_sink_that_commits_in_two_transactions_loses_a_batch_where_it_dies_between_them(
    port: int, tmp_path: Path
) -> None:
    fault = crash("driver").at(message("1/postgres COMMIT#1", "driver"))
    _, found = under(tmp_path, postgres_query(in_two_transactions, port), fault)
    assert found == "VIOLATED"


@pytest.mark.long
def test_a_sink_that_commits_in_two_transactions_is_refuted_between_them(port: int, tmp_path: Path) -> None:
    found = certified(postgres_query(in_two_transactions, port), tmp_path, Victim.DRIVER)
    assert statuses(found)["exactly-once"] is Status.VIOLATED, found.certificate.verdicts
    shown = found.certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert crash.point is Point.MESSAGE
    assert (crash.side, crash.name) in BETWEEN
    assert crash.name in str(crash)


BETWEEN = {
    (Side.AFTER, "postgres COMMIT#1"),
    (Side.BEFORE, "postgres INSERT lines#1"),
    (Side.AFTER, "postgres INSERT lines#1"),
    (Side.BEFORE, "postgres COMMIT#2"),
}


@pytest.mark.long
def test_its_twin_holds_wherever_it_dies_between_messages(port: int, tmp_path: Path) -> None:
    moments = [
        message("0/postgres COMMIT#1", "driver", Side.BEFORE),
        message("1/postgres INSERT batches#1", "driver"),
        message("2/postgres INSERT lines#1", "driver", Side.BEFORE),
        message("3/postgres COMMIT#1", "driver"),
    ]
    faults = [crash("driver").at(moment) for moment in moments]
    _, found = under(tmp_path, postgres_query(in_one_transaction, port), *faults)
    assert found == "HOLDS"


@pytest.mark.long
def test_where_a_data_source_commits_each_line_is_a_crash_point(port: int, tmp_path: Path) -> None:
    code = CommitsInTwo.between.__code__
    line = f"1/outside_sinks.CommitsInTwo.between:{code.co_firstlineno + 2}#1"
    fault = crash("driver").at(Moment(Point.LINE, Side.BEFORE, line, "driver"))
    _, found = under(tmp_path, source_query(to_two, port), fault)
    assert found == "VIOLATED"


@pytest.mark.long
def test_a_data_source_that_commits_in_two_transactions_is_refuted_between_them(port: int, tmp_path: Path) -> None:
    found = certified(source_query(to_two, port), tmp_path, Victim.DRIVER)
    assert statuses(found)["exactly-once"] is Status.VIOLATED, found.certificate.verdicts
    shown = found.certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert (crash.side, crash.name) in BETWEEN or "CommitsInTwo" in crash.name, crash


@pytest.mark.long
def test_a_data_source_that_commits_in_one_is_certified(port: int, tmp_path: Path) -> None:
    found = certified(source_query(to_one, port), tmp_path, Victim.DRIVER, budget=HOUR)
    assert set(statuses(found).values()) == {Status.HOLDS}, found.certificate.verdicts
    assert any("CommitsInTwo.commit" in one.crash.name for one in found.certificate.plan)


@pytest.mark.long
def test_its_twin_is_certified(port: int, tmp_path: Path) -> None:
    found = certified(postgres_query(in_one_transaction, port), tmp_path, Victim.DRIVER, budget=HOUR)
    assert set(statuses(found).values()) == {Status.HOLDS}, found.certificate.verdicts


@pytest.mark.long
def test_a_sink_that_keeps_its_rows_in_files_shares_no_store_that_it_reads_from(tmp_path: Path) -> None:
    """The store is its source's, say, as a topic is: what it has written lies in the run's folders."""
    query = replace(by_batch, stores=(Store("topic", nothing),), claims=(exactly_once(),))
    found = certified(query, tmp_path, Victim.DRIVER, budget=Budget(runs=1, kills=0))
    assert Status.VIOLATED not in statuses(found).values()


@pytest.mark.long
def test_a_sink_that_asks_again_under_the_same_key_is_certified(web: int, tmp_path: Path) -> None:
    found = certified(web_query(retrying_with_key, web), tmp_path, Victim.DRIVER, budget=HOUR)
    assert set(statuses(found).values()) == {Status.HOLDS}, found.certificate.verdicts


def under(folder: Path, query: Query, *faults: Fault) -> tuple[Finished, str]:
    finished = killed(folder / "run", EmbeddedCluster(), query, *faults, batches=2)
    assert len(addresses(finished)) == len(faults)
    assert labelled_processes(finished.description.run) == []
    return finished, verdict(finished)


def message(key: str, actor: str, side: Side = Side.AFTER) -> Moment:
    return Moment(Point.MESSAGE, side, key, actor)


@pytest.mark.long
@pytest.mark.parametrize(("sink", "comes_to"), [(retrying_without_key, "VIOLATED"), (retrying_with_key, "HOLDS")])
def test_an_answer_is_lost_and_the_sink_asks_again(
    sink: Callable[..., None], comes_to: str, web: int, tmp_path: Path
) -> None:
    fault = lost_answer("driver").at(message("1/web POST /orders#1", "driver"))
    _, found = under(tmp_path, web_query(sink, web), fault)
    assert found == comes_to


@pytest.mark.long
def test_a_request_is_lost_and_the_sink_asks_again(web: int, tmp_path: Path) -> None:
    fault = lost_request("driver").at(message("1/web POST /orders#1", "driver", Side.BEFORE))
    finished, found = under(tmp_path, web_query(retrying_with_key, web), fault)
    assert found == "HOLDS"
    (struck,) = finished.history.struck()
    assert struck.bite.why_not == ""


@pytest.mark.long
@pytest.mark.parametrize(
    ("sink", "comes_to"), [(retrying_without_key, Status.VIOLATED), (retrying_with_key, Status.HOLDS)]
)
def test_a_sink_that_asks_again_without_a_key_is_refuted_by_an_answer_that_is_lost(
    sink: Callable[..., None], comes_to: Status, web: int, tmp_path: Path
) -> None:
    found = certified(web_query(sink, web), tmp_path, Victim.ANSWER)
    assert statuses(found)["exactly-once"] is comes_to, found.certificate.verdicts
    for trial in found.certificate.trials:
        history = read_history(found.folder / trial.folder)
        (struck,) = history.struck()
        assert struck.bite.proof is not None
        assert struck.bite.proof.what.startswith("bytes of an answer")
        # It lived on.
        assert not any(isinstance(entry, NodeGone) for entry in history.timeline)
    shown = found.certificate.counterexample
    if comes_to is Status.VIOLATED:
        assert shown is not None
        assert "web POST /orders#1 of the driver is lost" in str(shown.crashes[0])


@pytest.mark.long
def test_a_sink_that_looks_away_is_refuted_by_a_request_that_is_lost(web: int, tmp_path: Path) -> None:
    found = certified(web_query(looking_away, web), tmp_path, Victim.REQUEST)
    assert statuses(found)["exactly-once"] is Status.VIOLATED, found.certificate.verdicts
    for trial in found.certificate.trials:
        (struck,) = read_history(found.folder / trial.folder).struck()
        assert struck.bite.proof is not None
        assert struck.bite.proof.what.startswith("requests lost")
    shown = found.certificate.counterexample
    assert shown is not None
    assert shown.anomaly == "lost-input"


@pytest.mark.parametrize(
    ("reset", "shows"),
    [
        pytest.param(
            reset_one_place,
            r"of \d+ rows that a run had left, others had been made once another was reset",
            marks=pytest.mark.long,
        ),
        (nothing, r"\d+ rows could be read right after a reset for a run of its own"),
    ],
)
def test_a_store_that_all_runs_share_is_refused(
    reset: Callable[[RunFolders], None], shows: str, tmp_path: Path
) -> None:
    """They would see what others do."""
    with web_store() as port:
        query = web_query(posting_to_one_place, port, read_one_place, reset)
        with pytest.raises(InvalidOperator, match=f"not kept apart in its stores: {shows}"):
            certified(query, tmp_path, Victim.DRIVER)


@pytest.mark.long
def test_a_store_that_goes_away_is_no_fault_of_the_query(tmp_path: Path) -> None:
    """It can come to no end any more, and is not blamed for that."""
    fault = crash("driver").at(message("0/web POST /orders#1", "driver"))
    with ExitStack() as stack:
        query = web_query(retrying_with_key, stack.enter_context(web_store()))

        def close_after_it(address: Address) -> None:
            if address.key == "1":
                stack.close()

        with pytest.raises(StoreUnreachable, match="the store web at"):
            killed(tmp_path / "run", EmbeddedCluster(), query, fault, batches=4, passed=close_after_it)
    history = read_history(tmp_path / "run")
    assert [type(entry) for entry in history.timeline if isinstance(entry, (Aborted, Drained))] == [Aborted]


@pytest.mark.long
@pytest.mark.parametrize(("sink", "comes_to"), [(adding_to_counts, "VIOLATED"), (counting_by_batch, "HOLDS")])
def test_what_adds_is_refuted_by_a_death_after_its_commit(
    sink: Callable[..., None], comes_to: str, port: int, tmp_path: Path
) -> None:
    fault = crash("driver").at(message("1/postgres COMMIT#1", "driver"))
    _, found = under(tmp_path, postgres_query(sink, port, read_counts, ("word",)), fault)
    assert found == comes_to


@pytest.mark.long
@pytest.mark.parametrize(("side", "comes_to"), [(Side.BEFORE, "HOLDS"), (Side.AFTER, "VIOLATED")])
def test_what_a_task_sends_is_lost_with_its_executor_before_and_is_done_after(
    side: Side, comes_to: str, port: int, tmp_path: Path
) -> None:
    fault = executor_crash("task").at(message("1/postgres INSERT lines#1", "task", side))
    _, found = under(tmp_path, postgres_query(from_tasks, port), fault)
    assert found == comes_to


@pytest.mark.long
@pytest.mark.parametrize(("side", "comes_to"), [(Side.BEFORE, "HOLDS"), (Side.AFTER, "VIOLATED")])
def test_what_sparks_connector_sends_to_kafka_is_held_too(
    side: Side, comes_to: str, broker: int, tmp_path: Path
) -> None:
    fault = executor_crash("task").at(message("1/kafka Produce#1", "task", side))
    _, found = under(tmp_path, kafka_query(broker), fault)
    assert found == comes_to
