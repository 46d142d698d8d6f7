"""What re-execution says of a run is what the run says of itself: the trace's outputs carry their ids."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from simulation import CASES, WORLDS, drawn, history_of, scenario_of
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.judging.expected import expect
from streamproof.harness.judging.ordering import order_matters
from streamproof.harness.judging.reexecution import Reexecution
from streamproof.harness.judging.reexecutor import reexecute
from streamproof.harness.judging.reruns import Derivation
from streamproof.harness.protocol.spec import SliceSpec
from verdicts_of import rejudged

SOURCE = "source-0"
TRACED = [case for case in CASES if case.endswith("/trace-numbered")]


def ids(derivations: list[Derivation], key: str, keys: dict[int, str]) -> list[list[object]]:
    return [[source, seq] for source, seq, *_ in derivations if keys[seq] == key]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(TRACED), st.integers(0, 10**9), st.sampled_from(list(WORLDS)))
def test_the_lineage_is_what_the_trace_says_of_itself(case: str, seed: int, world: str) -> None:
    scenario = scenario_of(case)
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
    for tracer, states in rerun.kept.items():
        assert {survivor.number for survivor in rerun.survivors(tracer)} <= states.keys()
        for incarnation, rows in states.items() if tracer.startswith("trace") else ():
            lineage = rerun.reruns[tracer][incarnation].lineage()
            assert rows == {key: ids(lineage, key, keys) for key in {keys[seq] for _, seq, *_ in lineage}}


def numbered_apart(specs: Sequence[SliceSpec], rerun: Reexecution) -> bool:
    """Whether numbers rise on each channel; where they do not by design, whether no two are the same."""
    for spec in specs:
        for upstream in spec.upstream:
            sender = [rerun.sources[upstream]] if upstream in rerun.sources else rerun.reruns[upstream].values()
            for incarnation in sender:
                seqs = [event.seq for event in incarnation.emitted[spec.slice_id].events]
                wanted = sorted(set(seqs)) if spec.numbers_rise[upstream] else list(dict.fromkeys(seqs))
                if seqs != wanted:
                    return False
    return True


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(CASES), st.integers(0, 10**9))
def test_it_computes_what_was_delivered_and_kept_without_looking_at_it(case: str, seed: int) -> None:
    scenario = scenario_of(case)
    assert isinstance(scenario.subject, SchemeSubject)
    judged = rejudged(scenario, history_of(scenario, drawn(scenario, seed, "usual"), seed=seed))
    assert judged.collation.phantoms.count == 0
    assert judged.collation.unjudgeable == ""
    rerun = judged.collation.reexecution
    assert rerun is not None
    assert numbered_apart(scenario.subject.specs, rerun)
    if order_matters(rerun):
        return
    expected = expect(scenario.subject.specs, rerun.offered)
    for slice_id, reruns in rerun.reruns.items():
        for incarnation in reruns.values():
            assert set(incarnation.took) <= set(expected.taken[slice_id]), "nothing is taken that was never made"
