"""A driver that has several runs to run leaves each to a process of its own, without Spark."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamproof.harness.contracts.query import Query, RunFolders
from streamproof.harness.contracts.query_parts import as_it_comes
from streamproof.harness.worlds.spark.queries import driver
from streamproof.harness.worlds.spark.queries.driver_plan import QueryPlan, QueryRun, RunKind, write_query_plan

JVM = {"PYSPARK_GATEWAY_PORT": "4711"}


class Session:
    """In the place of the one that is brought up."""

    def __init__(self) -> None:
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


def run_of(folder: Path, actor: str) -> QueryRun:
    folders = RunFolders(actor, folder / f"{actor}.sink", folder / actor)
    return QueryRun(actor, actor, folders, folder / "source")


def plan_of(folder: Path, *actors: str) -> Path:
    runs = tuple(run_of(folder, actor) for actor in actors)
    plan = QueryPlan("token", ("127.0.0.1", 1), "references", 1, Query(as_it_comes, "q"), (), runs)
    return write_query_plan(folder / "plan.pickle", plan)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Session:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["driver", "plan"])
    session = Session()
    monkeypatch.setattr(driver, "_session", lambda head: session)
    monkeypatch.setattr(driver, "gateway_of", lambda spark: JVM)
    monkeypatch.setattr(driver, "answer_with_stacks", lambda path: None)
    return session


@pytest.mark.parametrize(("statuses", "run", "ends_with"), [([0, 0], ["0", "1"], 0), ([3], ["0"], 3)])
def test_each_run_has_a_process_that_attaches_until_one_fails(
    statuses: list[int],
    run: list[str],
    ends_with: int,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    begun: list[str] = []

    def live(command: list[str], env: Mapping[str, str], **more: Any) -> Any:
        assert command[-1] == str(path)
        assert env.items() >= JVM.items()
        begun.append(env["STREAMPROOF_RUN_NUMBER"])
        return SimpleNamespace(returncode=statuses[len(begun) - 1])

    path = plan_of(tmp_path, "reference-1", "reference-2")
    monkeypatch.setattr(subprocess, "run", live)
    assert driver.main(str(path)) == ends_with
    assert begun == run
    assert session.stopped == 1


@pytest.mark.parametrize(("number", "actor"), [("0", "reference-1"), ("1", "reference-2")])
def test_a_process_of_one_run_says_that_it_begins_and_has_the_warehouse_of_that(
    number: str, actor: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Stop(Exception):
        pass

    said: list[Any] = []
    warehouses: list[Path] = []

    def attached(warehouse: Path) -> Any:
        warehouses.append(warehouse)
        raise Stop

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["driver", "plan"])
    monkeypatch.setenv("STREAMPROOF_RUN_NUMBER", number)
    monkeypatch.setattr(driver, "answer_with_stacks", lambda path: None)
    monkeypatch.setattr(driver, "DriverLink", lambda head: SimpleNamespace(send=said.append))
    monkeypatch.setattr(driver, "attached_session", attached)
    with pytest.raises(Stop):
        driver.main(str(plan_of(tmp_path, "reference-1", "reference-2")))
    assert [one.slice for one in said] == [actor]
    assert warehouses == [run_of(tmp_path, actor).folders.warehouse]


def test_a_driver_of_one_run_runs_it_itself(session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver, "_run", lambda head, file: len(head.actors))
    assert driver.main(str(plan_of(tmp_path, "driver"))) == 1
    assert session.stopped == 0


@pytest.mark.parametrize(("version", "own"), [("3.5.9", True), ("4.3.0", False)])
@pytest.mark.parametrize("attaches", [True, False])
def test_an_attempt_in_a_warm_session_uses_no_worker_again_that_was_ended_before_it(
    version: str, own: bool, attaches: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environments: list[dict[str, str]] = []

    def live(spark: Any, plan: QueryPlan, run: QueryRun, link: Any) -> None:
        environments.append(dict(spark.sparkContext.environment))

    monkeypatch.setattr(driver, "_register_source", lambda spark: None)
    monkeypatch.setitem(driver._RUNS, RunKind.STREAM, live)
    run, query = run_of(tmp_path, "driver"), Query(as_it_comes, "q")
    for name in ("life-1", "life-2"):
        plan = QueryPlan("token", ("127.0.0.1", 1), name, 1, query, (), (run,), attaches=attaches)
        spark: Any = SimpleNamespace(version=version, sparkContext=SimpleNamespace(environment={}))
        with write_query_plan(tmp_path / "plan.pickle", plan).open("rb") as file:
            driver._run_planned(pickle.load(file), file, spark, SimpleNamespace(), 0)  # type: ignore[arg-type]
    # Spark keeps Python workers for those who have the same environment.
    assert (environments[0] != environments[1]) is (own and attaches)
