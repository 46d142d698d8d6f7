"""The simulator offers input at the rate that a workload states."""

from dataclasses import replace

import pytest

from simulation import history_of
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.workload import Workload
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.mutants import mutant_world
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Delivered, Offered
from streamproof.harness.worlds.embedded.cluster import check_subject
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.options import LIKE_EMBEDDED, SimulationOptions
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.source_replay import source_replay
from streamproof.scenarios.equi_join import equi_join
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.windows import windows
from streamproof.scenarios.workloads import numbered


def offered(workload: Workload, source: str = "source-0", topology: Scenario | None = None) -> list[int]:
    """When each batch was offered, in microseconds."""
    scenario = topology or Scenario(amnesia(stateless()), workload)
    records = history_of(scenario, ()).records
    return [one.at for one in records if isinstance(one.record, Offered) and one.record.source == source]


@pytest.mark.parametrize(("rate", "interval"), [(1_000, 10_000), (20, 500_000), (100_000, 100)])
def test_a_batch_comes_as_often_as_its_rate_says(rate: int, interval: int) -> None:
    assert offered(numbered(events=40, batch=10, rate=rate)) == [interval * n for n in range(1, 5)]


def test_without_a_rate_the_world_says_how_often() -> None:
    assert offered(numbered(events=40, batch=10)) == [3_000 * n for n in range(1, 5)]


def test_sources_of_one_workload_stay_in_step() -> None:
    workload = numbered(events=40, batch=10, rate=500)
    scenario = Scenario(amnesia(equi_join()), workload)
    left, right = (offered(workload, source, scenario) for source in ("left-0", "right-0"))
    assert left == right == [20_000 * n for n in range(1, 5)]


def test_the_world_of_a_search_has_a_pace_of_its_own() -> None:
    paced = numbered(events=40, batch=10, rate=20)
    assert SimulationOptions().interval(paced) == 500_000
    for mutant in Registry().mutants.values():
        assert mutant_world(mutant).interval(paced) == 3_000
    assert LIKE_EMBEDDED.interval(paced) == 250_000


def test_times_of_faults_are_drawn_from_the_time_that_the_input_takes() -> None:
    scenario = Scenario(amnesia(stateless()), numbered(events=40, batch=10, rate=20))
    assert Bench(scenario, Registry(), seed=7).aims.offering.micros == 4 * 500_000


def replaying(rate: int | None) -> Scenario:
    """A window of 20 ms of event time, of which 4 come with every batch."""
    return Scenario(source_replay(windows(window=20), timeout=seconds(0.05)), numbered(events=64, batch=4, rate=rate))


def sent_again(history: History) -> int:
    """Outputs beyond one of each event."""
    given = [event for one in history.records if isinstance(one.record, Delivered) for event in one.record.rows]
    return len(given) - 64


def unchecked(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setattr("streamproof.harness.worlds.simulated.cluster.check_pace", lambda scenario, interval: None)
    return history_of(scenario, ())


def test_a_window_that_lasts_longer_than_the_time_out_repeats_without_any_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sent_again(unchecked(replaying(4_000), monkeypatch)) == 0
    assert sent_again(unchecked(replaying(200), monkeypatch)) > 64


@pytest.mark.parametrize(("rate", "lasts"), [(200, "0.122 s"), (500, "0.05 s")])
def test_it_is_refused_by_what_it_lasts_at_the_pace_of_the_input(rate: int, lasts: str) -> None:
    with pytest.raises(InvalidScenario, match=f"window of 20 ms .* lasts {lasts} .* after 0.05 s"):
        SimulatedCluster().check(replaying(rate))


@pytest.mark.parametrize("rate", [501, 4_000, None])
def test_it_is_taken_where_the_input_is_faster(rate: int | None) -> None:
    SimulatedCluster().check(replaying(rate))


def test_a_world_that_is_slow_without_a_rate_refuses_it_too() -> None:
    with pytest.raises(InvalidScenario, match="or the input faster"):
        SimulatedCluster(SimulationOptions(offer_interval=10_000)).check(replaying(None))


def test_a_window_longer_than_the_time_out_is_taken_where_event_time_passes_quickly() -> None:
    subject = source_replay(windows(window=20_000), timeout=seconds(0.05))
    quick = replace(numbered(events=64, batch=4), tick=1_000)
    SimulatedCluster().check(Scenario(subject, quick))


def test_on_spark_a_window_under_source_replay_needs_a_rate() -> None:
    with pytest.raises(InvalidScenario, match="give the workload a rate"):
        check_subject(replaying(None), 3)
    check_subject(replaying(4_000), 3)
