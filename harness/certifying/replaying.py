"""Runs a saved schedule again, with the query found where it was certified, or as it is handed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..contracts.cluster import Cluster
from ..contracts.registry import Registry
from ..core.errors import ExitStatus, InvalidCounterexample
from ..core.verdicts import Status
from ..core.workload import Workload
from .rejudging import JudgedRun
from .saved import SavedSchedule, read_saved, replay_saved
from .subjects import QueryShape, QuerySubject, as_subject, load_subject, load_workload, on_spark, usual_workload


def replay_file(
    path: Path, cluster: Cluster, registry: Registry, folder: Path, made: Any = None, workload: Workload | None = None
) -> JudgedRun:
    """`made` is what was certified, as `as_subject` takes it; left out, the file says where that is.

    Raises InvalidCounterexample, UnknownCounterexampleVersion, ScenarioChanged where code or input are others now, and
    what loading the query raises.
    """
    saved = read_saved(path)
    subject = _subject(path, saved, registry, made)
    asked_for = load_workload(saved.fed_from) if workload is None and saved.fed_from else workload
    fed = asked_for or subject.workload or usual_workload(subject.query)
    return replay_saved(saved, subject.query, fed, cluster, registry, folder)


def _subject(path: Path, saved: SavedSchedule, registry: Registry, made: Any) -> QuerySubject:
    facts = saved.subject
    shape = QueryShape(str(facts.get("mode", "")), tuple(facts.get("key", ())), str(facts.get("schema", "")))
    if made is not None:
        return as_subject(made, shape, lenient=True)
    if not saved.origin:
        raise InvalidCounterexample(
            f"{path} is of a query that was made in a program and has no name; replay it in a test, with the query: "
            "streamproof.survives(file, query)"
        )
    return on_spark(load_subject(saved.origin, registry, shape, lenient=True), str(facts.get("spark", "")))


def status_of(judged: JudgedRun) -> ExitStatus:
    """VIOLATED outranks UNKNOWN, which outranks HOLDS."""
    statuses = {verdict.status for verdict in judged.verdicts}
    if Status.VIOLATED in statuses:
        return ExitStatus.VIOLATED
    return ExitStatus.UNKNOWN if Status.UNKNOWN in statuses else ExitStatus.HOLDS
