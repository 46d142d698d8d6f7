"""Bounded error: what was lost is measured, beside what may be; and an operator's distance is not taken at its word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from simulation import history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.errors import InvalidOperator, InvalidScenario
from streamproof.harness.core.events import Event, Output, Value
from streamproof.harness.core.guarantees import BOUNDED_ERROR, Guarantee, bounded_error
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.parameters import parse_claim
from streamproof.harness.core.quantities import events, ms
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Stage
from streamproof.harness.core.verdicts import Anomaly, Measured, Status, Verdict
from streamproof.harness.exploration.census import census
from streamproof.harness.exploration.simulating import installed, simulate
from streamproof.harness.judging.bounded_losses import is_over
from streamproof.harness.judging.oracle import Case
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Delivered, Kept, Offered, Record
from streamproof.oracles.bounded_error import ORACLE
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.approximate import approximate
from streamproof.reference_impls.epoch_based_processing import epoch_based_processing
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.mechanisms.approximate_backup import ApproximateBackups
from streamproof.reference_impls.mechanisms.receipt import Received
from streamproof.reference_impls.mutants.approximate import broken, scheme
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.logistic_regression import logistic_regression
from streamproof.scenarios.skewed_streams import points
from streamproof.scenarios.totals import MarkedTotals, SafeTotals, Totals, one_total, relays, totals_of_all, word_totals
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered, ones, words

WORKLOAD = ones(events=64, batch=4)
ONE_CRASH = (crash("sum-0").after(events(30)),)


def judged(
    subject: SchemeSubject, claim: Guarantee, faults: tuple[Fault, ...] = ONE_CRASH, workload: object = WORKLOAD
) -> Verdict:
    scenario = Scenario(subject, workload, claims=[])  # type: ignore[arg-type]
    history = history_of(scenario, faults)
    return ORACLE.judge(Case(history, subject.collate(history), None, virtual_time=True), claim)


def of(verdict: Verdict, what: str) -> Measured:
    return next(one for one in verdict.measured if one.what == what)


def test_a_slice_that_starts_blank_is_off_by_what_it_held() -> None:
    """Nothing is assumed of the scheme: amnesia is measured like any other."""
    subject = amnesia(one_total())
    history = history_of(Scenario(subject, WORKLOAD, claims=[]), ONE_CRASH)
    case = Case(history, subject.collate(history), None, virtual_time=True)
    wide, narrow = (ORACLE.judge(case, bounded_error(theta, 200, 200)) for theta in (200, 4))
    assert (wide.status, narrow.status) == (Status.HOLDS, Status.VIOLATED)
    assert {tally.anomaly for tally in narrow.anomalies} == {Anomaly.BOUND_EXCEEDED}
    off = of(wide, "state off by")
    assert off.amount > 4
    assert off.failures == 1
    assert off.allowed >= 200 / 2


def test_without_failures_nothing_may_be_lost_and_nothing_is() -> None:
    verdict = judged(approximate(one_total()), bounded_error(8, 8, 8), ())
    assert verdict.status is Status.HOLDS
    assert all((one.amount, one.allowed) == (0, 0) for one in verdict.measured)


def test_a_duplicate_is_no_bounded_loss() -> None:
    """However much may be lost, nothing may count twice."""
    subject = passive_replication(relays(1), checkpoint_every=events(8))
    verdict = judged(subject, bounded_error(1e6, 1e6, 1e6), (crash("relay1-0").after(events(30)),))
    assert verdict.status is Status.VIOLATED
    assert [tally.anomaly for tally in verdict.anomalies] == [Anomaly.DUPLICATE_OUTPUT]


def test_who_recovers_without_loss_has_a_bound_of_nothing() -> None:
    subject = passive_replication(one_total(), checkpoint_every=events(8), sink_filter=True)
    assert judged(subject, bounded_error(0, 0, 0)).status is Status.HOLDS


class Latest(Totals):
    """The last number that came under each key, from 1 to 10: what comes takes the place of what was lost."""

    def __init__(self) -> None:
        super().__init__(alpha=10)

    def process(self, event: Event, state: dict[str, float]) -> tuple[Output]:
        state[event.key] = 1 + event.seq % 10
        return ((event.key, state[event.key]),)


def test_what_is_lost_counts_though_what_comes_later_takes_its_place() -> None:
    """Of a state that began blank nothing is missing in the end; for a while it was as far off as it can be."""
    subject = amnesia(one_total(operator=Latest()))
    wide, narrow = (judged(subject, bounded_error(theta, 200, 200)) for theta in (20, 4))
    assert (wide.status, narrow.status) == (Status.HOLDS, Status.VIOLATED)
    assert {tally.anomaly for tally in narrow.anomalies} == {Anomaly.BOUND_EXCEEDED}
    for_a_while = of(narrow, "state lost for a while")
    assert (for_a_while.amount, for_a_while.allowed, for_a_while.failures) == (9, 2, 1)
    assert (of(narrow, "state off by").amount, of(narrow, "state lost").amount) == (0, 0)


class SaysNothing(Totals):
    """Any two states are the same."""

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        return 0.0

    def divergence_after(self, event: Event, state: dict[str, float], backup: dict[str, float], before: float) -> float:
        return 0.0


class HidesAll(SaysNothing):
    """And its rows show nothing that could differ, though its outputs tell."""

    def rows(self, state: dict[str, float]) -> dict[str, Value]:
        return {}


class ComparesWithTheWrongCopy(Totals):
    """With the state that it has been asked of first."""

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[str, float] | None = None

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        if self._first is None:
            self._first = dict(backup)
        return super().divergence(state, self._first)


class OneWay(Totals):
    """How much one has more than the other."""

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        return max(0.0, sum(state.values()) - sum(backup.values()))


class Further(Totals):
    """An event moves it by ten times what it declares."""

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        return 10 * super().divergence(state, backup)


class NoNumber(Totals):
    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        return float("nan")


class NoNumberInBetween(Totals):
    """Of states that are neither near nor as far apart as those that failures have left."""

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        apart = super().divergence(state, backup)
        return float("nan") if 1.5 < apart < 2.5 else apart


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (SaysNothing, "says 0 of two states that differ in 'k"),
        (HidesAll, "says 0 of a blank state and of each that comes of the input, and its rows tell none of them"),
        (ComparesWithTheWrongCopy, "its divergence says"),
        (OneWay, "one way and"),
        (Further, "and alpha is 1"),
        (NoNumber, "says nan of two states"),
        (NoNumberInBetween, "says nan of two states"),
    ],
)
def test_a_divergence_that_lies_is_found_out(make: Callable[[], Operator[dict[str, float]]], says: str) -> None:
    verdict = judged(amnesia(one_total(make())), bounded_error(1e6, 1e6, 1e6))
    assert verdict.status is Status.VIOLATED
    (tally,) = verdict.anomalies
    assert tally.anomaly == Anomaly.BOUND_EXCEEDED
    assert any(says in evidence.what for evidence in tally.sample), tally.sample


class Subtracting(Totals):
    """What is left of a state once the other was taken from it."""

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        for key, total in backup.items():
            state[key] = state.get(key, 0) - total
        return float(sum(map(abs, state.values())))


class Emptying(Totals):
    """So any two states become the same."""

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        state.clear()
        backup.clear()
        return 0.0


@pytest.mark.parametrize("kind", [Subtracting, Emptying])
def test_a_divergence_that_changes_the_states_is_no_distance(kind: Callable[[], Operator[dict[str, float]]]) -> None:
    subject = amnesia(one_total(kind()))
    history = history_of(Scenario(subject, WORKLOAD, claims=[]), ONE_CRASH)
    collation = subject.collate(history)
    with pytest.raises(InvalidOperator, match=r"operator of sum-0, divergence\(\), changes a state .* change a copy"):
        ORACLE.judge(Case(history, collation, None, virtual_time=True), bounded_error(1e6, 1e6, 1e6))
    # And no other claim is judged by what is left of them.
    assert not collation.phantoms.count


class Tiring(Totals):
    """Any two states are the same, once it was asked so often."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        self._left -= 1
        return super().divergence(state, backup) if self._left >= 0 else 0.0


