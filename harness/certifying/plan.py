"""What a campaign plans and what it tries: crashes of a query, and trials of them.

A *crash* is planned: a point of a batch, and what dies there. A *trial* is one run in which it is to strike, with its
folder and what it came to. The same crash can be tried in several ways, and several times.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final

import msgspec

from ..core.addresses import FINE_POINTS, TASK, CodeLine, Moment, Point, Side
from ..core.verdicts import Status
from ..crash_points.files.operations import HALF_WRITE
from ..recording.history import Lost

CRASH_STATES: Final = "crash states in a warm session"
POWER_LOSSES: Final = "crash states in a warm session, without what was not synced"
IN_THE_OTHER_ORDER: Final = "tasks in the other order"
"""How a crash is told of that strikes where those of a stage come so; and what the record of its run says of them."""
ORDER: Final = "order"
"""Where the record says that."""
KILLS_IN_A_RECOVERY_WORKER: Final = "real kills of a session with one task slot"
"""How a run came about that was no run of a cluster, as its record says."""


class Victim(StrEnum):
    """What dies."""

    DRIVER = "driver"
    EXECUTOR = "executor"
    PYTHON = "python"
    """An executor's Python worker."""
    NODE = "node"
    """Everything on it."""
    ANSWER = "answer"
    """The answer of a store outside, with its connection. Who asked lives."""
    REQUEST = "request"
    """What a store outside is asked, with its connection, so that it is not done. Who asked lives."""
    DISK = "disk"
    """One operation on a file, which is refused with an I/O error. Who wanted it lives."""


BESIDE_THE_DRIVER: Final = frozenset({Victim.EXECUTOR, Victim.PYTHON, Victim.NODE})
"""Victims that a cluster has, and a session with one task slot has not."""


class How(StrEnum):
    """The way in which a crash is tried."""

    CRASH_STATE = "crash-state"
    """What was durable while the point held was copied, put back, and recovered from by fresh processes."""
    KILL = "kill"
    """The victim was killed while the point held."""
    POWER_LOSS = "power-loss"
    """As with a crash state, and what was not synced was left out, as far as the file system does not promise it."""
    SPLIT_BRAIN = "split-brain"
    """The driver was paused at the point, a second one was started on the same checkpoint, and the first went on."""


class Crash(msgspec.Struct, frozen=True, omit_defaults=True):
    """What dies, and where exactly."""

    point: Point
    side: Side
    key: str
    """Which one of its batch: `3`, `3/0`."""
    actor: str
    """Who passes the point: `driver` or `task`."""
    victim: Victim
    batch: int
    kinds: tuple[str, ...]
    """Of its batch: first, steady, late-data, eviction, compaction, after-restart, last, no-data."""
    recovering: bool = False
    """Whether it strikes during the recovery from a crash at the same batch."""
    text: str = ""
    """Of the line of the user's code, where it strikes at one; of an operation on a file, how that is used."""
    in_code: str = ""
    """Of an effect of the user's code, between which of its lines it came about."""
    lost: Lost | None = None
    """Where the power fails: everything dies, and this is gone."""
    last_first: bool = False
    """Whether the tasks of each stage come in the other order until it strikes, that of the last partition first."""

    @property
    def terms(self) -> str:
        """On which power is lost; empty where it is not."""
        return "" if self.lost is None else self.lost.terms

    @property
    def line(self) -> CodeLine | None:
        """None where it strikes at no line of the user's code."""
        return CodeLine.of(self.key) if self.point is Point.LINE else None

    @property
    def place(self) -> str:
        """Its name, without which time it is that a batch passes it."""
        return self.name if self.line is None else self.line.place

    @property
    def name(self) -> str:
        """Of one of the finer points, what it is called; empty of any other, which the batch's number tells apart."""
        return self.key.partition("/")[2] if self.point in FINE_POINTS else ""

    @property
    def effect(self) -> str:
        """Of a message or an operation on a file, its name without which one of its kind in its batch it is."""
        return self.name.rpartition("#")[0]

    @property
    def operation(self) -> tuple[str, str]:
        """Of an operation on a file, its kind and the path (`old > new` where it gets another); both are empty of any
        other point."""
        if self.point is not Point.FILE:
            return "", ""
        kind, _, path = self.effect.partition(" ")
        return kind, path

    @property
    def is_half_write(self) -> bool:
        """Whether it strikes in the middle of a write."""
        return self.operation[0] == HALF_WRITE

    def __str__(self) -> str:
        return f"{self._said}, {IN_THE_OTHER_ORDER}" if self.last_first else self._said

    @property
    def _said(self) -> str:
        if self.line is not None:
            within = ", in a task" if self.actor == TASK else ""
            again = ", recovering" if self.recovering else ""
            return f"the {_VICTIMS[self.victim]} dies {self.line.said(self.side, self.text)}{within}{again}"
        actor = "the driver" if self.actor == "driver" else f"a {self.actor}"
        where = f" ({self.in_code})" if self.in_code else ""
        if self.victim is Victim.ANSWER:
            return f"the answer to {self.key} of {actor} is lost and the connection breaks; {actor} lives{where}"
        if self.victim is Victim.REQUEST:
            return f"{self.key} of {actor} is lost on its way and the connection breaks; {actor} lives{where}"
        when = Moment(self.point, self.side, self.key, actor, recovering=self.recovering)
        if self.victim is Victim.DISK and self.is_half_write:
            return f"the disk refuses the rest {replace(when, side=Side.AFTER)}; {actor} lives{where}"
        if self.victim is Victim.DISK:
            return f"the disk refuses an operation {when}; {actor} lives{where}"
        if self.lost is not None:
            return f"the power fails {when}; lost: {self.lost.what}"
        return f"the {_VICTIMS[self.victim]} dies {when}{where}"


class CrashTrial(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run in which crashes were to strike."""

    crashes: tuple[Crash, ...]
    """In the order in which they struck."""
    how: How
    folder: str
    """Of the run: `runs/<name>`, relative to the certificate's folder."""
    verdicts: dict[str, Status]
    """Of each claim, by its text."""
    reason: str = ""
    """Why a verdict is UNKNOWN."""
    sampled: bool = False
    """Whether it is one of the random sample."""
    digest: str = ""
    """Of the run's history."""
    missed: bool = False
    """Whether the run came to its end, and it is not proven that each crash struck there: then nothing was tried."""
    errors: dict[str, float] = {}
    """By how much the result was off, of each claim that bounds it, by its text, where that is known."""
    too_small: tuple[str, ...] = ()
    """Claims, by their texts, that bound no less than all of the run's result, as input that was made smaller gives it:
    of these it says nothing."""

    @property
    def terms(self) -> str:
        """On which power was lost in it; empty where it was not."""
        return next((crash.terms for crash in self.crashes if crash.terms), "")


_VICTIMS = {
    Victim.DRIVER: "driver",
    Victim.EXECUTOR: "executor",
    Victim.PYTHON: "Python worker",
    Victim.NODE: "node",
    Victim.ANSWER: "answer",
    Victim.REQUEST: "request",
    Victim.DISK: "disk",
}
