"""Gap and amnesia: from when a channel was opened, everything that is made for it is taken. Histories made by hand."""

from __future__ import annotations

import pytest

from handmade import Log, Made, Pass, chain
from streamproof.harness.core.guarantees import (
    AMNESIA,
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    ROLLBACK_DIVERGENT,
    Guarantee,
    gap_recovery,
)
from streamproof.harness.core.quantities import events
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.protocol.spec import Numbering
from streamproof.harness.recording.history import Aborted, Drained, History, Stamp
from streamproof.harness.recording.records import Compensated, Opened


def interrupted(operator: Log | None = None) -> Made:
    """A slice takes 4, and is lost; 6 are offered when its successor opens its channel."""
    made = Made(chain(operator or Log()), Numbering.FRESH)
    made.start("op0", 1)
    made.open("a", 1, "op0", 1, 1)
    made.open("op0", 1, "sink", 1, 1)
    made.offer("a", *range(1, 5))
    made.take("op0", 1, "a", 1, 1, 4)
    made.deliver("op0", 1, 1, 2, 3, 4)
    made.lose("op0", 1)
    made.offer("a", 5, 6)
    made.start("op0", 2, next_seq=1_001)
    made.open("op0", 2, "sink", 1, 1_001)
    made.open("a", 1, "op0", 2, 7)
    made.offer("a", 7, 8, 9, 10)
    return made


def taking(made: Made, first: int, last: int) -> Made:
    made.take("op0", 2, "a", 1, first, last)
    made.deliver("op0", 2, *range(1_001, 1_002 + last - first))
    return made


def lost(made: Made) -> list[str]:
    verdict = made.verdict(AMNESIA)
    assert verdict.status is (Status.VIOLATED if verdict.anomalies else Status.HOLDS)
    assert {tally.anomaly for tally in verdict.anomalies} <= {Anomaly.LOST_INPUT}
    return [evidence.what for tally in verdict.anomalies for evidence in tally.sample]


class Raised(Log):
    """Makes up for what a recovery could not restore."""

    def compensate(self, state: list[object], missing: float) -> list[object]:
        return [*state, missing]


def test_a_state_that_was_moved_is_no_run_over_what_is_left() -> None:
    """What comes of it is explained by the record, and is not what the operator makes of what it took."""
    made = interrupted(Raised())
    made.note(Compensated("op0-0", 2, 4.0))
    taking(made, 7, 10).keep("op0", 2)
    for claim in (Guarantee(AMNESIA), gap_recovery(events(4)), Guarantee(ROLLBACK_DIVERGENT), Guarantee(EXACTLY_ONCE)):
        moved = [one for one in made.verdict(claim).anomalies if one.of == "of states that were moved"]
        assert [(one.anomaly, one.count) for one in moved] == [(Anomaly.PHANTOM_OUTPUT, 1)]
    plain = taking(interrupted(Raised()), 7, 10)
    plain.keep("op0", 2)
    assert plain.verdict(AMNESIA).status is Status.HOLDS


def test_what_came_while_it_was_away_is_the_gap() -> None:
    made = taking(interrupted(), 7, 10)
    made.keep("op0", 2)
    assert lost(made) == []
    assert made.verdict(AT_LEAST_ONCE).status is Status.VIOLATED


def test_one_that_stays_deaf_after_its_return() -> None:
    made = interrupted()
    made.keep("op0", 2)
    assert lost(made) == ["took nothing of a-0#1, but not #7, and no crash came between"]


@pytest.mark.parametrize(("first", "last", "passed"), [(8, 10, 7), (7, 9, 10)])
def test_one_that_passes_over_the_first_or_the_last(first: int, last: int, passed: int) -> None:
    made = taking(interrupted(), first, last)
    made.keep("op0", 2)
    assert lost(made) == [f"took #{first} to #{last} of a-0#1, but not #{passed}, and no crash came between"]
    # Of gap recovery it is told once, and not as what came of an opening that was late.
    found = made.verdict(gap_recovery(events(10))).anomalies
    assert [(one.anomaly, one.of, one.count) for one in found] == [
        (Anomaly.LOST_INPUT, "passed over in channels", 1),
    ]


def test_one_that_does_not_open_its_channel_again() -> None:
    made = interrupted()
    made.records = [s for s in made.records if s.record != made.records[-2].record]
    made.keep("op0", 2)
    assert lost(made) == ["did not open the channel of a-0 again"]


def test_one_that_is_lost_again_has_to_have_no_more_than_a_beginning() -> None:
    made = taking(interrupted(), 7, 8)
    made.lose("op0", 2)
    made.start("op0", 3, next_seq=2_001)
    made.open("op0", 3, "sink", 1, 2_001)
    made.open("a", 1, "op0", 3, 11)
    made.keep("op0", 3)
    assert lost(made) == []


