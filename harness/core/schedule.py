"""What is planned to go wrong: faults with their targets and triggers, as data.

What a fault *is* stands here; the kinds stand in `streamproof.faults`, one file each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeVar

from .addresses import DRIVER, TASK, Moment, Point, Side
from .errors import InvalidScenario
from .quantities import Duration, Events


@dataclass(frozen=True)
class AtTime:
    """So long after the source began to offer input."""

    after: Duration

    def __str__(self) -> str:
        return f"{self.after} after the start"


Trigger = Moment | AtTime
FaultAmount = Duration | float | int
"""Of a share or a rate: a number, in the unit that the kind of fault names."""
A = TypeVar("A", Duration, float, int)


@dataclass(frozen=True)
class Fault:
    """One planned disturbance: a kind, whom it hits, and when.

    Targets are names of the scenario (slices, nodes, drivers). Where a kind hits nodes, a slice stands for the node
    that runs it when the fault strikes, and all targets are hit at once; where it hits a link, the two targets are its
    ends. What stands below the trigger matters only to the kinds that take it.
    """

    kind: str
    targets: tuple[str, ...]
    trigger: Trigger | None = None
    duration: Duration | None = None
    """From the strike until it heals; None, where it can heal: at the end of the run."""
    one_way: bool = False
    """Of a link: only what the first end sends to the second."""
    amounts: tuple[tuple[str, FaultAmount], ...] = ()
    """How much, by the names of the kind's parameters."""

    def at(self, moment: Moment) -> Fault:
        """Strike at a crash address; one that names no actor means the first target's. Raises InvalidScenario without a
        target."""
        if not self.targets:
            raise InvalidScenario(f"the {self.kind} has no target, and would hit nobody: name whom it hits")
        return replace(self, trigger=moment.of(self.targets[0]))

    def after(self, amount: Duration | Events) -> Fault:
        """Strike so long after the start, or once the first target has taken so many events. Raises InvalidScenario
        for an amount without a unit."""
        if isinstance(amount, Duration):
            return replace(self, trigger=AtTime(amount))
        if not isinstance(amount, Events):
            raise InvalidScenario(f"after({amount!r}) needs its unit, as in seconds(2) or events(500)")
        return self.at(Moment(Point.RECEIVED, Side.AFTER, taken=amount.count))

    def lasting(self, duration: Duration) -> Fault:
        """Heal so long after it struck. Raises InvalidScenario for a duration without a unit, and for none at all."""
        if not isinstance(duration, Duration):
            raise InvalidScenario(f"lasting({duration!r}) needs its unit, as in seconds(2)")
        if not duration.micros:
            raise InvalidScenario(f"{self.kind} {self.whom} lasting {duration} never happens")
        return replace(self, duration=duration)

    def amount(self, name: str, kind: type[A]) -> A:
        """Of a parameter that the kind of fault needs."""
        found = self.amount_if_given(name, kind)
        assert found is not None, f"{self.kind} without {name}"
        return found

    def amount_if_given(self, name: str, kind: type[A]) -> A | None:
        found = dict(self.amounts).get(name)
        if kind is float and isinstance(found, int):
            return kind(found)
        assert found is None or isinstance(found, kind), f"{self.kind} {name}={found!r}"
        return found

    @property
    def whom(self) -> str:
        """Its targets, in words."""
        return (_ONE_WAY if self.one_way else _BOTH_WAYS).join(self.targets) or "nobody"

    @property
    def what(self) -> str:
        """Without when, in words."""
        return " ".join((self.kind, self.whom, *(f"{name} {amount}" for name, amount in self.amounts)))

    @property
    def when(self) -> str:
        return f"{self.trigger}" + ("" if self.duration is None else f", for {self.duration}")

    def __str__(self) -> str:
        return f"{self.what}, {self.when}"


Schedule = tuple[Fault, ...]
_ONE_WAY: Final = " to "
_BOTH_WAYS: Final = " and "


def is_link(target: str) -> bool:
    """Whether a target, as a history names it, is a link: those are named by both of their ends."""
    return _ONE_WAY in target or _BOTH_WAYS in target


@dataclass(frozen=True)
class checkpoint:
    """The moments that a slice's checkpoint number `number` goes through."""

    number: int

    def __post_init__(self) -> None:
        if not isinstance(self.number, int) or self.number < 1:
            raise InvalidScenario(f"checkpoint({self.number!r}): checkpoints are numbered from 1")

    @property
    def taken(self) -> Moment:
        """It is about to be handed to its store."""
        return Moment(Point.CHECKPOINT_ISSUED, Side.BEFORE, str(self.number))

    @property
    def durable(self) -> Moment:
        """Its store has it; the slice has not been told."""
        return Moment(Point.CHECKPOINT_DURABLE, Side.AFTER, str(self.number))

    @property
    def acknowledged(self) -> Moment:
        """The slice has been told, and has not yet said so upstream."""
        return Moment(Point.CHECKPOINT_TOLD, Side.AFTER, str(self.number))


