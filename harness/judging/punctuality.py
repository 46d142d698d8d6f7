"""Whether the timers of an operator fired where its events put them.

A record says that a timer has fired, and what was taken before and after. When it was due says the operator, of the
state that an execution from the beginning has: so a record excuses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.events import Event
from ..core.operators import Operator
from ..core.verdicts import Evidence
from ..recording.records import Fired
from .reruns import Derivation, Rerun


@dataclass(frozen=True)
class Mistimed:
    """A timer that fired where the events do not put it, or did not fire where they do."""

    slice_id: str
    incarnation: int
    why: str
    made_up: bool
    """The operator never asked for it, so that no order of events makes what it made."""

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.why, f"{self.slice_id}#{self.incarnation}")


def unpunctual(operator: Operator[Any], rerun: Rerun, up: str, event: Event, derivation: Derivation) -> str:
    """Why an event cannot be what an incarnation takes next: a timer that was due before it has not fired, or
    one has fired that was to wait for it. Empty where it can.

    An event that comes late is waited for by nobody: its own channel had come past the timer before. Nor is one that
    comes again, after it was taken.
    """
    due = operator.due(rerun.state) if rerun.last is not None else None
    if due is not None and due < event.time:
        return f"took an event of {event.time:,} ms while a timer was due at {due:,} ms"
    if event.time > rerun.fired or rerun.come.get(up, -1) > rerun.fired:
        return ""
    if derivation in rerun.lineage():
        return ""
    return (
        f"its timer fired at {rerun.fired:,} ms, and after that it took an event of {event.time:,} ms from {up}, which "
        "had not come past that"
    )


def unasked(operator: Operator[Any], rerun: Rerun, record: Fired) -> str:
    """Why a timer that fired is none that the operator asked for then; empty where it is."""
    if record.clock:
        return "" if operator.every is not None else f"a timer of its clock fired at {record.at:,} ms, and it has none"
    due = operator.due(rerun.state)
    if due == record.at == record.time:
        return ""
    asked = "at none" if due is None else f"at {due:,} ms"
    return f"its timer fired at {record.at:,} ms, for {record.time:,} ms, where the operator wants it {asked}"
