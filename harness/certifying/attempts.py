"""What is known of one attempt of a query: the crash points that it passed, its records, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..core.addresses import Address
from ..core.errors import InvalidOperator, StreamproofError
from ..crash_points.inside_python.following import Noted
from ..recording.records import Ended, Stamped
from .crash_states import CrashState, Looks


@dataclass(frozen=True)
class Passed:
    """A crash point that an attempt passed."""

    address: Address
    at: int
    """Microseconds since the recovery worker began."""
    records: int
    """How many records the attempt had made by then."""
    state: CrashState | None
    """What was durable; None where it was not looked at, or `why_not` says why it is not known."""
    why_not: str = ""
    again: int = 0
    """How often the attempt had passed the same point before: a point of the user's may lie in a loop."""
    text: str = ""
    """Of the line of code that is meant, where it is one; of an operation on a file, how that is used."""
    by_worker: bool = False
    """Of an operation on a file, whether a Python worker did it that has a task."""


@dataclass(frozen=True)
class Death:
    """A real one: every process of an attempt was killed while a point was held."""

    address: Address
    at: int
    """Microseconds since the recovery worker began."""
    pids: tuple[int, ...]
    gone: bool
    """Whether each of them was seen to be gone."""


@dataclass
class RefusedOperation:
    """One operation on a file was refused to an attempt, which lived on."""

    address: Address
    at: int
    """Microseconds since the recovery worker began."""
    times: int = 0
    """How often, as whoever refused it counts."""


@dataclass(frozen=True)
class LostMessage:
    """A request to a store outside, or its answer, that was lost with its connection; who asked lived on."""

    address: Address
    at: int
    """Microseconds since the recovery worker began."""
    size: int
    """Of an answer, in bytes; 0: it was a request."""


@dataclass(frozen=True)
class StrikesAt:
    """Where an attempt that is watched is struck: at the points of which each of these says so. None: nowhere."""

    fatal: Callable[[Address], bool] | None = None
    """It is killed at the first of them: SIGKILL to all of its processes, while the point is held."""
    refuses: Callable[[Address], bool] | None = None
    """It is refused the first operation on a file before which this says so, and lives."""
    loses: Callable[[Address], bool] | None = None
    """Each of these messages to a store outside, or from there, is lost with its connection, and it lives."""


NOWHERE: Final = StrikesAt()


@dataclass
class Attempt:
    """One attempt of a query, from a checkpoint to the end of its input, or to its failure."""

    actor: str
    incarnation: int
    passed: list[Passed] = field(default_factory=list)
    records: list[Stamped] = field(default_factory=list)
    failure: StreamproofError | None = None
    failed_at: int = 0
    """When it failed, or was given up, microseconds since the recovery worker began."""
    failed_in: int = -1
    """The newest batch that had been begun then; -1: none."""
    silent: int | None = None
    """For how long it had given no sign of work when it was given up, microseconds; None: it was not."""
    heard_out: bool = False
    """Its process has hung up, and all that it said was heard."""
    before: tuple[Attempt, ...] = ()
    """Attempts that failed since the same crash, of which this one is the successor."""
    looks: Looks | None = None
    """What it has looked at; None: nobody knows."""
    death: Death | None = None
    """How it was killed, where it was."""
    refused: RefusedOperation | None = None
    """What was refused to it, where anything was."""
    lost: list[LostMessage] = field(default_factory=list)
    """Of what it sent, and was answered."""
    noted: list[Noted] = field(default_factory=list)
    """What its processes said of the user's code in passing."""
    columns: tuple[str, ...] = ()
    """Of what it gives to the harness's sink, in order, each with its type; empty: it has not said so."""
    kept_in_the_jvm: tuple[str, ...] = ()
    """What its JVM keeps beside all sessions that it did not keep before."""
    home: Path = Path()
    """What its sink's folder and its checkpoint lay in."""

    @property
    def disturbed(self) -> bool:
        """Whether anything was done to it that it was to live on with."""
        return self.refused is not None or bool(self.lost)

    @property
    def ended_by_others(self) -> bool:
        """Whether it failed by what is neither an error of its own nor silence: another like it may fare otherwise."""
        return self.failure is not None and self.silent is None and not isinstance(self.failure, InvalidOperator)

    @property
    def ended(self) -> bool:
        return any(isinstance(stamped.record, Ended) for stamped in self.records)