def test_a_divergence_that_says_less_once_it_was_asked_often_is_found_out() -> None:
    """Also where it does so between its examination and what is measured by it."""
    for most in range(700, 1_100, 4):
        verdict = judged(amnesia(one_total(Tiring(most))), bounded_error(2, 1e6, 1e6))
        assert verdict.status is Status.VIOLATED, most


def test_what_the_operator_says_between_two_backups_is_not_asked_for() -> None:
    """A scheme that believes it loses more than it may, and that is seen."""

    class Hopeful(Totals):
        def divergence_after(
            self, event: Event, state: dict[str, float], backup: dict[str, float], before: float
        ) -> float:
            return 0.0

    verdict = judged(approximate(one_total(Hopeful()), theta=2, l=0, gamma=100), bounded_error(2, 0, 100))
    assert verdict.status is Status.VIOLATED
    assert of(verdict, "state off by").ratio > 1


def test_operators_without_a_distance_or_an_ideal_state_leave_it_open() -> None:
    verdict = judged(
        amnesia(trace()), bounded_error(8, 8, 8), (crash("trace-0").after(events(10)),), numbered(events=32, batch=4)
    )
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.UNSTATED)
    assert "the operator of trace-0 does not say how far two of its states are from each other" in verdict.reason


def test_it_is_claimed_on_the_command_line() -> None:
    claim = parse_claim("bounded-error:theta=10,l=2,gamma=0.5", BOUNDED_ERROR, ORACLE.parameters)
    assert claim == bounded_error(10, 2, 0.5)
    assert parse_claim("bounded-error:10,2,0.5", BOUNDED_ERROR, ORACLE.parameters) == claim
    windowed = parse_claim("bounded-error:10,2,0.5,window=20ms", BOUNDED_ERROR, ORACLE.parameters)
    assert windowed.amount("window") == ms(20)
    with pytest.raises(InvalidScenario, match="needs a number as its gamma"):
        parse_claim("bounded-error:10,2", BOUNDED_ERROR, ORACLE.parameters)


