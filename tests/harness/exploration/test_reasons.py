"""What a search makes of a verdict rests on the kind of its reason, and never on how that is put."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.guarantees import Guarantee, at_least_once
from streamproof.harness.core.quantities import events
from streamproof.harness.core.reasons import Reason, Why
from streamproof.harness.core.verdicts import Status, Verdict, unknown
from streamproof.harness.exploration.bench import Bench, Trial
from streamproof.harness.judging.oracle import Case, Oracle
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered
from verdicts_of import RegistryWith


def outcome_of(reason: Reason) -> tuple[Status, bool]:
    """Of a schedule whose one claim is UNKNOWN for this reason."""

    def judge(case: Case, guarantee: Guarantee) -> Verdict:
        """Nothing."""
        return unknown(guarantee, case.collation.observables, reason)

    claimed = Oracle(at_least_once().name, judge)
    scenario = Scenario(passive_replication(trace(), checkpoint_every=events(8)), numbered(events=12, batch=4))
    scenario = replace(scenario, claims=[at_least_once()])
    found = Bench(scenario, RegistryWith(claimed), seed=1).attempt(Trial((), 1))
    return found.status, found.essential


@pytest.mark.parametrize("why", [Why.BEYOND, Why.UNPROVEN])
@pytest.mark.parametrize("about", ["", "stall: count-0 waits for ever"])
def test_what_is_unknown_through_its_own_faults_says_nothing_of_the_subject(why: Why, about: str) -> None:
    assert outcome_of(Reason(why, about)) == (Status.UNKNOWN, False)


@pytest.mark.parametrize("why", [why for why in Why if why not in (Why.BEYOND, Why.UNPROVEN)])
def test_any_other_reason_is_essential_however_it_is_worded(why: Why) -> None:
    about = str(Reason(Why.BEYOND, "count-0 was lost twice"))
    assert outcome_of(Reason(why, about)) == (Status.UNKNOWN, True)
