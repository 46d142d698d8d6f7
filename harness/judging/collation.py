"""What a history comes to, before any guarantee is asked: what is missing, doubled, unexplained or out of order.

Oracles ask for it by name, and never read the records for it. A subject whose operators can be executed again is
collated by re-execution (`harness.judging.collated_slices`), which computes each of these only when an oracle asks for
it, and once; a black box against reference runs, all of it at once (`harness.judging.references`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..core.verdicts import Anomaly, Tally, none_of
from .expected import Expected
from .findings import Findings
from .reexecution import Reexecution
from .shapes import OutputShape


class Collation(Protocol):
    """Counts with bounded evidence. A count of 0 means that it was looked for and not found."""

    @property
    def observables(self) -> tuple[str, ...]: ...

    @property
    def incomplete(self) -> str:
        """Why nothing can be said to be lost; empty when the run came to its end and rest."""

    @property
    def unproven(self) -> str:
        """Why the faults cannot be said to have happened as planned; empty when each of them bit."""

    @property
    def unjudgeable(self) -> str:
        """Why the record itself cannot be trusted to be judged; empty when it explains itself. What is counted all the
        same is sure."""

    @property
    def stalled(self) -> str:
        """What the subject waits for in vain: it came to rest before its input was through, as the world has proven.
        Empty where it did not, or where that is not known."""

    @property
    def doubt(self) -> str:
        """Why neither missing rows nor rows that are there too often show that an input was lost or counted twice;
        empty when they do. Of a black box without keys a wrong row can stand in the place of a missing one."""

    @property
    def shape(self) -> OutputShape | None:
        """Of what a query puts out; None of any other subject."""

    @property
    def inputs(self) -> int:
        """Events that were offered."""

    @property
    def reexecution(self) -> Reexecution | None:
        """Where the subject could be executed again."""

    @property
    def wanted(self) -> Expected | None:
        """What should have been taken and delivered then."""

    @property
    def lost_state(self) -> Tally:
        """Inputs that the final state does not hold."""

    @property
    def missed(self) -> str:
        """Why a final state may lack what is not among the lost: it has left the window of the operator, whose rows
        hold it all the same. Empty where that is not so."""

    @property
    def lost_output(self) -> Tally:
        """Inputs without the output that they should have had."""

    @property
    def lacking(self) -> Tally:
        """Inputs that are missing from outputs that they belong to, by their window or for ever."""

    @property
    def forgotten(self) -> Tally:
        """Of those, the ones that nobody took again though they were in the window still."""

    @property
    def lost_in_order(self) -> tuple[Tally, ...]:
        """What final states, outputs and windows lack of what the order of the run should have come to: an operator may
        make nothing of an input that comes again late, of which it makes something in another order."""

    @property
    def passed_over(self) -> Tally:
        """Pieces of channels that a receiver passed over without a crash."""

    @property
    def untold(self) -> Tally:
        """Timers of event time that were due by the end of the input, and never fired, and epochs that never ended
        though a later one did. What they would have made is among the lost output."""

    @property
    def duplicate_effects(self) -> Tally:
        """Inputs that the final state holds more than once, or that one which was replaced did when it was seen; and
        epochs that ended more than once for any."""

    @property
    def duplicate_outputs(self) -> Tally:
        """Outputs delivered again, for the same input."""

    @property
    def conflicting_outputs(self) -> Tally:
        """Of those, the ones whose content differs from the first."""

    @property
    def superseded_outputs(self) -> Tally:
        """Outputs of an order of inputs that was given up, and of which the one that was kept makes others."""

    @property
    def phantoms(self) -> Tally:
        """Outputs and rows of state that no execution of what was taken gives, and timers that nobody asked for."""

    @property
    def altered(self) -> Tally:
        """Outputs and rows of state that are others than without failures, where order does not matter."""

    @property
    def compensated(self) -> Tally:
        """States that were moved to make up for what a recovery could not restore."""

    @property
    def unfaithful(self) -> Tally:
        """Checkpoints that do not give back the state that they were taken of."""

    @property
    def left_out(self) -> Tally:
        """Partial checkpoints that somebody began with, and that leave out some of the state."""

    @property
    def reordered(self) -> Tally:
        """Outputs delivered after a later one of their channel, in their sender's order, other than as a
        repetition."""

    @property
    def reordered_repeats(self) -> Tally:
        """Repetitions that came in another order than their sender's."""

    @property
    def disordered(self) -> Tally:
        """Channels that an incarnation did not take in their order."""

    @property
    def unmerged(self) -> Tally:
        """Incarnations that did not take their channels in the order of their merge."""

    @property
    def mistimed(self) -> Tally:
        """Timers of event time that did not fire after all events up to their time and before any later one."""


def seen(*tallies: Tally) -> tuple[Tally, ...]:
    """Those that count anything."""
    return tuple([one for one in tallies if one.count])


@dataclass(frozen=True, kw_only=True)
class CollatedQuery(Findings):
    """Of a black box."""

    observables: tuple[str, ...]
    inputs: int
    incomplete: str = ""
    unproven: str = ""
    unjudgeable: str = ""
    stalled: str = ""
    missed: str = ""
    shape: OutputShape | None = None
    reexecution: None = None
    wanted: None = None
    lacking: Tally = none_of(Anomaly.LOST_INPUT)
    forgotten: Tally = none_of(Anomaly.LOST_INPUT)
    passed_over: Tally = none_of(Anomaly.LOST_INPUT)
    altered: Tally = none_of(Anomaly.PHANTOM_OUTPUT)
    compensated: Tally = none_of(Anomaly.PHANTOM_OUTPUT)
    unfaithful: Tally = none_of(Anomaly.UNFAITHFUL_SNAPSHOT)
    left_out: Tally = none_of(Anomaly.UNFAITHFUL_SNAPSHOT)
    disordered: Tally = none_of(Anomaly.REORDERED_OUTPUT)
    unmerged: Tally = none_of(Anomaly.REORDERED_OUTPUT)
    mistimed: Tally = none_of(Anomaly.REORDERED_OUTPUT)
    untold: Tally = none_of(Anomaly.LOST_INPUT)

    @property
    def lost_in_order(self) -> tuple[Tally, ...]:
        """It cannot be executed in another order."""
        return self.lost_state, self.lost_output, self.forgotten
