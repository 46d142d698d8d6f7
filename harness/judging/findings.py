"""What a comparison of a query's output with its reference comes to."""

from __future__ import annotations

from dataclasses import dataclass

from .verdicts import Anomaly, Tally


def _none(anomaly: Anomaly) -> Tally:
    return Tally(anomaly, 0, ())


@dataclass(frozen=True)
class Findings:
    """As the fields of a Collation."""

    lost_state: Tally = _none(Anomaly.LOST_INPUT)
    lost_output: Tally = _none(Anomaly.LOST_INPUT)
    duplicate_effects: Tally = _none(Anomaly.DUPLICATE_EFFECT)
    duplicate_outputs: Tally = _none(Anomaly.DUPLICATE_OUTPUT)
    conflicting_outputs: Tally = _none(Anomaly.PHANTOM_OUTPUT)
    superseded_outputs: Tally = _none(Anomaly.PHANTOM_OUTPUT)
    phantoms: Tally = _none(Anomaly.PHANTOM_OUTPUT)
    reordered: Tally = _none(Anomaly.REORDERED_OUTPUT)
    reordered_repeats: Tally = _none(Anomaly.REORDERED_OUTPUT)
    doubt: str = ""
