"""Why a verdict is UNKNOWN, as data: what kind of reason, and what it is about. The sentence is made of it here, for
whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """The kinds of reason. Who asks what a reason means asks this, and never the sentence."""

    UNJUDGEABLE = "unjudgeable"
    """The record does not explain itself, so it cannot be trusted to be judged."""
    UNREPEATABLE = "unrepeatable"
    """The operators do not give the same every time, so nothing can be executed again."""
    NOT_REPEATED = "not-repeated"
    """Run again in the simulator, it leaves another history than is on record."""
    REMEMBERED = "remembered"
    """The simulator's crashes have not taken all that the subject's code remembers."""
    INCOMPLETE = "incomplete"
    """The run did not come to its end: what had not happened could have happened later."""
    UNPROVEN = "unproven"
    """It is not proven that each planned fault struck, and harmed somebody."""
    BEYOND = "beyond-the-claim"
    """More went wrong than is claimed to be survived."""
    UNTRIED = "untried"
    """What the claim rests on was never at work."""
    NOTHING_TO_JUDGE = "nothing-to-judge"
    """Nothing of what the guarantee speaks of came about in this run."""
    UNSTATED = "unstated"
    """The claim, or the subject, does not state an amount that is needed."""
    VIRTUAL_TIME = "virtual-time"
    """It is about time, and the clock is the simulator's."""
    NOT_EXECUTABLE = "not-executable"
    """It takes what only an execution of the operators shows, and the subject cannot be executed again."""
    AMBIGUOUS = "ambiguous"
    """What was seen may be a violation of this guarantee, or something else."""
    NO_DISTANCE = "no-distance"
    """What the claim measures an error by does not measure it."""
    CONTRADICTION = "contradiction"
    """streamproof contradicts itself."""
    ORACLE_FAILED = "oracle-failed"
    """The oracle raised an error, gave no verdict, or one that goes against what it says of itself."""


_SENTENCES = {
    Why.NOT_REPEATED: "run again, the simulator leaves another history: {about}. The record was altered, or "
    "streamproof or the scenario's code is not what made it, or that code rests on more than its input and its states",
    Why.BEYOND: "this goes beyond what is claimed: {about}",
    Why.REMEMBERED: "something survives a crash that only the simulator lets survive: {about}",
    Why.UNTRIED: "this was not tried: {about}",
    Why.VIRTUAL_TIME: "the simulator's clock is virtual, and the scenario gives no cost model",
    Why.NOT_EXECUTABLE: "the subject cannot be executed again{about}",
    Why.CONTRADICTION: "streamproof contradicts itself: {about}. That is a failure of streamproof's: please report it, "
    "with the run's folder",
    Why.ORACLE_FAILED: "its oracle failed: {about}",
}


@dataclass(frozen=True)
class Reason:
    """Why one verdict is UNKNOWN."""

    why: Why
    about: str = ""
    """What differs from one reason of its kind to the next, in words."""
    traceback: str = ""
    """Of an oracle that raised."""
    kept_in: str = ""
    """The file of the run's folder that has the traceback; empty where nobody has kept it."""
    of_users: bool = False
    """Whether code of a user's has failed, where an oracle has."""

    def __str__(self) -> str:
        sentence = _SENTENCES.get(self.why, "{about}").replace("{about}", self.about)
        return f"{sentence}; the traceback is in {self.kept_in}" if self.kept_in else sentence
