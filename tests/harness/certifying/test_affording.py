"""How long what is left of a campaign would take."""

from __future__ import annotations

from pathlib import Path

from certified import crash_at
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.certifying.certificate import More
from streamproof.harness.certifying.covering import Covering
from streamproof.harness.certifying.crash_states import CrashState, StateEntry
from streamproof.harness.certifying.page import more_said
from streamproof.harness.certifying.request import CampaignRequest
from streamproof.harness.certifying.waiting import Waiting
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import as_it_comes
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Address, Point, Side
from streamproof.scenarios.workloads import words


def covering(tmp_path: Path) -> Covering:
    attempt = Attempt("driver", 1)
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    request = CampaignRequest(Query(as_it_comes), words(events=1), (), Registry(), 7, "", "")
    return Covering(state, request, [], [attempt], [])


def one(number: int) -> list[Waiting]:
    state = CrashState((StateEntry(f"/sink/{number}", "1"),))
    address = Address("driver", 1, Point.ADD_BATCH, str(number), Side.AFTER)
    return [Waiting(crash_at(number), Passed(address, 0, 0, state))]


def test_recoveries_that_are_left_are_as_many_as_groups_wait_where_none_stood_for_another(tmp_path: Path) -> None:
    made = covering(tmp_path)
    made._waiting, made._later = [one(n) for n in range(6)], [one(n) for n in range(6, 10)]
    assert (made.likely_left(), made.likely_left(False)) == (10, 6)
    made._stood_for.extend((1, 1))
    assert (made.likely_left(), made.likely_left(False)) == (10, 6)


def test_recoveries_that_are_left_are_fewer_where_the_last_ones_stood_for_many(tmp_path: Path) -> None:
    made = covering(tmp_path)
    made._waiting, made._later = [one(n) for n in range(6)], [one(n) for n in range(6, 10)]
    made._stood_for.extend((1, 5))
    assert (made.likely_left(), made.likely_left(False)) == (4, 2)
    assert made.recoveries_left() == 10


def test_the_time_for_verdicts_is_told_beside_that_for_all_of_it() -> None:
    more = More(30, 100, 2, 31, "streamproof certify --continue x --minutes 9", 9)
    assert more_said(more) == (
        "about 9 minutes, or 31 for what others stand for, too, would do: streamproof certify --continue x --minutes 9"
    )
    assert more_said(more, True).startswith("What more time would buy: 30 of 100 planned crashes and 2 kills")
    assert "for which about 9 minutes, or 31 for what others stand for, too, would do" in more_said(more, True)
    alone = More(30, 100, 2, 31, more.command)
    assert more_said(alone).startswith("about 31 minutes more would do")