@pytest.mark.parametrize("window", [0, ms(0), 1.5])
def test_the_window_of_a_bound_is_an_amount_of_time(window: object) -> None:
    with pytest.raises(InvalidScenario, match=r"bounded_error\(window=.*\) needs an amount of event time"):
        bounded_error(1, 1, 1, window=window)  # type: ignore[arg-type]


@pytest.mark.parametrize("theta", [-1, float("nan"), float("inf"), 10**400, True, "much"])
def test_a_bound_is_a_number_that_is_not_negative(theta: float) -> None:
    with pytest.raises(InvalidScenario, match=r"bounded_error\(theta=.*\) needs a number, 0 or more"):
        bounded_error(theta, 0, 0)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("bounded-error:1e999,1,1", "theta=inf; that is to be a number that is finite"),
        ("bounded-error:1,1,1,0s", "window=.*; that is to be 0.001 s or more"),
        ("bounded-error:1,1,1,5us", "window=.*; that is to be 0.001 s or more"),
        ("bounded-error:1,1,1,1e999s", r"seconds\(inf\) needs a number"),
    ],
)
def test_what_is_written_that_bounds_nothing_is_refused(said: str, why: str) -> None:
    with pytest.raises(InvalidScenario, match=why):
        parse_claim(said, BOUNDED_ERROR, ORACLE.parameters)


@pytest.mark.parametrize("theta", [float("nan"), float("inf"), 10**400, -1.0])
def test_a_claim_that_is_made_of_the_oracle_has_the_same_bounds(theta: float) -> None:
    with pytest.raises(InvalidScenario, match="the claim bounded-error has theta="):
        ORACLE.claim(theta=theta, l=1.0, gamma=1.0)


def test_a_whole_number_is_a_bound_too() -> None:
    claim = ORACLE.claim(theta=40, l=2, gamma=3)
    assert judged(amnesia(one_total()), claim).status is judged(amnesia(one_total()), bounded_error(40, 2, 3)).status


def test_with_windows_each_may_cost_as_much() -> None:
    subject = amnesia(one_total())
    history = history_of(
        Scenario(subject, WORKLOAD, claims=[]), (crash("sum-0").after(events(20)), crash("sum-0").after(ms(35)))
    )
    case = Case(history, subject.collate(history), None, virtual_time=True)
    whole = ORACLE.judge(case, bounded_error(100, 100, 100))
    windowed = ORACLE.judge(case, bounded_error(100, 100, 100, window=ms(20)))
    assert of(whole, "state lost").failures == 1
    assert of(windowed, "outputs lost").allowed > of(whole, "outputs lost").allowed


