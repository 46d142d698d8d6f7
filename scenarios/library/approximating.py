"""Approximate fault tolerance: what failures cost is measured, beside what they may cost."""

from __future__ import annotations

from ...faults.crash import crash
from ...harness.contracts.scenario import Scenario
from ...harness.core.addresses import Moment, Point, Side
from ...harness.core.guarantees import bounded_error
from ...harness.core.library import Entry
from ...harness.core.quantities import events, seconds
from ...reference_impls.approximate import approximate
from ..totals import MarkedTotals, Totals, one_total, relays, totals_of_all, word_totals
from ..workloads import ones, words


def word_totals_scenario() -> Scenario:
    """All parts of a word count crash at once, then each counter by itself. The counts are off by less than 60."""
    return Scenario(
        subject=approximate(word_totals(), theta=60, l=20, gamma=20),
        workload=words(vocabulary=20, events=2_000, batch=10, rate=200),
        faults=[
            crash("split-0", "count-0", "count-1").after(events(300)),
            crash("count-0").after(events(320)),
            crash("count-1").after(events(340)),
        ],
    )


def one_total_scenario() -> Scenario:
    """A sum crashes three times; it is off by as much as its threshold allows, which is halved each time."""
    return Scenario(
        subject=approximate(one_total(Totals(by_sum=True)), theta=24, l=2, gamma=40),
        workload=ones(events=400, batch=4, rate=1_000),
        faults=[
            crash("sum-0").after(events(90)),
            crash("sum-0").after(seconds(0.2)),
            crash("sum-0").after(seconds(0.3)),
        ],
    )


def changes_scenario() -> Scenario:
    """Backups leave small changes out, and what they leave out counts."""
    return Scenario(
        subject=approximate(one_total(Totals(by_sum=True, leaves_out=2)), theta=24, l=2, gamma=4),
        workload=ones(keys=8, events=400, batch=4, rate=1_000),
        faults=[crash("sum-0").after(events(90)), crash("sum-0").after(seconds(0.2))],
    )


def marks_scenario() -> Scenario:
    """What ends a window is never lost, though all else may be."""
    return Scenario(
        subject=approximate(one_total(MarkedTotals()), theta=200, l=200, gamma=200),
        workload=ones(marks=4, events=400, batch=4, rate=1_000),
        faults=[crash("sum-0").after(events(90)), crash("sum-0").after(seconds(0.2))],
    )


def meeting_scenario() -> Scenario:
    """Where channels meet numbers do not rise, and nothing counts twice all the same."""
    return Scenario(
        subject=approximate(totals_of_all(3), theta=24, l=8, gamma=12),
        workload=ones(events=400, batch=4, rate=1_000),
        faults=[crash("relay-1").after(seconds(0.1)), crash("sum-0", "relay-1").after(seconds(0.2))],
    )


def sink_scenario() -> Scenario:
    """Where channels meet a sink crashes, too, by itself and together with what feeds it: it loses nothing."""
    return Scenario(
        subject=approximate(totals_of_all(3), theta=24, l=8, gamma=12, sink_on_node=True),
        workload=ones(events=400, batch=4, rate=1_000),
        faults=[crash("sink-0").after(events(90)), crash("sum-0", "sink-0").after(seconds(0.2))],
    )


def spread_scenario() -> Scenario:
    """Three operators in a row, each with its share of what may be lost: together they lose no more than that."""
    return Scenario(
        subject=approximate(relays(3), theta=0, l=0, gamma=24),
        workload=ones(events=400, batch=8, rate=1_000),
        faults=[crash("relay1-0", "relay2-0", "relay3-0").after(seconds(0.1 * number)) for number in (1, 2, 3)],
    )


def paper_scenario() -> Scenario:
    """The same shared as in the paper, which lets each of them lose as much as all may: together they lose more."""
    both, all_three = ("relay2-0", "relay3-0"), ("relay1-0", "relay2-0", "relay3-0")
    return Scenario(
        subject=approximate(relays(3), theta=0, l=0, gamma=12, spread="paper"),
        workload=ones(events=120, batch=4, rate=1_000),
        faults=[
            crash(*both).at(
                Moment(Point.SEND_HANDED_OVER, Side.AFTER, "relay1-0#1 received@68", actor="relay2-0", incarnation=1)
            ),
            crash(*all_three).at(Moment(Point.REROUTED, Side.BEFORE, "relay2-0#2", actor="relay3-0", incarnation=2)),
        ],
        claims=[],
        breaks=[bounded_error(theta=0, l=0, gamma=12)],
    )


SCENARIOS = (
    Entry("word-totals.approximate", word_totals_scenario),
    Entry("one-total.approximate", one_total_scenario),
    Entry("one-total.approximate-changes", changes_scenario),
    Entry("one-total.approximate-marks", marks_scenario),
    Entry("totals-of-all.approximate", meeting_scenario),
    Entry("totals-of-all.approximate-sink-dies", sink_scenario),
    Entry("relays.approximate", spread_scenario),
    Entry("relays.approximate-spread-as-in-the-paper", paper_scenario),
)
