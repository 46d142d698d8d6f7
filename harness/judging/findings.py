"""What a comparison of a query's output with its reference comes to."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.verdicts import Anomaly, Tally, none_of


@dataclass(frozen=True)
class Findings:
    """Each as in a `Collation`."""

    lost_state: Tally = none_of(Anomaly.LOST_INPUT)
    lost_output: Tally = none_of(Anomaly.LOST_INPUT)
    duplicate_effects: Tally = none_of(Anomaly.DUPLICATE_EFFECT)
    duplicate_outputs: Tally = none_of(Anomaly.DUPLICATE_OUTPUT)
    conflicting_outputs: Tally = none_of(Anomaly.PHANTOM_OUTPUT)
    superseded_outputs: Tally = none_of(Anomaly.PHANTOM_OUTPUT)
    phantoms: Tally = none_of(Anomaly.PHANTOM_OUTPUT)
    reordered: Tally = none_of(Anomaly.REORDERED_OUTPUT)
    reordered_repeats: Tally = none_of(Anomaly.REORDERED_OUTPUT)
    doubt: str = ""
