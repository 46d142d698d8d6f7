"""A run of the simulator is believed where the simulator makes it again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokens
from resealing import seal_anew
from streamproof.harness.command_line.clusters import cluster_again
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.core.reasons import Why
from streamproof.harness.recording.folder import read_description, read_history
from streamproof.harness.running import judgement, run
from streamproof.harness.running.determinism import Determinism
from streamproof.harness.running.judgement import judge_folder
from streamproof.harness.running.repeating import why_not_repeated
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster

Altered = Callable[[Path], object]
Rows = list[dict[str, Any]]


def of_steps(change: Callable[[Rows], Rows]) -> Altered:
    def altered(folder: Path) -> None:
        path = folder / "steps.parquet"
        table = pq.read_table(path)
        rows = change(table.to_pylist())
        names = ("steps", "offered", "delivered")
        tables = {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in names}
        tables["steps"] = rows
        places = {old: new for new, old in enumerate(sorted({row["n"] for some in tables.values() for row in some}))}
        for name, some in tables.items():
            schema = pq.read_schema(folder / f"{name}.parquet")
            renumbered = [{**row, "n": places[row["n"]]} for row in some]
            pq.write_table(pa.Table.from_pylist(renumbered, schema=schema), folder / f"{name}.parquet")

    return altered


def of_timeline(change: Callable[[Rows], Rows]) -> Altered:
    def altered(folder: Path) -> None:
        path = folder / "timeline.jsonl"
        entries = change([json.loads(line) for line in path.read_text().splitlines()])
        path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))

    return altered


def of_scenario(**changes: Any) -> Altered:
    def altered(folder: Path) -> None:
        path = folder / "scenario.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return altered


def on_another_cluster(folder: Path) -> None:
    described = json.loads((folder / "scenario.json").read_text())
    of_scenario(cluster={**described["cluster"], "cluster": "somebody's"})(folder)


def without(kind: str) -> Callable[[Rows], Rows]:
    return lambda rows: [row for row in rows if kind not in (row.get("kind"), row.get("type"))]


ALTERED: dict[str, tuple[Altered, str]] = {
    "no channel was opened": (of_steps(without("opened")), "opened of relay-0 is not on record"),
    "drawn from another seed": (of_scenario(seed=8), "is not on record as it happens"),
    "nobody noticed the crash": (of_timeline(without("node-gone")), "node-gone is not on record"),
    "the end came later": (
        of_timeline(lambda entries: [*entries[:-1], {**entries[-1], "stamp": {"at": 10**9, "step": 10**6}}]),
        "drained is not on record as it happens",
    ),
    "on no simulated cluster": (on_another_cluster, 'only a simulated cluster counts, and "somebody\'s" is'),
    "more than happens": (of_timeline(lambda entries: [*entries, entries[-1]]), "drained, on record, does not happen"),
}


@pytest.fixture(scope="module", autouse=True)
def operators_at_their_word() -> Iterator[None]:
    """Whether they give the same in other processes is not what is asked here."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (judgement, run):
            patch.setattr(module, "examine_operators", lambda *given: Determinism())
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    registry = Registry()
    folder = tmp_path_factory.mktemp("runs") / "one"
    return run_named(
        registry.scenario("trace.passive-replication"), SimulatedCluster(), registry, seed=7, folder=folder
    ).folder


def why_not(folder: Path) -> str:
    return why_not_repeated(folder, read_description(folder), read_history(folder), Registry(), cluster_again)


def test_a_run_that_is_made_again_leaves_the_same(whole: Path) -> None:
    assert why_not(whole) == ""


@pytest.mark.parametrize("what", ALTERED)
def test_a_run_that_was_altered_is_not_what_is_made_again(what: str, whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    alter, said = ALTERED[what]
    alter(folder)
    seal_anew(folder)
    assert said in why_not(folder)


def test_nothing_is_known_of_a_run_that_comes_to_something_else(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    of_scenario(seed=8)(folder)
    seal_anew(folder)
    _, _, judged = judge_folder(folder, Registry(), cluster_again)
    assert {verdict.unknown.why for verdict in judged.verdicts if verdict.unknown} == {Why.NOT_REPEATED}
    assert judged.exit_status is ExitStatus.UNKNOWN
    assert not judged.strongest


def test_a_run_is_made_again_before_who_judges_it_executes_its_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These remember what they were executed with, here in a variable that no other test finds so."""
    monkeypatch.setattr(tokens, "_dict", memory := {})
    registry = Registry()
    cluster = SimulatedCluster(thorough=True)
    folder = run_named(registry.scenario("tokens:crashed"), cluster, registry, seed=7, folder=tmp_path / "run").folder
    # As in a process of its own.
    memory.clear()
    _, _, judged = judge_folder(folder, registry, cluster_again)
    assert judged.exit_status is ExitStatus.VIOLATED
