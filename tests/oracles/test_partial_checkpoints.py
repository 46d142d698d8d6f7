"""A partial checkpoint that leaves changes out gives a state that no input gives. Histories made by hand."""

from __future__ import annotations

import pytest

from handmade import Made, chain
from simulation import history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.guarantees import (
    AMNESIA,
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    PRECISE,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
    Guarantee,
    gap_recovery,
)
from streamproof.harness.core.quantities import events
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.recording.records import PartialTaken
from streamproof.harness.running.judgement import judge_history
from streamproof.oracles import ORACLES
from streamproof.reference_impls.approximate import approximate
from streamproof.scenarios.totals import Totals, one_total
from streamproof.scenarios.workloads import ones

JUDGES = {oracle.guarantee: oracle for oracle in ORACLES}
CLAIMS = [
    *map(Guarantee, (PRECISE, ROLLBACK_REPEATING, ROLLBACK_DIVERGENT, EXACTLY_ONCE_OUTPUT, EXACTLY_ONCE)),
    *map(Guarantee, (AT_LEAST_ONCE, AMNESIA)),
    gap_recovery(events(4)),
]


def recovered(*, leaves_out: float, restored: int | None = None) -> Made:
    """A slice that adds up has a whole checkpoint of 4 events and a partial one of 6; it dies, and its successor goes
    on from one of the two, or takes it over once it is at work."""
    made = Made(chain(Totals(leaves_out=leaves_out), sources=("a", "b")))
    made.offer("a", *[1] * 8)
    made.offer("b", 1, 1)
    made.start("op0", 1)
    made.open("a", 1, "op0", 1, 1)
    made.open("b", 1, "op0", 1, 1)
    made.open("op0", 1, "sink", 1, 1)
    made.take("op0", 1, "a", 1, 1, 4)
    made.checkpoint("op0", 1, 1)
    made.durable("op0", 1, 1)
    made.take("op0", 1, "a", 1, 5, 6)
    made.note(PartialTaken("op0-0", 1, 2))
    made.checkpoint("op0", 1, 2)
    made.durable("op0", 1, 2)
    made.deliver("op0", 1, *range(1, 7))
    made.lose("op0", 1)
    start = {1: 5, 2: 7}[restored or 2]
    if restored is None:
        made.start("op0", 2, in_sync=False)
        made.restore("op0", 2, (1, 2), start)
        made.in_sync("op0", 2)
    else:
        made.start("op0", 2, restored=(1, restored), next_seq=start)
    made.open("a", 1, "op0", 2, 9, after=start - 1)
    made.open("b", 1, "op0", 2, 3)
    if start < 7:
        made.take("op0", 2, "a", 1, start, 6)
    made.open("op0", 2, "sink", 1, 7, after=6)
    made.take("op0", 2, "a", 1, 7, 8)
    made.take("op0", 2, "b", 1, 1, 2)
    made.deliver("op0", 2, *range(7, 11))
    made.keep("op0", 2)
    return made


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
@pytest.mark.parametrize("restored", [2, None], ids=["begun with", "taken over"])
def test_whoever_goes_on_from_what_leaves_changes_out_has_a_state_that_no_input_gives(
    claim: Guarantee, restored: int | None
) -> None:
    assert recovered(leaves_out=0, restored=restored).verdict(claim).status is Status.HOLDS
    verdict = recovered(leaves_out=2, restored=restored).verdict(claim)
    assert verdict.status is Status.VIOLATED
    (tally,) = verdict.anomalies
    assert (tally.anomaly, tally.of) == (Anomaly.UNFAITHFUL_SNAPSHOT, "left out of backups")
    assert tally.sample[0].what == "checkpoint 2: the state of key 'k' was 6, and is 4 in the backup"
    assert tally.sample[0].where == "op0-0#1"


def test_what_counts_twice_it_does_not_show() -> None:
    assert recovered(leaves_out=2, restored=2).verdict(AT_MOST_ONCE).status is Status.HOLDS


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_what_is_left_out_of_a_checkpoint_that_nobody_began_with_is_in_no_state(claim: Guarantee) -> None:
    assert recovered(leaves_out=2, restored=1).verdict(claim).status is Status.HOLDS


def test_it_is_an_error_that_bounded_error_allows() -> None:
    subject = approximate(one_total(Totals(leaves_out=2)), theta=8, l=4, gamma=8)
    scenario = Scenario(subject, ones(keys=6, events=64, batch=4))
    history = history_of(scenario, [crash("sum-0").after(events(25))])
    judgement = judge_history(scenario, history, JUDGES, virtual_time=True)
    assert judgement.collation.left_out.count
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]
