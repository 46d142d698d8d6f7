"""The simulator offers input at the rate that a workload states."""

import pytest

from simulation import history_of
from streamproof.harness.command_line.exploring import mutant_world
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.recording.records import Offered
from streamproof.harness.registry import Registry
from streamproof.harness.scenario import Scenario
from streamproof.harness.simulated.world import LIKE_EMBEDDED, SimulationOptions
from streamproof.harness.workload import Workload
from streamproof.reference_impls.amnesia import amnesia
from streamproof.scenarios.equi_join import equi_join
from streamproof.scenarios.stateless import stateless
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
