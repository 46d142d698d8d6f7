"""How many failures a claim holds for, and whether a history goes beyond that."""

from __future__ import annotations

from enum import StrEnum

from ..model import Topology
from ..recording.history import History


class Tolerance(StrEnum):
    ANY = "any number of failures"
    ONE_IN_STEP = "as long as each slice keeps one replica in step"
    NOT_NEIGHBOURS = "no two neighbours at a time"


def beyond(history: History, tolerance: Tolerance, topology: Topology) -> str:
    """Why a history goes beyond what a claim tolerates; empty when it does not."""
    return ""
