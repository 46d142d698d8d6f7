"""Whether a subject came back: of runs made by hand, in which it stalls, fails again and again, is slow, or is back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from handmade import Highest, Made, Pass, chain
from query_histories import JUDGES, Given, query_history
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import RECOVERS, Guarantee, recovers
from streamproof.harness.core.lattice import implied, ranked
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.topology import Edge, Stage
from streamproof.harness.core.verdicts import Anomaly, Verdict
from streamproof.harness.judging.oracle import Case, judge_each
from streamproof.harness.judging.references import DRIVER, collate_references
from streamproof.harness.judging.shapes import OutputMode, OutputShape
from streamproof.harness.judging.stalls import ATTEMPTS, STATED
from streamproof.harness.protocol.merging import Merge
from streamproof.harness.recording.history import (
    Aborted,
    Bite,
    Drained,
    FaultHealed,
    FaultMissed,
    FaultStruck,
    History,
    IncarnationFailed,
    Placed,
    Proof,
    Stalled,
    Stamp,
    TimelineEntry,
)
from streamproof.harness.recording.records import (
    BatchDone,
    CheckpointDurable,
    CheckpointTaken,
    Closed,
    Compensated,
    Delivered,
    Fired,
    Opened,
    PartialTaken,
    Promoted,
    Record,
    Stamped,
)
from streamproof.reference_impls.mechanisms.epochs import Epochs
from streamproof.reference_impls.mechanisms.merges import ByTime
from streamproof.scenarios.in_time import SumByTime

SHAPE = OutputShape(OutputMode.APPEND)
SECOND = 1_000_000
GIVEN = [Given(0, [{"a": 1}])]
WHOLE = query_history(SHAPE, GIVEN, GIVEN)
AGAIN = Delivered("sink", "q", 2, 0, [])
KILLED = Bite(DRIVER, "driver", (DRIVER,), True, True)
CRASH = FaultStruck(Stamp(20), 0, "crash driver", "driver/0#1 after offset-log 0", KILLED)
BACK = Placed(Stamp(21), DRIVER, 2, "driver")
END = Drained(Stamp(100 * SECOND))


def stalled(silent: int | None, why: str = "stall: it has not come to the end of its input") -> Aborted:
    return Aborted(Stamp(100 * SECOND), why, silent)


def failed(batch: int = 0, *, incarnation: int = 2, disturbed: bool = False) -> IncarnationFailed:
    why = "query 'q' failed: FileExistsError: part"
    return IncarnationFailed(Stamp(incarnation), DRIVER, incarnation, batch, why, disturbed)


def verdict(
    *timeline: TimelineEntry, claim: Guarantee = recovers(), signs: Sequence[int] = (), sealed: bool = True
) -> Verdict:
    """Of a query that gave its only batch before anything struck, and gave a sign of work at these times."""
    records = [*WHOLE.records, *(Stamped(at, AGAIN) for at in signs)]
    history = History(records, timeline, sealed)
    return judge_each(Case(history, collate_references(history, SHAPE)), [claim], JUDGES)[0]


def anomalies(found: Verdict) -> list[Anomaly]:
    return [tally.anomaly for tally in found.anomalies]


def test_it_implies_nothing_and_nothing_implies_it() -> None:
    assert implied(RECOVERS, JUDGES) == {RECOVERS}
    assert all(RECOVERS not in implied(other, JUDGES) for other in JUDGES if other != RECOVERS)
    assert RECOVERS not in ranked(JUDGES)


# A query


def test_who_comes_to_the_end_after_a_crash_is_back() -> None:
    found = verdict(CRASH, BACK, END)
    assert (found.status, found.summary) == ("HOLDS", "back after 1 fault")


def test_who_gives_no_sign_of_work_for_the_stated_time_has_stalled() -> None:
    found = verdict(CRASH, BACK, stalled(STATED.micros))
    assert (found.status, anomalies(found)) == ("VIOLATED", [Anomaly.STALL])
    (piece,) = found.anomalies[0].sample
    assert (piece.where, piece.fault) == (DRIVER, 0)
    assert "has not come to the end of its input" in piece.what


def test_who_was_still_at_work_when_it_was_given_up_may_be_slow() -> None:
    found = verdict(CRASH, BACK, stalled(STATED.micros - 1))
    assert found.status == "UNKNOWN"
    assert found.reason.endswith("it gave no sign of work for 30 s, and a stall takes 30 s")
    assert verdict(CRASH, BACK, stalled(None)).status == "UNKNOWN"


def test_the_time_that_a_claim_states_is_the_one_that_counts() -> None:
    short, long = recovers(seconds(10)), recovers(seconds(60))
    assert verdict(CRASH, BACK, stalled(20 * SECOND), claim=short).status == "VIOLATED"
    assert verdict(CRASH, BACK, stalled(40 * SECOND), claim=long).status == "UNKNOWN"


def test_who_fails_at_one_batch_again_and_again_is_in_a_crash_loop_with_its_error() -> None:
    failures = [failed(3, incarnation=2 + number) for number in range(ATTEMPTS)]
    found = verdict(CRASH, BACK, *failures, stalled(0))
    assert (found.status, anomalies(found)) == ("VIOLATED", [Anomaly.CRASH_LOOP])
    (piece,) = found.anomalies[0].sample
    assert piece.what == (
        "started again, it failed at batch 3 3 times in a row: query 'q' failed: FileExistsError: part"
    )
    assert piece.at == (2, 3, 4)


@pytest.mark.parametrize(
    "failures",
    [
        [failed(3), failed(3)],
        [failed(3), failed(4), failed(3)],
        [failed(3, disturbed=True)] * ATTEMPTS,
        [failed(3), failed(3, disturbed=True), failed(3)],
    ],
    ids=["too seldom", "elsewhere", "under a fault", "a fault in between"],
)
def test_what_is_no_crash_loop_is_not_called_one(failures: list[IncarnationFailed]) -> None:
    assert verdict(CRASH, BACK, *failures, stalled(0)).status == "UNKNOWN"
    assert verdict(CRASH, BACK, *failures, END).status == "HOLDS"


def test_who_fails_and_comes_to_the_end_after_all_is_back() -> None:
    assert verdict(CRASH, BACK, *[failed(3)] * 2, END).status == "HOLDS"


def test_a_fault_that_was_in_force_until_it_was_given_up_may_be_why() -> None:
    lasting = msgspec.structs.replace(CRASH, bite=Bite(DRIVER, "driver", (DRIVER,), True, lasting=True))
    healed = FaultHealed(Stamp(10), 0, "pause driver", DRIVER, Proof(1, "times"))
    found = verdict(lasting, stalled(60 * SECOND), healed)
    assert found.status == "UNKNOWN"
    assert "fault 1 was in force until then" in found.reason
    assert verdict(lasting, healed, stalled(60 * SECOND)).status == "VIOLATED"


def test_where_nothing_struck_there_was_nothing_to_recover_from() -> None:
    assert verdict(END).reason == "no fault struck, so there was nothing to recover from"
    missed = FaultMissed(Stamp(5), 0, "crash driver")
    assert verdict(missed, END).reason == "the trigger of fault 1 never came: crash driver"
    assert verdict(stalled(60 * SECOND)).reason.endswith("no fault had struck before")
    nowhere = msgspec.structs.replace(CRASH, bite=Bite(DRIVER, None, (), True, True))
    assert verdict(nowhere, stalled(60 * SECOND)).status == "UNKNOWN"


def test_what_ended_the_run_from_outside_is_no_stall() -> None:
    for why in ("ProcessDied: the driver ended by itself", "interrupted by the user"):
        assert verdict(CRASH, stalled(None, why)).status == "UNKNOWN"
    assert verdict(CRASH, sealed=False).status == "UNKNOWN"


def test_whose_first_sign_of_work_comes_too_late_is_back_too_late() -> None:
    claim = recovers(seconds(10))
    late = verdict(CRASH, BACK, END, claim=claim, signs=[11 * SECOND])
    assert (late.status, anomalies(late)) == ("VIOLATED", [Anomaly.BOUND_EXCEEDED])
    assert verdict(CRASH, BACK, END, claim=claim, signs=[9 * SECOND, 40 * SECOND]).status == "HOLDS"
    # Who starts it again is not it.
    started = msgspec.structs.replace(BACK, stamp=Stamp(8 * SECOND))
    assert verdict(CRASH, started, END, claim=claim, signs=[11 * SECOND]).status == "HOLDS"
    assert verdict(CRASH, BACK, END, signs=[11 * SECOND]).status == "HOLDS"


def test_whose_first_sign_of_work_comes_at_the_last_moment_is_back_in_time() -> None:
    claim, last = recovers(seconds(10)), BACK.stamp.at + 10 * SECOND
    assert verdict(CRASH, BACK, END, claim=claim, signs=[last]).status == "HOLDS"
    assert verdict(CRASH, BACK, END, claim=claim, signs=[last + 1]).status == "VIOLATED"


def test_of_an_own_sink_whose_work_is_recorded_at_the_end_alone_no_sign_is_too_late() -> None:
    """It was given up, and has stalled, had it been silent for longer than is claimed."""
    own, table, claim = OutputShape(OutputMode.APPEND, (), reads=True), [{"a": 1}], recovers(seconds(10))
    read = query_history(own, table, table).records

    def come_to(end: TimelineEntry) -> Verdict:
        records = [*read, Stamped(31 * SECOND, BatchDone(DRIVER, 2, 1, 4, 0, 0, 900))]
        history = History(records, [CRASH, BACK, end], True)
        return judge_each(Case(history, collate_references(history, own)), [claim], JUDGES)[0]

    assert come_to(END).status == "HOLDS"
    assert anomalies(come_to(stalled(10 * SECOND))) == [Anomaly.STALL]


# A scheme


def of_a_scheme(
    *,
    drained: bool,
    virtual: bool = True,
    silent: int | None = None,
    at_rest: bool = False,
    claim: Guarantee = recovers(),
) -> Verdict:
    made = Made(chain(Pass()))
    made.offer("a", 1, 2)
    made.start("a", 1)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.deliver("op0", 1, 1)
    made.lose("op0", 1)
    made.start("op0", 2)
    made.take("op0", 2, "a", 1, 1, 2)
    made.deliver("op0", 2, 1, 2)
    made.keep("op0", 2)
    history = made.history()
    if not drained:
        stamp = Stamp(made.at + 1)
        end = Stalled(stamp, "op0-0 waits for a") if at_rest else Aborted(stamp, "stall: op0-0 waits for a", silent)
        history = History(history.records, [*history.timeline[:-1], end])
    return made.verdict(claim, history, virtual_time=virtual)


def test_a_scheme_that_comes_to_rest_without_its_end_has_stalled() -> None:
    found = of_a_scheme(drained=False, at_rest=True)
    assert (found.status, anomalies(found)) == ("VIOLATED", [Anomaly.STALL])
    assert found.anomalies[0].sample[0].where == "op0-0"
    assert of_a_scheme(drained=False).status == "UNKNOWN", "it was given up before it had come to rest"
    assert of_a_scheme(drained=True).status == "HOLDS"


def test_on_a_real_clock_a_scheme_may_be_slow() -> None:
    assert of_a_scheme(drained=False, virtual=False, silent=SECOND).status == "UNKNOWN"
    assert of_a_scheme(drained=False, virtual=False, silent=STATED.micros).status == "VIOLATED"


def test_a_bound_means_nothing_on_a_virtual_clock_and_a_stall_does() -> None:
    claim = recovers(seconds(5))
    assert "virtual" in of_a_scheme(drained=True, claim=claim).reason
    assert of_a_scheme(drained=False, at_rest=True, claim=claim).status == "VIOLATED"


BOUND = recovers(seconds(5))


class Growing(Operator[list[int]]):
    """At the end of each epoch says the sum of all that came."""

    epoch = 20

    def initial_state(self) -> list[int]:
        return [0]

    def process(self, event: Event, state: list[int]) -> Iterable[Output]:
        state[0] += event.value
        return ()

    def close(self, upper: int, state: list[int]) -> Iterable[Output]:
        return [("grown", state[0])]


def back_after(late: int, *, opened: int | None = None, replicas: int = 1, idle: bool = False) -> Made:
    """A slice is lost, and takes again after so long; the one before it works on all the while, or is `idle` until
    then."""
    made = Made(chain(Pass(), Pass()), replicas=replicas)
    made.offer("a", 1)
    made.start("a", 1)
    made.start("op0", 1)
    made.start("op1", 1)
    if replicas > 1:
        made.start("op1", 2, replica=1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.take("op1", 1, "op0", 1, 1, 1)
    made.lose("op1", 1)
    made.start("op1", 3)
    if not idle:
        made.offer("a", 2, 3)
        made.take("op0", 1, "a", 1, 2, 3)
    if replicas > 1:
        made.take("op1", 2, "op0", 1, 1, 1)
    began = made.at
    if opened is not None:
        made.at = began + opened
        made.open("op0", 1, "op1", 3, 2 if idle else 4)
    made.at = began + late
    if idle:
        made.offer("a", 2, 3)
        made.take("op0", 1, "a", 1, 2, 3)
    made.take("op1", 3, "op0", 1, 2 if idle else 1, 3)
    made.deliver("op1", 3, *((1, 2) if idle else (1, 2, 3)))
    made.keep("op0", 1)
    for number in (2, 3) if replicas > 1 else (3,):
        made.keep("op1", number)
    return made


def test_the_work_of_another_slice_does_not_show_that_the_one_that_was_lost_is_back() -> None:
    found = back_after(6 * SECOND).verdict(BOUND, virtual_time=False)
    assert (found.status, anomalies(found)) == ("VIOLATED", [Anomaly.BOUND_EXCEEDED])
    (late,) = found.anomalies[0].sample
    assert (late.where, late.what) == ("op1-0", "the first sign of work came 6.00 s later")
    assert back_after(4 * SECOND).verdict(BOUND, virtual_time=False).status == "HOLDS"


def test_a_slice_that_has_asked_for_its_input_is_back_though_there_is_none_yet() -> None:
    made = back_after(9 * SECOND, opened=SECOND, idle=True)
    assert made.verdict(BOUND, virtual_time=False).status == "HOLDS"
    asked_late = back_after(9 * SECOND, opened=6 * SECOND, idle=True)
    assert asked_late.verdict(BOUND, virtual_time=False).status == "VIOLATED"


def test_a_slice_that_asks_for_its_input_and_does_not_take_what_is_there_is_not_back() -> None:
    found = back_after(600 * SECOND, opened=SECOND).verdict(BOUND, virtual_time=False)
    assert (found.status, anomalies(found)) == ("VIOLATED", [Anomaly.BOUND_EXCEEDED])
    (late,) = found.anomalies[0].sample
    assert (late.where, late.what) == ("op1-0", "what was there for it was taken 600.00 s later")
    assert back_after(4 * SECOND, opened=SECOND).verdict(BOUND, virtual_time=False).status == "HOLDS"


@pytest.mark.parametrize(
    "sign",
    [
        Opened("op0-0", 1, "op1-0", 3, 0, 4),
        CheckpointTaken("op1-0", 3, 1),
        PartialTaken("op1-0", 3, 1),
        CheckpointDurable("op1-0", 3, 1),
        Promoted("op1-0", 3),
        Compensated("op1-0", 3, 1.0),
    ],
    ids=lambda sign: type(sign).__name__,
)
@pytest.mark.parametrize("asks", [True, False])
def test_a_slice_that_is_there_and_does_not_take_what_is_there_for_it_is_not_back(sign: Record, asks: bool) -> None:
    def judged(late: int) -> Verdict:
        made = back_after(late, opened=SECOND if asks else None)
        place = next(n for n, one in enumerate(made.records) if one.at >= made.at - late // 2)
        made.records.insert(place, Stamped(2 * SECOND, sign))
        return made.verdict(BOUND, virtual_time=False)

    late = judged(600 * SECOND)
    assert late.anomalies[0].sample[0].what == "what was there for it was taken 600.00 s later"
    assert judged(4 * SECOND).status == "HOLDS"


@pytest.mark.parametrize(("made_anew", "status"), [(4, "HOLDS"), (1, "VIOLATED")])
def test_what_the_sender_had_to_make_anew_was_there_when_it_had_made_it(made_anew: int, status: str) -> None:
    """Both are lost: the one after it asks at once, and waits for the one before it."""
    made = Made(chain(Pass(), Pass()))
    made.offer("a", 1, 2)
    for name in ("a", "op0", "op1"):
        made.start(name, 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.take("op1", 1, "op0", 1, 1, 1)
    made.lose("op1", 1)
    made.timeline.append(msgspec.structs.replace(made.timeline[-2], bite=Bite("op0", "op0-1", ("op0-0",), True, True)))
    made.start("op0", 2)
    made.start("op1", 2)
    made.open("a", 1, "op0", 2, 3)
    made.open("op0", 2, "op1", 2, 1)
    began = made.at
    made.at = began + made_anew * SECOND
    made.take("op0", 2, "a", 1, 1, 2)
    made.at = began + 8 * SECOND
    made.take("op1", 2, "op0", 2, 1, 2)
    made.deliver("op1", 2, 1, 2)
    made.keep("op0", 2)
    made.keep("op1", 2)
    assert made.verdict(BOUND, virtual_time=False).status == status


def behind(operator: Operator[Any], merge: Merge, ends: Sequence[Record], late: int) -> Made:
    """A slice is lost, asks for its input at once, and takes so long after that what the slice before it has made at
    these ends of windows."""
    made = Made(chain(operator, Pass(), sources=("a", "b")), merge=merge)
    made.offer("a", 1, 2, every=20)
    made.offer("b", 3, 4, every=10)
    for name in ("a", "b", "op0", "op1"):
        made.start(name, 1)
    made.take("op0", 1, "b", 1, 1, 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.take("op0", 1, "b", 1, 2, 2)
    made.note(ends[0])
    made.take("op1", 1, "op0", 1, 1, 1)
    made.lose("op1", 1)
    made.start("op1", 2)
    made.take("op0", 1, "a", 1, 2, 2)
    made.note(ends[1])
    began = made.at
    made.open("op0", 1, "op1", 2, 3)
    made.at = began + late
    made.take("op1", 2, "op0", 1, 1, 2)
    made.deliver("op1", 2, 1, 2)
    made.keep("op0", 1)
    made.keep("op1", 2)
    return made


@pytest.mark.parametrize(
    ("operator", "merge", "ends"),
    [
        (SumByTime(20), ByTime(), [Fired("op0-0", 1, time, time, clock=False) for time in (20, 40)]),
        (Growing(), Epochs(20), [Closed("op0-0", 1, epoch) for epoch in (0, 1)]),
    ],
    ids=["timers", "ends of epochs"],
)
def test_what_timers_and_ends_of_epochs_make_is_there_when_they_made_it(
    operator: Operator[Any], merge: Merge, ends: Sequence[Record]
) -> None:
    found = behind(operator, merge, ends, 60 * SECOND).verdict(BOUND, virtual_time=False)
    assert found.anomalies[0].sample[0].what == "what was there for it was taken 60.00 s later"
    assert behind(operator, merge, ends, 4 * SECOND).verdict(BOUND, virtual_time=False).status == "HOLDS"


def lost_twice(again: int, back: int, *, started: int = SECOND) -> Made:
    """A slice is started again, lost once more without a sign of work, so long after the first time, and started again
    a second later; it is at work so long after the first time."""
    made = Made(chain(Pass(), Pass()))
    made.offer("a", 1, 2, 3)
    for name in ("a", "op0", "op1"):
        made.start(name, 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.take("op1", 1, "op0", 1, 1, 1)
    began = made.at
    made.lose("op1", 1, fault=0)
    if started < again:
        made.at = began + started
        made.start("op1", 2)
    made.at = began + again
    made.lose("op1", 2, fault=1)
    made.at = began + again + SECOND
    made.start("op1", 3)
    made.take("op0", 1, "a", 1, 2, 3)
    made.at = began + back
    made.take("op1", 3, "op0", 1, 1, 3)
    made.deliver("op1", 3, 1, 2, 3)
    made.keep("op0", 1)
    made.keep("op1", 3)
    return made


def test_who_is_lost_once_more_is_waited_for_anew() -> None:
    assert lost_twice(4 * SECOND, 9 * SECOND).verdict(BOUND, virtual_time=False).status == "HOLDS"
    # Nobody waits for who has not been started again.
    slow_cluster = lost_twice(40 * SECOND, 45 * SECOND, started=50 * SECOND)
    assert slow_cluster.verdict(BOUND, virtual_time=False).status == "HOLDS"
    late = lost_twice(4 * SECOND, 11 * SECOND).verdict(BOUND, virtual_time=False)
    assert [(one.fault, one.what) for one in late.anomalies[0].sample] == [
        (1, "the first sign of work came 6.00 s later")
    ]


def test_who_did_nothing_for_too_long_before_it_was_lost_once_more_was_not_back_in_time() -> None:
    late = lost_twice(8 * SECOND, 10 * SECOND).verdict(BOUND, virtual_time=False)
    assert [(one.fault, one.what) for one in late.anomalies[0].sample] == [
        (0, "it was lost again 7.00 s later, without a sign of work")
    ]


def test_a_driver_that_is_killed_once_more_while_it_starts_is_waited_for_anew() -> None:
    again = msgspec.structs.replace(CRASH, stamp=Stamp(8 * SECOND), number=1, address=None)
    first, second = (Placed(Stamp(at * SECOND), DRIVER, number, "driver") for at, number in ((1, 2), (9, 3)))
    claim, crash = recovers(seconds(10)), msgspec.structs.replace(CRASH, address=None)
    assert verdict(crash, first, again, second, END, claim=claim, signs=[17 * SECOND]).status == "HOLDS"
    assert verdict(crash, first, again, second, END, claim=claim, signs=[20 * SECOND]).status == "VIOLATED"


@pytest.mark.parametrize(("who", "status"), [("op1", "HOLDS"), ("op0", "VIOLATED")])
def test_who_is_paused_after_it_was_started_again_is_not_waited_for_meanwhile(who: str, status: str) -> None:
    made = back_after(13 * SECOND)
    began = made.at - 13 * SECOND
    bite = Bite(who, f"{who}-3", (f"{who}-0",), True, lasting=True, proof=Proof(3, "actions put off"))
    made.timeline += [
        FaultStruck(Stamp(began + 2 * SECOND), 1, f"pause {who}", None, bite),
        FaultHealed(Stamp(began + 12 * SECOND), 1, f"pause {who}", bite.target, Proof(3, "actions put off")),
    ]
    assert made.verdict(BOUND, virtual_time=False).status == status


def test_who_gives_no_sign_of_work_up_to_a_late_end_may_not_have_been_back_in_time() -> None:
    found = verdict(CRASH, BACK, END, claim=recovers(seconds(10)))
    assert (found.status, found.why) == ("UNKNOWN", Why.NOTHING_TO_JUDGE)
    assert found.reason == (
        "of driver nobody knows how soon it was back after fault 1: it gave no sign of work until the run came to its "
        "end 100.00 s later"
    )
    assert verdict(CRASH, BACK, Drained(Stamp(9 * SECOND)), claim=recovers(seconds(10))).status == "HOLDS"
    assert verdict(CRASH, BACK, END).status == "HOLDS"


def test_another_replica_that_is_at_work_is_a_sign_of_its_slice() -> None:
    assert back_after(9 * SECOND, replicas=2).verdict(BOUND, virtual_time=False).status == "HOLDS"


PAUSE = Bite("op1", "op1-1", ("op1-0",), True, lasting=True, proof=Proof(3, "actions put off"))
CUT = Bite("op0-0 and op1-0", "op0-0 and op1-0", ("op0-0", "op1-0"), True, lasting=True, proof=Proof(3, "held back"))


def disturbed_until(late: int, bite: Bite = PAUSE, *, offered: int = 0) -> Made:
    """A slice, or the link to it, does nothing for two seconds, and so long after that; the one before it works on all
    the while. The input for which it is late is `offered` so long after the fault has ended."""
    made = Made(chain(Pass(), Pass()))
    made.offer("a", 1)
    for name in ("a", "op0", "op1"):
        made.start(name, 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.take("op1", 1, "op0", 1, 1, 1)
    made.deliver("op1", 1, 1)
    made.timeline.append(FaultStruck(Stamp(made.at + 1), 0, "pause op1", None, bite))
    if not offered:
        made.offer("a", 2, 3)
        made.take("op0", 1, "a", 1, 2, 3)
    healed = made.at = made.at + 2 * SECOND
    made.timeline.append(FaultHealed(Stamp(made.at), 0, "pause op1", bite.target, Proof(3, "actions put off")))
    if offered:
        made.at = healed + offered
        made.offer("a", 2, 3)
        made.take("op0", 1, "a", 1, 2, 3)
    made.at += SECOND
    made.offer("a", 4)
    made.take("op0", 1, "a", 1, 4, 4)
    made.at = healed + late
    made.take("op1", 1, "op0", 1, 2, 4)
    made.deliver("op1", 1, 2, 3, 4)
    made.keep("op0", 1)
    made.keep("op1", 1)
    return made


@pytest.mark.parametrize("bite", [PAUSE, CUT], ids=["paused", "cut off"])
def test_the_work_of_others_does_not_show_that_who_was_held_up_is_back(bite: Bite) -> None:
    found = disturbed_until(6 * SECOND, bite).verdict(BOUND, virtual_time=False)
    assert (found.status, anomalies(found)) == ("VIOLATED", [Anomaly.BOUND_EXCEEDED])
    (late,) = found.anomalies[0].sample
    assert (late.where, late.what, late.fault) == ("op1-0", "what was there for it was taken 6.00 s later", 0)
    assert disturbed_until(4 * SECOND, bite).verdict(BOUND, virtual_time=False).status == "HOLDS"


def paused_at_the_end(late: int) -> Made:
    """A slice is paused once all was taken, and the run comes to its end so long after that."""
    made = Made(chain(Pass(), Pass()))
    made.offer("a", 1, 2)
    for name in ("a", "op0", "op1"):
        made.start(name, 1)
    made.take("op0", 1, "a", 1, 1, 2)
    made.take("op1", 1, "op0", 1, 1, 2)
    made.deliver("op1", 1, 1, 2)
    made.timeline.append(FaultStruck(Stamp(made.at + 1), 0, "pause op1", None, PAUSE))
    healed = made.at = made.at + 2 * SECOND
    made.timeline.append(FaultHealed(Stamp(healed), 0, "pause op1", PAUSE.target, Proof(3, "actions put off")))
    made.at = healed + late
    made.keep("op0", 1)
    made.keep("op1", 1)
    return made


def test_where_nothing_is_known_to_have_been_there_to_do_a_late_sign_of_work_is_no_violation() -> None:
    found = paused_at_the_end(10 * SECOND).verdict(BOUND, virtual_time=False)
    assert (found.status, found.why) == ("UNKNOWN", Why.NOTHING_TO_JUDGE)
    assert found.reason.endswith(
        "the first sign of work came 10.00 s later, and nothing is known to have been there for anybody"
    )
    assert paused_at_the_end(4 * SECOND).verdict(BOUND, virtual_time=False).status == "HOLDS"
    in_a_cycle = led_back(disturbed_until(11 * SECOND, offered=9 * SECOND))
    assert in_a_cycle.verdict(BOUND, virtual_time=False).status == "UNKNOWN"


def first_of_all_lost(late: int) -> Made:
    """A slice is lost before anything has passed, asks at once, and takes so long after it was started again."""
    made = Made(chain(Pass(), Pass()))
    for name in ("a", "op0", "op1"):
        made.start(name, 1)
    made.lose("op1", 1)
    made.offer("a", 1, 2)
    made.take("op0", 1, "a", 1, 1, 2)
    made.start("op1", 2)
    began = made.at
    made.open("op0", 1, "op1", 2, 3)
    made.at = began + late
    made.take("op1", 2, "op0", 1, 1, 2)
    made.deliver("op1", 2, 1, 2)
    made.keep("op0", 1)
    made.keep("op1", 2)
    return made


def test_of_who_is_lost_before_anything_has_passed_nobody_knows_how_long_is_usual() -> None:
    found = first_of_all_lost(60 * SECOND).verdict(BOUND, virtual_time=False)
    assert (found.status, found.why) == ("UNKNOWN", Why.NOTHING_TO_JUDGE)
    assert found.reason == (
        "of op1-0 nobody knows how soon it was back after fault 1: what was there for it was taken 60.00 s later; "
        "nothing had passed there before the first fault, so that nobody knows how long is usual"
    )
    assert first_of_all_lost(4 * SECOND).verdict(BOUND, virtual_time=False).status == "HOLDS"


def paused_first_of_all(late: int) -> Made:
    """The same of who is paused."""
    made = Made(chain(Pass(), Pass()))
    for name in ("a", "op0", "op1"):
        made.start(name, 1)
    return paused(made, 1, late)


def paused(made: Made, seq: int, late: int) -> Made:
    """The second operator is paused for two seconds. An event that comes meanwhile, and one that comes after, it
    takes so late, while the slice before it goes on."""
    made.timeline.append(FaultStruck(Stamp(made.at + 1), 0, "pause op1", None, PAUSE))
    made.offer("a", seq)
    made.take("op0", 1, "a", 1, seq, seq)
    healed = made.at = made.at + 2 * SECOND
    made.timeline.append(FaultHealed(Stamp(healed), 0, "pause op1", PAUSE.target, Proof(3, "actions put off")))
    made.at += SECOND
    made.offer("a", seq + 1)
    made.take("op0", 1, "a", 1, seq + 1, seq + 1)
    made.at = healed + late
    made.take("op1", 1, "op0", 1, seq, seq + 1)
    made.deliver("op1", 1, seq, seq + 1)
    made.keep("op0", 1)
    made.keep("op1", 1)
    return made


def test_of_who_is_paused_before_anything_has_passed_nobody_knows_how_long_is_usual() -> None:
    found = paused_first_of_all(60 * SECOND).verdict(BOUND, virtual_time=False)
    assert (found.status, found.why) == ("UNKNOWN", Why.NOTHING_TO_JUDGE)
    assert "what was there for it was taken 60.00 s later; nothing had passed there" in found.reason
    assert paused_first_of_all(4 * SECOND).verdict(BOUND, virtual_time=False).status == "HOLDS"


def led_back(made: Made) -> Made:
    """The same records, where the second operator leads back to the first, which passes on what is new."""
    back = Edge("op1", "op0", feedback=True, leads_to=0)
    stages = {**made.topology.stages, "op0": Stage(Highest())}
    return replace(made, topology=replace(made.topology, stages=stages, edges=(*made.topology.edges, back)))


@pytest.mark.parametrize("made", [back_after, disturbed_until], ids=["lost", "paused"])
def test_in_a_topology_with_feedback_nobody_knows_since_when_something_was_there(made: Callable[..., Made]) -> None:
    more = {"opened": SECOND} if made is back_after else {}
    found = led_back(made(60 * SECOND, **more)).verdict(BOUND, virtual_time=False)
    assert (found.status, found.why) == ("UNKNOWN", Why.NOTHING_TO_JUDGE)
    assert found.reason.endswith(
        "was there for it was taken 60.00 s later; in a topology with feedback nobody knows since when it was there"
    )
    assert led_back(made(4 * SECOND, **more)).verdict(BOUND, virtual_time=False).status == "HOLDS"


@pytest.mark.parametrize("bite", [PAUSE, CUT], ids=["paused", "cut off"])
def test_who_was_held_up_and_has_nothing_to_do_is_not_late(bite: Bite) -> None:
    idle = disturbed_until(11 * SECOND, bite, offered=9 * SECOND)
    assert idle.verdict(BOUND, virtual_time=False).status == "HOLDS"
    late = disturbed_until(16 * SECOND, bite, offered=9 * SECOND)
    assert late.verdict(BOUND, virtual_time=False).status == "VIOLATED"


def test_who_always_waits_so_long_for_its_input_was_not_held_up() -> None:
    """As where a sender holds back what it has made until that is durable."""
    slow = Made(chain(Pass(), Pass()))
    slow.offer("a", 1, 2)
    for name in ("a", "op0", "op1"):
        slow.start(name, 1)
    slow.take("op0", 1, "a", 1, 1, 1)
    slow.at += 6 * SECOND
    slow.take("op1", 1, "op0", 1, 1, 1)
    slow.deliver("op1", 1, 1)
    slow.timeline.append(FaultStruck(Stamp(slow.at + 1), 0, "pause op1", None, PAUSE))
    slow.take("op0", 1, "a", 1, 2, 2)
    slow.at += SECOND
    slow.timeline.append(FaultHealed(Stamp(slow.at), 0, "pause op1", PAUSE.target, Proof(3, "actions put off")))
    slow.at += SECOND
    slow.offer("a", 3)
    slow.take("op0", 1, "a", 1, 3, 3)
    slow.at += 5 * SECOND
    slow.take("op1", 1, "op0", 1, 2, 3)
    slow.deliver("op1", 1, 2, 3)
    slow.keep("op0", 1)
    slow.keep("op1", 1)
    found = slow.verdict(BOUND, virtual_time=False)
    assert (found.status, found.summary) == (
        "HOLDS",
        "back after 1 fault; allowed of op1-0: what was there for it was taken 6.00 s later, and 6.00 s is what it "
        "took before the first fault",
    )


def paused_after(first: int, rest: int, late: int) -> Made:
    """The first event waits so long, and forty more so long each, before the slice is paused; what comes then, so
    long."""
    made = Made(chain(Pass(), Pass()))
    for name in ("a", "op0", "op1"):
        made.start(name, 1)
    for number in range(1, 42):
        made.offer("a", number)
        made.take("op0", 1, "a", 1, number, number)
        made.at += first if number == 1 else rest
        made.take("op1", 1, "op0", 1, number, number)
        made.deliver("op1", 1, number)
    return paused(made, 42, late)


def test_one_that_waited_for_the_start_does_not_make_a_long_wait_usual() -> None:
    assert paused_after(18 * SECOND, SECOND // 10, 20 * SECOND).verdict(BOUND, virtual_time=False).status == "VIOLATED"
    assert paused_after(18 * SECOND, SECOND // 10, 4 * SECOND).verdict(BOUND, virtual_time=False).status == "HOLDS"


def test_what_nearly_all_wait_for_is_allowed_beside_the_bound() -> None:
    assert paused_after(SECOND, 6 * SECOND, 10 * SECOND).verdict(BOUND, virtual_time=False).status == "HOLDS"
    found = paused_after(SECOND, 6 * SECOND, 12 * SECOND).verdict(BOUND, virtual_time=False)
    assert found.anomalies[0].sample[0].what == (
        "what was there for it was taken 12.00 s later, and 6.00 s is what it took before the first fault"
    )


def test_what_another_fault_holds_up_is_not_held_against_the_first() -> None:
    made = disturbed_until(6 * SECOND)
    healed = next(one.stamp.at for one in made.timeline if isinstance(one, FaultHealed))
    cut = FaultStruck(Stamp(healed - SECOND), 1, "partition op0 and op1", None, CUT)
    mended = FaultHealed(Stamp(healed + 4 * SECOND), 1, "partition op0 and op1", CUT.target, Proof(3, "held back"))
    made.timeline += [cut, mended]
    assert made.verdict(BOUND, virtual_time=False).status == "HOLDS"
