"""What re-execution says of a run is what the run says of itself: the trace's outputs carry their ids."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from simulation import SCHEMES, WORKLOADS, WORLDS, drawn, history_of, scenario_of
from streamproof.harness.judging.reexecution import Derivation, Reexecution, expect, reexecute
from streamproof.harness.subject import SchemeSubject
from verdicts_of import rejudged

SOURCE = "source-0"


def ids(derivations: list[Derivation], key: str, keys: dict[int, str]) -> list[list[object]]:
    return [[source, seq] for source, seq, *_ in derivations if keys[seq] == key]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(list(SCHEMES)), st.integers(0, 10**9), st.sampled_from(list(WORLDS)))
def test_the_lineage_is_what_the_trace_says_of_itself(scheme: str, seed: int, world: str) -> None:
    scenario = scenario_of(f"{scheme}/trace-numbered")
    assert isinstance(scenario.subject, SchemeSubject)
    history = history_of(scenario, drawn(scenario, seed, world), seed=seed, world=world)
    rerun = reexecute(scenario.subject.specs, history.records)
    assert rerun.unexplained == {}
    keys = {event.seq: event.key for event in rerun.offered[SOURCE]}
    said = 0
    for channel, deliveries in rerun.deliveries.items():
        tracer = channel.partition(">")[0]
        for output in (output for delivery in deliveries for output in delivery.outputs()):
            assert output.derivation is not None
            *made_of, _ = output.derivation
            lineage = rerun.reruns[tracer][output.incarnation].lineage()
            until = lineage[: lineage.index(tuple(made_of)) + 1]
            assert output.event.value == ids(until, output.event.key, keys)
            said += 1
    assert said == sum(len(d.record.rows) for deliveries in rerun.deliveries.values() for d in deliveries)
    for tracer, ((incarnation, rows),) in ((one, kept.items()) for one, kept in rerun.kept.items()):
        survivor = rerun.survivors(tracer)[0]
        assert survivor is not None
        assert survivor.number == incarnation
        if tracer.startswith("trace"):
            lineage = survivor.lineage()
            assert rows == {key: ids(lineage, key, keys) for key in {keys[seq] for _, seq, *_ in lineage}}


def numbers_rise(rerun: Reexecution) -> bool:
    return all(
        earlier.seq < later.seq
        for reruns in rerun.reruns.values()
        for incarnation in reruns.values()
        for emissions in incarnation.emitted.values()
        for earlier, later in pairwise(emissions.events)
    )


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(list(SCHEMES)), st.sampled_from(list(WORKLOADS)), st.integers(0, 10**9))
def test_it_computes_what_was_delivered_and_kept_without_looking_at_it(scheme: str, workload: str, seed: int) -> None:
    scenario = scenario_of(f"{scheme}/{workload}")
    assert isinstance(scenario.subject, SchemeSubject)
    judged = rejudged(scenario, history_of(scenario, drawn(scenario, seed, "usual"), seed=seed))
    assert judged.collation.phantoms.count == 0
    assert judged.collation.unjudgeable == ""
    rerun = judged.collation.reexecution
    assert rerun is not None
    assert numbers_rise(rerun)
    expected = expect(scenario.subject.specs, rerun.offered)
    for slice_id, reruns in rerun.reruns.items():
        for incarnation in reruns.values():
            assert set(incarnation.took) <= set(expected.taken[slice_id]), "nothing is taken that was never made"
