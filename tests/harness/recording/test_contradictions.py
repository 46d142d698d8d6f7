"""A folder that contradicts itself is refused, though somebody has sealed it anew; what a run leaves is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resealing import seal_anew
from simulation import SPREAD, WORLDS, drawn, history_of, scenario_of
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import DamagedHistory, ScenarioChanged
from streamproof.harness.recording.claims_and_faults import SavedFault
from streamproof.harness.recording.contradictions import why_contradictory
from streamproof.harness.recording.folder import read_history
from streamproof.harness.recording.sealing import TABLES
from streamproof.harness.running.judgement import judge_folder
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster

SCENARIO = "trace.passive-replication"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    registry = Registry()
    folder = tmp_path_factory.mktemp("runs") / "one"
    return run_named(registry.scenario(SCENARIO), SimulatedCluster(), registry, seed=7, folder=folder).folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def of_table(name: str, change: Callable[[Rows], Rows]) -> Callable[[Path], None]:
    def altered(folder: Path) -> None:
        path = folder / f"{name}.parquet"
        table = pq.read_table(path)
        pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema), path)

    return altered


def of_timeline(change: Callable[[Rows], Rows]) -> Callable[[Path], None]:
    def altered(folder: Path) -> None:
        path = folder / "timeline.jsonl"
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(f"{json.dumps(entry)}\n" for entry in change(entries)))

    return altered


def of_scenario(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def altered(folder: Path) -> None:
        path = folder / "scenario.json"
        described = json.loads(path.read_text())
        change(described)
        path.write_text(json.dumps(described))

    return altered


def struck(entries: Rows, **changes: Any) -> Rows:
    return [{**one, **changes} if one["type"] == "fault-struck" else one for one in entries]


def later(entries: Rows, *types: str) -> Rows:
    stamp = {"at": 10**9, "step": 10**9}
    return [{**one, "stamp": stamp} if one["type"] in types else one for one in entries]


def without(kind: str) -> Callable[[Path], None]:
    """All records of a kind are gone, and the others numbered anew."""

    def altered(folder: Path) -> None:
        of_table("steps", lambda rows: [row for row in rows if row["kind"] != kind])(folder)
        tables = {name: pq.read_table(folder / f"{name}.parquet") for name in TABLES}
        left = sorted({n for table in tables.values() for n in table["n"].to_pylist()})
        place = {n: number for number, n in enumerate(left)}
        for name in TABLES:
            of_table(name, lambda rows: [{**row, "n": place[row["n"]]} for row in rows])(folder)

    return altered


def at_once(folder: Path) -> None:
    for name in TABLES:
        of_table(name, lambda rows: [{**row, "at": 0} for row in rows])(folder)
    of_timeline(lambda entries: [{**one, "stamp": {**one["stamp"], "at": 0}} for one in entries])(folder)


def moved(rows: Rows) -> Rows:
    """One row stands on another channel than the record that it is of."""
    other = next(row["channel"] for row in rows if row["channel"] != rows[1]["channel"])
    return [rows[0], {**rows[1], "channel": other}, *rows[2:]]


def as_another_record(rows: Rows) -> Rows:
    """A record stands on another channel, and is counted as on its own."""
    other = next(row["channel"] for row in rows if row["channel"] != rows[0]["channel"])
    return [{**row, "channel": other} if row["n"] == rows[0]["n"] else row for row in rows]


ALTERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a record is gone": (of_table("steps", lambda rows: rows[:5] + rows[6:]), "are numbered up to"),
    "a row is there twice": (of_table("delivered", lambda rows: rows[:6] + rows[5:]), "not of one record"),
    "a row in the middle of a record is gone": (
        of_table("offered", lambda rows: [*rows[:1], {**rows[1], "source": "other-0"}, *rows[2:]]),
        "not of one record",
    ),
    "a row is moved to another channel": (of_table("delivered", moved), "not of one record"),
    "a record is moved to another channel": (of_table("delivered", as_another_record), "where 0 was due|was due"),
    "a row comes at another time": (
        of_table("delivered", lambda rows: [{**rows[0], "at": 1}, *rows[1:]]),
        "not of one record",
    ),
    "records go back in time": (
        of_table("delivered", lambda rows: [{**row, "at": 10**8 - row["at"]} for row in rows]),
        "time goes back in the records",
    ),
    "the timeline is reversed": (of_timeline(lambda entries: entries[::-1]), "time goes back in the timeline"),
    "the fault strikes after the end": (
        of_timeline(lambda entries: later(entries, "fault-struck")),
        "after all of it had passed through",
    ),
    "the fault strikes elsewhere": (
        of_timeline(lambda entries: struck(entries, address="trace-0/0#1 after checkpoint-durable 1")),
        "planned for another moment",
    ),
    "the address is none": (of_timeline(lambda entries: struck(entries, address="here")), "another moment"),
    "nobody planned the fault": (of_timeline(lambda entries: struck(entries, number=1)), "1 were planned"),
    "the fault never came": (
        of_timeline(
            lambda entries: [
                *entries,
                {"type": "fault-missed", "stamp": entries[-1]["stamp"], "number": 0, "fault": "crash trace-0"},
            ]
        ),
        "never came, and struck",
    ),
    "a fault heals that has not struck": (
        of_timeline(
            lambda entries: [
                {
                    "type": "fault-healed",
                    "stamp": {"at": 0},
                    "number": 0,
                    "fault": "crash trace-0",
                    "target": "trace-0",
                    "proof": {"count": 1, "what": "messages held back"},
                },
                *entries,
            ]
        ),
        "healed before it struck",
    ),
    "no fault struck": (
        of_timeline(lambda entries: [one for one in entries if one["type"] != "fault-struck"]),
        "was gone, and nothing had struck",
    ),
    "the run ends before it begins": (of_timeline(lambda entries: [{**entries[0], "stamp": {"at": -1}}]), "beginning"),
    "nobody was placed": (
        of_timeline(lambda entries: [one for one in entries if one["type"] != "placed"]),
        "was started, and placed nowhere",
    ),
    "it was placed after it had begun to work": (
        of_timeline(lambda entries: later(entries, "placed")[::-1]),
        "before it was placed|time goes back",
    ),
    "nothing was planned": (of_scenario(lambda said: said.update(schedule=[])), "0 were planned"),
    "it ran elsewhere": (
        of_scenario(lambda said: said["cluster"].update(cluster="embedded")),
        "it ran on no simulated cluster",
    ),
    "a source offers a number twice": (
        of_table("offered", lambda rows: [*rows[:5], {**rows[5], "seq": 5}, *rows[6:]]),
        "source-0 offers event 5, where 6 was due",
    ),
    "a source's numbers do not rise": (
        of_table("offered", lambda rows: [{**row, "seq": 201 - row["seq"]} for row in rows]),
        "source-0 offers event 200, where 1 was due",
    ),
    "no checkpoint was taken": (without("checkpoint-taken"), "became durable, and was not taken"),
    "nobody came to the end": (without("ended"), "nobody had come to the end of it"),
}


def test_what_a_run_has_left_is_read(whole: Path) -> None:
    assert read_history(whole).drained


@pytest.mark.parametrize("what", ALTERED)
def test_what_contradicts_the_rest_is_refused_whoever_sealed_it(what: str, run: Path) -> None:
    alter, said = ALTERED[what]
    alter(run)
    seal_anew(run)
    with pytest.raises(DamagedHistory, match=said) as refused:
        read_history(run)
    assert str(run) in str(refused.value)


FED_OTHERWISE: dict[str, tuple[Callable[[Path], None], type[Exception], str]] = {
    "another value": (
        of_table("offered", lambda rows: [{**rows[0], "value": "77"}, *rows[1:]]),
        DamagedHistory,
        "does not draw from seed 7",
    ),
    "of another seed": (of_scenario(lambda said: said["workload"].update(seed=8)), DamagedHistory, "from seed 8"),
    "all at once": (at_once, DamagedHistory, "sooner than it could"),
    "fewer than it had": (
        of_table("offered", lambda rows: rows[:-1]),
        DamagedHistory,
        "offered 199 events, of the 200",
    ),
    "more than there are": (
        of_scenario(lambda said: said["workload"].update(events=10**15)),
        DamagedHistory,
        "numbered has 200",
    ),
    "of nothing": (of_scenario(lambda said: said["workload"].pop("seed")), DamagedHistory, "workload: 'seed'"),
    "at no pace": (of_scenario(lambda said: said["workload"].update(rate="fast")), DamagedHistory, "rate='fast'"),
    "of another workload": (
        of_scenario(lambda said: said["workload"].update(name="words")),
        ScenarioChanged,
        "its workload is numbered now, and was words",
    ),
}


@pytest.mark.parametrize("what", FED_OTHERWISE)
def test_a_run_that_was_fed_what_its_workload_does_not_draw_is_refused(what: str, run: Path) -> None:
    alter, error, said = FED_OTHERWISE[what]
    alter(run)
    seal_anew(run)
    with pytest.raises(error, match=said):
        judge_folder(run, Registry())


def test_what_a_run_claimed_is_not_made_into_what_was_to_be_violated(run: Path) -> None:
    """Else a violation would end as one that was expected."""

    def expected(said: dict[str, Any]) -> None:
        said.update(claims=[], breaks=said["claims"])

    of_scenario(expected)(run)
    seal_anew(run)
    with pytest.raises(ScenarioChanged, match=r"that was to violate .*, and now nothing is to be violated"):
        judge_folder(run, Registry())


@pytest.mark.parametrize("case", sorted(SPREAD))
def test_no_run_contradicts_itself(case: str) -> None:
    scenario = scenario_of(case)
    subject = dict(scenario.subject.describe())
    for seed, world in enumerate(("usual", "fast-source", "few-nodes", "noticed-late")):
        schedule = drawn(scenario, seed, world)
        history = history_of(scenario, schedule, seed=seed, world=world)
        assert world in WORLDS
        assert why_contradictory(tuple(map(SavedFault.of, schedule)), subject, history, "simulated") == ""


@pytest.mark.parametrize(
    ("where", "said", "shown"),
    [
        ("workload", {"events": "many"}, "workload has events='many'"),
        ("workload", {"events": None}, "workload has events='None'"),
        ("workload", {"name": ["words"]}, "workload has name="),
        ("cluster", {"cluster": 7}, "cluster has cluster='7'"),
        ("cluster", {"warm": 3}, "cluster has warm='3'"),
        ("cluster", {"warm": {"served": "often"}}, "warm has served='often'"),
    ],
)
def test_what_is_shown_of_a_run_has_to_be_of_its_kind(where: str, said: dict[str, Any], shown: str, run: Path) -> None:
    of_scenario(lambda described: described[where].update(said))(run)
    seal_anew(run)
    with pytest.raises(DamagedHistory, match=shown):
        judge_folder(run, Registry())