@dataclass(frozen=True)
class recovery:
    """The moments in a slice's recovery."""

    slice_id: str

    @property
    def started(self) -> Moment:
        """Its new incarnation begins, restored and not yet in touch with its neighbours."""
        return Moment(Point.STARTED, Side.AFTER, actor=self.slice_id, recovering=True)

    @property
    def replaying(self) -> Moment:
        """The first replayed or new event reaches its new incarnation."""
        return Moment(Point.RECEIVED, Side.BEFORE, actor=self.slice_id, recovering=True)


@dataclass(frozen=True)
class batch:
    """The moments that a query's micro-batch number `number`, counted from 0, goes through, in the order in which they
    come.

    What tasks do, several of them do for every batch, and the moment is that of the first that comes to it.
    """

    number: int

    def __post_init__(self) -> None:
        if not isinstance(self.number, int) or self.number < 0:
            raise InvalidScenario(f"batch({self.number!r}): batches are numbered from 0")

    @property
    def planned(self) -> Moment:
        """How far the batch goes is about to be written to the offset log."""
        return self._of_the_driver(Point.OFFSET_LOG, Side.BEFORE)

    @property
    def offset_logged(self) -> Moment:
        """The offset log has it: from now on the batch is what it is."""
        return self._of_the_driver(Point.OFFSET_LOG, Side.AFTER)

    @property
    def source_commit(self) -> Moment:
        """Spark commits the batch's offsets to the source."""
        return self._of_the_driver(Point.SOURCE_COMMIT, Side.BEFORE)

    @property
    def state_committing(self) -> Moment:
        """A task is about to make its part of the state durable."""
        return self._of_a_task(Point.STATE_COMMIT, Side.BEFORE)

    @property
    def state_committed(self) -> Moment:
        """A task has made its part of the state durable."""
        return self._of_a_task(Point.STATE_COMMIT, Side.AFTER)

    @property
    def writer_committing(self) -> Moment:
        """A task has written its rows, and its writer is about to commit."""
        return self._of_a_task(Point.WRITER_COMMIT, Side.BEFORE)

    @property
    def writer_committed(self) -> Moment:
        """A task's writer has committed, and the driver has not heard of it."""
        return self._of_a_task(Point.WRITER_COMMIT, Side.AFTER)

    @property
    def task_committed(self) -> Moment:
        """A task of a file sink has ended its attempt."""
        return self._of_a_task(Point.TASK_COMMIT, Side.AFTER)

    @property
    def task_ended(self) -> Moment:
        """A task is over, and the driver has not heard of it."""
        return self._of_a_task(Point.TASK_END, Side.AFTER)

    @property
    def sink_logging(self) -> Moment:
        """All files of the batch are there, and about to be listed in a file sink's log."""
        return self._of_the_driver(Point.SINK_LOG, Side.BEFORE)

    @property
    def sink_logged(self) -> Moment:
        """A file sink's log has the batch."""
        return self._of_the_driver(Point.SINK_LOG, Side.AFTER)

    @property
    def written(self) -> Moment:
        """The harness's sink has taken the batch, and Spark has not yet been told."""
        return self._of_the_driver(Point.SINK_WRITE, Side.AFTER)

    @property
    def adding(self) -> Moment:
        """The batch is about to be handed to a sink of Spark's first interface, such as foreachBatch or files."""
        return self._of_the_driver(Point.ADD_BATCH, Side.BEFORE)

    @property
    def added(self) -> Moment:
        """That sink has taken the batch."""
        return self._of_the_driver(Point.ADD_BATCH, Side.AFTER)

    @property
    def stream_committed(self) -> Moment:
        """A sink of Spark's second interface has committed the batch."""
        return self._of_the_driver(Point.STREAM_COMMIT, Side.AFTER)

    @property
    def committing(self) -> Moment:
        """The batch is about to be written to the commit log."""
        return self._of_the_driver(Point.COMMIT_LOG, Side.BEFORE)

    @property
    def committed(self) -> Moment:
        """The commit log has it: from now on the batch is not run again."""
        return self._of_the_driver(Point.COMMIT_LOG, Side.AFTER)

    def user(self, name: str) -> Moment:
        """The user's code has come to the place that it calls `name`."""
        return Moment(Point.USER, Side.AFTER, f"{self.number}/{name}")

    def _of_the_driver(self, point: Point, side: Side) -> Moment:
        return Moment(point, side, str(self.number), DRIVER)

    def _of_a_task(self, point: Point, side: Side) -> Moment:
        return Moment(point, side, str(self.number), TASK)
