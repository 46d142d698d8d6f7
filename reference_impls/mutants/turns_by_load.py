"""The mutants of turns by load. A new one is an entry here."""

from __future__ import annotations

from functools import partial

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events
from ...harness.core.topology import Topology
from ...harness.core.verdicts import Anomaly
from ..turns_by_load import turns_by_load
from . import twists
from .broken_adjusters import (
    ChangesTooEarly,
    ForgetsChanges,
    TellsAtOnce,
    adjusting_by,
    takes_changes_at_once,
)
from .mutant import BrokenScheme, changing, twisting


def _turns(topology: Topology, every: Events) -> SchemeSubject:
    """With changes that a little input reaches."""
    return turns_by_load(topology, acknowledge_every=every, consider_every=Events(6))


_ORDER = "order.turns-by-load"
_mutant = partial(BrokenScheme, on=_ORDER)

MUTANTS = (
    _mutant(
        "turns-by-load-forgetting-its-weights",
        "a replica that joins goes by what was in force in the state that it takes over",
        Anomaly.REORDERED_OUTPUT,
        twisting(_turns, twists.syncs_without_settings),
    ),
    _mutant(
        "turns-by-load-forgetting-its-turn",
        "a turn goes on where it was, by the weights that were in force there",
        Anomaly.REORDERED_OUTPUT,
        twisting(_turns, twists.syncs_without_turn),
        without_faults=True,
    ),
    _mutant(
        "turns-by-load-changing-at-once",
        "all replicas of a slice take a change at one place of their input, and not when they hear of it",
        Anomaly.REORDERED_OUTPUT,
        twisting(_turns, takes_changes_at_once),
        without_faults=True,
    ),
    _mutant(
        "turns-by-load-changing-too-early",
        "a change comes where no replica may have been yet",
        Anomaly.REORDERED_OUTPUT,
        changing(_turns, adjusting_by(ChangesTooEarly)),
        without_faults=True,
    ),
    _mutant(
        "turns-by-load-telling-before-durable",
        "what an adjuster has told, its successor knows",
        Anomaly.REORDERED_OUTPUT,
        changing(_turns, adjusting_by(TellsAtOnce)),
    ),
    _mutant(
        "turns-by-load-adjuster-forgetting",
        "an adjuster goes on from what its predecessor had made durable",
        Anomaly.REORDERED_OUTPUT,
        changing(_turns, adjusting_by(ForgetsChanges)),
    ),
)
