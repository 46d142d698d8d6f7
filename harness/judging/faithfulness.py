"""Whether a checkpoint gives back the state that it was taken of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.model import Operator, Value, rows_of
from ..core.verdicts import Evidence
from ..recording.records import CheckpointTaken
from .exactness import other_keys


@dataclass(frozen=True)
class Unfaithful:
    """What a snapshot, once restored, does not give back."""

    checkpoint: CheckpointTaken
    why: str

    @property
    def evidence(self) -> Evidence:
        record = self.checkpoint
        return Evidence(f"checkpoint {record.number}: {self.why}", f"{record.slice}#{record.incarnation}")


def find_unfaithful(operator: Operator[Any], checkpoint: CheckpointTaken, state: Any, twin: Any) -> Unfaithful | None:
    """Whether rows(restore(snapshot(state))) are rows(state), and snapshot() leaves the state as it is.

    `state` and `twin` are equal, and nobody else has them. What restore() raises is a state that is lost.
    """
    rows = rows_of(operator, twin)
    try:
        back = operator.restore(operator.snapshot(state))
        restored = rows_of(operator, back)
    except Exception as error:  # Whatever the user's code raises.
        return Unfaithful(checkpoint, f"it cannot be restored: {type(error).__name__}: {error}")
    for given, what in ((restored, "once restored"), (rows_of(operator, state), "after snapshot()")):
        for key in other_keys(rows, given):
            return Unfaithful(
                checkpoint,
                f"the state of key {key!r} was {_said(rows, key)}, and is {_said(given, key)} {what}",
            )
    return None


def _said(rows: dict[str, Value], key: str) -> str:
    return repr(rows[key]) if key in rows else "not there"
