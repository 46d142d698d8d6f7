"""A schedule that violates a claim of a query is written down, and run again as it was."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certified import CLAIMS, crash_at, write_run
from streamproof.harness.certifying import saved as saved_schedules
from streamproof.harness.certifying.attempts import Passed
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.plan import Victim
from streamproof.harness.certifying.request import CampaignRequest
from streamproof.harness.certifying.saved import (
    KIND,
    VERSION,
    SavedSchedule,
    is_saved,
    read_saved,
    replay_saved,
    write_saved,
)
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.core.addresses import Address, Point, Side
from streamproof.harness.core.errors import (
    InvalidCounterexample,
    MissingTool,
    ScenarioChanged,
    StorageFailed,
    UnknownCounterexampleVersion,
)
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.recording.claims_and_faults import SavedClaim
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.workloads import words

WORKLOAD = words(events=60)
QUERY = query_word_count(batch_events=20)
PLANNED = (Planned(crash_at(1)), Planned(crash_at(2, point=Point.ADD_BATCH, side=Side.AFTER), split_brain=True))


def saved(query: Query = QUERY, **changes: Any) -> SavedSchedule:
    certified = replace(query, settings={"spark.sql.shuffle.partitions": "2"})
    facts: dict[str, Any] = {
        "kind": KIND,
        "version": VERSION,
        "origin": "streamproof.scenarios.query_word_count:query_word_count",
        "subject": certified.describe(),
        "workload": WORKLOAD.name,
        "fed_from": "",
        "seed": 3,
        "workload_seed": 11,
        "events": 6,
        "batch_events": 3,
        "claims": tuple(map(SavedClaim.of, CLAIMS)),
        "planned": PLANNED,
    }
    return SavedSchedule(**{**facts, **changes})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "counterexample.json"
    write_saved(path, saved())
    return path


def test_what_is_written_is_read_again(file: Path) -> None:
    assert read_saved(file) == saved()
    assert is_saved(file)


def test_it_holds_no_secrets(tmp_path: Path) -> None:
    query = replace(QUERY, secrets={"spark.hadoop.fs.s3a.secret.key": "hunter2"})
    write_saved(tmp_path / "file", saved(query))
    assert "hunter2" not in (tmp_path / "file").read_text()
    assert "secret.key" in (tmp_path / "file").read_text()


def test_another_version_is_refused_before_anything_else_is_read(file: Path) -> None:
    file.write_text('{"kind": "crashes-of-a-query", "version": 99, "schedule": []}')
    with pytest.raises(UnknownCounterexampleVersion, match=r"has version 99; this streamproof reads version 2"):
        read_saved(file)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"kind": "\xff"}', b"[" * 100_000])
def test_what_is_none_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert not is_saved(file)
    with pytest.raises(InvalidCounterexample):
        read_saved(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert not is_saved(tmp_path / "none")
    with pytest.raises(InvalidCounterexample, match="cannot be read"):
        read_saved(tmp_path / "none")


def test_a_place_that_cannot_be_written_is_a_storage_failure(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="cannot write"):
        write_saved(tmp_path / "none" / "file", saved())


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_found_or_harmless(file: Path, data: st.DataObject) -> None:
    content = bytearray(msgspec.json.encode(saved()))
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] = data.draw(st.integers(0, 255))
    file.write_bytes(content)
    with suppress(InvalidCounterexample):
        assert isinstance(read_saved(file), SavedSchedule)


@pytest.mark.parametrize("field", [name for name in SavedSchedule.__struct_fields__ if name != "version"])
def test_a_part_that_is_missing_is_named(file: Path, field: str) -> None:
    content = msgspec.to_builtins(saved())
    del content[field]
    file.write_bytes(msgspec.json.encode(content))
    with pytest.raises(InvalidCounterexample, match=f"damaged.*{field}"):
        read_saved(file)


# Run again


class Runs:
    """Writes a run instead of carrying it out."""

    def __init__(self) -> None:
        self.named: list[tuple[Named, int]] = []

    def __call__(
        self,
        folder: Path,
        named: Named,
        planned: Sequence[Planned],
        cluster: object,
        registry: Registry,
        references: Sequence[object],
        seed: int,
    ) -> None:
        self.named.append((named, seed))
        assert references == ()
        write_run(folder, *(one.crash for one in planned), subject=named.scenario.subject.describe())


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    found = Runs()
    monkeypatch.setattr(saved_schedules, "kill", found)
    return found


def replayed(saved: SavedSchedule, tmp_path: Path, query: Query = QUERY, workload: Workload = WORKLOAD) -> Any:
    return replay_saved(saved, query, workload, EmbeddedCluster(), Registry(), tmp_path / "run")


def test_it_runs_on_the_input_and_with_the_settings_that_it_was_found_with(runs: Runs, tmp_path: Path) -> None:
    judged = replayed(saved(), tmp_path)
    assert {verdict.status for verdict in judged.verdicts} == {Status.HOLDS}
    ((named, seed),) = runs.named
    query, scenario = named.scenario.subject, named.scenario
    assert isinstance(query, Query)
    assert (query.batch_events, query.settings) == (3, {"spark.sql.shuffle.partitions": "2"})
    assert (scenario.workload.events, scenario.workload.seed, seed) == (6, 11, 3)
    assert (named.name, named.origin) == (QUERY.name, saved().origin)
    assert tuple(scenario.claimed) == CLAIMS
    assert judged.description.run == "run"


def test_what_it_is_judged_by_are_its_crashes(runs: Runs, tmp_path: Path) -> None:
    def strikes_elsewhere(folder: Path, named: Named, planned: Sequence[Planned], *rest: object) -> None:
        runs(folder, named, [Planned(crash_at(0))], *rest)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(saved_schedules, "kill", strikes_elsewhere)
        judged = replayed(saved(), tmp_path)
    assert {verdict.status for verdict in judged.verdicts} == {Status.UNKNOWN}
    assert "the timeline does not show that the driver dies before the driver adds batch 1" in judged.reason


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (replace(QUERY, transform=lambda frame: frame), "code"),
        (replace(QUERY, mode="complete"), "mode"),  # type: ignore[arg-type]
        (replace(QUERY, packages=("org.acme:more:1",)), "packages"),
        (replace(QUERY, secrets={"spark.more": "x"}), "secrets"),
        (replace(QUERY, schema="user STRING"), "schema"),
    ],
)
def test_another_query_than_was_certified_is_refused(query: Query, what: str, runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(ScenarioChanged, match=f"the query has changed since: its {what} was"):
        replayed(saved(), tmp_path, query)
    assert runs.named == []


def test_another_input_than_it_was_found_with_is_refused(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(ScenarioChanged, match=r"the input was 'words', and is 'numbered' now"):
        replayed(saved(), tmp_path, workload=replace(WORKLOAD, name="numbered"))
    assert runs.named == []


@pytest.mark.parametrize(
    "subject",
    [{}, {"settings": None}, {"settings": ["spark.x"]}, {"settings": {"spark.x": 1}}, {"settings": {"x": "1"}}],
)
def test_a_file_that_was_edited_is_refused(subject: dict[str, Any], runs: Runs, tmp_path: Path) -> None:
    edited = {name: value for name, value in saved().subject.items() if name != "settings"} | subject
    file = tmp_path / "edited.json"
    write_saved(file, saved(subject=edited))
    with pytest.raises(InvalidCounterexample, match=r"edited.json is damaged: .*settings"):
        replayed(read_saved(file), tmp_path)
    assert runs.named == []


@pytest.mark.parametrize("change", [{"planned": ()}, {"claims": ()}, {"events": 0}, {"batch_events": -1}])
def test_a_file_with_nothing_to_run_is_refused(change: dict[str, Any], runs: Runs, tmp_path: Path) -> None:
    file = tmp_path / "edited.json"
    write_saved(file, saved(**change))
    with pytest.raises(InvalidCounterexample, match=r"edited.json is damaged"):
        replayed(read_saved(file), tmp_path)
    assert runs.named == []


def test_a_query_that_was_repaired_is_run_under_the_schedule_that_broke_it(runs: Runs, tmp_path: Path) -> None:
    """Its functions are called what they were, and do something else."""
    broken = saved()
    code = {part: {**one, "source": "0" * 64} for part, one in broken.subject["code"].items()}
    replayed(msgspec.structs.replace(broken, subject={**broken.subject, "code": code}), tmp_path)
    assert len(runs.named) == 1


@pytest.mark.parametrize("no_journal", ["", "no FUSE here"])
def test_a_worker_that_died_within_a_call_dies_on_a_cluster_where_the_repaired_code_comes_to_that(
    no_journal: str, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def died_at(key: str) -> Planned:
        crash = crash_at(1, point=Point.FILE, side=Side.AFTER, key=key)
        return Planned(msgspec.structs.replace(crash, victim=Victim.PYTHON, actor="task"))

    worker = SimpleNamespace(no_journal=no_journal)
    now = Passed(Address("task", 1, Point.FILE, "1/write sink/a#2", Side.AFTER), 0, 0, None)
    killed: list[Planned] = []

    def kill(folder: Path, named: Named, planned: Sequence[Planned], *rest: object) -> None:
        killed.extend(planned)
        runs(folder, named, planned, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(saved_schedules, "kill", kill)
    monkeypatch.setattr(saved_schedules, "recovery_worker_of_its_own", lambda *_: nullcontext(worker))
    monkeypatch.setattr(saved_schedules, "call_as_in", lambda *_: None)
    monkeypatch.setattr(saved_schedules, "points_passed", lambda *_: [now])
    broken = saved(planned=(died_at("1/write sink/a#4"),))
    if not no_journal:
        replayed(broken, tmp_path / "as it was")
    code = {part: {**one, "source": "0" * 64} for part, one in broken.subject["code"].items()}
    repaired = msgspec.structs.replace(broken, subject={**broken.subject, "code": code})
    with pytest.raises(MissingTool) if no_journal else nullcontext():
        replayed(repaired, tmp_path / "repaired")
    keys = [] if no_journal else ["1/write sink/a#4", "1/write sink/a#2"]
    assert [(one.crash.key, one.crash.victim) for one in killed] == [(key, Victim.PYTHON) for key in keys]


def test_what_a_recovery_worker_replays_it_begins_in_jvms_that_remember_nothing(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killer:
        def __init__(self, worker: object, anew: bool = False) -> None:
            assert anew

        def __call__(
            self, folder: Path, request: CampaignRequest, planned: Sequence[Planned], references: Sequence[object]
        ) -> None:
            runs(folder, request.named, planned, EmbeddedCluster(), Registry(), references, 3)

    monkeypatch.setattr(
        saved_schedules, "recovery_worker_of_its_own", lambda *_: nullcontext(SimpleNamespace(no_journal=""))
    )
    monkeypatch.setattr(saved_schedules, "RecoveryWorkerKiller", Killer)
    crash = crash_at(1, point=Point.FILE, side=Side.AFTER, key="1/write sink/a#1")
    judged = replayed(saved(planned=(Planned(crash),)), tmp_path)
    assert {verdict.status for verdict in judged.verdicts} == {Status.HOLDS}
