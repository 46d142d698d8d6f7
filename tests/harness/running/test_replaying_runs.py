"""A run folder says all that is needed to run it again, where its scenario can be found by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import Ask
from streamproof.faults.crash import crash
from streamproof.harness.command_line import clusters
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.errors import (
    DamagedHistory,
    NotImportable,
    ScenarioChanged,
    UnknownHistoryVersion,
    Unsupported,
)
from streamproof.harness.core.guarantees import Guarantee, PowerLoss, exactly_once, gap_recovery
from streamproof.harness.core.promises import Promise
from streamproof.harness.core.quantities import Duration, Events, events, ms, seconds
from streamproof.harness.core.schedule import Fault, checkpoint, recovery
from streamproof.harness.recording.claims_and_faults import SavedClaim, SavedFault
from streamproof.harness.recording.folder import read_description, read_history
from streamproof.harness.running.replaying import options_of, planned_again
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.docker.options import ContainerOptions
from streamproof.harness.worlds.embedded.cluster import USUAL, EmbeddedCluster
from streamproof.harness.worlds.embedded.options import EmbeddedOptions
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.options import SimulationOptions

NAME = "word-count.passive-replication"
FAULTS = (
    crash("count-0").at(checkpoint(1).durable),
    crash("count-0", "count-1").at(recovery("split-0").replaying),
    crash("split-0").after(events(20)),
    crash("count-0").after(seconds(1)),
    crash("count-0").at(Moment.exactly(Address("count-0", 2, Point.RECEIVED, "split-0/7", Side.AFTER))),
    Fault("pause", ("count-0",), checkpoint(1).acknowledged.of("count-0"), seconds(2)),
    Fault("delay", ("a-0", "b-0"), checkpoint(1).taken.of("a-0"), ms(5), True, (("by", ms(20)), ("loss", 0.5))),
)
UNITS = st.integers(1, 10**9).map(Events) | st.integers(0, 10**12).map(Duration)
BOUNDS = st.none() | UNITS
AMOUNTS = st.dictionaries(
    st.sampled_from(["times", "opens_within", "theta"]),
    st.integers(0, 10**9)
    | st.floats(0, 1e9)
    | st.integers(1, 10**9).map(Events)
    | st.integers(0, 10**12).map(Duration),
).map(lambda found: tuple(found.items()))


def read_again(saved: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(saved), type=type(saved))


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_read_as_it_was_written(fault: Fault) -> None:
    saved = read_again(SavedFault.of(fault))
    assert saved.fault() == fault
    assert str(saved) == str(fault)


@given(st.sampled_from(["exactly-once", "gap-recovery", "somebody-elses"]), BOUNDS, AMOUNTS)
def test_a_claim_is_read_as_it_was_written(name: str, within: Any, amounts: Any) -> None:
    claim = Guarantee(name, within, amounts)
    assert read_again(SavedClaim.of(claim)).as_guarantee() == claim
    lost = Guarantee("survives-power-loss", power=PowerLoss(claim, Promise.STRICT, False))
    assert read_again(SavedClaim.of(lost)).as_guarantee() == lost
    assert str(SavedClaim.of(lost)) == str(lost)


def test_gap_recovery_keeps_all_that_it_states() -> None:
    claim = gap_recovery(events(500), opens_within=ms(20))
    assert read_again(SavedClaim.of(claim)).as_guarantee() == claim
    assert str(claim) == "gap-recovery (500 events, opens within 0.02 s)"


@pytest.fixture
def ran(tmp_path: Path) -> Callable[..., Path]:
    def run(options: SimulationOptions | None = None, **changes: Any) -> Path:
        registry = Registry()
        named = registry.scenario(NAME)
        scenario = replace(named.scenario, workload=replace(named.scenario.workload, events=300, seed=11), **changes)
        folder = tmp_path / "ran"
        run_named(replace(named, scenario=scenario), SimulatedCluster(options), registry, seed=3, folder=folder)
        return folder

    return run


def test_a_run_is_run_again_in_the_world_that_it_ran_in_to_the_very_history(
    ran: Callable[..., Path], ask: Ask, tmp_path: Path
) -> None:
    faults = [crash("count-0").after(events(100)), crash("split-0").at(checkpoint(1).durable)]
    folder = ran(SimulationOptions(nodes=4, detection=7_000), faults=faults, claims=[exactly_once()])
    status = json.loads((folder / "verdicts.json").read_text())["exit_status"]
    answer = ask("replay", folder, "--folder", tmp_path / "again")
    assert answer.status == status, answer.err
    assert "the very history that was recorded" in answer.out
    was, again = read_description(folder), read_description(tmp_path / "again")
    changing = dict.fromkeys(("run", "began", "machine"))
    assert {**msgspec.to_builtins(again), **changing} == {**msgspec.to_builtins(was), **changing}
    assert read_history(folder).digest() == read_history(tmp_path / "again").digest()
    document = ask("replay", folder, "--folder", tmp_path / "third", "--json").document
    assert (document["exact"], document["exit_status"]) == (True, status)


def rewritten(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = folder / "scenario.json"
    found = json.loads(file.read_text())
    change(found)
    file.write_text(json.dumps(found))


@pytest.mark.parametrize("origin", ["", "nobody.has-this", "no_such_module:scenario", "json:dumps"])
def test_where_the_scenario_cannot_be_found_that_is_said_with_its_name(
    ran: Callable[..., Path], ask: Ask, origin: str
) -> None:
    folder = ran()
    rewritten(folder, lambda found: found.update(origin=origin))
    with pytest.raises(NotImportable, match="cannot be found by that name"):
        planned_again(folder, Registry())
    answer = ask("replay", folder)
    assert answer.status == 3
    assert repr(origin or "word-count.passive-replication") in answer.err


def test_what_is_another_scenario_by_now_is_not_run_in_its_place(ran: Callable[..., Path]) -> None:
    folder = ran()
    rewritten(folder, lambda found: found["subject"].update(slices=["count-9"]))
    with pytest.raises(ScenarioChanged, match="the slices of its subject is not what was recorded"):
        planned_again(folder, Registry())
    rewritten(folder, lambda found: found.update(subject=Registry().scenario(NAME).scenario.subject.describe()))
    rewritten(folder, lambda found: found["workload"].update(name="another"))
    with pytest.raises(ScenarioChanged, match="was fed 'another'"):
        planned_again(folder, Registry())


def test_what_a_campaign_put_back_and_a_folder_of_another_version_are_refused(ran: Callable[..., Path]) -> None:
    folder = ran()
    rewritten(folder, lambda found: found["cluster"].update(how="crash states in a warm session"))
    with pytest.raises(Unsupported, match=r"crash states in a warm session.*counterexample\.json"):
        planned_again(folder, Registry())
    rewritten(folder, lambda found: found.update(version=2))
    with pytest.raises(UnknownHistoryVersion, match="version 2"):
        planned_again(folder, Registry())


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (
            EmbeddedOptions,
            EmbeddedOptions(workers=2, restart_worker_after=1.5, profile="default"),
        ),
        (ContainerOptions, ContainerOptions(workers=4, limits_mb={"master": 256}, image="mine:1", cpus=1.0)),
        (SimulationOptions, SimulationOptions(nodes=5, link_delay=(1, 2), restart_node_after=None)),
    ],
)
def test_the_sizes_of_a_cluster_are_what_they_were(kind: type[Any], options: Any) -> None:
    facts = {"cluster": "any", **asdict(options), "settings": {"spark.a": "b"}, "warm": {"runs": 1}}
    assert options_of(kind, json.loads(json.dumps(facts))) == options
    with pytest.raises(DamagedHistory, match="cluster of the record cannot be made"):
        options_of(kind, {**facts, "workers": "many", "nodes": "many"})


def test_a_record_of_a_real_cluster_gives_that_cluster_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_require_embedded", lambda: None)
    scenario = Registry().scenario(NAME).scenario
    for cluster in (EmbeddedCluster(replace(USUAL, workers=2)), DockerCluster(ContainerOptions(workers=2))):
        again = clusters.cluster_again(json.loads(json.dumps(cluster.describe(scenario))))
        assert type(again) is type(cluster)
        assert again.describe(scenario) == cluster.describe(scenario)
        assert again.places == cluster.places