def test_replicas_that_stand_beside_one_another_have_not_failed() -> None:
    """Each has a number of its own, and none may be taken for a failure that excuses a loss."""
    subject = active_replication(one_total(), acknowledge_every=events(4))
    verdict = judged(subject, bounded_error(8, 8, 8), ())
    assert verdict.status is Status.HOLDS
    assert {(one.failures, one.allowed) for one in verdict.measured} == {(0, 0.0)}
    struck = judged(subject, bounded_error(8, 8, 8), (crash("sum-0").after(events(30)),))
    assert {(one.failures, one.allowed) for one in struck.measured if one.what == "state off by"} == {(1, 4.0)}


class NearWhenFar(Totals):
    """Two states that are far from each other are said to be all but the same."""

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        apart = super().divergence(state, backup)
        return apart if apart < 6 else 0.001


@pytest.mark.parametrize("length", [64, 1_600])
def test_a_divergence_by_which_what_is_far_is_near_is_found_out(length: int) -> None:
    workload = ones(events=length, batch=4)
    verdict = judged(amnesia(one_total(NearWhenFar())), bounded_error(4, 1e4, 1e4), workload=workload)
    assert of(verdict, "state off by").ratio < 0.01, "what it says is believed"
    assert verdict.status is Status.VIOLATED
    (tally,) = verdict.anomalies
    assert any("on the way between them by a third" in evidence.what for evidence in tally.sample), tally.sample


def test_a_large_alpha_does_not_excuse_what_was_lost_beside_an_input() -> None:
    """What lost inputs have moved is measured: by its own word an operator would be allowed anything once one is."""
    claim = bounded_error(4, 200, 200, window=ms(1_000))
    for alpha in (1, 1_000):
        verdict = judged(amnesia(one_total(Totals(alpha))), claim)
        assert verdict.status is Status.VIOLATED
        off, lost = of(verdict, "state off by"), of(verdict, "inputs lost")
        assert 4 / 2 < off.allowed <= 4 / 2 + lost.amount
        assert off.ratio > 1


def test_what_lost_inputs_have_moved_uses_up_nothing_of_a_bound() -> None:
    """It is allowed because it was measured, so it would always be all that is allowed."""
    verdict = judged(amnesia(totals_of_all(1)), bounded_error(4, 200, 200), (crash("relay-0").after(events(30)),))
    off = of(verdict, "state off by")
    assert off.failures == 0
    assert off.amount == off.allowed == off.excused > 0
    assert off.ratio == 0
    assert str(off).endswith(f"{off.amount:g} of both by other losses")


def test_what_came_last_on_a_channel_is_last_in_the_ideal_state_too() -> None:
    """One that keeps the last model of each worker does not depend on the order of workers. The worker that failed
    tells a model more, since it has counted its points anew."""
    subject = approximate(logistic_regression(), theta=5, l=20, gamma=20, weights={"local": 1})
    told = Moment(Point.SEND_HANDED_OVER, Side.AFTER, "average-0#1 @650144973622735174", "local-1", 1)
    run = simulate(Scenario(subject, points(events=20, batch=1)), [crash("local-1").at(told)], seed=275687290)
    assert run.holds, run


def test_what_an_incarnation_made_that_its_successor_did_not_is_not_last_in_the_ideal_state() -> None:
    """The worker has lost a point, and tells its models after others than before: the first of them, which the average
    took, is none that should have been made, and came before all others all the same."""
    subject = approximate(logistic_regression(every=4), theta=10, l=40, gamma=160)
    told = Moment(Point.SEND_HANDED_OVER, Side.AFTER, "average-0#1 @422802274866657568", "local-0", 1)
    run = simulate(Scenario(subject, points(events=32, batch=4)), [crash("local-0").at(told)], seed=7)
    assert run.holds, run


