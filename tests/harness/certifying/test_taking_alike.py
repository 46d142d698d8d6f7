"""What an attempt that went on from one state stands for."""

from __future__ import annotations

import pytest

from certified import crash_at
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.covering import take_alike
from streamproof.harness.certifying.crash_states import CrashState, Looks, StateEntry
from streamproof.harness.certifying.waiting import AttemptStates, Waiting
from streamproof.harness.core.addresses import DRIVER, Address, Point, Side
from streamproof.harness.core.errors import DeadlinePassed, InvalidOperator, OwnFailure, ProcessDied, StreamproofError

NOTHING = Looks(frozenset(), frozenset(), frozenset())


@pytest.mark.parametrize(
    ("failure", "stands"),
    [
        (None, True),
        (InvalidOperator("not this one"), True),
        (DeadlinePassed("its end", 10, "nothing of it"), True),
        (ProcessDied("ended with status -9"), False),
        (OwnFailure("ended by its surroundings (No space left on device)"), False),
    ],
)
def test_one_that_is_ended_by_others_stands_for_no_state_that_it_had_not_looked_at_by_then(
    failure: StreamproofError | None, stands: bool
) -> None:
    watched, attempt = Attempt(DRIVER, 1), Attempt(DRIVER, 2)
    for batch in (0, 1):
        address = Address(DRIVER, 1, Point.COMMIT_LOG, str(batch), Side.BEFORE)
        state = CrashState((StateEntry("/sink/rows", f"{batch}"),))
        watched.passed.append(Passed(address, 0, 0, state))
    here, other = watched.passed
    attempt.looks, attempt.failure = NOTHING, failure
    attempt.silent = 1 if isinstance(failure, DeadlinePassed) else None
    waits = Waiting(crash_at(1), other)

    groups = [[waits]]
    taken = take_alike(AttemptStates(watched), here, attempt, groups)

    assert (taken, groups) == (([waits], []) if stands else ([], [[waits]]))
