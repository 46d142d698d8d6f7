"""What a history comes to, beside the schedule that was to be carried out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulation import KINDS
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.reasons import Reason, Why
from streamproof.harness.core.verdicts import Status, Verdict, unknown
from streamproof.harness.recording.history import FaultMissed, History, Stamp
from streamproof.harness.running.judgement import Judgement, judge_history, not_come
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from verdicts_of import JUDGES


def test_a_fault_that_a_run_says_nothing_of_leaves_its_claims_open() -> None:
    named = Registry().scenario("word-count.passive-replication").scenario
    calm = replace(named, workload=replace(named.workload, events=300), faults=(), claims=[exactly_once()])
    history, judgement = run_in_memory(calm, SimulatedCluster(), KINDS, JUDGES, seed=1)
    assert {verdict.status for verdict in judgement.verdicts} == {Status.HOLDS}
    planned = replace(calm, faults=[crash("count-0").after(seconds(1))])
    for verdict in judge_history(planned, history, JUDGES, virtual_time=True).verdicts:
        assert verdict.status is Status.UNKNOWN
        assert verdict.reason.startswith("the run ended before the trigger of fault 1 came: crash count-0")


def test_a_fault_that_a_run_has_missed_is_told_by_that() -> None:
    planned = [crash("count-0").after(seconds(1))]
    assert not_come(planned, History([], [FaultMissed(Stamp(1), 0, "crash count-0")])) == ""


HOLDS = Verdict(exactly_once(), Status.HOLDS, ("outputs",), "")
VIOLATED = Verdict(exactly_once(), Status.VIOLATED, ("outputs",), "")
UNKNOWN = unknown(exactly_once(), ("outputs",), Reason(Why.INCOMPLETE))
OUR_FAILURE = unknown(exactly_once(), ("outputs",), Reason(Why.CONTRADICTION))
OURS_FAILED = unknown(exactly_once(), ("outputs",), Reason(Why.ORACLE_FAILED, "by hand"))
USERS_FAILED = unknown(exactly_once(), ("outputs",), Reason(Why.ORACLE_FAILED, "by hand", of_users=True))


@pytest.mark.parametrize(
    ("verdicts", "broken", "status"),
    [
        ([], [], ExitStatus.UNKNOWN),
        ([HOLDS], [VIOLATED], ExitStatus.HOLDS),
        ([HOLDS, VIOLATED], [], ExitStatus.VIOLATED),
        ([HOLDS], [HOLDS], ExitStatus.VIOLATED),
        ([HOLDS, UNKNOWN], [], ExitStatus.UNKNOWN),
        ([HOLDS], [UNKNOWN], ExitStatus.UNKNOWN),
        ([UNKNOWN, VIOLATED], [], ExitStatus.VIOLATED),
        ([OUR_FAILURE, VIOLATED], [], ExitStatus.OWN_FAILURE),
        ([HOLDS], [OUR_FAILURE], ExitStatus.OWN_FAILURE),
        ([HOLDS], [OURS_FAILED], ExitStatus.OWN_FAILURE),
        ([USERS_FAILED, OURS_FAILED], [], ExitStatus.OWN_FAILURE),
        ([UNKNOWN, USERS_FAILED], [], ExitStatus.USER_MISTAKE),
        ([HOLDS], [USERS_FAILED], ExitStatus.USER_MISTAKE),
        ([USERS_FAILED, VIOLATED], [], ExitStatus.VIOLATED),
    ],
)
def test_the_exit_status_is_the_worst_of_what_was_claimed_and_what_should_break(
    verdicts: list[Verdict], broken: list[Verdict], status: ExitStatus
) -> None:
    nothing: Any = None
    assert Judgement(tuple(verdicts), tuple(broken), (), (), nothing, "").exit_status is status