def test_a_link_that_broke_may_lose_the_end_of_what_was_on_its_way_and_nothing_else() -> None:
    for taken, missing in (((7, 8), []), ((8, 8), ["#7"])):
        made = interrupted()
        made.take("op0", 2, "a", 1, *taken)
        made.deliver("op0", 2, *range(1_001, 1_002 + taken[1] - taken[0]))
        made.open("a", 1, "op0", 2, 11)
        made.offer("a", 11, 12)
        made.take("op0", 2, "a", 1, 11, 12)
        made.deliver("op0", 2, *(1_000 + n for n in range(2 + taken[1] - taken[0], 4 + taken[1] - taken[0])))
        made.keep("op0", 2)
        assert [what.split("not ")[1].split(",")[0] for what in lost(made)] == missing


@pytest.mark.parametrize("guarantee", [AMNESIA, gap_recovery(events(100))])
def test_one_that_opened_its_channel_once_takes_it_in_one_order(guarantee: str | Guarantee) -> None:
    made = interrupted()
    for first, last in ((9, 10), (7, 8)):
        made.take("op0", 2, "a", 1, first, last)
    made.deliver("op0", 2, *range(1_001, 1_005))
    made.keep("op0", 2)
    verdict = made.verdict(guarantee)
    assert [tally.anomaly for tally in verdict.anomalies] == [Anomaly.REORDERED_OUTPUT]
    assert verdict.anomalies[0].sample[0].what.endswith("not in order")


def test_a_channel_that_is_opened_once_more_is_not_opened_late() -> None:
    """Only the first opening ends a gap: a link can break at any time, and nobody has to be told of it."""
    made = taking(interrupted(), 7, 10)
    made.at += 100_000
    made.offer("a", 11, 12)
    made.take("op0", 2, "a", 1, 11, 11)
    made.open("a", 1, "op0", 2, 13)
    made.offer("a", 13, 14)
    made.take("op0", 2, "a", 1, 13, 14)
    made.deliver("op0", 2, 1_005, 1_006, 1_007)
    made.keep("op0", 2)
    assert made.verdict(gap_recovery(events(10))).status is Status.HOLDS


def test_the_first_to_open_a_channel_gets_what_was_made_before() -> None:
    made = Made(chain(Pass(), Log()), Numbering.FRESH)
    made.start("op0", 1)
    made.start("op1", 1)
    made.open("a", 1, "op0", 1, 1)
    made.offer("a", 1, 2)
    made.take("op0", 1, "a", 1, 1, 2)
    made.open("op0", 1, "op1", 1, 3)
    made.open("op1", 1, "sink", 1, 1)
    made.keep("op0", 1)
    made.keep("op1", 1)
    assert lost(made) == ["took nothing of op0-0#1, but not #1, and no crash came between"]
    made.take("op1", 1, "op0", 1, 1, 2)
    made.deliver("op1", 1, 1, 2)
    assert lost(made) == []


def test_what_a_replica_has_from_another_s_copy_is_not_passed_over() -> None:
    made = Made(chain(Pass(), Log()), replicas=2)
    for number in (1, 2):
        made.start("op0", number, replica=number - 1)
        made.open("a", 1, "op0", number, 1)
    made.start("op1", 1)
    for number in (1, 2):
        made.open("op0", number, "op1", 1, 1)
    made.open("op1", 1, "sink", 1, 1)
    made.offer("a", 1, 2)
    for number in (1, 2):
        made.take("op0", number, "a", 1, 1, 2)
        made.keep("op0", number)
    made.take("op1", 1, "op0", 1, 1, 1)
    made.take("op1", 1, "op0", 2, 2, 2)
    made.deliver("op1", 1, 1, 2)
    made.keep("op1", 1)
    assert lost(made) == []


def succeeded(made: Made, begin: int) -> None:
    """The first incarnation is lost, and another one takes two inputs from this one on to the end."""
    made.lose("op0", 1)
    made.start("op0", 2, next_seq=1_001)
    made.open("op0", 2, "sink", 1, 1_001)
    made.open("a", 1, "op0", 2, begin)
    made.offer("a", begin, begin + 1)
    made.take("op0", 2, "a", 1, begin, begin + 1)
    made.deliver("op0", 2, 1_001, 1_002)
    made.keep("op0", 2)