def test_a_punctuation_that_was_lost_with_its_maker_is_among_the_lost_outputs() -> None:
    """For the relay it is an input like any other, and both ends are gone before it has arrived."""
    subject = approximate(totals_of_all(1, operator=MarkedTotals()), theta=100, l=100, gamma=200)
    scenario = Scenario(subject, ones(marks=4, events=24, batch=4))
    both = crash("relay-0", "sum-0")
    passed = [one.address for one in census(scenario, installed().faults, seed=7) if one.address.name == "relay-0"]
    handed = [one for one in passed if one.point is Point.SEND_HANDED_OVER and one.key.startswith("sum-0#1 @")]
    runs = [simulate(scenario, [both.at(Moment.exactly(address))]) for address in handed]
    assert not any(run.violated for run in runs), [run for run in runs if run.violated]
    lost = [set(offered_marks(run.history)) - set(taken_marks(run.history)) for run in runs]
    assert any(lost), "no mark was lost, so that nothing was tried"


def offered_marks(history: History) -> list[int]:
    return [event.seq for one in history.each(Offered) for event in one.events if event.key == "mark"]


def taken_marks(history: History) -> list[int]:
    """By how many of them have come out of the sum."""
    came = {event.time for one in history.each(Delivered) for event in one.rows if event.key == "mark"}
    return [event.seq for one in history.each(Offered) for event in one.events if event.time in came]


# What would hide behind the failures of others


def test_what_one_window_may_lose_is_not_what_another_has_lost() -> None:
    """Checkpoints are as far apart as they are, whatever was lost before."""
    subject = gap(one_total(), checkpoint_every=events(8))
    faults = (crash("sum-0").after(events(20)), crash("sum-0").after(events(40)))
    workload = ones(1, events=64, batch=1)
    verdict = judged(subject, bounded_error(10, 100, 100, window=ms(10)), faults, workload)
    lost = {one.where: (one.amount, one.allowed) for one in verdict.measured if one.what == "state lost"}
    assert lost == {"sum-0, 10 to 20 ms": (3, 5), "sum-0, 60 to 70 ms": (7, 5)}
    assert verdict.status is Status.VIOLATED
    assert judged(subject, bounded_error(14, 100, 100, window=ms(10)), faults, workload).status is Status.HOLDS


class DroppingUnfailed(ApproximateBackups):
    """`count-1` acknowledges some of its input, and takes none of that. Nobody has failed there."""

    dropping = True

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        if self.machine.name != "count-1" or self.machine.taken < 8 or not self.dropping:
            return super().came_in(channel, events)
        self.dropping = False
        self.numbers.unseen(channel, events)
        upstream = self.machine.spec.upstream[channel.place]
        self.machine.send(upstream, channel.sender, Received(self.machine.incarnation, events[-1].seq))
        return []


class MakingUpForNothing(ApproximateBackups):
    """`count-1` compensates though it has not failed."""

    made_up = False

    def follow(self, events: list[Event]) -> None:
        super().follow(events)
        if self.machine.name == "count-1" and self.machine.taken > 10 and not self.made_up:
            self.made_up = True
            self.machine.compensate(3)


@pytest.mark.parametrize(
    ("kind", "what", "where"),
    [(DroppingUnfailed, "inputs lost", "split-0>count-1"), (MakingUpForNothing, "state off by", "count-1")],
)
def test_what_a_slice_loses_is_not_excused_by_the_failures_of_its_copies(
    kind: type[ApproximateBackups], what: str, where: str
) -> None:
    topology = word_totals()
    safe = replace(topology, stages={**topology.stages, "count": Stage(SafeTotals(), 2)})
    subject = broken(scheme(40, 40, 40), kind)(safe, events(1))
    crashes = (crash("count-0").after(events(20)),)
    verdict = judged(subject, bounded_error(40, 40, 40), crashes, words(vocabulary=6, events=64, batch=4))
    assert verdict.status is Status.VIOLATED
    assert [(one.what, one.where, one.allowed) for one in verdict.measured if is_over(one)] == [(what, where, 0)]


# What was written down is not what happened


def _row(**changes: object) -> Callable[[Delivered], Delivered]:
    return lambda one: msgspec.structs.replace(
        one, rows=[msgspec.structs.replace(one.rows[0], **changes), *one.rows[1:]]
    )


def _state(**changes: object) -> Callable[[Kept], Kept]:
    return lambda one: msgspec.structs.replace(one, rows={**one.rows, **changes})


