"""The mutants of approximate fault tolerance. A new one is an entry here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.events import Event
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.effects import Start
from ...harness.protocol.mechanism import AtWork, Mechanism
from ...harness.protocol.messages import Checkpoint, Items
from ...harness.protocol.operator import OperatorSlice
from ...harness.protocol.sink import SinkSlice
from ...harness.protocol.spec import Numbering, Setup
from ..approximate import approximate
from ..mechanisms.approximate_backup import ApproximateBackup, ApproximateBackups, Saved, _Issued, _Pending
from ..mechanisms.receipt import AcknowledgeReceipt
from ..mechanisms.sink_delivery import DeliverInTransactions
from ..mechanisms.sink_receipt import ReceiveInTransactions, Receiving
from ..mechanisms.thresholds import Thresholds
from .mutant import BrokenScheme, Build, changing, numbering


@dataclass(frozen=True)
class BrokenApproximation(ApproximateBackup):
    """With another way of working."""

    kind: type[ApproximateBackups] = ApproximateBackups

    def attach(self, machine: OperatorSlice) -> AtWork:
        return self.kind(machine, self)


def broken(build: Build, kind: type[ApproximateBackups]) -> Build:
    def change(one: Mechanism) -> Mechanism:
        if not isinstance(one, ApproximateBackup):
            return one
        return BrokenApproximation(one.thresholds, one.ahead, one.partial, one.keep, one.acknowledge_every, kind)

    return changing(build, lambda setup: replace(setup, mechanisms=tuple(map(change, setup.mechanisms))))


def scheme(theta: float, l: float, gamma: float, **settings: Any) -> Build:  # noqa: E741  It is the paper's.
    def build(topology: Topology, every: Events) -> SchemeSubject:
        return approximate(topology, theta=theta, l=l, gamma=gamma, **settings)

    return build


class NotHalving(ApproximateBackups):
    def in_force(self) -> Thresholds:
        return self.thresholds.after(0)


class ResettingAtRecovery(ApproximateBackups):
    def started(self, given: Start) -> None:
        if given.incarnation > 1:
            self.thresholds = self.thresholds.divided(0.5)
        super().started(given)

    def in_force(self) -> Thresholds:
        return self.thresholds.after(0)


class NeverResetting(ApproximateBackups):
    def in_force(self) -> Thresholds:
        return self.thresholds.after(self.machine.incarnation - 1)


class MeasuringFromTheIssued(ApproximateBackups):
    def issue(self) -> None:
        super().issue()
        if self.issued is not None and self.stateful:
            self.backup = self.operator.restore(self.operator.snapshot(self.machine.state))
            self.divergence = 0.0

    def _is_durable(self, issued: _Issued) -> None:
        self.measure()
        backup, divergence, partial = self.backup, self.divergence, self.partial
        super()._is_durable(issued)
        self.backup, self.divergence, self.partial = backup, divergence, partial


class CountingTheSaved(ApproximateBackups):
    def _loose(self) -> list[_Pending]:
        return [one for one in self.pending if one.safe]


class SavingNoPunctuation(ApproximateBackups):
    def precious(self, fed_back: bool, events: list[Event]) -> list[bool]:
        return [False] * len(events)


class ForgettingSmallChanges(ApproximateBackups):
    def _is_durable(self, issued: _Issued) -> None:
        super()._is_durable(issued)
        self.backup = self.operator.restore(self.operator.snapshot(self.machine.state))
        self.divergence = 0.0


class ReplayingAll(ApproximateBackups):
    def completed(self, checkpoint: Checkpoint | None, kept: Sequence[Items]) -> Checkpoint | None:
        found = super().completed(checkpoint, kept)
        self.replay = sorted(saved_in(kept), key=lambda one: one.number)
        return found


class ReplayingAnOldRun(ApproximateBackups):
    def newest_run(self, saved: list[Saved]) -> list[Saved]:
        run = super().newest_run(saved)
        older = [one for one in saved if not run or one.number < run[0].number]
        return [*run, *super().newest_run(older)]


class NeverStopping(ApproximateBackups):
    """Nor does it count outputs."""

    def __init__(self, machine: OperatorSlice, settings: ApproximateBackup) -> None:
        unlimited = {name: replace(one, gamma=1e9) for name, one in settings.thresholds.items()}
        super().__init__(machine, replace(settings, thresholds=unlimited))


class AcknowledgingUnsafeItems(ApproximateBackups):
    def _acknowledge(self, fits: bool) -> None:
        super()._acknowledge(True)

    def save_all(self) -> None:
        """They are acknowledged."""


class NumberingFromOne(ApproximateBackups):
    def completed(self, checkpoint: Checkpoint | None, kept: Sequence[Items]) -> Checkpoint | None:
        found = super().completed(checkpoint, kept)
        if not self.replay:
            self.number = self.done = 0
        return found


class CompensatingTwice(ApproximateBackups):
    def compensate(self, failures: range) -> None:
        super().compensate(failures)
        super().compensate(failures)


class CompensatingNever(ApproximateBackups):
    def compensate(self, failures: range) -> None:
        """What is missing is missing."""


def saved_in(kept: Sequence[Items]) -> list[Saved]:
    return [item for one in kept for item in one.items if isinstance(item, Saved)]


ONE, CHANGES, MARKS = "one-total.approximate", "one-total.approximate-changes", "one-total.approximate-marks"
MEETING, ROW = "totals-of-all.approximate", "relays.approximate"


class ForgettingNumbers(Receiving):
    def save(self) -> dict[int, list[tuple[int, int]]]:
        return {}


@dataclass(frozen=True)
class ForgetfulTransactions(ReceiveInTransactions):
    """With another way of working."""

    def attach(self, machine: SinkSlice) -> AtWork:
        return ForgettingNumbers(machine, self.every.count)


def _acknowledging_at_once(sink: Setup) -> Setup:
    return replace(sink, mechanisms=(AcknowledgeReceipt(), DeliverInTransactions(Events(1))))


def _forgetting_numbers(sink: Setup) -> Setup:
    return replace(sink, mechanisms=(ForgetfulTransactions(Events(1)),))


MUTANTS = (
    BrokenScheme(
        "approximate-not-halving",
        "each failure may cost half of what is left",
        Anomaly.BOUND_EXCEEDED,
        broken(scheme(4, 0, 8), NotHalving),
        on=ONE,
    ),
    BrokenScheme(
        "approximate-resetting-at-recovery",
        "thresholds are what they were at the end of a window only",
        Anomaly.BOUND_EXCEEDED,
        broken(scheme(4, 0, 8), ResettingAtRecovery),
        on=ONE,
    ),
    BrokenScheme(
        "approximate-spread-as-in-the-paper",
        "operators in a row share what may be lost at the sink",
        Anomaly.BOUND_EXCEEDED,
        scheme(0, 0, 8, spread="paper"),
        on=ROW,
    ),
    BrokenScheme(
        "approximate-measuring-from-the-issued",
        "a state diverges from the backup that is durable",
        Anomaly.BOUND_EXCEEDED,
        broken(scheme(4, 0, 8), MeasuringFromTheIssued),
        on=ONE,
    ),
    BrokenScheme(
        "approximate-counting-the-saved",
        "items that wait and are not backed up are counted",
        Anomaly.BOUND_EXCEEDED,
        broken(scheme(4, 1, 8), CountingTheSaved),
        on=ONE,
    ),
    BrokenScheme(
        "approximate-saving-no-punctuation",
        "a punctuation is backed up before it is queued",
        Anomaly.LOST_INPUT,
        broken(scheme(200, 200, 200), SavingNoPunctuation),
        on=MARKS,
    ),
    BrokenScheme(
        "approximate-forgetting-small-changes",
        "a backup is what it holds, and not what it was made of",
        Anomaly.BOUND_EXCEEDED,
        broken(scheme(12, 2, 4), ForgettingSmallChanges),
        on=CHANGES,
    ),
    BrokenScheme(
        "approximate-replaying-all",
        "items that the backup covers are not replayed",
        Anomaly.DUPLICATE_EFFECT,
        broken(scheme(2, 0, 8), ReplayingAll),
        on=ONE,
    ),
    BrokenScheme(
        "approximate-replaying-an-old-run",
        "the newest consecutive run is replayed, and nothing after it",
        Anomaly.REORDERED_OUTPUT,
        broken(scheme(100, 0, 4), ReplayingAnOldRun),
        on=ONE,
    ),
    BrokenScheme(
        "approximate-never-stopping",
        "at gamma outputs that are not acknowledged a slice stops",
        Anomaly.BOUND_EXCEEDED,
        broken(scheme(100, 0, 2), NeverStopping),
        on=ONE,
        spread=True,
    ),
    BrokenScheme(
        "approximate-acknowledging-unsafe-items",
        "of what is acknowledged, no more than l items are not safe",
        Anomaly.BOUND_EXCEEDED,
        broken(scheme(4, 1, 8), AcknowledgingUnsafeItems),
        on=ONE,
    ),
    BrokenScheme(
        "approximate-numbering-outputs-anew",
        "an output has the number of what it was made of",
        Anomaly.DUPLICATE_OUTPUT,
        numbering(scheme(16, 2, 4), Numbering.FRESH),
        on=MEETING,
    ),
    BrokenScheme(
        "approximate-numbering-items-from-one",
        "the numbers of items go on where they had come to",
        Anomaly.LOST_INPUT,
        broken(scheme(2, 0, 8), NumberingFromOne),
        on=MARKS,
    ),
    BrokenScheme(
        "approximate-acknowledging-what-its-sink-may-lose",
        "a sink that can crash acknowledges what is durable",
        Anomaly.BOUND_EXCEEDED,
        changing(scheme(8, 4, 8, sink_on_node=True), _acknowledging_at_once, Role.SINK),
        on=ONE,
    ),
    BrokenScheme(
        "approximate-forgetting-what-its-sink-has-seen",
        "which numbers a sink has seen is part of its transactions",
        Anomaly.DUPLICATE_OUTPUT,
        changing(scheme(24, 8, 12, sink_on_node=True), _forgetting_numbers, Role.SINK),
        on=MEETING,
    ),
)