@pytest.mark.parametrize(("interval", "status"), [(4, Status.VIOLATED), (5, Status.HOLDS)])
def test_what_a_crash_may_take_back_is_bounded(interval: int, status: Status) -> None:
    """Ten events, which no checkpoint holds."""
    made = Made(chain(Log()), Numbering.FRESH)
    made.start("op0", 1)
    made.open("a", 1, "op0", 1, 1)
    made.open("op0", 1, "sink", 1, 1)
    made.offer("a", *range(1, 11))
    made.take("op0", 1, "a", 1, 1, 10)
    made.deliver("op0", 1, *range(1, 11))
    succeeded(made, 11)
    found = made.verdict(gap_recovery(events(interval)))
    assert found.status is status
    assert [tally.anomaly for tally in found.anomalies] == ([Anomaly.STATE_ROLLBACK] if found.anomalies else [])
    assert made.verdict(AMNESIA).status is Status.HOLDS


def test_a_gap_of_which_nobody_knows_where_it_ends() -> None:
    made = taking(interrupted(), 7, 10)
    made.keep("op0", 2)
    assert made.verdict(gap_recovery(events(10))).status is Status.HOLDS
    made.records[:] = [stamped for stamped in made.records if not isinstance(stamped.record, Opened)]
    verdict = made.verdict(gap_recovery(events(10)))
    assert verdict.unknown is not None
    assert verdict.unknown.why is Why.UNJUDGEABLE
    assert "when it opened that channel is not on record" in verdict.reason


def unopened(made: Made, *channels: tuple[str, int, str]) -> Made:
    """Without the record that these channels were opened; without names: that any was."""
    made.records = [
        stamped
        for stamped in made.records
        if not isinstance(one := stamped.record, Opened)
        or (channels and (one.slice, one.incarnation, one.downstream) not in channels)
    ]
    return made


GAP_OF_100 = gap_recovery(events(100))


@pytest.mark.parametrize("guarantee", [AMNESIA, GAP_OF_100])
@pytest.mark.parametrize("delivered", [(), (1_003, 1_004), (1_001, 1_002, 1_003)])
def test_a_sink_that_is_not_on_record_to_have_opened_the_channel_of_a_successor(
    guarantee: str | Guarantee, delivered: tuple[int, ...]
) -> None:
    made = interrupted()
    made.take("op0", 2, "a", 1, 7, 10)
    if delivered:
        made.deliver("op0", 2, *delivered)
    made.keep("op0", 2)
    if delivered:
        assert made.verdict(guarantee).status is Status.VIOLATED
    verdict = unopened(made, ("op0-0", 2, "sink-0")).verdict(guarantee)
    assert verdict.status is Status.VIOLATED
    assert verdict.anomalies[0].sample[0].what == "did not open the channel of op0-0 again"


@pytest.mark.parametrize("guarantee", [AMNESIA, GAP_OF_100])
def test_a_sink_may_not_have_opened_a_channel_yet_where_a_run_was_cut_short(guarantee: str | Guarantee) -> None:
    made = interrupted()
    made.take("op0", 2, "a", 1, 7, 10)
    made.keep("op0", 2)
    history = unopened(made, ("op0-0", 2, "sink-0")).history()
    timeline = [entry for entry in history.timeline if not isinstance(entry, Drained)]
    cut = History(history.records, [*timeline, Aborted(Stamp(made.at), "interrupted by the user")])
    assert made.verdict(guarantee, cut).status is Status.UNKNOWN


@pytest.mark.parametrize("guarantee", [AMNESIA, GAP_OF_100])
@pytest.mark.parametrize("took", [True, False])
def test_where_nobody_is_on_record_to_have_opened_a_channel_nobody_knows_what_had_to_be_taken(
    guarantee: str | Guarantee, took: bool
) -> None:
    made = Made(chain(Log()), Numbering.FRESH)
    made.start("op0", 1)
    made.offer("a", 1, 2, 3, 4)
    if took:
        made.take("op0", 1, "a", 1, 2, 4)
        made.deliver("op0", 1, 1, 2, 3)
    made.keep("op0", 1)
    verdict = made.verdict(guarantee)
    assert verdict.unknown is not None
    assert verdict.unknown.why is Why.UNJUDGEABLE


@pytest.mark.parametrize("guarantee", [AMNESIA, GAP_OF_100])
@pytest.mark.parametrize("first", [1, 3])
def test_a_sink_that_lacks_the_first_of_what_it_took_of_one_that_is_gone(
    guarantee: str | Guarantee, first: int
) -> None:
    made = Made(chain(Log()), Numbering.FRESH)
    made.start("op0", 1)
    made.open("a", 1, "op0", 1, 1)
    made.offer("a", *range(1, 5))
    made.take("op0", 1, "a", 1, 1, 4)
    for number in range(first, 5):
        made.deliver("op0", 1, number)
    succeeded(made, 5)
    verdict = made.verdict(guarantee)
    if first == 1:
        assert verdict.status is Status.HOLDS, "it took all, whenever it opened the channel"
        return
    assert verdict.unknown is not None
    assert verdict.unknown.why is Why.UNJUDGEABLE
    assert "sink-0 took from op0-0#1, and when it opened that channel is not on record" in verdict.reason