@pytest.mark.parametrize(
    ("kind", "change", "anomaly"),
    [
        (Kept, _state(ghost=1), Anomaly.PHANTOM_OUTPUT),
        (Kept, _state(k0=float("nan")), Anomaly.PHANTOM_OUTPUT),
        (Kept, _state(k0=float("inf")), Anomaly.PHANTOM_OUTPUT),
        (Delivered, _row(key="ghost"), Anomaly.PHANTOM_OUTPUT),
        (Delivered, _row(time=9_999), Anomaly.PHANTOM_OUTPUT),
        (Delivered, _row(value=float("nan")), Anomaly.PHANTOM_OUTPUT),
        (
            Delivered,
            # One is there twice, in the place of another: none too many.
            lambda one: msgspec.structs.replace(one, rows=[one.rows[0], one.rows[0], *one.rows[2:]]),
            Anomaly.DUPLICATE_OUTPUT,
        ),
        (
            Delivered,
            # Its first and its last stand where they did.
            lambda one: msgspec.structs.replace(one, rows=[one.rows[0], *one.rows[-2:0:-1], one.rows[-1]]),
            Anomaly.REORDERED_OUTPUT,
        ),
    ],
    ids=[
        "a key of nobody",
        "nan",
        "infinite",
        "another key",
        "a later window",
        "nan out",
        "twice for another",
        "in another order",
    ],
)
def test_no_bound_is_wide_enough_for_what_nobody_made(
    kind: type[Kept | Delivered], change: Callable[[Record], Record], anomaly: Anomaly
) -> None:
    subject = approximate(one_total(), theta=20, l=8, gamma=100)
    before = history_of(Scenario(subject, ones(2, events=64, batch=4), claims=[]), ONE_CRASH)
    place = max(place for place, stamped in enumerate(before.records) if isinstance(stamped.record, kind))
    records = [*before.records]
    records[place] = msgspec.structs.replace(records[place], record=change(records[place].record))
    history = History(records, before.timeline)
    case = Case(history, subject.collate(history), None, virtual_time=True)
    verdict = ORACLE.judge(case, bounded_error(1e9, 1e9, 1e9))
    assert verdict.status is Status.VIOLATED
    assert [tally.anomaly for tally in verdict.anomalies] == [anomaly]


def test_what_is_no_number_is_within_no_bound() -> None:
    assert is_over(Measured("state lost", "sum-0", 1, float("nan"), 10))
    assert is_over(Measured("state lost", "sum-0", 1, 1, float("nan")))
    assert not is_over(Measured("state lost", "sum-0", 1, 10, 10))


class Emptied(Totals):
    """Its timer empties it."""

    def due(self, state: dict[str, float]) -> int | None:
        return None if not state else int(state["since"]) + 10

    def process(self, event: Event, state: dict[str, float]) -> tuple[Output]:
        state.setdefault("since", event.time)
        return super().process(event, state)

    def on_time(self, time: int, state: dict[str, float]) -> tuple[()]:
        state.clear()
        return ()


class Closed(Totals):
    """The end of an epoch does."""

    epoch = 10

    def close(self, upper: int, state: dict[str, float]) -> tuple[()]:
        state.clear()
        return ()


@pytest.mark.parametrize(
    "subject",
    [
        passive_replication(one_total(Emptied(100)), checkpoint_every=events(8)),
        epoch_based_processing(one_total(Closed())),
    ],
    ids=["timers", "epochs"],
)
def test_a_state_that_changes_by_more_than_events_is_left_open(subject: SchemeSubject) -> None:
    """Without a failure it is not what events alone make of it, and nothing was lost."""
    verdict = judged(subject, bounded_error(8, 8, 8), ())
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.UNSTATED)
    assert "no ideal state was made with these" in verdict.reason


def test_a_bound_within_which_all_may_be_lost_is_said_to_be_one() -> None:
    """64 ones under two keys: no state is further than 32 from a blank one."""
    said = {theta: judged(approximate(one_total()), bounded_error(theta, 8, 8)).summary for theta in (80, 8)}
    assert said[80].endswith("; nothing would exceed the bound of: state off by (sum)"), said
    assert "nothing would exceed" not in said[8]
