"""In which order crashes are tried that wait for it."""

from __future__ import annotations

import pytest

from profiles import passed
from streamproof.harness.certifying.plan import Crash, Victim
from streamproof.harness.certifying.waiting import Waiting, by_worth
from streamproof.harness.core.addresses import DRIVER, Point, Side


def after(deed: str, batch: int = 1) -> list[Waiting]:
    one = passed(Point.FILE, Side.AFTER, f"{batch}/{deed}#1")
    crash = Crash(Point.FILE, Side.AFTER, one.address.key, DRIVER, Victim.DRIVER, batch, ("steady",))
    return [Waiting(crash, one)]


@pytest.mark.parametrize("away", ["unlink sink/a-journal", "rename sink/a-journal > sink/b"])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_to_a_file_that_goes_away_comes_after_what_is_written_to_one_that_stays(
    away: str, seed: int
) -> None:
    temporary = [after(deed) for deed in ("create sink/a-journal", "write sink/a-journal", "write checkpoint/x")]
    stays = after("write sink/a")
    of_others = after("write sink/c-journal", batch=2)
    groups = [*temporary, of_others, stays, after(away)]
    order = by_worth(groups, seed)
    assert order[:2] == [groups[-1], stays]
    assert order[-1] == of_others
